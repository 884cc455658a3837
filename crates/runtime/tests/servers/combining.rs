//! Workers of a stock nginx that make signatures for each other, and what happens to those who wait
//! when one of them is killed or stopped.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use widelane_loadgen::{ErrorKind, Group, TlsVersion};
use widelane_testkit::background::while_repeating;

use crate::support;
use crate::support::authority::{Identity, Kind};
use crate::support::clients::{load, load_mixed, try_load};
use crate::support::counters::Sums;
use crate::support::server::{Server, send_signal};
use crate::support::wait_until;

const WORKERS: usize = 4;

/// Outstanding at a time: few enough for a worker to have nothing else to do now and then.
const CONNECTIONS: usize = 12;

/// Long waits, so that workers meet however slow the machine is.
const COMBINING: [&str; 4] = ["--combine", "on", "--wait-max", "5ms"];

fn server(run: &[&str], identities: &[&Identity]) -> Server {
    let path = |path: &Path| path.display().to_string();
    let certificate = |identity: &&Identity| {
        let (certificate, key) = (path(&identity.certificate), path(&identity.key));
        format!("ssl_certificate {certificate}; ssl_certificate_key {key};")
    };
    let certificates: String = identities.iter().map(certificate).collect();
    Server::nginx_under(run, WORKERS, &format!("{certificates} location / {{ return 204; }}"))
}

/// The workers of a server.
fn workers(server: &Server) -> Vec<i32> {
    let pid = server.pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.expect("the server runs");
    children.split_whitespace().map(|child| child.parse().expect("a number")).collect()
}

/// The same once there are all: a server listens before it forks them.
fn all_workers(server: &Server) -> Vec<i32> {
    wait_until("all workers", || workers(server).len() == WORKERS);
    workers(server)
}

fn assert_lent(counters: &Sums) {
    assert_eq!((counters.jobs_refused, counters.fallbacks), (0, 0), "{counters:?}");
    if counters.has_lanes() {
        assert!(counters.jobs_lent > 0, "{counters:?}");
        // Where other tests keep a worker from the CPU for long, its job is taken back and done
        // twice.
        let lent_or_taken_back = counters.jobs_lent..=counters.jobs_lent + counters.jobs_taken_back;
        assert!(lent_or_taken_back.contains(&counters.jobs_for_others), "{counters:?}");
        assert!(counters.jobs_taken_back <= counters.jobs_lent / 4, "{counters:?}");
    }
}

/// Loads a server while `befall` does something to it; what errors its clients met.
fn under_load(server: &Server, identity: &Identity, befall: impl FnOnce()) -> Errors {
    let (identities, version, group) = ([identity], TlsVersion::Tls13, Group::X25519);
    let mut errors = Errors::new();
    let clients = || {
        let tally = try_load(server.port, &identities, version, group, CONNECTIONS, 200);
        for (kind, count) in tally.expect("a load that can be made").errors {
            *errors.entry(kind).or_default() += count;
        }
    };
    while_repeating(clients, befall);
    errors
}

type Errors = BTreeMap<ErrorKind, u64>;

/// No worker that lived has failed a handshake: nginx would have said so.
fn assert_none_failed(server: &Server) {
    let output = server.output();
    assert!(!output.contains("SSL_do_handshake() failed"), "{output}");
    assert!(!output.contains("[alert]") || output.contains("exited on signal 9"), "{output}");
}

#[test]
fn handshakes_of_others_go_on_when_workers_are_stopped() {
    let (_authority, identity) = support::localhost();
    let server = server(&COMBINING, &[&identity]);
    let workers = all_workers(&server);
    let errors = under_load(&server, &identity, || {
        // Until some were stopped in the middle of a batch that the one that goes on had a part in:
        // a second or two where nothing else runs, and hardly ever where much does.
        let rounds = workers.iter().cycle().take(200);
        let has_seen_enough = || server.counters().jobs_taken_back >= 3;
        for spared in rounds.take_while(|_| !has_seen_enough()) {
            let signal_others = |signal| {
                let others = workers.iter().filter(|worker| *worker != spared);
                others.for_each(|worker| send_signal(*worker, signal));
            };
            signal_others(libc::SIGSTOP);
            thread::sleep(Duration::from_millis(80));
            signal_others(libc::SIGCONT);
            thread::sleep(Duration::from_millis(30));
        }
    });
    assert!(errors.is_empty(), "{errors:?}");
    assert_none_failed(&server);
    let counters = server.counters();
    if counters.jobs_taken_back == 0 && counters.has_lanes() {
        eprintln!("no worker was stopped in the middle of a batch: nothing was tested");
    }
    assert_eq!((counters.jobs_refused, counters.fallbacks), (0, 0), "{counters:?}");
}

#[test]
fn handshakes_of_others_go_on_when_a_worker_is_killed() {
    let (_authority, identity) = support::localhost();
    let server = server(&COMBINING, &[&identity]);
    let kills = 12;
    let errors = under_load(&server, &identity, || {
        for index in 0..kills {
            let workers = all_workers(&server);
            let victim = workers[index % workers.len()];
            thread::sleep(Duration::from_millis(150));
            send_signal(victim, libc::SIGKILL);
            wait_until("the next worker", || {
                let now = self::workers(&server);
                now.len() == WORKERS && !now.contains(&victim)
            });
        }
    });
    // Its own connections break with it, and no others.
    let broken = [ErrorKind::Reset, ErrorKind::Closed].map(|kind| errors.get(&kind));
    let broken: u64 = broken.into_iter().flatten().sum();
    assert_eq!(broken, errors.values().sum::<u64>(), "{errors:?}");
    assert!(broken <= (kills * CONNECTIONS) as u64, "{errors:?}");
    assert_none_failed(&server);
    let counters = server.counters();
    assert!(counters.jobs_lent > 0 || !counters.has_lanes(), "{counters:?}");
    assert_eq!((counters.jobs_refused, counters.fallbacks), (0, 0), "{counters:?}");
}

#[test]
fn the_workers_of_a_reload_combine_among_themselves() {
    let (_authority, identity) = support::localhost();
    let server = server(&COMBINING, &[&identity]);
    let errors = under_load(&server, &identity, || {
        for _ in 0..5 {
            let before = all_workers(&server);
            server.signal(libc::SIGHUP);
            wait_until("new workers", || {
                let now = workers(&server);
                now.len() == WORKERS && !now.iter().any(|worker| before.contains(worker))
            });
            let lent = server.counters().jobs_lent;
            let lends = || server.counters().jobs_lent > lent || !server.counters().has_lanes();
            wait_until("new workers to combine", lends);
        }
    });
    assert!(errors.is_empty(), "{errors:?}");
    assert_none_failed(&server);
}

#[test]
fn workers_sign_for_each_other() {
    let (_authority, identity) = support::localhost();
    let server = server(&COMBINING, &[&identity]);
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        load(server.port, &identity, version, CONNECTIONS, 1_500);
        let counters = server.counters();
        assert_lent(&counters);
    }
}

#[test]
fn several_keys_and_kinds_meet_their_like() {
    let (authority, rsa) = support::localhost();
    let ecdsa = authority.issue_with("localhost", Kind::P256);
    let server = server(&COMBINING, &[&rsa, &ecdsa]);
    load_mixed(server.port, &[&rsa, &ecdsa], TlsVersion::Tls13, Group::X25519, 16, 2_000);
    assert_lent(&server.counters());
}

#[test]
fn threads_of_one_process_sign_for_each_other() {
    let (authority, identity) = support::localhost();
    for arguments in [&["-db"][..], &["-W"]] {
        let pem = authority.bundle(&identity);
        let server = Server::haproxy_under(&COMBINING, "  nbthread 4\n", &pem, arguments);
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            load(server.port, &identity, version, CONNECTIONS, 1_000);
            assert_lent(&server.counters());
        }
    }
}

#[test]
fn nobody_signs_for_others_where_that_is_off() {
    let (_authority, identity) = support::localhost();
    for run in [&["--combine", "off"][..], &["--combine", "on", "--wait-max", "0"]] {
        let server = server(run, &[&identity]);
        load(server.port, &identity, TlsVersion::Tls13, CONNECTIONS, 300);
        let counters = server.counters();
        assert_eq!((counters.jobs_lent, counters.jobs_for_others), (0, 0), "{counters:?}");
    }
}
