//! Our RSA key: the default provider's key, and what the batch kernels make of it.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_batch::KeyName;
use widelane_bridge::counters::OperationKind;
use widelane_cpu::Policy;
use widelane_crypto::digest::{Algorithm, Hash};
use widelane_crypto::rsa::{Components, KeySize, PrivateKey};
use widelane_ossl_sys::core::{self, OsslParam};
use widelane_ossl_sys::dispatch::KeymgmtFunctions;

use crate::delegate::{Delegate, Owned, SignContext};
use crate::entry::{borrow_mut, entry};
use crate::errors::{quietly, tell_of_unlocked_keys};
use crate::keymgmt::ManagedKey;
use crate::known::{Known, Unknown};
use crate::params;
use crate::rsa::batch::RSA;
use crate::rsa::keymgmt::WrappedGeneration;
use crate::rsa::loaded;
use crate::secret::Secret;
use crate::stack;

/// Our RSA key: the default provider's key, and what the batch kernels make of it.
pub(crate) struct Key {
    delegate: Arc<Delegate>,
    kind: Kind,
    inner: Owned,
    accelerated: Known<Accelerated>,
}

/// Which of the default provider's two kinds of RSA keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Signs and decrypts with any padding.
    Rsa,
    /// Signs with PSS only.
    RsaPss,
}

/// A private key that can be batched.
pub(crate) struct Accelerated {
    /// The key in the form that the batch kernels use.
    pub(crate) private: PrivateKey,
    /// What identifies it: the digest of its public half.
    pub(crate) name: KeyName,
    /// The same key in the default provider, where it limits PSS keys to PSS.
    twin: Option<Owned>,
}

impl Kind {
    /// The default provider's functions for such keys.
    pub(crate) fn functions(self, delegate: &Delegate) -> &KeymgmtFunctions {
        match self {
            Kind::Rsa => &delegate.algorithms.rsa.functions,
            Kind::RsaPss => &delegate.algorithms.rsa_pss.functions,
        }
    }
}

impl Key {
    /// The default provider's key.
    pub(super) fn as_ptr(&self) -> *mut c_void {
        self.inner.as_ptr()
    }

    /// What its private-key operation is counted as.
    pub(crate) fn operation_kind(&self) -> OperationKind {
        match self.accelerated().map(|accelerated| accelerated.private.size()) {
            Some(KeySize::Rsa2048) => OperationKind::Rsa2048,
            Some(KeySize::Rsa3072) => OperationKind::Rsa3072,
            Some(KeySize::Rsa4096) => OperationKind::Rsa4096,
            None => OperationKind::Other,
        }
    }

    /// Bytes of its signatures, if they can be batched.
    pub(crate) fn signature_bytes(&self) -> Option<usize> {
        self.accelerated().map(|accelerated| accelerated.private.size().bytes())
    }

    /// The key as the batch kernels use it; nothing where there are no kernels, no private
    /// key, or one that they do not know.
    pub(crate) fn accelerated(&self) -> Option<&Accelerated> {
        if RSA.is_empty() {
            return None;
        }
        // The caller may be on the small stack of an ASYNC job.
        let libcrypto = &self.delegate.libcrypto;
        let accelerate = || stack::on_large(|| quietly(libcrypto, || self.accelerate()));
        self.accelerated.get_or_find(|| accelerate().unwrap_or(Err(Unknown)))
    }

    /// Does one private-key operation on an encoded message by the default provider. This is the
    /// fastest way to do a single one.
    pub(crate) fn private_operation(&self, input: &[u8], output: &mut [u8]) -> bool {
        let twin = self.accelerated().and_then(|accelerated| accelerated.twin.as_ref());
        let inner = twin.unwrap_or(&self.inner).as_ptr();
        let mut padding = core::PADDING_NONE;
        let params = [params::int(core::PARAM_PAD_MODE, &mut padding), OsslParam::END];
        let functions = &self.delegate.algorithms.rsa_signature.functions;
        SignContext::begin(&self.delegate, functions, inner, &params)
            .is_some_and(|context| context.sign(input, output) == Some(output.len()))
    }

    /// Reads the numbers of the private key, which are wiped afterwards.
    pub(crate) fn with_components<R>(
        &self,
        read: impl FnOnce(&Components<'_>) -> Option<R>,
    ) -> Option<R> {
        read(&self.export()?.components()?)
    }

    fn accelerate(&self) -> Result<Option<Accelerated>, Unknown> {
        // Keys of other sizes are not worth reading their secrets.
        let bits = self.bits().ok_or(Unknown)?;
        if KeySize::ALL.iter().all(|size| Ok(size.bits()) != usize::try_from(bits)) {
            return Ok(None);
        }
        let numbers = self.export().ok_or(Unknown)?;
        let read = || {
            let private = PrivateKey::from_components(&numbers.components()?).ok()?;
            Some((private, numbers.name()?))
        };
        let Some((private, name)) = read() else { return Ok(None) };
        tell_of_unlocked_keys();
        let twin = match self.kind {
            Kind::Rsa => None,
            Kind::RsaPss => Some(self.unlimited_twin(&numbers).ok_or(Unknown)?),
        };
        Ok(Some(Accelerated { private, name, twin }))
    }

    fn bits(&self) -> Option<c_int> {
        let mut bits: c_int = 0;
        let mut params = [params::int(core::PKEY_PARAM_BITS, &mut bits), OsslParam::END];
        let get_params = self.functions().get_params?;
        // SAFETY: the key is the default provider's; `params` has an end.
        let known = unsafe { get_params(self.as_ptr(), params.as_mut_ptr()) > 0 };
        known.then_some(bits)
    }

    fn export(&self) -> Option<Numbers> {
        let mut numbers = Numbers::default();
        let into = ptr::from_mut(&mut numbers).cast();
        let export = self.functions().export?;
        // SAFETY: the key is the default provider's; `collect` gets the numbers that it expects.
        let exported = unsafe { export(self.as_ptr(), core::SELECT_ALL, Some(collect), into) > 0 };
        exported.then_some(numbers)
    }

    /// Makes a plain RSA key of the same numbers.
    fn unlimited_twin(&self, numbers: &Numbers) -> Option<Owned> {
        let functions = &self.delegate.algorithms.rsa.functions;
        let import = functions.import?;
        let native = |(name, number): &(&'static CStr, Secret)| {
            (*name, Secret(number.iter().rev().copied().collect()))
        };
        let found = numbers.found.iter().map(native).collect();
        let native = Numbers { found, unusual: false };
        let mut params: Vec<OsslParam> =
            native.found.iter().map(|(name, bytes)| params::number_in(name, bytes)).collect();
        params.push(OsslParam::END);
        let twin = Owned::made(functions.new, &self.delegate, functions.free)?;
        // SAFETY: the key was made above; `params` has an end.
        let imported = unsafe { import(twin.as_ptr(), core::SELECT_ALL, params.as_ptr()) > 0 };
        imported.then_some(twin)
    }
}

impl ManagedKey for Key {
    type Kind = Kind;
    type Generation = WrappedGeneration;

    fn functions_of(kind: Kind, delegate: &Delegate) -> &KeymgmtFunctions {
        kind.functions(delegate)
    }

    fn make(delegate: &Arc<Delegate>, kind: Kind) -> Option<Arc<Self>> {
        let new = kind.functions(delegate).new?;
        // SAFETY: the default provider's own context.
        Key::adopt(delegate, kind, unsafe { new(delegate.provctx) })
    }

    fn adopt(delegate: &Arc<Delegate>, kind: Kind, inner: *mut c_void) -> Option<Arc<Self>> {
        let inner = Owned::adopt(inner, kind.functions(delegate).free)?;
        let delegate = Arc::clone(delegate);
        Some(Arc::new(Key { delegate, kind, inner, accelerated: Known::new() }))
    }

    unsafe fn generate(
        delegate: &Arc<Delegate>,
        kind: Kind,
        selection: c_int,
        params: *const OsslParam,
    ) -> Option<WrappedGeneration> {
        // SAFETY: passed on to the caller.
        unsafe { WrappedGeneration::begin(delegate, kind, selection, params) }
    }

    fn delegate(&self) -> &Arc<Delegate> {
        &self.delegate
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn inner(&self) -> Option<*mut c_void> {
        Some(self.as_ptr())
    }

    fn is_in_use(&self) -> bool {
        self.accelerated.is_known()
    }

    fn imported(self: Arc<Self>, selection: c_int) {
        if selection & core::SELECT_PRIVATE_KEY != 0 {
            loaded::add(&self);
        }
    }
}

/// The numbers of a private key; big-endian where nothing else is said.
#[derive(Default)]
struct Numbers {
    found: Vec<(&'static CStr, Secret)>,
    /// There is something about the key that batches do not know.
    unusual: bool,
}

impl Numbers {
    /// Those that batches compute with; nothing if there are not all, or others too.
    fn components(&self) -> Option<Components<'_>> {
        (!self.unusual).then_some(())?;
        Some(Components {
            n: self.get(core::PKEY_PARAM_RSA_N)?,
            e: self.get(core::PKEY_PARAM_RSA_E)?,
            p: self.get(core::PKEY_PARAM_RSA_FACTOR1)?,
            q: self.get(core::PKEY_PARAM_RSA_FACTOR2)?,
            dp: self.get(core::PKEY_PARAM_RSA_EXPONENT1)?,
            dq: self.get(core::PKEY_PARAM_RSA_EXPONENT2)?,
            qinv: self.get(core::PKEY_PARAM_RSA_COEFFICIENT1)?,
        })
    }

    /// What identifies the key: the digest of its public half. The modulus has no leading zeros, so
    /// where it ends is known.
    fn name(&self) -> Option<KeyName> {
        let mut public = self.get(core::PKEY_PARAM_RSA_N)?.to_vec();
        public.extend(self.get(core::PKEY_PARAM_RSA_E)?);
        let digest = Hash::choose(Algorithm::Sha256, &Policy::closed()).digest(&public);
        let mut name = KeyName::default();
        for (word, bytes) in name.iter_mut().zip(digest.as_ref().chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        Some(name)
    }

    fn get(&self, name: &CStr) -> Option<&[u8]> {
        self.found.iter().find(|(found, _)| *found == name).map(|(_, number)| &number[..])
    }

    fn take(&mut self, param: &OsslParam) {
        let name = params::key(param);
        if let Some(known) = NUMBERS.iter().find(|known| **known == name) {
            self.found.extend(params::big_endian(param).map(|number| (*known, Secret(number))));
        }
        // Further primes, and limits of a PSS key, which the default provider enforces.
        self.unusual |=
            name == core::PKEY_PARAM_RSA_FACTOR3 || name == core::SIGNATURE_PARAM_DIGEST;
    }
}

entry! {
    /// Takes the numbers of an exported key.
    fn collect(params: *const OsslParam, into: *mut c_void) -> c_int {
        // SAFETY: `export` passes its numbers on.
        let numbers = unsafe { borrow_mut::<Numbers>(into) }?;
        // SAFETY: the default provider's array has an end.
        for param in unsafe { params::iter(params) } {
            numbers.take(param);
        }
        Some(1)
    }
}

/// The numbers that make a private key.
const NUMBERS: &[&CStr] = &[
    core::PKEY_PARAM_RSA_N,
    core::PKEY_PARAM_RSA_E,
    core::PKEY_PARAM_RSA_D,
    core::PKEY_PARAM_RSA_FACTOR1,
    core::PKEY_PARAM_RSA_FACTOR2,
    core::PKEY_PARAM_RSA_EXPONENT1,
    core::PKEY_PARAM_RSA_EXPONENT2,
    core::PKEY_PARAM_RSA_COEFFICIENT1,
];
