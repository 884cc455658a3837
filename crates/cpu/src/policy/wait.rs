//! How long operations may wait for company.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// How long an operation may wait for company while its event loop has nothing else to do; zero
/// switches such waits off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitMax(Duration);

/// What is no such time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the longest wait is a time up to 10ms such as 0.5ms or 200us, or 0 for none, not {0:?}")]
pub struct UnknownWait(pub String);

impl WaitMax {
    /// No waits.
    pub const NONE: WaitMax = WaitMax(Duration::ZERO);

    /// What holds where nobody says otherwise; docs/operate/policy.md gives the reasons.
    pub const DEFAULT: WaitMax = WaitMax(Duration::from_micros(500));

    /// The longest that makes sense: clients notice more.
    const LONGEST: Duration = Duration::from_millis(10);

    /// In nanoseconds.
    pub const fn ns(self) -> u64 {
        self.0.as_nanos() as u64
    }
}

impl FromStr for WaitMax {
    type Err = UnknownWait;

    fn from_str(text: &str) -> Result<Self, UnknownWait> {
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
            .map(|seconds| WaitMax(Duration::from_secs_f64(seconds)))
            .ok_or_else(|| UnknownWait(text.to_owned()))
    }
}

impl fmt::Display for WaitMax {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_nanos() {
            0 => formatter.write_str("0"),
            ns => write!(formatter, "{}ms", ns as f64 / 1e6),
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
            assert_eq!((wait.ns(), wait.to_string().as_str()), (ns, written), "{text}");
            assert_eq!(wait.to_string().parse(), Ok(wait));
        }
    }

    #[test]
    fn what_is_no_time_is_told_what_one_is() {
        for text in ["", "5", "ms", "-1ms", "11ms", "1s", "nanms", "infs", "1e3us", "1 ms", "off"] {
            let error = text.parse::<WaitMax>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("not {text:?}")), "{error}");
        }
    }
}
