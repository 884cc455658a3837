//! The kinds of operations that have kernels: what each family of algorithms says of them.

use widelane_bridge::counters::OperationKind;
use widelane_cpu::Room;

use crate::FAMILIES;
use crate::batching::kernel::{Kernel, Outcome};
use crate::batching::request::Request;
use crate::choosing::may_open;

/// A kind of operations, and what does many of them at once.
#[derive(Clone, Copy)]
pub(crate) struct BatchedKind {
    kind: OperationKind,
    /// Lanes and room of each kernel that the policy of a process of this program leaves open,
    /// those with the fewest lanes first.
    kernels: fn() -> Vec<(usize, Room)>,
    run: Kernel,
}

impl BatchedKind {
    /// A kind of which each of `kernels` is called by `run`, with its place among them.
    pub(crate) const fn new(
        kind: OperationKind,
        kernels: fn() -> Vec<(usize, Room)>,
        run: Kernel,
    ) -> Self {
        BatchedKind { kind, kernels, run }
    }

    /// A kind that only pools do, which call the kernels themselves.
    pub(crate) const fn pooled(kind: OperationKind, kernels: fn() -> Vec<(usize, Room)>) -> Self {
        BatchedKind { kind, kernels, run: |_, _| None }
    }
}

/// Lanes and room of each kernel for operations of a kind, those with the fewest lanes first; none
/// where there is nothing to batch. Some may be closed now, or to all but the lane process.
pub(crate) fn kernels(kind: OperationKind) -> Vec<(usize, Room)> {
    find(kind).map_or_else(Vec::new, |known| (known.kernels)())
}

/// Operations of a kind that one batch of this process holds; 1 where there is nothing to batch.
pub(crate) fn lanes(kind: OperationKind) -> usize {
    let open = kernels(kind).into_iter().filter(|(_, room)| may_open(*room));
    open.map(|(lanes, _)| lanes).max().unwrap_or(1)
}

/// Runs one of these kernels, which has this place among them.
pub(super) fn run(requests: &[&Request], index: usize) -> Option<Vec<Outcome>> {
    (find(requests.first()?.kind())?.run)(requests, index)
}

fn find(kind: OperationKind) -> Option<&'static BatchedKind> {
    FAMILIES
        .iter()
        .flat_map(|family| family.kinds)
        .copied()
        .flatten()
        .find(|known| known.kind == kind)
}
