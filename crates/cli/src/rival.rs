//! Where rival programs are.

use std::env;
use std::path::{Path, PathBuf};

/// The rival program `name`: where the user says, beside this binary, or in the PATH.
pub fn find(name: &str, said: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = said {
        return Some(path.to_owned());
    }
    let beside = env::current_exe().ok().and_then(|own| Some(own.parent()?.join(name)));
    let search = env::var_os("PATH").unwrap_or_default();
    let mut candidates = env::split_paths(&search).map(|directory| directory.join(name));
    beside.filter(|path| path.is_file()).or_else(|| candidates.find(|path| path.is_file()))
}
