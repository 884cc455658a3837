//! The way to standard output: one door, that a reader may close without a panic.

use std::env;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use widelane_tables::{Style, printable};

/// Standard output was closed by its reader (`widelane … | head`): end quietly, without a message.
#[derive(Debug)]
pub struct ReaderGone;

impl ReaderGone {
    /// The status of a program that SIGPIPE ended, 128 + 13.
    pub const EXIT_STATUS: u8 = 141;
}

impl fmt::Display for ReaderGone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("standard output was closed by its reader")
    }
}

impl std::error::Error for ReaderGone {}

/// A command line that is found to be wrong after it was read.
#[derive(Debug)]
pub struct WrongUsage(pub String);

impl WrongUsage {
    /// The status that clap, too, exits with in this case.
    pub const EXIT_STATUS: u8 = 2;
}

impl fmt::Display for WrongUsage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

/// Prints `text`, with a line end if it lacks one.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let line_end = if text.ends_with('\n') { "" } else { "\n" };
    match write!(stdout, "{text}{line_end}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        Err(error) => Err(anyhow::Error::new(error).context("cannot write to standard output")),
        Ok(()) => Ok(()),
    }
}

/// Prints `text` that may contain parts from untrusted sources: unchanged into files and pipes, and
/// on a terminal without control sequences.
pub fn print_untrusted(text: &str) -> anyhow::Result<()> {
    match io::stdout().is_terminal() {
        true => print(&printable(text)),
        false => print(text),
    }
}

/// Says something on standard error that is no result, such as what a server is started without. If
/// that cannot be written, the command goes on.
pub fn remark(text: &str) {
    drop(io::stderr().write_all(printable(&format!("widelane: {text}\n")).as_bytes()));
}

/// Says on standard error what went wrong and why. If that cannot be written, the exit status has
/// to do.
pub fn complain(error: &anyhow::Error) {
    drop(io::stderr().write_all(complaint(error).as_bytes()));
}

/// What is said of an error. It may repeat what files and other hosts hold.
fn complaint(error: &anyhow::Error) -> String {
    let mut text = format!("widelane: {error}\n");
    for cause in error.chain().skip(1) {
        text.push_str(&format!("  because: {cause}\n"));
    }
    printable(&text.replace('\t', " ")).into_owned()
}

/// The exit status of a command, after what went wrong was said.
pub fn end_with(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        if error.is::<ReaderGone>() {
            return ExitCode::from(ReaderGone::EXIT_STATUS);
        }
        complain(&error);
        let is_usage = error.is::<WrongUsage>();
        if is_usage { ExitCode::from(WrongUsage::EXIT_STATUS) } else { ExitCode::FAILURE }
    })
}

/// How standard output wants its text: as wide as its terminal, and coloured unless `NO_COLOR` or
/// `TERM=dumb` say no. Files and pipes get lines of any length: programs look for words there.
pub fn style() -> Style {
    let no_colour = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
    let width = terminal_size::terminal_size_of(io::stdout());
    let width = width.map_or(u16::MAX, |(width, _)| width.0.max(WIDTH_MIN));
    Style { colour: io::stdout().is_terminal() && !no_colour && !dumb, width }
}

/// Columns below which tables are not squeezed further.
const WIDTH_MIN: u16 = 40;

/// Makes sure that docs/formats/status.md names every field of a value's JSON, those of objects in
/// its lists too.
#[cfg(test)]
pub fn assert_documented(value: &impl serde::Serialize) {
    let document = include_str!("../../../docs/formats/status.md");
    let mut left = vec![serde_json::to_value(value).unwrap()];
    while let Some(value) = left.pop() {
        if let serde_json::Value::Array(values) = value {
            left.extend(values);
        } else if let serde_json::Value::Object(fields) = value {
            for (name, value) in fields {
                assert!(document.contains(&format!("`{name}`")), "{name} is not in status.md");
                left.push(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn an_error_cannot_command_a_terminal() {
        let error = anyhow!("key \u{1b}]0;owned\u{7}\tis none").context("a\u{9b}2Jb\nc");
        let said = complaint(&error);
        assert_eq!(
            said,
            "widelane: a\u{fffd}2Jb\nc\n  because: key \u{fffd}]0;owned\u{fffd} is none\n"
        );
    }
}
