//! The drop-in that accelerates a service: how it is written, and how it is known again.

use std::fmt::Write;
use std::path::Path;

use anyhow::bail;
use widelane_cpu::Policy;
use widelane_cpu::policy::{
    AUTO, COMBINE_VARIABLE, Combine, ENGINE_VARIABLE, Engine, LANE_CPUS_VARIABLE,
    LANE_USER_VARIABLE, LaneCpus, LaneUser, PATH_VARIABLE, WAIT_VARIABLE, WaitMax,
};
use widelane_crypto::digest::{Algorithm, Hash};

use super::unit::Unit;
use crate::libraries::Libraries;
use crate::live::SYSTEM_DIRECTORY;
use crate::run::PQ;

/// What the operator has chosen for a service.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether its processes choose among policies.
    pub chooses: bool,
    /// The longest wait for company.
    pub wait_max: Option<WaitMax>,
    /// Whether workers execute each other's operations.
    pub combine: Option<Combine>,
    /// The CPUs set aside for batches.
    pub lane_cpus: Option<LaneCpus>,
    /// What makes signatures.
    pub engine: Option<Engine>,
    /// The user of the process there.
    pub lane_user: Option<LaneUser>,
    /// Whether the post-quantum group comes first.
    pub pq: bool,
}

/// Its name in the directory of the service's drop-ins.
pub const FILE_NAME: &str = "widelane.conf";

/// The text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropIn {
    settings: String,
    name: String,
}

/// Begins the last line, which proves that nobody has edited the others.
const PROOF: &str = "# sha256 of the lines above: ";

/// Says that the directory has to go with the file.
const DIRECTORY_MADE: &str = "# The directory of this file was made for it.\n";

impl DropIn {
    /// What a service needs to load the libraries.
    pub fn for_service(
        name: &str,
        unit: &Unit,
        libraries: &Libraries,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        if let Some(setting) = unit.hides(&libraries.runtime) {
            bail!(
                "{setting} hides {} from {name}; install widelane elsewhere, as its package does",
                libraries.runtime.display()
            );
        }
        let mut preload = path_words(&libraries.runtime)?;
        if let Some(others) = unit.preload.as_deref().filter(|others| !others.is_empty()) {
            write!(preload, ":{others}")?;
        }
        let provider = path_words(&libraries.provider)?;
        let mut lines = format!(
            "[Service]\n\
             Environment=\"LD_PRELOAD={preload}\"\n\
             Environment=\"WIDELANE_PROVIDER={provider}\"\n\
             Environment=\"WIDELANE_COUNTERS_DIR={SYSTEM_DIRECTORY}\"\n"
        );
        if settings.chooses {
            writeln!(lines, "Environment=\"{PATH_VARIABLE}={AUTO}\"")?;
        }
        if let Some(wait_max) = settings.wait_max {
            writeln!(lines, "Environment=\"{WAIT_VARIABLE}={wait_max}\"")?;
        }
        if let Some(combine) = settings.combine {
            writeln!(lines, "Environment=\"{COMBINE_VARIABLE}={combine}\"")?;
        }
        if let Some(cpus) = &settings.lane_cpus {
            writeln!(lines, "Environment=\"{LANE_CPUS_VARIABLE}={cpus}\"")?;
        }
        if let Some(engine) = settings.engine {
            writeln!(lines, "Environment=\"{ENGINE_VARIABLE}={engine}\"")?;
        }
        if let Some(user) = &settings.lane_user {
            writeln!(lines, "Environment=\"{LANE_USER_VARIABLE}={user}\"")?;
        }
        if settings.pq {
            writeln!(lines, "Environment=\"{}={}\"", PQ.0, PQ.1)?;
        }
        if unit.is_read_only {
            writeln!(lines, "ReadWritePaths=-{SYSTEM_DIRECTORY}")?;
        }
        Ok(DropIn { settings: lines, name: name.to_owned() })
    }

    /// The whole file.
    pub fn text(&self, makes_directory: bool) -> String {
        let DropIn { settings, name } = self;
        let note = if makes_directory { DIRECTORY_MADE } else { "" };
        let text = format!(
            "# Written by `widelane enable {name}`; `widelane disable {name}` takes it back.\n\
             {note}{settings}"
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

fn fingerprint(text: &str) -> String {
    format!("{:?}", Hash::choose(Algorithm::Sha256, &Policy::open()).digest(text.as_bytes()))
}

/// A path as it may stand in quotes in a unit file.
fn path_words(path: &Path) -> anyhow::Result<String> {
    match path.to_str() {
        Some(text) if !text.contains(['"', '\\', '\n', '$']) => Ok(text.replace('%', "%%")),
        _ => bail!(
            "systemd cannot be told of {}: its path has quotes or the like; install widelane \
             elsewhere",
            path.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drop_in(preload: Option<&str>, is_read_only: bool) -> DropIn {
        // `chooses` and `pq` follow `is_read_only`, so that the lines of all are seen present and
        // absent.
        let libraries =
            Libraries { provider: "/l/100%/widelane.so".into(), runtime: "/l/r.so".into() };
        let preload = preload.map(str::to_owned);
        let unit = Unit { preload, is_read_only, ..Unit::default() };
        let settings = Settings {
            chooses: is_read_only,
            wait_max: "200us".parse().ok(),
            combine: Some(Combine::On),
            lane_cpus: "0,2-3".parse().ok(),
            engine: Some(Engine::Qat),
            lane_user: "widelane".parse().ok(),
            pq: is_read_only,
        };
        DropIn::for_service("server", &unit, &libraries, &settings).unwrap()
    }

    #[test]
    fn what_was_preloaded_stays_preloaded() {
        let text = drop_in(Some("/a.so"), false).text(false);
        assert!(text.contains("Environment=\"LD_PRELOAD=/l/r.so:/a.so\"\n"), "{text}");
        assert!(text.contains("PROVIDER=/l/100%%/widelane.so\""), "{text}");
        assert!(text.contains("Environment=\"WIDELANE_WAIT_MAX=0.2ms\"\n"), "{text}");
        assert!(text.contains("Environment=\"WIDELANE_COMBINE=on\"\n"), "{text}");
        assert!(text.contains("Environment=\"WIDELANE_LANE_CPUS=0,2-3\"\n"), "{text}");
        assert!(text.contains("Environment=\"WIDELANE_ENGINE=qat\"\n"), "{text}");
        assert!(text.contains("Environment=\"WIDELANE_LANE_USER=widelane\"\n"), "{text}");
        for absent in ["ReadWritePaths", "WIDELANE_PQ", "WIDELANE_POLICY"] {
            assert!(!text.contains(absent), "{text}");
        }
        let text = drop_in(None, true).text(false);
        assert!(text.contains("ReadWritePaths=-/run/widelane\n"), "{text}");
        assert!(text.contains("Environment=\"WIDELANE_PQ=yes\"\n"), "{text}");
        assert!(text.contains("Environment=\"WIDELANE_POLICY=auto\"\n"), "{text}");
    }

    #[test]
    fn an_edited_file_is_no_longer_ours() {
        let text = drop_in(None, false).text(true);
        assert!(is_untouched(&text) && made_directory(&text));
        assert!(!is_untouched(&text.replace("/run/widelane", "/run/other")));
        assert!(!is_untouched(&format!("{text}Nice=5\n")));
        assert!(!is_untouched("[Service]\n") && !is_untouched(""));
    }

    #[test]
    fn a_path_that_systemd_would_misread_is_refused() {
        for wrong in ["/a\"b", "/a$b", "/a\\b"] {
            assert!(path_words(Path::new(wrong)).is_err(), "{wrong}");
        }
    }
}
