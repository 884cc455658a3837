# memcached, TLS from the first byte on, one worker thread.
exec "$@" memcached -u root -l 127.0.0.1 -p "$PORT" -t 1 -Z \
  -o ssl_chain_cert="$DIRECTORY/certificate",ssl_key="$DIRECTORY/key"
