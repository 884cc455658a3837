//! What `widelane run` told this process through its environment; the only reader of it here.
//!
//! In a program that is linked with libssl, the constructor takes the run-only variables out again
//! before `main` starts, so that children (log rotation, CGI programs, hooks) run without us. The
//! exec functions put them back where the process starts its own program anew (see
//! `interpose/exec.rs`). Any other program passes them on: it may be a wrapper that starts the
//! server, or becomes it. Should it load libssl later and become a server, its exec functions take
//! them out.
#![allow(unsafe_code, reason = "the constructor and the environment before main")]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;

use widelane_bridge::hooks::Variable;
use widelane_bridge::variables::{PQ_VALUE, PQ_VARIABLE, PRELOAD_VARIABLE, PROVIDER_VARIABLE};

static CONFIG: OnceLock<Config> = OnceLock::new();

/// The run-time configuration of this process.
pub(crate) struct Config {
    /// Path of the provider to load.
    pub(crate) provider: CString,
    /// Whether X25519MLKEM768 comes in front of OpenSSL's default groups.
    pub(crate) is_pq: bool,
    /// Path of this library as it stood in `LD_PRELOAD`.
    pub(crate) library: OsString,
    /// Our variables (`NAME=value`) as they were at the start, to be put back; without the preload.
    pub(crate) variables: Vec<CString>,
    /// Whether the environment still has them.
    pub(crate) is_passed_on: bool,
}

/// The configuration, if this process was started by `widelane run`.
pub(crate) fn config() -> Option<&'static Config> {
    CONFIG.get()
}

/// Called by the provider when it reads its configuration; see `widelane_bridge::hooks`.
///
/// # Safety
///
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn widelane_runtime_variable(name: *const c_char) -> *const c_char {
    // SAFETY: as the caller promises.
    let name = unsafe { CStr::from_ptr(name) };
    let value = config().and_then(|config| value_at_start(&config.variables, name));
    value.map_or(ptr::null(), CStr::as_ptr)
}

const _: Variable = widelane_runtime_variable;

/// The value of `name` among variables (`NAME=value`).
fn value_at_start<'a>(variables: &'a [CString], name: &CStr) -> Option<&'a CStr> {
    variables.iter().find_map(|variable| {
        let rest = variable.as_bytes_with_nul().strip_prefix(name.to_bytes())?;
        CStr::from_bytes_with_nul(rest.strip_prefix(b"=")?).ok()
    })
}

/// Whether `variable` (`NAME=value`) carries one of the run-only settings.
pub(crate) fn is_run_variable(variable: &[u8]) -> bool {
    [PROVIDER_VARIABLE, PQ_VARIABLE, PRELOAD_VARIABLE].iter().any(|name| {
        variable.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
    })
}

/// `LD_PRELOAD=` with this library put in front of `others`, once.
pub(crate) fn preload_variable(library: &OsStr, others: Option<&OsStr>) -> Option<CString> {
    let without = others.and_then(|list| without(list, library));
    let mut list = library.to_owned();
    if let Some(others) = without.as_deref().or(others).filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    assignment(PRELOAD_VARIABLE.as_ref(), &list)
}

/// `LD_PRELOAD=` without this library; nothing if no other is left.
pub(crate) fn preload_without(library: &OsStr, list: &OsStr) -> Option<CString> {
    let others = without(list, library).unwrap_or_else(|| list.to_owned());
    if others.is_empty() { None } else { assignment(PRELOAD_VARIABLE.as_ref(), &others) }
}

/// The value of `variable` (`NAME=value`) if it is the preload list.
pub(crate) fn preload_value(variable: &[u8]) -> Option<&OsStr> {
    let rest = variable.strip_prefix(PRELOAD_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
    Some(OsStr::from_bytes(rest))
}

/// A preload list without the entries of `library`; nothing if it has none.
fn without(list: &OsStr, library: &OsStr) -> Option<OsString> {
    // The dynamic loader takes colons and spaces for separators.
    let entries = list.as_bytes().split(|byte| matches!(byte, b':' | b' '));
    let (ours, others): (Vec<_>, Vec<_>) =
        entries.filter(|entry| !entry.is_empty()).partition(|entry| *entry == library.as_bytes());
    (!ours.is_empty()).then(|| OsString::from_vec(others.join(&b':')))
}

/// Runs when the dynamic loader has loaded us: before `main`, in a single thread.
extern "C" fn constructor(
    _count: c_int,
    _arguments: *const *const u8,
    _variables: *const *const u8,
) {
    let _ = std::panic::catch_unwind(crate::real::find_functions_of_system);
    let _ = std::panic::catch_unwind(take_over);
    let _ = std::panic::catch_unwind(crate::foreign::keep_apart);
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const u8, *const *const u8) = constructor;

fn take_over() {
    // The user who started such a program chose its environment, and must not choose what it loads.
    if raised_privileges() {
        return;
    }
    let Some(library) = own_path() else { return };
    let Some(list) = std::env::var_os(PRELOAD_VARIABLE) else { return };
    let Some(others) = without(&list, library) else { return };
    let variables = our_variables(std::env::vars_os());
    let provider = std::env::var_os(PROVIDER_VARIABLE);
    let pq = std::env::var_os(PQ_VARIABLE);
    let is_passed_on = provider.is_some() && !crate::real::has_libssl();
    if !is_passed_on {
        if others.is_empty() {
            // SAFETY: before `main` there is no other thread that could read the environment.
            unsafe { std::env::remove_var(PRELOAD_VARIABLE) };
        } else {
            // SAFETY: as above.
            unsafe { std::env::set_var(PRELOAD_VARIABLE, &others) };
        }
        // SAFETY: as above.
        unsafe { std::env::remove_var(PROVIDER_VARIABLE) };
        // SAFETY: as above.
        unsafe { std::env::remove_var(PQ_VARIABLE) };
    }
    let Some(provider) = provider else { return };
    let Ok(provider) = CString::new(provider.into_vec()) else { return };
    let is_pq = pq.is_some_and(|pq| pq == PQ_VALUE);
    crate::notice::share();
    let library = library.to_owned();
    let _ = CONFIG.set(Config { provider, is_pq, library, variables, is_passed_on });
}

/// Those of an environment whose names say that they are ours.
fn our_variables(environment: impl Iterator<Item = (OsString, OsString)>) -> Vec<CString> {
    environment
        .filter(|(name, _)| name.as_bytes().starts_with(b"WIDELANE_"))
        .filter_map(|(name, value)| assignment(&name, &value))
        .collect()
}

/// Whether the program runs with more rights than the user who started it.
fn raised_privileges() -> bool {
    // SAFETY: reads a value that the kernel gave this process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

fn assignment(name: &OsStr, value: &OsStr) -> Option<CString> {
    let mut variable = name.to_owned();
    variable.push("=");
    variable.push(value);
    CString::new(variable.into_vec()).ok()
}

/// The path under which the dynamic loader knows this library.
fn own_path() -> Option<&'static OsStr> {
    let info = crate::real::object_at(constructor as *const c_void)?;
    // SAFETY: the loader's own string, which lives as long as this library.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(OsStr::from_bytes(path.to_bytes()))
}

#[cfg(test)]
mod tests {
    use widelane_bridge::counters::COUNTERS_DIRECTORY_VARIABLE;
    use widelane_cpu::policy;

    use super::*;

    #[test]
    fn takes_only_its_own_entry_out_of_the_preload_list() {
        let ours = OsStr::new("/opt/libwidelane_runtime.so");
        for (list, others) in [
            ("/opt/libwidelane_runtime.so", ""),
            ("/opt/libwidelane_runtime.so:/a.so", "/a.so"),
            ("/a.so /opt/libwidelane_runtime.so /b.so", "/a.so:/b.so"),
            ("/opt/libwidelane_runtime.so:/a.so:/opt/libwidelane_runtime.so", "/a.so"),
        ] {
            assert_eq!(
                without(OsStr::new(list), ours).as_deref(),
                Some(OsStr::new(others)),
                "{list}"
            );
        }
        assert_eq!(without(OsStr::new("/opt/libwidelane_runtime.so.bak"), ours), None);
        assert_eq!(without(OsStr::new(""), ours), None);
    }

    #[test]
    fn knows_its_variables_by_their_whole_name() {
        assert!(is_run_variable(b"LD_PRELOAD=/x.so"));
        assert!(is_run_variable(b"WIDELANE_PROVIDER="));
        assert!(!is_run_variable(b"WIDELANE_PROVIDER_X=1"));
        assert!(!is_run_variable(b"WIDELANE_POLICY=/p"));
        assert_eq!(preload_value(b"LD_PRELOAD=/a.so"), Some(OsStr::new("/a.so")));
        assert_eq!(preload_value(b"PATH=/bin"), None);
    }

    #[test]
    fn keeps_every_variable_of_ours() {
        let read = policy::variables().chain([COUNTERS_DIRECTORY_VARIABLE, PROVIDER_VARIABLE]);
        let names: Vec<_> = read.chain(["WIDELANE_OF_A_LATER_VERSION"]).collect();
        let others = ["PATH", "WIDELANE", "MY_WIDELANE_POLICY"];
        let given = names.iter().chain(&others).map(|name| ((*name).into(), "1".into()));
        let kept = our_variables(given).into_iter().map(|variable| variable.into_string().unwrap());
        assert!(kept.eq(names.iter().map(|name| format!("{name}=1"))));
    }

    #[test]
    fn finds_what_a_variable_was_at_the_start() {
        let variables = [c"WIDELANE_POLICY=/p", c"WIDELANE_WAIT_MAX="].map(CStr::to_owned);
        assert_eq!(value_at_start(&variables, c"WIDELANE_POLICY"), Some(c"/p"));
        assert_eq!(value_at_start(&variables, c"WIDELANE_WAIT_MAX"), Some(c""));
        for other in [c"WIDELANE_POL", c"WIDELANE_COMBINE", c""] {
            assert_eq!(value_at_start(&variables, other), None);
        }
    }

    #[test]
    fn joins_the_preload_list() {
        let ours = OsStr::new("/w.so");
        let alone = preload_variable(ours, None).expect("no nul");
        let before = preload_variable(ours, Some(OsStr::new("/a.so"))).expect("no nul");
        assert_eq!(alone.as_c_str(), c"LD_PRELOAD=/w.so");
        assert_eq!(before.as_c_str(), c"LD_PRELOAD=/w.so:/a.so");
        let without = |list| preload_without(ours, OsStr::new(list));
        assert_eq!(without("/w.so:/a.so").as_deref(), Some(c"LD_PRELOAD=/a.so"));
        assert_eq!(without("/w.so"), None);
        let again = preload_variable(ours, Some(OsStr::new("/w.so:/a.so:/w.so"))).expect("no nul");
        assert_eq!(again, before, "a program that executes itself passes it on");
    }
}
