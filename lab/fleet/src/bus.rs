//! The bus: a NATS server, and how to reach it.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::rustls::crypto::aws_lc_rs;
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::timeout;
use widelane_loadgen::LoadError;

use crate::wire::WireError;

/// How to reach a NATS server.
#[derive(Clone, Debug)]
pub struct Bus {
    /// `nats://HOST:PORT` or `tls://HOST:PORT`, with `USER:PASSWORD@` or `TOKEN@` if need be.
    pub url: String,
    /// File with a JWT and its seed, as `nsc` writes it.
    pub credentials: Option<PathBuf>,
    /// Authorities that vouch for the server, PEM; those of the system otherwise.
    pub authorities: Option<PathBuf>,
    /// Certificate and key to show to the server, PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Why many hosts do not work together.
#[derive(Debug, Error)]
pub enum FleetError {
    /// The NATS server does not answer, or does not let us in.
    #[error("cannot join NATS at {url}; is nats-server running there, and may we in?")]
    Unreachable {
        /// Where, without passwords.
        url: String,
        /// Why.
        source: async_nats::ConnectError,
    },
    /// That is no URL of a NATS server.
    #[error("{url} is not nats://HOST:PORT or tls://HOST:PORT")]
    Url {
        /// What was given, without passwords.
        url: String,
        /// Why.
        source: std::io::Error,
    },
    /// The credentials cannot be used.
    #[error("cannot use the credentials in {}", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The bus fails under our hands.
    #[error("NATS fails: {0}")]
    Bus(String),
    /// Too few agents have answered.
    #[error(
        "{found} of {wanted} agents answered ({names}); start the others with `widelane agent`, or \
         ask for fewer"
    )]
    TooFew {
        /// How many are free.
        found: usize,
        /// How many there should be.
        wanted: usize,
        /// Their names, those of the busy ones, and how many are of another version.
        names: String,
    },
    /// The load is too small to be divided.
    #[error("{connections} connections cannot be divided among {agents} agents")]
    TooSmall {
        /// Connections.
        connections: usize,
        /// Agents.
        agents: usize,
    },
    /// An agent does not take part.
    #[error("agent {name} refuses: {reason}")]
    Refused {
        /// Its name.
        name: String,
        /// Its reason.
        reason: String,
    },
    /// Connections failed on an agent's host.
    #[error("agent {name}: {why}")]
    Host {
        /// Its name.
        name: String,
        /// How many, and what may help.
        why: LoadError,
    },
    /// An agent does not answer any more.
    #[error("agent {name} does not answer; is it alive, and is the resolver of names there?")]
    Silent {
        /// Its name.
        name: String,
    },
    /// A search cannot go by a load of which a part is missing.
    #[error("a search needs all its agents all the time: {0}; start it again")]
    Incomplete(String),
    /// An agent answers something else.
    #[error("agent {name} answers wrongly")]
    Wire {
        /// Its name.
        name: String,
        /// What is wrong.
        source: WireError,
    },
    /// The load could not be made here.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The runtime of asynchronous tasks could not be set up.
    #[error("cannot set up the connection to the bus")]
    SetUp(#[from] std::io::Error),
    /// The caller asked to stop before anything began.
    #[error("interrupted")]
    Interrupted,
}

/// Most messages that wait to be read; more are dropped.
const WAITING_MAX: usize = 4096;

/// A connection, and whether it stands.
pub struct Joined {
    /// The connection.
    pub client: Client,
    /// Whether the server can be reached at present.
    pub up: watch::Receiver<bool>,
}

impl Joined {
    /// A name that is unique on the bus, fit to be part of a subject.
    pub fn unique_name(&self) -> String {
        self.client.new_inbox().rsplit('.').next().unwrap_or_default().to_owned()
    }
}

impl Bus {
    /// Joins the bus as `name`.
    pub async fn join(&self, name: &str) -> Result<Joined, FleetError> {
        // A program that is built with several providers of rustls has no default one otherwise.
        // Error: it has one already.
        let _ = aws_lc_rs::default_provider().install_default();
        let (sender, up) = watch::channel(true);
        let mut options = ConnectOptions::new()
            .name(name)
            .subscription_capacity(WAITING_MAX)
            .connection_timeout(Duration::from_secs(5))
            .request_timeout(Some(Duration::from_secs(2)))
            .reconnect_delay_callback(|attempt| Duration::from_millis(100 * attempt.min(10) as u64))
            .event_callback(move |event| {
                match event {
                    Event::Connected => sender.send_replace(true),
                    Event::Disconnected | Event::Closed => sender.send_replace(false),
                    _ => *sender.borrow(),
                };
                std::future::ready(())
            });
        let address: ServerAddr = self
            .url
            .parse()
            .map_err(|source| FleetError::Url { url: self.without_secrets(), source })?;
        match (address.username(), address.password()) {
            (Some(user), Some(password)) => {
                options = options.user_and_password(user.to_owned(), password.to_owned());
            }
            (Some(token), None) => options = options.token(token.to_owned()),
            (None, _) => {}
        }
        if let Some(path) = &self.authorities {
            options = options.add_root_certificates(path.clone()).require_tls(true);
        }
        if let Some((chain, key)) = &self.certificate {
            options = options.add_client_certificate(chain.clone(), key.clone());
        }
        if let Some(path) = &self.credentials {
            let used = options.credentials_file(path).await;
            options =
                used.map_err(|source| FleetError::Credentials { path: path.clone(), source })?;
        }
        let joined = options.connect(address).await;
        let client = joined
            .map_err(|source| FleetError::Unreachable { url: self.without_secrets(), source })?;
        Ok(Joined { client, up })
    }

    /// The URL without what stands before `@`.
    fn without_secrets(&self) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("nats", &self.url));
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        format!("{scheme}://{host}")
    }
}

/// Has what was published leave, as far as the bus is there: while it is away, a client keeps all
/// of that and says nothing.
pub async fn leave(client: &Client) {
    let _ = timeout(LEAVE_MAX, client.flush()).await;
}

/// How long what was published may take to leave.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// Any other failure of the bus.
pub fn broken(error: impl ToString) -> FleetError {
    FleetError::Bus(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn a_bus_that_is_away_keeps_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        // A server that lets one client in, and is gone.
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let info = "INFO {\"server_id\":\"a\",\"server_name\":\"a\",\"version\":\"2.10.0\",\
                        \"go\":\"\",\"host\":\"127.0.0.1\",\"port\":1,\"max_payload\":1048576,\
                        \"proto\":1,\"headers\":true}\r\n";
            stream.write_all(info.as_bytes()).unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            lines.map_while(Result::ok).find(|line| line.starts_with("PING")).unwrap();
            stream.write_all(b"PONG\r\n").unwrap();
        });
        let bus = Bus { url, credentials: None, authorities: None, certificate: None };
        let Joined { client, mut up } = bus.join("a").await.unwrap();
        server.join().unwrap();
        up.wait_for(|up| !up).await.unwrap();
        client.publish("subject", "text".into()).await.unwrap();
        leave(&client).await;
    }
}
