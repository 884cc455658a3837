//! A server whose workers get no memory: it refuses connections, as it does natively, and lives.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use widelane_bench::server::Key;
use widelane_integration::hardship::BYTES_LEFT;
use widelane_integration::misbehaving_clients::{Clients, Tally};
use widelane_integration::processes::{Limit, address_space, limit, sleeps, workers};
use widelane_integration::server::{Kind, Server};

/// One, several, few, and more at a time than there is memory for, and how many handshakes they
/// make.
const LONE: (usize, u64) = (1, 40);
const SEVERAL: (usize, u64) = (4, 40);
const FEW: (usize, u64) = (16, 200);
const MANY: (usize, u64) = (400, 1_600);

/// How many workers meet several clients as their first.
const NEW_WORKERS: usize = 8;

#[test]
fn workers_of_nginx_outlive_a_want_of_memory() -> Result<()> {
    workers_outlive_a_want_of_memory(Kind::Nginx)
}

#[test]
fn workers_of_haproxy_outlive_a_want_of_memory() -> Result<()> {
    workers_outlive_a_want_of_memory(Kind::Haproxy)
}

fn workers_outlive_a_want_of_memory(kind: Kind) -> Result<()> {
    let [ours, native] = [false, true].map(|natively| failures(kind, natively));
    match (ours?, native?) {
        (Some(ours), Some(native)) => {
            eprintln!("{}: {ours} handshakes failed, natively {native}", kind.name());
        }
        _ => eprintln!("{} is not installed: nothing was tested", kind.name()),
    }
    Ok(())
}

/// What a worker's first handshake needs for good was made before the worker, so memory that is
/// short from its beginning does not end it, and leaves nothing unmade.
#[test]
fn workers_serve_a_lone_client_though_memory_is_short_from_their_first_handshake() -> Result<()> {
    for kind in [Kind::Nginx, Kind::Haproxy] {
        match Server::start(kind, &[Key::Rsa(2048), Key::EcdsaP256], false)? {
            Some(server) => serves_from_its_first_handshake(kind, &server, LONE)?,
            None => eprintln!("{} is not installed: nothing was tested", kind.name()),
        }
    }
    Ok(())
}

/// Nor do our stacks take the memory that libssl needs for the other clients of a new worker: all
/// that nginx serves natively are served.
#[test]
fn a_worker_serves_several_clients_though_memory_is_short_from_their_first_handshake() -> Result<()>
{
    for _ in 0..NEW_WORKERS {
        let keys = [Key::Rsa(2048), Key::EcdsaP256];
        let Some(server) = Server::start_one_worker(Kind::Nginx, &keys)? else {
            eprintln!("nginx is not installed: nothing was tested");
            break;
        };
        serves_from_its_first_handshake(Kind::Nginx, &server, SEVERAL)?;
    }
    Ok(())
}

fn serves_from_its_first_handshake(
    kind: Kind,
    server: &Server,
    clients: (usize, u64),
) -> Result<()> {
    let before = server.settle()?;
    // A worker that has just begun may sleep on its way to its event loop, too.
    let mut looks = 0;
    while looks < 20 {
        looks = if before.iter().all(|&pid| sleeps(pid)) { looks + 1 } else { 0 };
        thread::sleep(Duration::from_millis(5));
    }
    limit_memory(&before)?;
    let short = send(server, clients)?;
    give_memory_back(&before)?;
    assert_eq!(short.failures.len(), 0, "{}: {}", kind.name(), server.log());
    assert_eq!(send(server, FEW)?.failures.len(), 0, "{}", kind.name());
    assert_eq!(workers(server.master()), before, "{}: a worker ended", kind.name());
    Ok(())
}

/// How many handshakes fail while memory is short. When it is not, none does, and the workers are
/// those that were there before.
fn failures(kind: Kind, natively: bool) -> Result<Option<usize>> {
    let Some(server) = Server::start(kind, &[Key::Rsa(2048), Key::EcdsaP256], natively)? else {
        return Ok(None);
    };
    let failures = send(&server, FEW)?.failures;
    assert!(failures.is_empty(), "{}, natively: {natively}: {failures:?}", kind.name());
    let before = workers(server.master());
    limit_memory(&before)?;
    let short = send(&server, MANY)?;
    give_memory_back(&before)?;
    assert_eq!(workers(server.master()), before, "{}: a worker ended", kind.name());
    assert_eq!(send(&server, FEW)?.failures.len(), 0, "{}", kind.name());
    Ok(Some(short.failures.len()))
}

fn limit_memory(pids: &[i32]) -> Result<()> {
    for &pid in pids {
        let left = address_space(pid)? + BYTES_LEFT;
        limit(pid, Limit::AddressSpace, &left.to_string())?;
    }
    Ok(())
}

fn give_memory_back(pids: &[i32]) -> Result<()> {
    for &pid in pids {
        limit(pid, Limit::AddressSpace, "unlimited")?;
    }
    Ok(())
}

fn send(server: &Server, (connections, handshakes): (usize, u64)) -> Result<Tally> {
    let clients = Clients {
        target: server.address(),
        certificates: server.certificates(),
        connections,
        handshakes,
        hang_ups: false,
        seed: 1,
    };
    clients.run()
}
