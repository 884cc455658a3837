//! What `widelane top` and `widelane exporter` tell of a stock nginx agrees with what its clients
//! counted.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use widelane_bench::server::Key;
use widelane_integration::misbehaving_clients::Clients;
use widelane_integration::server::{Kind, Server, widelane};
use widelane_testkit::rooms::has_rsa;
use widelane_testkit::server::free_address;

/// Whole handshakes, and nothing else.
const HANDSHAKES: u64 = 1_000;

#[test]
fn every_handshake_is_told_once() -> Result<()> {
    let Some(server) = Server::start(Kind::Nginx, &[Key::Rsa(2048)], false)? else {
        eprintln!("nginx is not installed: nothing was tested");
        return Ok(());
    };
    let clients = Clients {
        target: server.address(),
        certificates: server.certificates(),
        connections: 32,
        handshakes: HANDSHAKES,
        hang_ups: false,
        seed: 1,
    };
    let tally = clients.run()?;
    assert_eq!((tally.handshakes, tally.failures.len()), (HANDSHAKES, 0), "{:?}", tally.failures);

    let directory = server.counters();
    let tell = |arguments: &[&str]| -> Result<String> {
        let mut command = Command::new(widelane()?);
        let output = command.args(arguments).arg("--counters-dir").arg(&directory).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let top: Value = serde_json::from_str(&tell(&["top", "--json", "--interval", "0.1"])?)?;
    assert_eq!(top["skipped"], serde_json::json!([]));
    let processes = top["processes"].as_array().context("no processes")?;
    let sum = |name: &str| processes.iter().filter_map(|row| row[name].as_u64()).sum::<u64>();
    assert_eq!(sum("handshakes"), HANDSHAKES);
    assert_eq!((sum("fallbacks"), sum("faults_detected")), (0, 0));
    let kinds = processes.iter().filter_map(|row| row["kinds"].as_array()).flatten();
    let rsa = kinds.filter(|kind| kind["kind"] == "rsa-2048");
    // Without a kernel, OpenSSL signs.
    let signed = if has_rsa() { HANDSHAKES } else { 0 };
    assert_eq!(rsa.filter_map(|kind| kind["operations"].as_u64()).sum::<u64>(), signed, "{top}");
    assert!(processes.iter().all(|row| row["command"] == "nginx"), "{top}");

    let once = tell(&["exporter", "--once"])?;
    assert_eq!(total(&once, "widelane_handshakes_total{", ""), HANDSHAKES, "{once}");
    assert_eq!(total(&once, "widelane_operations_total{", "kind=\"rsa-2048\""), signed);
    let served = scraped(&directory)?;
    assert_eq!(total(&served, "widelane_handshakes_total{", ""), HANDSHAKES, "{served}");
    Ok(())
}

/// The sum of a metric's samples whose labels contain `label`.
fn total(text: &str, metric: &str, label: &str) -> u64 {
    let samples = text.lines().filter(|line| line.starts_with(metric) && line.contains(label));
    samples.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

/// What Prometheus would get from a running exporter.
fn scraped(directory: &std::path::Path) -> Result<String> {
    let address = free_address();
    let mut exporter = Command::new(widelane()?)
        .args(["exporter", "--listen", &address.to_string(), "--counters-dir"])
        .arg(directory)
        .stderr(Stdio::null())
        .spawn()?;
    let get = |path: &str| -> Result<String> {
        let mut client = (0..200)
            .find_map(|_| TcpStream::connect(address).map_err(|_| sleep(RETRY)).ok())
            .context("the exporter does not listen")?;
        write!(client, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answers = get("/healthz").and_then(|health| Ok([health, get("/metrics")?, get("/")?]));
    kill(Pid::from_raw(exporter.id() as i32), Signal::SIGTERM)?;
    let status = exporter.wait()?;
    let [health, metrics, other] = answers?;
    ensure!(status.success(), "the exporter ended with {status}");
    ensure!(health.starts_with("HTTP/1.1 200"), "{health}");
    ensure!(other.starts_with("HTTP/1.1 404"), "{other}");
    ensure!(metrics.contains("application/openmetrics-text") && metrics.ends_with("# EOF\n"));
    Ok(metrics)
}

const RETRY: Duration = Duration::from_millis(25);
