//! The private operation in the rooms that have kernels for it: jobs sorted by key size into
//! batches.

use widelane_kernels::mont::{Batches, CrtJob, CrtKey, Verdict, one};
use widelane_secret::stack::{kib, wiped};

use super::key::Material;
use super::{Outcome, PrivateJob, PrivateKey};

/// Stack of a batch, by size of the keys.
const STACK_2048: usize = kib(80);
/// As above.
const STACK_3072: usize = kib(116);
/// As above.
const STACK_4096: usize = kib(152);
/// Stack of checking a result, whatever the size of the key.
const CHECK_STACK: usize = kib(28);

/// Executes `jobs` in `room`: the jobs of one key size together, up to `lanes` at once.
pub(super) fn private<L: Batches>(room: L::Room, lanes: usize, jobs: &mut [PrivateJob<'_>]) {
    private_of_size::<L, STACK_2048, _, _>(room, lanes, jobs, |material| match material {
        Material::Rsa2048(key) => Some(&key.lanes),
        _ => None,
    });
    private_of_size::<L, STACK_3072, _, _>(room, lanes, jobs, |material| match material {
        Material::Rsa3072(key) => Some(&key.lanes),
        _ => None,
    });
    private_of_size::<L, STACK_4096, _, _>(room, lanes, jobs, |material| match material {
        Material::Rsa4096(key) => Some(&key.lanes),
        _ => None,
    });
}

/// Whether `result` is what the private operation makes of `input`.
pub(super) fn confirms<L: Batches>(
    room: L::Room,
    key: &PrivateKey,
    input: &[u8],
    result: &[u8],
) -> bool {
    let bytes = key.size().bytes();
    if input.len() != bytes || result.len() != bytes {
        return false;
    }
    wiped::<CHECK_STACK, _>(|| match &key.material {
        Material::Rsa2048(key) => one::confirms::<L, _, _>(room, &key.lanes, input, result),
        Material::Rsa3072(key) => one::confirms::<L, _, _>(room, &key.lanes, input, result),
        Material::Rsa4096(key) => one::confirms::<L, _, _>(room, &key.lanes, input, result),
    })
}

/// Executes those of `jobs` whose key `select` finds to be of its size, and takes less than `STACK`
/// words of stack for a batch.
fn private_of_size<L: Batches, const STACK: usize, const HALF: usize, const FULL: usize>(
    room: L::Room,
    lanes: usize,
    jobs: &mut [PrivateJob<'_>],
    select: impl Fn(&Material) -> Option<&CrtKey<HALF, FULL>>,
) {
    let (mut batch, mut outcomes) = (Vec::new(), Vec::new());
    for job in jobs {
        let Some(key) = select(&job.key.material) else { continue };
        let bytes = job.key.size().bytes();
        if job.input.len() != bytes || job.output.len() != bytes {
            if job.output.len() == bytes {
                job.output.fill(0);
            }
            job.outcome = Outcome::InputOutOfRange;
            continue;
        }
        batch.push(CrtJob { key, input: job.input, output: job.output, verdict: Verdict::Pending });
        outcomes.push(&mut job.outcome);
    }
    for jobs in batch.chunks_mut(lanes) {
        wiped::<STACK, _>(|| L::private_crt(room, lanes, jobs));
    }
    for (outcome, job) in outcomes.into_iter().zip(&batch) {
        *outcome = match job.verdict {
            Verdict::Pending => Outcome::Pending,
            Verdict::Done => Outcome::Done,
            Verdict::OutOfRange => Outcome::InputOutOfRange,
            Verdict::Fault => Outcome::FaultDetected,
        };
    }
}
