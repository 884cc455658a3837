//! Robust statistics of interleaved rounds: medians, their ratio and its interval.

/// Resamples behind an interval.
const RESAMPLES: usize = 2000;

/// Seed of the resampling, fixed so that a results file can be recomputed to the digit.
const SEED: u64 = 0x57_49_44_45_4c_41_4e_45;

/// A ratio with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Median of the subject divided by the median of the rival.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// The median, or `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The median absolute deviation from the median, or `None` of nothing.
pub fn median_absolute_deviation(values: &[f64]) -> Option<f64> {
    let center = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    median(&deviations)
}

/// The ratio of medians over `rounds` of (subject, rival), with a bootstrap 95 % interval.
///
/// Whole rounds are resampled, so what both members of a round shared stays shared. `None` without
/// rounds or where a median of the rival is not positive.
pub fn ratio_of_medians(rounds: &[(f64, f64)]) -> Option<Ratio> {
    let value = ratio_once(rounds)?;
    let mut random = SplitMix64(SEED);
    let mut resample = vec![(0.0, 0.0); rounds.len()];
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for slot in &mut resample {
            *slot = rounds[random.below(rounds.len())];
        }
        ratios.push(ratio_once(&resample)?);
    }
    ratios.sort_by(f64::total_cmp);
    let quantile = |share: f64| ratios[((RESAMPLES - 1) as f64 * share).round() as usize];
    Some(Ratio { value, low: quantile(0.025), high: quantile(0.975) })
}

fn ratio_once(rounds: &[(f64, f64)]) -> Option<f64> {
    let (subject, rival): (Vec<f64>, Vec<f64>) = rounds.iter().copied().unzip();
    let rival = median(&rival)?;
    (rival > 0.0).then_some(median(&subject)? / rival)
}

/// Sebastiano Vigna's SplitMix64.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_none_odd_and_even() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn deviation_ignores_an_outlier() {
        assert_eq!(median_absolute_deviation(&[1.0, 2.0, 3.0, 4.0, 1000.0]), Some(1.0));
    }

    #[test]
    fn splitmix_matches_the_reference() {
        let mut random = SplitMix64(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn ratio_of_constant_rounds_has_no_width() {
        let ratio = ratio_of_medians(&[(3.0, 6.0); 10]).unwrap();
        assert_eq!(ratio, Ratio { value: 0.5, low: 0.5, high: 0.5 });
    }

    #[test]
    fn interval_holds_the_ratio_and_ignores_common_drift() {
        let drift = [1.0, 1.1, 0.9, 1.3, 1.0, 0.8, 1.2, 1.0, 1.1, 0.9];
        let rounds: Vec<_> = drift.iter().map(|d| (0.6 * d, *d)).collect();
        let ratio = ratio_of_medians(&rounds).unwrap();
        assert!((ratio.low..=ratio.high).contains(&0.6), "{ratio:?}");
        assert!(ratio.high - ratio.low < 1e-9, "{ratio:?}");
    }

    #[test]
    fn interval_widens_with_the_scatter() {
        let width = |spread: f64| {
            let rounds: Vec<_> =
                (0..10).map(|i| (0.6 + spread * (f64::from(i) - 4.5), 1.0)).collect();
            let ratio = ratio_of_medians(&rounds).unwrap();
            assert!(ratio.low <= ratio.value && ratio.value <= ratio.high);
            ratio.high - ratio.low
        };
        assert!(width(0.02) > 2.0 * width(0.005));
    }

    #[test]
    fn no_ratio_to_nothing() {
        assert_eq!(ratio_of_medians(&[]), None);
        assert_eq!(ratio_of_medians(&[(1.0, 0.0); 3]), None);
    }
}
