//! X25519: shared secrets and key pairs.

use openssl::derive::Deriver;
use openssl::error::ErrorStack;
use openssl::pkey::{Id, PKey, Private, Public};
use openssl::pkey_ctx::PkeyCtx;
use widelane_cpu::{Policy, Room};
use widelane_crypto::x25519::{DeriveJob, GenerateJob, Outcome, PrivateKey, X25519};

use super::benchmark::{Benchmark, LANES_MAX, Ours, Runner, in_turn, kernel_for};
use super::operation::Operation;
use super::{array, array_mut};

/// What is timed here.
pub static OPERATIONS: &[Operation] = &[
    Operation::in_lanes("x25519", "derive", || Ok(Box::new(Derive::new()?))),
    Operation::in_lanes("x25519", "generate", || Ok(Box::new(Generate::new()?))),
];

/// A private key in both forms.
struct Key {
    openssl: PKey<Private>,
    ours: PrivateKey,
}

impl Key {
    fn make() -> Result<Self, ErrorStack> {
        let openssl = PKey::generate_x25519()?;
        let ours = PrivateKey::from_bytes(array(&openssl.raw_private_key()?));
        Ok(Key { openssl, ours })
    }

    fn several() -> Result<Vec<Self>, ErrorStack> {
        (0..LANES_MAX).map(|_| Key::make()).collect()
    }
}

/// The shared secret of a private key and a peer's public one.
pub struct Derive {
    keys: Vec<Key>,
    peers: Vec<(PKey<Public>, [u8; 32])>,
}

impl Derive {
    /// Makes keys of both sides.
    pub fn new() -> Result<Self, ErrorStack> {
        let peer = |key: Key| {
            let public = key.openssl.raw_public_key()?;
            Ok((PKey::public_key_from_raw_bytes(&public, Id::X25519)?, *array(&public)))
        };
        let peers = Key::several()?.into_iter().map(peer).collect::<Result<_, ErrorStack>>()?;
        Ok(Derive { keys: Key::several()?, peers })
    }

    fn deriver(&self, lane: usize) -> Result<Deriver<'_>, ErrorStack> {
        let mut deriver = Deriver::new(&self.keys[lane].openssl)?;
        deriver.set_peer(&self.peers[lane].0)?;
        Ok(deriver)
    }
}

impl Benchmark for Derive {
    fn output_len(&self) -> usize {
        32
    }

    fn rooms(&self) -> &'static [Room] {
        X25519::ROOMS
    }

    fn openssl(&self) -> Result<Runner<'_>, ErrorStack> {
        let mut derivers =
            (0..LANES_MAX).map(|lane| self.deriver(lane)).collect::<Result<Vec<_>, _>>()?;
        Ok(in_turn(move |lane, output| derivers[lane].derive(output).map(drop)))
    }

    fn widelane(&self, policy: &Policy, jobs: Option<usize>) -> Ours<'_> {
        let x25519 = kernel_for(&X25519::derive_kernels(policy), X25519::lanes, jobs);
        let x25519 = x25519.unwrap_or_else(|| X25519::choose(policy));
        let lanes = jobs.unwrap_or(x25519.lanes());
        let run = move |outputs: &mut [Vec<u8>]| {
            let inputs = self.keys.iter().zip(&self.peers).zip(outputs).take(lanes);
            let mut jobs: Vec<_> = inputs
                .map(|((key, (_, peer)), output)| {
                    DeriveJob::new(&key.ours, peer, array_mut(output))
                })
                .collect();
            x25519.derive_batch(&mut jobs);
            Ok(jobs.iter().filter(|job| job.outcome == Outcome::Done).count() as u64)
        };
        Ours { lanes, run: Box::new(run) }
    }

    fn is_right(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        Ok(self.deriver(lane)?.derive_to_vec()? == output)
    }
}

/// Key pairs. OpenSSL draws the private key too; ours is given, and drawing it costs little beside.
pub struct Generate {
    keys: Vec<Key>,
}

impl Generate {
    /// Makes private keys.
    pub fn new() -> Result<Self, ErrorStack> {
        Ok(Generate { keys: Key::several()? })
    }
}

impl Benchmark for Generate {
    fn output_len(&self) -> usize {
        32
    }

    fn rooms(&self) -> &'static [Room] {
        X25519::ROOMS
    }

    fn openssl(&self) -> Result<Runner<'_>, ErrorStack> {
        let mut context = PkeyCtx::new_id(Id::X25519)?;
        context.keygen_init()?;
        Ok(in_turn(move |_, _| context.keygen().map(drop)))
    }

    fn widelane(&self, policy: &Policy, jobs: Option<usize>) -> Ours<'_> {
        let x25519 = X25519::choose(policy);
        let lanes = jobs.unwrap_or(x25519.lanes());
        let run = move |outputs: &mut [Vec<u8>]| {
            let inputs = self.keys.iter().zip(outputs).take(lanes);
            let mut jobs: Vec<_> = inputs
                .map(|(key, output)| GenerateJob::new(&key.ours, array_mut(output)))
                .collect();
            x25519.generate_batch(&mut jobs);
            Ok(jobs.len() as u64)
        };
        Ours { lanes, run: Box::new(run) }
    }

    fn is_right(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        Ok(self.keys[lane].openssl.raw_public_key()? == output)
    }
}
