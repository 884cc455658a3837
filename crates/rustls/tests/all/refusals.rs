//! What is tampered with on the way, and shares that are none.

use rustls::{CipherSuite, Error, NamedGroup, PeerMisbehaved};
use std::io::Write;

use crate::common::{Kind, Pair, client, only, ours, server, theirs};

#[test]
fn a_changed_record_is_refused() {
    let suites = [
        (CipherSuite::TLS13_AES_128_GCM_SHA256, Kind::P256),
        (CipherSuite::TLS13_AES_256_GCM_SHA384, Kind::P256),
        (CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, Kind::P256),
        (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, Kind::P256),
        (CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, Kind::Rsa2048),
        (CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, Kind::P256),
    ];
    for (suite, kind) in suites {
        // In the explicit nonce or the text, in the middle, and in the tag.
        for place in [5, 60, 199] {
            let provider = only(&ours(), suite, NamedGroup::X25519);
            let mut pair = Pair::connected(client(theirs(), kind), server(provider, kind));
            pair.client.writer().write_all(&[7; 200]).expect("room in the buffer");
            let error = pair.client_speaks(|flight| flight[place] ^= 1);
            assert_eq!(error, Err(Error::DecryptError), "{suite:?}, byte {place}");
        }
    }
}

#[test]
fn a_record_that_is_too_short_or_lost_is_refused() {
    for suite in [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ] {
        for bytes in [1_u8, 15, 16, 23, 24] {
            let provider = only(&ours(), suite, NamedGroup::X25519);
            let kind = Kind::P256;
            let mut pair = Pair::connected(client(theirs(), kind), server(provider, kind));
            let error = pair.client_speaks(|flight| {
                *flight = vec![23, 3, 3, 0, bytes];
                flight.resize(5 + usize::from(bytes), 9);
            });
            assert_eq!(error, Err(Error::DecryptError), "{suite:?}, {bytes} bytes");
        }
        let provider = only(&ours(), suite, NamedGroup::X25519);
        let mut pair = Pair::connected(client(theirs(), Kind::P256), server(provider, Kind::P256));
        pair.client.writer().write_all(b"lost").expect("room in the buffer");
        pair.client.write_tls(&mut Vec::new()).expect("memory");
        pair.client.writer().write_all(b"arrives").expect("room in the buffer");
        assert_eq!(pair.client_speaks(|_| ()), Err(Error::DecryptError), "{suite:?}");
    }
}

#[test]
fn shares_that_are_none_are_refused() {
    let invalid = Err(Error::from(PeerMisbehaved::InvalidKeyShare));
    let refused = |result: Result<_, Error>| result.map(|_: rustls::crypto::SharedSecret| ());
    for group in ours().kx_groups {
        let public = group.start().expect("a key").pub_key().to_vec();
        let mut shares = vec![vec![], vec![0], public[..public.len() - 1].to_vec()];
        shares.push([&public[..], &[0]].concat());
        match group.name() {
            // Points of small order: the secret would be zero.
            NamedGroup::X25519 => shares.extend([vec![0; 32], [&[1][..], &[0; 31]].concat()]),
            NamedGroup::secp256r1 | NamedGroup::secp384r1 => {
                let mut off_curve = public.clone();
                *off_curve.last_mut().expect("bytes") ^= 1;
                let mut compressed = public.clone();
                compressed[0] = 2;
                shares.extend([off_curve, compressed, vec![0; public.len()]]);
            }
            // Coefficients that are not reduced, and the curve's half zero.
            _ => shares.extend([vec![0xff; public.len()], vec![0; public.len()]]),
        }
        for share in shares {
            let name = group.name();
            let length = share.len();
            let active = group.start().expect("a key");
            assert_eq!(refused(active.complete(&share)), invalid, "{name:?}, {length} bytes");
            let served = group.start_and_complete(&share).map(|completed| completed.secret);
            assert_eq!(refused(served), invalid, "{name:?}, {length} bytes");
        }
    }
}
