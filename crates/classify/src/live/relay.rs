//! How changes reach readers while a new state is being built from an old one: none is lost, and
//! none is seen twice.
//!
//! Every change is applied to a copy of the latest state, which is then published whole. Who builds
//! takes the latest state, works as long as it takes, and comes back with another that means the
//! same; what was changed meanwhile stands in the journal, and is applied to the new state before
//! that is published.

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

use super::published::{Published, View};

/// A state that readers see, and the way of changes to it.
#[derive(Debug)]
pub struct Relay<S, C> {
    published: Published<S>,
    /// Held while a state is published, so that one follows from the other.
    desk: Mutex<Desk<S, C>>,
    apply: fn(&mut S, &C),
}

#[derive(Debug)]
struct Desk<S, C> {
    /// Changes since a build began; none while nobody builds.
    journal: Option<Vec<C>>,
    /// States that readers may still hold. They are dropped here, so that no reader has to.
    retired: Vec<Arc<S>>,
}

/// So many changes may be applied while all others wait.
const LAST_CHANGES: usize = 16;

impl<S: Clone, C> Relay<S, C> {
    /// A first state, and what a change does.
    pub fn new(state: S, apply: fn(&mut S, &C)) -> Self {
        let desk = Mutex::new(Desk { journal: None, retired: Vec::new() });
        Relay { published: Published::new(Arc::new(state)), desk, apply }
    }

    /// The latest state.
    pub fn latest(&self) -> Arc<S> {
        self.published.latest()
    }

    /// What a reader looks through.
    pub fn view(&self) -> View<S> {
        self.published.view()
    }

    /// Applies one change, and returns the new state; readers see it when this returns.
    pub fn change(&self, change: C) -> Arc<S> {
        let mut desk = self.desk();
        let mut state = S::clone(&self.published.latest());
        (self.apply)(&mut state, &change);
        let state = self.publish(&mut desk, state);
        if let Some(journal) = &mut desk.journal {
            journal.push(change);
        }
        state
    }

    /// Replaces the state by one that means something else. A build that is under way comes to
    /// nothing.
    pub fn reset(&self, state: S) {
        let mut desk = self.desk();
        desk.journal = None;
        self.publish(&mut desk, state);
    }

    /// Begins a build: the state to build from. One build at a time.
    pub fn begin(&self) -> Arc<S> {
        let mut desk = self.desk();
        desk.journal = Some(Vec::new());
        self.published.latest()
    }

    /// Ends a build that came to nothing.
    pub fn abandon(&self) {
        self.desk().journal = None;
    }

    /// Ends a build: catches up with the changes made meanwhile, and publishes.
    pub fn finish(&self, mut state: S) {
        loop {
            let mut desk = self.desk();
            let Some(journal) = desk.journal.take() else { return };
            // While many are applied, others go on changing; the last few they wait for.
            if journal.len() <= LAST_CHANGES {
                journal.iter().for_each(|change| (self.apply)(&mut state, change));
                self.publish(&mut desk, state);
                return;
            }
            desk.journal = Some(Vec::new());
            drop(desk);
            journal.iter().for_each(|change| (self.apply)(&mut state, change));
        }
    }

    fn publish(&self, desk: &mut Desk<S, C>, state: S) -> Arc<S> {
        let state = Arc::new(state);
        desk.retired.push(self.published.replace(Arc::clone(&state)));
        desk.retired.retain(|state| Arc::strong_count(state) > 1);
        state
    }

    /// A panic elsewhere does not poison it: states are published whole.
    fn desk(&self) -> MutexGuard<'_, Desk<S, C>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, loom))]
mod tests {
    use loom::thread;

    use super::*;

    /// Which changes a state has seen, in their order, and how often it was built anew.
    type State = (Vec<u8>, u8);

    /// With so few changes that all are applied at once, and so many that it takes two rounds.
    fn explore(before: u8) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let relay =
                loom::sync::Arc::new(Relay::new((Vec::new(), 0), |state: &mut State, change| {
                    state.0.push(*change);
                }));
            let build = relay.begin();
            (0..before).for_each(|change| drop(relay.change(change)));
            let own = relay.clone();
            let builder = thread::spawn(move || own.finish((build.0.clone(), build.1 + 1)));
            let own = relay.clone();
            let writer = thread::spawn(move || drop(own.change(100)));
            let mut view = relay.view();
            let mut seen: Vec<u8> = (0..before).collect();
            for _ in 0..2 {
                let now = view.latest().0.clone();
                assert!(now.starts_with(&seen), "{now:?} after {seen:?}");
                seen = now;
            }
            relay.change(101);
            assert!(view.latest().0.contains(&101), "a change is seen when it returns");
            builder.join().unwrap();
            writer.join().unwrap();
            let (mut changes, built) = (*relay.latest()).clone();
            changes[usize::from(before)..].sort_unstable();
            let wanted: Vec<u8> = (0..before).chain([100, 101]).collect();
            assert_eq!((changes, built), (wanted, 1), "no change is lost, and none seen twice");
        });
    }

    #[test]
    fn a_build_loses_no_change() {
        explore(0);
    }

    #[test]
    fn a_build_catches_up_in_rounds() {
        explore(LAST_CHANGES as u8 + 1);
    }

    #[test]
    fn a_build_that_is_overtaken_comes_to_nothing() {
        loom::model(|| {
            let apply = |state: &mut State, change: &u8| state.0.push(*change);
            let relay = loom::sync::Arc::new(Relay::new((vec![1], 0), apply));
            let build = relay.begin();
            let own = relay.clone();
            let builder = thread::spawn(move || own.finish((build.0.clone(), build.1 + 1)));
            relay.reset((vec![2], 0));
            relay.change(3);
            builder.join().unwrap();
            assert_eq!(*relay.latest(), (vec![2, 3], 0));
        });
    }
}
