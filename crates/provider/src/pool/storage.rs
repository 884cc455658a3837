//! Storage of a thread for key pairs made in advance, in memory that the kernel empties in a child.
#![allow(unsafe_code, reason = "maps memory")]

use widelane_batch::Tick;
use widelane_crypto::ec::Curve;
use widelane_crypto::mlkem::{DecapsulationKey, ParameterSet, SEED_BYTES, SHARED_BYTES};
use widelane_reserve::Private;
use widelane_secret::wipe;

use crate::curve::key::PUBLIC_BYTES_MAX;
use crate::pool::{CURVES, ML_KEMS};

/// What a store holds.
pub(super) trait Item {
    /// One without anything in it.
    const EMPTY: Self;

    /// Takes over what another one has; both keep their places.
    fn copy_from(&mut self, other: &Self);

    /// Overwrites what is secret.
    fn wipe(&mut self);
}

/// A key pair on a curve.
#[repr(C)]
pub(crate) struct Pair {
    private: [u8; PRIVATE_BYTES_MAX],
    public: [u8; PUBLIC_BYTES_MAX],
    private_bytes: u8,
    public_bytes: u8,
}

impl Pair {
    /// Room for both halves. What is secret goes in where the pair is to stay: a pair that moves
    /// leaves copies behind.
    pub(super) const fn empty(private_bytes: usize, public_bytes: usize) -> Self {
        Pair {
            private: [0; PRIVATE_BYTES_MAX],
            public: [0; PUBLIC_BYTES_MAX],
            private_bytes: private_bytes as u8,
            public_bytes: public_bytes as u8,
        }
    }

    /// The private key.
    pub(crate) fn private(&self) -> &[u8] {
        &self.private[..usize::from(self.private_bytes)]
    }

    /// The public key, encoded.
    pub(crate) fn public(&self) -> &[u8] {
        &self.public[..usize::from(self.public_bytes)]
    }

    pub(super) fn private_mut(&mut self) -> &mut [u8] {
        &mut self.private[..usize::from(self.private_bytes)]
    }

    pub(super) fn public_mut(&mut self) -> &mut [u8] {
        &mut self.public[..usize::from(self.public_bytes)]
    }
}

impl Item for Pair {
    const EMPTY: Self = Pair::empty(0, 0);

    fn copy_from(&mut self, other: &Self) {
        self.private.copy_from_slice(&other.private);
        self.public.copy_from_slice(&other.public);
        self.private_bytes = other.private_bytes;
        self.public_bytes = other.public_bytes;
    }

    fn wipe(&mut self) {
        wipe(&mut self.private);
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// A key of ML-KEM, in its expanded form, with the public key in it, and what it was made from.
#[repr(C)]
pub(crate) struct MlKemKey {
    seed: [u8; SEED_BYTES],
    key: [u8; KEY_BYTES_MAX],
    key_bytes: u16,
}

impl MlKemKey {
    /// Puts a key where it is to stay.
    pub(super) fn put(&mut self, seed: &[u8; SEED_BYTES], key: &DecapsulationKey) {
        let bytes = key.as_bytes();
        self.seed.copy_from_slice(seed);
        self.key[..bytes.len()].copy_from_slice(bytes);
        self.key_bytes = bytes.len() as u16;
    }

    /// What it was made from.
    pub(crate) fn seed(&self) -> &[u8] {
        &self.seed
    }

    /// The key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key[..usize::from(self.key_bytes)]
    }
}

impl Item for MlKemKey {
    const EMPTY: Self = MlKemKey { seed: [0; SEED_BYTES], key: [0; KEY_BYTES_MAX], key_bytes: 0 };

    fn copy_from(&mut self, other: &Self) {
        self.seed.copy_from_slice(&other.seed);
        self.key_bytes = other.key_bytes;
        self.key[..usize::from(other.key_bytes)].copy_from_slice(other.key());
    }

    fn wipe(&mut self) {
        wipe(&mut self.seed);
        wipe(&mut self.key[..usize::from(self.key_bytes)]);
    }
}

impl Drop for MlKemKey {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// The random bytes of one encapsulation.
#[repr(C)]
pub(crate) struct Message([u8; SHARED_BYTES]);

impl Message {
    /// Copies the random bytes of one encapsulation; nothing if they are too few or too many.
    pub(crate) fn new(bytes: &[u8]) -> Option<Box<Self>> {
        let bytes: &[u8; SHARED_BYTES] = bytes.try_into().ok()?;
        let mut message = Box::new(Message::EMPTY);
        message.0.copy_from_slice(bytes);
        Some(message)
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8; SHARED_BYTES] {
        &self.0
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8; SHARED_BYTES] {
        &mut self.0
    }
}

impl Item for Message {
    const EMPTY: Self = Message([0; SHARED_BYTES]);

    fn copy_from(&mut self, other: &Self) {
        self.0.copy_from_slice(&other.0);
    }

    fn wipe(&mut self) {
        wipe(&mut self.0);
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// The items of one kind. All zeroes is an empty one.
#[repr(C)]
pub(super) struct Store<I> {
    made: u64,
    count: usize,
    items: [I; ITEMS_MAX],
}

impl<I: Item> Store<I> {
    /// Puts key pairs into the store, which is empty.
    pub(super) fn fill(&mut self, items: &[I], made: Tick) {
        self.made = made.0;
        self.count = items.len().min(ITEMS_MAX);
        for (place, item) in self.items.iter_mut().zip(items) {
            place.copy_from(item);
        }
    }

    /// Takes one off, for good.
    pub(super) fn take(&mut self) -> Option<Box<I>> {
        self.count = self.count.checked_sub(1)?;
        let place = &mut self.items[self.count];
        let mut item = Box::new(I::EMPTY);
        item.copy_from(place);
        place.wipe();
        Some(item)
    }

    /// Wipes what is too old; returns how many those were.
    pub(super) fn expire(&mut self, now: Tick) -> usize {
        if now.since(Tick(self.made)) <= AGE_MAX_NS {
            return 0;
        }
        for item in &mut self.items[..self.count] {
            item.wipe();
        }
        std::mem::take(&mut self.count)
    }
}

/// The stores of one thread.
#[repr(C)]
pub(super) struct Stores {
    /// The stores of key pairs, by curve.
    pub(super) curves: [Store<Pair>; CURVES],
    /// The stores of ML-KEM keys, by parameter set.
    pub(super) ml_kems: [Store<MlKemKey>; ML_KEMS],
    /// The store of what encapsulations begin with.
    pub(super) messages: Store<Message>,
}

/// Stores in memory of their own, which is empty after a fork by whatever means.
pub(super) struct Mapped(Private<Stores>);

impl Mapped {
    /// Empty stores; nothing if the kernel does not empty them in a child.
    pub(super) fn map() -> Option<Self> {
        // SAFETY: a store is numbers, for which zeroes are valid.
        unsafe { Private::map() }.map(Mapped)
    }

    /// The stores.
    pub(super) fn stores(&mut self) -> &mut Stores {
        &mut self.0
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let stores = self.stores();
        for store in &mut stores.curves {
            store.expire(Tick(u64::MAX));
        }
        for store in &mut stores.ml_kems {
            store.expire(Tick(u64::MAX));
        }
        stores.messages.expire(Tick(u64::MAX));
    }
}

/// Bytes of the longest private key on a curve.
const PRIVATE_BYTES_MAX: usize = Curve::LARGEST.bytes();

/// Bytes of the longest key of ML-KEM.
const KEY_BYTES_MAX: usize = ParameterSet::MlKem1024.decapsulation_key_bytes();

/// Items of a batch, at most.
pub(super) const ITEMS_MAX: usize = 8;

/// How old a key pair may be when it is handed out.
pub(super) const AGE_MAX_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::children::assert_in_child_without_handlers;

    fn filled() -> Mapped {
        let mut mapped = Mapped::map().expect("Linux 4.14 or later");
        let pair = |number| {
            let mut pair = Pair::empty(32, 32);
            pair.private_mut().fill(number);
            pair
        };
        let pairs: Vec<Pair> = (1..=8).map(pair).collect();
        mapped.stores().curves[0].fill(&pairs, Tick(7));
        let key = |number| {
            let mut key = MlKemKey::EMPTY;
            (key.seed, key.key_bytes) = ([number; SEED_BYTES], KEY_BYTES_MAX as u16);
            key.key.fill(number);
            key
        };
        let keys: Vec<MlKemKey> = (1..=8).map(key).collect();
        mapped.stores().ml_kems[0].fill(&keys, Tick(7));
        let messages = [1, 2, 3, 4, 5, 6, 7, 8].map(|number| Message([number; SHARED_BYTES]));
        mapped.stores().messages.fill(&messages, Tick(7));
        mapped
    }

    /// Takes all from a store, and tells them apart by a byte of each.
    fn take_all<I: Item>(store: &mut Store<I>, byte: fn(&I) -> u8) -> Vec<u8> {
        let mut taken: Vec<u8> =
            std::iter::from_fn(|| store.take()).map(|item| byte(&item)).collect();
        taken.sort_unstable();
        taken
    }

    fn assert_nothing_is_left(stores: &Stores) {
        assert!(stores.curves[0].items.iter().all(|pair| pair.private == [0; PRIVATE_BYTES_MAX]));
        let is_wiped = |key: &MlKemKey| key.seed == [0; 64] && key.key == [0; KEY_BYTES_MAX];
        assert!(stores.ml_kems[0].items.iter().all(is_wiped));
        assert!(stores.messages.items.iter().all(|message| message.0 == [0; SHARED_BYTES]));
    }

    #[test]
    fn each_pair_is_taken_once_and_leaves_nothing() {
        let mut mapped = filled();
        let stores = mapped.stores();
        let taken = take_all(&mut stores.curves[0], |pair| pair.private()[31]);
        assert_eq!(taken, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(take_all(&mut stores.ml_kems[0], |key| key.key()[3167]), taken);
        assert_eq!(take_all(&mut stores.messages, |message| message.0[31]), taken);
        assert_nothing_is_left(stores);
        assert!(stores.curves[1].take().is_none(), "another store");
        assert!(stores.ml_kems[1].take().is_none(), "another store");
    }

    #[test]
    fn old_pairs_are_wiped() {
        let mut mapped = filled();
        let stores = mapped.stores();
        let all = |stores: &mut Stores, now| {
            let [curves, ml_kems] = [stores.curves[0].expire(now), stores.ml_kems[0].expire(now)];
            [curves, ml_kems, stores.messages.expire(now)]
        };
        assert_eq!(all(stores, Tick(7 + AGE_MAX_NS)), [0, 0, 0]);
        assert_eq!(all(stores, Tick(8 + AGE_MAX_NS)), [8, 8, 8]);
        assert!(stores.curves[0].take().is_none() && stores.ml_kems[0].take().is_none());
        assert!(stores.messages.take().is_none());
        assert_nothing_is_left(stores);
    }

    #[test]
    fn a_child_finds_empty_stores_without_being_told() {
        let mut mapped = filled();
        let stores = mapped.stores();
        assert_in_child_without_handlers(|| {
            stores.curves[0].take().is_none()
                && stores.ml_kems[0].take().is_none()
                && stores.messages.take().is_none()
        });
        assert!(stores.curves[0].take().is_some(), "the parent keeps them");
        assert!(stores.ml_kems[0].take().is_some(), "the parent keeps them");
        assert!(stores.messages.take().is_some(), "the parent keeps them");
    }
}
