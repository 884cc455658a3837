//! The thread that builds tables in the background.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use widelane_cpu::Policy;

use super::relay::Relay;
use super::version::{Change, Version};
use crate::Limits;
use crate::build::BuildError;

/// Its end tells the thread to end too, after the table that it is building.
#[derive(Debug)]
pub(super) struct Builder {
    desk: Arc<Desk>,
}

#[derive(Debug)]
struct Desk {
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Orders {
    /// A table is wanted.
    wanted: bool,
    /// One is being built.
    at_work: bool,
    closing: bool,
    trouble: Option<BuildError>,
    /// So many rules more have to differ before the next attempt, since one has failed.
    patience: usize,
}

/// A table is wanted when so many rules differ from it, and one in [`SHARE`] besides.
const FEW: usize = 64;
const SHARE: usize = 32;

impl Builder {
    pub fn start(relay: &Arc<Relay<Version, Change>>, limits: Limits, policy: Policy) -> Self {
        let desk = Arc::new(Desk { orders: Mutex::default(), changed: Condvar::new() });
        let (own, relay) = (Arc::clone(&desk), Arc::clone(relay));
        thread::spawn(move || own.work(&relay, &limits, &policy));
        Builder { desk }
    }

    /// Notes a version: when much of it differs from its table, another is wanted.
    pub fn note(&self, version: &Version) {
        let pending = version.pending();
        if pending < FEW + version.all.len() / SHARE {
            return;
        }
        let mut orders = self.desk.orders();
        if !orders.wanted && !orders.at_work && pending >= orders.patience {
            orders.wanted = true;
            self.desk.changed.notify_all();
        }
    }

    pub fn settle(&self) {
        let mut orders = self.desk.orders();
        // What is being built may lack the last changes.
        while orders.at_work {
            orders = self.desk.wait(orders);
        }
        orders.wanted = true;
        self.desk.changed.notify_all();
        while orders.wanted || orders.at_work {
            orders = self.desk.wait(orders);
        }
    }

    pub fn trouble(&self) -> Option<BuildError> {
        self.desk.orders().trouble.clone()
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        self.desk.orders().closing = true;
        self.desk.changed.notify_all();
    }
}

impl Desk {
    fn work(&self, relay: &Relay<Version, Change>, limits: &Limits, policy: &Policy) {
        while self.next_order() {
            let version = relay.begin();
            let built = version.rebuilt(limits, policy);
            let (trouble, patience) = match built {
                Ok(rebuilt) => {
                    relay.finish(rebuilt);
                    (None, 0)
                }
                Err(error) => {
                    relay.abandon();
                    (Some(error), 2 * version.pending())
                }
            };
            drop(version);
            let mut orders = self.orders();
            (orders.at_work, orders.trouble, orders.patience) = (false, trouble, patience);
            self.changed.notify_all();
        }
    }

    /// Waits until a table is wanted; false at the end.
    fn next_order(&self) -> bool {
        let mut orders = self.orders();
        while !orders.wanted && !orders.closing {
            orders = self.wait(orders);
        }
        (orders.wanted, orders.at_work) = (false, true);
        !orders.closing
    }

    fn wait<'a>(&self, orders: MutexGuard<'a, Orders>) -> MutexGuard<'a, Orders> {
        self.changed.wait(orders).unwrap_or_else(PoisonError::into_inner)
    }

    /// A panic elsewhere does not poison it: orders change in one step.
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
