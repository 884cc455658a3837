//! What a context has done: counted here, and added to the counters of the process now and then.

use widelane_bridge::counters::CipherKind;
use widelane_cpu::Room;

use crate::choosing;
use crate::counters::add;
use crate::process;

/// Messages that one context has sealed and opened.
///
/// Counters of the process are shared by its threads; a record of TLS should not have to wait for
/// them.
pub(super) struct Tally {
    kind: CipherKind,
    room: Room,
    messages: usize,
    bytes: usize,
}

impl Tally {
    /// A tally of `kind` in `room` with nothing counted yet.
    pub(super) fn new(kind: CipherKind, room: Room) -> Self {
        Tally { kind, room, messages: 0, bytes: 0 }
    }

    /// A tally of the same cipher in another room with nothing counted yet.
    pub(super) fn in_room(&self, room: Room) -> Self {
        Tally::new(self.kind, room)
    }

    /// Counts bytes of a message.
    #[inline]
    pub(super) fn text(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Counts a message.
    #[inline]
    pub(super) fn message(&mut self) {
        self.messages += 1;
        if self.messages == MESSAGES_MAX {
            self.tell();
        }
    }

    fn tell(&mut self) {
        let counters = &process::current().counters().ciphers[self.kind as usize];
        add(&counters.messages_by_room[self.room as usize], std::mem::take(&mut self.messages));
        add(&counters.bytes, std::mem::take(&mut self.bytes));
        choosing::tick();
    }
}

impl Clone for Tally {
    /// A context that is copied has done nothing yet.
    fn clone(&self) -> Self {
        Tally::new(self.kind, self.room)
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if self.messages > 0 {
            self.tell();
        }
    }
}

/// How many messages are added at a time.
const MESSAGES_MAX: usize = 64;
