"""CPU time per handshake of a server whose TLS begins inside its own protocol, in seconds.

Arguments: the script of the server, the name of its protocol for `openssl s_client -starttls`, how
many connections to make, and then the command that accelerates what follows it, if any. The
server's certificate, key, port and place are in the environment.

All other processes here must be the server's: what it starts may leave its process tree.
"""

import os
import pathlib
import socket
import subprocess
import sys
import time

script, protocol, connections, *accelerate = sys.argv[1:]
address = ("127.0.0.1", int(os.environ["PORT"]))
CLIENT = ["openssl", "s_client", "-connect", "%s:%d" % address, "-starttls", protocol]
CLIENT += ["-CAfile", os.environ["CERTIFICATE"], "-verify_return_error", "-groups", "X25519"]
WARM_UP = 20


def wait_for_server(server):
    for _ in range(300):
        if server.poll() is not None:
            sys.exit("%s ended with %d" % (script, server.returncode))
        try:
            return socket.create_connection(address).close()
        except OSError:
            time.sleep(0.1)
    sys.exit("%s does not listen" % script)


def handshake():
    said = subprocess.run(CLIENT, input=b"", capture_output=True, timeout=20)
    if b"Verify return code: 0" not in said.stdout:
        sys.exit("no handshake:\n" + (said.stdout + said.stderr).decode())


def seconds():
    """CPU time of all other processes so far, and of those that they waited for."""
    ticks = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        if int(stat.parent.name) != os.getpid():
            try:
                times = stat.read_text().rpartition(")")[2].split()[11:15]
            except OSError:
                continue
            ticks += sum(map(int, times))
    return ticks / os.sysconf("SC_CLK_TCK")


server = subprocess.Popen([*accelerate, "sh", script, "serve"], stdout=2)
try:
    wait_for_server(server)
    for _ in range(WARM_UP):
        handshake()
    time.sleep(1)
    before = seconds()
    for _ in range(int(connections)):
        handshake()
    time.sleep(1)
    print((seconds() - before) / int(connections))
finally:
    subprocess.run(["sh", script, "end"], env={**os.environ, "SERVER": str(server.pid)})
