# MariaDB: `prepare` once, then `serve` and `end`. A thread for each connection.
set -eu
case $1 in
prepare)
    install --owner=mysql --mode=600 "$KEY" "$PLACE/mariadb.key"
    install --directory --owner=mysql "$PLACE/mariadb"
    mariadb-install-db --no-defaults --user=mysql --datadir="$PLACE/mariadb" --skip-test-db
    ;;
serve)
    exec mariadbd --no-defaults --user=mysql --datadir="$PLACE/mariadb" \
        --socket="$PLACE/mariadb/socket" --bind-address=127.0.0.1 --port="$PORT" \
        --ssl-cert="$CERTIFICATE" --ssl-key="$PLACE/mariadb.key"
    ;;
end)
    kill "$SERVER"
    ;;
esac
