//! Key pairs made in advance, as many at a time as a room has lanes: a batch costs the same however
//! few jobs it has. `docs/design/pools.md` has the reasons, and the rules that are kept here too.
//!
//! **Invariant**: no pair is handed out twice, not by two threads (each has its own pool), not by
//! parent and child, and none that is more than a second old.

use widelane_cpu::clock::now_ns;
use widelane_crypto::fork_generation;

/// How long a pair may wait.
const AGE_MAX_NS: u64 = 1_000_000_000;

/// The pairs of one thread on one curve. A pair wipes its private half when it is dropped.
pub(super) struct Pool<P> {
    pairs: Vec<P>,
    /// The process that made them, by its [`fork_generation`].
    process: Option<u64>,
    made_ns: u64,
}

/// Whether pairs were wanted lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// All pairs of the last batch were taken before they were too old.
    High,
    /// None were made, or some were left.
    Low,
}

impl<P> Pool<P> {
    pub(super) const EMPTY: Self = Pool { pairs: Vec::new(), process: None, made_ns: 0 };

    /// Takes a pair out of the pool, which is filled by `make` if it has none that may be used.
    pub(super) fn take<E>(
        &mut self,
        make: impl FnOnce(Demand) -> Result<Vec<P>, E>,
    ) -> Result<P, E> {
        self.take_at(fork_generation(), now_ns(), make)
    }

    fn take_at<E>(
        &mut self,
        process: Option<u64>,
        now_ns: u64,
        make: impl FnOnce(Demand) -> Result<Vec<P>, E>,
    ) -> Result<P, E> {
        // If it cannot be determined whether this process made them, they are dropped.
        let is_own = process.is_some() && self.process == process;
        let is_fresh = is_own && now_ns.saturating_sub(self.made_ns) < AGE_MAX_NS;
        if !is_fresh {
            self.pairs.clear();
        }
        if let Some(pair) = self.pairs.pop() {
            return Ok(pair);
        }
        self.pairs = make(if is_fresh { Demand::High } else { Demand::Low })?;
        (self.process, self.made_ns) = (process, now_ns);
        Ok(self.pairs.pop().expect("a room has at least one lane"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes pairs that are numbers, counted through all batches.
    struct Source {
        pool: Pool<u32>,
        made: u32,
        demands: Vec<Demand>,
    }

    impl Source {
        fn take(&mut self, process: u64, now_ns: u64) -> u32 {
            self.take_as(Some(process), now_ns)
        }

        fn take_as(&mut self, process: Option<u64>, now_ns: u64) -> u32 {
            let Source { pool, made, demands } = self;
            let make = |demand| {
                demands.push(demand);
                let batch = (*made..*made + 4).collect();
                *made += 4;
                Ok::<Vec<u32>, ()>(batch)
            };
            pool.take_at(process, now_ns, make).expect("a pair")
        }
    }

    fn source() -> Source {
        Source { pool: Pool::EMPTY, made: 0, demands: Vec::new() }
    }

    #[test]
    fn each_pair_is_taken_once() {
        let mut source = source();
        let mut taken: Vec<_> = (0..20).map(|now| source.take(7, now)).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..20).collect::<Vec<_>>());
        assert_eq!(source.demands[0], Demand::Low);
        assert!(source.demands[1..].iter().all(|demand| *demand == Demand::High));
    }

    #[test]
    fn what_is_old_is_dropped() {
        let mut source = source();
        let first = source.take(7, 5);
        let second = source.take(7, 4 + AGE_MAX_NS);
        assert!(first < 4 && second < 4);
        assert!(source.take(7, 5 + AGE_MAX_NS) >= 4);
        assert_eq!(source.demands, [Demand::Low, Demand::Low]);
    }

    #[test]
    fn a_child_has_no_pair_of_its_parent() {
        let mut source = source();
        source.take(7, 0);
        assert!(source.take(8, 1) >= 4);
    }

    #[test]
    fn a_process_that_cannot_tell_its_pairs_makes_new_ones() {
        let mut source = source();
        for batch in 0..3 {
            assert_eq!(source.take_as(None, 0) / 4, batch);
        }
        assert_eq!(source.demands, [Demand::Low; 3]);
    }

    #[test]
    fn a_failure_leaves_an_empty_pool() {
        let mut pool = Pool::<u32>::EMPTY;
        assert_eq!(pool.take_at(Some(7), 0, |_| Err("no random bytes")), Err("no random bytes"));
        assert_eq!(pool.take_at(Some(7), 0, |_| Ok::<_, &str>(vec![1])), Ok(1));
    }
}
