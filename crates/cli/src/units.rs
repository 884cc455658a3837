//! Times and sizes as people write them: `50ms`, `2s`, `64M`.

use std::time::Duration;

/// Longest time that makes sense on a command line: a day.
const SECONDS_MAX: f64 = 86_400.0;

/// Reads a time; only 0 needs no unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    if text.parse::<f64>().is_ok_and(|number| number != 0.0) {
        return Err(format!("{text} has no unit; write a unit, such as 300us, 5ms or 2s"));
    }
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
    let seconds = scaled(text, &units).filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        format!("{text:?} is no time in us, ms, s, m or h, such as 500ms or 2h, of a day at most")
    })
}

/// Reads a time that is longer than nothing.
pub fn some_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() {
        Err("give a time longer than 0, such as 90s or 10m".to_owned())
    } else {
        Ok(time)
    }
}

/// A time as people say it, in whole seconds: `9 s`, `4 min 10 s`, `2 h`.
pub fn words(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")];
    let parts = parts.iter().filter(|(number, _)| *number > 0);
    let words: Vec<_> = parts.map(|(number, unit)| format!("{number} {unit}")).collect();
    if words.is_empty() { "less than 1 s".to_owned() } else { words.join(" ") }
}

/// A window length: long enough to hold handshakes, short enough to end.
pub fn seconds(text: &str) -> Result<Duration, String> {
    seconds_within(text, 0.05, 600.0)
}

/// A window of calls one after the other, of which even a short one holds many.
pub fn seconds_of_speed(text: &str) -> Result<Duration, String> {
    seconds_within(text, 0.005, 600.0)
}

/// After how many seconds something ends that may go on for long.
pub fn seconds_of_a_day(text: &str) -> Result<Duration, String> {
    seconds_within(text, 0.05, SECONDS_MAX)
}

fn seconds_within(text: &str, least: f64, most: f64) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (least..=most).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("expected seconds between {least} and {most}"))
}

/// Reads a size in bytes; K, M and G are powers of 1024.
pub fn bytes(text: &str) -> Result<u64, String> {
    let units = [("K", 1024.0), ("M", 1048576.0), ("G", 1073741824.0), ("", 1.0)];
    let upper = text.to_ascii_uppercase();
    let upper = upper.strip_suffix("IB").unwrap_or(&upper);
    let bytes = scaled(upper, &units).filter(|bytes| (0.0..1e15).contains(bytes));
    bytes.map(|bytes| bytes as u64).ok_or_else(|| format!("{text:?} is no size such as 100K or 4G"))
}

/// Reads a number above zero, such as a rate.
pub fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 1e7);
    number.ok_or_else(|| format!("{text:?} is no number above 0 and up to ten million"))
}

/// A percentile.
pub fn percentile(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 100.0);
    number.ok_or_else(|| format!("{text:?} is no percentile above 0 and up to 100"))
}

/// A number with the first of the units that fits.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, scale) =
        units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))?;
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    number.parse::<f64>().ok().filter(|_| plain).map(|number| number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_times_and_sizes() {
        assert_eq!(duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for bare in ["5", "1.5", "-1"] {
            assert!(duration(bare).unwrap_err().contains("such as 300us"), "{bare}");
        }
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert!(duration("24h").is_ok() && duration("25h").is_err());
        assert_eq!(bytes("64M"), Ok(64 << 20));
        assert_eq!(bytes("4GiB"), Ok(4 << 30));
        assert_eq!(bytes("17"), Ok(17));
        for wrong in ["", "s", "-1s", "1d", "1e9", "inf", "nan", "99999999"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "M", "-1", "1T", "99999999G"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn windows_have_the_limits_of_what_they_are_for() {
        let of = |seconds: f64| Ok(Duration::from_secs_f64(seconds));
        assert_eq!(seconds_of_speed("0.02"), of(0.02));
        assert_eq!(seconds_of_a_day("3600"), of(3600.0));
        let refused = Err("expected seconds between 0.05 and 600".to_owned());
        for wrong in ["0.02", "3600", "nan", "1s", ""] {
            assert_eq!(seconds(wrong), refused, "{wrong}");
        }
        assert!(seconds_of_speed("0.004").is_err() && seconds_of_a_day("86401").is_err());
    }

    #[test]
    fn times_are_said_in_the_units_that_occur() {
        for (seconds, expected) in [
            (0.2, "less than 1 s"),
            (9.0, "9 s"),
            (60.0, "1 min"),
            (250.4, "4 min 10 s"),
            (7200.0, "2 h"),
            (86_399.9, "24 h"),
        ] {
            assert_eq!(words(Duration::from_secs_f64(seconds)), expected);
        }
        assert!(some_time("0").is_err() && some_time("1s").is_ok());
    }

    #[test]
    fn reads_rates_and_percentiles() {
        for wrong in ["0", "-5", "inf", "nan", "1e9", "many"] {
            assert!(positive(wrong).is_err(), "{wrong}");
        }
        assert!(percentile("99.9").is_ok() && percentile("100.1").is_err());
    }
}
