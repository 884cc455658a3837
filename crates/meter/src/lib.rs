#![doc = include_str!("../README.md")]

pub mod estimate;
pub mod experiment;
pub mod gauge;
pub mod interference;
pub mod meter;
pub mod model;
pub mod place;
pub mod source;
pub mod stimulus;
pub mod time_stamps;
pub mod trace;
pub mod verdict;

pub use widelane_cpu::{Machine, Policy, Room, chain};
