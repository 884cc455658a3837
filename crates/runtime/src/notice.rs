//! One-line messages to the operator, on standard error, each at most once per server.

use widelane_reserve::Notices;
pub(crate) use widelane_reserve::say;

/// What is said once.
#[derive(Clone, Copy)]
pub(crate) enum Notice {
    NoEpoll = 1 << 0,
    NoGroup = 1 << 1,
    SecondOpenSsl = 1 << 2,
    Unaccelerated = 1 << 3,
    OwnStack = 1 << 4,
    OtherVersion = 1 << 5,
}

static NOTICES: Notices = Notices::new();

/// Makes the memory in which forked processes share what has been said; before the program begins.
pub(crate) fn share() {
    NOTICES.share();
}

/// Says `line` unless this `notice` has been given before.
pub(crate) fn say_once(notice: Notice, line: &str) {
    NOTICES.say_once(notice as u32, line);
}
