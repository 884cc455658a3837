//! `widelane run --pq`: X25519MLKEM768 in front of the key-exchange groups that OpenSSL offers
//! where a program names none.
//!
//! libssl has no call that returns its default groups, and they depend on its version and on the
//! system's configuration. So before the provider is loaded, a client of our own writes a
//! ClientHello into memory, and we read the groups from it. What a program, or its configuration,
//! sets later replaces what is set here.
#![allow(unsafe_code, reason = "memory and names of libssl")]

use core::ffi::{CStr, c_int, c_void};
use core::{ptr, slice};
use std::ffi::CString;
use std::sync::OnceLock;

use crate::notice::{Notice, say, say_once};
use crate::real::{self, OpenSsl};

/// The group, by its name and by its number in TLS (RFC 10024).
const NAME: &str = "X25519MLKEM768";
const NUMBER: u16 = 0x11EC;

/// Marks a number of TLS where libssl would take one of its own.
const NUMBER_OF_TLS: c_int = 0x0100_0000;

const EXTENSION_SUPPORTED_GROUPS: u16 = 10;
const SSL_CTRL_SET_GROUPS_LIST: c_int = 92;
const BIO_CTRL_INFO: c_int = 3;

/// What new contexts get; nothing if it was not asked for, or is there by default.
static LIST: OnceLock<CString> = OnceLock::new();

/// The groups to set: X25519MLKEM768, and behind it what OpenSSL offers by itself. To be called
/// before the provider is loaded.
pub(crate) fn with_ml_kem(openssl: &OpenSsl) -> Option<CString> {
    let Some((numbers, names)) = offered(openssl) else {
        say(
            "cannot read the default key-exchange groups of this OpenSSL; --pq has no effect: name \
             X25519MLKEM768 in the server's configuration",
        );
        return None;
    };
    if numbers.contains(&NUMBER) {
        say(&format!("OpenSSL offers {NAME} by default; --pq has no effect"));
        return None;
    }
    CString::new(format!("{NAME}:{}", names.join(":"))).ok()
}

/// Has contexts that are made from now on offer `list`.
pub(crate) fn use_list(list: Option<CString>) {
    if let Some(list) = list {
        let _ = LIST.set(list);
    }
}

/// Sets the list in a new context of the program.
pub(crate) fn prefer(context: *mut c_void) {
    let (Some(list), Some(openssl)) = (LIST.get(), real::openssl()) else { return };
    if context.is_null() {
        return;
    }
    let list = list.as_ptr().cast_mut().cast();
    let set = || (openssl.SSL_CTX_ctrl)(context, SSL_CTRL_SET_GROUPS_LIST, 0, list);
    if openssl.quietly(set) != 1 {
        say_once(
            Notice::NoGroup,
            &format!("neither OpenSSL nor the provider has {NAME}; this program runs without it"),
        );
    }
}

/// Numbers and names of the groups that a client offers with this OpenSSL and its configuration.
fn offered(openssl: &OpenSsl) -> Option<(Vec<u16>, Vec<String>)> {
    // Not SSL_CTX_new: that calls this one by its name, which leads back to our door.
    let method = (openssl.TLS_client_method)();
    let context = real::SSL_CTX_new_ex(ptr::null_mut(), ptr::null(), method);
    if context.is_null() {
        return None;
    }
    let ssl = (openssl.SSL_new)(context);
    let offered = if ssl.is_null() { None } else { offered_in_hello(openssl, ssl) };
    real::SSL_free(ssl);
    (openssl.SSL_CTX_free)(context);
    offered
}

fn offered_in_hello(openssl: &OpenSsl, ssl: *mut c_void) -> Option<(Vec<u16>, Vec<String>)> {
    let sent = (openssl.BIO_new)((openssl.BIO_s_mem)());
    let nothing = (openssl.BIO_new)((openssl.BIO_s_null)());
    if sent.is_null() || nothing.is_null() {
        return None;
    }
    (openssl.SSL_set0_wbio)(ssl, sent);
    (openssl.SSL_set0_rbio)(ssl, nothing);
    (openssl.SSL_set_connect_state)(ssl);
    // There is no answer, so it fails behind its hello.
    real::SSL_do_handshake(ssl);
    let mut start: *const u8 = ptr::null();
    let length = real::BIO_ctrl(sent, BIO_CTRL_INFO, 0, (&raw mut start).cast());
    if start.is_null() {
        return None;
    }
    // SAFETY: the memory of `sent`, which lives as long as `ssl` and is not written any more.
    let hello = unsafe { slice::from_raw_parts(start, usize::try_from(length).ok()?) };
    let name = |number: u16| {
        let name = (openssl.SSL_group_to_name)(ssl, c_int::from(number) | NUMBER_OF_TLS);
        // SAFETY: null, or a string of the context's.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    };
    let numbers = groups_in(hello)?;
    let names = numbers.iter().copied().filter_map(name).collect();
    Some((numbers, names))
}

/// The numbers of the groups in a record with a client's hello (RFC 8446, 4.1.2).
fn groups_in(record: &[u8]) -> Option<Vec<u16>> {
    const IN_FRONT_OF_SESSION: usize = 5 + 4 + 2 + 32;
    let mut rest = record.get(IN_FRONT_OF_SESSION..)?;
    let (session, suites, compressions) = (1, 2, 1);
    for length_bytes in [session, suites, compressions] {
        take_vector(&mut rest, length_bytes)?;
    }
    let mut extensions = take_vector(&mut rest, 2)?;
    while !extensions.is_empty() {
        let kind = take_number(&mut extensions, 2)?;
        let mut body = take_vector(&mut extensions, 2)?;
        if kind == usize::from(EXTENSION_SUPPORTED_GROUPS) {
            let list = take_vector(&mut body, 2)?;
            return Some(list.chunks_exact(2).map(|b| u16::from_be_bytes([b[0], b[1]])).collect());
        }
    }
    None
}

/// Takes a number of `bytes` bytes from the front.
fn take_number(rest: &mut &[u8], bytes: usize) -> Option<usize> {
    let (number, behind) = rest.split_at_checked(bytes)?;
    *rest = behind;
    Some(number.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

/// Takes what follows a length of `length_bytes` bytes.
fn take_vector<'a>(rest: &mut &'a [u8], length_bytes: usize) -> Option<&'a [u8]> {
    let length = take_number(rest, length_bytes)?;
    let (vector, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with a hello that has these extensions.
    fn hello(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut hello = vec![0; 5 + 4 + 2 + 32];
        hello.extend([1, 0xAA]); // session
        hello.extend([0, 2, 0x13, 0x01]); // suites
        hello.extend([1, 0]); // compressions
        let mut all = Vec::new();
        for (kind, body) in extensions {
            all.extend(kind.to_be_bytes());
            all.extend((body.len() as u16).to_be_bytes());
            all.extend(*body);
        }
        hello.extend((all.len() as u16).to_be_bytes());
        hello.extend(all);
        hello
    }

    #[test]
    fn finds_the_groups_of_a_hello() {
        let groups: &[u8] = &[0, 4, 0x00, 0x1D, 0x11, 0xEC];
        let with = hello(&[(0, b"name"), (EXTENSION_SUPPORTED_GROUPS, groups)]);
        assert_eq!(groups_in(&with), Some(vec![29, NUMBER]));
        assert_eq!(groups_in(&hello(&[(0, b"name")])), None);
    }

    #[test]
    fn a_hello_that_is_cut_off_has_none() {
        let whole = hello(&[(EXTENSION_SUPPORTED_GROUPS, &[0, 2, 0, 29])]);
        for length in 0..whole.len() {
            assert_eq!(groups_in(&whole[..length]), None, "{length}");
        }
    }
}
