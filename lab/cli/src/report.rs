//! `widelane report`: results files to terminal, Markdown, CSV or HTML.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use widelane_cli::{output, system};
use widelane_results::Results;

/// Shows results files on the terminal, as Markdown, CSV or HTML
///
/// CSV of several files begins each row with the name of its file.
#[derive(clap::Args)]
pub struct Args {
    /// Results files, as `--json` of compare, speed, simulate and acl bench and `--results` of
    /// load, power and tune write them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The format; by default what the end of the output's name says, else terminal
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Writes there instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Terminal,
    Markdown,
    Csv,
    Html,
}

impl Format {
    /// The format that the name of `path` asks for.
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "csv" => Some(Format::Csv),
            "html" | "htm" => Some(Format::Html),
            "md" | "markdown" => Some(Format::Markdown),
            _ => None,
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let format = args.format.or_else(|| args.output.as_deref().and_then(Format::of));
    let format = format.unwrap_or(Format::Terminal);
    if format == Format::Html && args.files.len() > 1 {
        bail!("an HTML report shows one run; give one results file, or --format markdown");
    }
    let read = |file: &PathBuf| Ok((file.display().to_string(), read(file)?));
    let files = args.files.iter().map(read).collect::<anyhow::Result<Vec<(String, Results)>>>()?;
    let text = match format {
        Format::Csv if files.len() > 1 => widelane_report::csv_of_files(&files),
        _ => {
            let shown = files.iter().map(|(_, results)| match format {
                Format::Terminal => widelane_report::terminal(results, &output::style()),
                Format::Markdown => widelane_report::markdown(results),
                Format::Csv => widelane_report::csv(results),
                Format::Html => widelane_report::html(results),
            });
            shown.collect::<Vec<_>>().join("\n")
        }
    };
    match &args.output {
        Some(path) => system::write(path, &text)?,
        // What is for a terminal has been made fit for one, with its colours.
        None if format == Format::Terminal => output::print(&text)?,
        None => output::print_untrusted(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> anyhow::Result<Results> {
    let name = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    if text.trim().is_empty() {
        bail!("cannot show {name}: the file is empty");
    }
    Results::from_json(&text).with_context(|| format!("cannot show {name}"))
}
