//! What a server has done so far, and between two looks.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::answer::Measured;
use crate::live::{Directories, Process, Survey, control_group};
use crate::switch::Chosen;

/// A look at the processes of a server, and at the lane process that signs for them.
pub struct Look {
    at: Instant,
    handshakes: u64,
    cpu: Duration,
    processes: BTreeSet<(u32, u64)>,
    /// How each process of the server is switched.
    pub words: Vec<((u32, u64), u64)>,
}

impl Look {
    /// Looks now.
    pub fn take(directories: &Directories, chosen: &Chosen) -> Self {
        let at = Instant::now();
        let survey = Survey::take(directories);
        let (server, others): (Vec<_>, Vec<_>) =
            survey.processes.iter().partition(|process| chosen.is_of(process));
        let lanes = others.into_iter().filter(|other| other.counts.lane_process_starts > 0);
        let lanes = of_same_group(lanes.collect(), &server);
        Look::of(at, &server, &lanes)
    }

    fn of(at: Instant, server: &[&Process], lanes: &[&Process]) -> Self {
        let all = || server.iter().chain(lanes);
        Look {
            at,
            handshakes: server.iter().map(|process| process.counts.handshakes).sum(),
            cpu: all().map(|process| process.cpu).sum(),
            processes: all().map(|process| process.identity()).collect(),
            words: server.iter().map(|it| (it.identity(), it.counts.off_until_ns)).collect(),
        }
    }

    /// What was done since an earlier look; nothing where processes have started or ended since:
    /// what they did cannot be told.
    pub fn since(&self, earlier: &Look) -> Option<Measured> {
        (self.processes == earlier.processes).then(|| Measured {
            processes: self.processes.len(),
            seconds: (self.at - earlier.at).as_secs_f64(),
            handshakes: self.handshakes.saturating_sub(earlier.handshakes),
            cpu_s: self.cpu.saturating_sub(earlier.cpu).as_secs_f64(),
        })
    }
}

/// Those lane processes that are in a control group of the server: nothing else tells whose they
/// are.
fn of_same_group<'a>(lanes: Vec<&'a Process>, server: &[&Process]) -> Vec<&'a Process> {
    if lanes.is_empty() {
        return lanes;
    }
    let groups: BTreeSet<_> = server.iter().filter_map(|it| control_group(it.pid)).collect();
    let is_of_it = |lane: &&Process| control_group(lane.pid).is_some_and(|it| groups.contains(&it));
    lanes.into_iter().filter(is_of_it).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::process;

    #[test]
    fn what_was_done_between_two_looks_is_of_processes_that_ran_all_the_time() {
        let at = Instant::now();
        let second = at + Duration::from_secs(2);
        let mut lane = process(3, 0);
        lane.cpu = Duration::from_millis(500);
        let before = [process(1, 1_000), process(2, 50)];
        let after = [process(1, 3_000), process(2, 50)];
        let earlier = Look::of(at, &[&before[0], &before[1]], &[&process(3, 0)]);
        let later = Look::of(second, &[&after[0], &after[1]], &[&lane]);
        let measured = later.since(&earlier).unwrap();
        assert_eq!((measured.processes, measured.handshakes, measured.seconds), (3, 2_000, 2.0));
        // 230 µs for each handshake, and half a second of the lane process.
        assert!((measured.cpu_s - 0.96).abs() < 1e-9, "{measured:?}");
        for others in [&[&after[0]][..], &[&after[0], &after[1], &process(4, 9)]] {
            assert!(Look::of(second, others, &[&lane]).since(&earlier).is_none());
        }
        let mut recycled = process(2, 50);
        recycled.started_ticks += 1;
        assert!(Look::of(second, &[&after[0], &recycled], &[&lane]).since(&earlier).is_none());
    }

    #[test]
    fn a_lane_process_is_of_the_server_in_its_control_group() {
        let (own, other) = (process(std::process::id(), 1), process(4_194_305, 1));
        assert_eq!(of_same_group(vec![&own, &other], &[&own]).len(), 1);
        assert_eq!(of_same_group(vec![&own], &[&other]).len(), 0);
    }
}
