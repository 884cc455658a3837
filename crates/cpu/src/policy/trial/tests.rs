//! Simulated processes: what policies cost is given, and the trial has to find it out.

use super::*;

/// A service on a CPU: what a unit of work costs under each policy, and the clock there.
#[derive(Clone, Copy)]
struct Load<'a> {
    costs: &'a [f64],
    clocks: &'a [f64],
    /// Work per time.
    rate: f64,
    /// The part of the CPU that others use.
    others: f64,
}

const STEADY: Load<'static> = Load { costs: &[1.0], clocks: &[], rate: 0.5, others: 0.0 };

/// A trial on its way through simulated time, with costs that vary from slice to slice.
struct Day {
    trial: Trial,
    random: u64,
    noise: f64,
    seconds: f64,
    cpu_ns: f64,
    work_ns: f64,
}

impl Day {
    fn new(policies: usize, noise: f64) -> Self {
        let trial = Trial::new(policies);
        Day { trial, random: 0x5eed, noise, seconds: 0.0, cpu_ns: 0.0, work_ns: 0.0 }
    }

    /// About 0, and seldom further from it than 1.
    fn vary(&mut self) -> f64 {
        let mut uniform = || {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.random >> 11) as f64 / (1_u64 << 53) as f64
        };
        (uniform() + uniform() + uniform() + uniform()) - 2.0
    }

    fn slice(&mut self, load: &Load<'_>) {
        let policy = self.trial.current();
        let wall_ns = if self.trial.is_comparing() { 0.1e9 } else { 0.5e9 };
        let work_ns = wall_ns * load.rate * (1.0 + 0.1 * self.vary());
        let cpu_ns = work_ns * load.costs[policy] * (1.0 + self.noise * self.vary());
        self.seconds += wall_ns / 1e9;
        self.cpu_ns += cpu_ns;
        self.work_ns += work_ns;
        self.trial.take(Slice {
            wall_ns,
            cpu_ns,
            work_ns,
            others_ns: wall_ns * load.others,
            clock_mhz: load.clocks.get(policy).copied(),
        });
    }

    fn run(&mut self, load: &Load<'_>, seconds: f64) {
        let end = self.seconds + seconds;
        while self.seconds < end {
            self.slice(load);
        }
    }

    /// CPU time per work so far.
    fn cost(&self) -> f64 {
        self.cpu_ns / self.work_ns
    }
}

#[test]
fn the_cheapest_is_kept_and_comparing_costs_less_than_a_hundredth() {
    for costs in [[1.0, 1.27, 1.3, 2.1], [1.3, 1.0, 1.04, 1.5], [1.1, 1.08, 1.05, 1.0]] {
        for noise in [0.02, 0.05, 0.15] {
            let mut day = Day::new(4, noise);
            day.run(&Load { costs: &costs, ..STEADY }, 600.0);
            assert!(day.cost() < 1.01 * 1.005, "{costs:?} ± {noise}: {}", day.cost());
            let cheapest = costs.iter().position(|cost| *cost == 1.0);
            assert_eq!(Some(day.trial.current()), cheapest, "{costs:?} ± {noise}");
        }
    }
}

#[test]
fn what_is_clear_is_decided_in_a_few_rounds() {
    let mut day = Day::new(4, 0.02);
    let load = Load { costs: &[1.0, 1.27, 1.3, 2.1], ..STEADY };
    while day.trial.is_comparing() {
        day.slice(&load);
    }
    assert!(day.seconds < 1.5, "{} s", day.seconds);
    let costs: Vec<f64> = day.trial.figures().iter().map(|it| it.relative_cost).collect();
    assert!(costs[0] == 1.0 && (costs[3] - 2.1).abs() < 0.1, "{costs:?}");
}

#[test]
fn policies_that_cost_the_same_end_in_the_one_before() {
    let mut day = Day::new(2, 0.01);
    let load = Load { costs: &[1.0, 1.002], ..STEADY };
    day.run(&load, 30.0);
    assert_eq!((day.trial.current(), day.trial.is_comparing()), (0, false));
    let figures = day.trial.figures();
    assert!(figures.iter().all(|figures| (figures.relative_cost - 1.0).abs() < 0.01));
}

#[test]
fn a_day_that_changes_is_cheaper_than_under_every_fixed_policy() {
    let wide = Load { costs: &[1.0, 1.3, 1.3, 2.0], ..STEADY };
    let narrow = Load { costs: &[1.25, 1.1, 1.0, 1.05], rate: 0.2, ..STEADY };
    let mut day = Day::new(4, 0.05);
    let mut fixed = [0.0; 4];
    for minute in 0..40 {
        let load = if minute % 2 == 0 { &wide } else { &narrow };
        day.run(load, 60.0);
        for (sum, cost) in fixed.iter_mut().zip(load.costs) {
            *sum += cost * load.rate;
        }
    }
    let fixed = fixed.map(|sum| sum / (20.0 * (wide.rate + narrow.rate)));
    let best = fixed.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(day.cost() < 0.97 * best, "{} against {fixed:?}", day.cost());
    assert!(day.trial.comparisons() > 10, "{}", day.trial.comparisons());
}

#[test]
fn comparisons_never_take_more_than_their_share() {
    // A load that jumps every few seconds, under which the same policy is always the best.
    let [low, high] = [0.1, 0.6].map(|rate| Load { costs: &[1.0, 1.6], rate, ..STEADY });
    let mut day = Day::new(2, 0.03);
    for turn in 0..400 {
        day.run(if turn % 2 == 0 { &low } else { &high }, 4.0);
    }
    assert!(day.trial.comparisons() > 3, "{}", day.trial.comparisons());
    assert!(day.cost() < 1.015, "{}", day.cost());
}

#[test]
fn neighbours_on_the_same_cpu_count_with_the_clock_they_lose() {
    let alone = Load { costs: &[1.0, 1.05], clocks: &[2_600.0, 3_200.0], ..STEADY };
    let mut day = Day::new(2, 0.02);
    day.run(&alone, 60.0);
    assert_eq!(day.trial.current(), 0);
    let mut day = Day::new(2, 0.02);
    day.run(&Load { others: 0.5, ..alone }, 60.0);
    assert_eq!(day.trial.current(), 1);
    assert_eq!(day.trial.figures()[0].clock_mhz, 2_600.0);
}

#[test]
fn another_clock_is_a_reason_to_compare() {
    let load = Load { costs: &[1.0, 1.2], clocks: &[3_000.0, 3_000.0], ..STEADY };
    let mut day = Day::new(2, 0.02);
    day.run(&load, 120.0);
    assert_eq!((day.trial.cause(), day.trial.comparisons()), (Cause::Start, 1));
    day.run(&Load { clocks: &[2_700.0, 2_700.0], ..load }, 30.0);
    assert_eq!((day.trial.cause(), day.trial.comparisons()), (Cause::Clock, 2));
    day.run(&Load { clocks: &[2_700.0, 2_700.0], ..load }, 320.0);
    assert_eq!((day.trial.cause(), day.trial.comparisons()), (Cause::Time, 3));
}

#[test]
fn an_idle_process_stays_with_what_it_had_and_compares_when_there_is_work() {
    let mut day = Day::new(3, 0.02);
    let busy = Load { costs: &[1.2, 1.0, 1.4], ..STEADY };
    day.slice(&busy);
    let idle = Load { rate: 0.0, ..busy };
    day.run(&idle, 30.0);
    let trial = &day.trial;
    assert_eq!((trial.current(), trial.verdict(), trial.comparisons()), (0, Verdict::Idle, 0));
    day.run(&busy, 10.0);
    let trial = &day.trial;
    assert_eq!((trial.current(), trial.verdict()), (1, Verdict::Cheapest));
    day.run(&idle, 400.0);
    assert_eq!(day.trial.comparisons(), 1, "nothing is compared while there is nothing to do");
}

#[test]
fn bursts_shorter_than_a_comparison_do_not_pay_for_one_each() {
    let busy = Load { costs: &[1.0, 1.27, 1.3, 2.1], ..STEADY };
    let idle = Load { rate: 0.0, ..busy };
    let mut day = Day::new(4, 0.05);
    // Time for one slice under what was chosen, and one for each policy.
    for _ in 0..2_000 {
        day.run(&busy, 0.9);
        day.run(&idle, 3.0);
    }
    assert!(day.cost() < 1.01 * 1.005, "{}", day.cost());
    assert_eq!((day.trial.current(), day.trial.verdict()), (0, Verdict::Cheapest));
    assert!(day.trial.comparisons() > 1, "{}", day.trial.comparisons());
    // One that takes many bursts ends, too: it goes on where it was.
    let alike = Load { costs: &[1.0, 1.001, 1.002, 1.003], ..STEADY };
    let mut day = Day::new(4, 0.05);
    for _ in 0..40 {
        day.run(&alike, 0.9);
        day.run(&Load { rate: 0.0, ..alike }, 3.0);
    }
    assert_eq!(day.trial.comparisons(), 1);
    assert!(matches!(day.trial.verdict(), Verdict::Alike | Verdict::Cheapest));
}

#[test]
fn a_policy_without_slices_is_not_taken_for_the_cheapest() {
    let mut comparison = Comparison::new(2);
    let slice = Slice { wall_ns: 1e8, cpu_ns: 6e7, work_ns: 5e7, ..Slice::default() };
    assert_eq!(comparison.take(slice, 0), None);
    assert_eq!(comparison.excess_ns(), 0.0, "nothing cheaper is known");
    let figures = comparison.figures();
    assert_eq!((figures[0].relative_cost, figures[1].relative_cost), (1.0, 0.0));
}

#[test]
fn one_policy_needs_no_comparison() {
    let mut day = Day::new(1, 0.0);
    day.run(&STEADY, 10.0);
    assert_eq!((day.trial.current(), day.trial.is_comparing()), (0, false));
}
