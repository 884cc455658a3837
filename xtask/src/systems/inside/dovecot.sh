# Dovecot, IMAP: `prepare` once, then `serve` and `end`. Executes a login process for each connection.
set -eu
case $1 in
prepare)
    version=$(dovecot --version | cut -d - -f 1)
    case $version in
    2.3.*) own="ssl_cert = <$CERTIFICATE
ssl_key = <$KEY
passdb {
  driver = static
  args = password=none
}
import_environment = \$import_environment LD_PRELOAD WIDELANE_PROVIDER WIDELANE_COUNTERS_DIR" ;;
    *)
        echo "dovecot_config_version = $version"
        echo "dovecot_storage_version = $version"
        own="ssl_server_cert_file = $CERTIFICATE
ssl_server_key_file = $KEY
passdb static {
  password = none
}
import_environment {
  LD_PRELOAD = %{env:LD_PRELOAD}
  WIDELANE_PROVIDER = %{env:WIDELANE_PROVIDER}
  WIDELANE_COUNTERS_DIR = %{env:WIDELANE_COUNTERS_DIR}
}"
        ;;
    esac >"$PLACE/dovecot.conf"
    cat >>"$PLACE/dovecot.conf" <<END
base_dir = $PLACE/dovecot
log_path = /dev/stderr
protocols = imap
listen = 127.0.0.1
ssl = yes
$own
service imap-login {
  inet_listener imap {
    port = $PORT
  }
  inet_listener imaps {
    port = 0
  }
}
END
    ;;
serve)
    exec dovecot -F -c "$PLACE/dovecot.conf"
    ;;
end)
    kill "$SERVER"
    ;;
esac
