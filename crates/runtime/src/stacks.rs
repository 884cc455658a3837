//! The stacks of one thread's fibres: some are kept, and none are asked for while memory is short.
//!
//! A fibre's stack takes more of an address space that is limited (`RLIMIT_AS`) than the handshake
//! on it, and where there is none left, libssl fails the handshake. So once there is no room for
//! another stack and what libssl needs, handshakes go without fibres for a while, as they do
//! natively, and all stacks go back to the system, those of suspended handshakes as these end.

use core::cell::{Cell, RefCell};

use widelane_reserve::Stack;

/// Stacks that no fibre needs now, and how many are not to be asked for.
#[derive(Default)]
pub(crate) struct Stacks {
    idle: RefCell<Vec<Stack>>,
    drought: Cell<u32>,
}

impl Stacks {
    /// A stack for one fibre, if memory allows; `map` makes one.
    pub(crate) fn get(&self, map: impl FnOnce() -> Option<Stack>) -> Option<Stack> {
        if let Some(left) = self.drought.get().checked_sub(1) {
            self.drought.set(left);
            return None;
        }
        let idle = self.idle.borrow_mut().pop();
        idle.or_else(|| self.map_or_dry_up(map))
    }

    /// Called when libssl has failed a handshake: makes room if that was for want of memory.
    pub(crate) fn relieve(&self, map: impl FnOnce() -> Option<Stack>) {
        if self.drought.get() == 0 {
            drop(self.map_or_dry_up(map));
        }
    }

    fn map_or_dry_up(&self, map: impl FnOnce() -> Option<Stack>) -> Option<Stack> {
        let stack = map();
        if stack.is_none() {
            self.drought.set(DROUGHT);
            self.idle.borrow_mut().clear();
        }
        stack
    }

    /// Keeps a stack for the next fibre; unmaps it if there are [`KEPT_MAX`], or if memory was
    /// short lately.
    pub(crate) fn keep(&self, stack: Stack) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < KEPT_MAX && self.drought.get() == 0 {
            idle.push(stack);
        }
    }
}

/// Idle stacks that a thread keeps; the rest goes back to the system.
const KEPT_MAX: usize = 64;

/// Fibres that are done without after a stack was refused.
const DROUGHT: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fibre;

    #[test]
    fn keeps_some_stacks_and_no_more() {
        let stacks = Stacks::default();
        for _ in 0..KEPT_MAX + 1 {
            stacks.keep(fibre::stack().expect("memory"));
        }
        for _ in 0..KEPT_MAX {
            assert!(stacks.get(|| panic!("there is one")).is_some());
        }
        assert!(stacks.get(fibre::stack).is_some());
    }

    #[test]
    fn a_refusal_is_followed_by_a_drought_in_which_none_is_kept() {
        let stacks = Stacks::default();
        let suspended = stacks.get(fibre::stack).expect("memory");
        assert!(stacks.get(|| None).is_none());
        stacks.keep(suspended);
        for _ in 0..DROUGHT {
            assert!(stacks.get(|| panic!("nobody asks")).is_none());
        }
        let is_asked = Cell::new(false);
        let map = || {
            is_asked.set(true);
            fibre::stack()
        };
        assert!(stacks.get(map).is_some() && is_asked.get(), "what was suspended is not kept");
    }

    #[test]
    fn a_failure_gives_idle_stacks_up_where_there_is_no_room_for_another() {
        let stacks = Stacks::default();
        stacks.keep(fibre::stack().expect("memory"));
        stacks.relieve(fibre::stack);
        assert_eq!(stacks.idle.borrow().len(), 1, "it failed for another reason");
        stacks.relieve(|| None);
        assert_eq!((stacks.idle.borrow().len(), stacks.drought.get()), (0, DROUGHT));
        stacks.relieve(|| panic!("this is known"));
    }
}
