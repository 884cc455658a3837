//! How long operations may wait for company.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// How long an operation may wait for company while its event loop has nothing else to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitMax {
    /// So long; zero switches such waits off.
    Time(Duration),
    /// A tenth of the round-trip time to the client of its connection, but 0.5 ms at least and 5 ms
    /// at most. A full handshake takes two round trips and more: to one of 10 ms or more, the wait
    /// adds a twentieth at most.
    RoundTrip,
}

/// What is no such time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the longest wait is a time up to 10ms such as 0.5ms or 200us, 0 for none, or rtt for a tenth \
     of each client's round-trip time, from 0.5ms to 5ms, not {0:?}"
)]
pub struct UnknownWait(pub String);

/// How [`WaitMax::RoundTrip`] is written.
const ROUND_TRIP: &str = "rtt";

impl WaitMax {
    /// No waits.
    pub const NONE: WaitMax = WaitMax::Time(Duration::ZERO);

    /// The default; docs/operate/policy.md gives the reasons.
    pub const DEFAULT: WaitMax = WaitMax::Time(Duration::from_micros(500));

    /// The longest wait that can be set: clients notice more.
    pub const LONGEST: Duration = Duration::from_millis(10);

    /// The longest for the sake of a client that is far away.
    const LONGEST_OF_ROUND_TRIP: Duration = Duration::from_millis(5);

    /// The part of a round trip that may be waited.
    const ROUND_TRIP_PART: u64 = 10;

    /// The longest wait of any connection, in nanoseconds.
    pub const fn longest_ns(self) -> u64 {
        match self {
            WaitMax::Time(time) => time.as_nanos() as u64,
            WaitMax::RoundTrip => Self::LONGEST_OF_ROUND_TRIP.as_nanos() as u64,
        }
    }

    /// The longest wait of one connection, in nanoseconds; `round_trip_ns` returns its round-trip
    /// time, 0 if it is not known, and is called only if it matters.
    pub fn ns(self, round_trip_ns: impl FnOnce() -> u64) -> u64 {
        match self {
            WaitMax::Time(_) => self.longest_ns(),
            WaitMax::RoundTrip => (round_trip_ns() / Self::ROUND_TRIP_PART)
                .clamp(Self::DEFAULT.longest_ns(), self.longest_ns()),
        }
    }
}

impl FromStr for WaitMax {
    type Err = UnknownWait;

    fn from_str(text: &str) -> Result<Self, UnknownWait> {
        if text == ROUND_TRIP {
            return Ok(WaitMax::RoundTrip);
        }
        let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
        let split = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
        let (number, scale) = match split {
            Some(split) => split,
            None if text == "0" => (text, 0.0),
            None => ("", 0.0),
        };
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let seconds = number.parse::<f64>().ok().filter(|_| is_plain).map(|number| number * scale);
        seconds
            .filter(|seconds| *seconds <= Self::LONGEST.as_secs_f64())
            .map(|seconds| WaitMax::Time(Duration::from_secs_f64(seconds)))
            .ok_or_else(|| UnknownWait(text.to_owned()))
    }
}

impl fmt::Display for WaitMax {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.longest_ns()) {
            (WaitMax::RoundTrip, _) => formatter.write_str(ROUND_TRIP),
            (WaitMax::Time(_), 0) => formatter.write_str("0"),
            (WaitMax::Time(_), ns) => write!(formatter, "{}ms", ns as f64 / 1e6),
        }
    }
}

impl Serialize for WaitMax {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        for (text, ns, written) in [
            ("0", 0, "0"),
            ("0ms", 0, "0"),
            ("0.5ms", 500_000, "0.5ms"),
            ("250us", 250_000, "0.25ms"),
            ("10ms", 10_000_000, "10ms"),
            ("0.001s", 1_000_000, "1ms"),
        ] {
            let wait: WaitMax = text.parse().unwrap();
            let limit_ns = wait.ns(|| panic!("not asked"));
            assert_eq!((limit_ns, wait.to_string().as_str()), (ns, written), "{text}");
            assert_eq!(wait.longest_ns(), ns);
            assert_eq!(wait.to_string().parse(), Ok(wait));
        }
    }

    #[test]
    fn a_client_far_away_waits_longer() {
        let wait: WaitMax = "rtt".parse().unwrap();
        assert_eq!((wait, wait.to_string().as_str()), (WaitMax::RoundTrip, "rtt"));
        assert_eq!(wait.longest_ns(), 5_000_000);
        for (round_trip_us, limit_us) in [
            (0, 500),
            (80, 500),
            (5_000, 500),
            (12_000, 1_200),
            (50_000, 5_000),
            (4_000_000, 5_000),
        ] {
            assert_eq!(wait.ns(|| 1_000 * round_trip_us), 1_000 * limit_us, "{round_trip_us} us");
        }
    }

    #[test]
    fn what_is_no_time_is_told_what_one_is() {
        for text in
            ["", "5", "ms", "-1ms", "11ms", "1s", "nanms", "infs", "1e3us", "1 ms", "off", "RTT"]
        {
            let error = text.parse::<WaitMax>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("not {text:?}")), "{error}");
        }
    }
}
