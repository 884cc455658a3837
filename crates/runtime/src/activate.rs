//! Loading the provider: at the first `SSL_CTX_new` of the process, before any key is used.
//!
//! The program's own OpenSSL configuration is read first and stands: the provider joins what it
//! sets up, and is preferred (`?provider=widelane`), never required.
#![allow(unsafe_code, reason = "dlopen of the provider, C strings of properties")]

use core::ffi::{CStr, c_char, c_void};
use core::{mem, ptr};
use std::ffi::CString;
use std::sync::Once;

use widelane_bridge::hooks::{PREPARE_SYMBOL, Prepare};

use crate::config::{Config, config};
use crate::groups;
use crate::handshake::take_error_texts;
use crate::notice::{Notice, say_once};
use crate::provider::provider;
use crate::real::{self, OpenSsl};

pub(crate) const PROVIDER_NAME: &CStr = c"widelane";
const PREFERENCE: &str = "?provider=widelane";
const OPENSSL_INIT_LOAD_CONFIG: u64 = 0x40;

/// The program makes a configuration of TLS: loads the provider, and informs it.
pub(crate) fn configure() {
    activate();
    if let Some(hooks) = provider() {
        (hooks.configures)();
    }
}

/// Loads the provider once, if `widelane run` asked for it.
fn activate() {
    static ONCE: Once = Once::new();
    let Some(config) = config() else { return };
    ONCE.call_once(|| {
        let Some(openssl) = real::openssl() else {
            let line = "the TLS library of this program is not OpenSSL 3 or later; it runs \
                        unaccelerated (a build that uses the system's libssl.so.3 would not)";
            say_once(Notice::Unaccelerated, line);
            return;
        };
        if let Err(reason) = openssl.quietly(|| load(openssl, config)) {
            let line = format!("{reason}; this program runs unaccelerated");
            say_once(Notice::Unaccelerated, &line);
        }
    });
}

fn load(openssl: &OpenSsl, config: &Config) -> Result<(), String> {
    (openssl.OPENSSL_init_crypto)(OPENSSL_INIT_LOAD_CONFIG, ptr::null());
    let default_context = ptr::null_mut();
    if (openssl.EVP_default_properties_is_fips_enabled)(default_context) == 1 {
        return Err("OpenSSL is configured to use FIPS modules only".to_owned());
    }
    let groups = if config.is_pq { groups::with_ml_kem(openssl) } else { None };
    if (openssl.OSSL_PROVIDER_available)(default_context, PROVIDER_NAME.as_ptr()) != 1 {
        let start = provider_start(&config.provider)?;
        let name = PROVIDER_NAME.as_ptr();
        (openssl.OSSL_PROVIDER_add_builtin)(default_context, name, start);
        // The last argument keeps the default provider that a program gets if it asks for none.
        if real::OSSL_PROVIDER_try_load(default_context, name, 1).is_null() {
            return Err(format!(
                "the provider {} does not start{}",
                config.provider.to_string_lossy(),
                reasons(openssl)
            ));
        }
    }
    if provider().is_none() {
        let line = format!(
            "the provider {} is of another version than the runtime of this process, and there are \
             no batches; restart this server",
            config.provider.to_string_lossy()
        );
        say_once(Notice::OtherVersion, &line);
    }
    let preference = CString::new(PREFERENCE).map_err(|error| error.to_string())?;
    if real::EVP_set_default_properties(default_context, preference.as_ptr()) != 1 {
        return Err("OpenSSL refuses to prefer the provider".to_owned());
    }
    fetch_ahead(openssl);
    groups::use_list(groups);
    Ok(())
}

/// What the error queue says of a provider that does not start, its own reason first.
fn reasons(openssl: &OpenSsl) -> String {
    let texts = take_error_texts(openssl);
    // What libcrypto adds names the provider.
    let own = texts.filter(|text| !text.is_empty() && !text.to_bytes().starts_with(b"name="));
    own.map(|text| format!(": {}", text.to_string_lossy())).collect()
}

/// Has libcrypto make what it would make in each worker at its first handshake: its generators, and
/// the lists of algorithms that creating an `SSL_CTX` does not ask for.
///
/// One algorithm of an operation brings the list of all. Where memory is short while libcrypto
/// makes a list, it keeps what there is of it for good (`ossl_method_construct_postcondition`), and
/// that worker fails handshakes for as long as it lives. Workers inherit what is made here.
///
/// OpenSSL 3.0.2 takes no algorithm of a provider that is loaded after a list was made, unless it
/// is asked for one that the list does not have: so where we have one, ours is asked for.
fn fetch_ahead(openssl: &OpenSsl) {
    type Fetch = fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;
    type Free = extern "C" fn(*mut c_void);
    let ours: [(Fetch, Free, &CStr); 6] = [
        (real::EVP_ASYM_CIPHER_fetch, openssl.EVP_ASYM_CIPHER_free, c"RSA"),
        (real::EVP_CIPHER_fetch, openssl.EVP_CIPHER_free, c"AES-128-GCM"),
        (real::EVP_KDF_fetch, openssl.EVP_KDF_free, c"TLS13-KDF"),
        (real::EVP_KEYEXCH_fetch, openssl.EVP_KEYEXCH_free, c"ECDH"),
        (real::EVP_KEYMGMT_fetch, openssl.EVP_KEYMGMT_free, c"RSA"),
        (real::EVP_SIGNATURE_fetch, openssl.EVP_SIGNATURE_free, c"RSA"),
    ];
    for (fetch, free, name) in ours {
        free(fetch(ptr::null_mut(), name.as_ptr(), c"provider=widelane".as_ptr()));
    }
    let mac = real::EVP_MAC_fetch(ptr::null_mut(), c"HMAC".as_ptr(), ptr::null());
    (openssl.EVP_MAC_free)(mac);
    // What fails here is tried again when it is needed.
    let mut byte = 0;
    (openssl.RAND_bytes)(&raw mut byte, 1);
    (openssl.RAND_priv_bytes)(&raw mut byte, 1);
}

/// The program is about to enter a root where none of our files is. What is loaded, read and opened
/// before serves there; nothing is changed in OpenSSL, whose configuration the program may read
/// there.
pub(crate) fn before_chroot() {
    let Some(config) = config() else { return };
    if !real::has_libssl() {
        return;
    }
    // What fails here fails again, and is reported, when the program begins to use TLS.
    let prepare = provider_library(&config.provider)
        .ok()
        .and_then(|library| real::function_in(library, PREPARE_SYMBOL));
    if let Some(prepare) = prepare {
        // SAFETY: what has this name has this type.
        let prepare = unsafe { mem::transmute::<*mut c_void, Prepare>(prepare) };
        // SAFETY: no precondition.
        unsafe { prepare() };
    }
}

/// Loads the provider's file and finds the function by which it starts.
fn provider_start(path: &CStr) -> Result<*const c_void, String> {
    let start = real::function_in(provider_library(path)?, c"OSSL_provider_init");
    start
        .map(<*mut c_void>::cast_const)
        .ok_or_else(|| format!("{} is not an OpenSSL provider", path.to_string_lossy()))
}

/// The provider's file, loaded for good.
fn provider_library(path: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the provider's initialisers have no precondition; it is never closed.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() { Err(last_loader_error()) } else { Ok(library) }
}

fn last_loader_error() -> String {
    const REMEDY: &str = "install widelane where this process can read it, or have its AppArmor \
                          profile allow that";
    // SAFETY: no precondition; the text belongs to this thread until its next call.
    let error = unsafe { libc::dlerror() };
    if error.is_null() {
        return format!("the provider cannot be loaded ({REMEDY})");
    }
    // SAFETY: a C string by the manual of dlerror.
    let error = unsafe { CStr::from_ptr(error) };
    format!("the provider cannot be loaded: {} ({REMEDY})", error.to_string_lossy())
}

/// What to set as default properties when the program sets `properties` itself: both its own and
/// our preference, unless they already speak of providers.
pub(crate) fn with_preference(properties: *const c_char) -> Option<CString> {
    config()?;
    if properties.is_null() {
        return CString::new(PREFERENCE).ok();
    }
    // SAFETY: the program's C string.
    let properties = unsafe { CStr::from_ptr(properties) };
    merge_preference(properties)
}

/// What a context of the program asks for instead of `properties`: our preference, where they only
/// exclude a provider that is not loaded. Such an exclusion changes nothing but that it stands in
/// the place of our preference (stunnel has `provider!=fips`).
pub(crate) fn without_idle_exclusion(properties: *const c_char) -> Option<CString> {
    config()?;
    if properties.is_null() {
        return None;
    }
    // SAFETY: the program's C string.
    let properties = unsafe { CStr::from_ptr(properties) };
    let excluded = CString::new(excluded_provider(properties)?).ok()?;
    let available = (real::openssl()?.OSSL_PROVIDER_available)(ptr::null_mut(), excluded.as_ptr());
    if available == 1 { None } else { CString::new(PREFERENCE).ok() }
}

/// The provider that `properties` exclude, if they say nothing else.
fn excluded_provider(properties: &CStr) -> Option<&str> {
    let (name, value) = properties.to_str().ok()?.split_once("!=")?;
    let value = value.trim();
    let is_word = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    (name.trim() == "provider" && is_word && value != "widelane").then_some(value)
}

fn merge_preference(properties: &CStr) -> Option<CString> {
    let properties = properties.to_str().ok()?;
    if properties.contains("provider") || properties.contains("fips") {
        return None;
    }
    let separator = if properties.trim().is_empty() { "" } else { "," };
    CString::new(format!("{properties}{separator}{PREFERENCE}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_the_programs_own_properties() {
        let merged = |properties| merge_preference(properties).map(|merged| merged.into_string());
        assert_eq!(merged(c""), Some(Ok("?provider=widelane".to_owned())));
        assert_eq!(merged(c"a=b"), Some(Ok("a=b,?provider=widelane".to_owned())));
        assert_eq!(merged(c"provider=tpm2"), None);
        assert_eq!(merged(c"fips=yes"), None);
    }

    #[test]
    fn knows_properties_that_only_exclude_a_provider() {
        assert_eq!(excluded_provider(c"provider!=fips"), Some("fips"));
        assert_eq!(excluded_provider(c" provider != fips "), Some("fips"));
        for others in [c"", c"provider=fips", c"provider!=fips,fips=yes", c"a!=b"] {
            assert_eq!(excluded_provider(others), None, "{others:?}");
        }
        assert_eq!(excluded_provider(c"provider!=widelane"), None);
    }
}
