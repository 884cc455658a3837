//! Our own kernels as stimuli: what a server that uses them makes its cores do.

use widelane_cpu::{LicenceClass, Policy, Room, features};
use widelane_crypto::aead::{self, Aead};
use widelane_crypto::rsa::{Components, PrivateJob, PrivateKey, Rsa};
use widelane_crypto::x25519::{self, X25519};

/// A kernel: an algorithm in a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What it computes.
    pub algorithm: Algorithm,
    /// Where.
    pub room: Room,
}

/// What a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// AES-128-GCM of 16 KiB, the largest TLS record.
    Aes128Gcm,
    /// A batch of RSA-2048 signatures.
    Rsa2048,
    /// A batch of X25519 shared secrets.
    X25519,
}

impl Algorithm {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Aes128Gcm => "aes128gcm",
            Algorithm::Rsa2048 => "rsa2048",
            Algorithm::X25519 => "x25519",
        }
    }

    /// The rooms it has, narrowest first. Portable code is a control, and one is enough.
    const fn rooms(self) -> &'static [Room] {
        match self {
            Algorithm::Aes128Gcm => &[Room::Aesni, Room::Vaes256, Room::Vaes512],
            Algorithm::Rsa2048 => &[Room::Portable, Room::Fma256, Room::Ifma256, Room::Ifma512],
            Algorithm::X25519 => &[Room::Ifma256, Room::Ifma512],
        }
    }
}

impl Kernel {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Kernel> {
        let algorithms = [Algorithm::Aes128Gcm, Algorithm::X25519, Algorithm::Rsa2048];
        algorithms.into_iter().flat_map(|algorithm| {
            algorithm.rooms().iter().map(move |room| Kernel { algorithm, room: *room })
        })
    }

    /// Its name: algorithm and room.
    pub fn name(self) -> String {
        format!("{}-{}", self.algorithm.name(), self.room)
    }

    /// The class of its room.
    pub fn class(self) -> LicenceClass {
        self.room.licence_class()
    }

    /// Why it cannot be run here; nothing where it can.
    pub fn missing(self) -> Option<String> {
        let missing: Vec<_> = features::missing(self.room.features()).collect();
        (!missing.is_empty()).then(|| format!("not applicable: no {}", missing.join(", ")))
    }

    /// A closure that executes one full batch.
    pub(super) fn ready(self) -> Result<Box<dyn FnMut()>, String> {
        let policy = only(self.room);
        match self.algorithm {
            Algorithm::Aes128Gcm => aes128gcm(&policy),
            Algorithm::Rsa2048 => rsa2048(&policy),
            Algorithm::X25519 => Ok(x25519(&policy)),
        }
    }
}

/// A policy that leaves one room open. The meter asks what a width costs before any policy of the
/// operator holds: that is what a policy is made from.
fn only(room: Room) -> Policy {
    let mut policy = Policy::open();
    policy.rooms_closed = Room::ALL.into_iter().filter(|other| *other != room).collect();
    policy
}

fn aes128gcm(policy: &Policy) -> Result<Box<dyn FnMut()>, String> {
    let aead = Aead::choose(aead::Algorithm::Aes128Gcm, policy);
    let key = aead.key(&[0x17; 16]).map_err(|error| error.to_string())?;
    let mut record = vec![0; 16 << 10];
    let mut tag = [0; aead::TAG_BYTES];
    let mut sealed = 0_u64;
    Ok(Box::new(move || {
        sealed += 1;
        let mut nonce = [0; aead::NONCE_BYTES];
        nonce[4..].copy_from_slice(&sealed.to_be_bytes());
        // A record of this length is never refused.
        let _ = key.seal_in_place(&nonce, &[0; 13], &mut record, &mut tag);
    }))
}

fn rsa2048(policy: &Policy) -> Result<Box<dyn FnMut()>, String> {
    let rsa = Rsa::choose(policy);
    let key = test_key().map_err(|error| format!("the test key was refused: {error}"))?;
    let input = vec![0x17; key.size().bytes()];
    let mut outputs = vec![vec![0; input.len()]; rsa.lanes()];
    Ok(Box::new(move || {
        let job = |output| PrivateJob::new(&key, &input, output);
        let mut jobs: Vec<_> = outputs.iter_mut().map(|output| job(output)).collect();
        rsa.private_batch(&mut jobs);
    }))
}

fn x25519(policy: &Policy) -> Box<dyn FnMut()> {
    let batch = X25519::choose(policy);
    let private = x25519::PrivateKey::from_bytes(&[0x17; 32]);
    let base = {
        let mut base = [0; 32];
        base[0] = 9;
        base
    };
    let mut secrets = vec![[0; 32]; batch.lanes()];
    Box::new(move || {
        let job = |shared| x25519::DeriveJob::new(&private, &base, shared);
        let mut jobs: Vec<_> = secrets.iter_mut().map(job).collect();
        batch.derive_batch(&mut jobs);
    })
}

/// The first of our public test keys: it protects nothing.
fn test_key() -> Result<PrivateKey, widelane_crypto::rsa::KeyError> {
    let number = |name: &str| -> Vec<u8> {
        let line = TEST_KEY.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        let digits = line.unwrap_or_default().as_bytes();
        digits.chunks_exact(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1])).collect()
    };
    PrivateKey::from_components(&Components {
        n: &number("n"),
        e: &number("e"),
        p: &number("p"),
        q: &number("q"),
        dp: &number("dp"),
        dq: &number("dq"),
        qinv: &number("qinv"),
    })
}

fn nibble(digit: u8) -> u8 {
    (digit as char).to_digit(16).unwrap_or_default() as u8
}

/// The first of `vectors/rsa/rsa2048.txt`.
const TEST_KEY: &str = include_str!("../../data/rsa2048.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_names_its_room_and_has_its_class() {
        for kernel in Kernel::all() {
            assert!(kernel.name().ends_with(kernel.room.name()), "{}", kernel.name());
        }
        let class = |name: &str| {
            Kernel::all().find(|kernel| kernel.name() == name).unwrap().class().to_string()
        };
        assert_eq!(class("aes128gcm-vaes512"), "512-light");
        assert_eq!(class("x25519-ifma512"), "512-heavy");
        assert_eq!(class("rsa2048-portable"), "128-light");
        assert_eq!(class("rsa2048-fma256"), "256-heavy");
    }

    #[test]
    fn every_kernel_that_the_machine_has_runs_in_its_room() {
        let kernels: Vec<Kernel> = Kernel::all().filter(|k| k.missing().is_none()).collect();
        for kernel in &kernels {
            let policy = only(kernel.room);
            let room = match kernel.algorithm {
                Algorithm::Aes128Gcm => Aead::choose(aead::Algorithm::Aes128Gcm, &policy).room(),
                Algorithm::Rsa2048 => Rsa::choose(&policy).room(),
                Algorithm::X25519 => X25519::choose(&policy).room(),
            };
            assert_eq!(room, kernel.room);
            kernel.ready().unwrap()();
        }
        eprintln!("{} kernels ran", kernels.len());
        assert!(!kernels.is_empty(), "the portable one runs everywhere");
    }

    #[test]
    fn the_test_key_is_one() {
        assert!(test_key().is_ok());
    }
}
