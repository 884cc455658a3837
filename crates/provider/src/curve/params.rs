//! The halves of a key as parameters: those that the default provider exports and imports.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;

use widelane_ossl_sys::core::{self, OsslParam};

use crate::curve::key::Key;
use crate::curve::{Algorithm, Curve};
use crate::entry::{borrow_mut, entry};
use crate::keymgmt::ManagedKey;
use crate::params::{self, Array};
use crate::secret::Secret;

/// The halves of a key that are handed over as parameters.
#[derive(Default)]
pub(super) struct Halves {
    /// The public half as protocols send it.
    pub(super) public: Option<Vec<u8>>,
    pub(super) private: Option<Secret>,
}

impl Halves {
    /// Has the default provider export the selected parts of its key.
    pub(super) fn of(key: &Key, selection: c_int) -> Option<Self> {
        let mut exported = Halves::default();
        let into = ptr::from_mut(&mut exported).cast();
        let export = key.functions().export?;
        // SAFETY: the key is the default provider's; `collect` gets the halves that it expects.
        let done = unsafe { export(key.inner()?, selection, Some(collect), into) > 0 };
        done.then_some(exported)
    }

    /// The private half, in `bytes` bytes; nothing if it is longer.
    pub(super) fn private(self, bytes: usize) -> Option<Secret> {
        let found = self.private?;
        let mut whole = Secret(vec![0; bytes]);
        let begin = bytes.checked_sub(found.len())?;
        whole.0[begin..].copy_from_slice(&found);
        Some(whole)
    }
}

entry! {
    /// Takes the halves of an exported key.
    fn collect(params: *const OsslParam, into: *mut c_void) -> c_int {
        // SAFETY: `export` passes its halves on.
        let exported = unsafe { borrow_mut::<Halves>(into) }?;
        // SAFETY: the default provider's array has an end.
        for param in unsafe { params::iter(params) } {
            let name = params::key(param);
            let bytes = || params::octets(param).map(<[u8]>::to_vec);
            if name == core::PKEY_PARAM_PUB_KEY {
                exported.public = bytes();
            } else if name == core::PKEY_PARAM_PRIV_KEY {
                // A number on NIST's curves, bytes elsewhere.
                exported.private = params::big_endian(param).or_else(bytes).map(Secret);
            }
        }
        Some(1)
    }
}

/// An EC key that is imported and of which nothing is lost if its curve and its halves are kept.
pub(crate) struct Plain {
    /// The curve, given by its name.
    pub(super) curve: Curve,
    /// The public half, and the private one if it is there.
    pub(super) halves: Halves,
}

impl Plain {
    /// Reads parameters that the default provider could import, which has to do it if this returns
    /// nothing: there is no public half, a half is not selected or too long, something is there
    /// twice, is not what it always is, or is not known. Whether the halves lie on the curve is not
    /// looked at.
    pub(crate) fn read(selection: c_int, params: Array<'_>) -> Option<Self> {
        const NEEDED: c_int = core::SELECT_PUBLIC_KEY | core::SELECT_DOMAIN_PARAMETERS;
        if selection & NEEDED != NEEDED {
            return None;
        }
        let group = params.find(core::PKEY_PARAM_GROUP_NAME)?;
        let public = params.find(core::PKEY_PARAM_PUB_KEY)?;
        let private = params.find(core::PKEY_PARAM_PRIV_KEY);
        if private.is_some() && selection & core::SELECT_PRIVATE_KEY == 0 {
            return None;
        }
        let said = [Some(group), Some(public), private];
        let is_said = |param| said.iter().flatten().any(|one| ptr::eq(*one, param));
        if !params.iter().all(|param| is_said(param) || is_usual(param)) {
            return None;
        }
        let curve = Curve::by_name(Algorithm::Ec, params::text_of(group)?.as_c_str())?;
        // Sizes are checked before anything is copied: the caller may claim any.
        let fits = public.data_size == curve.public_bytes()
            && private.is_none_or(|private| private.data_size <= curve.private_bytes());
        if !fits {
            return None;
        }
        let mut halves = Halves { public: Some(params::octets(public)?.to_vec()), private: None };
        if let Some(private) = private {
            halves.private = Some(Secret(params::big_endian(private)?));
        }
        Some(Plain { curve, halves })
    }

    /// Whether there are lanes to fill with its operations.
    pub(crate) fn is_batched(&self) -> bool {
        self.curve.has_kernels()
    }
}

/// Whether a parameter says of an EC key what holds for those of which it is not said.
fn is_usual(param: &OsslParam) -> bool {
    let name = params::key(param);
    let has_text =
        |usual: &CStr| params::text_of(param).is_some_and(|text| text.as_c_str() == usual);
    USUAL_TEXTS.iter().any(|(known, usual)| name == *known && has_text(usual))
        || USUAL_NUMBERS
            .iter()
            .any(|(known, usual)| name == *known && params::int_of(param) == Some(*usual))
}

const USUAL_TEXTS: [(&CStr, &CStr); 3] = [
    (core::PKEY_PARAM_EC_ENCODING, c"named_curve"),
    (core::PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, c"uncompressed"),
    (core::PKEY_PARAM_EC_GROUP_CHECK_TYPE, c"default"),
];

const USUAL_NUMBERS: [(&CStr, c_int); 3] = [
    (core::PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS, 0),
    (core::PKEY_PARAM_USE_COFACTOR_FLAG, 0),
    (core::PKEY_PARAM_EC_INCLUDE_PUBLIC, 1),
];

/// What we hold of a key, as parameters that the default provider imports.
pub(super) struct KeyParams<'a> {
    params: [OsslParam; 4],
    selection: c_int,
    /// A private half as a number, to which the parameters point.
    _number: Secret,
    /// The halves as they are held, to which they point otherwise.
    _held: PhantomData<&'a [u8]>,
}

impl<'a> KeyParams<'a> {
    /// The parameters of a key with these halves.
    pub(super) fn new(curve: Curve, public: Option<&'a [u8]>, private: Option<&'a [u8]>) -> Self {
        let mut selection = core::SELECT_ALL_PARAMETERS;
        let mut number = Secret(Vec::new());
        let mut params = Vec::with_capacity(4);
        if let Some(name) = curve.group_name() {
            params.push(params::text_in(core::PKEY_PARAM_GROUP_NAME, name));
        }
        if let Some(public) = public {
            selection |= core::SELECT_PUBLIC_KEY;
            params.push(params::octets_in(core::PKEY_PARAM_PUB_KEY, public));
        }
        if let Some(private) = private {
            selection |= core::SELECT_PRIVATE_KEY;
            params.push(match curve {
                Curve::Ec(_) => {
                    number.0 = private.iter().rev().copied().collect();
                    params::number_in(core::PKEY_PARAM_PRIV_KEY, &number)
                }
                Curve::Ed25519 | Curve::X25519 => {
                    params::octets_in(core::PKEY_PARAM_PRIV_KEY, private)
                }
            });
        }
        params.resize(4, OsslParam::END);
        let params = params.try_into().expect("resized above");
        KeyParams { params, selection, _number: number, _held: PhantomData }
    }

    /// What they describe.
    pub(super) fn selection(&self) -> c_int {
        self.selection
    }

    /// The array, with its end.
    pub(super) fn as_ptr(&self) -> *const OsslParam {
        self.params.as_ptr()
    }
}
