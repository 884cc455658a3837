//! A client pool: all connections of one thread, on one epoll.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::arrivals::Schedule;
use crate::configurations::Configurations;
use crate::connection::{Shared, Step};
use crate::load::LoadError;
use crate::plan::{Pace, Plan};
use crate::slot::Slot;
use crate::tally::{ErrorKind, Failure, Tally};

/// Pause of a connection slot after a failure, so that a dead server is not hammered.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(5);

/// How long nothing but failures must have been seen before a load is given up: a server that is
/// restarted refuses thousands of connections in less.
const FAILING_FOR: Duration = Duration::from_secs(1);

/// How often its patience must have passed meanwhile if a server does not answer at all.
const PATIENCE_PERIODS: u32 = 2;

/// How often connections are looked through for those that take too long.
const PATROL: Duration = Duration::from_millis(20);

/// Waits shorter than this are timed in nanoseconds.
const COARSE: Duration = Duration::from_millis(5);
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
const FOREVER: Timespec = Timespec { tv_sec: i64::MAX, tv_nsec: 0 };

/// Connections that are begun, or whose events are taken from the kernel, at once.
const AT_ONCE: usize = 256;

/// All connections of one thread.
pub struct ClientPool {
    epoll: OwnedFd,
    connections: Vec<Slot>,
    shared: Shared,
    events: Vec<Event>,
    /// Slots with more to read, of which the kernel will not tell again.
    more: Vec<usize>,
    pace: Pacing,
    patience: Duration,
    next_patrol: Instant,
    failures_max: u32,
    failures_in_a_row: u32,
    /// Whether a connection has ended, one way or the other.
    has_ended: bool,
    /// The first failure in this row.
    failing_since: Option<Instant>,
    last_failure: Option<(Instant, Failure)>,
}

/// When connections begin.
enum Pacing {
    /// Each slot again and again; those in here not before their time.
    Closed { resting: BinaryHeap<Reverse<(Instant, usize)>> },
    /// At the instants of a schedule, in any slot that is free.
    Open { schedule: Schedule, free: Vec<usize>, connections_max: usize },
    /// No more.
    WindingDown,
}

impl ClientPool {
    /// Makes the pool; nothing begins before [`ClientPool::work`].
    pub fn new(plan: &Plan) -> Result<Self, LoadError> {
        let configurations = Configurations::of(plan)?;
        let now = Instant::now();
        // Draws and arrivals must not come from the same numbers.
        let mut random = fastrand::Rng::with_seed(plan.seed);
        let of_arrivals = random.fork();
        let (slots, pace) = match plan.pace {
            Pace::Closed { connections, ramp } => {
                let begin = |slot| now + ramp.mul_f64(slot as f64 / connections as f64);
                let resting = (0..connections).map(|slot| Reverse((begin(slot), slot))).collect();
                (connections, Pacing::Closed { resting })
            }
            Pace::Open { rate, arrivals, ramp, connections_max } => {
                let schedule = Schedule::new(now, rate, arrivals, ramp, of_arrivals);
                (0, Pacing::Open { schedule, free: Vec::new(), connections_max })
            }
        };
        let is_quic = configurations.is_quic();
        let mut connections = Vec::new();
        connections.resize_with(slots, || Slot::new(is_quic));
        Ok(ClientPool {
            epoll: epoll::create(CreateFlags::CLOEXEC).map_err(std::io::Error::from)?,
            connections,
            shared: Shared::new(plan, configurations, random),
            events: Vec::with_capacity(AT_ONCE),
            more: Vec::new(),
            pace,
            patience: plan.patience,
            next_patrol: now + PATROL,
            failures_max: (2 * slots as u32).max(100),
            failures_in_a_row: 0,
            has_ended: false,
            failing_since: None,
            last_failure: None,
        })
    }

    /// What was counted so far, to be read or replaced.
    pub fn tally(&mut self) -> &mut Tally {
        &mut self.shared.tally
    }

    /// Begins what is due, waits until `until` at most, and handles what has happened.
    pub fn work(&mut self, until: Instant) -> Result<(), LoadError> {
        let wake = self.begin_due().map_or(until, |due| due.min(until)).min(self.next_patrol);
        self.wait(if self.more.is_empty() { wake } else { Instant::now() })?;
        for slot in std::mem::take(&mut self.more) {
            self.proceed(slot, EventFlags::IN);
        }
        for index in 0..self.events.len() {
            let Event { flags, data } = self.events[index];
            self.proceed(data.u64() as usize, flags);
        }
        if Instant::now() >= self.next_patrol {
            self.patrol();
        }
        // The caller replaces the tally between calls.
        let tally = &self.shared.tally;
        self.has_ended |= tally.done > 0 || !tally.errors.is_empty();
        self.check_failing()
    }

    /// Begins no more connections.
    pub fn wind_down(&mut self) {
        self.pace = Pacing::WindingDown;
    }

    /// Whether no connection is left.
    pub fn is_gone(&self) -> bool {
        self.connections.iter().all(Slot::is_idle)
    }

    /// Counts connections that have not done their work yet, arrivals that are overdue included.
    pub fn count_unfinished(&mut self) {
        let now = Instant::now();
        for since in self.connections.iter().filter_map(Slot::unfinished_since) {
            self.shared.tally.count_unfinished(now.saturating_duration_since(since));
        }
        if let Pacing::Open { schedule, .. } = &mut self.pace {
            for due in schedule.overdue(now) {
                self.shared.tally.count_due(self.has_ended);
                self.shared.tally.count_unfinished(now - due);
            }
        }
    }

    /// Begins what is due, as much of it as fits between looks at those under way, and says when
    /// the next is.
    fn begin_due(&mut self) -> Option<Instant> {
        for _ in 0..AT_ONCE {
            let now = Instant::now();
            let (slot, due) = match &mut self.pace {
                Pacing::Closed { resting } => {
                    let Reverse((due, slot)) = *resting.peek()?;
                    if due > now {
                        return Some(due);
                    }
                    resting.pop();
                    (slot, now)
                }
                Pacing::Open { schedule, free, connections_max } => {
                    let due = schedule.next();
                    if due > now {
                        return Some(due);
                    }
                    let slot = match free.pop() {
                        Some(slot) => slot,
                        None if self.connections.len() < *connections_max => {
                            self.connections.push(Slot::new(self.shared.configurations.is_quic()));
                            self.connections.len() - 1
                        }
                        None => return None,
                    };
                    schedule.advance();
                    (slot, due)
                }
                Pacing::WindingDown => return None,
            };
            self.begin(slot, due);
        }
        Some(Instant::now())
    }

    fn begin(&mut self, slot: usize, due: Instant) {
        self.shared.tally.count_due(self.has_ended);
        let connection = &mut self.connections[slot];
        let begun = connection.begin(due, &self.epoll, slot, &mut self.shared);
        if let Err(failure) = begun {
            self.fail(slot, failure);
        }
    }

    fn proceed(&mut self, slot: usize, flags: EventFlags) {
        let answers = self.shared.tally.answers;
        let step = self.connections[slot].proceed(flags, &mut self.shared);
        if self.shared.tally.answers > answers {
            self.note_success();
        }
        self.conclude(slot, step);
    }

    fn note_success(&mut self) {
        self.failures_in_a_row = 0;
        self.failing_since = None;
    }

    fn conclude(&mut self, slot: usize, step: Result<Step, Failure>) {
        match step {
            Ok(Step::Waits) => {}
            Ok(Step::More) if self.more.contains(&slot) => {}
            Ok(Step::More) => self.more.push(slot),
            Ok(Step::Done) => {
                self.note_success();
                self.connections[slot].end();
                match &mut self.pace {
                    Pacing::Closed { .. } => self.begin(slot, Instant::now()),
                    Pacing::Open { free, .. } => free.push(slot),
                    Pacing::WindingDown => {}
                }
            }
            // It is counted as done, however it ends.
            Err(_) if self.connections[slot].is_done() => self.conclude(slot, Ok(Step::Done)),
            Err(failure) => self.fail(slot, failure),
        }
    }

    fn fail(&mut self, slot: usize, failure: Failure) {
        self.connections[slot].end();
        self.shared.tally.count_failure(&failure);
        let now = Instant::now();
        self.failures_in_a_row += 1;
        self.failing_since.get_or_insert(now);
        self.last_failure = Some((now, failure));
        match &mut self.pace {
            Pacing::Closed { resting } => {
                resting.push(Reverse((now + PAUSE_AFTER_FAILURE, slot)));
            }
            Pacing::Open { free, .. } => free.push(slot),
            Pacing::WindingDown => {}
        }
    }

    /// Waits for events until `wake`.
    fn wait(&mut self, wake: Instant) -> Result<(), LoadError> {
        let left = wake.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).unwrap_or(FOREVER);
        if !left.is_zero() && left < COARSE {
            // epoll knows milliseconds only.
            let mut watched = [PollFd::new(&self.epoll, PollFlags::IN)];
            match poll(&mut watched, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(LoadError::SetUp(error.into())),
            }
        }
        let timeout = if left < COARSE { NOW } else { timeout };
        self.events.clear();
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut self.events),
            Some(&timeout),
        ) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(LoadError::SetUp(error.into())),
        }
    }

    /// Gives up connections that take too long, and has others do what is due.
    fn patrol(&mut self) {
        let now = Instant::now();
        self.next_patrol = now + PATROL;
        for slot in 0..self.connections.len() {
            let since = self.connections[slot].begun();
            let is_over =
                since.is_some_and(|since| now.saturating_duration_since(since) > self.patience);
            let step = match is_over {
                true => Err(Failure::Patience),
                false => self.connections[slot].tick(now, &mut self.shared),
            };
            self.conclude(slot, step);
        }
    }

    /// An error if nothing but failures has been seen for long enough. When no more connections
    /// begin, everything has been measured, and failures change nothing.
    fn check_failing(&self) -> Result<(), LoadError> {
        let (Some(since), Some((last, failure))) = (self.failing_since, &self.last_failure) else {
            return Ok(());
        };
        let lasted = last.saturating_duration_since(since);
        let is_silent = ErrorKind::of(failure) == ErrorKind::Timeout
            && lasted >= self.patience.saturating_mul(PATIENCE_PERIODS);
        let is_failing =
            lasted >= FAILING_FOR && (self.failures_in_a_row >= self.failures_max || is_silent);
        if !is_failing || matches!(self.pace, Pacing::WindingDown) {
            return Ok(());
        }
        Err(LoadError::Failing {
            target: self.shared.target,
            count: self.failures_in_a_row,
            kind: ErrorKind::of(failure),
            message: failure.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Arrivals, Mix, Trust, Weighted, Work};
    use crate::tls::{Cipher, Group, TlsVersion};

    /// Begins connections at a steady mean rate, each with one of two ciphers.
    fn pool() -> ClientPool {
        let mix = Mix::alike(TlsVersion::Tls13, Cipher::Aes256Gcm, Group::X25519, "localhost");
        let either = vec![(Cipher::Aes256Gcm, 1), (Cipher::Aes128Gcm, 1)];
        ClientPool::new(&Plan {
            target: ([127, 0, 0, 1], 1).into(),
            sources: Vec::new(),
            trust: Trust::Anyone,
            mix: Mix { ciphers: Weighted::new(either).unwrap(), ..mix },
            work: Work::Handshake,
            pace: Pace::Open {
                rate: 1000.0,
                arrivals: Arrivals::Poisson,
                ramp: Duration::ZERO,
                connections_max: 10,
            },
            patience: Duration::from_secs(10),
            seed: 7,
        })
        .unwrap()
    }

    #[test]
    fn what_is_drawn_does_not_depend_on_the_time_since_the_last_arrival() {
        const CONNECTIONS: usize = 4_000;
        let mut pool = pool();
        let Pacing::Open { schedule, .. } = &mut pool.pace else { panic!("an open loop") };
        let mut counts = [[0_usize; 2]; 2];
        let mut last = schedule.next();
        for _ in 0..CONNECTIONS {
            let due = schedule.next();
            schedule.advance();
            let cipher = pool.shared.random.usize(..2);
            // Half of the gaps of a Poisson process of 1,000 per second are longer.
            let is_late = due - last > Duration::from_micros(693);
            counts[usize::from(is_late)][cipher] += 1;
            last = due;
        }
        // A quarter each, with a standard deviation of 27.
        let fair = |count: &usize| count.abs_diff(CONNECTIONS / 4) < 150;
        assert!(counts.iter().flatten().all(fair), "{counts:?}");
    }
}
