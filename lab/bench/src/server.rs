//! Real servers under test: nginx, HAProxy, `openssl s_server` and the embedded one, native and
//! accelerated side by side.

pub mod application;
mod certificate;
mod config;
pub mod content;
mod mixed;
mod plain;
pub mod process;
mod recipe;
mod testbed;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use nix::unistd::Pid;
use thiserror::Error;
use widelane_host::counters::Counts;

pub use self::certificate::{ClientIdentity, Identity, IdentityError, Key, SERVER_NAME};
pub use self::config::GROUPS;
use self::process::Process;
pub use self::recipe::{RECIPES, Recipe};
pub use self::testbed::Testbed;
use crate::accounting::{self, AccountingError};

/// How long a server may take until it accepts connections.
const READY_PATIENCE: Duration = Duration::from_secs(15);

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerKind {
    /// The server inside this binary: epoll, edge-triggered, on the system's libssl.
    Embedded,
    /// HAProxy as installed.
    Haproxy,
    /// One of [`RECIPES`], as installed.
    Listed(&'static Recipe),
    /// nginx as installed.
    Nginx,
    /// `openssl s_server` as installed: one thread, one connection at a time, all of it blocking.
    SServer,
}

impl ServerKind {
    /// The kind's name in scenarios and flags.
    pub const fn name(self) -> &'static str {
        match self {
            ServerKind::Embedded => "embedded",
            ServerKind::Haproxy => "haproxy",
            ServerKind::Listed(recipe) => recipe.name,
            ServerKind::Nginx => "nginx",
            ServerKind::SServer => "s-server",
        }
    }

    /// Whether it has as many workers as it has CPUs.
    pub const fn has_workers(self) -> bool {
        matches!(self, ServerKind::Haproxy | ServerKind::Nginx)
    }

    /// Whether it is set up to demand certificates of clients.
    pub const fn demands_certificates(self) -> bool {
        matches!(self, ServerKind::Haproxy | ServerKind::Nginx)
    }

    /// The most connections that it can be sent at a time, and why no more.
    pub const fn connections_max(self) -> Option<(usize, &'static str)> {
        match self {
            ServerKind::SServer => {
                Some((16, "openssl s_server serves one connection at a time and lets few wait"))
            }
            ServerKind::Embedded
            | ServerKind::Haproxy
            | ServerKind::Listed(_)
            | ServerKind::Nginx => None,
        }
    }
}

/// A limit to how long operations wait for company, as an option of `widelane run` and as a subject
/// of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitLimit {
    /// What `--wait-max` is given.
    pub option: &'static str,
    subject: &'static str,
}

impl WaitLimit {
    /// The limits that can be compared.
    pub const ALL: [WaitLimit; 7] = [
        WaitLimit { option: "0", subject: "wait-0" },
        WaitLimit { option: "0.5ms", subject: "wait-0.5ms" },
        WaitLimit { option: "1ms", subject: "wait-1ms" },
        WaitLimit { option: "2ms", subject: "wait-2ms" },
        WaitLimit { option: "5ms", subject: "wait-5ms" },
        WaitLimit { option: "10ms", subject: "wait-10ms" },
        WaitLimit { option: "rtt", subject: "wait-rtt" },
    ];
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
    /// Under `widelane run`, with a lane process on CPUs set aside.
    LaneCpus,
    /// Under `widelane run`, with a QAT device.
    Qat,
    /// Under `widelane run`, with a policy that each process chooses while it runs.
    Auto,
    /// Under `widelane run`, with a limit of its own to how long operations wait for company.
    Waiting(WaitLimit),
    /// With the provider and the server's own asynchronous mode, without the runtime.
    Async,
    /// With the provider, by OpenSSL's configuration alone.
    Configured,
    /// HAProxy built from source on AWS-LC instead of OpenSSL: what a user would run instead.
    HaproxyAwsLc,
}

impl Subject {
    /// The subject's name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Subject::Native => "native",
            Subject::NativeMasked => "native-masked",
            Subject::Accelerated => "accelerated",
            Subject::LaneCpus => "lane-cpus",
            Subject::Qat => "qat",
            Subject::Auto => "auto",
            Subject::Waiting(WaitLimit { subject, .. }) => subject,
            Subject::Async => "async",
            Subject::Configured => "configured",
            Subject::HaproxyAwsLc => "haproxy-aws-lc",
        }
    }

    /// Whether our provider runs in it.
    pub const fn is_ours(self) -> bool {
        use Subject::{Accelerated, Async, Auto, Configured, LaneCpus, Qat, Waiting};
        let is_run = matches!(self, Accelerated | LaneCpus | Qat | Auto | Waiting(_));
        is_run || matches!(self, Async | Configured)
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
    /// A rival that is built from source is not there.
    #[error(
        "{name} is not there{}; `cargo xtask rival {name}` builds it",
        reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"))
    )]
    NotBuilt {
        /// The rival.
        name: &'static str,
        /// Why its build failed, if it did.
        reason: Option<String>,
    },
    /// The machine has no QAT device.
    #[error(
        "no device: this machine has no Intel QAT that qatlib drives \
         (docs/operate/experimental.md)"
    )]
    NoDevice,
    /// The server does not speak HTTP/3.
    #[error(
        "{name} {version} was built without QUIC; use one with it (Debian 13's) or leave --http3 \
         out"
    )]
    NoQuic {
        /// The server.
        name: &'static str,
        /// Its version.
        version: String,
    },
    /// The server is not set up to demand certificates of clients.
    #[error(
        "{0} is not set up to demand certificates of clients; nginx and haproxy are: name those by \
         --server, or leave --client-certificates out"
    )]
    NoDemand(&'static str),
    /// A server that shows one certificate is to show several.
    #[error("{0} shows one certificate here; give its keys apart: --key rsa2048,ecdsa-p256")]
    OneCertificate(&'static str),
    /// nginx lacks modules.
    #[error(
        "nginx has no {missing} in {directory}; install its modules, for instance: apt-get install \
         libnginx-mod-http-lua libnginx-mod-http-brotli-filter"
    )]
    NoModule {
        /// The first module that is missing.
        missing: &'static str,
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// Part of the application is missing.
    #[error(
        "{0} is not there; install the application without starting any of it: RUNLEVEL=1 apt-get \
         install --no-install-recommends wordpress wordpress-theme-twentytwentythree php-fpm \
         php-mysql mariadb-server"
    )]
    NoApplication(&'static str),
    /// The application cannot be set up.
    #[error("{program} fails, which prepares the application; it says:\n{output}")]
    NotPrepared {
        /// The program.
        program: String,
        /// What it printed.
        output: String,
    },
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
    /// Another program listens on the port.
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
    /// The system does not let anyone listen there.
    #[error("cannot listen on {address}; ports below 1024 need root, and loopback has to be up")]
    Address {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// There are fewer ports than servers.
    #[error("no port is left for a further server; give a lower --port")]
    NoPortLeft,
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
    /// The server does not have the groups that its clients ask for.
    #[error(
        "{kind}/{subject} lacks one of the key-exchange groups {groups}: those with ML-KEM come \
         with OpenSSL 3.5, or with widelane on an older one\n{output}"
    )]
    NoGroup {
        /// The server.
        kind: &'static str,
        /// How it is run.
        subject: Subject,
        /// What it was asked to offer.
        groups: String,
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
    /// A server that is to run as it is installed has a library of ours.
    #[error(
        "{server} runs with {}, so that there is nothing unaccelerated to compare with: {cause}; \
         take that away for as long as you compare",
        library.display()
    )]
    Accelerated {
        /// The server and subject.
        server: String,
        /// The library.
        library: PathBuf,
        /// What may have loaded it.
        cause: &'static str,
    },
    /// The server never accepted a connection.
    #[error("{server} accepts no connection on {place} after {READY_PATIENCE:?}; it says:\n{log}")]
    NotReady {
        /// The server and subject, or the part of the application.
        server: String,
        /// Where it should listen.
        place: String,
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

/// A running server.
pub struct Server {
    name: String,
    process: Process,
    address: SocketAddr,
    counters: Option<PathBuf>,
    /// Processes that it has work for it, which are not its own.
    companions: Vec<Pid>,
}

/// The processes of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    /// All of them.
    pub all: BTreeSet<Pid>,
    /// Lane processes.
    pub lanes: BTreeSet<Pid>,
    /// The CPUs that those may use.
    pub lane_cpus: BTreeSet<usize>,
}

/// The CPU time that processes have used together since they began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All of it.
    pub cpu: Duration,
    /// The part of it that lane processes used.
    pub lane_cpu: Duration,
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

    /// Makes sure that no process of it, which is to run as it is installed, has a library of ours.
    fn check_plain(&self) -> Result<(), ServerError> {
        match self.processes()?.all.iter().find_map(|pid| plain::library_in(*pid)) {
            None => Ok(()),
            Some((library, cause)) => {
                Err(ServerError::Accelerated { server: self.name.clone(), library, cause })
            }
        }
    }

    /// Its processes, its lane process and the application behind it included. To find them takes
    /// milliseconds where a machine has many.
    ///
    /// # Errors
    ///
    /// [`ServerError::Accounting`].
    pub fn processes(&self) -> Result<Processes, ServerError> {
        let mut all = BTreeSet::new();
        for root in [self.pid()].iter().chain(&self.companions) {
            all.extend(accounting::process_tree(*root).map_err(|source| self.unknown(source))?);
        }
        // It is no descendant of the server's.
        let lanes = self.counters.iter().flat_map(|counters| Counts::lane_processes(counters));
        let lanes = lanes.map(|pid| Pid::from_raw(pid as i32));
        let lanes: BTreeSet<Pid> =
            lanes.filter(|pid| accounting::process_cpu(*pid).is_ok()).collect();
        all.extend(&lanes);
        let lane_cpus = lanes.iter().flat_map(|pid| accounting::allowed_cpus(*pid)).collect();
        Ok(Processes { all, lanes, lane_cpus })
    }

    /// The CPU time of its `processes`, from the kernel's accounting.
    ///
    /// # Errors
    ///
    /// [`ServerError::Accounting`].
    pub fn usage(&self, processes: &Processes) -> Result<Usage, ServerError> {
        let mut usage = Usage::default();
        for pid in &processes.all {
            let used = accounting::process_cpu(*pid).map_err(|source| self.unknown(source))?;
            usage.cpu += used;
            usage.lane_cpu += if processes.lanes.contains(pid) { used } else { Duration::ZERO };
        }
        Ok(usage)
    }

    fn unknown(&self, source: AccountingError) -> ServerError {
        ServerError::Accounting { server: self.name.clone(), source }
    }

    /// What the provider has counted so far in all processes of the server; `None` if it is not
    /// ours, or runs without the provider.
    pub fn counts(&self) -> Option<Counts> {
        let each = Counts::read_all(self.counters.as_deref()?);
        let mut sum = None;
        each.iter().for_each(|counts| sum.get_or_insert_with(Counts::default).add(counts));
        sum
    }
}
