# nginx as a TLS client: plain HTTP in front, and an upstream by TLS, with a full handshake for each
# request; on the next port with sessions that are resumed.
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
cat >"$DIRECTORY/proxy.conf" <<END
$common pid $DIRECTORY/proxy.pid; error_log stderr;
http { $logs
  server { listen 127.0.0.1:$PORT; proxy_ssl_session_reuse off;
    location / { proxy_pass https://127.0.0.1:$backend; } }
  server { listen 127.0.0.1:$resuming;
    location / { proxy_pass https://127.0.0.1:$backend; } } }
END
# Nobody's child, so that its time is not counted.
(setsid nginx -e stderr -c "$DIRECTORY/backend.conf" &)
exec "$@" nginx -e stderr -c "$DIRECTORY/proxy.conf"
