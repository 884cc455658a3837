//! What a program has set of a key derivation, kept in one place that is wiped with its context.

use std::ffi::{CStr, c_int};
use std::ops::Range;

use widelane_crypto::kdf::Hash;
use widelane_crypto::rsa::encoding::DigestAlgorithm;
use widelane_ossl_sys::core::{self, OsslParam};
use widelane_secret::wipe;

use crate::{digest, params};

/// What can be set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// The secret that others follow from.
    Key,
    /// The secret that was before it.
    Salt,
    /// What all labels begin with.
    Prefix,
    /// What the derived is for.
    Label,
    /// What the derived depends on.
    Data,
    /// The secret of TLS 1.2.
    Secret,
    /// Label and random numbers of TLS 1.2; what is set later is added.
    Seed,
}

impl Field {
    const ALL: [Field; 7] = [
        Field::Key,
        Field::Salt,
        Field::Prefix,
        Field::Label,
        Field::Data,
        Field::Secret,
        Field::Seed,
    ];

    /// The name of its parameter.
    fn name(self) -> &'static CStr {
        match self {
            Field::Key => core::KDF_PARAM_KEY,
            Field::Salt => core::KDF_PARAM_SALT,
            Field::Prefix => core::KDF_PARAM_PREFIX,
            Field::Label => core::KDF_PARAM_LABEL,
            Field::Data => core::KDF_PARAM_DATA,
            Field::Secret => core::KDF_PARAM_SECRET,
            Field::Seed => core::KDF_PARAM_SEED,
        }
    }
}

/// What a program has set of a key derivation.
pub(super) struct Fields {
    /// The hash function.
    pub(super) hash: Option<Hash>,
    /// `EVP_KDF_HKDF_MODE_*`.
    pub(super) mode: Option<c_int>,
    places: [Option<Range<usize>>; Field::ALL.len()],
    bytes: [u8; BYTES],
    used: usize,
}

/// Room for what TLS sets at once: two secrets, or a secret, a label and two random numbers or
/// digests.
const BYTES: usize = 512;

impl Fields {
    /// Fields of which none is set.
    pub(super) const fn new() -> Self {
        Fields {
            hash: None,
            mode: None,
            places: [const { None }; Field::ALL.len()],
            bytes: [0; BYTES],
            used: 0,
        }
    }

    /// Takes what is set in `from`, where it lies: a copy that is moved leaves secrets behind.
    pub(super) fn copy(&mut self, from: &Fields) {
        let Fields { hash, mode, places, bytes, used } = from;
        (self.hash, self.mode, self.used) = (*hash, *mode, *used);
        self.places.clone_from(places);
        self.bytes[..*used].copy_from_slice(&bytes[..*used]);
    }

    /// Sets parameters; false if that is for the default provider, and nothing has changed. It also
    /// is if data were set before and are not now: releases of OpenSSL differ in whether they stay.
    pub(super) fn set<'a>(
        &mut self,
        mut params: impl Iterator<Item = &'a OsslParam>,
        known: &[Field],
        is_accepted: impl FnOnce(&Self) -> bool,
    ) -> bool {
        let (hash, mode, begin) = (self.hash.take(), self.mode.take(), self.used);
        let places = self.places.clone();
        self.places[Field::Data as usize] = None;
        let is_known = params.all(|param| self.set_one(param, known, begin));
        let data = Field::Data as usize;
        let is_data_settled = places[data].is_none() || self.places[data].is_some();
        (self.hash, self.mode) = (self.hash.or(hash), self.mode.or(mode));
        let is_done = is_known && is_data_settled && is_accepted(self);
        if !is_done {
            wipe(&mut self.bytes[begin..self.used]);
            (self.hash, self.mode, self.places, self.used) = (hash, mode, places, begin);
        }
        is_done
    }

    /// Sets a parameter, unless the same is set already behind `begin`.
    fn set_one(&mut self, param: &OsslParam, known: &[Field], begin: usize) -> bool {
        let name = params::name(param);
        if name == core::KDF_PARAM_DIGEST {
            let twice = self.hash.is_some();
            self.hash = params::text_of(param).and_then(|name| hash(name.as_c_str()));
            return self.hash.is_some() && !twice;
        }
        if name == core::KDF_PARAM_MODE && known.contains(&Field::Key) {
            let twice = self.mode.is_some();
            self.mode = params::int_of(param);
            return self.mode.is_some() && !twice;
        }
        let Some(field) = known.iter().find(|field| name == field.name()) else { return false };
        // Libssl always gives five, and those that it does not need are null.
        if *field == Field::Seed && (param.data.is_null() || param.data_size == 0) {
            return true;
        }
        params::octets(param).is_some_and(|value| self.put(*field, value, begin))
    }

    fn put(&mut self, field: Field, value: &[u8], begin: usize) -> bool {
        let place = &mut self.places[field as usize];
        let start = match place {
            // Only what stands last can grow where it is.
            Some(before) if field == Field::Seed => {
                if before.end != self.used {
                    return false;
                }
                before.start
            }
            Some(before) if before.start >= begin => return false,
            _ => self.used,
        };
        let Some(room) = self.bytes[self.used..].get_mut(..value.len()) else { return false };
        room.copy_from_slice(value);
        self.used += value.len();
        *place = Some(start..self.used);
        true
    }

    /// Whether nothing was set.
    pub(super) fn is_empty(&self) -> bool {
        let unset = self.hash.is_none() && self.mode.is_none();
        unset && self.places.iter().all(Option::is_none)
    }

    /// What was set; nothing if that was empty or never.
    pub(super) fn get(&self, field: Field) -> Option<&[u8]> {
        let place = self.places[field as usize].clone()?;
        Some(&self.bytes[place]).filter(|value| !value.is_empty())
    }

    /// Whether it was set, and to nothing.
    pub(super) fn is_empty_value(&self, field: Field) -> bool {
        self.places[field as usize].as_ref().is_some_and(Range::is_empty)
    }

    /// Hands everything that is set to `take`, as parameters.
    pub(super) fn replay<R>(&self, take: impl FnOnce(&[OsslParam]) -> R) -> R {
        let mut mode = self.mode;
        let mut given = Vec::with_capacity(Field::ALL.len() + 3);
        if let Some(hash) = self.hash {
            given.push(params::text_in(core::KDF_PARAM_DIGEST, digest::name(algorithm(hash))));
        }
        if let Some(mode) = &mut mode {
            given.push(params::int(core::KDF_PARAM_MODE, mode));
        }
        for field in Field::ALL {
            if let Some(place) = self.places[field as usize].clone() {
                given.push(params::octets_in(field.name(), &self.bytes[place]));
            }
        }
        given.push(OsslParam::END);
        take(&given)
    }
}

impl Drop for Fields {
    fn drop(&mut self) {
        wipe(&mut self.bytes[..self.used]);
    }
}

fn hash(name: &CStr) -> Option<Hash> {
    let named = digest::by_name(name)?;
    Hash::ALL.into_iter().find(|hash| algorithm(*hash) == named)
}

fn algorithm(hash: Hash) -> DigestAlgorithm {
    match hash {
        Hash::Sha256 => DigestAlgorithm::Sha256,
        Hash::Sha384 => DigestAlgorithm::Sha384,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libssl_sets_for_tls_1_2_is_ours() {
        let null =
            OsslParam::new(core::KDF_PARAM_SEED, core::PARAM_OCTET_STRING, std::ptr::null_mut(), 0);
        let params = [
            params::text_in(core::KDF_PARAM_DIGEST, c"SHA2-384"),
            params::octets_in(core::KDF_PARAM_SECRET, &[1; 48]),
            params::octets_in(core::KDF_PARAM_SEED, b"key expansion"),
            params::octets_in(core::KDF_PARAM_SEED, &[2; 32]),
            null,
            params::octets_in(core::KDF_PARAM_SEED, &[]),
        ];
        let mut fields = Fields::new();
        assert!(fields.set(params.iter(), &[Field::Secret, Field::Seed], |_| true));
        assert_eq!(fields.hash, Some(Hash::Sha384));
        let seed = [&b"key expansion"[..], &[2; 32]].concat();
        assert_eq!(fields.get(Field::Seed), Some(&seed[..]));
        assert_eq!(fields.get(Field::Secret), Some(&[1; 48][..]));
    }

    #[test]
    fn what_becomes_of_data_is_for_the_default_provider() {
        let known = [Field::Key, Field::Data];
        let key = params::octets_in(core::KDF_PARAM_KEY, &[1; 48]);
        let mut fields = Fields::new();
        assert!(fields.set([&key].into_iter(), &known, |_| true));
        let data = params::octets_in(core::KDF_PARAM_DATA, b"first");
        assert!(fields.set([&data].into_iter(), &known, |_| true));
        assert!(!fields.set([&key].into_iter(), &known, |_| true));
        assert!(!fields.set([].into_iter(), &known, |_| true));
        assert_eq!(fields.get(Field::Data), Some(&b"first"[..]), "for the default provider");
        let data = params::octets_in(core::KDF_PARAM_DATA, b"second");
        assert!(fields.set([&key, &data].into_iter(), &known, |_| true));
        assert_eq!(fields.get(Field::Data), Some(&b"second"[..]));
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let known = [Field::Secret, Field::Seed];
        let mut fields = Fields::new();
        let seed = params::octets_in(core::KDF_PARAM_SEED, b"first");
        assert!(fields.set([&seed].into_iter(), &known, |_| true));
        let used = fields.used;
        let params = [
            params::octets_in(core::KDF_PARAM_SEED, b"more"),
            params::octets_in(core::KDF_PARAM_SECRET, b"second"),
            params::text_in(core::KDF_PARAM_DIGEST, c"SHA2-256"),
        ];
        assert!(!fields.set(params.iter(), &known, |_| false), "all known, and refused");
        let unknown = params::octets_in(core::KDF_PARAM_SALT, &[]);
        assert!(!fields.set(params.iter().chain([&unknown]), &known, |_| true));
        assert_eq!(fields.get(Field::Seed), Some(&b"first"[..]));
        assert_eq!((fields.get(Field::Secret), fields.hash, fields.used), (None, None, used));
        assert!(fields.bytes[used..].iter().all(|byte| *byte == 0), "and is wiped");
    }
}
