//! Handshakes taken up right behind their batch, ahead of the program's next call for them.
//!
//! A program that turns all its connections around before it calls for one again finds each
//! handshake out of the cache: HAProxy runs one handshake step per turn, first come first served,
//! and at 200 connections 70 others came in between. So its handshakes go on at once, on their
//! fibres, in the call that executed them. They write their flight, find that the client has not
//! answered yet, and end as they would have ended in HAProxy's own call. That call still comes, and
//! finds the client's answer more often than not.
//!
//! This runs a connection's BIO and callbacks inside the call for another one. HAProxy's find all
//! they need by the connection, hold no lock, and serve no two threads; what other programs do is
//! not known, so theirs are left alone. It does not happen in `epoll_wait`, where a thread of
//! HAProxy has declared that it touches nothing: what was executed there waits for a call.
#![allow(
    unsafe_code,
    reason = "the program's variable, texts of OpenSSL's error queue, a variadic function"
)]

use core::ffi::{CStr, c_int, c_ulong};
use core::ptr;
use std::ffi::CString;

use widelane_bridge::hooks::ProviderHooks;

use super::{Call, Handshake, SSL_READ_EARLY_DATA_SUCCESS, State, park};
use crate::event_loop::EventLoop;
use crate::real::{
    self, OpenSsl, SSL_ERROR_NONE, SSL_ERROR_SSL, SSL_ERROR_SYSCALL, SSL_ERROR_ZERO_RETURN,
};

const ERR_LIB_SYS: c_int = 2;
const ERR_TXT_STRING: c_int = 2;

/// Takes up all handshakes that may go on ahead of their program, but `own`, which its call takes
/// up.
pub(super) fn go_on(hooks: &ProviderHooks, event_loop: &EventLoop, own: &Handshake) {
    event_loop.take_from_ready(own);
    super::go_on_by_themselves(hooks, event_loop, Some(own));
    let Some(openssl) = real::openssl() else { return };
    while let Some(handshake) = event_loop.warm.pop() {
        // What the fibre of `own` may have left in the queue is not to be mistaken for another's.
        if (openssl.ERR_peek_error)() != 0 {
            continue;
        }
        if handshake.take_up()
            && let Some(ended) = run(hooks, event_loop, openssl, handshake)
        {
            ended.release();
        }
        event_loop.take_from_ready(own);
    }
}

/// Runs the fibre of a handshake that was taken up, without its program; what ends for good is held
/// until the program calls. The error queue is empty before. Returns nothing if it has parked
/// again.
pub(super) fn run<'a>(
    hooks: &ProviderHooks,
    event_loop: &EventLoop,
    openssl: &OpenSsl,
    handshake: &'a Handshake,
) -> Option<Ended<'a>> {
    let Some(result) = event_loop.resume(handshake, handshake.begun.get()) else {
        park(hooks, event_loop, handshake);
        return None;
    };
    let error = real::SSL_get_error(handshake.ssl, result);
    if is_final(error) {
        handshake.held.set(Some(Outcome::take(openssl, result)));
    }
    Some(Ended { handshake, error })
}

/// A handshake that has left its fibre, and that no other thread may touch until it is released.
#[must_use]
pub(super) struct Ended<'a> {
    handshake: &'a Handshake,
    error: c_int,
}

impl Ended<'_> {
    /// What `SSL_get_error` says of it.
    pub(super) fn error(&self) -> c_int {
        self.error
    }

    /// Leaves it to the next call for it, from whichever thread.
    pub(super) fn release(self) {
        let state = if is_final(self.error) { State::Held } else { State::Idle };
        self.handshake.set_state(state);
    }
}

impl Handshake {
    /// Whether this handshake may go on ahead of its program's call.
    pub(super) fn may_go_ahead(&self) -> bool {
        !self.begun.get().reads_early_data()
    }

    /// Ends [`State::Held`]: returns the result of the call that ended ahead of the program.
    pub(super) fn tell(&self, call: Call) -> Option<c_int> {
        if self.tell_early_data(call) {
            // The rest of the early data is returned before the end.
            return Some(SSL_READ_EARLY_DATA_SUCCESS);
        }
        let held = self.held.take()?;
        self.set_state(State::Idle);
        Some(held.restore(real::openssl()?))
    }

    /// Whether early data that was read is left.
    pub(super) fn has_early_data(&self) -> bool {
        let left = self.early_data.take();
        let is_any_left = !left.is_empty();
        self.early_data.set(left);
        is_any_left
    }

    /// Gives the program the early data that was read, if its call asks for that: as much as it has
    /// room for. Returns whether some is left.
    pub(super) fn tell_early_data(&self, call: Call) -> bool {
        let Call::ReadEarlyData { buffer, bytes, done } = call else { return false };
        if done.is_null() {
            return false;
        }
        let mut read = self.early_data.take();
        let count = read.len().min(bytes);
        // SAFETY: the program's buffer has room for `bytes`.
        unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(read.as_ptr(), count) };
        // SAFETY: the program's variable for the number of bytes read.
        unsafe { done.write(count) };
        let left = read[count..].to_vec();
        real::wipe(&mut read);
        let is_any_left = !left.is_empty();
        self.early_data.set(left);
        is_any_left
    }
}

/// Whether a call that ended like this is not to be made again.
fn is_final(error: c_int) -> bool {
    [SSL_ERROR_NONE, SSL_ERROR_SSL, SSL_ERROR_SYSCALL, SSL_ERROR_ZERO_RETURN].contains(&error)
}

/// How a handshake ended: its result, and what it left in `errno` and in the error queue.
pub(super) struct Outcome {
    result: c_int,
    errno: c_int,
    errors: Vec<Error>,
}

/// One entry of OpenSSL's error queue.
struct Error {
    code: c_ulong,
    text: Option<CString>,
    /// Where it was raised.
    file: CString,
    line: c_int,
    function: CString,
}

impl Outcome {
    /// Moves everything in the thread's error queue here.
    pub(super) fn take(openssl: &OpenSsl, result: c_int) -> Self {
        let errno = real::errno();
        let errors = core::iter::from_fn(|| Error::take(openssl)).collect();
        Self { result, errno, errors }
    }

    /// Puts back `errno` and what was in the queue.
    pub(super) fn restore(self, openssl: &OpenSsl) -> c_int {
        for error in self.errors {
            error.put_back(openssl);
        }
        real::set_errno(self.errno);
        self.result
    }
}

/// Takes everything out of the thread's error queue, of which the texts remain.
pub(crate) fn take_error_texts(openssl: &OpenSsl) -> impl Iterator<Item = CString> {
    Outcome::take(openssl, 0).errors.into_iter().filter_map(|error| error.text)
}

impl Error {
    fn take(openssl: &OpenSsl) -> Option<Self> {
        let (mut file, mut function, mut text) = (ptr::null(), ptr::null(), ptr::null());
        let (mut line, mut flags) = (0, 0);
        let code = (openssl.ERR_get_error_all)(
            &raw mut file,
            &raw mut line,
            &raw mut function,
            &raw mut text,
            &raw mut flags,
        );
        if code == 0 {
            return None;
        }
        let has_text = flags & ERR_TXT_STRING != 0 && !text.is_null();
        // SAFETY: libcrypto says that it is a C string; it lives until the queue is next changed.
        let text = has_text.then(|| unsafe { CStr::from_ptr(text) }.to_owned());
        // SAFETY: libcrypto's strings, empty where it has none; they live as long.
        let [file, function] = [file, function].map(|it| unsafe { CStr::from_ptr(it) }.to_owned());
        Some(Self { code, text, file, line, function })
    }

    fn put_back(&self, openssl: &OpenSsl) {
        let (library, reason) = split(self.code);
        (openssl.ERR_new)();
        (openssl.ERR_set_debug)(self.file.as_ptr(), self.line, self.function.as_ptr());
        match &self.text {
            // SAFETY: the format takes one C string.
            Some(text) => unsafe {
                (openssl.ERR_set_error)(library, reason, c"%s".as_ptr(), text.as_ptr());
            },
            // SAFETY: without a format there are no further arguments.
            None => unsafe { (openssl.ERR_set_error)(library, reason, ptr::null()) },
        }
    }
}

/// Library and reason of an error code, as `ERR_GET_LIB` and `ERR_GET_REASON` have it.
fn split(code: c_ulong) -> (c_int, c_int) {
    const SYSTEM: c_ulong = 1 << 31;
    if code & SYSTEM != 0 {
        return (ERR_LIB_SYS, (code & (SYSTEM - 1)) as c_int);
    }
    ((code >> 23 & 0xff) as c_int, (code & 0x7f_ffff) as c_int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_codes_as_openssl_does() {
        // SSL_R_SSL_HANDSHAKE_FAILURE of ERR_LIB_SSL, as `openssl errstr` prints it.
        assert_eq!(split(0x0a00_00e5), (20, 229));
        assert_eq!(split(0x8000_0020), (ERR_LIB_SYS, libc::EPIPE));
    }

    #[test]
    fn only_calls_to_be_made_again_are_not_final() {
        let again = [2, 3, 4, 7, 8, 9, 10, 11, 12];
        assert!(again.into_iter().all(|error| !is_final(error)));
        assert!([0, 1, 5, 6].into_iter().all(is_final));
    }
}
