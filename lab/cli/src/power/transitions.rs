//! `widelane power transitions`: how long a licence takes to come and to go.

use std::process::ExitCode;

use widelane_meter::experiment::transitions::{self, Plan};
use widelane_meter::verdict::transitions::{Transition, judge};
use widelane_results::Results;
use widelane_tables::{Block, Tone};

use super::{Common, Part, limits, measured_on, plot, subject};
use crate::keep::{answer, row, trace};

/// Times the way up to a licence and the way back, at microsecond resolution
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// The heavy code, a subject of `power map` [default: vfmadd213pd-512, or -256 where
    /// the CPU has no more]
    #[arg(long, value_name = "NAME", conflicts_with = "replay")]
    subject: Option<String>,
    /// Trials to average [default: 200, or as many as begin in 40 s]
    #[arg(long, value_parser = clap::value_parser!(u32).range(6..=10_000),
          conflicts_with = "replay")]
    trials: Option<u32>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let subject = subject(args.subject.as_deref())?;
    let (trials, seconds) = limits(args.trials, (200, 40.0));
    let plan = Plan { subject, trials, seconds };
    let recorded = args
        .common
        .recording("transitions", |machine, watcher| transitions::run(&plan, machine, watcher))?;
    let found = judge(&recorded.recording)?;
    let (tone, lead, detail) = told(&found);
    let mut blocks = vec![Block::Lead(tone, lead.clone())];
    blocks.extend(measured_on(&recorded.recording).map(Block::Text));
    let written = args.common.keep(recorded, |results| {
        results.answer = answer(tone, lead, detail);
        found.iter().for_each(|transition| fill(results, transition));
    });
    let mut parts = vec![Part::Blocks(blocks)];
    found.iter().for_each(|transition| parts.extend(traces(transition)));
    args.common.answer(tone, &found, parts, written)
}

/// What was found, in words and in detail.
fn told(found: &[Transition]) -> (Tone, String, String) {
    let Some(heavy) = found.iter().find(|transition| transition.subject != "scalar") else {
        let lead = "Cannot tell: fewer than six trials were quiet enough; try more, or again when \
                    the machine is quieter.";
        return (Tone::Unknown, lead.to_owned(), String::new());
    };
    let tone = if heavy.down_us == Some(0.0) { Tone::Better } else { Tone::Same };
    let lead = format!("{}: {}.", heavy.subject, heavy.sentence());
    (tone, lead, format!("{} trials.", heavy.trials))
}

/// Adds a transition to `results`.
fn fill(results: &mut Results, transition: &Transition) {
    const SCENARIO: &str = "power/transitions";
    let Transition { subject, heavy, light, .. } = transition;
    for (metric, value) in [
        (("ambient_clock", "MHz"), Some(transition.ambient_mhz)),
        (("clock_after", "MHz"), Some(transition.after_mhz)),
        (("up", "us"), transition.up_us),
        (("pace_until_then", "1"), Some(transition.throttled_to)),
        (("halt", "us"), Some(transition.halt_us)),
        (("down", "us"), transition.down_us),
    ] {
        results.rows.extend(value.map(|value| row(SCENARIO, subject, metric, value)));
    }
    for (metric, points) in [("pace", heavy), ("clock_kept", light)] {
        let points = points.iter().map(|(us, value)| [*us, *value]).collect();
        results.traces.push(trace(SCENARIO, subject, (metric, "1"), ("time", "us"), points));
    }
}

fn traces(transition: &Transition) -> [Part; 4] {
    let heading =
        |what: &str| Part::Blocks(vec![Block::Heading(format!("{}: {what}", transition.subject))]);
    [
        heading("its pace from the first microseconds on, over where it settles"),
        Part::Plot(plot::line(&transition.heavy)),
        heading("the clock from its last instruction on, over the ambient one"),
        Part::Plot(plot::line(&transition.light)),
    ]
}
