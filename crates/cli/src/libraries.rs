//! Where the two shared objects of `widelane run` are.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::system;

const DIRECTORY_VARIABLE: &str = "WIDELANE_LIBRARY_DIR";
/// The file names that the provider may have.
pub const PROVIDER_NAMES: [&str; 2] = ["widelane.so", "libwidelane.so"];
/// Where packages and the archive put the libraries of a system.
const INSTALLED: [&str; 2] = ["/usr/lib/widelane", "/usr/local/lib/widelane"];
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
        let directories = directories()?;
        let libraries = Self {
            provider: find_one(&directories, &PROVIDER_NAMES)?,
            runtime: find_one(&directories, &[RUNTIME_NAME])?,
        };
        libraries.check()?;
        Ok(libraries)
    }

    /// The libraries that programs of the system in the directory `root`, a path without links,
    /// will find: their paths begin there. Looks where [`find`](Self::find) does, and where
    /// packages and the archive install.
    pub fn find_below(root: &Path) -> anyhow::Result<Self> {
        if root == Path::new("/") {
            return Self::find();
        }
        // Our own may be in there, or others where ours are here.
        let own = directories().unwrap_or_default();
        let own = own.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
        let own = own.map(|path| system::within(root, &path));
        let directories: Vec<_> = own.chain(INSTALLED.map(PathBuf::from)).collect();
        let find = |names: &[&str]| {
            let mut paths = paths(&directories, names).map(|path| system::below(root, &path));
            Some(system::within(root, &paths.find(|path| path.is_file())?))
        };
        let (Some(provider), Some(runtime)) = (find(&PROVIDER_NAMES), find(&[RUNTIME_NAME])) else {
            anyhow::bail!(
                "the libraries of widelane are not in {0}; install widelane into {0} first",
                root.display()
            );
        };
        let libraries = Self { provider, runtime };
        libraries.check()?;
        Ok(libraries)
    }

    /// Whether the environment says where they are.
    pub fn are_named() -> bool {
        named_directory().is_some()
    }

    /// Makes sure that the dynamic loader understands the path.
    fn check(&self) -> anyhow::Result<()> {
        if self.runtime.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b':' | b' ')) {
            anyhow::bail!(
                "the dynamic loader cannot preload {}: its path has a colon or a space; install \
                 widelane elsewhere",
                self.runtime.display()
            );
        }
        Ok(())
    }
}

/// The directory that [`DIRECTORY_VARIABLE`] names, if it is set.
fn named_directory() -> Option<OsString> {
    std::env::var_os(DIRECTORY_VARIABLE).filter(|directory| !directory.is_empty())
}

/// Where the libraries may be, in order.
fn directories() -> anyhow::Result<Vec<PathBuf>> {
    if let Some(directory) = named_directory() {
        return Ok(vec![std::path::absolute(directory)?]);
    }
    let program = own_program().context(format!(
        "cannot tell where widelane is; set {DIRECTORY_VARIABLE} to the directory of its libraries"
    ))?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    Ok(vec![beside.to_owned(), beside.join("../lib/widelane")])
}

/// The file of this program; where there is no `/proc`, as in some containers, by the name that it
/// was started by.
fn own_program() -> Option<PathBuf> {
    let by_name = || crate::run::find_program(&std::env::args_os().next()?);
    std::env::current_exe().ok().or_else(by_name)?.canonicalize().ok()
}

/// Every one of `names` in every one of `directories`.
fn paths(directories: &[PathBuf], names: &[&str]) -> impl Iterator<Item = PathBuf> {
    directories.iter().flat_map(|directory| names.iter().map(|name| directory.join(name)))
}

fn find_one(directories: &[PathBuf], names: &[&str]) -> anyhow::Result<PathBuf> {
    paths(directories, names).find_map(|path| path.canonicalize().ok()).with_context(|| {
        let places: Vec<String> =
            directories.iter().map(|directory| directory.display().to_string()).collect();
        format!(
            "{} is missing in {}; install widelane again, or set {DIRECTORY_VARIABLE} to the \
             directory that has it",
            names.join(" or "),
            places.join(" and ")
        )
    })
}
