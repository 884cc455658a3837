# PostgreSQL: `prepare` once, then `serve` and `end`. Forks a process for each connection.
set -eu
programs=$(echo /usr/lib/postgresql/*/bin)
as_postgres="setpriv --reuid=postgres --regid=postgres --clear-groups"
case $1 in
prepare)
    install --owner=postgres --mode=600 "$KEY" "$PLACE/postgresql.key"
    install --directory --owner=postgres "$PLACE/postgresql"
    $as_postgres "$programs/initdb" --no-sync --auth=trust "$PLACE/postgresql"
    ;;
serve)
    exec $as_postgres "$programs/postgres" -D "$PLACE/postgresql" -p "$PORT" -h 127.0.0.1 -k '' \
        -c ssl=on -c ssl_cert_file="$CERTIFICATE" -c ssl_key_file="$PLACE/postgresql.key"
    ;;
end)
    kill "$SERVER"
    ;;
esac
