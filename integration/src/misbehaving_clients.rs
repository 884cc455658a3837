//! Misbehaving TLS clients: most do a whole handshake, the others hang up at some stage of it.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustls::client::Resumption;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, SupportedProtocolVersion, version};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};
use widelane_bench::server::SERVER_NAME;
use widelane_loadgen::Pinned;
use widelane_testkit::random::Random;

/// Clients to send to a server.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Where the server listens.
    pub target: SocketAddr,
    /// The server's certificates, DER; each client asks for one of them by its kind of key.
    pub certificates: Vec<Vec<u8>>,
    /// Connections at any time.
    pub connections: usize,
    /// Whole handshakes to make; clients that hang up come on top.
    pub handshakes: u64,
    /// Whether some hang up.
    pub hang_ups: bool,
    /// Makes the clients' choices reproducible.
    pub seed: u64,
}

/// A stage of the handshake at which a client may hang up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Connected, nothing sent.
    Connected,
    /// Half of ClientHello sent.
    HalfHello,
    /// ClientHello sent; the server is about to sign, or signs.
    Hello,
    /// The first bytes of the server's flight received.
    ServerFlight,
    /// Half of the client's second flight sent.
    HalfFlight,
    /// Handshake complete, nothing said since.
    Finished,
}

impl Stage {
    /// All stages, in the order of the handshake.
    pub const ALL: [Stage; 6] = [
        Stage::Connected,
        Stage::HalfHello,
        Stage::Hello,
        Stage::ServerFlight,
        Stage::HalfFlight,
        Stage::Finished,
    ];
}

/// What became of the clients.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Whole handshakes, verified, with a proper goodbye.
    pub handshakes: u64,
    /// Clients that hung up, by stage.
    pub hung_up: [u64; Stage::ALL.len()],
    /// Handshakes that failed although the client meant well.
    pub failures: Vec<Failure>,
}

impl Tally {
    /// Adds the tally of other clients.
    pub fn add(&mut self, other: Tally) {
        self.handshakes += other.handshakes;
        for (mine, theirs) in self.hung_up.iter_mut().zip(other.hung_up) {
            *mine += theirs;
        }
        self.failures.extend(other.failures);
    }
}

/// A handshake that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// When the client began to connect.
    pub began: Instant,
    /// When it failed.
    pub ended: Instant,
    /// Whether the connection broke, as it does when the server's process is gone.
    pub broken: bool,
    /// What the client saw.
    pub error: String,
}

impl Clients {
    /// Runs the clients and waits until they have made their handshakes.
    ///
    /// # Errors
    ///
    /// If the clients cannot be set up. Failed handshakes are no errors but part of the tally.
    pub fn run(&self) -> Result<Tally> {
        let shared = Rc::new(Shared::new(self)?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, async {
            let clients: Vec<_> = (0..self.connections as u64)
                .map(|index| {
                    spawn_local(Rc::clone(&shared).keep_connecting(Random::new(self.seed ^ index)))
                })
                .collect();
            for client in clients {
                client.await?;
            }
            anyhow::Ok(())
        })?;
        Ok(shared.tally.take())
    }
}

/// What all clients share.
struct Shared {
    target: SocketAddr,
    /// One for each certificate, protocol version and key-exchange group.
    configs: Vec<Arc<ClientConfig>>,
    /// Whether some hang up.
    hang_ups: bool,
    /// Handshakes that no client has begun yet.
    left: Cell<u64>,
    tally: RefCell<Tally>,
}

impl Shared {
    fn new(clients: &Clients) -> Result<Self> {
        let mut configs = Vec::new();
        for certificate in &clients.certificates {
            configs.extend(configurations(certificate)?);
        }
        Ok(Shared {
            target: clients.target,
            configs,
            hang_ups: clients.hang_ups,
            left: Cell::new(clients.handshakes),
            tally: RefCell::default(),
        })
    }

    /// One client, which connects again and again until all handshakes are made.
    async fn keep_connecting(self: Rc<Self>, mut random: Random) {
        while self.left.get() > 0 {
            let stage = match random.below(HANGS_UP_ONE_IN) {
                0 if self.hang_ups => Some(Stage::ALL[random.below(Stage::ALL.len())]),
                _ => None,
            };
            if stage.is_none() {
                self.left.set(self.left.get() - 1);
            }
            let began = Instant::now();
            let outcome = timeout(PATIENCE, self.visit(stage, &mut random))
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            let mut tally = self.tally.borrow_mut();
            match (outcome, stage) {
                (Ok(()), None) => tally.handshakes += 1,
                (Ok(()), Some(stage)) => tally.hung_up[stage as usize] += 1,
                (Err(error), _) => tally.failures.push(Failure {
                    began,
                    ended: Instant::now(),
                    broken: matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionReset
                            | io::ErrorKind::BrokenPipe
                            | io::ErrorKind::UnexpectedEof
                    ),
                    error: format!("{error} (hanging up: {stage:?})"),
                }),
            }
        }
    }

    /// One connection; with a stage, the client hangs up there.
    async fn visit(&self, stage: Option<Stage>, random: &mut Random) -> io::Result<()> {
        let mut tcp = TcpStream::connect(self.target).await?;
        tcp.set_nodelay(true)?;
        // Half of the clients that hang up reset the connection, the others close it.
        let resets = random.below(2) == 0;
        if stage.is_none() || resets {
            // A whole visit ends when the server has closed; this leaves no TIME_WAIT behind.
            SockRef::from(&tcp).set_linger(Some(Duration::ZERO))?;
        }
        if stage == Some(Stage::Connected) {
            return Ok(());
        }
        let name = ServerName::try_from(SERVER_NAME).map_err(io::Error::other)?;
        let config = &self.configs[random.below(self.configs.len())];
        let mut tls = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        let mut incoming = [0; 4096];
        for flight in 0.. {
            let mut outgoing = Vec::new();
            while tls.wants_write() {
                tls.write_tls(&mut outgoing)?;
            }
            match (stage, flight) {
                (Some(Stage::HalfHello), 0) | (Some(Stage::HalfFlight), 1) => {
                    return tcp.write_all(&outgoing[..outgoing.len() / 2]).await;
                }
                (Some(Stage::Hello), 0) => {
                    tcp.write_all(&outgoing).await?;
                    // Before, while, or after the server signs.
                    sleep(Duration::from_micros(random.below(3_000) as u64)).await;
                    return Ok(());
                }
                _ => tcp.write_all(&outgoing).await?,
            }
            if !tls.is_handshaking() {
                break;
            }
            while tls.is_handshaking() && !tls.wants_write() {
                if !receive(&mut tcp, &mut tls, &mut incoming).await? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                if stage == Some(Stage::ServerFlight) {
                    return Ok(());
                }
            }
        }
        if stage == Some(Stage::Finished) {
            return Ok(());
        }
        if tls.handshake_kind() == Some(HandshakeKind::Resumed) {
            return Err(io::Error::other("the server resumed a session that no client offered"));
        }
        tls.send_close_notify();
        let mut goodbye = Vec::new();
        tls.write_tls(&mut goodbye)?;
        tcp.write_all(&goodbye).await?;
        // The server closes; had it refused our Finished, an alert would come first.
        while receive(&mut tcp, &mut tls, &mut incoming).await? {}
        Ok(())
    }
}

/// Clients that want to see `certificate`: one for each protocol version and key-exchange group.
/// Servers that lack a group take another one.
pub(crate) fn configurations(certificate: &[u8]) -> Result<Vec<Arc<ClientConfig>>> {
    let mut configurations = Vec::new();
    for version in [&version::TLS12, &version::TLS13] {
        for group in [kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1] {
            configurations.push(Arc::new(config(certificate, version, group)?));
        }
    }
    // TLS 1.2 has no such group.
    let config = config(certificate, &version::TLS13, kx_group::X25519MLKEM768)?;
    configurations.push(Arc::new(config));
    Ok(configurations)
}

/// A client that wants to see `certificate`, and would rather use `group`.
fn config(
    certificate: &[u8],
    version: &'static SupportedProtocolVersion,
    group: &'static dyn SupportedKxGroup,
) -> Result<ClientConfig> {
    let mut provider = aws_lc_rs::default_provider();
    // An ECDSA certificate is shown in TLS 1.2 only to clients that offer its curve.
    provider.kx_groups = vec![group, kx_group::SECP256R1, kx_group::SECP384R1];
    let verifier = Pinned::new(CertificateDer::from(certificate.to_owned()))?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[version])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Receives something; false if the server has closed the connection.
async fn receive(
    tcp: &mut TcpStream,
    tls: &mut ClientConnection,
    incoming: &mut [u8],
) -> io::Result<bool> {
    let received = tcp.read(incoming).await?;
    let mut bytes = &incoming[..received];
    while !bytes.is_empty() {
        tls.read_tls(&mut bytes)?;
        tls.process_new_packets().map_err(io::Error::other)?;
    }
    Ok(received > 0)
}

/// One client in this many hangs up.
const HANGS_UP_ONE_IN: usize = 4;

/// Longer than anything may take, even while two CPUs serve 512 connections.
const PATIENCE: Duration = Duration::from_secs(20);
