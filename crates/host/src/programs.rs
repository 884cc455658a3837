//! Programs that are installed, and what they say about themselves.

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first program called `name` in the directories of `search`: a file that may be executed.
pub fn find(name: impl AsRef<Path>, search: &[PathBuf]) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    search.iter().map(|directory| directory.join(&name)).find(is_program)
}

/// Where programs are looked for, in order: the directories of `path`, as the variable of this name
/// has them, then where servers are installed, which is not in every user's `PATH`.
pub fn search_path(path: Option<OsString>) -> Vec<PathBuf> {
    let named = path.iter().flat_map(env::split_paths);
    named.chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from)).collect()
}

/// Version of nginx, as it reports it: `1.22.1`.
pub fn nginx_version(program: &Path) -> Option<String> {
    word_behind(&said(program, "-v")?, "nginx/")
}

/// The words by which nginx writes the errors to `file` that it finds before it has read its
/// configuration. Before 1.19.5 there are none: they go to the log that it was built with.
pub fn nginx_first_errors(program: &Path, file: &str) -> Vec<OsString> {
    let is_known = said(program, "-h").is_some_and(|help| help.contains("-e filename"));
    if is_known { vec!["-e".into(), file.into()] } else { Vec::new() }
}

/// Version of HAProxy, as it reports it: `2.6.12-1+deb12u4`.
pub fn haproxy_version(program: &Path) -> Option<String> {
    word_behind(&said(program, "-v")?, "ersion ")
}

/// What a program prints if it gets this one argument: its standard output, then its errors.
pub fn said(program: &Path, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// The word behind the first `mark` in `text`.
pub fn word_behind(text: &str, mark: &str) -> Option<String> {
    Some(text.split(mark).nth(1)?.split_whitespace().next()?.to_owned())
}
