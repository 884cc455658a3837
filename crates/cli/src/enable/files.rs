//! Which files are to change, as a plan that can be shown before it is carried out.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::drop_in::{self, DropIn, FILE_NAME};
use super::status::enabled;
use crate::live::SYSTEM_DIRECTORY;
use crate::system;

/// Where systemd looks for what it makes at every start.
const TMPFILES: [&str; 4] =
    ["usr/lib/tmpfiles.d", "usr/local/lib/tmpfiles.d", "run/tmpfiles.d", OWN_TMPFILES];
const OWN_TMPFILES: &str = "etc/tmpfiles.d";
const TMPFILES_NAME: &str = "widelane.conf";

/// The directory of counters, at every start of the system.
const TMPFILES_TEXT: &str = "\
# Written by `widelane enable`; the last `widelane disable` takes it back.
d /run/widelane 1777 root root -
";

/// What stands behind that if the directory of the file was made as well.
const MADE_DIRECTORY: &str = "# The directory of this file, too.\n";

/// One step.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    MakeDirectory { path: PathBuf, mode: u32 },
    Write { path: PathBuf, text: String },
    RemoveFile(PathBuf),
    RemoveDirectory(PathBuf),
}

/// Steps in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan(Vec<Change>);

impl Plan {
    /// The steps.
    pub fn changes(&self) -> &[Change] {
        &self.0
    }

    /// What is missing until the service is enabled.
    pub fn to_enable(root: &Path, name: &str, drop_in: &DropIn) -> anyhow::Result<Self> {
        let mut plan = Plan::default();
        if let Some(reason) = why_masked(root, name) {
            bail!("the drop-in of {name} is {reason}");
        }
        let (directory, path) = (directory(root, name), path(root, name));
        let makes_directory = match read(&path)? {
            None => !directory.is_dir(),
            Some(text) if drop_in::is_untouched(&text) => drop_in::made_directory(&text),
            Some(_) => bail!(
                "{} is there and was not written by widelane, or edited since; look at it, and \
                 remove it if it is not needed",
                path.display()
            ),
        };
        let text = drop_in.text(makes_directory);
        plan.make_directory(&directory);
        if read(&path)?.as_ref() != Some(&text) {
            plan.0.push(Change::Write { path, text });
        }
        let is_there = |place: &&str| {
            let path = system::below(root, Path::new(place)).join(TMPFILES_NAME);
            path.symlink_metadata().is_ok()
        };
        if !TMPFILES.iter().any(is_there) {
            let path = system::below(root, Path::new(OWN_TMPFILES));
            let mut text = TMPFILES_TEXT.to_owned();
            if !path.is_dir() {
                text += MADE_DIRECTORY;
            }
            plan.make_directory(&path);
            plan.0.push(Change::Write { path: path.join(TMPFILES_NAME), text });
        }
        let counters = Path::new(SYSTEM_DIRECTORY);
        if root == Path::new("/") && !counters.exists() {
            plan.0.push(Change::MakeDirectory { path: counters.to_owned(), mode: 0o1777 });
        }
        Ok(plan)
    }

    /// What is there because the service was enabled.
    pub fn to_disable(root: &Path, name: &str) -> anyhow::Result<Self> {
        let mut plan = Plan::default();
        if let Some(text) = in_force(root, name)? {
            let (directory, path) = (directory(root, name), path(root, name));
            if !drop_in::is_untouched(&text) {
                bail!(
                    "{} was edited since `widelane enable` wrote it; take back what was edited, or \
                     remove it yourself, run `systemctl daemon-reload` and restart the service",
                    path.display()
                );
            }
            plan.0.push(Change::RemoveFile(path));
            if drop_in::made_directory(&text) && is_single_in(&directory)? {
                plan.0.push(Change::RemoveDirectory(directory));
            }
        }
        let directory = system::below(root, Path::new(OWN_TMPFILES));
        let at_start = directory.join(TMPFILES_NAME);
        let text = read(&at_start)?;
        let behind = text.as_deref().and_then(|text| text.strip_prefix(TMPFILES_TEXT));
        if behind.is_some_and(|behind| ["", MADE_DIRECTORY].contains(&behind))
            && enabled(root).iter().all(|other| other == name)
        {
            plan.0.push(Change::RemoveFile(at_start));
            if behind == Some(MADE_DIRECTORY) && is_single_in(&directory)? {
                plan.0.push(Change::RemoveDirectory(directory));
            }
        }
        Ok(plan)
    }

    /// Makes a directory that is missing, with those above it.
    fn make_directory(&mut self, directory: &Path) {
        let missing = directory.ancestors().take_while(|path| !path.is_dir());
        let steps = missing.map(|path| Change::MakeDirectory { path: path.into(), mode: 0o755 });
        let steps: Vec<_> = steps.filter(|step| !self.0.contains(step)).collect();
        self.0.extend(steps.into_iter().rev());
    }

    /// Takes the steps. Where one fails, those before it are taken back.
    pub fn carry_out(self) -> anyhow::Result<()> {
        let mut done = Vec::new();
        for change in self.0 {
            let reverse = change.reverse();
            if let Err(error) = change.carry_out() {
                if done.is_empty() {
                    return Err(error);
                }
                let left = done.into_iter().rev().filter_map(|step| take_back(step).err());
                return Err(match left.last() {
                    None => error.context("what was done before is taken back"),
                    Some(left) => error.context(format!(
                        "what was done before cannot all be taken back ({left:#})"
                    )),
                });
            }
            done.push(reverse);
        }
        Ok(())
    }
}

/// Takes a step back by its reverse, if that is known.
fn take_back(reverse: anyhow::Result<Change>) -> anyhow::Result<()> {
    reverse?.carry_out()
}

/// The operator's units and drop-ins.
pub const UNITS: &str = "etc/systemd/system";

/// The directory of a service's drop-ins that the operator has. It is where links lead within the
/// system that is meant.
fn directory(root: &Path, name: &str) -> PathBuf {
    system::below(root, &Path::new(UNITS).join(format!("{name}.service.d")))
}

/// Whether a file is all that is in `directory`.
fn is_single_in(directory: &Path) -> anyhow::Result<bool> {
    let entries = fs::read_dir(directory)
        .with_context(|| format!("cannot read {}; run this as root", directory.display()))?;
    Ok(entries.count() == 1)
}

/// Our drop-in of a service.
pub fn path(root: &Path, name: &str) -> PathBuf {
    directory(root, name).join(FILE_NAME)
}

/// The text of a service's drop-in that systemd reads under the name of ours; none if there is
/// none, or a link to `/dev/null`, by which an operator keeps systemd from reading one.
pub fn in_force(root: &Path, name: &str) -> anyhow::Result<Option<String>> {
    if is_masked(root, name) { Ok(None) } else { read(&path(root, name)) }
}

/// Whether there is such a drop-in, as far as this user may know.
pub fn is_enabled(root: &Path, name: &str) -> bool {
    path(root, name).symlink_metadata().is_ok() && !is_masked(root, name)
}

fn is_masked(root: &Path, name: &str) -> bool {
    system::way(root, &path(Path::new("/"), name)).0 == root.join("dev/null")
}

/// What a drop-in is whose name is masked, and what helps.
pub fn why_masked(root: &Path, name: &str) -> Option<String> {
    let path = path(root, name);
    let reason = format!("masked by a link to /dev/null: remove {} to enable it", path.display());
    is_masked(root, name).then_some(reason)
}

/// The template whose drop-in accelerates an instance (`haproxy@web`), if it is enabled.
pub fn enabled_template(root: &Path, name: &str) -> Option<String> {
    let (template, instance) = name.split_once('@')?;
    let template = format!("{template}@");
    let holds = !instance.is_empty() && !is_masked(root, name) && is_enabled(root, &template);
    holds.then_some(template)
}

/// The text of a file; none if it does not exist. That of a link, which is none of ours, is empty:
/// it may lead out of the system that is meant.
pub fn read(path: &Path) -> anyhow::Result<Option<String>> {
    if path.is_symlink() {
        return Ok(Some(String::new()));
    }
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

impl Change {
    /// What the change does, or would do if `would`, in words.
    pub fn words(&self, would: bool) -> String {
        let verb = |does, would_do| if would { would_do } else { does };
        match self {
            Change::MakeDirectory { path, .. } => {
                format!("{} {}/", verb("Makes", "Would make"), path.display())
            }
            Change::Write { path, text } => {
                let lines: String = text.lines().map(|line| format!("    {line}\n")).collect();
                format!("{} {}:\n{lines}", verb("Writes", "Would write"), path.display())
            }
            Change::RemoveFile(path) => {
                format!("{} {}", verb("Removes", "Would remove"), path.display())
            }
            Change::RemoveDirectory(path) => {
                format!("{} {}/", verb("Removes", "Would remove"), path.display())
            }
        }
    }

    /// What takes it back, to be asked before it is carried out.
    fn reverse(&self) -> anyhow::Result<Self> {
        let former = |path: &Path| match read(path)? {
            Some(text) => Ok(Change::Write { path: path.to_owned(), text }),
            None => Ok(Change::RemoveFile(path.to_owned())),
        };
        match self {
            Change::MakeDirectory { path, .. } => Ok(Change::RemoveDirectory(path.clone())),
            Change::Write { path, .. } | Change::RemoveFile(path) => former(path),
            Change::RemoveDirectory(path) => {
                let mode = path.metadata().map_or(0o755, |metadata| metadata.mode() & 0o7777);
                Ok(Change::MakeDirectory { path: path.clone(), mode })
            }
        }
    }

    fn carry_out(self) -> anyhow::Result<()> {
        let (verb, path, done) = match &self {
            Change::Write { path, text } => return system::write_for_all(path, text),
            Change::MakeDirectory { path, mode } => {
                ("make", path, system::make_directory(path, *mode))
            }
            Change::RemoveFile(path) => ("remove", path, fs::remove_file(path)),
            Change::RemoveDirectory(path) => ("remove", path, fs::remove_dir(path)),
        };
        done.map_err(|error| system::failure(verb, path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_before_a_step_that_fails_is_taken_back() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("kept"), "as it was").unwrap();
        fs::create_dir(path("old")).unwrap();
        let write = |name: &str| Change::Write { path: path(name), text: "new".to_owned() };
        let plan = Plan(vec![
            Change::MakeDirectory { path: path("new"), mode: 0o755 },
            write("new/file"),
            write("kept"),
            Change::RemoveFile(path("kept")),
            Change::RemoveDirectory(path("old")),
            Change::RemoveFile(path("missing")),
        ]);
        let error = format!("{:#}", plan.carry_out().unwrap_err());
        assert!(error.starts_with("what was done before is taken back: cannot remove"), "{error}");
        assert!(!path("new").exists() && path("old").is_dir());
        assert_eq!(fs::read_to_string(path("kept")).unwrap(), "as it was");
    }
}
