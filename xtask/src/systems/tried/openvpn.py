"""The control channel of OpenVPN over TCP, as far as TLS needs it: packets that count, and words of
TLS in them."""
import os
import ssl

CONTROL, ACKNOWLEDGEMENT, RESET_OF_CLIENT, RESET_OF_SERVER = 4, 5, 7, 8
PAYLOAD_MAX = 1100


class Channel:
    def __init__(self, plain):
        self.plain, self.session, self.server = plain, os.urandom(8), None
        self.sent, self.acknowledged, self.received = 0, set(), set()

    def packet(self, kind, body):
        head = bytes([kind << 3]) + self.session
        self.plain.sendall((len(head) + len(body)).to_bytes(2, 'big') + head + body)

    def send(self, kind, payload=b''):
        self.packet(kind, bytes(1) + self.sent.to_bytes(4, 'big') + payload)
        self.sent += 1

    def receive(self, exactly):
        """The kind of the next packet, and what of TLS is in it."""
        packet = exactly(int.from_bytes(exactly(2), 'big'))
        kind, self.server, count = packet[0] >> 3, packet[1:9], packet[9]
        rest = packet[10:]
        for _ in range(count):
            self.acknowledged.add(rest[:4])
            rest = rest[4:]
        rest = rest[8:] if count else rest
        if kind == ACKNOWLEDGEMENT:
            return kind, b''
        number, payload = rest[:4], rest[4:]
        self.packet(ACKNOWLEDGEMENT, bytes([1]) + number + self.server)
        is_new = number not in self.received
        self.received.add(number)
        return kind, payload if is_new else b''


def shake_hands(plain, exactly, version, session):
    """A full handshake, which the server has confirmed."""
    channel = Channel(plain)
    channel.send(RESET_OF_CLIENT)
    while channel.receive(exactly)[0] != RESET_OF_SERVER:
        pass
    arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = version.wrap_bio(arriving, leaving, session=session)
    is_done = False
    while True:
        try:
            tls.do_handshake()
            is_done = True
        except ssl.SSLWantReadError:
            pass
        while payload := leaving.read(PAYLOAD_MAX):
            channel.send(CONTROL, payload)
        if is_done and len(channel.acknowledged) == channel.sent:
            return tls
        arriving.write(channel.receive(exactly)[1])
