//! Workloads: what the machine's CPU time goes into, by shares.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::speed::{self, Case};

/// What the CPU time of a machine goes into.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its kinds of work.
    pub work: Vec<Work>,
}

/// One kind of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// `application`, `packets`, or an operation of `widelane speed` such as `rsa2048/private`.
    pub what: String,
    /// Its share of the CPU time under the policy that others are held against.
    pub share: f64,
    /// Bytes of a message, of operations whose cost depends on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// Operations that follow one another before other work has its turn.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub in_a_row: u32,
}

/// Scalar code as applications have it.
pub const APPLICATION: &str = "application";

/// Lookups of bursts of packets in a set of rules.
pub const PACKETS: &str = "packets";

/// The longest TLS record.
const BYTES: usize = 16 << 10;

/// The longest message of a workload.
const BYTES_MAX: usize = 1 << 24;

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

/// What kind of work it is.
pub(super) enum Kind {
    Application,
    Packets,
    Operation(Case),
}

/// A workload that makes no sense.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// No TOML, or other fields.
    #[error(
        "{0} (a workload holds name = \"…\" and tables [[work]] with what = \"rsa2048/private\", \
         share = 0.25, and where they matter bytes = 16384 and in_a_row = 8)"
    )]
    Malformed(#[from] toml::de::Error),
    /// The name of no workload.
    #[error(
        "there is no workload {name:?}; give {}, or the path of a TOML file (docs/measure/tune.md)",
        names()
    )]
    Unknown {
        /// The name.
        name: String,
    },
    /// Work that there is not.
    #[error(
        "there is no work {what:?}; there are {APPLICATION}, {PACKETS}, and the operations of \
         `widelane speed`, such as rsa2048/private or aes-128-gcm/seal"
    )]
    UnknownWork {
        /// What was asked for.
        what: String,
    },
    /// A length that the work does not have, or that is out of bounds.
    #[error("{what} takes no messages of {bytes} bytes; leave bytes out, or say 1 to {BYTES_MAX}")]
    Bytes {
        /// The work.
        what: String,
        /// The length.
        bytes: usize,
    },
    /// No operations in a row.
    #[error("{what} is to be done {count} times in a row; say 1 to 65536")]
    InARow {
        /// The work.
        what: String,
        /// How often.
        count: u32,
    },
    /// Shares that are none.
    #[error("the shares must be positive and add up to 1; they add up to {sum:.3}")]
    Shares {
        /// What they add up to.
        sum: f64,
    },
}

fn names() -> String {
    Workload::presets().map(|preset| preset.name).join(", ")
}

impl Workload {
    /// The workloads with names, the usual one first.
    pub fn presets() -> [Workload; 4] {
        let aes = "aes-128-gcm/seal";
        let chacha = "chacha20-poly1305/seal";
        [
            preset(
                "mixed",
                &[
                    ("rsa2048/private", 0.24, 8),
                    ("x25519/derive", 0.03, 8),
                    ("x25519/generate", 0.02, 8),
                    (aes, 0.14, 8),
                    (chacha, 0.07, 8),
                    (APPLICATION, 0.50, 1),
                ],
            ),
            preset(
                "handshakes",
                &[
                    ("rsa2048/private", 0.60, 8),
                    ("x25519/derive", 0.07, 8),
                    ("x25519/generate", 0.03, 8),
                    (APPLICATION, 0.30, 1),
                ],
            ),
            preset("bulk-mixed", &[(chacha, 0.40, 8), (APPLICATION, 0.60, 1)]),
            preset(PACKETS, &[(PACKETS, 0.50, 4), (APPLICATION, 0.50, 1)]),
        ]
    }

    /// The workload with this name.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Unknown`], which lists those that there are.
    pub fn named(name: &str) -> Result<Self, WorkloadError> {
        let found = Workload::presets().into_iter().find(|preset| preset.name == name);
        found.ok_or_else(|| WorkloadError::Unknown { name: name.to_owned() })
    }

    /// Reads a workload from TOML.
    ///
    /// # Errors
    ///
    /// See [`WorkloadError`].
    pub fn parse(text: &str) -> Result<Self, WorkloadError> {
        let workload: Workload = toml::from_str(text)?;
        for work in &workload.work {
            work.kind()?;
        }
        let sum: f64 = workload.work.iter().map(|work| work.share).sum();
        let positive = workload.work.iter().all(|work| work.share > 0.0);
        if !positive || (sum - 1.0).abs() > SHARES_MISS_MAX {
            return Err(WorkloadError::Shares { sum });
        }
        Ok(workload)
    }

    /// The workload in TOML, as [`parse`](Self::parse) reads it.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("strings and numbers in tables are TOML")
    }
}

/// By how much the sum of shares may miss 1.
const SHARES_MISS_MAX: f64 = 0.005;

fn preset(name: &str, work: &[(&str, f64, u32)]) -> Workload {
    let work = work.iter().map(|(what, share, in_a_row)| Work {
        what: (*what).to_owned(),
        share: *share,
        bytes: None,
        in_a_row: *in_a_row,
    });
    Workload { name: name.to_owned(), work: work.collect() }
}

impl Work {
    pub(super) fn kind(&self) -> Result<Kind, WorkloadError> {
        let what = || self.what.clone();
        if !(1..=1 << 16).contains(&self.in_a_row) {
            return Err(WorkloadError::InARow { what: what(), count: self.in_a_row });
        }
        let without_bytes = |kind| match self.bytes {
            None => Ok(kind),
            Some(bytes) => Err(WorkloadError::Bytes { what: what(), bytes }),
        };
        match self.what.as_str() {
            APPLICATION => return without_bytes(Kind::Application),
            PACKETS => return without_bytes(Kind::Packets),
            _ => {}
        }
        let operation = speed::operations().find(|operation| operation.path() == self.what);
        let operation = operation.ok_or_else(|| WorkloadError::UnknownWork { what: what() })?;
        let bytes = self.bytes.unwrap_or(BYTES);
        let case = operation.cases(&[bytes], &[])[0];
        match case.size {
            None => without_bytes(Kind::Operation(case)),
            Some(1..=BYTES_MAX) => Ok(Kind::Operation(case)),
            Some(bytes) => Err(WorkloadError::Bytes { what: what(), bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_workload() {
        for preset in Workload::presets() {
            assert_eq!(Workload::parse(&preset.to_toml()).unwrap(), preset);
            assert_eq!(Workload::named(&preset.name).unwrap(), preset);
        }
        let error = Workload::named("idle").unwrap_err().to_string();
        assert!(error.contains("bulk-mixed, packets, or the path of a TOML file"), "{error}");
    }

    #[test]
    fn mistakes_are_named() {
        let of = |work: &str| Workload::parse(&format!("name = \"w\"\n[[work]]\n{work}"));
        for (work, expected) in [
            ("what = \"rot13\"\nshare = 1", "there is no work \"rot13\""),
            ("what = \"rsa2048\"\nshare = 1", "there is no work \"rsa2048\""),
            ("what = \"application\"\nshare = 0.5", "they add up to 0.500"),
            ("what = \"application\"\nshare = 1\nbytes = 3", "no messages of 3 bytes"),
            ("what = \"rsa2048/private\"\nshare = 1\nbytes = 3", "no messages of 3 bytes"),
            ("what = \"aes-128-gcm/seal\"\nshare = 1\nbytes = 0", "no messages of 0 bytes"),
            ("what = \"packets\"\nshare = 1\nin_a_row = 0", "0 times in a row"),
            ("what = \"packets\"\nshare = 1\nin_a_raw = 1", "unknown field `in_a_raw`"),
        ] {
            let error = of(work).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let both = "what = \"packets\"\nshare = 2\n[[work]]\nwhat = \"application\"\nshare = -1";
        assert!(matches!(of(both), Err(WorkloadError::Shares { .. })));
    }
}
