//! The thread that rebuilds trees in the background.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use widelane_cpu::Policy;

use super::draft::{ChangeReport, Draft};
use super::relay::Relay;
use crate::Limits;
use crate::build::BuildError;

/// Dropping it has the thread end, too, after the trees that it is building.
#[derive(Debug)]
pub(super) struct Builder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Orders {
    /// The trees are to be rebuilt.
    wanted: bool,
    /// They are being rebuilt.
    at_work: bool,
    /// There are versions of an earlier draft to be dropped.
    has_outdated: bool,
    closing: bool,
    trouble: Option<BuildError>,
    /// How many changes must be pending before the next attempt, since one has failed.
    patience: usize,
}

/// Between two looks at the rules, so that writers get the lock in between: it goes to the thread
/// that asks for it next, not to the one that has waited longest.
const PAUSE: Duration = Duration::from_micros(50);
/// Between two checks whether readers have left what is to be dropped.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

impl Builder {
    pub fn start(
        relay: &Arc<Relay<Draft>>,
        limits: Limits,
        policy: Policy,
    ) -> Result<Self, BuildError> {
        let shared = Arc::new(Shared { orders: Mutex::default(), changed: Condvar::new() });
        let (own, relay) = (Arc::clone(&shared), Arc::clone(relay));
        let work = move || own.work(&relay, &limits, &policy);
        match thread::Builder::new().spawn(work) {
            Ok(_) => Ok(Builder { shared }),
            Err(error) => Err(BuildError::NoThread(error.to_string())),
        }
    }

    /// Has versions of earlier drafts dropped when readers have left them.
    pub fn drop_outdated(&self) {
        self.shared.orders().has_outdated = true;
        self.shared.changed.notify_all();
    }

    /// Notes the report of a change: the trees are rebuilt if it says so.
    pub fn note(&self, report: ChangeReport) {
        if !report.wants_rebuild {
            return;
        }
        let mut orders = self.shared.orders();
        if !orders.wanted && !orders.at_work && report.pending >= orders.patience {
            orders.wanted = true;
            self.shared.changed.notify_all();
        }
    }

    pub fn settle(&self) {
        let mut orders = self.shared.orders();
        // What is being built may lack the last changes.
        while orders.at_work {
            orders = self.shared.wait(orders);
        }
        orders.wanted = true;
        self.shared.changed.notify_all();
        while orders.wanted || orders.at_work {
            orders = self.shared.wait(orders);
        }
    }

    pub fn trouble(&self) -> Option<BuildError> {
        self.shared.orders().trouble.clone()
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        self.shared.orders().closing = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn work(&self, relay: &Relay<Draft>, limits: &Limits, policy: &Policy) {
        while self.next_order(relay) {
            self.attempt(relay, || {
                let (shape, number) = relay.begin(Draft::shape);
                let mut rules = Vec::new();
                while relay.look(|draft| draft.list(&mut rules)) {
                    thread::sleep(PAUSE);
                }
                relay.finish(Draft::of(&shape, &rules, limits, policy, number)?)
            });
        }
    }

    /// Tries to `build`. If that fails or panics, the trees stay as they are, and the changes that
    /// were noted for new ones are dropped.
    fn attempt(&self, relay: &Relay<Draft>, build: impl FnOnce() -> Result<(), BuildError>) {
        let built = catch_unwind(AssertUnwindSafe(build)).unwrap_or(Err(BuildError::Panicked));
        let trouble = built.err();
        let patience = match trouble {
            Some(_) => {
                relay.abandon();
                2 * relay.latest().pending
            }
            None => 0,
        };
        let mut orders = self.orders();
        (orders.at_work, orders.trouble, orders.patience) = (false, trouble, patience);
        self.changed.notify_all();
    }

    /// Waits until the trees are to be rebuilt, and drops outdated versions meanwhile; false at the
    /// end.
    fn next_order(&self, relay: &Relay<Draft>) -> bool {
        loop {
            let left = relay.drop_outdated();
            let mut orders = self.orders();
            if !orders.wanted && !orders.closing && !mem::take(&mut orders.has_outdated) {
                orders = if left { self.wait_for(orders, LOOK_PAUSE) } else { self.wait(orders) };
            }
            if orders.wanted || orders.closing {
                (orders.wanted, orders.at_work) = (false, true);
                return !orders.closing;
            }
        }
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
    use super::*;
    use crate::rule::{Layout, RuleSet};

    #[test]
    fn a_build_that_panics_is_trouble_and_stops_nobody() {
        let (limits, policy) = (Limits::default(), Policy::open());
        let set = RuleSet::new(Layout::ipv4());
        let relay = Arc::new(Relay::new(Draft::of(&set, &[], &limits, &policy, 0).unwrap()));
        let builder = Builder::start(&relay, limits, policy).unwrap();
        builder.shared.orders().at_work = true;
        builder.shared.attempt(&relay, || {
            relay.begin(Draft::shape);
            panic!("planted");
        });
        assert_eq!(builder.trouble(), Some(BuildError::Panicked));
        builder.settle();
        assert_eq!(builder.trouble(), None, "the next build is another one");
    }
}
