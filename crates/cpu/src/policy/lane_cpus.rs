//! CPUs that are set aside for batches.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::topology;

/// CPUs set aside for a service's lane process, which executes the batches of all its workers;
/// none where every worker executes its own. docs/design/lane-cpus.md has the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneCpus(Vec<usize>);

/// What is no list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lane CPUs are a list such as 3 or 2,4-7, or none, not {0:?}")]
pub struct UnknownLaneCpus(pub String);

/// Lane CPUs that are not there to be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no CPU {missing} to set aside; the CPUs to choose from are {present}")]
pub struct MissingLaneCpu {
    /// The first CPU that is not there.
    pub missing: usize,
    /// The CPUs that there are to choose from.
    pub present: LaneCpus,
}

/// The word for setting no CPU aside.
const NONE: &str = "none";

impl LaneCpus {
    /// The CPUs of these numbers, which may come in any order and more than once; no number sets no
    /// CPU aside.
    pub fn new(cpus: impl IntoIterator<Item = usize>) -> Self {
        let mut cpus: Vec<usize> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        LaneCpus(cpus)
    }

    /// The numbers of the CPUs set aside, in ascending order.
    pub fn cpus(&self) -> &[usize] {
        &self.0
    }

    /// Whether no CPU is set aside.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes sure that all CPUs set aside are among those that are `present`.
    ///
    /// # Errors
    ///
    /// [`MissingLaneCpu`], which says what there is.
    pub fn check(&self, present: &LaneCpus) -> Result<(), MissingLaneCpu> {
        match self.0.iter().find(|cpu| !present.0.contains(cpu)) {
            Some(missing) => Err(MissingLaneCpu { missing: *missing, present: present.clone() }),
            None => Ok(()),
        }
    }

    /// The CPUs that are online, for services, which have a choice of their own; nothing where the
    /// system does not say.
    pub fn online() -> Option<Self> {
        topology::online(Path::new(topology::ROOT)).map(LaneCpus::new)
    }

    /// The CPUs for what this process starts; nothing where the system does not say.
    pub fn usable_here() -> Option<Self> {
        topology::usable().map(LaneCpus::new)
    }
}

impl FromStr for LaneCpus {
    type Err = UnknownLaneCpus;

    fn from_str(text: &str) -> Result<Self, UnknownLaneCpus> {
        if text == NONE {
            return Ok(LaneCpus(Vec::new()));
        }
        let cpus = topology::cpu_list(text).ok_or_else(|| UnknownLaneCpus(text.to_owned()))?;
        Ok(LaneCpus::new(cpus))
    }
}

impl fmt::Display for LaneCpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return formatter.write_str(NONE);
        }
        let runs = self.0.chunk_by(|one, next| one + 1 == *next);
        let run = |run: &[usize]| match run {
            [first, .., last] => format!("{first}-{last}"),
            _ => run[0].to_string(),
        };
        formatter.write_str(&runs.map(run).collect::<Vec<_>>().join(","))
    }
}

impl Serialize for LaneCpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        for (text, cpus, written) in [
            ("3", &[3][..], "3"),
            ("0,2", &[0, 2], "0,2"),
            ("4-6,1", &[1, 4, 5, 6], "1,4-6"),
            ("1, 0 ,1-2", &[0, 1, 2], "0-2"),
            ("7-7", &[7], "7"),
            ("none", &[], "none"),
        ] {
            let list: LaneCpus = text.parse().unwrap();
            assert_eq!((list.cpus(), list.to_string().as_str()), (cpus, written), "{text}");
            assert_eq!(list.to_string().parse(), Ok(list));
        }
    }

    #[test]
    fn what_is_no_list_is_told_what_one_is() {
        for text in ["", " ", ",", "1,", "-1", "3-1", "1-", "a", "+1", "0x1", "1;2", "8192", "all"]
        {
            let error = text.parse::<LaneCpus>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("or none, not {text:?}")), "{error}");
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let present = LaneCpus::new(0..4);
        assert_eq!(LaneCpus::new([1, 3]).check(&present), Ok(()));
        let error = LaneCpus::new([2, 9]).check(&present).unwrap_err().to_string();
        assert_eq!(error, "there is no CPU 9 to set aside; the CPUs to choose from are 0-3");
        for cpus in [LaneCpus::online(), LaneCpus::usable_here()] {
            assert!(cpus.is_some_and(|cpus| cpus.check(&cpus).is_ok()));
        }
    }
}
