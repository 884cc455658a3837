//! What rustls reports while a connection takes a datagram, since QUIC does not pass it on: which
//! group the server chose, whether it signed, which it does in full handshakes only, and whether it
//! sent a ticket.

use std::cell::Cell;

use rustls::NamedGroup;

/// What has happened on a thread since it was last asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// A signature was verified.
    pub signature: bool,
    /// A ticket was kept.
    pub ticket: bool,
    /// The group of the key exchange.
    pub group: Option<NamedGroup>,
}

thread_local! {
    static SIGNATURE: Cell<bool> = const { Cell::new(false) };
    static TICKET: Cell<bool> = const { Cell::new(false) };
    static GROUP: Cell<Option<NamedGroup>> = const { Cell::new(None) };
}

impl Seen {
    /// Adds what has happened on this thread since.
    pub fn update(&mut self) {
        self.signature |= SIGNATURE.take();
        self.ticket |= TICKET.take();
        self.group = GROUP.take().or(self.group);
    }
}

/// Notes that a signature is verified on this thread.
pub fn note_signature() {
    SIGNATURE.set(true);
}

/// Notes that a ticket is kept on this thread.
pub fn note_ticket() {
    TICKET.set(true);
}

/// Notes that the server takes `group` on this thread.
pub fn note_group(group: NamedGroup) {
    GROUP.set(Some(group));
}
