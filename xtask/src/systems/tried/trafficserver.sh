# Apache Traffic Server, one thread for connections.
root=$DIRECTORY/root
mkdir -p "$root/etc" "$root/var" "$root/run" "$root/log" "$root/cache"
cat >"$root/runroot.yaml" <<END
prefix: $root
exec_prefix: $root
bindir: /usr/bin
sbindir: /usr/sbin
sysconfdir: $root/etc
datadir: $root/cache
libexecdir: /usr/lib/trafficserver/modules
localstatedir: $root/var
runtimedir: $root/run
logdir: $root/log
cachedir: $root/cache
END
cat >"$root/etc/records.config" <<END
CONFIG proxy.config.http.server_ports STRING 127.0.0.1:$PORT:ssl
CONFIG proxy.config.exec_thread.autoconfig INT 0
CONFIG proxy.config.exec_thread.limit INT 1
CONFIG proxy.config.admin.user_id STRING #-1
CONFIG proxy.config.diags.debug.enabled INT 0
END
echo "dest_ip=* ssl_cert_name=$DIRECTORY/certificate ssl_key_name=$DIRECTORY/key" >"$root/etc/ssl_multicert.config"
echo "map / http://127.0.0.1:9/" >"$root/etc/remap.config"
echo "$root/cache 16M" >"$root/etc/storage.config"
printf 'ip_allow:\n  - apply: in\n    ip_addrs: 0/0\n    action: allow\n    methods: ALL\n' >"$root/etc/ip_allow.yaml"
exec "$@" traffic_server --run-root="$root"
