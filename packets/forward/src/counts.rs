//! What became of the packets.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::headers::Refusal;
use crate::routes::{Action, RuleInfo};

/// Numbers of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that came in.
    pub received: u64,
    /// Packets of frames that were not sent to the port: to all, to a group, or to others.
    pub not_addressed: u64,
    /// Packets that a rule denied.
    pub denied: u64,
    /// Packets that no rule routed.
    pub unrouted: u64,
    /// Packets whose time to live had passed.
    pub expired: u64,
    /// Packets that could not be looked up, in the order of [`Refusal::ALL`].
    pub refused: [u64; Refusal::ALL.len()],
    /// Packets of a version of IP that no rules are for.
    pub other_version: u64,
    /// Packets that were routed to a port that did not take them.
    pub unsent: u64,
    /// Packets that were to be cut into segments inside something that is no tunnel known here.
    pub unsegmented: u64,
    /// Packets that the kernel dropped because we were too slow.
    pub overrun: u64,
    /// Packets that left, by port.
    pub sent: Vec<u64>,
    /// Packets that met each rule of IPv4 and of IPv6, by its number.
    pub rules: [Vec<u64>; 2],
}

impl Counts {
    /// Counts a packet that met a rule.
    #[inline]
    pub(crate) fn met(&mut self, is_v6: bool, action: Action) {
        let number = match action {
            Action::Route(_, number) => number,
            Action::Deny(number) => {
                self.denied += 1;
                number
            }
            Action::NoRoute => {
                self.unrouted += 1;
                return;
            }
        };
        let counts = &mut self.rules[usize::from(is_v6)];
        match counts.get_mut(number as usize) {
            Some(count) => *count += 1,
            None => {
                counts.resize(number as usize + 1, 0);
                counts[number as usize] = 1;
            }
        }
    }

    /// Counts frames that came in, but were not sent to the port.
    pub(crate) fn not_addressed(&mut self, count: u64) {
        self.received += count;
        self.not_addressed += count;
    }

    /// Counts packets that left by a port.
    pub(crate) fn sent(&mut self, port: usize, count: u64) {
        if self.sent.len() <= port {
            self.sent.resize(port + 1, 0);
        }
        self.sent[port] += count;
    }

    /// Adds another thread's counts.
    pub fn add(&mut self, other: &Counts) {
        fn grow(own: &mut Vec<u64>, other: &[u64]) {
            own.resize(own.len().max(other.len()), 0);
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
        self.received += other.received;
        self.not_addressed += other.not_addressed;
        self.denied += other.denied;
        self.unrouted += other.unrouted;
        self.expired += other.expired;
        self.other_version += other.other_version;
        self.unsent += other.unsent;
        self.unsegmented += other.unsegmented;
        self.overrun += other.overrun;
        self.refused.iter_mut().zip(other.refused).for_each(|(own, other)| *own += other);
        grow(&mut self.sent, &other.sent);
        let rules = self.rules.iter_mut().zip(&other.rules);
        rules.for_each(|(own, other)| grow(own, other));
    }

    /// Packets that were dropped, by reason.
    pub fn dropped(&self) -> impl Iterator<Item = (String, u64)> {
        let refused = Refusal::ALL.iter().zip(self.refused);
        [
            ("denied", self.denied),
            ("no-route", self.unrouted),
            ("expired", self.expired),
            ("other-version", self.other_version),
            ("not-addressed", self.not_addressed),
            ("unsent", self.unsent),
            ("unsegmented", self.unsegmented),
            ("overrun", self.overrun),
        ]
        .into_iter()
        .map(|(reason, count)| (reason.to_owned(), count))
        .chain(refused.map(|(refusal, count)| (refusal.to_string(), count)))
    }
}

/// Counts in the text format of Prometheus.
#[derive(Clone, Copy, Debug)]
pub struct Display<'a, F> {
    /// The counts.
    pub counts: &'a Counts,
    /// Which rule has a number, of IPv6 or not.
    pub info: F,
}

impl<F: Fn(bool, u32) -> Option<RuleInfo>> fmt::Display for Display<'_, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts;
        let mut family = |name: &str, help: &str, samples: Vec<(String, u64)>| -> fmt::Result {
            let name = format!("widelane_forward_{name}_total");
            writeln!(formatter, "# HELP {name} {help}\n# TYPE {name} counter")?;
            samples
                .iter()
                .try_for_each(|(labels, count)| writeln!(formatter, "{name}{labels} {count}"))
        };
        let labelled = |label: &str, value: &str| {
            let mut text = format!("{{{label}=\"");
            escape(&mut text, value);
            text + "\"}"
        };
        family(
            "received_packets",
            "Packets that came in.",
            vec![(String::new(), counts.received)],
        )?;
        let sent = counts.sent.iter().enumerate();
        family(
            "sent_packets",
            "Packets that left.",
            sent.map(|(port, count)| (labelled("port", &port.to_string()), *count)).collect(),
        )?;
        let dropped = counts.dropped();
        family(
            "dropped_packets",
            "Packets that were dropped.",
            dropped.map(|(reason, count)| (labelled("reason", &reason), count)).collect(),
        )?;
        let rule = |is_v6: bool| {
            let numbered = counts.rules[usize::from(is_v6)].iter().zip(0..);
            numbered.filter(|(count, _)| **count > 0).filter_map(move |(count, number)| {
                Some((labelled("rule", &(self.info)(is_v6, number)?.text), *count))
            })
        };
        family("rule_packets", "Packets that met a rule.", rule(false).chain(rule(true)).collect())
    }
}

/// Writes the value of a label.
fn escape(text: &mut String, value: &str) {
    for letter in value.chars() {
        match letter {
            '\\' | '"' => text.extend(['\\', letter]),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

/// A thread's counts, for others to see while it works.
#[derive(Debug, Default)]
pub struct Watch {
    wanted: AtomicBool,
    shown: Mutex<Counts>,
    came: Condvar,
}

impl Watch {
    /// Shows the counts, if they were asked for.
    #[inline]
    pub fn show(&self, counts: &Counts) {
        if self.wanted.load(Ordering::Relaxed) {
            self.show_now(counts);
        }
    }

    #[cold]
    fn show_now(&self, counts: &Counts) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.clone_from(counts);
        self.wanted.store(false, Ordering::Relaxed);
        self.came.notify_all();
    }

    /// Asks threads for their counts, all at once, and waits for a moment. Returns the sum, with
    /// the last that were shown where none come, and whether all came.
    pub fn look(watches: &[Watch]) -> (Counts, bool) {
        watches.iter().for_each(|watch| watch.wanted.store(true, Ordering::Relaxed));
        let (mut total, mut patience) = (Counts::default(), PATIENCE);
        for watch in watches {
            let shown = watch.shown.lock().unwrap_or_else(PoisonError::into_inner);
            let wanted = |_: &mut Counts| watch.wanted.load(Ordering::Relaxed);
            let waited = watch.came.wait_timeout_while(shown, patience, wanted);
            let (shown, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            total.add(&shown);
            // The others were asked at the same time, and have had as long.
            if timeout.timed_out() {
                patience = Duration::ZERO;
            }
        }
        (total, !patience.is_zero())
    }
}

/// How long counts are waited for.
const PATIENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_as_prometheus_reads_them() {
        let mut counts = Counts { received: 7, refused: [1, 0, 2], ..Counts::default() };
        counts.not_addressed(2);
        counts.sent(1, 4);
        counts.met(false, Action::Route(1, 2));
        counts.met(true, Action::Deny(0));
        let mut all = counts.clone();
        all.add(&counts);
        assert_eq!((all.sent.as_slice(), all.rules[0].as_slice()), (&[0, 8][..], &[0, 0, 2][..]));
        let info = |is_v6, number| {
            let text = format!("R\"{is_v6}\\ {number}").into();
            Some(RuleInfo { line: 1, text })
        };
        let text = Display { counts: &all, info }.to_string();
        for line in [
            "# TYPE widelane_forward_received_packets_total counter",
            "widelane_forward_received_packets_total 18",
            "widelane_forward_sent_packets_total{port=\"1\"} 8",
            "widelane_forward_dropped_packets_total{reason=\"denied\"} 2",
            "widelane_forward_dropped_packets_total{reason=\"not-ip\"} 2",
            "widelane_forward_dropped_packets_total{reason=\"not-addressed\"} 4",
            "widelane_forward_rule_packets_total{rule=\"R\\\"false\\\\ 2\"} 2",
            "widelane_forward_rule_packets_total{rule=\"R\\\"true\\\\ 0\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn counts_are_shown_to_who_asks() {
        let watches = [Watch::default(), Watch::default()];
        let counts = Counts { received: 5, ..Counts::default() };
        watches[0].show(&counts);
        assert_eq!(watches[0].shown.lock().unwrap().received, 0, "nobody asked");
        let seen = std::thread::scope(|scope| {
            let asks = scope.spawn(|| Watch::look(&watches));
            // The last is asked although the first has not answered.
            while !asks.is_finished() {
                watches.iter().rev().for_each(|watch| watch.show(&counts));
            }
            asks.join().unwrap()
        });
        assert_eq!(seen, (Counts { received: 10, ..Counts::default() }, true));
        let began = std::time::Instant::now();
        let silent = [(); 8].map(|()| Watch::default());
        assert!(!Watch::look(&silent).1, "nobody shows any");
        assert!(began.elapsed() < 8 * PATIENCE, "they are waited for together");
    }
}
