//! Whether a partial batch is worth a short wait before its thread sleeps, learnt from what came.

use crate::sync::{AtomicU64, Ordering};
use crate::{JOBS_MAX, SLEEP_COST_NS, Tick};

/// Whether a partial [`Lane`](crate::Lane) is worth a short wait before its thread sleeps.
///
/// A wait pays if another job joins in time, and if that saves more than the wait costs. How likely
/// company is follows from the rate of the last arrivals and their age: after a pause no job is
/// expected, and a server that is idle answers at once. If [`MISSES_MAX`] waits in a row have
/// brought no job (a single client that does one handshake after the other has a high rate), only
/// one job in [`PROBE_EVERY`] waits, to find out whether that has changed.
///
/// No job waits longer than its own limit, which is at most the budget: the first job of a batch
/// sets its end, and one that joins can only bring that forward.
#[derive(Clone, Debug)]
pub struct Company {
    budget_ns: u64,
    /// When the last jobs came, in a ring.
    arrivals: [Tick; ARRIVALS],
    arrived: usize,
    /// Waits in a row, up to their end, that brought no job.
    misses: u32,
    /// Jobs that did not wait for that reason.
    passed: u32,
    /// When the batch at hand is due.
    due: Tick,
    /// Whether the first job of the batch at hand was made to wait.
    waits: bool,
    wait: Option<Wait>,
}

/// When the last jobs came to any of several workers, in memory that they share.
///
/// Zeros are one to which none has come. A wrong time in it makes a wait too long or too short,
/// within the budget.
#[derive(Debug)]
#[repr(C)]
pub struct Arrivals {
    arrived: AtomicU64,
    times: [AtomicU64; ARRIVALS],
}

/// Other workers that do jobs together with the one at hand.
#[derive(Clone, Copy, Debug)]
pub struct Others<'a> {
    /// When jobs came, to it and to them.
    pub arrivals: &'a Arrivals,
    /// How many of their jobs wait.
    pub waiting: usize,
}

/// A wait under way.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Tick,
    jobs: usize,
}

/// A wait that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// How long it was.
    pub ns: u64,
    /// How many jobs joined the batch meanwhile.
    pub company: usize,
}

impl Company {
    /// Starts with nothing known of how jobs come; a job may wait for `budget_ns` nanoseconds, or
    /// not at all if that is 0.
    pub const fn new(budget_ns: u64) -> Self {
        Company {
            budget_ns,
            arrivals: [Tick(0); ARRIVALS],
            arrived: 0,
            misses: 0,
            passed: 0,
            due: Tick(0),
            waits: false,
            wait: None,
        }
    }

    /// A job has come, which makes `waiting` of them beside those of `others`, if there are any.
    ///
    /// `costs` returns what each number of jobs costs; `limit_ns` how long the job at hand may be
    /// made to wait, within the budget, and `may_wait` whether it may at all. The latter two are
    /// called only if a wait is worth it.
    pub fn joined(
        &mut self,
        now: Tick,
        waiting: usize,
        others: Option<Others<'_>>,
        costs: impl FnOnce() -> [u64; JOBS_MAX + 1],
        limit_ns: impl FnOnce() -> u64,
        may_wait: impl FnOnce() -> bool,
    ) {
        let latest = if waiting > 1 { self.due } else { now.after(self.budget_ns) };
        if waiting == 1 {
            // Of those that were waited for before, all have been withdrawn.
            self.wait = None;
        }
        let own_gap_ns = self.arrived(now);
        let gap_ns = others.map_or(own_gap_ns, |others| others.arrivals.arrived(now));
        let together = (waiting + others.map_or(0, |others| others.waiting)).min(JOBS_MAX);
        let outlook = Outlook { now, gap_ns, together };
        let until = self.until(latest, outlook, costs, limit_ns, may_wait);
        self.due = until.unwrap_or(now);
        self.waits = until.is_some() || (self.waits && waiting > 1);
    }

    /// Until when the job at hand waits, `latest` at most; nothing if it does not.
    fn until(
        &mut self,
        latest: Tick,
        outlook: Outlook,
        costs: impl FnOnce() -> [u64; JOBS_MAX + 1],
        limit_ns: impl FnOnce() -> u64,
        may_wait: impl FnOnce() -> bool,
    ) -> Option<Tick> {
        if !outlook.is_likely(latest) {
            return None;
        }
        let costs = costs();
        if !outlook.pays(&costs, latest) || self.is_discouraged(outlook.together) {
            return None;
        }
        let until = latest.min(outlook.now.after(limit_ns()));
        let pays = until == latest || outlook.pays(&costs, until);
        (pays && may_wait()).then_some(until)
    }

    /// Notes that a job has come; the time between the last ones on average, once there are
    /// enough.
    fn arrived(&mut self, now: Tick) -> Option<u64> {
        let oldest = std::mem::replace(&mut self.arrivals[self.arrived % ARRIVALS], now);
        self.arrived = self.arrived.saturating_add(1);
        (self.arrived > ARRIVALS).then(|| gap_ns(oldest, now))
    }

    /// Whether waiting has brought no job of late; one job in [`PROBE_EVERY`] waits all the same.
    fn is_discouraged(&mut self, waiting: usize) -> bool {
        if self.misses < MISSES_MAX || waiting > 1 {
            return false;
        }
        self.passed = self.passed.wrapping_add(1);
        !self.passed.is_multiple_of(PROBE_EVERY)
    }

    /// How long those that wait are still to wait, 0 if not at all.
    pub fn left_ns(&self, now: Tick) -> u64 {
        self.due.since(now)
    }

    /// Whether the batch at hand has been made to wait.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// The thread begins to wait for company of `waiting` jobs; no effect if it waits already.
    pub fn begin(&mut self, now: Tick, waiting: usize) {
        self.wait.get_or_insert(Wait { since: now, jobs: waiting });
    }

    /// `jobs` jobs leave together. If they had been made to wait, returns for how long.
    pub fn left(&mut self, now: Tick, jobs: usize) -> Option<Waited> {
        if self.waits && jobs > 1 {
            // Also if the thread had so much to do that it did not sleep meanwhile.
            self.misses = 0;
        }
        let Wait { since, jobs: before } = self.wait.take()?;
        let company = jobs.saturating_sub(before);
        if jobs == 1 && now >= self.due {
            // What was ended early proves nothing.
            self.misses = (self.misses + 1).min(MISSES_MAX);
        }
        Some(Waited { ns: now.since(since), company })
    }

    /// Another worker has done all that waited. If it had been made to wait, returns for how long.
    pub fn met(&mut self, now: Tick) -> Option<Waited> {
        let Wait { since, .. } = self.wait.take()?;
        self.misses = 0;
        Some(Waited { ns: now.since(since), company: 1 })
    }
}

impl Arrivals {
    /// Notes that a job has come; the time between the last ones on average, once there are
    /// enough.
    fn arrived(&self, now: Tick) -> Option<u64> {
        let arrived = self.arrived.fetch_add(1, Ordering::Relaxed);
        let oldest = self.times[arrived as usize % ARRIVALS].swap(now.0, Ordering::Relaxed);
        (arrived >= ARRIVALS as u64).then(|| gap_ns(Tick(oldest), now))
    }
}

/// What a job has to expect that waits.
#[derive(Clone, Copy)]
struct Outlook {
    now: Tick,
    /// The time from one arrival to the next, where it is known.
    gap_ns: Option<u64>,
    /// The jobs that are there.
    together: usize,
}

impl Outlook {
    /// How many more come on average until then.
    fn expected(self, until: Tick) -> f64 {
        self.gap_ns.map_or(0.0, |gap_ns| until.since(self.now) as f64 / gap_ns as f64)
    }

    fn is_likely(self, until: Tick) -> bool {
        -(-self.expected(until)).exp_m1() >= CHANCE_MIN
    }

    /// Whether another job is likely to come until then, and saves more than the wait costs.
    fn pays(self, costs: &[u64; JOBS_MAX + 1], until: Tick) -> bool {
        let saving_ns = saving_ns(costs, self.together, self.expected(until));
        self.is_likely(until) && saving_ns > SLEEP_COST_NS as f64
    }
}

/// The time from one arrival to the next, on average, if `oldest` lies [`ARRIVALS`] back.
fn gap_ns(oldest: Tick, now: Tick) -> u64 {
    (now.since(oldest) / ARRIVALS as u64).max(1)
}

/// What is saved on average if `expected` more jobs come, at random, and join those that wait
/// instead of being done one by one.
pub(crate) fn saving_ns(costs: &[u64; JOBS_MAX + 1], waiting: usize, expected: f64) -> f64 {
    let [_, alone, ..] = *costs;
    let room = JOBS_MAX.saturating_sub(waiting);
    let mut sum = 0.0;
    // Poisson's distribution, term by term. The last term has the chance that `room` or more come:
    // they save what `room` save.
    let mut chance = (-expected).exp();
    let mut rest = 1.0 - chance;
    for more in 1..=room {
        chance *= expected / more as f64;
        let weight = if more == room { rest } else { chance };
        rest = (rest - chance).max(0.0);
        let apart = costs[waiting].saturating_add(alone.saturating_mul(more as u64));
        sum += weight * apart.saturating_sub(costs[waiting + more]) as f64;
    }
    sum
}

/// Arrivals whose rate is used: with fewer, a single client that opens some connections at once
/// would make a server wait.
const ARRIVALS: usize = 16;

/// The smallest probability of company for which a job is made to wait.
const CHANCE_MIN: f64 = 0.4;

/// Waits in a row without company after which nothing waits. With the smallest chance it happens by
/// accident once in four hundred times.
const MISSES_MAX: u32 = 12;

/// While no job waits, one in this many does all the same.
const PROBE_EVERY: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Way, least_costs};

    const BUDGET_NS: u64 = 500_000;

    /// RSA-2048 with kernels for one job, four and eight.
    fn costs() -> [u64; JOBS_MAX + 1] {
        let ways = [(1, 205_000), (4, 509_000), (8, 992_000)];
        least_costs(&ways.map(|(lanes, cost_ns)| Way { lanes, cost_ns }))
    }

    /// A loop to which jobs come one by one, each `gap_ns` after the last, and which executes them
    /// as soon as they are due.
    fn waits(company: &mut Company, from: Tick, gap_ns: u64, jobs: u64) -> (Tick, usize) {
        let (mut now, mut waited) = (from, 0);
        for _ in 0..jobs {
            now = now.after(gap_ns);
            company.joined(now, 1, None, costs, || BUDGET_NS, || true);
            let left_ns = company.left_ns(now);
            assert!(left_ns <= BUDGET_NS);
            if left_ns > 0 {
                company.begin(now, 1);
                waited += 1;
            }
            company.left(now.after(left_ns), 1);
        }
        (now, waited)
    }

    #[test]
    fn nobody_waits_on_an_idle_server_nor_right_after() {
        let mut company = Company::new(BUDGET_NS);
        let (now, waited) = waits(&mut company, Tick(0), 20_000_000, 1_000);
        assert_eq!(waited, 0);
        let after_an_hour = now.after(3_600_000_000_000);
        let (_, waited) = waits(&mut company, after_an_hour, 10_000, ARRIVALS as u64);
        assert_eq!(waited, 0, "a few connections at once are no load");
    }

    #[test]
    fn without_a_budget_nobody_ever_waits() {
        let mut company = Company::new(0);
        assert_eq!(waits(&mut company, Tick(0), 1_000, 1_000).1, 0);
    }

    #[test]
    fn a_single_client_is_soon_left_in_peace() {
        let mut company = Company::new(BUDGET_NS);
        let (_, waited) = waits(&mut company, Tick(0), 600_000, 12 + 16 + 64 * 10);
        assert!((12..=12 + 10).contains(&waited), "{waited}");
    }

    /// A company that has seen a load at which waiting pays.
    fn busy() -> (Company, Tick) {
        let mut company = Company::new(BUDGET_NS);
        let (now, _) = waits(&mut company, Tick(0), 300_000, ARRIVALS as u64);
        (company, now.after(300_000))
    }

    #[test]
    fn who_joins_shares_the_budget_of_who_came_first() {
        let (mut company, now) = busy();
        company.joined(now, 1, None, costs, || BUDGET_NS, || true);
        company.begin(now, 1);
        assert_eq!(company.left_ns(now), BUDGET_NS);
        let later = now.after(200_000);
        company.joined(later, 2, None, costs, || BUDGET_NS, || true);
        assert_eq!(company.left_ns(later), BUDGET_NS - 200_000);
        company.begin(later, 2);
        let end = now.after(BUDGET_NS);
        assert_eq!(company.left_ns(end), 0);
        assert_eq!(company.left(end, 2), Some(Waited { ns: BUDGET_NS, company: 1 }));
        assert_eq!(company.left(end, 1), None, "the next ones have not waited");
    }

    #[test]
    fn a_batch_in_which_one_more_saves_nothing_is_due() {
        let (mut company, now) = busy();
        let apart = std::array::from_fn(|jobs| 100_000 * jobs as u64);
        company.joined(now, 1, None, || apart, || BUDGET_NS, || panic!("not asked"));
        assert_eq!(company.left_ns(now), 0);
        company.joined(now, 1, None, costs, || BUDGET_NS, || true);
        company.joined(now, 2, None, || apart, || BUDGET_NS, || panic!("not asked"));
        assert_eq!(company.left_ns(now), 0);
    }

    #[test]
    fn what_is_saved_counts_all_that_may_come() {
        // A second saves nothing, a third does.
        let saving = |waiting| saving_ns(&costs(), waiting, 1.0).round();
        assert!(saving(1) > 25_000.0 && saving(2) > saving(1), "{} {}", saving(1), saving(2));
        assert_eq!(saving_ns(&costs(), JOBS_MAX, 1.0), 0.0);
    }

    #[test]
    fn the_more_are_expected_the_more_is_saved() {
        let expected = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 1_000.0];
        for waiting in [1, 8, JOBS_MAX - 1] {
            let savings = expected.map(|expected| saving_ns(&costs(), waiting, expected).round());
            assert!(savings.is_sorted(), "{waiting} waiting: {savings:?}");
        }
        let all_join = 16 * 205_000 - 2 * 992_000;
        assert_eq!(saving_ns(&costs(), 1, 1_000.0), f64::from(all_join));
    }

    #[test]
    fn a_long_budget_does_not_keep_a_busy_server_from_waiting() {
        // Some 33 jobs are expected within the budget.
        let budget_ns = 10_000_000;
        let mut company = Company::new(budget_ns);
        let mut now = Tick(0);
        for job in 0..=ARRIVALS {
            now = now.after(300_000);
            company.joined(now, 1, None, costs, || budget_ns, || true);
            let expected_ns = if job < ARRIVALS { 0 } else { budget_ns };
            assert_eq!(company.left_ns(now), expected_ns, "job {job}");
        }
    }

    #[test]
    fn nobody_waits_longer_than_its_own_limit() {
        let (mut company, now) = busy();
        company.joined(now, 1, None, costs, || 400_000, || true);
        assert_eq!(company.left_ns(now), 400_000);
        let later = now.after(50_000);
        company.joined(later, 2, None, costs, || 500_000, || true);
        assert_eq!(company.left_ns(later), 350_000, "the first one's end holds");
        let last = now.after(60_000);
        company.joined(last, 3, None, costs, || 300_000, || true);
        assert_eq!(company.left_ns(last), 300_000, "the last one's comes earlier");
    }

    #[test]
    fn a_limit_within_which_nobody_is_likely_to_come_is_none() {
        let (mut company, now) = busy();
        company.joined(now, 1, None, costs, || 10_000, || panic!("not asked"));
        assert_eq!(company.left_ns(now), 0);
    }

    #[test]
    fn who_may_not_wait_does_not_and_keeps_nobody() {
        let (mut company, now) = busy();
        company.joined(now, 1, None, costs, || BUDGET_NS, || true);
        company.joined(now, 2, None, costs, || BUDGET_NS, || false);
        assert_eq!(company.left_ns(now), 0);
    }

    #[test]
    fn a_wait_of_withdrawn_jobs_is_forgotten() {
        let (mut company, now) = busy();
        company.joined(now, 1, None, costs, || BUDGET_NS, || true);
        company.begin(now, 1);
        let later = now.after(300_000);
        company.joined(later, 1, None, costs, || BUDGET_NS, || true);
        company.begin(later, 1);
        let waited = Waited { ns: 100_000, company: 0 };
        assert_eq!(company.left(later.after(100_000), 1), Some(waited));
    }

    #[test]
    fn company_that_comes_while_the_thread_is_busy_encourages() {
        let (mut company, mut now) = busy();
        for _ in 1..MISSES_MAX {
            company.joined(now, 1, None, costs, || BUDGET_NS, || true);
            let left_ns = company.left_ns(now);
            assert!(left_ns > 0);
            company.begin(now, 1);
            company.left(now.after(left_ns), 1);
            now = now.after(300_000);
        }
        // Nobody sleeps, and another one comes all the same.
        company.joined(now, 1, None, costs, || BUDGET_NS, || true);
        company.joined(now, 2, None, costs, || BUDGET_NS, || true);
        assert_eq!(company.left(now, 2), None);
        assert_eq!(company.misses, 0);
    }

    #[test]
    fn waits_that_are_cut_short_discourage_nobody() {
        let (mut company, mut now) = busy();
        for _ in 0..4 * MISSES_MAX {
            now = now.after(300_000);
            company.joined(now, 1, None, costs, || BUDGET_NS, || true);
            assert!(company.left_ns(now) > 0);
            company.begin(now, 1);
            company.left(now.after(1_000), 1);
        }
    }

    #[test]
    fn who_is_rarely_asked_expects_the_company_of_others() {
        let times = std::array::from_fn(|_| AtomicU64::new(0));
        let arrivals = Arrivals { arrived: AtomicU64::new(0), times };
        let mut workers = [0; 8].map(|_| Company::new(BUDGET_NS));
        let mut waited = 0;
        for job in 0..320 {
            let now = Tick(300_000 * job);
            let company = &mut workers[job as usize % 8];
            let others = Some(Others { arrivals: &arrivals, waiting: 0 });
            company.joined(now, 1, others, costs, || BUDGET_NS, || true);
            waited += u32::from(company.left_ns(now) > 0);
            company.begin(now, 1);
            let met = company.met(now.after(100_000));
            assert_eq!(met, Some(Waited { ns: 100_000, company: 1 }));
        }
        assert_eq!(waited, 320 - ARRIVALS as u32);
        let now = Tick(300_000 * 320);
        workers[0].joined(now, 1, None, costs, || BUDGET_NS, || true);
        assert_eq!(workers[0].left_ns(now), 0, "alone it has nobody to expect");
    }
}
