//! Executed handshakes of one thread, in the order in which they were executed.
#![allow(unsafe_code, reason = "handshakes by address")]

use core::cell::RefCell;
use core::ptr;
use std::collections::VecDeque;

use crate::handshake::Handshake;

/// Handshakes leave the queues before they are freed ([`Queue::forget`]).
#[derive(Default)]
pub(crate) struct Queue(RefCell<VecDeque<*const Handshake>>);

impl Queue {
    pub(crate) fn push(&self, handshake: &Handshake) {
        self.0.borrow_mut().push_back(handshake);
    }

    /// Takes out the handshake that was executed first.
    pub(crate) fn pop(&self) -> Option<&Handshake> {
        let first = self.0.borrow_mut().pop_front()?;
        Some(at(first))
    }

    pub(super) fn forget(&self, handshake: &Handshake) {
        let mut queue = self.0.borrow_mut();
        if let Some(index) = queue.iter().position(|&other| ptr::eq(other, handshake)) {
            queue.remove(index);
        }
    }

    /// Takes all that `other` has.
    pub(super) fn append(&self, other: &Self) {
        self.0.borrow_mut().append(&mut other.0.borrow_mut());
    }

    pub(super) fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    /// Keeps the handshakes for which `stays` says so. It may use other queues, but not this one.
    pub(super) fn retain(&self, mut stays: impl FnMut(&Handshake) -> bool) {
        self.0.borrow_mut().retain(|&handshake| stays(at(handshake)));
    }

    pub(super) fn any(&self, is_one: impl Fn(&Handshake) -> bool) -> bool {
        self.0.borrow().iter().any(|&handshake| is_one(at(handshake)))
    }

    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

/// The handshake at an address out of a queue.
fn at<'a>(handshake: *const Handshake) -> &'a Handshake {
    // SAFETY: `push` was given a reference, and handshakes leave the queues before they are freed.
    unsafe { &*handshake }
}
