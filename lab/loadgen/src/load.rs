//! What load to make, and why a load could not be made.

use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;

use crate::plan::{Arrivals, Mix, Pace, Plan, Shown, Trust, Weighted, Work};
use crate::tally::ErrorKind;
use crate::tls::{Cipher, Group, TlsVersion};

/// A load on one server, whose sessions are never resumed.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where the server listens.
    pub target: SocketAddr,
    /// Name sent as SNI and as host.
    pub server_name: String,
    /// The server's certificates, DER; connections ask for one or the other by its kind of key, in
    /// turn, and refuse any other.
    pub certificates: Vec<Vec<u8>>,
    /// Protocol version; no other is offered.
    pub version: TlsVersion,
    /// Key-exchange group; a handshake with any other is an error.
    pub group: Group,
    /// Cipher, which names one suite in each protocol version; no other is offered.
    pub cipher: Cipher,
    /// Protocol offered by ALPN, if any; `h3` is spoken over QUIC.
    pub protocol: Option<String>,
    /// The certificate that clients show to a server that asks, if they have one.
    pub shown: Option<Shown>,
    /// What a connection does after its handshake.
    pub work: Work,
    /// Connections outstanding at any time; with a rate, at most.
    pub connections: usize,
    /// Connections begun per second by a Poisson process, whatever the server does (open loop); if
    /// none is given, each begins as soon as another has ended (closed loop).
    pub rate: Option<f64>,
    /// Makes arrivals reproducible.
    pub seed: u64,
    /// CPUs, on each of which there is a thread of clients; if none are given, one anywhere.
    pub cpus: Vec<usize>,
    /// Time under load before the measured window; more is taken until the connections have done
    /// one handshake each, on average.
    pub warm_up: Duration,
    /// Length of the measured window, which lasts until there is one whole answer if any is wanted.
    pub window: Duration,
    /// Handshakes after which the load ends even if the window has not.
    pub handshakes_max: u64,
    /// Time after which one connection is given up and counted as an error.
    pub patience: Duration,
}

impl Load {
    /// The plan that makes this load.
    pub fn plan(&self) -> Plan {
        Plan {
            target: self.target,
            sources: Vec::new(),
            trust: Trust::Pinned(self.certificates.clone()),
            mix: Mix {
                protocols: Weighted::only(self.protocol.clone()),
                identities: Weighted::only(self.shown.clone()),
                ..Mix::alike(self.version, self.cipher, self.group, &self.server_name)
            },
            work: self.work.clone(),
            pace: match self.rate {
                None => Pace::Closed { connections: self.connections, ramp: Duration::ZERO },
                Some(rate) => Pace::Open {
                    rate,
                    arrivals: Arrivals::Poisson,
                    ramp: Duration::ZERO,
                    connections_max: self.connections,
                },
            },
            patience: self.patience,
            seed: self.seed,
        }
    }
}

/// Why a load could not be made or was given up.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The client's thread could not be set up.
    #[error("cannot set up the load generator")]
    SetUp(#[from] std::io::Error),
    /// The name is not one that can be sent as SNI.
    #[error("{0:?} is not a valid server name")]
    ServerName(String),
    /// There is no certificate to ask for.
    #[error("no certificate was given; give the ones that the server shows")]
    NoCertificate,
    /// rustls does not accept a certificate, or the combination of version, suite and group.
    #[error("the TLS client cannot be configured; try another version, cipher or group")]
    Tls(#[from] rustls::Error),
    /// OpenSSL cannot be set up.
    #[error("the client by OpenSSL, which aes128-sha takes, cannot be configured")]
    OpenSsl(#[from] openssl::error::ErrorStack),
    /// What the old cipher cannot do.
    #[error("aes128-sha does not go with {0}; give it a load of its own")]
    Legacy(&'static str),
    /// What TLS 1.2 cannot do.
    #[error("{0} needs TLS 1.3; leave out TLS 1.2, or name another group for it")]
    Tls13Only(&'static str),
    /// What goes over UDP and what goes over TCP.
    #[error("HTTP/3 (h3) does not go with other protocols; give it a load of its own")]
    Mixed,
    /// There is no authority to vouch for certificates.
    #[error(
        "no certificate authority is known; name a file of them (--authorities), or accept any \
         certificate (--insecure)"
    )]
    Authorities(#[from] rustls::client::VerifierBuilderError),
    /// Nothing succeeded any more.
    #[error(
        "{count} connections to {target} failed in a row, the last one with: {kind}: {message}; \
         {}", advice(*kind, message)
    )]
    Failing {
        /// The server.
        target: SocketAddr,
        /// Failures in a row.
        count: u32,
        /// Kind of the last failure.
        kind: ErrorKind,
        /// The last failure.
        message: String,
    },
    /// Connections failed for a reason on this side.
    #[error(
        "{0} connections of a probe failed on this host, for want of ports, open files or a \
         network (system): fewer connections at a time, more addresses or open files of this host, \
         or another machine may help"
    )]
    OwnHost(u64),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// What to do about connections that fail in this way.
fn advice(kind: ErrorKind, message: &str) -> &'static str {
    match kind {
        ErrorKind::Refused => "check that a server listens at this address and port",
        ErrorKind::Reset | ErrorKind::Closed => {
            "check that this is a TLS server, and what it logs about these connections"
        }
        ErrorKind::Timeout => "check that this is a TLS server, or wait longer for it",
        ErrorKind::Alert if message.contains("ProtocolVersion") => {
            "the server does not speak this version of TLS: ask for another one (--tls)"
        }
        ErrorKind::Alert => {
            "the server refuses what was offered: check version (--tls), cipher (--cipher), group \
             (--group) and name (--sni), whether it wants a certificate of the client \
             (--client-certificate), and its key (RSA-PSS and Ed448 keys work in TLS 1.3 only)"
        }
        ErrorKind::Certificate => {
            "trust the authority that issued the certificate (--authorities), ask for a name that \
             it has (--sni), or accept any certificate (--insecure)"
        }
        ErrorKind::Signature => "the server does not have the key of the certificate that it shows",
        ErrorKind::Group => {
            "let it offer the group and heed the client's order, or ask for the one that it takes; \
             groups with ML-KEM come with OpenSSL 3.5, or with widelane on an older one"
        }
        ErrorKind::Protocol => "check that this is a TLS server of the version asked for",
        ErrorKind::Answer | ErrorKind::Status => {
            "handshakes succeed: check the path, the name sent as host and the length expected"
        }
        ErrorKind::System => "check the network of this host",
    }
}
