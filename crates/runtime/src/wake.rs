//! How the program learns that a parked handshake can go on.
//!
//! The usual way costs nothing: the event is handed to the program in the array that its
//! `epoll_wait` returns, with the data word of its own registration, as if the kernel had found the
//! descriptor ready. The program then calls `SSL_do_handshake`, which is what it would do for a
//! real event; that the descriptor may not be ready is nothing new to a program with non-blocking
//! sockets.

use core::ffi::c_int;

use crate::registry::Registration;

const IN: u32 = libc::EPOLLIN.cast_unsigned();
const OUT: u32 = libc::EPOLLOUT.cast_unsigned();
const ONE_SHOT: u32 = libc::EPOLLONESHOT.cast_unsigned();
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE.cast_unsigned();

/// What a call returns that the program should wait for while its handshake is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// `SSL_ERROR_WANT_READ`: this thread's epoll set watches the descriptor for reading already,
    /// so the program has nothing to change, and gets no event until we report it readable.
    Read,
    /// `SSL_ERROR_WANT_WRITE`: the program asks for writability, which comes at once and again.
    Write,
}

impl Wanted {
    /// The answer for a connection with this registration, on a thread that waits for `waiting`.
    pub(crate) fn choose(registration: Option<Registration>, waiting: c_int) -> Self {
        match registration {
            Some(known)
                if known.events & IN != 0
                    && !is_special(known.events)
                    && known.epoll_descriptor == waiting =>
            {
                Self::Read
            }
            _ => Self::Write,
        }
    }
}

/// How to wake one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Report this event from the `epoll_wait` at hand.
    Report { events: u32, data: u64 },
    /// The program may not be notified on this thread: it waits elsewhere, on another thread, or
    /// not for this descriptor. So the handshake goes on by itself, up to where the peer or the
    /// program itself must do something, as it would have done in the program's call.
    GoOn,
}

impl Wake {
    /// How to wake a connection whose call returned `wanted`, from within a wait for `waiting`.
    pub(crate) fn choose(
        registration: Option<Registration>,
        wanted: Wanted,
        waiting: c_int,
    ) -> Self {
        // The program arms a one-shot registration each time it wants another event.
        let is_told =
            |known: &Registration| !is_special(known.events) && known.epoll_descriptor == waiting;
        let Some(registration) = registration.filter(is_told) else { return Self::GoOn };
        // What the call returned that it should wait for, or else what it waits for.
        let registered = registration.events & (IN | OUT);
        let told = match wanted {
            Wanted::Read => IN,
            Wanted::Write => OUT,
        };
        match registered & told {
            0 if registered == 0 => Self::GoOn,
            0 => Self::Report { events: registered, data: registration.data },
            events => Self::Report { events, data: registration.data },
        }
    }
}

/// Whether the program is told of one event only, or only one of several sets is.
pub(crate) fn is_special(events: u32) -> bool {
    events & (ONE_SHOT | EXCLUSIVE) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGE: u32 = libc::EPOLLET.cast_unsigned();

    fn registration(events: u32) -> Option<Registration> {
        Some(Registration { epoll_descriptor: 5, events, data: 99 })
    }

    #[test]
    fn watched_for_reading_is_reported_as_readable() {
        for events in [IN, IN | EDGE, IN | OUT | EDGE] {
            let registration = registration(events);
            assert_eq!(Wanted::choose(registration, 5), Wanted::Read);
            let wake = Wake::choose(registration, Wanted::Read, 5);
            assert_eq!(wake, Wake::Report { events: IN, data: 99 });
        }
    }

    #[test]
    fn not_watched_for_reading_is_told_to_write() {
        assert_eq!(Wanted::choose(None, 5), Wanted::Write);
        assert_eq!(Wanted::choose(registration(OUT), 5), Wanted::Write);
        let wake = Wake::choose(registration(OUT | EDGE), Wanted::Write, 5);
        assert_eq!(wake, Wake::Report { events: OUT, data: 99 });
    }

    #[test]
    fn what_is_registered_is_reported_whatever_was_told() {
        let wake = Wake::choose(registration(IN | EDGE), Wanted::Write, 5);
        assert_eq!(wake, Wake::Report { events: IN, data: 99 });
        let wake = Wake::choose(registration(OUT), Wanted::Read, 5);
        assert_eq!(wake, Wake::Report { events: OUT, data: 99 });
    }

    #[test]
    fn nobody_waits_for_what_nobody_listens_to() {
        for wanted in [Wanted::Read, Wanted::Write] {
            for registration in [None, registration(0), registration(EDGE)] {
                let wake = Wake::choose(registration, wanted, 5);
                assert_eq!(wake, Wake::GoOn);
            }
        }
    }

    #[test]
    fn one_shot_registrations_are_left_to_the_program() {
        let one_shot = registration(IN | ONE_SHOT);
        assert_eq!(Wanted::choose(one_shot, 5), Wanted::Write);
        assert_eq!(Wake::choose(one_shot, Wanted::Write, 5), Wake::GoOn);
    }

    #[test]
    fn what_another_epoll_set_has_goes_on_by_itself() {
        let both = registration(IN | OUT | EDGE);
        assert_eq!(Wanted::choose(both, 6), Wanted::Write);
        assert_eq!(Wake::choose(both, Wanted::Write, 6), Wake::GoOn);
    }
}
