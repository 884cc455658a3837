//! The policy file: TOML, strict, with errors that name the line.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Policy, SETTINGS};
use crate::rooms::{Room, Width};

/// Where the rest is explained; shown with nearly every error.
const EXPLAINED: &str = "see docs/operate/policy.md";

/// The table of what the lane process may use.
const LANE_PROCESS: &str = "lane_process";

/// The keys that say which rooms are open.
const ROOMS: [&str; 3] = ["width_max", "classes_closed", "rooms_closed"];

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

/// A mistake, the bytes where it is, and what explains what is allowed there.
struct Mistake {
    span: Range<usize>,
    message: String,
    help: String,
}

impl Mistake {
    fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Mistake { span, message: message.into(), help: EXPLAINED.to_owned() }
    }

    /// A value of a type that `key` does not have.
    fn of_type(span: Range<usize>, key: &str, written: &str) -> Self {
        Mistake::new(span, format!("{key} is {written}"))
    }

    /// A key that is none of those `known`.
    fn unknown(span: Range<usize>, key: &str, known: &[&'static str]) -> Self {
        let similar = known.iter().map(|known| (strsim::jaro_winkler(key, known), known));
        let similar = similar.filter(|(similarity, _)| *similarity >= SIMILARITY_MIN);
        match similar.max_by(|(one, _), (other, _)| one.total_cmp(other)) {
            Some((_, known)) => {
                Mistake::new(span, format!("unknown key {key}; did you mean {known}?"))
            }
            None => Mistake { help: allowed(), ..Mistake::new(span, format!("unknown key {key}")) },
        }
    }
}

/// What a policy file may hold; shown where a key is unlike any of these.
fn allowed() -> String {
    let settings = SETTINGS.iter().map(|it| format!("; {} = {}", it.key, it.examples));
    format!(
        "a policy holds width_max = 128, 256 or 512; classes_closed = [\"512-heavy\", …]; \
         rooms_closed = [\"ifma512\", …]{}; each may be left out; a table [{LANE_PROCESS}] at the \
         end holds {}, {} and {} of that process",
        settings.collect::<String>(),
        ROOMS[0],
        ROOMS[1],
        ROOMS[2]
    )
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
    let file = DeTable::parse(text).map_err(|error| {
        let said = error.message().trim_end().replace('\n', ", ");
        Mistake::new(error.span().unwrap_or_default(), said)
    })?;
    let mut policy = Policy::open();
    for (place, key, value) in entries(file.get_ref()) {
        if key == LANE_PROCESS {
            policy.lane_process = Some(Box::new(lane_process(value)?));
        } else if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) {
            let word = value.get_ref().as_str();
            let word = word.ok_or_else(|| Mistake::of_type(value.span(), key, setting.written))?;
            (setting.set)(&mut policy, word).map_err(|said| Mistake::new(value.span(), said))?;
        } else if !set_rooms(&mut policy, key, value)? {
            let settings = SETTINGS.iter().map(|setting| setting.key);
            let known: Vec<_> = ROOMS.into_iter().chain(settings).chain([LANE_PROCESS]).collect();
            return Err(Mistake::unknown(place, key, &known));
        }
    }
    Ok(policy)
}

/// A value, and where it stands.
type Value<'a> = Spanned<DeValue<'a>>;

/// What stands in a table, in the order of the file: where the key is, the key, the value.
fn entries<'a>(table: &'a DeTable<'a>) -> Vec<(Range<usize>, &'a str, &'a Value<'a>)> {
    let entries = table.iter().map(|(key, value)| (key.span(), key.get_ref().as_ref(), value));
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(|(place, ..)| place.start);
    entries
}

/// The rooms of the lane process.
fn lane_process(value: &Value<'_>) -> Result<Policy, Mistake> {
    let written = "a table: the line [lane_process], and its keys below";
    let table = value.get_ref().as_table();
    let table = table.ok_or_else(|| Mistake::of_type(value.span(), LANE_PROCESS, written))?;
    let mut policy = Policy::open();
    for (place, key, value) in entries(table) {
        if !set_rooms(&mut policy, key, value)? {
            return Err(Mistake::unknown(place, key, &ROOMS));
        }
    }
    Ok(policy)
}

/// Reads which rooms are open, if `key` is one that says so.
fn set_rooms(policy: &mut Policy, key: &str, value: &Value<'_>) -> Result<bool, Mistake> {
    match key {
        "width_max" => {
            let bits = value.get_ref().as_integer();
            let bits = bits.and_then(|bits| u32::from_str_radix(bits.as_str(), bits.radix()).ok());
            let written = "a number: 128, 256 or 512, without quotes";
            let bits = bits.ok_or_else(|| Mistake::of_type(value.span(), key, written))?;
            policy.width_max = at(value, Width::try_from(bits))?;
        }
        "classes_closed" => {
            for (place, name) in names(key, value, "512-heavy")? {
                policy.classes_closed.insert(at(place, name.parse())?);
            }
        }
        "rooms_closed" => {
            for (place, name) in names(key, value, "ifma512")? {
                let room = at(place, name.parse())?;
                if room == Room::Portable {
                    let why = "it runs when every other room is closed";
                    let why = format!("room portable cannot be closed: {why}");
                    return Err(Mistake::new(place.span(), why));
                }
                policy.rooms_closed.insert(room);
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// A list of names, of which `example` is one.
fn names<'a>(
    key: &str,
    value: &'a Value<'a>,
    example: &str,
) -> Result<Vec<(&'a Value<'a>, &'a str)>, Mistake> {
    let written = format!("a list of names in quotes, such as [\"{example}\"]");
    let wrong = |place: &Value<'_>| Mistake::of_type(place.span(), key, &written);
    let list = value.get_ref().as_array().ok_or_else(|| wrong(value))?;
    let name = |name: &'a Value<'a>| match name.get_ref().as_str() {
        Some(text) => Ok((name, text)),
        None => Err(wrong(name)),
    };
    list.iter().map(name).collect()
}

fn at<V, E: ToString>(place: &Value<'_>, outcome: Result<V, E>) -> Result<V, Mistake> {
    outcome.map_err(|error| Mistake::new(place.span(), error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Choose, Combine, Engine, LaneCpus, LaneUser, WaitMax};
    use crate::rooms::LicenceClass;

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
            lane_process: Some(Box::new(Policy::open())),
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
