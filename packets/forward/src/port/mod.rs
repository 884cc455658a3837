//! Interfaces as ports: frames come in and go out through packet sockets.

mod interface;
mod ring;
mod worker;

pub use interface::{Interface, PortError, parse_address};
pub use ring::Ring;
pub use worker::{Port, Worker};
