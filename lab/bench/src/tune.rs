//! Tune: which width policy gets most out of the whole machine, for a stated workload.
//!
//! All CPUs do the same mixture of work at the same time ([`workload`]); the policies
//! ([`candidate`]) take turns, round by round, each after a look at the clock of scalar code. What
//! they get done in a second of CPU time decides ([`verdict`]): first all of them, then those that
//! look better once more. [`mod@file`] writes the policy with its evidence.

mod apart;
mod application;
pub mod candidate;
pub mod file;
mod material;
pub mod record;
mod threads;
pub mod verdict;
pub mod workload;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use thiserror::Error;
use widelane_classify::BuildError;
use widelane_cpu::policy::LaneCpus;
use widelane_cpu::{Machine, Policy, Topology};
use widelane_meter::meter::MeterError;
use widelane_meter::place::{self, NoSuchPlace};
use widelane_meter::time_stamps::TimeStamps;

use self::candidate::{ALWAYS_512, Candidate, NEVER_512};
use self::material::Material;
use self::record::{Record, Slice, Stage};
use self::threads::Threads;
use self::workload::{Workload, WorkloadError};
use crate::pairs;
use crate::speed::SpeedError;

/// What to try.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the machine does.
    pub workload: Workload,
    /// The policy that others are held against, if not the default for this CPU.
    pub file: Option<Policy>,
    /// CPUs that are set aside for signatures under two more policies.
    pub lane_cpus: Option<LaneCpus>,
    /// Rounds of the survey, and as many of the confirmation.
    pub rounds: u32,
    /// How long a policy has its turn.
    pub slice: Duration,
}

/// Why nothing could be measured.
#[derive(Debug, Error)]
pub enum TuneError {
    /// The workload makes no sense.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A CPU cannot be used.
    #[error(transparent)]
    Place(#[from] NoSuchPlace),
    /// There is no meter to gate with.
    #[error(transparent)]
    Meter(#[from] MeterError),
    /// Work could not be made ready or done.
    #[error(transparent)]
    Speed(#[from] SpeedError),
    /// The rules of the packets make no table.
    #[error("the rules of the workload make no table; this is a defect, please report it")]
    Rules(#[source] BuildError),
    /// The CPUs cannot be divided like this.
    #[error(
        "lane CPUs {lanes} cannot be tried; name some of the CPUs {cpus} that may be used here, \
         and leave at least one to workers"
    )]
    LaneCpus {
        /// The CPUs that were to be set aside.
        lanes: LaneCpus,
        /// The CPUs that may be used here.
        cpus: LaneCpus,
    },
    /// A lane process would have nothing to do.
    #[error("the workload {name} has no RSA signatures for lane CPUs; name another --workload")]
    NothingLent {
        /// The workload.
        name: String,
    },
    /// Work that was accepted was not done.
    #[error("work was left undone; this is a defect, please report it")]
    Undone,
    /// A CPU went away beneath its thread.
    #[error("CPU {cpu} was taken away while it was measured; run again on CPUs that stay")]
    Moved {
        /// The CPU.
        cpu: usize,
    },
    /// The caller asked to stop.
    #[error("interrupted before there was anything to tell; nothing is changed")]
    Interrupted,
}

/// Measures as planned. `turn` is called after each turn with how many of how many are done.
///
/// # Errors
///
/// See [`TuneError`]. A run that is stopped has no result: half of its rounds are not half a
/// verdict.
pub fn run(
    plan: &Plan,
    stop: &AtomicBool,
    turn: &mut dyn FnMut(u64, u64),
) -> Result<Record, TuneError> {
    let machine = Machine::detect();
    let stamps = TimeStamps::calibrate(machine.tsc_khz).map_err(MeterError::from)?;
    let cpus = place::allowed();
    let materials: Vec<Material> =
        plan.workload.work.iter().map(Material::of).collect::<Result<_, _>>()?;
    let candidates = candidate::all(plan.file.clone(), plan.lane_cpus.as_ref(), &materials);
    let works = plan.workload.work.iter().zip(&materials);
    let lent: f64 =
        works.filter(|(_, material)| material.is_lent()).map(|(work, _)| work.share).sum();
    let costs_us = threads::costs_us(&materials, &candidates[0].policy)?;
    let mut record = Record {
        created: crate::now_rfc3339(),
        model: machine.model.clone(),
        hypervisor: machine.hypervisor.clone(),
        cpus: cpus.clone(),
        cpus_online: Some(Topology::detect().cpus.len() as u32),
        workload: plan.workload.clone(),
        costs_us,
        candidates,
        slices: Vec::new(),
    };
    apart::check(&record, plan.lane_cpus.as_ref(), lent)?;
    thread::scope(|scope| {
        let threads = Threads::start(scope, &cpus, &machine, &plan.workload, lent);
        let mut run = Run { plan, threads, stop, turn };
        run.stage(Stage::Survey, &(0..record.candidates.len()).collect::<Vec<_>>(), &mut record)?;
        let finalists = verdict::finalists(&record);
        if finalists.is_empty() {
            return Ok(());
        }
        let named: Vec<&Candidate> =
            finalists.iter().map(|place| &record.candidates[*place]).collect();
        let union = Candidate::union(&named, &materials);
        let mut places = vec![0];
        places.extend(finalists);
        places.extend([ALWAYS_512, NEVER_512].iter().filter_map(|name| record.place(name)));
        let is_new = |union: &Candidate| record.candidates.iter().all(|c| c.rooms != union.rooms);
        if let Some(union) = union.filter(is_new) {
            places.push(record.candidates.len());
            record.candidates.push(union);
        }
        places.sort_unstable();
        places.dedup();
        run.stage(Stage::Confirmation, &places, &mut record)
    })?;
    stamps.confirm().map_err(MeterError::from)?;
    Ok(record)
}

/// The rounds of a run.
struct Run<'a, 'scope> {
    plan: &'a Plan,
    threads: Threads<'scope>,
    stop: &'a AtomicBool,
    turn: &'a mut dyn FnMut(u64, u64),
}

impl Run<'_, '_> {
    /// All rounds of a stage, in each of which every candidate of `places` has its turn.
    fn stage(
        &mut self,
        stage: Stage,
        places: &[usize],
        record: &mut Record,
    ) -> Result<(), TuneError> {
        let turns = u64::from(self.plan.rounds) * places.len() as u64;
        let mut taken = 0;
        for round in 0..self.plan.rounds {
            for index in pairs::order(places.len(), round) {
                if self.stop.load(Ordering::Relaxed) {
                    return Err(TuneError::Interrupted);
                }
                let candidate = places[index];
                let policy = &record.candidates[candidate].policy;
                let done = self.threads.work(policy, &record.costs_us, self.plan.slice)?;
                record.slices.push(Slice {
                    stage,
                    round,
                    candidate,
                    throughput: done.throughput,
                    cpu_share: done.cpu_share,
                    clock_mhz: done.clock_mhz,
                    ambient_mhz: done.ambient_mhz,
                });
                taken += 1;
                (self.turn)(taken, turns);
            }
        }
        Ok(())
    }
}
