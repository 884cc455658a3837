//! Connections freed or cleared while their handshake is suspended.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::references::take_reference;
use super::{FREED, Handshake, State, find, handle, release};
use crate::event_loop::EventLoop;
use crate::interpose::uncancelled;
use crate::provider::provider;
use crate::real::{self, OpenSsl};

/// Prepares `ssl` to be freed: `true` if the caller may do so now, `false` if its fibre's thread
/// will.
pub(crate) fn abandon_before_free(ssl: *mut c_void) -> bool {
    let Some(handshake) = provider().and_then(|_| find(ssl)) else {
        take_reference(ssl);
        return true;
    };
    if handshake.take_reference() {
        return true;
    }
    if handshake.state() == State::Idle && !handshake.is_listed() {
        return true;
    }
    let abandoned = |event_loop: &EventLoop| {
        handshake.end_if_freed_elsewhere(event_loop);
        let is_own = Arc::ptr_eq(&handshake.owner, event_loop.mailbox());
        if is_own && !event_loop.is_on_fibre() {
            abandon(event_loop, handshake, true);
            return true;
        }
        if is_own {
            // Another's fibre runs, and this one's cannot meanwhile.
            handshake.withdraw(event_loop);
        }
        is_own && handshake.state() != State::Ready
    };
    uncancelled(|| EventLoop::with(abandoned).unwrap_or(false) || handshake.leave_to_owner())
}

/// How often a thread that frees a connection looks whether its fibre has paused: a fifth of a
/// second. A step of a handshake takes a millisecond or two; longer ones are in a callback, which
/// may itself wait for this thread.
const LOOKS_MAX: u32 = 2_000;

/// How long it sleeps in between.
const NAP: Duration = Duration::from_micros(50);

/// Prepares `ssl` to be used anew for another handshake; `false` if it cannot be, because another
/// thread has its fibre.
pub(crate) fn abandon_before_clear(ssl: *mut c_void) -> bool {
    let Some(handshake) = provider().and_then(|_| find(ssl)) else { return true };
    EventLoop::with(|event_loop| {
        if Arc::ptr_eq(&handshake.owner, event_loop.mailbox()) {
            // libssl clears a connection at the beginning of its handshake, on the fibre itself.
            if handshake.state() == State::Running {
                return true;
            }
            if event_loop.is_on_fibre() && handshake.state() != State::Idle {
                return false;
            }
            abandon(event_loop, handshake, false);
            // The next one may be on another socket.
            release(handshake);
            return true;
        }
        if handshake.state() == State::Held {
            handshake.held.set(None);
            handshake.set_state(State::Idle);
        }
        handshake.state() == State::Idle
    })
    .unwrap_or(true)
}

impl Handshake {
    /// Whether its thread is to report it. Asked behind the state: its thread lists it before it
    /// says that it has left its fibre.
    fn is_listed(&self) -> bool {
        self.is_to_be_reported.load(Ordering::Acquire)
    }

    /// Marks it as freed: its thread does not let it go on any more. If its fibre is running, waits
    /// for that, since the program is going to close the socket.
    fn give_up(&self) {
        self.state.fetch_or(FREED, Ordering::AcqRel);
        for _ in 0..LOOKS_MAX {
            if self.state() != State::Running {
                return;
            }
            thread::sleep(NAP);
        }
    }

    /// Leaves the connection to be freed by the thread that has its fibre: `true` if the caller may
    /// free it, as its fibre is gone.
    fn leave_to_owner(&self) -> bool {
        self.give_up();
        if matches!(self.state(), State::Idle | State::Held) && !self.is_listed() {
            return true;
        }
        // Should that thread be gone, its fibre is lost, but the rest can be freed here.
        !self.owner.post(self.ssl)
    }

    /// Takes its operation back, and itself out of all lists: it does not go on by itself any more.
    pub(super) fn withdraw(&self, event_loop: &EventLoop) {
        event_loop.take_from_ready(self);
        if self.state() == State::Parked
            && let Some(hooks) = provider()
        {
            (hooks.cancel)(handle(self));
            event_loop.closing(|closing| closing.unpark(self.wait.get()));
            self.set_state(State::Ready);
        }
    }
}

/// Runs the fibre of `handshake` to its end, off the wire; and out of the program's sight where the
/// connection is being freed.
///
/// Every frame on the fibre holds memory of libssl and libcrypto, which only running it gives back.
fn abandon(event_loop: &EventLoop, handshake: &Handshake, is_freed: bool) {
    let Some(openssl) = real::openssl() else { return };
    let errno = real::errno();
    handshake.withdraw(event_loop);
    // It goes on once more.
    handshake.state.fetch_and(!FREED, Ordering::AcqRel);
    if matches!(handshake.state(), State::Idle | State::Running) {
        return;
    }
    if handshake.state() == State::Held {
        handshake.held.set(None);
        handshake.set_state(State::Idle);
        return;
    }
    handshake.may_park.set(false);
    // Fails its operation even if it is done: a handshake that goes on calls callbacks whose data
    // may be freed.
    if let Some(hooks) = provider() {
        (hooks.cancel)(handle(handshake));
    }
    let ssl = handshake.ssl;
    if is_freed {
        (openssl.SSL_set_info_callback)(ssl, ignore_info);
        (openssl.SSL_set_msg_callback)(ssl, ptr::null());
    }
    (openssl.ERR_set_mark)();
    let wire = Wire::cut(openssl, ssl);
    if event_loop.run_fibre(handshake, handshake.begun.get()).is_none() {
        // Its request got lost: let go of the stack.
        event_loop.recycle(handshake);
    }
    wire.restore(openssl, ssl);
    (openssl.ERR_pop_to_mark)();
    handshake.set_state(State::Idle);
    handshake.may_park.set(true);
    real::set_errno(errno);
}

extern "C" fn ignore_info(_ssl: *const c_void, _place: c_int, _value: c_int) {}

/// The BIOs of a connection while others, connected to nothing, stand in for them.
struct Wire {
    read: *mut c_void,
    write: *mut c_void,
}

impl Wire {
    fn cut(openssl: &OpenSsl, ssl: *mut c_void) -> Self {
        let read = (openssl.SSL_get_rbio)(ssl);
        let write = (openssl.SSL_get_wbio)(ssl);
        for bio in [read, write] {
            if !bio.is_null() {
                (openssl.BIO_up_ref)(bio);
            }
        }
        (openssl.SSL_set0_rbio)(ssl, (openssl.BIO_new)((openssl.BIO_s_null)()));
        (openssl.SSL_set0_wbio)(ssl, (openssl.BIO_new)((openssl.BIO_s_null)()));
        Self { read, write }
    }

    fn restore(self, openssl: &OpenSsl, ssl: *mut c_void) {
        (openssl.SSL_set0_rbio)(ssl, self.read);
        (openssl.SSL_set0_wbio)(ssl, self.write);
    }
}
