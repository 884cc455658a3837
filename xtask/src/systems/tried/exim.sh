# Exim on OpenSSL, SMTP over TLS, a process forked for each connection.
cat >"$DIRECTORY/exim.conf" <<CONFIGURATION
local_interfaces = 127.0.0.1
daemon_smtp_ports = $PORT
tls_on_connect_ports = $PORT
tls_advertise_hosts = *
tls_certificate = $DIRECTORY/certificate
tls_privatekey = $DIRECTORY/key
spool_directory = $DIRECTORY/spool
log_file_path = $DIRECTORY/logs/%slog
pid_file_path = $DIRECTORY/pid
primary_hostname = localhost
smtp_accept_max = 0
CONFIGURATION
mkdir "$DIRECTORY/spool" "$DIRECTORY/logs"
chown mail "$DIRECTORY/key" "$DIRECTORY/spool" "$DIRECTORY/logs"
exec "$@" /opt/exim/bin/exim -bdf -C "$DIRECTORY/exim.conf"
