//! Files that results go to: whether they can be written is found out before anything is measured.

use std::path::Path;

use anyhow::bail;
use widelane_cli::system;

/// Makes sure that each of the files that are wanted can be written.
pub fn check<'a>(files: impl IntoIterator<Item = Option<&'a Path>>) -> anyhow::Result<()> {
    for path in files.into_iter().flatten() {
        if let Some(obstacle) = system::obstacle_to_write(path) {
            bail!("cannot write {}: {obstacle}; nothing was measured", path.display());
        }
    }
    Ok(())
}
