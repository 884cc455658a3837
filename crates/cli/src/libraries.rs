//! Where the two shared objects of `widelane run` are.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

const DIRECTORY_VARIABLE: &str = "WIDELANE_LIBRARY_DIR";
const PROVIDER_NAMES: [&str; 2] = ["widelane.so", "libwidelane.so"];
/// The file name of the library to preload.
pub const RUNTIME_NAME: &str = "libwidelane_runtime.so";

/// The shared objects, by absolute path.
pub struct Libraries {
    /// The OpenSSL provider.
    pub provider: PathBuf,
    /// The library to preload.
    pub runtime: PathBuf,
}

impl Libraries {
    /// Looks in `WIDELANE_LIBRARY_DIR` if set, else beside this program and in `../lib/widelane`.
    pub fn find() -> anyhow::Result<Self> {
        let directories = match std::env::var_os(DIRECTORY_VARIABLE) {
            Some(directory) => vec![std::path::absolute(directory)?],
            None => {
                let program = own_program().context(format!(
                    "cannot tell where widelane is; set {DIRECTORY_VARIABLE} to the directory of \
                     its libraries"
                ))?;
                let beside = program.parent().unwrap_or(Path::new("/"));
                vec![beside.to_owned(), beside.join("../lib/widelane")]
            }
        };
        let libraries = Self {
            provider: find_one(&directories, &PROVIDER_NAMES)?,
            runtime: find_one(&directories, &[RUNTIME_NAME])?,
        };
        if libraries.runtime.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b':' | b' ')) {
            anyhow::bail!(
                "the dynamic loader cannot preload {}: its path has a colon or a space; install \
                 widelane elsewhere",
                libraries.runtime.display()
            );
        }
        Ok(libraries)
    }
}

/// The file of this program; where there is no `/proc`, as in some containers, by the name that it
/// was started by.
fn own_program() -> Option<PathBuf> {
    let by_name = || crate::run::find_program(&std::env::args_os().next()?);
    std::env::current_exe().ok().or_else(by_name)?.canonicalize().ok()
}

fn find_one(directories: &[PathBuf], names: &[&str]) -> anyhow::Result<PathBuf> {
    directories
        .iter()
        .flat_map(|directory| names.iter().map(|name| directory.join(name)))
        .find_map(|path| path.canonicalize().ok())
        .with_context(|| {
            let places: Vec<String> =
                directories.iter().map(|directory| directory.display().to_string()).collect();
            format!(
                "{} is missing in {}; run `cargo build --release`, or set {DIRECTORY_VARIABLE} to \
                 the directory that has it",
                names.join(" or "),
                places.join(" and ")
            )
        })
}
