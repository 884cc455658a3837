//! Bulk downloads: a few connections that fetch one body each, over and over.
//!
//! [`run`] has a thread for each connection, all on one CPU. A connection does a full handshake,
//! asks for one path over HTTP/1.1, compares every byte of the body with what it must be, and is
//! reset. Ciphers of TLS 1.3 and authenticated ones of TLS 1.2 are rustls's with aws-lc-rs;
//! AES128-SHA, which rustls lacks, is OpenSSL's in its default library context.

mod body;
mod legacy;
mod modern;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::ClockId;
use nix::unistd::Pid;
use rustix::net::sockopt::set_socket_linger;
use thiserror::Error;

use self::body::Body;
use crate::{Cipher, TlsVersion, http};

/// How often threads look whether they are to end.
const TICK: Duration = Duration::from_millis(50);

/// Failures in a row after which nothing is expected to succeed any more.
const FAILURES_MAX: u32 = 20;

/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;

/// Downloads from one server.
#[derive(Clone, Copy, Debug)]
pub struct Downloads<'a> {
    /// Where the server listens.
    pub target: SocketAddr,
    /// Name sent as SNI and as host.
    pub server_name: &'a str,
    /// The only certificate that is accepted, DER.
    pub certificate: &'a [u8],
    /// Protocol version and cipher.
    pub suite: Suite,
    /// Path to ask for.
    pub path: &'a str,
    /// Length of the body.
    pub bytes: u64,
    /// What the body repeats.
    pub pattern: &'a [u8],
    /// Connections at any time.
    pub connections: usize,
    /// CPU on which all threads stay.
    pub cpu: Option<usize>,
    /// Time under load before the measured window.
    pub warm_up: Duration,
    /// Length of the measured window, which lasts until at least one body has come whole.
    pub window: Duration,
    /// Longest time without a byte.
    pub patience: Duration,
}

/// What protects the downloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// Authenticated encryption.
    Aead(TlsVersion, Cipher),
    /// `AES128-SHA` of TLS 1.2, with RSA key transport.
    Aes128Sha {
        /// Whether the client offers encrypt-then-MAC (RFC 7366), as OpenSSL does by default.
        encrypt_then_mac: bool,
    },
}

/// One measured window, with what the caller observed at both of its edges.
#[derive(Debug)]
pub struct Haul<T> {
    /// The caller's observation at the beginning.
    pub begin: T,
    /// The caller's observation at the end.
    pub end: T,
    /// Length of the window.
    pub wall: Duration,
    /// CPU time of this process within the window.
    pub client_cpu: Duration,
    /// Bytes of bodies that came within the window.
    pub bytes: u64,
    /// Bodies whose last byte came within the window.
    pub finished: u64,
    /// Failed downloads by kind.
    pub errors: BTreeMap<String, u64>,
    /// Whether encrypt-then-MAC was negotiated, where that is a question.
    pub encrypt_then_mac: Option<bool>,
}

/// Why there is nothing to measure.
#[derive(Debug, Error)]
pub enum DownloadError {
    /// The client could not be set up.
    #[error("cannot set up the downloading client")]
    SetUp(#[from] io::Error),
    /// rustls does not accept the certificate or the name.
    #[error("the TLS client cannot be configured")]
    Tls(#[from] rustls::Error),
    /// OpenSSL does not offer the suite.
    #[error("the TLS client cannot be configured for AES128-SHA")]
    Openssl(#[from] openssl::error::ErrorStack),
    /// Nothing succeeded any more.
    #[error(
        "{count} downloads from {target} failed in a row, the last one with: {message}; \
         check that the server is alive and offers the version and suite asked for"
    )]
    Failing {
        /// The server.
        target: SocketAddr,
        /// Failures in a row.
        count: u32,
        /// The last failure.
        message: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Downloads, and measures one window of it. `observe` is called on this thread at both edges.
///
/// # Errors
///
/// See [`DownloadError`]. Single failed downloads are counted in [`Haul::errors`].
pub fn run<T>(
    downloads: &Downloads<'_>,
    stop: &AtomicBool,
    mut observe: impl FnMut() -> T,
) -> Result<Haul<T>, DownloadError> {
    let client = Client::new(downloads)?;
    let crowd = Crowd::default();
    thread::scope(|scope| {
        for _ in 0..downloads.connections {
            let spawned = thread::Builder::new()
                .name("download".to_owned())
                .spawn_scoped(scope, || crowd.keep_fetching(&client, downloads));
            if let Err(error) = spawned {
                crowd.is_over.store(true, Ordering::Relaxed);
                return Err(error.into());
            }
        }
        let outcome = conduct(downloads, &crowd, stop, &mut observe);
        crowd.is_over.store(true, Ordering::Relaxed);
        outcome
    })
}

/// Warms up and measures the window.
fn conduct<T>(
    downloads: &Downloads<'_>,
    crowd: &Crowd,
    stop: &AtomicBool,
    observe: &mut impl FnMut() -> T,
) -> Result<Haul<T>, DownloadError> {
    crowd.pass(downloads, downloads.warm_up, 0, stop)?;
    let before = crowd.counts();
    locked(&crowd.errors).clear();
    let begin = observe();
    let (began, cpu_before) = (Instant::now(), process_cpu());
    crowd.pass(downloads, downloads.window, before.finished + 1, stop)?;
    let after = crowd.counts();
    let (wall, client_cpu) = (began.elapsed(), process_cpu().saturating_sub(cpu_before));
    let end = observe();
    Ok(Haul {
        begin,
        end,
        wall,
        client_cpu,
        bytes: after.bytes - before.bytes,
        finished: after.finished - before.finished,
        errors: locked(&crowd.errors).clone(),
        encrypt_then_mac: *locked(&crowd.encrypt_then_mac),
    })
}

/// What all threads share.
#[derive(Default)]
struct Crowd {
    bytes: AtomicU64,
    finished: AtomicU64,
    failures_in_a_row: AtomicU32,
    is_over: AtomicBool,
    errors: Mutex<BTreeMap<String, u64>>,
    last_failure: Mutex<String>,
    encrypt_then_mac: Mutex<Option<bool>>,
}

struct Counts {
    bytes: u64,
    finished: u64,
}

impl Crowd {
    fn counts(&self) -> Counts {
        Counts {
            bytes: self.bytes.load(Ordering::Relaxed),
            finished: self.finished.load(Ordering::Relaxed),
        }
    }

    /// Waits for `time`, and until `finished` bodies have come whole in all.
    fn pass(
        &self,
        downloads: &Downloads<'_>,
        time: Duration,
        finished: u64,
        stop: &AtomicBool,
    ) -> Result<(), DownloadError> {
        const LOOK: Duration = Duration::from_millis(2);
        let end = Instant::now() + time;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(DownloadError::Interrupted);
            }
            let count = self.failures_in_a_row.load(Ordering::Relaxed);
            if count >= FAILURES_MAX {
                let message = locked(&self.last_failure).clone();
                return Err(DownloadError::Failing { target: downloads.target, count, message });
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() && self.counts().finished >= finished {
                return Ok(());
            }
            thread::sleep(left.clamp(Duration::from_micros(100), LOOK));
        }
    }

    /// One connection after the other, until it is over.
    fn keep_fetching(&self, client: &Client, downloads: &Downloads<'_>) {
        if let Some(cpu) = downloads.cpu
            && let Err(error) = pin(cpu)
        {
            self.fail(&error);
        }
        let mut buffer = vec![0; READ_BYTES];
        while !self.is_over.load(Ordering::Relaxed) {
            match self.fetch(client, downloads, &mut buffer) {
                Ok(()) => {
                    self.finished.fetch_add(1, Ordering::Relaxed);
                    self.failures_in_a_row.store(0, Ordering::Relaxed);
                }
                Err(_) if self.is_over.load(Ordering::Relaxed) => {}
                Err(error) => {
                    self.fail(&error);
                    thread::sleep(TICK);
                }
            }
        }
    }

    fn fetch(
        &self,
        client: &Client,
        downloads: &Downloads<'_>,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let socket = Socket::connect(self, downloads)?;
        let mut stream = client.connect(socket, downloads, self)?;
        let last = true;
        stream.write_all(&http::request(downloads.path, downloads.server_name, last))?;
        stream.flush()?;
        let mut body = Body::new(downloads.bytes, downloads.pattern);
        while !body.is_whole() {
            if self.is_over.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let length = stream.read(buffer)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let of_body = body.take(&buffer[..length])?;
            self.bytes.fetch_add(of_body, Ordering::Relaxed);
        }
        Ok(())
    }

    fn fail(&self, error: &io::Error) {
        self.failures_in_a_row.fetch_add(1, Ordering::Relaxed);
        *locked(&self.last_failure) = error.to_string();
        let kind = error.kind().to_string();
        *locked(&self.errors).entry(kind).or_default() += 1;
    }
}

/// A TLS client that is set up.
enum Client {
    Modern(modern::Client),
    Legacy(legacy::Client),
}

impl Client {
    fn new(downloads: &Downloads<'_>) -> Result<Self, DownloadError> {
        Ok(match downloads.suite {
            Suite::Aead(version, cipher) => {
                Client::Modern(modern::Client::new(downloads, version, cipher)?)
            }
            Suite::Aes128Sha { encrypt_then_mac } => {
                Client::Legacy(legacy::Client::new(encrypt_then_mac)?)
            }
        })
    }

    fn connect<'a>(
        &self,
        socket: Socket<'a>,
        downloads: &Downloads<'_>,
        crowd: &Crowd,
    ) -> io::Result<Box<dyn Stream + 'a>> {
        match self {
            Client::Modern(client) => Ok(Box::new(client.connect(socket)?)),
            Client::Legacy(client) => {
                let (stream, encrypt_then_mac) = client.connect(socket, downloads)?;
                *locked(&crowd.encrypt_then_mac) = encrypt_then_mac;
                Ok(Box::new(stream))
            }
        }
    }
}

/// An established connection.
trait Stream: io::Read + io::Write {}

impl<T: io::Read + io::Write> Stream for T {}

/// A blocking socket that gives up when it is over, or when nothing comes for too long. It is
/// reset when it is dropped, so that no TIME_WAIT is left behind.
struct Socket<'a> {
    stream: TcpStream,
    crowd: &'a Crowd,
    patience: Duration,
}

impl<'a> Socket<'a> {
    fn connect(crowd: &'a Crowd, downloads: &Downloads<'_>) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&downloads.target, downloads.patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TICK))?;
        stream.set_write_timeout(Some(downloads.patience))?;
        set_socket_linger(&stream, Some(Duration::ZERO))?;
        Ok(Socket { stream, crowd, patience: downloads.patience })
    }
}

impl io::Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let began = Instant::now();
        loop {
            match self.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let is_over = self.crowd.is_over.load(Ordering::Relaxed);
                    if is_over || began.elapsed() >= self.patience {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                outcome => return outcome,
            }
        }
    }
}

impl io::Write for Socket<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics while it holds one")
}

fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// CPU time of this process.
fn process_cpu() -> Duration {
    ClockId::CLOCK_PROCESS_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
}
