//! A stock server with several workers under `widelane run`, and its upkeep.
//!
//! Its configuration is not that of `bench`, whose processes and certificates it has: a server
//! under stress resumes no session, logs what alarms and hands its sockets on when it reloads,
//! which would change what `bench` measures.

use std::env;
use std::fs::{self, Permissions};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use widelane_bench::server::process::Process;
use widelane_bench::server::{Identity, Key};
use widelane_host::counters::Counts;
use widelane_host::programs;
use widelane_testkit::server::{free_address, nginx_files};

use crate::hardship::{Disk, Hardship};
use crate::processes::{children, workers};

/// A kind of server, with what has to be typed to run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// nginx with four workers.
    Nginx,
    /// HAProxy with a master and a worker of two threads.
    Haproxy,
}

impl Kind {
    /// What its makers call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::Haproxy => "HAProxy",
        }
    }
}

/// A running server; dropping it ends all its processes.
pub struct Server {
    kind: Kind,
    workers: usize,
    program: PathBuf,
    natively: bool,
    process: Process,
    address: SocketAddr,
    identities: Vec<Identity>,
    disk: Option<Disk>,
    directory: TempDir,
}

impl Server {
    /// Starts an installed server with a certificate for each of `keys`, accelerated unless
    /// `natively`; none if it is not installed.
    ///
    /// # Errors
    ///
    /// If Widelane was not built, or the server does not come up.
    pub fn start(kind: Kind, keys: &[Key], natively: bool) -> Result<Option<Self>> {
        Self::start_on(kind, kind.workers(), keys, natively, groups(natively), |_| Ok(None))
    }

    /// Starts an installed server accelerated, with a single worker, which meets all clients, and
    /// with the groups that it has natively, so that it needs no more memory for a handshake; none
    /// if it is not installed.
    ///
    /// # Errors
    ///
    /// As for [`Server::start`].
    pub fn start_one_worker(kind: Kind, keys: &[Key]) -> Result<Option<Self>> {
        Self::start_on(kind, 1, keys, false, groups(true), |_| Ok(None))
    }

    /// Starts an installed server accelerated, with its counters, and nginx's log of everything, on
    /// a small disk of their own; none if it is not installed.
    ///
    /// # Errors
    ///
    /// As for [`Server::start`].
    pub fn start_on_small_disk(kind: Kind, keys: &[Key]) -> Result<Option<Self>> {
        Self::start_on(kind, kind.workers(), keys, false, groups(false), Disk::mount)
    }

    fn start_on(
        kind: Kind,
        workers: usize,
        keys: &[Key],
        natively: bool,
        groups: &str,
        disk: impl FnOnce(&Path) -> Result<Option<Disk>>,
    ) -> Result<Option<Self>> {
        let search = programs::search_path(env::var_os("PATH"));
        let Some(program) = programs::find(kind.program(), &search) else { return Ok(None) };
        let directory = tempfile::tempdir()?;
        let identities = keys
            .iter()
            .map(|key| Identity::make(*key, directory.path()))
            .collect::<Result<Vec<_>, _>>()?;
        let address = free_address();
        // Workers that gave up root must be able to pass through to their counters.
        let counters = directory.path().join("counters");
        fs::create_dir(&counters)?;
        fs::set_permissions(directory.path(), Permissions::from_mode(0o711))?;
        fs::set_permissions(&counters, Permissions::from_mode(0o1777))?;
        let disk = disk(&counters)?;
        let log = disk.as_ref().map(Disk::log);
        let configuration = directory.path().join("server.conf");
        fs::write(
            &configuration,
            kind.configuration(workers, address, &identities, directory.path(), log.as_deref())
                .replace("GROUPS", groups),
        )?;

        let mut command = command(&program, natively, &counters)?;
        match kind {
            Kind::Nginx => command.arg("-p").arg(directory.path()).arg("-c").arg(&configuration),
            Kind::Haproxy => command.arg("-W").arg("-f").arg(&configuration),
        };
        let log = directory.path().join("output.log");
        let mut process = Process::start(command, &[], log).context("cannot start the server")?;
        let waited = process.wait_until(PATIENCE, || TcpStream::connect(address).is_ok());
        let server = Server {
            kind,
            workers,
            program,
            natively,
            process,
            address,
            identities,
            disk,
            directory,
        };
        waited.with_context(|| format!("{kind:?}: {}", server.log()))?;
        Ok(Some(server))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its certificates, DER.
    pub fn certificates(&self) -> Vec<Vec<u8>> {
        self.identities.iter().map(|identity| identity.leaf.clone()).collect()
    }

    /// Its first process.
    pub fn master(&self) -> i32 {
        self.process.pid().as_raw()
    }

    /// Makes it read its configuration again, as an operator would.
    ///
    /// # Errors
    ///
    /// If the server does not take the request.
    pub fn reload(&self) -> Result<()> {
        match self.kind {
            Kind::Nginx => {
                let output = command(&self.program, self.natively, &self.counters())?
                    .arg("-p")
                    .arg(self.directory.path())
                    .arg("-c")
                    .arg(self.directory.path().join("server.conf"))
                    .args(["-s", "reload"])
                    .stdin(Stdio::null())
                    .output()?;
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                ensure!(output.status.success(), "nginx -s reload failed: {said}");
            }
            Kind::Haproxy => {
                let before = children(self.master());
                let deadline = Instant::now() + PATIENCE;
                let mut ask_again = Instant::now();
                while children(self.master()).iter().all(|child| before.contains(child)) {
                    ensure!(Instant::now() < deadline, "no new worker came: {}", self.log());
                    // On a busy machine HAProxy, with and without us, loses a signal that comes
                    // while it executes itself anew.
                    if Instant::now() >= ask_again {
                        kill(self.process.pid(), Signal::SIGUSR2)?;
                        ask_again += Duration::from_secs(3);
                    }
                    sleep(Duration::from_millis(20));
                }
            }
        }
        Ok(())
    }

    /// Whether an operator has to reload it when the hardship is over: HAProxy, with and without
    /// us, may come out of a shortage of memory with connections that hang.
    pub fn wants_reload_behind(&self, hardship: Hardship) -> bool {
        self.kind == Kind::Haproxy && hardship == Hardship::Memory
    }

    /// How often HAProxy did not get its listening sockets from the last worker. It gives that one
    /// a second; if the machine is too busy, it opens new ones and resets what waits in the old
    /// ones.
    pub fn socket_drops(&self) -> u64 {
        let output = fs::read(self.directory.path().join("output.log")).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        output.matches("Failed to get the sockets from the old process").count() as u64
    }

    /// Kills one of the workers at once; false if there is none.
    pub fn kill_worker(&self, choice: usize) -> bool {
        let workers = workers(self.master());
        if workers.is_empty() {
            return false;
        }
        let victim = workers[choice % workers.len()];
        kill(Pid::from_raw(victim), Signal::SIGKILL).is_ok()
    }

    /// Waits until all workers of earlier configurations have left, and returns those that remain.
    ///
    /// # Errors
    ///
    /// If some do not leave: they wait for handshakes that never end.
    pub fn settle(&self) -> Result<Vec<i32>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let all = children(self.master());
            if all.len() == self.workers && workers(self.master()) == all {
                return Ok(all);
            }
            if Instant::now() > deadline {
                bail!("{all:?} instead of {} workers; {}", self.workers, self.log());
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// What the provider counted in all processes so far, those that have ended included.
    pub fn counts(&self) -> Counts {
        Counts::read(&self.counters())
    }

    /// The small disk of its counters, if it has one.
    pub fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// Where its processes keep their counters.
    pub fn counters(&self) -> PathBuf {
        self.directory.path().join("counters")
    }

    /// The last lines that the server wrote.
    pub fn log(&self) -> String {
        let errors =
            fs::read_to_string(self.directory.path().join("error.log")).unwrap_or_default();
        let lines: Vec<&str> = errors.lines().rev().take(10).collect();
        format!("{}\n{}", self.process.log(), lines.join("\n"))
    }

    /// Lines of its error log that say more than "a client hung up", and more than what is done to
    /// it.
    pub fn alarms(&self) -> Vec<String> {
        let errors =
            fs::read_to_string(self.directory.path().join("error.log")).unwrap_or_default();
        let alarming = |line: &&str| {
            ["[alert]", "[crit]", "[emerg]"].iter().any(|level| line.contains(level))
                && !OUR_DOING.iter().any(|done| line.contains(done))
        };
        errors.lines().filter(alarming).map(str::to_owned).collect()
    }
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::Haproxy => "haproxy",
        }
    }

    /// Processes that serve, usually.
    fn workers(self) -> usize {
        match self {
            Kind::Nginx => 4,
            Kind::Haproxy => 1,
        }
    }

    fn configuration(
        self,
        workers: usize,
        address: SocketAddr,
        identities: &[Identity],
        directory: &Path,
        log: Option<&Path>,
    ) -> String {
        let log = log.map(|log| format!("error_log {} info;", log.display())).unwrap_or_default();
        let files = nginx_files(directory);
        let directory = directory.display();
        let certificates: String = identities
            .iter()
            .map(|Identity { certificate, private_key, bundle, .. }| match self {
                Kind::Nginx => format!(
                    "ssl_certificate {}; ssl_certificate_key {};",
                    certificate.display(),
                    private_key.display()
                ),
                Kind::Haproxy => format!(" crt {}", bundle.display()),
            })
            .collect();
        match self {
            Kind::Nginx => format!(
                "daemon off;
worker_processes {workers};
worker_rlimit_nofile 8192;
pid {directory}/nginx.pid;
error_log {directory}/error.log error;
{log}
events {{
    worker_connections 4096;
}}
http {{
{files}
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_session_cache off;
    ssl_session_tickets off;
    ssl_ecdh_curve GROUPS;
    server {{
        listen {address} ssl backlog=4096;
        {certificates}
        location / {{
            return 200;
        }}
    }}
}}
"
            ),
            // `expose-fd listeners` hands the sockets to the next worker, so that a reload loses
            // nothing.
            Kind::Haproxy => format!(
                "global
    nbthread 2
    maxconn 4096
    tune.ssl.cachesize 0
    stats socket {directory}/haproxy.sock mode 600 expose-fd listeners
    ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets
    ssl-default-bind-curves GROUPS
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend tls
    bind {address} ssl{certificates} backlog 4096
    http-request return status 200
",
            ),
        }
    }
}

/// A command that begins with a server's program: nginx's checks of its configuration know the
/// groups that the provider brings only if they are run as the server is.
fn command(program: &Path, natively: bool, counters: &Path) -> Result<Command> {
    if natively {
        return Ok(Command::new(program));
    }
    let mut command = Command::new(widelane()?);
    command.arg("run").arg("--counters-dir").arg(counters).arg("--").arg(program);
    Ok(command)
}

/// Key-exchange groups that a server offers. OpenSSL before 3.5 has none with ML-KEM.
fn groups(natively: bool) -> &'static str {
    if natively { "X25519:P-256:P-384" } else { "X25519MLKEM768:X25519:P-256:P-384" }
}

/// The `widelane` program of the running test's profile, such as `target/quick/widelane`.
///
/// # Errors
///
/// If it was not built.
pub fn widelane() -> Result<PathBuf> {
    let test = env::current_exe()?;
    let directory = test.parent().and_then(Path::parent).context("the test has no directory")?;
    let program = directory.join("widelane");
    ensure!(
        program.is_file(),
        "{} is missing: run `cargo build` in the profile of this test",
        program.display()
    );
    Ok(program)
}

/// What nginx says of killed workers and of [`crate::hardship::Hardship`]s.
///
/// `BIO_new` does not tell that its buffer got no memory, only that it could not be made. Workers
/// without descriptors lose messages of the channel between nginx's processes and, around reloads,
/// accept on descriptors that are closed: nginx as installed as often as under `widelane run`.
const OUR_DOING: [&str; 9] = [
    "accept4() failed (9: Bad file descriptor)",
    "exited on signal 9",
    "::malloc failure",
    "BIO routines::init fail",
    "recvmsg() returned invalid ancillary data",
    "recvmsg() truncated data",
    "(12: Cannot allocate memory)",
    "(24: Too many open files)",
    "(28: No space left on device)",
];

/// How long a server may take to start, or an old worker to leave.
const PATIENCE: Duration = Duration::from_secs(30);
