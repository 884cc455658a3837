//! From rounds to rows: medians, ratios, histograms, and what must be said about them.

use hdrhistogram::Histogram;
use widelane_cpu::Room;
use widelane_results::{
    Bucket, Histogram as ResultHistogram, HistogramKind, Measurement, Operations, Pair, Results,
    Row, Status,
};

use super::Work;
use super::window::Sample;
use crate::pairs::{self, Basis, Of};
use widelane_host::counters::Counts;

use crate::server::Subject;
use crate::stats::{latency_buckets, median, trimmed};

/// Name and unit of the server's CPU time per 10^9 bytes of bodies.
pub const SERVER_CPU_PER_GB: (&str, &str) = ("server_cpu_per_gb", "ms");
/// Name and unit of bodies by time.
pub const GOODPUT: (&str, &str) = ("goodput", "Gbit/s");
/// Name and unit of the same where every body comes within a limit.
pub const GOODPUT_WITHIN: (&str, &str) = ("goodput_within_limit", "Gbit/s");
const BYTES_PER_GB: f64 = 1e9;
pub const BITS_PER_GBIT: f64 = 1e9;

/// Name and unit of whole answers by time, and of the server's CPU time for each.
pub const REQUESTS: (&str, &str) = ("requests_per_second", "1/s");
pub const SERVER_CPU_PER_REQUEST: (&str, &str) = ("server_cpu_per_request", "us");

/// Name and unit of the server's CPU time per full handshake.
pub const SERVER_CPU: (&str, &str) = ("server_cpu_per_handshake", "us");
/// Name and unit of full handshakes by time.
pub const RATE: (&str, &str) = ("handshakes_per_second", "1/s");
const LATENCY_P50: (&str, &str) = ("latency_p50", "us");
const LATENCY_P99: (&str, &str) = ("latency_p99", "us");
/// Name and unit of how many operations one run of a kernel does, on average.
const MEAN_FILL: (&str, &str) = ("jobs_per_batch", "1");

/// Names and units of what waits of an idle event loop were: how many for one handshake, how long,
/// and what company one brought.
const SHORT_WAITS: (&str, &str) = ("short_waits_per_handshake", "1");
const SHORT_WAIT: (&str, &str) = ("short_wait_mean", "us");
const SHORT_WAIT_COMPANY: (&str, &str) = ("short_wait_company", "1");
/// Name and unit of how many operations of a handshake another worker has done.
const LENT: (&str, &str) = ("jobs_lent_per_handshake", "1");

/// Connections whose operations have lanes: from this many on, batches must have formed, or the
/// server was not accelerated.
const BATCHES_EXPECTED_FROM: usize = 64;

const METRICS: [((&str, &str), Of); 4] = [
    (SERVER_CPU, server_cpu),
    (RATE, rate),
    (LATENCY_P50, latency_p50),
    (LATENCY_P99, |m| m.latency_us_p99),
];

const DOWNLOAD_METRICS: [((&str, &str), Of); 2] = [
    (SERVER_CPU_PER_GB, server_cpu_per_gb),
    (GOODPUT, |m| (m.wall_s > 0.0).then(|| m.bytes as f64 * 8.0 / BITS_PER_GBIT / m.wall_s)),
];

const PAGE_METRICS: [((&str, &str), Of); 2] =
    [(SERVER_CPU_PER_REQUEST, server_cpu), (REQUESTS, rate)];

fn server_cpu_per_gb(m: &Measurement) -> Option<f64> {
    (m.bytes > 0).then(|| m.cpu_s * 1e3 / (m.bytes as f64 / BYTES_PER_GB))
}

/// Operations by time.
pub fn rate(m: &Measurement) -> Option<f64> {
    (m.wall_s > 0.0).then(|| m.operations as f64 / m.wall_s)
}

/// The server's CPU time per operation.
pub fn server_cpu(m: &Measurement) -> Option<f64> {
    (m.operations > 0).then(|| m.cpu_s * 1e6 / m.operations as f64)
}

fn latency_p50(m: &Measurement) -> Option<f64> {
    m.latency_us_p50
}

/// The rounds of one scenario as they come in.
pub struct Record {
    scenario: String,
    work: Work,
    subjects: Vec<Subject>,
    pairs: Vec<Pair>,
    /// Why none of it can be relied on, if so.
    pub doubt: Option<String>,
    /// Beside each pair: latencies and counts of its measurements, in the same order.
    extras: Vec<Vec<Extra>>,
}

/// What belongs to a measurement but not into the list of pairs.
struct Extra {
    subject: Subject,
    latency_ns: Option<Histogram<u64>>,
    counts: Option<Counts>,
    encrypt_then_mac: Option<bool>,
}

impl Record {
    /// An empty record; the first subject is the rival of the others.
    pub fn new(scenario: String, work: Work, subjects: impl Iterator<Item = Subject>) -> Self {
        let subjects = subjects.collect();
        let (pairs, extras) = (Vec::new(), Vec::new());
        Record { scenario, work, subjects, pairs, doubt: None, extras }
    }

    /// The rounds taken so far.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Takes in one round.
    pub fn push(&mut self, round: u32, samples: Vec<Sample>) {
        let (mut measurements, mut extras) = (Vec::new(), Vec::new());
        for sample in samples {
            measurements.push(sample.measurement);
            let Sample { subject, latency_ns, counts, encrypt_then_mac, .. } = sample;
            extras.push(Extra { subject, latency_ns, counts, encrypt_then_mac });
        }
        self.pairs.push(pairs::judge(&self.scenario, round, measurements));
        self.extras.push(extras);
    }

    /// Whether what is measured at this number of `connections` is known well enough: how long one
    /// client waits, or what many cost.
    pub fn is_precise(&self, connections: usize) -> bool {
        let of = match self.work {
            Work::Handshakes if connections == 1 => latency_p50,
            Work::Handshakes | Work::Page => server_cpu,
            Work::Download(_) => server_cpu_per_gb,
        };
        let compared = self.subjects.iter().filter(|subject| subject.is_ours());
        compared
            .flat_map(|subject| {
                self.rivals(*subject).into_iter().map(|rival| [subject.name(), rival.name()])
            })
            .all(|both| pairs::is_precise(&pairs::basis(&self.pairs, &both).both(both, of)))
    }

    /// Writes rows, pairs, histograms and notes to `results`. `meeting` is how many operations with
    /// lanes could meet: from [`BATCHES_EXPECTED_FROM`] on, batches must have formed.
    pub fn write(self, results: &mut Results, meeting: usize) {
        results.note(self.remark_on_mac());
        for subject in &self.subjects {
            let basis = pairs::basis(&self.pairs, &[subject.name()]);
            let (latency_ns, counts) = self.totals(*subject, &basis);
            let unaccelerated = unaccelerated(*subject, self.work, counts.as_ref(), meeting);
            // A download or a page is hardly a handshake: what is counted of those says nothing
            // about it.
            let counts = counts.filter(|_| self.work == Work::Handshakes);
            let objection = basis.objection.clone().or_else(|| self.doubt.clone());
            let context = Context {
                subject: *subject,
                objection: objection.or(unaccelerated),
                room: counts.as_ref().and_then(Counts::room).map(Room::name),
            };
            self.rows(&context, &basis, &mut results.rows);
            if let Some(counts) = &counts {
                results.rows.extend(self.fill_rows(&context, counts));
                results.histograms.extend(self.count_histograms(*subject, counts));
                results.operations.extend(self.operations(*subject, counts));
                self.remarks(*subject, counts).into_iter().for_each(|it| results.note(it));
            }
            results.histograms.extend(latency_ns.as_ref().map(|latency_ns| {
                self.histogram(*subject, HistogramKind::Latency, latency_buckets(latency_ns))
            }));
        }
        results.pairs.extend(self.pairs);
    }

    /// Latencies and counts of `subject`, summed over the rounds that count.
    fn totals(
        &self,
        subject: Subject,
        basis: &Basis<'_>,
    ) -> (Option<Histogram<u64>>, Option<Counts>) {
        let mut latency_ns: Option<Histogram<u64>> = None;
        let mut counts: Option<Counts> = None;
        let rounds = self.pairs.iter().zip(&self.extras);
        let counted = rounds.filter(|(pair, _)| basis.rounds.iter().any(|r| r.round == pair.round));
        for extra in counted.flat_map(|(_, extras)| extras) {
            if extra.subject == subject {
                match (&mut latency_ns, &extra.latency_ns) {
                    (Some(sum), Some(more)) => *sum += more,
                    (None, more) => latency_ns.clone_from(more),
                    (Some(_), None) => {}
                }
                if let Some(more) = &extra.counts {
                    counts.get_or_insert_default().add(more);
                }
            }
        }
        (latency_ns, counts)
    }

    fn rows(&self, context: &Context, basis: &Basis<'_>, rows: &mut Vec<Row>) {
        let metrics: &[((&str, &str), Of)] = match self.work {
            Work::Handshakes => &METRICS,
            Work::Download(_) => &DOWNLOAD_METRICS,
            Work::Page => &PAGE_METRICS,
        };
        for &((metric, unit), of) in metrics {
            let row = Row {
                scenario: self.scenario.clone(),
                subject: context.subject.name().to_owned(),
                room: context.room.map(str::to_owned),
                metric: metric.to_owned(),
                unit: unit.to_owned(),
                value: median(&basis.values(context.subject.name(), of)),
                status: context.status(),
                reason: context.reason(),
                ..Row::default()
            };
            let rivals: Vec<Subject> = self.rivals(context.subject);
            if rivals.is_empty() {
                rows.push(row.clone());
            }
            rows.extend(rivals.into_iter().map(|rival| {
                pairs::compared(
                    row.clone(),
                    &self.pairs,
                    [context.subject, rival].map(Subject::name),
                    of,
                )
            }));
        }
    }

    /// The subjects with which `subject` is compared: of ours all that are not, of those `Native`
    /// alone, which itself is compared with none; and what chooses its policy with what has one.
    fn rivals(&self, subject: Subject) -> Vec<Subject> {
        let is_rival = |rival: &Subject| match rival {
            Subject::Accelerated => subject == Subject::Auto,
            _ if subject.is_ours() => !rival.is_ours(),
            Subject::Native => subject != Subject::Native,
            _ => false,
        };
        self.subjects.iter().copied().filter(is_rival).collect()
    }

    fn fill_rows(&self, context: &Context, counts: &Counts) -> Vec<Row> {
        let row = |(metric, unit): (&str, &str), value| Row {
            scenario: self.scenario.clone(),
            subject: context.subject.name().to_owned(),
            room: context.room.map(str::to_owned),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            value: Some(value),
            status: context.status(),
            reason: context.reason(),
            ..Row::default()
        };
        let mean = counts.mean_fill().map(|jobs| row(MEAN_FILL, jobs));
        let waits = ShortWaits::of(counts).map(|waits| {
            [
                row(SHORT_WAITS, waits.per_handshake),
                row(SHORT_WAIT, waits.us),
                row(SHORT_WAIT_COMPANY, waits.company),
            ]
        });
        let lent = lent_per_handshake(counts).map(|lent| row(LENT, lent));
        mean.into_iter().chain(waits.into_iter().flatten()).chain(lent).collect()
    }

    /// How each kind of operation that occurred was carried out.
    fn operations(&self, subject: Subject, counts: &Counts) -> Vec<Operations> {
        let occurred = counts.kinds().filter(|(_, kind)| kind.operations() > 0);
        occurred
            .map(|(kind, counted)| Operations {
                scenario: self.scenario.clone(),
                subject: subject.name().to_owned(),
                kind: kind.name().to_owned(),
                lanes: counted.lanes as u32,
                batches: counted.runs,
                meetings: counted.meetings,
                batched: counted.batched,
                pooled: counted.pooled,
                pool_made: counted.pool_made,
                pool_expired: counted.pool_expired,
                single: counted.single,
                synchronous: counted.synchronous,
                delegated: counted.delegated,
            })
            .collect()
    }

    fn count_histograms(&self, subject: Subject, counts: &Counts) -> Vec<ResultHistogram> {
        let fills = counts.fills();
        let fill = (1..=counts.widest())
            .map(|jobs| Bucket { upto: jobs as f64, count: fills[jobs] })
            .collect();
        let wait = (counts.waits_by_bucket.iter().enumerate())
            .map(|(power, count)| Bucket { upto: (1u64 << power) as f64, count: *count });
        vec![
            self.histogram(subject, HistogramKind::BatchFill, fill),
            self.histogram(subject, HistogramKind::Wait, trimmed(wait.collect())),
        ]
    }

    fn histogram(
        &self,
        subject: Subject,
        kind: HistogramKind,
        buckets: Vec<Bucket>,
    ) -> ResultHistogram {
        let unit = if kind == HistogramKind::BatchFill { "jobs" } else { "us" };
        ResultHistogram {
            scenario: self.scenario.clone(),
            subject: subject.name().to_owned(),
            kind,
            unit: unit.to_owned(),
            buckets,
        }
    }

    /// What became of encrypt-then-MAC, where that was a question.
    fn remark_on_mac(&self) -> Option<String> {
        let told = || self.extras.iter().flatten().filter_map(|extra| extra.encrypt_then_mac);
        let negotiated = told().next()?;
        if told().any(|other| other != negotiated) {
            return Some(format!("{}: encrypt-then-MAC now and then.", self.scenario));
        }
        let (was, code) = match negotiated {
            true => ("was", "cipher and MAC run one after the other"),
            false => ("was not", "cipher and MAC run stitched together"),
        };
        // The same of all servers, as a rule: what they are does not matter here.
        let Work::Download(download) = self.work else { return None };
        let cipher = download.cipher.name();
        Some(format!("{cipher}: encrypt-then-MAC {was} negotiated, so that {code} in OpenSSL."))
    }

    /// What a reader should know about the counters.
    fn remarks(&self, subject: Subject, counts: &Counts) -> Vec<String> {
        let place = format!("{} ({subject})", self.scenario);
        let mut remarks = Vec::new();
        if counts.faults_detected > 0 {
            remarks.push(format!(
                "{place}: {} results failed their check and were made again; \
                 this points to faulty hardware or a defect, please report it.",
                counts.faults_detected
            ));
        }
        if counts.fallbacks > 0 {
            remarks.push(format!(
                "{place}: {} operations fell back to the default provider \
                 after an internal failure.",
                counts.fallbacks
            ));
        }
        if let Some(ShortWaits { per_handshake, us, company }) = ShortWaits::of(counts) {
            remarks.push(format!(
                "{place}: {per_handshake:.2} waits for other operations per handshake, of \
                 {us:.0} µs each; {company:.2} operations joined each."
            ));
        }
        if counts.device_jobs > 0 {
            remarks.push(format!(
                "{place}: the device did {:.2} operations per handshake; it was full for {}, \
                 {} failed or were wrong, {} were late, {} cost less in lanes.",
                counts.device_jobs as f64 / counts.handshakes.max(1) as f64,
                counts.device_full,
                counts.device_faults,
                counts.device_late,
                counts.device_dearer
            ));
        }
        if let Some(lent) = lent_per_handshake(counts) {
            remarks.push(format!(
                "{place}: {lent:.2} operations per handshake were done by another worker or the \
                 lane process; {} were taken back, {} refused.",
                counts.jobs_taken_back, counts.jobs_refused
            ));
        }
        remarks
    }
}

/// Waits of an idle event loop for company: how many for one handshake, and how long one was and
/// what it brought, on average.
struct ShortWaits {
    per_handshake: f64,
    us: f64,
    company: f64,
}

impl ShortWaits {
    /// Nothing where there were none.
    fn of(counts: &Counts) -> Option<Self> {
        let waits = (counts.short_waits > 0).then_some(counts.short_waits as f64)?;
        Some(ShortWaits {
            per_handshake: waits / counts.handshakes.max(1) as f64,
            us: counts.short_wait_ns_total as f64 / 1e3 / waits,
            company: counts.short_wait_company as f64 / waits,
        })
    }
}

/// How many operations of a handshake another worker has done; nothing where workers did not
/// combine.
fn lent_per_handshake(counts: &Counts) -> Option<f64> {
    let lent = (counts.jobs_lent > 0).then_some(counts.jobs_lent as f64)?;
    Some(lent / counts.handshakes.max(1) as f64)
}

/// What all rows of one subject share.
struct Context {
    subject: Subject,
    objection: Option<String>,
    room: Option<&'static str>,
}

impl Context {
    fn status(&self) -> Status {
        if self.objection.is_some() { Status::Rejected } else { Status::Ok }
    }

    fn reason(&self) -> Option<String> {
        self.objection.clone()
    }
}

/// Why a `subject` of ours whose processes have no counters does not count as accelerated.
pub fn without_counters(subject: &str) -> String {
    format!(
        "{subject}: no process of the server has counters of widelane; the server ran \
         unaccelerated (see what `widelane run` says about it)"
    )
}

/// Why a subject of ours does not count as accelerated, if so. A window of downloads may have no
/// handshake of its own: of those it takes counters, and nothing in them.
pub(super) fn unaccelerated(
    subject: Subject,
    work: Work,
    counts: Option<&Counts>,
    meeting: usize,
) -> Option<String> {
    if !subject.is_ours() {
        return None;
    }
    let Some(counts) = counts else {
        return Some(without_counters(subject.name()));
    };
    if work != Work::Handshakes {
        return None;
    }
    if counts.jobs() == 0 {
        return Some(format!(
            "{subject}: the counters show no public-key operation of widelane; \
             the server ran unaccelerated (see what `widelane run` says about it)"
        ));
    }
    // A device has each operation by itself.
    let is_batched = subject != Subject::Qat;
    if is_batched && meeting >= BATCHES_EXPECTED_FROM && counts.room().is_none() {
        return Some(format!(
            "{subject}: no batch was executed at {meeting} connections \
             ({} operations ran alone, {} at once, {} in the default provider)",
            counts.jobs_single, counts.jobs_synchronous, counts.jobs_delegated
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use widelane_loadgen::Cipher;

    use super::super::Download;
    use super::*;

    #[test]
    fn ours_are_compared_with_all_others_and_those_with_the_native_server() {
        use Subject::{Accelerated, Auto, HaproxyAwsLc, Native, NativeMasked};
        let subjects = [Native, NativeMasked, Accelerated, HaproxyAwsLc];
        let record = Record::new("s".to_owned(), Work::Handshakes, subjects.into_iter());
        assert_eq!(record.rivals(Accelerated), [Native, NativeMasked, HaproxyAwsLc]);
        assert_eq!(record.rivals(Auto), [Native, NativeMasked, Accelerated, HaproxyAwsLc]);
        assert_eq!(record.rivals(HaproxyAwsLc), [Native]);
        assert_eq!(record.rivals(NativeMasked), [Native]);
        assert_eq!(record.rivals(Native), []);
    }

    /// What a subject measured within a second; ours have `counts`.
    fn sample(subject: Subject, measurement: Measurement, counts: Option<Counts>) -> Sample {
        let named = Measurement { subject: subject.name().to_owned(), wall_s: 1.0, ..measurement };
        Sample {
            subject,
            measurement: named,
            latency_ns: None,
            counts: counts.filter(|_| subject.is_ours()),
            encrypt_then_mac: None,
        }
    }

    #[test]
    fn one_bad_subject_spoils_no_ratio_of_two_others() {
        let subjects = [Subject::Native, Subject::Accelerated, Subject::HaproxyAwsLc];
        let mut record = Record::new("s".to_owned(), Work::Page, subjects.into_iter());
        for round in 0..8 {
            let measured = |subject: Subject| {
                let measurement = Measurement {
                    operations: 1000,
                    cpu_s: if subject == Subject::Accelerated { 0.5 } else { 0.8 },
                    client_cpu_s: if subject == Subject::HaproxyAwsLc { 1.0 } else { 0.5 },
                    ..Measurement::default()
                };
                sample(subject, measurement, Some(Counts::default()))
            };
            record.push(round, subjects.map(measured).into());
        }
        let mut results = Results::default();
        record.write(&mut results, 0);
        let row = |subject: Subject, rival: Option<Subject>| {
            let rows = results.rows.iter().filter(|row| row.metric == SERVER_CPU_PER_REQUEST.0);
            let mut own = rows.filter(|row| row.subject == subject.name());
            own.find(|row| row.rival.as_deref() == rival.map(Subject::name)).unwrap()
        };
        assert_eq!(row(Subject::Native, None).status, Status::Ok);
        let sound = row(Subject::Accelerated, Some(Subject::Native));
        assert_eq!((sound.status, sound.ratio), (Status::Ok, Some(0.625)));
        assert!(sound.ratio_low.is_some());
        for (subject, rival) in [
            (Subject::Accelerated, Subject::HaproxyAwsLc),
            (Subject::HaproxyAwsLc, Subject::Native),
        ] {
            let row = row(subject, Some(rival));
            assert_eq!(row.status, Status::Rejected);
            let reason = row.reason.as_deref().unwrap();
            let told = "8 of 8 rounds rejected; the first: haproxy-aws-lc: the client was";
            assert!(reason.starts_with(told), "{reason}");
        }
        assert_eq!(row(Subject::Accelerated, Some(Subject::HaproxyAwsLc)).value, sound.value);
    }

    #[test]
    fn what_ran_without_the_provider_is_rejected_whatever_its_work() {
        let download = Download { cipher: Cipher::Aes128Gcm, bytes: 1 << 20 };
        let status = |work: Work, counts: Option<Counts>| {
            let subjects = [Subject::Native, Subject::Accelerated];
            let mut record = Record::new("s".to_owned(), work, subjects.into_iter());
            let measured = |subject: Subject| {
                let measurement =
                    Measurement { operations: 1, cpu_s: 0.99, ..Measurement::default() };
                sample(subject, measurement, counts.clone())
            };
            record.push(0, subjects.map(measured).into());
            let mut results = Results::default();
            record.write(&mut results, 0);
            let ours = |row: &&Row| row.subject == Subject::Accelerated.name();
            let row = results.rows.iter().find(ours).unwrap();
            let said = row.reason.as_ref().is_some_and(|it| it.contains("ran unaccelerated"));
            assert_eq!(row.status == Status::Rejected, said, "{row:?}");
            row.status
        };
        let idle = Some(Counts::default());
        for (work, of_idle) in [
            (Work::Handshakes, Status::Rejected),
            (Work::Download(download), Status::Ok),
            (Work::Page, Status::Ok),
        ] {
            assert_eq!(status(work, None), Status::Rejected, "{work:?}");
            assert_eq!(status(work, idle.clone()), of_idle, "{work:?}");
        }
    }
}
