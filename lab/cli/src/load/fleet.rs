//! A load from many hosts: how to reach them, and what they say of themselves.

use std::path::PathBuf;

use anyhow::bail;
use serde::Serialize;
use widelane_fleet::{Bus, Degradation, Report};

/// How to be let into NATS.
#[derive(clap::Args)]
pub struct Access {
    /// Credentials for NATS: a file with a JWT and its seed
    #[arg(long, value_name = "FILE", requires = "nats")]
    nats_credentials: Option<PathBuf>,
    /// Certificate authorities that vouch for NATS, PEM; the connection is then encrypted in any
    /// case [default: those of the system, for tls:// URLs]
    #[arg(long, value_name = "FILE", requires = "nats")]
    nats_authorities: Option<PathBuf>,
    /// Certificate to show to NATS, CHAIN:KEY (PEM files)
    #[arg(long, value_name = "CHAIN:KEY", value_parser = pair, requires = "nats")]
    nats_certificate: Option<(PathBuf, PathBuf)>,
}

impl Access {
    /// The NATS server at `url`.
    pub fn bus(&self, url: &str) -> anyhow::Result<Bus> {
        if url.split_once("://").is_some_and(|(scheme, _)| !["nats", "tls"].contains(&scheme)) {
            bail!(
                "{url:?}: write nats://HOST:PORT, or tls://HOST:PORT for an encrypted connection"
            );
        }
        Ok(Bus {
            url: url.to_owned(),
            credentials: self.nats_credentials.clone(),
            authorities: self.nats_authorities.clone(),
            certificate: self.nats_certificate.clone(),
        })
    }
}

fn pair(text: &str) -> Result<(PathBuf, PathBuf), String> {
    match text.split_once(':') {
        Some((chain, key)) => Ok((chain.into(), key.into())),
        None => Err(format!("{text:?} is not CHAIN:KEY")),
    }
}

/// What agents did, for readers and as JSON.
#[derive(Serialize)]
pub struct Fleet {
    /// Each agent's part.
    pub agents: Vec<Report>,
    /// Why the run is not what it was to be.
    pub degraded: Vec<String>,
}

impl Fleet {
    /// Sums up what agents did.
    pub fn of(agents: Vec<Report>, degradations: &[Degradation]) -> Self {
        Fleet { agents, degraded: degradations.iter().map(ToString::to_string).collect() }
    }
}
