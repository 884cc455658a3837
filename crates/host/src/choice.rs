//! Which policy a process chose that compares policies while it runs, read from outside.

use std::mem::offset_of;

use widelane_bridge::counters::{ALTERNATIVES_MAX, AlternativeCounters, ChoiceCounters, Counters};
use widelane_cpu::Room;
use widelane_cpu::policy;
pub use widelane_cpu::policy::trial::{Cause, Verdict};

use crate::counters::Page;

/// What a process chose, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The policies that it chooses from, the widest first.
    pub alternatives: Vec<Alternative>,
    /// The place of that which holds now.
    pub current: usize,
    /// Whether they are being compared.
    pub is_comparing: bool,
    /// Why they are or were compared.
    pub cause: Cause,
    /// Why that was chosen which holds between comparisons.
    pub verdict: Verdict,
    /// Comparisons that have ended.
    pub comparisons: u64,
    /// How often another policy came to hold.
    pub switches: u64,
}

/// A policy that a process chooses from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// What it is called, by the widest registers that it allows: `512`, `512-light`, `256`, `128`.
    pub name: &'static str,
    /// Slices of time in which it held in the last comparison.
    pub slices: u64,
    /// What it cost there: thousandths of what the cheapest one did; 0 if nothing is known.
    pub relative_cost: u64,
    /// The core clock there in MHz; 0 if it is not known.
    pub clock_mhz: u64,
}

impl Choice {
    /// Reads the choice from the first page of a process's counters; none where the process has but
    /// one policy, or what stands there is no choice.
    pub(crate) fn parse(first: &Page<'_>) -> Option<Self> {
        let begin = offset_of!(Counters, choice);
        let number = |offset: usize| first.u32(begin + offset);
        let count = number(offset_of!(ChoiceCounters, alternatives)) as usize;
        let current = number(offset_of!(ChoiceCounters, current)) as usize;
        if count > ALTERNATIVES_MAX || current >= count {
            return None;
        }
        let cause = number(offset_of!(ChoiceCounters, cause));
        let verdict = number(offset_of!(ChoiceCounters, verdict));
        let each = begin + offset_of!(ChoiceCounters, each);
        let alternative =
            |place| Alternative::parse(first, each + place * size_of::<AlternativeCounters>());
        Some(Choice {
            alternatives: (0..count).map(alternative).collect(),
            current,
            is_comparing: number(offset_of!(ChoiceCounters, is_comparing)) == 1,
            cause: Cause::ALL.into_iter().find(|it| *it as u32 == cause)?,
            verdict: Verdict::ALL.into_iter().find(|it| *it as u32 == verdict)?,
            comparisons: number(offset_of!(ChoiceCounters, comparisons)).into(),
            switches: first.u64(begin + offset_of!(ChoiceCounters, switches)),
        })
    }

    /// The name of the policy that holds now.
    pub fn name(&self) -> &'static str {
        self.alternatives.get(self.current).map_or("", |alternative| alternative.name)
    }

    /// What is chosen and why, such as
    /// `256 costs least since the load changed: 512 1.07, 256 1.00`.
    pub fn words(&self) -> String {
        let why = match self.cause {
            Cause::Start => "the start",
            Cause::Load => "the load changed",
            Cause::Clock => "the clock changed",
            Cause::Time => "the last regular look",
        };
        if self.is_comparing {
            return format!("compares policies since {why}");
        }
        let found = match self.verdict {
            Verdict::None => "is not compared yet",
            Verdict::Cheapest => "costs least",
            Verdict::Alike => "costs no more than others",
            Verdict::Idle => "is kept: too little to do to compare",
        };
        let known = self.alternatives.iter().filter(|alternative| alternative.relative_cost > 0);
        let costs = known.map(Alternative::words).collect::<Vec<_>>().join(", ");
        let costs = if costs.is_empty() { costs } else { format!(": {costs}") };
        format!("{} {found} since {why}{costs}", self.name())
    }
}

impl Alternative {
    fn parse(first: &Page<'_>, begin: usize) -> Self {
        let number = |offset: usize| first.u32(begin + offset);
        let rooms = number(offset_of!(AlternativeCounters, rooms));
        let open = Room::ALL.into_iter().filter(|room| rooms & 1 << *room as u32 != 0);
        Alternative {
            name: policy::name_of(open),
            slices: number(offset_of!(AlternativeCounters, slices)).into(),
            relative_cost: number(offset_of!(AlternativeCounters, relative_cost)).into(),
            clock_mhz: number(offset_of!(AlternativeCounters, clock_mhz)).into(),
        }
    }

    fn words(&self) -> String {
        let clock = match self.clock_mhz {
            0 => String::new(),
            mhz => format!(" at {:.2} GHz", mhz as f64 / 1e3),
        };
        format!("{} {:.2}{clock}", self.name, self.relative_cost as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use widelane_bridge::counters::{COUNTERS_MAGIC, COUNTERS_VERSION};

    use super::*;
    use crate::counters::Counts;

    /// A counters file of a process that chooses, with other values at some places of its choice.
    fn file(others: &[(usize, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<Counters>()];
        let mut put = |offset: usize, value: &[u8]| {
            bytes[offset..offset + value.len()].copy_from_slice(value);
        };
        put(offset_of!(Counters, magic), &COUNTERS_MAGIC.to_ne_bytes());
        put(offset_of!(Counters, version), &COUNTERS_VERSION.to_ne_bytes());
        put(offset_of!(Counters, pages_used), &1u64.to_ne_bytes());
        let begin = offset_of!(Counters, choice);
        let each = offset_of!(ChoiceCounters, each);
        let second = each + size_of::<AlternativeCounters>();
        let rooms = |rooms: &[Room]| rooms.iter().fold(0, |mask, room| mask | 1 << *room as u32);
        let usual = [
            (offset_of!(ChoiceCounters, alternatives), 2),
            (offset_of!(ChoiceCounters, current), 1),
            (offset_of!(ChoiceCounters, cause), Cause::Load as u32),
            (offset_of!(ChoiceCounters, verdict), Verdict::Cheapest as u32),
            (offset_of!(ChoiceCounters, comparisons), 3),
            (each, rooms(&[Room::Portable, Room::Ifma256, Room::Ifma512])),
            (each + offset_of!(AlternativeCounters, relative_cost), 1_071),
            (each + offset_of!(AlternativeCounters, clock_mhz), 2_604),
            (second, rooms(&[Room::Portable, Room::Ifma256])),
            (second + offset_of!(AlternativeCounters, relative_cost), 1_000),
            (second + offset_of!(AlternativeCounters, clock_mhz), 3_200),
        ];
        for (offset, value) in usual.iter().chain(others) {
            put(begin + offset, &value.to_ne_bytes());
        }
        bytes
    }

    fn choice(others: &[(usize, u32)]) -> Option<Choice> {
        Counts::parse(&file(others)).expect("a counters file").choice
    }

    #[test]
    fn a_choice_says_what_and_why() {
        let choice = choice(&[]).unwrap();
        assert_eq!((choice.name(), choice.comparisons, choice.switches), ("256", 3, 0));
        assert_eq!(
            choice.words(),
            "256 costs least since the load changed: 512 1.07 at 2.60 GHz, 256 1.00 at 3.20 GHz"
        );
        let comparing = self::choice(&[(offset_of!(ChoiceCounters, is_comparing), 1)]).unwrap();
        assert_eq!(comparing.words(), "compares policies since the load changed");
    }

    #[test]
    fn what_makes_no_sense_is_no_choice() {
        for other in [
            (offset_of!(ChoiceCounters, alternatives), 0),
            (offset_of!(ChoiceCounters, alternatives), 5),
            (offset_of!(ChoiceCounters, current), 2),
            (offset_of!(ChoiceCounters, cause), 99),
            (offset_of!(ChoiceCounters, verdict), 99),
        ] {
            assert_eq!(choice(&[other]), None, "{other:?}");
        }
    }
}
