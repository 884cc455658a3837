//! What is shown of two looks at the counters: pure, so that it can be tested.

use std::collections::BTreeMap;
use std::ops::Add;
use std::time::Duration;

use serde::Serialize;
use widelane_bridge::counters::{OperationKind, WAIT_BUCKETS};
use widelane_host::choice::Choice;
use widelane_host::counters::Counts;
use widelane_tables::{Block, Kind, Style, Table, Tone, count, counted, percent};

use crate::live::{self, Off, Process, State, Survey};
use crate::system;

/// The processes, busiest first, and what was left out.
#[derive(Debug, Serialize)]
pub struct View {
    /// Length of the window that rates and shares are of.
    pub seconds: f64,
    /// Living processes.
    pub processes: Vec<Row>,
    /// Files that were not believed, and why.
    pub skipped: Vec<SkippedFile>,
    /// Files of processes that have ended.
    pub ended: usize,
    /// Whether there were more files than anybody looks at.
    pub truncated: bool,
}

/// A file that was not believed.
#[derive(Debug, Serialize)]
pub struct SkippedFile {
    /// Its path.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// One process. Totals are since its start, rates and shares of the window; what did not occur in
/// it has no share and no mean, and a window that is too short has no rates.
#[derive(Debug, Serialize)]
pub struct Row {
    pub pid: u32,
    pub user: u32,
    pub command: String,
    pub threads: usize,
    /// CPU of its busiest thread.
    pub cpu: Option<usize>,
    /// Core clock of that CPU.
    pub clock_hz: Option<f64>,
    /// Room whose kernel ran most, in the window or, if none did, ever.
    pub room: Option<&'static str>,
    /// Operations of a full batch.
    pub lanes: usize,
    /// Handshakes that the runtime drives for an event loop: 0 where threads block in them.
    pub handshakes: u64,
    pub handshakes_per_s: Option<f64>,
    /// CPU time since the start.
    pub cpu_s: f64,
    /// CPU time over handshakes, whatever it was spent on.
    pub cpu_us_per_handshake: Option<f64>,
    pub operations: u64,
    pub operations_per_s: Option<f64>,
    /// Share of the executed operations that ran together with others.
    pub batched_share: Option<f64>,
    /// Operations of a batch.
    pub fill_mean: Option<f64>,
    pub wait_us_mean: Option<f64>,
    /// Power of two of microseconds below which 99 % of the waits were; nothing where more of them
    /// took longer than [`WAIT_BOUND_US`].
    pub wait_us_p99_below: Option<u64>,
    /// Waits of partial batches for company, of an event loop that had nothing else to do.
    pub short_waits_per_s: Option<f64>,
    pub short_wait_us_mean: Option<f64>,
    /// Operations that one of them brought.
    pub short_wait_company_mean: Option<f64>,
    /// Operations that another worker did, and that this one did for others.
    pub lent_per_s: Option<f64>,
    pub for_others_per_s: Option<f64>,
    /// Operations that another worker did not finish in time, and what was refused, since the
    /// start.
    pub taken_back: u64,
    pub refused: u64,
    /// Of a lane process, how often its service had started one; 0 of other processes.
    pub lane_process_starts: u64,
    /// Operations that a device did, and since the start those that it had no room for or did not
    /// take, that failed, and that were late.
    pub device_per_s: Option<f64>,
    pub device_full: u64,
    pub device_refused: u64,
    pub device_dearer: u64,
    pub device_faults: u64,
    pub device_late: u64,
    pub faults_detected: u64,
    pub fallbacks: u64,
    /// What becomes of its operations.
    #[serde(skip)]
    pub state: State,
    /// Whether the policy was refused, so that nothing is accelerated.
    pub policy_refused: bool,
    /// Whether it is switched off (`widelane off`), and the Unix time in seconds at which that ends
    /// by itself.
    pub off: bool,
    pub off_until: Option<f64>,
    /// The policy that holds now where the process chooses among several, and why.
    pub policy: Option<&'static str>,
    pub policy_why: Option<String>,
    /// What of each kind was done since the start, those that did not occur apart.
    pub kinds: Vec<KindRow>,
    /// Records by cipher since the start, those that did not occur apart.
    pub ciphers: Vec<CipherRow>,
    /// Batches in the window by how many operations they had, from one to the most of a batch.
    pub fills: Vec<u64>,
}

/// One kind of operation.
#[derive(Debug, Serialize)]
pub struct KindRow {
    pub kind: &'static str,
    pub operations: u64,
    pub batched: u64,
    pub single: u64,
    pub synchronous: u64,
    pub delegated: u64,
    pub pooled: u64,
}

/// One cipher.
#[derive(Debug, Serialize)]
pub struct CipherRow {
    pub cipher: &'static str,
    pub messages: u64,
    pub bytes: u64,
}

impl View {
    /// Compares two looks. A process that the first one did not have counted from zero.
    pub fn between(earlier: &Survey, later: &Survey, window: Duration) -> Self {
        let seconds = window.as_secs_f64();
        let past = |process: &Process| {
            let same = |before: &&Process| before.identity() == process.identity();
            let before = earlier.processes.iter().find(same);
            before.map(|before| (before.counts.clone(), before.cpu))
        };
        let mut processes: Vec<Row> = later
            .processes
            .iter()
            .map(|process| Row::new(process, past(process).unwrap_or_default(), seconds))
            .collect();
        let busy = |row: &Row| row.operations_per_s.unwrap_or_default();
        processes
            .sort_by(|one, other| busy(other).total_cmp(&busy(one)).then(one.pid.cmp(&other.pid)));
        let skipped = later.skipped.iter().map(|file| SkippedFile {
            path: file.path.display().to_string(),
            reason: file.objection.to_string(),
        });
        View {
            seconds,
            processes,
            skipped: skipped.collect(),
            ended: later.ended,
            truncated: later.truncated,
        }
    }

    /// As text for one look; `places` are where counters were looked for.
    pub fn text(&self, style: &Style, places: &str) -> String {
        let mut blocks = vec![Block::Lead(self.tone(), self.headline(places))];
        if !self.processes.is_empty() {
            blocks.push(Block::Table(self.table(style.width)));
        }
        let chosen = self.processes.iter().filter_map(|row| Some((row, row.policy_why.as_ref()?)));
        blocks.extend(chosen.map(|(row, why)| {
            Block::Text(format!("Policy of {} {}: {why}.", row.command, row.pid))
        }));
        blocks.extend(self.remarks().into_iter().map(Block::Warning));
        widelane_tables::show(blocks, style)
    }

    fn tone(&self) -> Tone {
        if self.accelerated() == 0 { Tone::Same } else { Tone::Better }
    }

    fn accelerated(&self) -> usize {
        self.processes.iter().filter(|row| row.state == State::Accelerated).count()
    }

    /// The sum of it all in a sentence.
    pub fn headline(&self, places: &str) -> String {
        let sum = |per_s: fn(&Row) -> Option<f64>| {
            rate(self.processes.iter().filter_map(per_s).reduce(f64::add))
        };
        match self.processes.len() {
            0 => format!(
                "No accelerated process has counters in {places}. `widelane run -- CMD` or \
                 `widelane enable` starts one."
            ),
            _ => format!(
                "{} accelerated, {} handshakes/s, {} operations/s.",
                counted(self.accelerated(), "process", "processes"),
                sum(|row| row.handshakes_per_s),
                sum(|row| row.operations_per_s),
            ),
        }
    }

    /// What somebody should know beside the figures.
    pub fn remarks(&self) -> Vec<String> {
        let refused = self.processes.iter().filter(|row| row.policy_refused).map(|row| {
            format!(
                "Nothing is accelerated in {} {}: its policy is refused, and its log says why.",
                row.command, row.pid
            )
        });
        let skipped = self.skipped.iter().map(|file| format!("{} {}", file.path, file.reason));
        let mut remarks: Vec<String> = refused.chain(self.switched_off()).chain(skipped).collect();
        if self.truncated {
            remarks.push(format!("{}.", live::TRUNCATED));
        }
        remarks
    }

    /// A sentence for each program of which processes are switched off.
    fn switched_off(&self) -> impl Iterator<Item = String> {
        let mut by_command: BTreeMap<&str, Vec<Off>> = BTreeMap::new();
        for row in &self.processes {
            if let State::Off(off) = row.state {
                by_command.entry(&row.command).or_default().push(off);
            }
        }
        by_command.into_iter().map(|(command, off)| {
            let processes = counted(off.len(), "process", "processes");
            let verb = if off.len() == 1 { "is" } else { "are" };
            format!(
                "{processes} of {command} {verb} switched off{}: `widelane on {}` switches {} on.",
                Off::longest(&off).map(|off| off.to_string()).unwrap_or_default(),
                system::in_shell(command),
                if off.len() == 1 { "it" } else { "them" },
            )
        })
    }

    /// A line for each process, and as many columns as lines of `width` have room for.
    pub fn table(&self, width: u16) -> Table {
        let columns: Vec<(&str, Kind)> =
            COLUMNS.iter().map(|column| (column.title, column.kind)).collect();
        let mut table = Table::new(&columns);
        table.rows = self.processes.iter().map(Row::cells).collect();
        table.without_empty_columns().fitted(width)
    }
}

/// A column of the processes.
struct Column {
    title: &'static str,
    kind: Kind,
    cell: fn(&Row) -> String,
}

/// What is shown of each process, the most important first: a narrow window lacks the last ones.
const COLUMNS: &[Column] = &[
    Column { title: "PID", kind: Kind::Number, cell: |row| row.pid.to_string() },
    Column { title: "Command", kind: Kind::Words, cell: |row| row.command.clone() },
    Column {
        title: "State",
        kind: Kind::Words,
        cell: |row| match row.state {
            State::Accelerated => String::new(),
            State::Off(_) => "off".to_owned(),
            State::Refused => "refused".to_owned(),
        },
    },
    Column { title: "Handshakes/s", kind: Kind::Figure, cell: |row| rate(row.handshakes_per_s) },
    Column { title: "Operations/s", kind: Kind::Figure, cell: |row| rate(row.operations_per_s) },
    Column {
        title: "Faults",
        kind: Kind::Number,
        cell: |row| match row.faults_detected + row.fallbacks {
            0 => String::new(),
            faults => count(faults),
        },
    },
    Column { title: "Batched", kind: Kind::Number, cell: |row| words(row.batched_share, percent) },
    Column {
        title: "CPU µs",
        kind: Kind::Figure,
        cell: |row| words(row.cpu_us_per_handshake, |us| count(us.round() as u64)),
    },
    Column {
        title: "Fill",
        kind: Kind::Number,
        cell: |row| words(row.fill_mean, |fill| format!("{fill:.1} of {}", row.fills.len())),
    },
    Column {
        title: "Wait µs",
        kind: Kind::Number,
        cell: |row| words(row.wait_us_mean, |wait| format!("{wait:.0}")),
    },
    Column {
        title: "Room",
        kind: Kind::Words,
        cell: |row| words(row.room, |room| room.to_owned()),
    },
    Column {
        title: "GHz",
        kind: Kind::Number,
        cell: |row| words(row.clock_hz, |hz| format!("{:.2}", hz / 1e9)),
    },
];

fn words<T>(value: Option<T>, write: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), write)
}

/// A rate in words.
pub fn rate(per_s: Option<f64>) -> String {
    words(per_s, |per_s| count(per_s.round() as u64))
}

/// The shortest window that rates are told of, in seconds: any `--interval` is longer. What a
/// process did in a few milliseconds says nothing about a second.
const WINDOW_MIN: f64 = 0.04;

impl Row {
    fn new(process: &Process, (past, past_cpu): (Counts, Duration), seconds: f64) -> Self {
        let total = &process.counts;
        let window = total.clone() - past;
        let per_s = |count: u64| (seconds >= WINDOW_MIN).then(|| count as f64 / seconds);
        let waits = &window.waits_by_bucket;
        let cpu = process.cpu.saturating_sub(past_cpu);
        Row {
            pid: process.pid,
            user: process.user,
            command: process.command.clone(),
            threads: process.threads,
            cpu: None,
            clock_hz: None,
            room: window.room().or(total.room()).map(|room| room.name()),
            lanes: total.widest(),
            handshakes: total.handshakes,
            // Operations without handshakes: the runtime drives none.
            handshakes_per_s: per_s(window.handshakes)
                .filter(|_| total.handshakes > 0 || total.jobs() == 0),
            cpu_s: process.cpu.as_secs_f64(),
            cpu_us_per_handshake: mean(cpu.as_secs_f64() * 1e6, window.handshakes)
                .filter(|_| seconds >= WINDOW_MIN),
            operations: total.jobs(),
            operations_per_s: per_s(window.jobs()),
            batched_share: window.batched_share(),
            fill_mean: window.mean_fill(),
            wait_us_mean: mean(window.wait_ns_total as f64 / 1e3, waits.iter().sum()),
            wait_us_p99_below: wait_below(waits, 0.99),
            short_waits_per_s: per_s(window.short_waits),
            short_wait_us_mean: mean(window.short_wait_ns_total as f64 / 1e3, window.short_waits),
            short_wait_company_mean: mean(window.short_wait_company as f64, window.short_waits),
            lent_per_s: per_s(window.jobs_lent),
            for_others_per_s: per_s(window.jobs_for_others),
            taken_back: total.jobs_taken_back,
            refused: total.jobs_refused,
            lane_process_starts: total.lane_process_starts,
            device_per_s: per_s(window.device_jobs),
            device_full: total.device_full,
            device_refused: total.device_refused,
            device_dearer: total.device_dearer,
            device_faults: total.device_faults,
            device_late: total.device_late,
            faults_detected: total.faults_detected,
            fallbacks: total.fallbacks,
            state: process.state(),
            policy_refused: total.policy_refused > 0,
            off: process.off.is_some(),
            off_until: process.off.and_then(Off::end_s),
            policy: total.choice.as_ref().map(Choice::name),
            policy_why: total.choice.as_ref().map(Choice::words),
            kinds: kinds(total),
            ciphers: ciphers(total),
            fills: window.fills()[1..=total.widest()].to_vec(),
        }
    }

    /// What stands in each of the columns.
    fn cells(&self) -> Vec<String> {
        COLUMNS.iter().map(|column| (column.cell)(self)).collect()
    }
}

fn kinds(counts: &Counts) -> Vec<KindRow> {
    let occurred = counts.kinds().filter(|(_, of_kind)| of_kind.operations() > 0);
    occurred
        .map(|(kind, of_kind)| KindRow {
            kind: OperationKind::name(kind),
            operations: of_kind.operations(),
            batched: of_kind.batched,
            single: of_kind.single,
            synchronous: of_kind.synchronous,
            delegated: of_kind.delegated,
            pooled: of_kind.pooled,
        })
        .collect()
}

fn ciphers(counts: &Counts) -> Vec<CipherRow> {
    let occurred = counts.ciphers().filter(|(_, of_cipher)| of_cipher.messages() > 0);
    occurred
        .map(|(cipher, of_cipher)| CipherRow {
            cipher: cipher.name(),
            messages: of_cipher.messages(),
            bytes: of_cipher.bytes,
        })
        .collect()
}

fn mean(sum: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}

/// Waits of so many microseconds and more are told apart no further.
pub const WAIT_BOUND_US: u64 = 1 << (WAIT_BUCKETS - 2);

/// The power of two of microseconds below which so large a share of the waits was; nothing where
/// that is none of those that waits are told apart by.
fn wait_below(waits: &[u64; WAIT_BUCKETS], share: f64) -> Option<u64> {
    let total: u64 = waits.iter().sum();
    let mut seen = 0;
    let reached = waits.iter().position(|count| {
        seen += count;
        total > 0 && seen as f64 >= share * total as f64
    });
    reached.map(|bucket| 1 << bucket).filter(|below| *below <= WAIT_BOUND_US)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A process that made `handshakes`, and half as many batches of eight.
    pub fn process(pid: u32, handshakes: u64) -> Process {
        let mut counts = Counts { lanes: 8, handshakes, ..Counts::default() };
        counts.batches_by_fill[8] = handshakes / 2;
        counts.waits_by_bucket[3] = 99 * handshakes;
        counts.waits_by_bucket[9] = handshakes;
        counts.wait_ns_total = 100 * handshakes * 7_000;
        counts.short_waits = handshakes / 2;
        counts.short_wait_ns_total = handshakes / 2 * 300_000;
        counts.short_wait_company = handshakes / 4;
        (counts.jobs_lent, counts.jobs_for_others) = (handshakes / 5, handshakes / 10);
        let command = "nginx".to_owned();
        let cpu = Duration::from_micros(230 * handshakes);
        let path = format!("/run/widelane/{pid}.counters").into();
        Process {
            pid,
            started_ticks: 5,
            cpu,
            user: 33,
            command,
            threads: 1,
            counts,
            off: None,
            path,
        }
    }

    fn survey(processes: Vec<Process>) -> Survey {
        Survey { processes, ..Survey::default() }
    }

    #[test]
    fn rates_are_of_the_window_and_totals_of_the_life() {
        let earlier = survey(vec![process(1, 100), process(2, 10)]);
        let later = survey(vec![process(1, 150), process(2, 310), process(3, 20)]);
        let view = View::between(&earlier, &later, Duration::from_secs(2));
        let of = |pid| view.processes.iter().find(|row| row.pid == pid).unwrap();
        assert_eq!((of(1).handshakes, of(1).handshakes_per_s), (150, Some(25.0)));
        assert_eq!(of(2).handshakes_per_s, Some(150.0));
        assert_eq!(of(3).handshakes_per_s, Some(10.0), "a newcomer counted from zero");
        assert_eq!(of(2).cpu_us_per_handshake.map(f64::round), Some(230.0));
        assert_eq!(of(1).fill_mean, Some(8.0));
        assert_eq!((of(1).wait_us_mean, of(1).wait_us_p99_below), (Some(7.0), Some(8)));
        assert_eq!(of(1).fills, [0, 0, 0, 0, 0, 0, 0, 25]);
        crate::output::assert_documented(&view);
        let json = serde_json::to_value(of(1)).unwrap();
        assert_eq!(json["fills"].as_array().map(Vec::len), Some(8));
        let short = (of(1).short_waits_per_s, of(1).short_wait_us_mean);
        assert_eq!(short, (Some(12.5), Some(300.0)));
        assert_eq!(of(1).short_wait_company_mean, Some(0.48));
        assert_eq!((of(1).lent_per_s, of(1).for_others_per_s), (Some(5.0), Some(2.5)));
        assert!(view.headline("").starts_with("3 processes accelerated, 185 handshakes/s"));
    }

    #[test]
    fn the_longest_waits_have_no_bound() {
        let mut waits = [0; WAIT_BUCKETS];
        (waits[WAIT_BUCKETS - 2], waits[WAIT_BUCKETS - 1]) = (99, 1);
        assert_eq!(wait_below(&waits, 0.99), Some(WAIT_BOUND_US));
        waits[WAIT_BUCKETS - 1] = 2;
        assert_eq!(wait_below(&waits, 0.99), None);
    }

    #[test]
    fn a_recycled_number_is_another_process() {
        let mut other = process(1, 30);
        other.started_ticks = 6;
        let view = View::between(
            &survey(vec![process(1, 100)]),
            &survey(vec![other]),
            Duration::from_secs(1),
        );
        assert_eq!(view.processes[0].handshakes_per_s, Some(30.0));
    }

    #[test]
    fn what_did_not_occur_has_no_share() {
        let still = survey(vec![process(1, 100)]);
        let view = View::between(&still, &still, Duration::from_secs(1));
        let row = &view.processes[0];
        assert_eq!((row.batched_share, row.fill_mean, row.wait_us_p99_below), (None, None, None));
        assert!(row.cells().contains(&"–".to_owned()));
    }

    #[test]
    fn a_window_of_a_few_milliseconds_has_no_rates() {
        let busy = survey(vec![process(1, 100)]);
        let between = |ms| View::between(&survey(vec![]), &busy, Duration::from_millis(ms));
        let view = between(2);
        let row = &view.processes[0];
        assert_eq!((row.handshakes_per_s, row.device_per_s), (None, None));
        assert_eq!(row.handshakes, 100);
        let headline = view.headline("");
        assert_eq!(headline, "1 process accelerated, – handshakes/s, – operations/s.");
        // The shortest interval that can be asked for.
        assert_eq!(between(50).processes[0].handshakes_per_s, Some(2_000.0));
    }

    #[test]
    fn a_server_whose_handshakes_nobody_counts_has_no_rate_of_them() {
        let mut blocking = process(2, 0);
        blocking.counts.by_kind[OperationKind::Rsa2048 as usize].synchronous = 30;
        let later = survey(vec![process(1, 50), blocking]);
        let view = View::between(&survey(vec![]), &later, Duration::from_secs(1));
        let rates = [1, 2].map(|pid| {
            view.processes.iter().find(|row| row.pid == pid).and_then(|row| row.handshakes_per_s)
        });
        assert_eq!(rates, [Some(50.0), None]);
        assert!(view.headline("").contains("50 handshakes/s, 30 operations/s"));
    }

    #[test]
    fn a_process_of_a_refused_policy_is_not_accelerated() {
        let mut refusing = process(2, 10);
        refusing.counts.policy_refused = 1;
        let later = survey(vec![process(1, 10), refusing]);
        let view = View::between(&survey(vec![]), &later, Duration::from_secs(1));
        let text = view.text(&Style { colour: false, width: 100 }, "");
        assert!(text.contains("1 process accelerated, 20 handshakes/s"), "{text}");
        assert!(text.contains("Nothing is accelerated in nginx 2: its policy"), "{text}");
    }

    #[test]
    fn a_process_that_is_switched_off_is_not_accelerated() {
        let mut processes = vec![process(1, 10), process(2, 10), process(3, 10)];
        processes[1].off = Some(Off::ForGood);
        let time = Duration::from_secs(9);
        let end = std::time::SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
        processes[2].off = Some(Off::ForTime { left: time, end });
        let mut look = |refused| {
            processes[0].counts.policy_refused = refused;
            let later = survey(processes.clone());
            View::between(&survey(vec![]), &later, Duration::from_secs(1))
        };
        let view = look(0);
        let text = view.text(&Style { colour: false, width: 100 }, "");
        assert!(text.contains("1 process accelerated, 30 handshakes/s"), "{text}");
        let remark = "2 processes of nginx are switched off: `widelane on nginx` switches them on.";
        assert!(text.contains(remark) && text.contains("State"), "{text}");
        let json = serde_json::to_value(&view).unwrap();
        let off = [0, 1, 2].map(|place| {
            let row = &json["processes"][place];
            (row["off"].as_bool().unwrap(), row["off_until"].as_f64())
        });
        assert_eq!(off, [(false, None), (true, None), (true, Some(1.5))]);
        assert_eq!(look(1).accelerated(), 0);
        processes.remove(1);
        let view = View::between(&survey(vec![]), &survey(processes), Duration::from_secs(1));
        let remarks = view.remarks().join(" ");
        assert!(remarks.contains("1 process of nginx is switched off for 9 s more: "), "{remarks}");
    }

    #[test]
    fn nobody_is_told_what_to_do() {
        let view = View::between(&survey(vec![]), &survey(vec![]), Duration::from_secs(1));
        let text = view.text(&Style { colour: false, width: 100 }, "/run/widelane");
        assert!(text.contains("/run/widelane") && text.contains("widelane run"), "{text}");
    }
}
