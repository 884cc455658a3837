//! The thread that rebuilds trees in the background.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use widelane_cpu::Policy;

use super::draft::{ChangeReport, Draft};
use super::fork::process;
use super::relay::Relay;
use super::signals::without_signals;
use crate::Limits;
use crate::build::BuildError;

/// Dropping it has the thread end, too, after the trees that it is building.
#[derive(Debug)]
pub(super) struct Builder {
    shared: Arc<Shared>,
    /// Where the thread is. In a forked child there is none, and locks may be held for ever.
    process: u64,
}

#[derive(Debug)]
struct Shared {
    relay: Relay<Draft>,
    limits: Limits,
    policy: Policy,
    orders: Mutex<Orders>,
    changed: Condvar,
    trouble: ArcSwapOption<BuildError>,
}

#[derive(Debug, Default)]
struct Orders {
    rebuild: Rebuild,
    /// There are versions of an earlier draft to be dropped.
    has_outdated: bool,
    closing: bool,
    /// How many changes must be pending before the next attempt, since one has failed.
    patience: usize,
}

/// Of the trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rebuild {
    #[default]
    None,
    Wanted,
    UnderWay,
}

/// Between two looks at the rules, so that writers get the lock in between: it goes to the thread
/// that asks for it next, not to the one that has waited longest.
const PAUSE: Duration = Duration::from_micros(50);
/// Between two checks whether readers have left what is to be dropped.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

impl Builder {
    pub fn start(relay: Relay<Draft>, limits: Limits, policy: Policy) -> Result<Self, BuildError> {
        let shared = Arc::new(Shared {
            relay,
            limits,
            policy,
            orders: Mutex::default(),
            changed: Condvar::new(),
            trouble: ArcSwapOption::empty(),
        });
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("widelane-live".into());
        match without_signals(|| thread.spawn(move || own.work())) {
            Ok(_) => Ok(Builder { shared, process: process() }),
            Err(error) => Err(BuildError::NoThread(error.to_string())),
        }
    }

    /// Whether its thread is in this process. If not, nothing may be asked of it that is locked.
    pub fn is_here(&self) -> bool {
        self.process == process()
    }

    pub fn relay(&self) -> &Relay<Draft> {
        &self.shared.relay
    }

    /// Has all rules replaced. What was wrong with the former trees is forgotten, and versions of
    /// them are dropped when readers have left them.
    pub fn reset(&self, draft: Draft) {
        self.shared.relay.reset(draft);
        let mut orders = self.shared.orders();
        (orders.has_outdated, orders.patience) = (true, 0);
        self.shared.trouble.store(None);
        self.shared.changed.notify_all();
    }

    /// Asks the builder to rebuild the trees if the report of a change wants that and enough
    /// changes are pending.
    pub fn note(&self, report: ChangeReport) {
        if !report.wants_rebuild {
            return;
        }
        let mut orders = self.shared.orders();
        if orders.rebuild == Rebuild::None && report.pending >= orders.patience {
            orders.rebuild = Rebuild::Wanted;
            self.shared.changed.notify_all();
        }
    }

    pub fn settle(&self) {
        // What is being built may lack the last changes.
        let mut orders = self.shared.wait_while(|rebuild| rebuild == Rebuild::UnderWay);
        orders.rebuild = Rebuild::Wanted;
        self.shared.changed.notify_all();
        drop(orders);
        drop(self.shared.wait_while(|rebuild| rebuild != Rebuild::None));
    }

    pub fn trouble(&self) -> Option<BuildError> {
        self.shared.trouble.load().as_deref().cloned()
    }

    /// Notes why trees could not be built elsewhere.
    pub fn set_trouble(&self, trouble: BuildError) {
        self.shared.trouble.store(Some(Arc::new(trouble)));
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        if self.is_here() {
            self.shared.orders().closing = true;
            self.shared.changed.notify_all();
        }
    }
}

impl Shared {
    fn work(&self) {
        while self.next_order() {
            self.attempt(|| {
                let (shape, number) = self.relay.begin(Draft::shape);
                let mut rules = Vec::new();
                while self.relay.look(|draft| draft.list(&mut rules)) {
                    thread::sleep(PAUSE);
                }
                let draft = Draft::of(&shape, &rules, &self.limits, &self.policy, number)?;
                self.relay.finish(draft)
            });
        }
    }

    /// Tries to `build`. If that fails or panics, the trees stay as they are, and the changes that
    /// were noted for new ones are dropped.
    fn attempt(&self, build: impl FnOnce() -> Result<(), BuildError>) {
        let built = catch_unwind(AssertUnwindSafe(build)).unwrap_or(Err(BuildError::Panicked));
        // Held meanwhile, so that `reset` comes before or after.
        let mut orders = self.orders();
        let trouble = built.err().filter(|_| self.relay.abandon());
        orders.patience = if trouble.is_some() { 2 * self.relay.latest().pending } else { 0 };
        orders.rebuild = Rebuild::None;
        self.trouble.store(trouble.map(Arc::new));
        self.changed.notify_all();
    }

    /// Waits until the trees are to be rebuilt, and drops outdated versions meanwhile; false at the
    /// end.
    fn next_order(&self) -> bool {
        loop {
            let left = self.relay.drop_outdated();
            let mut orders = self.orders();
            let is_idle = orders.rebuild == Rebuild::None && !orders.closing;
            if is_idle && !mem::take(&mut orders.has_outdated) {
                orders = if left { self.wait_for(orders, LOOK_PAUSE) } else { self.wait(orders) };
            }
            if orders.closing {
                return false;
            }
            if orders.rebuild == Rebuild::Wanted {
                orders.rebuild = Rebuild::UnderWay;
                return true;
            }
        }
    }

    /// The orders when a rebuild is not any more what `is_it` says.
    fn wait_while(&self, is_it: impl Fn(Rebuild) -> bool) -> MutexGuard<'_, Orders> {
        let waited = self.changed.wait_while(self.orders(), |orders| is_it(orders.rebuild));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, orders: MutexGuard<'a, Orders>) -> MutexGuard<'a, Orders> {
        self.changed.wait(orders).unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for<'a>(
        &self,
        orders: MutexGuard<'a, Orders>,
        time: Duration,
    ) -> MutexGuard<'a, Orders> {
        self.changed.wait_timeout(orders, time).unwrap_or_else(PoisonError::into_inner).0
    }

    /// A panic elsewhere does not poison it: orders change in one step.
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::rule::{Layout, RuleSet};

    #[test]
    fn a_build_that_panics_is_trouble_and_stops_nobody() {
        let (limits, policy) = (Limits::default(), Policy::open());
        let set = RuleSet::new(Layout::ipv4());
        let relay = Relay::new(Draft::of(&set, &[], &limits, &policy, 0).unwrap());
        let builder = Builder::start(relay, limits, policy).unwrap();
        builder.shared.orders().rebuild = Rebuild::UnderWay;
        builder.shared.attempt(|| {
            builder.relay().begin(Draft::shape);
            panic!("planted");
        });
        assert_eq!(builder.trouble(), Some(BuildError::Panicked));
        builder.settle();
        assert_eq!(builder.trouble(), None, "the next build is another one");
    }

    #[test]
    fn what_is_wrong_with_rules_goes_with_them() {
        let (limits, policy) = (Limits::default(), Policy::open());
        let set = RuleSet::new(Layout::ipv4());
        let draft = |number| Draft::of(&set, &[], &limits, &policy, number).unwrap();
        let builder = Builder::start(Relay::new(draft(0)), limits, policy.clone()).unwrap();
        let fail = || Err(BuildError::NoRank);
        let begin = || builder.relay().begin(Draft::shape);
        builder.shared.attempt(|| {
            begin();
            fail()
        });
        assert_eq!(builder.trouble(), Some(BuildError::NoRank));
        builder.reset(draft(1));
        assert_eq!(builder.trouble(), None);
        builder.shared.attempt(|| {
            begin();
            builder.reset(draft(2));
            fail()
        });
        assert_eq!(builder.trouble(), None, "it was about rules that are gone");
    }

    /// As the kernel shows it: a bit for each signal, from 1 on.
    #[test]
    fn the_thread_takes_no_signals() {
        let (limits, policy) = (Limits::default(), Policy::open());
        let set = RuleSet::new(Layout::ipv4());
        let relay = Relay::new(Draft::of(&set, &[], &limits, &policy, 0).unwrap());
        let _builder = Builder::start(relay, limits, policy).unwrap();
        let of_thread = |status: String| {
            status.starts_with("Name:\twidelane-live\n").then_some(())?;
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t"))?;
            u64::from_str_radix(blocked, 16).ok()
        };
        let look = || -> Vec<u64> {
            let tasks = fs::read_dir("/proc/self/task").unwrap();
            let statuses = tasks
                .filter_map(|task| fs::read_to_string(task.unwrap().path().join("status")).ok());
            statuses.filter_map(of_thread).collect()
        };
        // A thread names itself when it begins.
        let mut looks = (0..10_000).map(|_| {
            thread::sleep(Duration::from_millis(1));
            look()
        });
        let blocked = looks.find(|blocked| !blocked.is_empty()).expect("the thread");
        let signals = [libc::SIGHUP, libc::SIGUSR1, libc::SIGTERM];
        let wanted = signals.iter().fold(0, |wanted, signal| wanted | 1 << (signal - 1));
        assert!(blocked.iter().all(|blocked| blocked & wanted == wanted), "{blocked:x?}");
    }
}
