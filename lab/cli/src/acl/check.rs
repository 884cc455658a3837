//! `widelane acl check`: reads rules, and says which are odd.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use widelane_classify::check;
use widelane_cli::output;

use super::build::limits;
use super::explain::Explained;
use super::input::{self, Format};

/// Reads a rule file, and lists rules that others hide and rules that disagree
#[derive(clap::Args)]
pub struct Args {
    /// Rule file
    rules: PathBuf,
    /// How it is written
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,
    /// Lists at most COUNT pairs of rules that overlap and have different results; takes time with
    /// the square of the number of rules
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    conflicts: usize,
    /// Tells how the rules are divided, where lookups spend their time, and which rules make them
    /// slow
    #[arg(long)]
    explain: bool,
    /// Flows to look up for --explain; without it, flows are drawn from the rules
    #[arg(long, value_name = "FILE", requires = "explain")]
    trace: Option<PathBuf>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// The largest table allowed, MiB: rules are looked up in one
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory_max: usize,
}

#[derive(Serialize)]
struct Findings {
    rules: usize,
    /// Rules that never decide, though they say something else than the rule that hides them.
    shadowed: Vec<Pair>,
    /// Rules that never decide, and would not decide otherwise.
    redundant: Vec<Pair>,
    conflicts: Vec<Pair>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<Explained>,
}

/// Two rules, by their lines.
#[derive(Serialize)]
struct Pair {
    line: u32,
    other_line: u32,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let set = input::rules(&args.rules, args.format)?;
    let limits = limits(args.memory_max);
    let pair = |rule: usize, other: usize| {
        let line = |index: usize| set.rules[index].line;
        Pair { line: line(rule), other_line: line(other) }
    };
    let (mut shadowed, mut redundant) = (Vec::new(), Vec::new());
    for hidden in check::hidden(&set, &limits)? {
        let list = if hidden.same_result { &mut redundant } else { &mut shadowed };
        list.push(pair(hidden.rule, hidden.by));
    }
    let conflicts = match args.conflicts {
        0 => Vec::new(),
        most => check::conflicts(&set, most),
    };
    let conflicts =
        conflicts.into_iter().map(|(stronger, weaker)| pair(weaker, stronger)).collect();
    let explained = match args.explain {
        true => Some(Explained::of(&set, args.trace.as_deref(), &limits)?),
        false => None,
    };
    let findings = Findings { rules: set.rules.len(), shadowed, redundant, conflicts, explained };
    if args.json {
        output::print(&serde_json::to_string_pretty(&findings)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(&findings.text(&args.rules.display().to_string()))?;
    if let Some(explained) = &findings.explained {
        output::print(&widelane_tables::show(explained.blocks(), &output::style()))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Findings {
    fn text(&self, file: &str) -> String {
        let mut text = format!(
            "{file}: {} rules, {} shadowed, {} redundant\n",
            self.rules,
            self.shadowed.len(),
            self.redundant.len()
        );
        let kinds = [
            (&self.shadowed, "is never reached: it says something else than line"),
            (&self.redundant, "is superfluous: it says the same as line"),
            (&self.conflicts, "is overruled where it overlaps line"),
        ];
        for (pairs, what) in kinds {
            for Pair { line, other_line } in pairs {
                text.push_str(&format!("{file}:{line}: {what} {other_line}\n"));
            }
        }
        text
    }
}
