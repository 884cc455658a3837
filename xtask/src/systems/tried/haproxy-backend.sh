# HAProxy as a TLS client: plain HTTP in front, and a server by TLS (nginx), with a full handshake
# for each request; on the next port with sessions that are resumed.
backend=$((PORT + 2)) resuming=$((PORT + 1))
common="daemon off; worker_processes 1; events { worker_connections 512; }"
logs="access_log off; client_body_temp_path $DIRECTORY/1; proxy_temp_path $DIRECTORY/2;
  fastcgi_temp_path $DIRECTORY/3; uwsgi_temp_path $DIRECTORY/4; scgi_temp_path $DIRECTORY/5;"
cat >"$DIRECTORY/backend.conf" <<END
$common pid $DIRECTORY/backend.pid; error_log stderr;
http { $logs server { listen 127.0.0.1:$backend ssl; keepalive_timeout 0;
  ssl_certificate $DIRECTORY/certificate; ssl_certificate_key $DIRECTORY/key;
  ssl_session_cache shared:s:1m;
  location / { add_header X-Reused \$ssl_session_reused; return 200 ok; } } }
END
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
# Nobody's child, so that its time is not counted.
(setsid nginx -e stderr -c "$DIRECTORY/backend.conf" &)
exec "$@" haproxy -W -f "$DIRECTORY/proxy.cfg"
