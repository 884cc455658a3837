//! Until when a process is switched off: what the word in its counters means now.

use std::fmt;
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use widelane_bridge::counters::OFF_FOR_GOOD as FOR_GOOD;

use crate::units;

/// How a process is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    /// Until somebody switches it on.
    ForGood,
    /// For a time.
    ForTime {
        /// How much of it is left.
        left: Duration,
        /// When it ends.
        end: SystemTime,
    },
}

impl Off {
    /// The word that switches a process off from now on, for good or for a time.
    pub fn word(time: Option<Duration>) -> u64 {
        time.map_or(FOR_GOOD, |time| nanoseconds(now().saturating_add(time)).min(FOR_GOOD - 1))
    }

    /// What a word means now; none if the process is not switched off.
    pub fn of(word: u64) -> Option<Self> {
        if word == FOR_GOOD {
            return Some(Off::ForGood);
        }
        let left = Duration::from_nanos(word).checked_sub(now()).filter(|left| !left.is_zero())?;
        Some(Off::ForTime { left, end: SystemTime::now() + left })
    }

    /// The one of `all` that lasts longest; none of none.
    pub fn longest(all: &[Off]) -> Option<Self> {
        let left = |off: &Off| match off {
            Off::ForGood => Duration::MAX,
            Off::ForTime { left, .. } => *left,
        };
        all.iter().copied().max_by_key(left)
    }

    /// The Unix time in seconds at which it ends by itself; none if it does not.
    pub fn end_s(self) -> Option<f64> {
        match self {
            Off::ForGood => None,
            Off::ForTime { end, .. } => {
                let since = end.duration_since(SystemTime::UNIX_EPOCH).ok()?;
                Some((since.as_secs_f64() * 1e3).round() / 1e3)
            }
        }
    }
}

impl fmt::Display for Off {
    /// How long still: ` for 9 s more`, or nothing.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Off::ForGood => Ok(()),
            Off::ForTime { left, .. } => write!(formatter, " for {} more", units::words(*left)),
        }
    }
}

/// What `CLOCK_MONOTONIC` shows, by which processes go.
fn now() -> Duration {
    clock_gettime(ClockId::Monotonic).try_into().unwrap_or_default()
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(FOR_GOOD)
}

#[cfg(test)]
mod tests {
    use widelane_bridge::counters::ON;

    use super::*;

    #[test]
    fn a_word_is_a_time_until_it_has_passed() {
        assert_eq!((Off::of(ON), Off::of(1), Off::of(nanoseconds(now()))), (None, None, None));
        assert_eq!(Off::of(Off::word(None)), Some(Off::ForGood));
        let Some(Off::ForTime { left, end }) = Off::of(Off::word(Some(Duration::from_secs(60))))
        else {
            panic!("it is off for a minute")
        };
        let until = end.duration_since(SystemTime::now()).unwrap();
        for left in [left, until] {
            assert!((59.0..=60.0).contains(&left.as_secs_f64()), "{left:?}");
        }
        // Whoever may write a file may write any word.
        assert!(Off::of(FOR_GOOD - 1).is_some());
        assert_eq!(Off::word(Some(Duration::MAX)), FOR_GOOD - 1);
    }
}
