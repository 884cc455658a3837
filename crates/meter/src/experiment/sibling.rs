//! The sibling experiment: heavy 256-bit code on one hyper-thread against light 512-bit code on the
//! other.

use std::sync::Arc;
use std::thread;

use widelane_cpu::{Machine, Topology, Width};

use super::crew::{Crew, Member};
use super::{Bench, Budget, ExperimentError, Label, Watcher, facts, recording};
use crate::stimulus::{Instruction, Subject};
use crate::trace::{Phase, Recording};

/// What to try.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A CPU of the pair; without it, the first pair serves.
    pub cpu: Option<usize>,
    /// The CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// Rounds, each with the two alone and together.
    pub rounds: u32,
    /// Time after which no further round begins, in seconds.
    pub seconds: f64,
}

/// What one hyper-thread runs: heavy 256-bit code.
pub const FIRST: Subject = Subject::Instruction(Instruction::Vfmadd213pd, Width::W256);
/// What the other one runs: light 512-bit code.
pub const SECOND: Subject = Subject::Instruction(Instruction::Vaesenc, Width::W512);
/// The pair, as recordings name it.
pub const TOGETHER: &str = "vfmadd213pd-256 beside vaesenc-512";

/// Two CPUs of one core, among those that this process may use; with `cpu`, the one and a sibling.
///
/// # Errors
///
/// Where the system shows none.
pub fn siblings(
    topology: &Topology,
    allowed: &[usize],
    cpu: Option<usize>,
) -> Result<(usize, usize), ExperimentError> {
    let usable = |cpu: &usize| allowed.contains(cpu);
    if let Some(cpu) = cpu {
        let own = topology.cpus.iter().find(|found| found.index == cpu && usable(&cpu));
        let sibling = own.and_then(|own| {
            own.siblings.iter().copied().find(|other| *other != cpu && usable(other))
        });
        return sibling.map(|other| (cpu, other)).ok_or_else(|| {
            ExperimentError::NotApplicable(format!(
                "not applicable: CPU {cpu} has no SMT sibling that may be used"
            ))
        });
    }
    let pair = topology.cpus.iter().find_map(|cpu| {
        let mut usable = cpu.siblings.iter().copied().filter(usable);
        Some((usable.next()?, usable.next()?))
    });
    pair.ok_or_else(|| {
        ExperimentError::NotApplicable("not applicable: no SMT siblings visible".to_owned())
    })
}

/// Runs the experiment on a pair of siblings.
///
/// # Errors
///
/// Where there are none, or nothing can be metered.
pub fn run(
    plan: &Plan,
    machine: &Machine,
    watcher: &dyn Watcher,
) -> Result<Recording, ExperimentError> {
    let (first, second) = siblings(&Topology::detect(), &plan.cpus, plan.cpu)?;
    for subject in [FIRST, SECOND] {
        subject.missing().map_or(Ok(()), |why| Err(ExperimentError::NotApplicable(why)))?;
    }
    let budget = Budget::new(watcher, plan.seconds);
    let (crew, budget) = (Arc::<Crew>::default(), &budget);
    let work = |cpu: usize, own: Subject, member: Member| {
        move || -> Result<Recording, ExperimentError> {
            let bench = Bench::on(machine, cpu, 2);
            if !member.all(bench.is_ok()) {
                return Err(bench.err().unwrap_or(ExperimentError::Ended));
            }
            let mut bench = bench?;
            for round in 0..plan.rounds {
                if !member.agree(|| budget.goes_on(u64::from(round), u64::from(plan.rounds))) {
                    break;
                }
                bench.alone_and_together(own, round, &member)?;
            }
            let facts = facts(machine, &bench);
            recording("sibling", facts, bench.finish()?)
        }
    };
    let (one, other) = (crew.member(), crew.member());
    let both = thread::scope(|scope| {
        let other = scope.spawn(work(second, SECOND, other));
        let one = scope.spawn(work(first, FIRST, one));
        [one, other].map(|thread| thread.join().unwrap_or(Err(ExperimentError::Panicked)))
    });
    match both {
        [Ok(mut one), Ok(other)] => {
            one.samples.extend(other.samples);
            Ok(one)
        }
        // One that only followed the other has no reason of its own.
        [Err(ExperimentError::Ended), Err(why)] | [Err(why), _] | [_, Err(why)] => Err(why),
    }
}

impl Bench {
    /// This thread's code while the sibling rests, while it works, and rest while it works alone.
    fn alone_and_together(
        &mut self,
        own: Subject,
        round: u32,
        member: &Member,
    ) -> Result<(), ExperimentError> {
        let mut stimulus = own.stimulus().map_err(ExperimentError::NotApplicable)?;
        let (turns, _) = self.turns_for(&mut stimulus, 20.0);
        for (name, works) in [
            (FIRST.to_string(), own == FIRST),
            (SECOND.to_string(), own == SECOND),
            (TOGETHER.to_owned(), true),
        ] {
            let name = name.into();
            member.all(true);
            let label = |phase| Label { subject: &name, round, phase };
            self.meter.rest(4000.0);
            self.windows(label(Phase::Ambient), 40, 2.0, 10.0);
            member.all(true);
            for _ in 0..100 {
                if works {
                    self.burst(label(Phase::Burst), &mut stimulus, turns);
                } else {
                    self.meter.rest(20.0);
                }
                self.windows(label(Phase::During), 1, 2.0, 0.0);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use widelane_cpu::topology::Cpu;

    use super::*;

    fn topology(siblings: &[&[usize]]) -> Topology {
        let cpu = |(index, siblings): (usize, &&[usize])| Cpu {
            index,
            siblings: siblings.to_vec(),
            package: 0,
            node: 0,
        };
        Topology { cpus: siblings.iter().enumerate().map(cpu).collect(), caches: Vec::new() }
    }

    #[test]
    fn siblings_are_found_among_the_cpus_allowed() {
        let smt = topology(&[&[0, 2], &[1, 3], &[0, 2], &[1, 3]]);
        assert_eq!(siblings(&smt, &[0, 1, 2, 3], None).unwrap(), (0, 2));
        assert_eq!(siblings(&smt, &[0, 1, 3], None).unwrap(), (1, 3));
        assert_eq!(siblings(&smt, &[0, 1, 2, 3], Some(3)).unwrap(), (3, 1));
        let error = siblings(&smt, &[0, 1, 3], Some(0)).unwrap_err().to_string();
        assert_eq!(error, "not applicable: CPU 0 has no SMT sibling that may be used");
        for (topology, allowed) in [(smt, vec![0, 1]), (topology(&[&[0], &[1]]), vec![0, 1])] {
            let error = siblings(&topology, &allowed, None).unwrap_err();
            assert_eq!(error.to_string(), "not applicable: no SMT siblings visible");
        }
    }
}
