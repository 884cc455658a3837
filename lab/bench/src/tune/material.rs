//! Work made ready: keys, inputs and rules, from which a thread gets a task for each policy.

use std::hint::black_box;
use std::sync::Arc;

use widelane_classify::rule::{Layout, Match, Rule, RuleSet};
use widelane_classify::{Classifier, Flow, Limits, Table};
use widelane_cpu::{Policy, Room};

use super::TuneError;
use super::apart::Role;
use super::application::Application;
use super::workload::{Kind, Work};
use crate::speed::SpeedError;
use crate::speed::benchmark::{Benchmark, Runner};

/// Does as many operations as go at once, and returns how many those were.
pub(super) type Task<'a> = Box<dyn FnMut() -> Result<u64, TuneError> + 'a>;

/// One kind of work with all it needs.
pub(super) enum Material {
    Application,
    Operation(Box<dyn Benchmark>),
    Packets(Packets),
}

impl Material {
    /// Makes keys, inputs and rules.
    pub fn of(work: &Work) -> Result<Self, TuneError> {
        Ok(match work.kind()? {
            Kind::Application => Material::Application,
            Kind::Packets => Material::Packets(Packets::new()?),
            Kind::Operation(case) => Material::Operation(case.benchmark()?),
        })
    }

    /// The room that does it under `policy`; nothing where scalar code or OpenSSL does.
    pub fn room(&self, policy: &Policy) -> Option<Room> {
        let rooms: &[Room] = match self {
            Material::Application => &[],
            Material::Operation(benchmark) => benchmark.rooms(),
            Material::Packets(_) => Classifier::ROOMS,
        };
        let is_open = |room: &Room| room.is_supported() && policy.allows(*room);
        rooms.iter().copied().find(is_open).filter(|room| *room != Room::Portable)
    }

    /// Whether a lane process does it, where there is one.
    pub fn is_lent(&self) -> bool {
        match self {
            Material::Operation(benchmark) => benchmark.confirmation(&Policy::open()).is_some(),
            Material::Application | Material::Packets(_) => false,
        }
    }

    /// A task that does what a thread with a role has to do of it under `policy`; none if that is
    /// nothing.
    pub fn part(&self, policy: &Policy, role: Role) -> Result<Option<Task<'_>>, TuneError> {
        match (role, self) {
            (Role::LaneProcess, _) if !self.is_lent() => Ok(None),
            (Role::LaneProcess, _) => self.task(&policy.of_lane_process()).map(Some),
            (Role::Worker, Material::Operation(benchmark)) if self.is_lent() => {
                Ok(benchmark.confirmation(policy).map(|run| by(&**benchmark, run)))
            }
            (Role::Worker | Role::Everything, _) => self.task(policy).map(Some),
        }
    }

    /// A task that does all of it under `policy`.
    pub fn task(&self, policy: &Policy) -> Result<Task<'_>, TuneError> {
        match self {
            Material::Application => {
                let mut application = Application::new();
                Ok(Box::new(move || {
                    application.turn();
                    Ok(1)
                }))
            }
            Material::Operation(benchmark) => {
                // Where every wide room is closed, the provider leaves it to OpenSSL.
                let run = match self.room(policy) {
                    Some(_) => benchmark.widelane(policy, None).run,
                    None => benchmark.openssl().map_err(SpeedError::from)?,
                };
                Ok(by(&**benchmark, run))
            }
            Material::Packets(packets) => {
                let classifier = Classifier::choose(Arc::clone(&packets.table), policy);
                let mut results = [0; BURST];
                let mut next = 0;
                Ok(Box::new(move || {
                    let burst: [&[u8]; BURST] =
                        std::array::from_fn(|index| packets.flows[next + index].packet());
                    next = (next + BURST) % FLOWS;
                    classifier.classify(&burst, &mut results).map_err(|_| TuneError::Undone)?;
                    black_box(&results);
                    Ok(1)
                }))
            }
        }
    }
}

/// A task that does an operation by a runner.
fn by<'a>(benchmark: &dyn Benchmark, mut run: Runner<'a>) -> Task<'a> {
    let mut outputs = vec![vec![0; benchmark.output_len()]; benchmark.inputs()];
    Box::new(move || {
        let done = run(&mut outputs).map_err(SpeedError::from)?;
        // A task that does nothing would never come to an end of its share.
        if done == 0 { Err(TuneError::Undone) } else { Ok(done) }
    })
}

/// Packets that are looked up at once.
const BURST: usize = 64;

/// Flows that packets belong to.
const FLOWS: usize = 4096;

/// Rules of the set.
const RULES: u32 = 1024;

/// A set of rules, and packets that meet them.
pub(super) struct Packets {
    table: Arc<Table>,
    flows: Vec<Flow>,
}

impl Packets {
    fn new() -> Result<Self, TuneError> {
        let mut set = RuleSet::new(Layout::ipv4());
        // The same every time.
        let mut random = fastrand::Rng::with_seed(1);
        set.rules = (0..RULES).map(|index| rule(&mut random, index)).collect();
        let table = Table::build(&set, &Limits::default()).map_err(TuneError::Rules)?;
        let flows = Flow::drawn(&set, FLOWS, 1).ok_or(TuneError::Undone)?;
        Ok(Packets { table: Arc::new(table), flows })
    }
}

/// A rule over source, destination, ports and protocol.
fn rule(random: &mut fastrand::Rng, index: u32) -> Rule {
    let mut address = |shortest: u32| {
        let (net, host) = (random.u32(..1 << 8) << 24, random.u32(..1 << 24));
        Match::prefix(u128::from(net | host), shortest + random.u32(..33 - shortest), 4)
    };
    let (source, destination) = (address(8), address(16));
    let port = match random.u32(..3) {
        0 => Match::ANY,
        1 => Match::exact(u128::from(random.u32(..1 << 16)), 2),
        _ => Match::range(1024, 65535),
    };
    let protocol = Match::exact([6, 17][random.u32(..2) as usize], 1);
    Rule {
        matches: [source, destination, Match::ANY, port, protocol].into(),
        priority: RULES as i32 - index as i32,
        categories: 1,
        result: index + 1,
        line: 0,
    }
}

#[cfg(test)]
mod tests {
    use widelane_cpu::Width;

    use super::super::workload::Workload;
    use super::*;

    #[test]
    fn every_kind_of_work_is_done_under_every_width() {
        let mut done = 0;
        for work in Workload::presets().into_iter().flat_map(|preset| preset.work) {
            let material = Material::of(&work).unwrap();
            for width in [128, 256, 512] {
                let policy = Policy::up_to(width.try_into().unwrap());
                if let Some(room) = material.room(&policy) {
                    assert!(policy.allows(room) && room.is_supported());
                }
                let mut task = material.task(&policy).unwrap();
                assert!(task().unwrap() >= 1 && task().unwrap() >= 1, "{}", work.what);
                done += 1;
            }
        }
        assert_eq!(done, 3 * 14);
    }

    #[test]
    fn a_lane_process_does_signatures_and_workers_confirm_them() {
        for work in Workload::presets().into_iter().flat_map(|preset| preset.work) {
            let material = Material::of(&work).unwrap();
            assert_eq!(material.is_lent(), work.what.starts_with("rsa"), "{}", work.what);
            for policy in [Policy::open(), Policy::up_to(Width::W128)] {
                let lent = material.part(&policy, Role::LaneProcess).unwrap();
                assert_eq!(lent.is_some(), material.is_lent(), "{}", work.what);
                let mut task = material.part(&policy, Role::Worker).unwrap().unwrap();
                assert!(task().unwrap() >= 1 && task().unwrap() >= 1, "{}", work.what);
            }
        }
    }

    #[test]
    fn the_room_is_the_one_that_the_classifier_chooses() {
        let packets = Packets::new().unwrap();
        let table = Arc::clone(&packets.table);
        let material = Material::Packets(packets);
        for width in [128, 256, 512] {
            let policy = Policy::up_to(width.try_into().unwrap());
            let chosen = Classifier::choose(Arc::clone(&table), &policy).room();
            assert_eq!(material.room(&policy).unwrap_or(Room::Portable), chosen);
        }
    }
}
