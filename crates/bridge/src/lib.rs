//! What crosses between our shared objects and processes: C layouts only, no behaviour.
//!
//! Two contracts live here. [`hooks`]: the tables by which the provider (`widelane.so`, loaded by
//! libcrypto) and the runtime (`libwidelane_runtime.so`, preloaded) find each other in one process,
//! and two functions by which they ask each other before they have them. [`counters`]: the pages of
//! counters that each accelerated process may map to a file; `widelane top`, `status`, `exporter`,
//! `gain` and `compare` read them from outside, and `widelane off` writes there. [`variables`] are
//! the names by which a program is told to load both, [`processes`] those of the provider's own
//! processes.
//!
//! **Invariant**: every table and page is `repr(C)`, has a version, and is changed only together
//! with it.

pub mod counters;
pub mod hooks;
mod kinds;
pub mod processes;
pub mod variables;
