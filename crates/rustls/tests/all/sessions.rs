//! What else happens in handshakes: resumption, clients with certificates, retries, offers.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, Error, HandshakeKind, NamedGroup, RootCertStore, ServerConfig,
    SupportedProtocolVersion,
};
use widelane_rustls::Ticketer;

use crate::common::{BOTH, Kind, Pair, client, ours, server, theirs};

/// Two connections one after the other; returns how the second began.
fn twice(client: ClientConfig, server: ServerConfig) -> Option<HandshakeKind> {
    let (client, server) = (Arc::new(client), Arc::new(server));
    let mut pair = Pair::new(&client, &server);
    pair.shake_hands().expect("a handshake");
    pair.converse();
    let mut pair = Pair::new(&client, &server);
    pair.shake_hands().expect("another handshake");
    pair.converse();
    pair.server.handshake_kind()
}

fn limited(mut provider: CryptoProvider, groups: &[NamedGroup]) -> CryptoProvider {
    provider.kx_groups.retain(|group| groups.contains(&group.name()));
    provider.kx_groups.sort_by_key(|group| groups.iter().position(|name| *name == group.name()));
    assert_eq!(provider.kx_groups.len(), groups.len());
    provider
}

fn of_version(
    config: ClientConfig,
    kind: Kind,
    version: &'static SupportedProtocolVersion,
) -> ClientConfig {
    let provider = Arc::clone(config.crypto_provider());
    let mut roots = RootCertStore::empty();
    roots.add(kind.identity().chain().remove(0)).expect("a certificate");
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

#[test]
fn sessions_are_resumed() {
    for version in BOTH {
        for (of_client, of_server) in [(ours(), theirs()), (theirs(), ours()), (ours(), ours())] {
            for with_tickets in [false, true] {
                let client = of_version(client(of_client.clone(), Kind::P256), Kind::P256, version);
                let mut server = server(of_server.clone(), Kind::P256);
                if with_tickets {
                    server.ticketer = Ticketer::new().expect("a policy");
                }
                assert_eq!(twice(client, server), Some(HandshakeKind::Resumed), "{version:?}");
            }
        }
    }
}

#[test]
fn what_another_key_has_sealed_is_no_ticket() {
    let (one, other) = (Ticketer::new().expect("a policy"), Ticketer::new().expect("a policy"));
    let ticket = one.encrypt(b"session").expect("a ticket");
    assert_eq!(one.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
    assert_ne!(one.encrypt(b"session").expect("a ticket"), ticket);
    assert_eq!(other.decrypt(&ticket), None);
    for length in 0..ticket.len() {
        assert_eq!(one.decrypt(&ticket[..length]), None);
        let mut changed = ticket.clone();
        changed[length] ^= 1;
        assert_eq!(one.decrypt(&changed), None, "byte {length}");
    }
}

#[test]
fn clients_show_certificates_of_every_kind() {
    for (of_client, of_server) in [(ours(), theirs()), (theirs(), ours())] {
        for kind in Kind::ALL {
            for version in BOTH {
                let pair = with_client_certificate(&of_client, &of_server, kind, version);
                assert_eq!(
                    pair.server.peer_certificates(),
                    Some(&kind.identity().chain()[..]),
                    "{kind:?}"
                );
            }
        }
    }
}

fn with_client_certificate(
    of_client: &CryptoProvider,
    of_server: &CryptoProvider,
    kind: Kind,
    version: &'static SupportedProtocolVersion,
) -> Pair {
    let (identity, own) = (kind.identity(), Kind::P256.identity());
    let mut roots = [RootCertStore::empty(), RootCertStore::empty()];
    roots[0].add(own.chain().remove(0)).expect("a certificate");
    roots[1].add(identity.chain().remove(0)).expect("a certificate");
    let [of_servers, of_clients] = roots;
    let provider = Arc::new(of_server.clone());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(of_clients.into(), Arc::clone(&provider));
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_client_cert_verifier(verifier.build().expect("a verifier"))
        .with_single_cert(own.chain(), own.pkcs8())
        .expect("a key with its certificate");
    let client = ClientConfig::builder_with_provider(Arc::new(of_client.clone()))
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_root_certificates(of_servers)
        .with_client_auth_cert(identity.chain(), identity.pkcs8())
        .expect("a key with its certificate");
    Pair::connected(client, server)
}

#[test]
fn a_server_asks_again_for_a_share_that_it_can_use() {
    let groups = [NamedGroup::secp384r1, NamedGroup::X25519];
    for (of_client, of_server) in [(ours(), theirs()), (theirs(), ours()), (ours(), ours())] {
        let client = client(limited(of_client, &groups), Kind::P256);
        let server = server(limited(of_server, &groups[1..]), Kind::P256);
        let pair = Pair::connected(client, server);
        let kind = pair.client.handshake_kind();
        assert_eq!(kind, Some(HandshakeKind::FullWithHelloRetryRequest));
    }
}

#[test]
fn a_server_without_the_hybrid_group_takes_the_share_of_the_curve() {
    let pairs = [
        (NamedGroup::X25519MLKEM768, NamedGroup::X25519),
        (NamedGroup::secp256r1MLKEM768, NamedGroup::secp256r1),
    ];
    for (hybrid, curve) in pairs {
        for (of_client, of_server) in [(ours(), theirs()), (theirs(), ours())] {
            let client = client(limited(of_client, &[hybrid, curve]), Kind::P256);
            let pair = Pair::connected(client, server(limited(of_server, &[curve]), Kind::P256));
            assert_eq!(pair.client.handshake_kind(), Some(HandshakeKind::Full));
            let agreed = pair.client.negotiated_key_exchange_group();
            assert_eq!(agreed.expect("a group").name(), curve);
        }
    }
}

#[test]
fn both_sides_export_the_same_and_take_new_keys() {
    for (of_client, of_server) in [(ours(), theirs()), (theirs(), ours())] {
        let mut pair =
            Pair::connected(client(of_client, Kind::Ed25519), server(of_server, Kind::Ed25519));
        let exported = pair.client.export_keying_material([0; 100], b"label", Some(b"context"));
        let of_server = pair.server.export_keying_material([0; 100], b"label", Some(b"context"));
        assert_eq!(exported.expect("a secret"), of_server.expect("a secret"));
        pair.client.refresh_traffic_keys().expect("TLS 1.3");
        pair.converse();
        pair.server.refresh_traffic_keys().expect("TLS 1.3");
        pair.converse();
    }
}

#[test]
fn nobody_is_trusted_without_a_reason() {
    for (of_client, of_server) in [(ours(), theirs()), (ours(), ours())] {
        for kind in Kind::ALL {
            let other = if kind == Kind::P256 { Kind::P384 } else { Kind::P256 };
            let mut client = client(of_client.clone(), other);
            client.resumption = Resumption::disabled();
            let server = server(of_server.clone(), kind);
            let mut pair = Pair::new(&Arc::new(client), &Arc::new(server));
            let error = pair.shake_hands().expect_err("an unknown certificate");
            assert!(matches!(error, Error::InvalidCertificate(_)), "{error}");
        }
    }
}
