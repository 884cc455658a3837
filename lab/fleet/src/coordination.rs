//! Which agents take part, which were lost, and what all have counted together: state without a bus
//! and without a clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use widelane_loadgen::{ErrorKind, Outcome, Tally};

use crate::directed::{Degradation, Directed, Report, Share};
use crate::wire::{self, What, WireError};

/// How often agents and their director are heard.
pub const BEAT: Duration = Duration::from_millis(100);

/// Silence after which an agent is lost.
pub const SILENCE: Duration = Duration::from_millis(800);

/// Seconds that may wait for the slowest agent.
const WAITING_MAX: usize = 600;

/// An agent that takes part.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its address on the bus.
    pub id: String,
    /// Its name.
    pub name: String,
    /// How far its clock is ahead of the director's, nanoseconds.
    pub ahead_ns: i128,
    /// How much that may be wrong.
    pub uncertainty: Duration,
    /// Its part of the load.
    pub share: Share,
}

struct Participant {
    member: Member,
    heard: Instant,
    late_s: Option<f64>,
    /// Seconds that have arrived, without gaps.
    seconds: usize,
    missing: usize,
    so_far: Tally,
    state: State,
}

enum State {
    Working,
    Over(Box<Outcome>),
    Gone(Duration),
}

impl Participant {
    fn is_working(&self) -> bool {
        matches!(self.state, State::Working)
    }

    /// Whether what it counted in a second is there, or will never be.
    fn has_told(&self, second: usize) -> bool {
        !self.is_working() || self.seconds > second
    }
}

/// All agents that take part in one run.
pub struct Coordination {
    participants: Vec<Participant>,
    start: Instant,
    start_ns: u64,
    seconds_max: usize,
    threads: usize,
    ends_by: Instant,
    /// Seconds that have not been reported yet, the first of them being `told`.
    waiting: VecDeque<Tally>,
    told: usize,
    deaf_since: Option<Instant>,
    /// Whether the agents have been told to stop.
    stopping: bool,
    degradations: Vec<Degradation>,
}

/// When a run takes place.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The beginning of the run.
    pub start: Instant,
    /// The beginning of the run by the director's clock, in nanoseconds.
    pub start_ns: u64,
    /// Length of its window.
    pub window: Duration,
    /// Threads of each agent.
    pub threads: usize,
    /// When it is over at the latest, whether agents are heard or not.
    pub ends_by: Instant,
}

impl Coordination {
    /// Before the beginning.
    pub fn new(members: Vec<Member>, times: Times) -> Self {
        let participant = |member| Participant {
            member,
            heard: times.start,
            late_s: None,
            seconds: 0,
            missing: 0,
            so_far: Tally::new(),
            state: State::Working,
        };
        Coordination {
            participants: members.into_iter().map(participant).collect(),
            start: times.start,
            start_ns: times.start_ns,
            seconds_max: times.window.as_secs_f64().ceil() as usize,
            threads: times.threads,
            ends_by: times.ends_by,
            waiting: VecDeque::new(),
            told: 0,
            deaf_since: None,
            stopping: false,
            degradations: Vec::new(),
        }
    }

    /// Processes news of an agent; ignored if the agent does not take part, or not any more.
    pub fn hear(&mut self, agent: &str, what: What, now: Instant) -> Result<(), WireError> {
        let after = now.saturating_duration_since(self.start);
        let Some(participant) =
            self.participants.iter_mut().find(|participant| participant.member.id == agent)
        else {
            return Ok(());
        };
        if !participant.is_working() {
            return Ok(());
        }
        participant.heard = participant.heard.max(now);
        match what {
            What::Alive => {}
            What::Began { at_ns } => {
                let late_ns =
                    i128::from(at_ns) - participant.member.ahead_ns - i128::from(self.start_ns);
                participant.late_s = Some(late_ns as f64 / 1e9);
            }
            What::Second { index, counted } => {
                let index = index as usize;
                let far = self.told + WAITING_MAX;
                if index < participant.seconds || index >= self.seconds_max.min(far) {
                    return Ok(());
                }
                let tally = counted.tally()?;
                participant.missing += index - participant.seconds;
                participant.seconds = index + 1;
                participant.so_far.add(&tally);
                if let Some(behind) = index.checked_sub(self.told) {
                    if self.waiting.len() <= behind {
                        self.waiting.resize_with(behind + 1, Tally::new);
                    }
                    self.waiting[behind].add(&tally);
                }
            }
            What::Over { wall, busy, client_cpu, interrupted, counted } => {
                // The director waits no longer than this.
                let wall_max = self.ends_by.saturating_duration_since(self.start);
                let threads = u32::try_from(self.threads).unwrap_or(u32::MAX);
                if wall > wall_max || client_cpu > wall_max.saturating_mul(threads) {
                    return Err(WireError::Time);
                }
                let tally = counted.tally()?;
                let busy = if busy.is_finite() { busy.clamp(0.0, 1.0) } else { 0.0 };
                if interrupted && !self.stopping {
                    let agent = participant.member.name.clone();
                    let reason = "it was stopped there".to_owned();
                    let failed = Degradation::Failed { agent, at: after, reason, kind: None };
                    self.degradations.push(failed);
                    (participant.so_far, participant.missing) = (tally, 0);
                    participant.state = State::Gone(after);
                    return Ok(());
                }
                let outcome = Outcome { wall, busy, client_cpu, tally, interrupted };
                participant.state = State::Over(Box::new(outcome));
            }
            What::Failed { reason, kind } => {
                let agent = participant.member.name.clone();
                let reason = wire::shown(&reason);
                self.degradations.push(Degradation::Failed { agent, at: after, reason, kind });
                participant.state = State::Gone(after);
            }
        }
        Ok(())
    }

    /// The agents are told to stop: they will have been interrupted.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Whether the bus is down: while it is, no agent is lost for being silent.
    pub fn set_deaf(&mut self, deaf: bool, now: Instant) {
        match self.deaf_since {
            None if deaf => self.deaf_since = Some(now),
            Some(since) if !deaf => {
                self.deaf_since = None;
                self.note_deafness(since, now);
                // They have to find the bus again, too.
                let grace = now + SILENCE;
                self.participants
                    .iter_mut()
                    .for_each(|participant| participant.heard = participant.heard.max(grace));
            }
            None | Some(_) => {}
        }
    }

    fn note_deafness(&mut self, since: Instant, now: Instant) {
        let at = since.saturating_duration_since(self.start);
        self.degradations.push(Degradation::Deaf { at, lasted: now - since });
    }

    /// Gives up agents that have been silent for too long; all of them when the time is up.
    pub fn patrol(&mut self, now: Instant) {
        let time_is_up = now >= self.ends_by;
        if self.deaf_since.is_some() && !time_is_up {
            return;
        }
        if let Some(since) = self.deaf_since.take() {
            self.note_deafness(since, now);
        }
        let at = now.saturating_duration_since(self.start);
        for participant in
            self.participants.iter_mut().filter(|participant| participant.is_working())
        {
            if time_is_up || now.saturating_duration_since(participant.heard) > SILENCE {
                participant.state = State::Gone(at);
                let Member { name: agent, share, .. } = participant.member.clone();
                self.degradations.push(Degradation::Lost { agent, at, share });
            }
        }
    }

    /// The next second for which all agents have reported their counts.
    pub fn next_second(&mut self) -> Option<(usize, Tally)> {
        let index = self.told;
        let complete = self.participants.iter().all(|participant| participant.has_told(index));
        if !complete || self.waiting.is_empty() {
            return None;
        }
        self.told += 1;
        Some((index, self.waiting.pop_front()?))
    }

    /// Whether no agent is working any more.
    pub fn is_over(&self) -> bool {
        !self.participants.iter().any(Participant::is_working)
    }

    /// The agents that are still at work.
    pub fn working(&self) -> impl Iterator<Item = &Member> {
        self.participants
            .iter()
            .filter(|participant| participant.is_working())
            .map(|participant| &participant.member)
    }

    /// What all did together.
    pub fn conclude(self) -> Directed {
        let mut outcome = Outcome::blank();
        let mut degradations = self.degradations;
        let mut agents = Vec::new();
        for participant in self.participants {
            let (tally, lost) = match participant.state {
                State::Over(own) => {
                    outcome.wall = outcome.wall.max(own.wall);
                    outcome.busy = outcome.busy.max(own.busy);
                    outcome.client_cpu = outcome.client_cpu.saturating_add(own.client_cpu);
                    outcome.interrupted |= own.interrupted;
                    (own.tally, None)
                }
                State::Gone(at) => {
                    outcome.wall =
                        outcome.wall.max(Duration::from_secs(participant.seconds as u64));
                    (participant.so_far, Some(at))
                }
                State::Working => unreachable!("a run is concluded when no agent works any more"),
            };
            if lost.is_some() && participant.missing > 0 {
                let (agent, seconds) = (participant.member.name.clone(), participant.missing);
                degradations.push(Degradation::Missing { agent, seconds });
            }
            outcome.tally.add(&tally);
            agents.push(Report {
                name: participant.member.name,
                late_s: participant.late_s,
                clock_uncertainty_s: participant.member.uncertainty.as_secs_f64(),
                handshakes: tally.handshakes(),
                failed_there: tally.errors.get(&ErrorKind::System).copied().unwrap_or(0),
                lost_s: lost.map(|at| at.as_secs_f64()),
            });
        }
        Directed { outcome, agents, degradations }
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;
    use crate::wire::Counted;

    const SECOND: Duration = Duration::from_secs(1);

    fn coordination(start: Instant, count: usize) -> Coordination {
        let member = |index: usize| Member {
            id: format!("id{index}"),
            name: format!("agent{index}"),
            ahead_ns: -5_000_000,
            uncertainty: Duration::from_micros(50),
            share: Share::Rate(25.0),
        };
        let times = Times {
            start,
            start_ns: 1_000_000_000,
            window: 10 * SECOND,
            threads: 4,
            ends_by: start + 20 * SECOND,
        };
        Coordination::new((0..count).map(member).collect(), times)
    }

    /// Latencies that spread over five decades, another for each seed.
    fn latencies(seed: u64) -> Vec<u64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 40
        };
        (0..1000).map(|_| 10_000 + (next() % 1000) * (1 << (next() % 17))).collect()
    }

    fn tally(latencies: &[u64]) -> Tally {
        let mut tally = Tally::new();
        for latency in latencies {
            tally.full += 1;
            tally.latency_ns.record(*latency).unwrap();
        }
        tally
    }

    fn second(index: u32, tally: &Tally) -> What {
        What::Second { index, counted: Counted::of(tally) }
    }

    fn over(tally: &Tally) -> What {
        What::Over {
            wall: 10 * SECOND,
            busy: 0.5,
            client_cpu: SECOND,
            interrupted: false,
            counted: Counted::of(tally),
        }
    }

    #[test]
    fn percentiles_are_those_of_all_latencies_together() {
        let start = Instant::now();
        let mut coordination = coordination(start, 4);
        let mut all = Histogram::<u64>::new_from(&Tally::new().latency_ns);
        for index in 0..4 {
            let own = latencies(index);
            own.iter().for_each(|latency| all.record(*latency).unwrap());
            coordination.hear(&format!("id{index}"), over(&tally(&own)), start).unwrap();
        }
        assert!(coordination.is_over());
        let directed = coordination.conclude();
        assert_eq!(directed.outcome.tally.full, 4000);
        assert_eq!(directed.outcome.client_cpu, 4 * SECOND);
        assert_eq!(directed.outcome.tally.latency_ns, all);
        for percentile in [0.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
            let merged = directed.outcome.tally.latency_ns.value_at_percentile(percentile);
            assert_eq!(merged, all.value_at_percentile(percentile), "p{percentile}");
        }
        assert_eq!(directed.degradations, []);
    }

    #[test]
    fn seconds_are_told_once_all_have_told_them() {
        let start = Instant::now();
        let mut coordination = coordination(start, 2);
        let one = tally(&latencies(1));
        coordination.hear("id0", second(0, &one), start).unwrap();
        coordination.hear("id0", second(1, &one), start).unwrap();
        assert!(coordination.next_second().is_none());
        coordination.hear("id1", second(0, &one), start).unwrap();
        let (index, both) = coordination.next_second().expect("both have told");
        assert_eq!((index, both.full), (0, 2000));
        assert!(coordination.next_second().is_none());
        // What is told twice, or beyond the window, or by a stranger, counts nothing.
        coordination.hear("id0", second(1, &one), start).unwrap();
        coordination.hear("id1", second(10, &one), start).unwrap();
        coordination.hear("nobody", second(1, &one), start).unwrap();
        coordination.hear("id1", second(1, &one), start).unwrap();
        assert_eq!(
            coordination.next_second().map(|(index, both)| (index, both.full)),
            Some((1, 2000))
        );
    }

    #[test]
    fn who_is_silent_is_lost_within_a_second_and_what_he_counted_stays() {
        let start = Instant::now();
        let mut coordination = coordination(start, 2);
        let one = tally(&latencies(1));
        coordination
            .hear("id1", What::Began { at_ns: 1_000_000_000 - 5_000_000 + 3_000 }, start)
            .unwrap();
        coordination.hear("id1", second(0, &one), start + SECOND).unwrap();
        coordination.hear("id1", second(2, &one), start + 3 * SECOND).unwrap();
        coordination.hear("id0", What::Alive, start + 4 * SECOND).unwrap();
        coordination.patrol(start + 4 * SECOND);
        assert!(!coordination.is_over());
        // Too late.
        coordination.hear("id1", over(&one), start + 4 * SECOND).unwrap();
        coordination.hear("id0", over(&one), start + 10 * SECOND).unwrap();
        assert!(coordination.is_over());
        let directed = coordination.conclude();
        assert_eq!(directed.outcome.tally.full, 3000);
        assert_eq!(directed.agents[1].lost_s, Some(4.0));
        assert!((directed.agents[1].late_s.unwrap() - 3e-6).abs() < 1e-9);
        let agent = "agent1".to_owned();
        let lost =
            Degradation::Lost { agent: agent.clone(), at: 4 * SECOND, share: Share::Rate(25.0) };
        assert_eq!(directed.degradations, [lost, Degradation::Missing { agent, seconds: 1 }]);
    }

    #[test]
    fn an_agent_that_was_stopped_there_has_failed() {
        let one = tally(&latencies(1));
        let stopped = || match over(&one) {
            What::Over { wall, busy, client_cpu, counted, .. } => {
                What::Over { wall, busy, client_cpu, counted, interrupted: true }
            }
            what => what,
        };
        let start = Instant::now();
        let mut left = coordination(start, 2);
        left.hear("id0", stopped(), start + SECOND).unwrap();
        left.hear("id1", over(&one), start + 10 * SECOND).unwrap();
        let directed = left.conclude();
        assert!(!directed.outcome.interrupted);
        assert_eq!((directed.outcome.tally.full, directed.agents[0].lost_s), (2000, Some(1.0)));
        let told: Vec<_> = directed.degradations.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["agent agent0 gave up after 1.0 s: it was stopped there"]);
        let mut asked = coordination(start, 1);
        asked.stop();
        asked.hear("id0", stopped(), start + SECOND).unwrap();
        let directed = asked.conclude();
        assert!(directed.outcome.interrupted && directed.degradations.is_empty());
    }

    #[test]
    fn nobody_is_lost_while_the_bus_is_away() {
        let start = Instant::now();
        let mut coordination = coordination(start, 1);
        coordination.set_deaf(true, start + SECOND);
        coordination.patrol(start + 4 * SECOND);
        coordination.set_deaf(false, start + 5 * SECOND);
        coordination.patrol(start + 5 * SECOND + SILENCE);
        assert!(!coordination.is_over());
        coordination.hear("id0", over(&Tally::new()), start + 6 * SECOND).unwrap();
        let deaf = Degradation::Deaf { at: SECOND, lasted: 4 * SECOND };
        assert_eq!(coordination.conclude().degradations, [deaf]);
    }

    #[test]
    fn a_bus_that_never_comes_back_does_not_hold_up_the_end() {
        let start = Instant::now();
        let mut coordination = coordination(start, 2);
        coordination.set_deaf(true, start + SECOND);
        coordination.patrol(start + 20 * SECOND);
        assert!(coordination.is_over());
        assert_eq!(coordination.conclude().degradations.len(), 3);
    }

    #[test]
    fn a_search_goes_by_whole_loads_only() {
        let start = Instant::now();
        let ended = |what: Option<What>| {
            let mut coordination = coordination(start, 2);
            coordination.hear("id0", over(&tally(&latencies(1))), start).unwrap();
            if let Some(what) = what {
                coordination.hear("id1", what, start).unwrap();
            }
            coordination.patrol(start + 20 * SECOND);
            coordination.conclude()
        };
        let all = ended(Some(over(&tally(&latencies(2))))).whole(false).unwrap();
        assert_eq!((all.tally.full, all.tally.failures()), (2000, 0));
        let gave_up = |kind| ended(Some(What::Failed { reason: "refused".to_owned(), kind }));
        let refused = Some(ErrorKind::Refused);
        assert_eq!(gave_up(refused).whole(true).unwrap().tally.failures(), 1);
        // What fails on an agent's host is not the server's limit.
        for (kind, failures_count) in
            [(refused, false), (Some(ErrorKind::System), true), (None, true)]
        {
            let error = gave_up(kind).whole(failures_count).unwrap_err().to_string();
            assert!(error.contains("agent1") && error.contains("refused"), "{error}");
        }
        let mut without_ports = tally(&latencies(2));
        without_ports.errors.insert(ErrorKind::System, 7);
        let error = ended(Some(over(&without_ports))).whole(true).unwrap_err().to_string();
        assert!(error.starts_with("agent agent1: 7 connections"), "{error}");
        let lost = ended(None).whole(true).unwrap_err().to_string();
        assert!(lost.contains("agent agent1 was lost"), "{lost}");
    }

    #[test]
    fn what_cannot_be_is_refused_and_does_not_end_the_director() {
        let start = Instant::now();
        let mut coordination = coordination(start, 2);
        let told = |wall, client_cpu, full| {
            let tally = Tally { full, resumed: full, due: full, ..Tally::new() };
            let counted = Counted::of(&tally);
            What::Over { wall, busy: 1e300, client_cpu, interrupted: false, counted }
        };
        for (wall, client_cpu) in
            [(Duration::MAX, SECOND), (SECOND, Duration::MAX), (21 * SECOND, SECOND)]
        {
            assert!(coordination.hear("id0", told(wall, client_cpu, 1), start).is_err());
        }
        // As much as each may tell, second by second; no sum of it is beyond all numbers.
        let most = Tally { full: 1 << 53, resumed: 1 << 53, due: 1 << 53, ..Tally::new() };
        for index in 0..10 {
            coordination.hear("id1", second(index, &most), start).unwrap();
        }
        coordination.hear("id0", told(20 * SECOND, 80 * SECOND, 1 << 53), start).unwrap();
        coordination.patrol(start + 20 * SECOND);
        let directed = coordination.conclude();
        assert_eq!(directed.outcome.client_cpu, 80 * SECOND);
        assert_eq!(directed.outcome.tally.handshakes(), 22 << 53);
        assert!(directed.outcome.busy <= 1.0);
        let mut all = directed.outcome.tally;
        (0..40).for_each(|_| all.add(&all.clone()));
        assert_eq!((all.handshakes(), all.due), (u64::MAX, u64::MAX));
    }

    #[test]
    fn reasons_are_fit_to_be_shown() {
        let start = Instant::now();
        let mut coordination = coordination(start, 1);
        let reason = format!("\u{1b}[2J{}", "x".repeat(10_000));
        coordination.hear("id0", What::Failed { reason, kind: None }, start).unwrap();
        let directed = coordination.conclude();
        let [Degradation::Failed { reason, .. }] = &directed.degradations[..] else {
            panic!("{:?}", directed.degradations)
        };
        assert!(reason.len() == 500 && !reason.contains('\u{1b}'), "{reason}");
    }
}
