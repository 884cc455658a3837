//! Real servers under test: nginx, HAProxy and the embedded one, native and accelerated side by
//! side.

mod certificate;
mod config;
mod counters;
pub mod process;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use tempfile::TempDir;
use thiserror::Error;

pub use self::certificate::{Identity, IdentityError, SERVER_NAME};
pub use self::counters::Counts;
use self::process::Process;
use crate::accounting::{self, AccountingError};
use crate::programs::Programs;

/// How long a server may take until it accepts connections.
const READY_PATIENCE: Duration = Duration::from_secs(15);

/// Hides AVX-512 IFMA from OpenSSL: bit 21 of EBX of CPUID leaf 7, in the notation of
/// OPENSSL_ia32cap(3).
const IFMA_MASK: (&str, &str) = ("OPENSSL_ia32cap", ":~0x200000");

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerKind {
    /// The server inside this binary: epoll, edge-triggered, on the system's libssl.
    Embedded,
    /// HAProxy as installed.
    Haproxy,
    /// nginx as installed.
    Nginx,
}

impl ServerKind {
    /// The kind's name in scenarios and flags.
    pub const fn name(self) -> &'static str {
        match self {
            ServerKind::Embedded => "embedded",
            ServerKind::Haproxy => "haproxy",
            ServerKind::Nginx => "nginx",
        }
    }
}

/// How a server is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// As it is installed.
    Native,
    /// As it is installed, with IFMA hidden from OpenSSL.
    NativeMasked,
    /// Under `widelane run`.
    Accelerated,
    /// With the provider and the server's own asynchronous mode, without the runtime.
    Async,
}

impl Subject {
    /// The subject's name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Subject::Native => "native",
            Subject::NativeMasked => "native-masked",
            Subject::Accelerated => "accelerated",
            Subject::Async => "async",
        }
    }

    /// Whether our provider runs in it.
    pub const fn is_ours(self) -> bool {
        matches!(self, Subject::Accelerated | Subject::Async)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a server cannot be measured.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The program is not installed.
    #[error("{0} is not installed; install it, for instance: apt-get install {0}")]
    NotInstalled(&'static str),
    /// Part of widelane itself is missing.
    #[error(
        "{missing} is not beside {executable}; build all of widelane, or set WIDELANE_LIBRARY_DIR"
    )]
    Incomplete {
        /// The file that is missing.
        missing: &'static str,
        /// Where the binary is.
        executable: PathBuf,
    },
    /// Somebody listens on the port.
    #[error(
        "port {port} is in use; \
         stop the program that listens there, or leave out --port to have free ports chosen"
    )]
    PortInUse {
        /// The port.
        port: u16,
        /// What the kernel said.
        source: io::Error,
    },
    /// The server does not accept its configuration, key or certificate.
    #[error(
        "{program} does not accept its configuration, key or certificate \
         (check --certificate and --private-key if you gave them); it says:\n{output}"
    )]
    Rejected {
        /// The program.
        program: String,
        /// What it printed.
        output: String,
    },
    /// The program could not be started.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The server ended before it accepted a connection.
    #[error("{server} does not start ({status}); it says:\n{log}")]
    NotStarted {
        /// The server and subject.
        server: String,
        /// How it ended.
        status: ExitStatus,
        /// Last lines of its output.
        log: String,
    },
    /// The server ended by itself.
    #[error(
        "{server} ended during the run ({status}); results up to here are kept; \
         see what it said, and whether it ran out of memory:\n{log}"
    )]
    Died {
        /// The server and subject.
        server: String,
        /// How it ended.
        status: ExitStatus,
        /// Last lines of its output.
        log: String,
    },
    /// The server never accepted a connection.
    #[error(
        "{server} accepts no connection on {address} after {READY_PATIENCE:?}; it says:\n{log}"
    )]
    NotReady {
        /// The server and subject.
        server: String,
        /// Where it should listen.
        address: SocketAddr,
        /// Last lines of its output.
        log: String,
    },
    /// The CPU time is not known.
    #[error("the CPU time of {server} is not known")]
    Accounting {
        /// The server and subject.
        server: String,
        /// Why.
        source: AccountingError,
    },
    /// The working directory cannot be used.
    #[error("cannot use the working directory {path}; set TMPDIR to a writable one")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Where servers are made: a temporary directory, the programs, a CPU and a supply of ports.
pub struct Workshop {
    directory: TempDir,
    programs: Programs,
    cpu: Option<usize>,
    port_next: Option<u16>,
    server_count: usize,
}

impl Workshop {
    /// Opens a workshop for servers pinned to `cpu`, on consecutive ports from `port_first` or free
    /// ones.
    ///
    /// # Errors
    ///
    /// [`ServerError::Directory`].
    pub fn open(
        programs: Programs,
        cpu: Option<usize>,
        port_first: Option<u16>,
    ) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Directory { path: "TMPDIR".into(), source };
        let directory = tempfile::Builder::new().prefix("widelane-").tempdir().map_err(failed)?;
        // Workers that gave up root must be able to pass through to their counters.
        set_mode(directory.path(), 0o711)?;
        Ok(Workshop { directory, programs, cpu, port_next: port_first, server_count: 0 })
    }

    /// The directory that is removed with the workshop.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Starts a server and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// See [`ServerError`].
    pub fn start(
        &mut self,
        kind: ServerKind,
        subject: Subject,
        identity: &Identity,
    ) -> Result<Server, ServerError> {
        let name = format!("{}/{subject}", kind.name());
        let directory =
            self.directory.path().join(format!("{}-{}-{subject}", self.server_count, kind.name()));
        self.server_count += 1;
        make_directory(&directory, 0o711)?;
        let counters = directory.join("counters");
        make_directory(&counters, 0o1777)?;

        let address = self.address()?;
        let command = self.command(kind, subject, identity, address, &directory)?;
        let program = command.get_program().to_string_lossy().into_owned();
        let process = Process::start(command, self.cpu, directory.join("log"))
            .map_err(|source| ServerError::Start { program, source })?;
        let counters = subject.is_ours().then_some(counters);
        let mut server = Server { name, process, address, counters };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn address(&mut self) -> Result<SocketAddr, ServerError> {
        let port = self.port_next.unwrap_or(0);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|source| ServerError::PortInUse { port, source })?;
        if let Some(next) = &mut self.port_next {
            *next = next.saturating_add(1);
        }
        listener.local_addr().map_err(|source| ServerError::PortInUse { port, source })
    }

    /// The whole command of a server, its configuration written to `directory` and checked.
    fn command(
        &self,
        kind: ServerKind,
        subject: Subject,
        identity: &Identity,
        address: SocketAddr,
        directory: &Path,
    ) -> Result<Command, ServerError> {
        let server = match kind {
            ServerKind::Embedded => self.embedded(identity, address),
            ServerKind::Haproxy => self.haproxy(identity, address, subject, directory)?,
            ServerKind::Nginx => self.nginx(identity, address, directory)?,
        };
        let counters = directory.join("counters");
        Ok(match subject {
            Subject::Native => command(&server),
            Subject::NativeMasked => {
                let mut masked = command(&server);
                masked.env(IFMA_MASK.0, IFMA_MASK.1);
                masked
            }
            Subject::Accelerated => {
                let mut run = Command::new(&self.programs.widelane);
                run.arg("run").arg("--counters-dir").arg(counters).arg("--").args(server);
                run
            }
            Subject::Async => {
                let mut asynchronous = command(&server);
                asynchronous
                    .env("OPENSSL_CONF", directory.join("openssl.cnf"))
                    .env("WIDELANE_COUNTERS_DIR", counters);
                asynchronous
            }
        })
    }

    fn embedded(&self, identity: &Identity, address: SocketAddr) -> Vec<PathBuf> {
        vec![
            self.programs.widelane.clone(),
            "serve-embedded".into(),
            "--listen".into(),
            address.to_string().into(),
            "--certificate".into(),
            identity.certificate.clone(),
            "--private-key".into(),
            identity.private_key.clone(),
        ]
    }

    fn nginx(
        &self,
        identity: &Identity,
        address: SocketAddr,
        directory: &Path,
    ) -> Result<Vec<PathBuf>, ServerError> {
        let nginx = self.programs.nginx.clone().ok_or(ServerError::NotInstalled("nginx"))?;
        let file = directory.join("nginx.conf");
        write(&file, &config::nginx(address, identity, directory))?;
        let mut server: Vec<PathBuf> = vec![nginx, "-e".into(), "stderr".into()];
        server.extend(["-p".into(), directory.to_owned(), "-c".into(), file]);
        check(command(&server).arg("-t"))?;
        Ok(server)
    }

    fn haproxy(
        &self,
        identity: &Identity,
        address: SocketAddr,
        subject: Subject,
        directory: &Path,
    ) -> Result<Vec<PathBuf>, ServerError> {
        let haproxy = self.programs.haproxy.clone().ok_or(ServerError::NotInstalled("haproxy"))?;
        if subject == Subject::Async {
            let provider = self.programs.provider.as_ref().ok_or(ServerError::Incomplete {
                missing: "widelane.so",
                executable: self.programs.widelane.clone(),
            })?;
            write(&directory.join("openssl.cnf"), &config::openssl(provider))?;
        }
        let file = directory.join("haproxy.cfg");
        write(&file, &config::haproxy(address, identity, subject == Subject::Async))?;
        let server = vec![haproxy, "-db".into(), "-f".into(), file];
        check(command(&server).arg("-c"))?;
        Ok(server)
    }
}

/// A running server.
pub struct Server {
    name: String,
    process: Process,
    address: SocketAddr,
    counters: Option<PathBuf>,
}

/// The processes of a server and the CPU time they have used together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The processes.
    pub processes: BTreeSet<Pid>,
    /// Their CPU time since they began.
    pub cpu: Duration,
}

impl Server {
    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kind and subject, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server's first process.
    pub fn pid(&self) -> Pid {
        self.process.pid()
    }

    /// The last lines that the server wrote.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Makes sure that the server is alive.
    ///
    /// # Errors
    ///
    /// [`ServerError::Died`].
    pub fn check_alive(&mut self) -> Result<(), ServerError> {
        match self.process.ended() {
            None => Ok(()),
            Some(status) => Err(ServerError::Died {
                server: self.name.clone(),
                status,
                log: self.process.log(),
            }),
        }
    }

    /// Processes and CPU time, from the kernel's accounting.
    ///
    /// # Errors
    ///
    /// [`ServerError::Accounting`].
    pub fn usage(&self) -> Result<Usage, ServerError> {
        let failed = |source| ServerError::Accounting { server: self.name.clone(), source };
        let processes = accounting::process_tree(self.pid()).map_err(failed)?;
        let mut cpu = Duration::ZERO;
        for pid in &processes {
            cpu += accounting::process_cpu(*pid).map_err(failed)?;
        }
        Ok(Usage { processes, cpu })
    }

    /// What the provider has counted so far in all processes of the server; `None` if it is not
    /// ours.
    pub fn counts(&self) -> Option<Counts> {
        self.counters.as_deref().map(Counts::read)
    }

    fn wait_until_ready(&mut self) -> Result<(), ServerError> {
        let end = Instant::now() + READY_PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.process.ended() {
                let (server, log) = (self.name.clone(), self.process.log());
                return Err(ServerError::NotStarted { server, status, log });
            }
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            sleep(Duration::from_millis(10));
        }
        let (server, address, log) = (self.name.clone(), self.address, self.process.log());
        Err(ServerError::NotReady { server, address, log })
    }
}

fn command(words: &[PathBuf]) -> Command {
    let (program, arguments) = words.split_first().expect("a command has a program");
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Runs a server's own check of its configuration.
fn check(command: &mut Command) -> Result<(), ServerError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|source| ServerError::Start { program: program.clone(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(ServerError::Rejected { program, output: String::from_utf8_lossy(&said).into_owned() })
}

fn make_directory(path: &Path, mode: u32) -> Result<(), ServerError> {
    fs::create_dir(path)
        .map_err(|source| ServerError::Directory { path: path.to_owned(), source })?;
    set_mode(path, mode)
}

fn set_mode(path: &Path, mode: u32) -> Result<(), ServerError> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(|source| ServerError::Directory { path: path.to_owned(), source })
}

fn write(path: &Path, text: &str) -> Result<(), ServerError> {
    fs::write(path, text).map_err(|source| ServerError::Directory { path: path.to_owned(), source })
}
