//! One loaded provider: what the core knows as our context, from init to teardown.
#![allow(unsafe_code, reason = "the provider's own entries")]

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use widelane_ossl_sys::core::{
    self, OsslAlgorithm, OsslDispatch, OsslParam, PARAM_INTEGER, PARAM_UTF8_PTR,
};

use crate::delegate::Delegate;
use crate::entry::{borrow, entry, take_back};
use crate::key::Kind;
use crate::params::{self, Constant};
use crate::{asym_cipher, keymgmt, process, signature};

/// One loaded provider. OpenSSL may load us several times, once for each library context.
pub(crate) struct Instance {
    delegate: Arc<Delegate>,
    functions: [OsslDispatch; 5],
    keymgmt: [OsslAlgorithm; 3],
    signature: [OsslAlgorithm; 2],
    asym_cipher: [OsslAlgorithm; 2],
    /// What the lists above point to.
    _tables: [Box<[OsslDispatch]>; 4],
}

// SAFETY: the pointers lead to constants and to what the instance owns and never changes.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

impl Instance {
    /// Offers what we have over a loaded default provider.
    pub(crate) fn new(delegate: Delegate) -> Arc<Self> {
        let delegate = Arc::new(delegate);
        let tables = [
            keymgmt::functions(&delegate, Kind::Rsa),
            keymgmt::functions(&delegate, Kind::RsaPss),
            signature::functions(&delegate),
            asym_cipher::functions(&delegate),
        ];
        let [rsa, rsa_pss, sign, cipher] = &tables;
        process::instance_begins();
        Arc::new(Instance {
            functions: provider_functions(),
            keymgmt: [
                algorithm(&delegate.rsa.names, rsa, c"RSA keys, batched by Widelane"),
                algorithm(&delegate.rsa_pss.names, rsa_pss, c"RSA-PSS keys, batched by Widelane"),
                OsslAlgorithm::END,
            ],
            signature: [
                algorithm(&delegate.signature.names, sign, c"RSA signatures, batched by Widelane"),
                OsslAlgorithm::END,
            ],
            asym_cipher: [
                algorithm(
                    &delegate.asym_cipher.names,
                    cipher,
                    c"RSA decryption, batched by Widelane",
                ),
                OsslAlgorithm::END,
            ],
            _tables: tables,
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

fn algorithm(names: &CStr, table: &[OsslDispatch], description: &'static CStr) -> OsslAlgorithm {
    OsslAlgorithm {
        algorithm_names: names.as_ptr(),
        property_definition: c"provider=widelane".as_ptr(),
        implementation: table.as_ptr(),
        algorithm_description: description.as_ptr(),
    }
}

fn provider_functions() -> [OsslDispatch; 5] {
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
            core::OP_KEYMGMT => Some(instance.keymgmt.as_ptr()),
            core::OP_SIGNATURE => Some(instance.signature.as_ptr()),
            core::OP_ASYM_CIPHER => Some(instance.asym_cipher.as_ptr()),
            _ => None,
        }
    }
}

const NAME: &CStr = c"Widelane RSA batching provider";
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
