//! P-256 and P-384: ECDSA signatures, made and verified, shared secrets and key pairs.

use openssl::bn::{BigNum, BigNumContext};
use openssl::derive::Deriver;
use openssl::ec::{EcGroup, EcKey, EcPoint, PointConversionForm};
use openssl::ecdsa::EcdsaSig;
use openssl::error::ErrorStack;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey, Private};
use openssl::pkey_ctx::PkeyCtx;
use widelane_cpu::Policy;
use widelane_crypto::ec::{
    Curve, DeriveJob, Ec, GenerateJob, Outcome, PrivateKey, PublicKey, SignJob, VerifyJob,
};

use super::benchmark::{Benchmark, LANES_MAX, Ours, Runner, in_turn, kernel_for};
use super::operation::Operation;
use super::{ACCEPTED, REFUSED, SPOILED_LANE, SpeedError};

/// What is timed here.
pub static OPERATIONS: &[Operation] = &[
    Operation::in_lanes("ecdsa-p256", "sign", || Ok(Box::new(Sign::new(Curve::P256)?))),
    Operation::in_lanes("ecdsa-p256", "verify", || Ok(Box::new(Verify::new(Curve::P256)?))),
    Operation::in_lanes("ecdsa-p384", "sign", || Ok(Box::new(Sign::new(Curve::P384)?))),
    Operation::in_lanes("ecdsa-p384", "verify", || Ok(Box::new(Verify::new(Curve::P384)?))),
    Operation::in_lanes("ecdh-p256", "derive", || Ok(Box::new(Derive::new(Curve::P256)?))),
    Operation::in_lanes("ecdh-p256", "generate", || Ok(Box::new(Generate::new(Curve::P256)?))),
    Operation::in_lanes("ecdh-p384", "derive", || Ok(Box::new(Derive::new(Curve::P384)?))),
    Operation::in_lanes("ecdh-p384", "generate", || Ok(Box::new(Generate::new(Curve::P384)?))),
];

const fn nid(curve: Curve) -> Nid {
    match curve {
        Curve::P256 => Nid::X9_62_PRIME256V1,
        Curve::P384 => Nid::SECP384R1,
    }
}

/// A key pair in both forms.
struct Key {
    ec: EcKey<Private>,
    openssl: PKey<Private>,
    private: PrivateKey,
    public: PublicKey,
}

impl Key {
    fn make(curve: Curve) -> Result<Self, SpeedError> {
        let group = EcGroup::from_curve_name(nid(curve))?;
        let ec = EcKey::generate(&group)?;
        let private = ec.private_key().to_vec_padded(curve.bytes() as i32)?;
        let public = uncompressed(&group, ec.public_key())?;
        Ok(Key {
            openssl: PKey::from_ec_key(ec.clone())?,
            ec,
            private: PrivateKey::from_bytes(curve, &private).map_err(SpeedError::key)?,
            public: PublicKey::from_uncompressed(curve, &public).map_err(SpeedError::key)?,
        })
    }

    fn several(curve: Curve) -> Result<Vec<Self>, SpeedError> {
        (0..LANES_MAX).map(|_| Key::make(curve)).collect()
    }
}

fn uncompressed(
    group: &openssl::ec::EcGroupRef,
    point: &openssl::ec::EcPointRef,
) -> Result<Vec<u8>, ErrorStack> {
    let mut context = BigNumContext::new()?;
    point.to_bytes(group, PointConversionForm::UNCOMPRESSED, &mut context)
}

/// Digests to sign, as long as the curve's order.
fn digests(curve: Curve) -> Result<Vec<Vec<u8>>, ErrorStack> {
    let mut digests = vec![vec![0; curve.bytes()]; LANES_MAX];
    digests.iter_mut().try_for_each(|digest| openssl::rand::rand_bytes(digest))?;
    Ok(digests)
}

/// ECDSA signatures.
pub struct Sign {
    curve: Curve,
    keys: Vec<Key>,
    digests: Vec<Vec<u8>>,
    entropy: Vec<[u8; 32]>,
}

impl Sign {
    /// Makes keys, digests and entropy.
    pub fn new(curve: Curve) -> Result<Self, SpeedError> {
        let mut entropy = vec![[0; 32]; LANES_MAX];
        entropy.iter_mut().try_for_each(|entropy| openssl::rand::rand_bytes(entropy))?;
        Ok(Sign { curve, keys: Key::several(curve)?, digests: digests(curve)?, entropy })
    }
}

impl Benchmark for Sign {
    fn output_len(&self) -> usize {
        2 * self.curve.bytes()
    }

    fn openssl(&self) -> Result<Runner<'_>, ErrorStack> {
        let mut contexts = Vec::new();
        for key in &self.keys {
            let mut context = PkeyCtx::new(&key.openssl)?;
            context.sign_init()?;
            contexts.push(context);
        }
        // In DER, which is longer.
        let mut signature = vec![0; 3 * self.curve.bytes()];
        Ok(in_turn(move |lane, _| {
            contexts[lane].sign(&self.digests[lane], Some(&mut signature)).map(drop)
        }))
    }

    fn widelane(&self, policy: &Policy, jobs: Option<usize>) -> Ours<'_> {
        let ec = kernel_for(&Ec::sign_kernels(policy), Ec::lanes, jobs);
        let ec = ec.unwrap_or_else(|| Ec::choose(policy));
        let lanes = jobs.unwrap_or(ec.lanes());
        let run = move |outputs: &mut [Vec<u8>]| {
            let inputs = self.keys.iter().zip(&self.digests).zip(&self.entropy);
            let mut jobs: Vec<_> = inputs
                .zip(outputs)
                .take(lanes)
                .map(|(((key, digest), entropy), output)| {
                    SignJob::new(&key.private, digest, entropy, output)
                })
                .collect();
            ec.sign_batch(&mut jobs);
            Ok(jobs.iter().filter(|job| job.outcome == Outcome::Done).count() as u64)
        };
        Ours { lanes, run: Box::new(run) }
    }

    fn is_right(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        signature(output)?.verify(&self.digests[lane], &self.keys[lane].ec)
    }
}

/// `r || s` in OpenSSL's form.
fn signature(fixed: &[u8]) -> Result<EcdsaSig, ErrorStack> {
    let (r, s) = fixed.split_at(fixed.len() / 2);
    EcdsaSig::from_private_components(BigNum::from_slice(r)?, BigNum::from_slice(s)?)
}

/// ECDSA verifications, one of them of a spoiled signature; the result is the verdict.
pub struct Verify {
    keys: Vec<Key>,
    digests: Vec<Vec<u8>>,
    /// Each as `r || s` and in DER.
    signatures: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Verify {
    /// Makes keys, digests and signatures.
    pub fn new(curve: Curve) -> Result<Self, SpeedError> {
        let (keys, digests) = (Key::several(curve)?, digests(curve)?);
        let mut signatures = Vec::new();
        for (lane, (key, digest)) in keys.iter().zip(&digests).enumerate() {
            let made = EcdsaSig::sign(digest, &key.ec)?;
            let bytes = curve.bytes() as i32;
            let mut fixed =
                [made.r().to_vec_padded(bytes)?, made.s().to_vec_padded(bytes)?].concat();
            if lane == SPOILED_LANE {
                fixed[curve.bytes() + 20] ^= 1;
            }
            let der = signature(&fixed)?.to_der()?;
            signatures.push((fixed, der));
        }
        Ok(Verify { keys, digests, signatures })
    }
}

impl Benchmark for Verify {
    fn output_len(&self) -> usize {
        1
    }

    fn openssl(&self) -> Result<Runner<'_>, ErrorStack> {
        let mut contexts = Vec::new();
        for key in &self.keys {
            let mut context = PkeyCtx::new(&key.openssl)?;
            context.verify_init()?;
            contexts.push(context);
        }
        Ok(in_turn(move |lane, output| {
            let (digest, (_, der)) = (&self.digests[lane], &self.signatures[lane]);
            let accepted = contexts[lane].verify(digest, der)?;
            output[0] = if accepted { ACCEPTED } else { REFUSED };
            Ok(())
        }))
    }

    fn widelane(&self, policy: &Policy, jobs: Option<usize>) -> Ours<'_> {
        let ec = Ec::choose(policy);
        let lanes = jobs.unwrap_or(ec.lanes());
        let run = move |outputs: &mut [Vec<u8>]| {
            let inputs = self.keys.iter().zip(&self.digests).zip(&self.signatures).take(lanes);
            let mut jobs: Vec<_> = inputs
                .map(|((key, digest), (fixed, _))| VerifyJob::new(&key.public, digest, fixed))
                .collect();
            ec.verify_batch(&mut jobs);
            let mut verdicts = 0;
            for (job, output) in jobs.iter().zip(outputs) {
                output[0] = if job.outcome == Outcome::Done { ACCEPTED } else { REFUSED };
                verdicts += u64::from(job.outcome != Outcome::Pending);
            }
            Ok(verdicts)
        };
        Ours { lanes, run: Box::new(run) }
    }

    fn is_right(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        let (fixed, _) = &self.signatures[lane];
        let accepted = signature(fixed)?.verify(&self.digests[lane], &self.keys[lane].ec)?;
        Ok(output == [if accepted { ACCEPTED } else { REFUSED }])
    }
}

/// ECDH: the shared secret of a private key and a peer's public one.
pub struct Derive {
    curve: Curve,
    keys: Vec<Key>,
    peers: Vec<Key>,
}

impl Derive {
    /// Makes keys of both sides.
    pub fn new(curve: Curve) -> Result<Self, SpeedError> {
        Ok(Derive { curve, keys: Key::several(curve)?, peers: Key::several(curve)? })
    }

    fn deriver(&self, lane: usize) -> Result<Deriver<'_>, ErrorStack> {
        let mut deriver = Deriver::new(&self.keys[lane].openssl)?;
        deriver.set_peer(&self.peers[lane].openssl)?;
        Ok(deriver)
    }
}

impl Benchmark for Derive {
    fn output_len(&self) -> usize {
        self.curve.bytes()
    }

    fn openssl(&self) -> Result<Runner<'_>, ErrorStack> {
        let mut derivers =
            (0..LANES_MAX).map(|lane| self.deriver(lane)).collect::<Result<Vec<_>, _>>()?;
        Ok(in_turn(move |lane, output| derivers[lane].derive(output).map(drop)))
    }

    fn widelane(&self, policy: &Policy, jobs: Option<usize>) -> Ours<'_> {
        let ec = Ec::choose(policy);
        let lanes = jobs.unwrap_or(ec.lanes());
        let run = move |outputs: &mut [Vec<u8>]| {
            let inputs = self.keys.iter().zip(&self.peers).zip(outputs).take(lanes);
            let mut jobs: Vec<_> = inputs
                .map(|((key, peer), output)| DeriveJob::new(&key.private, &peer.public, output))
                .collect();
            ec.derive_batch(&mut jobs);
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
    curve: Curve,
    keys: Vec<Key>,
}

impl Generate {
    /// Makes private keys.
    pub fn new(curve: Curve) -> Result<Self, SpeedError> {
        Ok(Generate { curve, keys: Key::several(curve)? })
    }
}

impl Benchmark for Generate {
    fn output_len(&self) -> usize {
        1 + 2 * self.curve.bytes()
    }

    fn openssl(&self) -> Result<Runner<'_>, ErrorStack> {
        let mut context = PkeyCtx::new_id(Id::EC)?;
        context.keygen_init()?;
        context.set_ec_paramgen_curve_nid(nid(self.curve))?;
        Ok(in_turn(move |_, _| context.keygen().map(drop)))
    }

    fn widelane(&self, policy: &Policy, jobs: Option<usize>) -> Ours<'_> {
        let ec = Ec::choose(policy);
        let lanes = jobs.unwrap_or(ec.lanes());
        let run = move |outputs: &mut [Vec<u8>]| {
            let inputs = self.keys.iter().zip(outputs).take(lanes);
            let mut jobs: Vec<_> =
                inputs.map(|(key, output)| GenerateJob::new(&key.private, output)).collect();
            ec.generate_batch(&mut jobs);
            Ok(jobs.iter().filter(|job| job.outcome == Outcome::Done).count() as u64)
        };
        Ours { lanes, run: Box::new(run) }
    }

    fn is_right(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        let key = &self.keys[lane].ec;
        let mut point = EcPoint::new(key.group())?;
        let mut context = BigNumContext::new()?;
        point.mul_generator2(key.group(), key.private_key(), &mut context)?;
        Ok(uncompressed(key.group(), &point)? == output)
    }
}
