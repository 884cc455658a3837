#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cipher;
mod curve;
mod der;
mod hash;
mod kdf;
mod kx;
mod random;
mod sign;
mod suites;
mod ticketer;
mod verify;

use rustls::crypto::CryptoProvider;
use widelane_cpu::policy::{self, Inputs};

pub use ticketer::Ticketer;
pub use widelane_cpu::policy::PolicyError;
pub use widelane_cpu::{Policy, Room, Width};

/// The provider under the policy of this machine: that of the file which `WIDELANE_POLICY` names,
/// or else of `/etc/widelane/policy.toml`, or else the default for the CPU, narrowed by
/// `WIDELANE_MAX_SIMD_BITWIDTH`. This crate does not compare policies: under `auto` it uses what is
/// open on the CPU by default, at most.
///
/// # Errors
///
/// If one of them is malformed.
pub fn default_provider() -> Result<CryptoProvider, PolicyError> {
    machine_policy().map(|policy| provider(&policy))
}

/// The policy of this machine, without comparing any.
fn machine_policy() -> Result<Policy, PolicyError> {
    policy_of(&Inputs::of_environment())
}

fn policy_of(inputs: &Inputs) -> Result<Policy, PolicyError> {
    Ok(policy::resolve(inputs)?.policy.without_choice())
}

/// The provider in the widest rooms that the machine has and `policy` leaves open.
///
/// rustls wants algorithms that live as long as the process, so each call leaks some 2 KiB: make a
/// provider once and clone it.
#[must_use]
pub fn provider(policy: &Policy) -> CryptoProvider {
    CryptoProvider {
        cipher_suites: suites::all(policy),
        kx_groups: kx::all(policy),
        signature_verification_algorithms: verify::all(policy),
        secure_random: &random::Os,
        key_provider: leaked(sign::Keys::choose(policy)),
    }
}

/// Keeps a value as long as the process lives.
fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

#[cfg(test)]
mod tests {
    use widelane_cpu::policy::{AUTO, Choose, PATH_VARIABLE};

    use super::*;

    #[test]
    fn auto_is_the_default_of_the_cpu() {
        let inputs = |variable: fn(&str) -> Option<_>| Inputs {
            system_path: "/nonexistent".into(),
            ..Inputs::of_variables(variable)
        };
        let auto = inputs(|variable| (variable == PATH_VARIABLE).then(|| AUTO.into()));
        let resolved = policy::resolve(&auto).expect("a policy").policy;
        assert_eq!(resolved.choose, Some(Choose::Auto));
        let default = policy_of(&inputs(|_| None)).expect("a policy");
        assert_eq!(policy_of(&auto).expect("a policy"), default);
    }
}
