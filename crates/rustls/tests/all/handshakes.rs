//! Handshakes of every suite, group and kind of key, with AWS-LC on the other side.

use openssl::hash::MessageDigest;
use openssl::sign::Signer;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, HandshakeKind, NamedGroup, ProtocolVersion};

use crate::common::{
    Kind, Pair, certificate, client, client_that_trusts, only, ours, server, server_with_chain,
    theirs,
};
use crate::keys::{element, split};

const TLS13: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
];

const CURVES: [NamedGroup; 3] = [NamedGroup::X25519, NamedGroup::secp256r1, NamedGroup::secp384r1];

/// Whom we speak to: client and server.
fn directions() -> [(CryptoProvider, CryptoProvider); 3] {
    [(theirs(), ours()), (ours(), theirs()), (ours(), ours())]
}

/// Shakes hands with one suite and one group, and sends something.
fn connect(
    (of_client, of_server): &(CryptoProvider, CryptoProvider),
    suite: CipherSuite,
    group: NamedGroup,
    kind: Kind,
) -> Pair {
    let client = client(only(of_client, suite, group), kind);
    let mut pair = Pair::connected(client, server(only(of_server, suite, group), kind));
    assert_eq!(pair.server.handshake_kind(), Some(HandshakeKind::Full));
    let agreed = pair.server.negotiated_key_exchange_group().expect("a group");
    assert_eq!(
        (agreed.name(), pair.server.negotiated_cipher_suite().expect("a suite").suite()),
        (group, suite)
    );
    pair.converse();
    pair
}

#[test]
fn tls13_with_every_suite_group_and_key() {
    let hybrids = [NamedGroup::X25519MLKEM768, NamedGroup::secp256r1MLKEM768];
    let mut done = 0;
    for direction in &directions() {
        for suite in TLS13 {
            for group in CURVES.into_iter().chain(hybrids) {
                for kind in Kind::ALL {
                    let pair = connect(direction, suite, group, kind);
                    assert_eq!(pair.client.protocol_version(), Some(ProtocolVersion::TLSv1_3));
                    done += 1;
                }
            }
        }
    }
    assert_eq!(done, 3 * 3 * 5 * 6);
}

#[test]
fn tls12_with_every_suite_group_and_key() {
    let of_ecdsa = [
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ];
    let of_rsa = [
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ];
    for direction in &directions() {
        for kind in Kind::ALL {
            for suite in if kind.is_rsa() { of_rsa } else { of_ecdsa } {
                for group in CURVES {
                    let pair = connect(direction, suite, group, kind);
                    assert_eq!(pair.client.protocol_version(), Some(ProtocolVersion::TLSv1_2));
                }
            }
        }
    }
}

#[test]
fn ecdsa_certificates_of_every_digest_are_accepted() {
    for kind in [Kind::P256, Kind::P384] {
        for digest in [MessageDigest::sha256(), MessageDigest::sha384(), MessageDigest::sha512()] {
            let certificate = certificate(&kind.identity().key, digest);
            let certificate: CertificateDer<'static> = certificate.to_der().expect("DER").into();
            for (of_client, of_server) in directions() {
                let client = client_that_trusts(of_client, certificate.clone());
                let server = server_with_chain(of_server, kind, vec![certificate.clone()]);
                Pair::connected(client, server).converse();
            }
        }
    }
}

/// RFC 4055, section 5: parameters of `sha256WithRSAEncryption` may be absent.
#[test]
fn rsa_certificates_without_parameters_are_accepted() {
    for (kind, digest, number) in [
        (Kind::Rsa2048, MessageDigest::sha256(), 0x0b),
        (Kind::Rsa3072, MessageDigest::sha384(), 0x0c),
        (Kind::Rsa4096, MessageDigest::sha512(), 0x0d),
    ] {
        let certificate = without_parameters(kind, digest, number);
        for (of_client, of_server) in directions() {
            let client = client_that_trusts(of_client, certificate.clone());
            let server = server_with_chain(of_server, kind, vec![certificate.clone()]);
            Pair::connected(client, server).converse();
        }
    }
}

/// The certificate of a key, signed again, with an identifier of the algorithm that ends behind
/// its number.
fn without_parameters(kind: Kind, digest: MessageDigest, number: u8) -> CertificateDer<'static> {
    let object = element(6, &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, number]);
    let with = element(0x30, &[&object[..], &[5, 0]].concat());
    let without = element(0x30, &object);
    let certificate = kind.identity().certificate.to_der().expect("DER");
    let (old, _) = split(split(&certificate).0);
    let place = old.windows(with.len()).position(|bytes| bytes == with).expect("an identifier");
    let behind = place + with.len();
    let signed = element(0x30, &[&old[..place], &without, &old[behind..]].concat());
    let mut signer = Signer::new(digest, &kind.identity().key).expect("a key");
    let signature = signer.sign_oneshot_to_vec(&signed).expect("a signature");
    let bits = element(3, &[&[0][..], &signature].concat());
    element(0x30, &[signed, without, bits].concat()).into()
}
