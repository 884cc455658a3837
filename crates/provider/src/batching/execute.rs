//! Executes batches: by the kernels that cost least for their number of jobs, or one by one where
//! that costs less or a kernel has failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use widelane_batch::{Batch, Closed, Tick, Waited};
use widelane_bridge::counters::Counters;
use widelane_cpu::clock;

use crate::batching::kernel::{Kernel, Outcome};
use crate::batching::kinds;
use crate::batching::queues::{Method, Queues};
use crate::batching::request::{Answer, Request};
use crate::counters::{How, add, count, count_job, count_wait, of_kind};
use crate::stack;

/// The time, as queues count it.
pub(crate) fn now() -> Tick {
    Tick(clock::now_ns())
}

/// Does operations of one kind that have met, and answers each.
pub(super) fn execute(queues: &Queues, counters: &Counters, requests: &[&Request]) -> Vec<Answer> {
    if !requests.is_empty() {
        count(&of_kind(counters, queues.kind).meetings);
    }
    run(queues, counters, requests, [How::Batched, How::Single])
}

/// Does an operation whose caller cannot wait, and answers it.
pub(super) fn execute_alone(queues: &Queues, counters: &Counters, request: &Request) -> Answer {
    let answers = run(queues, counters, &[request], [How::Synchronous; 2]);
    answers.into_iter().next().unwrap_or(Answer::Failed)
}

/// Counts why a batch was closed.
pub(super) fn count_closed(counters: &Counters, closed: Closed) {
    match closed {
        Closed::Full => count(&counters.closed_full),
        Closed::Idle => count(&counters.closed_idle),
        Closed::Deadline => count(&counters.closed_deadline),
        Closed::Leader => count(&counters.closed_leader),
        Closed::Sparse | Closed::Shutdown => {}
    }
}

/// Counts how long the jobs of a finished batch have waited.
pub(super) fn count_waits<J>(counters: &Counters, batch: &Batch<J>) {
    batch.waits_ns(now()).for_each(|wait_ns| count_wait(counters, wait_ns));
}

/// Counts that a partial batch waited for company.
pub(super) fn count_short_wait(counters: &Counters, Waited { ns, company }: Waited) {
    count(&counters.short_waits);
    counters.short_wait_ns_total.fetch_add(ns, Ordering::Relaxed);
    add(&counters.short_wait_company, company);
}

/// Does operations in the runs that cost least, and counts them as done by a kernel, or singly.
///
/// Only the first run is timed. One that follows at once finds code and tables in the caches: if it
/// were timed, two runs of four lanes would seem cheaper than one of eight. Nor is what fails
/// timed: input that is refused before anything is computed would make the default provider seem
/// cheap, and a peer chooses some of it.
fn run(
    queues: &Queues,
    counters: &Counters,
    requests: &[&Request],
    [by_kernel, singly]: [How; 2],
) -> Vec<Answer> {
    let mut answers = Vec::with_capacity(requests.len());
    while let Some(rest @ [next, ..]) = requests.get(answers.len()..) {
        let is_first = answers.is_empty();
        match queues.costs.choose(rest.len(), is_first) {
            Method::Kernel(index) => {
                let (lanes, _) = queues.costs.lanes_and_room(index);
                let run = &rest[..lanes.min(rest.len())];
                let kernel = (index, kinds::run as Kernel);
                answers.extend(run_kernel(queues, counters, run, by_kernel, kernel, is_first));
            }
            Method::DefaultProvider => {
                let begin = now();
                let answer = next.run_single();
                if matches!(answer, Answer::Done(_)) {
                    if is_first {
                        queues.costs.record(Method::DefaultProvider, now().since(begin));
                    }
                    count_job(counters, queues.kind, singly);
                }
                answers.push(answer);
            }
        }
    }
    answers
}

fn run_kernel(
    queues: &Queues,
    counters: &Counters,
    requests: &[&Request],
    how: How,
    (index, kernel): (usize, Kernel),
    is_timed: bool,
) -> Vec<Answer> {
    let begin = now();
    // The kernel needs more stack than an ASYNC job or some threads have. What waits is not lost
    // to a panic or for want of memory.
    let run = || stack::on_large(|| kernel(requests, index));
    let Some(outcomes) = catch_unwind(AssertUnwindSafe(run)).ok().flatten().flatten() else {
        add(&counters.fallbacks, requests.len());
        return requests.iter().map(|request| request.run_single()).collect();
    };
    let is_done = |outcome: &Outcome| matches!(outcome, Outcome::Done(_));
    if is_timed && outcomes.iter().any(is_done) {
        queues.costs.record(Method::Kernel(index), now().since(begin));
    }
    count(&counters.batches_by_fill[requests.len()]);
    let (_, room) = queues.costs.lanes_and_room(index);
    count(&counters.runs_by_room[room as usize]);
    count(&of_kind(counters, queues.kind).runs);
    let settle = |(request, outcome): (&&Request, Outcome)| match outcome {
        Outcome::Done(output) => {
            count_job(counters, queues.kind, how);
            Answer::Done(output)
        }
        Outcome::Fault => {
            count(&counters.faults_detected);
            request.run_single()
        }
        Outcome::Rejected => Answer::Rejected,
    };
    requests.iter().zip(outcomes).map(settle).collect()
}

#[cfg(test)]
pub(super) use tests::new_key;

#[cfg(test)]
#[allow(unsafe_code, reason = "makes a key by libcrypto")]
mod tests {
    use std::ffi::{c_int, c_void};
    use std::ptr;
    use std::sync::Arc;

    use widelane_bridge::counters::OperationKind;
    use widelane_ossl_sys::Libcrypto;
    use widelane_ossl_sys::core::{OsslParam, SELECT_KEYPAIR};

    use super::*;
    use crate::batching::Operation;
    use crate::counters::Pages;
    use crate::delegate::Delegate;
    use crate::errors::tests::libcrypto_of_tests;
    use crate::keymgmt::ManagedKey;
    use crate::process;
    use crate::rsa::batch::PrivateOperation;
    use crate::rsa::key::{Key, Kind};
    use crate::secret::Secret;

    /// A new RSA-2048 key.
    pub(crate) fn new_key() -> Arc<Key> {
        let libcrypto = libcrypto_of_tests();
        let delegate = Arc::new(Delegate::load(libcrypto).expect("the default provider"));
        let rsa = &delegate.algorithms.rsa.functions;
        let (gen_init, generate) = (rsa.gen_init.unwrap(), rsa.generate.unwrap());
        // SAFETY: the default provider's own context.
        let generation = unsafe { gen_init(delegate.provctx, SELECT_KEYPAIR, ptr::null()) };
        unsafe extern "C" fn go_on(_: *const OsslParam, _: *mut c_void) -> c_int {
            1
        }
        // SAFETY: begun above.
        let inner = unsafe { generate(generation, Some(go_on), ptr::null_mut()) };
        // SAFETY: begun above, ended once.
        unsafe { rsa.gen_cleanup.unwrap()(generation) };
        Key::adopt(&delegate, Kind::Rsa, inner).expect("a key")
    }

    /// Runs three operations by a kernel that fails, and demands three results all the same.
    /// Answers the counters.
    fn run_by(kernel: Kernel) -> &'static Counters {
        let key = new_key();
        let requests = [1, 2, 3].map(|number| {
            let mut input = vec![0; 256];
            input[255] = number;
            let (key, input) = (Arc::clone(&key), input.into());
            Request::new(PrivateOperation { key, input, is_signature: true })
        });
        let requests: Vec<&Request> = requests.iter().collect();
        let counters = Pages::of_nobody().first();
        let queues = process::current().queues(requests[0].kind());
        let answers = run_kernel(queues, counters, &requests, How::Batched, (0, kernel), true);
        assert_eq!(answers.len(), 3);
        for (request, answer) in requests.iter().zip(answers) {
            let (Answer::Done(made), Answer::Done(expected)) = (answer, request.run_single())
            else {
                panic!("an operation was lost");
            };
            assert_eq!(made.0, expected.0);
        }
        assert_eq!(counters.jobs_batched.load(Ordering::Relaxed), 0);
        counters
    }

    /// An operation that the default provider refuses, and that no kernel does.
    struct Refused(Arc<Delegate>);

    impl Operation for Refused {
        fn kind(&self) -> OperationKind {
            OperationKind::Other
        }

        fn libcrypto(&self) -> &Libcrypto {
            &self.0.libcrypto
        }

        fn run_single(&self) -> Option<Secret> {
            None
        }
    }

    #[test]
    fn what_is_refused_is_neither_timed_nor_counted_as_done() {
        let key = new_key();
        let counters = Pages::of_nobody().first();
        let queues = process::current().queues(OperationKind::Other);
        let known = queues.costs.by_jobs();
        for _ in 0..100 {
            let request = Request::new(Refused(Arc::clone(key.delegate())));
            assert!(matches!(execute_alone(queues, counters, &request), Answer::Rejected));
        }
        assert_eq!(queues.costs.by_jobs(), known);
        assert_eq!(counters.jobs_synchronous.load(Ordering::Relaxed), 0);

        let kernel = |requests: &[&Request], _: usize| {
            Some(requests.iter().map(|_| Outcome::Rejected).collect())
        };
        let queues = process::current().queues(OperationKind::Rsa4096);
        let known = queues.costs.by_jobs();
        for _ in 0..100 {
            let request = Request::new(Refused(Arc::clone(key.delegate())));
            let kernel = (0, kernel as Kernel);
            run_kernel(queues, counters, &[&request], How::Batched, kernel, true);
        }
        assert_eq!(queues.costs.by_jobs(), known);
    }

    #[test]
    fn a_fault_is_made_good_by_the_default_provider() {
        let counters =
            run_by(|requests, _| Some(requests.iter().map(|_| Outcome::Fault).collect()));
        assert_eq!(counters.faults_detected.load(Ordering::Relaxed), 3);
        assert_eq!(counters.fallbacks.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_kernel_that_fails_or_panics_is_made_good_by_the_default_provider() {
        for kernel in [(|_, _| None) as Kernel, |_, _| panic!("on purpose")] {
            let counters = run_by(kernel);
            assert_eq!(counters.fallbacks.load(Ordering::Relaxed), 3);
            assert_eq!(counters.faults_detected.load(Ordering::Relaxed), 0);
        }
    }
}
