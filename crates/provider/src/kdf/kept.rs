//! Secrets made ready for derivations, kept while a thread runs a handshake's fibre.
//!
//! libssl derives two or three values from each secret, one right behind the other or in turns with
//! a second secret, and making a secret ready is half of the hashing of each. What is kept is wiped
//! as soon as the fibre is left, when the handshake pauses or its call ends: no secret outlives the
//! call that derived from it. Where no runtime tells of that, nothing is kept.

use std::cell::RefCell;

use widelane_crypto::kdf::{Hash, Kdf, Secret};
use widelane_secret::{Mask, wipe};

/// As many as libssl derives from in turns: one of a stage of the handshake, one of a direction.
const KEPT_MAX: usize = 2;

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept::EMPTY) };
}

/// Secrets of the handshake that the thread runs.
struct Kept {
    is_on_fibre: bool,
    places: [Place; KEPT_MAX],
    /// The place whose secret was used last.
    last: usize,
}

/// A secret as it is and made ready, if there is one.
struct Place {
    bytes: [u8; Hash::BYTES_MAX],
    ready: Option<(Hash, Secret)>,
}

/// Calls `derive` with a secret made ready.
pub(super) fn with_secret<T>(kdf: &Kdf, bytes: &[u8], mut derive: impl FnMut(&Secret) -> T) -> T {
    let on_fibre = KEPT.try_with(|kept| {
        let mut kept = kept.try_borrow_mut().ok().filter(|kept| kept.is_on_fibre)?;
        (bytes.len() == kdf.hash().bytes()).then(|| derive(kept.ready(kdf, bytes)))
    });
    on_fibre.ok().flatten().unwrap_or_else(|| derive(&kdf.secret(bytes)))
}

/// The calling thread begins to run a handshake's fibre, or has left it.
pub(crate) fn fibre(is_begun: bool) {
    let _ = KEPT.try_with(|kept| {
        let Ok(mut kept) = kept.try_borrow_mut() else { return };
        kept.is_on_fibre = is_begun;
        kept.places.iter_mut().for_each(Place::clear);
    });
}

/// Makes the calling thread's variable.
pub(crate) fn begin_thread() {
    fibre(false);
}

impl Kept {
    const EMPTY: Self =
        Self { is_on_fibre: false, places: [const { Place::EMPTY }; KEPT_MAX], last: 0 };

    /// The secret, made ready before or now.
    fn ready(&mut self, kdf: &Kdf, bytes: &[u8]) -> &Secret {
        let found = self.places.iter().position(|place| place.is(kdf.hash(), bytes));
        self.last = found.unwrap_or((self.last + 1) % KEPT_MAX);
        let place = &mut self.places[self.last];
        if found.is_none() {
            place.clear();
            place.bytes[..bytes.len()].copy_from_slice(bytes);
        }
        let (_, secret) = place.ready.get_or_insert_with(|| (kdf.hash(), kdf.secret(bytes)));
        secret
    }
}

impl Place {
    const EMPTY: Self = Self { bytes: [0; Hash::BYTES_MAX], ready: None };

    /// Whether this is the secret; otherwise nothing of it is told, not even by the time it takes.
    fn is(&self, hash: Hash, bytes: &[u8]) -> bool {
        self.ready.as_ref().is_some_and(|(known, _)| *known == hash)
            && Mask::equal_bytes(&self.bytes[..hash.bytes()], bytes).declassify()
    }

    fn clear(&mut self) {
        if self.ready.take().is_some() {
            wipe(&mut self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use widelane_cpu::Policy;

    use super::*;

    /// What is derived from a secret, and how many are kept behind it.
    fn derived(kdf: &Kdf, secret: &[u8]) -> (Vec<u8>, usize) {
        let mut output = vec![0; 16];
        with_secret(kdf, secret, |secret| secret.expand_label(b"tls13 ", b"key", b"", &mut output))
            .expect("short enough");
        let is_kept = |place: &&Place| place.ready.is_some();
        (output, KEPT.with_borrow(|kept| kept.places.iter().filter(is_kept).count()))
    }

    #[test]
    fn secrets_are_kept_on_a_fibre_only_and_told_apart() {
        for hash in Hash::ALL {
            let kdf = Kdf::choose(hash, &Policy::open());
            let secrets = [1, 2, 3].map(|byte| vec![byte; hash.bytes()]);
            let expected = secrets.each_ref().map(|secret| derived(&kdf, secret).0);
            assert_eq!(derived(&kdf, &secrets[0]).1, 0, "not on a fibre");
            fibre(true);
            for which in [0, 0, 1, 0, 1, 2, 1, 0, 2] {
                assert_eq!(derived(&kdf, &secrets[which]).0, expected[which]);
            }
            assert_eq!(derived(&kdf, &secrets[0]).1, KEPT_MAX);
            fibre(false);
            assert_eq!(derived(&kdf, &secrets[0]), (expected[0].clone(), 0));
            let is_wiped = |place: &Place| place.bytes == [0; Hash::BYTES_MAX];
            assert!(KEPT.with_borrow(|kept| kept.places.iter().all(is_wiped)));
        }
    }

    #[test]
    fn the_beginning_of_a_secret_is_another_secret() {
        let [short, long] = Hash::ALL.map(|hash| Kdf::choose(hash, &Policy::open()));
        let secret = [7; 48];
        let expected = [derived(&short, &secret[..32]).0, derived(&long, &secret).0];
        fibre(true);
        for _ in 0..2 {
            assert_eq!(derived(&long, &secret).0, expected[1]);
            assert_eq!(derived(&short, &secret[..32]).0, expected[0]);
            assert_ne!(derived(&long, &secret[..32]).0, expected[1]);
        }
        fibre(false);
    }
}
