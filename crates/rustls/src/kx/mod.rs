//! Key exchange.

mod curve;
mod hybrid;
mod mlkem;
mod pool;
mod x25519;

use std::cell::RefCell;
use std::thread::LocalKey;

use rustls::crypto::SupportedKxGroup;
use rustls::{Error, PeerMisbehaved};
use widelane_cpu::Policy;
use widelane_crypto::ec::Curve;

use self::curve::EcGroup;
use self::hybrid::Hybrid;
use self::mlkem::MlKem768;
use self::x25519::X25519Group;
use crate::leaked;

/// What the peer sent is no public key, or one that leads to a secret everybody knows.
const INVALID_SHARE: Error = Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare);

/// Every group, the preferred ones first.
pub(crate) fn all(policy: &Policy) -> Vec<&'static dyn SupportedKxGroup> {
    let x25519 = leaked(X25519Group::choose(policy));
    let curves = Curve::ALL.map(|curve| leaked(EcGroup::choose(curve, policy)));
    let ml_kem = leaked(MlKem768::choose(policy));
    let mut groups: Vec<&'static dyn SupportedKxGroup> =
        vec![leaked(Hybrid::with_x25519(ml_kem, x25519)), x25519];
    groups.extend(curves.map(|curve| curve as &dyn SupportedKxGroup));
    groups.push(leaked(Hybrid::with_p256(ml_kem, curves[Curve::P256 as usize])));
    groups
}

/// Lends what a thread keeps, or what `new` makes while the thread ends and its own is gone.
fn with_kept<T, R>(
    kept: &'static LocalKey<RefCell<T>>,
    new: impl FnOnce() -> T,
    work: impl FnOnce(&mut T) -> R,
) -> R {
    match kept.try_with(|_| ()) {
        Ok(()) => kept.with_borrow_mut(work),
        Err(_) => work(&mut new()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    use super::*;

    /// Does every key exchange when it is dropped.
    struct AtEnd(Sender<()>);

    impl Drop for AtEnd {
        fn drop(&mut self) {
            all_groups_agree();
            self.0.send(()).expect("the test waits");
        }
    }

    fn all_groups_agree() {
        for group in all(&Policy::open()) {
            let client = group.start().expect("a share");
            let server = group.start_and_complete(client.pub_key()).expect("a secret");
            let secret = client.complete(&server.pub_key).expect("a secret");
            assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
        }
    }

    #[test]
    fn keys_are_exchanged_while_a_thread_ends() {
        thread_local! {
            static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
        }
        let (sender, receiver) = channel();
        let thread = thread::spawn(|| {
            // Variables of a thread end in the reverse order of their first use.
            AT_END.set(Some(AtEnd(sender)));
            all_groups_agree();
        });
        thread.join().expect("the thread ends well");
        receiver.recv().expect("keys were exchanged");
    }
}
