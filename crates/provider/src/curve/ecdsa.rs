//! ECDSA on our curves. We only ever report signatures as valid. Anything that our kernel rejects,
//! or that is not strict DER, is verified again by the default provider, whose result and errors
//! the program gets.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use widelane_bridge::counters::OperationKind;
use widelane_crypto::ec::encoding;
use widelane_crypto::rsa::encoding::DigestAlgorithm;
use widelane_ossl_sys::core::{self, OsslParam};
use widelane_ossl_sys::dispatch::SignatureFunctions;

use crate::batching::{self, Made};
use crate::curve::batch::{SignDigest, VerifyDigest};
use crate::curve::key::Key;
use crate::curve::verified::Statement;
use crate::curve::{Curve, single};
use crate::delegate::{Delegate, SignContext};
use crate::digest::DIGEST_BYTES_MAX;
use crate::keymgmt::ManagedKey;
use crate::secret::Secret;
use crate::signature::{Context, Found, Signer, SignerKey};
use crate::{digest, params};

/// ECDSA.
pub(crate) enum Ecdsa {}

/// How a signature was begun.
#[derive(Clone, Copy)]
pub(crate) struct Begun {
    way: Way,
    what: What,
}

/// What is done with a signature.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It is made.
    Sign,
    /// It is there.
    Verify,
}

/// What is signed.
#[derive(Clone, Copy)]
enum What {
    /// What is given as a digest.
    Digest,
    /// The digest of a message.
    Message(DigestAlgorithm),
}

impl SignerKey for Key {
    fn sign_kind(&self) -> OperationKind {
        self.known_curve().map_or(OperationKind::Other, Curve::sign_kind)
    }

    fn verify_kind(&self) -> OperationKind {
        self.known_curve().map_or(OperationKind::Other, Curve::verify_kind)
    }
}

/// Whether signatures of a digest count on every system: of SHA-1 the default provider says.
fn is_allowed_everywhere(algorithm: &DigestAlgorithm) -> bool {
    !matches!(algorithm, DigestAlgorithm::Sha1 | DigestAlgorithm::Md5Sha1)
}

impl Signer for Ecdsa {
    type Key = Key;
    type Begun = Begun;

    const ACCOMPANIED: bool = false;

    fn table(delegate: &Delegate) -> &SignatureFunctions {
        &delegate.algorithms.ecdsa.functions
    }

    fn signs_given() -> Option<Begun> {
        Some(Begun { way: Way::Sign, what: What::Digest })
    }

    fn signs_message(digest: Option<&CStr>) -> Option<Begun> {
        let algorithm = digest.and_then(digest::by_name).filter(is_allowed_everywhere)?;
        Some(Begun { way: Way::Sign, what: What::Message(algorithm) })
    }

    fn verifies_given() -> Option<Begun> {
        Some(Begun { way: Way::Verify, what: What::Digest })
    }

    fn verifies_message(digest: Option<&CStr>) -> Option<Begun> {
        let algorithm = digest.and_then(digest::by_name).filter(is_allowed_everywhere)?;
        Some(Begun { way: Way::Verify, what: What::Message(algorithm) })
    }

    fn knows(key: &Arc<Key>, begun: Begun) -> bool {
        match begun.way {
            Way::Sign => matches!(key.private_curve(), Some(Curve::Ec(_))),
            // The point is on its curve if there is one.
            Way::Verify => key.ec_public().is_some(),
        }
    }

    unsafe fn begin_theirs(
        functions: &SignatureFunctions,
        begun: Begun,
        context: *mut c_void,
        key: *mut c_void,
    ) -> Option<c_int> {
        match begun.what {
            What::Digest => {
                let begin = match begun.way {
                    Way::Sign => functions.sign_init?,
                    Way::Verify => functions.verify_init?,
                };
                // SAFETY: passed on to the caller.
                Some(unsafe { begin(context, key, ptr::null()) })
            }
            What::Message(algorithm) => {
                let begin = match begun.way {
                    Way::Sign => functions.digest_sign_init?,
                    Way::Verify => functions.digest_verify_init?,
                };
                let name = digest::name(algorithm).as_ptr();
                // SAFETY: passed on to the caller, and the name is a C string.
                Some(unsafe { begin(context, name, key, ptr::null()) })
            }
        }
    }

    fn digest_of(begun: Begun) -> Option<DigestAlgorithm> {
        match begun.what {
            What::Digest => None,
            What::Message(algorithm) => Some(algorithm),
        }
    }

    fn longest(context: &Context<Self>) -> Option<usize> {
        let key = key_begun(context, Way::Sign)?;
        let [_, _, bytes] = key.curve()?.sizes();
        usize::try_from(bytes).ok()
    }

    fn sign(context: &Context<Self>, given: &[u8], size: usize) -> Made {
        let Some(key) = &context.key else { return Made::Theirs };
        let is_usual = !context.is_set_midway
            && Self::longest(context).is_some_and(|longest| size >= longest)
            && (1..=DIGEST_BYTES_MAX).contains(&given.len());
        let made = if is_usual {
            sign(context, key, given)
        } else if let Some(algorithm) = context.ours.and_then(Self::digest_of) {
            sign_delegated(context, key, (algorithm, given), size)
        } else {
            return Made::Theirs;
        };
        made.map_or(Made::Nothing, Made::Done)
    }

    fn verify(context: &Context<Self>, given: &[u8], signature: &[u8]) -> Found {
        let is_usual = !context.is_set_midway && (1..=DIGEST_BYTES_MAX).contains(&given.len());
        let Some(key) = key_begun(context, Way::Verify).filter(|_| is_usual) else {
            return Found::Theirs;
        };
        let Some(Curve::Ec(curve)) = key.curve() else { return Found::Theirs };
        // OpenSSL takes nothing but DER, either.
        let Ok(signature) = encoding::signature_from_der(curve, signature) else {
            return Found::Theirs;
        };
        let Some(public) = key.known_public() else { return Found::Theirs };
        let statement = Statement::new(curve, public, given, &signature);
        if statement.is_known() {
            return Found::Good;
        }
        let (key, digest) = (Arc::clone(key), given.into());
        match batching::run(VerifyDigest { key, digest, signature }) {
            Made::Done(_) => {
                statement.remember();
                Found::Good
            }
            Made::Theirs => Found::Theirs,
            Made::Nothing => Found::Nothing,
        }
    }
}

/// The key of a context, if that was begun for us to do this.
fn key_begun(context: &Context<Ecdsa>, way: Way) -> Option<&Arc<Key>> {
    context.key.as_ref().filter(|_| context.ours.is_some_and(|begun| begun.way == way))
}

/// Signs a digest, in a batch or alone as [`batching::run`] decides; nothing if it fails.
fn sign(context: &Context<Ecdsa>, key: &Arc<Key>, digest: &[u8]) -> Option<Secret> {
    let entropy = context.delegate.random_secret(32)?;
    let operation = SignDigest { key: Arc::clone(key), digest: digest.into(), entropy };
    batching::run(operation).or_theirs(|| {
        context.count_delegated();
        single::sign_digest(key, digest)
    })
}

/// Has the default provider sign the digest of a message: the key, or how the nonce is made, has
/// changed since the message began, or the buffer may be too small.
fn sign_delegated(
    context: &Context<Ecdsa>,
    key: &Arc<Key>,
    (algorithm, digest): (DigestAlgorithm, &[u8]),
    size: usize,
) -> Option<Secret> {
    context.count_delegated();
    let functions = context.functions();
    // Before OpenSSL 3.2 there is one way, and this stays what it is.
    let mut nonce_type = 0;
    let mut asked =
        [params::uint(core::SIGNATURE_PARAM_NONCE_TYPE, &mut nonce_type), OsslParam::END];
    // SAFETY: a context of the default provider; `asked` has an end.
    let told = unsafe { functions.get_ctx_params?(context.inner()?, asked.as_mut_ptr()) };
    if told <= 0 {
        return None;
    }
    let set = [
        params::text_in(core::SIGNATURE_PARAM_DIGEST, digest::name(algorithm)),
        params::uint(core::SIGNATURE_PARAM_NONCE_TYPE, &mut nonce_type),
        OsslParam::END,
    ];
    SignContext::begin(&context.delegate, functions, key.inner()?, &set)?
        .signature(digest, size.min(single::SIGNATURE_BYTES_MAX))
}
