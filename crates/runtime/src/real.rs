//! The functions behind ours: libc's, libssl's and libcrypto's, found by `dlsym` when first needed.
//!
//! Nothing here links against OpenSSL: a program may bring any version of it, load it late, or not
//! at all. `RTLD_NEXT` finds what the program would have called without us; a library that the
//! program loaded locally (as Python does) is found by its name.
#![allow(unsafe_code, reason = "dlsym and the conversion of its addresses to functions")]

use core::ffi::{CStr, c_char, c_int, c_long, c_uchar, c_uint, c_ulong, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::OnceLock;

use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, sockaddr, socklen_t, timespec, timeval};

use crate::methods::NameCallback;
use crate::sessions::NewSession;

/// A function that we stand in front of, resolved at its first call.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The address of the function, null if no other library has one of this name.
    pub(crate) fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let found = next_symbol(self.name);
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// The name of a function as the loader takes it.
macro_rules! name {
    ($name:ident) => {
        const {
            match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes())
            {
                Ok(name) => name,
                Err(_) => panic!("it has a nul at its end"),
            }
        }
    };
}
pub(crate) use name;

/// Finds the functions of the C library. A program may call them in a signal handler, or on a
/// thread for which a constructor of a library waits: then it is too late to ask the loader, which
/// takes its lock.
pub(crate) fn find_functions_of_system() {
    of_system::ALL.iter().for_each(|function| _ = function.address());
}

/// Whether anything of the process is called `name`.
pub(crate) fn is_defined(name: &CStr) -> bool {
    !address_of(name).is_null()
}

/// The version of Python that the process contains, as `PY_VERSION_HEX` has it; from 3.11 on.
pub(crate) fn python_version() -> Option<c_ulong> {
    let version = address_of(c"Py_Version").cast::<c_ulong>();
    // SAFETY: null, or CPython's constant of this type.
    unsafe { version.as_ref() }.copied()
}

/// The address of the symbol `name`, or null.
fn address_of(name: &CStr) -> *mut c_void {
    // SAFETY: a C string; looking up a symbol has no precondition.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// The next definition of `name` after ours, in the global scope or in a TLS library loaded
/// locally.
fn next_symbol(name: &CStr) -> *mut c_void {
    const LIBRARIES: [&CStr; 6] = [
        c"libssl.so.3",
        c"libssl.so.4",
        c"libssl.so.1.1",
        c"libcrypto.so.3",
        c"libcrypto.so.4",
        c"libcrypto.so.1.1",
    ];
    let in_libraries = || {
        let mut loaded = LIBRARIES.into_iter().filter_map(loaded_library);
        loaded.find_map(|library| function_in(library, name))
    };
    function_in(libc::RTLD_NEXT, name).or_else(in_libraries).unwrap_or(ptr::null_mut())
}

/// Declares functions that we stand in front of, in a module of their own; with a `const` before
/// them also the list of them.
macro_rules! next_functions {
    ($(
        fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty, or $failure:expr)?;
    )*) => {
        #[allow(non_upper_case_globals, reason = "the names of OpenSSL")]
        pub(super) mod next {
            use $crate::real::Next;

            $(pub(crate) static $name: Next = Next::new($crate::real::name!($name));)*
        }

        $(
            /// The function of this name that the program would call without us.
            ///
            /// A thread that is cancelled in it unwinds, and so does one in a callback that throws.
            #[allow(non_snake_case, reason = "the names of OpenSSL")]
            pub(crate) fn $name($($argument: $type),*) $(-> $result)? {
                let address = next::$name.address();
                if address.is_null() {
                    $crate::real::set_errno(libc::ENOSYS);
                    return $($failure)?;
                }
                // SAFETY: the function of this name has this signature, by its public header.
                let function = unsafe {
                    core::mem::transmute::<
                        *mut core::ffi::c_void,
                        extern "C-unwind" fn($($type),*) $(-> $result)?,
                    >(address)
                };
                function($($argument),*)
            }
        )*
    };
    (const $all:ident; $(
        fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty, or $failure:expr)?;
    )*) => {
        $crate::real::next_functions! {
            $(fn $name($($argument: $type),*) $(-> $result, or $failure)?;)*
        }

        pub(super) const $all: &[&$crate::real::Next] = &[$(&next::$name),*];
    };
}
pub(crate) use next_functions;

pub(crate) use self::of_openssl::*;
pub(crate) use self::of_system::*;
pub(crate) use crate::interpose::fetch::changing::*;
pub(crate) use crate::interpose::fetch::look_ups::*;
pub(crate) use crate::interpose::ssl::data::*;

mod of_system {
    use super::*;

    next_functions! {
        const ALL;
        fn accept(listener: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int, or -1;
        fn accept4(
            listener: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int
        ) -> c_int, or -1;
        fn close(descriptor: c_int) -> c_int, or -1;
        fn epoll_ctl(
            epoll: c_int, operation: c_int, descriptor: c_int, event: *mut epoll_event
        ) -> c_int, or -1;
        fn epoll_wait(
            epoll: c_int, events: *mut epoll_event, count: c_int, timeout: c_int
        ) -> c_int, or -1;
        fn epoll_pwait(
            epoll: c_int, events: *mut epoll_event, count: c_int, timeout: c_int,
            mask: *const sigset_t
        ) -> c_int, or -1;
        fn epoll_pwait2(
            epoll: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec,
            mask: *const sigset_t
        ) -> c_int, or -1;
        fn chroot(path: *const c_char) -> c_int, or -1;
        fn exit(status: c_int);
        fn pthread_create(
            thread: *mut libc::pthread_t, attributes: *const libc::pthread_attr_t,
            start: extern "C-unwind" fn(*mut c_void) -> *mut c_void, argument: *mut c_void
        ) -> c_int, or libc::EAGAIN;
        fn pthread_exit(result: *mut c_void);
        fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void, or ptr::null_mut();
        fn execve(path: *const c_char, arguments: Strings, variables: Strings) -> c_int, or -1;
        fn execvpe(file: *const c_char, arguments: Strings, variables: Strings) -> c_int, or -1;
        fn recv(
            descriptor: c_int, buffer: *mut c_void, bytes: usize, flags: c_int
        ) -> isize, or -1;
        fn send(
            descriptor: c_int, buffer: *const c_void, bytes: usize, flags: c_int
        ) -> isize, or -1;
        fn poll(descriptors: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int, or -1;
        fn ppoll(
            descriptors: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t
        ) -> c_int, or -1;
        fn pselect(
            count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
            timeout: *const timespec, mask: *const sigset_t
        ) -> c_int, or -1;
        fn select(
            count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
            timeout: *mut timeval
        ) -> c_int, or -1;
    }
}

/// Beside those that the tables of [`crate::interpose`] declare with their doors.
mod of_openssl {
    use super::*;

    next_functions! {
        fn ASN1_item_i2d(
            value: *const c_void, output: *mut *mut c_uchar, item: *const c_void
        ) -> c_int, or -1;
        fn ASN1_item_d2i(
            value: *mut *mut c_void, input: *mut *const c_uchar, bytes: c_long, item: *const c_void
        ) -> *mut c_void, or ptr::null_mut();
        fn X509_new_ex(
            context: *mut c_void, properties: *const c_char
        ) -> *mut c_void, or ptr::null_mut();
        fn X509_set_ex_data(
            certificate: *mut c_void, index: c_int, data: *mut c_void
        ) -> c_int, or 0;
        fn d2i_X509(
            certificate: *mut *mut c_void, input: *mut *const c_uchar, bytes: c_long
        ) -> *mut c_void, or ptr::null_mut();
        fn BIO_ctrl(
            bio: *mut c_void, command: c_int, number: c_long, argument: *mut c_void
        ) -> c_long, or 0;
        fn ENGINE_pkey_asn1_find_str(
            engine: *mut *mut c_void, name: *const c_char, length: c_int
        ) -> *const c_void, or ptr::null();
        fn EVP_set_default_properties(
            context: *mut c_void, properties: *const c_char
        ) -> c_int, or 0;
        fn EVP_KEYMGMT_is_a(key_management: *const c_void, name: *const c_char) -> c_int, or 0;
        fn EVP_KEYMGMT_names_do_all(
            key_management: *const c_void, callback: Option<NameCallback>, argument: *mut c_void
        ) -> c_int, or 0;
        fn OPENSSL_thread_stop();
        fn OPENSSL_thread_stop_ex(context: *mut c_void);
        fn RAND_bytes_ex(
            context: *mut c_void, bytes: *mut c_uchar, count: usize, strength: c_uint
        ) -> c_int, or 0;
        fn RAND_get0_private(context: *mut c_void) -> *const c_void, or ptr::null();
        fn RAND_get0_public(context: *mut c_void) -> *const c_void, or ptr::null();
        fn RAND_get_rand_method() -> *const c_void, or ptr::null();
        fn PEM_read_bio_PrivateKey(
            bio: *mut c_void, key: *mut *mut c_void, ask: PasswordCallback, argument: *mut c_void
        ) -> *mut c_void, or ptr::null_mut();
        fn PEM_read_bio_PrivateKey_ex(
            bio: *mut c_void, key: *mut *mut c_void, ask: PasswordCallback, argument: *mut c_void,
            context: *mut c_void, properties: *const c_char
        ) -> *mut c_void, or ptr::null_mut();
        fn SSL_CTX_new(method: *const c_void) -> *mut c_void, or ptr::null_mut();
        fn SSL_CTX_new_ex(
            context: *mut c_void, properties: *const c_char, method: *const c_void
        ) -> *mut c_void, or ptr::null_mut();
        fn SSL_CTX_sess_get_new_cb(context: *mut c_void) -> Option<NewSession>, or None;
        fn SSL_CTX_sess_set_new_cb(context: *mut c_void, new_session: Option<NewSession>);
        fn SSL_CTX_set_cert_cb(
            context: *mut c_void, callback: CertificateCallback, argument: *mut c_void
        );
        fn SSL_CTX_use_PrivateKey(context: *mut c_void, key: *mut c_void) -> c_int, or 0;
        fn SSL_CTX_use_PrivateKey_file(
            context: *mut c_void, file: *const c_char, format: c_int
        ) -> c_int, or 0;
        fn SSL_accept(ssl: *mut c_void) -> c_int, or -1;
        fn SSL_clear(ssl: *mut c_void) -> c_int, or 0;
        fn SSL_do_handshake(ssl: *mut c_void) -> c_int, or -1;
        fn SSL_free(ssl: *mut c_void);
        fn SSL_get_error(ssl: *const c_void, result: c_int) -> c_int, or SSL_ERROR_SSL;
        fn SSL_read_early_data(
            ssl: *mut c_void, buffer: *mut c_void, bytes: usize, done: *mut usize
        ) -> c_int, or 0;
        fn SSL_stateless(ssl: *mut c_void) -> c_int, or -1;
        fn SSL_get_fd(ssl: *const c_void) -> c_int, or -1;
        fn SSL_get_rfd(ssl: *const c_void) -> c_int, or -1;
        fn SSL_set_cert_cb(
            ssl: *mut c_void, callback: CertificateCallback, argument: *mut c_void
        );
        fn SSL_shutdown(ssl: *mut c_void) -> c_int, or -1;
        fn SSL_up_ref(ssl: *mut c_void) -> c_int, or 0;
        fn SSL_want(ssl: *const c_void) -> c_int, or SSL_NOTHING;
    }
}

/// What OpenSSL asks for a password: where to write it, the room there, whether it is to be
/// confirmed, and an argument of the program's.
pub(crate) type PasswordCallback =
    Option<unsafe extern "C" fn(*mut c_char, c_int, c_int, *mut c_void) -> c_int>;

/// What libssl asks for a certificate: the connection, and an argument of the program's.
pub(crate) type CertificateCallback =
    Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>;

/// What OpenSSL hands the parameters of a key to, with an argument of the caller's.
pub(crate) type ParametersCallback = extern "C" fn(*const c_void, *mut c_void) -> c_int;

/// A null-terminated list of C strings, as the exec functions take them.
pub(crate) type Strings = *const *const c_char;

/// What `SSL_get_error` returns.
pub(crate) const SSL_ERROR_NONE: c_int = 0;
pub(crate) const SSL_ERROR_SSL: c_int = 1;
pub(crate) const SSL_ERROR_WANT_READ: c_int = 2;
pub(crate) const SSL_ERROR_WANT_WRITE: c_int = 3;
pub(crate) const SSL_ERROR_SYSCALL: c_int = 5;
pub(crate) const SSL_ERROR_ZERO_RETURN: c_int = 6;

/// What `SSL_version` returns of TLS 1.3.
pub(crate) const TLS1_3_VERSION: c_int = 0x0304;

const SSL_NOTHING: c_int = 1;

/// `epoll_pwait2` of the kernel's, which the C library may lack; with its `errno`.
pub(crate) fn epoll_pwait2_of_kernel(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: &timespec,
    mask: *const sigset_t,
) -> c_int {
    /// Bytes of the kernel's signal sets.
    const MASK_BYTES: usize = 8;
    let (number, timeout) = (libc::SYS_epoll_pwait2, ptr::from_ref(timeout));
    // SAFETY: the program's array and mask, as it gave them to one of its waiting functions.
    let count = unsafe { libc::syscall(number, epoll, events, room, timeout, mask, MASK_BYTES) };
    count as c_int
}

/// Clears memory, even if it is not read again.
pub(crate) fn wipe(bytes: &mut [u8]) {
    // SAFETY: the slice's own bytes.
    unsafe { libc::explicit_bzero(bytes.as_mut_ptr().cast(), bytes.len()) };
}

/// The thread's `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: always a valid pointer to this thread's variable.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *location }
}

/// Sets the thread's `errno`.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: always a valid pointer to this thread's variable.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *location = value };
}

macro_rules! openssl_functions {
    (
        $(fn $name:ident($($type:ty),*) $(-> $result:ty)?;)*
        variadic $(fn $variadic:ident($($fixed:ty),*);)*
    ) => {
        /// The functions of libssl and libcrypto that we call, by their own names and signatures.
        /// Those that we also stand in front of are in [`next_functions`].
        ///
        /// They are declared safe to call: the objects we hand them are those that the program
        /// handed us in a call of the same library, at a moment when it allows that call.
        #[allow(non_snake_case, reason = "the names of OpenSSL")]
        pub(crate) struct OpenSsl {
            $(pub(crate) $name: extern "C" fn($($type),*) $(-> $result)?,)*
            $(pub(crate) $variadic: unsafe extern "C" fn($($fixed),*, ...),)*
        }

        impl OpenSsl {
            fn resolve(library: *mut c_void) -> Option<Self> {
                Some(Self {
                    $($name: {
                        let address = function_in(library, name!($name))?;
                        // SAFETY: OpenSSL's function of this name has this signature since 3.0.
                        unsafe {
                            core::mem::transmute::<
                                *mut c_void,
                                extern "C" fn($($type),*) $(-> $result)?,
                            >(address)
                        }
                    },)*
                    $($variadic: {
                        let address = function_in(library, name!($variadic))?;
                        // SAFETY: as above.
                        unsafe {
                            core::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($fixed),*, ...),
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}

impl OpenSsl {
    /// Does `work`, and forgets the errors that it leaves.
    pub(crate) fn quietly<R>(&self, work: impl FnOnce() -> R) -> R {
        (self.ERR_set_mark)();
        let result = work();
        (self.ERR_pop_to_mark)();
        result
    }
}

openssl_functions! {
    fn ASN1_STRING_get0_data(*const c_void) -> *const c_uchar;
    fn ASN1_STRING_length(*const c_void) -> c_int;
    fn BIO_clear_flags(*mut c_void, c_int);
    fn BIO_method_name(*const c_void) -> *const c_char;
    fn BIO_method_type(*const c_void) -> c_int;
    fn BIO_new(*const c_void) -> *mut c_void;
    fn BIO_next(*mut c_void) -> *mut c_void;
    fn BIO_s_mem() -> *const c_void;
    fn BIO_s_null() -> *const c_void;
    fn BIO_set_flags(*mut c_void, c_int);
    fn BIO_up_ref(*mut c_void) -> c_int;
    fn CRYPTO_free(*mut c_void, *const c_char, c_int);
    fn CRYPTO_get_ex_new_index(
        c_int, c_long, *mut c_void, *const c_void, Option<DuplicateExtraData>, Option<FreeExtraData>
    ) -> c_int;
    fn ERR_clear_error();
    fn ERR_get_error_all(
        *mut *const c_char, *mut c_int, *mut *const c_char, *mut *const c_char, *mut c_int
    ) -> c_ulong;
    fn ERR_new();
    fn ERR_peek_error() -> c_ulong;
    fn ERR_pop_to_mark() -> c_int;
    fn ERR_set_debug(*const c_char, c_int, *const c_char);
    fn ERR_set_mark() -> c_int;
    fn EVP_ASYM_CIPHER_free(*mut c_void);
    fn EVP_ASYM_CIPHER_get0_provider(*const c_void) -> *const c_void;
    fn EVP_ASYM_CIPHER_up_ref(*mut c_void) -> c_int;
    fn EVP_CIPHER_free(*mut c_void);
    fn EVP_CIPHER_get0_provider(*const c_void) -> *const c_void;
    fn EVP_CIPHER_up_ref(*mut c_void) -> c_int;
    fn EVP_KDF_free(*mut c_void);
    fn EVP_KDF_get0_provider(*const c_void) -> *const c_void;
    fn EVP_KDF_up_ref(*mut c_void) -> c_int;
    fn EVP_KEM_free(*mut c_void);
    fn EVP_KEM_get0_provider(*const c_void) -> *const c_void;
    fn EVP_KEM_up_ref(*mut c_void) -> c_int;
    fn EVP_KEYEXCH_free(*mut c_void);
    fn EVP_KEYEXCH_get0_provider(*const c_void) -> *const c_void;
    fn EVP_KEYEXCH_up_ref(*mut c_void) -> c_int;
    fn EVP_KEYMGMT_free(*mut c_void);
    fn EVP_KEYMGMT_get0_name(*const c_void) -> *const c_char;
    fn EVP_KEYMGMT_get0_provider(*const c_void) -> *const c_void;
    fn EVP_KEYMGMT_up_ref(*mut c_void) -> c_int;
    fn EVP_MAC_free(*mut c_void);
    fn EVP_MAC_get0_provider(*const c_void) -> *const c_void;
    fn EVP_MAC_up_ref(*mut c_void) -> c_int;
    fn EVP_MD_free(*mut c_void);
    fn EVP_MD_get0_provider(*const c_void) -> *const c_void;
    fn EVP_MD_up_ref(*mut c_void) -> c_int;
    fn EVP_PKEY_CTX_free(*mut c_void);
    fn EVP_PKEY_CTX_new_from_name(*mut c_void, *const c_char, *const c_char) -> *mut c_void;
    fn EVP_PKEY_CTX_new_from_pkey(*mut c_void, *mut c_void, *const c_char) -> *mut c_void;
    fn EVP_PKEY_export(*const c_void, c_int, ParametersCallback, *mut c_void) -> c_int;
    fn EVP_PKEY_free(*mut c_void);
    fn EVP_PKEY_fromdata(*mut c_void, *mut *mut c_void, c_int, *const c_void) -> c_int;
    fn EVP_PKEY_fromdata_init(*mut c_void) -> c_int;
    fn EVP_PKEY_is_a(*const c_void, *const c_char) -> c_int;
    fn EVP_PKEY_new() -> *mut c_void;
    fn EVP_PKEY_sign_init(*mut c_void) -> c_int;
    fn EVP_SIGNATURE_free(*mut c_void);
    fn EVP_SIGNATURE_get0_provider(*const c_void) -> *const c_void;
    fn EVP_SIGNATURE_up_ref(*mut c_void) -> c_int;
    fn EVP_default_properties_is_fips_enabled(*mut c_void) -> c_int;
    fn OPENSSL_init_crypto(u64, *const c_void) -> c_int;
    fn OSSL_DECODER_CTX_free(*mut c_void);
    fn OSSL_DECODER_CTX_new_for_pkey(
        *mut *mut c_void, *const c_char, *const c_char, *const c_char, c_int, *mut c_void,
        *const c_char
    ) -> *mut c_void;
    fn OSSL_DECODER_CTX_set_pem_password_cb(
        *mut c_void, PasswordCallback, *mut c_void
    ) -> c_int;
    fn OSSL_DECODER_from_bio(*mut c_void, *mut c_void) -> c_int;
    fn OSSL_LIB_CTX_get0_global_default() -> *mut c_void;
    fn OSSL_LIB_CTX_set0_default(*mut c_void) -> *mut c_void;
    fn OSSL_PROVIDER_add_builtin(*mut c_void, *const c_char, *const c_void) -> c_int;
    fn OSSL_PROVIDER_available(*mut c_void, *const c_char) -> c_int;
    fn OSSL_PROVIDER_get0_name(*const c_void) -> *const c_char;
    fn RAND_OpenSSL() -> *const c_void;
    fn RAND_bytes(*mut u8, c_int) -> c_int;
    fn RAND_priv_bytes(*mut u8, c_int) -> c_int;
    fn SSL_CTX_get0_privatekey(*const c_void) -> *mut c_void;
    fn SSL_CTX_ctrl(*mut c_void, c_int, c_long, *mut c_void) -> c_long;
    fn SSL_CTX_free(*mut c_void);
    fn SSL_ctrl(*mut c_void, c_int, c_long, *mut c_void) -> c_long;
    fn SSL_get_ex_data(*const c_void, c_int) -> *mut c_void;
    fn SSL_get_finished(*const c_void, *mut c_void, usize) -> usize;
    fn SSL_get_max_early_data(*const c_void) -> u32;
    fn SSL_get_num_tickets(*const c_void) -> usize;
    fn SSL_get_options(*const c_void) -> u64;
    fn SSL_get_peer_finished(*const c_void, *mut c_void, usize) -> usize;
    fn SSL_get_quiet_shutdown(*const c_void) -> c_int;
    fn SSL_get_rbio(*const c_void) -> *mut c_void;
    fn SSL_get_shutdown(*const c_void) -> c_int;
    fn SSL_get_wbio(*const c_void) -> *mut c_void;
    fn SSL_group_to_name(*mut c_void, c_int) -> *const c_char;
    fn SSL_in_before(*const c_void) -> c_int;
    fn SSL_in_init(*const c_void) -> c_int;
    fn SSL_is_dtls(*const c_void) -> c_int;
    fn SSL_is_server(*const c_void) -> c_int;
    fn SSL_new(*mut c_void) -> *mut c_void;
    fn SSL_session_reused(*const c_void) -> c_int;
    fn SSL_set0_rbio(*mut c_void, *mut c_void);
    fn SSL_set0_wbio(*mut c_void, *mut c_void);
    fn SSL_set_connect_state(*mut c_void);
    fn SSL_set_ex_data(*mut c_void, c_int, *mut c_void) -> c_int;
    fn SSL_set_info_callback(*mut c_void, extern "C" fn(*const c_void, c_int, c_int));
    fn SSL_set_msg_callback(*mut c_void, *const c_void);
    fn SSL_state_string(*const c_void) -> *const c_char;
    fn SSL_version(*const c_void) -> c_int;
    fn TLS_client_method() -> *const c_void;
    fn X509_free(*mut c_void);
    fn X509_get0_pubkey(*const c_void) -> *mut c_void;
    fn X509_get_ex_data(*const c_void, c_int) -> *mut c_void;
    fn X509_up_ref(*mut c_void) -> c_int;
    fn i2d_X509(*const c_void, *mut *mut c_uchar) -> c_int;
    variadic
    fn ERR_set_error(c_int, c_int, *const c_char);
}

/// What OpenSSL calls when it duplicates an object with extra data: the data of the copy and of the
/// original, our pointer, the index, and the two arguments given at registration.
pub(crate) type DuplicateExtraData = extern "C" fn(
    *mut c_void,
    *const c_void,
    *mut *mut c_void,
    c_int,
    c_long,
    *mut c_void,
) -> c_int;

/// What OpenSSL calls when it frees an object with extra data: the object, our pointer, the table,
/// the index, and the two arguments given at registration.
pub(crate) type FreeExtraData =
    extern "C" fn(*mut c_void, *mut c_void, *mut c_void, c_int, c_long, *mut c_void);

/// The process's OpenSSL, or nothing if the TLS library behind the called symbols is not OpenSSL 3
/// or later (the provider functions tell), or is not loaded yet.
pub(crate) fn openssl() -> Option<&'static OpenSsl> {
    static OPENSSL: OnceLock<OpenSsl> = OnceLock::new();
    if let Some(openssl) = OPENSSL.get() {
        return Some(openssl);
    }
    let found = OpenSsl::resolve(libc::RTLD_NEXT)
        .or_else(|| loaded_libssls().find_map(OpenSsl::resolve))?;
    Some(OPENSSL.get_or_init(|| found))
}

/// Whether the program has loaded a libssl that we know.
pub(crate) fn has_libssl() -> bool {
    loaded_libssls().next().is_some()
}

/// The handles of the libssls that we know and that the program has already loaded.
fn loaded_libssls() -> impl Iterator<Item = *mut c_void> {
    [c"libssl.so.3", c"libssl.so.4"].into_iter().filter_map(loaded_library)
}

/// Where the libssl and the libcrypto behind our doors are loaded; zero for one that there is not.
pub(crate) fn own_libraries() -> [usize; 2] {
    [&of_openssl::next::SSL_CTX_new, &of_openssl::next::BIO_ctrl].map(|next| {
        let address = next.address();
        object_at(address).map_or(0, |info| info.dli_fbase as usize)
    })
}

/// What the loader knows of the object that `address` is in.
pub(crate) fn object_at(address: *const c_void) -> Option<libc::Dl_info> {
    // SAFETY: `Dl_info` is a struct of pointers, for which zero is a value.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: looks the address up without touching what is there, and `info` is ours to write.
    let found = unsafe { libc::dladdr(address, &mut info) };
    (found != 0 && !info.dli_fname.is_null()).then_some(info)
}

/// Whether `name` of a library beside ours is bound to a door of ours, where without us it would be
/// bound to the library's own.
pub(crate) fn is_taken_from(library: *mut c_void, name: &CStr) -> bool {
    let door: *const c_void = address_of(name);
    let here: *const c_void = (&raw const VERSIONS).cast();
    let base = |address| object_at(address).map(|info| info.dli_fbase);
    // The program's own libraries come before those that one of its parts brings.
    let is_shared = VERSIONS.iter().any(|version| {
        let of = |handle| {
            // SAFETY: C strings, and a pseudo-handle or the handle of a loaded library.
            let address = unsafe { libc::dlvsym(handle, name.as_ptr(), version.as_ptr()) };
            !address.is_null()
        };
        of(libc::RTLD_NEXT) && of(library)
    });
    base(door) == base(here) && !is_shared
}

/// Versions that symbols of OpenSSL have.
static VERSIONS: [&CStr; 3] = [c"OPENSSL_4.0.0", c"OPENSSL_3.0.0", c"OPENSSL_1_1_0"];

/// The function `name` of a library or of one that it needs.
pub(crate) fn function_in(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a C string, and a pseudo-handle or the handle of a loaded library.
    let function = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!function.is_null()).then_some(function)
}

/// Calls `function`, the `SSL_CTX_new` of a library beside ours.
pub(crate) fn call_context_maker(function: *mut c_void, method: *const c_void) -> *mut c_void {
    type Maker = extern "C-unwind" fn(*const c_void) -> *mut c_void;
    // SAFETY: the function of this name has this signature, by its public header.
    let function = unsafe { core::mem::transmute::<*mut c_void, Maker>(function) };
    function(method)
}

/// Gives back a handle of [`loaded_library`].
pub(crate) fn unload(library: *mut c_void) {
    // SAFETY: the handle is given back once.
    unsafe { libc::dlclose(library) };
}

/// The function that loads libraries; its result depends on where it is called.
pub(crate) fn dlopen_address() -> *mut c_void {
    of_system::next::dlopen.address()
}

/// Clears the thread's `dlerror`, as the next successful call would.
pub(crate) fn clear_loader_error() {
    // SAFETY: no precondition.
    unsafe { libc::dlerror() };
}

/// The handle of a library that the program has already loaded.
pub(crate) fn loaded_library(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: with RTLD_NOLOAD no code of the library runs.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    (!handle.is_null()).then_some(handle)
}
