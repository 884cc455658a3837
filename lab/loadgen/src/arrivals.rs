//! When the connections of an open loop are due, whatever the server does.

use std::time::{Duration, Instant};

use crate::plan::Arrivals;

/// The instants at which connections are due, one after the other.
#[derive(Clone, Debug)]
pub struct Schedule {
    began: Instant,
    /// How many connections are due, on average, until the next one is.
    count: f64,
    rate: f64,
    arrivals: Arrivals,
    /// Seconds in which the rate rises linearly from zero.
    ramp: f64,
    random: fastrand::Rng,
}

impl Schedule {
    /// Begins at `began`; `rate` per second is reached at the end of `ramp`.
    pub fn new(
        began: Instant,
        rate: f64,
        arrivals: Arrivals,
        ramp: Duration,
        mut random: fastrand::Rng,
    ) -> Self {
        // Threads of one load do not begin at the same instants.
        let count = random.f64();
        Schedule { began, count, rate, arrivals, ramp: ramp.as_secs_f64(), random }
    }

    /// When the next connection is due.
    pub fn next(&self) -> Instant {
        let of_ramp = self.rate * self.ramp / 2.0;
        let seconds = if self.count < of_ramp {
            // The number that is due grows with the square of the time.
            self.ramp * (self.count / of_ramp).sqrt()
        } else {
            self.count / self.rate + self.ramp / 2.0
        };
        self.began + Duration::from_secs_f64(seconds.min(SECONDS_MAX))
    }

    /// Goes on to the connection after the next.
    pub fn advance(&mut self) {
        self.count += match self.arrivals {
            Arrivals::Constant => 1.0,
            // Distances of a Poisson process are exponential; 1 - random is never zero.
            Arrivals::Poisson => -(1.0 - self.random.f64()).ln(),
        };
    }

    /// The instants before `now` at which nothing has begun yet.
    pub fn overdue(&self, now: Instant) -> impl Iterator<Item = Instant> {
        let mut schedule = self.clone();
        std::iter::from_fn(move || {
            let due = schedule.next();
            schedule.advance();
            (due < now).then_some(due)
        })
    }
}

/// Longer than any load. However low the rate is, an `Instant` holds this.
const SECONDS_MAX: f64 = 1e9;

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(rate: f64, arrivals: Arrivals, ramp: Duration, seconds: u64) -> Vec<f64> {
        let began = Instant::now();
        let schedule = Schedule::new(began, rate, arrivals, ramp, fastrand::Rng::with_seed(7));
        let end = began + Duration::from_secs(seconds);
        schedule.overdue(end).map(|due| (due - began).as_secs_f64()).collect()
    }

    #[test]
    fn keeps_the_rate() {
        let constant = arrivals(1000.0, Arrivals::Constant, Duration::ZERO, 10);
        assert!((9_999..=10_000).contains(&constant.len()), "{}", constant.len());
        assert!(constant.windows(2).all(|pair| (pair[1] - pair[0] - 1e-3).abs() < 1e-6));
        // The count of a Poisson process of mean 10,000 has a standard deviation of 100.
        let poisson = arrivals(1000.0, Arrivals::Poisson, Duration::ZERO, 10);
        assert!((9_500..10_500).contains(&poisson.len()), "{}", poisson.len());
        let long = poisson.windows(2).filter(|pair| pair[1] - pair[0] > 1e-3).count();
        let part = long as f64 / poisson.len() as f64;
        assert!((part - (-1.0_f64).exp()).abs() < 0.03, "{part}");
    }

    #[test]
    fn a_ramp_takes_half_of_what_comes_in_its_time() {
        let count = |rate, arrivals: Arrivals, seconds| {
            self::arrivals(rate, arrivals, Duration::from_secs(10), seconds).len()
        };
        for (rate, half) in [(1000.0, 5_000), (10.0, 50)] {
            let constant = count(rate, Arrivals::Constant, 10);
            assert!(constant.abs_diff(half) <= 1, "{constant} at {rate} per second");
            // Half of the time takes a quarter, and what follows has the whole rate.
            assert!(count(rate, Arrivals::Constant, 5).abs_diff(half / 4) <= 1);
            assert!(count(rate, Arrivals::Constant, 20).abs_diff(3 * half) <= 1);
        }
        // The standard deviation is 71.
        let poisson = count(1000.0, Arrivals::Poisson, 10);
        assert!((4_700..5_300).contains(&poisson), "{poisson}");
    }
}
