//! What every batch does with its jobs.

use std::fmt::Display;

use crate::door;
use crate::status::Status;

/// What became of a job: if it failed, how and why.
pub(super) type Outcome = Result<(), (Status, String)>;

/// A job of C.
pub(super) trait Job {
    /// The job in the words of Rust.
    type Lent<'a>;

    /// Looks at the pointers of the job.
    ///
    /// # Safety
    ///
    /// They point to what the job says, which is not used otherwise while the answer is in use.
    unsafe fn lend<'a>(&self) -> Result<Self::Lent<'a>, Status>;

    /// Where the job's status goes.
    fn status(&mut self) -> &mut u32;
}

/// Implements [`Job`] for a type of jobs, whose pointers are looked at by functions of [`door`].
macro_rules! lent {
    ($job:ident as $lent:ty, |$from:ident| $body:expr) => {
        impl $crate::crypto::jobs::Job for $job {
            type Lent<'a> = $lent;

            unsafe fn lend<'a>(&self) -> Result<$lent, Status> {
                let $from = self;
                // SAFETY: the caller vouches for it.
                unsafe { Ok($body) }
            }

            fn status(&mut self) -> &mut u32 {
                &mut self.status
            }
        }
    };
}

pub(super) use lent;

/// Lends the jobs to `run`, and notes what became of each, which it answers in their order.
///
/// # Safety
///
/// There are `count` jobs, and each is as [`Job::lend`] wants it.
pub(super) unsafe fn batch<'a, J: Job>(
    jobs: *mut J,
    count: usize,
    run: impl FnOnce(Vec<J::Lent<'a>>) -> Result<Vec<Outcome>, Status>,
) -> Status {
    door::guarded(|| {
        // SAFETY: the caller vouches for it.
        let jobs = unsafe { door::places(jobs, count) }?;
        // SAFETY: the caller vouches for it.
        let outcomes = run(unsafe { lend(jobs) }?)?;
        settle(jobs, outcomes)
    })
}

/// Lends all jobs, or none.
///
/// # Safety
///
/// Each is as [`Job::lend`] wants it.
pub(super) unsafe fn lend<'a, J: Job>(jobs: &[J]) -> Result<Vec<J::Lent<'a>>, Status> {
    let mut lent = Vec::with_capacity(jobs.len());
    for job in jobs {
        // SAFETY: the caller vouches for it.
        lent.push(unsafe { job.lend() }?);
    }
    Ok(lent)
}

/// Notes what became of each job; the answer is that of the first one that failed.
pub(super) fn settle<J: Job>(jobs: &mut [J], outcomes: Vec<Outcome>) -> Result<(), Status> {
    let mut all = Ok(());
    for (index, (job, outcome)) in jobs.iter_mut().zip(outcomes).enumerate() {
        *job.status() = match outcome {
            Ok(()) => Status::Ok,
            Err((status, reason)) => {
                all = all.and_then(|()| Err(status.because(format!("job {index}: {reason}"))));
                status
            }
        } as u32;
    }
    all
}

/// What became of a job that was refused.
pub(super) fn refused(status: Status, reason: impl Display) -> Outcome {
    Err((status, reason.to_string()))
}
