//! What is compared: servers, keys, and what their clients want.

use std::path::PathBuf;
use std::time::Duration;

use widelane_cpu::policy::LaneCpus;
use widelane_crypto::Family;
use widelane_loadgen::{Cipher, Goal, Group, TlsVersion};

use super::rows;
use super::{Download, Threads};
use crate::pairs::Rounds;
use crate::server::{Key, ServerKind, Subject};

/// What to compare.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The servers, each with the subjects to run; the first subject is the rival of all others.
    pub targets: Vec<(ServerKind, Vec<Subject>)>,
    /// Keys to make certificates for, those of one server together, which then shows each to its
    /// share of the clients; ignored if `identity` is given.
    pub keys: Vec<Vec<Key>>,
    /// The user's own certificate and key, PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// What each server goes through, on one core.
    pub scenarios: Vec<Scenario>,
    /// Numbers of cores on which each server goes through all of that; if there are none, on one.
    pub cores: Vec<usize>,
    /// How many workers share the CPUs of a server.
    pub workers: Workers,
    /// Which hardware threads of those cores.
    pub threads: Threads,
    /// What downloads have to keep; their highest rate under it is searched then.
    pub goal: Option<Goal>,
    /// Cipher.
    pub cipher: Cipher,
    /// Round-trip time between servers and clients, if they are at a distance.
    pub round_trip: Option<Duration>,
    /// First port to use; free ports are chosen if absent.
    pub port_first: Option<u16>,
    /// CPUs set aside for the lane process of accelerated servers.
    pub lane_cpus: Option<LaneCpus>,
    /// Families whose operations run in lanes here, so that batches are expected of many clients.
    pub with_lanes: Vec<Family>,
}

/// How many workers share the CPUs of a server, where they are not as many as those.
#[derive(Clone, Copy, Debug, Default)]
pub struct Workers {
    /// Processes of nginx.
    pub nginx: Option<usize>,
    /// Threads of HAProxy.
    pub haproxy: Option<usize>,
}

impl Workers {
    /// How many workers a server of `kind` has; none if as many as it has CPUs.
    pub(super) fn of(self, kind: ServerKind) -> Option<usize> {
        match kind {
            ServerKind::Nginx => self.nginx,
            ServerKind::Haproxy => self.haproxy,
            ServerKind::Embedded | ServerKind::Listed(_) | ServerKind::SServer => None,
        }
    }
}

/// One load.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Protocol version.
    pub version: TlsVersion,
    /// Whether it is HTTP/3, and so over QUIC.
    pub http3: bool,
    /// Key-exchange group.
    pub group: Group,
    /// Key-exchange group of the native server, where it lacks `group`.
    pub native_group: Option<Group>,
    /// What the clients want.
    pub work: Work,
    /// Whether each client shows a certificate, which the server demands and verifies.
    pub client_certificates: bool,
    /// Outstanding connections; of a partial load, at most.
    pub connections: usize,
    /// Percent of what the first subject can do at most, at which connections arrive independently
    /// of each other; none where as many as can be are outstanding.
    pub load: Option<u8>,
    /// Cores of the server, where that is a question; one otherwise.
    pub cores: Option<usize>,
    /// Workers of the server, where that is a question; one for each of its CPUs otherwise.
    pub workers: Option<usize>,
    /// Round-trip time between server and clients, where that is a question.
    pub round_trip: Option<Duration>,
    /// Time under load before each window.
    pub warm_up: Duration,
    /// Length of a window.
    pub window: Duration,
    /// How many rounds to take.
    pub rounds: Rounds,
}

/// What clients want of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Full handshakes and nothing more.
    Handshakes,
    /// A body of some length on each connection.
    Download(Download),
    /// A page of an application on each connection.
    Page,
}

impl Plan {
    /// The lengths of the bodies that clients want.
    pub(super) fn body_sizes(&self) -> Vec<u64> {
        let sizes = self.scenarios.iter().filter_map(|scenario| match scenario.work {
            Work::Handshakes | Work::Page => None,
            Work::Download(download) => Some(download.bytes),
        });
        let mut sizes: Vec<u64> = sizes.collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Groups with ML-KEM that clients ask for.
    pub(super) fn groups_with_ml_kem(&self) -> Vec<Group> {
        let asked = self.scenarios.iter().flat_map(|scenario| {
            [Some(scenario.group), scenario.native_group].into_iter().flatten()
        });
        let asked: Vec<Group> = asked.collect();
        let is_asked = |group: &Group| group.without_ml_kem().is_some() && asked.contains(group);
        Group::ALL.into_iter().filter(is_asked).collect()
    }

    /// What a scenario has to keep, if it is one of those that do.
    pub(super) fn goal_of(&self, scenario: &Scenario) -> Option<Goal> {
        self.goal.filter(|_| matches!(scenario.work, Work::Download(_)))
    }

    /// The least number of rounds in all.
    pub(super) fn rounds_total(&self) -> u64 {
        let keys = if self.identity.is_some() { 1 } else { self.keys.len() };
        let of_scenarios = |(kind, subjects): &(ServerKind, Vec<Subject>)| -> u64 {
            let scenarios = self.scenarios.iter().filter(|scenario| scenario.fits(*kind).is_ok());
            let rounds = scenarios.map(|scenario| match self.goal_of(scenario) {
                Some(_) => subjects.len() as u64,
                None => u64::from(scenario.rounds.least),
            });
            rounds.sum()
        };
        let cores = self.cores.len().max(1);
        (keys * cores) as u64 * self.targets.iter().map(of_scenarios).sum::<u64>()
    }
}

impl Scenario {
    /// Whether a server of `kind` can go through it, and if not, why.
    pub(super) fn fits(&self, kind: ServerKind) -> Result<(), &'static str> {
        match (kind.connections_max(), self.work) {
            (_, _) if self.cores.is_some_and(|cores| cores > 1) && !kind.has_workers() => {
                Err("this server has one thread")
            }
            (_, _) if self.http3 && !kind.has_workers() => {
                Err("only nginx and HAProxy are set up for HTTP/3")
            }
            (_, _) if self.client_certificates && !kind.demands_certificates() => {
                Err("only nginx and HAProxy are set up to demand certificates of clients")
            }
            (_, Work::Page) if self.http3 => Err("the pages of the application come over TCP only"),
            (_, Work::Page) if kind != ServerKind::Nginx => {
                Err("the pages of the application come from behind nginx only")
            }
            (_, Work::Download(_)) if kind == ServerKind::SServer => {
                Err("openssl s_server serves no bodies of a given length")
            }
            (_, Work::Download(_)) if matches!(kind, ServerKind::Listed(_)) => {
                Err("only nginx, HAProxy and the embedded server are set up to serve bodies")
            }
            (Some((most, reason)), _) if self.connections > most => Err(reason),
            _ => Ok(()),
        }
    }

    /// Whether a server with these keys can go through it, and if not, why.
    pub(super) fn fits_keys(&self, keys: &[Key]) -> Result<(), &'static str> {
        let is_rsa = |key: &Key| matches!(key, Key::Rsa(_));
        match self.work {
            Work::Download(download) if download.cipher.has_mac() => {
                let reason = "this cipher comes with a key exchange by RSA, and the server's key \
                              is another; add an RSA key (--key rsa2048), or name other --ciphers";
                keys.iter().any(is_rsa).then_some(()).ok_or(reason)
            }
            _ => Ok(()),
        }
    }

    /// The group that clients of `subject` ask for.
    pub(super) fn group_of(&self, subject: Subject) -> Group {
        match (subject, self.native_group) {
            (Subject::Native | Subject::NativeMasked, Some(group)) => group,
            _ => self.group,
        }
    }

    /// The path of its results: `nginx/tls1.3/ecdsa-p256/x25519/c200`,
    /// `nginx/tls1.3/rsa2048/x25519mlkem768-vs-x25519/4-workers/rtt20ms/load30`,
    /// `haproxy/tls1.3/ecdsa-p256/x25519/client-certificates/c200`, or
    /// `nginx/tls1.3/rsa2048/aes128-gcm/16MiB/c4`.
    pub(super) fn path(&self, kind: ServerKind, key: &str) -> String {
        let Scenario { version, http3, work, connections, load, cores, workers, .. } = self;
        let round_trip = self.round_trip.map_or(String::new(), |time| format!("rtt{time:?}/"));
        let (own, native) = (self.group.name(), self.group_of(Subject::Native).name());
        let worker = if kind == ServerKind::Haproxy { "threads" } else { "workers" };
        let workers = workers.map_or(String::new(), |count| format!("{count}-{worker}/"));
        let cores = cores.map_or(String::new(), |cores| format!("{cores}-cores/"));
        let server = kind.name();
        let version = if *http3 { "http3".to_owned() } else { format!("tls{}", version.name()) };
        let work = match work {
            Work::Handshakes if own != native => format!("{own}-vs-{native}"),
            Work::Handshakes => own.to_owned(),
            Work::Download(download) => download.to_string(),
            Work::Page => "application".to_owned(),
        };
        let clients = if self.client_certificates { "client-certificates/" } else { "" };
        let load = load.map_or(format!("c{connections}"), |percent| format!("load{percent}"));
        format!("{server}/{version}/{key}/{work}/{clients}{workers}{cores}{round_trip}{load}")
    }

    /// The metric that answers for it.
    pub(super) fn metric(&self) -> (&'static str, &'static str) {
        match self.work {
            Work::Handshakes => rows::SERVER_CPU,
            Work::Download(_) => rows::SERVER_CPU_PER_GB,
            Work::Page => rows::SERVER_CPU_PER_REQUEST,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Recipe;

    const SCENARIO: Scenario = Scenario {
        version: TlsVersion::Tls13,
        http3: false,
        group: Group::X25519,
        native_group: None,
        work: Work::Handshakes,
        client_certificates: true,
        connections: 200,
        load: None,
        cores: None,
        workers: None,
        round_trip: None,
        warm_up: Duration::ZERO,
        window: Duration::ZERO,
        rounds: Rounds::exactly(1),
    };

    #[test]
    fn a_path_says_that_clients_show_certificates() {
        let path = SCENARIO.path(ServerKind::Haproxy, "ecdsa-p256");
        assert_eq!(path, "haproxy/tls1.3/ecdsa-p256/x25519/client-certificates/c200");
        let far = Scenario {
            load: Some(30),
            workers: Some(2),
            round_trip: Some(Duration::from_millis(20)),
            ..SCENARIO
        };
        assert_eq!(
            far.path(ServerKind::Nginx, "rsa2048"),
            "nginx/tls1.3/rsa2048/x25519/client-certificates/2-workers/rtt20ms/load30"
        );
        let without = Scenario { client_certificates: false, ..SCENARIO };
        assert_eq!(without.path(ServerKind::Nginx, "rsa2048"), "nginx/tls1.3/rsa2048/x25519/c200");
    }

    #[test]
    fn a_key_exchange_by_rsa_takes_a_key_for_it() {
        let download = |cipher| Scenario {
            work: Work::Download(Download { cipher, bytes: 1 << 20 }),
            ..SCENARIO
        };
        let [ecdsa, both] = [&[Key::EcdsaP256][..], &[Key::EcdsaP256, Key::Rsa(2048)]];
        for cipher in Cipher::ALL {
            let scenario = download(cipher);
            assert_eq!(scenario.fits_keys(ecdsa).is_ok(), !cipher.has_mac(), "{cipher:?}");
            assert!(scenario.fits_keys(both).is_ok(), "{cipher:?}");
        }
        assert!(SCENARIO.fits_keys(ecdsa).is_ok());
    }

    #[test]
    fn few_servers_demand_certificates() {
        let listed = ServerKind::Listed(Recipe::named("apache").unwrap());
        for (kind, fits) in [
            (ServerKind::Nginx, true),
            (ServerKind::Haproxy, true),
            (ServerKind::Embedded, false),
            (ServerKind::SServer, false),
            (listed, false),
        ] {
            assert_eq!(SCENARIO.fits(kind).is_ok(), fits, "{}", kind.name());
            let without = Scenario { client_certificates: false, connections: 8, ..SCENARIO };
            assert!(without.fits(kind).is_ok(), "{}", kind.name());
        }
    }
}
