//! The counters for Prometheus: any request is answered with all of them.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use widelane_cli::http::{self, Answer};
use widelane_forward::{Counts, Display};

use super::rules::Rules;

/// How often rules were loaded.
const LOADS: &str = "widelane_forward_rule_loads_total";

/// Who answers.
pub struct Server(http::Server);

impl Server {
    /// Listens.
    pub fn open(address: SocketAddr) -> anyhow::Result<Self> {
        http::Server::open(address).map(Server)
    }

    /// Answers until the end.
    pub fn serve(&self, ended: &AtomicBool, counts: impl Fn() -> Counts + Sync, rules: &Rules) {
        self.0.serve(ended, |_| {
            let info = |is_v6, number| rules.info(is_v6, number);
            Answer {
                status: http::OK,
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                body: format!(
                    "{}# HELP {LOADS} Times that rules were loaded anew.\n\
                     # TYPE {LOADS} counter\n{LOADS} {}\n",
                    Display { counts: &counts(), info },
                    rules.loads()
                ),
            }
        });
    }
}
