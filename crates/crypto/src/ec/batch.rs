//! Jobs sorted by curve, in as few batches as they need.

use widelane_kernels::weierstrass::{self as kernels, CurveLanes, Verdict};
use widelane_secret::stack::{kib, wiped};
use widelane_secret::wipe;

use super::curve::{AllCurves, Keys};
use super::key::{PrivateKey, UNCOMPRESSED};
use super::{DeriveJob, GenerateJob, Outcome, SignJob, VerifyJob};
use crate::digest::{Digest, Hash, Job};

/// Stack of a nonce for a signature that is made elsewhere.
const NONCE_STACK: usize = kib(4);

/// Makes public keys in `room`.
pub(super) fn generate<L: AllCurves>(room: L::Room, jobs: &mut [GenerateJob<'_>]) {
    each_curve!(|C, D| generate_on::<L, C, D>(room, jobs));
}

fn generate_on<L: CurveLanes<C, D>, C: Keys<D>, const D: usize>(
    room: L::Room,
    jobs: &mut [GenerateJob<'_>],
) {
    let (mut batch, mut outcomes, mut formats) = (Vec::new(), Vec::new(), Vec::new());
    for job in jobs {
        let Some(private) = C::scalar(job.private) else { continue };
        if job.public.len() != 1 + 2 * C::BYTES {
            job.outcome = Outcome::Mismatched;
            continue;
        }
        job.public.fill(0);
        let ([format], public) = job.public.split_first_chunk_mut().expect("it is long enough");
        batch.push(kernels::GenerateJob { private, public, verdict: Verdict::Pending });
        outcomes.push(&mut job.outcome);
        formats.push(format);
    }
    for jobs in batch.chunks_mut(L::LANES) {
        C::wiped(|| L::generate(room, jobs));
    }
    for ((outcome, format), job) in outcomes.into_iter().zip(formats).zip(&batch) {
        *outcome = result_of(job.verdict);
        if *outcome == Outcome::Done {
            *format = UNCOMPRESSED;
        }
    }
}

/// Derives shared secrets in `room`.
pub(super) fn derive<L: AllCurves>(room: L::Room, jobs: &mut [DeriveJob<'_>]) {
    each_curve!(|C, D| derive_on::<L, C, D>(room, jobs));
}

fn derive_on<L: CurveLanes<C, D>, C: Keys<D>, const D: usize>(
    room: L::Room,
    jobs: &mut [DeriveJob<'_>],
) {
    let (mut batch, mut outcomes) = (Vec::new(), Vec::new());
    for job in jobs {
        let Some(private) = C::scalar(job.private) else { continue };
        if job.shared.len() != C::BYTES {
            job.outcome = Outcome::Mismatched;
            continue;
        }
        job.shared.fill(0);
        let Some(peer) = C::point(job.peer) else {
            job.outcome = Outcome::Mismatched;
            continue;
        };
        let shared = &mut *job.shared;
        batch.push(kernels::DeriveJob { private, peer, shared, verdict: Verdict::Pending });
        outcomes.push(&mut job.outcome);
    }
    for jobs in batch.chunks_mut(L::LANES) {
        C::wiped(|| L::derive(room, jobs));
    }
    for (outcome, job) in outcomes.into_iter().zip(&batch) {
        *outcome = result_of(job.verdict);
    }
}

/// Signs digests in `room`, one in each lane.
pub(super) fn sign<L: AllCurves>(room: L::Room, hash: &Hash, jobs: &mut [SignJob<'_>]) {
    each_curve!(|C, D| {
        sign_on::<C, D>(hash, jobs, L::LANES, |batch| <L as CurveLanes<C, D>>::sign(room, batch));
    });
}

/// Signs digests in `room`, one after the other in all lanes.
pub(super) fn sign_alone<L: AllCurves>(room: L::Room, hash: &Hash, jobs: &mut [SignJob<'_>]) {
    each_curve!(|C, D| sign_on::<C, D>(hash, jobs, 1, |batch| {
        <L as CurveLanes<C, D>>::sign_alone(room, &mut batch[0]);
    }));
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
        if job.signature.len() == 2 * C::BYTES {
            job.signature.fill(0);
            ours.push(job);
        } else {
            job.outcome = Outcome::Mismatched;
        }
    }
    for jobs in ours.chunks_mut(lanes) {
        C::wiped(|| {
            let mut nonces = nonces(hash, jobs);
            let (mut batch, mut outcomes) = (Vec::new(), Vec::new());
            for (job, nonce) in jobs.iter_mut().zip(&nonces) {
                let nonce = nonce.as_ref().try_into().expect("the digest of SHA-512");
                let private = C::scalar(job.key).expect("the curve is checked");
                let digest = leftmost::<C, D>(job.digest);
                let signature = &mut *job.signature;
                let verdict = Verdict::Pending;
                batch.push(kernels::SignJob { private, nonce, digest, signature, verdict });
                outcomes.push(&mut job.outcome);
            }
            kernel(&mut batch);
            for (outcome, job) in outcomes.into_iter().zip(&batch) {
                *outcome = result_of(job.verdict);
            }
            nonces.iter_mut().for_each(Digest::wipe);
        });
    }
}

/// What each nonce is made of: uniform if the entropy is, and of no use to anyone who does not
/// know the private key if it is not.
fn nonces(hash: &Hash, jobs: &[&mut SignJob<'_>]) -> Vec<Digest> {
    let head = |job: &&mut SignJob<'_>| [job.key.as_bytes(), job.entropy, &[HERE]].concat();
    let mut heads: Vec<_> = jobs.iter().map(head).collect();
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

/// Hashed behind the entropy for nonces of signatures that are made here. Whatever is signed, no
/// nonce is related to one of the other kind.
const HERE: u8 = 0;
/// The same for those that are made elsewhere.
const ELSEWHERE: u8 = 1;

/// A nonce for a signature that is made elsewhere; nothing if these bytes give none.
pub(super) fn nonce(
    hash: &Hash,
    key: &PrivateKey,
    digest: &[u8],
    entropy: &[u8; 32],
) -> Option<PrivateKey> {
    wiped::<NONCE_STACK, _>(|| {
        let mut message = [key.as_bytes(), entropy, &[ELSEWHERE], digest].concat();
        let mut made = hash.digest(&message);
        let curve = key.curve();
        let nonce = made.as_ref().get(..curve.bytes());
        let nonce = nonce.and_then(|bytes| PrivateKey::from_bytes(curve, bytes).ok());
        wipe(&mut message);
        made.wipe();
        nonce
    })
}

/// Verifies signatures in `room`.
pub(super) fn verify<L: AllCurves>(room: L::Room, jobs: &mut [VerifyJob<'_>]) {
    each_curve!(|C, D| verify_on::<L, C, D>(room, jobs));
}

fn verify_on<L: CurveLanes<C, D>, C: Keys<D>, const D: usize>(
    room: L::Room,
    jobs: &mut [VerifyJob<'_>],
) {
    let (mut batch, mut outcomes) = (Vec::new(), Vec::new());
    for job in jobs {
        let Some(public) = C::point(job.key) else { continue };
        if job.signature.len() != 2 * C::BYTES {
            job.outcome = Outcome::Mismatched;
            continue;
        }
        let (digest, signature) = (leftmost::<C, D>(job.digest), job.signature);
        batch.push(kernels::VerifyJob { public, digest, signature, verdict: Verdict::Pending });
        outcomes.push(&mut job.outcome);
    }
    for jobs in batch.chunks_mut(L::LANES) {
        L::verify(room, jobs);
    }
    for (outcome, job) in outcomes.into_iter().zip(&batch) {
        *outcome = outcome_of(job.verdict);
    }
}

/// What of a digest counts (FIPS 186-5, section 6.4.1): as many bits as the order has.
fn leftmost<C: Keys<D>, const D: usize>(digest: &[u8]) -> &[u8] {
    const { assert!(C::NUMBERS.bits == 8 * C::BYTES, "longer digests would have to be shifted") };
    &digest[..digest.len().min(C::BYTES)]
}

/// What became of a signature that was looked at.
fn outcome_of(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Pending => Outcome::Pending,
        Verdict::Done => Outcome::Done,
        Verdict::Rejected => Outcome::Rejected,
    }
}

/// What became of a private operation, whose result is confirmed before it leaves.
fn result_of(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Pending => Outcome::Pending,
        Verdict::Done => Outcome::Done,
        Verdict::Rejected => Outcome::FaultDetected,
    }
}
