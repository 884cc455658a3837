//! What is parked on one thread.
#![allow(unsafe_code, reason = "fibre switches, handshakes by address")]

mod events;
pub(crate) mod mailbox;
mod queue;
pub(crate) mod waiting;

use core::cell::{Cell, OnceCell, RefCell};
use core::ffi::c_int;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use libc::epoll_event;
use widelane_bridge::hooks::{Extent, ProviderHooks};
use widelane_reserve::Stack;

use crate::closing::Closing;
use crate::cork;
use crate::fibre::{self, Place};
use crate::forks;
use crate::handshake::{self, Handshake};
use crate::interpose::end::ends_with_process;
use crate::interpose::guard_uncancelled;
use crate::provider::provider;
use crate::real;
use crate::registry;
use crate::stacks::Stacks;
use crate::wake::Wake;
use events::{WAKE_EVENTS, add_event, has_events, rearm, wake_data};
use mailbox::Mailbox;
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

/// What `f` makes of the handshake whose fibre is running; nothing where none is.
///
/// For doors that any thread of any program calls: one that never waits gets no event loop by it.
pub(crate) fn on_fibre<T>(f: impl FnOnce(&Handshake) -> T) -> Option<T> {
    if !has_begun() {
        return None;
    }
    EventLoop::with(|event_loop| event_loop.on_fibre().map(f)).flatten()
}

/// Finishes what is parked on a thread that ends: another may have those connections by now. If the
/// process ends, that is left as it is: the program may have freed what its callbacks use.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        guard_uncancelled((), || {
            if ends_with_process() {
                cork::release_all();
                EventLoop::with(EventLoop::leave);
                HAS_BEGUN.set(false);
                return;
            }
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
                    event_loop.leave();
                }
                if let Some(handshake) = event_loop.on_fibre() {
                    event_loop.end_if_left(handshake);
                }
                f(event_loop)
            })
            .ok()
    }

    /// Of the suspended handshakes none goes on unless the program calls for it. If this process
    /// was forked, they are its parent's: both would write to the same socket.
    fn leave(&self) {
        self.closing(Closing::leave);
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
            let added = real::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, descriptor, &mut event) == 0;
            // Where it cannot, what is finished is found later, and it is tried again.
            if added || real::errno() == libc::EEXIST {
                self.woken_by.set(woken_by);
            }
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

/// Finishes what is parked on this thread before a call that may wait for a connection to
/// `listener`. It does not if that is non-blocking, or registered with epoll: such a listener is
/// asked when it has one.
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

/// `RuntimeHooks::pause`.
pub(crate) extern "C" fn pause() {
    EventLoop::with(|event_loop| {
        if let Some(handshake) = event_loop.on_fibre() {
            // SAFETY: `own_place` was filled by the `switch_to` that runs this fibre.
            unsafe { fibre::switch(handshake.place(), event_loop.own_place.replace(Place::NONE)) };
        }
    });
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        self.mailbox.end();
    }
}

#[cfg(test)]
mod tests {
    use core::ffi::c_void;
    use core::sync::atomic::AtomicUsize;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

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

    pub(super) const REST_NS: u64 = 8_000_000;

    /// A provider for which it is always worth a rest.
    pub(super) static ALWAYS_RESTS: ProviderHooks = ProviderHooks {
        version: 0,
        begin_thread: nothing,
        before_threads: nothing,
        fibre: hears,
        full: no,
        execute: executes,
        wait_ns: rests,
        wake_descriptor: no_descriptor,
        configures: nothing,
        wants_keys: no,
        cancel: forgets,
        keeps_key: keeps,
        is_off: no,
        counters: no_counters,
    };

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
}
