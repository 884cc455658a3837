//! A layer-3 forwarder with an access list: packets come from interfaces or from a capture, are
//! routed or denied by rules that can change meanwhile, and are counted.
//!
//! [`headers`] finds the five fields of a frame, [`capture`] reads frames from files, [`Routes`]
//! are the rules, an [`Engine`] decides about bursts of frames, a [`port`] is an interface, and
//! [`Counts`] say what became of all. docs/program/forward.md has the rules of the game.

pub mod capture;
mod counts;
mod engine;
mod hop;
pub mod port;
mod replay;
mod routes;

pub use counts::{Counts, Display, Watch};
pub use engine::{BURST, Engine, Fate};
pub use replay::Replay;
pub use routes::{Action, Reload, Routes, RoutesError, RuleInfo};
pub use widelane_classify::headers;
