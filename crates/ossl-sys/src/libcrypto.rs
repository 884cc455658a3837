//! The public libcrypto functions that we call, as a table looked up at run time.
#![allow(unsafe_code, reason = "dlopen, dlsym and casts to the types in OpenSSL's manual")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::{MaybeUninit, transmute_copy};
use std::ptr;

use crate::core::{
    AsyncJob, AsyncWaitCtx, EvpCipher, EvpMac, EvpMd, EvpMdCtx, EvpRandCtx, OsslAlgorithm,
    OsslCallback, OsslCoreHandle, OsslDispatch, OsslLibCtx, OsslParam, OsslProvider,
    OsslProviderInit,
};

/// `ASYNC_callback_fn`.
pub type AsyncCallback = unsafe extern "C" fn(arg: *mut c_void) -> c_int;

/// Called by libcrypto when a wait context is freed that holds a descriptor of ours.
pub type WaitCleanup = unsafe extern "C" fn(*mut AsyncWaitCtx, *const c_void, c_int, *mut c_void);

/// Why libcrypto's functions could not be found.
#[derive(Debug)]
pub enum LibcryptoError {
    /// No loaded object holds the address that called us.
    NoObject,
    /// The object that called us cannot be opened; its path.
    NotOpened(String),
    /// The object that called us does not export this function.
    NoFunction(&'static str),
}

impl std::fmt::Display for LibcryptoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LibcryptoError::NoObject => {
                write!(f, "cannot find the libcrypto that loads this provider")
            }
            LibcryptoError::NotOpened(path) => write!(f, "cannot open {path} again"),
            LibcryptoError::NoFunction(name) => write!(
                f,
                "the program that loads this provider does not export {name}; link it \
                 dynamically against libcrypto 3.0 or later"
            ),
        }
    }
}

impl std::error::Error for LibcryptoError {}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($arg:ty),* $(; $more:tt)?) $(-> $ret:ty)?;)*) => {
        /// The public libcrypto functions that we call.
        #[derive(Clone, Copy, Debug)]
        #[allow(non_snake_case, reason = "named as in OpenSSL's manual")]
        pub struct Libcrypto {
            $($(#[$doc])* pub $name: unsafe extern "C" fn($($arg),* $(, $more)?) $(-> $ret)?,)*
        }

        impl Libcrypto {
            /// Finds the functions in the object that holds `upcall`, a function that the core
            /// handed to us.
            ///
            /// # Errors
            /// If that object cannot be found, opened, or lacks a function.
            pub fn of_caller(upcall: unsafe extern "C" fn()) -> Result<Self, LibcryptoError> {
                let object = Object::holding(upcall as *const c_void)?;
                Ok(Libcrypto {
                    $($name: {
                        const NAME: &CStr = match CStr::from_bytes_with_nul(
                            concat!(stringify!($name), "\0").as_bytes(),
                        ) {
                            Ok(name) => name,
                            Err(_) => panic!("a name without inner NUL"),
                        };
                        let function = object.function(NAME, stringify!($name))?;
                        // SAFETY: OpenSSL's manual gives the function of this name this type.
                        unsafe {
                            transmute_copy::<
                                *mut c_void,
                                unsafe extern "C" fn($($arg),* $(, $more)?) $(-> $ret)?,
                            >(&function)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    /// Makes a library context.
    OSSL_LIB_CTX_new() -> *mut OsslLibCtx;
    /// Makes a library context that has the providers of the one that a provider was loaded into.
    OSSL_LIB_CTX_new_child(*const OsslCoreHandle, *const OsslDispatch) -> *mut OsslLibCtx;
    /// Frees a library context.
    OSSL_LIB_CTX_free(*mut OsslLibCtx);
    /// Loads a provider into a library context.
    OSSL_PROVIDER_load(*mut OsslLibCtx, *const c_char) -> *mut OsslProvider;
    /// Makes a provider known to a library context by its name and its init function.
    OSSL_PROVIDER_add_builtin(
        *mut OsslLibCtx, *const c_char, Option<OsslProviderInit>
    ) -> c_int;
    /// The name of a provider.
    OSSL_PROVIDER_get0_name(*const OsslProvider) -> *const c_char;
    /// Unloads a provider.
    OSSL_PROVIDER_unload(*mut OsslProvider) -> c_int;
    /// The context that the provider's functions expect.
    OSSL_PROVIDER_get0_provider_ctx(*const OsslProvider) -> *mut c_void;
    /// The provider's algorithms for an operation.
    OSSL_PROVIDER_query_operation(*const OsslProvider, c_int, *mut c_int) -> *const OsslAlgorithm;
    /// The provider's answers about a capability, one call each.
    OSSL_PROVIDER_get_capabilities(
        *const OsslProvider, *const c_char, Option<OsslCallback>, *mut c_void
    ) -> c_int;
    /// Gives the answer of a query back.
    OSSL_PROVIDER_unquery_operation(*const OsslProvider, c_int, *const OsslAlgorithm);

    /// The job that runs on this thread, or null.
    ASYNC_get_current_job() -> *mut AsyncJob;
    /// Where the job's owner waits.
    ASYNC_get_wait_ctx(*mut AsyncJob) -> *mut AsyncWaitCtx;
    /// Leaves the job until its owner starts it again.
    ASYNC_pause_job() -> c_int;
    /// The callback of the job's owner, if it set one.
    ASYNC_WAIT_CTX_get_callback(
        *mut AsyncWaitCtx, *mut Option<AsyncCallback>, *mut *mut c_void
    ) -> c_int;
    /// The descriptor that was set under a key.
    ASYNC_WAIT_CTX_get_fd(
        *mut AsyncWaitCtx, *const c_void, *mut c_int, *mut *mut c_void
    ) -> c_int;
    /// Sets a descriptor under a key.
    ASYNC_WAIT_CTX_set_wait_fd(
        *mut AsyncWaitCtx, *const c_void, c_int, *mut c_void, Option<WaitCleanup>
    ) -> c_int;

    /// Finds a cipher.
    EVP_CIPHER_fetch(*mut OsslLibCtx, *const c_char, *const c_char) -> *mut EvpCipher;
    /// Counts one user of a cipher less.
    EVP_CIPHER_free(*mut EvpCipher);
    /// The provider that has a cipher.
    EVP_CIPHER_get0_provider(*const EvpCipher) -> *const OsslProvider;
    /// Finds a message authentication code.
    EVP_MAC_fetch(*mut OsslLibCtx, *const c_char, *const c_char) -> *mut EvpMac;
    /// Counts one user of a message authentication code less.
    EVP_MAC_free(*mut EvpMac);
    /// Finds a digest.
    EVP_MD_fetch(*mut OsslLibCtx, *const c_char, *const c_char) -> *mut EvpMd;
    /// Counts one user of a digest less.
    EVP_MD_free(*mut EvpMd);
    /// The provider that has a digest.
    EVP_MD_get0_provider(*const EvpMd) -> *const OsslProvider;
    /// Makes a digest context.
    EVP_MD_CTX_new() -> *mut EvpMdCtx;
    /// Copies a digest context.
    EVP_MD_CTX_copy_ex(*mut EvpMdCtx, *const EvpMdCtx) -> c_int;
    /// Asks a digest context for parameters.
    EVP_MD_CTX_get_params(*mut EvpMdCtx, *mut OsslParam) -> c_int;
    /// Sets parameters of a digest context.
    EVP_MD_CTX_set_params(*mut EvpMdCtx, *const OsslParam) -> c_int;
    /// Frees a digest context.
    EVP_MD_CTX_free(*mut EvpMdCtx);
    /// Begins a digest.
    EVP_DigestInit_ex2(*mut EvpMdCtx, *const EvpMd, *const OsslParam) -> c_int;
    /// Feeds a digest.
    EVP_DigestUpdate(*mut EvpMdCtx, *const c_void, usize) -> c_int;
    /// Ends a digest.
    EVP_DigestFinal_ex(*mut EvpMdCtx, *mut u8, *mut c_uint) -> c_int;

    /// Random bytes that need not be secret.
    RAND_bytes_ex(*mut OsslLibCtx, *mut u8, usize, c_uint) -> c_int;
    /// Random bytes for secrets.
    RAND_priv_bytes_ex(*mut OsslLibCtx, *mut u8, usize, c_uint) -> c_int;
    /// This thread's generator of bytes that need not be secret, made now if there is none.
    RAND_get0_public(*mut OsslLibCtx) -> *mut EvpRandCtx;
    /// This thread's generator of bytes for secrets, made now if there is none.
    RAND_get0_private(*mut OsslLibCtx) -> *mut EvpRandCtx;

    /// Begins an error record of this thread.
    ERR_new();
    /// Says where an error was found.
    ERR_set_debug(*const c_char, c_int, *const c_char);
    /// Ends an error record: library, reason, and a format for the arguments behind it or null.
    ERR_set_error(c_int, c_int, *const c_char; ...);
    /// Sets a mark on the error queue of this thread.
    ERR_set_mark() -> c_int;
    /// Forgets the errors since the mark.
    ERR_pop_to_mark() -> c_int;
}

/// A loaded object, open for looking up.
struct Object(*mut c_void);

impl Object {
    fn holding(address: *const c_void) -> Result<Self, LibcryptoError> {
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: `info` is writable; any address may be asked for.
        let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
        // SAFETY: zeroed above, and all zeroes is a valid `Dl_info`.
        let info = unsafe { info.assume_init() };
        if found == 0 || info.dli_fname.is_null() {
            return Err(LibcryptoError::NoObject);
        }
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        // SAFETY: the name is a C string of the dynamic linker; NOLOAD runs no code.
        let mut handle = unsafe { libc::dlopen(info.dli_fname, flags) };
        if handle.is_null() {
            // The main program: its name is how it was called, which need not be its path.
            // SAFETY: null asks for the main program.
            handle = unsafe { libc::dlopen(ptr::null(), flags) };
        }
        if handle.is_null() {
            // SAFETY: checked for null above; it lives as long as the object.
            let path = unsafe { CStr::from_ptr(info.dli_fname) };
            return Err(LibcryptoError::NotOpened(path.to_string_lossy().into_owned()));
        }
        Ok(Object(handle))
    }

    fn function(&self, name: &CStr, text: &'static str) -> Result<*mut c_void, LibcryptoError> {
        // SAFETY: the handle is open, the name a C string.
        let function = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if function.is_null() { Err(LibcryptoError::NoFunction(text)) } else { Ok(function) }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: opened by `holding`, closed once. The object stays: it called us.
        unsafe { libc::dlclose(self.0) };
    }
}
