# nginx as a TLS client: plain HTTP in front, and an upstream by TLS, with a full handshake for each
# request; on the next port with sessions that are resumed.
resuming=$((PORT + 1))
. "${0%/*}/backend.inc"
cat >"$DIRECTORY/proxy.conf" <<END
$common pid $DIRECTORY/proxy.pid; error_log stderr;
http { $logs
  server { listen 127.0.0.1:$PORT; proxy_ssl_session_reuse off;
    location / { proxy_pass https://127.0.0.1:$backend; } }
  server { listen 127.0.0.1:$resuming;
    location / { proxy_pass https://127.0.0.1:$backend; } } }
END
exec "$@" nginx -e stderr -c "$DIRECTORY/proxy.conf"
