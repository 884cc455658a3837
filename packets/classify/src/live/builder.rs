//! The thread that plants other trees in the background.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

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
    /// There are prints of an earlier draft to be dropped.
    unswept: bool,
    closing: bool,
    trouble: Option<BuildError>,
    /// So many changes there have to be before the next attempt, since one has failed.
    patience: usize,
}

/// Between looks at the rules, so that those get their turn who change them: a lock goes to who
/// asks for it next, not to who waits.
const PAUSE: Duration = Duration::from_micros(50);
/// Between looks whether readers have left what is to be dropped.
const SWEEP: Duration = Duration::from_millis(1);

impl Builder {
    pub fn start(relay: &Arc<Relay<Draft>>, limits: Limits, policy: Policy) -> Self {
        let desk = Arc::new(Desk { orders: Mutex::default(), changed: Condvar::new() });
        let (own, relay) = (Arc::clone(&desk), Arc::clone(relay));
        thread::spawn(move || own.work(&relay, &limits, &policy));
        Builder { desk }
    }

    /// Has prints of earlier drafts dropped when readers have left them.
    pub fn sweep(&self) {
        self.desk.orders().unswept = true;
        self.desk.changed.notify_all();
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
        while self.next_order(relay) {
            let (shape, number) = relay.begin(Draft::shape);
            let mut rules = Vec::new();
            while relay.look(|draft| draft.list(&mut rules)) {
                thread::sleep(PAUSE);
            }
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

    /// Waits until other trees are wanted, and sweeps meanwhile; false at the end.
    fn next_order(&self, relay: &Relay<Draft>) -> bool {
        loop {
            let left = relay.sweep();
            let mut orders = self.orders();
            if !orders.wanted && !orders.closing && !mem::take(&mut orders.unswept) {
                orders = if left { self.wait_for(orders, SWEEP) } else { self.wait(orders) };
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
