# Postfix: `prepare` once, then `serve` and `end`. Server processes take one connection after the other.
set -eu
case $1 in
prepare)
    mkdir "$PLACE/postfix"
    cp /usr/share/postfix/master.cf.dist "$PLACE/postfix/master.cf"
    sed -i "s/^smtp  *inet .*/127.0.0.1:$PORT inet n - n - - smtpd/" "$PLACE/postfix/master.cf"
    cat >"$PLACE/postfix/main.cf" <<END
compatibility_level = 3.6
import_environment = MAIL_CONFIG MAIL_LOGTAG POSTLOG_SERVICE POSTLOG_HOSTNAME LD_PRELOAD
    WIDELANE_PROVIDER WIDELANE_COUNTERS_DIR
maillog_file = /dev/stdout
myhostname = localhost
smtpd_tls_chain_files = $KEY, $CERTIFICATE
smtpd_tls_security_level = may
END
    ;;
serve)
    exec postfix -c "$PLACE/postfix" start-fg
    ;;
end)
    postfix -c "$PLACE/postfix" stop
    ;;
esac
