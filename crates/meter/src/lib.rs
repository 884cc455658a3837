//! The gauge: the core clock without privilege, and what vector width costs of it.

pub mod chain;
pub mod estimate;
pub mod trace;
