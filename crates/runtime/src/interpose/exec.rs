//! Doors in front of the exec functions: a server that starts itself anew stays accelerated.
//!
//! nginx upgrades its binary, and HAProxy reloads its configuration, by executing their own
//! program, nginx with an environment of its own making. Only then is ours put back; any other
//! program runs in the environment it was given, and without our part of it if this one, which
//! passes that on, has become a server itself.
#![allow(unsafe_code, reason = "exported symbols, C strings and lists of them")]

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::guard_uncancelled;
use crate::config::{
    Config, config, is_run_variable, preload_value, preload_variable, preload_without,
};
use crate::cork;
use crate::provider::provider;
use crate::real::{self, Strings};

#[unsafe(no_mangle)]
extern "C-unwind" fn execve(path: *const c_char, arguments: Strings, variables: Strings) -> c_int {
    cork::release_all();
    let ours = guard_uncancelled(None, || environment_for(Path::new(text(path)), variables));
    with_environment(ours, variables, |list| real::execve(path, arguments, list))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    execve(path, arguments, environment_of_process())
}

#[unsafe(no_mangle)]
extern "C-unwind" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    execvpe(file, arguments, environment_of_process())
}

#[unsafe(no_mangle)]
extern "C-unwind" fn execvpe(file: *const c_char, arguments: Strings, variables: Strings) -> c_int {
    cork::release_all();
    let ours = guard_uncancelled(None, || {
        let path = search(Path::new(text(file)))?;
        environment_for(&path, variables)
    });
    with_environment(ours, variables, |list| real::execvpe(file, arguments, list))
}

/// Executes a program in an environment of ours, or in the one given.
///
/// The child of a `vfork` does not come back from it, and its memory is the parent's: the parent
/// frees the environment when its `vfork` returns.
fn with_environment(
    ours: Option<Environment>,
    variables: Strings,
    execute: impl FnOnce(Strings) -> c_int,
) -> c_int {
    let list = ours.as_ref().map_or(variables, Environment::as_list);
    LEFT.set(ours.map_or(ptr::null_mut(), |ours| Box::into_raw(Box::new(ours))));
    let result = execute(list);
    let errno = real::errno();
    free_left();
    real::set_errno(errno);
    result
}

thread_local! {
    /// The environment of the exec function that this thread has called, or its child by `vfork`.
    static LEFT: Cell<*mut Environment> = const { Cell::new(ptr::null_mut()) };
}

/// Forgets the environment of a call that was interrupted, by a handler that calls `vfork`: its
/// child must not have it freed. It is lost if that call succeeds, and with it the program.
pub(super) fn disown_left() {
    LEFT.set(ptr::null_mut());
}

/// Frees the environment that an exec function has left.
pub(super) fn free_left() {
    let left = LEFT.replace(ptr::null_mut());
    if !left.is_null() {
        // SAFETY: made by `into_raw` in `with_environment`, and taken out of its only place.
        drop(unsafe { Box::from_raw(left) });
    }
}

/// An environment made for one call of an exec function.
struct Environment {
    /// Owns those strings in `list` that are not the program's.
    _strings: Vec<CString>,
    list: Vec<*const c_char>,
}

impl Environment {
    fn as_list(&self) -> Strings {
        self.list.as_ptr()
    }
}

/// The environment for executing `path`, where it is not the one given.
fn environment_for(path: &Path, variables: Strings) -> Option<Environment> {
    let config = config()?;
    if own_program().is_some_and(|own| is_same_program(&own, path)) {
        return Some(accelerated(config, list_of(variables)));
    }
    let is_server = provider().is_some();
    (config.is_passed_on && is_server).then(|| unaccelerated(config, list_of(variables)))
}

/// The program that this process runs; where there is no `/proc`, by the path it was executed by.
fn own_program() -> Option<PathBuf> {
    std::fs::read_link("/proc/self/exe").ok().or_else(|| {
        // SAFETY: reads a value that the kernel gave this process.
        let path = unsafe { libc::getauxval(libc::AT_EXECFN) };
        let path = text(ptr::with_exposed_provenance(path as usize));
        std::fs::canonicalize(path).ok()
    })
}

/// Whether `path` leads to `own`, as `/proc/self/exe` shows it; a replaced file is shown as
/// deleted.
fn is_same_program(own: &Path, path: &Path) -> bool {
    let own = own.as_os_str().as_bytes();
    let own = own.strip_suffix(b" (deleted)").unwrap_or(own);
    std::fs::canonicalize(path).is_ok_and(|path| path.as_os_str().as_bytes() == own)
}

/// `given` with the preload and the settings of `config` put back.
fn accelerated(config: &Config, given: Vec<*const c_char>) -> Environment {
    let mut others = None;
    let mut list = Vec::with_capacity(given.len() + config.variables.len() + 2);
    for variable in given {
        let bytes = text(variable).as_bytes();
        if let Some(value) = preload_value(bytes) {
            others = Some(value.to_owned());
        } else if !is_run_variable(bytes) {
            list.push(variable);
        }
    }
    let mut strings: Vec<CString> = Vec::new();
    for variable in &config.variables {
        let name_bytes = variable.to_bytes().split(|&byte| byte == b'=').next().unwrap_or_default();
        let is_given = list.iter().any(|&given| {
            let given = text(given).as_bytes();
            given.strip_prefix(name_bytes).is_some_and(|rest| rest.starts_with(b"="))
        });
        if !is_given {
            strings.push(variable.clone());
        }
    }
    strings.extend(preload_variable(&config.library, others.as_deref()));
    list.extend(strings.iter().map(|variable| variable.as_ptr()));
    list.push(ptr::null());
    Environment { _strings: strings, list }
}

/// `given` without the preload and what the runtime looks for.
fn unaccelerated(config: &Config, given: Vec<*const c_char>) -> Environment {
    let mut list = Vec::with_capacity(given.len() + 1);
    let mut strings: Vec<CString> = Vec::new();
    for variable in given {
        let bytes = text(variable).as_bytes();
        match preload_value(bytes) {
            Some(value) => strings.extend(preload_without(&config.library, value)),
            None if is_run_variable(bytes) => {}
            None => list.push(variable),
        }
    }
    list.extend(strings.iter().map(|variable| variable.as_ptr()));
    list.push(ptr::null());
    Environment { _strings: strings, list }
}

/// Where the exec functions that search find `file`.
fn search(file: &Path) -> Option<PathBuf> {
    if file.as_os_str().as_bytes().contains(&b'/') {
        return Some(file.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(file)).find(|path| {
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
        // SAFETY: a C string; asking for permission changes nothing.
        let answer = unsafe { libc::access(path.as_ptr(), libc::X_OK) };
        answer == 0
    })
}

fn text<'a>(string: *const c_char) -> &'a OsStr {
    if string.is_null() {
        return OsStr::new("");
    }
    // SAFETY: the program's C string, which it keeps until the exec function is done with it.
    let string = unsafe { CStr::from_ptr(string) };
    OsStr::from_bytes(string.to_bytes())
}

/// The pointers of a null-terminated list, without the end mark.
fn list_of(list: Strings) -> Vec<*const c_char> {
    let mut strings = Vec::new();
    if list.is_null() {
        return strings;
    }
    let mut next = list;
    loop {
        // SAFETY: the end mark has not been reached.
        let string = unsafe { next.read() };
        if string.is_null() {
            return strings;
        }
        strings.push(string);
        // SAFETY: as above.
        next = unsafe { next.add(1) };
    }
}

/// libc's `environ`.
fn environment_of_process() -> Strings {
    unsafe extern "C" {
        static environ: Strings;
    }
    // SAFETY: a variable of libc, read as the exec functions of libc would.
    unsafe { environ }
}

#[cfg(test)]
pub(super) use tests::{has_left, leave_one};

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    /// An environment of one variable.
    fn one() -> Environment {
        let strings = vec![c"A=1".to_owned()];
        let list = vec![strings[0].as_ptr(), ptr::null()];
        Environment { _strings: strings, list }
    }

    /// Does what a child of `vfork` does that executes another program.
    pub(in super::super) fn leave_one() {
        LEFT.set(Box::into_raw(Box::new(one())));
    }

    pub(in super::super) fn has_left() -> bool {
        !LEFT.get().is_null()
    }

    fn strings(environment: &Environment) -> Vec<String> {
        list_of(environment.as_list())
            .into_iter()
            .map(|string| text(string).to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn puts_back_what_the_constructor_took() {
        let config = Config {
            is_pq: false,
            provider: c"/w/widelane.so".to_owned(),
            library: OsString::from("/w/runtime.so"),
            variables: vec![
                c"WIDELANE_POLICY=/p".to_owned(),
                c"WIDELANE_PROVIDER=/w/widelane.so".to_owned(),
            ],
            is_passed_on: false,
        };
        let given = [c"PATH=/bin", c"LD_PRELOAD=/a.so", c"WIDELANE_POLICY=/mine"];
        let environment =
            accelerated(&config, given.iter().map(|string| string.as_ptr()).collect());
        assert_eq!(
            strings(&environment),
            [
                "PATH=/bin",
                "WIDELANE_POLICY=/mine",
                "WIDELANE_PROVIDER=/w/widelane.so",
                "LD_PRELOAD=/w/runtime.so:/a.so",
            ]
        );
    }

    #[test]
    fn takes_out_what_was_passed_on() {
        let config = Config {
            is_pq: false,
            provider: c"/w/widelane.so".to_owned(),
            library: OsString::from("/w/runtime.so"),
            variables: Vec::new(),
            is_passed_on: true,
        };
        let given = [
            c"PATH=/bin",
            c"LD_PRELOAD=/w/runtime.so:/a.so",
            c"WIDELANE_PROVIDER=/w/widelane.so",
            c"HOME=/",
        ];
        let environment =
            unaccelerated(&config, given.iter().map(|string| string.as_ptr()).collect());
        assert_eq!(strings(&environment), ["PATH=/bin", "HOME=/", "LD_PRELOAD=/a.so"]);
    }

    #[test]
    fn an_environment_is_freed_if_its_program_cannot_be_executed() {
        let result = with_environment(Some(one()), ptr::null(), |list| {
            assert_eq!(list_of(list).len(), 1);
            assert!(has_left());
            -1
        });
        assert_eq!((result, has_left()), (-1, false));
    }

    #[test]
    fn recognises_its_own_program_even_when_replaced() {
        let shell = std::fs::canonicalize("/bin/sh").expect("every system has a shell");
        assert!(is_same_program(&shell, Path::new("/bin/sh")));
        let mut deleted = shell.into_os_string();
        deleted.push(" (deleted)");
        assert!(is_same_program(Path::new(&deleted), Path::new("/bin/sh")));
        assert!(!is_same_program(Path::new(&deleted), Path::new("/bin/cat")));
        assert!(!is_same_program(Path::new(&deleted), Path::new("/no/such/file")));
    }
}
