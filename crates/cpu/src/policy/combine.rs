//! Whether workers execute each other's operations.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Whether the workers of a server execute each other's operations, so that batches fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combine {
    /// They do.
    On,
    /// Each executes its own.
    Off,
    /// They do where that is known to gain; docs/operate/combining.md says where.
    #[default]
    Auto,
}

/// What is no such choice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("combining is on, off or auto, not {0:?}")]
pub struct UnknownCombine(pub String);

impl FromStr for Combine {
    type Err = UnknownCombine;

    fn from_str(text: &str) -> Result<Self, UnknownCombine> {
        match text {
            "on" => Ok(Combine::On),
            "off" => Ok(Combine::Off),
            "auto" => Ok(Combine::Auto),
            _ => Err(UnknownCombine(text.to_owned())),
        }
    }
}

impl fmt::Display for Combine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Combine::On => "on",
            Combine::Off => "off",
            Combine::Auto => "auto",
        })
    }
}

impl Serialize for Combine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_and_written() {
        for choice in [Combine::On, Combine::Off, Combine::Auto] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let error = "yes".parse::<Combine>().unwrap_err().to_string();
        assert_eq!(error, "combining is on, off or auto, not \"yes\"");
    }
}
