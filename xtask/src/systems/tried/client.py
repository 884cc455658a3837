"""Shakes hands with a server natively and accelerated, in turns, and tells what that took, as JSON.

Arguments: the server's script, how its connections begin, the program widelane, a directory for
counters. TLS of such servers begins within their own protocol, or they are the clients.
"""
import json, os, signal, socket, ssl, subprocess, sys, tempfile, threading, time

# The other file is in the source tree.
sys.dont_write_bytecode = True
import openvpn

SCRIPT, OPENING, WIDELANE, COUNTERS = sys.argv[1:5]
# The interval of a median is the range of six values.
PAIRS, CONNECTIONS, AT_ONCE, AFTER_RELOAD, RELOAD_TAKES, PATIENCE = 6, 400, 16, 20, 2, 30
TICK = os.sysconf('SC_CLK_TCK')
RELOAD = signal.SIGUSR2 if 'haproxy' in SCRIPT else signal.SIGHUP
# What servers are asked by TLS, and what is in their answers.
REQUESTS = {
    'https': (b'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n', b' 200 '),
    'memcached': (b'version\r\n', b'VERSION '),
}
REFRESH_CERTIFICATES = b'refresh_certs\r\n', b'OK'


def context(version):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.minimum_version = made.maximum_version = version
    return made


def receive(plain, count):
    data = b''
    while len(data) < count:
        more = plain.recv(count - len(data))
        if not more:
            raise ConnectionError('the server closed the connection')
        data += more
    return data


def open_protocol(plain):
    """What comes before TLS."""
    if OPENING == 'postgres':
        plain.sendall(bytes([0, 0, 0, 8, 4, 210, 22, 47]))
        assert receive(plain, 1) == b'S'
    elif OPENING == 'mysql':
        length = int.from_bytes(receive(plain, 4)[:3], 'little')
        receive(plain, length)
        # CLIENT_PROTOCOL_41, CLIENT_SSL, CLIENT_SECURE_CONNECTION
        plain.sendall(bytes([32, 0, 0, 1]) + (0x8A00).to_bytes(4, 'little') + bytes(28))


def ask(port, version, session=None, request=REQUESTS.get(OPENING)):
    """One connection; whether its session was resumed, and its session."""
    with socket.create_connection(('127.0.0.1', port), PATIENCE) as plain:
        if OPENING == 'http':
            plain.sendall(b'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
            answer = b''
            while more := plain.recv(4096):
                answer += more
            assert b' 200 ' in answer, answer[:200]
            return b'x-reused: r' in answer.lower(), True
        if OPENING == 'openvpn':
            exactly = lambda count: receive(plain, count)
            tls = openvpn.shake_hands(plain, exactly, version, session)
            return tls.session_reused, tls.session
        open_protocol(plain)
        with version.wrap_socket(plain, session=session) as tls:
            if request is not None:
                tls.sendall(request[0])
                answer = tls.recv(4096)
                assert request[1] in answer, answer[:200]
            return tls.session_reused, tls.session


class Server:
    def __init__(self, before):
        self.directory = tempfile.mkdtemp()
        os.chmod(self.directory, 0o755)
        files = [f'{self.directory}/{name}' for name in ('key', 'certificate')]
        make = ['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2',
                '-subj', '/CN=localhost', '-keyout', files[0], '-out', files[1]]
        subprocess.run(make, check=True, stderr=subprocess.DEVNULL)
        with socket.create_server(('127.0.0.1', 0)) as free:
            self.port = free.getsockname()[1]
        self.log = open(f'{self.directory}/log', 'w+')
        environment = dict(os.environ, DIRECTORY=self.directory, PORT=str(self.port))
        self.process = subprocess.Popen(
            ['sh', '-eu', SCRIPT, *before], env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                ask(self.port, context(ssl.TLSVersion.TLSv1_3))
                return
            except Exception as error:
                if self.process.poll() is not None or time.monotonic() > end:
                    self.stop()
                    raise SystemExit(f'the server does not answer ({error}): {self.said()[-2000:]}')
                time.sleep(0.05)

    def said(self):
        self.log.flush()
        with open(self.log.name) as log:
            return log.read()

    def cpu(self):
        """Seconds of all its processes, with those of processes that have ended."""
        stats = {}
        for name in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{name}/stat') as stat:
                    fields = stat.read().rsplit(')', 1)[1].split()
            except OSError:
                continue
            stats[int(name)] = int(fields[1]), sum(map(int, fields[11:15]))
        tree, before = {self.process.pid}, 0
        while len(tree) > before:
            before = len(tree)
            tree |= {pid for pid, (parent, _) in stats.items() if parent in tree}
        return sum(stats[pid][1] for pid in tree if pid in stats) / TICK

    def stop(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(5)
            except (subprocess.TimeoutExpired, ProcessLookupError):
                pass


def many(port, count):
    """How many of so many full handshakes fail."""
    failed, left, lock = [], iter(range(count)), threading.Lock()

    def go():
        version = context(ssl.TLSVersion.TLSv1_3)
        while True:
            with lock:
                if next(left, None) is None:
                    return
            try:
                ask(port, version)
            except Exception as error:
                failed.append(str(error))
    threads = [threading.Thread(target=go) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def is_resumed(port):
    if OPENING == 'http':
        ask(port + 1, None)
        return ask(port + 1, None)[0]
    version = context(ssl.TLSVersion.TLSv1_2)
    try:
        _, session = ask(port, version)
        return session is not None and ask(port, version, session)[0]
    except ssl.SSLError:
        return None


def reload(server):
    if OPENING == 'memcached':
        ask(server.port, context(ssl.TLSVersion.TLSv1_3), request=REFRESH_CERTIFICATES)
    else:
        os.kill(server.process.pid, RELOAD)
    time.sleep(RELOAD_TAKES)


def measure(before, is_last):
    """Milliseconds of CPU per handshake, and what failed; of the last server, whether it resumes
    sessions and survives a reload."""
    server = Server(before)
    try:
        many(server.port, AT_ONCE)
        begin = server.cpu()
        found = {'failed': many(server.port, CONNECTIONS)[:3]}
        found['milliseconds'] = 1000 * (server.cpu() - begin) / CONNECTIONS
        if is_last:
            found['resumed'] = is_resumed(server.port)
            reload(server)
            found['failed_after_reload'] = many(server.port, AFTER_RELOAD)[:3]
        return found
    finally:
        server.stop()


subjects = {'native': [], 'accelerated': [WIDELANE, 'run', '--counters-dir', COUNTERS, '--']}
rounds = {name: [] for name in subjects}
for pair in range(PAIRS):
    for name in sorted(subjects, reverse=pair % 2 == 0):
        rounds[name].append(measure(subjects[name], pair == PAIRS - 1))
print(json.dumps({**rounds, 'openssl': ssl.OPENSSL_VERSION, 'date': time.strftime('%F')}))
