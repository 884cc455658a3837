//! What the environment says: policy and counters. The only reader of the environment here.
#![allow(unsafe_code, reason = "asks the kernel whether the environment can be trusted")]

use std::env;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread;

use widelane_bridge::counters::{COUNTERS_DIRECTORY_VARIABLE, OperationKind};
use widelane_cpu::policy::{self, Combine, Inputs, LaneCpus, WaitMax};
use widelane_cpu::{Policy, Room, Width};
use widelane_crypto::aead::{self, Aead};
use widelane_crypto::cbc_hmac::{self, CbcHmac, Mode};
use widelane_crypto::ec::Ec;
use widelane_crypto::ed25519::Ed25519;
use widelane_crypto::kdf::{self, Kdf};
use widelane_crypto::mlkem::{MlKem, ParameterSet};
use widelane_crypto::rsa::{self, Rsa};
use widelane_crypto::x25519::X25519;

use crate::batching::kinds;
use crate::errors::say;
use crate::stack;

/// What the environment said when the provider was first loaded.
///
/// It is read once, because `widelane run` takes its variables out of the environment of the
/// servers that it accelerates, so that their children stay as they are.
pub(crate) struct Config {
    /// RSA by each kernel that the policy leaves open, those with the fewest lanes first.
    pub(crate) rsa: Vec<rsa::Kernel>,
    /// P-256 and P-384, likewise.
    pub(crate) ec: Vec<Ec>,
    /// Those of P-256 and P-384 that sign.
    pub(crate) ec_sign: Vec<Ec>,
    /// X25519, likewise.
    pub(crate) x25519: Vec<X25519>,
    /// Those of X25519 that derive.
    pub(crate) x25519_derive: Vec<X25519>,
    /// Ed25519, likewise.
    pub(crate) ed25519: Vec<Ed25519>,
    /// ML-KEM by parameter set, in the widest room that the policy leaves open.
    ml_kem: [MlKem; ParameterSet::ALL.len()],
    aeads: [Aead; aead::Algorithm::ALL.len()],
    cbc_hmacs: [CbcHmac; cbc_hmac::Algorithm::ALL.len()],
    kdfs: [Kdf; kdf::Hash::ALL.len()],
    /// Directory for counter files.
    pub(crate) counters_dir: Option<PathBuf>,
    /// CPUs that this process may use.
    pub(crate) cpus: usize,
    /// How long operations may wait for company before their event loop sleeps.
    pub(crate) wait_max: WaitMax,
    /// Whether workers make signatures for each other.
    combine: Combine,
    /// The CPUs of the service's lane process, if it is to have one.
    pub(crate) lane_cpus: Option<LaneCpus>,
}

/// The configuration of this process.
pub(crate) fn config() -> &'static Config {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    // Reading files takes more stack than a small thread has; without memory for one of ours,
    // nothing is accelerated.
    let read = || stack::on_large(Config::read);
    CONFIG.get_or_init(|| read().unwrap_or_else(|| Config::under(&Policy::up_to(Width::W128))))
}

impl Config {
    /// Whether workers make signatures for each other. Where none waits for company, none is ever
    /// left for another one.
    pub(crate) fn combines(&self) -> bool {
        self.combine == Combine::On && self.wait_max != WaitMax::NONE
    }

    /// Operations of a kind that one batch holds; 1 where there is nothing to batch.
    pub(crate) fn lanes(&self, kind: OperationKind) -> usize {
        kinds::kernels(self, kind).last().map_or(1, |(lanes, _)| *lanes)
    }

    /// Lanes and room of the widest kernel for RSA, for whoever reads the counters.
    pub(crate) fn widest(&self) -> (usize, Room) {
        self.rsa.last().map_or((1, Room::Portable), |rsa| (rsa.lanes(), rsa.room()))
    }

    /// ML-KEM in the widest room that the policy leaves open.
    pub(crate) fn ml_kem(&self, set: ParameterSet) -> &MlKem {
        &self.ml_kem[set as usize]
    }

    /// Whether that has lanes to fill.
    pub(crate) fn ml_kem_is_batched(&self) -> bool {
        self.ml_kem.iter().all(|ml_kem| ml_kem.room() != Room::Portable)
    }

    /// A cipher with tags in the widest room that the policy leaves open.
    pub(crate) fn aead(&self, algorithm: aead::Algorithm) -> Aead {
        self.aeads[algorithm as usize]
    }

    /// AES-CBC with HMAC, as TLS has it unless both sides want otherwise, likewise.
    pub(crate) fn cbc_hmac(&self, algorithm: cbc_hmac::Algorithm) -> CbcHmac {
        self.cbc_hmacs[algorithm as usize]
    }

    /// The key schedules with a hash function, likewise.
    pub(crate) fn kdf(&self, hash: kdf::Hash) -> &Kdf {
        &self.kdfs[hash as usize]
    }

    fn read() -> Self {
        let trusted = !raised_privileges();
        let variable = |name: &str| env::var_os(name).filter(|value| trusted && !value.is_empty());
        let inputs = Inputs {
            argument: None,
            policy_path: variable(policy::PATH_VARIABLE).map(PathBuf::from),
            max_simd_bitwidth: variable(policy::BITWIDTH_VARIABLE)
                .map(|value| value.to_string_lossy().into_owned()),
            wait_max: variable(policy::WAIT_VARIABLE)
                .map(|value| value.to_string_lossy().into_owned()),
            combine: variable(policy::COMBINE_VARIABLE)
                .map(|value| value.to_string_lossy().into_owned()),
            lane_cpus: variable(policy::LANE_CPUS_VARIABLE)
                .map(|value| value.to_string_lossy().into_owned()),
            system_path: PathBuf::from(policy::SYSTEM_PATH),
        };
        let policy = match policy::resolve(&inputs) {
            Ok(resolved) => resolved.policy,
            Err(error) => {
                say(&format!(
                    "{error}; until this is mended nothing is accelerated in this process"
                ));
                Policy::up_to(Width::W128)
            }
        };
        Config {
            counters_dir: variable(COUNTERS_DIRECTORY_VARIABLE).map(PathBuf::from),
            ..Config::under(&policy)
        }
    }

    /// All that follows from a policy, without counters in files.
    fn under(policy: &Policy) -> Self {
        Config {
            rsa: Rsa::choose(policy).kernels(),
            ec: Ec::kernels(policy),
            ec_sign: Ec::sign_kernels(policy),
            x25519: X25519::kernels(policy),
            x25519_derive: X25519::derive_kernels(policy),
            ed25519: Ed25519::kernels(policy),
            ml_kem: ParameterSet::ALL.map(|set| MlKem::choose(set, policy)),
            aeads: aead::Algorithm::ALL.map(|algorithm| Aead::choose(algorithm, policy)),
            cbc_hmacs: cbc_hmac::Algorithm::ALL
                .map(|algorithm| CbcHmac::choose(algorithm, Mode::MacThenEncrypt, policy)),
            kdfs: kdf::Hash::ALL.map(|hash| Kdf::choose(hash, policy)),
            counters_dir: None,
            cpus: thread::available_parallelism().map_or(1, NonZero::get),
            wait_max: policy.wait_max.unwrap_or(WaitMax::DEFAULT),
            combine: policy.combine.unwrap_or_default(),
            lane_cpus: policy.lane_cpus.clone().filter(|cpus| !cpus.is_none()),
        }
    }
}

/// Whether the program runs with more rights than whoever started it and chose its environment.
fn raised_privileges() -> bool {
    // SAFETY: reads a value that the kernel gave this process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
