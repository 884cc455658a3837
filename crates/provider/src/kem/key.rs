//! Our keys of key encapsulation.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

use widelane_crypto::mlkem::{DecapsulationKey, SHARED_BYTES};
use widelane_ossl_sys::core::{self, OsslParam};

use crate::curve::key::Key as CurveKey;
use crate::delegate::{Delegate, Kem, OnDemand, Owned};
use crate::kem::{MECHANISMS, Mechanism, batch};
use crate::secret::Secret;
use crate::{params, stack};

/// A key of a mechanism: none yet, a public one, or both halves. It never changes once it is one.
pub(crate) struct Key {
    delegate: Arc<Delegate>,
    index: usize,
    halves: OnceLock<Halves>,
    /// The default provider's key with the same halves, made when something of ours fails.
    image: OnDemand,
}

/// What a key has.
pub(super) struct Halves {
    /// The public key as protocols send it.
    pub(super) public: Box<[u8]>,
    /// The private key of ML-KEM.
    pub(super) private: Option<DecapsulationKey>,
    /// What that was generated from, where it is kept.
    pub(super) seed: Option<Secret>,
    /// The key on the curve, with both halves if there is a private one of ML-KEM.
    pub(super) on_curve: Option<Arc<CurveKey>>,
}

/// Why something is no key: one of the `PROV_R_*`.
pub(super) type Reason = c_int;

impl Key {
    /// A key with nothing in it yet.
    pub(crate) fn new(delegate: &Arc<Delegate>, index: usize) -> Self {
        let delegate = Arc::clone(delegate);
        Key { delegate, index, halves: OnceLock::new(), image: OnDemand::new() }
    }

    /// The default provider of its library.
    pub(crate) fn delegate(&self) -> &Arc<Delegate> {
        &self.delegate
    }

    /// Its mechanism.
    pub(crate) fn mechanism(&self) -> &'static Mechanism {
        &MECHANISMS[self.index]
    }

    /// What the default provider has of its mechanism.
    pub(super) fn theirs(&self) -> Option<&Kem> {
        self.delegate.algorithms.kems[self.index].as_ref()
    }

    /// What it has; nothing if it is none yet.
    pub(super) fn halves(&self) -> Option<&Halves> {
        self.halves.get()
    }

    /// The public key as protocols send it.
    pub(super) fn public(&self) -> Option<&[u8]> {
        Some(&self.halves()?.public)
    }

    /// The encapsulation key of ML-KEM.
    pub(super) fn encapsulation_key(&self) -> Option<&[u8]> {
        Some(self.mechanism().public_parts(self.public()?).0)
    }

    /// The private key of ML-KEM.
    pub(super) fn decapsulation_key(&self) -> Option<&DecapsulationKey> {
        self.halves()?.private.as_ref()
    }

    /// The key on the curve.
    pub(super) fn on_curve(&self) -> Option<&Arc<CurveKey>> {
        self.halves()?.on_curve.as_ref()
    }

    /// The whole private key, encoded.
    pub(super) fn private(&self) -> Option<Secret> {
        let mechanism = self.mechanism();
        let mut whole = Secret(vec![0; mechanism.private_bytes()]);
        let (of_ml_kem, of_curve) =
            mechanism.parts_mut(&mut whole.0, mechanism.curve_private_bytes());
        of_ml_kem.copy_from_slice(self.decapsulation_key()?.as_bytes());
        if let Some(key) = self.on_curve() {
            of_curve.copy_from_slice(key.private_bytes()?);
        }
        Some(whole)
    }

    /// Becomes a key; false if it is one already.
    pub(super) fn set(&self, halves: Halves) -> bool {
        self.halves.set(halves).is_ok()
    }

    /// Becomes a public key.
    pub(super) fn set_public(&self, encoded: &[u8]) -> Result<(), Reason> {
        let halves = self.read_public(encoded).ok_or(core::PROV_R_INVALID_KEY)?;
        let is_set = self.set(halves);
        is_set.then_some(()).ok_or(core::PROV_R_OPERATION_NOT_SUPPORTED_FOR_THIS_KEYTYPE)
    }

    /// Becomes a key of these parts: the seed of ML-KEM, a private and a public key, encoded. What
    /// comes first of these makes the key. Of ML-KEM, a private key has to be that of a seed
    /// beside it, and a public key that of a private one; other parts are not looked at. A part
    /// without any bytes is none.
    pub(super) fn import(&self, parts: [Option<&[u8]>; 3]) -> Result<(), Reason> {
        let mechanism = self.mechanism();
        let [seed, private, public] = parts.map(|part| part.filter(|part| !part.is_empty()));
        let is_wrong = |part: Option<&[u8]>, bytes| part.is_some_and(|part| part.len() != bytes);
        if is_wrong(private, mechanism.private_bytes())
            || is_wrong(public, mechanism.public_bytes())
        {
            return Err(core::PROV_R_INVALID_KEY_LENGTH);
        }
        let halves = match (seed.filter(|_| mechanism.curve.is_none()), private, public) {
            (Some(seed), private, _) => {
                let halves = self.generated(seed).ok_or(core::PROV_R_INVALID_SEED_LENGTH)?;
                let made = halves.private.as_ref().map(DecapsulationKey::as_bytes);
                if private.is_some() && !equal(private, made) {
                    return Err(core::PROV_R_INVALID_KEY);
                }
                Some(halves)
            }
            (None, Some(private), _) => stack::on_large(|| self.read_private(private)).flatten(),
            (None, None, Some(public)) => self.read_public(public),
            (None, None, None) => return Err(core::PROV_R_MISSING_KEY),
        };
        // OpenSSL compares a public key with a private one, and not with a seed.
        let compared = public.filter(|_| private.is_some() && mechanism.curve.is_none());
        let is_set = halves
            .filter(|halves| compared.is_none_or(|public| *halves.public == *public))
            .filter(|halves| self.is_pair(halves))
            .is_some_and(|halves| self.set(halves));
        is_set.then_some(()).ok_or(core::PROV_R_INVALID_KEY)
    }

    /// Whether its halves of ML-KEM belong together, if it has both.
    pub(super) fn agrees(&self) -> bool {
        self.halves().is_none_or(|halves| self.is_pair(halves))
    }

    /// Whether a secret for the public half of ML-KEM comes out with the private one, if there is
    /// one: its check sums do not tell.
    fn is_pair(&self, halves: &Halves) -> bool {
        let Some(private) = &halves.private else { return true };
        let mechanism = self.mechanism();
        let (public, _) = mechanism.public_parts(&halves.public);
        let Some(message) = self.delegate.random_secret(SHARED_BYTES) else { return false };
        batch::is_pair(mechanism.set, public, private, &message)
    }

    /// A second key with both halves, or with neither.
    pub(super) fn duplicate(&self, with_halves: bool) -> Self {
        let copy = Key::new(&self.delegate, self.index);
        if let Some(halves) = self.halves().filter(|_| with_halves) {
            let _ = copy.halves.set(Halves {
                public: halves.public.clone(),
                private: halves.private.clone(),
                seed: halves.seed.as_ref().map(|seed| Secret(seed.0.clone())),
                on_curve: halves.on_curve.clone(),
            });
        }
        copy
    }

    /// The default provider's key with the same halves; nothing where it has no such mechanism, or
    /// does not take them.
    pub(super) fn image(&self) -> Option<*mut c_void> {
        self.image.get_or_make(|| self.make_image())
    }

    fn make_image(&self) -> Option<Owned> {
        let functions = &self.theirs()?.keys.functions;
        let import = functions.import?;
        let image = Owned::made(functions.new, &self.delegate, functions.free)?;
        let private = self.private();
        let mut parts = vec![params::octets_in(core::PKEY_PARAM_PUB_KEY, self.public()?)];
        if let Some(private) = &private {
            parts.push(params::octets_in(core::PKEY_PARAM_PRIV_KEY, &private.0));
        }
        parts.push(OsslParam::END);
        // SAFETY: the key was made above; the parameters have an end.
        let imported = unsafe { import(image.as_ptr(), core::SELECT_ALL, parts.as_ptr()) > 0 };
        imported.then_some(image)
    }

    /// What a seed of ML-KEM makes.
    pub(super) fn generated(&self, seed: &[u8]) -> Option<Halves> {
        let set = self.mechanism().set;
        let private = batch::generate_alone(set, seed)?;
        let public = private.encapsulation_key().into();
        let seed = Some(Secret(seed.to_vec()));
        Some(Halves { public, private: Some(private), seed, on_curve: None })
    }

    fn read_public(&self, encoded: &[u8]) -> Option<Halves> {
        let mechanism = self.mechanism();
        if encoded.len() != mechanism.public_bytes() {
            return None;
        }
        let (of_ml_kem, of_curve) = mechanism.public_parts(encoded);
        if !mechanism.set.is_encapsulation_key(of_ml_kem) {
            return None;
        }
        let on_curve = match mechanism.curve {
            Some(_) => Some(self.peer_on_curve(of_curve)?),
            None => None,
        };
        Some(Halves { public: encoded.into(), private: None, seed: None, on_curve })
    }

    /// A public key on the curve beside ML-KEM, encoded; nothing if it is none.
    pub(super) fn peer_on_curve(&self, encoded: &[u8]) -> Option<Arc<CurveKey>> {
        let peer = CurveKey::parameters(&self.delegate, self.mechanism().curve?);
        peer.set_public(encoded).then(|| Arc::new(peer))
    }

    fn read_private(&self, encoded: &[u8]) -> Option<Halves> {
        let mechanism = self.mechanism();
        let (of_ml_kem, of_curve) = mechanism.private_parts(encoded);
        let private = batch::import(mechanism.set, of_ml_kem)?;
        let on_curve = match mechanism.curve {
            Some(curve) => Some(CurveKey::from_private(&self.delegate, curve, of_curve)?),
            None => None,
        };
        Halves::of(mechanism, private, None, on_curve.map(Arc::new))
    }
}

impl Halves {
    /// Both halves of a key, from the private ones.
    pub(super) fn of(
        mechanism: &Mechanism,
        private: DecapsulationKey,
        seed: Option<Secret>,
        on_curve: Option<Arc<CurveKey>>,
    ) -> Option<Self> {
        let mut public = vec![0; mechanism.public_bytes()];
        let (of_ml_kem, of_curve) =
            mechanism.parts_mut(&mut public, mechanism.curve_public_bytes());
        of_ml_kem.copy_from_slice(private.encapsulation_key());
        if let Some(key) = &on_curve {
            of_curve.copy_from_slice(key.encoded_public()?);
        }
        Some(Halves { public: public.into(), private: Some(private), seed, on_curve })
    }
}

/// Whether both are the same, in constant time.
fn equal(first: Option<&[u8]>, second: Option<&[u8]>) -> bool {
    let (Some(first), Some(second)) = (first, second) else { return false };
    first.len() == second.len() && widelane_secret::Mask::equal_bytes(first, second).declassify()
}
