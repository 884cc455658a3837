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

/// What the program is told to wait for while its handshake is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// `SSL_ERROR_WANT_READ`: this thread's epoll set watches the descriptor for reading already,
    /// so the program has nothing to change, and hears nothing until we report it readable.
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
    /// The program asks again by itself.
    Nothing,
    /// Not before the program listens again: it has taken the descriptor out of its epoll set.
    Later,
    /// Report this event from the `epoll_wait` at hand.
    Report { events: u32, data: u64 },
    /// Register the same interest again: that raises the edge in an epoll set which another call,
    /// or another thread, waits for.
    Rearm(Registration),
}

impl Wake {
    /// How to wake a connection that was told to wait for `wanted`, from within a wait for
    /// `waiting`.
    pub(crate) fn choose(
        registration: Option<Registration>,
        wanted: Wanted,
        waiting: c_int,
    ) -> Self {
        let Some(registration) = registration else {
            return match wanted {
                Wanted::Read => Self::Later,
                // When it asks for writability again, that comes by itself.
                Wanted::Write => Self::Nothing,
            };
        };
        if is_special(registration.events) {
            // A one-shot registration is armed by the program each time it wants to hear again.
            return Self::Nothing;
        }
        match wanted {
            _ if registration.epoll_descriptor != waiting => Self::Rearm(registration),
            Wanted::Read => Self::Report { events: IN, data: registration.data },
            Wanted::Write => Self::Report { events: OUT, data: registration.data },
        }
    }
}

fn is_special(events: u32) -> bool {
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
        assert_eq!(Wake::choose(None, Wanted::Write, 5), Wake::Nothing);
    }

    #[test]
    fn who_listens_no_more_is_told_when_it_does_again() {
        assert_eq!(Wake::choose(None, Wanted::Read, 5), Wake::Later);
    }

    #[test]
    fn one_shot_registrations_are_left_to_the_program() {
        let one_shot = registration(IN | ONE_SHOT);
        assert_eq!(Wanted::choose(one_shot, 5), Wanted::Write);
        assert_eq!(Wake::choose(one_shot, Wanted::Write, 5), Wake::Nothing);
    }

    #[test]
    fn another_epoll_set_is_woken_through_the_kernel() {
        let both = registration(IN | OUT | EDGE);
        assert_eq!(Wanted::choose(both, 6), Wanted::Write);
        let wake = Wake::choose(both, Wanted::Write, 6);
        assert_eq!(wake, Wake::Rearm(both.expect("made above")));
    }
}
