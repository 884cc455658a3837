//! The lane process: one process per service, on CPUs set aside, that makes the RSA signatures of
//! all workers that the service forks.
//!
//! It is one of the workers that [combine](super::combining) and never has signatures of its own.
//! A worker that has one leaves it in a slot at once, and calls; the [`board`] shows whether the
//! lane process is at work. [`start()`] makes it before the first worker is forked, so that
//! it has their keys; [`serve()`] is what it does. `docs/design/lane-cpus.md` has the contract.

pub(super) mod board;
mod serve;
mod start;
mod user;

pub(super) use board::{Board, Watch};
pub(super) use serve::serve;
pub(super) use start::{is_alone, start};
