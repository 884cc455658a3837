//! Which policy holds: the sources, strongest first, and how they combine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::file::{self, MalformedPolicy};
use super::{
    AUTO, BITWIDTH_VARIABLE, Choose, LANE_BITWIDTH_VARIABLE, PATH_VARIABLE, Policy, SETTINGS,
    SYSTEM_PATH,
};
use crate::environment;
use crate::machine::Signature;
use crate::rooms::Width;

/// The most bytes of a policy file: a thousand times what one with every key has.
const LENGTH_MAX: u64 = 1 << 20;

/// The names of all environment variables that decide the policy.
pub fn variables() -> impl Iterator<Item = &'static str> {
    let of_settings = SETTINGS.iter().filter_map(|setting| setting.variable);
    [PATH_VARIABLE, BITWIDTH_VARIABLE, LANE_BITWIDTH_VARIABLE].into_iter().chain(of_settings)
}

/// Everything that may decide the policy.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// A policy given through the API: it alone holds, nothing else is read.
    pub argument: Option<Policy>,
    /// The operator's file, usually [`SYSTEM_PATH`]; it need not exist.
    pub system_path: PathBuf,
    /// The [`variables`] that are set and not empty, with their values.
    pub variables: BTreeMap<&'static str, OsString>,
    /// Who reads the files: nobody but root and these may be able to change them.
    pub reader: Reader,
}

/// The user and the group of a process.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// The user's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
}

impl Reader {
    /// A process of root.
    pub const ROOT: Reader = Reader { user: 0, group: 0 };

    fn of_this_process() -> Self {
        Reader {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
        }
    }
}

impl Inputs {
    /// The operator's file, and the environment. A program that runs with more rights than the user
    /// who started it ignores variables.
    pub fn of_environment() -> Self {
        Inputs::of_variables(environment::variable)
    }

    /// The operator's file, and variables that `variable` looks up by name.
    pub fn of_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let value = |name| Some((name, variable(name).filter(|value| !value.is_empty())?));
        Inputs {
            argument: None,
            system_path: SYSTEM_PATH.into(),
            variables: variables().filter_map(value).collect(),
            reader: Reader::of_this_process(),
        }
    }

    /// What a variable says, in words.
    fn word(&self, variable: &str) -> Option<String> {
        Some(self.variables.get(variable)?.to_string_lossy().into_owned())
    }
}

/// The policy that holds, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The policy.
    pub policy: Policy,
    /// Where it comes from.
    pub source: Source,
}

/// Where a policy comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Where the policy comes from, before what variables say.
    pub base: Base,
    /// The variables that had a part in it, with their values, but for one that names a file.
    pub variables: Vec<(&'static str, String)>,
    /// The variables that closed registers which the base leaves open.
    pub narrowed_by: Vec<&'static str>,
}

/// Where a policy comes from, before most variables of the environment.
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
        // These replace the default, so it is not named.
        let decides =
            |(name, _): &(&str, String)| [PATH_VARIABLE, BITWIDTH_VARIABLE].contains(name);
        let mut parts = match &self.base {
            Base::Argument => vec!["argument of the caller".to_owned()],
            Base::EnvironmentFile(path) => vec![format!("{PATH_VARIABLE}={}", path.display())],
            Base::SystemFile(path) => vec![path.display().to_string()],
            Base::BuiltIn if self.variables.iter().any(decides) => Vec::new(),
            Base::BuiltIn => vec!["built-in default for this CPU model".to_owned()],
        };
        for (name, value) in &self.variables {
            let is_width = [BITWIDTH_VARIABLE, LANE_BITWIDTH_VARIABLE].contains(name);
            parts.push(match is_width && self.base != Base::BuiltIn {
                false => format!("{name}={value}"),
                true if self.narrowed_by.contains(name) => format!("narrowed by {name}={value}"),
                true => format!("{name}={value} (narrows nothing)"),
            });
        }
        formatter.write_str(&parts.join(", "))
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
    /// A variable of a setting has a value that the setting does not allow.
    #[error("{variable}: {reason}")]
    Setting {
        /// Its name.
        variable: &'static str,
        /// What is allowed.
        reason: String,
    },
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
    /// Other users could change the policy file.
    #[error(
        "the policy {} {flaw}; nobody but root and you must be able to change what runs here: \
         `chown` it to root or yourself, and `chmod go-w` it",
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
/// narrows what a file says, never widens it; where only the default applies, which no operator
/// wrote, it may also open wider registers than that. `WIDELANE_POLICY=auto` names no file: what
/// the operator's file leaves open, or everything where there is none, is then chosen from.
/// `WIDELANE_WAIT_MAX`, `WIDELANE_COMBINE`, `WIDELANE_LANE_CPUS`, `WIDELANE_LANE_USER` and
/// `WIDELANE_ENGINE` stand for what a file says of waiting, combining, lane CPUs, their process and
/// what does private-key operations.
/// `WIDELANE_LANE_MAX_SIMD_BITWIDTH` does for the lane process what the other width does for all;
/// where it is set, that one is for the workers alone. Variables that are set but empty count as
/// unset.
pub fn resolve(inputs: &Inputs) -> Result<Resolved, PolicyError> {
    if let Some(policy) = &inputs.argument {
        let (variables, narrowed_by) = (Vec::new(), Vec::new());
        let source = Source { base: Base::Argument, variables, narrowed_by };
        return Ok(Resolved { policy: policy.clone(), source });
    }
    let bitwidth = bitwidth(inputs, BITWIDTH_VARIABLE)?;
    let of_lane_process = self::bitwidth(inputs, LANE_BITWIDTH_VARIABLE)?;
    let (mut policy, base) = base_policy(inputs)?;
    if of_lane_process.is_some() && policy.lane_process.is_none() {
        policy.lane_process = Some(Box::new(policy.rooms()));
    }
    let mut narrowed_by = Vec::new();
    let mut narrow = |width_max: &mut Width, (variable, width): (&'static str, Width)| {
        if width < *width_max {
            narrowed_by.push(variable);
        }
        *width_max = if base == Base::BuiltIn { width } else { width.min(*width_max) };
    };
    if let (Some(own), Some(width)) = (&mut policy.lane_process, of_lane_process.or(bitwidth)) {
        narrow(&mut own.width_max, width);
    }
    if let Some(width) = bitwidth {
        narrow(&mut policy.width_max, width);
    }
    for setting in &SETTINGS {
        let Some(variable) = setting.variable else { continue };
        if let Some(word) = inputs.word(variable) {
            let wrong = |reason| PolicyError::Setting { variable, reason };
            (setting.set)(&mut policy, &word).map_err(wrong)?;
        }
    }
    let names_file = matches!(base, Base::EnvironmentFile(_));
    let variables = variables().filter(|name| !(names_file && *name == PATH_VARIABLE));
    let variables = variables.filter_map(|name| Some((name, inputs.word(name)?))).collect();
    Ok(Resolved { policy, source: Source { base, variables, narrowed_by } })
}

/// The width that a variable says, with the variable.
fn bitwidth(
    inputs: &Inputs,
    variable: &'static str,
) -> Result<Option<(&'static str, Width)>, PolicyError> {
    let Some(value) = inputs.word(variable) else { return Ok(None) };
    let width = value.parse();
    width
        .map(|width| Some((variable, width)))
        .map_err(|_| PolicyError::Bitwidth { variable, value })
}

fn base_policy(inputs: &Inputs) -> Result<(Policy, Base), PolicyError> {
    let named = inputs.variables.get(PATH_VARIABLE).map(Path::new);
    if named == Some(Path::new(AUTO)) {
        let operators = Inputs { variables: BTreeMap::new(), ..inputs.clone() };
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
        return Ok((read(path, inputs.reader, remedy)?, Base::EnvironmentFile(path.to_owned())));
    }
    match read(&inputs.system_path, inputs.reader, "correct it or remove it") {
        Err(PolicyError::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            Ok((Policy::default_for(&Signature::detect()), Base::BuiltIn))
        }
        found => Ok((found?, Base::SystemFile(inputs.system_path.clone()))),
    }
}

fn read(path: &Path, reader: Reader, remedy: &'static str) -> Result<Policy, PolicyError> {
    let unreadable = |error| PolicyError::Unreadable { path: path.to_owned(), remedy, error };
    // Not blocking: whoever opens a pipe waits for its other end.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(file.map_err(|error| unreadable(error.into()))?);
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.file_type().is_fifo() {
        return Err(unreadable(io::ErrorKind::NotSeekable.into()));
    }
    if metadata.is_dir() {
        return Err(unreadable(io::ErrorKind::IsADirectory.into()));
    }
    if let Some(flaw) = flaw(&metadata, reader) {
        return Err(PolicyError::Untrusted { path: path.to_owned(), flaw });
    }
    let mut text = String::new();
    file.take(LENGTH_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LENGTH_MAX {
        return Err(unreadable(io::ErrorKind::FileTooLarge.into()));
    }
    Ok(file::parse(path, &text)?)
}

/// Why the file at `path` cannot be read as a policy, in words.
fn unreadable(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no policy file {path}"),
        io::ErrorKind::IsADirectory => format!("{path} is a directory, not a policy file"),
        io::ErrorKind::NotSeekable => format!("{path} is a pipe, not a policy file"),
        io::ErrorKind::FileTooLarge => {
            format!("{path} is longer than {} MiB, so no policy file", LENGTH_MAX >> 20)
        }
        io::ErrorKind::InvalidData => format!("{path} is not text (UTF-8), so no policy file"),
        io::ErrorKind::PermissionDenied => {
            format!("the policy file {path} is not readable for the user who runs this ({error})")
        }
        _ => format!("cannot read the policy file {path} ({error})"),
    }
}

/// What lets users other than root and the user and the group of its reader change a file, or
/// exchange files in a directory.
pub fn flaw(metadata: &Metadata, reader: Reader) -> Option<String> {
    const WRITABLE_FOR_ALL: u32 = 0o002;
    const WRITABLE_FOR_GROUP: u32 = 0o020;
    let (owner, group) = (metadata.uid(), metadata.gid());
    if owner != 0 && owner != reader.user {
        let hint = match owner {
            OVERFLOW_USER => ", or to one without a number in this user namespace",
            _ => "",
        };
        return Some(format!("belongs to user {owner}{hint}"));
    }
    // A device such as /dev/null has no contents that users could change, and in a directory such
    // as /tmp they change only their own files.
    let is_sticky = metadata.mode() & 0o1000 != 0;
    let is_changeable = metadata.is_file() || metadata.is_dir() && !is_sticky;
    let may = |bits| is_changeable && metadata.mode() & bits != 0;
    if may(WRITABLE_FOR_ALL) {
        return Some("can be written by everybody".to_owned());
    }
    let is_ours = group == 0 || group == reader.group;
    (may(WRITABLE_FOR_GROUP) && !is_ours).then(|| format!("can be written by group {group}"))
}

/// Whom files belong to in a user namespace in which their owners have no number.
const OVERFLOW_USER: u32 = 65_534;

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn inputs(system_path: PathBuf, variables: &[(&str, &str)]) -> Inputs {
        let value = |name: &str| {
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some(value.into())
        };
        Inputs { system_path, ..Inputs::of_variables(value) }
    }

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

        fn inputs(&self, variables: &[(&str, &str)]) -> Inputs {
            inputs(self.path("system.toml"), variables)
        }

        /// The same without the operator's file.
        fn without(&self, variables: &[(&str, &str)]) -> Inputs {
            inputs(self.path("absent.toml"), variables)
        }

        /// Under the named file, and the variable where it is set.
        fn named(&self, contents: &str, variable: &str, value: Option<&str>) -> Inputs {
            let path = self.path("named.toml");
            fs::write(&path, contents).unwrap();
            let value = value.map(|value| (variable, value));
            let named = [(PATH_VARIABLE, path.to_str().unwrap())];
            self.inputs(&named.into_iter().chain(value).collect::<Vec<_>>())
        }
    }

    #[test]
    fn auto_chooses_from_what_the_operator_leaves_open() {
        let files = Files::new();
        let auto = (PATH_VARIABLE, AUTO);
        let resolved = resolve(&files.inputs(&[auto])).unwrap();
        let chosen = |policy| Policy { choose: Some(Choose::Auto), ..policy };
        assert_eq!(resolved.policy, chosen(Policy::up_to(Width::W256)));
        assert_eq!(resolved.source.base, Base::SystemFile(files.path("system.toml")));
        let system_path = files.path("system.toml").display().to_string();
        assert_eq!(resolved.source.to_string(), format!("{system_path}, WIDELANE_POLICY=auto"));
        let open = resolve(&files.without(&[auto])).unwrap();
        assert_eq!(open.policy, chosen(Policy::open()));
        assert_eq!(open.source.to_string(), "WIDELANE_POLICY=auto");
        let narrow = files.without(&[auto, (BITWIDTH_VARIABLE, "256")]);
        assert_eq!(resolve(&narrow).unwrap().policy, chosen(Policy::up_to(Width::W256)));
        let mut file = File::create(files.path("system.toml")).unwrap();
        io::Write::write_all(&mut file, b"choose = \"auto\"").unwrap();
        assert_eq!(resolve(&files.inputs(&[])).unwrap().policy, chosen(Policy::open()));
    }

    #[test]
    fn the_argument_beats_everything() {
        let variables = [(PATH_VARIABLE, "/nonexistent"), (BITWIDTH_VARIABLE, "nonsense")];
        let inputs = Inputs { argument: Some(Policy::open()), ..Files::new().inputs(&variables) };
        let resolved = resolve(&inputs).unwrap();
        assert_eq!(resolved.policy, Policy::open());
        assert_eq!(resolved.source.to_string(), "argument of the caller");
    }

    #[test]
    fn the_named_file_beats_the_system_file() {
        let files = Files::new();
        let path = files.path("named.toml");
        let inputs = files.inputs(&[(PATH_VARIABLE, path.to_str().unwrap())]);
        let resolved = resolve(&inputs).unwrap();
        assert_eq!(resolved.policy.width_max, Width::W512);
        assert_eq!(resolved.source.to_string(), format!("WIDELANE_POLICY={}", path.display()));
    }

    #[test]
    fn the_system_file_beats_the_default() {
        let files = Files::new();
        let resolved = resolve(&files.inputs(&[])).unwrap();
        assert_eq!(resolved.policy, Policy::up_to(Width::W256));
        assert_eq!(resolved.source.base, Base::SystemFile(files.path("system.toml")));
    }

    #[test]
    fn without_any_source_the_default_holds() {
        let files = Files::new();
        let resolved = resolve(&files.without(&[])).unwrap();
        assert_eq!(resolved.policy, Policy::default_for(&Signature::detect()));
        assert_eq!(resolved.source.to_string(), "built-in default for this CPU model");
    }

    #[test]
    fn the_bitwidth_narrows_a_file_and_never_widens_it() {
        let files = Files::new();
        for (bitwidth, width_max) in
            [("128", Width::W128), ("256", Width::W256), ("512", Width::W256), ("", Width::W256)]
        {
            let resolved = resolve(&files.inputs(&[(BITWIDTH_VARIABLE, bitwidth)])).unwrap();
            assert_eq!(resolved.policy.width_max, width_max, "{bitwidth}");
        }
    }

    #[test]
    fn only_a_width_that_narrows_is_said_to_narrow() {
        let files = Files::new();
        let said = |variables: &[(&str, &str)]| {
            let source = resolve(&files.inputs(variables)).unwrap().source.to_string();
            source.split_once("system.toml, ").unwrap().1.to_owned()
        };
        for (variable, narrowest) in [(BITWIDTH_VARIABLE, "128"), (LANE_BITWIDTH_VARIABLE, "128")] {
            let narrowed = said(&[(variable, narrowest)]);
            assert_eq!(narrowed, format!("narrowed by {variable}={narrowest}"));
            for same_or_wider in ["256", "512"] {
                let expected = format!("{variable}={same_or_wider} (narrows nothing)");
                assert_eq!(said(&[(variable, same_or_wider)]), expected);
            }
        }
    }

    #[test]
    fn the_bitwidth_keeps_what_the_named_file_closes() {
        let files = Files::new();
        let closed = "rooms_closed = [\"ifma512\"]";
        let resolved = resolve(&files.named(closed, BITWIDTH_VARIABLE, Some("256"))).unwrap();
        assert_eq!(resolved.policy.width_max, Width::W256);
        assert_eq!(resolved.policy.rooms_closed.len(), 1);
        let source = resolved.source.to_string();
        assert!(source.ends_with(", narrowed by WIDELANE_MAX_SIMD_BITWIDTH=256"), "{source}");
    }

    #[test]
    fn over_the_default_the_bitwidth_decides_alone() {
        let files = Files::new();
        for width in [Width::W128, Width::W256, Width::W512] {
            let variable = (BITWIDTH_VARIABLE, &*width.to_string());
            let resolved = resolve(&files.without(&[variable])).unwrap();
            assert_eq!(resolved.policy, Policy::up_to(width));
            let source = resolved.source.to_string();
            assert_eq!(source, format!("WIDELANE_MAX_SIMD_BITWIDTH={width}"));
        }
    }

    #[test]
    fn every_variable_that_is_set_is_named() {
        let others = [
            (LANE_BITWIDTH_VARIABLE, "128"),
            ("WIDELANE_WAIT_MAX", "2ms"),
            ("WIDELANE_COMBINE", "on"),
            ("WIDELANE_LANE_CPUS", "0"),
            ("WIDELANE_ENGINE", "qat"),
            ("WIDELANE_LANE_USER", "nobody"),
        ];
        let files = Files::new();
        let said = resolve(&files.without(&others)).unwrap().source.to_string();
        assert!(said.starts_with("built-in default for this CPU model, "), "{said}");
        for (name, value) in others {
            assert!(said.contains(&format!(", {name}={value}")), "{said}");
        }
        assert_eq!(others.len() + 2, variables().count(), "beside file and width");
    }

    #[test]
    fn a_bad_bitwidth_is_told_what_is_allowed() {
        for value in ["64", "wide", "512 ", "-1"] {
            assert_eq!(
                resolve(&Files::new().inputs(&[(BITWIDTH_VARIABLE, value)]))
                    .unwrap_err()
                    .to_string(),
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
        let named = files.path("named.toml");
        let widths = |named: &str, [general, lane]: [&str; 2]| {
            let inputs = files.without(&[
                (PATH_VARIABLE, named),
                (BITWIDTH_VARIABLE, general),
                (LANE_BITWIDTH_VARIABLE, lane),
            ]);
            let policy = resolve(&inputs).unwrap().policy;
            [policy.width_max, policy.of_lane_process().width_max].map(Width::bits)
        };
        let [named, none] = [named.to_str().unwrap(), ""];
        // A file is narrowed, each part by its variable, or both by the general one.
        assert_eq!(widths(named, ["", ""]), [128, 512]);
        assert_eq!(widths(named, ["256", ""]), [128, 256]);
        assert_eq!(widths(named, ["128", "512"]), [128, 512]);
        assert_eq!(widths(named, ["", "256"]), [128, 256]);
        // Over the default variables decide alone.
        assert_eq!(widths(none, ["128", "512"]), [128, 512]);
        assert_eq!(widths(none, ["256", ""]), [256, 256]);
        let narrow = files.inputs(&[(LANE_BITWIDTH_VARIABLE, "512")]);
        let policy = resolve(&narrow).unwrap().policy;
        assert_eq!(policy.of_lane_process().width_max, Width::W256, "as the file says of all");
        let wrong = files.inputs(&[(LANE_BITWIDTH_VARIABLE, "64")]);
        assert_eq!(
            resolve(&wrong).unwrap_err().to_string(),
            "WIDELANE_LANE_MAX_SIMD_BITWIDTH is \"64\": set it to 128, 256 or 512, or unset it"
        );
    }

    #[test]
    fn the_variable_of_a_setting_stands_for_what_the_file_says() {
        let files = Files::new();
        for (setting, in_file, in_variable) in [
            ("wait_max", "0.2ms", "2ms"),
            ("combine", "on", "off"),
            ("lane_cpus", "1", "none"),
            ("lane_user", "widelane", "nobody"),
            ("engine", "qat", "cpu"),
        ] {
            let variable = format!("WIDELANE_{}", setting.to_uppercase());
            let said = |value: &str| format!("{setting} = {value:?}");
            let policy = |value| {
                let inputs = files.named(&said(in_file), &variable, value);
                toml::to_string(&resolve(&inputs).unwrap().policy).unwrap()
            };
            for (value, expected) in
                [(None, in_file), (Some(""), in_file), (Some(in_variable), in_variable)]
            {
                let policy = policy(value);
                assert!(policy.contains(&said(expected)), "{setting}, {value:?}: {policy}");
            }
        }
    }

    #[test]
    fn a_variable_is_told_what_is_allowed() {
        for (variable, value, what) in [
            (
                "WIDELANE_WAIT_MAX",
                "a while",
                "the longest wait is a time up to 10ms such as 0.5ms or 200us, 0 for none, or rtt \
                 for a tenth of each client's round-trip time, from 0.5ms to 5ms, not \"a while\"",
            ),
            ("WIDELANE_COMBINE", "1", "combining is on, off or auto, not \"1\""),
            (
                "WIDELANE_LANE_CPUS",
                "last",
                "lane CPUs are a list such as 3 or 2,4-7, or none, not \"last\"",
            ),
            ("WIDELANE_ENGINE", "card", "an engine is cpu, qat or qat-first, not \"card\""),
        ] {
            let error = resolve(&Files::new().inputs(&[(variable, value)])).unwrap_err();
            assert_eq!(error.to_string(), format!("{variable}: {what}"));
        }
    }

    #[test]
    fn a_named_file_must_be_text_that_exists() {
        let files = Files::new();
        fs::write(files.path("binary"), [0xff]).unwrap();
        let remedy = "correct WIDELANE_POLICY or unset it";
        let directory = files.directory.path().to_owned();
        let pipe = files.path("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for (path, what) in [
            ("/nonexistent.toml".into(), "there is no policy file /nonexistent.toml".to_owned()),
            (
                directory.clone(),
                format!("{} is a directory, not a policy file", directory.display()),
            ),
            (pipe.clone(), format!("{} is a pipe, not a policy file", pipe.display())),
            ("/dev/zero".into(), "/dev/zero is longer than 1 MiB, so no policy file".to_owned()),
            (
                files.path("binary"),
                format!("{}/binary is not text (UTF-8), so no policy file", directory.display()),
            ),
        ] {
            let error = resolve(&files.inputs(&[(PATH_VARIABLE, &path.to_string_lossy())]));
            let error = error.unwrap_err();
            assert_eq!(error.to_string(), format!("{what}; {remedy}"));
            assert!(std::error::Error::source(&error).is_none(), "said once");
        }
    }

    #[test]
    fn a_system_file_that_cannot_be_read_is_not_skipped() {
        let files = Files::new();
        // A directory is there but unreadable as a file, for root too.
        let inputs = inputs(files.directory.path().into(), &[]);
        assert!(matches!(resolve(&inputs), Err(PolicyError::Unreadable { .. })));
    }

    #[test]
    fn a_file_that_everybody_may_write_decides_nothing() {
        let files = Files::new();
        let path = files.path("named.toml");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let inputs = files.inputs(&[(PATH_VARIABLE, path.to_str().unwrap())]);
        let error = resolve(&inputs).unwrap_err();
        assert!(matches!(error, PolicyError::Untrusted { .. }), "{error}");
        assert!(error.to_string().contains("can be written by everybody"), "{error}");
    }

    #[test]
    fn a_file_that_another_group_may_write_decides_nothing() {
        let files = Files::new();
        let path = files.path("named.toml");
        let inputs = files.inputs(&[(PATH_VARIABLE, path.to_str().unwrap())]);
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        resolve(&inputs).expect("its group is that of this process");
        if std::os::unix::fs::chown(&path, None, Some(65_534)).is_err() {
            eprintln!("only root can give files away: no more was tested");
            return;
        }
        // That may have taken a bit off.
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        assert_eq!(
            resolve(&inputs).unwrap_err().to_string(),
            format!(
                "the policy {} can be written by group 65534; nobody but root and you must be able \
                 to change what runs here: `chown` it to root or yourself, and `chmod go-w` it",
                path.display()
            )
        );
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        resolve(&inputs).expect("others may read it");
    }

    #[test]
    fn a_file_of_somebody_else_decides_nothing() {
        let files = Files::new();
        let path = files.path("system.toml");
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
            eprintln!("only root can give files away: nothing was tested");
            return;
        }
        let error = resolve(&files.inputs(&[])).unwrap_err();
        assert!(error.to_string().contains("belongs to user 65534, or to one without"), "{error}");
        let of_its_user = Reader { user: 65_534, group: 65_534 };
        resolve(&Inputs { reader: of_its_user, ..files.inputs(&[]) }).expect("its own file");
    }
}
