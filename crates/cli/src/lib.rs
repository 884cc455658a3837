//! The command line of `widelane`, and what `widelane-bench` shares with it.

// `eprintln!` panics where standard error is a full disk or a pipe without a reader: there is
// `output::remark`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod cpu;
mod enable;
mod exporter;
mod flags;
mod gain;
pub mod http;
pub mod laboratory;
pub mod libraries;
pub mod live;
pub mod output;
mod run;
mod sigpipe;
mod switch;
pub mod system;
mod top;
pub mod units;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

/// The version of both programs, and the commit that they were built from where it is known.
pub const VERSION: &str = env!("WIDELANE_VERSION");

/// Cuts the CPU time that TLS servers on OpenSSL 3 or later spend on handshakes, and measures how
/// much
#[derive(Parser)]
#[command(name = "widelane", version = VERSION, after_help = AFTER_HELP)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Start with: widelane cpu; widelane compare --server nginx --quick
Pages named docs/… are in the source, and in /usr/share/doc/widelane/ where a package put them.

Exit status: 0 the job was done; 1 it was not, and the output says why; 2 the command line is wrong;
3 what was measured gives no answer (compare, gain, speed, tune --check).
`widelane run` ends with the status of the program that it ran; 127 if there is no such program, 126
if it cannot be executed.
Colour is used on terminals only; NO_COLOR=1 turns it off.";

#[derive(Subcommand)]
enum Command {
    Cpu(cpu::Args),
    Run(run::Args),
    Enable(enable::EnableArgs),
    Disable(enable::DisableArgs),
    Status(enable::StatusArgs),
    Top(top::Args),
    Off(switch::OffArgs),
    On(switch::OnArgs),
    Gain(gain::Args),
    Exporter(exporter::Args),
}

/// Does what the command line says, and says what went wrong.
pub fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    if laboratory::has(&arguments) {
        return output::end_with(laboratory::replace_process(&arguments));
    }
    let matches = command_line().try_get_matches();
    let matches = matches.unwrap_or_else(|error| with_tip(error, &arguments).exit());
    let parsed = <CommandLine as clap::FromArgMatches>::from_arg_matches(&matches);
    output::end_with(match parsed.unwrap_or_else(|error| error.exit()).command {
        Command::Cpu(args) => cpu::run(args),
        Command::Run(args) => run::run(args),
        Command::Enable(args) => enable::enable(&args),
        Command::Disable(args) => enable::disable(&args),
        Command::Status(args) => enable::status(&args),
        Command::Top(args) => top::run(&args),
        Command::Off(args) => switch::off(&args),
        Command::On(args) => switch::on(&args),
        Command::Gain(args) => gain::run(&args),
        Command::Exporter(args) => exporter::run(&args),
    })
}

/// Adds a tip where `--` is missing in front of the program of `widelane run`.
fn with_tip(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(unexpected)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let is_run = arguments.first().is_some_and(|command| command == "run");
    let is_program = error.kind() == ErrorKind::UnknownArgument && !unexpected.starts_with('-');
    let place = arguments.iter().position(|argument| argument == unexpected.as_str());
    let Some(place) = place.filter(|_| is_run && is_program) else { return error };
    let quoted = |word: &OsString| system::in_shell(&word.to_string_lossy());
    let mut words: Vec<_> = arguments.iter().map(quoted).collect();
    words.insert(place, "--".to_owned());
    let tip = format!("put -- before the program: widelane {}", words.join(" "));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Has flags that take a value take one that begins with a minus: the message that refuses it says
/// what is allowed.
pub fn with_negative_values(command: clap::Command) -> clap::Command {
    const TIME: &str = "TIME";
    let is_time = |arg: &clap::Arg| {
        arg.get_value_names().is_some_and(|names| names.iter().any(|it| it == TIME))
    };
    let command = command.mut_args(|arg| match arg.get_long() {
        Some(_) if !arg.get_action().takes_values() => arg,
        Some(_) if is_time(&arg) => arg.allow_hyphen_values(true),
        Some(_) => arg.allow_negative_numbers(true),
        None => arg,
    });
    command.mut_subcommands(with_negative_values)
}

/// The whole command line, with a line for each command of the laboratory.
pub fn command_line() -> clap::Command {
    let lines = laboratory::COMMANDS
        .iter()
        .map(|(name, about)| clap::Command::new(*name).about(*about).disable_help_flag(true));
    let own = with_negative_values(CommandLine::command());
    let template = help_template(&own);
    own.subcommands(lines).help_template(template)
}

/// The page of help, whose commands are in two lists by what they are for.
fn help_template(own: &clap::Command) -> clap::builder::StyledStr {
    let styles = own.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let line = |name: &str, about: &str| format!("  {literal}{name:<8}{literal:#}  {about}\n");
    let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
    let of_servers = own.get_subcommands();
    let of_servers = of_servers.map(|it| line(it.get_name(), &about(it).unwrap_or_default()));
    let of_laboratory = laboratory::COMMANDS.iter().map(|(name, about)| line(name, about));
    format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n\
         {header}Servers:{header:#}\n{}\n\
         {header}Measuring (package widelane-bench):{header:#}\n{}\n\
         {header}Options:{header:#}\n{{options}}{{after-help}}",
        of_servers.collect::<String>(),
        of_laboratory.collect::<String>()
    )
    .into()
}
