//! The CPUID features that Widelane looks at.

use serde::Serialize;

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

/// Those of `wanted` that this machine lacks.
pub fn missing(wanted: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    let all = all();
    wanted
        .iter()
        .copied()
        .filter(move |name| !all.iter().any(|feature| feature.name == *name && feature.detected))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
