//! What is timed: an operation of an algorithm, as OpenSSL does it and as we do it.

use openssl::error::ErrorStack;
use widelane_cpu::{Policy, Room};
use widelane_crypto::ec::ROOMS;

use super::evp::Provider;

/// Inputs that a benchmark of public-key operations holds: the widest batch of any room.
pub const LANES_MAX: usize = 8;

/// Messages that are handed over at once where many are.
pub const MANY: usize = 32;

/// Does as many operations as go at once, the result of each in the output of its lane, and returns
/// how many came out well.
pub type Runner<'a> = Box<dyn FnMut(&mut [Vec<u8>]) -> Result<u64, ErrorStack> + 'a>;

/// One operation with keys and inputs.
pub trait Benchmark {
    /// Length of a result.
    fn output_len(&self) -> usize;

    /// How many inputs there are, each with an output of its own.
    fn inputs(&self) -> usize {
        LANES_MAX
    }

    /// The rooms that the operation has, best first: those of most curves.
    fn rooms(&self) -> &'static [Room] {
        ROOMS
    }

    /// Why there is nothing of OpenSSL's to time: then [`openssl`](Self::openssl) is not called,
    /// and [`is_right`](Self::is_right) compares with another room.
    fn openssl_lacks(&self) -> Option<&'static str> {
        None
    }

    /// OpenSSL's own operation, one at a time, its contexts made beforehand.
    fn openssl(&self) -> Result<Runner<'_>, ErrorStack>;

    /// OpenSSL's operation with our provider behind its calls; `None` where that does not offer the
    /// algorithm or is not timed with it.
    fn provider(&self, _provider: &Provider) -> Option<Result<Runner<'_>, ErrorStack>> {
        None
    }

    /// Ours, `jobs` jobs at a time, in the widest room that `policy` leaves open; full batches if
    /// no number is given, and always where the operation is not done in lanes.
    fn widelane(&self, policy: &Policy, jobs: Option<usize>) -> Ours<'_>;

    /// What is left to a worker whose lane process does the operation, in the rooms that `policy`
    /// leaves open to the worker: it confirms the results. `None` where no lane process does it.
    fn confirmation(&self, _policy: &Policy) -> Option<Runner<'_>> {
        None
    }

    /// Whether OpenSSL, or another room where it lacks the operation, agrees with what we put out
    /// for `lane`.
    fn is_right(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack>;

    /// Whether OpenSSL, or another room where it lacks the operation, agrees with what another
    /// library put out for `lane`. Where that draws random bytes which ours is given, it is not the
    /// same twice, and has to be checked otherwise.
    fn is_right_elsewhere(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        self.is_right(lane, output)
    }
}

/// Our side of a benchmark.
pub struct Ours<'a> {
    /// Jobs of one run.
    pub lanes: usize,
    /// Does as many.
    pub run: Runner<'a>,
}

/// The kernel with the fewest lanes that holds all jobs; of full batches that with the most.
/// `kernels` stand in the order of their `lanes`.
pub fn kernel_for<K: Copy>(
    kernels: &[K],
    lanes: impl Fn(&K) -> usize,
    jobs: Option<usize>,
) -> Option<K> {
    let holds = |kernel: &&K| jobs.is_some_and(|jobs| lanes(kernel) >= jobs);
    kernels.iter().find(holds).or(kernels.last()).copied()
}

/// A runner that takes the lanes in turn, one operation at a time.
pub fn in_turn<'a>(
    mut operation: impl FnMut(usize, &mut [u8]) -> Result<(), ErrorStack> + 'a,
) -> Runner<'a> {
    let mut next = 0;
    Box::new(move |outputs| {
        let lane = next;
        next = if lane + 1 < outputs.len() { lane + 1 } else { 0 };
        operation(lane, &mut outputs[lane])?;
        Ok(1)
    })
}
