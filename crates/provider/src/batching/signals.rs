//! Signals: kept from threads of ours, and what processes of ours do about them.
#![allow(unsafe_code, reason = "masks signals and changes what they do")]

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

/// The signal mask of a thread, to be restored.
pub(super) struct Mask(MaybeUninit<libc::sigset_t>);

impl Mask {
    /// Blocks all signals.
    pub(super) fn block_all() -> Self {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: `all` is writable.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: `all` was filled above, `before` is writable.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
        Mask(before)
    }

    /// Restores the mask that there was.
    pub(super) fn restore(self) {
        // SAFETY: the mask that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, self.0.as_ptr(), ptr::null_mut()) };
    }
}

/// Signals by which a server, its service manager or its terminal asks a group of processes for
/// something, also to end. The lane process ignores them: it ends with the server's workers.
const REQUESTS: [c_int; 10] = [
    libc::SIGALRM,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGIO,
    libc::SIGPIPE,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
];

/// Ignores requests, has other signals do what they do by default, whatever handlers the program
/// has, and blocks none.
pub(super) fn ignore_requests() {
    for signal in 1..=libc::SIGRTMAX() {
        let action = if REQUESTS.contains(&signal) { libc::SIG_IGN } else { libc::SIG_DFL };
        // Those that cannot be changed stay as they are.
        // SAFETY: no handler of ours.
        unsafe { libc::signal(signal, action) };
    }
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `none` is writable.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: `none` was emptied above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut()) };
}
