#![doc = include_str!("../README.md")]

pub mod build;
pub mod check;
pub mod explain;
mod flow;
pub mod headers;
pub mod live;
pub mod rule;
mod run;
mod table;

pub use build::{BuildError, Limits};
pub use flow::Flow;
pub use run::{Classifier, LookupError};
pub use table::{Table, TableError};
pub use widelane_cpu::{Policy, Room};
