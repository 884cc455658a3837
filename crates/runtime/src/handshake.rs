//! One server handshake under our care: started on a fibre, parked, taken up again, or abandoned.
//!
//! The state hangs on its `SSL` as extra data from the first call of a handshake to its end:
//!
//! ```text
//!            call              private-key operation         batch executed
//!   (none) --------> Running ------------------------> Parked --------------> Ready
//!                      |  ^                               |                     |
//!          call ends   v  | call                          | call: "later"       | call
//!                     Idle               <----------------+                     |
//!                      ^--------------------- Running <-------------------------+
//! ```
//!
//! [`ahead`] may take up what is Ready before the program calls; what ends for good then is
//! Held until it does.
#![allow(unsafe_code, reason = "objects handed through C: SSL extra data, fibre arguments")]

mod abandon;
mod ahead;
mod empty_input;
mod first;
mod goodbye;
mod left_alone;
mod notified;
mod references;
mod round_trip;
mod tickets;

use core::cell::{Cell, OnceCell};
use core::ffi::{CStr, c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::Arc;

use widelane_bridge::hooks::{Extent, ProviderHooks};
use widelane_reserve::Stack;

use crate::closing::{Verdict, Wait};
use crate::event_loop::mailbox::Mailbox;
use crate::event_loop::{EventLoop, on_fibre};
use crate::extra_data::{Index, OF_CONNECTIONS};
use crate::fibre::{self, Place};
use crate::interpose::guard_uncancelled;
use crate::interpreters;
use crate::methods;
use crate::notice::{Notice, say_once};
use crate::provider::{Handle, count_handshake, may_park_in, provider};
use crate::real::{self, OpenSsl, SSL_ERROR_SSL, SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE};
use crate::registry;
use crate::wake::Wanted;
pub(crate) use abandon::{abandon_before_clear, abandon_before_free};
use ahead::Outcome;
pub(crate) use ahead::take_error_texts;
use empty_input::EmptyInput;
pub(crate) use empty_input::descriptor_behind;
pub(crate) use first::handshake_first;
use first::is_first;
pub(crate) use goodbye::hold_goodbye;
use left_alone::is_left_alone;
pub(crate) use left_alone::{leave_alone, leave_alone_within};
pub(crate) use notified::Notified;
pub(crate) use references::add_reference;
use references::{as_count, count_of};
pub(crate) use round_trip::receives;
pub(crate) use tickets::has_more_tickets;

const SSL_CTRL_MODE: c_int = 33;
const SSL_MODE_ASYNC: c_long = 0x100;
const OSSL_QUIC1_VERSION: c_int = 1;
const SSL_READING: c_int = 3;
const SSL_WRITING: c_int = 2;
const SSL_READ_EARLY_DATA_ERROR: c_int = 0;
const SSL_READ_EARLY_DATA_SUCCESS: c_int = 1;
const SSL_READ_EARLY_DATA_FINISH: c_int = 2;

/// Largest record, and so the most that one read of early data can yield.
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// A call of the program that drives a handshake.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    Accept,
    DoHandshake,
    ReadEarlyData { buffer: *mut c_void, bytes: usize, done: *mut usize },
}

impl Call {
    /// Makes the call on the stack at hand.
    pub(crate) fn make(self, ssl: *mut c_void) -> c_int {
        match self {
            Self::Accept => real::SSL_accept(ssl),
            Self::DoHandshake => real::SSL_do_handshake(ssl),
            Self::ReadEarlyData { buffer, bytes, done } => {
                real::SSL_read_early_data(ssl, buffer, bytes, done)
            }
        }
    }

    /// What the call returns to say "not now".
    fn later(self) -> c_int {
        match self {
            Self::Accept | Self::DoHandshake => -1,
            Self::ReadEarlyData { .. } => SSL_READ_EARLY_DATA_ERROR,
        }
    }

    /// Whether `result` means that this call has nothing left to do.
    fn is_done(self, result: c_int) -> bool {
        match self {
            Self::Accept | Self::DoHandshake => result == 1,
            Self::ReadEarlyData { .. } => result == SSL_READ_EARLY_DATA_FINISH,
        }
    }

    /// The same call without the program's memory, which is its own again when the call has
    /// returned.
    fn detached(self) -> Self {
        match self {
            Self::Accept | Self::DoHandshake => self,
            Self::ReadEarlyData { bytes, .. } => {
                Self::ReadEarlyData { buffer: ptr::null_mut(), bytes, done: ptr::null_mut() }
            }
        }
    }

    /// Whether the other one's result is this one's, too.
    fn is_same_kind(self, other: Self) -> bool {
        self.reads_early_data() == other.reads_early_data()
    }

    fn reads_early_data(self) -> bool {
        matches!(self, Self::ReadEarlyData { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    /// No fibre: libssl waits for the peer.
    Idle,
    /// The fibre waits for its private-key operation.
    Parked,
    /// The operation is done; the next call of the program takes the fibre up again.
    Ready,
    /// The fibre has ended outside of a call by the program; its next call returns the result.
    Held,
    /// The fibre is running on its thread: no other may touch the connection. One that frees it
    /// waits until it has left its fibre.
    Running,
}

/// Set in the state when another thread frees the connection: its fibre does not go on any more,
/// but to be abandoned.
const FREED: u8 = 1 << 7;

/// The state of one handshake; its address is the handle that the provider knows.
pub(crate) struct Handshake {
    ssl: *mut c_void,
    /// References to the connection beside the first: which of them goes last has to end this.
    references: AtomicUsize,
    /// The thread whose fibre and lanes this is about.
    owner: Arc<Mailbox>,
    state: AtomicU8,
    /// The descriptor, or −1 where the program's own BIO hides it.
    descriptor: c_int,
    /// How often the descriptor's number had been closed before.
    closes: u32,
    notified: Notified,
    wanted: Cell<Wanted>,
    wait: Cell<Wait>,
    stack: Cell<Option<Stack>>,
    place: Cell<Place>,
    /// The call that began on the fibre, and the one now waiting for it.
    begun: Cell<Call>,
    call: Cell<Call>,
    /// Whether its program has ever asked for early data.
    has_read_early_data: Cell<bool>,
    result: Cell<Option<c_int>>,
    /// What [`State::Held`] holds.
    held: Cell<Option<Outcome>>,
    /// Early data that was read and not yet returned to the program.
    early_data: Cell<Vec<u8>>,
    /// Whether it was made to wait for company.
    has_waited: Cell<bool>,
    /// The socket from which it receives, or −1 where none is known.
    receives_from: Cell<c_int>,
    /// The round-trip time to the peer, once it has been looked up.
    round_trip_ns: OnceCell<u64>,
    /// Whether it is the connection's first: a later one may be for a single ticket.
    is_first: bool,
    /// Session tickets written and not sent, as others follow.
    tickets: Cell<usize>,
    /// Cleared when the connection is being freed: nothing may park any more.
    may_park: Cell<bool>,
    /// Whether its thread's list of those to be reported has it.
    pub(crate) is_to_be_reported: AtomicBool,
}

impl Handshake {
    fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) & !FREED {
            0 => State::Idle,
            1 => State::Parked,
            2 => State::Ready,
            3 => State::Held,
            _ => State::Running,
        }
    }

    fn set_state(&self, state: State) {
        let mut known = self.state.load(Ordering::Relaxed);
        let exchange = |known: u8| {
            let new = state as u8 | known & FREED;
            self.state.compare_exchange_weak(known, new, Ordering::AcqRel, Ordering::Relaxed)
        };
        while let Err(now) = exchange(known) {
            known = now;
        }
    }

    /// Whether it may go on without a call by the program: the program has neither freed it nor
    /// closed its descriptor, whose number may be another connection's by now.
    pub(crate) fn may_go_on_unasked(&self) -> bool {
        self.state.load(Ordering::Acquire) & FREED == 0
            && registry::closes(self.descriptor) == self.closes
    }

    /// Takes it up if it is executed and may go on: from then on a thread that frees it waits.
    fn take_up(&self) -> bool {
        let (ready, running) = (State::Ready as u8, State::Running as u8);
        let take = || {
            self.state.compare_exchange(ready, running, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        self.may_go_on_unasked() && take()
    }

    /// Whether it is executed and waits to be taken up.
    pub(crate) fn is_ready(&self) -> bool {
        self.state() == State::Ready
    }

    /// Whether its fibre is what runs on this thread now.
    fn is_on(&self, event_loop: &EventLoop) -> bool {
        event_loop.on_fibre().is_some_and(|running| ptr::eq(running, self))
    }

    /// A callback has left its fibre by `longjmp`: nothing on its stack is used any more.
    pub(crate) fn end_left(&self, event_loop: &EventLoop) {
        self.may_park.set(false);
        // What `go_on_unasked` would have undone.
        registry::let_go(self.descriptor);
        empty_input::forget(self.ssl);
        event_loop.recycle(self);
        self.set_state(State::Idle);
    }

    /// The program frees it on another stack than that of its running fibre, which so cannot go on
    /// any more.
    fn end_if_freed_elsewhere(&self, event_loop: &EventLoop) {
        if self.is_on(event_loop) && !self.has_on_stack(fibre::stack_pointer()) {
            event_loop.end_left(self);
        }
    }

    /// Whether its fibre's stack has this address.
    pub(crate) fn has_on_stack(&self, address: usize) -> bool {
        let stack = self.stack.take();
        let has = stack.as_ref().is_some_and(|stack| fibre::has_address(stack, address));
        self.stack.set(stack);
        has
    }

    pub(crate) fn place(&self) -> &Cell<Place> {
        &self.place
    }

    pub(crate) fn descriptor(&self) -> c_int {
        self.descriptor
    }

    pub(crate) fn wanted(&self) -> Wanted {
        self.wanted.get()
    }
}

/// Drives a handshake for the program: the body of `SSL_do_handshake`, `SSL_accept` and
/// `SSL_read_early_data`.
///
/// What is not under our care may block, and the thread be cancelled there: nothing of ours is
/// around that.
pub(crate) fn drive(ssl: *mut c_void, call: Call) -> c_int {
    let Some(hooks) = provider() else { return call.make(ssl) };
    let driven = || EventLoop::with(|event_loop| drive_ours(hooks, event_loop, ssl, call));
    match guard_uncancelled(Some(Driven::Told(call.later())), driven) {
        Some(Driven::Told(result)) => result,
        Some(Driven::Unknown) => methods::within_libssl(|| call.make(ssl)),
        Some(Driven::Passed) => call.make(ssl),
        // The thread is ending: what is suspended goes on elsewhere, or not at all if the process
        // is ending as well.
        None => {
            let suspended = find(ssl).filter(|handshake| handshake.state() != State::Idle);
            suspended.map_or_else(|| call.make(ssl), |_| postponed(call))
        }
    }
}

/// What became of a call that drives a handshake.
enum Driven {
    /// What it returns.
    Told(c_int),
    /// It is for libssl.
    Passed,
    /// The same, for a handshake that is not under our care.
    Unknown,
}

fn drive_ours(
    hooks: &ProviderHooks,
    event_loop: &EventLoop,
    ssl: *mut c_void,
    call: Call,
) -> Driven {
    if event_loop.is_on_fibre() {
        // A callback drives the connection that it was called for, or another one, which may be
        // suspended itself.
        let is_suspended = |handshake: &Handshake| {
            handshake.state() != State::Idle && !handshake.is_on(event_loop)
        };
        let is_another = find(ssl).is_some_and(is_suspended);
        return if is_another { Driven::Told(postponed(call)) } else { Driven::Passed };
    }
    let Some(handshake) = find(ssl).or_else(|| take_in(hooks, event_loop, ssl)) else {
        return Driven::Unknown;
    };
    if call.reads_early_data() && handshake.state() == State::Idle && handshake.has_early_data() {
        handshake.tell_early_data(call);
        return Driven::Told(SSL_READ_EARLY_DATA_SUCCESS);
    }
    if !Arc::ptr_eq(&handshake.owner, event_loop.mailbox()) {
        return told_elsewhere(handshake, call).map_or(Driven::Passed, Driven::Told);
    }
    Driven::Told(advance(hooks, event_loop, handshake, call))
}

/// Lets the handshake go on as far as it gets.
fn advance(
    hooks: &ProviderHooks,
    event_loop: &EventLoop,
    handshake: &Handshake,
    call: Call,
) -> c_int {
    if handshake.is_to_be_reported.load(Ordering::Relaxed) {
        event_loop.take_from_ready(handshake);
    }
    if !matches!(handshake.state(), State::Idle | State::Running) {
        begin_as_libssl();
    }
    let is_own = || event_loop.closing(|closing| closing.is_own(handshake.wait.get()));
    if handshake.state() == State::Parked && is_own() {
        let mut wait = handshake.wait.get();
        let verdict = event_loop.closing(|closing| closing.ask(&mut wait));
        handshake.wait.set(wait);
        if verdict == Verdict::KeepOpen {
            return postponed(call);
        }
        (hooks.execute)(Extent::All);
        ahead::go_on(hooks, event_loop, handshake);
        if handshake.state() == State::Parked {
            return postponed(call);
        }
    }
    loop {
        let result = match handshake.state() {
            State::Held => handshake.tell(call),
            // Without a fibre libssl's functions call each other through our doors.
            State::Running => return call.make(handshake.ssl),
            State::Ready => {
                event_loop.take_from_ready(handshake);
                event_loop.run_fibre(handshake, call)
            }
            State::Idle | State::Parked => event_loop.run_fibre(handshake, call),
        };
        let Some(result) = result else {
            park(hooks, event_loop, handshake);
            // What was executed before may bring its next operation.
            event_loop.warm_deferred();
            ahead::go_on(hooks, event_loop, handshake);
            let is_parked = handshake.state() == State::Parked;
            if is_parked && (hooks.wait_ns)(false) == 0 && event_loop.has_nobody_else() {
                (hooks.execute)(Extent::Due);
                ahead::go_on(hooks, event_loop, handshake);
            }
            if handshake.state() == State::Parked {
                return postponed(call);
            }
            continue;
        };
        let begun = handshake.begun.get();
        if begun.is_same_kind(call) {
            if !call.reads_early_data() && call.is_done(result) {
                let errno = real::errno();
                release(handshake);
                real::set_errno(errno);
            }
            return result;
        }
        if !begun.is_done(result) {
            return postponed(call);
        }
    }
}

/// Notes that the fibre of `handshake` waits for a private-key operation; executes if that fills
/// the lanes.
fn park(hooks: &ProviderHooks, event_loop: &EventLoop, handshake: &Handshake) {
    handshake.set_state(State::Parked);
    let (wanted, wait) = match handshake.notified {
        Notified::ByPost => (Wanted::Read, event_loop.closing(|closing| closing.park_shared())),
        Notified::ByEvent | Notified::Asks => {
            let registration = registry::look_up(handshake.descriptor, event_loop.waiting());
            let wanted = Wanted::choose(registration, event_loop.waiting());
            (wanted, event_loop.closing(|closing| closing.park()))
        }
    };
    handshake.wanted.set(wanted);
    handshake.wait.set(wait);
    if (hooks.full)() {
        (hooks.execute)(Extent::Whole);
        if event_loop.closing(|closing| closing.batch()) == Verdict::Close {
            (hooks.execute)(Extent::All);
        }
    }
}

/// What a call returns on another thread than the one that has the handshake's fibre; `None` if
/// libssl's own function is to be called.
///
/// The thread that has the fibre finishes it before it sleeps; then any thread may continue the
/// handshake.
fn told_elsewhere(handshake: &Handshake, call: Call) -> Option<c_int> {
    match handshake.state() {
        State::Idle => None,
        State::Held => handshake.tell(call).filter(|_| handshake.begun.get().is_same_kind(call)),
        State::Parked | State::Ready | State::Running => Some(postponed(call)),
    }
}

/// What a call returns whose handshake is parked: as natively, with nothing in the error queue and
/// an `errno` that says why.
fn postponed(call: Call) -> c_int {
    if let Some(openssl) = real::openssl() {
        (openssl.ERR_clear_error)();
    }
    real::set_errno(libc::EAGAIN);
    call.later()
}

/// Does what libssl does at the beginning of each call, which a suspended handshake has behind it:
/// what the program's other connections have left in the error queue is not this one's.
fn begin_as_libssl() {
    if let Some(openssl) = real::openssl() {
        (openssl.ERR_clear_error)();
    }
    real::set_errno(0);
}

/// Lets a handshake go on that was executed and whose program does not call for it on this thread;
/// false if it may not.
///
/// It does not read from its peer meanwhile: what the peer has sent stays in the socket, so that
/// the program finds it there, by whatever means it waits, as it would natively.
pub(crate) fn go_on_unasked(
    hooks: &ProviderHooks,
    event_loop: &EventLoop,
    handshake: &Handshake,
) -> bool {
    let Some(openssl) = real::openssl() else { return false };
    let _kept_open = registry::keep_open(handshake.descriptor);
    if !handshake.take_up() {
        return false;
    }
    // What the program has left in its error queue is neither touched nor mistaken for this one's.
    let errors = Outcome::take(openssl, 0);
    let empty = EmptyInput::insert(openssl, handshake.ssl, handshake.descriptor);
    let ended = ahead::run(hooks, event_loop, openssl, handshake);
    let waits_for_peer = ended.as_ref().is_some_and(|it| it.error() == SSL_ERROR_WANT_READ);
    if let Some(empty) = empty {
        empty.remove(openssl, waits_for_peer);
    }
    errors.restore(openssl);
    if let Some(ended) = ended {
        // If it waits for its peer, the peer's data wakes it; anything else must be reported to the
        // program.
        if !waits_for_peer {
            event_loop.add_to_ready(handshake);
        }
        ended.release();
    }
    true
}

/// Lets all handshakes go on that were executed and whose program is never to call for them.
///
/// Their program may be in a call for `current`, which that call takes up itself.
pub(crate) fn go_on_by_themselves(
    hooks: &ProviderHooks,
    event_loop: &EventLoop,
    current: Option<&Handshake>,
) {
    let Some(openssl) = real::openssl() else { return };
    loop {
        if let Some(current) = current {
            event_loop.take_from_ready(current);
        }
        let Some(handshake) = event_loop.next_own() else { return };
        if !handshake.take_up() {
            continue;
        }
        // What the call at hand has left in its error queue is not this one's.
        let errors = Outcome::take(openssl, 0);
        if let Some(ended) = ahead::run(hooks, event_loop, openssl, handshake) {
            ended.release();
        }
        errors.restore(openssl);
    }
}

/// What `SSL_get_error` returns for a suspended handshake; nothing if a function has failed
/// meanwhile, which it has said in the error queue.
pub(crate) fn error_of_suspended(ssl: *const c_void) -> Option<c_int> {
    let handshake = suspended(ssl)?;
    if (real::openssl()?.ERR_peek_error)() != 0 {
        return None;
    }
    Some(match handshake.wanted.get() {
        Wanted::Read => SSL_ERROR_WANT_READ,
        Wanted::Write => SSL_ERROR_WANT_WRITE,
    })
}

/// What `SSL_want` returns for a suspended handshake.
pub(crate) fn want_of_suspended(ssl: *const c_void) -> Option<c_int> {
    Some(match suspended(ssl)?.wanted.get() {
        Wanted::Read => SSL_READING,
        Wanted::Write => SSL_WRITING,
    })
}

fn suspended(ssl: *const c_void) -> Option<&'static Handshake> {
    provider()?;
    let is_suspended = |handshake: &&Handshake| match handshake.state() {
        State::Idle => false,
        State::Parked | State::Ready | State::Held => true,
        // For its own callbacks it is not, nor when it has just left its fibre.
        State::Running => {
            !EventLoop::with(|it| Arc::ptr_eq(&handshake.owner, it.mailbox())).unwrap_or(false)
        }
    };
    find(ssl.cast_mut()).filter(is_suspended)
}

/// Takes a handshake under our care, or leaves it alone: `None`. One that begins while the process
/// is switched off is only counted.
fn take_in(
    hooks: &ProviderHooks,
    event_loop: &EventLoop,
    ssl: *mut c_void,
) -> Option<&'static Handshake> {
    let openssl = real::openssl()?;
    let is_off = (hooks.is_off)();
    if (openssl.SSL_in_init)(ssl) == 0
        || (openssl.SSL_is_server)(ssl) == 0
        || (is_off && (openssl.SSL_in_before)(ssl) == 0)
        || (openssl.SSL_is_dtls)(ssl) != 0
        // OpenSSL's own QUIC handshakes behind a lock that all connections of a socket share.
        || (openssl.SSL_version)(ssl) == OSSL_QUIC1_VERSION
        || (openssl.SSL_ctrl)(ssl, SSL_CTRL_MODE, 0, ptr::null_mut()) & SSL_MODE_ASYNC != 0
        || is_left_alone(openssl, ssl)
    {
        return None;
    }
    if !event_loop.has_polled() {
        say_once(
            Notice::NoEpoll,
            "this program handshakes on threads that do not use epoll; those are not batched by \
             its event loop",
        );
        return None;
    }
    if interpreters::need_own_stack() {
        return None;
    }
    let descriptor = real::SSL_get_fd(ssl);
    let notified = Notified::of(openssl, ssl, descriptor)?;
    // What has polled once may have done so for another thread, and never do it again.
    if notified != Notified::Asks && !event_loop.has_slept() {
        return None;
    }
    if notified == Notified::ByPost {
        methods::keep_for_program();
    }
    if is_off {
        count_handshake(hooks);
        return None;
    }
    round_trip::begin(notified);
    let index = extra_data_index(openssl)?;
    let handshake = Box::into_raw(Box::new(Handshake {
        ssl,
        references: AtomicUsize::new(count_of((openssl.SSL_get_ex_data)(ssl, index))),
        owner: Arc::clone(event_loop.mailbox()),
        state: AtomicU8::new(State::Idle as u8),
        descriptor,
        closes: registry::closes(descriptor),
        notified,
        wanted: Cell::new(Wanted::Write),
        wait: Cell::new(Wait::default()),
        stack: Cell::new(None),
        place: Cell::new(Place::NONE),
        begun: Cell::new(Call::DoHandshake),
        call: Cell::new(Call::DoHandshake),
        has_read_early_data: Cell::new(false),
        result: Cell::new(None),
        held: Cell::new(None),
        early_data: Cell::default(),
        has_waited: Cell::new(false),
        receives_from: Cell::new(descriptor),
        round_trip_ns: OnceCell::new(),
        is_first: is_first(openssl, ssl),
        tickets: Cell::new(0),
        may_park: Cell::new(true),
        is_to_be_reported: AtomicBool::new(false),
    }));
    if (openssl.SSL_set_ex_data)(ssl, index, handshake.cast()) == 0 {
        // SAFETY: made by `into_raw` above, and the SSL did not take it.
        drop(unsafe { Box::from_raw(handshake) });
        return None;
    }
    count_handshake(hooks);
    // SAFETY: lives until `release` or until its SSL is freed, and neither happens during a call.
    Some(unsafe { &*handshake })
}

/// The state kept on `ssl`, if there is one.
fn find(ssl: *mut c_void) -> Option<&'static Handshake> {
    // Libssl refuses it from OpenSSL 3.2 on, but not where we look.
    if ssl.is_null() {
        return None;
    }
    let openssl = real::openssl()?;
    let handshake = (openssl.SSL_get_ex_data)(ssl, extra_data_index(openssl)?);
    if count_of(handshake) > 0 {
        return None;
    }
    // SAFETY: null, or what `take_in` put there, which lives until `release` or until its SSL is
    // freed.
    unsafe { handshake.cast::<Handshake>().as_ref() }
}

/// Ends our care for a handshake that is complete.
fn release(handshake: &Handshake) {
    let Some(openssl) = real::openssl() else { return };
    let Some(index) = extra_data_index(openssl) else { return };
    let references = handshake.references.load(Ordering::Relaxed);
    (openssl.SSL_set_ex_data)(handshake.ssl, index, as_count(references));
    // SAFETY: made by `into_raw` in `take_in`; the SSL has just let go of it.
    drop(unsafe { Box::from_raw(ptr::from_ref(handshake).cast_mut()) });
}

/// Where a connection keeps what we know of its handshake.
fn extra_data_index(openssl: &OpenSsl) -> Option<c_int> {
    static INDEX: Index = Index::with(OF_CONNECTIONS, leave_out_extra_data, free_extra_data);
    INDEX.get(openssl)
}

/// A copy of a connection begins without a handshake under our care.
extern "C" fn leave_out_extra_data(
    _copy: *mut c_void,
    _original: *const c_void,
    handshake: *mut *mut c_void,
    _index: c_int,
    _argument: c_long,
    _pointer: *mut c_void,
) -> c_int {
    // SAFETY: what OpenSSL is about to give the copy.
    unsafe { handshake.write(ptr::null_mut()) };
    1
}

extern "C" fn free_extra_data(
    _ssl: *mut c_void,
    handshake: *mut c_void,
    _table: *mut c_void,
    _index: c_int,
    _argument: c_long,
    _pointer: *mut c_void,
) {
    if handshake.is_null() || count_of(handshake) > 0 {
        return;
    }
    // SAFETY: made by `into_raw` in `take_in`; its SSL is being freed.
    let handshake = unsafe { Box::from_raw(handshake.cast::<Handshake>()) };
    if handshake.state() != State::Idle {
        // libssl has freed it by itself, or the program has dropped another reference.
        EventLoop::with(|event_loop| {
            handshake.end_if_freed_elsewhere(event_loop);
            if Arc::ptr_eq(&handshake.owner, event_loop.mailbox()) {
                handshake.withdraw(event_loop);
            }
        });
    }
}

fn handle(handshake: &Handshake) -> Handle {
    ptr::from_ref(handshake).cast_mut().cast()
}

/// `RuntimeHooks::current`.
pub(crate) extern "C" fn current() -> Handle {
    let current = on_fibre(|handshake| {
        let openssl = real::openssl()?;
        let state = (openssl.SSL_state_string)(handshake.ssl);
        // SAFETY: libssl's own constant strings.
        let state = unsafe { CStr::from_ptr(state) };
        let may_park = handshake.may_park.get() && may_park_in(state, handshake.notified);
        may_park.then(|| handle(handshake))
    });
    current.flatten().unwrap_or(ptr::null_mut())
}

/// `RuntimeHooks::may_wait`.
pub(crate) extern "C" fn may_wait(handle: Handle) -> bool {
    // SAFETY: the provider asks while the handshake's fibre is running.
    let handshake = unsafe { handle.cast::<Handshake>().as_ref() };
    handshake.is_some_and(|handshake| !handshake.has_waited.replace(true))
}

/// `RuntimeHooks::round_trip_ns`.
pub(crate) extern "C" fn round_trip_ns(handle: Handle) -> u64 {
    // SAFETY: the provider asks while the handshake's fibre is running.
    let handshake = unsafe { handle.cast::<Handshake>().as_ref() };
    handshake.map_or(0, Handshake::round_trip_ns)
}

/// `RuntimeHooks::completed`.
pub(crate) extern "C" fn completed(handle: Handle) {
    // SAFETY: the provider gives back a handle it got from `current`; a freed one was cancelled.
    let Some(handshake) = (unsafe { handle.cast::<Handshake>().as_ref() }) else { return };
    EventLoop::with(|event_loop| {
        if handshake.state() == State::Parked {
            handshake.set_state(State::Ready);
            event_loop.closing(|closing| closing.unpark(handshake.wait.get()));
            match handshake.notified {
                Notified::ByEvent => event_loop.add_to_ready(handshake),
                Notified::Asks if handshake.may_go_ahead() => event_loop.warm.push(handshake),
                Notified::Asks => {}
                Notified::ByPost => event_loop.own.push(handshake),
            }
        }
    });
}

impl EventLoop {
    /// Starts or resumes the fibre of `handshake` for `call`: its result, or `None` if it paused.
    fn run_fibre(&self, handshake: &Handshake, call: Call) -> Option<c_int> {
        let result = self.resume(handshake, call)?;
        handshake.set_state(State::Idle);
        Some(result)
    }

    /// The same; the handshake is left [`State::Running`], so that no other thread touches it yet.
    fn resume(&self, handshake: &Handshake, call: Call) -> Option<c_int> {
        handshake.call.set(call);
        if handshake.state() == State::Idle {
            handshake.begun.set(call.detached());
            if call.reads_early_data() {
                handshake.has_read_early_data.set(true);
            }
            let Some(stack) = self.stack() else {
                handshake.set_state(State::Running);
                return Some(call.make(handshake.ssl));
            };
            handshake.result.set(None);
            handshake.place.set(Place::begin(&stack, body, handle(handshake)));
            handshake.stack.set(Some(stack));
        }
        handshake.set_state(State::Running);
        self.closing(|closing| closing.progress());
        self.enter(handshake);
        let result = handshake.result.take();
        if let Some(result) = result {
            self.recycle(handshake);
            let errno = real::errno();
            if result <= 0 && real::SSL_get_error(handshake.ssl, result) == SSL_ERROR_SSL {
                self.relieve();
            }
            real::set_errno(errno);
        }
        result
    }

    /// Runs the fibre until it pauses or ends, between two words to the provider.
    fn enter(&self, handshake: &Handshake) {
        let tell = |is_begun| {
            if let Some(hooks) = provider() {
                (hooks.fibre)(is_begun);
            }
        };
        tell(true);
        self.switch_to(handshake);
        tell(false);
    }

    /// Takes the stack from a handshake that has left it.
    fn recycle(&self, handshake: &Handshake) {
        if let Some(stack) = handshake.stack.take() {
            self.keep(stack);
        }
    }
}

/// What runs on a handshake's fibre; leaves its result and switches away for good.
extern "C" fn body(handle: *mut c_void) -> ! {
    // SAFETY: the handle of the handshake that `run_fibre` is about to switch to.
    let handshake = unsafe { &*handle.cast::<Handshake>() };
    let begun = handshake.begun.get();
    let result = match begun {
        Call::Accept | Call::DoHandshake => begun.make(handshake.ssl),
        Call::ReadEarlyData { bytes, .. } => read_early_data(handshake, bytes),
    };
    handshake.result.set(Some(result));
    loop {
        crate::event_loop::pause();
    }
}

/// Reads early data on a fibre, where the arguments of the call that began may be gone at its end.
fn read_early_data(handshake: &Handshake, bytes: usize) -> c_int {
    let mut record = vec![0; bytes.min(RECORD_BYTES_MAX)];
    let mut read = 0;
    let buffer = record.as_mut_ptr().cast();
    let result = real::SSL_read_early_data(handshake.ssl, buffer, record.len(), &mut read);
    record.truncate(read);
    handshake.early_data.set(record);
    handshake.tell_early_data(handshake.call.get());
    result
}
