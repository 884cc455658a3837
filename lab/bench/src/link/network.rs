//! A network of our own for users other than root: a user namespace, in which this process may make
//! interfaces, and a network namespace in it.

use std::{fs, io};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use super::{LinkError, interface};

/// Moves this process, with all that it starts from now on, into a network of its own, where it has
/// the loopback interface and may make others. Users and files stay what they are.
///
/// Call it before there are other threads: the kernel refuses it afterwards.
///
/// # Errors
///
/// [`LinkError::Network`], with what to do about it.
pub fn enter() -> Result<(), LinkError> {
    let (user, group) = (geteuid(), getegid());
    let entered = unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
        .map_err(io::Error::from)
        // The kernel demands this before it maps a group: a process that leaves a group could open
        // files that are closed to that group.
        .and_then(|()| fs::write("/proc/self/setgroups", "deny"))
        .and_then(|()| fs::write("/proc/self/uid_map", format!("{user} {user} 1")))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("{group} {group} 1")))
        .and_then(|()| interface::start(interface::LOOPBACK));
    entered.map_err(|source| {
        let setting = |path: &str| fs::read_to_string(format!("/proc/sys/{path}")).ok();
        LinkError::Network { remedy: remedy(&source, setting), source }
    })
}

/// What a user can do about `error`, by the settings of this system.
fn remedy(error: &io::Error, setting: impl Fn(&str) -> Option<String>) -> &'static str {
    let is = |path: &str, value: &str| setting(path).is_some_and(|text| text.trim() == value);
    if error.raw_os_error() == Some(Errno::ENOSPC as i32) || is("user/max_user_namespaces", "0") {
        "after raising user.max_user_namespaces by sysctl"
    } else if is("kernel/unprivileged_userns_clone", "0") {
        "after `sysctl kernel.unprivileged_userns_clone=1`"
    } else if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        "after `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    } else {
        "outside this container or sandbox, which forbids user namespaces"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_the_setting_that_forbids_it() {
        let remedy_where = |error: Errno, set: &[(&str, &str)]| {
            remedy(&error.into(), |path| {
                let found = set.iter().find(|(name, _)| *name == path);
                found.map(|(_, value)| format!("{value}\n"))
            })
        };
        let many = ("user/max_user_namespaces", "96364");
        assert!(remedy_where(Errno::ENOSPC, &[many]).contains("max_user_namespaces"));
        let none = &[("user/max_user_namespaces", "0")];
        assert!(remedy_where(Errno::EPERM, none).contains("max_user_namespaces"));
        let debian = &[many, ("kernel/unprivileged_userns_clone", "0")];
        assert!(remedy_where(Errno::EPERM, debian).contains("userns_clone=1"));
        let ubuntu = &[many, ("kernel/apparmor_restrict_unprivileged_userns", "1")];
        assert!(remedy_where(Errno::EACCES, ubuntu).contains("userns=0"));
        let open = &[
            many,
            ("kernel/unprivileged_userns_clone", "1"),
            ("kernel/apparmor_restrict_unprivileged_userns", "0"),
        ];
        assert!(remedy_where(Errno::EPERM, open).contains("sandbox"));
        assert!(remedy_where(Errno::EPERM, &[]).contains("sandbox"));
    }
}
