//! Sessions that connections may resume: a store for each TLS configuration, over TCP and QUIC.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

use crate::quic;

/// The sessions of one configuration. A ticket of TLS 1.3 is taken when a connection begins, and
/// the server's next ones come before it ends: all connections that are under way at a time need
/// one each, which rustls' own store, with eight for each name, does not have.
#[derive(Debug)]
pub struct Sessions {
    tickets_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Of TLS 1.2, where a session serves many connections.
    sessions: HashMap<ServerName<'static>, Tls12ClientSessionValue>,
    /// Of TLS 1.3, the oldest first.
    tickets: HashMap<ServerName<'static>, VecDeque<Tls13ClientSessionValue>>,
    count: usize,
}

impl Sessions {
    /// Keeps so many tickets of all names together, and a session of TLS 1.2 for each; nothing if
    /// there may be none.
    pub fn new(tickets_max: usize) -> Self {
        Sessions { tickets_max, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        quic::note_group(group);
    }

    /// Connections begin with the group that was drawn.
    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, name: ServerName<'static>, session: Tls12ClientSessionValue) {
        if self.tickets_max > 0 {
            self.kept().sessions.insert(name, session);
        }
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.kept().sessions.get(name).cloned()
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.kept().sessions.remove(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        if self.tickets_max == 0 {
            return;
        }
        quic::note_ticket();
        let Kept { tickets, count, .. } = &mut *self.kept();
        if *count < self.tickets_max {
            *count += 1;
        } else if tickets.get_mut(&name).and_then(VecDeque::pop_front).is_none() {
            let most = tickets.values_mut().max_by_key(|tickets| tickets.len());
            most.and_then(VecDeque::pop_front);
        }
        tickets.entry(name).or_default().push_back(ticket);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let kept = &mut *self.kept();
        let ticket = kept.tickets.get_mut(name)?.pop_back()?;
        kept.count -= 1;
        Some(ticket)
    }
}
