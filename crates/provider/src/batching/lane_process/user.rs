//! The user that a lane process runs as, if that is not the program's.
#![allow(unsafe_code, reason = "asks for a user, and becomes it")]

use std::ffi::{CString, c_int};
use std::{io, mem, ptr};

/// A user of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    id: libc::uid_t,
    group: libc::gid_t,
}

impl User {
    /// Looks up a user by name. To be called before processes are cloned: where users are not in a
    /// file, the C library may have to ask a name service.
    ///
    /// # Errors
    /// A text that says why there is none.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        let c_name = CString::new(name).map_err(|_| format!("there is no user {name:?}"))?;
        let mut text = vec![0; TEXT_BYTES];
        // SAFETY: numbers and null pointers.
        let mut entry: libc::passwd = unsafe { mem::zeroed() };
        let mut found = ptr::null_mut();
        // SAFETY: a C string, and places of these sizes to write to.
        let error = unsafe {
            libc::getpwnam_r(
                c_name.as_ptr(),
                &raw mut entry,
                text.as_mut_ptr(),
                text.len(),
                &raw mut found,
            )
        };
        match (error, found.is_null()) {
            (0, false) => Ok(User { id: entry.pw_uid, group: entry.pw_gid }),
            (0, true) => Err(format!("there is no user {name}")),
            (error, _) => Err(format!(
                "the user {name} cannot be looked up: {}",
                io::Error::from_raw_os_error(error)
            )),
        }
    }

    /// Makes this process, which has one thread, one of the user's for good: in its group, in no
    /// other, and with no right to anything else.
    pub(super) fn assume(self) -> io::Result<()> {
        // SAFETY: no groups.
        check(unsafe { libc::setgroups(0, ptr::null()) })?;
        // SAFETY: numbers.
        check(unsafe { libc::setresgid(self.group, self.group, self.group) })?;
        // SAFETY: numbers.
        check(unsafe { libc::setresuid(self.id, self.id, self.id) })
    }
}

fn check(status: c_int) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Room for the entry of a user: more than Linux systems have.
const TEXT_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name() {
        assert_eq!(User::named("root"), Ok(User { id: 0, group: 0 }));
        let missing = User::named("no-such-user-anywhere");
        assert_eq!(missing, Err("there is no user no-such-user-anywhere".to_owned()));
    }
}
