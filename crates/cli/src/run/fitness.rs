//! Whether a program can be accelerated, told from its file before it runs.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::elf::{Elf, NotElf};

/// What preloading will do for a program.
#[derive(Debug, PartialEq, Eq)]
pub enum Fitness {
    /// The runtime will find its TLS library.
    Accelerates,
    /// Nothing can be gained, for this reason.
    RunsUnchanged(String),
}

/// Libraries whose functions we know, newest first.
const OPENSSL: [&str; 2] = ["libssl.so.4", "libssl.so.3"];

/// How many scripts may run scripts, as in the kernel.
const SCRIPT_DEPTH_MAX: usize = 4;

/// Judges the program in the file `path`.
pub fn judge(path: &Path) -> Fitness {
    match objection(path, 0) {
        None => Fitness::Accelerates,
        Some(reason) => Fitness::RunsUnchanged(reason),
    }
}

fn objection(path: &Path, depth: usize) -> Option<String> {
    if let Some(privilege) = privilege(path) {
        return Some(format!(
            "it gains privileges by {privilege}, and the dynamic loader preloads nothing into \
             such programs"
        ));
    }
    let mut bytes = Vec::new();
    if let Err(error) = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        return Some(format!("its file cannot be read ({error})"));
    }
    if let Some(interpreter) = interpreter(&bytes) {
        if depth == SCRIPT_DEPTH_MAX {
            return Some("it is a script run by a script, and so on".to_owned());
        }
        let reason = objection(&interpreter, depth + 1)?;
        return Some(format!(
            "it is a script for {}, and {reason}; put `widelane run --` before the server in it",
            interpreter.display()
        ));
    }
    match Elf::parse(&bytes) {
        Ok(elf) if !elf.is_dynamic => Some("it is statically linked".to_owned()),
        Ok(elf) if OPENSSL.iter().any(|name| elf.needed.iter().any(|needed| needed == name)) => {
            None
        }
        Ok(elf) => Some(match tls_library(&elf.needed) {
            Some(other) => format!("it uses {other}, not OpenSSL 3 (libssl.so.3)"),
            None => "it is not linked with OpenSSL 3 (libssl.so.3)".to_owned(),
        }),
        Err(NotElf) => Some("it is not a program for this machine".to_owned()),
    }
}

/// The TLS library other than ours among `needed`.
fn tls_library(needed: &[String]) -> Option<&String> {
    const OTHERS: [&str; 6] =
        ["libssl.so", "libgnutls", "libmbedtls", "libwolfssl", "libnss3", "libtls.so"];
    needed.iter().find(|needed| OTHERS.iter().any(|other| needed.starts_with(other)))
}

/// By what means executing the file raises privileges, if it does.
fn privilege(path: &Path) -> Option<&'static str> {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2000;
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    if mode & SET_USER != 0 {
        return Some("its set-user-ID bit");
    }
    if mode & SET_GROUP != 0 && mode & 0o010 != 0 {
        return Some("its set-group-ID bit");
    }
    let size = rustix::fs::getxattr(path, c"security.capability", &mut [] as &mut [u8]).ok()?;
    (size > 0 && !rustix::process::geteuid().is_root()).then_some("its file capabilities")
}

/// The interpreter that a script's first line names.
fn interpreter(bytes: &[u8]) -> Option<PathBuf> {
    let line = bytes.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let interpreter = Path::new(std::ffi::OsStr::from_bytes(words.next()?));
    Some(interpreter.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(first_line: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), format!("{first_line}\necho\n")).expect("a short write");
        file
    }

    fn reason(path: &Path) -> String {
        match judge(path) {
            Fitness::Accelerates => panic!("{} is said to be accelerated", path.display()),
            Fitness::RunsUnchanged(reason) => reason,
        }
    }

    #[test]
    fn a_shell_uses_no_tls() {
        assert!(reason(Path::new("/bin/sh")).contains("not linked with OpenSSL 3"));
    }

    #[test]
    fn a_script_is_judged_by_its_interpreter() {
        let file = script("#! /bin/sh -e");
        let reason = reason(file.path());
        assert!(reason.contains("a script for /bin/sh, and it is not linked"), "{reason}");
    }

    #[test]
    fn a_script_that_interprets_itself_ends() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), format!("#!{}\n", file.path().display())).expect("a write");
        assert!(reason(file.path()).contains("script run by a script"));
    }

    #[test]
    fn set_user_id_is_told() {
        let file = script("#!/bin/sh");
        let permissions = std::fs::Permissions::from_mode(0o4755);
        std::fs::set_permissions(file.path(), permissions).expect("own file");
        assert!(reason(file.path()).contains("set-user-ID"));
    }

    #[test]
    fn rubbish_is_not_a_program() {
        let file = script("rubbish");
        assert!(reason(file.path()).contains("not a program for this machine"));
    }

    #[test]
    fn other_tls_libraries_are_named() {
        let needed = ["libc.so.6", "libssl.so.1.1"].map(str::to_owned);
        assert_eq!(tls_library(&needed), Some(&"libssl.so.1.1".to_owned()));
        assert_eq!(tls_library(&needed[..1]), None);
    }
}
