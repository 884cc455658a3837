//! Files that commands write: whether they can be written is found out before anything is done.

use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::path::{self, Path, PathBuf};

use anyhow::bail;
use clap::{ArgMatches, Command};
use widelane_cli::system;

/// An argument that names a file to write: [`check`] knows it by its type.
#[derive(Clone, Debug)]
pub struct WrittenFile(PathBuf);

impl From<OsString> for WrittenFile {
    fn from(path: OsString) -> Self {
        WrittenFile(path.into())
    }
}

impl Deref for WrittenFile {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

/// Makes sure that each of the files that the arguments of `command` want written can be written,
/// and that none would replace another one, or a file that any other argument names, whatever that
/// is for: a flag that reads one cannot be forgotten here.
pub fn check(command: &Command, matches: &ArgMatches) -> anyhow::Result<()> {
    if let Some((name, matches)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        return check(command, matches);
    }
    let (mut written, mut others) = (Vec::<(PathBuf, &Path, &str)>::new(), Vec::new());
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let Ok(Some(path)) = matches.try_get_one::<WrittenFile>(id) else {
            let values = matches.try_get_raw(id).ok().flatten().into_iter().flatten();
            others.extend(values.flat_map(paths).filter_map(|path| identity(&path)));
            continue;
        };
        let flag = argument.get_long().unwrap_or(id);
        if let Some(obstacle) = system::obstacle_to_write(path) {
            bail!(
                "cannot write {}: {obstacle}; name another file by --{flag}; nothing was done",
                path.display()
            );
        }
        let Some(identity) = identity(path) else { continue };
        if let Some((.., other)) = written.iter().find(|(known, ..)| *known == identity) {
            bail!("--{other} and --{flag} name the same file, {}", path.display());
        }
        written.push((identity, &**path, flag));
    }
    if let Some((_, path, flag)) = written.iter().find(|(known, ..)| others.contains(known)) {
        bail!(
            "another argument names {} as well: name another file to be written by --{flag}",
            path.display()
        );
    }
    Ok(())
}

/// The paths that a value may stand for: itself, and the parts of `CHAIN:KEY=WEIGHT,…`.
fn paths(value: &OsStr) -> Vec<PathBuf> {
    let parts = value.to_str().unwrap_or_default().split([':', ',', '=']).map(PathBuf::from);
    parts.chain([value.into()]).collect()
}

/// The file that a path names, however it is spelled, whether it is there or not; nothing for a
/// device such as /dev/null, which may be named twice.
fn identity(path: &Path) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return real.is_file().then_some(real);
    }
    let whole = path::absolute(path).ok()?;
    Some(whole.parent()?.canonicalize().ok()?.join(whole.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_hold_several_paths() {
        let found = paths(OsStr::new("chain.pem:key.pem=70,none=30"));
        assert!(found.contains(&PathBuf::from("key.pem")), "{found:?}");
        assert!(paths(OsStr::new("a:b")).contains(&PathBuf::from("a:b")));
    }
}
