//! The counters for Prometheus: any request is answered with all of them.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use widelane_forward::{Counts, Display};

use super::rules::Rules;

/// Who answers.
pub struct Server {
    listener: TcpListener,
}

const LOADS: &str = "widelane_forward_rule_loads_total";
/// How often a request is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// No request is longer.
const REQUEST_MAX: usize = 8192;

impl Server {
    /// Listens.
    pub fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .with_context(|| format!("cannot listen at {address}"))?;
        Ok(Server { listener })
    }

    /// Answers until the end, one client after the other.
    pub fn serve(&self, ended: &AtomicBool, counts: impl Fn() -> Counts, rules: &Rules) {
        while !ended.load(Ordering::Relaxed) {
            match self.listener.accept() {
                Ok((client, _)) => {
                    let info = |is_v6, number| rules.info(is_v6, number);
                    let counts = Display { counts: &counts(), info };
                    let text = format!(
                        "{counts}# HELP {LOADS} Times that rules were loaded anew.\n\
                         # TYPE {LOADS} counter\n{LOADS} {}\n",
                        rules.loads()
                    );
                    // A client that has gone does not need its answer.
                    drop(answer(client, &text));
                }
                Err(_) => thread::sleep(LOOK),
            }
        }
    }
}

fn answer(mut client: TcpStream, text: &str) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let (mut request, mut used) = ([0; REQUEST_MAX], 0);
    while !request[..used].windows(4).any(|end| end == b"\r\n\r\n") && used < REQUEST_MAX {
        match client.read(&mut request[used..])? {
            0 => break,
            count => used += count,
        }
    }
    let length = text.len();
    write!(
        client,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
}
