//! What rustls reports while a connection takes a datagram, since QUIC does not pass it on: whether
//! the server signed, which it does in full handshakes only, and whether it sent a ticket.

use std::cell::Cell;
use std::sync::Arc;

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// What has happened on a thread since it was last asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// A signature was verified.
    pub signature: bool,
    /// A ticket was kept.
    pub ticket: bool,
}

thread_local! {
    static SIGNATURE: Cell<bool> = const { Cell::new(false) };
    static TICKET: Cell<bool> = const { Cell::new(false) };
}

impl Seen {
    /// Adds what has happened on this thread since.
    pub fn update(&mut self) {
        self.signature |= SIGNATURE.take();
        self.ticket |= TICKET.take();
    }
}

/// Notes that a signature is verified on this thread.
pub fn note_signature() {
    SIGNATURE.set(true);
}

/// A store of sessions that notes tickets.
#[derive(Debug)]
pub struct Store(pub Arc<dyn ClientSessionStore>);

impl ClientSessionStore for Store {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.0.set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.kx_hint(server_name)
    }

    fn set_tls12_session(&self, server_name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.0.set_tls12_session(server_name, value);
    }

    fn tls12_session(&self, server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.tls12_session(server_name)
    }

    fn remove_tls12_session(&self, server_name: &ServerName<'static>) {
        self.0.remove_tls12_session(server_name);
    }

    fn insert_tls13_ticket(
        &self,
        server_name: ServerName<'static>,
        value: Tls13ClientSessionValue,
    ) {
        TICKET.set(true);
        self.0.insert_tls13_ticket(server_name, value);
    }

    fn take_tls13_ticket(
        &self,
        server_name: &ServerName<'static>,
    ) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(server_name)
    }
}
