//! `widelane acl check`: reads rules, and says which are odd.

use std::collections::{HashMap, HashSet};
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

/// Rules are lines, each of which may stand for several rules of the set.
#[derive(Serialize)]
struct Findings {
    rules: usize,
    /// Rules that never decide, though they say something else than the rule that hides them.
    shadowed: Vec<Hidden>,
    /// Rules that never decide, and would not decide otherwise.
    redundant: Vec<Hidden>,
    conflicts: Vec<Pair>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<Explained>,
}

/// Two rules, by their lines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize)]
struct Pair {
    line: u32,
    other_line: u32,
}

/// A rule that another hides.
#[derive(Serialize)]
struct Hidden {
    #[serde(flatten)]
    pair: Pair,
    /// Whether this and other rules hide all that it stands for, not some choices of its sets only.
    whole: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let set = input::rules(&args.rules, args.format)?;
    let limits = limits(args.memory_max);
    let pair = |rule: usize, other: usize| {
        let line = |index: usize| set.rules[index].line;
        Pair { line: line(rule), other_line: line(other) }
    };
    let choices = counted(set.rules.iter().map(|rule| rule.line));
    let hidden = check::hidden(&set, &limits)?;
    let hidden = hidden.iter().map(|hidden| (pair(hidden.rule, hidden.by), hidden.same_result));
    // Choices of one line that overlap are no matter of its order among others.
    let hidden: Vec<(Pair, bool)> =
        hidden.filter(|(pair, _)| pair.line != pair.other_line).collect();
    let hidden_choices = counted(hidden.iter().map(|(pair, _)| pair.line));
    let whole = |line: u32| hidden_choices[&line] == choices[&line];
    let hidden_of = |same_result: bool| -> Vec<Hidden> {
        let of_kind = hidden.iter().filter(|(_, same)| *same == same_result);
        let mut seen = HashSet::new();
        let pairs = of_kind.map(|(pair, _)| *pair).filter(|pair| seen.insert(*pair));
        pairs.map(|pair| Hidden { pair, whole: whole(pair.line) }).collect()
    };
    let mut seen = HashSet::new();
    let conflicts = check::conflicts(&set)
        .map(|(stronger, weaker)| pair(weaker, stronger))
        .filter(|pair| seen.insert(*pair))
        .take(args.conflicts)
        .collect();
    let explained = match args.explain {
        true => Some(Explained::of(&set, args.trace.as_deref(), &limits)?),
        false => None,
    };
    let (shadowed, redundant) = (hidden_of(false), hidden_of(true));
    let findings = Findings { rules: choices.len(), shadowed, redundant, conflicts, explained };
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

/// How often each line occurs.
fn counted(lines: impl Iterator<Item = u32>) -> HashMap<u32, usize> {
    let mut counts = HashMap::new();
    lines.for_each(|line| *counts.entry(line).or_default() += 1);
    counts
}

impl Findings {
    fn text(&self, file: &str) -> String {
        let lines = |list: &[Hidden], whole: bool| -> HashSet<u32> {
            let hidden = list.iter().filter(|hidden| hidden.whole == whole);
            hidden.map(|hidden| hidden.pair.line).collect()
        };
        // A line of both kinds counts once, as the more serious one.
        let shadowed = lines(&self.shadowed, true);
        let redundant = lines(&self.redundant, true).difference(&shadowed).count();
        let shadowed = shadowed.len();
        let mut text =
            format!("{file}: {} rules, {shadowed} shadowed, {redundant} redundant", self.rules);
        let in_part = lines(&self.shadowed, false).union(&lines(&self.redundant, false)).count();
        if in_part > 0 {
            text.push_str(&format!(", {in_part} in part"));
        }
        text.push('\n');
        let kinds = [
            (&self.shadowed, "is never reached", "it says something else than"),
            (&self.redundant, "is superfluous", "it says the same as"),
        ];
        for (list, what, why) in kinds {
            for Hidden { pair: Pair { line, other_line }, whole } in list {
                let part = if *whole { "" } else { " for some choices of its sets" };
                text.push_str(&format!("{file}:{line}: {what}{part}: {why} line {other_line}\n"));
            }
        }
        for Pair { line, other_line } in &self.conflicts {
            let what = "is overruled where it overlaps line";
            text.push_str(&format!("{file}:{line}: {what} {other_line}\n"));
        }
        text
    }
}
