//! `--fail-if 'p99>50ms'`: limits that make the exit status a judgement.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use widelane_cli::units;
use widelane_loadgen::{Latency, Outcome, Work};

/// A condition under which a load counts as failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
    metric: Metric,
    above: bool,
    limit: f64,
}

/// What is compared with the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    /// Seconds at a percentile.
    Latency(Latency, f64),
    /// Finished handshakes per second.
    Rate,
    /// Failed connections.
    Errors,
    /// Part of all handshakes that were resumed.
    Resumed,
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!(
                "{text:?}: {what}; write such as 'p99>50ms', 'handshake.p99.9>20ms', 'errors>0', \
                 'rate<1000' or 'resumed<80%'"
            )
        };
        let operator = text.find(['<', '>']).ok_or_else(|| wrong("there is no < or >"))?;
        let (name, limit) = (text[..operator].trim(), text[operator + 1..].trim());
        let metric = Metric::read(name).ok_or_else(|| wrong("the measure is not known"))?;
        let limit = match metric {
            Metric::Latency(..) => units::duration(limit).map(|time| time.as_secs_f64()).ok(),
            Metric::Resumed => limit
                .strip_suffix('%')
                .and_then(|part| part.parse().ok())
                .map(|part: f64| part / 1e2),
            Metric::Rate | Metric::Errors => limit.parse().ok(),
        };
        let limit = limit.filter(|limit: &f64| limit.is_finite() && *limit >= 0.0);
        let limit =
            limit.ok_or_else(|| wrong("the limit is no number with the unit of the measure"))?;
        let above = text[operator..].starts_with('>');
        Ok(Threshold { text: text.to_owned(), metric, above, limit })
    }
}

impl Metric {
    fn read(name: &str) -> Option<Self> {
        match name {
            "errors" => return Some(Metric::Errors),
            "rate" => return Some(Metric::Rate),
            "resumed" => return Some(Metric::Resumed),
            _ => {}
        }
        let (latency, percentile) = match name.split_once('.') {
            Some((latency, rest)) if !latency.starts_with('p') && latency != "max" => {
                let known = Latency::ALL.into_iter().find(|known| known.name() == latency);
                (known?, rest)
            }
            _ => (Latency::Total, name),
        };
        let percentile = match percentile {
            "max" => 100.0,
            _ => units::percentile(percentile.strip_prefix('p')?).ok()?,
        };
        Some(Metric::Latency(latency, percentile))
    }

    /// Its value in what `outcome` tells of `work`, for a comparison with `limit`.
    fn value(self, outcome: &Outcome, work: &Work, limit: f64) -> Option<f64> {
        let tally = &outcome.tally;
        let handshakes = tally.handshakes() as f64;
        match self {
            Metric::Latency(latency, percentile) => {
                let limit = Duration::try_from_secs_f64(limit).unwrap_or(Duration::MAX);
                let mut histogram = latency.against(limit, tally, work);
                // Who gave up has waited in vain, however long that was.
                if latency == Latency::Total {
                    histogram.saturating_record_n(u64::MAX, tally.failures());
                }
                let seconds = histogram.value_at_percentile(percentile) as f64 / 1e9;
                (!histogram.is_empty()).then_some(seconds)
            }
            Metric::Rate => Some(handshakes / outcome.wall.as_secs_f64().max(f64::MIN_POSITIVE)),
            Metric::Errors => Some(tally.failures() as f64),
            Metric::Resumed => (handshakes > 0.0).then(|| tally.resumed as f64 / handshakes),
        }
    }
}

impl Threshold {
    /// Whether `outcome` of `work` is on the wrong side, or has nothing to compare.
    pub fn is_crossed(&self, outcome: &Outcome, work: &Work) -> bool {
        match self.metric.value(outcome, work, self.limit) {
            Some(value) if self.above => value > self.limit,
            Some(value) => value < self.limit,
            None => true,
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use widelane_loadgen::{ErrorKind, Tally};

    use super::*;

    fn outcome() -> Outcome {
        let mut tally = Tally::new();
        for microseconds in 1..=1000 {
            tally.latency_ns.saturating_record(microseconds * 1000);
        }
        (tally.full, tally.resumed) = (250, 750);
        let wall = Duration::from_secs(2);
        Outcome { wall, busy: 0.5, client_cpu: wall, tally, interrupted: false }
    }

    #[test]
    fn compares() {
        for (text, crossed) in [
            ("p50>501us", false),
            ("p50>499us", true),
            ("total.p99.9>900us", true),
            ("max<2ms", true),
            ("rate<500", false),
            ("rate<501", true),
            ("errors>0", false),
            ("resumed<75%", false),
            ("resumed > 74%", true),
            // There are no answers.
            ("first-byte.p50>1s", true),
        ] {
            let threshold: Threshold = text.parse().expect(text);
            assert_eq!(threshold.is_crossed(&outcome(), &Work::Handshake), crossed, "{text}");
        }
    }

    #[test]
    fn what_is_unfinished_counts_once_it_is_older_than_the_limit() {
        let mut outcome = outcome();
        for milliseconds in [1, 200, 200, 200] {
            outcome.tally.unfinished_ns.saturating_record(milliseconds * 1_000_000);
        }
        let requests =
            Work::Requests { path: "/".to_owned(), count: 1, body_bytes: None, pattern: None };
        for (text, work, crossed) in [
            ("p99>50ms", &Work::Handshake, false),
            ("p99.9>50ms", &Work::Handshake, true),
            ("max>50ms", &Work::Handshake, true),
            ("max>300ms", &Work::Handshake, false),
            // There are handshakes only, and requests that nobody has answered.
            ("p50>50ms", &requests, true),
            ("p50>300ms", &requests, true),
            ("handshake.max>1s", &requests, true),
        ] {
            let threshold: Threshold = text.parse().expect(text);
            assert_eq!(threshold.is_crossed(&outcome, work), crossed, "{text}");
        }
    }

    #[test]
    fn who_has_failed_is_later_than_any_limit() {
        let mut outcome = outcome();
        outcome.tally.errors.insert(ErrorKind::Timeout, 150);
        for (text, crossed) in [
            ("p50>600us", false),
            ("p80>1s", false),
            ("p90>1s", true),
            ("max>50s", true),
            ("handshake.max>1s", true),
        ] {
            let threshold: Threshold = text.parse().expect(text);
            assert_eq!(threshold.is_crossed(&outcome, &Work::Handshake), crossed, "{text}");
        }
    }

    #[test]
    fn refuses_what_it_cannot_compare() {
        for text in
            ["", "p99", "p99>", "p99>fast", "p0>1s", "q99>1s", "p99=1s", "dns.p99>1s", "resumed<1"]
        {
            assert!(text.parse::<Threshold>().is_err(), "{text}");
        }
    }
}
