//! Stock memcached and redis under `widelane run` answer all of many clients at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::Result;
use widelane_bench::server::Key;
use widelane_integration::cache::Cache;
use widelane_testkit::rooms::has_lanes;

/// Clients at any time.
const CLIENTS: usize = 16;

/// Connections of all clients together.
const CONNECTIONS: usize = 480;

#[test]
fn memcached_continues_handshakes_in_its_workers() -> Result<()> {
    answers_everybody(Cache::Memcached)
}

#[test]
fn redis_answers_everybody() -> Result<()> {
    answers_everybody(Cache::Redis)
}

fn answers_everybody(cache: Cache) -> Result<()> {
    let Some(server) = cache.start(Key::Rsa(2048))? else {
        eprintln!("{cache:?} is not installed: nothing was tested");
        return Ok(());
    };
    let configurations = server.configurations()?;
    let (begun, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let index = begun.fetch_add(1, Ordering::Relaxed);
                    // Every further failure may take as long as the first.
                    if index >= CONNECTIONS || !failures.lock().unwrap().is_empty() {
                        return;
                    }
                    if let Err(error) = server.ask(&configurations[index % configurations.len()]) {
                        failures.lock().unwrap().push(format!("{error:#}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner()?;
    assert!(failures.is_empty(), "{failures:?}: {}", server.log());
    let counts = server.counts();
    assert_eq!((counts.fallbacks, counts.faults_detected), (0, 0));
    if has_lanes() {
        assert!(counts.jobs() >= CONNECTIONS as u64, "{counts:?}");
    }
    Ok(())
}
