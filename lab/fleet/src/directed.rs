//! What a fleet did, and why it may not be what it was to do.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use widelane_loadgen::{ErrorKind, LoadError, Outcome, Pace};

use crate::bus::FleetError;

/// What a fleet did.
#[derive(Clone, Debug)]
pub struct Directed {
    /// All together.
    pub outcome: Outcome,
    /// Each agent's part.
    pub agents: Vec<Report>,
    /// What went wrong; empty if all took part from beginning to end.
    pub degradations: Vec<Degradation>,
}

impl Directed {
    /// What all did together, if nothing of it is missing. Agents that gave up because of the
    /// server count as failures where `failures_count`; what fails on the host of an agent says
    /// nothing about the server.
    pub fn whole(mut self, failures_count: bool) -> Result<Outcome, FleetError> {
        if let Some(Report { name, failed_there, .. }) =
            self.agents.into_iter().find(|agent| agent.failed_there > 0)
        {
            return Err(FleetError::Host { name, why: LoadError::OwnHost(failed_there) });
        }
        for degradation in self.degradations {
            match degradation {
                Degradation::Failed { kind: Some(kind), .. }
                    if failures_count && kind != ErrorKind::System =>
                {
                    let failures = self.outcome.tally.errors.entry(kind).or_default();
                    *failures = failures.saturating_add(1);
                }
                Degradation::Failed { agent: name, reason, .. } => {
                    return Err(FleetError::Refused { name, reason });
                }
                lost => return Err(FleetError::Incomplete(lost.to_string())),
            }
        }
        Ok(self.outcome)
    }
}

/// One agent's part.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Its name.
    pub name: String,
    /// Finished handshakes.
    pub handshakes: u64,
    /// How much later than agreed it began, seconds; none if it never did.
    pub late_s: Option<f64>,
    /// How much the measured difference of clocks may be wrong, seconds.
    pub clock_uncertainty_s: f64,
    /// Connections that failed because of its host.
    #[serde(skip)]
    pub failed_there: u64,
    /// When it was lost or failed, seconds from the beginning.
    pub lost_s: Option<f64>,
}

/// Why a run is not what it was to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Degradation {
    /// An agent was not heard any more.
    Lost {
        /// Its name.
        agent: String,
        /// Since the beginning.
        at: Duration,
        /// The part of the load that is missing from then on.
        share: Share,
    },
    /// An agent gave up.
    Failed {
        /// Its name.
        agent: String,
        /// Since the beginning.
        at: Duration,
        /// Its reason.
        reason: String,
        /// How connections failed, if it gave up because all of them did.
        kind: Option<ErrorKind>,
    },
    /// No agent could be heard.
    Deaf {
        /// Since the beginning.
        at: Duration,
        /// How long.
        lasted: Duration,
    },
    /// Seconds of a lost agent did not arrive before it was lost.
    Missing {
        /// Its name.
        agent: String,
        /// How many.
        seconds: usize,
    },
}

/// A part of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    /// This many connections outstanding.
    Connections(usize),
    /// This many connections per second.
    Rate(f64),
}

impl From<Pace> for Share {
    fn from(pace: Pace) -> Self {
        match pace {
            Pace::Closed { connections, .. } => Share::Connections(connections),
            Pace::Open { rate, .. } => Share::Rate(rate),
        }
    }
}

impl fmt::Display for Degradation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Degradation::Lost { agent, at, share } => {
                let at = at.as_secs_f64();
                write!(formatter, "agent {agent} was lost after {at:.1} s, and with it ")?;
                match share {
                    Share::Connections(count) => write!(formatter, "{count} connections"),
                    Share::Rate(rate) => write!(formatter, "{rate:.1} connections per second"),
                }
            }
            Degradation::Failed { agent, at, reason, .. } => {
                write!(formatter, "agent {agent} gave up after {:.1} s: {reason}", at.as_secs_f64())
            }
            Degradation::Deaf { at, lasted } => write!(
                formatter,
                "NATS was away for {:.1} s, from {:.1} s on",
                lasted.as_secs_f64(),
                at.as_secs_f64()
            ),
            Degradation::Missing { agent, seconds } => {
                write!(formatter, "{seconds} s of what agent {agent} counted did not arrive")
            }
        }
    }
}
