//! Load generators on many hosts, which begin together and are counted as one.
//!
//! Agents ([`serve`]) wait on a NATS server for a [`Director`], which measures how far their
//! clocks are apart, sends each its share of a load and an instant to begin, and merges what they
//! count second by second. `docs/measure/load-many-hosts.md` has the protocol.
//!
//! **Invariant**: an agent carries out a load specification and nothing else, towards targets that
//! its own list names; what comes from the bus is hostile until it has been checked, and bounded in
//! length before it is parsed.

mod agent;
mod allow;
mod bus;
mod coordination;
mod directed;
mod director;
mod specification;
mod wire;

pub use agent::{Agent, Event, serve};
pub use allow::Allowed;
pub use bus::{Bus, FleetError};
pub use directed::{Degradation, Directed, Report};
pub use director::{Call, Director};
pub use specification::{Authority, Limits, Refusal, Specification};
#[doc(hidden)]
pub use wire::read_whatever;
