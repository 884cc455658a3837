//! Where a run took place: hardware, software and the policy in force.

use serde::{Deserialize, Serialize};

/// The machine, as far as it is known; an unknown property is absent, never a made-up value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// CPU model as the CPU names itself.
    pub model: Option<String>,
    /// Microcode revision.
    pub microcode: Option<String>,
    /// Hypervisor, if the machine is virtual.
    pub hypervisor: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Online logical CPUs.
    pub cpus: u32,
    /// Version of the OpenSSL in use.
    pub openssl: Option<String>,
    /// Version of nginx, if installed.
    pub nginx: Option<String>,
    /// Version of HAProxy, if installed.
    pub haproxy: Option<String>,
    /// Versions of HAProxy on AWS-LC and of that, where it is compared.
    #[serde(default)]
    pub haproxy_aws_lc: Option<String>,
    /// Version of widelane itself.
    pub widelane: Option<String>,
    /// The width policy in force, in words.
    pub policy: String,
    /// Where that policy came from.
    pub policy_source: String,
    /// Every room, open or closed.
    pub rooms: Vec<RoomStatus>,
}

/// Whether one room may run here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoomStatus {
    /// Name of the room.
    pub room: String,
    /// Whether the CPU has it and the policy leaves it open.
    pub open: bool,
    /// Why it is closed.
    pub reason: Option<String>,
}
