//! Threads that go from subject to subject together.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A crew of threads.
#[derive(Default)]
pub(super) struct Crew {
    state: Mutex<State>,
    met: Condvar,
}

#[derive(Default)]
struct State {
    members: usize,
    waiting: usize,
    /// How often all of them have met.
    meetings: u64,
    is_over: bool,
}

/// A thread's place in the crew. Where it is dropped, by a panic too, nobody waits for it any more,
/// and the others are told to end.
pub(super) struct Member(Arc<Crew>);

impl Crew {
    /// One more member; all of them are to be there before the first one waits.
    pub(super) fn member(self: &Arc<Self>) -> Member {
        self.state().members += 1;
        Member(Arc::clone(self))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets everybody go on.
    fn meet(&self, state: &mut State) {
        state.waiting = 0;
        state.meetings += 1;
        self.met.notify_all();
    }
}

impl Member {
    /// Waits for all, and says whether all of them were `sound`.
    pub(super) fn all(&self, sound: bool) -> bool {
        self.0.state().is_over |= !sound;
        self.agree(|| true)
    }

    /// Waits for all, and gives all of them the answer that the last one finds: whether they are to
    /// go on.
    pub(super) fn agree(&self, question: impl FnOnce() -> bool) -> bool {
        let mut state = self.0.state();
        state.waiting += 1;
        if state.waiting == state.members {
            state.is_over |= !question();
            self.0.meet(&mut state);
        } else {
            let meetings = state.meetings;
            let waits = |state: &mut State| state.meetings == meetings;
            state = self.0.met.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        }
        !state.is_over
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.members -= 1;
        state.is_over = true;
        if state.waiting > 0 && state.waiting == state.members {
            self.0.meet(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn all_get_the_answer_that_one_of_them_finds() {
        let (crew, asked) = (Arc::<Crew>::default(), AtomicU32::new(0));
        let members = [(); 4].map(|()| crew.member());
        let work = |member: Member| {
            let goes_on = || asked.fetch_add(1, Ordering::Relaxed) < 100;
            (0..).take_while(|_| member.agree(goes_on)).count()
        };
        let rounds = thread::scope(|scope| {
            members.map(|member| scope.spawn(|| work(member))).map(|thread| thread.join().unwrap())
        });
        assert_eq!(rounds, [100; 4]);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_panicked() {
        let crew = Arc::<Crew>::default();
        let [first, second, third] = [(); 3].map(|()| crew.member());
        thread::scope(|scope| {
            let others = [first, second].map(|member| {
                scope.spawn(move || {
                    let mut rounds = 0;
                    while member.all(true) {
                        rounds += 1;
                    }
                    rounds
                })
            });
            let panicked = scope.spawn(move || {
                third.all(true);
                panic!("a defect");
            });
            assert!(panicked.join().is_err());
            assert!(others.map(|other| other.join().unwrap()).iter().all(|rounds| *rounds <= 1));
        });
    }
}
