//! Just enough of systemd's unit files to tell what a service starts, and with which environment.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use nix::unistd::User;

use super::drop_in::FILE_NAME;
use crate::live::SYSTEM_DIRECTORY;
use crate::run::fitness::{Fitness, Start};
use crate::system::{below, way};

/// Says that a system has no such service.
pub fn no_service(root: &Path, name: &str) -> String {
    match root == Path::new("/") {
        true => format!("there is no service {name}"),
        false => format!("there is no service {name} in {}", root.display()),
    }
}

/// Where units and their drop-ins are, strongest first (systemd.unit(5)).
const DIRECTORIES: [&str; 13] = [
    "etc/systemd/system.control",
    "run/systemd/system.control",
    "run/systemd/transient",
    "run/systemd/generator.early",
    "etc/systemd/system",
    "etc/systemd/system.attached",
    "run/systemd/system",
    "run/systemd/system.attached",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
    "run/systemd/generator.late",
];

/// What concerns us of a service.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// The name that systemd knows it by, whatever second name was asked for.
    pub name: String,
    /// The program that it starts, as systemd is told of it where it is not known.
    pub program: PathBuf,
    /// Whether the program's path has specifiers that only systemd knows.
    pub is_program_unknown: bool,
    /// The user that it runs as, where it names one.
    pub user: Option<String>,
    /// Whether its program is started by root whatever user it names.
    pub is_privileged: bool,
    /// What it preloads already.
    pub preload: Option<String>,
    /// Whether it may write to few directories only.
    pub is_read_only: bool,
    /// Whether it has a user of its own while it runs, which implies more than the settings say.
    pub is_dynamic_user: bool,
    /// Settings in force that hide directories from it.
    pub hidden_by: Vec<&'static str>,
    /// Settings in force that give it a file system of its own.
    pub rooted_by: Vec<&'static str>,
    /// The files that it takes its environment from, as systemd is told of them.
    pub environment_files: Vec<String>,
    /// Those of them that cannot be read, and why.
    pub closed_files: Vec<String>,
    /// The file that takes `LD_PRELOAD` out of its environment.
    pub unset_by: Option<PathBuf>,
    /// Directories, each with the one of [`PATHS`] that names it.
    pub paths: Vec<(&'static str, PathBuf)>,
}

/// Services that were found to lose by it (docs/operate/compatibility.md).
const PROCESS_PER_CONNECTION: [&str; 5] = ["dovecot", "exim", "exim4", "postfix", POSTGRESQL];

/// Its own rpm packages have the version behind it (`postgresql-16`).
const POSTGRESQL: &str = "postgresql";

/// Settings that name directories: those that keep it from what is below them, from executing that
/// and from writing there, and one that allows executing again.
const PATHS: [&str; 5] = [CLOSING[0], CLOSING[1], NO_EXEC, EXEC, READ_ONLY];
const CLOSING: [&str; 2] = ["TemporaryFileSystem", "InaccessiblePaths"];
const READ_ONLY: &str = "ReadOnlyPaths";
const NO_EXEC: &str = "NoExecPaths";
const EXEC: &str = "ExecPaths";

/// Settings that hide directories from a service, and which.
const HIDING: [(&str, &[&str]); 2] =
    [("ProtectHome", &["/home", "/root", "/run/user"]), ("PrivateTmp", &["/tmp", "/var/tmp"])];

const PRELOAD: &str = "LD_PRELOAD";

impl Unit {
    /// Reads a service's unit and all drop-ins but ours.
    pub fn find(root: &Path, name: &str) -> anyhow::Result<Self> {
        let Some((name, path)) = unit_file(root, name) else {
            bail!(
                "{}; where servers are started otherwise, put `widelane run --` before their \
                 command",
                no_service(root, name)
            );
        };
        let mut unit = Unit { name: name.clone(), ..Unit::default() };
        let file = match text(root, &path) {
            Ok(text) => (root.join(path), text),
            Err(error) if refusal(&error) == Some(io::ErrorKind::NotFound) => bail!(
                "{} is a link to a file that is not there; correct it, or remove it",
                root.join(path).display()
            ),
            Err(error) => return Err(error),
        };
        for (path, text) in [file].into_iter().chain(drop_ins(root, &name)?) {
            unit.add(root, &name, &path, &text)?;
        }
        if let Some(path) = &unit.unset_by {
            bail!(
                "{} takes {PRELOAD} out of the environment, by which widelane is loaded",
                path.display()
            );
        }
        unit.check_environment_files(root)?;
        unit.is_read_only |= unit.depth(READ_ONLY, Path::new(SYSTEM_DIRECTORY)).is_some();
        if unit.is_dynamic_user {
            unit.is_read_only = true;
            unit.set_hiding("PrivateTmp", "yes");
        }
        if unit.program.as_os_str().is_empty() {
            bail!("service {name} starts no program; is it masked?");
        }
        Ok(unit)
    }

    /// Whether its program can be accelerated, as far as its file is known.
    pub fn fitness(&self, root: &Path) -> Fitness {
        match self.is_program_unknown {
            true => Fitness::Accelerates,
            false => {
                Start { root, is_by_root: self.starts_as_root() }.judge(&below(root, &self.program))
            }
        }
    }

    /// Whether root starts its program.
    pub fn starts_as_root(&self) -> bool {
        let is_roots = matches!(self.user.as_deref(), None | Some("root" | "0"));
        self.is_privileged || (is_roots && !self.is_dynamic_user)
    }

    /// What keeps its program from reading a file of the system in the directory `root`: a
    /// directory on the way, that of a symbolic link too, or the file itself. Only what is open to
    /// everybody, or to the user as owner, counts as readable.
    pub fn obstacle_to_read(&self, root: &Path, file: &Path) -> Option<PathBuf> {
        if self.starts_as_root() {
            return None;
        }
        // Other systems have other users.
        let user = self.user.as_deref().filter(|_| root == Path::new("/")).and_then(user_number);
        let is_closed = |path: &Path, need: u32| {
            let Ok(metadata) = path.metadata() else { return true };
            let shift = if user == Some(metadata.uid()) { 6 } else { 0 };
            metadata.mode() >> shift & need == 0
        };
        let (file, searched) = way(root, file);
        let closed = searched.into_iter().find(|path| is_closed(path, 0o1));
        closed.or_else(|| Some(file).filter(|path| is_closed(path, 0o4)))
    }

    /// The setting that hides a file from the service, if one does.
    pub fn hides(&self, file: &Path) -> Option<&'static str> {
        let has = |directories: &[&str]| directories.iter().any(|above| file.starts_with(above));
        HIDING
            .into_iter()
            .find(|(setting, directories)| self.hidden_by.contains(setting) && has(directories))
            .map(|(setting, _)| setting)
    }

    /// What is left for the operator to do so that it loads `library`.
    pub fn remarks(&self, root: &Path, library: &Path) -> Vec<String> {
        let program = self.program.display();
        let name = self.program.to_string_lossy().trim_start_matches('/').replace('/', ".");
        let has_profile = below(root, &Path::new("etc/apparmor.d").join(&name)).exists();
        let remark = if self.is_program_unknown {
            Some(format!(
                "Which program {program} is, only systemd knows: `widelane status` tells whether \
                 it is accelerated when it runs"
            ))
        } else {
            has_profile.then(|| {
                format!(
                    "AppArmor has a profile for {program}: allow it to read and map the libraries \
                     of widelane, and to write to /run/widelane (docs/operate/operating.md)"
                )
            })
        };
        let unread = self.environment_files.iter().filter(|file| self.known_file(file).is_none());
        let unread = unread.map(|file| {
            format!(
                "Which files EnvironmentFile={file} names, only systemd knows: if one of them sets \
                 {PRELOAD}, widelane is not loaded; set it in the unit instead"
            )
        });
        let rooted = self.rooted_by.iter().map(|setting| {
            format!(
                "{setting}= gives it a file system of its own: the libraries of widelane have to \
                 be in there, under the same paths, and /run/widelane if it is to have counters"
            )
        });
        let closed = self.closed_files.iter().map(|file| {
            format!(
                "{file}: if it sets {PRELOAD}, widelane is not loaded; set it in the unit instead"
            )
        });
        let kept = self.obstacles_to_load(library).into_iter().map(|setting| {
            format!(
                "{setting}= keeps it from loading {}, unless its unit allows that elsewhere: \
                 `widelane status` tells when it runs",
                library.display()
            )
        });
        let uncounted = self.closing(Path::new(SYSTEM_DIRECTORY)).map(|setting| {
            format!(
                "{setting}= keeps it from {SYSTEM_DIRECTORY}, unless its unit allows that \
                 elsewhere: without counters neither `widelane status` nor `widelane top` can \
                 show it"
            )
        });
        let costly = self.server_that_loses().map(|server| {
            format!(
                "{server} has a process for each connection, each of which costs more CPU to start \
                 with Widelane than its handshake saves (docs/operate/compatibility.md); we \
                 recommend not to accelerate it: {}",
                command("disable", root, &self.name)
            )
        });
        let remarks = remark.into_iter().chain(unread).chain(closed).chain(rooted).chain(kept);
        remarks.chain(uncounted).chain(costly).collect()
    }

    /// Which of [`PROCESS_PER_CONNECTION`] it is, if it is one.
    fn server_that_loses(&self) -> Option<&'static str> {
        let server = self.name.split('@').next().unwrap_or_default();
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let server = match server.split_once('-') {
            Some((POSTGRESQL, version)) if is_number(version) => POSTGRESQL,
            _ => server,
        };
        PROCESS_PER_CONNECTION.into_iter().find(|losing| *losing == server)
    }

    /// The settings of [`PATHS`] that keep it from loading a library.
    fn obstacles_to_load(&self, library: &Path) -> Vec<&'static str> {
        let (forbidden, allowed) = (self.depth(NO_EXEC, library), self.depth(EXEC, library));
        // The deeper one wins, of the same directory `NoExecPaths`.
        let no_exec = Some(NO_EXEC).filter(|_| forbidden.is_some() && forbidden >= allowed);
        self.closing(library).chain(no_exec).collect()
    }

    /// The settings of [`CLOSING`] that keep it from a path.
    fn closing(&self, path: &Path) -> impl Iterator<Item = &'static str> {
        CLOSING.into_iter().filter(|setting| self.depth(setting, path).is_some())
    }

    /// How deep the deepest directory above a path lies that a setting of [`PATHS`] names.
    fn depth(&self, setting: &str, path: &Path) -> Option<usize> {
        let of_setting = self.paths.iter().filter(|(of, _)| *of == setting);
        let above = of_setting.filter(|(_, above)| path.starts_with(above));
        above.map(|(_, above)| above.components().count()).max()
    }

    /// The file that a value of `EnvironmentFile` names; none of a pattern, or where the service
    /// has to start first.
    fn known_file(&self, value: &str) -> Option<PathBuf> {
        let file = expanded(value.trim_start_matches('-'), &self.name)?;
        (!file.contains(['*', '?', '['])).then(|| file.into())
    }

    /// Takes up what one file adds.
    fn add(&mut self, root: &Path, name: &str, path: &Path, text: &str) -> anyhow::Result<()> {
        for (key, value) in service_settings(text) {
            match key.as_str() {
                "ExecStart" => self.set_program(root, name, &value),
                "User" => {
                    let user = expanded(&value, name).unwrap_or(value);
                    self.user = Some(user).filter(|user| !user.is_empty());
                }
                "ProtectSystem" => self.is_read_only = value == "strict",
                "ProtectHome" => self.set_hiding("ProtectHome", &value),
                "PrivateTmp" => self.set_hiding("PrivateTmp", &value),
                "RootDirectory" => self.set_root("RootDirectory", &value),
                "RootImage" => self.set_root("RootImage", &value),
                "DynamicUser" => self.is_dynamic_user = is_true(&value),
                "Environment" if value.is_empty() && is_behind_ours(path) => bail!(
                    "{} clears the environment and is read after {FILE_NAME}, so that widelane \
                     would not be loaded; rename it to something before that",
                    path.display()
                ),
                "Environment" if value.is_empty() => self.preload = None,
                "Environment" => {
                    for word in words(&value) {
                        if let Some(preload) = word.strip_prefix("LD_PRELOAD=") {
                            self.set_preload(path, preload)?;
                        }
                    }
                }
                "UnsetEnvironment" if value.is_empty() => self.unset_by = None,
                "UnsetEnvironment" if words(&value).iter().any(|word| word == PRELOAD) => {
                    self.unset_by = Some(path.to_owned());
                }
                "EnvironmentFile" if value.is_empty() => self.environment_files.clear(),
                "EnvironmentFile" => self.environment_files.push(value),
                _ => {
                    if let Some(setting) = PATHS.into_iter().find(|setting| *setting == key) {
                        self.add_paths(setting, name, &value);
                    }
                }
            }
        }
        Ok(())
    }

    fn add_paths(&mut self, setting: &'static str, name: &str, value: &str) {
        if value.is_empty() {
            self.paths.retain(|(other, _)| *other != setting);
        }
        for word in words(value) {
            let path = word.trim_start_matches(['-', '+']);
            // Options of a file system stand behind a colon.
            let path = path.split_once(':').map_or(path, |(path, _)| path);
            self.paths.extend(expanded(path, name).map(|path| (setting, path.into())));
        }
    }

    fn check_environment_files(&mut self, root: &Path) -> anyhow::Result<()> {
        let values = self.environment_files.iter();
        let files: Vec<PathBuf> = values.filter_map(|value| self.known_file(value)).collect();
        for file in files {
            let text = match fs::read(below(root, &file)) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    let why = format!("{} cannot be read ({error})", file.display());
                    self.closed_files.push(why);
                    continue;
                }
            };
            let sets =
                |line: &str| line.split_once('=').is_some_and(|(key, _)| key.trim() == PRELOAD);
            if text.lines().any(sets) {
                bail!(
                    "{} sets {PRELOAD} and has the last word, so that widelane would not be \
                     loaded; set it in the unit instead",
                    file.display()
                );
            }
        }
        Ok(())
    }

    fn set_root(&mut self, setting: &'static str, value: &str) {
        self.rooted_by.retain(|other| *other != setting);
        if !["", "/"].contains(&value) {
            self.rooted_by.push(setting);
        }
    }

    fn set_program(&mut self, root: &Path, name: &str, command: &str) {
        // An empty command takes back those before it.
        if command.is_empty() {
            self.program = PathBuf::new();
            (self.is_privileged, self.is_program_unknown) = (false, false);
            return;
        }
        let words = words(command);
        let word = words.first().map_or("", String::as_str);
        // Prefixes change how it is started, not what.
        let program = word.trim_start_matches(['-', '@', ':', '+', '!', '|']);
        let prefixes = &word[..word.len() - program.len()];
        // Two exclamation marks have a meaning only where the kernel lacks ambient capabilities.
        self.is_privileged = prefixes.contains('+') || prefixes.matches('!').count() == 1;
        let known = expanded(program, name);
        self.is_program_unknown = known.is_none();
        self.program = known.map_or_else(|| program.into(), |program| found(root, &program));
    }

    fn set_hiding(&mut self, setting: &'static str, value: &str) {
        self.hidden_by.retain(|other| *other != setting);
        // What can be read can be loaded.
        if !(is_false(value) || ["", "read-only"].contains(&value)) {
            self.hidden_by.push(setting);
        }
    }

    fn set_preload(&mut self, path: &Path, preload: &str) -> anyhow::Result<()> {
        if is_behind_ours(path) {
            bail!(
                "{} sets {PRELOAD} and is read after {FILE_NAME}, so that widelane would not be \
                 loaded; rename it to something before that",
                path.display()
            );
        }
        self.preload = Some(preload.to_owned());
        Ok(())
    }
}

/// A word of a unit file with its specifiers replaced; none if it has one that is not known before
/// the service starts. A template (`haproxy@`) knows nothing of its instances.
fn expanded(word: &str, name: &str) -> Option<String> {
    let (prefix, instance) = name.split_once('@').unwrap_or((name, ""));
    let is_template = name.ends_with('@');
    let last = prefix.rsplit_once('-').map_or(prefix, |(_, last)| last);
    let mut expanded = String::new();
    let mut chars = word.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            expanded.push(char);
            continue;
        }
        let value = match chars.next()? {
            '%' => "%".to_owned(),
            'p' => prefix.to_owned(),
            'P' => unescaped(prefix),
            'j' => last.to_owned(),
            'J' => unescaped(last),
            _ if is_template => return None,
            'n' => format!("{name}.service"),
            'N' => name.to_owned(),
            'i' => instance.to_owned(),
            'I' => unescaped(instance),
            _ => return None,
        };
        expanded.push_str(&value);
    }
    Some(expanded)
}

/// What `systemd-escape` made a part of a unit's name of.
fn unescaped(text: &str) -> String {
    let mut unescaped = String::new();
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let (char, behind) = match escape(rest) {
            Some(escaped) => escaped,
            None => (if char == '-' { '/' } else { char }, &rest[char.len_utf8()..]),
        };
        unescaped.push(char);
        rest = behind;
    }
    unescaped
}

/// The number of a user of this system, by name or number.
fn user_number(user: &str) -> Option<u32> {
    let by_name = || User::from_name(user).ok().flatten().map(|user| user.uid.as_raw());
    user.parse().ok().or_else(by_name)
}

/// What `systemctl` and `journalctl` are told to act on a service: of a template, all instances.
pub fn systemctl_name(name: &str) -> String {
    if name.ends_with('@') { format!("'{name}*'") } else { in_shell(name) }
}

/// The command that enables or disables a service of the system in the directory `root`.
pub fn command(verb: &str, root: &Path, name: &str) -> String {
    let of_root = match root == Path::new("/") {
        true => String::new(),
        false => format!(" --root {}", root.display()),
    };
    format!("`widelane {verb} {}{of_root}`", in_shell(name))
}

/// A service's name as a shell takes it.
pub fn in_shell(name: &str) -> String {
    if name.contains('\\') { format!("'{name}'") } else { name.to_owned() }
}

/// Whether systemd reads a file after our drop-in.
fn is_behind_ours(path: &Path) -> bool {
    let is_drop_in = path.extension().is_some_and(|extension| extension == "conf");
    is_drop_in && path.file_name().is_some_and(|name| name > FILE_NAME)
}

/// What systemd takes for yes.
fn is_true(value: &str) -> bool {
    ["1", "yes", "y", "true", "t", "on"].iter().any(|yes| value.eq_ignore_ascii_case(yes))
}

/// What it takes for no.
fn is_false(value: &str) -> bool {
    ["0", "no", "n", "false", "f", "off"].iter().any(|no| value.eq_ignore_ascii_case(no))
}

/// The program that systemd starts for a word, which may be a name.
fn found(root: &Path, word: &str) -> PathBuf {
    let named = SEARCHED.iter().map(|directory| Path::new(directory).join(word));
    let is_name = !word.contains('/');
    let found = named.filter(|_| is_name).find(|path| below(root, path).exists());
    found.unwrap_or_else(|| PathBuf::from(word))
}

/// Where systemd looks for programs.
const SEARCHED: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The strongest unit file of a service, with the name that systemd knows the service by: a link to
/// another unit gives that one a second name, and what is masked or lies elsewhere keeps its own.
fn unit_file(root: &Path, name: &str) -> Option<(String, PathBuf)> {
    let mut name = name.to_owned();
    for _ in 0..LINKS_MAX {
        let path = entry(root, &name)?;
        match linked_unit(root, &path).map(|target| instance_of(&target, &name)) {
            Some(other) if other != name => name = other,
            _ => return Some((name, path)),
        }
    }
    None
}

/// Second names that systemd follows one after the other.
const LINKS_MAX: usize = 8;

/// The name that systemd knows a service by; none if there is none.
pub fn own_name(root: &Path, name: &str) -> Option<String> {
    unit_file(root, name).map(|(name, _)| name)
}

/// The strongest file that may be a service's unit, whatever it is. A unit of a template
/// (`haproxy@web`) without a file of its own is in the template's.
fn entry(root: &Path, name: &str) -> Option<PathBuf> {
    let template = name.split_once('@').map(|(template, _)| format!("{template}@"));
    [Some(name), template.as_deref()].into_iter().flatten().find_map(|name| {
        let file = format!("{name}.service");
        let paths = DIRECTORIES.map(|directory| Path::new(directory).join(&file));
        paths.into_iter().find(|path| outside(root, path).symlink_metadata().is_ok())
    })
}

/// Where a file is, by a path that may be that of a link.
fn outside(root: &Path, path: &Path) -> PathBuf {
    below(root, path.parent().unwrap_or(path)).join(path.file_name().unwrap_or_default())
}

/// The name in that of a unit's file.
fn stem(path: &Path) -> Option<&str> {
    path.file_name().and_then(OsStr::to_str)?.strip_suffix(".service")
}

/// The name of the unit that a unit's file is a link to; none if it is no link, or leads to where
/// no units are.
fn linked_unit(root: &Path, path: &Path) -> Option<String> {
    let target = fs::read_link(outside(root, path)).ok()?;
    let target = path.parent()?.join(target);
    let (above, _) = way(root, target.parent()?);
    let has_units = DIRECTORIES.iter().any(|units| way(root, Path::new(units)).0 == above);
    stem(&target).filter(|_| has_units).map(str::to_owned)
}

/// The unit that a name leads to whose file is a link to `target`: of a template the instance.
fn instance_of(target: &str, name: &str) -> String {
    let instance = name.split_once('@').map(|(_, instance)| instance);
    match instance.filter(|_| target.ends_with('@')) {
        Some(instance) => format!("{target}{instance}"),
        None => target.to_owned(),
    }
}

/// All names of a service, its own last.
fn names(root: &Path, own: &str) -> Vec<String> {
    let entries =
        DIRECTORIES.iter().flat_map(|units| fs::read_dir(below(root, Path::new(units)))).flatten();
    let links = entries.flatten().filter(|entry| entry.path().is_symlink());
    let linked = links.filter_map(|entry| stem(&entry.path()).map(str::to_owned));
    let mut names: BTreeSet<String> = linked.map(|name| instance_of(&name, own)).collect();
    names.retain(|name| name != own && own_name(root, name).as_deref() == Some(own));
    names.into_iter().chain([own.to_owned()]).collect()
}

/// The text of a unit's file or drop-in. It is masked by a link to `/dev/null`, which is there only
/// while a system runs.
fn text(root: &Path, path: &Path) -> anyhow::Result<String> {
    let outside = below(root, path);
    if outside == root.join("dev/null") {
        return Ok(String::new());
    }
    let text = fs::read(outside);
    let text = text.with_context(|| format!("cannot read {}", root.join(path).display()))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The directories of drop-ins that a service has by a name, the most special last: those of what
/// the name begins with up to a dash (`a-.service.d` of `a-b`), of its template, its own.
fn drop_in_directories(name: &str) -> Vec<String> {
    let template = name.split_once('@').map(|(template, _)| format!("{template}@"));
    let prefix = template.as_deref().unwrap_or(name);
    let prefixes = prefix.match_indices('-').map(|(at, dash)| &prefix[..at + dash.len()]);
    let names = prefixes.chain(template.as_deref()).chain([name]);
    names.map(|name| format!("{name}.service.d")).collect()
}

/// All drop-ins of a service but ours, in systemd's order: by file name. Of one file name it takes
/// that of the service's own name before that of other names and that of all services, and of
/// those the strongest directory's.
fn drop_ins(root: &Path, name: &str) -> anyhow::Result<impl Iterator<Item = (PathBuf, String)>> {
    let mut found = BTreeMap::new();
    let own = names(root, name).into_iter().map(|name| drop_in_directories(&name));
    for names in [vec!["service.d".to_owned()]].into_iter().chain(own) {
        let directories = DIRECTORIES
            .iter()
            .rev()
            .flat_map(|above| names.iter().map(move |directory| Path::new(above).join(directory)));
        for directory in directories {
            let entries = fs::read_dir(below(root, &directory)).into_iter().flatten().flatten();
            for file_name in entries.map(|entry| entry.file_name()) {
                let path = directory.join(&file_name);
                if path.extension().is_none_or(|extension| extension != "conf")
                    || file_name == FILE_NAME
                {
                    continue;
                }
                match text(root, &path) {
                    Ok(text) => drop(found.insert(file_name, (root.join(path), text))),
                    Err(error) if refusal(&error) == Some(io::ErrorKind::PermissionDenied) => {
                        return Err(error);
                    }
                    // systemd reads no directories, and no links that lead nowhere.
                    Err(_) => {}
                }
            }
        }
    }
    Ok(found.into_values())
}

/// What the system has refused, if an error is its.
pub fn refusal(error: &anyhow::Error) -> Option<io::ErrorKind> {
    error.downcast_ref().map(io::Error::kind)
}

/// The settings of the section `[Service]`.
fn service_settings(text: &str) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let mut section = String::new();
    for line in joined_lines(text) {
        let line = line.trim();
        if line.starts_with('[') {
            section = line.to_owned();
        } else if section == "[Service]"
            && let Some((key, value)) = line.split_once('=')
        {
            settings.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    settings
}

/// The lines that are no comments, each joined with those that continue it. As for systemd, a
/// comment continues no line and is not continued: a backslash at its end means nothing.
fn joined_lines(text: &str) -> Vec<String> {
    let mut joined = Vec::new();
    let mut line = String::new();
    for part in text.lines().filter(|part| !part.trim_start().starts_with(['#', ';'])) {
        line.push_str(part);
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        if backslashes.is_multiple_of(2) {
            joined.push(mem::take(&mut line));
        } else {
            // Odd: the last backslash is not escaped.
            line.pop();
            line.push(' ');
        }
    }
    joined.push(line);
    joined
}

/// Words apart by spaces, in quotes where they have some themselves, or escaped as in C.
fn words(value: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut rest = value;
    while let Some(char) = rest.chars().next() {
        if let Some((escaped, behind)) = escape(rest) {
            words.last_mut().expect("never empty").push(escaped);
            rest = behind;
            continue;
        }
        rest = &rest[char.len_utf8()..];
        match quote {
            Some(open) if char == open => quote = None,
            None if matches!(char, '"' | '\'') => quote = Some(char),
            None if char.is_whitespace() => words.push(String::new()),
            _ => words.last_mut().expect("never empty").push(char),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The character that an escape at the beginning of a text stands for, and what is behind it.
fn escape(text: &str) -> Option<(char, &str)> {
    let behind = text.strip_prefix('\\')?;
    if let Some(hexadecimal) = behind.strip_prefix('x') {
        let byte = u8::from_str_radix(hexadecimal.get(..2)?, 16).ok().filter(u8::is_ascii)?;
        return Some((byte.into(), &hexadecimal[2..]));
    }
    let escaped = match behind.chars().next()? {
        's' => ' ',
        't' => '\t',
        char @ ('\\' | '"' | '\'') => char,
        _ => return None,
    };
    Some((escaped, &behind[1..]))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    struct System(tempfile::TempDir);

    impl System {
        fn new(unit: &str) -> Self {
            let system = System(tempfile::tempdir().unwrap());
            system.write("lib/systemd/system/server.service", unit);
            system
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn link(&self, target: &str, path: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(target, path).unwrap();
        }

        fn find(&self) -> anyhow::Result<Unit> {
            Unit::find(self.0.path(), "server")
        }

        fn refusal(&self) -> String {
            self.find().unwrap_err().to_string()
        }

        fn remarks(&self) -> Vec<String> {
            self.find().unwrap().remarks(self.0.path(), Path::new(LIBRARY))
        }
    }

    const LIBRARY: &str = "/usr/lib/widelane/libwidelane_runtime.so";

    const UNIT: &str = "[Unit]\nExecStart=/not/this\n[Service]\nExecStart=-/usr/sbin/server -x \\\n\
                        -y\n# Environment=LD_PRELOAD=/no.so\n";

    #[test]
    fn the_program_is_found_and_a_drop_in_may_replace_it() {
        let system = System::new(UNIT);
        let plain = Unit {
            name: "server".to_owned(),
            program: "/usr/sbin/server".into(),
            ..Unit::default()
        };
        assert_eq!(system.find().unwrap(), plain);
        let other = "[Service]\nExecStart=\nExecStart=/opt/server\nProtectSystem=strict\n";
        system.write("etc/systemd/system/server.service.d/a.conf", other);
        let replaced = Unit { program: "/opt/server".into(), is_read_only: true, ..plain };
        assert_eq!(system.find().unwrap(), replaced);
    }

    #[test]
    fn drop_ins_of_all_of_a_prefix_and_of_a_template_count() {
        assert_eq!(
            drop_in_directories("a-b@web"),
            ["a-.service.d", "a-b@.service.d", "a-b@web.service.d"]
        );
        assert_eq!(drop_in_directories("server"), ["server.service.d"]);
        let system = System::new(UNIT);
        let preload = |file: &str| format!("[Service]\nEnvironment=LD_PRELOAD={file}\n");
        system.write("etc/systemd/system/service.d/a.conf", &preload("/all.so"));
        assert_eq!(system.find().unwrap().preload.as_deref(), Some("/all.so"));
        system.write("lib/systemd/system/server.service.d/b.conf", &preload("/own.so"));
        assert_eq!(system.find().unwrap().preload.as_deref(), Some("/own.so"));
    }

    #[test]
    fn a_drop_in_of_all_services_gives_way_to_any_of_the_service_of_its_name() {
        let system = System::new(UNIT);
        system.write("etc/systemd/system/service.d/a.conf", "[Service]\nExecStart=/all\n");
        system.write("lib/systemd/system/server.service.d/a.conf", "[Service]\nExecStart=/own\n");
        assert_eq!(system.find().unwrap().program, Path::new("/own"));
        // Of the service's own the stronger directory has the say.
        system.write("etc/systemd/system/server.service.d/a.conf", "[Service]\nExecStart=/etc\n");
        assert_eq!(system.find().unwrap().program, Path::new("/etc"));
    }

    /// `systemctl enable` makes such links of names that a unit has beside its own.
    #[test]
    fn a_second_name_is_led_back_to_the_first_and_drop_ins_of_all_names_count() {
        let system = System::new(&format!("{UNIT}User=%p\n"));
        let root = system.0.path();
        system.write("etc/systemd/system/x.service", "");
        system.link("/lib/systemd/system/server.service", "etc/systemd/system/other.service");
        system.link("other.service", "etc/systemd/system/third.service");
        let unit = Unit::find(root, "third").unwrap();
        assert_eq!((&*unit.name, unit.user.as_deref()), ("server", Some("server")));
        assert_eq!(unit.program, Path::new("/usr/sbin/server"));

        let preload = |file: &str| format!("[Service]\nEnvironment=LD_PRELOAD={file}\n");
        system.write("lib/systemd/system/server.service.d/a.conf", &preload("/own.so"));
        system.write("etc/systemd/system/other.service.d/a.conf", &preload("/other.so"));
        for name in ["server", "other", "third"] {
            assert_eq!(Unit::find(root, name).unwrap().preload.as_deref(), Some("/own.so"));
        }
        system.write("etc/systemd/system/third.service.d/zz.conf", &preload("/late.so"));
        for name in ["server", "other", "third"] {
            assert!(Unit::find(root, name).unwrap_err().to_string().contains("zz.conf"));
        }
    }

    #[test]
    fn links_that_are_no_second_names_are_followed() {
        let system = System::new(UNIT);
        let find = |name: &str| Unit::find(system.0.path(), name);
        // Files elsewhere.
        system.write("opt/units/elsewhere.service", "[Service]\nExecStart=/elsewhere\n");
        system.link("/opt/units/elsewhere.service", "etc/systemd/system/linked.service");
        let linked = find("linked").unwrap();
        assert_eq!((&*linked.name, linked.program), ("linked", "/elsewhere".into()));
        // The same name, and that of the template.
        system.link(
            "../../../lib/systemd/system/server.service",
            "etc/systemd/system/server.service",
        );
        assert_eq!(find("server").unwrap().name, "server");
        system.write("lib/systemd/system/many@.service", "[Service]\nExecStart=/%i\n");
        system.link("/lib/systemd/system/many@.service", "etc/systemd/system/many@web.service");
        let instance = find("many@web").unwrap();
        assert_eq!((&*instance.name, instance.program), ("many@web", "/web".into()));
        // A second name of a template is one of its instances, too.
        system.link("/lib/systemd/system/many@.service", "etc/systemd/system/second@.service");
        assert_eq!(find("second@web").unwrap().name, "many@web");
        assert_eq!(find("second@").unwrap().name, "many@");
        for (target, name) in [("loop", "loop"), ("nowhere", "to-nowhere")] {
            system
                .link(&format!("{target}.service"), &format!("etc/systemd/system/{name}.service"));
        }
        assert!(find("to-nowhere").unwrap_err().to_string().contains("no service to-nowhere"));
        assert!(find("loop").is_err());
    }

    #[test]
    fn an_instances_own_unit_comes_before_any_template() {
        let system = System::new(UNIT);
        system.write("etc/systemd/system/many@.service", "[Service]\nExecStart=/template\n");
        system.write("lib/systemd/system/many@web.service", "[Service]\nExecStart=/own\n");
        let unit = Unit::find(system.0.path(), "many@web").unwrap();
        assert_eq!(unit.program, Path::new("/own"));
    }

    /// Most images have no `/dev/null`.
    #[test]
    fn what_is_masked_in_an_image_is_masked() {
        let system = System::new(UNIT);
        let preload = "[Service]\nEnvironment=LD_PRELOAD=/a.so\n";
        system.write("lib/systemd/system/server.service.d/a.conf", preload);
        system.link("/dev/null", "etc/systemd/system/server.service.d/a.conf");
        assert_eq!(system.find().unwrap().preload, None);
        system.link("/dev/null", "etc/systemd/system/server.service");
        assert!(system.refusal().contains("masked"));
        fs::remove_file(system.0.path().join("etc/systemd/system/server.service")).unwrap();
        system.link("/opt/missing", "etc/systemd/system/server.service");
        assert!(system.refusal().contains("etc/systemd/system/server.service is a link to a file"));
    }

    #[test]
    fn an_environment_is_not_cleared_behind_ours() {
        let system = System::new(UNIT);
        let cleared = "[Service]\nEnvironment=\n";
        system.write("etc/systemd/system/server.service.d/a.conf", cleared);
        assert!(system.find().is_ok());
        system.write("etc/systemd/system/server.service.d/zz.conf", cleared);
        assert!(system.refusal().contains("zz.conf clears the environment"));
    }

    #[test]
    fn a_dynamic_user_sees_a_read_only_system() {
        for (value, is_dynamic) in [("yes", true), ("True", true), ("no", false)] {
            let unit = format!("{UNIT}DynamicUser={value}\n");
            let unit = System::new(&unit).find().unwrap();
            assert_eq!(unit.is_read_only, is_dynamic);
            assert_eq!(unit.hides(Path::new("/tmp/widelane.so")).is_some(), is_dynamic);
        }
    }

    #[test]
    fn paths_above_the_counters_may_be_read_only() {
        for (value, is_read_only) in
            [("/", true), ("-/run", true), ("/etc", false), ("/\nReadOnlyPaths=", false)]
        {
            let unit = System::new(&format!("{UNIT}ReadOnlyPaths={value}\n")).find().unwrap();
            assert_eq!(unit.is_read_only, is_read_only, "{value}");
        }
    }

    #[test]
    fn a_program_is_found_by_its_name() {
        let system = System::new("[Service]\nExecStart=server -x\n");
        assert_eq!(system.find().unwrap().program, Path::new("server"));
        system.write("bin/server", "");
        assert_eq!(system.find().unwrap().program, Path::new("/bin/server"));
        system.write("usr/sbin/server", "");
        assert_eq!(system.find().unwrap().program, Path::new("/usr/sbin/server"));
    }

    #[test]
    fn a_program_in_quotes_or_escaped_is_found() {
        for command in [
            "\"/opt/my server/bin/server\" -x",
            "-'/opt/my server/bin/server'",
            "\"-/opt/my server/bin/server\"",
            "/opt/my\\x20server/bin/server -x",
            "/opt/my\\sserver/bin/server",
        ] {
            let unit = System::new(&format!("[Service]\nExecStart={command}\n")).find().unwrap();
            assert_eq!(unit.program, Path::new("/opt/my server/bin/server"), "{command}");
        }
        let system = System::new(&format!("{UNIT}ExecStart=\n"));
        assert!(system.refusal().contains("starts no program"));
    }

    #[test]
    fn specifiers_are_those_of_the_instance() {
        for (word, expected) in [
            ("/opt/%i/%p", Some("/opt/in-side/a-b")),
            ("%I %j", Some("in/side b")),
            ("%n %N", Some("a-b@in-side.service a-b@in-side")),
            ("%%i %P %J", Some("%i a/b b")),
            ("/%t/x", None),
            ("100%", None),
        ] {
            assert_eq!(expanded(word, "a-b@in-side").as_deref(), expected, "{word}");
        }
        assert_eq!(expanded("/%p%%", "a-b@").as_deref(), Some("/a-b%"));
        assert_eq!(expanded("%I", "web@srv-a\\x2db").as_deref(), Some("srv/a-b"));
        for unknown in ["%i", "%I", "%n", "%N"] {
            assert_eq!(expanded(unknown, "a-b@"), None, "{unknown}");
        }
        assert_eq!(expanded("%p%i %n", "server").as_deref(), Some("server server.service"));
    }

    #[test]
    fn a_program_that_only_systemd_knows_is_passed_on_with_a_remark() {
        let system = System::new(UNIT);
        system.write(
            "lib/systemd/system/many@.service",
            "[Service]\nExecStart=/opt/%i/server\nEnvironmentFile=/etc/default/%i\nUser=%i\n",
        );
        system.write("etc/default/web", "LD_PRELOAD=/a.so\n");
        let find = |name: &str| Unit::find(system.0.path(), name);
        assert!(find("many@web").unwrap_err().to_string().contains("/etc/default/web sets"));
        let unit = find("many@other").unwrap();
        assert_eq!((unit.program, unit.user), ("/opt/other/server".into(), Some("other".into())));
        let template = find("many@").unwrap();
        assert!(template.is_program_unknown && !template.starts_as_root());
        let remarks = template.remarks(system.0.path(), Path::new(LIBRARY));
        assert!(remarks[0].contains("/opt/%i/server"), "{remarks:?}");
        assert!(!find("server").unwrap().is_program_unknown);
    }

    #[test]
    fn who_starts_the_program_is_known() {
        for (settings, is_root) in [
            ("", true),
            ("User=root\n", true),
            ("User=0\n", true),
            ("User=www-data\nUser=\n", true),
            ("User=www-data\n", false),
            ("DynamicUser=yes\n", false),
            ("User=www-data\nExecStart=+/s\n", true),
            ("User=www-data\nExecStart=!/s\n", true),
            ("User=www-data\nExecStart=-!!/s\n", false),
        ] {
            let unit = System::new(&format!("{UNIT}{settings}")).find().unwrap();
            assert_eq!(unit.starts_as_root(), is_root, "{settings}");
        }
    }

    #[test]
    fn what_a_services_user_cannot_read_is_found() {
        let system = System::new(UNIT);
        let root = system.0.path();
        system.write("home/admin/l.so", "");
        let set_mode = |path: &str, mode: u32| {
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        let file = Path::new("/home/admin/l.so");
        let user = Unit { user: Some("www-data".to_owned()), ..Unit::default() };
        set_mode("", 0o755);
        for path in ["home", "home/admin"] {
            set_mode(path, 0o755);
        }
        set_mode("home/admin/l.so", 0o644);
        assert_eq!(user.obstacle_to_read(root, file), None);
        for (path, closed, open) in [
            ("home/admin/l.so", 0o640, 0o644),
            ("home/admin", 0o700, 0o711),
            ("home", 0o750, 0o755),
        ] {
            set_mode(path, closed);
            assert_eq!(user.obstacle_to_read(root, file), Some(root.join(path)));
            assert_eq!(Unit::default().obstacle_to_read(root, file), None);
            set_mode(path, open);
        }
        // By way of links, in an image and in the system that runs.
        system.write("root/links/x", "");
        system.link("../../home/admin/l.so", "root/links/l.so");
        system.link("root/links", "links");
        let of_this = root.join("links/l.so");
        let ways = [(root, Path::new("/links/l.so")), (Path::new("/"), &*of_this)];
        for (path, mode) in [("root/links", 0o700), ("home/admin", 0o700), ("root", 0o644)] {
            for path in ["root", "root/links", "home/admin"] {
                set_mode(path, 0o755);
            }
            assert_eq!(ways.map(|(root, file)| user.obstacle_to_read(root, file)), [None, None]);
            set_mode(path, mode);
            for (system, file) in ways {
                assert_eq!(user.obstacle_to_read(system, file), Some(root.join(path)));
            }
        }
    }

    #[test]
    fn files_that_the_service_does_not_see_are_told() {
        let system = System::new("[Service]\nExecStart=/s\nProtectHome=yes\nPrivateTmp=true\n");
        let hides = |file: &str| system.find().unwrap().hides(Path::new(file));
        assert_eq!(hides("/root/widelane/target/release/l.so"), Some("ProtectHome"));
        assert_eq!(hides("/tmp/l.so"), Some("PrivateTmp"));
        assert_eq!(hides("/usr/lib/widelane/l.so"), None);
        assert_eq!(hides("/homestead/l.so"), None);
        for no in ["no", "No", "n", "FALSE", "f", "F", "off", "0"] {
            let open = format!("[Service]\nProtectHome=read-only\nPrivateTmp={no}\n");
            system.write("etc/systemd/system/server.service.d/a.conf", &open);
            assert_eq!((hides("/home/l.so"), hides("/tmp/l.so")), (None, None), "{no}");
        }
    }

    #[test]
    fn what_is_preloaded_already_is_known() {
        let system = System::new(UNIT);
        let drop_in = "[Service]\nEnvironment=\"A=b c\" 'LD_PRELOAD=/usr/lib/jemalloc.so'\n";
        system.write("usr/lib/systemd/system/server.service.d/malloc.conf", drop_in);
        assert_eq!(system.find().unwrap().preload.as_deref(), Some("/usr/lib/jemalloc.so"));
    }

    #[test]
    fn a_comment_neither_continues_nor_ends_a_setting() {
        let unit = |service: &str| System::new(&format!("[Service]\n{service}")).find().unwrap();
        let start = "ExecStart=/usr/sbin/nginx\n";
        let old = unit(&format!("# old: /usr/sbin/x \\\n{start}"));
        assert_eq!(old.program, Path::new("/usr/sbin/nginx"));
        let tuned = format!("{start}#tuned \\\nEnvironment=LD_PRELOAD=/usr/lib/libjemalloc.so.2\n");
        assert_eq!(unit(&tuned).preload.as_deref(), Some("/usr/lib/libjemalloc.so.2"));
        let between = format!("{start}Environment=A=1 \\\n# note\n ; note \\\n LD_PRELOAD=/x.so\n");
        assert_eq!(unit(&between).preload.as_deref(), Some("/x.so"));
    }

    #[test]
    fn a_backslash_that_is_escaped_continues_no_line() {
        let lines = joined_lines("A=1 \\\nB=2 \\\\\nC=3 \\\\\\\nD=4\n\nE=5 \\");
        assert_eq!(lines, ["A=1  B=2 \\\\", "C=3 \\\\ D=4", "", "E=5  "]);
    }

    #[test]
    fn what_would_keep_us_out_is_refused_by_name() {
        let system = System::new(UNIT);
        let late = "[Service]\nEnvironment=LD_PRELOAD=/a.so\n";
        system.write("etc/systemd/system/server.service.d/zz.conf", late);
        assert!(system.refusal().contains("zz.conf"));

        let system = System::new("[Service]\nExecStart=/s\nEnvironmentFile=-/etc/default/server\n");
        assert!(system.find().is_ok(), "the file need not exist");
        // A comment may be in any encoding, and the name has blanks behind it.
        let file = system.0.path().join("etc/default/server");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        for text in [&b"A=1\nLD_PRELOAD=/a.so\n"[..], b"# \xdcbersicht\n LD_PRELOAD = /a.so\n"] {
            fs::write(&file, text).unwrap();
            assert!(system.refusal().contains("/etc/default/server"), "{text:?}");
        }
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let remarks = system.remarks();
        assert!(remarks[0].starts_with("/etc/default/server cannot be read (Is a"), "{remarks:?}");

        // Nothing is read of what a later line takes back.
        let none = "[Service]\nEnvironmentFile=\n";
        system.write("etc/systemd/system/server.service.d/a.conf", none);
        assert!(system.find().is_ok());

        let unset = "[Service]\nExecStart=/s\nUnsetEnvironment=A LD_PRELOAD\n";
        let system = System::new(unset);
        assert!(system.refusal().contains("server.service takes LD_PRELOAD out"));
        let none = "[Service]\nUnsetEnvironment=\n";
        system.write("etc/systemd/system/server.service.d/a.conf", none);
        assert!(system.find().is_ok());
    }

    #[test]
    fn environment_files_that_only_systemd_knows_are_told() {
        let files = "EnvironmentFile=-/etc/default/server.d/*.env\nEnvironmentFile=%t/server\n\
                     EnvironmentFile=/etc/default/%p\n";
        let system = System::new(&format!("{UNIT}{files}"));
        let remarks = system.remarks();
        assert_eq!(remarks.len(), 2, "{remarks:?}");
        for (remark, file) in remarks.iter().zip(["-/etc/default/server.d/*.env", "%t/server"]) {
            assert!(remark.contains(&format!("EnvironmentFile={file} names")), "{remark}");
        }
    }

    #[test]
    fn a_server_that_loses_by_it_is_told() {
        let system = System::new(UNIT);
        let root = system.0.path();
        for (name, server) in [
            ("dovecot", "dovecot"),
            ("exim", "exim"),
            ("exim4", "exim4"),
            ("postfix@-", "postfix"),
            ("postgresql@15-main", "postgresql"),
            ("postgresql@", "postgresql"),
            ("postgresql-16", "postgresql"),
        ] {
            system.write(&format!("etc/systemd/system/{name}.service"), UNIT);
            let unit = Unit::find(root, name).unwrap();
            let remarks = unit.remarks(root, Path::new(LIBRARY));
            assert_eq!(remarks.len(), 1, "{remarks:?}");
            let begin = format!("{server} has a process for each connection");
            assert!(remarks[0].starts_with(&begin), "{remarks:?}");
            let command = format!("`widelane disable {name} --root {}`", root.display());
            assert!(remarks[0].ends_with(&command), "{remarks:?}");
            // Of the system that runs.
            let remarks = unit.remarks(Path::new("/"), Path::new(LIBRARY));
            assert!(remarks[0].ends_with(&format!("`widelane disable {name}`")), "{remarks:?}");
        }
        for other in ["postgresql-exporter", "postfix-exporter"] {
            system.write(&format!("etc/systemd/system/{other}.service"), UNIT);
            let unit = Unit::find(root, other).unwrap();
            assert_eq!(unit.remarks(root, Path::new(LIBRARY)), [] as [String; 0]);
        }
    }

    #[test]
    fn a_file_system_of_its_own_is_told() {
        let system = System::new(&format!("{UNIT}RootDirectory=/srv/jail\nRootImage=\n"));
        let remarks = system.remarks();
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        assert!(remarks[0].starts_with("RootDirectory= gives it"), "{remarks:?}");
        let own = "[Service]\nRootDirectory=/\n";
        system.write("etc/systemd/system/server.service.d/a.conf", own);
        assert!(system.remarks().is_empty());
    }

    #[test]
    fn what_keeps_it_from_loading_a_library_is_told() {
        for (settings, told) in [
            ("TemporaryFileSystem=/var /usr:ro\n", Some("TemporaryFileSystem= keeps it")),
            ("InaccessiblePaths=-/usr/lib/%p\n", None),
            ("InaccessiblePaths=-/usr/lib/widelane\n", Some("InaccessiblePaths= keeps it")),
            ("InaccessiblePaths=/usr\nInaccessiblePaths=\n", None),
            ("NoExecPaths=/\nExecPaths=/usr/sbin\n", Some("NoExecPaths= keeps it")),
            ("NoExecPaths=/\nExecPaths=/usr/sbin +/usr/lib\n", None),
            ("NoExecPaths=/usr/lib\nExecPaths=/usr\n", Some("NoExecPaths= keeps it")),
            ("NoExecPaths=/usr/\nExecPaths=/usr\n", Some("NoExecPaths= keeps it")),
            ("ExecPaths=/opt\n", None),
            ("ReadOnlyPaths=/\n", None),
            ("InaccessiblePaths=/run\n", Some("InaccessiblePaths= keeps it from /run/widelane,")),
        ] {
            let remarks = System::new(&format!("{UNIT}{settings}")).remarks();
            assert_eq!(remarks.len(), usize::from(told.is_some()), "{settings}: {remarks:?}");
            assert!(told.is_none_or(|told| remarks[0].starts_with(told)), "{remarks:?}");
        }
    }

    #[test]
    fn a_command_that_was_taken_back_is_no_directory() {
        let system = System::new(&format!("{UNIT}ExecStart=\n"));
        // Where systemd looks for programs.
        system.write("usr/local/sbin/other", "");
        assert!(system.refusal().contains("starts no program"));
    }

    #[test]
    fn units_that_generators_and_commands_have_made_are_found() {
        let system = System::new(UNIT);
        let program = |file: &str| format!("[Service]\nExecStart={file}\n");
        system.write("run/systemd/generator.late/old.service", &program("/etc/init.d/old"));
        let old = Unit::find(system.0.path(), "old").unwrap();
        assert_eq!(old.program, Path::new("/etc/init.d/old"));
        // Strongest last.
        for place in ["generator.late", "generator", "system", "transient", "system.control"] {
            system.write(
                &format!("run/systemd/{place}/server.service"),
                &program(&format!("/{place}")),
            );
            let weaker = place == "generator.late";
            let expected = if weaker { "/usr/sbin/server".into() } else { format!("/{place}") };
            assert_eq!(system.find().unwrap().program, Path::new(&expected), "{place}");
        }
        let preload = "[Service]\nEnvironment=LD_PRELOAD=/late.so\n";
        system.write("etc/systemd/system.control/server.service.d/zz.conf", preload);
        assert!(system.refusal().contains("zz.conf"));
    }

    #[test]
    fn a_service_that_is_not_there_or_masked_is_told() {
        let system = System::new("");
        assert!(system.refusal().contains("masked"));
        let error = Unit::find(system.0.path(), "other").unwrap_err().to_string();
        assert!(error.contains("no service other") && error.contains("widelane run"), "{error}");
    }
}
