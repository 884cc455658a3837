//! The map experiment: every subject against the clock before and after it, in random order, on one
//! core and on all.

use std::sync::Arc;
use std::thread;

use widelane_cpu::Machine;

use super::crew::{Crew, Member};
use super::{Bench, Budget, ExperimentError, Label, Watcher, facts, recording};
use crate::place;
use crate::stimulus::{Stimulus, Subject};
use crate::trace::{Phase, Recording, Sample};

/// What to try.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The subjects; those that the CPU lacks are named in the recording.
    pub subjects: Vec<Subject>,
    /// Rounds, each of which visits every subject once.
    pub rounds: u32,
    /// The CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// Whether they are loaded all at once, too.
    pub on_all_cores: bool,
    /// Time after which no further round begins, in seconds.
    pub seconds: f64,
}

impl Plan {
    /// Everything there is.
    pub fn full() -> Self {
        let subjects = Subject::all();
        Plan { subjects, rounds: 24, cpus: place::allowed(), on_all_cores: true, seconds: 45.0 }
    }
}

/// CPUs that are recorded at most where all of them work: a round's ratio is their median.
const RECORDED_MAX: usize = 32;

/// Windows of a visit, about, and those that a recording has at most: 4 GiB.
const WINDOWS_PER_VISIT: usize = 200;
const WINDOWS_MAX: usize = (4 << 30) / size_of::<Sample>();

/// The fact of a recording that tells why nothing was measured on all cores, though it was to be.
pub const NOT_ON_ALL: &str = "not_on_all";

/// Runs the experiment and leaves the thread on its CPU, the one that is metered alone.
///
/// # Errors
///
/// Where nothing can be metered on one core.
pub fn run(
    plan: &Plan,
    machine: &Machine,
    watcher: &dyn Watcher,
) -> Result<Recording, ExperimentError> {
    let (cpu, allowed) = (place::here(), &plan.cpus);
    let (subjects, missing): (Vec<Subject>, Vec<Subject>) =
        plan.subjects.iter().partition(|subject| subject.missing().is_none());
    let on_all_cores = plan.on_all_cores && allowed.len() > 1;
    let recorded = if on_all_cores { 1 + recorded(allowed).count() } else { 1 };
    check_size(plan.rounds as usize, recorded * subjects.len())?;
    let visits = (subjects.len() * plan.rounds as usize) as u64;
    let steps = if on_all_cores { 2 * visits } else { visits };
    let budget = Budget::new(watcher, plan.seconds * if on_all_cores { 0.6 } else { 1.0 });

    let mut bench = Bench::on(machine, cpu, 1)?;
    let mut facts = facts(machine, &bench);
    facts.push(("cpus".to_owned(), allowed.len().to_string()));
    for subject in missing {
        facts.push((format!("missing:{subject}"), subject.missing().unwrap_or_default()));
    }
    bench.visit_all(&subjects, plan.rounds, |done| budget.goes_on(done, steps));
    let mut samples = bench.finish()?;
    if on_all_cores && watcher.goes_on(visits, steps) {
        let budget = Budget::new(watcher, plan.seconds * 0.4);
        let goes_on = |done| budget.goes_on(visits + done, steps);
        match on_all(&subjects, plan.rounds, machine, allowed, goes_on) {
            Ok(more) => samples.extend(more),
            Err(error) => facts.push((NOT_ON_ALL.to_owned(), error.to_string())),
        }
    }
    recording("map", facts, samples)
}

/// Those of `cpus` that are recorded: all of them, or of many every n-th. n is odd, because a
/// system with two packages may number their CPUs alternately.
fn recorded(cpus: &[usize]) -> impl Iterator<Item = usize> {
    let step = cpus.len().div_ceil(RECORDED_MAX) | 1;
    cpus.iter().copied().step_by(step)
}

/// Makes sure that what is recorded of visits in each round will not take all memory.
fn check_size(rounds: usize, visits: usize) -> Result<(), ExperimentError> {
    let each = visits * WINDOWS_PER_VISIT;
    if each * rounds <= WINDOWS_MAX {
        return Ok(());
    }
    let gib = (each * rounds * size_of::<Sample>()) as f64 / f64::from(1 << 30);
    Err(ExperimentError::TooLarge { rounds, gib, most: WINDOWS_MAX / each })
}

/// Every subject on all CPUs at the same time.
fn on_all(
    subjects: &[Subject],
    rounds: u32,
    machine: &Machine,
    cpus: &[usize],
    goes_on: impl Fn(u64) -> bool + Sync,
) -> Result<Vec<Sample>, ExperimentError> {
    // Densities locate a threshold, and one core is enough for that.
    let subjects: Vec<Subject> =
        subjects.iter().copied().filter(|s| !matches!(s, Subject::Density { .. })).collect();
    let crew = Arc::<Crew>::default();
    let members: Vec<_> = cpus.iter().map(|cpu| (*cpu, crew.member())).collect();
    let (subjects, goes_on) = (&subjects, &goes_on);
    thread::scope(|scope| {
        let work = |(cpu, member): (usize, Member)| {
            scope.spawn(move || {
                let bench = Bench::on(machine, cpu, cpus.len());
                let is_recorded = recorded(cpus).any(|recorded| recorded == cpu);
                // A thread without a meter must not leave the others waiting for it.
                if !member.all(bench.is_ok()) {
                    return bench.map(|_| Vec::new());
                }
                let mut bench = Bench { is_recorded, ..bench? };
                bench.visit_all(subjects, rounds, |done| member.agree(|| goes_on(done)));
                bench.finish()
            })
        };
        let threads: Vec<_> = members.into_iter().map(work).collect();
        let mut samples = Vec::new();
        for thread in threads {
            samples.extend(thread.join().unwrap_or(Err(ExperimentError::Panicked))?);
        }
        Ok(samples)
    })
}

impl Bench {
    /// Visits every subject once per round, each round in another order.
    fn visit_all(
        &mut self,
        subjects: &[Subject],
        rounds: u32,
        mut goes_on: impl FnMut(u64) -> bool,
    ) {
        let mut ready: Vec<Visitor> = subjects.iter().filter_map(|s| self.ready(*s)).collect();
        let mut random = fastrand::Rng::with_seed(0x5eed);
        let mut done = 0;
        for round in 0..rounds {
            random.shuffle(&mut ready);
            for visitor in &mut ready {
                if !goes_on(done) {
                    return;
                }
                self.visit(visitor, round);
                done += 1;
            }
        }
    }

    fn ready(&self, subject: Subject) -> Option<Visitor> {
        let mut stimulus = subject.stimulus().ok()?;
        let (turns, turn_us) = self.turns_for(&mut stimulus, BURST_US);
        let bursts = (BURSTS_US / (turns as f64 * turn_us)).clamp(8.0, 40.0) as usize;
        // A kernel's batch is no single use; densities are there for their threshold.
        let has_single_use = matches!(subject, Subject::Scalar | Subject::Instruction(..));
        Some(Visitor { name: subject.to_string().into(), stimulus, turns, bursts, has_single_use })
    }

    /// One round of one subject: the clock before, one single turn, bursts, the clock after.
    fn visit(&mut self, visitor: &mut Visitor, round: u32) {
        let Visitor { name, stimulus, turns, bursts, has_single_use } = visitor;
        let label = |phase| Label { subject: name, round, phase };
        self.meter.rest(2000.0);
        self.windows(label(Phase::Ambient), 40, 2.0, 25.0);
        if *has_single_use && self.cores == 1 {
            self.single(label(Phase::Single), stimulus, 20, 1.0);
            self.meter.rest(3000.0);
        }
        let windows_each = 32_usize.div_ceil(*bursts);
        for _ in 0..*bursts {
            self.burst(label(Phase::Burst), stimulus, *turns);
            self.windows(label(Phase::During), windows_each, 2.0, 0.0);
        }
        self.windows(label(Phase::After), 80, 2.0, 100.0);
    }
}

/// A subject that is ready to be visited.
struct Visitor {
    name: Arc<str>,
    stimulus: Stimulus,
    turns: u64,
    bursts: usize,
    has_single_use: bool,
}

/// How long a burst is, where a turn is not longer.
const BURST_US: f64 = 50.0;

/// How long the bursts of one round are together.
const BURSTS_US: f64 = 2500.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_cpus_some_of_each_package_are_recorded() {
        let of = |count: usize| recorded(&(0..count).collect::<Vec<_>>()).collect::<Vec<_>>();
        for few in [2, RECORDED_MAX] {
            assert_eq!(of(few), (0..few).collect::<Vec<_>>());
        }
        for many in [33, 64, 256, 1024] {
            let recorded = of(many);
            assert!((8..=RECORDED_MAX).contains(&recorded.len()), "{many}: {recorded:?}");
            assert!(recorded.iter().any(|cpu| cpu % 2 == 1), "{many}: {recorded:?}");
        }
    }

    #[test]
    fn what_would_not_fit_into_memory_is_refused() {
        let (usual, all) = (Plan::full(), 1 + RECORDED_MAX);
        let rounds = usual.rounds as usize;
        assert!(check_size(rounds, all * usual.subjects.len()).is_ok());
        assert!(check_size(1000, 2 * usual.subjects.len()).is_ok());
        let error = check_size(1000, all * usual.subjects.len()).unwrap_err().to_string();
        assert!(error.contains("GiB of memory; give at most"), "{error}");
    }
}
