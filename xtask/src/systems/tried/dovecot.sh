# Dovecot, IMAP over TLS, each connection with a login process of its own, as is the default.
version=$(dovecot --version)
case $version in
2.4*) cat >"$DIRECTORY/dovecot.conf" <<END
dovecot_config_version = ${version%%[- ]*}
dovecot_storage_version = ${version%%[- ]*}
ssl_server_cert_file = $DIRECTORY/certificate
ssl_server_key_file = $DIRECTORY/key
import_environment {
  LD_PRELOAD = %{env:LD_PRELOAD}
  WIDELANE_PROVIDER = %{env:WIDELANE_PROVIDER}
  WIDELANE_COUNTERS_DIR = %{env:WIDELANE_COUNTERS_DIR}
}
service imap-login {
  inet_listener imaps {
    listen = 127.0.0.1
    port = $PORT
  }
}
END
;;
*) cat >"$DIRECTORY/dovecot.conf" <<END
ssl_cert = <$DIRECTORY/certificate
ssl_key = <$DIRECTORY/key
import_environment = TZ LD_PRELOAD WIDELANE_PROVIDER WIDELANE_COUNTERS_DIR
service imap-login {
  inet_listener imaps {
    address = 127.0.0.1
    port = $PORT
  }
}
END
;;
esac
cat >>"$DIRECTORY/dovecot.conf" <<END
protocols = imap
ssl = required
base_dir = $DIRECTORY/run
log_path = /dev/stderr
service imap-login {
  client_limit = 1
  process_limit = 200
  inet_listener imap {
    port = 0
  }
}
END
exec "$@" dovecot -F -c "$DIRECTORY/dovecot.conf"
