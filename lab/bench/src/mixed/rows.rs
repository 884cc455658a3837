//! From rounds to rows: requests, their cost, the clock, and what is kept of them as the share of
//! ChaCha20-Poly1305 grows.

use widelane_cpu::Room;
use widelane_results::{Measurement, Pair, Results, Row, Status};

use super::{Implementation, Plan};
use crate::compare::CompareError;
use crate::compare::rows::{REQUESTS, SERVER_CPU_PER_REQUEST, rate, server_cpu, without_counters};
use crate::pairs::{self, ACCEPTED_SHARE_MIN, Basis, Of};
use crate::server::ServerError;
use crate::stats::median;

const KEPT: (&str, &str) = ("requests_kept", "1");
const CLOCK: (&str, &str) = ("server_clock", "MHz");

/// What one window gave.
pub struct Sample {
    /// The figures.
    pub measurement: Measurement,
    /// The room that did ChaCha20-Poly1305, or AES-128-GCM where there was none; nothing where
    /// OpenSSL did.
    pub room: Option<Room>,
    /// The clock of the server's CPU.
    pub clock_mhz: Option<f64>,
    /// Whether a process of the server has counters of the provider.
    pub has_counters: bool,
}

/// The rounds of all shares.
pub struct Record {
    shares: Vec<Share>,
    subjects: &'static [Implementation],
}

/// The rounds of one share.
struct Share {
    /// Percent of ChaCha20-Poly1305.
    percent: u32,
    scenario: String,
    pairs: Vec<Pair>,
    /// What was seen of each implementation, by its place.
    seen: [Vec<Seen>; Implementation::ALL.len()],
}

/// What was seen of one implementation in one round.
struct Seen {
    round: u32,
    room: Option<Room>,
    clock_mhz: Option<f64>,
    has_counters: bool,
}

impl Record {
    /// An empty record of what is planned.
    pub fn new(plan: &Plan) -> Self {
        let connections = plan.connections;
        // Without lane CPUs the key is left out.
        let key = if plan.lane_cpus.is_some() { format!("{}/", plan.key()) } else { String::new() };
        let share = |&percent: &u32| Share {
            percent,
            scenario: format!("nginx/mixed/{key}chacha20-poly1305-{percent}/c{connections}"),
            pairs: Vec::new(),
            seen: Default::default(),
        };
        Record { shares: plan.shares.iter().map(share).collect(), subjects: plan.implementations() }
    }

    /// Takes in one round: samples with the place of their share.
    pub fn push(&mut self, round: u32, samples: Vec<(usize, Sample)>) {
        let mut measurements = vec![Vec::new(); self.shares.len()];
        for (share, Sample { measurement, room, clock_mhz, has_counters }) in samples {
            let named = |one: &Implementation| one.name() == measurement.subject;
            if let Some(place) = Implementation::ALL.iter().position(named) {
                let seen = Seen { round, room, clock_mhz, has_counters };
                self.shares[share].seen[place].push(seen);
            }
            measurements[share].push(measurement);
        }
        for (share, measurements) in self.shares.iter_mut().zip(measurements) {
            share.pairs.push(pairs::judge(&share.scenario, round, measurements));
        }
    }

    /// Why part of the last round does not count, if so.
    pub fn objection(&self) -> Option<&str> {
        self.shares.iter().find_map(|share| share.pairs.last()?.reason.as_deref())
    }

    /// Writes rows, pairs and notes to `results`.
    pub fn write(self, results: &mut Results) {
        let Some(first) = self.shares.first().filter(|first| !first.pairs.is_empty()) else {
            return;
        };
        for share in &self.shares {
            for (place, &implementation) in self.subjects.iter().enumerate() {
                let basis = share.basis(implementation);
                let blank = share.blank(place, implementation, &basis);
                for (metric, of) in
                    [(REQUESTS, rate as Of), (SERVER_CPU_PER_REQUEST, server_cpu as Of)]
                {
                    results.rows.push(compared(&blank, implementation, share, metric, of));
                }
                let kept = kept(share, first, implementation);
                // What is kept can be relied on no more than what it is a part of.
                let of_first = first.basis(implementation).objection;
                let of_first = of_first.map(|objection| format!("of the first share, {objection}"));
                let of_kept = blank.reason.clone().or(of_first).or(kept.objection);
                let clock = share.clock(place, &basis);
                let row = |(metric, unit): (&str, &str), value, objection: Option<String>| Row {
                    metric: metric.to_owned(),
                    unit: unit.to_owned(),
                    value,
                    status: status(&objection),
                    reason: objection,
                    ..blank.clone()
                };
                results.rows.push(row(KEPT, kept.value, of_kept));
                if clock.is_some() {
                    results.rows.push(row(CLOCK, clock, blank.reason.clone()));
                }
            }
        }
        for (place, &implementation) in self.subjects.iter().enumerate() {
            results.note(self.remark(place, implementation));
        }
        results.pairs.extend(self.shares.into_iter().flat_map(|share| share.pairs));
    }

    /// The figures of the published experiment: what is kept of the requests, and at which clock.
    /// Nothing where a share cannot be relied on.
    fn remark(&self, place: usize, implementation: Implementation) -> Option<String> {
        let part = |share: &Share| {
            let basis = share.basis(implementation);
            let kept = kept(share, &self.shares[0], implementation);
            if basis.objection.is_some() || kept.objection.is_some() {
                return None;
            }
            let kept = kept.value?;
            let clock = share.clock(place, &basis);
            let clock = clock.map_or(String::new(), |mhz| format!(" at {mhz:.0} MHz"));
            let room = share.room(place, &basis).map_or("OpenSSL's own", |room| room.name());
            let percent = share.percent;
            Some(format!("{percent} %: {:.1} %{clock} ({room})", 100.0 * kept))
        };
        let parts: Option<Vec<String>> = self.shares.iter().map(part).collect();
        Some(format!(
            "{}: requests kept as the share of ChaCha20-Poly1305 grows: {}.",
            implementation.name(),
            parts?.join(", ")
        ))
    }
}

impl Share {
    /// The rounds on which the figures of one implementation stand.
    fn basis(&self, implementation: Implementation) -> Basis<'_> {
        pairs::basis(&self.pairs, &[implementation.name()])
    }

    /// What was seen of one implementation in the rounds that count.
    fn seen(&self, place: usize, basis: &Basis<'_>) -> impl Iterator<Item = &Seen> {
        let counts = move |seen: &&Seen| basis.rounds.iter().any(|pair| pair.round == seen.round);
        self.seen[place].iter().filter(counts)
    }

    fn room(&self, place: usize, basis: &Basis<'_>) -> Option<Room> {
        self.seen(place, basis).find_map(|seen| seen.room)
    }

    fn clock(&self, place: usize, basis: &Basis<'_>) -> Option<f64> {
        let clocks = self.seen(place, basis).filter_map(|seen| seen.clock_mhz);
        median(&clocks.collect::<Vec<_>>())
    }

    /// What all rows of one implementation share.
    fn blank(&self, place: usize, implementation: Implementation, basis: &Basis<'_>) -> Row {
        let room = self.room(place, basis);
        let objection =
            basis.objection.clone().or_else(|| self.unaccelerated(place, implementation, basis));
        Row {
            scenario: self.scenario.clone(),
            subject: implementation.name().to_owned(),
            room: room.map(|room| room.name().to_owned()),
            status: status(&objection),
            reason: objection,
            ..Row::default()
        }
    }

    /// Why an implementation of ours does not count as accelerated, if so.
    fn unaccelerated(
        &self,
        place: usize,
        implementation: Implementation,
        basis: &Basis<'_>,
    ) -> Option<String> {
        let is_native = implementation == Implementation::Native;
        let lacks = !is_native && self.seen(place, basis).any(|seen| !seen.has_counters);
        lacks.then(|| without_counters(implementation.name()))
    }
}

fn status(objection: &Option<String>) -> Status {
    if objection.is_some() { Status::Rejected } else { Status::Ok }
}

/// A metric of an implementation, held against the server as installed.
fn compared(
    blank: &Row,
    implementation: Implementation,
    share: &Share,
    (metric, unit): (&str, &str),
    of: Of,
) -> Row {
    let row = Row {
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        value: median(&share.basis(implementation).values(implementation.name(), of)),
        ..blank.clone()
    };
    match implementation {
        Implementation::Native => row,
        _ => {
            let both = [implementation, Implementation::Native].map(Implementation::name);
            pairs::compared(row, &share.pairs, both, of)
        }
    }
}

/// The row of a server that this machine lacks, if that is what went wrong.
pub fn missing(error: &CompareError) -> Option<Row> {
    let CompareError::Server(error) = error else { return None };
    let lacks = matches!(
        error,
        ServerError::NotInstalled(_)
            | ServerError::NoModule { .. }
            | ServerError::Incomplete { .. }
    );
    lacks.then(|| Row {
        scenario: "nginx/mixed".to_owned(),
        subject: Implementation::Open.name().to_owned(),
        metric: SERVER_CPU_PER_REQUEST.0.to_owned(),
        unit: SERVER_CPU_PER_REQUEST.1.to_owned(),
        status: Status::NotApplicable,
        reason: Some(error.to_string()),
        ..Row::default()
    })
}

/// What is kept of the requests, and why that cannot be relied on, if so.
struct Kept {
    value: Option<f64>,
    objection: Option<String>,
}

/// Requests under a share over those of the same rounds under the first: the median. It takes half
/// of the rounds, as anything else does.
fn kept(share: &Share, first: &Share, implementation: Implementation) -> Kept {
    let rates = |share: &Share| -> Vec<(u32, f64)> {
        let counts = |pair: &&Pair| pair.objection(&[implementation.name()]).is_none();
        let sound = share.pairs.iter().filter(counts);
        sound
            .filter_map(|pair| {
                let own = pair.measurements.iter().find(|m| m.subject == implementation.name());
                Some((pair.round, rate(own?)?))
            })
            .collect()
    };
    let before = rates(first);
    let of_round = |round: u32| before.iter().find(|(own, _)| *own == round).map(|(_, r)| *r);
    let ratios: Vec<f64> = rates(share)
        .into_iter()
        .filter_map(|(round, rate)| Some(rate / of_round(round)?))
        .collect();
    let taken = share.pairs.len();
    let is_enough = !ratios.is_empty() && ratios.len() as f64 >= taken as f64 * ACCEPTED_SHARE_MIN;
    let objection = format!(
        "only {} of {taken} rounds count under this share and under the first",
        ratios.len()
    );
    Kept { value: median(&ratios), objection: (!is_enough).then_some(objection) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use widelane_cpu::policy::LaneCpus;

    use super::*;

    fn plan(lane_cpus: Option<LaneCpus>) -> Plan {
        Plan {
            shares: vec![0, 100],
            connections: 32,
            requests: 10,
            warm_up: Duration::ZERO,
            window: Duration::ZERO,
            rounds: 8,
            port_first: None,
            lane_cpus,
        }
    }

    fn sample(implementation: Implementation, operations: u64) -> Sample {
        let measurement = Measurement {
            subject: implementation.name().to_owned(),
            wall_s: 1.0,
            operations,
            cpu_s: 0.99,
            client_cpu_s: 0.2,
            ..Measurement::default()
        };
        let room = (implementation == Implementation::Open).then_some(Room::Ifma512);
        let has_counters = implementation != Implementation::Native;
        Sample { measurement, room, clock_mhz: Some(2400.0), has_counters }
    }

    #[test]
    fn what_is_kept_is_told_of_each_share_and_server() {
        let plan = plan(None);
        let mut record = Record::new(&plan);
        for round in 0..8 {
            let of = |one: &_| [(0, sample(*one, 1000)), (1, sample(*one, 930))];
            record.push(round, plan.implementations().iter().flat_map(of).collect());
        }
        let mut results = Results::default();
        record.write(&mut results);
        assert_eq!(results.rows.len(), 2 * 4 * 4);
        assert_eq!(results.pairs.len(), 2 * 8);
        let row = |metric: &str, subject: &str| {
            let wanted = |row: &&Row| {
                row.scenario == "nginx/mixed/chacha20-poly1305-100/c32"
                    && row.metric == metric
                    && row.subject == subject
            };
            results.rows.iter().find(wanted).unwrap()
        };
        assert_eq!(row("requests_kept", "native").value, Some(0.93));
        assert_eq!(row("server_clock", "light-only").value, Some(2400.0));
        let rate = row("requests_per_second", "accelerated");
        assert_eq!((rate.ratio, rate.rival.as_deref()), (Some(1.0), Some("native")));
        assert_eq!(rate.room.as_deref(), Some("ifma512"));
        assert_eq!(row("server_cpu_per_request", "native").rival, None);
        let note = &results.notes[1];
        assert!(note.starts_with("accelerated: ") && note.contains("100 %: 93.0 %"), "{note}");
    }

    #[test]
    fn what_ran_without_the_provider_is_rejected() {
        let plan = plan(None);
        let mut record = Record::new(&plan);
        let of = |one: &_| {
            let has_counters = *one != Implementation::Open;
            [0, 1].map(|share| (share, Sample { has_counters, ..sample(*one, 1000) }))
        };
        record.push(0, plan.implementations().iter().flat_map(of).collect());
        let mut results = Results::default();
        record.write(&mut results);
        for row in &results.rows {
            let is_rejected = row.status == Status::Rejected;
            assert_eq!(is_rejected, row.subject == Implementation::Open.name(), "{row:?}");
        }
    }

    /// Results of eight rounds, in the first `rejected` of which the first share does not count
    /// and has another room and clock.
    fn results_with(rejected: u32) -> Results {
        let plan = plan(None);
        let mut record = Record::new(&plan);
        for round in 0..8 {
            let of = |one: &_| {
                let mut first = sample(*one, 1000);
                if round < rejected {
                    first.measurement.resumed = 1;
                    (first.room, first.clock_mhz) = (Some(Room::Portable), Some(1000.0));
                }
                [(0, first), (1, sample(*one, 930))]
            };
            record.push(round, plan.implementations().iter().flat_map(of).collect());
        }
        let mut results = Results::default();
        record.write(&mut results);
        results
    }

    fn row<'a>(results: &'a Results, percent: u32, metric: &str) -> &'a Row {
        let scenario = format!("nginx/mixed/chacha20-poly1305-{percent}/c32");
        let mut rows = results.rows.iter().filter(|row| row.subject == "accelerated");
        rows.find(|row| row.scenario == scenario && row.metric == metric).unwrap()
    }

    #[test]
    fn what_is_kept_of_a_rejected_share_is_rejected() {
        let results = results_with(5);
        let kept = row(&results, 100, "requests_kept");
        assert_eq!(kept.status, Status::Rejected);
        let reason = kept.reason.as_deref().unwrap();
        assert!(reason.starts_with("of the first share, 5 of 8 rounds rejected"), "{reason}");
        assert_eq!(row(&results, 100, "server_clock").status, Status::Ok);
        assert_eq!(row(&results, 100, "requests_per_second").status, Status::Ok);
        assert!(results.notes.is_empty(), "{:?}", results.notes);
        assert_eq!(row(&results_with(4), 100, "requests_kept").status, Status::Ok);
    }

    #[test]
    fn one_bad_server_spoils_nothing_of_the_others() {
        let plan = plan(None);
        let mut record = Record::new(&plan);
        for round in 0..8 {
            let of = |one: &_| {
                let mut both = [sample(*one, 1000), sample(*one, 930)];
                let is_bad = u64::from(*one == Implementation::Light256);
                both.iter_mut().for_each(|it| it.measurement.resumed = is_bad);
                both.into_iter().enumerate()
            };
            record.push(round, plan.implementations().iter().flat_map(of).collect());
        }
        let mut results = Results::default();
        record.write(&mut results);
        for row in &results.rows {
            assert_eq!(row.status == Status::Rejected, row.subject == "light-256", "{row:?}");
        }
        assert_eq!(results.notes.len(), 3, "{:?}", results.notes);
    }

    #[test]
    fn what_rests_on_too_few_rounds_of_both_shares_is_rejected() {
        let plan = plan(None);
        // Half of the rounds count under each share, and `common` of them under both.
        let kept = |common: u32| {
            let mut record = Record::new(&plan);
            for round in 0..8 {
                let of = |one: &_| {
                    let [mut first, mut other] = [sample(*one, 1000), sample(*one, 930)];
                    first.measurement.resumed = u64::from(round >= 4);
                    let counts = round < common || (4..8 - common).contains(&round);
                    other.measurement.resumed = u64::from(!counts);
                    [(0, first), (1, other)]
                };
                record.push(round, plan.implementations().iter().flat_map(of).collect());
            }
            let mut results = Results::default();
            record.write(&mut results);
            row(&results, 100, "requests_kept").clone()
        };
        let (few, none, enough) = (kept(1), kept(0), kept(4));
        assert_eq!((enough.status, enough.value), (Status::Ok, Some(0.93)));
        let reason = "only 1 of 8 rounds count under this share and under the first";
        assert_eq!((few.status, few.reason.as_deref()), (Status::Rejected, Some(reason)));
        assert_eq!((none.status, none.value), (Status::Rejected, None));
    }

    #[test]
    fn rooms_and_clocks_are_those_of_the_rounds_that_count() {
        let results = results_with(4);
        let clock = row(&results, 0, "server_clock");
        assert_eq!((clock.value, clock.room.as_deref()), (Some(2400.0), Some("ifma512")));
    }

    #[test]
    fn with_lane_cpus_there_is_one_more_server_and_the_key_is_told() {
        let plan = plan("1".parse().ok());
        let mut record = Record::new(&plan);
        for round in 0..8 {
            let of = |one: &_| [(0, sample(*one, 1000)), (1, sample(*one, 1000))];
            record.push(round, plan.implementations().iter().flat_map(of).collect());
        }
        let mut results = Results::default();
        record.write(&mut results);
        assert_eq!(results.rows.len(), 2 * 5 * 4);
        let row = results.rows.iter().find(|row| row.subject == "lane-cpus").unwrap();
        assert_eq!(row.scenario, "nginx/mixed/rsa2048/chacha20-poly1305-0/c32");
        assert_eq!(row.rival.as_deref(), Some("native"));
    }

    #[test]
    fn what_the_machine_lacks_is_a_row() {
        let row = missing(&ServerError::NotInstalled("nginx").into()).unwrap();
        assert_eq!(
            (row.status, row.metric.as_str()),
            (Status::NotApplicable, SERVER_CPU_PER_REQUEST.0)
        );
        assert!(row.reason.unwrap().contains("apt-get install nginx"));
        assert_eq!(missing(&CompareError::Interrupted), None);
    }

    #[test]
    fn without_rounds_there_is_nothing_to_write() {
        let mut results = Results::default();
        Record::new(&plan(None)).write(&mut results);
        assert_eq!(results, Results::default());
    }
}
