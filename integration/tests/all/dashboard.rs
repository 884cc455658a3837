//! Every panel of the dashboard for Grafana has figures: its queries, by a real Prometheus that
//! scrapes the exporter of a stock nginx.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use widelane_bench::server::Key;
use widelane_integration::misbehaving_clients::Clients;
use widelane_integration::server::{Kind, Server, widelane};
use widelane_testkit::rooms::has_lanes;
use widelane_testkit::server::{Process, free_address};

/// How often Prometheus asks, and over what time it takes rates.
const SCRAPE_INTERVAL: &str = "200ms";
const RATE_INTERVAL: &str = "2s";

/// How often to ask for what takes some scrapes, and how long to wait in between.
const TRIES: u32 = 100;
const RETRY: Duration = Duration::from_millis(100);

#[test]
fn every_panel_has_figures_under_load_and_none_is_nonsense_without() -> Result<()> {
    let Some(server) = Server::start(Kind::Nginx, &[Key::Rsa(2048)], false)? else {
        eprintln!("nginx is not installed: nothing was tested");
        return Ok(());
    };
    if !Command::new("prometheus").arg("--version").output().is_ok_and(|it| it.status.success()) {
        eprintln!("Prometheus is not installed: nothing was tested");
        return Ok(());
    }
    let exporter = free_address();
    let mut command = Command::new(widelane()?);
    command.args(["exporter", "--listen", &exporter.to_string(), "--counters-dir"]);
    command.arg(server.counters()).stderr(Stdio::null());
    let _exporter = Process::listening(&mut command, exporter);
    let directory = tempfile::tempdir()?;
    let prometheus = free_address();
    let configuration = directory.path().join("prometheus.yml");
    let scrapes = format!(
        "global: {{ scrape_interval: {SCRAPE_INTERVAL}, scrape_timeout: {SCRAPE_INTERVAL} }}\n\
         scrape_configs: [{{ job_name: w, static_configs: [{{ targets: [\"{exporter}\"] }}] }}]\n"
    );
    fs::write(&configuration, scrapes)?;
    let mut command = Command::new("prometheus");
    command.arg("--config.file").arg(configuration).arg("--storage.tsdb.path");
    command.arg(directory.path().join("data"));
    command.arg(format!("--web.listen-address={prometheus}"));
    command.stderr(Stdio::null());
    let _prometheus = Process::listening(&mut command, prometheus);

    let panels = panels()?;
    let mut empty = panels.iter().collect::<Vec<_>>();
    for seed in 0..TRIES {
        send(&server, seed.into())?;
        empty.retain(|panel| !ask(prometheus, &panel.query).is_ok_and(|found| has_figures(&found)));
        if empty.is_empty() {
            break;
        }
    }
    // Without lanes to fill, nothing waits and nothing is in batches.
    let named: Vec<_> = empty.iter().map(|panel| (&panel.title, &panel.query)).collect();
    ensure!(empty.is_empty() || !has_lanes(), "without figures under load: {named:?}");

    let rate = format!("sum(rate(widelane_handshakes_total[{RATE_INTERVAL}])) == 0");
    let is_idle = |_| !sleep_and_ask(prometheus, &rate).unwrap_or_default().is_empty();
    ensure!((0..TRIES).any(is_idle), "handshakes go on where nobody makes any");
    for panel in panels.iter().filter(|panel| panel.is_one_figure) {
        let found = ask(prometheus, &panel.query)?;
        ensure!(!found.contains(&"NaN".to_owned()), "{} of an idle server", panel.title);
    }
    Ok(())
}

/// A query of the dashboard.
struct Panel {
    title: String,
    query: String,
    is_one_figure: bool,
}

/// All queries of the dashboard, as Grafana asks them if everything is chosen.
fn panels() -> Result<Vec<Panel>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/grafana/widelane.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().context("no panels")? {
        for target in panel["targets"].as_array().context("a panel without queries")? {
            let query = target["expr"].as_str().context("a target without a query")?;
            let query = query.replace("$instance", ".*").replace("$command", ".*");
            let query = query.replace("$__rate_interval", RATE_INTERVAL);
            ensure!(!query.contains('$'), "an unknown variable: {query}");
            found.push(Panel {
                title: panel["title"].to_string(),
                query,
                is_one_figure: panel["type"] == "stat",
            });
        }
    }
    ensure!(!found.is_empty(), "no queries");
    Ok(found)
}

fn send(server: &Server, seed: u64) -> Result<()> {
    let clients = Clients {
        target: server.address(),
        certificates: server.certificates(),
        connections: 32,
        handshakes: 200,
        hang_ups: false,
        seed,
    };
    let tally = clients.run()?;
    ensure!(tally.failures.is_empty(), "{:?}", tally.failures);
    Ok(())
}

fn has_figures(found: &[String]) -> bool {
    found.iter().any(|value| value != "NaN")
}

fn sleep_and_ask(prometheus: SocketAddr, query: &str) -> Result<Vec<String>> {
    sleep(RETRY);
    ask(prometheus, query)
}

/// The values of a query.
fn ask(prometheus: SocketAddr, query: &str) -> Result<Vec<String>> {
    let mut client = TcpStream::connect(prometheus)?;
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    write!(client, "GET /api/v1/query?query={encoded} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
    let answer: Value = serde_json::from_str(body)?;
    ensure!(answer["status"] == "success", "{query}: {answer}");
    let result = answer["data"]["result"].as_array().context("no result")?;
    Ok(result.iter().filter_map(|row| row["value"][1].as_str().map(str::to_owned)).collect())
}
