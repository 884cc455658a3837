//! `widelane exporter`: the counters of all accelerated processes for Prometheus.

mod text;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::http::{self, Answer};
use crate::live::{Directories, Survey};
use crate::{output, system};

/// Serves the counters of all accelerated processes as OpenMetrics, for Prometheus
///
/// /metrics has the counters; /healthz returns 200 if a directory of counters exists, otherwise
/// 503. There is no authentication: everybody who can connect reads both, so listen on loopback or
/// behind a firewall.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9847",
          value_parser = http::address)]
    listen: SocketAddr,
    /// Directory of counters; by default all in which `widelane run` and `enable` put them
    #[arg(long, value_name = "DIR")]
    counters_dir: Option<PathBuf>,
    /// Prints the metrics once and ends
    #[arg(long, conflicts_with = "listen")]
    once: bool,
}

const EXAMPLES: &str = "\
Examples:
  widelane exporter
  widelane exporter --listen 127.0.0.1:9900
  widelane exporter --once";

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN_TYPE: &str = "text/plain; charset=utf-8";

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let asked = args.counters_dir.as_deref();
    if args.once {
        let directories = Directories::asked_or_usual(asked)?;
        output::print_untrusted(&text::render(Survey::take(&directories))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let directories = Directories::now_or_later(asked);
    let stop = system::stop_on_signals()?;
    let server = http::Server::open(args.listen)?;
    output::remark(&format!(
        "metrics of {} at http://{}/metrics",
        directories.words(),
        server.address()?
    ));
    if let Some(missing) = asked.filter(|directory| !directory.is_dir()) {
        output::remark(&format!(
            "there is no directory {} yet; metrics are empty until there is",
            missing.display()
        ));
    }
    server.serve(&stop, |path| answer(path, &directories));
    Ok(ExitCode::SUCCESS)
}

fn answer(path: &str, directories: &Directories) -> Answer {
    let plain =
        |status, body: &str| Answer { status, content_type: PLAIN_TYPE, body: format!("{body}\n") };
    match path {
        "/metrics" => match text::render(Survey::take(directories)) {
            Ok(body) => Answer { status: http::OK, content_type: METRICS_TYPE, body },
            Err(error) => plain(http::UNAVAILABLE, &format!("{error:#}")),
        },
        "/healthz" if directories.existing().next().is_some() => plain(http::OK, "ok"),
        "/healthz" => plain(
            http::UNAVAILABLE,
            &format!("there is no {}; no server has been accelerated yet", directories.words()),
        ),
        _ => plain(http::NOT_FOUND, "the pages are /metrics and /healthz"),
    }
}
