//! Results files of commands whose JSON is their own: for `widelane report`.

use widelane_bench::machine;
use widelane_cli::system;
use widelane_meter::verdict::Ratio;
use widelane_results::{Answer, Machine, Results, Row, Tone, Trace};

use crate::measure;
use crate::targets::WrittenFile;

/// Whether and where what was found is kept.
#[derive(clap::Args)]
pub struct Keep {
    /// Also writes a results file, for `widelane report` (docs/formats/results.md)
    #[arg(long, value_name = "FILE")]
    pub results: Option<WrittenFile>,
}

impl Keep {
    /// Writes what `fill` adds, measured on this machine from `created` on, to its end if it is
    /// `complete`.
    pub fn here(
        &self,
        created: &str,
        complete: bool,
        fill: impl FnOnce(&mut Results),
    ) -> anyhow::Result<()> {
        let describe = || Ok(machine::describe(&measure::programs()?, &system::policy()?));
        self.keep(created, complete, describe, fill)
    }

    /// Writes what `fill` adds, measured from `created` on, to its end if it is `complete`, on a
    /// machine of which only the model is known, and it may be how many CPUs are on line.
    pub fn elsewhere(
        &self,
        created: &str,
        complete: bool,
        (model, cpus): (&str, Option<u32>),
        fill: impl FnOnce(&mut Results),
    ) -> anyhow::Result<()> {
        let cpus = cpus.unwrap_or_default();
        let known = Machine { model: Some(model.to_owned()), cpus, ..Machine::default() };
        self.keep(created, complete, || Ok(known), fill)
    }

    fn keep(
        &self,
        created: &str,
        complete: bool,
        machine: impl FnOnce() -> anyhow::Result<Machine>,
        fill: impl FnOnce(&mut Results),
    ) -> anyhow::Result<()> {
        let Some(path) = &self.results else { return Ok(()) };
        let created = created.to_owned();
        let mut results = Results { created, complete, ..measure::blank(machine()?) };
        fill(&mut results);
        measure::write_results(path, &results)
    }
}

/// The answer, as results have it.
pub fn answer(tone: Tone, sentence: String, detail: String) -> Option<Answer> {
    Some(Answer { tone, sentence, detail })
}

/// A row of a subject in a scenario: metric, unit and value.
pub fn row(scenario: &str, subject: &str, (metric, unit): (&str, &str), value: f64) -> Row {
    Row {
        scenario: scenario.to_owned(),
        subject: subject.to_owned(),
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        value: Some(value),
        ..Row::default()
    }
}

/// A row of a subject in a scenario: metric and ratio to `rival`, with its interval.
pub fn ratio_row(scenario: &str, subject: &str, metric: &str, rival: &str, ratio: Ratio) -> Row {
    Row {
        rival: Some(rival.to_owned()),
        ratio: Some(ratio.value),
        ratio_low: Some(ratio.low),
        ratio_high: Some(ratio.high),
        ..row(scenario, subject, (metric, "1"), ratio.value)
    }
}

/// A trace of a subject in a scenario: metric and unit, what it runs along and the unit of that.
pub fn trace(
    scenario: &str,
    subject: &str,
    (metric, unit): (&str, &str),
    (along, along_unit): (&str, &str),
    points: Vec<[f64; 2]>,
) -> Trace {
    Trace {
        scenario: scenario.to_owned(),
        subject: subject.to_owned(),
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        along: along.to_owned(),
        along_unit: along_unit.to_owned(),
        points,
    }
}
