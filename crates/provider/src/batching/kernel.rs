//! What all batch kernels have in common.

use std::any::Any;

use widelane_cpu::Room;
use widelane_crypto::ec::Ec;
use widelane_crypto::ed25519::Ed25519;
use widelane_crypto::rsa;
use widelane_crypto::x25519::X25519;

use crate::batching::request::Request;
use crate::secret::Secret;

/// What a kernel or a device made of an operation.
pub(crate) enum Outcome<T = Secret> {
    /// The result.
    Done(T),
    /// A result that did not stand its check.
    Fault,
    /// Nothing: the input is at fault. The default provider says why.
    Rejected,
}

impl<T> Outcome<T> {
    /// Puts `value` in the place of the result; a fault or a rejection stays what it is.
    pub(crate) fn and<U>(self, value: U) -> Outcome<U> {
        match self {
            Outcome::Done(_) => Outcome::Done(value),
            Outcome::Fault => Outcome::Fault,
            Outcome::Rejected => Outcome::Rejected,
        }
    }
}

/// Does operations, all of one kind and at most as many as there are lanes; nothing if a key is not
/// what its maker has said it is. Which of the kernels of its kind that is, is a place in the list
/// of [`kinds`](crate::batching::kinds).
pub(crate) type Kernel = fn(&[&Request], usize) -> Option<Vec<Outcome>>;

/// A kernel of `widelane_crypto` that is one of a list.
pub(crate) trait Placed {
    /// How many jobs it is for, and its room.
    fn place(&self) -> (usize, Room);
}

macro_rules! placed {
    ($($kernel:ty),*) => {$(
        impl Placed for $kernel {
            fn place(&self) -> (usize, Room) {
                (self.lanes(), self.room())
            }
        }
    )*};
}

placed!(Ec, Ed25519, X25519, rsa::Kernel);

/// Lanes and room of each kernel of a list.
pub(crate) fn places<K: Placed>(kernels: &[K]) -> Vec<(usize, Room)> {
    kernels.iter().map(Placed::place).collect()
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

/// The outputs of the jobs that were done, and what became of the others.
pub(crate) fn with_outputs(outcomes: Vec<Outcome<()>>, outputs: Vec<Secret>) -> Vec<Outcome> {
    outcomes.into_iter().zip(outputs).map(|(outcome, output)| outcome.and(output)).collect()
}
