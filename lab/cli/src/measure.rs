//! What measuring commands share: what is installed, progress, results files.

use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use widelane_bench::Observer;
use widelane_bench::accounting::{self, Busiest};
use widelane_bench::programs::Programs;
use widelane_cli::libraries::Libraries;
use widelane_cli::output::{self, ReaderGone};
use widelane_cli::system::{self, write};
use widelane_cpu::policy;
use widelane_host::programs;
use widelane_results::{Machine, Results, SCHEMA, Status};

/// Servers, and the parts of widelane beside this program.
pub fn programs() -> anyhow::Result<Programs> {
    let bench = env::current_exe().context("cannot tell where this program is; mount /proc")?;
    let search = system::search_path();
    let installed = || programs::find("widelane", &search);
    let widelane = system::find_beside("widelane").or_else(installed).unwrap_or_default();
    let provider = Libraries::find().map(|libraries| libraries.provider).ok();
    let policy = policy::variables().filter_map(|name| Some((name, env::var_os(name)?))).collect();
    Ok(Programs { bench, policy, ..Programs::search(widelane, provider, &search) })
}

/// Results without results: when, where and by which command.
pub fn blank(machine: Machine) -> Results {
    Results {
        schema: SCHEMA.to_owned(),
        created: widelane_bench::now_rfc3339(),
        command: env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        machine,
        ..Results::default()
    }
}

/// Shows results, then writes what is wanted of them; each whatever became of the others, so that a
/// disk that is full by now loses nothing.
pub fn tell(results: &Results, json: Option<&Path>, html: Option<&Path>) -> anyhow::Result<()> {
    let shown = output::print(&widelane_report::terminal(results, &output::style()));
    let kept = json.map_or(Ok(()), |path| write_results(path, results));
    let drawn = html.map_or(Ok(()), |path| write(path, &widelane_report::html(results)));
    all([shown, kept, drawn])
}

/// All errors as one, each on a line of its own.
pub fn all(outcomes: impl IntoIterator<Item = anyhow::Result<()>>) -> anyhow::Result<()> {
    let errors = outcomes.into_iter().filter_map(Result::err);
    // That nobody reads any more is told by the exit status, if nothing else went wrong.
    let (gone, wrong): (Vec<_>, Vec<_>) = errors.partition(|error| error.is::<ReaderGone>());
    let mut wrong = wrong.into_iter();
    let Some(first) = wrong.next() else { return gone.into_iter().next().map_or(Ok(()), Err) };
    let rest: String = wrong.map(|error| format!("\n{error:#}")).collect();
    if rest.is_empty() { Err(first) } else { bail!("{first:#}{rest}") }
}

/// The status where the measurements do not tell anything, as that of `tune --check`.
pub const INCONCLUSIVE: u8 = 3;

/// The status of measurements that were made to their end: they are inconclusive where there are
/// comparisons, and none of them can be relied on.
pub fn status(results: &Results) -> ExitCode {
    let compared = results.rows.iter().filter(|row| row.rival.is_some());
    let mut compared = compared.filter(|row| row.status != Status::NotApplicable).peekable();
    if compared.peek().is_none() || compared.any(|row| row.status != Status::Rejected) {
        return ExitCode::SUCCESS;
    }
    let complaint = "every comparison was rejected; remove the cause and repeat the run";
    output::complain(&anyhow!(complaint));
    ExitCode::from(INCONCLUSIVE)
}

/// For how long we look who else uses the CPUs.
const LOOK_AROUND: Duration = Duration::from_millis(500);

/// What is said when the first round is rejected, and who was `busiest` then.
fn told_of_rejection(objection: &str, busiest: &[Busiest]) -> String {
    let mut told = format!("the first round that does not count: {objection}");
    let name = |Busiest { pid, name, cpus }: &Busiest| {
        format!("{name} (process {pid}) {:.0} % of a CPU", cpus * 100.0)
    };
    let busiest: Vec<String> = busiest.iter().map(name).collect();
    if !busiest.is_empty() {
        told.push_str(&format!("\n  busiest beside this run: {}", busiest.join(", ")));
    }
    told
}

/// Reads a results file.
pub fn read_results(path: &Path) -> anyhow::Result<Results> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    if text.trim().is_empty() {
        bail!("cannot use {name}: the file is empty");
    }
    Results::from_json(&text).with_context(|| format!("cannot use {name}"))
}

/// Writes results so that a reader never sees half of them.
pub fn write_results(path: &Path, results: &Results) -> anyhow::Result<()> {
    write(path, &results.to_json())
}

/// Draws a progress bar on terminals, says when rounds do not count, and keeps partial results.
pub struct Progress<'a> {
    bar: Option<ProgressBar>,
    /// Rounds that do not count.
    rejected: u64,
    json: Option<&'a Path>,
}

impl<'a> Progress<'a> {
    /// Follows a run whose partial results go to `json`, where what comes later replaces them.
    pub fn new(json: Option<&'a Path>) -> Self {
        Progress { bar: None, rejected: 0, json: json.filter(|path| !system::is_stream(path)) }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Progress<'_> {
    fn planned(&mut self, rounds: u64) {
        if let Some(bar) = &self.bar {
            bar.inc_length(rounds);
            return;
        }
        let template = "{bar:30} {pos}/{len} rounds{prefix}, {eta} left  {wide_msg}";
        let style = ProgressStyle::with_template(template);
        let bar = ProgressBar::new(rounds);
        self.bar = Some(style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style)));
    }

    fn began(&mut self, scenario: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(scenario.to_owned());
        }
    }

    fn round_taken(&mut self, objection: Option<&str>) {
        let Some(bar) = &self.bar else { return };
        bar.inc(1);
        let Some(objection) = objection else { return };
        self.rejected += 1;
        bar.set_prefix(format!(", {} rejected", self.rejected));
        if self.rejected == 1 {
            let told = told_of_rejection(objection, &accounting::busiest(LOOK_AROUND));
            bar.suspend(|| output::complain(&anyhow!(told)));
        }
    }

    fn ended(&mut self, results: &Results) {
        if let Some(path) = self.json {
            // What comes last is written once more at the end, where an error ends the command.
            drop(write_results(path, results));
        }
    }
}

#[cfg(test)]
mod tests {
    use widelane_results::Row;

    use super::*;

    #[test]
    fn only_a_run_whose_comparisons_were_all_rejected_is_inconclusive() {
        let row = |rival: Option<&str>, status| Row {
            rival: rival.map(str::to_owned),
            status,
            ..Row::default()
        };
        let compared = |status| row(Some("native"), status);
        let of = |rows: &[Row]| {
            let results = Results { rows: rows.to_vec(), ..Results::default() };
            status(&results) == ExitCode::from(INCONCLUSIVE)
        };
        let (sound, rejected) = (compared(Status::Ok), compared(Status::Rejected));
        let absent = compared(Status::NotApplicable);
        assert!(of(&[row(None, Status::Ok), rejected.clone(), absent.clone()]));
        assert!(!of(&[rejected, sound]));
        assert!(!of(&[row(None, Status::Rejected), absent]));
    }

    #[test]
    fn a_rejection_names_who_used_the_cpus() {
        let objection = "native: other processes used 137 % of a CPU";
        let rustc = Busiest { pid: 77, name: "rustc".to_owned(), cpus: 1.052 };
        let told = "the first round that does not count: native: other processes used 137 % of a \
                    CPU";
        assert_eq!(told_of_rejection(objection, &[]), told);
        let named = format!("{told}\n  busiest beside this run: rustc (process 77) 105 % of a CPU");
        assert_eq!(told_of_rejection(objection, &[rustc]), named);
    }

    #[test]
    fn a_disk_that_is_full_does_not_hide_what_failed() {
        let nowhere = Some(Path::new("/nonexistent/results.json"));
        let told = tell(&Results::default(), nowhere, None);
        let said = format!("{:#}", all([Err(anyhow!("nginx ended")), Ok(()), told]).unwrap_err());
        assert!(said.starts_with("nginx ended\ncannot write /nonexistent/results.json"), "{said}");
        assert!(all([Ok(()), Ok(())]).is_ok());
    }
}
