//! Packet classification: which of many rules over several fields a packet meets first.
//!
//! [`rule`] has the rules and reads them from files, [`Table::build`] makes a table of them, and a
//! [`Classifier`] looks packets up, as many at a time as there are. The data is public: lookups
//! branch on it.
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//!
//! use widelane_classify::rule::dpdk;
//! use widelane_classify::{Classifier, Flow, Limits, Table};
//! use widelane_cpu::Policy;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = "\
//!     @10.1.0.0/16 0.0.0.0/0 0 : 65535 25 : 25 0x06/0xff\n\
//!     R0.0.0.0/0 192.168.0.0/16 0 : 65535 0 : 65535 0x0/0x0 3\n";
//! let rules = dpdk::parse("example.rules", text)?;
//! let table = Table::build(&rules, &Limits::default())?;
//! let classifier = Classifier::choose(Arc::new(table), &Policy::open());
//!
//! let mail = Flow::v4(0x0a01_0203, 0xc0a8_0001, [40_000, 25], 6);
//! let web = Flow::v4(0x0a01_0203, 0xc0a8_0001, [40_000, 80], 6);
//! let mut results = [0; 2];
//! classifier.classify(&[mail.packet(), web.packet()], &mut results)?;
//! assert_eq!(results, [dpdk::DENY, 3]);
//! # Ok(())
//! # }
//! ```

pub mod build;
pub mod check;
pub mod explain;
mod flow;
pub mod live;
pub mod rule;
mod run;
mod table;

pub use build::{BuildError, Limits};
pub use flow::Flow;
pub use run::{Classifier, LookupError};
pub use table::{Table, TableError};
