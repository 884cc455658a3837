//! The machine that we run on: rooms and their tokens, the width policy, topology, the one clock.
//!
//! This crate knows no algorithm. A kernel asks it for a token ([`rooms::Ifma512::enter`]); holding
//! the token is the proof that the CPU has the instructions *and* that the operator's
//! [`policy::Policy`] allows them.
#![doc = include_str!("../README.md")]

pub mod chain;
mod choice;
pub mod clock;
pub mod environment;
pub mod features;
pub mod machine;
pub mod policy;
pub mod rooms;
pub mod topology;

pub use machine::Machine;
pub use policy::Policy;
pub use rooms::{
    Adx, Aesni, Avx2, Avx512, Fma256, Ifma256, Ifma512, LicenceClass, Room, Shani, Vaes256,
    Vaes512, Vbmi512, Width,
};
pub use topology::Topology;
