//! When a connection did what, over TCP or over QUIC.

use std::time::Instant;

/// The times that latencies are counted from.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// When the connection should have begun.
    pub due: Instant,
    /// When it, or its last request, has begun.
    pub begun: Instant,
    /// When ClientHello, or the first datagram, left.
    pub hello: Instant,
    /// When the request left.
    pub asked: Instant,
    /// When the request should have left.
    pub asked_due: Instant,
}

impl Times {
    /// The times of a connection that begins at `now` and should have begun at `due`.
    pub fn of(due: Instant, now: Instant) -> Self {
        Times { due, begun: now, hello: now, asked: now, asked_due: due }
    }

    /// A request leaves now that should have left at `due`.
    pub fn ask(&mut self, due: Instant) {
        self.asked = Instant::now();
        self.asked_due = due;
        self.begun = self.asked;
    }
}
