//! `widelane simulate`: what acceleration is worth over the load, on machines of any size.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::ValueEnum;
use widelane_bench::simulate::Plan;
use widelane_bench::simulate::costs::Costs;
use widelane_cli::output::WrongUsage;
use widelane_cli::units;
use widelane_results::{Answer, Machine, Results, Tone};

use crate::compare::{has_twins, refuse_twins};
use crate::measure;
use crate::targets::WrittenFile;

/// Predicts CPU time and latency of handshakes from measured costs, for many workers or few
///
/// Goes through loads, with and without a wait for other operations, and with and without
/// combining. The costs are those that `widelane speed` measured, or given here;
/// docs/measure/simulate.md describes the model.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Results of `widelane speed --jobs 1,2,3,4,5,6,7,8 --json FILE` on the machine in question;
    /// give these, or --cost and --native-cost
    #[arg(long, value_name = "FILE")]
    speed: Option<PathBuf>,
    /// The private-key operations of one handshake, in those results
    #[arg(
        long,
        value_name = "OPERATION",
        value_delimiter = ',',
        default_value = "rsa2048/private,x25519/derive",
        conflicts_with = "cost"
    )]
    operations: Vec<String>,
    /// Instead of results: the cost of one operation, of two at once, and so on, as 205us,385us
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = units::duration,
          conflicts_with = "speed")]
    cost: Vec<Duration>,
    /// With --cost: what OpenSSL needs for one operation
    #[arg(long, value_name = "TIME", value_parser = units::duration, conflicts_with = "speed")]
    native_cost: Option<Duration>,
    /// The rest of a handshake: what `compare` measures natively, less the operations
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    rest: Duration,
    /// The rest of an accelerated handshake [default: as natively]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    rest_accelerated: Option<Duration>,
    /// Numbers of workers
    #[arg(long, value_name = "COUNT", value_delimiter = ',', default_value = "1,2,3,4,16,64",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Vec<u16>,
    /// How long an operation may wait for others
    #[arg(long, value_name = "TIME", value_delimiter = ',', default_value = "0,500us",
          value_parser = units::duration)]
    wait: Vec<Duration>,
    /// Whether workers combine their operations
    #[arg(long, value_enum, default_value_t = Combine::Both)]
    combine: Combine,
    /// Loads, in percent of what the native server can do
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = crate::compare::load,
          default_value = "10,20,30,40,60,80,90")]
    load: Vec<u8>,
    /// Handshakes of each simulation
    #[arg(long, value_name = "COUNT", default_value_t = 50_000,
          value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    handshakes: u32,
    /// Makes arrivals reproducible
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes the results as JSON (docs/formats/results.md)
    #[arg(long, visible_alias = "results", value_name = "FILE")]
    json: Option<WrittenFile>,
    /// Writes a report that needs nothing but a browser
    #[arg(long, value_name = "FILE")]
    html: Option<WrittenFile>,
}

const EXAMPLES: &str = "\
Examples:
  widelane speed rsa2048/private x25519/derive --jobs 1,2,3,4,5,6,7,8 --json speed.json
  widelane simulate --speed speed.json --rest 240us
  widelane simulate --cost 205us,260us,360us,360us --native-cost 400us --rest 240us --workers 4";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Combine {
    /// Each worker executes its own
    Off,
    /// A worker that waits leaves its operations for others, which execute them with their own
    On,
    /// One after the other
    Both,
}

/// No simulation is of more time.
const YEARS_MAX: f64 = 100.0;

impl Args {
    /// The costs, and the results that they are from.
    fn costs(&self) -> anyhow::Result<(Costs, Option<Results>)> {
        if let Some(path) = &self.speed {
            let speed = measure::read_results(path)?;
            let costs =
                Costs::of_speed(&speed, &self.operations).map_err(|error| anyhow!(error))?;
            return Ok((costs, Some(speed)));
        }
        if self.cost.is_empty() || self.native_cost.is_none() {
            let usage = "give --speed FILE, or --cost and --native-cost";
            return Err(WrongUsage(usage.to_owned()).into());
        }
        let us = |time: &Duration| time.as_secs_f64() * 1e6;
        let native = self.native_cost.as_ref().map_or(0.0, us);
        let runs: Vec<f64> = self.cost.iter().map(us).collect();
        let costs = Costs::new(native, &runs).map_err(|error| anyhow!(error))?;
        Ok((costs, None))
    }

    fn plan(&self, costs: Costs) -> anyhow::Result<Plan> {
        if self.rest.is_zero() {
            bail!("--rest is above zero: a handshake is more than its operations");
        }
        if self.combine == Combine::On && self.workers.contains(&1) {
            bail!("--combine on takes two --workers or more: one has nobody to combine with");
        }
        // The clock of the simulation counts nanoseconds in 64 bits, which are 584 years.
        let rest = self.rest.max(self.rest_accelerated.unwrap_or_default());
        let dearest = costs.together.iter().copied().fold(costs.native, u64::max);
        let each = rest + Duration::from_nanos(dearest);
        let load = f64::from(self.load.iter().copied().min().unwrap_or(100)) / 100.0;
        if each.as_secs_f64() * f64::from(self.handshakes) / load > YEARS_MAX * 365.0 * 86_400.0 {
            bail!(
                "so many handshakes of such costs take more than {YEARS_MAX} years; give fewer \
                 --handshakes or more --load"
            );
        }
        Ok(Plan {
            costs,
            rest: [self.rest, self.rest_accelerated.unwrap_or(self.rest)],
            workers: self.workers.iter().copied().map(usize::from).collect(),
            waits: self.wait.clone(),
            combine: match self.combine {
                Combine::Off => vec![false],
                Combine::On => vec![true],
                Combine::Both => vec![false, true],
            },
            loads: self.load.clone(),
            handshakes: self.handshakes as usize,
            seed: self.seed,
        })
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    refuse_twins(&[
        ("--workers", has_twins(&args.workers)),
        ("--wait", has_twins(&args.wait)),
        ("--load", has_twins(&args.load)),
    ])?;
    let (json, html) = (args.json.as_deref(), args.html.as_deref());
    let (costs, speed) = args.costs()?;
    let plan = args.plan(costs)?;
    // The figures are of the machine whose costs these are; of costs alone it is not known.
    let is_whole = speed.as_ref().is_none_or(|speed| speed.complete);
    let mut results = measure::blank(speed.map_or_else(Machine::default, |speed| speed.machine));
    if !is_whole {
        results.note("The results with the costs are incomplete.".to_owned());
    }
    plan.run(&mut results);
    results.complete = true;
    results.answer = Some(answer(&plan));
    measure::tell(&results, json, html)?;
    Ok(ExitCode::SUCCESS)
}

/// What the figures rest on.
fn answer(plan: &Plan) -> Answer {
    let us = |ns: &u64| format!("{:.0}", *ns as f64 / 1e3);
    let together: Vec<String> = plan.costs.together.iter().map(us).collect();
    Answer {
        tone: Tone::Same,
        sentence: "Predicted, not measured: arrivals are simulated from these costs.".to_owned(),
        detail: format!(
            "Operations of one handshake by OpenSSL: {} µs. Ours, of one and more at once: {} µs. \
             The rest of a handshake: {} µs natively, {} µs accelerated.",
            us(&plan.costs.native),
            together.join(", "),
            plan.rest[0].as_micros(),
            plan.rest[1].as_micros()
        ),
    }
}
