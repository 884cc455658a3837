//! The table of CPUs: limits with their sources, as data.

use serde::{Deserialize, Serialize};

use super::{Core, LEVELS, ModelError};

/// CPUs and generations.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The CPUs.
    #[serde(rename = "cpu", default)]
    pub cpus: Vec<Cpu>,
    /// How their generations change licences.
    #[serde(rename = "generation", default)]
    pub generations: Vec<Generation>,
}

/// A CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Its name.
    pub name: String,
    /// The generation it belongs to.
    pub generation: String,
    /// Cores of a package.
    pub cores: u32,
    /// Its limits, as far as they are published.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// What is guaranteed at the rated power when all cores do nothing else, as far as published.
    #[serde(default)]
    pub bases: Vec<Limit>,
}

/// A turbo limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Licence level, 0 to 2.
    pub licence: usize,
    /// It holds up to so many active cores.
    pub cores: u32,
    /// The limit.
    pub mhz: f64,
    /// Where it was published.
    pub source: String,
}

/// How a generation changes licences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generation {
    /// Its name.
    pub name: String,
    /// Halt at a rise, in microseconds.
    pub halt_us: Option<f64>,
    /// Time at a reduced pace at a rise, in microseconds.
    pub grant_us: Option<f64>,
    /// Time for which a level outlives its last use, in microseconds.
    pub hold_us: Option<f64>,
    /// Largest fall of the clock by level, in MHz, for CPUs without limits of their own.
    pub falls: Option<[f64; LEVELS]>,
    /// Where that was published.
    pub source: String,
}

const SHIPPED: &str = include_str!("../../data/cpus.toml");

impl Table {
    /// The table that comes with Widelane.
    ///
    /// # Errors
    ///
    /// Never: a test reads it.
    pub fn shipped() -> Result<Self, ModelError> {
        Table::parse(SHIPPED)
    }

    /// Reads a table; generations that it lacks are those of the shipped one.
    ///
    /// # Errors
    ///
    /// Where it is malformed.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let read = |text| toml::from_str(text).map_err(|e| ModelError::Table(format!("{e}")));
        let mut table: Table = read(text)?;
        let shipped: Table = read(SHIPPED)?;
        for generation in shipped.generations {
            if !table.generations.iter().any(|known| known.name == generation.name) {
                table.generations.push(generation);
            }
        }
        let mut limits = table.cpus.iter().flat_map(|cpu| cpu.limits.iter().chain(&cpu.bases));
        if let Some(limit) = limits.find(|limit| limit.licence >= LEVELS || !is_sound(limit.mhz)) {
            return Err(ModelError::Table(match limit.licence >= LEVELS {
                true => format!("there is no licence level {}", limit.licence),
                false => format!("no CPU has a limit of {} MHz", limit.mhz),
            }));
        }
        let times = |generation: &Generation| {
            [generation.halt_us, generation.grant_us, generation.hold_us].into_iter().flatten()
        };
        if let Some(us) = table.generations.iter().flat_map(times).find(|us| !is_sound(*us)) {
            return Err(ModelError::Table(format!("no change of licences takes {us} µs")));
        }
        Ok(table)
    }

    /// The core of a CPU with so many cores active, for code that asks for level 0 and for `level`;
    /// `ambient_mhz` stands for the limit at level 0, above which no other level is.
    ///
    /// # Errors
    ///
    /// Where the table lacks what it takes.
    pub fn core(
        &self,
        name: &str,
        cores: u32,
        level: usize,
        ambient_mhz: Option<f64>,
    ) -> Result<Core, ModelError> {
        let cpu = self.cpus.iter().find(|cpu| cpu.name == name);
        let cpu = cpu.ok_or_else(|| {
            let known: Vec<&str> = self.cpus.iter().map(|cpu| cpu.name.as_str()).collect();
            ModelError::UnknownCpu { name: name.to_owned(), known: known.join(", ") }
        })?;
        if cores > cpu.cores {
            let cpu_name = name.to_owned();
            return Err(ModelError::TooManyCores { cpu: cpu_name, has: cpu.cores, cores });
        }
        let no_transitions = || ModelError::NoTransitions { cpu: name.to_owned() };
        let generation = self.generations.iter().find(|g| g.name == cpu.generation);
        let generation = generation.ok_or_else(no_transitions)?;
        let mut mhz = [0.0; LEVELS];
        for (licence, mhz) in mhz.iter_mut().enumerate().filter(|(n, _)| [0, level].contains(n)) {
            let ambient = ambient_mhz.or_else(|| cpu.limit(0, cores));
            let by_fall = || Some(ambient? - generation.falls?[licence]);
            let own = if licence == 0 { ambient } else { cpu.limit(licence, cores) };
            let limit = own.or_else(by_fall).filter(|mhz| *mhz > 0.0 && is_sound(*mhz));
            let limit = limit
                .ok_or_else(|| ModelError::NoLimit { cpu: name.to_owned(), level: licence })?;
            *mhz = limit.min(ambient.unwrap_or(limit));
        }
        Ok(Core {
            mhz,
            halt_us: generation.halt_us.ok_or_else(no_transitions)?,
            grant_us: generation.grant_us.ok_or_else(no_transitions)?,
            hold_us: generation.hold_us.ok_or_else(no_transitions)?,
            base_mhz: cpu.bases.iter().find(|base| base.licence == level).map(|base| base.mhz),
        })
    }
}

/// Whether a clock in MHz or a time in microseconds can be one.
fn is_sound(figure: f64) -> bool {
    (0.0..=1e6).contains(&figure)
}

impl Cpu {
    /// The limit at a level with so many cores active: that of the next larger count published.
    pub fn limit(&self, licence: usize, cores: u32) -> Option<f64> {
        let limits = self.limits.iter();
        let fitting = limits.filter(|limit| limit.licence == licence && limit.cores >= cores);
        fitting.min_by_key(|limit| limit.cores).map(|limit| limit.mhz)
    }
}
