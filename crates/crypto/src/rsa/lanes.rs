//! The private operation for many jobs: sorted by key size into batches of the IFMA rooms.

use widelane_cpu::{Ifma256, Ifma512};
use widelane_kernels::lanes::{Ifma256x4, Ifma512x8};
use widelane_kernels::mont::{CrtJob, CrtKey, Verdict, ifma256_x4, ifma512_x8, one};

use super::key::Material;
use super::{Outcome, PrivateJob, PrivateKey};
use crate::stack::{RSA_2048_BYTES, RSA_3072_BYTES, RSA_4096_BYTES, scrubbed};

/// A room that runs batches.
pub(super) trait BatchRoom: Copy {
    /// How many jobs cost no more than one, kernel by kernel.
    const KERNELS: [usize; 3];

    /// Executes up to `lanes` jobs by the kernel that has so many.
    fn private_crt<const HALF: usize, const FULL: usize>(
        self,
        lanes: usize,
        jobs: &mut [CrtJob<'_, HALF, FULL>],
    );

    /// Whether the public operation takes a result back to an input, both public.
    fn confirms<const HALF: usize, const FULL: usize>(
        self,
        key: &CrtKey<HALF, FULL>,
        input: &[u8],
        result: &[u8],
    ) -> bool;
}

impl BatchRoom for Ifma256 {
    const KERNELS: [usize; 3] = [1, ifma256_x4::LANES / 2, ifma256_x4::LANES];

    fn private_crt<const HALF: usize, const FULL: usize>(
        self,
        lanes: usize,
        jobs: &mut [CrtJob<'_, HALF, FULL>],
    ) {
        match jobs {
            [job] if lanes == 1 => one::private_crt::<Ifma256x4, HALF, FULL>(self, job),
            jobs if lanes < ifma256_x4::LANES => ifma256_x4::private_crt_abreast(self, jobs),
            jobs => ifma256_x4::private_crt(self, jobs),
        }
    }

    fn confirms<const HALF: usize, const FULL: usize>(
        self,
        key: &CrtKey<HALF, FULL>,
        input: &[u8],
        result: &[u8],
    ) -> bool {
        one::confirms_vartime::<Ifma256x4, HALF, FULL>(self, key, input, result)
    }
}

impl BatchRoom for Ifma512 {
    const KERNELS: [usize; 3] = [1, ifma512_x8::LANES / 2, ifma512_x8::LANES];

    fn private_crt<const HALF: usize, const FULL: usize>(
        self,
        lanes: usize,
        jobs: &mut [CrtJob<'_, HALF, FULL>],
    ) {
        match jobs {
            [job] if lanes == 1 => one::private_crt::<Ifma512x8, HALF, FULL>(self, job),
            jobs if lanes < ifma512_x8::LANES => ifma512_x8::private_crt_abreast(self, jobs),
            jobs => ifma512_x8::private_crt(self, jobs),
        }
    }

    fn confirms<const HALF: usize, const FULL: usize>(
        self,
        key: &CrtKey<HALF, FULL>,
        input: &[u8],
        result: &[u8],
    ) -> bool {
        one::confirms_vartime::<Ifma512x8, HALF, FULL>(self, key, input, result)
    }
}

/// Executes `jobs` in `room`: the jobs of one key size together, up to `lanes` at once.
pub(super) fn private(room: impl BatchRoom, lanes: usize, jobs: &mut [PrivateJob<'_>]) {
    private_of_size::<RSA_2048_BYTES, _, _>(room, lanes, jobs, |material| match material {
        Material::Rsa2048(key) => Some(&key.lanes),
        _ => None,
    });
    private_of_size::<RSA_3072_BYTES, _, _>(room, lanes, jobs, |material| match material {
        Material::Rsa3072(key) => Some(&key.lanes),
        _ => None,
    });
    private_of_size::<RSA_4096_BYTES, _, _>(room, lanes, jobs, |material| match material {
        Material::Rsa4096(key) => Some(&key.lanes),
        _ => None,
    });
}

/// Whether `result` is what the private operation makes of `input`.
pub(super) fn confirms(
    room: impl BatchRoom,
    key: &PrivateKey,
    input: &[u8],
    result: &[u8],
) -> bool {
    let bytes = key.size().bytes();
    if input.len() != bytes || result.len() != bytes {
        return false;
    }
    match &key.material {
        Material::Rsa2048(key) => room.confirms(&key.lanes, input, result),
        Material::Rsa3072(key) => room.confirms(&key.lanes, input, result),
        Material::Rsa4096(key) => room.confirms(&key.lanes, input, result),
    }
}

/// Executes those of `jobs` whose key `select` finds to be of its size, and takes less than `STACK`
/// bytes of stack for a batch.
fn private_of_size<const STACK: usize, const HALF: usize, const FULL: usize>(
    room: impl BatchRoom,
    lanes: usize,
    jobs: &mut [PrivateJob<'_>],
    select: impl Fn(&Material) -> Option<&CrtKey<HALF, FULL>>,
) {
    let (mut batch, mut outcomes) = (Vec::new(), Vec::new());
    for job in jobs {
        let Some(key) = select(&job.key.material) else { continue };
        let bytes = job.key.size().bytes();
        if job.input.len() != bytes || job.output.len() != bytes {
            job.output.fill(0);
            job.outcome = Outcome::InputOutOfRange;
            continue;
        }
        batch.push(CrtJob { key, input: job.input, output: job.output, verdict: Verdict::Pending });
        outcomes.push(&mut job.outcome);
    }
    for jobs in batch.chunks_mut(lanes) {
        scrubbed::<STACK, _>(|| room.private_crt(lanes, jobs));
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
