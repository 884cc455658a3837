//! How changes reach readers, and go on while another draft is being made from an old one: none is
//! lost, and none is seen twice.
//!
//! Who changes something changes the *draft*, which nobody else sees; readers have *prints* of it.
//! A print that readers have left is corrected, and published again. Who builds takes what the
//! draft is made of, works as long as it takes, and comes back with another draft that means the
//! same; what was changed meanwhile stands in the journal, and is applied to the new draft before
//! prints of that are published.

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(loom)]
use loom::thread::yield_now;
use std::fmt::Debug;
use std::mem;
use std::sync::{Arc, PoisonError};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::thread::yield_now;

use super::published::{Latest, Published, View};

/// What changes are made in.
pub trait Draft: Debug {
    type Change: Debug;
    /// What a change tells who makes it.
    type Outcome;
    /// What readers see.
    type Print: Debug;
    type Refusal;

    /// Makes a change, whole or not at all.
    fn apply(&mut self, change: &Self::Change) -> Result<Self::Outcome, Self::Refusal>;

    /// A print of the draft as it is.
    fn print(&self) -> Self::Print;

    /// Makes an earlier print of this draft one of the draft as it is; false if that cannot be.
    fn correct(&self, print: &mut Self::Print) -> bool;
}

/// A draft, the prints that readers see, and the way of changes to them.
#[derive(Debug)]
pub struct Relay<D: Draft> {
    published: Published<D::Print>,
    /// Held while something is changed, so that one print follows from the other.
    desk: Mutex<Desk<D>>,
}

#[derive(Debug)]
struct Desk<D: Draft> {
    draft: D,
    /// Changes since a build began; none while nobody builds.
    journal: Option<Vec<D::Change>>,
    /// Earlier prints, the latest last. Readers may still hold them.
    prints: Vec<Arc<D::Print>>,
    /// Prints of earlier drafts, which readers may still hold. They are dropped by who changes
    /// something, so that no reader has to.
    outdated: Vec<Arc<D::Print>>,
}

/// So many changes may be applied while all others wait.
const LAST_CHANGES: usize = 16;
/// How often one that changes something lets others go first before it makes another print, since
/// readers hold all there are.
const PATIENCE: usize = if cfg!(loom) { 1 } else { 64 };
/// Prints besides the one that readers see. One does if all readers leave in time.
const PRINTS_MAX: usize = 3;

impl<D: Draft> Relay<D> {
    /// A first draft, and prints of it.
    pub fn new(draft: D) -> Self {
        let published = Published::new(Arc::new(draft.print()));
        let prints = vec![Arc::new(draft.print())];
        let desk = Desk { draft, journal: None, prints, outdated: Vec::new() };
        Relay { published, desk: Mutex::new(desk) }
    }

    /// The latest print.
    pub fn latest(&self) -> Latest<D::Print> {
        self.published.latest()
    }

    /// What a reader looks through.
    pub fn view(&self) -> View<D::Print> {
        self.published.view()
    }

    /// Makes a change; readers see it when this returns.
    pub fn change(&self, change: D::Change) -> Result<D::Outcome, D::Refusal> {
        let mut desk = self.desk();
        let outcome = desk.draft.apply(&change)?;
        let print = desk.next_print();
        let replaced = self.published.replace(print);
        desk.prints.push(replaced);
        if let Some(journal) = &mut desk.journal {
            journal.push(change);
        }
        let unused = desk.unused_prints();
        drop(desk);
        drop(unused);
        Ok(outcome)
    }

    /// Replaces the draft by one that means something else. A build that is under way comes to
    /// nothing.
    pub fn reset(&self, draft: D) {
        let prints = [Arc::new(draft.print()), Arc::new(draft.print())];
        let mut desk = self.desk();
        desk.journal = None;
        let replaced = self.put(&mut desk, draft, prints);
        drop(desk);
        drop(replaced);
    }

    /// Begins a build: what is to be known of the draft. One build at a time.
    pub fn begin<T>(&self, parts: impl FnOnce(&D) -> T) -> T {
        let mut desk = self.desk();
        desk.journal = Some(Vec::new());
        parts(&desk.draft)
    }

    /// Ends a build that came to nothing.
    pub fn abandon(&self) {
        self.desk().journal = None;
    }

    /// Ends a build: catches up with the changes made meanwhile, and publishes.
    pub fn finish(&self, mut draft: D) -> Result<(), D::Refusal> {
        let mut prints: Option<[Arc<D::Print>; 2]> = None;
        loop {
            let mut desk = self.desk();
            let Some(journal) = desk.journal.take() else { return Ok(()) };
            // While many are applied, and while prints are made, others go on changing; the last
            // few they wait for.
            if let Some(prints) = prints.take_if(|_| journal.len() <= LAST_CHANGES) {
                journal.iter().try_for_each(|change| draft.apply(change).map(drop))?;
                let prints = prints.map(|print| draft.corrected(print));
                let replaced = self.put(&mut desk, draft, prints);
                drop(desk);
                drop(replaced);
                return Ok(());
            }
            desk.journal = Some(Vec::new());
            drop(desk);
            if let Err(refusal) = journal.iter().try_for_each(|of| draft.apply(of).map(drop)) {
                self.abandon();
                return Err(refusal);
            }
            prints = Some(match prints {
                Some(prints) => prints.map(|print| draft.corrected(print)),
                None => [Arc::new(draft.print()), Arc::new(draft.print())],
            });
        }
    }

    /// Puts a draft and its prints in the place of the old one, which is returned: dropping it
    /// takes long.
    fn put(&self, desk: &mut Desk<D>, draft: D, prints: [Arc<D::Print>; 2]) -> D {
        let [print, spare] = prints;
        desk.outdated.push(self.published.replace(print));
        let old_prints = mem::replace(&mut desk.prints, vec![spare]);
        desk.outdated.extend(old_prints);
        mem::replace(&mut desk.draft, draft)
    }

    /// A panic elsewhere does not poison it: prints are published whole.
    fn desk(&self) -> MutexGuard<'_, Desk<D>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What every draft can do.
trait Corrected: Draft {
    /// The print, or another if it cannot be corrected.
    fn corrected(&self, mut print: Arc<Self::Print>) -> Arc<Self::Print> {
        match Arc::get_mut(&mut print).is_some_and(|print| self.correct(print)) {
            true => print,
            false => Arc::new(self.print()),
        }
    }
}

impl<D: Draft> Corrected for D {}

impl<D: Draft> Desk<D> {
    /// A print of the draft as it is: an earlier one that no reader holds, or another.
    fn next_print(&mut self) -> Arc<D::Print> {
        for _ in 0..PATIENCE {
            // No reader comes to a print that is not published: who is alone stays so.
            if let Some(at) = self.prints.iter_mut().rposition(|of| Arc::get_mut(of).is_some()) {
                return self.draft.corrected(self.prints.remove(at));
            }
            yield_now();
        }
        Arc::new(self.draft.print())
    }

    /// Takes out the prints that no reader holds and that are of no more use.
    fn unused_prints(&mut self) -> Vec<Arc<D::Print>> {
        let surplus = self.prints.len().saturating_sub(PRINTS_MAX);
        self.outdated.extend(self.prints.drain(..surplus));
        self.outdated.extract_if(.., |print| Arc::get_mut(print).is_some()).collect()
    }
}

#[cfg(all(test, loom))]
mod tests {
    use loom::thread;

    use super::*;

    /// Which changes there have been, in their order, and how often it was built anew.
    #[derive(Clone, Debug, Default)]
    struct Log {
        changes: Vec<u8>,
        built: u8,
    }

    /// A print, whose two halves are corrected one after the other.
    type Halves = (Vec<u8>, Vec<u8>, u8);

    impl Draft for Log {
        type Change = u8;
        type Outcome = ();
        type Print = Halves;
        type Refusal = ();

        fn apply(&mut self, change: &u8) -> Result<(), ()> {
            self.changes.push(*change);
            Ok(())
        }

        fn print(&self) -> Halves {
            (self.changes.clone(), self.changes.clone(), self.built)
        }

        fn correct(&self, print: &mut Halves) -> bool {
            assert_eq!(print.2, self.built, "a print is corrected after its own draft");
            assert!(self.changes.starts_with(&print.0));
            print.0.clone_from(&self.changes);
            yield_now();
            print.1.clone_from(&self.changes);
            true
        }
    }

    fn relay(draft: Log) -> loom::sync::Arc<Relay<Log>> {
        loom::sync::Arc::new(Relay::new(draft))
    }

    /// What a reader sees, twice while it holds a print.
    fn seen(view: &View<Halves>) -> Vec<u8> {
        let print = view.latest();
        let first = print.0.clone();
        yield_now();
        assert_eq!((&first, &print.0), (&print.1, &print.1), "a print stays while it is held");
        first
    }

    /// With so few changes that all are applied at once, and so many that it takes two rounds.
    fn explore(before: u8) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let relay = relay(Log::default());
            let mut build = relay.begin(Log::clone);
            (0..before).for_each(|change| relay.change(change).unwrap());
            let own = relay.clone();
            let builder = thread::spawn(move || {
                build.built += 1;
                own.finish(build).unwrap();
            });
            let own = relay.clone();
            let writer = thread::spawn(move || own.change(100).unwrap());
            let view = relay.view();
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
            let (mut changes, _, built) = (*relay.latest()).clone();
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
    fn a_print_is_corrected_when_no_reader_holds_it() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let relay = relay(Log::default());
            let view = relay.view();
            let readers = [view.clone(), view].map(|view| {
                thread::spawn(move || {
                    let first = seen(&view);
                    assert!(seen(&view).starts_with(&first));
                })
            });
            (0..4).for_each(|change| relay.change(change).unwrap());
            readers.into_iter().for_each(|reader| reader.join().unwrap());
            assert_eq!(relay.latest().0, [0, 1, 2, 3]);
        });
    }

    #[test]
    fn a_build_that_is_overtaken_comes_to_nothing() {
        loom::model(|| {
            let relay = relay(Log { changes: vec![1], built: 0 });
            let mut build = relay.begin(Log::clone);
            let own = relay.clone();
            let builder = thread::spawn(move || {
                build.built += 1;
                own.finish(build).unwrap();
            });
            relay.reset(Log { changes: vec![2], built: 7 });
            relay.change(3).unwrap();
            builder.join().unwrap();
            assert_eq!((relay.latest().0.clone(), relay.latest().2), (vec![2, 3], 7));
        });
    }
}
