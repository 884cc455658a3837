//! The drop-in that accelerates a service: how it is written, and how it is known again.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::PathBuf;

use anyhow::bail;
use widelane_bridge::counters::COUNTERS_DIRECTORY_VARIABLE;
use widelane_bridge::variables::{PRELOAD_VARIABLE as PRELOAD, PROVIDER_VARIABLE as PROVIDER};
use widelane_cpu::Policy;
use widelane_crypto::digest::{Algorithm, Hash};

use super::unit::Unit;
use crate::libraries::Libraries;
use crate::live::SYSTEM_DIRECTORY;
use crate::system;

/// Name of our drop-in file in the directory of a service's drop-ins.
pub const FILE_NAME: &str = "widelane.conf";

/// The text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropIn {
    settings: String,
    name: String,
}

/// The variables that stand for no flag.
const OWN: [&str; 3] = [PRELOAD, PROVIDER, COUNTERS_DIRECTORY_VARIABLE];

/// Begins the last line, which proves that nobody has edited the others.
const PROOF: &str = "# sha256 of the lines above: ";

/// Says that the directory has to go with the file.
const DIRECTORY_MADE: &str = "# The directory of this file was made for it.\n";

impl DropIn {
    /// What a service needs to load the libraries, and variables for them.
    pub fn for_service(
        name: &str,
        unit: &Unit,
        libraries: &Libraries,
        variables: &[(&str, OsString)],
    ) -> anyhow::Result<Self> {
        if let Some(setting) = unit.hides(&libraries.runtime) {
            bail!(
                "{setting} hides {} from {name}; install widelane elsewhere, as its package does",
                libraries.runtime.display()
            );
        }
        let mut preload = quoted(libraries.runtime.as_os_str())?;
        if let Some(others) = unit.preload.as_deref().filter(|others| !others.is_empty()) {
            // Its specifiers, if it has any, are for systemd.
            if others.contains(is_misread) {
                bail!(
                    "{name} preloads {others}, which has quotes or the like; preload it otherwise"
                );
            }
            write!(preload, ":{others}")?;
        }
        let provider = quoted(libraries.provider.as_os_str())?;
        let counters = if unit.can_count() { SYSTEM_DIRECTORY } else { "" };
        let mut lines = format!(
            "[Service]\n\
             Environment=\"{PRELOAD}={preload}\"\n\
             Environment=\"{PROVIDER}={provider}\"\n\
             Environment=\"{COUNTERS_DIRECTORY_VARIABLE}={counters}\"\n"
        );
        for (name, value) in variables {
            writeln!(lines, "Environment=\"{name}={}\"", quoted(value)?)?;
        }
        if unit.is_read_only && unit.can_count() {
            writeln!(lines, "ReadWritePaths=-{SYSTEM_DIRECTORY}")?;
        }
        Ok(DropIn { settings: lines, name: name.to_owned() })
    }

    /// What `enable` would write today with the libraries and the flags of a file of ours.
    pub fn renewed(name: &str, unit: &Unit, text: &str) -> anyhow::Result<Self> {
        let (own, flags): (Vec<_>, Vec<_>) =
            variables(text).partition(|(name, _)| OWN.contains(name));
        let value = |name| own.iter().find(|(own, _)| *own == name).map_or("", |(_, value)| value);
        let runtime = value(PRELOAD).split(':').next().unwrap_or_default();
        let (provider, runtime) = (value(PROVIDER).into(), runtime.into());
        let flags: Vec<_> = flags.into_iter().map(|(name, value)| (name, value.into())).collect();
        DropIn::for_service(name, unit, &Libraries { provider, runtime }, &flags)
    }

    /// Whether a file of ours has these settings.
    pub fn is_in(&self, text: &str) -> bool {
        text.contains(&format!("{}{PROOF}", self.settings))
    }

    /// The whole file.
    pub fn text(&self, makes_directory: bool) -> String {
        let DropIn { settings, name } = self;
        let note = if makes_directory { DIRECTORY_MADE } else { "" };
        let text = format!(
            "# Written by `widelane enable {0}`; `widelane disable {0}` takes it back.\n\
             {note}{settings}",
            system::in_shell(name)
        );
        format!("{text}{PROOF}{}\n", fingerprint(&text))
    }
}

/// Whether a text is a file of ours that nobody has edited.
pub fn is_untouched(text: &str) -> bool {
    text.rsplit_once(PROOF).is_some_and(|(above, proof)| proof.trim_end() == fingerprint(above))
}

/// Whether the directory was made for the file.
pub fn made_directory(text: &str) -> bool {
    text.contains(DIRECTORY_MADE)
}

/// The libraries that a file of ours names.
pub fn libraries(text: &str) -> impl Iterator<Item = PathBuf> {
    let named = variables(text).filter(|(name, _)| [PRELOAD, PROVIDER].contains(name));
    named.map(|(_, value)| value.split(':').next().unwrap_or_default().into())
}

/// The variables that a file of ours sets, with their values.
fn variables(text: &str) -> impl Iterator<Item = (&str, String)> {
    text.lines().filter_map(|line| {
        let word = line.strip_prefix("Environment=\"")?.strip_suffix('"')?;
        word.split_once('=').map(|(name, value)| (name, value.replace("%%", "%")))
    })
}

fn fingerprint(text: &str) -> String {
    format!("{:?}", Hash::choose(Algorithm::Sha256, &Policy::open()).digest(text.as_bytes()))
}

/// A value, a path mostly, as it may stand in quotes in a unit file.
fn quoted(value: &OsStr) -> anyhow::Result<String> {
    match value.to_str() {
        Some(text) if !text.contains(is_misread) && !text.contains('$') => {
            Ok(text.replace('%', "%%"))
        }
        _ => bail!(
            "systemd cannot be told of {}, which has quotes or the like; give it a path without",
            value.display()
        ),
    }
}

/// Whether systemd takes a character in quotes for something else. Others than line feed end a
/// line, too.
fn is_misread(char: char) -> bool {
    matches!(char, '"' | '\\') || char.is_control()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::flags::Flags;

    fn drop_in(preload: Option<&str>, is_read_only: bool, flags: &Flags) -> DropIn {
        let libraries =
            Libraries { provider: "/l/100%/widelane.so".into(), runtime: "/l/r.so".into() };
        let preload = preload.map(str::to_owned);
        let unit = Unit { preload, is_read_only, ..Unit::default() };
        DropIn::for_service("server", &unit, &libraries, &flags.variables().unwrap()).unwrap()
    }

    /// The lines by which a flag makes the drop-in longer.
    fn lines_of(flags: Flags) -> Vec<String> {
        let without = drop_in(None, false, &Flags::default()).settings;
        let with = drop_in(None, false, &flags).settings;
        with.strip_prefix(&without).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_flag_has_its_line() {
        let none = Flags::default;
        for (flags, line) in [
            (Flags { policy: Some("auto".into()), ..none() }, "WIDELANE_POLICY=auto"),
            (Flags { policy: Some("/p/1%.toml".into()), ..none() }, "WIDELANE_POLICY=/p/1%%.toml"),
            (
                Flags { max_simd_bitwidth: Some("256".to_owned()), ..none() },
                "WIDELANE_MAX_SIMD_BITWIDTH=256",
            ),
            (Flags { wait_max: "200us".parse().ok(), ..none() }, "WIDELANE_WAIT_MAX=0.2ms"),
            (Flags { combine: "on".parse().ok(), ..none() }, "WIDELANE_COMBINE=on"),
            (Flags { lane_cpus: "0,2-3".parse().ok(), ..none() }, "WIDELANE_LANE_CPUS=0,2-3"),
            (Flags { lane_user: "widelane".parse().ok(), ..none() }, "WIDELANE_LANE_USER=widelane"),
            (
                Flags { lane_max_simd_bitwidth: Some("512".to_owned()), ..none() },
                "WIDELANE_LANE_MAX_SIMD_BITWIDTH=512",
            ),
            (Flags { engine: "qat".parse().ok(), ..none() }, "WIDELANE_ENGINE=qat"),
            (Flags { pq: true, ..none() }, "WIDELANE_PQ=yes"),
        ] {
            assert_eq!(lines_of(flags), [format!("Environment=\"{line}\"")]);
        }
    }

    /// What the version before this one wrote for these flags: `disable` has to know it as its own,
    /// and `enable` leaves it as it is.
    #[test]
    fn the_drop_in_of_the_former_version_is_the_same() {
        let former = include_str!("former.conf");
        assert!(is_untouched(former) && made_directory(former));
        let flags = Flags {
            policy: Some("auto".into()),
            wait_max: "200us".parse().ok(),
            combine: "on".parse().ok(),
            lane_cpus: "0,2-3".parse().ok(),
            engine: "qat".parse().ok(),
            lane_user: "widelane".parse().ok(),
            pq: true,
            ..Flags::default()
        };
        assert_eq!(drop_in(None, true, &flags).text(true), former);
    }

    #[test]
    fn what_was_preloaded_stays_preloaded() {
        let text = drop_in(Some("/a.so"), false, &Flags::default()).text(false);
        assert!(text.contains("Environment=\"LD_PRELOAD=/l/r.so:/a.so\"\n"), "{text}");
        assert!(text.contains("PROVIDER=/l/100%%/widelane.so\""), "{text}");
        assert!(!text.contains("ReadWritePaths"), "{text}");
        let text = drop_in(None, true, &Flags::default()).text(false);
        assert!(text.contains("ReadWritePaths=-/run/widelane\n"), "{text}");
    }

    #[test]
    fn a_file_is_renewed_with_its_libraries_and_flags() {
        let flags = Flags { policy: Some("/p/1%.toml".into()), pq: true, ..Flags::default() };
        let text = drop_in(Some("/a.so:/%p.so"), true, &flags).text(true);
        let found: Vec<_> = libraries(&text).collect();
        assert_eq!(found, [Path::new("/l/r.so"), Path::new("/l/100%/widelane.so")]);
        let unit = |preload: &str, is_read_only| Unit {
            preload: Some(preload.to_owned()),
            is_read_only,
            ..Unit::default()
        };
        for (unit, is_same) in [
            (unit("/a.so:/%p.so", true), true),
            (unit("/b.so", true), false),
            (unit("/a.so:/%p.so", false), false),
        ] {
            let renewed = DropIn::renewed("server", &unit, &text).unwrap();
            assert_eq!(renewed.is_in(&text), is_same, "{renewed:?}");
        }
    }

    #[test]
    fn an_edited_file_is_no_longer_ours() {
        let text = drop_in(None, false, &Flags::default()).text(true);
        assert!(is_untouched(&text) && made_directory(&text));
        assert!(!is_untouched(&text.replace("/run/widelane", "/run/other")));
        assert!(!is_untouched(&format!("{text}Nice=5\n")));
        assert!(!is_untouched("[Service]\n") && !is_untouched(""));
    }

    #[test]
    fn a_path_that_systemd_would_misread_is_refused() {
        for wrong in ["/a\"b", "/a$b", "/a\\b", "/a\nb", "/a\rb", "/a\u{85}b"] {
            assert!(quoted(OsStr::new(wrong)).is_err(), "{wrong:?}");
        }
        let libraries = Libraries { provider: "/p.so".into(), runtime: "/r.so".into() };
        for wrong in ["/a\"b", "/a\rb"] {
            let unit = Unit { preload: Some(wrong.to_owned()), ..Unit::default() };
            assert!(DropIn::for_service("server", &unit, &libraries, &[]).is_err(), "{wrong:?}");
        }
    }
}
