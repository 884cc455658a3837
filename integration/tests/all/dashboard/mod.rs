//! Every panel of the dashboard for Grafana has figures: its queries, by a real Prometheus that
//! scrapes the exporter of a stock nginx. What it answers is also drawn, for the documentation.

mod picture;

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

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

/// Names the file that gets the picture; the load then goes on for [`PICTURED`]. docs/formats has
/// one.
const PICTURE: &str = "WIDELANE_DASHBOARD_PICTURE";
const PICTURED: Duration = Duration::from_secs(60);

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
    let wanted_picture = env::var_os(PICTURE).map(PathBuf::from);
    let shortest = wanted_picture.as_ref().map_or(Duration::ZERO, |_| PICTURED);
    let began = (Instant::now(), SystemTime::now());
    let mut empty = panels.iter().flat_map(|panel| &panel.queries).collect::<Vec<_>>();
    for seed in 0.. {
        send(&server, seed)?;
        empty.retain(|query| !ask(prometheus, &query.text).is_ok_and(|found| has_figures(&found)));
        let is_over = empty.is_empty() || seed >= TRIES;
        if is_over && began.0.elapsed() >= shortest {
            break;
        }
    }
    // Without lanes to fill, nothing waits and nothing is in batches.
    let named: Vec<_> = empty.iter().map(|query| &query.text).collect();
    ensure!(empty.is_empty() || !has_lanes(), "without figures under load: {named:?}");

    let picture = wanted_picture.unwrap_or_else(|| directory.path().join("dashboard.svg"));
    picture::draw(&drawn(prometheus, &panels, began.1)?, &picture)?;
    let picture = fs::read_to_string(picture)?;
    for panel in &panels {
        ensure!(picture.contains(&panel.title), "{} is not in the picture", panel.title);
    }
    ensure!(picture.contains("<polyline") || !has_lanes(), "nothing is drawn");

    let rate = format!("sum(rate(widelane_handshakes_total[{RATE_INTERVAL}])) == 0");
    let is_idle = |_| !sleep_and_ask(prometheus, &rate).unwrap_or_default().is_empty();
    ensure!((0..TRIES).any(is_idle), "handshakes go on where nobody makes any");
    for panel in panels.iter().filter(|panel| panel.is_one_figure) {
        for query in &panel.queries {
            let found = ask(prometheus, &query.text)?;
            ensure!(found.iter().all(|series| series.is_number()), "{} is idle", panel.title);
        }
    }
    Ok(())
}

/// A panel of the dashboard.
struct Panel {
    title: String,
    unit: String,
    /// Column, row, width and height.
    place: [i32; 4],
    is_one_figure: bool,
    queries: Vec<Query>,
}

/// One of its queries, as Grafana asks it if everything is chosen.
struct Query {
    text: String,
    /// What a line is called: a text, or a label in `{{…}}`.
    legend: String,
}

/// What Prometheus answers for one combination of labels: seconds, and values.
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

impl Series {
    fn is_number(&self) -> bool {
        self.points.iter().all(|(_, value)| !value.is_nan())
    }
}

/// All panels of the dashboard.
fn panels() -> Result<Vec<Panel>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/grafana/widelane.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    ensure!(!panels.is_empty(), "no panels");
    panels.iter().map(panel).collect()
}

fn panel(panel: &Value) -> Result<Panel> {
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a text is missing");
    let cells = |name: &str| panel["gridPos"][name].as_i64().context("a panel without a place");
    let place = [cells("x")?, cells("y")?, cells("w")?, cells("h")?];
    let targets = panel["targets"].as_array().context("a panel without queries")?;
    let query = |target: &Value| {
        let query = text(&target["expr"])?.replace("$instance", ".*").replace("$command", ".*");
        let query = query.replace("$__rate_interval", RATE_INTERVAL);
        ensure!(!query.contains('$'), "an unknown variable: {query}");
        Ok(Query { text: query, legend: target["legendFormat"].as_str().unwrap_or("").to_owned() })
    };
    Ok(Panel {
        title: text(&panel["title"])?,
        unit: text(&panel["fieldConfig"]["defaults"]["unit"])?,
        place: place.map(|cells| cells as i32),
        is_one_figure: panel["type"] == "stat",
        queries: targets.iter().map(query).collect::<Result<_>>()?,
    })
}

/// What to draw of the time since `began`.
fn drawn(
    prometheus: SocketAddr,
    panels: &[Panel],
    began: SystemTime,
) -> Result<Vec<picture::Panel>> {
    let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH);
    let (from, to) = (seconds(began)?.as_secs_f64(), seconds(SystemTime::now())?.as_secs_f64());
    let range = format!("&start={from:.1}&end={to:.1}&step=0.5");
    let with_figures = |panel: &Panel| {
        let mut series = Vec::new();
        for query in &panel.queries {
            series.extend(get(prometheus, "query_range", &query.text, &range, &query.legend)?);
        }
        series.iter_mut().for_each(|series| series.points.retain(|(_, value)| !value.is_nan()));
        Ok(picture::Panel {
            title: panel.title.clone(),
            unit: panel.unit.clone(),
            place: panel.place,
            is_one_figure: panel.is_one_figure,
            series,
        })
    };
    panels.iter().map(with_figures).collect()
}

/// Makes handshakes; more of them at a time in every other call.
fn send(server: &Server, seed: u32) -> Result<()> {
    let clients = Clients {
        target: server.address(),
        certificates: server.certificates(),
        connections: if seed % 8 < 4 { 32 } else { 8 },
        handshakes: 200,
        hang_ups: false,
        seed: seed.into(),
    };
    let tally = clients.run()?;
    ensure!(tally.failures.is_empty(), "{:?}", tally.failures);
    Ok(())
}

fn has_figures(found: &[Series]) -> bool {
    found.iter().any(Series::is_number)
}

fn sleep_and_ask(prometheus: SocketAddr, query: &str) -> Result<Vec<Series>> {
    sleep(RETRY);
    ask(prometheus, query)
}

/// What `query` is now.
fn ask(prometheus: SocketAddr, query: &str) -> Result<Vec<Series>> {
    get(prometheus, "query", query, "", "")
}

/// What an API of Prometheus answers to `query`; lines are called what `legend` says.
fn get(
    prometheus: SocketAddr,
    api: &str,
    query: &str,
    range: &str,
    legend: &str,
) -> Result<Vec<Series>> {
    let mut client = TcpStream::connect(prometheus)?;
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    write!(client, "GET /api/v1/{api}?query={encoded}{range} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
    let answer: Value = serde_json::from_str(body)?;
    ensure!(answer["status"] == "success", "{query}: {answer}");
    let result = answer["data"]["result"].as_array().context("no result")?;
    result.iter().map(|row| series(row, legend)).collect()
}

fn series(row: &Value, legend: &str) -> Result<Series> {
    let label = legend.strip_prefix("{{").and_then(|legend| legend.strip_suffix("}}"));
    let name = label.map_or(Some(legend), |label| row["metric"][label].as_str());
    let point = |pair: &Value| {
        let value = pair[1].as_str()?.parse().ok()?;
        Some((pair[0].as_f64()?, value))
    };
    let points = match row["values"].as_array() {
        Some(values) => values.iter().map(point).collect::<Option<_>>(),
        None => point(&row["value"]).map(|point| vec![point]),
    };
    Ok(Series { name: name.unwrap_or("").to_owned(), points: points.context("no values")? })
}
