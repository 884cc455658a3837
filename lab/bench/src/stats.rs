//! Robust statistics of interleaved rounds: medians, the ratio of two subjects and its interval.

use std::fmt;

use hdrhistogram::Histogram;
pub use widelane_meter::estimate::median;
use widelane_results::Bucket;

/// Share of the intervals that may miss the true ratio.
const MISSES: f64 = 0.05;

/// A ratio, with its 95 % interval where there were enough rounds for one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median of the rounds' ratios.
    pub value: f64,
    /// Lower and upper end of the interval.
    pub ends: Option<[f64; 2]>,
}

impl Ratio {
    /// Lower end of the interval.
    pub fn low(&self) -> Option<f64> {
        self.ends.map(|[low, _]| low)
    }

    /// Upper end of the interval.
    pub fn high(&self) -> Option<f64> {
        self.ends.map(|[_, high]| high)
    }

    /// Width of the interval as a share of the ratio.
    pub fn width(&self) -> Option<f64> {
        self.ends.map(|[low, high]| (high - low) / self.value)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ends {
            Some([low, high]) => write!(formatter, "{:.2} ({low:.2} to {high:.2})", self.value),
            None => write!(formatter, "{:.2} (too few rounds for an interval)", self.value),
        }
    }
}

/// The ratio of a subject to its rival over `rounds` of (subject, rival).
///
/// Each round gives one ratio, in which what both members shared (the clock of that second, above
/// all) cancels; the median of those is the result. Its interval lies between two of the sorted
/// ratios, such that at least 95 % of such intervals hold the true median, whatever the
/// distribution. There is no such interval of fewer than six rounds, and so the ratio of those has
/// no ends. `None` without rounds or where a rival is not positive.
pub fn ratio(rounds: &[(f64, f64)]) -> Option<Ratio> {
    if rounds.iter().any(|(_, rival)| *rival <= 0.0) {
        return None;
    }
    let mut ratios: Vec<f64> = rounds.iter().map(|(subject, rival)| subject / rival).collect();
    ratios.sort_by(f64::total_cmp);
    let value = median(&ratios)?;
    let ends = outside(ratios.len());
    let ends = ends.map(|outside| [ratios[outside], ratios[ratios.len() - 1 - outside]]);
    Some(Ratio { value, ends })
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

/// Latencies in buckets that grow by a fifth, from 50 µs.
pub fn latency_buckets(latency_ns: &Histogram<u64>) -> Vec<Bucket> {
    latency_ns
        .iter_log(50_000, 1.2)
        .map(|step| Bucket {
            upto: step.value_iterated_to() as f64 / 1e3,
            count: step.count_since_last_iteration(),
        })
        .filter(|bucket| bucket.count > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use widelane_results::ROUNDS_FOR_INTERVAL;

    use super::*;

    #[test]
    fn interval_leaves_out_as_many_as_the_tables_of_the_sign_test_say() {
        let table = [(6, 0), (8, 0), (9, 1), (10, 1), (12, 2), (15, 3), (20, 5)];
        for (count, expected) in table {
            assert_eq!(outside(count), Some(expected), "{count}");
        }
        assert_eq!(outside(100), Some(39));
        assert_eq!(outside(1000), Some(468));
        assert_eq!(outside(5000), Some(2430));
        for count in 0..ROUNDS_FOR_INTERVAL {
            assert_eq!(outside(count), None, "{count}");
        }
    }

    #[test]
    fn ratio_of_constant_rounds_has_no_width() {
        let ratio = ratio(&[(3.0, 6.0); 10]).unwrap();
        assert_eq!(ratio, Ratio { value: 0.5, ends: Some([0.5; 2]) });
        assert_eq!(ratio.width(), Some(0.0));
    }

    #[test]
    fn drift_common_to_both_cancels_and_outliers_do_not_count() {
        let drift = [1.0, 1.1, 0.9, 1.3, 1.0, 0.8, 1.2, 1.0, 1.1, 0.9];
        let mut rounds: Vec<_> = drift.iter().map(|drift| (0.6 * drift, *drift)).collect();
        rounds[4].0 = 50.0;
        let ratio = ratio(&rounds).unwrap();
        assert!((ratio.value - 0.6).abs() < 1e-9, "{ratio:?}");
        assert!(ratio.width().unwrap() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn interval_lies_between_ratios_that_were_measured() {
        let rounds: Vec<_> = (1..=20).map(|round| (f64::from(round), 10.0)).collect();
        let ratio = ratio(&rounds).unwrap();
        assert_eq!(ratio, Ratio { value: 1.05, ends: Some([0.6, 1.5]) });
    }

    #[test]
    fn few_rounds_give_no_interval() {
        // The median of what three rounds are drawn from lies outside of them one time in four.
        let rounds: Vec<(f64, f64)> = (1..=6).map(|round| (f64::from(round), 1.0)).collect();
        assert_eq!(ratio(&rounds[..3]), Some(Ratio { value: 2.0, ends: None }));
        assert_eq!(ratio(&rounds[..5]), Some(Ratio { value: 3.0, ends: None }));
        assert_eq!(ratio(&rounds), Some(Ratio { value: 3.5, ends: Some([1.0, 6.0]) }));
        assert_eq!(ratio(&rounds[..5]).unwrap().width(), None);
    }

    #[test]
    fn no_ratio_to_nothing() {
        assert_eq!(ratio(&[]), None);
        assert_eq!(ratio(&[(1.0, 2.0), (1.0, 0.0)]), None);
    }
}
