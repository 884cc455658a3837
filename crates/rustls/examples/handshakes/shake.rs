//! The server's time for a handshake.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::{CipherSuite, ClientConfig, HandshakeKind, NamedGroup};

use crate::ends::{Identity, Pair, Terms};
use crate::{Row, Unit};

/// How many handshakes make a sample.
const HANDSHAKES: u32 = 40;

pub fn rows() -> Vec<Row> {
    let (p256, rsa) = (Rc::new(Identity::p256()), Rc::new(Identity::rsa2048()));
    [
        ("ECDSA P-256, X25519", &p256, NamedGroup::X25519, HandshakeKind::Full),
        ("RSA-2048, X25519", &rsa, NamedGroup::X25519, HandshakeKind::Full),
        ("ECDSA P-256, X25519MLKEM768", &p256, NamedGroup::X25519MLKEM768, HandshakeKind::Full),
        ("RSA-2048, X25519MLKEM768", &rsa, NamedGroup::X25519MLKEM768, HandshakeKind::Full),
        ("ECDSA P-256, secp256r1", &p256, NamedGroup::secp256r1, HandshakeKind::Full),
        ("resumed, X25519", &p256, NamedGroup::X25519, HandshakeKind::Resumed),
    ]
    .map(|(name, identity, group, kind)| row(name, Rc::clone(identity), group, kind))
    .into()
}

fn row(name: &str, identity: Rc<Identity>, group: NamedGroup, kind: HandshakeKind) -> Row {
    let terms = Terms { suite: CipherSuite::TLS13_AES_128_GCM_SHA256, group };
    Row {
        name: format!("{name}, AES-128-GCM"),
        unit: Unit::Handshake,
        measure: Box::new(move |rival| {
            let Some(server) = identity.server(&rival.provider, terms) else { return f64::NAN };
            let mut client = ClientConfig::clone(&identity.client(terms));
            if kind == HandshakeKind::Full {
                client.resumption = Resumption::disabled();
            }
            let client = Arc::new(client);
            // The first one fills caches, and brings tickets.
            Pair::connect(&client, &server);
            let mut busy = Duration::ZERO;
            for _ in 0..HANDSHAKES {
                let (pair, time) = Pair::connect(&client, &server);
                assert_eq!(pair.server.handshake_kind(), Some(kind));
                busy += time;
            }
            busy.as_nanos() as f64 / f64::from(HANDSHAKES)
        }),
        samples: Vec::new(),
    }
}
