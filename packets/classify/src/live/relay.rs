//! How changes reach readers, and go on while a new draft is being built from an old one: none is
//! lost, and none is applied twice.
//!
//! A writer changes the *draft*, which only it sees; readers have *versions* of it. A version that
//! readers have left is corrected, and published again. The builder copies what the draft is made
//! of, works as long as it takes, and returns another draft that means the same. Changes made
//! meanwhile are in the journal, and are applied to the new draft before versions of it are
//! published.
//!
//! Versions may share memory. So before a draft reuses memory, [`Draft::recycle`] gets the oldest
//! version that readers may still hold.

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(loom)]
use loom::thread::yield_now;
use std::array;
use std::fmt::Debug;
use std::mem;
use std::sync::{Arc, PoisonError};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::thread::yield_now;

use super::published::{Latest, Published};

/// What changes are made in.
pub trait Draft: Debug {
    type Change: Debug;
    /// What a change returns to the writer.
    type Outcome;
    /// What readers see.
    type Version: Debug;
    type Refusal;

    /// Makes a change, whole or not at all.
    fn apply(&mut self, change: &Self::Change) -> Result<Self::Outcome, Self::Refusal>;

    /// A version of the draft as it is.
    fn version(&self) -> Self::Version;

    /// Makes an earlier version of this draft one of the draft as it is; false if that cannot be.
    fn correct(&self, version: &mut Self::Version) -> bool;

    /// Lets the draft reuse what no version needs any more. Readers hold the latest one, and none
    /// that is earlier than `oldest`; without `oldest`, they hold the latest one only.
    fn recycle(&mut self, oldest: Option<&Self::Version>);
}

/// A draft, the versions that readers see, and the way of changes to them.
#[derive(Debug)]
pub struct Relay<D: Draft> {
    published: Published<D::Version>,
    /// Held while something is changed, so that one version follows from the other.
    state: Mutex<State<D>>,
}

#[derive(Debug)]
struct State<D: Draft> {
    draft: D,
    /// Changes since a build began; none while no build is under way.
    journal: Option<Vec<D::Change>>,
    /// Earlier versions, the latest last. Readers may still hold them.
    versions: Vec<Arc<D::Version>>,
    /// Versions of earlier drafts, which readers may still hold. [`Relay::drop_outdated`] drops
    /// them, since that takes long.
    outdated: Vec<Arc<D::Version>>,
    /// Changes that builds have caught up with. Writers drop them, a few at a time: if another
    /// thread freed them all at once, the next change would have to wait for the allocator.
    spent: Vec<D::Change>,
}

/// How many changes, for each round, may be applied while all others wait.
const LAST_CHANGES: usize = 2;
/// How many spent changes are dropped with each change that is made.
const DROPPED: usize = 2;
/// How often a writer yields before it makes another version, when readers hold all there are.
const PATIENCE: usize = if cfg!(loom) { 1 } else { 64 };
/// Versions that a draft begins with. Two suffice if all readers leave in time; with a third, no
/// writer has to make another when a reader loses its CPU in the middle of a call.
const VERSIONS: usize = if cfg!(loom) { 2 } else { 3 };
/// More besides the one that readers see are of no use.
const VERSIONS_MAX: usize = 3;

impl<D: Draft> Relay<D> {
    /// A first draft, and versions of it.
    pub fn new(draft: D) -> Self {
        let [version, spare @ ..] = draft.versions();
        Relay::of(Published::new(version), draft, &spare)
    }

    /// A relay of another draft to the same readers, who do not see it yet.
    pub fn beside(&self, draft: D) -> Self {
        let versions = draft.versions();
        Relay::of(self.published.clone(), draft, &versions)
    }

    /// Has readers see this relay's draft, in a forked child, in place of that of the parent's
    /// relay. What is there stays as it is for ever: a thread of the parent may have been changing
    /// it.
    pub fn succeed_in_child(&self) {
        let version = self.state().next_version();
        mem::forget(self.published.replace(version));
    }

    fn of(published: Published<D::Version>, draft: D, spare: &[Arc<D::Version>]) -> Self {
        let (journal, outdated, spent) = (None, Vec::new(), Vec::new());
        let state = State { draft, journal, versions: spare.to_vec(), outdated, spent };
        Relay { published, state: Mutex::new(state) }
    }

    /// Where readers find the latest version.
    pub fn published(&self) -> Published<D::Version> {
        self.published.clone()
    }

    /// The latest version.
    pub fn latest(&self) -> Latest<D::Version> {
        self.published.latest()
    }

    /// Makes a change; readers see it when this returns.
    pub fn change(&self, change: D::Change) -> Result<D::Outcome, D::Refusal> {
        let mut state = self.state();
        state.recycle();
        let outcome = state.draft.apply(&change)?;
        let version = state.next_version();
        let replaced = self.published.replace(version);
        state.versions.push(replaced);
        if let Some(journal) = &mut state.journal {
            journal.push(change);
        }
        state.correct_spare_versions();
        let surplus = state.surplus_version();
        let kept = state.spent.len().saturating_sub(DROPPED);
        state.spent.truncate(kept);
        drop(state);
        drop(surplus);
        Ok(outcome)
    }

    /// Replaces the draft by one that means something else. A build that is under way comes to
    /// nothing.
    pub fn reset(&self, draft: D) {
        let versions = draft.versions();
        let mut state = self.state();
        state.journal = None;
        let replaced = self.put(&mut state, draft, versions);
        drop(state);
        drop(replaced);
    }

    /// Begins a build, and returns what it needs of the draft. One build at a time.
    pub fn begin<T>(&self, parts: impl FnOnce(&D) -> T) -> T {
        let mut state = self.state();
        state.journal = Some(Vec::new());
        parts(&state.draft)
    }

    /// What else a build needs of the draft. If it is read piece by piece, the pieces contain some
    /// of the changes that are in the journal, too.
    pub fn look<T>(&self, piece: impl FnOnce(&D) -> T) -> T {
        piece(&self.state().draft)
    }

    /// Drops versions of earlier drafts that readers have left; false if none are left to drop.
    pub fn drop_outdated(&self) -> bool {
        let mut state = self.state();
        let unused: Vec<_> =
            state.outdated.extract_if(.., |version| Arc::get_mut(version).is_some()).collect();
        let left = !state.outdated.is_empty();
        drop(state);
        drop(unused);
        left
    }

    /// Ends a build that came to nothing; false if it was of a draft that has been
    /// [replaced](Self::reset).
    pub fn abandon(&self) -> bool {
        self.state().journal.take().is_some()
    }

    /// Ends a build: catches up with the changes made meanwhile, and publishes.
    pub fn finish(&self, mut draft: D) -> Result<(), D::Refusal> {
        let mut versions: Option<Versions<D>> = None;
        for round in 1.. {
            let mut state = self.state();
            let Some(journal) = state.journal.as_mut().map(mem::take) else { return Ok(()) };
            // Writers go on while many changes are applied here and versions are made; they wait
            // for the last few only. These may be more with every round, since writers may make
            // changes as fast as they are applied here.
            if let Some(versions) = versions.take_if(|_| journal.len() <= LAST_CHANGES * round) {
                draft.catch_up(&journal)?;
                state.journal = None;
                state.spent.extend(journal);
                let versions = versions.map(|version| draft.corrected(version));
                let replaced = self.put(&mut state, draft, versions);
                drop(state);
                drop(replaced);
                return Ok(());
            }
            drop(state);
            let applied = draft.catch_up(&journal);
            self.state().spent.extend(journal);
            applied?;
            versions = Some(match versions {
                Some(versions) => versions.map(|version| draft.corrected(version)),
                None => draft.versions(),
            });
        }
        Ok(())
    }

    /// Puts a draft and its versions in the place of the old one, which is returned: dropping it
    /// takes long.
    fn put(&self, state: &mut State<D>, draft: D, versions: Versions<D>) -> D {
        let [version, spare @ ..] = versions;
        state.outdated.push(self.published.replace(version));
        let old_versions = mem::replace(&mut state.versions, spare.to_vec());
        state.outdated.extend(old_versions);
        mem::replace(&mut state.draft, draft)
    }

    /// A panic elsewhere does not poison it: versions are published whole.
    fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The version that readers see, and those that take turns with it.
type Versions<D> = [Arc<<D as Draft>::Version>; VERSIONS];

/// What every draft can do.
trait Corrected: Draft {
    /// As many versions as a draft begins with.
    fn versions(&self) -> Versions<Self> {
        array::from_fn(|_| Arc::new(self.version()))
    }

    /// Makes changes that no reader sees yet. The versions there are will be corrected.
    fn catch_up(&mut self, journal: &[Self::Change]) -> Result<(), Self::Refusal> {
        journal.iter().try_for_each(|change| {
            self.recycle(None);
            self.apply(change).map(drop)
        })
    }

    /// The version, or another if it cannot be corrected.
    fn corrected(&self, mut version: Arc<Self::Version>) -> Arc<Self::Version> {
        match Arc::get_mut(&mut version).is_some_and(|version| self.correct(version)) {
            true => version,
            false => Arc::new(self.version()),
        }
    }
}

impl<D: Draft> Corrected for D {}

impl<D: Draft> State<D> {
    /// A version of the draft as it is: an earlier one that no reader holds, or another.
    fn next_version(&mut self) -> Arc<D::Version> {
        for _ in 0..PATIENCE {
            // No reader can reach a version that is not published: one that nobody holds stays so.
            if let Some(at) = self.versions.iter_mut().rposition(|of| Arc::get_mut(of).is_some()) {
                return self.draft.corrected(self.versions.remove(at));
            }
            yield_now();
        }
        Arc::new(self.draft.version())
    }

    /// Corrects the versions that no reader holds, so that none falls too far behind.
    fn correct_spare_versions(&mut self) {
        for version in self.versions.iter_mut().filter_map(Arc::get_mut) {
            // One that cannot be corrected is replaced when it is needed.
            self.draft.correct(version);
        }
    }

    /// Has the draft recycle what only versions needed that readers have left.
    fn recycle(&mut self) {
        let State { draft, versions, .. } = self;
        let held = |version: &mut Arc<D::Version>| Arc::get_mut(version).is_none();
        let oldest = versions.iter_mut().position(held);
        draft.recycle(oldest.map(|at| &*versions[at]));
    }

    /// Takes out a version that no reader holds, if there are more than are of use.
    fn surplus_version(&mut self) -> Option<Arc<D::Version>> {
        if self.versions.len() <= VERSIONS_MAX {
            return None;
        }
        let unused = self.versions.iter_mut().position(|version| Arc::get_mut(version).is_some());
        unused.map(|at| self.versions.remove(at))
    }
}

#[cfg(all(test, loom))]
mod tests {
    use loom::sync::atomic::{AtomicU8, Ordering};
    use loom::thread;

    use super::*;
    use crate::live::published::View;

    /// Which changes there have been, in their order, and how often it was built anew.
    #[derive(Debug)]
    struct Log {
        changes: Vec<u8>,
        built: u8,
        /// What versions share. The last change stands in one place, which is another every time.
        places: Arc<Vec<AtomicU8>>,
        place: usize,
        free: Vec<usize>,
        /// Places given up, and how many changes a version must have that does not lead there.
        released: Vec<(usize, usize)>,
    }

    /// A version, whose two halves are corrected one after the other.
    #[derive(Debug)]
    struct Halves {
        first: Vec<u8>,
        second: Vec<u8>,
        built: u8,
        places: Arc<Vec<AtomicU8>>,
        place: usize,
    }

    /// What the place says when there was no change yet.
    const NONE: u8 = u8::MAX;

    impl Log {
        /// With as few places as do when no reader holds an earlier version, and some more.
        fn of(changes: Vec<u8>, built: u8) -> Self {
            let last = changes.last().copied().unwrap_or(NONE);
            let places = Arc::new((0..24).map(|_| AtomicU8::new(last)).collect());
            Log { changes, built, places, place: 0, free: (1..24).collect(), released: Vec::new() }
        }
    }

    impl Draft for Log {
        type Change = u8;
        type Outcome = ();
        type Version = Halves;
        type Refusal = ();

        fn apply(&mut self, change: &u8) -> Result<(), ()> {
            let place = self.free.pop().ok_or(())?;
            self.places[place].store(*change, Ordering::Relaxed);
            self.changes.push(*change);
            self.released.push((self.changes.len(), mem::replace(&mut self.place, place)));
            Ok(())
        }

        fn version(&self) -> Halves {
            Halves {
                first: self.changes.clone(),
                second: self.changes.clone(),
                built: self.built,
                places: self.places.clone(),
                place: self.place,
            }
        }

        fn correct(&self, version: &mut Halves) -> bool {
            assert_eq!(version.built, self.built, "a version is corrected after its own draft");
            assert!(self.changes.starts_with(&version.first));
            version.first.clone_from(&self.changes);
            yield_now();
            version.second.clone_from(&self.changes);
            version.place = self.place;
            true
        }

        fn recycle(&mut self, oldest: Option<&Halves>) {
            let seen = oldest.map_or(self.changes.len(), |version| version.first.len());
            let unused = self.released.extract_if(.., |(since, _)| *since <= seen);
            self.free.extend(unused.map(|(_, place)| place));
        }
    }

    fn relay(draft: Log) -> loom::sync::Arc<Relay<Log>> {
        loom::sync::Arc::new(Relay::new(draft))
    }

    /// What a reader sees, twice while it holds a version.
    fn seen(view: &View<Halves>) -> Vec<u8> {
        let version = view.latest();
        let first = version.first.clone();
        for _ in 0..2 {
            assert_eq!((&first, &version.first), (&version.second, &version.second));
            let last = version.places[version.place].load(Ordering::Relaxed);
            assert_eq!(
                last,
                first.last().copied().unwrap_or(NONE),
                "what a version leads to stays"
            );
            yield_now();
        }
        first
    }

    /// With so few changes that all are applied at once, and so many that it takes two rounds.
    fn explore(before: u8) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let relay = relay(Log::of(Vec::new(), 0));
            let build = Log::of(relay.begin(|log| log.changes.clone()), 1);
            (0..before).for_each(|change| relay.change(change).unwrap());
            let own = relay.clone();
            let builder = thread::spawn(move || {
                own.finish(build).unwrap();
                own.drop_outdated();
            });
            let own = relay.clone();
            let writer = thread::spawn(move || own.change(100).unwrap());
            let view = relay.published.view();
            let mut last: Vec<u8> = (0..before).collect();
            for _ in 0..2 {
                let now = seen(&view);
                assert!(now.starts_with(&last), "{now:?} after {last:?}");
                last = now;
            }
            relay.change(101).unwrap();
            assert!(seen(&view).contains(&101), "a change is seen when it returns");
            builder.join().unwrap();
            writer.join().unwrap();
            let latest = relay.latest();
            let (mut changes, built) = (latest.first.clone(), latest.built);
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
    fn a_version_is_corrected_when_no_reader_holds_it() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let relay = relay(Log::of(Vec::new(), 0));
            let view = relay.published.view();
            let readers = [view.clone(), view].map(|view| {
                thread::spawn(move || {
                    let first = seen(&view);
                    assert!(seen(&view).starts_with(&first));
                })
            });
            (0..4).for_each(|change| relay.change(change).unwrap());
            readers.into_iter().for_each(|reader| reader.join().unwrap());
            assert_eq!(relay.latest().first, [0, 1, 2, 3]);
        });
    }

    #[test]
    fn a_build_that_is_overtaken_comes_to_nothing() {
        loom::model(|| {
            let relay = relay(Log::of(vec![1], 0));
            let build = Log::of(relay.begin(|log| log.changes.clone()), 1);
            let own = relay.clone();
            let builder = thread::spawn(move || own.finish(build).unwrap());
            relay.reset(Log::of(vec![2], 7));
            relay.change(3).unwrap();
            builder.join().unwrap();
            relay.drop_outdated();
            let latest = relay.latest();
            assert_eq!((&latest.first, latest.built), (&vec![2, 3], 7));
        });
    }
}
