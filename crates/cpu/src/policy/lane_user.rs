//! The user that a lane process runs as.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The name of the user that the lane process runs as, instead of that of the program whose keys it
/// has; docs/design/lane-cpus.md has the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneUser(String);

/// What is no name of a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the user of the lane process is a name such as widelane, not {0:?}")]
pub struct UnknownLaneUser(pub String);

impl LaneUser {
    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl FromStr for LaneUser {
    type Err = UnknownLaneUser;

    fn from_str(text: &str) -> Result<Self, UnknownLaneUser> {
        // It becomes part of a unit file and of a line on standard error.
        let is_allowed = |char: char| char.is_ascii_alphanumeric() || "._-@".contains(char);
        let begins = text.starts_with(|char: char| char.is_ascii_alphanumeric() || char == '_');
        if begins && text.chars().all(is_allowed) {
            Ok(LaneUser(text.to_owned()))
        } else {
            Err(UnknownLaneUser(text.to_owned()))
        }
    }
}

impl fmt::Display for LaneUser {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Serialize for LaneUser {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for name in ["widelane", "_lanes", "www-data", "user@example.org", "1000"] {
            assert_eq!(name.parse::<LaneUser>().map(|user| user.to_string()), Ok(name.to_owned()));
        }
        for wrong in ["", "-x", "a b", "a:b", "../a", "a\"", "é"] {
            let error = wrong.parse::<LaneUser>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("such as widelane, not {wrong:?}")), "{error}");
        }
    }
}
