//! How the device misbehaves.

use std::sync::OnceLock;
use std::time::Duration;

/// The environment variable that says it: words of [`Faults`], with numbers, between commas.
pub const VARIABLE: &str = "WIDELANE_QAT_STAND_IN";

/// How the device misbehaves. Without any word it does not.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// `slow=MICROSECONDS`: how long each operation takes; 100 without the word.
    pub(crate) takes: Duration,
    /// `absent`: there is no device.
    pub(crate) is_absent: bool,
    /// `silent`: there is no descriptor, so the caller has to poll.
    pub(crate) is_silent: bool,
    /// `backwards`: what was submitted last is finished first.
    pub(crate) is_backwards: bool,
    /// `room=N`: no more than N operations at a time.
    pub(crate) room: Option<usize>,
    /// `late=N`: every Nth operation takes 300 ms longer.
    pub(crate) late: Option<u64>,
    /// `wrong=N`: every Nth result is wrong.
    pub(crate) wrong: Option<u64>,
    /// `fails=N`: every Nth operation ends without a result.
    pub(crate) fails: Option<u64>,
    /// `resets=N`: with every Nth operation the device restarts, which takes 50 ms and loses what
    /// is under way.
    pub(crate) resets: Option<u64>,
    /// `loses=N`: every Nth operation never ends.
    pub(crate) loses: Option<u64>,
    /// `refuses`: it takes no key.
    pub(crate) refuses: bool,
}

/// How the device of this process misbehaves.
///
/// # Panics
///
/// If the variable says something unknown.
pub(crate) fn faults() -> &'static Faults {
    static FAULTS: OnceLock<Faults> = OnceLock::new();
    FAULTS.get_or_init(|| Faults::parse(&std::env::var(VARIABLE).unwrap_or_default()))
}

impl Faults {
    fn parse(text: &str) -> Self {
        let mut faults = Faults { takes: Duration::from_micros(100), ..Faults::default() };
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let (name, number) = word.split_once('=').unwrap_or((word, "0"));
            let number: u64 = number.parse().expect("a number behind the word");
            match name {
                "slow" => faults.takes = Duration::from_micros(number),
                "absent" => faults.is_absent = true,
                "silent" => faults.is_silent = true,
                "backwards" => faults.is_backwards = true,
                "room" => faults.room = usize::try_from(number).ok(),
                "late" => faults.late = Some(number),
                "wrong" => faults.wrong = Some(number),
                "fails" => faults.fails = Some(number),
                "resets" => faults.resets = Some(number),
                "loses" => faults.loses = Some(number),
                "refuses" => faults.refuses = true,
                _ => panic!("the stand-in does not know the fault {name:?}"),
            }
        }
        faults
    }
}

/// Whether the operation of this number is one in `every`.
pub(crate) fn is_hit(every: Option<u64>, number: u64) -> bool {
    every.is_some_and(|every| number % every.max(1) == every.max(1) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood() {
        let faults = Faults::parse("slow=2000,backwards,wrong=3");
        assert_eq!(faults.takes, Duration::from_millis(2));
        assert!(faults.is_backwards && !faults.is_absent && faults.late.is_none());
        let hits = (0..9).filter(|number| is_hit(faults.wrong, *number));
        assert_eq!(hits.collect::<Vec<_>>(), [2, 5, 8]);
    }
}
