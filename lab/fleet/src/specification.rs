//! A load as it travels, and what an agent checks before it takes part.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use widelane_loadgen::{Course, Mix, Pace, PemError, Plan, Trust, Work, first_that_accepts};

use crate::allow::Allowed;
use crate::bus::FleetError;

/// A load on one server: a [`Plan`] without addresses and private keys, and its [`Course`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Specification {
    /// The server's name or address; each agent resolves it by itself.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// Which certificates to trust.
    pub authority: Authority,
    /// What connections differ in.
    pub mix: Mix,
    /// What a connection does after its handshake.
    pub work: Work,
    /// When connections begin.
    pub pace: Pace,
    /// Time after which a handshake or an answer is given up.
    pub patience: Duration,
    /// Makes draws and arrivals reproducible.
    pub seed: u64,
    /// How long, and by how many threads on each host.
    pub course: Course,
}

/// Whose certificates to accept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Authority {
    /// Certificates vouched for by an authority that each agent's system trusts.
    System,
    /// Certificates vouched for by one of these authorities, PEM.
    Given(String),
    /// All certificates, unchecked.
    Anyone,
}

/// What an agent takes part in at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Threads.
    pub threads: usize,
    /// Connections outstanding.
    pub connections: usize,
    /// Warm-up, window and patience together.
    pub duration: Duration,
}

/// The least and the greatest rate that is accepted, connections per second.
const RATE_MIN: f64 = 1e-6;
const RATE_MAX: f64 = 1e7;

/// The most server names that are accepted.
const NAMES_MAX: usize = 4096;

/// Longest name of a protocol (RFC 7301).
const PROTOCOL_BYTES_MAX: usize = 255;

/// The most combinations of everything else that are accepted: each thread has a TLS configuration
/// for every one.
const COMBINATIONS_MAX: usize = 256;

/// Why an agent does not take part.
#[derive(Debug, Error)]
pub enum Refusal {
    /// It is at work already.
    #[error("another load is under way")]
    Busy,
    /// Its list does not have the server.
    #[error(
        "{host}:{port} is not on this agent's list ({allowed}); start the agent with --allow \
         {host}:{port}"
    )]
    Target {
        /// The server.
        host: String,
        /// Its port.
        port: u16,
        /// The list.
        allowed: String,
    },
    /// The name has no address there.
    #[error("cannot resolve {0:?}")]
    Unresolved(String),
    /// It asks for too much.
    #[error("{what}: {asked} are asked for, and this agent's limit is {limit}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How much is asked for.
        asked: u128,
        /// How much may be.
        limit: u128,
    },
    /// A value in it is out of bounds.
    #[error("{0}")]
    Invalid(&'static str),
    /// Its authorities cannot be used.
    #[error(transparent)]
    Authorities(#[from] PemError),
    /// The instant at which to begin is over, or too far away.
    #[error(
        "the instant to begin is {0}; the bus or the resolver of names here is too slow, or the \
         clocks jump"
    )]
    Start(&'static str),
    /// The system has no thread for it.
    #[error("this host has no thread for the load: {0}; raise its limit of processes")]
    Thread(#[from] io::Error),
}

impl Specification {
    /// What `plan` does to the server that is called `host`. Certificates of clients stay behind,
    /// since their keys must not travel.
    pub fn new(plan: &Plan, host: &str, authority: Authority, course: &Course) -> Self {
        Specification {
            host: host.to_owned(),
            port: plan.target.port(),
            authority,
            mix: plan.mix.clone(),
            work: plan.work.clone(),
            pace: plan.pace,
            patience: plan.patience,
            seed: plan.seed,
            course: course.clone(),
        }
    }

    /// Equal shares, fewer than `agents` if there are fewer connections.
    pub fn divide(&self, agents: usize) -> Vec<Specification> {
        let shares = self.pace.divide(agents).into_iter().enumerate();
        let share = |(index, pace)| Specification {
            pace,
            // Threads of one agent have seeds of their own, counted upwards.
            seed: self.seed.wrapping_add((index as u64) << 32),
            ..self.clone()
        };
        shares.map(share).collect()
    }

    /// Whether there is a part of it for each of `agents` agents.
    ///
    /// # Errors
    ///
    /// [`FleetError::TooSmall`].
    pub fn check_division(&self, agents: usize) -> Result<(), FleetError> {
        let connections = self.pace.connections();
        if connections < agents {
            return Err(FleetError::TooSmall { connections, agents });
        }
        Ok(())
    }

    /// From its beginning until all of its connections have come to their end.
    pub fn length(&self) -> Duration {
        let course = &self.course;
        let parts = [course.warm_up.max(self.pace.ramp()), course.window, self.patience];
        parts.into_iter().fold(Duration::ZERO, Duration::saturating_add)
    }

    /// What an agent with this list and these limits makes of it.
    ///
    /// # Errors
    ///
    /// See [`Refusal`].
    pub fn plan(&self, allowed: &[Allowed], limits: &Limits) -> Result<Plan, Refusal> {
        self.check_numbers()?;
        self.check_limits(limits)?;
        Ok(Plan {
            target: self.target(allowed)?,
            sources: Vec::new(),
            trust: match &self.authority {
                Authority::System => Trust::authorities(None)?,
                Authority::Given(pem) => Trust::authorities_in(pem)?,
                Authority::Anyone => Trust::Anyone,
            },
            mix: self.mix.clone(),
            work: self.work.clone(),
            pace: self.pace,
            patience: self.patience,
            seed: self.seed,
        })
    }

    /// The server's first address that the list covers and that accepts connections.
    fn target(&self, allowed: &[Allowed]) -> Result<SocketAddr, Refusal> {
        let unresolved = || Refusal::Unresolved(self.host.clone());
        let covered = |address: &SocketAddr| {
            allowed.iter().any(|entry| entry.covers(&self.host, address.ip(), self.port))
        };
        let mut addresses =
            (self.host.as_str(), self.port).to_socket_addrs().map_err(|_| unresolved())?.peekable();
        addresses.peek().ok_or_else(unresolved)?;
        first_that_accepts(addresses.filter(covered)).ok_or_else(|| Refusal::Target {
            host: self.host.clone(),
            port: self.port,
            allowed: allowed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        })
    }

    fn check_limits(&self, limits: &Limits) -> Result<(), Refusal> {
        let pairs = [
            ("threads", self.course.threads as u128, limits.threads as u128),
            ("connections", self.pace.connections() as u128, limits.connections as u128),
            ("seconds", self.length().as_secs().into(), limits.duration.as_secs().into()),
        ];
        match pairs.into_iter().find(|(_, asked, limit)| asked > limit) {
            Some((what, asked, limit)) => Err(Refusal::Limit { what, asked, limit }),
            None => Ok(()),
        }
    }

    fn check_numbers(&self) -> Result<(), Refusal> {
        let mix = &self.mix;
        let mut protocols = mix.protocols.iter().flatten();
        let requests = match &self.work {
            Work::Handshake => 1,
            Work::Requests { count, path, .. } if path.starts_with('/') && is_plain(path) => {
                *count as usize
            }
            Work::Requests { .. } => {
                return Err(Refusal::Invalid(
                    "the path of the requests must begin with '/' and be printable ASCII, without \
                     spaces",
                ));
            }
        };
        let rate = match self.pace {
            Pace::Open { rate, .. } => rate,
            Pace::Closed { .. } => 1.0,
        };
        for (holds, what) in [
            (is_plain(&self.host) && self.port > 0, "the server needs a name and a port"),
            (
                mix.names.iter().all(|name| is_plain(name)),
                "server names must be printable ASCII, without spaces",
            ),
            (self.pace.connections() > 0, "a load needs at least one connection"),
            ((RATE_MIN..=RATE_MAX).contains(&rate), "the rate must be 0.000001 to 10000000"),
            (requests > 0, "a connection must make at least one request"),
            (mix.names.iter().len() <= NAMES_MAX, "there may be at most 4096 server names"),
            (
                protocols.all(|name| (1..=PROTOCOL_BYTES_MAX).contains(&name.len())),
                "names of protocols must have 1 to 255 bytes",
            ),
            (mix.combinations() <= COMBINATIONS_MAX, "a mix may have at most 256 combinations"),
            (!self.course.window.is_zero(), "the window must be longer than zero"),
            (self.course.threads > 0, "a load needs at least one thread"),
        ] {
            if !holds {
                return Err(Refusal::Invalid(what));
            }
        }
        Ok(())
    }
}

/// Whether a text can stand in a request and on a terminal.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use widelane_loadgen::{Arrivals, Cipher, Group, Resume, TlsVersion, Weighted};

    use super::*;

    const LIMITS: Limits =
        Limits { threads: 2, connections: 100, duration: Duration::from_secs(60) };

    fn specification() -> Specification {
        Specification {
            host: "localhost".to_owned(),
            port: 8443,
            authority: Authority::Anyone,
            mix: Mix::alike(TlsVersion::Tls13, Cipher::Aes128Gcm, Group::X25519, "localhost"),
            work: Work::Handshake,
            pace: Pace::Closed { connections: 10, ramp: Duration::ZERO },
            patience: Duration::from_secs(10),
            seed: 7,
            course: Course {
                threads: 1,
                cpus: Vec::new(),
                warm_up: Duration::from_secs(1),
                window: Duration::from_secs(10),
            },
        }
    }

    fn allowed(text: &str) -> Vec<Allowed> {
        vec![text.parse().expect("an entry")]
    }

    #[test]
    fn goes_to_servers_on_the_list_only() {
        let plan = specification().plan(&allowed("localhost:8443"), &LIMITS).expect("on the list");
        assert!(plan.target.ip().is_loopback());
        assert_eq!(plan.target.port(), 8443);
        for list in ["localhost:443", "example.com:8443", "10.0.0.0/8:*"] {
            let refusal = specification().plan(&allowed(list), &LIMITS).expect_err(list);
            assert!(refusal.to_string().contains(list), "{refusal}");
        }
        assert!(specification().plan(&[], &LIMITS).is_err());
        let list = [allowed("127.0.0.0/8:*"), allowed("[::1]:*")].concat();
        assert!(specification().plan(&list, &LIMITS).is_ok());
    }

    #[test]
    fn refuses_what_is_too_much_or_makes_no_sense() {
        let list = allowed("localhost:*");
        let refused = |change: fn(&mut Specification)| {
            let mut changed = specification();
            change(&mut changed);
            changed.plan(&list, &LIMITS).expect_err("refused").to_string()
        };
        assert!(refused(|all| all.course.threads = 3).contains("threads: 3"));
        assert!(refused(|all| all.course.threads = 0).contains("at least one thread"));
        assert!(refused(|all| all.course.window = Duration::from_secs(50)).contains("seconds: 61"));
        assert!(refused(|all| all.course.window = Duration::MAX).contains("seconds"));
        assert!(refused(|all| all.host = "a b".to_owned()).contains("server"));
        assert!(refused(|all| all.mix.names = Weighted::only("a\r\nb".into())).contains("name"));
        let open = |rate| Pace::Open {
            rate,
            arrivals: Arrivals::Poisson,
            ramp: Duration::ZERO,
            connections_max: 10,
        };
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            let changed = Specification { pace: open(rate), ..specification() };
            assert!(changed.plan(&list, &LIMITS).is_err(), "{rate}");
        }
        let crowd = Pace::Closed { connections: 101, ramp: Duration::ZERO };
        let changed = Specification { pace: crowd, ..specification() };
        assert!(changed.plan(&list, &LIMITS).is_err());
        let path = "/a\r\nX-Evil: 1".to_owned();
        let work = Work::Requests { path, count: 1, body_bytes: None, pattern: None };
        assert!(Specification { work, ..specification() }.plan(&list, &LIMITS).is_err());
    }

    #[test]
    fn refuses_mixes_that_would_take_all_memory() {
        let list = allowed("localhost:*");
        let planned = |change: fn(&mut Mix)| {
            let mut changed = specification();
            change(&mut changed.mix);
            changed.plan(&list, &LIMITS).map(drop)
        };
        fn many<T: Clone>(of: T, count: usize) -> Weighted<T> {
            Weighted::new(vec![(of, 1); count]).expect("some")
        }
        let refused = |change| planned(change).expect_err("refused").to_string();
        assert!(
            refused(|mix| mix.versions = many(TlsVersion::Tls13, 257)).contains("combinations")
        );
        assert!(refused(|mix| mix.ciphers = many(Cipher::Aes128Gcm, 257)).contains("combinations"));
        assert!(refused(|mix| mix.resumption = many(Resume::Ticket, 257)).contains("combinations"));
        let of_several = |mix: &mut Mix| {
            mix.versions = many(TlsVersion::Tls13, 5);
            mix.ciphers = many(Cipher::Aes128Gcm, 8);
            mix.groups = many(Group::X25519, 8);
        };
        assert!(refused(of_several).contains("combinations"));
        let long = |mix: &mut Mix| mix.protocols = Weighted::only(Some("x".repeat(256)));
        assert!(refused(long).contains("protocol"));
        assert!(refused(|mix| mix.names = many("a".to_owned(), 4097)).contains("names"));
        let whole = |mix: &mut Mix| {
            mix.versions = many(TlsVersion::Tls13, 2);
            mix.ciphers = many(Cipher::Aes128Gcm, 3);
            mix.groups = many(Group::X25519, 6);
            mix.resumption = many(Resume::Ticket, 3);
            mix.names = many("a".to_owned(), 4096);
        };
        assert!(planned(whole).is_ok());
    }

    #[test]
    fn shares_add_up_and_differ_in_their_draws() {
        let shares = specification().divide(4);
        let connections: Vec<_> = shares.iter().map(|share| share.pace.connections()).collect();
        assert_eq!(connections.iter().sum::<usize>(), 10);
        let mut seeds: Vec<_> = shares.iter().map(|share| share.seed).collect();
        seeds.dedup();
        assert_eq!(seeds.len(), 4);
        assert_eq!(specification().divide(100).len(), 10);
    }
}
