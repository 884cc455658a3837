//! Handshakes of every suite, group and kind of key, with AWS-LC on the other side.

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, HandshakeKind, NamedGroup, ProtocolVersion};

use crate::common::{Kind, Pair, client, only, ours, server, theirs};

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
