//! What is parked on one thread, and what its `epoll_wait` does about it.
#![allow(unsafe_code, reason = "fibre switches, handshakes by address, the program's event array")]

mod queue;

use core::cell::{Cell, OnceCell, RefCell};
use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libc::epoll_event;
use widelane_bridge::hooks::{Extent, ProviderHooks};
use widelane_reserve::Stack;

use crate::closing::{Closing, Verdict};
use crate::cork;
use crate::fibre::{self, Place};
use crate::forks;
use crate::handshake::{self, Handshake};
use crate::interpose::guard_uncancelled;
use crate::methods;
use crate::provider::provider;
use crate::real;
use crate::registry;
use crate::stacks::Stacks;
use crate::wake::{Wake, is_special};
use queue::Queue;

thread_local! {
    static EVENT_LOOP: EventLoop = EventLoop::new();
    /// Made after all that handshakes need of the thread, and so the first to go when it ends.
    static END: End = const { End };
    /// Whether the thread has ever waited by epoll. Unlike the others this may be asked in a signal
    /// handler: it has no destructor, for which the loader takes a lock and allocates.
    static HAS_BEGUN: Cell<bool> = const { Cell::new(false) };
}

/// Whether the thread has ever waited by epoll: otherwise it has no handshakes of ours.
pub(crate) fn has_begun() -> bool {
    HAS_BEGUN.get()
}

/// Finishes what is parked on a thread that ends: another may have those connections by now.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        guard_uncancelled((), || {
            finish_before_sleep();
            // Nothing parks here any more.
            EventLoop::with(|event_loop| event_loop.waiting.set(-1));
        });
    }
}

/// The handshakes of one thread.
pub(crate) struct EventLoop {
    mailbox: Arc<Mailbox>,
    /// The epoll descriptor that this thread waited for last, −1 if it never did.
    waiting: Cell<c_int>,
    /// Whether it has ever waited with a timeout, and so will wait again.
    has_slept: Cell<bool>,
    /// The epoll descriptor by which this thread is woken when other workers have finished
    /// operations of its, how often that had been closed, and the one that wakes it there; −1 if
    /// there is none.
    woken_by: Cell<(c_int, u32, c_int)>,
    /// The handshake whose fibre is running, null on the thread's own stack.
    running: Cell<*const Handshake>,
    /// Where the thread's own stack goes on when the fibre pauses or ends; nowhere while none runs.
    own_place: Cell<Place>,
    /// The thread's own stack, once it was asked for.
    own_stack: OnceCell<Range<usize>>,
    closing: RefCell<Closing>,
    /// Executed handshakes whose program must be woken.
    ready: Queue,
    /// Those of which it was told, until it calls for them or waits again.
    told: Queue,
    /// Executed handshakes that may go on at once.
    pub(crate) warm: Queue,
    /// Executed handshakes that go on by themselves.
    pub(crate) own: Queue,
    /// Whether any has, and so the program may have something to do.
    has_posted: Cell<bool>,
    /// Handshakes executed in `epoll_wait` that may go on at once in a call for another one.
    deferred: Queue,
    stacks: Stacks,
    /// The process that it knows of.
    generation: Cell<u32>,
}

impl EventLoop {
    fn new() -> Self {
        Self {
            mailbox: Arc::new(Mailbox::new()),
            waiting: Cell::new(-1),
            has_slept: Cell::new(false),
            woken_by: Cell::new((-1, 0, -1)),
            running: Cell::new(ptr::null()),
            own_place: Cell::new(Place::NONE),
            own_stack: OnceCell::new(),
            closing: RefCell::new(Closing::new()),
            ready: Queue::default(),
            told: Queue::default(),
            warm: Queue::default(),
            own: Queue::default(),
            has_posted: Cell::new(false),
            deferred: Queue::default(),
            stacks: Stacks::default(),
            generation: Cell::new(forks::generation()),
        }
    }

    /// Calls `f` with the calling thread's event loop; `None` if the thread is ending.
    pub(crate) fn with<T>(f: impl FnOnce(&Self) -> T) -> Option<T> {
        EVENT_LOOP
            .try_with(|event_loop| {
                let generation = forks::generation();
                if event_loop.generation.replace(generation) != generation {
                    event_loop.leave_to_parent();
                }
                if let Some(handshake) = event_loop.on_fibre() {
                    event_loop.end_if_left(handshake);
                }
                f(event_loop)
            })
            .ok()
    }

    /// This process was forked. Of the handshakes that its parent had suspended none goes on here
    /// unless the program calls for it: both would write to the same socket.
    fn leave_to_parent(&self) {
        self.closing(Closing::leave_to_parent);
        self.keep_ready(|_| false);
        for queue in [&self.told, &self.warm, &self.own, &self.deferred] {
            queue.clear();
        }
    }

    /// Ends the running fibre if a callback has left it by `longjmp`: the thread is on its own
    /// stack, and so was the call that began or resumed the fibre. Where that was on another stack,
    /// the program has coroutines, and may come back to the fibre.
    #[cold]
    fn end_if_left(&self, handshake: &Handshake) {
        let here = fibre::stack_pointer();
        if handshake.has_on_stack(here) || fibre::is_on_signal_stack() {
            return;
        }
        let own_stack = self.own_stack.get_or_init(fibre::own_stack);
        let places = [here, self.own_place.get().address()];
        if places.iter().all(|place| own_stack.contains(place)) {
            self.end_left(handshake);
        }
    }

    /// Ends what `switch_to` has begun for a handshake and will not come back to.
    pub(crate) fn end_left(&self, handshake: &Handshake) {
        self.running.set(ptr::null());
        self.own_place.set(Place::NONE);
        if let Some(hooks) = provider() {
            (hooks.fibre)(false);
        }
        handshake.end_left(self);
    }

    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    pub(crate) fn waiting(&self) -> c_int {
        self.waiting.get()
    }

    pub(crate) fn has_polled(&self) -> bool {
        self.waiting.get() >= 0
    }

    pub(crate) fn has_slept(&self) -> bool {
        self.has_slept.get()
    }

    pub(crate) fn closing<T>(&self, f: impl FnOnce(&mut Closing) -> T) -> T {
        f(&mut self.closing.borrow_mut())
    }

    pub(crate) fn is_on_fibre(&self) -> bool {
        !self.running.get().is_null()
    }

    /// The handshake whose fibre is running.
    pub(crate) fn on_fibre(&self) -> Option<&Handshake> {
        // SAFETY: null, or the handshake that `switch_to` is running, which outlives its fibre.
        unsafe { self.running.get().as_ref() }
    }

    /// Runs the fibre of `handshake` until it pauses.
    pub(crate) fn switch_to(&self, handshake: &Handshake) {
        self.running.set(handshake);
        // SAFETY: the place was made by `begin` or left by the fibre's last pause on this thread,
        // and the handshake owns its stack.
        unsafe { fibre::switch(&self.own_place, handshake.place().get()) };
        self.running.set(ptr::null());
    }

    pub(crate) fn add_to_ready(&self, handshake: &Handshake) {
        handshake.is_to_be_reported.store(true, Ordering::Release);
        self.ready.push(handshake);
    }

    /// The handshake that was executed first among those that go on by themselves.
    pub(crate) fn next_own(&self) -> Option<&Handshake> {
        let handshake = self.own.pop()?;
        self.has_posted.set(true);
        Some(handshake)
    }

    /// Forgets an executed handshake that another thread takes up, or that is being freed.
    pub(crate) fn take_from_ready(&self, handshake: &Handshake) {
        handshake.is_to_be_reported.store(false, Ordering::Release);
        for queue in [&self.ready, &self.told, &self.warm, &self.own, &self.deferred] {
            queue.forget(handshake);
        }
    }

    /// Lets what was executed in `epoll_wait` go on now.
    pub(crate) fn warm_deferred(&self) {
        self.warm.append(&self.deferred);
    }

    /// A stack for one fibre, if memory allows.
    pub(crate) fn stack(&self) -> Option<Stack> {
        self.stacks.get(fibre::stack)
    }

    /// Called when libssl has failed a handshake: makes room if that was for want of memory.
    pub(crate) fn relieve(&self) {
        self.stacks.relieve(fibre::stack);
    }

    /// Takes back a stack that no fibre needs any more.
    pub(crate) fn keep(&self, stack: Stack) {
        self.stacks.keep(stack);
    }

    /// Whether the handshakes that are parked are all that the thread has to do: none is executed
    /// and not taken up, and nothing else has come in.
    ///
    /// Its server would find that out by turning all of them around, or by going to sleep; this
    /// spares it the way there and back.
    pub(crate) fn has_nobody_else(&self) -> bool {
        self.closing.borrow().has_all() && self.ready.is_empty() && !has_events(self.waiting.get())
    }

    /// Whether a handshake is parked, or executed and not taken up.
    fn has_unfinished(&self) -> bool {
        self.closing.borrow().parked() > 0 || self.has_ready()
    }

    /// Whether a handshake is executed and not taken up.
    fn has_ready(&self) -> bool {
        self.ready.any(Handshake::is_ready) || !self.told.is_empty()
    }

    fn has_nothing_to_do(&self) -> bool {
        self.closing.borrow().parked() == 0
            && self.ready.is_empty()
            && self.told.is_empty()
            && self.mailbox.is_empty()
    }

    /// Frees connections that other threads freed while their fibres were ours.
    fn empty_mailbox(&self) {
        if self.mailbox.is_empty() {
            return;
        }
        for ssl in self.mailbox.take() {
            if handshake::abandon_before_free(ssl) {
                real::SSL_free(ssl);
            }
        }
    }

    /// Has this thread's epoll set wake it when other workers have finished operations of its.
    fn listen_for_wakes(&self, hooks: &ProviderHooks, epoll: c_int) {
        let descriptor = (hooks.wake_descriptor)();
        let woken_by = (epoll, registry::closes(epoll), descriptor);
        if descriptor >= 0 && self.woken_by.get() != woken_by {
            let mut event = epoll_event { events: WAKE_EVENTS, u64: wake_data() };
            HAS_WAKES.store(true, Ordering::Relaxed);
            // Error: the set has it already, or cannot; then what is finished is found later.
            real::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, descriptor, &mut event);
            self.woken_by.set(woken_by);
        }
    }

    /// Executes what is parked. What may go on then is in `ready`, for the caller to sort.
    fn execute_parked(&self, hooks: &ProviderHooks, what: Extent) {
        (hooks.execute)(what);
        self.deferred.append(&self.warm);
    }

    /// Keeps those ready handshakes for which `stays` returns true; the others need not be reported
    /// to the program any more.
    fn keep_ready(&self, mut stays: impl FnMut(&Handshake) -> bool) {
        self.ready.retain(|handshake| {
            let stays = stays(handshake);
            handshake.is_to_be_reported.store(stays, Ordering::Release);
            stays
        });
    }

    /// Reports the ready handshakes in `events`, of which `count` are filled and `room` exist;
    /// returns how many are filled then. Those that cannot be reported here go on by themselves.
    fn report(
        &self,
        hooks: &ProviderHooks,
        epoll: c_int,
        events: *mut epoll_event,
        count: usize,
        room: usize,
    ) -> usize {
        self.empty_mailbox();
        let mut filled = count;
        loop {
            self.keep_ready(|handshake| {
                // Another thread is freeing it, or its descriptor belongs to another connection.
                if !handshake.may_go_on_unasked() {
                    return false;
                }
                let registration = registry::look_up(handshake.descriptor(), epoll);
                let is_told = match Wake::choose(registration, handshake.wanted(), epoll) {
                    Wake::GoOn => false,
                    Wake::Report { events: reported, data } => {
                        let event = epoll_event { events: reported, u64: data };
                        add_event(events, &mut filled, room, event)
                    }
                };
                if handshake.is_ready() {
                    let queue = if is_told { &self.told } else { &self.warm };
                    queue.push(handshake);
                    return false;
                }
                // It went on already: its program is told as soon as it listens.
                !is_told
            });
            if self.warm.is_empty() && self.own.is_empty() {
                return filled;
            }
            // They may fill the lanes, and so execute others.
            self.go_on(hooks);
        }
    }

    /// Lets those go on of which the program was told when it last waited, and for which it has not
    /// called since: it may have handed them to another thread, or not called at once because its
    /// kernel would tell it again.
    fn go_on_told(&self, hooks: &ProviderHooks) {
        if !self.told.is_empty() {
            self.warm.append(&self.told);
            self.go_on(hooks);
        }
    }

    /// Executes all that is parked, and lets it go on until nothing is parked any more.
    fn finish(&self, hooks: &ProviderHooks) {
        self.empty_mailbox();
        let mut was_barren = false;
        while self.has_unfinished() {
            self.go_on_told(hooks);
            let parked = self.closing(|closing| closing.parked());
            self.execute_parked(hooks, Extent::Everything);
            let is_barren = self.closing(|closing| closing.parked()) >= parked && !self.has_ready();
            // Once, an engine may have finished an operation while the provider took it back, which
            // comes with the next turn. Twice, an engine that the provider asks waits by a call
            // that led here.
            if is_barren && was_barren {
                return;
            }
            was_barren = is_barren;
            self.keep_ready(|handshake| {
                if handshake.is_ready() {
                    self.warm.push(handshake);
                }
                !handshake.is_ready()
            });
            self.go_on(hooks);
            self.empty_mailbox();
        }
    }

    /// Lets all warm handshakes go on. They leave to be read what their peers have sent, whose edge
    /// the call that parked may have used up: so epoll sets report it once more.
    fn go_on(&self, hooks: &ProviderHooks) {
        handshake::go_on_by_themselves(hooks, self, None);
        while let Some(handshake) = self.warm.pop() {
            let descriptor = handshake.descriptor();
            // From then on another thread may free it.
            if handshake::go_on_unasked(hooks, self, handshake) {
                rearm(descriptor);
            }
        }
    }
}

/// Registers the same interest again: that raises the edge, for whichever call or thread waits.
///
/// A one-shot registration is the program's to arm, each time it wants another event.
fn rearm(descriptor: c_int) {
    let hold = registry::hold(descriptor);
    let registrations = registry::look_all_up(descriptor).into_iter().flatten();
    for known in registrations.filter(|known| hold.is_exclusive() && !is_special(known.events)) {
        let mut event = epoll_event { events: known.events, u64: known.data };
        real::epoll_ctl(known.epoll_descriptor, libc::EPOLL_CTL_MOD, descriptor, &mut event);
    }
}

/// Adds an event to the program's array, of which `filled` are filled; false if there is no room.
fn add_event(
    events: *mut epoll_event,
    filled: &mut usize,
    room: usize,
    event: epoll_event,
) -> bool {
    // SAFETY: the kernel or an earlier round filled `filled` of the program's array.
    let known = unsafe { core::slice::from_raw_parts_mut(events, *filled) };
    // A program may expect each registration at most once, as the kernel has it.
    if let Some(known) = known.iter_mut().find(|known| { known.u64 } == event.u64) {
        known.events |= event.events;
        return true;
    }
    if *filled == room {
        return false;
    }
    // SAFETY: below `room`, the length that the program gave.
    let slot = unsafe { events.add(*filled) };
    // SAFETY: as above; the array is the program's to be written.
    unsafe { slot.write(event) };
    *filled += 1;
    true
}

/// Whether any epoll set of this process may have a registration of our own.
static HAS_WAKES: AtomicBool = AtomicBool::new(false);

/// Removes the events that only woke a thread; returns how many are left of `count`. Threads may
/// share an epoll set, and one of them may get events that were meant for another.
fn without_wakes(events: *mut epoll_event, count: c_int) -> c_int {
    let Ok(filled) = usize::try_from(count) else { return count };
    if filled == 0 || !HAS_WAKES.load(Ordering::Relaxed) {
        return count;
    }
    // SAFETY: the kernel has just filled so many of the program's array.
    let filled = unsafe { core::slice::from_raw_parts_mut(events, filled) };
    let mut kept = 0;
    for index in 0..filled.len() {
        let event = filled[index];
        if { event.u64 } != wake_data() {
            filled[kept] = event;
            kept += 1;
        }
    }
    c_int::try_from(kept).unwrap_or(count)
}

/// Each call by the descriptor is an event, whether or not the one before was reset.
const WAKE_EVENTS: u32 = (libc::EPOLLIN | libc::EPOLLET).cast_unsigned();

/// The data word of our own registration: an address of ours, which cannot be a descriptor or an
/// object of the program.
fn wake_data() -> u64 {
    static OURS: u8 = 0;
    ptr::from_ref(&OURS).addr() as u64
}

/// Whether a wait for `epoll` would return at once.
fn has_events(epoll: c_int) -> bool {
    let mut question = libc::pollfd { fd: epoll, events: libc::POLLIN, revents: 0 };
    real::poll(&mut question, 1, 0) != 0
}

/// Finishes what is parked on this thread, which is about to wait by other means than epoll: there
/// is no array of events in which they could be reported.
pub(crate) fn finish_before_sleep() {
    let Some(hooks) = provider().filter(|_| has_begun()) else { return };
    cork::release_all();
    EventLoop::with(|event_loop| {
        if event_loop.is_on_fibre() || event_loop.has_nothing_to_do() {
            return;
        }
        let errno = real::errno();
        event_loop.finish(hooks);
        real::set_errno(errno);
    });
}

/// The same before a call that may wait for a connection to `listener`. It does not if that is
/// non-blocking, or registered with epoll: such a listener is asked when it has one.
pub(crate) fn finish_before_accept(listener: c_int) {
    let has_unfinished = || EventLoop::with(EventLoop::has_unfinished).unwrap_or(false);
    let has_any = || cork::holds_any() || has_unfinished();
    if provider().is_none()
        || !has_begun()
        || !has_any()
        || registry::look_up(listener, -1).is_some()
    {
        return;
    }
    // SAFETY: reading the flags of a descriptor has no effect on memory.
    let flags = unsafe { libc::fcntl(listener, libc::F_GETFL) };
    if flags >= 0 && flags & libc::O_NONBLOCK == 0 {
        finish_before_sleep();
    }
}

/// How long the program wants to wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// Not at all.
    Zero,
    /// So many nanoseconds.
    Ns(u64),
    /// Until something happens.
    Endless,
}

/// How long one of the waiting functions is to wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Not at all.
    Zero,
    /// So many nanoseconds.
    AtMost(u64),
    /// As long as the program asked for.
    Asked,
    /// What is left of that: so many nanoseconds. Functions that count milliseconds round up.
    Left(u64),
}

/// The body of `epoll_wait` and its relatives; `wait` calls the real one.
///
/// The thread may be cancelled there: it waits with nothing around that would be in the way.
pub(crate) fn wait(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: Timeout,
    wait: impl Fn(Patience) -> c_int,
) -> c_int {
    let Some(hooks) = provider() else { return wait(Patience::Asked) };
    let wait = |patience| loop {
        let count = wait(patience);
        let others = without_wakes(events, count);
        // A program that asked for no end would be surprised by one.
        let is_surprise = others == 0 && count > 0 && timeout == Timeout::Endless;
        if !(is_surprise && patience == Patience::Asked) {
            return others;
        }
    };
    let mut call = WaitCall::new(hooks, epoll, events, room, timeout);
    let mut count = 0;
    loop {
        let next = || EventLoop::with(|event_loop| call.next(event_loop, count));
        match guard_uncancelled(Some(Step::Return(-1)), next) {
            Some(Step::Wait(patience)) => count = wait(patience),
            Some(Step::Return(count)) => return count,
            // The thread is ending.
            None => return wait(Patience::Asked),
        }
    }
}

/// One call of `epoll_wait` or a relative of it, which may wait several times.
struct WaitCall<'a> {
    hooks: &'a ProviderHooks,
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: Timeout,
    /// When the program's timeout ends, from the first wait for company on.
    end: Option<Instant>,
    stage: Stage,
}

/// How long a program is kept at a time that did not want to wait: as long as the longest wait for
/// company that a policy may have.
const REST_AT_ZERO_MAX_NS: u64 = 10_000_000;

/// What a call waits for now.
#[derive(Clone, Copy)]
enum Stage {
    /// Nothing yet.
    Begun,
    /// What the program asked for, from a handshake's callback.
    OnFibre,
    /// What the program asked for.
    Asked,
    /// What is ready at once.
    Polled,
    /// Company.
    Resting,
}

/// What a call does next.
enum Step {
    Wait(Patience),
    Return(c_int),
}

impl<'a> WaitCall<'a> {
    fn new(
        hooks: &'a ProviderHooks,
        epoll: c_int,
        events: *mut epoll_event,
        room: c_int,
        timeout: Timeout,
    ) -> Self {
        Self { hooks, epoll, events, room, timeout, end: None, stage: Stage::Begun }
    }

    /// Goes on from where the last wait has returned `count`.
    fn next(&mut self, event_loop: &EventLoop, count: c_int) -> Step {
        match self.stage {
            Stage::Begun => self.begin(event_loop),
            Stage::OnFibre => Step::Return(count),
            Stage::Asked => self.end(event_loop, count),
            Stage::Polled => self.decide(event_loop, count),
            Stage::Resting if count != 0 => self.end(event_loop, count),
            Stage::Resting => self.execute_rested(event_loop),
        }
    }

    fn wait(&mut self, stage: Stage, patience: Patience) -> Step {
        self.stage = stage;
        Step::Wait(patience)
    }

    fn end(&self, event_loop: &EventLoop, count: c_int) -> Step {
        let events = usize::try_from(count).unwrap_or(0);
        event_loop.closing(|closing| closing.give(self.timeout == Timeout::Zero, events));
        Step::Return(count)
    }

    fn begin(&mut self, event_loop: &EventLoop) -> Step {
        if event_loop.is_on_fibre() {
            return self.wait(Stage::OnFibre, Patience::Asked);
        }
        if !event_loop.has_polled() {
            (self.hooks.begin_thread)();
            HAS_BEGUN.set(true);
            // Error: the thread is ending.
            let _ = END.try_with(|_| ());
        }
        event_loop.waiting.set(self.epoll);
        if self.timeout != Timeout::Zero {
            event_loop.has_slept.set(true);
        }
        // What a callback that threw has left behind ends here.
        methods::begin_turn();
        cork::hold_no_more();
        cork::release_all();
        event_loop.go_on_told(self.hooks);
        if event_loop.has_nothing_to_do() {
            return self.wait(Stage::Asked, Patience::Asked);
        }
        event_loop.empty_mailbox();
        event_loop.has_posted.set(false);
        self.wait(Stage::Polled, Patience::Zero)
    }

    /// Decides about the batch where `count` events are ready.
    fn decide(&mut self, event_loop: &EventLoop, count: c_int) -> Step {
        let Ok(filled) = usize::try_from(count) else { return self.end(event_loop, count) };
        let executed = event_loop.ready.len() + event_loop.deferred.len();
        let (is_zero, ready) = (self.timeout == Timeout::Zero, filled + executed);
        match event_loop.closing(|closing| closing.poll(is_zero, ready)) {
            // What others have finished need not wait for the rest.
            Verdict::KeepOpen => event_loop.execute_parked(self.hooks, Extent::Whole),
            // What waits for company has an end of its own.
            Verdict::Close => event_loop.execute_parked(self.hooks, Extent::Due),
            Verdict::Idle => return self.rest(event_loop),
        }
        self.report(event_loop, filled, false)
    }

    /// The program has nothing else to do, and nothing is to be reported: waits for company where
    /// that is worth it, and executes what has no company to expect.
    fn rest(&mut self, event_loop: &EventLoop) -> Step {
        if let (Timeout::Ns(asked_ns), None) = (self.timeout, self.end) {
            self.end = Instant::now().checked_add(Duration::from_nanos(asked_ns));
        }
        let ns = (self.hooks.wait_ns)(true);
        if ns == 0 {
            return self.execute_rested(event_loop);
        }
        event_loop.listen_for_wakes(self.hooks, self.epoll);
        self.wait(Stage::Resting, Patience::AtMost(ns.min(self.left_ns())))
    }

    /// How long the program may be kept.
    fn left_ns(&self) -> u64 {
        match self.end {
            _ if self.timeout == Timeout::Zero => REST_AT_ZERO_MAX_NS,
            None => u64::MAX,
            Some(end) => {
                let left = end.saturating_duration_since(Instant::now());
                u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)
            }
        }
    }

    fn execute_rested(&mut self, event_loop: &EventLoop) -> Step {
        // What another thread has freed meanwhile is not executed.
        event_loop.empty_mailbox();
        // A program that does not want to wait longer has something to do now.
        let is_over = self.left_ns() == 0;
        let extent = if is_over { Extent::All } else { Extent::Due };
        event_loop.execute_parked(self.hooks, extent);
        self.report(event_loop, 0, is_over)
    }

    /// Reports what was executed behind the `count` events that are ready. If that is nothing, and
    /// the program has not waited long enough, waits on.
    fn report(&mut self, event_loop: &EventLoop, count: usize, is_over: bool) -> Step {
        let room = usize::try_from(self.room).unwrap_or(0);
        let filled = event_loop.report(self.hooks, self.epoll, self.events, count, room);
        let is_waiting = filled == 0 && self.timeout != Timeout::Zero && !is_over;
        // What goes on by itself may have parked again, and something may wait for company still.
        if is_waiting && event_loop.closing(|closing| closing.parked()) > 0 {
            return self.rest(event_loop);
        }
        if is_waiting && !event_loop.has_posted.get() {
            let patience = self.end.map_or(Patience::Asked, |_| Patience::Left(self.left_ns()));
            return self.wait(Stage::Asked, patience);
        }
        if filled == 0 && self.timeout == Timeout::Endless {
            // A program that set no timeout does not see one, but may be interrupted.
            let step = self.end(event_loop, -1);
            real::set_errno(libc::EINTR);
            return step;
        }
        self.end(event_loop, c_int::try_from(filled).unwrap_or(c_int::MAX))
    }
}

/// `RuntimeHooks::pause`.
pub(crate) extern "C" fn pause() {
    EventLoop::with(|event_loop| {
        if let Some(handshake) = event_loop.on_fibre() {
            // SAFETY: `own_place` was filled by the `switch_to` that runs this fibre.
            unsafe { fibre::switch(handshake.place(), event_loop.own_place.replace(Place::NONE)) };
        }
    });
}

/// Where other threads leave connections to be freed by the thread that has their fibres.
///
/// It has no lock: one that another thread held at a fork would stay locked in the child.
pub(crate) struct Mailbox {
    /// The letter that came last, null if there is none, [`ENDED`] once the thread has ended.
    last: AtomicPtr<Letter>,
}

struct Letter {
    ssl: *mut c_void,
    /// The one that came before.
    next: *mut Letter,
}

/// No letter, but an address that none has.
const ENDED: *mut Letter = ptr::dangling_mut();

impl Mailbox {
    fn new() -> Self {
        Self { last: AtomicPtr::new(ptr::null_mut()) }
    }

    fn is_empty(&self) -> bool {
        self.last.load(Ordering::Relaxed).is_null()
    }

    /// Leaves `ssl` to be freed; `false` if the thread is gone.
    pub(crate) fn post(&self, ssl: *mut c_void) -> bool {
        let mut last = self.last.load(Ordering::Acquire);
        let letter = Box::into_raw(Box::new(Letter { ssl, next: ptr::null_mut() }));
        while last != ENDED {
            // SAFETY: made above, and not in the list yet.
            unsafe { (*letter).next = last };
            let (success, failure) = (Ordering::Release, Ordering::Acquire);
            match self.last.compare_exchange_weak(last, letter, success, failure) {
                Ok(_) => return true,
                Err(now) => last = now,
            }
        }
        // SAFETY: made above, and never in the list.
        drop(unsafe { Box::from_raw(letter) });
        false
    }

    /// Takes out all that was left. For the thread whose mailbox it is.
    fn take(&self) -> Vec<*mut c_void> {
        self.take_and_leave(ptr::null_mut())
    }

    /// Takes no more letters. For the same thread, once.
    fn end(&self) {
        self.take_and_leave(ENDED);
    }

    fn take_and_leave(&self, last: *mut Letter) -> Vec<*mut c_void> {
        let mut letter = self.last.swap(last, Ordering::AcqRel);
        core::iter::from_fn(|| {
            if letter.is_null() {
                return None;
            }
            // SAFETY: made by `into_raw` in `post`, and in nobody else's list any more.
            let taken = unsafe { Box::from_raw(letter) };
            letter = taken.next;
            Some(taken.ssl)
        })
        .collect()
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        self.mailbox.end();
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicUsize;
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::closing::Wait;

    extern "C" fn nothing() {}
    extern "C" fn hears(_: bool) {}
    extern "C" fn no() -> bool {
        false
    }
    extern "C" fn executes(_: Extent) {}
    extern "C" fn rests(_: bool) -> u64 {
        REST_NS
    }
    extern "C" fn no_descriptor() -> c_int {
        -1
    }
    extern "C" fn forgets(_: *mut c_void) {}
    extern "C" fn keeps(_: *const c_void) -> bool {
        false
    }
    extern "C" fn no_counters() -> *const widelane_bridge::counters::Counters {
        ptr::null()
    }

    const REST_NS: u64 = 8_000_000;

    /// A provider for which it is always worth a rest.
    static ALWAYS_RESTS: ProviderHooks = ProviderHooks {
        version: 0,
        begin_thread: nothing,
        fibre: hears,
        full: no,
        execute: executes,
        wait_ns: rests,
        wake_descriptor: no_descriptor,
        configures: nothing,
        wants_keys: no,
        cancel: forgets,
        keeps_key: keeps,
        counters: no_counters,
    };

    /// How long a call with a timeout waits if something is parked all the time.
    fn waits_ns(timeout: Timeout) -> u64 {
        let mut event = epoll_event { events: 0, u64: 0 };
        let mut call = WaitCall::new(&ALWAYS_RESTS, -1, &raw mut event, 1, timeout);
        let mut waited_ns = 0;
        EventLoop::with(|event_loop| {
            let wait = event_loop.closing(Closing::park);
            while waited_ns < 1_000_000_000
                && let Step::Wait(patience) = call.next(event_loop, 0)
            {
                if let Patience::AtMost(ns) = patience {
                    thread::sleep(Duration::from_nanos(ns));
                    waited_ns += ns;
                }
            }
            event_loop.closing(|closing| closing.unpark(wait));
        });
        waited_ns
    }

    #[test]
    fn a_program_that_does_not_want_to_wait_is_not_kept_for_long() {
        extern "C" fn rests_for_ever(_: bool) -> u64 {
            u64::MAX
        }
        let hooks = ProviderHooks { wait_ns: rests_for_ever, ..ALWAYS_RESTS };
        let mut call = WaitCall::new(&hooks, -1, ptr::null_mut(), 1, Timeout::Zero);
        let step = EventLoop::with(|event_loop| call.rest(event_loop));
        assert!(matches!(step, Some(Step::Wait(Patience::AtMost(REST_AT_ZERO_MAX_NS)))));
    }

    #[test]
    fn no_program_is_kept_for_longer_than_its_timeout() {
        let waited_ns = waits_ns(Timeout::Ns(20_000_000));
        assert!((REST_NS..=20_000_000).contains(&waited_ns), "{waited_ns}");
    }

    #[test]
    fn a_provider_that_executes_nothing_does_not_keep_a_thread() {
        let (has_ended, end) = mpsc::channel();
        thread::spawn(move || {
            EventLoop::with(|event_loop| {
                let wait = event_loop.closing(Closing::park);
                event_loop.finish(&ALWAYS_RESTS);
                event_loop.closing(|closing| closing.unpark(wait));
            });
            has_ended.send(())
        });
        assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(()));
    }

    #[test]
    fn what_an_engine_finished_as_it_was_taken_back_is_completed() {
        extern "C" fn takes_back_first(_: Extent) {
            static CALLS: AtomicUsize = AtomicUsize::new(0);
            if CALLS.fetch_add(1, Ordering::Relaxed) == 1 {
                EventLoop::with(|event_loop| {
                    event_loop.closing(|closing| closing.unpark(WAIT.get().expect("parked")));
                });
            }
        }
        thread_local! {
            static WAIT: Cell<Option<Wait>> = const { Cell::new(None) };
        }
        let hooks = ProviderHooks { execute: takes_back_first, ..ALWAYS_RESTS };
        EventLoop::with(|event_loop| {
            WAIT.set(Some(event_loop.closing(Closing::park)));
            event_loop.finish(&hooks);
            assert!(!event_loop.has_unfinished());
        });
    }

    #[test]
    fn letters_of_all_threads_arrive_until_the_end() {
        const THREADS: usize = 4;
        const LETTERS: usize = 1_000;
        let mailbox = Mailbox::new();
        let mut taken = Vec::new();
        thread::scope(|scope| {
            for first in 0..THREADS {
                let mailbox = &mailbox;
                scope.spawn(move || {
                    for number in 0..LETTERS {
                        let ssl = ptr::without_provenance_mut(first * LETTERS + number);
                        assert!(mailbox.post(ssl));
                    }
                });
            }
            let deadline = Instant::now() + Duration::from_secs(60);
            while taken.len() < THREADS * LETTERS && Instant::now() < deadline {
                taken.extend(mailbox.take().into_iter().map(|ssl| ssl.addr()));
            }
        });
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..THREADS * LETTERS) && mailbox.is_empty());
        mailbox.end();
        assert!(!mailbox.post(ptr::null_mut()));
    }

    #[test]
    fn a_fork_while_another_thread_posts_leaves_a_mailbox_that_works() {
        let (mailbox, is_over) = (Mailbox::new(), AtomicBool::new(false));
        let mut statuses = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    mailbox.post(ptr::null_mut());
                    mailbox.take();
                }
            });
            for _ in 0..200 {
                // SAFETY: the child allocates, which the C library allows, and ends.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: ends a child that hangs.
                    unsafe { libc::alarm(5) };
                    let is_taken = mailbox.post(ptr::null_mut()) && !mailbox.take().is_empty();
                    // SAFETY: ends the child.
                    unsafe { libc::_exit(c_int::from(!is_taken)) };
                }
                let mut status = -1;
                // SAFETY: waits for our child.
                let ended = unsafe { libc::waitpid(child, &mut status, 0) };
                statuses.push((ended == child, status));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(statuses.iter().all(|status| *status == (true, 0)), "{statuses:?}");
    }
}
