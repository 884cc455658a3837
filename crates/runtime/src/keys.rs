//! Reading private keys: with decoders that are kept, instead of looked for again for each key.
//!
//! For each key in PEM, libcrypto compares the names of all key types with those of all decoders,
//! which a second provider makes more, and which takes ten times as long as to read the key. A
//! server with many certificates begins sooner when that is done once for the process's default
//! library context, until its providers change. What is read, and how, is libcrypto's own affair;
//! and where it needs a password or fails, nothing has been read, and it does all by itself.
#![allow(unsafe_code, reason = "calls libcrypto")]

use core::cell::Cell;
use core::ffi::{c_char, c_int, c_long, c_ulong, c_void};
use core::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::Mutex;

use crate::methods;
use crate::provider::provider;
use crate::real::{self, OpenSsl};
use crate::transfer::Transfer;

/// Reads the next private key, and leaves `bio` behind it; nothing, and `bio` where it was, if
/// libcrypto has to be asked.
pub(crate) fn read(bio: *mut c_void) -> Option<NonNull<c_void>> {
    static READER: Mutex<Option<Reader>> = Mutex::new(None);
    let openssl = real::openssl()?;
    methods::default_context(openssl)?;
    let bio = Source { openssl, bio };
    let begin = bio.position().filter(|begin| bio.go_to(*begin))?;
    // Another thread reads one just now, or did when the process forked.
    let mut reader = READER.try_lock().ok()?;
    (openssl.ERR_set_mark)();
    let changes = methods::changes();
    if reader.as_ref().is_none_or(|reader| reader.changes != changes) {
        *reader = Reader::new(openssl, changes);
    }
    let key = reader.as_mut().and_then(|reader| {
        let key = reader.read(&bio, begin)?;
        Some(reader.transferred(key))
    });
    (openssl.ERR_pop_to_mark)();
    if key.is_none() {
        bio.go_to(begin);
    }
    key
}

/// libcrypto's decoders of private keys in PEM.
struct Reader {
    openssl: &'static OpenSsl,
    /// [`methods::changes`] before its decoders were collected.
    changes: u64,
    /// `OSSL_DECODER_CTX`; it has the address of `found`.
    context: NonNull<c_void>,
    found: Rc<Found>,
    /// Where keys move that have been read, from when there is a provider.
    transfer: Option<Transfer>,
}

/// What the decoders tell of.
struct Found {
    /// The key that they have made.
    key: Cell<*mut c_void>,
    /// Whether they wanted a password.
    wants_password: Cell<bool>,
}

// SAFETY: a context of libcrypto's that one thread at a time may use, and cells that it writes
// then, with no other owner.
unsafe impl Send for Reader {}

impl Reader {
    fn new(openssl: &'static OpenSsl, changes: u64) -> Option<Self> {
        let found =
            Rc::new(Found { key: Cell::new(ptr::null_mut()), wants_password: Cell::new(false) });
        let any = ptr::null();
        let context = (openssl.OSSL_DECODER_CTX_new_for_pkey)(
            found.key.as_ptr(),
            c"PEM".as_ptr(),
            any,
            any,
            EVP_PKEY_KEYPAIR,
            ptr::null_mut(),
            any,
        );
        let wants_password = found.wants_password.as_ptr().cast();
        let context = NonNull::new(context)?;
        let reader = Reader { openssl, changes, context, found, transfer: None };
        let set = (openssl.OSSL_DECODER_CTX_set_pem_password_cb)(
            context.as_ptr(),
            Some(refuse),
            wants_password,
        );
        (set == 1).then_some(reader)
    }

    /// Reads up to the end of the first block that is a private key, as `PEM_read_bio_PrivateKey`
    /// does: blocks that no decoder knows are left out, and any other failure is the end.
    fn read(&self, bio: &Source<'_>, begin: usize) -> Option<NonNull<c_void>> {
        self.found.wants_password.set(false);
        let mut position = begin;
        loop {
            self.found.key.set(ptr::null_mut());
            let done = (bio.openssl.OSSL_DECODER_from_bio)(self.context.as_ptr(), bio.bio) == 1;
            let key = NonNull::new(self.found.key.get());
            if done && key.is_some() {
                return key;
            }
            let next = bio.position().filter(|next| *next > position && !bio.is_at_end())?;
            let reason = (bio.openssl.ERR_peek_error)() & ERR_REASON_MASK;
            if self.found.wants_password.get() || reason != ERR_R_UNSUPPORTED {
                return None;
            }
            (bio.openssl.ERR_pop_to_mark)();
            (bio.openssl.ERR_set_mark)();
            position = next;
        }
    }

    /// The key, or that of the provider's which takes its place.
    fn transferred(&mut self, key: NonNull<c_void>) -> NonNull<c_void> {
        if self.transfer.is_none() && provider().is_some() {
            self.transfer = Transfer::new(self.openssl);
        }
        self.transfer.as_mut().map_or(key, |transfer| transfer.transfer(key))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        (self.openssl.OSSL_DECODER_CTX_free)(self.context.as_ptr());
    }
}

/// A `BIO` of the program's, and the functions for it.
struct Source<'a> {
    openssl: &'a OpenSsl,
    bio: *mut c_void,
}

impl Source<'_> {
    /// Where the next byte comes from, if it is one that knows and can go back.
    fn position(&self) -> Option<usize> {
        let kind = (self.openssl.BIO_method_type)(self.bio);
        if ![BIO_TYPE_MEM, BIO_TYPE_FILE].contains(&kind) {
            return None;
        }
        usize::try_from(self.control(BIO_C_FILE_TELL, 0)).ok()
    }

    fn go_to(&self, position: usize) -> bool {
        position.try_into().is_ok_and(|position| self.control(BIO_C_FILE_SEEK, position) >= 0)
    }

    fn is_at_end(&self) -> bool {
        self.control(BIO_CTRL_EOF, 0) != 0
    }

    fn control(&self, command: c_int, argument: c_long) -> c_long {
        real::BIO_ctrl(self.bio, command, argument, ptr::null_mut())
    }
}

/// Has no password, and notes that one is wanted.
unsafe extern "C" fn refuse(
    _password: *mut c_char,
    _room: c_int,
    _writes: c_int,
    wants_password: *mut c_void,
) -> c_int {
    // SAFETY: the cell of the reader that is at work, which outlives its context.
    unsafe { wants_password.cast::<bool>().write(true) };
    -1
}

/// All parts of a key, as `PEM_read_bio_PrivateKey` wants them.
pub(crate) const EVP_PKEY_KEYPAIR: c_int = 0x87;

const BIO_TYPE_MEM: c_int = 0x401;
const BIO_TYPE_FILE: c_int = 0x402;

const BIO_CTRL_EOF: c_int = 2;
const BIO_C_FILE_SEEK: c_int = 128;
const BIO_C_FILE_TELL: c_int = 133;

/// The part of an error's number that is the reason.
const ERR_REASON_MASK: c_ulong = 0x7f_ffff;
const ERR_R_UNSUPPORTED: c_ulong = 0x08_010c;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use foreign_types::ForeignType;
    use openssl::ec::{EcGroup, EcKey};
    use openssl::error::ErrorStack;
    use openssl::nid::Nid;
    use openssl::pkey::{PKey, Private};
    use openssl::rsa::Rsa;
    use openssl::symm;
    use openssl_sys as ffi;

    use super::*;

    /// A `BIO` over a text in memory.
    struct Text(*mut ffi::BIO);

    impl Text {
        fn new(text: &[u8]) -> Self {
            let length = text.len().try_into().expect("a short text");
            // SAFETY: the text outlives what the tests do with it.
            Text(unsafe { ffi::BIO_new_mem_buf(text.as_ptr().cast(), length) })
        }

        fn position(&self) -> c_long {
            // SAFETY: a `BIO`.
            unsafe { ffi::BIO_ctrl(self.0, BIO_C_FILE_TELL, 0, ptr::null_mut()) }
        }

        fn read(&self) -> Option<PKey<Private>> {
            // A key is left to libcrypto while another thread reads one.
            static TURN: Mutex<()> = Mutex::new(());
            let _turn = TURN.lock().expect("nobody panics");
            // SAFETY: a new key, owned from now on.
            read(self.0.cast()).map(|key| unsafe { PKey::from_ptr(key.as_ptr().cast()) })
        }

        /// What libcrypto reads by itself.
        fn read_natively(&self) -> Option<PKey<Private>> {
            let key = real::PEM_read_bio_PrivateKey(
                self.0.cast(),
                ptr::null_mut(),
                Some(no_password),
                ptr::null_mut(),
            );
            // SAFETY: as above.
            NonNull::new(key).map(|key| unsafe { PKey::from_ptr(key.as_ptr().cast()) })
        }
    }

    impl Drop for Text {
        fn drop(&mut self) {
            // SAFETY: made by `new`, freed once.
            unsafe { ffi::BIO_free_all(self.0) };
        }
    }

    /// A password that fits nothing: the one that libcrypto would ask the terminal for.
    unsafe extern "C" fn no_password(_: *mut c_char, _: c_int, _: c_int, _: *mut c_void) -> c_int {
        -1
    }

    fn ec() -> EcKey<Private> {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        EcKey::generate(&group).unwrap()
    }

    fn keys() -> Vec<Vec<u8>> {
        let rsa = Rsa::generate(2048).unwrap();
        let parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n\
            -----END EC PARAMETERS-----\n";
        vec![
            rsa.private_key_to_pem().unwrap(),
            PKey::from_rsa(rsa).unwrap().private_key_to_pem_pkcs8().unwrap(),
            ec().private_key_to_pem().unwrap(),
            [&parameters[..], &ec().private_key_to_pem().unwrap()].concat(),
            PKey::from_ec_key(ec()).unwrap().private_key_to_pem_pkcs8().unwrap(),
            PKey::generate_ed25519().unwrap().private_key_to_pem_pkcs8().unwrap(),
        ]
    }

    #[test]
    fn reads_what_libcrypto_reads_and_no_further() {
        let public = PKey::from_ec_key(ec()).unwrap().public_key_to_pem().unwrap();
        for key in keys() {
            let behind = [&key[..], &key[..], b"and more"].concat();
            let before = [&public[..], &key[..]].concat();
            for text in [key, behind, before] {
                let (ours, native) = (Text::new(&text), Text::new(&text));
                let (key, expected) = (ours.read().unwrap(), native.read_natively().unwrap());
                assert!(key.public_eq(&expected));
                let der = |key: &PKey<Private>| key.private_key_to_der().unwrap();
                assert_eq!(der(&key), der(&expected));
                assert_eq!(ours.position(), native.position());
                assert!(ErrorStack::get().errors().is_empty());
            }
        }
    }

    #[test]
    fn leaves_to_libcrypto_what_needs_a_password_or_fails() {
        let key = PKey::from_ec_key(ec()).unwrap();
        let pkcs8 = key
            .private_key_to_pem_pkcs8_passphrase(symm::Cipher::aes_128_cbc(), b"password")
            .unwrap();
        let traditional =
            ec().private_key_to_pem_passphrase(symm::Cipher::aes_128_cbc(), b"password").unwrap();
        let plain = key.private_key_to_pem_pkcs8().unwrap();
        let public = key.public_key_to_pem().unwrap();
        let cut = plain[..plain.len() / 2].to_vec();
        let broken = String::from_utf8(plain.clone()).unwrap().replacen("\nM", "\n/", 1);
        for text in [
            // Libcrypto asks for the password of the first, and never gets to the second.
            [pkcs8, plain.clone()].concat(),
            [traditional, plain.clone()].concat(),
            public,
            cut,
            broken.into_bytes(),
            b"no key at all".to_vec(),
            Vec::new(),
        ] {
            let shown = String::from_utf8_lossy(&text).into_owned();
            let ours = Text::new(&text);
            assert!(ours.read().is_none(), "{shown}");
            assert_eq!(ours.position(), 0, "{shown}");
            assert!(ErrorStack::get().errors().is_empty(), "{shown}");
            assert!(Text::new(&text).read_natively().is_none(), "{shown}");
            assert!(!ErrorStack::get().errors().is_empty(), "{shown}");
            assert!(Text::new(&plain).read().is_some(), "the next one is read again");
        }
    }

    #[test]
    fn a_source_without_positions_is_left_alone() {
        let (mut theirs, mut ours) = UnixStream::pair().unwrap();
        theirs.write_all(&keys()[2]).unwrap();
        drop(theirs);
        // SAFETY: an open socket, which the `BIO` does not close.
        let bio = Text(unsafe { ffi::BIO_new_socket(ours.as_raw_fd(), 0) });
        assert!(bio.read().is_none());
        let mut begin = [0; 10];
        ours.read_exact(&mut begin).unwrap();
        assert_eq!(begin, *b"-----BEGIN", "nothing was taken out of it");
    }
}
