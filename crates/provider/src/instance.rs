//! One loaded provider: what the core knows as our context, from init to teardown.
#![allow(unsafe_code, reason = "the provider's own entries")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_ossl_sys::core::{
    self, OsslAlgorithm, OsslCallback, OsslDispatch, OsslParam, PARAM_INTEGER, PARAM_UTF8_PTR,
};
use widelane_ossl_sys::dispatch::{ProviderFunctions, Table};

use crate::delegate::{Algorithm, Delegate, has_name};
use crate::entry::{borrow, borrow_mut, end_lent, entry};
use crate::params::{self, Value};
use crate::{FAMILIES, kem, process};

/// One loaded provider. OpenSSL may load us several times, once for each library context.
pub(crate) struct Instance {
    delegate: Arc<Delegate>,
    functions: Box<[OsslDispatch]>,
    offers: Vec<Offers>,
}

/// An algorithm that we offer.
pub(crate) struct Offer {
    operation: c_int,
    names: CString,
    properties: CString,
    table: Box<[OsslDispatch]>,
    description: &'static CStr,
}

/// The algorithms of one operation.
struct Offers {
    operation: c_int,
    list: Vec<OsslAlgorithm>,
    /// What the list points to.
    owned: Vec<Offer>,
}

// SAFETY: the pointers lead to constants and to what the instance owns and never changes.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

impl Instance {
    /// Offers what we have over a loaded default provider.
    pub(crate) fn new(delegate: Delegate) -> Arc<Self> {
        let delegate = Arc::new(delegate);
        process::instance_begins();
        let mut by_operation = BTreeMap::<c_int, Vec<Offer>>::new();
        for offer in FAMILIES.iter().flat_map(|family| (family.offers)(&delegate)) {
            by_operation.entry(offer.operation).or_default().push(offer);
        }
        Arc::new(Instance {
            functions: FUNCTIONS.write(),
            offers: by_operation
                .into_iter()
                .map(|(key, offers)| Offers::new(key, offers))
                .collect(),
            delegate,
        })
    }

    /// The default provider that does everything but batches.
    pub(crate) fn delegate(&self) -> &Arc<Delegate> {
        &self.delegate
    }

    /// What it offers for an operation.
    fn offers(&self, operation: c_int) -> Option<&Offers> {
        self.offers.iter().find(|offers| offers.operation == operation)
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

impl Offer {
    /// Functions for what the default provider has for an algorithm, by its names.
    pub(crate) fn like<F: Table>(
        theirs: &Algorithm<F>,
        table: Box<[OsslDispatch]>,
        description: &'static CStr,
    ) -> Self {
        Offer::new(F::OPERATION, &theirs.names, table, description)
    }

    /// Functions for an operation, and what they are known by.
    pub(crate) fn new(
        operation: c_int,
        names: &CStr,
        table: Box<[OsslDispatch]>,
        description: &'static CStr,
    ) -> Self {
        let (names, properties) = (names.to_owned(), c"provider=widelane".to_owned());
        Offer { operation, names, properties, table, description }
    }

    /// The offer with `properties` in place of our name alone.
    pub(crate) fn with_properties(self, properties: &CStr) -> Self {
        Offer { properties: properties.to_owned(), ..self }
    }
}

impl Offers {
    fn new(operation: c_int, owned: Vec<Offer>) -> Self {
        let algorithm = |offer: &Offer| OsslAlgorithm {
            algorithm_names: offer.names.as_ptr(),
            property_definition: offer.properties.as_ptr(),
            implementation: offer.table.as_ptr(),
            algorithm_description: offer.description.as_ptr(),
        };
        let list = owned.iter().map(algorithm).chain([OsslAlgorithm::END]).collect();
        Offers { operation, list, owned }
    }
}

/// The functions of the provider itself.
const FUNCTIONS: ProviderFunctions = ProviderFunctions {
    teardown: Some(end_lent::<Instance>),
    gettable_params: Some(gettable_params),
    get_params: Some(get_params),
    query_operation: Some(query_operation),
    get_capabilities: Some(get_capabilities),
};

entry! {
    fn gettable_params(_provctx: *mut c_void) -> *const OsslParam {
        Some(GETTABLE.as_ptr())
    }

    fn get_params(_provctx: *mut c_void, params: *mut OsslParam) -> c_int {
        // SAFETY: the core's array.
        for (name, param) in unsafe { params::iter_mut(params) } {
            if let Some((_, value)) = ANSWERS.iter().find(|(known, _)| name == *known) {
                // SAFETY: the core leaves room for what it asks for.
                unsafe { value.write_to(param) };
            }
        }
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
        let callback = callback?;
        // SAFETY: the core's callback and its argument.
        if !unsafe { kem::tell_groups(&instance.delegate, callback, argument) } {
            return None;
        }
        let mut offer = GroupOffer { instance, callback, argument };
        Some(instance.delegate.capabilities(capability, pass_on, ptr::from_mut(&mut offer).cast()))
    }

    /// Takes one group of the default provider's, and passes it on if its keys are ours.
    fn pass_on(params: *const OsslParam, offer: *mut c_void) -> c_int {
        // SAFETY: the default provider passes on what `get_capabilities` gave it.
        let offer = unsafe { borrow_mut::<GroupOffer<'_>>(offer) }?;
        // SAFETY: the default provider's array has an end.
        let mut given = unsafe { params::iter(params) };
        let algorithm = given.find(|param| params::key(param) == core::TLS_GROUP_ALG)?;
        let algorithm = params::text_of(algorithm)?;
        let keys = offer.instance.offers(core::OP_KEYMGMT)?;
        if !keys.owned.iter().any(|keys| has_name(&keys.names, algorithm.as_c_str())) {
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
        Some(instance.offers(operation)?.list.as_ptr())
    }
}

/// Where the groups of TLS go that are offered.
struct GroupOffer<'a> {
    instance: &'a Instance,
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

const ANSWERS: &[(&CStr, Value<'static>)] = &[
    (core::PROV_PARAM_NAME, Value::Pointer(NAME)),
    (core::PROV_PARAM_VERSION, Value::Pointer(VERSION)),
    (core::PROV_PARAM_BUILDINFO, Value::Pointer(VERSION)),
    (core::PROV_PARAM_STATUS, Value::Size(1)),
];
