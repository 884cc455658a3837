//! The machine as results files describe it.

use widelane_cpu::policy::Resolved;
use widelane_cpu::{Policy, Topology, rooms};
pub use widelane_crypto::Family;
use widelane_results::{Machine, RoomStatus};

use crate::programs::Programs;

/// Describes this machine, its software and the policy in force.
pub fn describe(programs: &Programs, resolved: &Resolved) -> Machine {
    let cpu = widelane_cpu::Machine::detect();
    let rooms = rooms::status(&resolved.policy).into_iter().map(|status| RoomStatus {
        room: status.room.name().to_owned(),
        open: status.open,
        reason: status.reason,
    });
    Machine {
        model: Some(cpu.model),
        microcode: cpu.microcode,
        hypervisor: cpu.hypervisor,
        kernel: cpu.kernel,
        cpus: Topology::detect().cpus.len() as u32,
        openssl: Some(openssl::version::version().to_owned()),
        nginx: programs.nginx_version(),
        haproxy: programs.haproxy_version(),
        haproxy_aws_lc: programs.haproxy_aws_lc_version(),
        widelane: Some(env!("CARGO_PKG_VERSION").to_owned()),
        policy: resolved.policy.to_string(),
        policy_source: resolved.source.to_string(),
        rooms: rooms.collect(),
    }
}

/// The families whose operations have lanes that are open.
pub fn with_lanes(policy: &Policy) -> Vec<Family> {
    let has_lanes = |family: &Family| family.room_with_lanes(policy).is_some();
    Family::ALL.into_iter().filter(has_lanes).collect()
}
