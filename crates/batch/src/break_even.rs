//! How many jobs are worth a batch.

/// How many jobs are worth a batch.
///
/// A batch costs the same however many of its lanes are used, so a few jobs are cheaper one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakEven {
    lanes: usize,
    jobs_min: usize,
}

/// How a number of jobs is best executed: whole batches first, then one partial batch or singles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Jobs that go into batches; all batches but the last are full.
    pub batched: usize,
    /// Jobs that are executed one by one.
    pub single: usize,
}

impl BreakEven {
    /// Trusts that batches of `lanes` pay off from `jobs_min` jobs on, until they are measured.
    ///
    /// `jobs_min` above `lanes` means that batches never pay off.
    ///
    /// # Panics
    ///
    /// If `lanes` is 0.
    pub const fn assumed(lanes: usize, jobs_min: usize) -> Self {
        assert!(lanes > 0, "a batch needs at least one lane");
        BreakEven { lanes, jobs_min }
    }

    /// Computes the break-even from the measured cost of one batch of `lanes` and of one single
    /// job.
    ///
    /// At equal cost the jobs run one by one: that wakes no wide unit.
    ///
    /// # Panics
    ///
    /// If `lanes` is 0.
    pub const fn measured(lanes: usize, batch_ns: u64, single_ns: u64) -> Self {
        let jobs_min = match batch_ns.checked_div(single_ns) {
            Some(jobs) if jobs < lanes as u64 => jobs as usize + 1,
            _ => lanes + 1,
        };
        Self::assumed(lanes, jobs_min)
    }

    /// The smallest number of jobs worth a batch; more than the lanes if none is.
    pub const fn jobs_min(self) -> usize {
        self.jobs_min
    }

    /// Divides `jobs` jobs between batches and the single-job path.
    pub const fn split(self, jobs: usize) -> Split {
        if self.jobs_min > self.lanes {
            return Split { batched: 0, single: jobs };
        }
        let rest = jobs % self.lanes;
        let single = if rest < self.jobs_min { rest } else { 0 };
        Split { batched: jobs - single, single }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rsa_2048_of_the_reference_machine_breaks_even_at_three() {
        let break_even = BreakEven::measured(8, 900_000, 390_000);
        assert_eq!(break_even.jobs_min(), 3);
        assert_eq!(break_even.split(2), Split { batched: 0, single: 2 });
        assert_eq!(break_even.split(3), Split { batched: 3, single: 0 });
        assert_eq!(break_even.split(17), Split { batched: 16, single: 1 });
    }

    #[test]
    fn equal_cost_runs_single() {
        assert_eq!(BreakEven::measured(8, 800, 400).jobs_min(), 3);
        assert_eq!(BreakEven::measured(8, 3200, 400).split(8), Split { batched: 0, single: 8 });
    }

    #[test]
    fn a_clock_that_stood_still_batches_nothing() {
        assert_eq!(BreakEven::measured(8, 0, 0).split(8), Split { batched: 0, single: 8 });
    }

    proptest! {
        #[test]
        fn no_other_split_is_cheaper(
            lanes in 1_usize..=16,
            batch_ns in 1_u64..10_000,
            single_ns in 1_u64..10_000,
            jobs in 0_usize..64,
        ) {
            let split = BreakEven::measured(lanes, batch_ns, single_ns).split(jobs);
            prop_assert_eq!(split.batched + split.single, jobs);
            let cost = |batched: usize| {
                batched.div_ceil(lanes) as u64 * batch_ns + (jobs - batched) as u64 * single_ns
            };
            for batched in 0..=jobs {
                prop_assert!(cost(split.batched) <= cost(batched));
            }
        }
    }
}
