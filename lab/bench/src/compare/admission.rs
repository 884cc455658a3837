//! Checks before anything is measured that servers admit a client with its certificate, and refuse
//! others.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use widelane_loadgen::{self as loadgen, Course, Mix, Pace, Shown, Tally, Weighted, drive};

use super::CompareError;
use super::window::{PATIENCE, Shape, load};
use crate::server::{ClientIdentity, IdentityError, Server, Subject};

/// How long a client tries at first; longer where it has seen nothing.
const TRIAL: Duration = Duration::from_millis(50);

/// Clients with certificates.
#[derive(Clone, Debug)]
pub struct Clients {
    /// What clients show that are measured.
    pub own: ClientIdentity,
    /// The same by an authority that no server knows.
    stranger: ClientIdentity,
}

impl Clients {
    /// Makes the certificates in `directory`.
    pub fn make(directory: &Path) -> Result<Self, IdentityError> {
        let make = |name| ClientIdentity::make(name, directory);
        Ok(Clients { own: make("client")?, stranger: make("stranger")? })
    }
}

/// Makes sure that `server` serves a client that shows its certificate, and no other. Each client
/// asks for a page: nginx refuses it no earlier, and with other servers a client of TLS 1.3 gets
/// the refusal only after its handshake.
pub fn check(
    subject: Subject,
    server: &mut Server,
    shape: &Shape<'_>,
    stop: &AtomicBool,
) -> Result<(), CompareError> {
    let Some(clients) = shape.clients else { return Ok(()) };
    let own = Some(clients.own.shown.clone());
    let tally = visit(subject, server, shape, own, stop)?;
    if tally.answers == 0 || !tally.errors.is_empty() {
        let kinds = tally.errors.keys().map(|kind| kind.to_string()).collect::<Vec<_>>();
        let reason = if kinds.is_empty() { "no answer".to_owned() } else { kinds.join(", ") };
        let (server, log) = (server.name().to_owned(), server.log());
        return Err(CompareError::Turned { server, reason, log });
    }
    let strangers = Some(clients.stranger.shown.clone());
    for (identity, shown) in
        [(None, "no certificate"), (strangers, "the certificate of an authority unknown to it")]
    {
        if visit(subject, server, shape, identity, stop)?.answers > 0 {
            return Err(CompareError::Admitted { server: server.name().to_owned(), shown });
        }
    }
    Ok(())
}

/// Has a client that shows `identity` ask for pages until it has one or is refused.
fn visit(
    subject: Subject,
    server: &mut Server,
    shape: &Shape<'_>,
    identity: Option<Shown>,
    stop: &AtomicBool,
) -> Result<Tally, CompareError> {
    let load = load(subject, server, shape);
    let usual = load.plan();
    let page =
        loadgen::Work::Requests { path: "/".to_owned(), count: 1, body_bytes: None, pattern: None };
    let plan = loadgen::Plan {
        // How far away clients are does not matter here.
        target: server.address(),
        mix: Mix { identities: Weighted::only(identity), ..usual.mix },
        work: page,
        pace: Pace::Closed { connections: 1, ramp: Duration::ZERO },
        ..usual
    };
    let mut window = TRIAL;
    loop {
        let course =
            Course { threads: 1, cpus: load.cpus.clone(), warm_up: Duration::ZERO, window };
        let outcome = drive(&plan, &course, stop, |_, _| ());
        let outcome = outcome.map_err(|given_up| CompareError::Load {
            server: server.name().to_owned(),
            why: given_up.error,
        })?;
        server.check_alive()?;
        if outcome.interrupted {
            return Err(CompareError::Interrupted);
        }
        let tally = outcome.tally;
        if tally.answers > 0 || !tally.errors.is_empty() || window >= PATIENCE {
            return Ok(tally);
        }
        window *= 2;
    }
}

#[cfg(test)]
pub mod tests {
    use std::path::PathBuf;

    use widelane_host::programs::search_path;
    use widelane_loadgen::{Cipher, Group, TlsVersion};

    use super::super::window::Cpus;
    use super::super::{Plan, Scenario, Threads, Work, Workers};
    use super::*;
    use crate::pairs::Rounds;
    use crate::programs::Programs;
    use crate::server::{Identity, Key, ServerKind, Testbed};

    pub const SCENARIO: Scenario = Scenario {
        version: TlsVersion::Tls13,
        http3: false,
        group: Group::X25519,
        native_group: None,
        work: Work::Handshakes,
        client_certificates: true,
        connections: 8,
        load: None,
        cores: None,
        workers: None,
        round_trip: None,
        warm_up: Duration::ZERO,
        window: Duration::ZERO,
        rounds: Rounds::exactly(1),
    };

    pub fn plan() -> Plan {
        Plan {
            targets: Vec::new(),
            keys: Vec::new(),
            identity: None,
            scenarios: vec![SCENARIO],
            cores: Vec::new(),
            workers: Workers::default(),
            threads: Threads::First,
            goal: None,
            cipher: Cipher::Aes256Gcm,
            round_trip: None,
            port_first: None,
            lane_cpus: None,
            with_lanes: Vec::new(),
        }
    }

    /// What is found of a server that knows the authority which `known` picks.
    fn found(
        kind: ServerKind,
        version: TlsVersion,
        known: impl Fn(&Clients) -> Option<PathBuf>,
    ) -> Result<(), CompareError> {
        let search = search_path(std::env::var_os("PATH"));
        let programs = Programs::search(PathBuf::from("/nonexistent/widelane"), None, &search);
        let mut testbed = Testbed::open(programs, &[], None).unwrap();
        let identities = [Identity::make(Key::EcdsaP256, testbed.directory()).unwrap()];
        let clients = Clients::make(testbed.directory()).unwrap();
        known(&clients).into_iter().for_each(|authority| testbed.set_client_authority(authority));
        let mut server = testbed.start(kind, Subject::Native, &identities).unwrap();
        let shape = Shape {
            plan: &plan(),
            identities: &identities,
            clients: Some(&clients),
            scenario: Scenario { version, ..SCENARIO },
            cpus: Cpus::default(),
            far: None,
            rate: None,
            seed: 0,
        };
        check(Subject::Native, &mut server, &shape, &AtomicBool::new(false))
    }

    #[test]
    fn servers_serve_those_only_that_show_their_certificate() {
        for kind in [ServerKind::Nginx, ServerKind::Haproxy] {
            for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
                let found = found(kind, version, |clients| Some(clients.own.authority.clone()));
                assert!(found.is_ok(), "{}, {version:?}: {}", kind.name(), found.unwrap_err());
            }
        }
    }

    #[test]
    fn a_server_that_asks_for_no_certificate_is_not_measured() {
        let error = found(ServerKind::Nginx, TlsVersion::Tls13, |_| None).unwrap_err().to_string();
        assert!(error.starts_with("nginx/native serves clients that show no cert"), "{error}");
    }

    #[test]
    fn a_server_that_refuses_the_certificate_is_not_measured() {
        let other = |clients: &Clients| Some(clients.stranger.authority.clone());
        for (kind, seen) in [(ServerKind::Nginx, "status"), (ServerKind::Haproxy, "alert")] {
            let error = found(kind, TlsVersion::Tls13, other).unwrap_err().to_string();
            assert!(error.contains(&format!("shows its certificate ({seen})")), "{error}");
        }
    }
}
