//! What every batch does with its jobs.
#![allow(unsafe_code, reason = "functions for C")]

use std::fmt::Display;

use crate::door::{self, Span};
use crate::status::Status;

/// What became of a job: if it failed, how and why.
pub(super) type Outcome = Result<(), (Status, String)>;

/// A job of C.
pub(super) trait Job {
    /// The job in the words of Rust.
    type Lent<'a>;

    /// Looks at the pointers of the job, which is the one at `index`.
    ///
    /// # Safety
    ///
    /// They point to what the job says, which is not used otherwise while the answer is in use.
    unsafe fn lend<'a>(&self, index: usize) -> Result<Self::Lent<'a>, Status>;

    /// Where the job's status goes.
    fn status(&mut self) -> &mut u32;
}

/// Binds what the pointers of a job point to, by functions of [`door`], to the names of its fields.
/// A job with a null pointer is refused, and one whose output overlaps something else of it.
macro_rules! pointers {
    ($index:expr, { $($field:ident: $look:ident($($of:expr),+)),+ $(,)? }) => {
        let spans = [$($crate::door::Span::$look(stringify!($field), $($of),+)),+];
        $crate::crypto::jobs::apart($index, &spans)?;
        // SAFETY: the caller vouches for it, and nothing else of the job is where it writes.
        $(let $field = unsafe { $crate::door::$look($($of),+) }?;)+
    };
}

pub(super) use pointers;

/// Implements [`Job`] for a type of jobs, whose fields are looked at as [`pointers`] does it.
macro_rules! lent {
    ($job:ident as $lent:ty, |$from:ident| $($fields:tt),+ => $body:expr) => {
        impl $crate::crypto::jobs::Job for $job {
            type Lent<'a> = $lent;

            unsafe fn lend<'a>(&self, index: usize) -> Result<$lent, Status> {
                let $from = self;
                $($crate::crypto::jobs::pointers!(index, $fields);)+
                Ok($body)
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
    // SAFETY: the caller vouches for it.
    unsafe { batch_of(jobs, count, |jobs| run(lend(jobs)?)) }
}

/// Passes the jobs themselves to `run`, which may write more into them than their status, and notes
/// what became of each, which `run` returns in their order.
///
/// # Safety
///
/// As for [`batch()`].
pub(super) unsafe fn batch_of<J: Job>(
    jobs: *mut J,
    count: usize,
    run: impl FnOnce(&mut [J]) -> Result<Vec<Outcome>, Status>,
) -> Status {
    door::guarded(|| {
        // SAFETY: the caller vouches for it.
        let jobs = unsafe { door::places(jobs, count) }?;
        // The status that stays if `run` panics.
        mark(jobs, Status::Defect);
        let outcomes = run(jobs).inspect_err(|refusal| mark(jobs, *refusal))?;
        settle(jobs, outcomes)
    })
}

/// Gives all jobs one status.
fn mark<J: Job>(jobs: &mut [J], status: Status) {
    jobs.iter_mut().for_each(|job| *job.status() = status as u32);
}

/// Lends all jobs, or none.
///
/// # Safety
///
/// Each is as [`Job::lend`] wants it.
pub(super) unsafe fn lend<'a, J: Job>(jobs: &[J]) -> Result<Vec<J::Lent<'a>>, Status> {
    let mut lent = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.iter().enumerate() {
        // SAFETY: the caller vouches for it.
        lent.push(unsafe { job.lend(index) }?);
    }
    Ok(lent)
}

/// Checks the pointers of the job at `index`.
pub(super) fn apart(index: usize, spans: &[Span]) -> Result<(), Status> {
    door::apart(spans).map_err(|reason| numbered(Status::Argument, index, reason))
}

/// Notes why the job at `index` was refused.
fn numbered(status: Status, index: usize, reason: String) -> Status {
    status.because(format!("job {index}: {reason}"))
}

/// Notes what became of each job; the answer is that of the first one that failed.
fn settle<J: Job>(jobs: &mut [J], outcomes: Vec<Outcome>) -> Result<(), Status> {
    let mut all = Ok(());
    for (index, (job, outcome)) in jobs.iter_mut().zip(outcomes).enumerate() {
        *job.status() = match outcome {
            Ok(()) => Status::Ok,
            Err((status, reason)) => {
                all = all.and_then(|()| Err(numbered(status, index, reason)));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A job with its status.
    struct Plain(u32);

    impl Job for Plain {
        type Lent<'a> = ();

        unsafe fn lend<'a>(&self, _: usize) -> Result<Self::Lent<'a>, Status> {
            Ok(())
        }

        fn status(&mut self) -> &mut u32 {
            &mut self.0
        }
    }

    /// The statuses of a batch and of its jobs, which had that of success before.
    fn statuses(run: impl FnOnce() -> Result<Vec<Outcome>, Status>) -> (Status, [u32; 3]) {
        let mut jobs = [0; 3].map(Plain);
        // SAFETY: there are as many jobs.
        let status = unsafe { batch(jobs.as_mut_ptr(), jobs.len(), |_| run()) };
        (status, jobs.map(|job| job.0))
    }

    #[test]
    fn a_job_that_is_not_executed_is_never_good() {
        let all = |status: Status| (status, [status as u32; 3]);
        assert_eq!(statuses(|| Err(Status::Argument)), all(Status::Argument));
        assert_eq!(statuses(|| panic!("a defect")), all(Status::Defect));
    }
}
