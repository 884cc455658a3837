//! What all batch kernels have in common.

use std::any::Any;

use crate::batching::request::{Request, Secret};

/// What a kernel made of an operation.
pub(crate) enum Outcome {
    /// This.
    Done(Secret),
    /// A result that did not stand its check.
    Fault,
    /// Nothing: the input is at fault. The default provider says why.
    Rejected,
}

/// Does operations, all of one kind and at most as many as there are lanes; nothing if a key is not
/// what its maker has said it is. Which of the kernels of its kind that is, is a place in the list
/// of [`kinds`](crate::batching::kinds).
pub(crate) type Kernel = fn(&[&Request], usize) -> Option<Vec<Outcome>>;

/// What became of a job of `widelane_crypto`.
pub(crate) enum Verdict {
    /// Its output is the result.
    Done,
    /// Its result did not stand its check.
    Fault,
    /// Its input is at fault.
    Rejected,
}

/// What a kernel needs of each operation; nothing if one lacks it, or is of another type.
pub(crate) fn collect<'a, O: Any, T>(
    requests: &[&'a Request],
    operand: impl Fn(&'a O) -> Option<T>,
) -> Option<Vec<T>> {
    let operation = |request: &&'a Request| {
        let any: &'a dyn Any = request.operation();
        any.downcast_ref()
    };
    requests.iter().map(|request| operand(operation(request)?)).collect()
}

/// Goes by the verdict on each job.
pub(crate) fn settle<O>(
    outcomes: Vec<O>,
    outputs: Vec<Secret>,
    verdict: impl Fn(O) -> Verdict,
) -> Vec<Outcome> {
    let settled = |(outcome, output)| match verdict(outcome) {
        Verdict::Done => Outcome::Done(output),
        Verdict::Fault => Outcome::Fault,
        Verdict::Rejected => Outcome::Rejected,
    };
    outcomes.into_iter().zip(outputs).map(settled).collect()
}
