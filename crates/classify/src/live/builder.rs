//! The thread that plants other trees in the background.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use widelane_cpu::Policy;

use super::draft::{Draft, Wear};
use super::relay::Relay;
use crate::Limits;
use crate::build::BuildError;

/// Its end tells the thread to end too, after the trees that it is planting.
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
    /// Other trees are wanted.
    wanted: bool,
    /// They are being planted.
    at_work: bool,
    closing: bool,
    trouble: Option<BuildError>,
    /// So many changes there have to be before the next attempt, since one has failed.
    patience: usize,
}

impl Builder {
    pub fn start(relay: &Arc<Relay<Draft>>, limits: Limits, policy: Policy) -> Self {
        let desk = Arc::new(Desk { orders: Mutex::default(), changed: Condvar::new() });
        let (own, relay) = (Arc::clone(&desk), Arc::clone(relay));
        thread::spawn(move || own.work(&relay, &limits, &policy));
        Builder { desk }
    }

    /// Notes what a change tells: when the trees are worn, others are wanted.
    pub fn note(&self, wear: Wear) {
        if !wear.is_worn {
            return;
        }
        let mut orders = self.desk.orders();
        if !orders.wanted && !orders.at_work && wear.pending >= orders.patience {
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
    fn work(&self, relay: &Relay<Draft>, limits: &Limits, policy: &Policy) {
        while self.next_order() {
            let (shape, rules, number) = relay.begin(Draft::parts);
            let planted = Draft::of(&shape, &rules, limits, policy, number);
            let finished = match planted {
                Ok(draft) => relay.finish(draft),
                Err(error) => {
                    relay.abandon();
                    Err(error)
                }
            };
            let trouble = finished.err();
            let patience = trouble.as_ref().map_or(0, |_| 2 * relay.latest().pending);
            let mut orders = self.orders();
            (orders.at_work, orders.trouble, orders.patience) = (false, trouble, patience);
            self.changed.notify_all();
        }
    }

    /// Waits until other trees are wanted; false at the end.
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
