# MariaDB, TLS after its own greeting, a thread for each connection.
chown -R mysql "$DIRECTORY"
mariadb-install-db --no-defaults --user=mysql --datadir="$DIRECTORY/data" >/dev/null
exec "$@" mariadbd --no-defaults --user=mysql --datadir="$DIRECTORY/data" --bind-address=127.0.0.1 \
  --port="$PORT" --socket="$DIRECTORY/socket" --pid-file="$DIRECTORY/pid" --max-connections=500 \
  --max-connect-errors=1000000 --ssl-cert="$DIRECTORY/certificate" --ssl-key="$DIRECTORY/key"
