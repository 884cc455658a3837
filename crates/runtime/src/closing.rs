//! When a batch closes: the rule by which waiting for company ends; no clock, no system call.
//!
//! A batch closes when its lanes are full (the provider sees to that), or when the server has
//! nothing else to do. A server that calls `epoll_wait` with a timeout has nothing else to do if no
//! event is ready. A zero timeout means that it has work queued of its own, so the batch stays
//! open. But HAProxy queues a handshake that wants to write right away, so the parked handshakes
//! themselves may be its only work. With a zero timeout, therefore, retries decide: once the server
//! has retried every parked handshake since any other one made progress, and no event is ready, it
//! only retries those that wait for us.
//!
//! Operations of different kinds fill lanes of their own, and a server that never rests would leave
//! a rare one waiting for seven others of its kind. So once a parked handshake has been passed over
//! by [`PASSED_OVER_MAX`] whole batches, everything that is parked is executed.

/// Calls of `epoll_wait` with a timeout, each returning events, in which nothing new parks, that a
/// partial batch survives: other traffic keeps the server busy, and handshakes must not wait for
/// it.
const BARREN_CALLS_TIMED: u32 = 4;

/// The same for a zero timeout; HAProxy runs one handshake step per call, so a call is much
/// shorter.
const BARREN_CALLS_ZERO: u32 = 64;

/// The same where all connections share a socket, from which a call brings one datagram: each
/// handshake takes several, of which one begins it.
const BARREN_CALLS_SHARED: u32 = 16;

/// Consecutive calls with everything parked asking and nothing progressing, though events are ready
/// (those of the parked descriptors, perhaps), after which the batch closes.
const IDLE_ROUNDS: u32 = 2;

/// Early resumes without any `epoll_wait` between them after which the batch closes: the program
/// waits for its descriptors by other means.
const ASKS_WITHOUT_POLL: u32 = 64;

/// Whole batches after which those that waited before the first of them wait no longer; a kind that
/// makes up a tenth of all operations still fills its lanes.
const PASSED_OVER_MAX: u32 = 8;

/// What to do with the jobs parked so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// More may join.
    KeepOpen,
    /// No other job will join soon: execute.
    Close,
    /// The program has nothing else to do: execute, unless company is worth a short wait.
    Idle,
}

/// What [`Closing`] has to know of one parked handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    /// The epoch in which it asked last.
    asked: u64,
    /// The round of whole batches in which it parked.
    round: u64,
    /// How often its thread had left what was parked when it parked.
    generation: u32,
}

/// What one thread's event loop has done since jobs began to wait.
#[derive(Debug)]
pub(crate) struct Closing {
    parked: usize,
    /// Events that the program has been given since it last had nothing else to do, and handshakes
    /// that it had parked then.
    events: usize,
    /// Counts the times that a handshake made progress; 0 is never current.
    epoch: u64,
    /// Distinct parked handshakes that asked during this epoch.
    asked: usize,
    asks_since_poll: u32,
    barren_calls: u32,
    /// Whether what parked last shares its socket with others.
    is_shared: bool,
    idle_rounds: u32,
    /// Counts rounds of [`PASSED_OVER_MAX`] whole batches.
    round: u64,
    /// Whole batches in this round.
    batches: u32,
    /// Parked handshakes that parked in earlier rounds.
    passed_over: usize,
    /// Counts how often what was parked has been left: to a parent, or to the end of the process.
    generation: u32,
}

impl Closing {
    pub(crate) const fn new() -> Self {
        Self {
            parked: 0,
            events: 0,
            epoch: 1,
            asked: 0,
            asks_since_poll: 0,
            barren_calls: 0,
            is_shared: false,
            idle_rounds: 0,
            round: 0,
            batches: 0,
            passed_over: 0,
            generation: 0,
        }
    }

    /// What is parked is not to be executed: it is the parent's of this process, or that ends.
    pub(crate) fn leave(&mut self) {
        *self = Self { generation: self.generation + 1, ..Self::new() };
    }

    /// Whether a handshake parked since then.
    pub(crate) fn is_own(&self, wait: Wait) -> bool {
        wait.generation == self.generation
    }

    /// Number of handshakes parked and not yet executed.
    pub(crate) fn parked(&self) -> usize {
        self.parked
    }

    /// The program is given `count` events.
    pub(crate) fn give(&mut self, timeout_is_zero: bool, count: usize) {
        // A program that may sleep has turned around all it had.
        let earlier = if timeout_is_zero { self.events } else { 0 };
        self.events = earlier + count;
    }

    /// Whether as many handshakes are parked as the program has events: nothing that it knows of
    /// can join them.
    pub(crate) fn has_all(&self) -> bool {
        self.events > 0 && self.parked >= self.events
    }

    /// A handshake goes on, or starts.
    pub(crate) fn progress(&mut self) {
        self.epoch += 1;
        self.asked = 0;
        self.idle_rounds = 0;
        self.asks_since_poll = 0;
    }

    /// A handshake parks.
    pub(crate) fn park(&mut self) -> Wait {
        self.parked += 1;
        self.barren_calls = 0;
        self.is_shared = false;
        Wait { asked: 0, round: self.round, generation: self.generation }
    }

    /// A handshake parks that shares its socket with other connections.
    pub(crate) fn park_shared(&mut self) -> Wait {
        let wait = self.park();
        self.is_shared = true;
        wait
    }

    /// A parked handshake was executed, or withdrawn.
    pub(crate) fn unpark(&mut self, wait: Wait) {
        if !self.is_own(wait) {
            return;
        }
        self.parked -= 1;
        if wait.asked == self.epoch {
            self.asked -= 1;
        }
        if wait.round != self.round {
            self.passed_over -= 1;
        }
    }

    /// A whole batch was executed; handshakes that are still parked wait for jobs of other kinds.
    pub(crate) fn batch(&mut self) -> Verdict {
        self.batches += 1;
        if self.batches < PASSED_OVER_MAX {
            return Verdict::KeepOpen;
        }
        let verdict = if self.passed_over > 0 { Verdict::Close } else { Verdict::KeepOpen };
        self.batches = 0;
        self.round += 1;
        self.passed_over = self.parked;
        verdict
    }

    /// The program calls for a handshake that is still parked.
    pub(crate) fn ask(&mut self, wait: &mut Wait) -> Verdict {
        if wait.asked != self.epoch {
            wait.asked = self.epoch;
            self.asked += 1;
        }
        self.asks_since_poll += 1;
        if self.asks_since_poll >= ASKS_WITHOUT_POLL { Verdict::Close } else { Verdict::KeepOpen }
    }

    /// The program calls `epoll_wait`, and `ready` events are ready without blocking.
    pub(crate) fn poll(&mut self, timeout_is_zero: bool, ready: usize) -> Verdict {
        self.asks_since_poll = 0;
        if self.parked == 0 {
            return Verdict::KeepOpen;
        }
        let about_to_sleep = !timeout_is_zero && ready == 0;
        let all_asked = self.asked >= self.parked;
        if all_asked {
            self.idle_rounds += 1;
        }
        self.barren_calls += 1;
        let barren_calls_max = match (timeout_is_zero, self.is_shared) {
            (true, _) => BARREN_CALLS_ZERO,
            (false, true) => BARREN_CALLS_SHARED,
            (false, false) => BARREN_CALLS_TIMED,
        };
        if about_to_sleep || (all_asked && ready == 0) {
            self.events = self.parked;
            Verdict::Idle
        } else if (all_asked && self.idle_rounds >= IDLE_ROUNDS)
            || self.barren_calls > barren_calls_max
        {
            Verdict::Close
        } else {
            Verdict::KeepOpen
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_parked<const COUNT: usize>() -> (Closing, [Wait; COUNT]) {
        let mut closing = Closing::new();
        let waits = [(); COUNT].map(|()| {
            closing.progress();
            closing.park()
        });
        (closing, waits)
    }

    #[test]
    fn a_shared_socket_brings_more_turns_in_which_nothing_parks() {
        let calls = |park: fn(&mut Closing) -> Wait| {
            let mut closing = Closing::new();
            closing.progress();
            park(&mut closing);
            (1..100).find(|_| closing.poll(false, 1) == Verdict::Close)
        };
        assert_eq!(calls(Closing::park), Some(BARREN_CALLS_TIMED + 1));
        assert_eq!(calls(Closing::park_shared), Some(BARREN_CALLS_SHARED + 1));
    }

    #[test]
    fn nothing_parked_never_closes() {
        let mut closing = Closing::new();
        for _ in 0..1000 {
            assert_eq!(closing.poll(false, 0), Verdict::KeepOpen);
        }
    }

    #[test]
    fn closes_before_sleeping_but_not_while_events_are_ready() {
        let (mut closing, _) = with_parked::<3>();
        assert_eq!(closing.poll(false, 5), Verdict::KeepOpen);
        assert_eq!(closing.poll(false, 0), Verdict::Idle);
    }

    #[test]
    fn has_all_once_every_event_has_brought_a_handshake_that_is_parked() {
        let (mut closing, waits) = with_parked::<2>();
        assert!(!closing.has_all(), "no event has come, so nothing tells");
        closing.give(false, 3);
        assert!(!closing.has_all());
        let third = closing.park();
        assert!(closing.has_all());
        closing.give(true, 1);
        assert!(!closing.has_all(), "without sleep the earlier ones count");
        closing.give(false, 2);
        assert!(closing.has_all());
        // They are executed, and each may bring another operation.
        assert_eq!(closing.poll(false, 0), Verdict::Idle);
        waits.into_iter().chain([third]).for_each(|wait| closing.unpark(wait));
        assert!(!closing.has_all());
        for _ in 0..3 {
            closing.park();
        }
        assert!(closing.has_all());
    }

    #[test]
    fn zero_timeout_waits_until_everything_parked_has_asked() {
        let (mut closing, mut waits) = with_parked::<2>();
        assert_eq!(closing.poll(true, 0), Verdict::KeepOpen);
        assert_eq!(closing.ask(&mut waits[0]), Verdict::KeepOpen);
        assert_eq!(closing.ask(&mut waits[0]), Verdict::KeepOpen);
        assert_eq!(closing.poll(true, 0), Verdict::KeepOpen, "one asked twice, the other never");
        assert_eq!(closing.ask(&mut waits[1]), Verdict::KeepOpen);
        assert_eq!(closing.poll(true, 0), Verdict::Idle);
    }

    #[test]
    fn progress_of_another_handshake_starts_the_count_anew() {
        let (mut closing, [mut wait]) = with_parked();
        closing.ask(&mut wait);
        closing.progress();
        assert_eq!(closing.poll(true, 0), Verdict::KeepOpen);
        closing.ask(&mut wait);
        assert_eq!(closing.poll(true, 0), Verdict::Idle);
    }

    #[test]
    fn ready_descriptors_of_the_parked_alone_do_not_hold_it_open() {
        let (mut closing, mut waits) = with_parked::<2>();
        let mut calls = 0;
        loop {
            calls += 1;
            if closing.poll(false, 2) == Verdict::Close {
                break;
            }
            for wait in &mut waits {
                closing.ask(wait);
            }
        }
        assert_eq!(calls, 3);
    }

    #[test]
    fn other_traffic_holds_it_open_for_a_bounded_number_of_calls() {
        for (timeout_is_zero, bound) in [(false, BARREN_CALLS_TIMED), (true, BARREN_CALLS_ZERO)] {
            let (mut closing, _) = with_parked::<1>();
            for _ in 0..bound {
                assert_eq!(closing.poll(timeout_is_zero, 7), Verdict::KeepOpen);
            }
            closing.progress();
            closing.park();
            for _ in 0..bound {
                closing.progress();
                assert_eq!(closing.poll(timeout_is_zero, 7), Verdict::KeepOpen);
            }
            assert_eq!(closing.poll(timeout_is_zero, 7), Verdict::Close);
        }
    }

    #[test]
    fn a_program_that_does_not_poll_is_not_held_up_for_ever() {
        let (mut closing, [mut wait]) = with_parked();
        let asks = (1..).find(|_| closing.ask(&mut wait) == Verdict::Close);
        assert_eq!(asks, Some(ASKS_WITHOUT_POLL));
    }

    #[test]
    fn withdrawing_keeps_the_counts_together() {
        let (mut closing, [mut first, second]) = with_parked();
        closing.ask(&mut first);
        closing.unpark(first);
        assert_eq!(closing.parked(), 1);
        assert_eq!(closing.poll(true, 0), Verdict::KeepOpen, "the one left has not asked");
        closing.unpark(second);
        assert_eq!(closing.parked(), 0);
    }

    #[test]
    fn a_child_counts_nothing_that_its_parent_has_parked() {
        let (mut closing, [first, second]) = with_parked();
        closing.leave();
        assert_eq!((closing.parked(), closing.poll(false, 0)), (0, Verdict::KeepOpen));
        let own = closing.park();
        assert!(closing.is_own(own) && !closing.is_own(first));
        [first, second].into_iter().for_each(|wait| closing.unpark(wait));
        assert_eq!(closing.parked(), 1);
        closing.unpark(own);
        assert_eq!(closing.parked(), 0);
    }

    #[test]
    fn whole_batches_of_another_kind_pass_over_a_rare_one_for_a_bounded_time() {
        let (mut closing, [rare]) = with_parked();
        let passed = (1..).find(|_| closing.batch() == Verdict::Close);
        assert_eq!(passed, Some(2 * PASSED_OVER_MAX));
        closing.unpark(rare);
        assert_eq!((closing.parked(), closing.passed_over), (0, 0));
    }

    #[test]
    fn a_kind_that_fills_its_lanes_is_not_closed_early() {
        let mut closing = Closing::new();
        for _ in 0..100 {
            let waits: Vec<Wait> = (1..PASSED_OVER_MAX)
                .map(|_| {
                    assert_eq!(closing.batch(), Verdict::KeepOpen);
                    closing.park()
                })
                .collect();
            waits.into_iter().for_each(|wait| closing.unpark(wait));
        }
    }
}
