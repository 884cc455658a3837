//! A room that the policy closes is chosen by nobody, for nothing.

use widelane_cpu::{Policy, Room};
use widelane_crypto::aead::{self, Aead};
use widelane_crypto::cbc_hmac::{self, CbcHmac, Mode};
use widelane_crypto::ec::Ec;
use widelane_crypto::ed25519::Ed25519;
use widelane_crypto::rsa::{Kernel, Rsa};
use widelane_crypto::x25519::X25519;

/// Rooms that algorithms choose under a policy, those that a caller may choose among included.
fn chosen(policy: &Policy) -> Vec<Room> {
    let mut rooms = vec![
        Rsa::choose(policy).room(),
        Ec::choose(policy).room(),
        X25519::choose(policy).room(),
        Ed25519::choose(policy).room(),
        Ec::for_one(policy).room(),
        Ec::sign_for_one(policy).room(),
        X25519::for_one(policy).room(),
        X25519::derive_for_one(policy).room(),
        Ed25519::for_one(policy).room(),
    ];
    rooms.extend(Rsa::choose(policy).kernels().iter().map(Kernel::room));
    rooms.extend(Ec::kernels(policy).iter().map(Ec::room));
    rooms.extend(Ec::sign_kernels(policy).iter().map(Ec::room));
    rooms.extend(X25519::kernels(policy).iter().map(X25519::room));
    rooms.extend(X25519::derive_kernels(policy).iter().map(X25519::room));
    rooms.extend(Ed25519::kernels(policy).iter().map(Ed25519::room));
    rooms.extend(aead::Algorithm::ALL.map(|algorithm| Aead::choose(algorithm, policy).room()));
    let cbc_hmac = |algorithm| CbcHmac::choose(algorithm, Mode::MacThenEncrypt, policy).room();
    rooms.extend(cbc_hmac::Algorithm::ALL.map(cbc_hmac));
    rooms
}

#[test]
fn a_closed_room_is_chosen_for_nothing() {
    let open = chosen(&Policy::open());
    for closed in Room::ALL.into_iter().filter(|room| *room != Room::Portable) {
        let policy = Policy { rooms_closed: [closed].into(), ..Policy::open() };
        let rooms = chosen(&policy);
        assert!(!rooms.contains(&closed), "{closed}");
        // What it does not concern stays where it was.
        let kept = open.iter().filter(|room| **room != closed);
        assert!(kept.clone().all(|room| rooms.contains(room)), "{closed}");
    }
}
