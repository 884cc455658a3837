//! The provider in every room, and with all wide ones closed.

use rustls::NamedGroup;
use rustls::crypto::CryptoProvider;
use widelane_rustls::{Policy, Room, provider};
use widelane_testkit::rooms::only;

use crate::common::{Kind, Pair, client, server, theirs};

/// A handshake with every suite of TLS 1.3, every group and every kind of key, but not with every
/// combination of them.
fn works(provider: &CryptoProvider) {
    for suite in 0..3 {
        let mut limited = provider.clone();
        limited.cipher_suites = vec![provider.cipher_suites[suite]];
        let pair = Pair::connected(client(limited, Kind::P256), server(theirs(), Kind::P256));
        drop(converse(pair));
    }
    for group in 0..provider.kx_groups.len() {
        let mut limited = provider.clone();
        limited.kx_groups = vec![provider.kx_groups[group]];
        let pair = Pair::connected(client(theirs(), Kind::P256), server(limited, Kind::P256));
        drop(converse(pair));
    }
    for kind in Kind::ALL {
        let of_theirs = Pair::connected(client(provider.clone(), kind), server(theirs(), kind));
        drop(converse(of_theirs));
        let of_ours = Pair::connected(client(theirs(), kind), server(provider.clone(), kind));
        drop(converse(of_ours));
    }
}

fn converse(mut pair: Pair) -> Pair {
    pair.converse();
    pair
}

#[test]
fn every_room_serves() {
    let mut visited = 0;
    for room in Room::ALL.into_iter().filter(|room| room.is_supported()) {
        works(&provider(&only(room)));
        visited += 1;
    }
    assert!(visited > 0);
}

#[test]
fn the_default_provider_has_the_groups_and_suites_that_it_promises() {
    let provider = widelane_rustls::default_provider().expect("a policy that is well-formed");
    assert_eq!(provider.cipher_suites.len(), 9);
    let groups: Vec<_> = provider.kx_groups.iter().map(|group| group.name()).collect();
    assert_eq!(groups[0], NamedGroup::X25519MLKEM768);
    assert_eq!(groups.len(), 5);
    assert!(!provider.fips());
    let narrow =
        widelane_rustls::provider(&Policy { rooms_closed: Room::ALL.into(), ..Policy::open() });
    works(&narrow);
}
