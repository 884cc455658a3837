//! What crosses between our shared objects and processes: C layouts only, no behaviour.
//!
//! Two contracts live here. [`hooks`]: the tables by which the provider (`widelane.so`, loaded by
//! libcrypto) and the runtime (`libwidelane_runtime.so`, preloaded) find each other in one process.
//! [`counters`]: the pages of counters that each accelerated process may map to a file, and that
//! `widelane compare` reads from outside.
//!
//! **Invariant**: every type is `repr(C)`, has a version, and is changed only together with it.

pub mod counters;
pub mod hooks;
mod kinds;
