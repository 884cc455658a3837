//! A result: one scenario, one subject, one metric.

use serde::{Deserialize, Serialize};

/// One result.
///
/// A room or server that the machine lacks is a row with [`Status::NotApplicable`], never a missing
/// row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// What was done, as a slash path: `nginx/tls1.2/rsa2048/x25519/c200`, `ecdsa-p256/sign`.
    pub scenario: String,
    /// Who did it: `native`, `native-masked`, `accelerated`, `async`, `configured`, `widelane`,
    /// `openssl`; a policy, an instruction, an agent.
    pub subject: String,
    /// Room whose kernel ran; absent for subjects that are not ours.
    pub room: Option<String>,
    /// What was measured, as listed in `docs/formats/results.md`.
    pub metric: String,
    /// Unit of `value`; `1` for a plain number.
    pub unit: String,
    /// The value: median over the accepted rounds.
    pub value: Option<f64>,
    /// Subject that `value` is compared with.
    pub rival: Option<String>,
    /// `value` of this subject divided by that of the rival: the median of the rounds' ratios.
    pub ratio: Option<f64>,
    /// Lower end of the 95 % interval of `ratio`, itself the ratio of a round; absent where there
    /// were too few rounds for an interval.
    pub ratio_low: Option<f64>,
    /// Upper end of the 95 % interval of `ratio`.
    pub ratio_high: Option<f64>,
    /// Whether the row can be relied on.
    pub status: Status,
    /// Why not.
    pub reason: Option<String>,
    /// What it means, where the command judges: `free`, `chosen`.
    #[serde(default)]
    pub verdict: Option<String>,
}

/// Whether a result can be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It can.
    #[default]
    Ok,
    /// Measured, but not to be relied on; the reason says why. A value may be there for the
    /// curious.
    Rejected,
    /// Cannot be measured on this machine; the reason says what is missing.
    NotApplicable,
}
