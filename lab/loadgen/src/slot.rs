//! A place for one connection after the other, over TCP or over QUIC.

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::epoll::EventFlags;

use crate::connection::{Connection, Shared, Step};
use crate::quic;
use crate::tally::Failure;

/// One slot.
#[allow(clippy::large_enum_variant, reason = "all slots of a pool are of one kind")]
pub enum Slot {
    /// TLS over TCP.
    Tcp(Connection),
    /// HTTP/3.
    Quic(Box<quic::Connection>),
}

macro_rules! each {
    ($slot:expr, $connection:ident => $call:expr) => {
        match $slot {
            Slot::Tcp($connection) => $call,
            Slot::Quic($connection) => $call,
        }
    };
}

impl Slot {
    /// A slot in which there is no connection yet.
    pub fn new(is_quic: bool) -> Self {
        if is_quic { Slot::Quic(Box::default()) } else { Slot::Tcp(Connection::default()) }
    }

    /// Whether there is a connection at present.
    pub fn is_idle(&self) -> bool {
        each!(self, connection => connection.is_idle())
    }

    /// When the present connection should have begun, if its work is not done yet.
    pub fn unfinished_since(&self) -> Option<Instant> {
        each!(self, connection => connection.unfinished_since())
    }

    /// Whether the present connection has done its work, so that only its end is awaited.
    pub fn is_done(&self) -> bool {
        !self.is_idle() && self.unfinished_since().is_none()
    }

    /// When the present connection, or its last request, has begun.
    pub fn begun(&self) -> Option<Instant> {
        each!(self, connection => connection.begun())
    }

    /// Begins a connection that should have begun at `due`. Events of it will carry `slot`.
    pub fn begin(
        &mut self,
        due: Instant,
        epoll: &OwnedFd,
        slot: usize,
        shared: &mut Shared,
    ) -> Result<(), Failure> {
        each!(self, connection => connection.begin(due, epoll, slot, shared))
    }

    /// Goes on after something happened to the socket.
    pub fn proceed(&mut self, flags: EventFlags, shared: &mut Shared) -> Result<Step, Failure> {
        each!(self, connection => connection.proceed(flags, shared))
    }

    /// Handles timers that have expired. Only QUIC has any here: the kernel keeps TCP's.
    pub fn tick(&mut self, now: Instant, shared: &mut Shared) -> Result<Step, Failure> {
        match self {
            Slot::Tcp(_) => Ok(Step::Waits),
            Slot::Quic(connection) => connection.tick(now, shared),
        }
    }

    /// Gives the connection up or ends it.
    pub fn end(&mut self) {
        each!(self, connection => connection.end());
    }
}
