//! When the connections of an open loop are due, whatever the server does.

use std::time::{Duration, Instant};

use crate::plan::Arrivals;

/// The instants at which connections are due, one after the other.
#[derive(Clone, Debug)]
pub struct Schedule {
    began: Instant,
    next: Instant,
    rate: f64,
    arrivals: Arrivals,
    ramp: Duration,
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
        let next = began + pause(random.f64() / rate);
        Schedule { began, next, rate, arrivals, ramp, random }
    }

    /// When the next connection is due.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Goes on to the connection after the next.
    pub fn advance(&mut self) {
        let elapsed = self.next.duration_since(self.began);
        let risen = if elapsed < self.ramp {
            (elapsed.as_secs_f64() / self.ramp.as_secs_f64()).max(RAMP_FROM)
        } else {
            1.0
        };
        let intervals = match self.arrivals {
            Arrivals::Constant => 1.0,
            // Distances of a Poisson process are exponential; 1 - random is never zero.
            Arrivals::Poisson => -(1.0 - self.random.f64()).ln(),
        };
        self.next += pause(intervals / (self.rate * risen));
    }

    /// The instants before `now` at which nothing has begun yet.
    pub fn overdue(&self, now: Instant) -> impl Iterator<Item = Instant> {
        let mut schedule = self.clone();
        std::iter::from_fn(move || {
            let due = schedule.next;
            schedule.advance();
            (due < now).then_some(due)
        })
    }
}

/// Time between two connections, however low the rate is.
fn pause(seconds: f64) -> Duration {
    const SECONDS_MAX: f64 = 1e6;
    Duration::from_secs_f64(seconds.min(SECONDS_MAX))
}

/// Part of the rate at which a ramp begins.
const RAMP_FROM: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(arrivals: Arrivals, ramp: Duration, seconds: u64) -> Vec<f64> {
        let began = Instant::now();
        let schedule = Schedule::new(began, 1000.0, arrivals, ramp, fastrand::Rng::with_seed(7));
        let end = began + Duration::from_secs(seconds);
        schedule.overdue(end).map(|due| (due - began).as_secs_f64()).collect()
    }

    #[test]
    fn keeps_the_rate() {
        let constant = arrivals(Arrivals::Constant, Duration::ZERO, 10);
        assert!((9_999..=10_000).contains(&constant.len()), "{}", constant.len());
        assert!(constant.windows(2).all(|pair| (pair[1] - pair[0] - 1e-3).abs() < 1e-6));
        // The count of a Poisson process of mean 10,000 has a standard deviation of 100.
        let poisson = arrivals(Arrivals::Poisson, Duration::ZERO, 10);
        assert!((9_500..10_500).contains(&poisson.len()), "{}", poisson.len());
        let long = poisson.windows(2).filter(|pair| pair[1] - pair[0] > 1e-3).count();
        let part = long as f64 / poisson.len() as f64;
        assert!((part - (-1.0_f64).exp()).abs() < 0.03, "{part}");
    }

    #[test]
    fn a_ramp_takes_half_of_what_comes_in_its_time() {
        let ramp = arrivals(Arrivals::Constant, Duration::from_secs(10), 10);
        assert!((4_900..5_200).contains(&ramp.len()), "{}", ramp.len());
    }
}
