//! One loaded provider: what the core knows as our context, from init to teardown.
#![allow(unsafe_code, reason = "the provider's own entries")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_bridge::counters::CipherKind;
use widelane_ossl_sys::core::{
    self, OsslAlgorithm, OsslCallback, OsslDispatch, OsslParam, PARAM_INTEGER, PARAM_UTF8_PTR,
};

use crate::delegate::{Algorithms, Delegate, has_name};
use crate::entry::{borrow, borrow_mut, entry, take_back};
use crate::params::{self, Constant};
use crate::{cipher, curve, kdf, process, rsa};

/// One loaded provider. OpenSSL may load us several times, once for each library context.
pub(crate) struct Instance {
    delegate: Arc<Delegate>,
    functions: [OsslDispatch; 6],
    cipher: Offers,
    kdf: Offers,
    keymgmt: Offers,
    exchange: Offers,
    signature: Offers,
    asym_cipher: Offers,
    encoder: Offers,
}

/// The algorithms of one operation.
struct Offers {
    list: Vec<OsslAlgorithm>,
    /// What the list points to.
    _tables: Vec<Box<[OsslDispatch]>>,
}

// SAFETY: the pointers lead to constants and to what the instance owns and never changes.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

impl Instance {
    /// Offers what we have over a loaded default provider.
    pub(crate) fn new(delegate: Delegate) -> Arc<Self> {
        let delegate = Arc::new(delegate);
        let known = &delegate.algorithms;
        process::instance_begins();
        Arc::new(Instance {
            functions: provider_functions(),
            cipher: Offers::new(CipherKind::ALL.into_iter().filter_map(|kind| {
                let names = &known.ciphers[kind as usize].as_ref()?.names;
                Some((
                    names,
                    cipher::functions(&delegate, kind)?,
                    c"authenticated encryption, widened by Widelane",
                ))
            })),
            kdf: Offers::new([
                (
                    &known.tls13_kdf.names,
                    kdf::tls13_kdf::functions(&delegate),
                    c"key schedule of TLS 1.3, shortened by Widelane",
                ),
                (
                    &known.tls1_prf.names,
                    kdf::tls1_prf::functions(&delegate),
                    c"key schedule of TLS 1.2, shortened by Widelane",
                ),
            ]),
            keymgmt: Offers::new([
                (
                    &known.rsa.names,
                    rsa::keymgmt::functions::<rsa::keymgmt::Rsa>(&delegate),
                    c"RSA keys, batched by Widelane",
                ),
                (
                    &known.rsa_pss.names,
                    rsa::keymgmt::functions::<rsa::keymgmt::RsaPss>(&delegate),
                    c"RSA-PSS keys, batched by Widelane",
                ),
                (
                    &known.ec.names,
                    curve::keymgmt::functions::<curve::keymgmt::Ec>(&delegate),
                    c"EC keys, batched by Widelane",
                ),
                (
                    &known.x25519.names,
                    curve::keymgmt::functions::<curve::keymgmt::X25519>(&delegate),
                    c"X25519 keys, batched by Widelane",
                ),
                (
                    &known.ed25519.names,
                    curve::keymgmt::functions::<curve::keymgmt::Ed25519>(&delegate),
                    c"Ed25519 keys, batched by Widelane",
                ),
            ]),
            exchange: Offers::new([
                (
                    &known.ecdh.names,
                    curve::exchange::ecdh_functions(&delegate),
                    c"ECDH, batched by Widelane",
                ),
                (
                    &known.x25519_exchange.names,
                    curve::exchange::x25519_functions(&delegate),
                    c"X25519, batched by Widelane",
                ),
            ]),
            signature: Offers::new([
                (
                    &known.rsa_signature.names,
                    rsa::signature::functions(&delegate),
                    c"RSA signatures, batched by Widelane",
                ),
                (
                    &known.ecdsa.names,
                    curve::ecdsa::functions(&delegate),
                    c"ECDSA, batched by Widelane",
                ),
                (
                    &known.ed25519_signature.names,
                    curve::eddsa::functions(&delegate),
                    c"Ed25519, batched by Widelane",
                ),
            ]),
            asym_cipher: Offers::new([(
                &known.rsa_cipher.names,
                rsa::asym_cipher::functions(&delegate),
                c"RSA decryption, batched by Widelane",
            )]),
            encoder: Offers::with_properties(
                known.ec_encoders.iter().zip(curve::encoder::functions(&delegate)).map(
                    |(encoder, table)| {
                        let properties = encoder.properties.as_c_str();
                        (&encoder.names, properties, table, c"encoder of EC keys for Widelane")
                    },
                ),
            ),
            delegate,
        })
    }

    /// The default provider that does everything but batches.
    pub(crate) fn delegate(&self) -> &Arc<Delegate> {
        &self.delegate
    }

    /// The functions of the provider itself.
    pub(crate) fn functions(&self) -> *const OsslDispatch {
        self.functions.as_ptr()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        process::instance_ends();
    }
}

impl Offers {
    /// Names, functions and description of each algorithm.
    fn new<'a>(
        offers: impl IntoIterator<Item = (&'a CString, Box<[OsslDispatch]>, &'static CStr)>,
    ) -> Self {
        let properties = c"provider=widelane";
        Offers::with_properties(
            offers.into_iter().map(|(names, table, said)| (names, properties, table, said)),
        )
    }

    /// Names, properties, functions and description of each algorithm.
    fn with_properties<'a>(
        offers: impl Iterator<Item = (&'a CString, &'a CStr, Box<[OsslDispatch]>, &'static CStr)>,
    ) -> Self {
        let (mut list, tables): (Vec<_>, _) = offers
            .map(|(names, properties, table, description)| {
                let algorithm = OsslAlgorithm {
                    algorithm_names: names.as_ptr(),
                    property_definition: properties.as_ptr(),
                    implementation: table.as_ptr(),
                    algorithm_description: description.as_ptr(),
                };
                (algorithm, table)
            })
            .unzip();
        list.push(OsslAlgorithm::END);
        Offers { list, _tables: tables }
    }
}

fn provider_functions() -> [OsslDispatch; 6] {
    type Function = unsafe extern "C" fn();
    let entry = |function_id, function: *const c_void| OsslDispatch {
        function_id,
        // SAFETY: a function; only its type is forgotten, and the number brings it back.
        function: Some(unsafe { std::mem::transmute::<*const c_void, Function>(function) }),
    };
    [
        entry(core::FUNC_PROVIDER_TEARDOWN, teardown as *const c_void),
        entry(core::FUNC_PROVIDER_GETTABLE_PARAMS, gettable_params as *const c_void),
        entry(core::FUNC_PROVIDER_GET_PARAMS, get_params as *const c_void),
        entry(core::FUNC_PROVIDER_QUERY_OPERATION, query_operation as *const c_void),
        entry(core::FUNC_PROVIDER_GET_CAPABILITIES, get_capabilities as *const c_void),
        OsslDispatch::END,
    ]
}

entry! {
    fn teardown(provctx: *mut c_void) {
        // SAFETY: the core gives the instance back that init lent it.
        drop(unsafe { take_back::<Instance>(provctx) });
        Some(())
    }

    fn gettable_params(_provctx: *mut c_void) -> *const OsslParam {
        Some(GETTABLE.as_ptr())
    }

    fn get_params(_provctx: *mut c_void, params: *mut OsslParam) -> c_int {
        // SAFETY: the core's array.
        unsafe { params::answer(params, ANSWERS) };
        Some(1)
    }

    /// libssl uses a group of TLS only if the provider that its keys come from offers it.
    fn get_capabilities(
        provctx: *mut c_void,
        capability: *const c_char,
        callback: Option<OsslCallback>,
        argument: *mut c_void,
    ) -> c_int {
        // SAFETY: the core passes our instance.
        let instance = unsafe { borrow::<Instance>(provctx) }?;
        if capability.is_null() {
            return None;
        }
        // SAFETY: the core passes a C string.
        let capability = unsafe { CStr::from_ptr(capability) };
        if capability != core::CAPABILITY_TLS_GROUP {
            return Some(1);
        }
        let names = &instance.delegate.algorithms;
        let mut offer = Offer { names, callback: callback?, argument };
        Some(instance.delegate.capabilities(capability, pass_on, ptr::from_mut(&mut offer).cast()))
    }

    /// Takes one group of the default provider's, and passes it on if its keys are ours.
    fn pass_on(params: *const OsslParam, offer: *mut c_void) -> c_int {
        // SAFETY: the default provider passes on what `get_capabilities` gave it.
        let offer = unsafe { borrow_mut::<Offer<'_>>(offer) }?;
        // SAFETY: the default provider's array has an end.
        let mut given = unsafe { params::iter(params) };
        let algorithm = given.find(|param| params::key(param) == core::TLS_GROUP_ALG)?;
        let algorithm = params::text_of(algorithm)?;
        let keys = [&offer.names.ec.names, &offer.names.x25519.names];
        if !keys.into_iter().any(|names| has_name(names, algorithm.as_c_str())) {
            return Some(1);
        }
        // SAFETY: the core's callback and its argument.
        Some(unsafe { (offer.callback)(params, offer.argument) })
    }

    fn query_operation(
        provctx: *mut c_void,
        operation: c_int,
        no_cache: *mut c_int,
    ) -> *const OsslAlgorithm {
        // SAFETY: the core passes our instance.
        let instance = unsafe { borrow::<Instance>(provctx) }?;
        // SAFETY: null, or where the core waits for the answer.
        if let Some(no_cache) = unsafe { no_cache.as_mut() } {
            *no_cache = 0;
        }
        match operation {
            core::OP_CIPHER => Some(instance.cipher.list.as_ptr()),
            core::OP_KDF => Some(instance.kdf.list.as_ptr()),
            core::OP_KEYMGMT => Some(instance.keymgmt.list.as_ptr()),
            core::OP_KEYEXCH => Some(instance.exchange.list.as_ptr()),
            core::OP_SIGNATURE => Some(instance.signature.list.as_ptr()),
            core::OP_ASYM_CIPHER => Some(instance.asym_cipher.list.as_ptr()),
            core::OP_ENCODER => Some(instance.encoder.list.as_ptr()),
            _ => None,
        }
    }
}

/// Where the groups of TLS go that are offered.
struct Offer<'a> {
    names: &'a Algorithms,
    callback: OsslCallback,
    argument: *mut c_void,
}

const NAME: &CStr = c"Widelane batching provider";
const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("the version has no inner NUL"),
    };

static GETTABLE: [OsslParam; 5] = [
    params::gettable(core::PROV_PARAM_NAME, PARAM_UTF8_PTR),
    params::gettable(core::PROV_PARAM_VERSION, PARAM_UTF8_PTR),
    params::gettable(core::PROV_PARAM_BUILDINFO, PARAM_UTF8_PTR),
    params::gettable(core::PROV_PARAM_STATUS, PARAM_INTEGER),
    OsslParam::END,
];

const ANSWERS: &[(&CStr, Constant)] = &[
    (core::PROV_PARAM_NAME, Constant::Text(NAME)),
    (core::PROV_PARAM_VERSION, Constant::Text(VERSION)),
    (core::PROV_PARAM_BUILDINFO, Constant::Text(VERSION)),
    (core::PROV_PARAM_STATUS, Constant::Int(1)),
];
