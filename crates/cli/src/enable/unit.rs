//! Just enough of systemd's unit files to tell what a service starts, and with which environment.

mod files;
mod syntax;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::bail;
use nix::unistd::{Uid, User};
use widelane_bridge::variables::PRELOAD_VARIABLE as PRELOAD;
use widelane_cpu::policy::Reader;

use super::drop_in::FILE_NAME;
use crate::live::SYSTEM_DIRECTORY;
use crate::run::fitness::{Fitness, Start};
use crate::system::{below, in_shell, way, within};
pub use files::own_name;
use files::{drop_ins, found, text, unit_file};
use syntax::{expanded, is_false, is_true, service_settings, words};

/// Says that a system has no such service.
pub fn no_service(root: &Path, name: &str) -> String {
    match root == Path::new("/") {
        true => format!("there is no service {name}"),
        false => format!("there is no service {name} in {}", root.display()),
    }
}

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
    /// Which of [`SWITCHES`] are in force.
    pub in_force: BTreeSet<&'static str>,
    /// The directory that it takes for the root, if it names one.
    pub root_directory: PathBuf,
    /// Directories in which its program is looked for before the usual ones.
    pub searched: Vec<PathBuf>,
    /// The lists of system calls that filter it, in order: whether one denies, and its words.
    pub filters: Vec<(bool, Vec<String>)>,
    /// The files that it takes its environment from, as systemd is told of them.
    pub environment_files: Vec<String>,
    /// The files of its environment that cannot be read, and why.
    pub closed_files: Vec<String>,
    /// Our variables, each behind the file whose value holds instead of the one of `enable`.
    pub overridden: Vec<String>,
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

/// Settings that are in force or not by the last value that they have, and whether they are by it.
const SWITCHES: [Switch; 7] = [
    ("DynamicUser", is_true),
    (PRIVATE_PIDS, is_true),
    ("PrivateTmp", hides),
    ("ProtectHome", hides),
    ("ProtectSystem", |value| value == "strict"),
    ("RootDirectory", is_other_root),
    ("RootImage", is_other_root),
];
type Switch = (&'static str, fn(&str) -> bool);
const PRIVATE_PIDS: &str = "PrivatePIDs";

/// Settings that hide directories from a service, and which.
const HIDING: [(&str, &[&str]); 2] =
    [("ProtectHome", &["/home", "/root", "/run/user"]), ("PrivateTmp", &["/tmp", "/var/tmp"])];

/// What lets confined services map their counters, as seen from the directory of the libraries.
const SELINUX_MODULE: &str = "../../share/widelane/widelane.cil";

/// What becomes of a system call that a filter denies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Denial {
    /// It fails.
    Fails,
    /// It ends the process, unless the unit says otherwise of all calls.
    Ends,
}

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
            unit.add(&name, &path, &text)?;
        }
        if let Some(path) = &unit.unset_by {
            bail!(
                "{} unsets {PRELOAD}, which loads widelane; take it out of UnsetEnvironment there",
                path.display()
            );
        }
        unit.check_environment_files(root)?;
        if unit.has("DynamicUser") {
            unit.in_force.extend(["PrivateTmp", "ProtectSystem"]);
        }
        unit.is_read_only = unit.has("ProtectSystem")
            || unit.depth(READ_ONLY, Path::new(SYSTEM_DIRECTORY)).is_some();
        if !unit.is_program_unknown {
            unit.program = found(&unit.root(root), &unit.searched, &unit.program);
        }
        if unit.program.as_os_str().is_empty() {
            bail!("service {name} starts no program; is it masked?");
        }
        Ok(unit)
    }

    /// Whether its program can be accelerated, as far as its file is known.
    pub fn fitness(&self, root: &Path) -> Fitness {
        let Some(program) = self.program_file(root) else { return Fitness::Accelerates };
        Start { root: &self.root(root), is_by_root: self.starts_as_root() }.judge(&program)
    }

    /// The file of the service's program, if it is known.
    pub fn program_file(&self, root: &Path) -> Option<PathBuf> {
        let is_known = !self.is_program_unknown && !self.has("RootImage");
        is_known.then(|| below(&self.root(root), &self.program))
    }

    /// What it takes for the root directory, of the system in the directory `root`.
    fn root(&self, root: &Path) -> PathBuf {
        below(root, &self.root_directory)
    }

    /// Whether one of [`SWITCHES`] is in force.
    fn has(&self, setting: &str) -> bool {
        self.in_force.contains(setting)
    }

    /// Whether its counters can be told from those of other processes: they go by their numbers.
    pub fn can_count(&self) -> bool {
        !self.has(PRIVATE_PIDS)
    }

    /// Whether root starts its program.
    pub fn starts_as_root(&self) -> bool {
        let is_roots = matches!(self.user.as_deref(), None | Some("root" | "0"));
        self.is_privileged || (is_roots && !self.has("DynamicUser"))
    }

    /// Who reads its policy, as far as is known; other systems have other users.
    pub fn reader(&self, root: &Path) -> Option<Reader> {
        if root != Path::new("/") {
            return None;
        }
        if self.starts_as_root() {
            return Some(Reader::ROOT);
        }
        let user = self.user.as_deref()?;
        let number = user.parse().ok();
        let by_number = number.map(|number| User::from_uid(Uid::from_raw(number)));
        let found = by_number.unwrap_or_else(|| User::from_name(user)).ok().flatten();
        let known = found.map(|user| Reader { user: user.uid.as_raw(), group: user.gid.as_raw() });
        known.or_else(|| Some(Reader { user: number?, ..Reader::ROOT }))
    }

    /// What keeps its program from reading a file of the system in the directory `root`: a
    /// directory on the way, that of a symbolic link too, or the file itself. Only what is open to
    /// everybody, or to the user as owner, counts as readable.
    pub fn obstacle_to_read(&self, root: &Path, file: &Path) -> Option<PathBuf> {
        if self.starts_as_root() {
            return None;
        }
        let user = self.reader(root).map(|reader| reader.user);
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
            .find(|(setting, directories)| self.has(setting) && has(directories))
            .map(|(setting, _)| setting)
    }

    /// What is left for the operator to do so that it loads `library`.
    pub fn remarks(&self, root: &Path, library: &Path) -> Vec<String> {
        let program = self.program.display();
        let name = self.program.to_string_lossy().trim_start_matches('/').replace('/', ".");
        let has_profile = below(root, &Path::new("etc/apparmor.d").join(&name)).exists();
        let remark = if self.is_program_unknown {
            Some(format!(
                "Only systemd can resolve {program}; once the service runs, `widelane status` \
                 shows whether it is accelerated"
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
                "Only systemd can resolve EnvironmentFile={file}: if a file that it names sets \
                 {PRELOAD}, widelane is not loaded; set it in the unit instead"
            )
        });
        let rooted = ["RootDirectory", "RootImage"].into_iter().filter(|setting| self.has(setting));
        let rooted = rooted.map(|setting| {
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
        let unnumbered = (!self.can_count()).then(|| {
            format!(
                "{PRIVATE_PIDS}= gives it process numbers of its own, by which its counters could \
                 be taken for those of others: it runs without, and neither `widelane status` nor \
                 `widelane top` can show it"
            )
        });
        let needed =
            [("@memlock", ["mlock", "mlock2"]), ("@timer", ["timerfd_create", "timerfd_settime"])];
        let is_ended = |(group, calls): &(&str, [&str; 2])| {
            calls.iter().any(|call| self.denial(group, call) == Some(Denial::Ends))
        };
        let ended = needed.into_iter().filter(is_ended);
        let ended: Vec<&str> = ended.map(|(group, _)| group).collect();
        let ended = (!ended.is_empty()).then(|| {
            format!(
                "SystemCallFilter= keeps it from calls that our libraries make, at which the \
                 system may end the server: allow {}",
                ended.join(" and ")
            )
        });
        let filtered = self.denial("@resources", "sched_setaffinity").map(|_| {
            "SystemCallFilter= keeps it from @resources: a lane process (--lane-cpus), and \
             HAProxy's ssl-mode-async, need sched_setaffinity and sched_setscheduler of these"
                .to_owned()
        });
        let overridden = self.overridden.iter().map(|which| {
            format!("{which} and so overrides what `widelane enable` sets; remove that line")
        });
        let costly = self.server_that_loses().map(|server| {
            format!(
                "{server} has a process for each connection, each of which costs more CPU to start \
                 with Widelane than its handshake saves (docs/operate/compatibility.md); we \
                 recommend not to accelerate it: {}",
                command("disable", root, &self.name)
            )
        });
        let confined = (is_enforcing(root) && !has_selinux_module(root)).then(|| {
            let module = way(root, &library.with_file_name(SELINUX_MODULE)).0;
            let remedy = match module.exists() {
                true => format!("As root: semodule -i {}", within(root, &module).display()),
                false => "What allows it is in docs/operate/operating.md".to_owned(),
            };
            format!(
                "SELinux is enforcing: if it confines {program}, that may not map its counters, \
                 and neither `widelane status` nor `widelane top` shows it. {remedy}"
            )
        });
        let remarks = remark.into_iter().chain(unread).chain(closed).chain(overridden);
        let remarks = remarks.chain(rooted).chain(kept).chain(uncounted).chain(unnumbered);
        remarks.chain(ended).chain(filtered).chain(confined).chain(costly).collect()
    }

    /// What is left to do where the drop-in replaces what systemd preloads into all services, by
    /// the environment that it gives to them.
    pub fn remark_on_manager(&self, environment: &str) -> Option<String> {
        let preload = environment.lines().find_map(|line| line.strip_prefix("LD_PRELOAD="))?;
        (self.preload.is_none() && !preload.is_empty()).then(|| {
            format!(
                "systemd preloads {preload} into all services, which the drop-in replaces for \
                 {name}: to keep it, add Environment={PRELOAD}={preload} to the unit and run \
                 `widelane enable {name}` again",
                name = self.name
            )
        })
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
    fn add(&mut self, name: &str, path: &Path, text: &str) -> anyhow::Result<()> {
        for (key, value) in service_settings(text) {
            match key.as_str() {
                "ExecStart" => self.set_program(name, &value),
                "ExecSearchPath" if value.is_empty() => self.searched.clear(),
                "ExecSearchPath" => {
                    let directories = value.split(':').filter_map(|path| expanded(path, name));
                    self.searched.extend(directories.map(PathBuf::from));
                }
                "User" => {
                    let user = expanded(&value, name).unwrap_or(value);
                    self.user = Some(user).filter(|user| !user.is_empty());
                }
                "SystemCallFilter" => self.filter(&value),
                "Environment" if value.is_empty() && is_behind_ours(path) => bail!(
                    "{} clears the environment and is read after {FILE_NAME}, so that widelane \
                     would not be loaded; give it a name that sorts before {FILE_NAME}",
                    path.display()
                ),
                "Environment" if value.is_empty() => self.preload = None,
                "Environment" => {
                    for word in words(&value) {
                        if let Some(preload) = word.strip_prefix("LD_PRELOAD=") {
                            self.set_preload(path, preload)?;
                        } else if is_behind_ours(path) {
                            self.note_override(path, &word);
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
                    let switch = SWITCHES.into_iter().find(|(setting, _)| *setting == key);
                    if let Some((setting, is_on_by)) = switch {
                        self.in_force.remove(setting);
                        self.in_force.extend(is_on_by(&value).then_some(setting));
                    }
                    if key == "RootDirectory" {
                        self.root_directory = expanded(&value, name).unwrap_or_default().into();
                    }
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
            text.lines().for_each(|line| self.note_override(&file, line));
        }
        Ok(())
    }

    /// Notes a line that sets one of our variables behind the drop-in.
    fn note_override(&mut self, file: &Path, line: &str) {
        let name = line.split_once('=').map_or("", |(name, _)| name.trim());
        if name.starts_with("WIDELANE_") {
            self.overridden.push(format!("{} sets {name}", file.display()));
        }
    }

    fn filter(&mut self, value: &str) {
        let denied = value.strip_prefix('~');
        if value.is_empty() {
            self.filters.clear();
        } else {
            self.filters.push((denied.is_some(), words(denied.unwrap_or(value))));
        }
    }

    /// How filters keep it from a system call of a group that `@system-service` has, if they do:
    /// the last list that names it decides, and what none names is denied if the first list allows.
    fn denial(&self, group: &str, call: &str) -> Option<Denial> {
        // What the call fails with stands behind a colon.
        let names_it = |word: &&String| {
            let word = word.split(':').next().unwrap_or_default();
            [group, call, "@system-service"].contains(&word)
        };
        let decides = |(denies, words): &(bool, Vec<String>)| {
            words.iter().find(names_it).map(|word| (*denies, word.contains(':')))
        };
        match self.filters.iter().rev().find_map(decides) {
            Some((false, _)) => None,
            Some((true, true)) => Some(Denial::Fails),
            Some((true, false)) => Some(Denial::Ends),
            None => self.filters.first().filter(|(denies, _)| !denies).map(|_| Denial::Ends),
        }
    }

    fn set_program(&mut self, name: &str, command: &str) {
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
        self.program = known.unwrap_or_else(|| program.to_owned()).into();
    }

    fn set_preload(&mut self, path: &Path, preload: &str) -> anyhow::Result<()> {
        if is_behind_ours(path) {
            bail!(
                "{} sets {PRELOAD} and is read after {FILE_NAME}, so that widelane would not be \
                 loaded; give it a name that sorts before {FILE_NAME}",
                path.display()
            );
        }
        self.preload = Some(preload.to_owned());
        Ok(())
    }
}

/// Whether a setting hides a directory by this value. What can be read can be loaded.
fn hides(value: &str) -> bool {
    !(is_false(value) || ["", "read-only"].contains(&value))
}

fn is_other_root(value: &str) -> bool {
    !["", "/"].contains(&value)
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

/// Whether SELinux enforces its policy.
fn is_enforcing(root: &Path) -> bool {
    let path = below(root, Path::new("/sys/fs/selinux/enforce"));
    fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
}

/// Whether [`SELINUX_MODULE`] is installed in a policy, of whatever name and priority. Only root
/// may look.
fn has_selinux_module(root: &Path) -> bool {
    let entries = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    entries(below(root, Path::new("/var/lib/selinux")))
        .flat_map(|policy| entries(policy.path().join("active/modules")))
        .any(|priority| priority.path().join("widelane").exists())
}

/// Whether systemd reads a file after our drop-in.
fn is_behind_ours(path: &Path) -> bool {
    let is_drop_in = path.extension().is_some_and(|extension| extension == "conf");
    is_drop_in && path.file_name().is_some_and(|name| name > FILE_NAME)
}

/// What the system has refused, if an error is its.
pub fn refusal(error: &anyhow::Error) -> Option<io::ErrorKind> {
    error.downcast_ref().map(io::Error::kind)
}
