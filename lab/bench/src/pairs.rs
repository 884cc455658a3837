//! Interleaved rounds: their order, and when one does not count.

use std::time::Duration;

use widelane_results::{BUSY_SHARE, Measurement, Pair, Row, Status};

use crate::stats::{self, Ratio};

/// Share of one CPU that strangers may use before a round is rejected.
const FOREIGN_SHARE_MAX: f64 = 0.10;

/// Share of a window for which a CPU limit may stop its CPUs before a round is rejected.
const THROTTLED_SHARE_MAX: f64 = 0.01;

/// Share of its CPU from which on the client counts as saturated.
const SATURATED_SHARE: f64 = 0.95;

/// Standard deviations by which arrivals of an open loop are fewer than are due by accident: where
/// fewer finish, the server or the client fell behind.
const ARRIVALS_DEVIATIONS: f64 = 3.0;

/// Share of the arrivals that have to finish at least, however few they are.
const FINISHED_SHARE_MIN: f64 = 0.7;

/// Width of an interval, as a share of its ratio, from which on more rounds are not worth their
/// time.
const WIDTH_WANTED: f64 = 0.03;

/// Smallest number of accepted rounds on which a result can stand, as a share of those taken.
pub(crate) const ACCEPTED_SHARE_MIN: f64 = 0.5;

/// The order in which round `round` takes `subjects`: forward, then backward, so that drift
/// cancels.
pub fn order(subjects: usize, round: u32) -> Vec<usize> {
    let forward = 0..subjects;
    if round.is_multiple_of(2) { forward.collect() } else { forward.rev().collect() }
}

/// How many rounds to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// Accepted rounds that it takes at least.
    pub least: u32,
    /// Rounds to take at most, to make up for rejected ones and to tell more precisely.
    pub most: u32,
}

impl Rounds {
    /// `count` rounds, and no more.
    pub const fn exactly(count: u32) -> Self {
        Rounds { least: count, most: count }
    }

    /// `count` rounds, and up to half as many more.
    pub const fn with_spare(count: u32) -> Self {
        Rounds { least: count, most: count + count / 2 }
    }

    /// Whether another round is due after those `taken`, which may be precise enough. Only those
    /// are accepted in which every measurement counts, so that no comparison has fewer.
    pub fn go_on(self, taken: &[Pair], is_precise: impl FnOnce() -> bool) -> bool {
        let accepted = taken.iter().filter(|pair| pair.status == Status::Ok).count();
        taken.len() < self.most as usize && (accepted < self.least as usize || !is_precise())
    }
}

/// Whether the ratio over `rounds` of (subject, rival) is known well enough to stop; one that does
/// not exist will not get better, and one of too few rounds is not known at all. Stopping by this
/// rule accepts some intervals that are narrow by accident: see [`stats::ratio`].
pub fn is_precise(rounds: &[(f64, f64)]) -> bool {
    let is_narrow = |ratio: Ratio| ratio.width().is_some_and(|width| width <= WIDTH_WANTED);
    stats::ratio(rounds).is_none_or(is_narrow)
}

/// Makes a round of its measurements and says which of them count.
pub fn judge(scenario: &str, round: u32, mut measurements: Vec<Measurement>) -> Pair {
    measurements.iter_mut().for_each(|measurement| measurement.reason = objection(measurement));
    let reason = measurements.iter().find_map(|measurement| measurement.reason.clone());
    Pair {
        scenario: scenario.to_owned(),
        round,
        measurements,
        status: if reason.is_some() { Status::Rejected } else { Status::Ok },
        reason,
    }
}

/// Why `measurement` cannot be relied on, if so.
pub(crate) fn objection(measurement: &Measurement) -> Option<String> {
    let Measurement { subject, wall_s, operations, cpu_s, client_cpu_s, .. } = measurement;
    let errors: u64 = measurement.errors.values().sum();
    if errors > 0 {
        let kinds: Vec<String> =
            measurement.errors.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        return Some(format!("{subject}: {errors} connections failed ({})", kinds.join(", ")));
    }
    if measurement.resumed > 0 {
        return Some(format!(
            "{subject}: {} handshakes resumed a session instead of being full",
            measurement.resumed
        ));
    }
    if *operations == 0 {
        return Some(format!("{subject}: nothing finished within {wall_s:.2} s"));
    }
    if *cpu_s <= 0.0 {
        return Some(format!("{subject}: the server used no CPU time"));
    }
    if let Some(disturbance) = disturbance(measurement) {
        return Some(format!("{subject}: {disturbance}"));
    }
    // A lane process without a CPU of its own is on those of the clients, where it is not on the
    // server's.
    let beside = if measurement.lane_cpus == 0 { measurement.lane_cpu_s } else { 0.0 };
    let client = (client_cpu_s + beside) / f64::from(measurement.client_cpus.max(1));
    // There may be fewer threads than CPUs.
    let client = client.max(measurement.client_thread_cpu_s) / wall_s;
    let server = measurement.server_share();
    if client >= SATURATED_SHARE && server < BUSY_SHARE {
        return Some(format!(
            "{subject}: the client was the bottleneck ({:.0} % of its CPU, the server {:.0} %)",
            client * 100.0,
            server * 100.0
        ));
    }
    // Behind what else may have been the reason.
    if let Some(due) = measurement.arrivals_due.filter(|due| *due > 0.0)
        && (*operations as f64) < finished_min(due)
    {
        return Some(format!(
            "{subject}: of {due:.0} handshakes that were due, {operations} were finished"
        ));
    }
    None
}

/// Who or what took CPUs of `measurement` away, if that was too much.
pub(crate) fn disturbance(measurement: &Measurement) -> Option<String> {
    let wall_s = measurement.wall_s;
    if measurement.throttled_s > THROTTLED_SHARE_MAX * wall_s {
        let ms = measurement.throttled_s * 1e3;
        return Some(format!(
            "the CPU limit of this container or service stopped its CPUs for {ms:.0} ms; raise it, \
             or run outside"
        ));
    }
    // One of two CPUs is the measure, of which a machine has more and more.
    let is_much = |foreign_s: f64, cpus: u32| {
        foreign_s / wall_s > FOREIGN_SHARE_MAX * f64::from(cpus.max(2)) / 2.0
    };
    let used = |foreign_s: f64, stolen_s: f64, what: &str| {
        let used =
            [("other processes used", foreign_s - stolen_s), ("the hypervisor took", stolen_s)];
        let used = used.map(|(who, seconds)| (who, (seconds / wall_s * 100.0).round()));
        let used = used.iter().filter(|(_, percent)| *percent > 0.0);
        let used: Vec<String> =
            used.map(|(who, percent)| format!("{who} {percent} % of {what}")).collect();
        Some(used.join(", "))
    };
    let servers = measurement.server_cpus;
    let cpus = servers.max(1) + measurement.client_cpus.max(1) + measurement.lane_cpus;
    let Measurement { foreign_cpu_s, foreign_server_cpu_s, sibling_cpu_s, .. } = *measurement;
    if is_much(foreign_cpu_s, cpus) {
        return used(foreign_cpu_s, measurement.stolen_cpu_s, "a CPU");
    }
    // Clients may have so many CPUs that what the server's lacks is little of the sum.
    if is_much(foreign_server_cpu_s, servers) {
        let stolen = measurement.stolen_server_cpu_s;
        return used(foreign_server_cpu_s, stolen, "a CPU of the server's");
    }
    // A core that does other work besides is slower, and takes more CPU time for the same.
    if is_much(sibling_cpu_s, servers) {
        return used(sibling_cpu_s, 0.0, "the other hardware thread of a core of the server's");
    }
    None
}

/// How many of the arrivals that were `due`, independent of each other, have to finish.
fn finished_min(due: f64) -> f64 {
    (due - ARRIVALS_DEVIATIONS * due.sqrt()).max(due * FINISHED_SHARE_MIN)
}

/// The rounds on which a result stands.
pub struct Basis<'a> {
    /// The accepted rounds, or all of them where too few were accepted.
    pub rounds: Vec<&'a Pair>,
    /// Why the result must be marked as rejected, if so.
    pub objection: Option<String>,
}

/// How a metric is read off a measurement.
pub type Of = fn(&Measurement) -> Option<f64>;

impl Basis<'_> {
    /// The status of the result.
    pub fn status(&self) -> Status {
        if self.objection.is_some() { Status::Rejected } else { Status::Ok }
    }

    /// What `subject` measured in the rounds that count.
    pub fn values(&self, subject: &str, of: Of) -> Vec<f64> {
        self.rounds.iter().filter_map(|pair| value(pair, subject, of)).collect()
    }

    /// What a subject and its rival measured in the rounds that count.
    pub fn both(&self, [subject, rival]: [&str; 2], of: Of) -> Vec<(f64, f64)> {
        let both = |pair: &&Pair| Some((value(pair, subject, of)?, value(pair, rival, of)?));
        self.rounds.iter().filter_map(both).collect()
    }
}

fn value(pair: &Pair, subject: &str, of: Of) -> Option<f64> {
    of(pair.measurements.iter().find(|measurement| measurement.subject == subject)?)
}

/// Picks the rounds on which what is said of these `subjects` can stand: those in which each of
/// them counts, whatever became of others.
pub fn basis<'a>(pairs: &'a [Pair], subjects: &[&str]) -> Basis<'a> {
    let counts = |pair: &&Pair| pair.objection(subjects).is_none();
    let accepted: Vec<&Pair> = pairs.iter().filter(counts).collect();
    if !accepted.is_empty() && accepted.len() as f64 >= pairs.len() as f64 * ACCEPTED_SHARE_MIN {
        return Basis { rounds: accepted, objection: None };
    }
    let first = pairs.iter().find_map(|pair| pair.objection(subjects)).unwrap_or("none was taken");
    let objection = format!(
        "{} of {} rounds rejected; the first: {first}",
        pairs.len() - accepted.len(),
        pairs.len()
    );
    Basis { rounds: pairs.iter().collect(), objection: Some(objection) }
}

/// The row of a subject, compared with its rival in the rounds that count for both of them.
pub fn compared(row: Row, pairs: &[Pair], both: [&str; 2], of: Of) -> Row {
    let basis = basis(pairs, &both);
    let ratio = stats::ratio(&basis.both(both, of));
    let row = Row {
        status: if row.reason.is_some() { row.status } else { basis.status() },
        reason: row.reason.clone().or(basis.objection),
        ..row
    };
    with_ratio(row, both[1], ratio)
}

/// The row with its ratio to `rival`, if there is one.
pub fn with_ratio(row: Row, rival: &str, ratio: Option<Ratio>) -> Row {
    Row {
        rival: Some(rival.to_owned()),
        ratio: ratio.map(|ratio| ratio.value),
        ratio_low: ratio.and_then(|ratio| ratio.low()),
        ratio_high: ratio.and_then(|ratio| ratio.high()),
        ..row
    }
}

/// CPU time that was spent on the CPUs of a window by none of ours. `busy` is known but to
/// `resolution`, which counts for short windows.
pub fn foreign(busy: Duration, ours: Duration, resolution: Duration) -> Duration {
    busy.saturating_sub(ours).saturating_sub(resolution)
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn sound(subject: &str) -> Measurement {
        Measurement {
            subject: subject.to_owned(),
            wall_s: 1.0,
            operations: 1000,
            cpu_s: 0.99,
            client_cpu_s: 0.5,
            foreign_cpu_s: 0.02,
            ..Measurement::default()
        }
    }

    fn reason(change: impl FnOnce(&mut Measurement)) -> Option<String> {
        let mut measurement = sound("accelerated");
        change(&mut measurement);
        let pair = judge("s", 0, vec![sound("native"), measurement]);
        assert_eq!(pair.status == Status::Rejected, pair.reason.is_some());
        pair.reason
    }

    #[test]
    fn order_is_abba() {
        assert_eq!(order(2, 0), [0, 1]);
        assert_eq!(order(2, 1), [1, 0]);
        assert_eq!(order(3, 2), [0, 1, 2]);
        assert_eq!(order(3, 3), [2, 1, 0]);
    }

    #[test]
    fn makes_up_for_rejected_rounds_within_bounds() {
        let ok = judge("s", 0, vec![sound("native")]);
        let mut bad = sound("native");
        bad.resumed = 1;
        let bad = judge("s", 1, vec![bad]);
        let rounds = Rounds { least: 2, most: 3 };
        assert!(rounds.go_on(&[], || true));
        assert!(rounds.go_on(&[bad.clone(), ok.clone()], || true));
        assert!(!rounds.go_on(&[ok.clone(), ok], || true));
        assert!(!rounds.go_on(&[bad.clone(), bad.clone(), bad], || true));
    }

    #[test]
    fn goes_on_until_precise_within_bounds() {
        let ok = judge("s", 0, vec![sound("native")]);
        let rounds = Rounds { least: 1, most: 3 };
        assert!(rounds.go_on(from_ref(&ok), || false));
        assert!(!rounds.go_on(from_ref(&ok), || true));
        assert!(!rounds.go_on(&[ok.clone(), ok.clone(), ok], || false));
    }

    #[test]
    fn precise_is_what_needs_no_more_rounds() {
        assert!(is_precise(&[[(1.00, 1.0), (1.01, 1.0), (1.02, 1.0)]; 2].concat()));
        assert!(!is_precise(&[[(1.00, 1.0), (1.01, 1.0), (1.04, 1.0)]; 2].concat()));
        assert!(is_precise(&[(1.0, 0.0)]));
        // Five rounds that agree have no interval all the same.
        assert!(!is_precise(&[(1.0, 1.0); 5]));
        assert!(is_precise(&[(1.0, 1.0); 6]));
    }

    #[test]
    fn accepts_a_sound_round() {
        assert_eq!(reason(|_| {}), None);
    }

    #[test]
    fn accepts_arrivals_that_are_few_by_accident() {
        assert_eq!(reason(|m| m.arrivals_due = Some(1080.0)), None);
        assert_eq!(reason(|m| (m.arrivals_due, m.operations) = (Some(20.0), 15)), None);
    }

    #[test]
    fn accepts_an_idle_server_with_an_idle_client() {
        assert_eq!(reason(|m| (m.cpu_s, m.client_cpu_s) = (0.3, 0.3)), None);
    }

    #[test]
    fn accepts_what_hardly_disturbs() {
        assert_eq!(reason(|m| (m.sibling_cpu_s, m.throttled_s) = (0.09, 0.009)), None);
    }

    #[test]
    fn accepts_a_busy_client_with_a_busy_server() {
        assert_eq!(reason(|m| m.client_cpu_s = 0.99), None);
    }

    #[test]
    fn shares_are_those_of_all_cpus() {
        let many = |m: &mut Measurement| (m.server_cpus, m.client_cpus) = (4, 2);
        assert_eq!(reason(|m| (m.cpu_s, m.client_cpu_s, ()) = (3.9, 1.2, many(m))), None);
        let reason = reason(|m| (m.cpu_s, m.client_cpu_s, ()) = (2.0, 1.98, many(m))).unwrap();
        assert!(reason.contains("99 % of its CPU, the server 50 %"), "{reason}");
    }

    #[test]
    fn strangers_on_the_servers_cpus_are_noticed_beside_many_clients() {
        let beside = |foreign: f64| {
            reason(|m| {
                (m.server_cpus, m.client_cpus) = (1, 15);
                (m.foreign_cpu_s, m.foreign_server_cpu_s) = (0.7, foreign);
            })
        };
        assert_eq!(beside(0.05), None);
        let told = beside(0.7).unwrap();
        let expected = "accelerated: other processes used 70 % of a CPU of the server's";
        assert_eq!(told, expected);
    }

    #[test]
    fn rejects_each_flaw_and_names_it() {
        type Flaw = fn(&mut Measurement);
        let cases: [(Flaw, &str); 14] = [
            (
                |m| m.arrivals_due = Some(2000.0),
                "of 2000 handshakes that were due, 1000 were finished",
            ),
            (
                |m| m.arrivals_due = Some(1120.0),
                "of 1120 handshakes that were due, 1000 were finished",
            ),
            (|m| _ = m.errors.insert("reset".to_owned(), 2), "2 connections failed (2 reset)"),
            (|m| m.resumed = 5, "5 handshakes resumed"),
            (|m| m.operations = 0, "nothing finished"),
            (|m| m.cpu_s = 0.0, "the server used no CPU"),
            (|m| m.foreign_cpu_s = 0.3, "accelerated: other processes used 30 % of a CPU"),
            (
                |m| (m.foreign_cpu_s, m.stolen_cpu_s) = (0.3, 0.3),
                "accelerated: the hypervisor took 30 % of a CPU",
            ),
            (
                |m| (m.foreign_cpu_s, m.stolen_cpu_s) = (0.3, 0.2),
                "other processes used 10 % of a CPU, the hypervisor took 20 % of a CPU",
            ),
            (
                |m| {
                    (m.server_cpus, m.client_cpus) = (1, 15);
                    (m.foreign_server_cpu_s, m.stolen_server_cpu_s) = (0.3, 0.3);
                },
                "accelerated: the hypervisor took 30 % of a CPU of the server's",
            ),
            (
                |m| m.sibling_cpu_s = 0.6,
                "other processes used 60 % of the other hardware thread of a core of the server's",
            ),
            (
                |m| m.throttled_s = 0.08,
                "the CPU limit of this container or service stopped its CPUs for 80 ms; raise it",
            ),
            (
                |m| (m.client_cpus, m.client_thread_cpu_s, m.cpu_s) = (8, 0.98, 0.6),
                "the client was the bottleneck (98 % of its CPU, the server 60 %)",
            ),
            (
                |m| (m.client_cpu_s, m.cpu_s) = (0.99, 0.6),
                "the client was the bottleneck (99 % of its CPU, the server 60 %)",
            ),
        ];
        for (change, expected) in cases {
            let reason = reason(change).unwrap();
            assert!(reason.starts_with("accelerated: "), "{reason}");
            assert!(reason.contains(expected), "{reason}");
        }
    }

    #[test]
    fn basis_drops_rejected_rounds_while_enough_are_left() {
        let ok = judge("s", 0, vec![sound("native")]);
        let mut bad = sound("native");
        bad.resumed = 1;
        let bad = judge("s", 1, vec![bad]);
        let enough = [ok.clone(), bad.clone()];
        let basis_of_enough = basis(&enough, &["native"]);
        assert_eq!(basis_of_enough.rounds.len(), 1);
        assert_eq!(basis_of_enough.objection, None);
        let few = [ok, bad.clone(), bad];
        let basis_of_few = basis(&few, &["native"]);
        assert_eq!(basis_of_few.rounds.len(), 3);
        assert!(basis_of_few.objection.unwrap().starts_with("2 of 3 rounds rejected"));
    }

    #[test]
    fn what_disturbs_one_leaves_the_others_as_they_are() {
        let round = |round: u32| {
            let mut disturbed = sound("async");
            disturbed.resumed = 1;
            judge("s", round, vec![sound("native"), disturbed, sound("accelerated")])
        };
        let rounds = [0, 1, 2].map(round);
        assert_eq!(rounds[0].status, Status::Rejected);
        let of = |subjects: &[&str]| basis(&rounds, subjects);
        assert_eq!(of(&["accelerated", "native"]).objection, None);
        assert_eq!(of(&["native"]).objection, None);
        for subjects in [&["async"][..], &["async", "native"], &["accelerated", "async"]] {
            let told = of(subjects).objection.unwrap();
            assert!(told.starts_with("3 of 3 rounds rejected; the first: async: 1 hand"), "{told}");
        }
    }

    #[test]
    fn foreign_time_is_never_negative() {
        let second = Duration::from_secs(1);
        assert_eq!(foreign(second, 2 * second, Duration::ZERO), Duration::ZERO);
        assert_eq!(foreign(3 * second, 2 * second, second / 4), second * 3 / 4);
    }
}
