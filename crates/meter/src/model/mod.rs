//! The model: what licences would cost on a CPU that is not at hand, from published limits.
//!
//! A discrete-event simulation of one core among many that do the same. A request is scalar work
//! and, with some probability, a kernel. A kernel of a class above the present licence level halts
//! or slows the core until the level is granted; the level stays for the hold time after its last
//! use. The clock follows from level and active cores.

mod apart;
mod table;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use widelane_cpu::{LicenceClass, Width};

pub use self::apart::{Apart, predict_apart};
pub use self::table::{Cpu, Generation, Limit, Table};

/// Licence levels.
pub const LEVELS: usize = 3;

/// Why nothing can be predicted.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// No such CPU in the table.
    #[error("the table has no CPU {name:?}; it has {known}")]
    UnknownCpu {
        /// As asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The table lacks a limit that the workload needs.
    #[error(
        "no published limit for {cpu} at licence level {level}; give a table of your own with \
         --table, or the clock at level 0 with --ambient-mhz"
    )]
    NoLimit {
        /// The CPU.
        cpu: String,
        /// The licence level.
        level: usize,
    },
    /// The CPU has fewer cores.
    #[error("{cpu} has {has} cores, not {cores}")]
    TooManyCores {
        /// The CPU.
        cpu: String,
        /// How many it has.
        has: u32,
        /// How many were to work.
        cores: u32,
    },
    /// The generation's transitions are not published.
    #[error("how {cpu} changes licences is not published; measure it with `widelane power map`")]
    NoTransitions {
        /// The CPU.
        cpu: String,
    },
    /// The table is no table.
    #[error("the table cannot be read: {0}")]
    Table(String),
    /// The workload makes no sense.
    #[error("{0}")]
    Workload(String),
}

/// What a server does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Cores that do it.
    pub cores: u32,
    /// Cycles of scalar work per request.
    pub scalar_cycles: f64,
    /// Share of the requests that call the kernel.
    pub kernel_share: f64,
    /// The widths to choose from.
    pub choices: Vec<Choice>,
}

/// One way to do the kernel's work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Its name.
    pub name: String,
    /// Its licence class: `512-heavy`, `256-light`, …
    pub class: String,
    /// Cycles of a call.
    pub cycles: f64,
    /// Whether a call keeps the ports full; if not, heavy code asks for one level less.
    #[serde(default = "yes")]
    pub dense: bool,
}

fn yes() -> bool {
    true
}

/// What comes of a choice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The choice.
    pub choice: String,
    /// The average clock while it does not halt, in MHz.
    pub clock_mhz: f64,
    /// The average clock, in MHz, if power holds the core down to what is guaranteed while the
    /// kernel's level lasts: limits bound the clock from above, and all cores at once may not reach
    /// them.
    pub clock_mhz_min: Option<f64>,
    /// Shares of time at each licence level.
    pub residency: [f64; LEVELS],
    /// Share of time in halts and grants.
    pub changing: f64,
    /// Requests per second of all cores.
    pub requests_per_second: f64,
}

/// How the clock depends on the level, and how levels change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Core {
    /// The clock at each level with the workload's cores active, in MHz.
    pub mhz: [f64; LEVELS],
    /// Halt at a rise, in microseconds.
    pub halt_us: f64,
    /// Time at a quarter of the pace at a rise, in microseconds.
    pub grant_us: f64,
    /// Time for which a level outlives its last use, in microseconds.
    pub hold_us: f64,
    /// The clock that is guaranteed at the highest level in use, in MHz, where it is published.
    pub base_mhz: Option<f64>,
}

/// Pace of the core while a level is being granted.
const PACE_UNGRANTED: f64 = 0.25;

/// The most cycles of a part of a request: half a minute.
const CYCLES_MAX: f64 = 1e11;

/// Simulated time of one core, in microseconds.
const SPAN_US: f64 = 4e6;

/// The most simulated requests: very short ones end the simulation before its time.
const REQUESTS_MAX: u64 = 20_000_000;

/// The level that a class asks for, by Intel's rules.
pub fn level_of(class: LicenceClass, dense: bool) -> usize {
    let level = match (class.width, class.heavy) {
        (Width::W128, _) | (Width::W256, false) => 0,
        (Width::W256, true) | (Width::W512, false) => 1,
        (Width::W512, true) => 2,
    };
    if dense || !class.heavy { level } else { level.saturating_sub(1) }
}

impl Workload {
    /// Reads a workload.
    ///
    /// # Errors
    ///
    /// Where it is malformed, or makes no sense.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let workload: Workload =
            toml::from_str(text).map_err(|error| ModelError::Workload(error.to_string()))?;
        let sound = workload.cores > 0
            && (1.0..=CYCLES_MAX).contains(&workload.scalar_cycles)
            && (0.0..=1.0).contains(&workload.kernel_share)
            && workload.choices.iter().all(|choice| (0.0..=CYCLES_MAX).contains(&choice.cycles));
        if sound {
            workload.choices.iter().try_for_each(|choice| choice.level().map(drop))?;
            return Ok(workload);
        }
        Err(ModelError::Workload(format!(
            "a workload has cores, a share from 0 to 1, 1 to {CYCLES_MAX:e} scalar cycles, and no \
             negative cost nor one above {CYCLES_MAX:e} cycles"
        )))
    }

    /// TLS handshakes with RSA-2048, in OpenSSL's code and in ours.
    ///
    /// # Errors
    ///
    /// Never: a test reads it.
    pub fn handshakes() -> Result<Self, ModelError> {
        Workload::parse(include_str!("../../data/handshakes.toml"))
    }
}

impl Choice {
    /// The licence level that it asks for.
    ///
    /// # Errors
    ///
    /// Where its class is none.
    pub fn level(&self) -> Result<usize, ModelError> {
        let class = self.class.parse();
        let class = class.map_err(|e| ModelError::Workload(format!("{}: {e}", self.name)))?;
        Ok(level_of(class, self.dense))
    }
}

/// Predicts one choice of a workload.
///
/// # Errors
///
/// Where its class is none.
pub fn predict(
    workload: &Workload,
    choice: &Choice,
    core: &Core,
) -> Result<Prediction, ModelError> {
    let level = choice.level()?;
    let mut state = State::new(core);
    let mut random = Random(0x11ce);
    let mut requests = 0_u64;
    while state.now_us < SPAN_US && requests < REQUESTS_MAX {
        state.run(random.exponential() * workload.scalar_cycles, 0);
        if random.uniform() < workload.kernel_share {
            state.run(choice.cycles, level);
        }
        requests += 1;
    }
    let running_us: f64 = state.spent_us.iter().sum();
    let residency = state.spent_us.map(|us| us / running_us);
    let held_down = |base: f64| {
        let mut mhz = core.mhz;
        mhz[level] = base.min(mhz[level]);
        clock_of(residency, mhz)
    };
    Ok(Prediction {
        choice: choice.name.clone(),
        clock_mhz: state.cycles / running_us,
        clock_mhz_min: core.base_mhz.map(held_down),
        residency,
        changing: state.changing_us / state.now_us,
        requests_per_second: requests as f64 / state.now_us * 1e6 * f64::from(workload.cores),
    })
}

/// A core in time.
struct State<'a> {
    core: &'a Core,
    now_us: f64,
    level: usize,
    /// When the present level was last asked for.
    used_us: f64,
    spent_us: [f64; LEVELS],
    changing_us: f64,
    cycles: f64,
}

impl<'a> State<'a> {
    fn new(core: &'a Core) -> Self {
        State {
            core,
            now_us: 0.0,
            level: 0,
            used_us: 0.0,
            spent_us: [0.0; LEVELS],
            changing_us: 0.0,
            cycles: 0.0,
        }
    }

    /// Works for some cycles of code that asks for a level.
    fn run(&mut self, cycles: f64, level: usize) {
        let mut left = cycles;
        if level > self.level {
            left -= self.rise(level);
        }
        while left > 0.0 {
            let mhz = self.core.mhz[self.level];
            let wanted_us = left / mhz;
            let until_fall_us = if self.level > level {
                (self.used_us + self.core.hold_us - self.now_us).max(0.0)
            } else {
                f64::INFINITY
            };
            self.spend(wanted_us.min(until_fall_us));
            if wanted_us <= until_fall_us {
                break;
            }
            left -= until_fall_us * mhz;
            self.level = level;
            self.used_us = self.now_us;
        }
        if level == self.level {
            self.used_us = self.now_us;
        }
    }

    /// Works at the present level for so long.
    fn spend(&mut self, us: f64) {
        self.now_us += us;
        self.spent_us[self.level] += us;
        self.cycles += us * self.core.mhz[self.level];
    }

    /// Asks for a higher level and waits for it; returns the cycles done meanwhile.
    fn rise(&mut self, level: usize) -> f64 {
        let Core { mhz, halt_us, grant_us, .. } = *self.core;
        self.level = level;
        self.changing_us += halt_us + grant_us;
        self.now_us += halt_us + grant_us;
        self.used_us = self.now_us;
        grant_us * PACE_UNGRANTED * mhz[level]
    }
}

/// Sebastiano Vigna's SplitMix64.
struct Random(u64);

impl Random {
    /// Between 0 and 1, without 0.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64 + 1.0) / (1_u64 << 53) as f64
    }

    /// With an average of 1.
    fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }
}

/// The average clock of known residencies: what the published counters and clocks have in common.
pub fn clock_of(residency: [f64; LEVELS], mhz: [f64; LEVELS]) -> f64 {
    residency.iter().zip(mhz).map(|(share, mhz)| share * mhz).sum::<f64>()
        / residency.iter().sum::<f64>()
}

#[cfg(test)]
mod tests;
