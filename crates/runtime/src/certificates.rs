//! Certificates of peers, each decoded once.
//!
//! OpenSSL before 3.2 takes 90 µs to decode a certificate: for the public key in it, it collects
//! the decoders of all providers anew. A handshake decodes every certificate that the peer shows,
//! and once more that of the peer for each ticket that is written and each that is shown. So a
//! thread keeps the last certificates that libssl decoded, by their encodings. Connections that are
//! shown the same one share one object, as all connections share those of the program's store.
//! Nothing is trusted for having been seen: chains are verified each time.
//!
//! A program that stores data of its own in a certificate that may be shared is given its own
//! objects from then on. Such certificates are marked, since the program may store the data in
//! another thread, or when the certificate has made room for others.

use core::ffi::{CStr, c_long, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::extra_data::{Index, OF_CERTIFICATES};
use crate::methods;
use crate::real::{self, OpenSsl};

/// Certificates that a thread keeps, of some 8 KiB each: those of a program's upstreams, of an
/// authority's intermediates, and of the clients that came last.
const KEPT_MAX: usize = 64;

/// Bytes of the longest encoding that is kept.
const ENCODING_BYTES_MAX: usize = 8 << 10;

/// Whether a thread has kept a certificate.
static IS_ANY_KEPT: AtomicBool = AtomicBool::new(false);
/// Whether the program stores data of its own in its peers' certificates.
static ARE_CHANGED: AtomicBool = AtomicBool::new(false);

/// What one thread keeps.
pub(crate) struct Certificates {
    kept: Vec<Kept>,
    /// The certificate that libssl has just made to decode into; only compared.
    new: *mut c_void,
}

/// A certificate kept, with a reference.
struct Kept {
    encoding: Box<[u8]>,
    certificate: *mut c_void,
}

impl Certificates {
    pub(crate) const EMPTY: Self = Self { kept: Vec::new(), new: ptr::null_mut() };

    /// The certificate of this encoding, with a reference for the caller, if it is kept.
    fn find(&mut self, openssl: &OpenSsl, encoding: &[u8]) -> Option<*mut c_void> {
        let place = self.kept.iter().position(|kept| *kept.encoding == *encoding)?;
        let certificate = self.kept[place].certificate;
        // What comes often stays in front of what is replaced.
        self.kept.swap(place, place / 2);
        ((openssl.X509_up_ref)(certificate) == 1).then_some(certificate)
    }

    /// Keeps a certificate that was decoded from this encoding.
    fn keep(&mut self, openssl: &OpenSsl, encoding: &[u8], certificate: *mut c_void) {
        let is_short = encoding.len() <= ENCODING_BYTES_MAX;
        if !is_short || !has_key(openssl, certificate) || !mark(openssl, certificate) {
            return;
        }
        if (openssl.X509_up_ref)(certificate) != 1 {
            return;
        }
        IS_ANY_KEPT.store(true, Ordering::Relaxed);
        let new = Kept { encoding: encoding.into(), certificate };
        if self.kept.len() < KEPT_MAX {
            self.kept.push(new);
        } else if let Some(last) = self.kept.last_mut() {
            (openssl.X509_free)(core::mem::replace(last, new).certificate);
        }
    }

    pub(crate) fn clear(&mut self, openssl: &OpenSsl) {
        for kept in self.kept.drain(..) {
            (openssl.X509_free)(kept.certificate);
        }
        self.new = ptr::null_mut();
    }
}

/// Whether libcrypto could make sense of the public key, and had the memory for it.
fn has_key(openssl: &OpenSsl, certificate: *mut c_void) -> bool {
    !openssl.quietly(|| (openssl.X509_get0_pubkey)(certificate)).is_null()
}

/// Called when libssl, or a program, has made an empty certificate.
pub(crate) fn note_new(context: *mut c_void, properties: Option<&CStr>, certificate: *mut c_void) {
    let is_plain = properties.is_none_or(CStr::is_empty);
    with_certificates(context, |_, certificates| {
        certificates.new = if is_plain { certificate } else { ptr::null_mut() };
    });
}

/// Whether this is the empty certificate that the thread made last. It is asked once.
pub(crate) fn is_new(certificate: *mut c_void) -> bool {
    let new = with_certificates(ptr::null_mut(), |_, certificates| {
        core::mem::replace(&mut certificates.new, ptr::null_mut())
    });
    !certificate.is_null() && new == Some(certificate)
}

/// The certificate of an encoding, with a reference for the caller, if it is kept.
pub(crate) fn find(encoding: &[u8]) -> Option<*mut c_void> {
    with_certificates(ptr::null_mut(), |openssl, certificates| {
        certificates.find(openssl, encoding)
    })?
}

/// Keeps a certificate that was decoded from this encoding, and from all of it, unless anything has
/// changed since [`methods::changes`] was `before`: its key lies with a provider.
pub(crate) fn keep(encoding: &[u8], certificate: *mut c_void, before: u64) {
    with_certificates(ptr::null_mut(), |openssl, certificates| {
        if methods::changes() == before {
            certificates.keep(openssl, encoding, certificate);
        }
    });
}

/// The certificate of an encoding, with a reference for the caller, decoded now if it is not kept;
/// nothing if it is not an encoding of one, or where nothing is kept.
pub(crate) fn of_encoding(encoding: &[u8]) -> Option<*mut c_void> {
    let known = with_certificates(ptr::null_mut(), |openssl, certificates| {
        certificates.find(openssl, encoding)
    })?;
    if known.is_some() {
        return known;
    }
    let openssl = real::openssl()?;
    let bytes = c_long::try_from(encoding.len()).ok()?;
    let before = methods::changes();
    let mut input = encoding.as_ptr();
    let certificate = openssl.quietly(|| real::d2i_X509(ptr::null_mut(), &mut input, bytes));
    if certificate.is_null() {
        return None;
    }
    if input != encoding.as_ptr_range().end {
        (openssl.X509_free)(certificate);
        return None;
    }
    keep(encoding, certificate, before);
    Some(certificate)
}

/// Called when a program stores data of its own in a certificate.
pub(crate) fn note_data(certificate: *const c_void) {
    if !IS_ANY_KEPT.load(Ordering::Relaxed) || ARE_CHANGED.load(Ordering::Relaxed) {
        return;
    }
    if real::openssl().is_some_and(|openssl| is_marked(openssl, certificate)) {
        ARE_CHANGED.store(true, Ordering::Relaxed);
        methods::forget();
    }
}

/// Marks a certificate as one that connections may share; false where there is no memory for it.
fn mark(openssl: &OpenSsl, certificate: *mut c_void) -> bool {
    let mark = ptr::from_ref(&IS_ANY_KEPT).cast_mut().cast();
    PLACE.get(openssl).is_some_and(|index| real::X509_set_ex_data(certificate, index, mark) == 1)
}

fn is_marked(openssl: &OpenSsl, certificate: *const c_void) -> bool {
    PLACE
        .get(openssl)
        .is_some_and(|index| !(openssl.X509_get_ex_data)(certificate, index).is_null())
}

/// Where marks are stored.
static PLACE: Index = Index::new(OF_CERTIFICATES);

fn with_certificates<T>(
    context: *mut c_void,
    f: impl FnOnce(&OpenSsl, &mut Certificates) -> T,
) -> Option<T> {
    if ARE_CHANGED.load(Ordering::Relaxed) {
        return None;
    }
    methods::with_certificates(context, f)
}

#[cfg(test)]
mod tests {
    use foreign_types::ForeignType;
    use openssl::hash::MessageDigest;
    use openssl::pkey::PKey;
    use openssl::x509::X509;

    use super::*;

    /// A certificate with nothing in it but a key.
    fn certificate() -> X509 {
        let key = PKey::ec_gen("prime256v1").expect("a key");
        let mut certificate = X509::builder().expect("memory");
        certificate.set_pubkey(&key).expect("a key");
        certificate.sign(&key, MessageDigest::sha256()).expect("a signature");
        certificate.build()
    }

    #[test]
    fn what_was_decoded_before_a_change_is_not_kept() {
        methods::keep_for_program();
        let certificate = certificate();
        let encoding = certificate.to_der().expect("DER");
        let is_kept = |before| {
            keep(&encoding, certificate.as_ptr().cast(), before);
            let free = |found| (real::openssl().expect("OpenSSL").X509_free)(found);
            find(&encoding).map(free).is_some()
        };
        let before = methods::changes();
        methods::forget();
        assert!(!is_kept(before));
        // Other tests may change something meanwhile.
        assert!((0..100).any(|_| is_kept(methods::changes())));
    }
}
