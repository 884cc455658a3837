//! Which kernel costs least for a number of jobs.

/// One way to execute jobs: a run takes up to `lanes` of them and costs the same however many.
///
/// The default provider is one with a single lane; a kernel for few jobs has one to three, a
/// multi-buffer kernel four or eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The most jobs of one run.
    pub lanes: usize,
    /// What one run costs.
    pub cost_ns: u64,
}

/// The way, as an index into `ways`, whose run belongs to a cheapest division of `jobs` jobs into
/// runs; nothing without jobs or ways.
///
/// Of divisions that cost the same, one with the fewest runs is taken, and of ways for the same
/// jobs the one with the fewest lanes. More jobs than [`JOBS_MAX`] are divided as that many: the
/// caller divides the rest when these are done.
///
/// # Panics
///
/// If a way has no lanes.
pub fn cheapest(ways: &[Way], jobs: usize) -> Option<usize> {
    let jobs = jobs.min(JOBS_MAX);
    (jobs > 0 && !ways.is_empty()).then(|| divisions(ways, jobs)[jobs].way)
}

/// What a cheapest division of each number of jobs costs; nothing without ways.
///
/// # Panics
///
/// If a way has no lanes.
pub fn least_costs(ways: &[Way]) -> [u64; JOBS_MAX + 1] {
    divisions(ways, JOBS_MAX).map(|division| division.cost_ns)
}

/// A division of some jobs into runs, by what makes it better than others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Division {
    cost_ns: u64,
    runs: usize,
    /// Those of the way of one of the runs.
    lanes: usize,
    way: usize,
}

/// The best division of each number of jobs up to `jobs`.
fn divisions(ways: &[Way], jobs: usize) -> [Division; JOBS_MAX + 1] {
    let nothing = Division { cost_ns: 0, runs: 0, lanes: 0, way: 0 };
    let mut best = [nothing; JOBS_MAX + 1];
    for count in 1..=jobs {
        let division = |(way, &Way { lanes, cost_ns }): (usize, &Way)| {
            assert!(lanes > 0, "a run executes at least one job");
            let rest = best[count.saturating_sub(lanes)];
            let cost_ns = rest.cost_ns.saturating_add(cost_ns);
            Division { cost_ns, runs: rest.runs + 1, lanes, way }
        };
        best[count] = ways.iter().enumerate().map(division).min().unwrap_or(nothing);
    }
    best
}

/// The most jobs that are divided at once.
pub const JOBS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RSA-2048 on a Zen 4: the default provider, kernels for one job, two, four and eight.
    const RSA_2048: [Way; 5] = [
        Way { lanes: 1, cost_ns: 242_000 },
        Way { lanes: 1, cost_ns: 205_000 },
        Way { lanes: 2, cost_ns: 385_000 },
        Way { lanes: 4, cost_ns: 509_000 },
        Way { lanes: 8, cost_ns: 992_000 },
    ];

    /// The lanes of every run, in the order in which they are chosen.
    fn runs(ways: &[Way], mut jobs: usize) -> Vec<usize> {
        let mut runs = Vec::new();
        while let Some(way) = cheapest(ways, jobs) {
            runs.push(ways[way].lanes);
            jobs = jobs.saturating_sub(ways[way].lanes);
        }
        runs.sort_unstable();
        runs
    }

    #[test]
    fn each_number_of_jobs_has_its_kernels() {
        assert_eq!(cheapest(&RSA_2048, 0), None);
        assert_eq!(cheapest(&RSA_2048, 1), Some(1), "not the default provider's");
        let costs = least_costs(&RSA_2048);
        assert_eq!(costs[..4], [0, 205_000, 385_000, 509_000]);
        let divisions: Vec<_> = (1..=9).map(|jobs| runs(&RSA_2048, jobs)).collect();
        let expected: [&[usize]; 9] =
            [&[1], &[2], &[4], &[4], &[1, 4], &[2, 4], &[8], &[8], &[1, 8]];
        assert_eq!(divisions, expected);
    }

    #[test]
    fn at_equal_cost_there_are_few_runs_and_few_lanes() {
        let ways = [(1, 100), (2, 200), (4, 400)].map(|(lanes, cost_ns)| Way { lanes, cost_ns });
        assert_eq!(runs(&ways, 4), [4]);
        let unknown = [(8, 0), (4, 0), (1, 0)].map(|(lanes, cost_ns)| Way { lanes, cost_ns });
        assert_eq!(cheapest(&unknown, 1), Some(2));
        assert_eq!(cheapest(&unknown, 4), Some(1));
        assert_eq!(cheapest(&unknown, 5), Some(0));
    }

    #[test]
    fn without_ways_nothing_is_chosen() {
        assert_eq!((cheapest(&[], 3), least_costs(&[])), (None, [0; JOBS_MAX + 1]));
    }

    proptest! {
        #[test]
        fn no_other_division_is_cheaper(
            ways in prop::collection::vec((1_usize..=8, 0_u64..1_000), 1..5),
            jobs in 1_usize..=JOBS_MAX,
        ) {
            let ways: Vec<Way> =
                ways.into_iter().map(|(lanes, cost_ns)| Way { lanes, cost_ns }).collect();
            let (mut cost, mut left) = (0, jobs);
            while let Some(way) = cheapest(&ways, left) {
                cost += ways[way].cost_ns;
                left = left.saturating_sub(ways[way].lanes);
            }
            prop_assert_eq!(cost, by_trying_all(&ways, jobs));
        }
    }

    /// The cost of the cheapest division, found by trying them all.
    fn by_trying_all(ways: &[Way], jobs: usize) -> u64 {
        if jobs == 0 {
            return 0;
        }
        // Runs may come in any order, so each way is either used next or never again.
        let [first, others @ ..] = ways else { return u64::MAX };
        let with = by_trying_all(ways, jobs.saturating_sub(first.lanes));
        with.saturating_add(first.cost_ns).min(by_trying_all(others, jobs))
    }
}
