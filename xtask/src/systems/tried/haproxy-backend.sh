# HAProxy as a TLS client: plain HTTP in front, and a server by TLS (nginx), with a full handshake
# for each request; on the next port with sessions that are resumed.
resuming=$((PORT + 1))
. "${0%/*}/backend.inc"
cat >"$DIRECTORY/proxy.cfg" <<END
global
  maxconn 512
defaults
  mode http
  timeout connect 5s
  timeout client 20s
  timeout server 20s
  option http-server-close
listen full
  bind 127.0.0.1:$PORT
  server nginx 127.0.0.1:$backend ssl verify none no-ssl-reuse pool-max-conn 0
listen resuming
  bind 127.0.0.1:$resuming
  server nginx 127.0.0.1:$backend ssl verify none pool-max-conn 0
END
exec "$@" haproxy -W -f "$DIRECTORY/proxy.cfg"
