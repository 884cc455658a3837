//! The time-stamp counter as a clock: its rate, and whether it can be trusted.

use std::time::Duration;

use nix::time::ClockId;
use thiserror::Error;

use crate::chain::time_stamp;

/// A time-stamp counter whose rate is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeStamps {
    /// Ticks per second.
    pub hz: f64,
    /// The counter advances in steps of so many ticks.
    pub step: u64,
    /// When it was calibrated.
    begun: Look,
}

/// Why the time-stamp counter cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum TimeStampFault {
    /// It does not advance, or runs backwards.
    #[error("the time-stamp counter is frozen; ask the hypervisor for an invariant one")]
    Frozen,
    /// Its rate changed while it was looked at.
    #[error(
        "the time-stamp counter is unstable: {low_mhz:.1} to {high_mhz:.1} MHz within some \
         milliseconds; on this machine only a bare-metal kernel can meter the clock"
    )]
    Unstable {
        /// Lowest rate seen, in MHz.
        low_mhz: f64,
        /// Highest.
        high_mhz: f64,
    },
    /// Its rate is no longer the one that it was calibrated with.
    #[error(
        "the time-stamp counter ran at {before_mhz:.1} MHz and then at {after_mhz:.1}: the \
         hypervisor has moved this machine or stopped it; what was metered meanwhile is worth \
         nothing, meter again"
    )]
    Changed {
        /// As calibrated, in MHz.
        before_mhz: f64,
        /// Since then, in MHz.
        after_mhz: f64,
    },
    /// CPU or hypervisor say another rate.
    #[error(
        "the time-stamp counter runs at {measured_mhz:.1} MHz, though CPU or hypervisor say \
         {declared_mhz:.1}; one of the two clocks is wrong, so no frequency would be right"
    )]
    Disagrees {
        /// As measured, in MHz.
        measured_mhz: f64,
        /// As declared, in MHz.
        declared_mhz: f64,
    },
}

/// One simultaneous look at both clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Look {
    ns: f64,
    ticks: f64,
}

/// How long one part of the calibration lasts.
const PART_NS: f64 = 4e6;

/// Parts whose rates must agree.
const PARTS: usize = 4;

/// How far the rates of the parts, and the declared rate, may lie apart.
const TOLERANCE: f64 = 0.002;

impl TimeStamps {
    /// Measures the rate against the raw monotonic clock, in some 16 ms; `declared_khz` is what CPU
    /// or hypervisor say of it.
    ///
    /// # Errors
    ///
    /// See [`TimeStampFault`].
    pub fn calibrate(declared_khz: Option<u64>) -> Result<Self, TimeStampFault> {
        let looks = looks();
        let hz = rate(&looks, declared_khz)?;
        let step = step(&(0..64).map(|_| time_stamp()).collect::<Vec<_>>());
        Ok(TimeStamps { hz, step, begun: looks[0] })
    }

    /// Measures the rate once more, and over all the time since.
    ///
    /// # Errors
    ///
    /// [`TimeStampFault::Changed`], or what [`calibrate`](Self::calibrate) may find.
    pub fn confirm(&self) -> Result<(), TimeStampFault> {
        let looks = looks();
        let now = rate(&looks, None)?;
        let since = rate(&[self.begun, looks[0]], None)?;
        self.same_rate(now).and(self.same_rate(since))
    }

    fn same_rate(&self, hz: f64) -> Result<(), TimeStampFault> {
        if (hz / self.hz - 1.0).abs() > TOLERANCE {
            let (before_mhz, after_mhz) = (self.hz / 1e6, hz / 1e6);
            return Err(TimeStampFault::Changed { before_mhz, after_mhz });
        }
        Ok(())
    }

    /// Ticks as microseconds.
    pub fn us(&self, ticks: u64) -> f64 {
        ticks as f64 / self.hz * 1e6
    }

    /// Microseconds as ticks.
    pub fn ticks(&self, us: f64) -> u64 {
        (us * self.hz / 1e6) as u64
    }
}

/// Nanoseconds of the monotonic clock that nobody slews: while NTP catches up, the other one may
/// run by 8 % too fast or too slow.
pub(crate) fn raw_ns() -> u64 {
    let now = ClockId::CLOCK_MONOTONIC_RAW.now();
    now.map_or(0, |now| Duration::from(now).as_nanos() as u64)
}

/// Whether fewer than `ticks` have passed since the counter stood at `begin`. Where it has gone
/// back, as in a machine that was suspended, they have.
pub fn is_within(begin: u64, ticks: u64) -> bool {
    time_stamp().wrapping_sub(begin) < ticks
}

/// Looks that are some milliseconds apart.
fn looks() -> Vec<Look> {
    let mut looks = vec![look()];
    while looks.len() <= PARTS {
        let until = looks[looks.len() - 1].ns + PART_NS;
        while (raw_ns() as f64) < until {
            std::hint::spin_loop();
        }
        looks.push(look());
    }
    looks
}

/// Both clocks at the same time: of several looks the shortest, so that an interruption between the
/// two clocks is not taken.
fn look() -> Look {
    let one = || {
        let before = raw_ns();
        let ticks = time_stamp();
        let after = raw_ns();
        (after - before, Look { ns: (before + after) as f64 / 2.0, ticks: ticks as f64 })
    };
    let looks = (0..16).map(|_| one());
    looks.min_by_key(|(width, _)| *width).map(|(_, look)| look).unwrap_or_else(|| one().1)
}

/// The rate that several looks agree on.
fn rate(looks: &[Look], declared_khz: Option<u64>) -> Result<f64, TimeStampFault> {
    let rates = looks
        .windows(2)
        .map(|pair| (pair[1].ticks - pair[0].ticks) / (pair[1].ns - pair[0].ns).max(1.0) * 1e9);
    let (low, high) =
        rates.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
    if low <= 0.0 || !low.is_finite() {
        return Err(TimeStampFault::Frozen);
    }
    if high / low > 1.0 + TOLERANCE {
        let (low_mhz, high_mhz) = (low / 1e6, high / 1e6);
        return Err(TimeStampFault::Unstable { low_mhz, high_mhz });
    }
    let (first, last) = (looks[0], looks[looks.len() - 1]);
    let hz = (last.ticks - first.ticks) / (last.ns - first.ns) * 1e9;
    let declared = declared_khz.map(|khz| khz as f64 * 1e3);
    match declared {
        Some(declared) if (hz / declared - 1.0).abs() > TOLERANCE => {
            let (measured_mhz, declared_mhz) = (hz / 1e6, declared / 1e6);
            Err(TimeStampFault::Disagrees { measured_mhz, declared_mhz })
        }
        _ => Ok(hz),
    }
}

/// The greatest common divisor of the differences.
fn step(ticks: &[u64]) -> u64 {
    let divisor = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    ticks.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).fold(0, divisor).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(rates_mhz: &[f64]) -> Vec<Look> {
        let mut looks = vec![Look { ns: 1e3, ticks: 5e6 }];
        for rate in rates_mhz {
            let last = looks[looks.len() - 1];
            looks.push(Look { ns: last.ns + 4e6, ticks: last.ticks + 4e3 * rate });
        }
        looks
    }

    #[test]
    fn a_steady_counter_has_its_rate() {
        let hz = rate(&looks(&[2600.0, 2600.1, 2599.9]), Some(2_600_000)).unwrap();
        assert!((hz / 2.6e9 - 1.0).abs() < 1e-6, "{hz}");
    }

    #[test]
    fn a_machine_that_was_moved_is_found_out() {
        let stamps = TimeStamps::calibrate(None).unwrap();
        assert_eq!(stamps.confirm(), Ok(()));
        // As if the counter of the other host were ahead, or had another rate.
        let begun = Look { ticks: stamps.begun.ticks - 1e12, ..stamps.begun };
        let error = TimeStamps { begun, ..stamps }.confirm().unwrap_err();
        assert!(matches!(error, TimeStampFault::Changed { .. }), "{error}");
        let error = TimeStamps { hz: 1.1 * stamps.hz, ..stamps }.confirm().unwrap_err();
        assert!(error.to_string().contains("hypervisor"), "{error}");
    }

    #[test]
    fn a_counter_that_cannot_be_trusted_is_named() {
        assert_eq!(rate(&looks(&[0.0, 0.0]), None), Err(TimeStampFault::Frozen));
        assert_eq!(rate(&looks(&[2600.0, -3.0]), None), Err(TimeStampFault::Frozen));
        let unstable = rate(&looks(&[2600.0, 3100.0]), None).unwrap_err();
        assert!(unstable.to_string().contains("2600.0 to 3100.0 MHz"), "{unstable}");
        let other = rate(&looks(&[2600.0, 2600.0]), Some(2_000_000)).unwrap_err();
        assert!(other.to_string().contains("say 2000.0"), "{other}");
    }

    #[test]
    fn the_step_divides_every_difference() {
        assert_eq!(step(&[1000, 1026, 1078, 1208]), 26);
        assert_eq!(step(&[1000, 1027, 1078]), 3);
        assert_eq!(step(&[7]), 1);
    }

    #[test]
    fn no_wait_outlasts_a_counter_that_went_back() {
        let now = time_stamp();
        assert!(is_within(now, u64::MAX / 2) && !is_within(now - 1000, 1000));
        assert!(!is_within(now + u64::MAX / 4, 1_000_000));
    }

    #[test]
    fn this_machine_has_a_counter_that_advances() {
        let before = time_stamp();
        let stamps = TimeStamps::calibrate(None).unwrap();
        assert!(time_stamp() > before && stamps.hz > 1e8 && stamps.step >= 1, "{stamps:?}");
        assert!(stamps.us(stamps.ticks(1000.0)) > 999.0);
    }
}
