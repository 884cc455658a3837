//! The other half: the provider's hook table, and ours for it.
#![allow(unsafe_code, reason = "the exported attach function and the tables behind raw pointers")]

use core::ffi::{CStr, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use widelane_bridge::hooks::{Attach, HOOKS_VERSION, ProviderHooks, RuntimeHooks};

use crate::handshake::Notified;
use crate::{event_loop, handshake};

static ATTACHED: AtomicPtr<ProviderHooks> = AtomicPtr::new(ptr::null_mut());

static OURS: RuntimeHooks = RuntimeHooks {
    version: HOOKS_VERSION,
    current: handshake::current,
    pause: event_loop::pause,
    may_wait: handshake::may_wait,
    round_trip_ns: handshake::round_trip_ns,
    completed: handshake::completed,
};

/// The attached provider of this process; while there is none, everything passes through untouched.
pub(crate) fn provider() -> Option<&'static ProviderHooks> {
    let hooks = ATTACHED.load(Ordering::Acquire);
    // SAFETY: null, or the static table of a provider, which stays loaded until the process exits.
    unsafe { hooks.as_ref() }
}

/// Whether the process is switched off (`widelane off`): what begins now is left to OpenSSL.
pub(crate) fn is_switched_off() -> bool {
    provider().is_some_and(|hooks| (hooks.is_off)())
}

/// Counts a handshake.
pub(crate) fn count_handshake(hooks: &ProviderHooks) {
    let counters = (hooks.counters)();
    // SAFETY: null, or the counters of this process, which are never freed.
    if let Some(counters) = unsafe { counters.as_ref() } {
        counters.handshakes.fetch_add(1, Ordering::Relaxed);
    }
}

/// Called by the provider when it starts; see `widelane_bridge::hooks`.
///
/// # Safety
///
/// `hooks` is null or points to a table that lives until the process exits.
#[unsafe(no_mangle)]
unsafe extern "C" fn widelane_runtime_attach(hooks: *const ProviderHooks) -> *const RuntimeHooks {
    // SAFETY: as the caller promises.
    let Some(table) = (unsafe { hooks.as_ref() }) else { return ptr::null() };
    if table.version != HOOKS_VERSION || crate::config::config().is_none() {
        return ptr::null();
    }
    ATTACHED.store(hooks.cast_mut(), Ordering::Release);
    &raw const OURS
}

const _: Attach = widelane_runtime_attach;

/// Whether an operation may park: libssl itself, not a callback of the program, asks for it.
///
/// The short state names are part of libssl's interface and the same in every version, unlike the
/// numbers of `OSSL_HANDSHAKE_STATE`: server hello (the key exchange of TLS 1.3), server key
/// exchange, server certificate verify, client key exchange (that of TLS 1.2, RSA key transport
/// included), and client certificate verify. A callback may hold locks of the program, so it must
/// not be left; libssl calls one while it verifies a client's chain.
///
/// nginx's QUIC (up to 1.26, and perhaps later) learns that a handshake is complete only from its
/// own call, and calls only when its client sends more of the handshake. Behind the client's
/// certificate verify only Finished follows, usually in the same datagram.
pub(crate) fn may_park_in(short_name: &CStr, notified: Notified) -> bool {
    [c"TWSH", c"TWSKE", c"TWSCV", c"TRCKE", c"TRCV"].contains(&short_name)
        && !(notified == Notified::ByPost && short_name == c"TRCV")
}

/// The handle under which provider and runtime speak of a handshake.
pub(crate) type Handle = *mut c_void;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parks_in_the_states_of_operations_only() {
        for state in [c"TWSH", c"TWSKE", c"TWSCV", c"TRCKE", c"TRCV"] {
            assert!(may_park_in(state, Notified::ByEvent) && may_park_in(state, Notified::Asks));
        }
        for state in [c"TRCH", c"TRCC", c"TWSC", c"TRCCS", c"PINIT", c"SSLOK", c"UNKWN"] {
            assert!(!may_park_in(state, Notified::ByEvent));
        }
    }

    #[test]
    fn quic_does_not_park_where_the_client_has_said_all() {
        assert!(may_park_in(c"TWSH", Notified::ByPost) && may_park_in(c"TWSCV", Notified::ByPost));
        assert!(!may_park_in(c"TRCV", Notified::ByPost));
    }
}
