# OpenVPN, TLS inside the control channel of its own protocol, over TCP; clients give a password
# once they have shaken hands.
[ -e /dev/net/tun ] || { mkdir -p /dev/net && mknod /dev/net/tun c 10 200; }
cat >"$DIRECTORY/openvpn.conf" <<CONFIGURATION
mode server
tls-server
proto tcp-server
local 127.0.0.1
port $PORT
dev tun
disable-dco
ca $DIRECTORY/certificate
cert $DIRECTORY/certificate
key $DIRECTORY/key
dh none
verify-client-cert none
script-security 2
auth-user-pass-verify /bin/true via-env
verb 1
CONFIGURATION
exec "$@" openvpn --config "$DIRECTORY/openvpn.conf"
