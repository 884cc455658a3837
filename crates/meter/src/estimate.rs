//! The estimator: from windows to a clock, or to a refusal. Pure.

use serde::Serialize;
use thiserror::Error;

use crate::trace::Window;

/// A core clock, from many windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The clock: all accepted cycles over all accepted time.
    pub hz: f64,
    /// Lower end of its 95 % interval.
    pub low_hz: f64,
    /// Upper end.
    pub high_hz: f64,
    /// Windows that count.
    pub accepted: usize,
    /// Windows that were interrupted, or as if.
    pub rejected: usize,
    /// Times that the thread was away between two windows.
    pub gaps: usize,
}

/// Why there is no clock in the windows.
#[derive(Clone, Debug, PartialEq, Error, Serialize)]
#[non_exhaustive]
pub enum Refusal {
    /// Too few windows were undisturbed.
    #[error(
        "only {accepted} of {taken} windows were undisturbed; the machine is too busy, or its \
         hypervisor takes the CPU away: try again, or pin to a quieter CPU"
    )]
    TooFewWindows {
        /// Windows that could be used.
        accepted: usize,
        /// Windows taken.
        taken: usize,
    },
    /// The time-stamp counter went backwards or stood still.
    #[error(
        "the time-stamp counter stood still or ran backwards in {broken} of {taken} windows; \
         nothing can be timed with it"
    )]
    BrokenTimeStamps {
        /// Windows without duration.
        broken: usize,
        /// Windows taken.
        taken: usize,
    },
}

/// Fewest windows that make an estimate.
pub const WINDOWS_MIN: usize = 8;

/// A window this much longer than its neighbours was interrupted: clocks change by less between two
/// windows, or stay changed.
pub(crate) const INTERRUPTED: f64 = 1.12;

/// How many windows on either side are a window's neighbours.
const NEIGHBOURS: usize = 6;

/// A pause between windows this much longer than usual is a gap.
const GAP: f64 = 8.0;

/// Estimates the clock from windows of `cycles` each, timed by a counter of `tsc_hz`.
///
/// A window is compared with its neighbours only, so a trace may change its clock; what is rejected
/// are single windows that are longer than those around them. The counter of some CPUs advances in
/// steps of tens of ticks, so times are averaged, not ranked: the steps cancel.
///
/// # Errors
///
/// See [`Refusal`].
pub fn estimate(windows: &[Window], cycles: f64, tsc_hz: f64) -> Result<Estimate, Refusal> {
    let taken = windows.len();
    let broken = windows.iter().filter(|window| window.end <= window.begin).count();
    if broken > 0 {
        return Err(Refusal::BrokenTimeStamps { broken, taken });
    }
    let undisturbed = undisturbed(windows);
    let ticks: Vec<f64> = undisturbed.iter().map(|window| window.ticks() as f64).collect();
    let accepted = ticks.len();
    if accepted < WINDOWS_MIN || accepted * 2 < taken {
        return Err(Refusal::TooFewWindows { accepted, taken });
    }
    let mean = mean(&ticks);
    let variance =
        ticks.iter().map(|ticks| (ticks - mean).powi(2)).sum::<f64>() / (accepted - 1) as f64;
    let margin = student((accepted - 1) as f64) * (variance / accepted as f64).sqrt();
    let hz = |ticks: f64| cycles * tsc_hz / ticks;
    Ok(Estimate {
        hz: hz(mean),
        low_hz: hz(mean + margin),
        high_hz: hz(mean - margin),
        accepted,
        rejected: taken - accepted,
        gaps: gaps(windows),
    })
}

/// Standard errors on either side of a mean that make its 95 % interval: Student's t by its
/// expansion around the normal distribution, within 0.01 from seven degrees of freedom on.
fn student(freedom: f64) -> f64 {
    1.96 + 2.372 / freedom + 2.823 / freedom.powi(2)
}

/// The windows that were not interrupted, judged by their neighbours.
fn undisturbed(windows: &[Window]) -> Vec<Window> {
    let ticks: Vec<f64> = windows.iter().map(|window| window.ticks() as f64).collect();
    let left_alone = |index: usize| {
        let from = index.saturating_sub(NEIGHBOURS);
        let to = (index + NEIGHBOURS + 1).min(ticks.len());
        median(&ticks[from..to]).is_some_and(|usual| ticks[index] <= usual * INTERRUPTED)
    };
    (0..windows.len()).filter(|&index| left_alone(index)).map(|index| windows[index]).collect()
}

/// How often the thread was away between two windows.
fn gaps(windows: &[Window]) -> usize {
    let pauses: Vec<f64> =
        windows.windows(2).map(|pair| pair[1].begin.saturating_sub(pair[0].end) as f64).collect();
    let Some(usual) = median(&pauses) else { return 0 };
    let shortest = windows.iter().map(|window| window.ticks() as f64).fold(f64::INFINITY, f64::min);
    pauses.iter().filter(|pause| **pause > GAP * usual && **pause > shortest).count()
}

/// The average, or zero of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The median, or nothing of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value below which a `share` of the values lies, or nothing of nothing.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    Some(below + (above - below) * position.fract())
}

/// Share of the intervals of a median that may miss it.
const MISSES: f64 = 0.05;

/// The median with the 95 % interval that its order statistics give, or nothing of fewer than six
/// values.
pub fn median_with_interval(values: &[f64]) -> Option<(f64, f64, f64)> {
    let outside = outside(values.len())?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some((median(&sorted)?, sorted[outside], sorted[sorted.len() - 1 - outside]))
}

/// How many of `count` sorted values lie outside of the interval of their median on each side; none
/// can say where even the least and the greatest value miss it too often.
///
/// The true median lies below the value of rank `k` only if fewer than `k` of `count` fair coins
/// show heads; each side may miss half of what may be missed.
fn outside(count: usize) -> Option<usize> {
    // In logarithms, since half to the power of a thousand is nothing in a float.
    let mut share_ln = -(count as f64) * std::f64::consts::LN_2;
    let mut missed = share_ln.exp();
    let mut outside = 0_usize;
    while missed <= MISSES / 2.0 {
        outside += 1;
        share_ln += ((count + 1 - outside) as f64 / outside as f64).ln();
        missed += share_ln.exp();
    }
    outside.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TSC_HZ: f64 = 2.6e9;
    const CYCLES: f64 = 3048.0;

    /// Windows of `count` at a clock, whose ends fall on steps of the counter.
    fn windows(clock_hz: f64, count: usize, step: u64, start: u64) -> Vec<Window> {
        let ticks = CYCLES / clock_hz * TSC_HZ;
        let on_step = |at: f64| at as u64 / step * step;
        (0..count)
            .map(|index| {
                let begin = start as f64 + index as f64 * (ticks + 107.3);
                Window { begin: on_step(begin), end: on_step(begin + ticks) }
            })
            .collect()
    }

    #[test]
    fn steps_of_the_counter_cancel() {
        for clock_hz in [2.0e9, 2.6e9, 3.785e9] {
            let estimate = estimate(&windows(clock_hz, 400, 26, 5), CYCLES, TSC_HZ).unwrap();
            assert!((estimate.hz / clock_hz - 1.0).abs() < 0.002, "{estimate:?}");
            assert!(estimate.low_hz <= estimate.hz && estimate.hz <= estimate.high_hz);
            assert_eq!((estimate.rejected, estimate.gaps), (0, 0));
        }
    }

    #[test]
    fn interrupted_windows_do_not_count() {
        let mut windows = windows(3.0e9, 200, 1, 0);
        for index in (0..200).step_by(7) {
            windows[index].end += 5200;
        }
        let estimate = estimate(&windows, CYCLES, TSC_HZ).unwrap();
        assert!((estimate.hz / 3.0e9 - 1.0).abs() < 0.001, "{estimate:?}");
        assert_eq!(estimate.rejected, 29);
    }

    #[test]
    fn a_change_of_clock_is_no_interruption() {
        let mut trace = windows(3.0e9, 100, 1, 0);
        let start = trace.last().unwrap().end;
        trace.extend(windows(2.0e9, 100, 1, start));
        let kept = undisturbed(&trace);
        assert!(kept.len() >= 194, "{}", kept.len());
        assert!(kept.iter().filter(|window| window.ticks() > 3900).count() >= 94);
    }

    #[test]
    fn absences_are_counted() {
        let mut trace = windows(3.0e9, 50, 1, 0);
        let start = trace.last().unwrap().end + 10_000_000;
        trace.extend(windows(3.0e9, 50, 1, start));
        let estimate = estimate(&trace, CYCLES, TSC_HZ).unwrap();
        assert_eq!((estimate.gaps, estimate.rejected), (1, 0));
    }

    #[test]
    fn too_few_windows_are_refused() {
        let refusal = estimate(&windows(3.0e9, 7, 1, 0), CYCLES, TSC_HZ).unwrap_err();
        assert_eq!(refusal, Refusal::TooFewWindows { accepted: 7, taken: 7 });
        assert!(refusal.to_string().contains("too busy"));
        assert!(estimate(&[], CYCLES, TSC_HZ).is_err());
    }

    #[test]
    fn a_frozen_counter_is_refused() {
        let frozen = vec![Window { begin: 77, end: 77 }; 20];
        let refusal = estimate(&frozen, CYCLES, TSC_HZ).unwrap_err();
        assert_eq!(refusal, Refusal::BrokenTimeStamps { broken: 20, taken: 20 });
    }

    #[test]
    fn quantiles_lie_between_the_values() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&values), Some(2.5));
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&values, 1.0), Some(4.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_interval_of_a_median_holds_it() {
        let values: Vec<f64> = (0..15).map(f64::from).collect();
        let (middle, low, high) = median_with_interval(&values).unwrap();
        assert_eq!((middle, low, high), (7.0, 3.0, 11.0));
        assert_eq!(median_with_interval(&values[..5]), None);
        assert_eq!(median_with_interval(&values[..6]), Some((2.5, 0.0, 5.0)));
        // Of eight, the inner six would miss the median 7 times in 100.
        assert_eq!(median_with_interval(&values[..8]), Some((3.5, 0.0, 7.0)));
    }

    #[test]
    fn few_windows_have_a_wider_interval() {
        for (freedom, table) in [(7.0, 2.365), (12.0, 2.179), (30.0, 2.042), (1e6, 1.960)] {
            assert!((student(freedom) - table).abs() < 0.01, "{freedom}: {}", student(freedom));
        }
        let ticks = [1000, 1010, 990, 1005, 995, 1008, 992, 1000];
        let windows = ticks.map(|ticks| Window { begin: 10, end: 10 + ticks });
        let found = estimate(&windows, 1000.0, 1e9).unwrap();
        let deviation = (378.0_f64 / 7.0 / 8.0).sqrt();
        let expected = 1e12 / (1000.0 + 2.365 * deviation);
        assert!((found.low_hz / expected - 1.0).abs() < 1e-4, "{found:?}");
    }

    #[test]
    fn interval_leaves_out_as_many_as_the_tables_of_the_sign_test_say() {
        let table = [(6, 0), (8, 0), (9, 1), (10, 1), (12, 2), (15, 3), (20, 5)];
        for (count, expected) in table {
            assert_eq!(outside(count), Some(expected), "{count}");
        }
        assert_eq!(outside(100), Some(39));
        assert_eq!(outside(1000), Some(468));
        assert_eq!(outside(5000), Some(2430));
        for count in 0..6 {
            assert_eq!(outside(count), None, "{count}");
        }
    }
}
