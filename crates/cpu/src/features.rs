//! The CPUID features that Widelane looks at.
#![allow(unsafe_code, reason = "whether tiles are saved is read from XCR0")]

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::LazyLock;

use serde::Serialize;

use crate::machine::family_of;

/// One CPUID feature and whether this machine has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// The feature's name as in `/proc/cpuinfo` and `is_x86_feature_detected!`.
    pub name: &'static str,
    /// Whether the CPU has it and the operating system saves its registers.
    pub detected: bool,
}

macro_rules! features {
    ($($name:tt),* $(,)?) => {
        /// The names of [`all`], in the same order.
        pub const NAMES: &[&str] = &[$($name),*];

        /// Every feature in [`NAMES`], asked of this machine.
        pub fn all() -> [Feature; NAMES.len()] {
            [$(Feature { name: $name, detected: is_x86_feature_detected!($name) }),*]
        }
    };
}

features![
    "aes",
    "pclmulqdq",
    "sha",
    "adx",
    "popcnt",
    "bmi2",
    "avx",
    "avx2",
    "fma",
    "avxifma",
    "vaes",
    "vpclmulqdq",
    "gfni",
    "avx512f",
    "avx512dq",
    "avx512bw",
    "avx512vl",
    "avx512ifma",
    "avx512vbmi",
    "avx512vbmi2",
    "avx512fp16",
];

/// The features among `wanted`, by name, that this machine lacks.
pub fn missing(wanted: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    let all = all();
    wanted
        .iter()
        .copied()
        .filter(move |name| !all.iter().any(|feature| feature.name == *name && feature.detected))
}

/// The family of Zen 3 and Zen 4.
const AMD_FAMILY_19: u32 = 0x19;

/// The family of Zen 5.
const AMD_FAMILY_1A: u32 = 0x1a;

/// The family of a CPU of AMD's.
fn amd_family() -> Option<u32> {
    static FAMILY: LazyLock<Option<u32>> = LazyLock::new(|| {
        let is_amd = __cpuid(0).ebx == u32::from_le_bytes(*b"Auth");
        is_amd.then(|| family_of(__cpuid(1).eax))
    });
    *FAMILY
}

/// Whether a chain of additions and rotations takes two cycles a step in vectors, as it does on
/// Zen 5, and one in general registers: then a short chain is done sooner in the latter.
///
/// No feature flag says so; nothing but speed may depend on it.
pub fn vector_steps_take_two_cycles() -> bool {
    amd_family() == Some(AMD_FAMILY_1A)
}

/// Whether vectors keep their units busy and leave those of the general registers idle, as on
/// Zen 4: what is done in the latter costs little then. On Intel's CPUs both share ports; on Zen 5
/// vectors wait for themselves more than for units.
///
/// No feature flag says so; nothing but speed may depend on it.
pub fn vectors_leave_general_registers_idle() -> bool {
    amd_family() == Some(AMD_FAMILY_19)
}

/// Whether what a register of 512 bits asks for is done in two halves, as on Zen 4: then a register
/// that is not full gains by being narrower.
///
/// No feature flag says so; nothing but speed may depend on it.
pub fn wide_vectors_take_two_turns() -> bool {
    amd_family() == Some(AMD_FAMILY_19)
}

/// Whether loads and stores beside wide operations lower the clock, as on Granite Rapids: then few
/// wide ones are better than many narrow ones, at the price of operations. On Zen 4 and Zen 5 they
/// are done for nothing.
///
/// No feature flag says so; nothing but speed may depend on it.
pub fn loads_and_stores_lower_the_clock() -> bool {
    amd_family().is_none()
}

/// CPUID leaf 7, EDX: tiles, and products of bytes in them (Intel SDM, volume 2, CPUID).
const AMX_TILE: u32 = 1 << 24;
const AMX_INT8: u32 = 1 << 25;

/// XCR0: the tiles' configuration, and their data (volume 1, 13.3).
const XCR0_TILES: u32 = 0b11 << 17;

/// Whether the CPU multiplies tiles of bytes (AMX) and the operating system saves them; a process
/// needs its leave as well. The standard library does not tell yet.
pub fn tiles() -> bool {
    let wanted = AMX_TILE | AMX_INT8;
    if !is_x86_feature_detected!("avx512f") || __cpuid_count(7, 0).edx & wanted != wanted {
        return false;
    }
    let xcr0: u32;
    // SAFETY: AVX-512 was found, and that is found only where programs may read XCR0.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") xcr0, out("edx") _, options(nomem, nostack)) };
    xcr0 & XCR0_TILES == XCR0_TILES
}

/// CPUID leaf 13, sub-leaf 1, EAX: XGETBV returns which state is in use (volume 1, 13.2).
const TELLS_STATE_IN_USE: u32 = 1 << 2;

/// Bits 128 to 255 of vector registers 0 to 15, and their bits 256 to 511 (volume 1, 13.1).
const XINUSE_UPPER_HALVES: u32 = 1 << 2 | 1 << 6;

/// Whether the upper halves of vector registers 0 to 15 were in use. Code for any x86-64 that runs
/// then pays for it: on Intel's cores its first 128-bit instruction waits until all before it has
/// retired. `None` where the CPU does not tell, which one does not that says so of halves that were
/// just given up.
///
/// If they were in use, they are not afterwards.
pub fn upper_halves_in_use() -> Option<bool> {
    if !is_x86_feature_detected!("avx") || __cpuid_count(13, 1).eax & TELLS_STATE_IN_USE == 0 {
        return None;
    }
    let in_use = || {
        let state: u32;
        // SAFETY: the CPU has this form of XGETBV, and where there is AVX programs may execute it.
        unsafe {
            asm!("xgetbv", in("ecx") 1, out("eax") state, out("edx") _, options(nomem, nostack));
        }
        state & XINUSE_UPPER_HALVES != 0
    };
    if !in_use() {
        return Some(false);
    }
    // SAFETY: the CPU has AVX; every register written counts as written by a call.
    unsafe { asm!("vzeroupper", clobber_abi("C"), options(nomem, nostack)) };
    (!in_use()).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_halves_are_seen_until_vzeroupper() {
        // SAFETY: a CPU with this feature has AVX; the register written is named.
        let dirty = || unsafe {
            asm!("vxorps xmm1, xmm1, xmm1", "vcmptrueps ymm1, ymm1, ymm1", out("ymm1") _);
        };
        if upper_halves_in_use().is_none() {
            eprintln!("this CPU does not tell which state is in use");
            return;
        }
        dirty();
        let Some(seen) = upper_halves_in_use() else {
            eprintln!("this CPU does not tell when state is given up");
            return;
        };
        assert!(seen);
        dirty();
        // SAFETY: as above.
        unsafe { asm!("vzeroupper", out("ymm1") _) };
        assert_eq!(upper_halves_in_use(), Some(false));
    }

    #[test]
    fn a_feature_that_nobody_has_is_missing() {
        let wanted: &[&str] = &["warp_drive"];
        assert_eq!(missing(wanted).collect::<Vec<_>>(), ["warp_drive"]);
    }

    #[test]
    fn detected_features_are_not_missing() {
        for feature in all().iter().filter(|feature| feature.detected) {
            let wanted = NAMES.iter().position(|name| *name == feature.name).unwrap();
            assert_eq!(missing(&NAMES[wanted..=wanted]).count(), 0, "{}", feature.name);
        }
    }

    #[test]
    fn the_kernel_sees_the_same_tiles() {
        let Ok(cpuinfo) = std::fs::read_to_string("/proc/cpuinfo") else { return };
        let seen = ["amx_tile", "amx_int8"]
            .iter()
            .all(|name| cpuinfo.split_whitespace().any(|flag| flag == *name));
        assert_eq!(tiles(), seen);
    }
}
