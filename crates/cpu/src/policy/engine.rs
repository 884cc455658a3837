//! What does private-key operations: the lanes of the CPU, or a device.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// What does those private-key operations that it can do; all others, and those that it fails, the
/// CPU does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// The CPU.
    #[default]
    Cpu,
    /// Intel QuickAssist (QAT), by qatlib, where that costs the CPU less; docs/operate/qat.md.
    Qat,
    /// The same wherever it has room, whatever that costs.
    QatFirst,
}

/// What is no engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an engine is cpu, qat or qat-first, not {0:?}")]
pub struct UnknownEngine(pub String);

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, UnknownEngine> {
        match text {
            "cpu" => Ok(Engine::Cpu),
            "qat" => Ok(Engine::Qat),
            "qat-first" => Ok(Engine::QatFirst),
            _ => Err(UnknownEngine(text.to_owned())),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Engine::Cpu => "cpu",
            Engine::Qat => "qat",
            Engine::QatFirst => "qat-first",
        })
    }
}

impl Serialize for Engine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_read_and_written() {
        for engine in [Engine::Cpu, Engine::Qat, Engine::QatFirst] {
            assert_eq!(engine.to_string().parse(), Ok(engine));
        }
        let error = "gpu".parse::<Engine>().unwrap_err().to_string();
        assert_eq!(error, "an engine is cpu, qat or qat-first, not \"gpu\"");
    }
}
