//! Where rival programs are.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use widelane_bench::programs::Built;
use widelane_cli::system;
use widelane_host::programs;

/// The rival program `name`: where the user says, beside this binary, or in the PATH.
pub fn find(name: &str, said: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = said {
        return Some(path.to_owned());
    }
    system::find_beside(name).or_else(|| programs::find(name, &system::path()))
}

/// The rival program `name` that is built from source: beside this binary, in the PATH, or where
/// `cargo xtask rival` puts it; if that has failed, why.
pub fn find_built(name: &str) -> Built {
    let built =
        env::current_exe().ok().and_then(|own| Some(own.parent()?.parent()?.join("rivals")));
    let program = built.as_ref().map(|rivals| rivals.join(name)).filter(|path| path.is_file());
    match find(name, None).or(program) {
        Some(program) => Built::At(program),
        None => {
            let said = built.map(|rivals| rivals.join(format!("{name}.failed")));
            let said = said.and_then(|path| fs::read_to_string(path).ok());
            Built::Missing(said.and_then(|said| Some(said.lines().next()?.to_owned())))
        }
    }
}
