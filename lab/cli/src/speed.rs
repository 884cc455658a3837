//! `widelane speed`: the algorithms alone, room by room, beside OpenSSL's own and other libraries.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use widelane_bench::machine;
use widelane_bench::pairs::Rounds;
use widelane_bench::speed::{self, Library, Operation, Plan, UnknownAlgorithm};
use widelane_cli::system;
use widelane_cpu::Room;

use crate::targets::WrittenFile;
use crate::{measure, rival};

/// Times the algorithms alone, room by room, beside OpenSSL's own and other libraries
///
/// Exits with 3 if every comparison was rejected.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[arg(value_name = "ALGORITHM", value_parser = selection, help = algorithms_help())]
    algorithms: Vec<Selection>,
    /// Compares two ciphers instead, record by record: AES-128-GCM, and AES-128-CBC with
    /// HMAC-SHA1, both by OpenSSL and with the provider
    #[arg(long, conflicts_with_all = ["algorithms", "room", "against", "rival"])]
    cipher_compare: bool,
    /// Rooms: all, or names separated by commas
    #[arg(long, value_delimiter = ',', default_value = "all")]
    room: Vec<String>,
    /// Bytes of the messages, of algorithms whose cost depends on them
    #[arg(long, value_delimiter = ',', default_value = "64,256,1024,1350,4096,16384",
          value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    size: Vec<u32>,
    /// Public-key operations by the number of jobs at a time, 1 to 8: the cost of a batch that is
    /// not full
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=8),
          conflicts_with_all = ["cipher_compare", "size"])]
    jobs: Vec<u8>,
    /// Libraries to compare with. All but openssl need the program widelane-rival-bulk and take
    /// part only in messages and ML-KEM [default: all that are there]
    #[arg(long, value_enum, value_delimiter = ',')]
    against: Vec<Rival>,
    /// The program that has the other libraries, if it is neither beside this one nor in the PATH
    #[arg(long, value_name = "PROGRAM")]
    rival: Option<PathBuf>,
    /// Rounds, each of which times each library once; up to half as many more follow where an
    /// interval is still wide
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = 20)]
    pairs: u32,
    /// CPU time of one measurement, in seconds, 0.005 to 600 [default: 0.06, or 0.02 for messages]
    #[arg(long, value_parser = widelane_cli::units::seconds_of_speed)]
    seconds: Option<Duration>,
    /// Writes the results as JSON (docs/formats/results.md)
    #[arg(long, visible_alias = "results", value_name = "FILE")]
    json: Option<WrittenFile>,
    /// Writes a report that needs nothing but a browser
    #[arg(long, value_name = "FILE")]
    html: Option<WrittenFile>,
}

const EXAMPLES: &str = "\
Examples:
  widelane speed rsa2048 ecdsa --against openssl
  widelane speed aes-128-gcm/seal --size 1350,16384
  widelane speed rsa2048/private x25519/derive --jobs 1,2,3,4,5,6,7,8 --json speed.json";

fn algorithms_help() -> String {
    format!(
        "What to time, all by default: {}; one operation of them (x25519/derive, \
         aes-128-gcm/seal), what several begin with (ecdsa, sha), or aead for all authenticated \
         encryption",
        speed::algorithms().join(", ")
    )
}

/// What one argument stands for.
#[derive(Clone)]
struct Selection(Vec<&'static Operation>);

impl Selection {
    fn is_without_lanes(&self) -> bool {
        !self.0.iter().any(|operation| operation.has_lanes())
    }
}

fn selection(name: &str) -> Result<Selection, UnknownAlgorithm> {
    speed::select(name).map(Selection)
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rival {
    /// No library
    None,
    /// The OpenSSL of this system
    Openssl,
    /// AWS-LC
    AwsLc,
    /// Graviola
    Graviola,
    /// Intel's Multi-Buffer Crypto for IPsec
    IpsecMb,
    /// libcrux, which has ML-KEM here
    Libcrux,
    /// ring
    Ring,
}

impl Rival {
    fn library(self) -> Option<Library> {
        match self {
            Rival::None | Rival::Openssl => None,
            Rival::AwsLc => Some(Library::AwsLc),
            Rival::Graviola => Some(Library::Graviola),
            Rival::IpsecMb => Some(Library::IpsecMb),
            Rival::Libcrux => Some(Library::Libcrux),
            Rival::Ring => Some(Library::Ring),
        }
    }
}

/// The program that has the other libraries.
const RIVAL_PROGRAM: &str = "widelane-rival-bulk";

const BUILD_RIVAL: &str =
    "build it with `cargo install --path rivals/bulk --features ipsec-mb`, or name it with --rival";

impl Args {
    fn is_against(&self, rival: Rival) -> bool {
        self.against.is_empty() || self.against.contains(&rival)
    }

    /// The other libraries that are wanted, in a program that is there.
    fn libraries(&self) -> anyhow::Result<Option<(PathBuf, Vec<Library>)>> {
        let asked: Vec<Library> = self.against.iter().filter_map(|rival| rival.library()).collect();
        let wanted = if self.against.is_empty() { Library::ALL.to_vec() } else { asked.clone() };
        let program = rival::find(RIVAL_PROGRAM, self.rival.as_deref());
        match program {
            _ if wanted.is_empty() => Ok(None),
            Some(program) => Ok(Some((program, wanted))),
            None if asked.is_empty() => Ok(None),
            None => bail!(
                "{} cannot be timed: {RIVAL_PROGRAM} is neither beside this program nor in the \
                 PATH; {BUILD_RIVAL}",
                asked[0].name()
            ),
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let programs = measure::programs()?;
    let resolved = system::policy()?;
    if !args.jobs.is_empty() && args.algorithms.iter().any(Selection::is_without_lanes) {
        let with_lanes = speed::operations().filter(|operation| operation.has_lanes());
        let names = speed::algorithms_of(with_lanes).join(", ");
        bail!("--jobs counts public-key operations; name some of {names}");
    }
    let plan = Plan {
        operations: operations(&args),
        rooms: rooms(&args.room)?,
        sizes: ascending(&args.size),
        jobs: ascending(&args.jobs),
        against_openssl: args.is_against(Rival::Openssl),
        provider: programs.provider.clone(),
        libraries: args.libraries()?,
        rounds: Rounds::with_spare(args.pairs),
        window: args.seconds,
    };
    let mut results = measure::blank(machine::describe(&programs, &resolved));
    let stop = system::stop_on_signals()?;
    let mut progress = measure::Progress::new(args.json.as_deref());
    let outcome = if args.cipher_compare {
        speed::ciphers::run(&plan, &mut results, &stop, &mut progress)
    } else {
        speed::run(&plan, &resolved.policy, &mut results, &stop, &mut progress)
    };
    progress.finish();
    if results.rows.is_empty()
        && let Err(error) = outcome
    {
        return Err(error.into());
    }
    let has_theirs = plan.operations.iter().any(|operation| operation.is_elsewhere());
    if has_theirs && plan.libraries.is_none() && args.against.is_empty() && !args.cipher_compare {
        results.note(format!(
            "Without other libraries: {RIVAL_PROGRAM} is neither beside this program nor in the \
             PATH; {BUILD_RIVAL}."
        ));
    }
    let told = measure::tell(&results, args.json.as_deref(), args.html.as_deref());
    measure::all([outcome.map_err(Into::into), told])?;
    Ok(measure::status(&results))
}

/// Sizes or numbers of jobs, each once, the smallest first.
fn ascending<T: Copy + TryInto<usize>>(numbers: &[T]) -> Vec<usize> {
    let mut all: Vec<usize> =
        numbers.iter().filter_map(|number| (*number).try_into().ok()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// What was selected, each once, in the order of the list; where jobs are counted, what has them.
fn operations(args: &Args) -> Vec<&'static Operation> {
    let selections = args.algorithms.iter().flat_map(|Selection(operations)| operations);
    let selected: Vec<String> = selections.map(|operation| operation.path()).collect();
    let is_wanted = |operation: &&'static Operation| {
        (selected.is_empty() || selected.contains(&operation.path()))
            && (args.jobs.is_empty() || operation.has_lanes())
    };
    speed::operations().filter(is_wanted).collect()
}

fn rooms(names: &[String]) -> anyhow::Result<Vec<Room>> {
    if names.iter().any(|name| name == "all") {
        return Ok(Room::ALL.to_vec());
    }
    let mut rooms = Vec::new();
    for name in names {
        match Room::ALL.into_iter().find(|room| room.name() == name) {
            Some(room) => rooms.push(room),
            None => {
                let known: Vec<&str> = Room::ALL.into_iter().map(Room::name).collect();
                bail!("there is no room {name:?}; the rooms are {}, or all", known.join(", "));
            }
        }
    }
    Ok(rooms)
}
