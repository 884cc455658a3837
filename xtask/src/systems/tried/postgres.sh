# PostgreSQL, TLS after its own request for it, a process for each connection.
PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
mkdir "$DIRECTORY/data"
chown postgres "$DIRECTORY/data" "$DIRECTORY/key"
as_postgres initdb -D "$DIRECTORY/data" -A trust --no-sync >/dev/null
cat >>"$DIRECTORY/data/postgresql.conf" <<END
listen_addresses = '127.0.0.1'
port = $PORT
unix_socket_directories = ''
ssl = on
ssl_cert_file = '$DIRECTORY/certificate'
ssl_key_file = '$DIRECTORY/key'
END
exec setpriv --reuid=postgres --regid=postgres --clear-groups "$@" postgres -D "$DIRECTORY/data"
