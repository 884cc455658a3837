"""The vectors of Python's cryptography package, and its ssl module, on whatever OpenSSL is set up.

Says how many of each passed. Which provider computed is none of its business: `peers.rs` asks that.
"""

import re
import ssl
import sys
import threading
import warnings
from pathlib import Path

import cryptography_vectors
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

warnings.simplefilter("ignore")
VECTORS = Path(cryptography_vectors.__file__).parent


def lines(name):
    return (VECTORS / name).read_text().splitlines()


def records(name):
    """Records of `Name = value` lines, with what stands in brackets above them."""
    section, record = "", {}
    for line in lines(name) + [""]:
        if match := re.match(r"\[(\w+-?\w*)(,.*)?\]$", line):
            section = match.group(0)
        elif match := re.match(r"(\w+)\s*=\s*(\S*)", line):
            if match.group(1) in record:
                yield section, record
                record = {}
            record[match.group(1).lower()] = match.group(2)
        elif line.strip() == "FAIL":
            record["fail"] = True
        elif not line.strip() and len(record) > 1:
            yield section, record
            record = {}


def ed25519_vectors():
    for count, line in enumerate(lines("asymmetric/Ed25519/sign.input")[:300]):
        seed, public, message, signed = map(bytes.fromhex, line.split(":")[:4])
        key = ed25519.Ed25519PrivateKey.from_private_bytes(seed[:32])
        raw = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        assert key.public_key().public_bytes(*raw) == public
        signature = key.sign(message)
        assert signature + message == signed
        key.public_key().verify(signature, message)
    return count + 1


def x25519_vectors():
    scalar = u = bytes([9]) + bytes(31)
    for count in range(1000):
        key = x25519.X25519PrivateKey.from_private_bytes(scalar)
        secret = key.exchange(x25519.X25519PublicKey.from_public_bytes(u))
        scalar, u = secret, scalar
    # RFC 7748, section 5.2.
    expected = "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"
    assert secret.hex() == expected
    return count + 1


def ecdsa_vectors():
    """Signatures of others verify or not as they should, and ours verify."""
    curves = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1()}
    digests = {"SHA-256": hashes.SHA256(), "SHA-384": hashes.SHA384(), "SHA-512": hashes.SHA512()}
    count = 0
    for section, record in records("asymmetric/ECDSA/FIPS_186-3/SigGen.txt"):
        curve, _, digest = section.strip("[]").partition(",")
        if curve not in curves or digest not in digests or "s" not in record:
            continue
        number = {name: int(record[name], 16) for name in ("d", "qx", "qy", "r", "s")}
        public = ec.EllipticCurvePublicNumbers(number["qx"], number["qy"], curves[curve])
        key = ec.EllipticCurvePrivateNumbers(number["d"], public).private_key()
        message, algorithm = bytes.fromhex(record["msg"]), ec.ECDSA(digests[digest])
        signature = utils.encode_dss_signature(number["r"], number["s"])
        key.public_key().verify(signature, message, algorithm)
        key.public_key().verify(key.sign(message, algorithm), message, algorithm)
        try:
            key.public_key().verify(signature, message + b"x", algorithm)
            raise AssertionError("a signature of another message verifies")
        except InvalidSignature:
            count += 1
    return count


def rsa_keys():
    schemes = [
        padding.PKCS1v15(),
        padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.MAX_LENGTH),
        padding.PSS(padding.MGF1(hashes.SHA1()), 20),
    ]
    count = 0
    for bits in (2048, 3072, 4096):
        key = rsa.generate_private_key(65537, bits)
        for scheme in schemes:
            for digest in (hashes.SHA256(), hashes.SHA512()):
                signature = key.sign(b"the message", scheme, digest)
                key.public_key().verify(signature, b"the message", scheme, digest)
                count += 1
        box = key.public_key().encrypt(b"secret", padding.PKCS1v15())
        assert key.decrypt(box, padding.PKCS1v15()) == b"secret"
    return count


def aes_gcm_vectors():
    count = 0
    for bits in (128, 192, 256):
        for _, record in records(f"ciphers/AES/GCM/gcmDecrypt{bits}.rsp"):
            names = ("key", "iv", "ct", "aad", "tag", "pt")
            text = {name: bytes.fromhex(record.get(name, "")) for name in names}
            if len(text["tag"]) != 16 or not 8 <= len(text["iv"]) <= 128:
                continue
            sealed = text["ct"] + text["tag"]
            try:
                opened = AESGCM(text["key"]).decrypt(text["iv"], sealed, text["aad"])
                assert "fail" not in record and opened == text["pt"]
                assert AESGCM(text["key"]).encrypt(text["iv"], opened, text["aad"]) == sealed
            except InvalidTag:
                assert "fail" in record, record
            count += 1
    return count


def chacha20_poly1305():
    cipher = ChaCha20Poly1305(bytes(range(32)))
    for count in range(300):
        text = bytes(range(256)) * 4
        sealed = cipher.encrypt(count.to_bytes(12, "big"), text[:count], b"header")
        assert cipher.decrypt(count.to_bytes(12, "big"), sealed, b"header") == text[:count]
    return count + 1


def handshakes(directory):
    """A server and a client of the ssl module, in threads that block, and by buffers in memory."""
    count = 0
    for name in ("rsa", "ec"):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.load_cert_chain(f"{directory}/{name}.pem", f"{directory}/{name}.key")
            client = ssl.create_default_context(cafile=f"{directory}/{name}.pem")
            client.minimum_version = client.maximum_version = version
            count += over_sockets(server, client) + in_memory(server, client)
    return count


def over_sockets(server, client):
    import socket

    def serve(near):
        with server.wrap_socket(near, server_side=True) as tls:
            tls.sendall(tls.recv(100)[::-1])
            tls.recv(1)

    for _ in range(16):
        near, far = socket.socketpair()
        thread = threading.Thread(target=serve, args=(near,))
        thread.start()
        with client.wrap_socket(far, server_hostname="localhost") as tls:
            tls.sendall(b"question")
            assert tls.recv(100) == b"noitseuq"
        thread.join()
    return 16


def in_memory(server, client):
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = server.wrap_bio(a, b, server_side=True)
    far = client.wrap_bio(b, a, server_hostname="localhost")
    pending = [far, near]
    for _ in range(20):
        for side in list(pending):
            try:
                side.do_handshake()
                pending.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not pending
    far.write(b"question")
    assert near.read(100) == b"question"
    return 1


if __name__ == "__main__":
    print("openssl", ssl.OPENSSL_VERSION)
    tests = (ed25519_vectors, x25519_vectors, ecdsa_vectors, rsa_keys, aes_gcm_vectors)
    for test in (*tests, chacha20_poly1305):
        print(test.__name__, test())
    print("handshakes", handshakes(sys.argv[1]))
