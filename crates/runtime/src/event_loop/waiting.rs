//! What `epoll_wait` and its relatives do about what is parked.

use core::ffi::c_int;
use std::time::{Duration, Instant};

use libc::epoll_event;
use widelane_bridge::hooks::{Extent, ProviderHooks};

use super::events::without_wakes;
use super::{END, EventLoop, HAS_BEGUN};
use crate::closing::Verdict;
use crate::interpose::guard_uncancelled;
use crate::provider::provider;
use crate::{cork, methods, real};

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

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::thread;

    use widelane_cpu::policy::WaitMax;

    use super::super::tests::{ALWAYS_RESTS, REST_NS};
    use super::*;
    use crate::closing::Closing;

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
        assert_eq!(u128::from(REST_AT_ZERO_MAX_NS), WaitMax::LONGEST.as_nanos());
    }

    #[test]
    fn no_program_is_kept_for_longer_than_its_timeout() {
        assert!(waits_ns(Timeout::Ns(20_000_000)) <= 20_000_000);
        let timeout = Timeout::Ns(u64::MAX / 2);
        let mut call = WaitCall::new(&ALWAYS_RESTS, -1, ptr::null_mut(), 1, timeout);
        let step = EventLoop::with(|event_loop| call.rest(event_loop));
        assert!(matches!(step, Some(Step::Wait(Patience::AtMost(REST_NS)))));
    }
}
