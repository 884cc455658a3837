//! `widelane report`: results files to terminal, Markdown, CSV or HTML.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use widelane_cli::{output, system};
use widelane_results::Results;
use widelane_tables::Style;

use crate::measure;
use crate::targets::WrittenFile;

/// Shows results files on the terminal, as Markdown, CSV or HTML
///
/// Several files are told apart by their names: in CSV at the beginning of each row.
#[derive(clap::Args)]
pub struct Args {
    /// Results files, as `--json` of compare, speed, simulate and acl bench and `--results` of
    /// load, power and tune write them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The format; by default what the end of the output's name says (.txt, .md, .csv, .html), and
    /// terminal without --output
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Writes there instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<WrittenFile>,
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
        match path.extension()?.to_ascii_lowercase().to_str()? {
            "csv" => Some(Format::Csv),
            "html" | "htm" => Some(Format::Html),
            "md" | "markdown" => Some(Format::Markdown),
            "txt" => Some(Format::Terminal),
            _ => None,
        }
    }
}

/// What a file takes, wherever it is read.
const PLAIN: Style = Style { colour: false, width: 100 };

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let output = args.output.as_deref();
    let format = match (args.format, output) {
        (Some(format), _) => format,
        (None, None) => Format::Terminal,
        (None, Some(path)) => Format::of(path).with_context(|| {
            format!(
                "{} does not end in .txt, .md, .csv or .html; name it so, or give --format",
                path.display()
            )
        })?,
    };
    if format == Format::Html && args.files.len() > 1 {
        bail!("an HTML report shows one run; give one results file, or --format markdown");
    }
    let read = |file: &PathBuf| Ok((file.display().to_string(), measure::read_results(file)?));
    let files = args.files.iter().map(read).collect::<anyhow::Result<Vec<(String, Results)>>>()?;
    let style = if output.is_some() { PLAIN } else { output::style() };
    let text = match (format, files.as_slice()) {
        (Format::Terminal, [(_, one)]) => widelane_report::terminal(one, &style),
        (Format::Terminal, _) => widelane_report::terminal_of_files(&files, &style),
        (Format::Markdown, [(_, one)]) => widelane_report::markdown(one),
        (Format::Markdown, _) => widelane_report::markdown_of_files(&files),
        (Format::Csv, [(_, one)]) => widelane_report::csv(one),
        (Format::Csv, _) => widelane_report::csv_of_files(&files),
        (Format::Html, _) => files.iter().map(|(_, one)| widelane_report::html(one)).collect(),
    };
    match output {
        Some(path) => system::write(path, &text)?,
        // What is for a terminal has been made fit for one, with its colours.
        None if format == Format::Terminal => output::print(&text)?,
        None => output::print_untrusted(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}
