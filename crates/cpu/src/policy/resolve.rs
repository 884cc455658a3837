//! Which policy holds: the sources, strongest first, and how they combine.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::file::{self, MalformedPolicy};
use super::{
    AUTO, BITWIDTH_VARIABLE, COMBINE_VARIABLE, Choose, ENGINE_VARIABLE, LANE_BITWIDTH_VARIABLE,
    LANE_CPUS_VARIABLE, LANE_USER_VARIABLE, LaneRooms, PATH_VARIABLE, Policy, SYSTEM_PATH,
    UnknownCombine, UnknownEngine, UnknownLaneCpus, UnknownLaneUser, UnknownWait, WAIT_VARIABLE,
};
use crate::machine::Signature;
use crate::rooms::Width;

/// Everything that may decide the policy. The caller reads the environment; this crate does not.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// A policy given through the API: it alone holds, nothing else is read.
    pub argument: Option<Policy>,
    /// The value of `WIDELANE_POLICY`: a path, or [`AUTO`].
    pub policy_path: Option<PathBuf>,
    /// The value of `WIDELANE_MAX_SIMD_BITWIDTH`.
    pub max_simd_bitwidth: Option<String>,
    /// The value of `WIDELANE_WAIT_MAX`.
    pub wait_max: Option<String>,
    /// The value of `WIDELANE_COMBINE`.
    pub combine: Option<String>,
    /// The value of `WIDELANE_LANE_CPUS`.
    pub lane_cpus: Option<String>,
    /// The value of `WIDELANE_ENGINE`.
    pub engine: Option<String>,
    /// The value of `WIDELANE_LANE_USER`.
    pub lane_user: Option<String>,
    /// The value of `WIDELANE_LANE_MAX_SIMD_BITWIDTH`.
    pub lane_max_simd_bitwidth: Option<String>,
    /// The operator's file, usually [`SYSTEM_PATH`]; it need not exist.
    pub system_path: PathBuf,
}

impl Default for Inputs {
    /// Nothing but the operator's file.
    fn default() -> Self {
        Inputs {
            argument: None,
            policy_path: None,
            max_simd_bitwidth: None,
            wait_max: None,
            combine: None,
            lane_cpus: None,
            engine: None,
            lane_user: None,
            lane_max_simd_bitwidth: None,
            system_path: SYSTEM_PATH.into(),
        }
    }
}

/// The policy that holds, and who decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The policy.
    pub policy: Policy,
    /// Who decided.
    pub source: Source,
}

/// Who decided a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Where the policy comes from.
    pub base: Base,
    /// The width that `WIDELANE_MAX_SIMD_BITWIDTH` set, where it is set.
    pub bitwidth: Option<Width>,
}

/// Where a policy comes from, before the bit width in the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// The API argument.
    Argument,
    /// The file that `WIDELANE_POLICY` names.
    EnvironmentFile(PathBuf),
    /// The operator's file.
    SystemFile(PathBuf),
    /// Our default for this CPU model.
    BuiltIn,
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.base, self.bitwidth) {
            // Over a default the width decides alone, so the default is not worth a word.
            (Base::BuiltIn, Some(width)) => {
                return write!(formatter, "{BITWIDTH_VARIABLE}={width}");
            }
            (Base::Argument, _) => write!(formatter, "argument of the caller")?,
            (Base::EnvironmentFile(path), _) => {
                write!(formatter, "{PATH_VARIABLE}={}", path.display())?;
            }
            (Base::SystemFile(path), _) => write!(formatter, "{}", path.display())?,
            (Base::BuiltIn, None) => write!(formatter, "built-in default for this CPU model")?,
        }
        match self.bitwidth {
            Some(width) => write!(formatter, ", narrowed by {BITWIDTH_VARIABLE}={width}"),
            None => Ok(()),
        }
    }
}

/// Why no policy could be found out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// `WIDELANE_MAX_SIMD_BITWIDTH`, or that of the lane process, is not a width.
    #[error("{variable} is {value:?}: set it to 128, 256 or 512, or unset it")]
    Bitwidth {
        /// Its name.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// `WIDELANE_WAIT_MAX` is no time.
    #[error("{WAIT_VARIABLE}: {0}")]
    Wait(UnknownWait),
    /// `WIDELANE_COMBINE` is no choice.
    #[error("{COMBINE_VARIABLE}: {0}")]
    Combine(UnknownCombine),
    /// `WIDELANE_LANE_CPUS` is no list of CPUs.
    #[error("{LANE_CPUS_VARIABLE}: {0}")]
    LaneCpus(UnknownLaneCpus),
    /// The variable names no engine.
    #[error("{ENGINE_VARIABLE}: {0}")]
    Engine(UnknownEngine),
    /// `WIDELANE_LANE_USER` is no name of a user.
    #[error("{LANE_USER_VARIABLE}: {0}")]
    LaneUser(UnknownLaneUser),
    /// A policy file makes no sense.
    #[error(transparent)]
    Malformed(#[from] MalformedPolicy),
    /// A policy file cannot be read.
    #[error("{}; {remedy}", unreadable(path, error))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What to do about it.
        remedy: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// Somebody else could decide what runs here.
    #[error(
        "the policy {} {flaw}, who could change what runs here; make it root's or your own, \
         writable for nobody else",
        path.display()
    )]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        flaw: String,
    },
}

/// Finds out which policy holds.
///
/// Strongest first: the argument; the file that `WIDELANE_POLICY` names; the operator's file; the
/// default for this CPU model. A weaker source is not even read. `WIDELANE_MAX_SIMD_BITWIDTH` then
/// narrows what a file says, never widens it; over the default, which no operator wrote, it decides
/// in either direction. `WIDELANE_POLICY=auto` names no file: what the operator's file leaves open,
/// or everything where there is none, is then chosen from. `WIDELANE_WAIT_MAX`, `WIDELANE_COMBINE`,
/// `WIDELANE_LANE_CPUS` and `WIDELANE_LANE_USER` stand for what a file says of waiting, combining,
/// lane CPUs and their process. `WIDELANE_LANE_MAX_SIMD_BITWIDTH` does for the lane process what
/// the other width does for all; where it is set, that one is for the workers alone. Variables that
/// are set but empty count as unset.
pub fn resolve(inputs: &Inputs) -> Result<Resolved, PolicyError> {
    if let Some(policy) = &inputs.argument {
        let source = Source { base: Base::Argument, bitwidth: None };
        return Ok(Resolved { policy: policy.clone(), source });
    }
    let bitwidth = bitwidth(BITWIDTH_VARIABLE, inputs.max_simd_bitwidth.as_deref())?;
    let of_lane_process =
        self::bitwidth(LANE_BITWIDTH_VARIABLE, inputs.lane_max_simd_bitwidth.as_deref())?;
    let (mut policy, base) = base_policy(inputs)?;
    if of_lane_process.is_some() && policy.lane_process.is_none() {
        policy.lane_process = Some(LaneRooms::of(&policy));
    }
    let narrow = |width_max: &mut Width, width: Width| {
        *width_max = if base == Base::BuiltIn { width } else { width.min(*width_max) };
    };
    if let (Some(rooms), Some(width)) = (&mut policy.lane_process, of_lane_process.or(bitwidth)) {
        narrow(&mut rooms.width_max, width);
    }
    if let Some(width) = bitwidth {
        narrow(&mut policy.width_max, width);
    }
    if let Some(wait) = inputs.wait_max.as_deref().filter(|wait| !wait.is_empty()) {
        policy.wait_max = Some(wait.parse().map_err(PolicyError::Wait)?);
    }
    if let Some(combine) = inputs.combine.as_deref().filter(|combine| !combine.is_empty()) {
        policy.combine = Some(combine.parse().map_err(PolicyError::Combine)?);
    }
    if let Some(cpus) = inputs.lane_cpus.as_deref().filter(|cpus| !cpus.is_empty()) {
        policy.lane_cpus = Some(cpus.parse().map_err(PolicyError::LaneCpus)?);
    }
    if let Some(engine) = inputs.engine.as_deref().filter(|engine| !engine.is_empty()) {
        policy.engine = Some(engine.parse().map_err(PolicyError::Engine)?);
    }
    if let Some(user) = inputs.lane_user.as_deref().filter(|user| !user.is_empty()) {
        policy.lane_user = Some(user.parse().map_err(PolicyError::LaneUser)?);
    }
    Ok(Resolved { policy, source: Source { base, bitwidth } })
}

fn bitwidth(variable: &'static str, value: Option<&str>) -> Result<Option<Width>, PolicyError> {
    let value = value.filter(|value| !value.is_empty());
    let wrong = |value: &str| PolicyError::Bitwidth { variable, value: value.to_owned() };
    value.map(|value| value.parse().map_err(|_| wrong(value))).transpose()
}

fn base_policy(inputs: &Inputs) -> Result<(Policy, Base), PolicyError> {
    let named = inputs.policy_path.as_deref().filter(|path| !path.as_os_str().is_empty());
    if named == Some(Path::new(AUTO)) {
        let operators = Inputs { policy_path: None, ..inputs.clone() };
        let (mut policy, base) = base_policy(&operators)?;
        if base == Base::BuiltIn {
            // No operator wrote it, and what it keeps closed may be compared, too.
            policy = Policy::open();
        }
        policy.choose = Some(Choose::Auto);
        return Ok((policy, base));
    }
    if let Some(path) = named {
        let remedy = "correct WIDELANE_POLICY or unset it";
        return Ok((read(path, remedy)?, Base::EnvironmentFile(path.to_owned())));
    }
    match read(&inputs.system_path, "correct it or remove it") {
        Err(PolicyError::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            Ok((Policy::default_for(&Signature::detect()), Base::BuiltIn))
        }
        found => Ok((found?, Base::SystemFile(inputs.system_path.clone()))),
    }
}

fn read(path: &Path, remedy: &'static str) -> Result<Policy, PolicyError> {
    let unreadable = |error| PolicyError::Unreadable { path: path.to_owned(), remedy, error };
    let mut file = File::open(path).map_err(unreadable)?;
    if let Some(flaw) = flaw(&file.metadata().map_err(unreadable)?) {
        return Err(PolicyError::Untrusted { path: path.to_owned(), flaw });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    Ok(file::parse(path, &text)?)
}

/// Why the file at `path` cannot be read as a policy, in words.
fn unreadable(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no policy file {path}"),
        io::ErrorKind::IsADirectory => format!("{path} is a directory, not a policy file"),
        io::ErrorKind::InvalidData => format!("{path} is not text (UTF-8), so no policy file"),
        io::ErrorKind::PermissionDenied => {
            format!("the policy file {path} is not readable for the user who runs this ({error})")
        }
        _ => format!("cannot read the policy file {path} ({error})"),
    }
}

/// Who, other than root and the user of this process, may write to the file.
fn flaw(metadata: &Metadata) -> Option<String> {
    const WRITABLE_FOR_ALL: u32 = 0o002;
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Some(format!("belongs to user {owner}"));
    }
    // A device such as /dev/null is no file that somebody fills.
    let is_open = metadata.is_file() && metadata.mode() & WRITABLE_FOR_ALL != 0;
    is_open.then(|| "can be written by everybody".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::policy::{Combine, Engine, LaneCpus, WaitMax};

    /// Inputs with an operator's file that allows 256 bits and a named file that allows 512.
    struct Files {
        directory: tempfile::TempDir,
    }

    impl Files {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join("system.toml"), "width_max = 256").unwrap();
            fs::write(directory.path().join("named.toml"), "rooms_closed = [\"ifma512\"]").unwrap();
            Files { directory }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        fn inputs(&self) -> Inputs {
            Inputs { system_path: self.path("system.toml"), ..Inputs::default() }
        }
    }

    #[test]
    fn auto_chooses_from_what_the_operator_leaves_open() {
        let files = Files::new();
        let inputs = Inputs { policy_path: Some(AUTO.into()), ..files.inputs() };
        let resolved = resolve(&inputs).unwrap();
        let auto = |policy| Policy { choose: Some(Choose::Auto), ..policy };
        assert_eq!(resolved.policy, auto(Policy::up_to(Width::W256)));
        assert_eq!(resolved.source.base, Base::SystemFile(files.path("system.toml")));
        let inputs = Inputs { system_path: files.path("absent.toml"), ..inputs };
        assert_eq!(resolve(&inputs).unwrap().policy, auto(Policy::open()));
        let inputs = Inputs { max_simd_bitwidth: Some("256".into()), ..inputs };
        assert_eq!(resolve(&inputs).unwrap().policy, auto(Policy::up_to(Width::W256)));
        let mut file = File::create(files.path("system.toml")).unwrap();
        io::Write::write_all(&mut file, b"choose = \"auto\"").unwrap();
        assert_eq!(resolve(&files.inputs()).unwrap().policy, auto(Policy::open()));
    }

    #[test]
    fn the_argument_beats_everything() {
        let inputs = Inputs {
            argument: Some(Policy::open()),
            policy_path: Some("/nonexistent".into()),
            max_simd_bitwidth: Some("nonsense".into()),
            ..Files::new().inputs()
        };
        let resolved = resolve(&inputs).unwrap();
        assert_eq!(resolved.policy, Policy::open());
        assert_eq!(resolved.source.to_string(), "argument of the caller");
    }

    #[test]
    fn the_named_file_beats_the_system_file() {
        let files = Files::new();
        let path = files.path("named.toml");
        let inputs = Inputs { policy_path: Some(path.clone()), ..files.inputs() };
        let resolved = resolve(&inputs).unwrap();
        assert_eq!(resolved.policy.width_max, Width::W512);
        assert_eq!(resolved.source.to_string(), format!("WIDELANE_POLICY={}", path.display()));
    }

    #[test]
    fn the_system_file_beats_the_default() {
        let files = Files::new();
        let resolved = resolve(&files.inputs()).unwrap();
        assert_eq!(resolved.policy, Policy::up_to(Width::W256));
        assert_eq!(resolved.source.base, Base::SystemFile(files.path("system.toml")));
    }

    #[test]
    fn without_any_source_the_default_holds() {
        let files = Files::new();
        let inputs = Inputs { system_path: files.path("absent.toml"), ..Inputs::default() };
        let resolved = resolve(&inputs).unwrap();
        assert_eq!(resolved.policy, Policy::default_for(&Signature::detect()));
        assert_eq!(resolved.source.to_string(), "built-in default for this CPU model");
    }

    #[test]
    fn the_bitwidth_narrows_a_file_and_never_widens_it() {
        let files = Files::new();
        for (bitwidth, width_max) in
            [("128", Width::W128), ("256", Width::W256), ("512", Width::W256), ("", Width::W256)]
        {
            let inputs = Inputs { max_simd_bitwidth: Some(bitwidth.into()), ..files.inputs() };
            assert_eq!(resolve(&inputs).unwrap().policy.width_max, width_max, "{bitwidth}");
        }
    }

    #[test]
    fn the_bitwidth_keeps_what_the_named_file_closes() {
        let files = Files::new();
        let inputs = Inputs {
            policy_path: Some(files.path("named.toml")),
            max_simd_bitwidth: Some("256".into()),
            ..files.inputs()
        };
        let resolved = resolve(&inputs).unwrap();
        assert_eq!(resolved.policy.width_max, Width::W256);
        assert_eq!(resolved.policy.rooms_closed.len(), 1);
        let source = resolved.source.to_string();
        assert!(source.ends_with(", narrowed by WIDELANE_MAX_SIMD_BITWIDTH=256"), "{source}");
    }

    #[test]
    fn over_the_default_the_bitwidth_decides_alone() {
        let files = Files::new();
        for width in [Width::W128, Width::W256, Width::W512] {
            let inputs = Inputs {
                max_simd_bitwidth: Some(width.to_string()),
                system_path: files.path("absent.toml"),
                ..Inputs::default()
            };
            let resolved = resolve(&inputs).unwrap();
            assert_eq!(resolved.policy, Policy::up_to(width));
            let source = resolved.source.to_string();
            assert_eq!(source, format!("WIDELANE_MAX_SIMD_BITWIDTH={width}"));
        }
    }

    #[test]
    fn a_bad_bitwidth_is_told_what_is_allowed() {
        for value in ["64", "wide", "512 ", "-1"] {
            let inputs = Inputs { max_simd_bitwidth: Some(value.into()), ..Files::new().inputs() };
            assert_eq!(
                resolve(&inputs).unwrap_err().to_string(),
                format!(
                    "WIDELANE_MAX_SIMD_BITWIDTH is {value:?}: \
                     set it to 128, 256 or 512, or unset it"
                )
            );
        }
    }

    #[test]
    fn the_lane_process_has_a_width_of_its_own() {
        let files = Files::new();
        fs::write(files.path("named.toml"), "width_max = 128\n[lane_process]\n").unwrap();
        let absent = files.path("absent.toml");
        let widths = |named: bool, [general, lane]: [&str; 2]| {
            let inputs = Inputs {
                policy_path: named.then(|| files.path("named.toml")),
                max_simd_bitwidth: Some(general.to_owned()),
                lane_max_simd_bitwidth: Some(lane.to_owned()),
                system_path: absent.clone(),
                ..Inputs::default()
            };
            let policy = resolve(&inputs).unwrap().policy;
            [policy.width_max, policy.of_lane_process().width_max].map(Width::bits)
        };
        // A file is narrowed, each part by its variable, or both by the general one.
        assert_eq!(widths(true, ["", ""]), [128, 512]);
        assert_eq!(widths(true, ["256", ""]), [128, 256]);
        assert_eq!(widths(true, ["128", "512"]), [128, 512]);
        assert_eq!(widths(true, ["", "256"]), [128, 256]);
        // Over the default variables decide alone.
        assert_eq!(widths(false, ["128", "512"]), [128, 512]);
        assert_eq!(widths(false, ["256", ""]), [256, 256]);
        let narrow = Inputs { lane_max_simd_bitwidth: Some("512".into()), ..files.inputs() };
        let policy = resolve(&narrow).unwrap().policy;
        assert_eq!(policy.of_lane_process().width_max, Width::W256, "as the file says of all");
        let wrong = Inputs { lane_max_simd_bitwidth: Some("64".into()), ..files.inputs() };
        assert_eq!(
            resolve(&wrong).unwrap_err().to_string(),
            "WIDELANE_LANE_MAX_SIMD_BITWIDTH is \"64\": set it to 128, 256 or 512, or unset it"
        );
    }

    #[test]
    fn the_variable_decides_how_long_operations_wait() {
        let files = Files::new();
        fs::write(files.path("named.toml"), "wait_max = \"0.2ms\"").unwrap();
        for (variable, ns) in
            [(None, 200_000), (Some(""), 200_000), (Some("0"), 0), (Some("2ms"), 2_000_000)]
        {
            let inputs = Inputs {
                policy_path: Some(files.path("named.toml")),
                wait_max: variable.map(str::to_owned),
                ..files.inputs()
            };
            let wait_max = resolve(&inputs).unwrap().policy.wait_max;
            assert_eq!(wait_max.map(WaitMax::longest_ns), Some(ns), "{variable:?}");
        }
        let inputs = Inputs { wait_max: Some("a while".to_owned()), ..files.inputs() };
        assert_eq!(
            resolve(&inputs).unwrap_err().to_string(),
            "WIDELANE_WAIT_MAX: the longest wait is a time up to 10ms such as 0.5ms or 200us, rtt \
             for a tenth of each client's round-trip time, or 0 for none, not \"a while\""
        );
    }

    #[test]
    fn the_variable_decides_whether_workers_combine() {
        let files = Files::new();
        fs::write(files.path("named.toml"), "combine = \"on\"").unwrap();
        let resolved = |variable: Option<&str>| {
            let inputs = Inputs {
                policy_path: Some(files.path("named.toml")),
                combine: variable.map(str::to_owned),
                ..files.inputs()
            };
            resolve(&inputs).map(|resolved| resolved.policy.combine)
        };
        assert_eq!(resolved(None).unwrap(), Some(Combine::On));
        assert_eq!(resolved(Some("off")).unwrap(), Some(Combine::Off));
        assert_eq!(
            resolved(Some("1")).unwrap_err().to_string(),
            "WIDELANE_COMBINE: combining is on, off or auto, not \"1\""
        );
    }

    #[test]
    fn the_variable_decides_which_cpus_are_set_aside() {
        let files = Files::new();
        fs::write(files.path("named.toml"), "lane_cpus = \"1\"").unwrap();
        let resolved = |variable: Option<&str>| {
            let inputs = Inputs {
                policy_path: Some(files.path("named.toml")),
                lane_cpus: variable.map(str::to_owned),
                ..files.inputs()
            };
            resolve(&inputs).map(|resolved| resolved.policy.lane_cpus)
        };
        assert_eq!(resolved(None).unwrap(), Some(LaneCpus::new([1])));
        assert_eq!(resolved(Some("none")).unwrap(), Some(LaneCpus::new([])));
        assert_eq!(
            resolved(Some("last")).unwrap_err().to_string(),
            "WIDELANE_LANE_CPUS: lane CPUs are a list such as 3 or 2,4-7, or none, not \"last\""
        );
    }

    #[test]
    fn the_variable_decides_what_does_operations() {
        let files = Files::new();
        fs::write(files.path("named.toml"), "engine = \"qat\"").unwrap();
        let resolved = |variable: Option<&str>| {
            let inputs = Inputs {
                policy_path: Some(files.path("named.toml")),
                engine: variable.map(str::to_owned),
                ..files.inputs()
            };
            resolve(&inputs).map(|resolved| resolved.policy.engine)
        };
        assert_eq!(resolved(None).unwrap(), Some(Engine::Qat));
        assert_eq!(resolved(Some("cpu")).unwrap(), Some(Engine::Cpu));
        assert_eq!(
            resolved(Some("card")).unwrap_err().to_string(),
            "WIDELANE_ENGINE: an engine is cpu, qat or qat-first, not \"card\""
        );
    }

    #[test]
    fn a_named_file_must_be_text_that_exists() {
        let files = Files::new();
        fs::write(files.path("binary"), [0xff]).unwrap();
        let remedy = "correct WIDELANE_POLICY or unset it";
        let directory = files.directory.path().to_owned();
        for (path, what) in [
            ("/nonexistent.toml".into(), "there is no policy file /nonexistent.toml".to_owned()),
            (
                directory.clone(),
                format!("{} is a directory, not a policy file", directory.display()),
            ),
            (
                files.path("binary"),
                format!("{}/binary is not text (UTF-8), so no policy file", directory.display()),
            ),
        ] {
            let inputs = Inputs { policy_path: Some(path), ..files.inputs() };
            let error = resolve(&inputs).unwrap_err();
            assert_eq!(error.to_string(), format!("{what}; {remedy}"));
            assert!(std::error::Error::source(&error).is_none(), "said once");
        }
    }

    #[test]
    fn a_system_file_that_cannot_be_read_is_not_skipped() {
        let files = Files::new();
        // A directory is there but unreadable as a file, for root too.
        let inputs = Inputs { system_path: files.directory.path().into(), ..Inputs::default() };
        assert!(matches!(resolve(&inputs), Err(PolicyError::Unreadable { .. })));
    }

    #[test]
    fn a_file_that_everybody_may_write_decides_nothing() {
        let files = Files::new();
        let path = files.path("named.toml");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let inputs = Inputs { policy_path: Some(path), ..files.inputs() };
        let error = resolve(&inputs).unwrap_err();
        assert!(matches!(error, PolicyError::Untrusted { .. }), "{error}");
        assert!(error.to_string().contains("can be written by everybody"), "{error}");
    }

    #[test]
    fn a_file_of_somebody_else_decides_nothing() {
        let files = Files::new();
        let path = files.path("system.toml");
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
            eprintln!("only root can give files away: nothing was tested");
            return;
        }
        let error = resolve(&files.inputs()).unwrap_err();
        assert!(error.to_string().contains("belongs to user 65534"), "{error}");
    }
}
