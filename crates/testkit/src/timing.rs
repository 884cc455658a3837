//! A smoke alarm: whether two classes of secrets take different times, by Welch's t-test on
//! measurements that are cropped at several heights (Reparaz, Balasch and Verbauwhede: Dude, is my
//! code constant time?, 2017).
//!
//! It sees what the clock sees, which on a shared machine is little: silence proves nothing.
//! [`trace`](crate::trace) proves more.

use std::hint::black_box;

use widelane_cpu::clock::now_ns;

use crate::random::Random;

/// From which t on, in two measurements one after the other, times are taken to differ.
pub const ALARM: f64 = 10.0;

/// The secrets of the first class come from this seed, those of the other from a new one each time.
const FIXED_SEED: u64 = 1;

/// Shares of the measurements that are kept, shortest first: interruptions only make them longer.
const CROPS: [f64; 4] = [0.95, 0.8, 0.5, 0.25];

/// Measures `operation` for `duration_ns` on secrets that `make` makes of seeds, always of one seed
/// or each time of another by chance; returns the largest t, and how many measurements there were.
pub fn largest_t<S>(
    duration_ns: u64,
    random: &mut Random,
    make: impl Fn(u64) -> S,
    mut operation: impl FnMut(&mut S),
) -> (f64, usize) {
    let mut times = [const { Vec::new() }; 2];
    let end = now_ns() + duration_ns;
    while now_ns() < end {
        let (class, other) = (random.below(2), random.next_u64());
        let mut secret = make([FIXED_SEED, other][class]);
        let begin = now_ns();
        operation(black_box(&mut secret));
        times[class].push((now_ns() - begin) as f64);
    }
    (largest_of_crops(&times), times.iter().map(Vec::len).sum())
}

/// The largest of the crops' t, without its sign.
fn largest_of_crops(times: &[Vec<f64>; 2]) -> f64 {
    let mut all = times.concat();
    all.sort_unstable_by(f64::total_cmp);
    let crop = |share: f64| {
        let limit = all.get((share * all.len() as f64) as usize).copied().unwrap_or(f64::INFINITY);
        let kept = times
            .each_ref()
            .map(|times| times.iter().copied().filter(|time| *time <= limit).collect::<Vec<f64>>());
        welch(&kept).abs()
    };
    CROPS.into_iter().map(crop).fold(0.0, f64::max)
}

/// Welch's t of two samples; 0 where there are too few of them to tell.
fn welch(samples: &[Vec<f64>; 2]) -> f64 {
    let moments = samples.each_ref().map(|sample| {
        let count = sample.len() as f64;
        let mean = sample.iter().sum::<f64>() / count;
        let squares: f64 = sample.iter().map(|time| (time - mean).powi(2)).sum();
        (mean, squares / (count - 1.0) / count)
    });
    let [(one, error), (other, other_error)] = moments;
    let t = (one - other) / (error + other_error).sqrt();
    if t.is_finite() { t } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times around 1000, with an interruption now and then, and in the second class so much more.
    fn times(more: f64) -> [Vec<f64>; 2] {
        let mut random = Random::new(9);
        [0.0, more].map(|more| {
            let mut time = |_| {
                let interruption = if random.below(20) == 0 { 1e5 } else { 0.0 };
                1000.0 + random.below(100) as f64 + more + interruption
            };
            (0..5000).map(&mut time).collect()
        })
    }

    #[test]
    fn a_difference_below_the_noise_is_seen_and_none_is_made_up() {
        assert!(largest_of_crops(&times(0.0)) < 5.0);
        assert!(largest_of_crops(&times(10.0)) > ALARM);
    }

    #[test]
    fn welch_as_in_the_books() {
        // Means 2 and 5, variances 1 and 4 of three: -3 / sqrt(5 / 3).
        let t = welch(&[vec![1.0, 2.0, 3.0], vec![3.0, 5.0, 7.0]]);
        assert!((t + 3.0 / (5.0_f64 / 3.0).sqrt()).abs() < 1e-12, "{t}");
        assert_eq!(welch(&[vec![], vec![1.0]]), 0.0);
    }
}
