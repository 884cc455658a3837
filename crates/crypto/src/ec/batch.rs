//! Jobs sorted by curve, in as few batches as they need.

use widelane_kernels::weierstrass::{
    self as kernels, Door, P256, P384, Point, Scalar, SharedDoor, Verdict,
};
use widelane_secret::wipe;

use super::key::{CurvePoint, Material, PrivateKey, PublicKey, UNCOMPRESSED};
use super::{DeriveJob, GenerateJob, Outcome, SignJob, VerifyJob};
use crate::digest::{Digest, Hash, Job};
use crate::stack::{P256_BYTES, P384_BYTES, scrubbed};

/// A room for jobs on either curve.
pub(super) trait BothCurves: Door<P256, 5> + Door<P384, 8> {}

impl<R: Door<P256, 5> + Door<P384, 8>> BothCurves for R {}

/// A room whose lanes can share a job on either curve.
pub(super) trait BothCurvesShared:
    BothCurves + SharedDoor<P256, 5> + SharedDoor<P384, 8>
{
}

impl<R: BothCurves + SharedDoor<P256, 5> + SharedDoor<P384, 8>> BothCurvesShared for R {}

/// A curve of the kernels with its keys among ours.
trait Keys<const D: usize>: kernels::Curve<D> {
    fn scalar(key: &PrivateKey) -> Option<&Scalar<D>>;
    fn point(key: &PublicKey) -> Option<&Point<D>>;

    /// Executes a batch and wipes the stack that it took.
    fn scrubbed(work: impl FnOnce());
}

impl Keys<5> for P256 {
    fn scalar(key: &PrivateKey) -> Option<&Scalar<5>> {
        match &*key.material {
            Material::P256(_, scalar) => Some(scalar),
            Material::P384(..) => None,
        }
    }

    fn point(key: &PublicKey) -> Option<&Point<5>> {
        match &key.point {
            CurvePoint::P256(point) => Some(point),
            CurvePoint::P384(_) => None,
        }
    }

    fn scrubbed(work: impl FnOnce()) {
        scrubbed::<P256_BYTES, _>(work);
    }
}

impl Keys<8> for P384 {
    fn scalar(key: &PrivateKey) -> Option<&Scalar<8>> {
        match &*key.material {
            Material::P384(_, scalar) => Some(scalar),
            Material::P256(..) => None,
        }
    }

    fn point(key: &PublicKey) -> Option<&Point<8>> {
        match &key.point {
            CurvePoint::P384(point) => Some(point),
            CurvePoint::P256(_) => None,
        }
    }

    fn scrubbed(work: impl FnOnce()) {
        scrubbed::<P384_BYTES, _>(work);
    }
}

/// Makes public keys in `room`.
pub(super) fn generate(room: impl BothCurves, jobs: &mut [GenerateJob<'_>]) {
    generate_on::<_, P256, 5>(room, jobs);
    generate_on::<_, P384, 8>(room, jobs);
}

fn generate_on<R: Door<C, D>, C: Keys<D>, const D: usize>(room: R, jobs: &mut [GenerateJob<'_>]) {
    let (mut batch, mut outcomes, mut formats) = (Vec::new(), Vec::new(), Vec::new());
    for job in jobs {
        let Some(private) = C::scalar(job.private) else { continue };
        job.public.fill(0);
        if job.public.len() != 1 + 2 * C::BYTES {
            job.outcome = Outcome::Rejected;
            continue;
        }
        let ([format], public) = job.public.split_first_chunk_mut().expect("it is long enough");
        batch.push(kernels::GenerateJob { private, public, verdict: Verdict::Pending });
        outcomes.push(&mut job.outcome);
        formats.push(format);
    }
    for jobs in batch.chunks_mut(R::LANES) {
        C::scrubbed(|| room.generate(jobs));
    }
    for ((outcome, format), job) in outcomes.into_iter().zip(formats).zip(&batch) {
        *outcome = outcome_of(job.verdict);
        if *outcome == Outcome::Done {
            *format = UNCOMPRESSED;
        }
    }
}

/// Derives shared secrets in `room`.
pub(super) fn derive(room: impl BothCurves, jobs: &mut [DeriveJob<'_>]) {
    derive_on::<_, P256, 5>(room, jobs);
    derive_on::<_, P384, 8>(room, jobs);
}

fn derive_on<R: Door<C, D>, C: Keys<D>, const D: usize>(room: R, jobs: &mut [DeriveJob<'_>]) {
    let (mut batch, mut outcomes) = (Vec::new(), Vec::new());
    for job in jobs {
        let Some(private) = C::scalar(job.private) else { continue };
        job.shared.fill(0);
        let peer = C::point(job.peer).filter(|_| job.shared.len() == C::BYTES);
        let Some(peer) = peer else {
            job.outcome = Outcome::Rejected;
            continue;
        };
        let shared = &mut *job.shared;
        batch.push(kernels::DeriveJob { private, peer, shared, verdict: Verdict::Pending });
        outcomes.push(&mut job.outcome);
    }
    for jobs in batch.chunks_mut(R::LANES) {
        C::scrubbed(|| room.derive(jobs));
    }
    for (outcome, job) in outcomes.into_iter().zip(&batch) {
        *outcome = outcome_of(job.verdict);
    }
}

/// Signs digests in `room`, one in each lane.
pub(super) fn sign(room: impl BothCurves, hash: &Hash, jobs: &mut [SignJob<'_>]) {
    sign_each::<_, P256, 5>(room, hash, jobs);
    sign_each::<_, P384, 8>(room, hash, jobs);
}

fn sign_each<R: Door<C, D>, C: Keys<D>, const D: usize>(
    room: R,
    hash: &Hash,
    jobs: &mut [SignJob<'_>],
) {
    sign_on::<C, D>(hash, jobs, R::LANES, |batch| room.sign(batch));
}

/// Signs digests in `room`, one after the other in all lanes.
pub(super) fn sign_alone(room: impl BothCurvesShared, hash: &Hash, jobs: &mut [SignJob<'_>]) {
    sign_on::<P256, 5>(hash, jobs, 1, |batch| room.sign_alone(&mut batch[0]));
    sign_on::<P384, 8>(hash, jobs, 1, |batch| room.sign_alone(&mut batch[0]));
}

/// Signs those digests that are to be signed on a curve, at most `lanes` at a time.
fn sign_on<C: Keys<D>, const D: usize>(
    hash: &Hash,
    jobs: &mut [SignJob<'_>],
    lanes: usize,
    kernel: impl Fn(&mut [kernels::SignJob<'_, D>]),
) {
    let mut ours = Vec::new();
    for job in jobs {
        if C::scalar(job.key).is_none() {
            continue;
        }
        job.signature.fill(0);
        if job.signature.len() == 2 * C::BYTES {
            ours.push(job);
        } else {
            job.outcome = Outcome::Rejected;
        }
    }
    for jobs in ours.chunks_mut(lanes) {
        C::scrubbed(|| {
            let mut nonces = nonces(hash, jobs);
            let (mut batch, mut outcomes) = (Vec::new(), Vec::new());
            for (job, nonce) in jobs.iter_mut().zip(&nonces) {
                let nonce = nonce.as_ref().try_into().expect("the digest of SHA-512");
                let private = C::scalar(job.key).expect("the curve is checked");
                let digest = leftmost(job.digest, C::BYTES);
                let signature = &mut *job.signature;
                let verdict = Verdict::Pending;
                batch.push(kernels::SignJob { private, nonce, digest, signature, verdict });
                outcomes.push(&mut job.outcome);
            }
            kernel(&mut batch);
            for (outcome, job) in outcomes.into_iter().zip(&batch) {
                *outcome = outcome_of(job.verdict);
            }
            nonces.iter_mut().for_each(Digest::wipe);
        });
    }
}

/// 512 bits to make each nonce of: uniform if the entropy is, and of no use to anyone who does not
/// know the private key if it is not.
fn nonces(hash: &Hash, jobs: &[&mut SignJob<'_>]) -> Vec<Digest> {
    let mut heads: Vec<_> =
        jobs.iter().map(|job| [job.key.as_bytes(), job.entropy].concat()).collect();
    let state = hash.initial();
    let mut nonces = vec![Digest::default(); jobs.len()];
    hash.run(heads.iter().zip(jobs).zip(&mut nonces).map(|((head, job), digest)| Job {
        state,
        outer: None,
        head,
        message: job.digest,
        digest,
    }));
    heads.iter_mut().for_each(|head| wipe(head));
    nonces
}

/// Verifies signatures in `room`.
pub(super) fn verify(room: impl BothCurves, jobs: &mut [VerifyJob<'_>]) {
    verify_on::<_, P256, 5>(room, jobs);
    verify_on::<_, P384, 8>(room, jobs);
}

fn verify_on<R: Door<C, D>, C: Keys<D>, const D: usize>(room: R, jobs: &mut [VerifyJob<'_>]) {
    let (mut batch, mut outcomes) = (Vec::new(), Vec::new());
    for job in jobs {
        let Some(public) = C::point(job.key) else { continue };
        if job.signature.len() != 2 * C::BYTES {
            job.outcome = Outcome::Rejected;
            continue;
        }
        let (digest, signature) = (leftmost(job.digest, C::BYTES), job.signature);
        batch.push(kernels::VerifyJob { public, digest, signature, verdict: Verdict::Pending });
        outcomes.push(&mut job.outcome);
    }
    for jobs in batch.chunks_mut(R::LANES) {
        room.verify(jobs);
    }
    for (outcome, job) in outcomes.into_iter().zip(&batch) {
        *outcome = outcome_of(job.verdict);
    }
}

/// What of a digest counts (FIPS 186-5, section 6.4.1): the orders have as many bits as bytes·8.
fn leftmost(digest: &[u8], bytes: usize) -> &[u8] {
    &digest[..digest.len().min(bytes)]
}

fn outcome_of(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Pending => Outcome::Pending,
        Verdict::Done => Outcome::Done,
        Verdict::Rejected => Outcome::Rejected,
    }
}
