//! The closed loop: N connections on one thread, each starting over as soon as it ends.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::ClockId;
use nix::unistd::Pid;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::load::{Load, LoadError};
use crate::tally::{ErrorKind, OtherGroup, Tally, Window};
use crate::verifier::Pinned;

/// How often the loop looks at the clock and at `stop`.
const TICK: Duration = Duration::from_millis(2);

/// Pause of a connection slot after a failure, so that a dead server is not hammered.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(5);

/// Makes `load` and measures one window of it, on a thread of its own.
///
/// `observe` is called on that thread at both edges of the window, after the warm-up and before the
/// connections are wound down. Connections in flight at an edge are counted in the window in which
/// they end. Returns early with [`LoadError::Interrupted`] once `stop` is set.
///
/// # Errors
///
/// See [`LoadError`]. Single failed handshakes are not errors but counts in [`Tally::errors`].
pub fn run<T: Send>(
    load: &Load,
    stop: &AtomicBool,
    observe: impl FnMut() -> T + Send,
) -> Result<Window<T>, LoadError> {
    thread::scope(|scope| {
        let client = thread::Builder::new()
            .name("loadgen".to_owned())
            .spawn_scoped(scope, || run_here(load, stop, observe))?;
        client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn run_here<T>(
    load: &Load,
    stop: &AtomicBool,
    observe: impl FnMut() -> T,
) -> Result<Window<T>, LoadError> {
    if let Some(cpu) = load.cpu {
        pin(cpu)?;
    }
    let crowd = Rc::new(Crowd::new(load)?);
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, conduct(load, &crowd, stop, observe))
}

fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Starts the crowd, warms up, measures the window, and winds down.
async fn conduct<T>(
    load: &Load,
    crowd: &Rc<Crowd>,
    stop: &AtomicBool,
    mut observe: impl FnMut() -> T,
) -> Result<Window<T>, LoadError> {
    let slots: Vec<_> = (0..load.connections)
        .map(|slot| tokio::task::spawn_local(Rc::clone(crowd).keep_connecting(slot)))
        .collect();
    crowd.pass(load.warm_up, u64::MAX, stop).await?;
    crowd.wait_until_mixed(load, stop).await?;

    crowd.state.borrow_mut().tally = Tally::new();
    let begin = observe();
    let began = Instant::now();
    let cpu_before = thread_cpu();
    crowd.pass(load.window, load.handshakes_max, stop).await?;
    let client_cpu = thread_cpu().saturating_sub(cpu_before);
    let wall = began.elapsed();
    let end = observe();
    let tally = std::mem::replace(&mut crowd.state.borrow_mut().tally, Tally::new());

    crowd.state.borrow_mut().winding_down = true;
    let _ = timeout(load.patience, async {
        for slot in slots {
            let _ = slot.await;
        }
    })
    .await;
    Ok(Window { begin, end, wall, client_cpu, tally })
}

/// CPU time of the calling thread.
fn thread_cpu() -> Duration {
    ClockId::CLOCK_THREAD_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
}

/// What all connection slots share.
struct Crowd {
    target: SocketAddr,
    name: ServerName<'static>,
    group: NamedGroup,
    /// One for each certificate of the server.
    connectors: Vec<TlsConnector>,
    patience: Duration,
    failures_max: u32,
    state: RefCell<State>,
}

struct State {
    tally: Tally,
    failures_in_a_row: u32,
    last_failure: Option<io::Error>,
    winding_down: bool,
}

impl Crowd {
    fn new(load: &Load) -> Result<Self, LoadError> {
        let name = ServerName::try_from(load.server_name.clone())
            .map_err(|_| LoadError::ServerName(load.server_name.clone()))?;
        let connectors: Vec<TlsConnector> = (load.certificates.iter())
            .map(|certificate| connector(load, certificate))
            .collect::<Result<_, _>>()?;
        if connectors.is_empty() {
            return Err(LoadError::NoCertificate);
        }
        Ok(Crowd {
            target: load.target,
            name,
            group: load.group.group().name(),
            connectors,
            patience: load.patience,
            failures_max: (2 * load.connections as u32).max(100),
            state: RefCell::new(State {
                tally: Tally::new(),
                failures_in_a_row: 0,
                last_failure: None,
                winding_down: false,
            }),
        })
    }

    /// Lets the crowd work for `time`, or until it has done `handshakes_max` handshakes.
    async fn pass(
        &self,
        time: Duration,
        handshakes_max: u64,
        stop: &AtomicBool,
    ) -> Result<(), LoadError> {
        let end = Instant::now() + time;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(LoadError::Interrupted);
            }
            self.check_failing()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.state.borrow().tally.full >= handshakes_max {
                return Ok(());
            }
            sleep(left.min(TICK)).await;
        }
    }

    /// Waits until every connection, on average, has been through one handshake. Before, the whole
    /// crowd is in the same phase, and a window would hold the cost of one phase and the count of
    /// another.
    async fn wait_until_mixed(&self, load: &Load, stop: &AtomicBool) -> Result<(), LoadError> {
        self.pass(load.patience, load.connections as u64, stop).await
    }

    fn check_failing(&self) -> Result<(), LoadError> {
        let state = self.state.borrow();
        match &state.last_failure {
            Some(error) if state.failures_in_a_row >= self.failures_max => {
                Err(LoadError::Failing {
                    target: self.target,
                    count: state.failures_in_a_row,
                    kind: ErrorKind::of(error),
                    message: error.to_string(),
                })
            }
            _ => Ok(()),
        }
    }

    /// One connection slot: connects again and again until the crowd winds down.
    async fn keep_connecting(self: Rc<Self>, slot: usize) {
        let connector = &self.connectors[slot % self.connectors.len()];
        while !self.state.borrow().winding_down {
            let outcome = timeout(self.patience, self.connect(connector))
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            if let Err(error) = outcome {
                self.count_failure(error);
                sleep(PAUSE_AFTER_FAILURE).await;
            }
        }
    }

    /// One connection from TCP connect to the server's close.
    async fn connect(&self, connector: &TlsConnector) -> io::Result<()> {
        let began = Instant::now();
        let tcp = TcpStream::connect(self.target).await?;
        tcp.set_nodelay(true)?;
        let hello = Instant::now();
        let tls = connector.connect(self.name.clone(), tcp).await?;
        let finished = Instant::now();
        let (tcp, connection) = tls.into_inner();
        if connection.negotiated_key_exchange_group().map(|group| group.name()) != Some(self.group)
        {
            return Err(io::Error::other(OtherGroup));
        }
        self.count_success(&connection, finished - began, finished - hello);
        close(tcp, connection).await
    }

    fn count_success(&self, connection: &ClientConnection, latency: Duration, handshake: Duration) {
        let mut state = self.state.borrow_mut();
        state.failures_in_a_row = 0;
        match connection.handshake_kind() {
            Some(HandshakeKind::Resumed) => state.tally.resumed += 1,
            _ => state.tally.full += 1,
        }
        state.tally.latency_ns.saturating_record(latency.as_nanos() as u64);
        state.tally.handshake_ns.saturating_record(handshake.as_nanos() as u64);
    }

    fn count_failure(&self, error: io::Error) {
        let mut state = self.state.borrow_mut();
        state.failures_in_a_row += 1;
        *state.tally.errors.entry(ErrorKind::of(&error)).or_default() += 1;
        state.last_failure = Some(error);
    }
}

/// A client that accepts `certificate` and asks for it.
fn connector(load: &Load, certificate: &[u8]) -> Result<TlsConnector, rustls::Error> {
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
    let verifier = Pinned::new(CertificateDer::from(certificate.to_vec()), algorithms)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(load.provider(verifier.kind())))
        .with_protocol_versions(&[load.version.protocol()])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Sends `close_notify`, waits for the server to close, and leaves no TIME_WAIT behind.
async fn close(tcp: TcpStream, mut connection: ClientConnection) -> io::Result<()> {
    connection.send_close_notify();
    let mut goodbye = Vec::with_capacity(64);
    connection.write_tls(&mut goodbye)?;
    // Thirty-odd bytes into an empty socket buffer go in one piece; if not, the reset below says it
    // all.
    let _ = tcp.try_write(&goodbye);

    let mut ignored = [0; 2048];
    loop {
        tcp.readable().await?;
        match tcp.try_read(&mut ignored) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
    }
    SockRef::from(&tcp).set_linger(Some(Duration::ZERO))
}
