# Varnish, which has no TLS of its own, behind hitch.
backend=$((PORT + 1))
cat >"$DIRECTORY/default.vcl" <<END
vcl 4.1;
backend default none;
sub vcl_recv { return (synth(200)); }
END
cat "$DIRECTORY/key" "$DIRECTORY/certificate" >"$DIRECTORY/bundle"
cat >"$DIRECTORY/hitch.conf" <<END
frontend = "[127.0.0.1]:$PORT"
backend = "[127.0.0.1]:$backend"
pem-file = "$DIRECTORY/bundle"
user = "nobody"
group = "nogroup"
workers = 1
tls-protos = TLSv1.2 TLSv1.3
write-proxy-v2 = on
daemon = off
syslog = off
quiet = on
END
# Nobody's child, so that its time is not counted.
(setsid varnishd -j none -F -n "$DIRECTORY/varnish" -a "127.0.0.1:$backend,PROXY" \
  -f "$DIRECTORY/default.vcl" -s malloc,32m &)
exec "$@" hitch --config="$DIRECTORY/hitch.conf"
