//! How long to measure, and in which parts.

use std::time::Duration;

use crate::units;

/// Pairs of slices of time, one off and one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How long the server is off, or on, at a stretch.
    pub slice: Duration,
    /// How long of that is not measured: connections that began before go on as they began.
    pub unmeasured: Duration,
    /// How many pairs there are.
    pub pairs: usize,
}

/// CPU time is told in steps of 10 ms.
const SLICE_MIN: Duration = Duration::from_secs(1);

/// The fewest pairs that are measured at all.
const PAIRS_MIN: usize = 2;

/// The fewest pairs of which a ratio has a 95 % interval
/// ([`widelane_meter::estimate::median_with_interval`]).
pub const PAIRS_FOR_INTERVAL: usize = 6;

/// The longest time that is not measured.
const UNMEASURED_MAX: Duration = Duration::from_secs(1);

impl Plan {
    /// As many pairs of slices as the time holds; says what is wrong where there are too few.
    pub fn new(time: Duration, slice: Duration) -> Result<Self, String> {
        if slice < SLICE_MIN {
            return Err("--slice is 1s at least, as CPU time is told in steps of 10 ms".to_owned());
        }
        let pairs = (time.as_nanos() / (2 * slice).as_nanos()) as usize;
        if pairs < PAIRS_MIN {
            return Err(format!(
                "--for is four slices at least, {} here, and {} gives an answer; or give a shorter \
                 --slice",
                units::words(4 * slice),
                units::words(2 * PAIRS_FOR_INTERVAL as u32 * slice),
            ));
        }
        Ok(Plan { slice, unmeasured: UNMEASURED_MAX.min(slice / 5), pairs })
    }

    /// The time in which all is measured.
    pub fn time(&self) -> Duration {
        2 * self.pairs as u32 * self.slice
    }

    /// The time after which a process that is switched off is on again by itself: a little more
    /// than a slice.
    pub fn deadline(&self) -> Duration {
        self.slice + Duration::from_secs(1) + self.slice / 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_divided_into_pairs_of_slices() {
        let plan = |time, slice| Plan::new(Duration::from_secs(time), Duration::from_secs(slice));
        let usual = plan(300, 10).unwrap();
        assert_eq!((usual.pairs, usual.unmeasured.as_millis()), (15, 1000));
        assert_eq!((usual.time().as_secs(), usual.deadline().as_secs()), (300, 12));
        let short = plan(9, 2).unwrap();
        assert_eq!((short.pairs, short.unmeasured.as_millis()), (2, 400));
        let error = plan(39, 10).unwrap_err();
        assert!(error.contains("40 s here, and 2 min gives an answer"), "{error}");
        let error = Plan::new(Duration::from_secs(60), Duration::from_millis(999)).unwrap_err();
        assert!(error.contains("--slice is 1s at least"), "{error}");
    }
}
