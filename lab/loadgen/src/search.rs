//! The highest rate at which a server keeps a latency limit: doubling to bracket it, bisection, and
//! a second run of the best two.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::drive::{Course, GivenUp, Outcome, drive};
use crate::latency::Latency;
use crate::load::LoadError;
use crate::plan::{Arrivals, Pace, Plan, Work};
use crate::tally::{ErrorKind, Tally};
use crate::verdict::{self, Doubt};

/// What is to be kept.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// Latency from the instant at which a connection is due until its work is done.
    pub latency_max: Duration,
    /// Percentile of the latencies that has to keep it; 100 for all.
    pub percentile: f64,
}

/// One run at one rate.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Connections per second that were due; none for the first run, of one connection at a time.
    pub rate: Option<f64>,
    /// What came of it.
    pub outcome: Outcome,
    /// Latency at the percentile, those included that were still under way and already above the
    /// limit.
    pub latency: Duration,
    /// Why the goal was missed; none if it was reached.
    pub missed: Option<Missed>,
}

impl Probe {
    /// All reasons to doubt it, as a part of the search with `plan`.
    pub fn doubts(&self, plan: &Plan) -> Vec<Doubt> {
        verdict::doubts(&Plan { pace: pace(plan, self.rate), ..plan.clone() }, &self.outcome)
    }

    /// Whether the server refused all connections, as one does that has ended.
    fn is_refused(&self) -> bool {
        let tally = &self.outcome.tally;
        tally.handshakes() == 0 && tally.errors.keys().eq([&ErrorKind::Refused])
    }
}

/// Why a goal was missed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Missed {
    /// It took too long.
    Latency,
    /// It would have taken too long in time.
    Behind,
    /// This many connections failed.
    Failures(u64),
    /// Nothing was done.
    Nothing,
}

/// How a search ended whose probes fail by `E`.
#[derive(Clone, Debug)]
pub enum Ending<E> {
    /// This rate was reached twice.
    Rate(f64),
    /// Nothing keeps the goal, and this is why.
    Infeasible(String),
    /// One connection alone kept the goal, but no rate did; why the last one missed it.
    NeverKept(Missed),
    /// No probe reached its goal twice; the server is not steady enough.
    Unsteady,
    /// The server has ended: nothing listens any more.
    Gone,
    /// It was stopped.
    Interrupted,
    /// A probe could not be made, and this is why.
    GivenUp(E),
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Found<E> {
    /// How it ended.
    pub ending: Ending<E>,
    /// Every run, in order.
    pub probes: Vec<Probe>,
    /// Whether the clients rather than the server set the limit.
    pub client_bound: bool,
}

/// A probe has to be longer than the limit by this, so that what exceeds it can be seen.
const LIMITS_PER_PROBE: u32 = 3;

/// Ratio of rates at which bisection ends.
const CLOSE: f64 = 1.04;

/// Where a seed has the number of its probe.
const PROBE_SHIFT: u32 = 48;

/// Rates tried at most until one is too high.
const DOUBLINGS: u32 = 24;

/// Searches the highest rate at which `plan` keeps `goal`. `course` says how long warm-up and
/// window of a probe take at least; `attempt` carries out one probe, [`attempt`] from here, and
/// ends the search if it fails; `probed` is called with each.
pub fn search<E>(
    plan: &Plan,
    course: &Course,
    goal: &Goal,
    mut attempt: impl FnMut(&Plan, &Course) -> Result<Outcome, E>,
    mut probed: impl FnMut(&Probe),
) -> Found<E> {
    let window = course.window.max(LIMITS_PER_PROBE * goal.latency_max);
    // As many connections have to be under way when the window begins as when it ends.
    let warm_up = course.warm_up.max(goal.latency_max);
    let mut searched = Searched {
        plan,
        course: Course { warm_up, window, ..course.clone() },
        goal,
        attempt: &mut attempt,
        probed: &mut probed,
        probes: Vec::new(),
    };
    let ending = searched.run().unwrap_or_else(Ending::GivenUp);
    let probes = searched.probes;
    // What is far too fast for the server keeps any client busy.
    let too_fast = probes.iter().filter(|probe| probe.missed.is_some());
    let slowest = too_fast.min_by(|a, b| f64::total_cmp(&rate_of(a), &rate_of(b)));
    let client_bound = slowest.is_some_and(|probe| busy(probe) >= verdict::BUSY);
    Found { ending, probes, client_bound }
}

/// Carries out a probe from this host, until `stop` is set. A server that gives up under an open
/// loop has more than it can bear, which is an answer and no error. What fails on this host says
/// nothing about the server.
///
/// # Errors
///
/// See [`LoadError`].
pub fn attempt(plan: &Plan, course: &Course, stop: &AtomicBool) -> Result<Outcome, LoadError> {
    let outcome = match drive(plan, course, stop, |_, _| ()) {
        Err(GivenUp { error: LoadError::Failing { kind, count, .. }, .. })
            if matches!(plan.pace, Pace::Open { .. }) && kind != ErrorKind::System =>
        {
            Outcome::of_failures(kind, count)
        }
        outcome => outcome.map_err(|given_up| given_up.error)?,
    };
    match outcome.tally.errors.get(&ErrorKind::System) {
        Some(count) => Err(LoadError::OwnHost(*count)),
        None => Ok(outcome),
    }
}

/// The pace of a probe in the search with `plan`: the rate, or one connection at a time.
fn pace(plan: &Plan, rate: Option<f64>) -> Pace {
    let ramp = Duration::ZERO;
    let Some(rate) = rate else { return Pace::Closed { connections: 1, ramp } };
    let (arrivals, connections_max) = match plan.pace {
        Pace::Open { arrivals, connections_max, .. } => (arrivals, connections_max),
        Pace::Closed { connections, .. } => (Arrivals::Poisson, connections),
    };
    Pace::Open { rate, arrivals, ramp, connections_max }
}

/// The rate of a probe; 0 for one connection at a time.
fn rate_of(probe: &Probe) -> f64 {
    probe.rate.unwrap_or_default()
}

fn busy(probe: &Probe) -> f64 {
    probe.outcome.busy
}

/// How a probe is carried out.
type Attempt<'a, E> = dyn FnMut(&Plan, &Course) -> Result<Outcome, E> + 'a;

struct Searched<'a, E> {
    plan: &'a Plan,
    course: Course,
    goal: &'a Goal,
    attempt: &'a mut Attempt<'a, E>,
    probed: &'a mut dyn FnMut(&Probe),
    probes: Vec<Probe>,
}

impl<E> Searched<'_, E> {
    fn run(&mut self) -> Result<Ending<E>, E> {
        // One connection at a time: what takes too long alone will not be faster in company.
        let alone = self.probe(None)?;
        if alone.outcome.interrupted {
            return Ok(Ending::Interrupted);
        }
        if let Some(missed) = alone.missed {
            return Ok(Ending::Infeasible(self.why_not_alone(&alone, missed)));
        }
        let each = self.plan.work.count();
        let tally = &alone.outcome.tally;
        let done = (tally.handshakes() as f64).max(tally.answers as f64 / each as f64);
        let window_s = self.course.window.as_secs_f64();
        // Of connections that outlast the window, hardly a part may be done.
        let begin = (done / alone.outcome.wall.as_secs_f64()).max(0.01 / window_s);

        let mut kept: Vec<f64> = Vec::new();
        let mut too_high = None;
        let mut rate = begin.max(1.0 / window_s);
        for _ in 0..DOUBLINGS {
            match self.probe_rate(rate)? {
                Err(ending) => return Ok(ending),
                Ok(None) => {
                    kept.push(rate);
                    rate *= 2.0;
                }
                Ok(Some(_)) => {
                    too_high = Some(rate);
                    break;
                }
            }
        }
        let mut high = too_high.unwrap_or(rate);
        // One connection at a time was kept, if not that many per second.
        let mut low = kept.last().copied().unwrap_or(begin / 16.0);
        while high / low > CLOSE {
            let middle = (low * high).sqrt();
            match self.probe_rate(middle)? {
                Err(ending) => return Ok(ending),
                Ok(None) => {
                    kept.push(middle);
                    low = middle;
                }
                Ok(Some(_)) => high = middle,
            }
        }
        let last_missed = self.probes.last().and_then(|probe| probe.missed);
        if let Some(missed) = last_missed.filter(|_| kept.is_empty()) {
            return Ok(Ending::NeverKept(missed));
        }
        for best in kept.into_iter().rev().take(2) {
            match self.probe_rate(best)? {
                Err(ending) => return Ok(ending),
                Ok(None) => return Ok(Ending::Rate(best)),
                Ok(Some(_)) => {}
            }
        }
        Ok(Ending::Unsteady)
    }

    /// Why the goal is missed at `rate`, if it is; or how that ends the search.
    fn probe_rate(&mut self, rate: f64) -> Result<Result<Option<Missed>, Ending<E>>, E> {
        let probe = self.probe(Some(rate))?;
        Ok(match probe.outcome.interrupted {
            true => Err(Ending::Interrupted),
            false if probe.is_refused() => Err(Ending::Gone),
            false => Ok(probe.missed),
        })
    }

    fn probe(&mut self, rate: Option<f64>) -> Result<Probe, E> {
        let plan = Plan {
            pace: pace(self.plan, rate),
            // Each probe has arrivals of its own. Agents and threads count seeds in lower bits.
            seed: self.plan.seed.wrapping_add((self.probes.len() as u64) << PROBE_SHIFT),
            // What takes longer than a probe is counted as unfinished.
            patience: self.plan.patience.max(self.course.window),
            ..self.plan.clone()
        };
        let outcome = (self.attempt)(&plan, &self.course)?;
        let latency = latency(&plan.work, &outcome.tally, self.goal);
        let done = outcome.tally.handshakes().saturating_add(outcome.tally.answers);
        let missed = if latency > self.goal.latency_max {
            Some(Missed::Latency)
        } else if outcome.tally.failures() > 0 {
            Some(Missed::Failures(outcome.tally.failures()))
        } else if done == 0 {
            Some(Missed::Nothing)
        } else {
            verdict::behind(&plan, &outcome).map(|_: Doubt| Missed::Behind)
        };
        let probe = Probe { rate, outcome, latency, missed };
        (self.probed)(&probe);
        self.probes.push(probe.clone());
        Ok(probe)
    }

    /// Why one connection alone does not keep the goal.
    fn why_not_alone(&self, alone: &Probe, missed: Missed) -> String {
        let kinds: Vec<_> = alone.outcome.tally.errors.keys().map(|kind| kind.name()).collect();
        match missed {
            Missed::Latency => self.arithmetic(alone),
            Missed::Failures(_) => {
                format!("one connection alone: {missed} ({})", kinds.join(", "))
            }
            Missed::Behind | Missed::Nothing => format!("one connection alone: {missed}"),
        }
    }

    /// How much longer than its limit one connection alone takes.
    fn arithmetic(&self, alone: &Probe) -> String {
        let limit = self.goal.latency_max.as_secs_f64();
        let tally = &alone.outcome.tally;
        let gigabits = |bytes: f64, seconds: f64| bytes * 8.0 / seconds / 1e9;
        match tally.body_bytes_announced {
            0 => format!(
                "one connection alone takes {:.3} s where the limit is {limit} s",
                alone.latency.as_secs_f64()
            ),
            bytes => {
                let seconds = alone.outcome.wall.as_secs_f64();
                format!(
                    "{bytes} bytes in {limit} s are {:.2} Gbit/s on one connection; one connection \
                     alone reached {:.2} Gbit/s, so that they take {:.1} s",
                    gigabits(bytes as f64, limit),
                    gigabits(tally.body_bytes as f64, seconds),
                    bytes as f64 * seconds / tally.body_bytes.max(1) as f64,
                )
            }
        }
    }
}

/// Latency at the percentile of `goal`. How long those take that have only just begun when the
/// window ends is not known yet: they count neither way.
fn latency(work: &Work, tally: &Tally, goal: &Goal) -> Duration {
    let all = Latency::Total.against(goal.latency_max, tally, work);
    Duration::from_nanos(all.value_at_percentile(goal.percentile))
}

impl fmt::Display for Missed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missed::Latency => formatter.write_str("too slow"),
            Missed::Behind => formatter.write_str("falls behind"),
            Missed::Failures(count) => write!(formatter, "{count} failed"),
            Missed::Nothing => formatter.write_str("nothing done"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_only_just_begun_hides_nobody_who_was_late() {
        let goal = Goal { latency_max: Duration::from_millis(100), percentile: 99.0 };
        let mut tally = Tally::new();
        let mut end = |count: usize, latency: Duration| {
            (0..count).for_each(|_| tally.count_handshake(false, latency, latency));
        };
        end(98, Duration::from_millis(1));
        end(2, Duration::from_secs(1));
        (0..100).for_each(|_| tally.count_unfinished(Duration::from_millis(1)));
        assert!(latency(&Work::Handshake, &tally, &goal) > goal.latency_max);

        let mut stopped = Tally::new();
        stopped.count_handshake(false, Duration::from_millis(1), Duration::from_millis(1));
        stopped.count_unfinished(Duration::from_secs(1));
        assert!(latency(&Work::Handshake, &stopped, &goal) > goal.latency_max);
    }
}
