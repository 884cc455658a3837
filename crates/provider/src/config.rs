//! What the environment says: policy and counters. The only reader of the environment here.

use std::env;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread;

use widelane_bridge::counters::COUNTERS_DIRECTORY_VARIABLE;
use widelane_cpu::policy::{self, Combine, Engine, Inputs, LaneCpus, LaneUser, WaitMax};
use widelane_cpu::{Policy, Room, environment, rooms};
use widelane_reserve::uncancelled;

use crate::errors::say;
use crate::{runtime, stack};

/// What the environment says when the provider is first loaded, or said when the program started.
///
/// It is read once, because `widelane run` takes its variables out of the environment of the
/// servers that it accelerates, so that their children stay as they are.
pub(crate) struct Config {
    /// What the process chooses from, the widest first; all others are narrower.
    pub(crate) alternatives: Vec<Alternative>,
    /// Whether a policy was to hold that cannot be used, so that none of its rooms is open.
    pub(crate) is_policy_refused: bool,
    /// Directory for counter files.
    pub(crate) counters_dir: Option<PathBuf>,
    /// CPUs that this process may use.
    pub(crate) cpus: usize,
    /// How long operations may wait for company before their event loop sleeps.
    pub(crate) wait_max: WaitMax,
    /// Whether workers make signatures for each other.
    combine: Combine,
    /// The CPUs of the service's lane process, if it is to have one.
    pub(crate) lane_cpus: Option<LaneCpus>,
    /// The user that it is to become.
    pub(crate) lane_user: Option<LaneUser>,
    /// What it may use, which may be more or less than this process may.
    pub(crate) lane_process: Alternative,
    /// What does the operations that it can do.
    pub(crate) engine: Engine,
}

/// One of the policies that the process chooses from, or that of the lane process.
pub(crate) struct Alternative {
    pub(crate) policy: Policy,
    /// The rooms that this machine has and the policy leaves open: a bit each.
    pub(crate) rooms: u32,
}

/// The configuration of this process.
pub(crate) fn config() -> &'static Config {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    // Reading files takes more stack than a small thread has; without memory for one of ours,
    // nothing is accelerated.
    let read = || uncancelled(|| stack::on_large(Config::read));
    CONFIG.get_or_init(|| read().unwrap_or_else(|| Config::under(&Policy::closed())))
}

impl Config {
    /// Whether workers make signatures for each other. Where none waits for company, none is ever
    /// left for another one.
    pub(crate) fn combines(&self) -> bool {
        let has_device = self.engine != Engine::Cpu;
        !has_device && self.combine == Combine::On && self.wait_max != WaitMax::NONE
    }

    fn read() -> Self {
        let trusted = !environment::are_rights_raised();
        // A variable that the program has taken out, with all others perhaps, counts all the same.
        let named = |name: &str| env::var_os(name).or_else(|| runtime::variable(name));
        let variable = |name: &str| named(name).filter(|value| trusted && !value.is_empty());
        let inputs = Inputs::of_variables(variable);
        let resolved = policy::resolve(&inputs).inspect_err(|error| {
            say(&format!("{error}; until this is mended nothing is accelerated in this process"));
        });
        Config {
            is_policy_refused: resolved.is_err(),
            counters_dir: variable(COUNTERS_DIRECTORY_VARIABLE).map(PathBuf::from),
            ..Config::under(&resolved.map_or_else(|_| Policy::closed(), |it| it.policy))
        }
    }

    /// All that follows from a policy, without counters in files.
    fn under(policy: &Policy) -> Self {
        let engine = policy.engine.unwrap_or_default();
        let has_device = engine != Engine::Cpu;
        // A device gets each operation at once, so none is left for lane CPUs.
        let lane_cpus = policy.lane_cpus.clone().filter(|cpus| !cpus.is_none() && !has_device);
        let of_lane_process = lane_cpus.as_ref().map(|_| policy.of_lane_process());
        Config {
            lane_process: Alternative::under(of_lane_process.unwrap_or_else(|| policy.clone())),
            alternatives: policy.alternatives().into_iter().map(Alternative::under).collect(),
            is_policy_refused: false,
            counters_dir: None,
            cpus: thread::available_parallelism().map_or(1, NonZero::get),
            wait_max: policy.wait_max.unwrap_or(WaitMax::DEFAULT),
            combine: policy.combine.unwrap_or_default(),
            lane_cpus,
            engine,
            lane_user: policy.lane_user.clone(),
        }
    }
}

impl Alternative {
    fn under(policy: Policy) -> Self {
        let open = rooms::status(&policy).into_iter().filter(|status| status.open);
        let rooms = open.fold(0, |rooms, status| rooms | 1 << status.room as u32);
        Alternative { policy, rooms }
    }

    /// Whether the machine has a room that the policy leaves open.
    pub(crate) fn has(&self, room: Room) -> bool {
        self.rooms & 1 << room as u32 != 0
    }
}
