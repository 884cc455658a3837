//! The core clock without privilege, and what vector width costs of it.

pub mod chain;
pub mod estimate;
pub mod experiment;
pub mod interference;
pub mod meter;
pub mod model;
pub mod place;
pub mod source;
pub mod stimulus;
pub mod time_stamps;
pub mod trace;
pub mod verdict;
