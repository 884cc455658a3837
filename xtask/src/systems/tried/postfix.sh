# Postfix, SMTP over TLS, a process for some connections.
mkdir "$DIRECTORY/etc" "$DIRECTORY/queue" "$DIRECTORY/lib"
cd "$DIRECTORY/queue"
mkdir active bounce corrupt defer deferred flush hold incoming maildrop pid private public saved trace
chown postfix "$DIRECTORY/lib" active bounce corrupt defer deferred flush hold incoming maildrop \
  private public saved trace
cat >"$DIRECTORY/etc/main.cf" <<END
compatibility_level = 3.6
queue_directory = $DIRECTORY/queue
data_directory = $DIRECTORY/lib
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
maillog_file = /dev/stdout
maillog_file_prefixes = /dev/stdout, /tmp
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = localhost
mydestination =
smtpd_client_connection_count_limit = 0
smtpd_tls_cert_file = $DIRECTORY/certificate
smtpd_tls_key_file = $DIRECTORY/key
import_environment = MAIL_CONFIG MAIL_DEBUG MAIL_LOGTAG TZ LD_PRELOAD WIDELANE_PROVIDER WIDELANE_COUNTERS_DIR
END
cat >"$DIRECTORY/etc/master.cf" <<END
127.0.0.1:$PORT inet n - n - - smtpd -o smtpd_tls_wrappermode=yes
proxymap unix - - n - - proxymap
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
END
exec "$@" /usr/lib/postfix/sbin/master -c "$DIRECTORY/etc" -d
