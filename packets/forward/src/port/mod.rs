//! Interfaces as ports: frames come in and go out through packet sockets.

mod interface;
mod offload;
mod ring;
mod segments;
mod worker;

pub use interface::{Interface, PortError, parse_address};
pub use offload::Offload;
pub use ring::{Block, Ring};
pub use worker::{Port, Worker};
