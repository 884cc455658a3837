//! Whether a job is left on its lane until its thread has nothing else to do, learnt from what that
//! has brought.

use crate::company::saving_ns;
use crate::{JOBS_MAX, PARK_COST_NS};

/// How many jobs join one that is left on its lane, and not waited for.
///
/// A server turns to its other connections before what is parked is executed. Where that hardly
/// ever brings another job, as at low load, parking costs the server turns of its event loop for
/// nothing, and the job is better executed at once. One job in [`PROBE_EVERY`] is parked all the
/// same, to find out whether that is still so.
#[derive(Clone, Debug)]
pub struct Encounters {
    /// On average; the last ones count most.
    joined: f64,
    /// Jobs that were better executed at once.
    vain: u32,
    /// Whether a job is parked of which it is counted how many join it.
    tells: bool,
}

impl Encounters {
    /// Whether the first job on a lane is to be executed at once, given what each number of jobs
    /// costs; 0 where nothing is known yet. If not, it is parked.
    pub fn are_vain(&mut self, costs: &[u64; JOBS_MAX + 1]) -> bool {
        let pays = costs[1] == 0 || saving_ns(costs, 1, self.joined) > PARK_COST_NS as f64;
        self.vain = self.vain.wrapping_add(u32::from(!pays));
        self.tells = pays || self.vain.is_multiple_of(PROBE_EVERY);
        !self.tells
    }

    /// `jobs` jobs leave the lane together, which may have been made to wait for each other.
    pub fn left(&mut self, jobs: usize, have_waited: bool) {
        let tells = std::mem::take(&mut self.tells);
        if tells && !have_waited {
            self.joined += (jobs as f64 - 1.0 - self.joined) / MEMORY;
        }
    }
}

impl Default for Encounters {
    /// A server is assumed to be busy until its load is known.
    fn default() -> Self {
        Encounters { joined: (JOBS_MAX - 1) as f64, vain: 0, tells: false }
    }
}

/// Parked jobs after which a change of load counts.
const MEMORY: f64 = 8.0;

/// While no job is parked, one in this many is all the same.
const PROBE_EVERY: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Way, least_costs};

    fn costs() -> [u64; JOBS_MAX + 1] {
        let ways = [(1, 16_000), (4, 35_000), (8, 38_000)];
        least_costs(&ways.map(|(lanes, cost_ns)| Way { lanes, cost_ns }))
    }

    /// How many of so many jobs are parked, where `joined` more come to each.
    fn parked(encounters: &mut Encounters, jobs: usize, joined: usize) -> usize {
        let mut parked = 0;
        // Once: Miri takes its time for them.
        let costs = costs();
        for _ in 0..jobs {
            if !encounters.are_vain(&costs) {
                parked += 1;
            }
            encounters.left(1 + joined, false);
        }
        parked
    }

    #[test]
    fn who_meets_others_is_parked() {
        assert_eq!(parked(&mut Encounters::default(), 1_000, 7), 1_000);
    }

    #[test]
    fn who_meets_nobody_is_soon_executed_at_once() {
        let mut encounters = Encounters::default();
        parked(&mut encounters, 100, 0);
        assert_eq!(parked(&mut encounters, 1_600, 0), 100, "but for one in sixteen");
    }

    #[test]
    fn a_server_that_becomes_busy_parks_again() {
        let mut encounters = Encounters::default();
        parked(&mut encounters, 1_000, 0);
        parked(&mut encounters, 100, 7);
        assert_eq!(parked(&mut encounters, 1_000, 7), 1_000);
    }

    #[test]
    fn who_was_made_to_wait_tells_nothing() {
        let mut encounters = Encounters::default();
        parked(&mut encounters, 1_000, 0);
        let before = encounters.joined;
        while encounters.are_vain(&costs()) {}
        encounters.left(8, true);
        assert_eq!(encounters.joined, before);
    }

    #[test]
    fn nothing_is_vain_before_costs_are_known() {
        let mut encounters = Encounters::default();
        parked(&mut encounters, 1_000, 0);
        assert!(!encounters.are_vain(&[0; JOBS_MAX + 1]));
    }

    #[test]
    fn who_saves_nothing_by_company_is_not_parked() {
        let mut encounters = Encounters::default();
        let apart = std::array::from_fn(|jobs| 16_000 * jobs as u64);
        assert!(encounters.are_vain(&apart));
    }
}
