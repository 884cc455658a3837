//! `widelane tune`: finds the width policy under which this machine gets most done, and writes it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use widelane_bench::tune::candidate::Candidate;
use widelane_bench::tune::record::Record;
use widelane_bench::tune::verdict::{self, Decision, Finding, Verdict};
use widelane_bench::tune::workload::Workload;
use widelane_bench::tune::{self, Plan, file};
use widelane_cli::{output, system};
use widelane_cpu::Policy;
use widelane_cpu::policy::{self, LaneCpus};
use widelane_meter::verdict::Ratio;
use widelane_results::{Results, Row, Status};
use widelane_tables::{Block, Kind, Table, Tone};

use crate::keep::{Keep, answer, ratio_row, row};
use crate::measure::{self, INCONCLUSIVE};

/// Finds the width policy under which this machine gets most done, and writes it to a file
///
/// All CPUs do the same mixture of work while the policies take turns. Programs obey the file when
/// they start next; `widelane cpu` shows it. Takes 30 s to 2 minutes. On a busy machine the result
/// may be inconclusive.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What the machine does: mixed, handshakes, bulk-mixed, packets, or a TOML file
    /// (docs/measure/tune.md) [default: mixed, or with --check what the file was written for]
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "replay")]
    workload: Option<String>,
    /// The policy file to write or to check. Other policies are compared with what it says now
    /// [default: /etc/widelane/policy.toml]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Writes nothing: measures whether the file still holds, and exits with 1 if it does not
    #[arg(long, conflicts_with_all = ["dry_run", "replay"])]
    check: bool,
    /// Writes nothing: prints the file instead
    #[arg(long)]
    dry_run: bool,
    /// Also tries policies that set these CPUs aside for RSA signatures, such as 3 or 2,4-7
    /// (docs/operate/experimental.md)
    #[arg(long, value_name = "LIST", conflicts_with = "replay")]
    lane_cpus: Option<LaneCpus>,
    /// Rounds; each has every policy once, and those that look better have as many once more
    #[arg(long, value_parser = clap::value_parser!(u32).range(6..=1000), default_value_t = 30,
          conflicts_with = "replay")]
    rounds: u32,
    /// CPU time that each policy gets in a round on each CPU, in seconds, 0.05 to 600
    #[arg(long, value_parser = widelane_cli::units::seconds, value_name = "SECONDS",
          default_value = "0.06", conflicts_with = "replay")]
    seconds: Duration,
    /// Prints JSON: all that was measured, and the verdict
    #[arg(long)]
    json: bool,
    /// Judges what --json printed instead of measuring
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    #[command(flatten)]
    keep: Keep,
}

const EXAMPLES: &str = "\
Examples:
  widelane tune --dry-run
  widelane tune --workload handshakes --file policy.toml
  widelane tune --check";

/// What `--json` prints and `--replay` reads.
#[derive(Serialize)]
struct Answer<'a> {
    record: &'a Record,
    verdict: &'a Verdict,
    /// The verdict in words.
    sentence: String,
    /// What the chosen policy gains over the extremes.
    extremes: Vec<Extreme>,
    /// The text of the policy file.
    file: Option<String>,
}

/// An extreme policy, and what the chosen one gains over it.
#[derive(Serialize)]
struct Extreme {
    name: &'static str,
    gain: Ratio,
}

/// The part of an answer that is judged again.
#[derive(Deserialize)]
struct Recorded {
    record: Record,
}

impl Args {
    /// The policy file, which is that of this system unless another one is named.
    fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(Path::new(policy::SYSTEM_PATH))
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let writes = !args.check && !args.dry_run && args.replay.is_none();
    if writes {
        may_write(args.file())?;
    }
    // A record may be of another machine, for which the file of this system says nothing.
    let is_ours = args.replay.is_none() || args.file.is_some();
    let before = if is_ours { Before::read(args.file())? } else { None };
    let record = match &args.replay {
        Some(path) => replay(path)?,
        None => record(args, before.as_ref())?,
    };
    let verdict = verdict::judge(&record);
    let fill = |results: &mut Results| fill(results, &record, &verdict);
    // What was found is shown even where it cannot be written.
    let kept = match &args.replay {
        Some(_) => {
            let machine = (record.model.as_str(), record.cpus_online);
            args.keep.elsewhere(&record.created, true, machine, fill)
        }
        None => args.keep.here(&record.created, true, fill),
    };
    let text = file::render(&record, &verdict, before.as_ref().map(|before| &before.policy));
    let is_changed = matches!(verdict.decision, Decision::Change { .. });
    // What somebody has written by hand has comments, which the new file lacks; a copy that has
    // such comments stays.
    let is_own = |text: &str| !file::is_ours(text);
    let has_own_copy = || fs::read_to_string(beside(args.file())).is_ok_and(|copy| is_own(&copy));
    let keeps = |before: &&Before| is_own(&before.text) || is_changed && !has_own_copy();
    let former = before.as_ref().filter(keeps).map(|before| before.text.as_str());
    let replaced = match text.as_ref().filter(|_| writes) {
        Some(text) => replace(args.file(), text, former),
        None => Ok(None),
    };
    if args.json {
        let sentence = file::sentence(&record, &verdict);
        let extremes = verdict::over_extremes(&record, &verdict).into_iter();
        let extremes = extremes.map(|(name, gain)| Extreme { name, gain }).collect();
        let answer = Answer { record: &record, verdict: &verdict, sentence, extremes, file: text };
        let json = serde_json::to_string_pretty(&answer).context("cannot write JSON")?;
        output::print_untrusted(&json)?;
    } else if let Some(text) = text.filter(|_| args.dry_run) {
        output::print_untrusted(&text)?;
    } else {
        output::print(&widelane_tables::show(blocks(&record, &verdict), &output::style()))?;
        let is_written = writes && replaced.is_ok();
        if is_written && !matches!(verdict.decision, Decision::CannotTell { .. }) {
            output::print(&written(args.file(), env::var_os(policy::PATH_VARIABLE)))?;
        }
        if let Ok(Some(copy)) = &replaced {
            output::print(&format!("The former file is {} now.", copy.display()))?;
        }
    }
    let (status, complaint) =
        ending(args.check, args.file(), &record.candidates, &verdict.decision);
    if let Some(complaint) = complaint {
        output::complain(&anyhow!(complaint));
    }
    measure::all([replaced.map(drop), kept])?;
    Ok(ExitCode::from(status))
}

/// The exit status, and what is complained of.
fn ending(
    check: bool,
    file: &Path,
    candidates: &[Candidate],
    decision: &Decision,
) -> (u8, Option<String>) {
    match decision {
        Decision::CannotTell { reason } => {
            let complaint =
                format!("the result is inconclusive, and no file was changed: {reason}");
            (INCONCLUSIVE, Some(complaint))
        }
        Decision::Change { candidate, .. } if check => {
            let complaint = format!(
                "{} is out of date: {} gets more work done; `widelane tune --file {0}` replaces it",
                file.display(),
                candidates[*candidate].name()
            );
            (1, Some(complaint))
        }
        _ => (0, None),
    }
}

/// Finds out before anything is measured whether `path` can be written.
fn may_write(path: &Path) -> anyhow::Result<()> {
    let tried = system::linked(path).and_then(|target| {
        let directory = system::directory_of(&target);
        system::make_directory_for_all(directory)?;
        tempfile::tempfile_in(directory)
    });
    tried.map(drop).with_context(|| {
        format!(
            "cannot write {}; name another file with --file, or only look with --dry-run",
            path.display()
        )
    })
}

/// What a policy file says before anything is measured: others are held against it, and what is not
/// measured stays.
struct Before {
    text: String,
    policy: Policy,
}

impl Before {
    /// Reads the file at `path`, if there is one.
    fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let text = read(path)?;
        Ok(Some(Before { policy: policy::parse(path, &text)?, text }))
    }

    /// The policy that others are held against. Lane CPUs that it sets aside have a part in that
    /// only where they are checked or others are tried.
    fn held(&self, args: &Args) -> Policy {
        if args.check || args.lane_cpus.is_some() {
            self.policy.clone()
        } else {
            self.policy.rooms()
        }
    }
}

/// Writes the policy file, or what it is a link to, and before that a copy of the `former` one
/// where that is kept; returns where the copy is.
fn replace(path: &Path, text: &str, former: Option<&str>) -> anyhow::Result<Option<PathBuf>> {
    let keep = |former: &str| {
        let beside = beside(path);
        system::write_for_all(&beside, former).map(|()| beside)
    };
    // What was empty, such as /dev/null, is not kept.
    let copy = former.filter(|former| !former.is_empty()).map(keep).transpose()?;
    system::write_for_all(&system::linked(path)?, text)?;
    Ok(copy)
}

/// Where the former file is kept.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".before");
    beside.into()
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn replay(path: &Path) -> anyhow::Result<Record> {
    let recorded: Recorded = serde_json::from_str(&read(path)?)
        .with_context(|| format!("{} is not what `widelane tune --json` prints", path.display()))?;
    let Recorded { record } = recorded;
    record.check().with_context(|| format!("{} cannot be judged", path.display()))?;
    Ok(record)
}

fn record(args: &Args, before: Option<&Before>) -> anyhow::Result<Record> {
    let mut workload = None;
    if args.check {
        let before = before.context(
            "there is no policy file to check; `widelane tune` writes one, and --file names it",
        )?;
        workload = file::workload(&before.text)
            .with_context(|| format!("the workload in {}", args.file().display()))?;
    }
    if let Some(name) = &args.workload {
        workload = Some(named(name)?);
    }
    let [usual, ..] = Workload::presets();
    let plan = Plan {
        workload: workload.unwrap_or(usual),
        file: before.map(|before| before.held(args)),
        lane_cpus: args.lane_cpus.clone().filter(|cpus| !cpus.is_none()),
        rounds: args.rounds,
        slice: args.seconds,
    };
    let stop = system::stop_on_signals()?;
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} turns, {eta} left")?);
    let record = tune::run(&plan, &stop, &mut |taken, turns| {
        bar.set_length(turns);
        bar.set_position(taken);
    });
    bar.finish_and_clear();
    Ok(record?)
}

/// The workload with this name, or in this file.
fn named(name: &str) -> anyhow::Result<Workload> {
    let path = Path::new(name);
    if !path.exists() {
        return Ok(Workload::named(name)?);
    }
    Workload::parse(&read(path)?).with_context(|| format!("the workload in {name}"))
}

/// Where the policy is now, and which programs obey it where a variable may name another file.
fn written(path: &Path, named: Option<OsString>) -> String {
    let system = path == Path::new(policy::SYSTEM_PATH);
    let shown = path.display();
    match named.filter(|other| !other.is_empty() && other != policy::AUTO) {
        Some(other) if Path::new(&other) != path => format!(
            "\nWritten to {shown}. {} names {} here, which is stronger.",
            policy::PATH_VARIABLE,
            Path::new(&other).display()
        ),
        None if !system => format!(
            "\nWritten to {shown}. Programs obey it that start with {}={shown}.",
            policy::PATH_VARIABLE
        ),
        _ => format!("\nWritten to {shown}. Programs obey it when they start next."),
    }
}

fn tone(verdict: &Verdict) -> Tone {
    match verdict.decision {
        Decision::Change { .. } => Tone::Better,
        Decision::Keep { .. } => Tone::Same,
        Decision::CannotTell { .. } => Tone::Unknown,
    }
}

fn blocks(record: &Record, verdict: &Verdict) -> Vec<Block> {
    let heading = |title: &str| Block::Heading(title.to_owned());
    let mut blocks = vec![Block::Lead(tone(verdict), file::sentence(record, verdict))];
    for (title, findings) in
        [("All policies", &verdict.survey), ("Once more", &verdict.confirmation)]
    {
        if !findings.is_empty() {
            blocks.extend([heading(title), Block::Table(policies(record, findings))]);
        }
    }
    blocks.extend([heading("Workload"), Block::Table(work(record, verdict))]);
    let mut facts = vec![
        ("CPU", format!("{}, {} at once", record.model, record.cpus.len())),
        ("Workload", record.workload.name.clone()),
        ("Compared with", shown(&record.candidates[0].names, &record.candidates[0].policy)),
    ];
    if let Some(policy) = file::policy(record, verdict) {
        facts.push(("Policy", policy.to_string()));
    }
    for (name, gain) in verdict::over_extremes(record, verdict) {
        facts.push(("Work done", format!("{gain} times that of {name}")));
    }
    blocks.extend([heading("Verdict"), Block::Table(Table::of_facts(facts))]);
    blocks
}

fn shown(names: &[String], policy: &Policy) -> String {
    format!("{}: {policy}", names.join(", "))
}

fn policies(record: &Record, findings: &[Finding]) -> Table {
    let mut table = Table::new(&[
        ("Policy", Kind::Words),
        ("Work done", Kind::Number),
        ("MHz", Kind::Number),
        ("Quiet rounds", Kind::Number),
    ]);
    table.rows.extend(findings.iter().map(|finding| {
        vec![
            record.candidates[finding.candidate].names.join(", "),
            finding.gain.as_ref().map_or("too few rounds".to_owned(), Ratio::to_string),
            finding.clock_mhz.map_or(String::new(), |mhz| format!("{mhz:.0}")),
            format!("{} of {}", finding.quiet, finding.taken),
        ]
    }));
    table.without_empty_columns()
}

/// The candidate to have, or to stay with.
fn chosen(verdict: &Verdict) -> usize {
    match verdict.decision {
        Decision::Change { candidate, .. } => candidate,
        Decision::Keep { .. } | Decision::CannotTell { .. } => 0,
    }
}

/// What is said of the policy to have: nothing where the measurements do not tell.
fn judgement(verdict: &Verdict) -> Option<&'static str> {
    match verdict.decision {
        Decision::Change { .. } => Some(CHOSEN),
        Decision::Keep { .. } => Some(KEPT),
        Decision::CannotTell { .. } => None,
    }
}

/// Adds what was measured and the verdict to `results`.
fn fill(results: &mut Results, record: &Record, verdict: &Verdict) {
    let extremes = verdict::over_extremes(record, verdict);
    let extremes =
        extremes.iter().map(|(name, gain)| format!("It does {gain} times the work of {name}."));
    let detail = extremes.collect::<Vec<_>>().join(" ");
    results.answer = answer(tone(verdict), file::sentence(record, verdict), detail);
    let workload = record.workload.name.replace('/', "-");
    for (stage, findings) in [("survey", &verdict.survey), ("confirmation", &verdict.confirmation)]
    {
        let scenario = format!("tune/{workload}/{stage}");
        let judged = |candidate: usize| {
            judgement(verdict).filter(|_| candidate == chosen(verdict)).map(str::to_owned)
        };
        if !findings.is_empty() {
            let held = row(&scenario, &names(record, 0), WORK_DONE, 1.0);
            results.rows.push(Row { verdict: judged(0), ..held });
        }
        results.rows.extend(
            findings
                .iter()
                .flat_map(|finding| gained(&scenario, record, finding, judged(finding.candidate))),
        );
    }
    let scenario = format!("tune/{workload}/work");
    for (index, work) in record.workload.work.iter().enumerate() {
        let own = |metric, value| Row {
            room: record.candidates[chosen(verdict)].rooms.get(index).cloned().flatten(),
            ..row(&scenario, &work.what, metric, value)
        };
        let cost = record.costs_us.get(index).copied().unwrap_or_default();
        results.rows.extend([own(("share", "1"), work.share), own(("cost", "us"), cost)]);
    }
}

/// Name and unit of what a policy gets done, and the verdict on the one to have: another one, or
/// the one that holds.
const WORK_DONE: (&str, &str) = ("work_done", "1");
const CHOSEN: &str = "chosen";
const KEPT: &str = "kept";

/// What a candidate is called, by all its names.
fn names(record: &Record, candidate: usize) -> String {
    record.candidates[candidate].names.join(", ")
}

/// What one candidate gets done, as rows.
fn gained(scenario: &str, record: &Record, finding: &Finding, verdict: Option<String>) -> Vec<Row> {
    let subject = names(record, finding.candidate);
    let done = match finding.gain {
        Some(gain) => ratio_row(scenario, &subject, WORK_DONE.0, &names(record, 0), gain),
        None => Row {
            value: None,
            status: Status::Rejected,
            reason: Some("too few quiet rounds".to_owned()),
            ..row(scenario, &subject, WORK_DONE, 0.0)
        },
    };
    let own = |metric, value| row(scenario, &subject, metric, value);
    let mut rows = vec![Row { verdict, ..done }];
    rows.extend(finding.clock_mhz.map(|mhz| own(("clock", "MHz"), mhz)));
    rows.push(own(("quiet_rounds", "count"), finding.quiet as f64));
    rows.push(own(("rounds", "count"), finding.taken as f64));
    rows
}

/// The kinds of work, with the room that does each before and after.
fn work(record: &Record, verdict: &Verdict) -> Table {
    let chosen = chosen(verdict);
    let mut table = Table::new(&[
        ("Work", Kind::Words),
        ("Share", Kind::Number),
        ("µs each", Kind::Number),
        ("Room", Kind::Words),
        ("Room now", Kind::Words),
    ]);
    let room = |candidate: usize, index: usize| {
        record.candidates[candidate].rooms[index].clone().unwrap_or_default()
    };
    table.rows.extend(record.workload.work.iter().enumerate().map(|(index, work)| {
        let now = if chosen == 0 { String::new() } else { room(chosen, index) };
        vec![
            work.what.clone(),
            format!("{:.0} %", 100.0 * work.share),
            format!("{:.1}", record.costs_us[index]),
            room(0, index),
            now,
        ]
    }));
    table.without_empty_columns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_is_a_link_stays_one() {
        let place = tempfile::tempdir().unwrap();
        let (target, link) = (place.path().join("managed"), place.path().join("policy.toml"));
        std::fs::write(&target, "former").unwrap();
        std::os::unix::fs::symlink("managed", &link).unwrap();
        let copy = replace(&link, "new", Some("former")).unwrap().unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "new");
        assert_eq!(std::fs::read_to_string(copy).unwrap(), "former");
    }

    #[test]
    fn what_tells_nothing_has_a_status_of_its_own() {
        let unknown = Decision::CannotTell { reason: "too few rounds".to_owned() };
        let ends = |check, decision| ending(check, Path::new("policy.toml"), &[], decision);
        let (status, complaint) = ends(true, &unknown);
        assert_eq!((status, complaint.unwrap().contains("too few rounds")), (INCONCLUSIVE, true));
        assert_eq!(ends(false, &unknown).0, INCONCLUSIVE);
        assert_eq!(ends(true, &Decision::Keep { resolution: 0.01 }), (0, None));
    }

    #[test]
    fn another_file_is_stronger_and_auto_names_none() {
        let said = |path: &str, named: &str| written(Path::new(path), Some(named.into()));
        let obeyed = "Written to /etc/widelane/policy.toml. Programs obey it when they start next.";
        for named in ["", "auto", policy::SYSTEM_PATH] {
            assert_eq!(said(policy::SYSTEM_PATH, named).trim(), obeyed, "{named:?}");
        }
        let stronger = "WIDELANE_POLICY names /p.toml here, which is stronger.";
        assert!(said(policy::SYSTEM_PATH, "/p.toml").ends_with(stronger));
        assert!(said("./p.toml", "auto").ends_with("that start with WIDELANE_POLICY=./p.toml."));
    }

    #[test]
    fn a_policy_is_chosen_or_kept_only_where_the_measurements_tell() {
        let of = |decision| {
            judgement(&Verdict { decision, survey: Vec::new(), confirmation: Vec::new() })
        };
        let gain = Ratio { value: 1.1, low: 1.05, high: 1.2 };
        assert_eq!(of(Decision::Change { candidate: 2, gain }), Some("chosen"));
        assert_eq!(of(Decision::Keep { resolution: 0.01 }), Some("kept"));
        assert_eq!(of(Decision::CannotTell { reason: "too few rounds".to_owned() }), None);
    }
}
