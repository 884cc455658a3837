//! A stand-in for Intel's qatlib and a device behind it: the same C symbols, right answers by an
//! unrelated implementation, and faults on demand.
//!
//! Tests put it into a directory as `libqat.so.4` and `libusdm.so.0`, and that into
//! `LD_LIBRARY_PATH`. [`VARIABLE`] says how the device misbehaves; [`faults`] has the list.
//!
//! It also watches its caller: it ends the process if it is given memory that is not pinned, or
//! gets pinned memory back that was not wiped. Types are written down here a second time, from
//! Intel's headers, so that a mistake in the provider's is noticed.

mod arithmetic;
mod curves;
mod device;
mod exports;
mod faults;
mod memory;
mod work;

pub use faults::VARIABLE;
