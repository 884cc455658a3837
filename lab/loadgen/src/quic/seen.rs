//! What rustls reports while a connection takes a datagram, since QUIC does not pass it on: which
//! group the server chose, whether it signed, which it does in full handshakes only, and whether it
//! sent a ticket.

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

/// A store of sessions that notes tickets and groups; without one behind it, it keeps nothing.
#[derive(Debug)]
pub struct Store(pub Option<Arc<dyn ClientSessionStore>>);

impl ClientSessionStore for Store {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        GROUP.set(Some(group));
        if let Some(store) = &self.0 {
            store.set_kx_hint(server_name, group);
        }
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.as_ref()?.kx_hint(server_name)
    }

    fn set_tls12_session(&self, server_name: ServerName<'static>, value: Tls12ClientSessionValue) {
        if let Some(store) = &self.0 {
            store.set_tls12_session(server_name, value);
        }
    }

    fn tls12_session(&self, server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.as_ref()?.tls12_session(server_name)
    }

    fn remove_tls12_session(&self, server_name: &ServerName<'static>) {
        if let Some(store) = &self.0 {
            store.remove_tls12_session(server_name);
        }
    }

    fn insert_tls13_ticket(
        &self,
        server_name: ServerName<'static>,
        value: Tls13ClientSessionValue,
    ) {
        if let Some(store) = &self.0 {
            TICKET.set(true);
            store.insert_tls13_ticket(server_name, value);
        }
    }

    fn take_tls13_ticket(
        &self,
        server_name: &ServerName<'static>,
    ) -> Option<Tls13ClientSessionValue> {
        self.0.as_ref()?.take_tls13_ticket(server_name)
    }
}
