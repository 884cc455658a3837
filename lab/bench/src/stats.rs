//! Robust statistics of interleaved rounds: medians, the ratio of two subjects and its interval.

use std::fmt;

use hdrhistogram::Histogram;
pub use widelane_meter::estimate::median;
use widelane_meter::estimate::median_with_interval;
use widelane_results::Bucket;

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
/// ratios, such that of a number of rounds that was fixed beforehand at least 95 % of such
/// intervals hold the true median, whatever the distribution. Runs that stop when the interval is
/// narrow ([`crate::pairs::is_precise`]) miss it in about 5 % together, but those of them that
/// stopped early more often: some intervals are narrow by accident. There is no such interval of
/// fewer than six rounds, and so the ratio of those has no ends. `None` without rounds or where a
/// rival is not positive.
pub fn ratio(rounds: &[(f64, f64)]) -> Option<Ratio> {
    if rounds.iter().any(|(_, rival)| *rival <= 0.0) {
        return None;
    }
    let ratios: Vec<f64> = rounds.iter().map(|(subject, rival)| subject / rival).collect();
    let ends = median_with_interval(&ratios).map(|(_, low, high)| [low, high]);
    Some(Ratio { value: median(&ratios)?, ends })
}

/// Latencies in buckets that grow by a fifth, from 50 µs.
pub fn latency_buckets(latency_ns: &Histogram<u64>) -> Vec<Bucket> {
    let buckets = latency_ns.iter_log(50_000, 1.2).map(|step| Bucket {
        upto: step.value_iterated_to() as f64 / 1e3,
        count: step.count_since_last_iteration(),
    });
    trimmed(buckets.collect())
}

/// `buckets` without the empty ones at either end. Those between stay: a chart's line goes from
/// each bucket to the next.
pub fn trimmed(mut buckets: Vec<Bucket>) -> Vec<Bucket> {
    let is_used = |bucket: &Bucket| bucket.count > 0;
    buckets.truncate(buckets.iter().rposition(is_used).map_or(0, |last| last + 1));
    let first = buckets.iter().position(is_used).unwrap_or(0);
    buckets.split_off(first)
}

#[cfg(test)]
mod tests {
    use widelane_results::ROUNDS_FOR_INTERVAL;

    use super::*;

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
        let same = vec![(1.0, 1.0); ROUNDS_FOR_INTERVAL];
        assert!(ratio(&same).unwrap().ends.is_some() && ratio(&same[1..]).unwrap().ends.is_none());
    }

    #[test]
    fn buckets_between_two_latencies_are_told_to_be_empty() {
        let mut latency_ns = Histogram::<u64>::new_with_bounds(100, 100_000_000_000, 3).unwrap();
        latency_ns.record_n(1_000_000, 100).unwrap();
        latency_ns.record_n(10_000_000, 100).unwrap();
        let counts: Vec<u64> = latency_buckets(&latency_ns).iter().map(|it| it.count).collect();
        let [100, between @ .., 100] = &counts[..] else { panic!("{counts:?}") };
        // Of buckets that grow by a fifth, a factor of ten takes 12 or 13.
        assert!((11..=12).contains(&between.len()), "{counts:?}");
        assert!(between.iter().all(|count| *count == 0), "{counts:?}");
        latency_ns.reset();
        assert!(latency_buckets(&latency_ns).is_empty());
    }

    #[test]
    fn no_ratio_to_nothing() {
        assert_eq!(ratio(&[]), None);
        assert_eq!(ratio(&[(1.0, 2.0), (1.0, 0.0)]), None);
    }
}
