//! Files that results go to: whether they can be written is found out before anything is done.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::bail;
use widelane_cli::system;

/// Makes sure that each of the files that are wanted can be written.
pub fn check<'a>(files: impl IntoIterator<Item = Option<&'a Path>>) -> anyhow::Result<()> {
    for path in files.into_iter().flatten() {
        if let Some(obstacle) = system::obstacle_to_write(path) {
            bail!("cannot write {}: {obstacle}; nothing was done", path.display());
        }
    }
    Ok(())
}

/// Makes sure that none of the files that are wanted is one that is read.
pub fn spare<'a>(
    files: impl IntoIterator<Item = Option<&'a Path>>,
    read: impl IntoIterator<Item = Option<&'a Path>>,
) -> anyhow::Result<()> {
    // A device such as /dev/null may be both.
    let identity = |path: &Path| {
        let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some((found.dev(), found.ino()))
    };
    let read: Vec<_> = read.into_iter().flatten().filter_map(identity).collect();
    for path in files.into_iter().flatten() {
        if identity(path).is_some_and(|own| read.contains(&own)) {
            bail!("{} is read: name another file to be written", path.display());
        }
    }
    Ok(())
}
