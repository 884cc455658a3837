//! Files that results go to: whether they can be written is found out before anything is done.

use std::path::{self, Path, PathBuf};

use anyhow::bail;
use widelane_cli::system;

/// Makes sure that each of the files that are wanted, by the flag that names it, can be written,
/// and that none would replace another one, or one that is read.
pub fn check<'a>(
    files: impl IntoIterator<Item = (&'a str, Option<&'a Path>)>,
    read: impl IntoIterator<Item = Option<&'a Path>>,
) -> anyhow::Result<()> {
    let files: Vec<_> = files.into_iter().collect();
    let mut known: Vec<(PathBuf, &str)> = Vec::new();
    for &(flag, path) in &files {
        let Some(path) = path else { continue };
        if let Some(obstacle) = system::obstacle_to_write(path) {
            bail!(
                "cannot write {}: {obstacle}; name another file by {flag}; nothing was done",
                path.display()
            );
        }
        let Some(identity) = identity(path) else { continue };
        if let Some((_, other)) = known.iter().find(|(known, _)| *known == identity) {
            bail!("{other} and {flag} name the same file, {}", path.display());
        }
        known.push((identity, flag));
    }
    spare(files.iter().map(|(_, path)| *path), read)
}

/// Makes sure that none of the files that are wanted is one that is read.
pub fn spare<'a>(
    files: impl IntoIterator<Item = Option<&'a Path>>,
    read: impl IntoIterator<Item = Option<&'a Path>>,
) -> anyhow::Result<()> {
    let read: Vec<_> = read.into_iter().flatten().filter_map(identity).collect();
    for path in files.into_iter().flatten() {
        if identity(path).is_some_and(|own| read.contains(&own)) {
            bail!("{} is read: name another file to be written", path.display());
        }
    }
    Ok(())
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
