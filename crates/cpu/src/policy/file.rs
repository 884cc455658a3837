//! The policy file: TOML, strict, with errors that name the line.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::{Choose, Combine, Engine, LaneCpus, LaneRooms, LaneUser, Policy, WaitMax};
use crate::rooms::{LicenceClass, Room, Width};

/// What a policy file may hold; shown where a key is unlike any of these.
const ALLOWED: &str = "\
a policy holds width_max = 128, 256 or 512; classes_closed = [\"512-heavy\", …]; \
rooms_closed = [\"ifma512\", …]; choose = \"widest\" or \"auto\"; wait_max = \"0.5ms\" or \"rtt\"; \
combine = \"on\", \"off\" or \"auto\"; lane_cpus = \"2,4-7\" or \"none\"; \
lane_user = \"widelane\"; engine = \"cpu\", \"qat\" or \"qat-first\"; each may be left out; \
a table [lane_process] at the end holds width_max, classes_closed and rooms_closed of that process";

/// Where the rest is explained; shown with every other error.
const EXPLAINED: &str = "see docs/operate/policy.md";

/// How each key is written: shown where its value is of another type.
const WRITTEN: [(&str, &str); 10] = [
    ("width_max", "a number: 128, 256 or 512, without quotes"),
    ("classes_closed", "a list of names in quotes, such as [\"512-heavy\"]"),
    ("rooms_closed", "a list of names in quotes, such as [\"ifma512\"]"),
    ("choose", "\"widest\" or \"auto\", in quotes"),
    ("wait_max", "a time in quotes, such as \"0.5ms\""),
    ("combine", "\"on\", \"off\" or \"auto\", in quotes"),
    ("lane_cpus", "a list in quotes, such as \"2,4-7\""),
    ("engine", "\"cpu\", \"qat\" or \"qat-first\", in quotes"),
    ("lane_user", "a name in quotes, such as \"widelane\""),
    ("lane_process", "a table: the line [lane_process], and its keys below"),
];

/// The least similarity at which a key is taken for a misspelt one.
const SIMILARITY_MIN: f64 = 0.8;

/// A policy file that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {message}", path.display())]
pub struct MalformedPolicy {
    /// The file.
    pub path: PathBuf,
    /// Line of the first mistake, from 1.
    pub line: usize,
    /// Column of the first mistake in characters, from 1.
    pub column: usize,
    /// What is wrong there, and where what is allowed is explained.
    pub message: String,
}

/// The file as it is written, each value with its place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    width_max: Option<Spanned<u32>>,
    #[serde(default)]
    classes_closed: Vec<Spanned<String>>,
    #[serde(default)]
    rooms_closed: Vec<Spanned<String>>,
    choose: Option<Spanned<String>>,
    wait_max: Option<Spanned<String>>,
    combine: Option<Spanned<String>>,
    lane_cpus: Option<Spanned<String>>,
    engine: Option<Spanned<String>>,
    lane_user: Option<Spanned<String>>,
    lane_process: Option<LaneProcessTable>,
}

/// Its table of what the lane process may use.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LaneProcessTable {
    width_max: Option<Spanned<u32>>,
    #[serde(default)]
    classes_closed: Vec<Spanned<String>>,
    #[serde(default)]
    rooms_closed: Vec<Spanned<String>>,
}

/// A mistake, the bytes where it is, and what explains what is allowed there.
struct Mistake {
    span: Range<usize>,
    message: String,
    help: &'static str,
}

impl Mistake {
    fn new(span: Range<usize>, message: String) -> Self {
        Mistake { span, message, help: EXPLAINED }
    }

    /// A mistake that the parser found in `text`, in our words where we have better ones.
    fn found(text: &str, error: &toml::de::Error) -> Self {
        let span = error.span().unwrap_or_default();
        let said = error.message().trim_end().replace('\n', ", ");
        let mut names = said.split('`').skip(1).step_by(2);
        if said.starts_with("unknown field") {
            let name = names.next().unwrap_or_default();
            return match closest(name, names) {
                Some(known) => {
                    Mistake::new(span, format!("unknown key {name}; did you mean {known}?"))
                }
                None => {
                    Mistake { help: ALLOWED, ..Mistake::new(span, format!("unknown key {name}")) }
                }
            };
        }
        let is_of_other_type =
            said.starts_with("invalid type") || said.starts_with("invalid value");
        let written =
            WRITTEN.iter().find(|(key, _)| is_of_other_type && *key == key_at(text, &span));
        match written {
            Some((key, written)) => Mistake::new(span, format!("{key} is {written}")),
            None => Mistake::new(span, said),
        }
    }
}

/// The key on the line where a value begins.
fn key_at<'a>(text: &'a str, span: &Range<usize>) -> &'a str {
    let before = text.get(..span.start).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.split('=').next().unwrap_or_default().trim().trim_matches('"')
}

/// The one of the `known` keys that `name` is most likely meant to be.
fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let similar = known.map(|known| (strsim::jaro_winkler(name, known), known));
    let similar = similar.filter(|(similarity, _)| *similarity >= SIMILARITY_MIN);
    similar.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, known)| known)
}

/// Reads the text of the policy file at `path`.
///
/// # Errors
///
/// [`MalformedPolicy`], which names the place of the first mistake.
pub fn parse(path: &Path, text: &str) -> Result<Policy, MalformedPolicy> {
    understand(text).map_err(|Mistake { span, message, help }| {
        let before = &text[..span.start.min(text.len())];
        MalformedPolicy {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.chars().rev().take_while(|&c| c != '\n').count() + 1,
            message: format!("{message} ({help})"),
        }
    })
}

fn understand(text: &str) -> Result<Policy, Mistake> {
    let file: PolicyFile = toml::from_str(text).map_err(|error| Mistake::found(text, &error))?;
    let rooms = rooms(file.width_max.as_ref(), &file.classes_closed, &file.rooms_closed)?;
    let lane_process = file.lane_process.as_ref().map(|table| {
        self::rooms(table.width_max.as_ref(), &table.classes_closed, &table.rooms_closed)
    });
    let choose: Option<Result<Choose, _>> =
        file.choose.as_ref().map(|choose| at(choose, choose.as_ref().parse()));
    let wait_max: Option<Result<WaitMax, _>> =
        file.wait_max.as_ref().map(|wait| at(wait, wait.as_ref().parse()));
    let combine: Option<Result<Combine, _>> =
        file.combine.as_ref().map(|combine| at(combine, combine.as_ref().parse()));
    let lane_cpus: Option<Result<LaneCpus, _>> =
        file.lane_cpus.as_ref().map(|cpus| at(cpus, cpus.as_ref().parse()));
    let engine: Option<Result<Engine, _>> =
        file.engine.as_ref().map(|engine| at(engine, engine.as_ref().parse()));
    let lane_user: Option<Result<LaneUser, _>> =
        file.lane_user.as_ref().map(|user| at(user, user.as_ref().parse()));
    Ok(Policy {
        choose: choose.transpose()?,
        wait_max: wait_max.transpose()?,
        combine: combine.transpose()?,
        lane_cpus: lane_cpus.transpose()?,
        engine: engine.transpose()?,
        lane_user: lane_user.transpose()?,
        lane_process: lane_process.transpose()?,
        ..rooms.policy()
    })
}

/// What is open, by the three values that say so.
fn rooms(
    width: Option<&Spanned<u32>>,
    classes: &[Spanned<String>],
    rooms: &[Spanned<String>],
) -> Result<LaneRooms, Mistake> {
    let width = width.map(|width| at(width, Width::try_from(*width.as_ref())));
    let classes = classes.iter().map(|name| at(name, name.as_ref().parse()));
    let rooms = rooms.iter().map(|name| match at(name, name.as_ref().parse())? {
        Room::Portable => Err(Mistake::new(
            name.span(),
            "room portable cannot be closed: it runs when every other room is closed".to_owned(),
        )),
        room => Ok(room),
    });
    Ok(LaneRooms {
        width_max: width.transpose()?.unwrap_or(Policy::open().width_max),
        classes_closed: classes.collect::<Result<BTreeSet<LicenceClass>, _>>()?,
        rooms_closed: rooms.collect::<Result<_, _>>()?,
    })
}

fn at<T, V, E: ToString>(place: &Spanned<T>, outcome: Result<V, E>) -> Result<V, Mistake> {
    outcome.map_err(|error| Mistake::new(place.span(), error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(text: &str) -> MalformedPolicy {
        parse(Path::new("policy.toml"), text).unwrap_err()
    }

    #[test]
    fn a_full_policy_is_understood() {
        let text = "# by hand\nwidth_max = 256\nclasses_closed = [\"512-heavy\", \"512-light\"]\n\
                    rooms_closed = [\"ifma256\"]\nchoose = \"auto\"\nwait_max = \"200us\"\n\
                    combine = \"off\"\nlane_cpus = \"1-2\"\nlane_user = \"widelane\"\n\
                    engine = \"qat\"\n\
                    [lane_process]\nwidth_max = 512\nclasses_closed = [\"256-heavy\"]\n\
                    rooms_closed = [\"vbmi512\"]\n";
        let policy = parse(Path::new("policy.toml"), text).unwrap();
        assert_eq!(policy.width_max, Width::W256);
        assert_eq!(
            policy.classes_closed,
            [false, true].map(|heavy| LicenceClass { width: Width::W512, heavy }).into()
        );
        assert_eq!(policy.rooms_closed, [Room::Ifma256].into());
        assert_eq!(policy.choose, Some(Choose::Auto));
        assert_eq!(policy.wait_max.map(WaitMax::longest_ns), Some(200_000));
        assert_eq!(policy.combine, Some(Combine::Off));
        assert_eq!(policy.lane_cpus, Some(LaneCpus::new([1, 2])));
        assert_eq!(policy.engine, Some(Engine::Qat));
        assert_eq!(policy.lane_user.as_ref().map(LaneUser::name), Some("widelane"));
        let lane_process = Policy {
            classes_closed: [LicenceClass { width: Width::W256, heavy: true }].into(),
            rooms_closed: [Room::Vbmi512].into(),
            ..Policy::open()
        };
        assert_eq!(policy.of_lane_process(), lane_process);
    }

    #[test]
    fn a_lane_process_is_open_to_what_its_table_leaves_out() {
        let text = "width_max = 128\n[lane_process]\n";
        let policy = parse(Path::new("policy.toml"), text).unwrap();
        assert_eq!(policy.of_lane_process(), Policy::open());
    }

    #[test]
    fn what_is_left_out_is_open() {
        assert_eq!(parse(Path::new("policy.toml"), ""), Ok(Policy::open()));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let policy = Policy {
            rooms_closed: [Room::Ifma512].into(),
            choose: Some(Choose::Widest),
            wait_max: Some(WaitMax::NONE),
            combine: Some(Combine::On),
            lane_cpus: Some(LaneCpus::new([2, 3, 5])),
            engine: Some(Engine::Qat),
            lane_user: "widelane".parse().ok(),
            lane_process: Some(LaneRooms::of(&Policy::open())),
            ..Policy::up_to(Width::W256)
        };
        let text = toml::to_string(&policy).unwrap();
        assert_eq!(parse(Path::new("policy.toml"), &text), Ok(policy));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, line, column, message) in [
            ("width_max = 300\n", 1, 13, "128, 256 or 512 bits, not 300"),
            ("\n\nwidth_max = \"512\"\n", 3, 13, "width_max is a number: 128, 256 or 512, without"),
            ("classes_closed = [\n  \"512-heavy\",\n  \"1024-heavy\",\n]\n", 3, 3, "128-light"),
            ("# é\nrooms_closed = [\"ifma1024\"]\n", 2, 17, "portable, ifma256, ifma512"),
            ("rooms_closed = [\"ifma512\", \"portable\"]\n", 1, 28, "cannot be closed"),
            ("width_max = 512\nwidthmax = 256\n", 2, 1, "did you mean width_max?"),
            ("width_max 512\n", 1, 11, "expected"),
            ("choose = \"best\"\n", 1, 10, "widest or auto"),
            ("wait_max = \"1s\"\n", 1, 12, "up to 10ms"),
            ("wait_max = 5\n", 1, 12, "wait_max is a time in quotes, such as \"0.5ms\""),
            ("widht_max = 512\n", 1, 1, "unknown key widht_max; did you mean width_max?"),
            ("combine = true\n", 1, 11, "combine is \"on\", \"off\" or \"auto\", in quotes"),
            ("rooms_closed = \"ifma512\"\n", 1, 16, "rooms_closed is a list of names"),
            ("width_max = -1\n", 1, 13, "width_max is a number"),
            ("combine = \"yes\"\n", 1, 11, "on, off or auto"),
            ("lane_cpus = \"\"\n", 1, 13, "such as 3 or 2,4-7"),
            ("lane_user = \"a b\"\n", 1, 13, "such as widelane"),
            ("lane_cpus = 3\n", 1, 13, "lane_cpus is a list in quotes, such as \"2,4-7\""),
            ("engine = \"card\"\n", 1, 10, "cpu, qat or qat-first"),
            ("width_max = 512\nwidth_max = 256\n", 2, 1, "duplicate key"),
            ("[lane_process]\nwidth_max = 64\n", 2, 13, "128, 256 or 512 bits, not 64"),
            ("[lane_process]\nrooms_closed = [\"portable\"]\n", 2, 17, "cannot be closed"),
            ("[lane_process]\nlane_cpus = \"3\"\n", 2, 1, "unknown key lane_cpus"),
            ("lane_process = 512\n", 1, 16, "lane_process is a table: the line [lane_process]"),
        ] {
            let error = error_of(text);
            assert_eq!((error.line, error.column), (line, column), "{error}");
            assert!(error.message.contains(message), "{error}");
        }
    }

    #[test]
    fn an_error_reads_as_one_line_and_names_what_explains_it() {
        assert_eq!(
            error_of("width_max = 64").to_string(),
            "policy.toml:1:13: a register width is 128, 256 or 512 bits, not 64 \
             (see docs/operate/policy.md)"
        );
        assert_eq!(
            error_of("widht_max = 512").to_string(),
            "policy.toml:1:1: unknown key widht_max; did you mean width_max? \
             (see docs/operate/policy.md)"
        );
    }

    #[test]
    fn a_key_unlike_any_other_is_told_what_a_policy_holds() {
        assert_eq!(
            error_of("speed = 1").to_string(),
            "policy.toml:1:1: unknown key speed (a policy holds \
             width_max = 128, 256 or 512; classes_closed = [\"512-heavy\", …]; \
             rooms_closed = [\"ifma512\", …]; choose = \"widest\" or \"auto\"; \
             wait_max = \"0.5ms\" or \"rtt\"; combine = \"on\", \"off\" or \"auto\"; \
             lane_cpus = \"2,4-7\" or \"none\"; lane_user = \"widelane\"; \
             engine = \"cpu\", \"qat\" or \"qat-first\"; each may be left out; a table \
             [lane_process] at the end holds width_max, classes_closed and rooms_closed of that \
             process)"
        );
    }
}
