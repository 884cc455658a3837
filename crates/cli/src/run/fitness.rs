//! Whether a program can be accelerated, found from its file before it runs.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::elf::{Elf, NotElf};
use crate::system;

/// What preloading will do for a program.
#[derive(Debug, PartialEq, Eq)]
pub enum Fitness {
    /// The runtime will find its TLS library.
    Accelerates,
    /// It does no TLS by OpenSSL itself, as far as its file says; but programs that it starts or
    /// becomes may, and libraries that it loads later.
    PassesOn,
    /// Nothing can be gained, for this reason.
    RunsUnchanged(String),
}

/// Libraries whose functions we know, newest first.
const OPENSSL: [&str; 2] = ["libssl.so.4", "libssl.so.3"];

/// What they are called.
const WANTED: &str = "OpenSSL 3 or later (libssl.so.3 or .4)";

/// How many scripts may run scripts, as in the kernel.
const SCRIPT_DEPTH_MAX: usize = 4;

impl Fitness {
    /// Why the program in this file is not accelerated itself, if it is not.
    pub fn objection(self) -> Option<String> {
        match self {
            Fitness::Accelerates => None,
            Fitness::PassesOn => Some(format!("it is not linked with {WANTED}")),
            Fitness::RunsUnchanged(reason) => Some(reason),
        }
    }
}

/// Which user starts a program, and in which system.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The directory of the system: programs have their interpreters there.
    pub root: &'a Path,
    /// Whether root starts it, for whom file capabilities and becoming root add nothing.
    pub is_by_root: bool,
}

/// Judges the program in the file `path`, if this process executes it.
pub fn judge(path: &Path) -> Fitness {
    let is_by_root = rustix::process::geteuid().is_root();
    Start { root: Path::new("/"), is_by_root }.judge(path)
}

impl Start<'_> {
    /// Judges the program in the file `path`, which begins with the directory of the system.
    pub fn judge(self, path: &Path) -> Fitness {
        judge_at(path, self, 0)
    }
}

fn judge_at(path: &Path, start: Start<'_>, depth: usize) -> Fitness {
    if let Some(privilege) = privilege(path, start.is_by_root) {
        return Fitness::RunsUnchanged(format!(
            "it gains privileges by {privilege}, and the dynamic loader preloads nothing into \
             such programs"
        ));
    }
    // A pipe or a device has no end.
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Fitness::RunsUnchanged(format!("{} is not a regular file", path.display()));
    }
    let mut bytes = Vec::new();
    if let Err(error) = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        return Fitness::RunsUnchanged(format!("{} cannot be read ({error})", path.display()));
    }
    if let Some(interpreter) = interpreter(&bytes) {
        if depth == SCRIPT_DEPTH_MAX {
            return Fitness::RunsUnchanged("it is a script run by a script, and so on".to_owned());
        }
        return match judge_at(&system::below(start.root, &interpreter), start, depth + 1) {
            Fitness::RunsUnchanged(reason) => Fitness::RunsUnchanged(format!(
                "it is a script for {}, and {reason}; put `widelane run --` before the server in \
                 it",
                interpreter.display()
            )),
            fitness => fitness,
        };
    }
    match Elf::parse(&bytes) {
        Ok(elf) => judge_elf(&elf),
        Err(NotElf) => Fitness::RunsUnchanged("it is not a program for this machine".to_owned()),
    }
}

fn judge_elf(elf: &Elf) -> Fitness {
    let needs = |name: &str| elf.needed.iter().any(|needed| needed == name);
    if !elf.is_dynamic {
        return Fitness::RunsUnchanged("it is statically linked".to_owned());
    }
    // Its loader would not start it with a library of glibc's in front.
    if needs("libc.so") || elf.needed.iter().any(|needed| needed.starts_with("libc.musl-")) {
        return Fitness::RunsUnchanged(
            "its C library is musl, and widelane's is glibc; take an image on Debian".to_owned(),
        );
    }
    if OPENSSL.into_iter().any(needs) {
        return Fitness::Accelerates;
    }
    match tls_library(&elf.needed) {
        Some(other) => Fitness::RunsUnchanged(format!("it uses {other}, not {WANTED}")),
        None => Fitness::PassesOn,
    }
}

/// The TLS library other than ours among `needed`.
fn tls_library(needed: &[String]) -> Option<&String> {
    const OTHERS: [&str; 6] =
        ["libssl.so", "libgnutls", "libmbedtls", "libwolfssl", "libnss3", "libtls.so"];
    needed.iter().find(|needed| OTHERS.iter().any(|other| needed.starts_with(other)))
}

/// More than any revision of file capabilities takes: 24 bytes in revision 3.
const CAPABILITIES_BYTES_MAX: usize = 64;

/// By what means executing the file raises the privileges of its user, if it does. The loader cares
/// only if a user or group ID changes; for root, a set-user-ID file of root changes none. The group
/// with which root starts it is not known here (`Group=`, `sg`).
fn privilege(path: &Path, is_root: bool) -> Option<&'static str> {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2000;
    let metadata = std::fs::metadata(path).ok()?;
    let mode = metadata.mode();
    if mode & SET_USER != 0 && !(is_root && metadata.uid() == 0) {
        return Some("its set-user-ID bit");
    }
    if mode & SET_GROUP != 0 && mode & 0o010 != 0 {
        return Some("its set-group-ID bit");
    }
    // Asked without room for the value, rustix answers that it is empty.
    let mut value = [0_u8; CAPABILITIES_BYTES_MAX];
    let size = rustix::fs::getxattr(path, c"security.capability", &mut value[..]).ok()?;
    (size > 0 && !is_root).then_some("its file capabilities")
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
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn script(first_line: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), format!("{first_line}\necho\n")).expect("a short write");
        file
    }

    fn reason(path: &Path) -> String {
        match judge(path) {
            Fitness::RunsUnchanged(reason) => reason,
            fitness => panic!("{} is said to be {fitness:?}", path.display()),
        }
    }

    #[test]
    fn a_shell_passes_on_what_it_cannot_use() {
        assert_eq!(judge(Path::new("/bin/sh")), Fitness::PassesOn);
        let said = Fitness::PassesOn.objection();
        assert!(said.is_some_and(|said| said.contains("not linked with OpenSSL 3 or later")));
    }

    #[test]
    fn a_script_is_judged_by_its_interpreter() {
        assert_eq!(judge(script("#! /bin/sh -e").path()), Fitness::PassesOn);
        let reason = reason(script("#!/sbin/ldconfig").path());
        assert!(reason.contains("a script for /sbin/ldconfig, and it is static"), "{reason}");
    }

    #[test]
    fn a_script_that_interprets_itself_ends() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), format!("#!{}\n", file.path().display())).expect("a write");
        assert!(reason(file.path()).contains("script run by a script"));
    }

    #[test]
    fn set_ids_are_told_where_they_change_something() {
        let file = script("#!/bin/sh");
        let user = || Start { root: Path::new("/"), is_by_root: false }.judge(file.path());
        for (mode, name) in [(0o4755, "set-user-ID"), (0o2755, "set-group-ID")] {
            let set_mode = || {
                let permissions = std::fs::Permissions::from_mode(mode);
                std::fs::set_permissions(file.path(), permissions).expect("own file");
            };
            set_mode();
            assert!(user().objection().is_some_and(|said| said.contains(name)), "{name}");
            let chown = |owner| std::os::unix::fs::chown(file.path(), Some(owner), Some(owner));
            if chown(65_534).is_err() {
                eprintln!("only root can give files away: no more was tested");
                return;
            }
            // That takes the bits off.
            set_mode();
            assert!(privilege(file.path(), true).is_some_and(|said| said.contains(name)));
            chown(0).expect("as before");
            set_mode();
            let of_root = Some("its set-group-ID bit").filter(|_| mode == 0o2755);
            assert_eq!(privilege(file.path(), true), of_root);
        }
    }

    #[test]
    fn nothing_waits_for_what_is_no_file() {
        let place = tempfile::tempdir().expect("a directory");
        let pipe = place.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o755),
            0,
        )
        .expect("a pipe");
        for path in [&*pipe, Path::new("/dev/zero")] {
            assert!(reason(path).contains("is not a regular file"));
        }
        assert!(reason(script("#!/dev/zero").path()).contains("is not a regular file"));
    }

    #[test]
    fn file_capabilities_are_told_to_those_who_gain_by_them() {
        let file = script("#!/bin/sh");
        // cap_net_bind_service=ep, as linux/capability.h lays it out.
        let numbers: [u32; 5] = [0x0200_0001, 1 << 10, 0, 0, 0];
        let value: Vec<u8> = numbers.into_iter().flat_map(u32::to_le_bytes).collect();
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(file.path(), c"security.capability", &value, flags).is_err() {
            eprintln!("only root can give capabilities to files: nothing was tested");
            return;
        }
        assert_eq!(privilege(file.path(), false), Some("its file capabilities"));
        assert_eq!(privilege(file.path(), true), None);
    }

    #[test]
    fn rubbish_is_not_a_program() {
        let file = script("rubbish");
        assert!(reason(file.path()).contains("not a program for this machine"));
    }

    #[test]
    fn programs_of_musl_run_unchanged() {
        for libc in ["libc.so", "libc.musl-x86_64.so.1"] {
            let needed = [libc, "libssl.so.3"].map(str::to_owned).into();
            let fitness = judge_elf(&Elf { is_dynamic: true, needed });
            assert!(fitness.objection().is_some_and(|said| said.contains("musl")), "{libc}");
        }
        let needed = ["libc.so.6", "libssl.so.3"].map(str::to_owned).into();
        assert_eq!(judge_elf(&Elf { is_dynamic: true, needed }), Fitness::Accelerates);
    }

    #[test]
    fn other_tls_libraries_are_named() {
        let needed = ["libc.so.6", "libssl.so.1.1"].map(str::to_owned);
        assert_eq!(tls_library(&needed), Some(&"libssl.so.1.1".to_owned()));
        assert_eq!(tls_library(&needed[..1]), None);
    }
}
