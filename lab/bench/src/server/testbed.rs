//! Starts servers: from kind, subject and certificates to a process that accepts
//! connections.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use widelane_cpu::policy::LaneCpus;
use widelane_host::qat;
use widelane_loadgen::Group;

use super::application::Application;
use super::config::{GROUPS, Settings, Workers};
use super::content::Content;
use super::plain::{command, is_of_subjects};
use super::process::Process;
use super::{Identity, Server, ServerError, ServerKind, Subject, config};
use crate::groups;
use crate::programs::{Built, Programs};

/// Hides AVX-512 IFMA from OpenSSL: bit 21 of EBX of CPUID leaf 7, in the notation of
/// OPENSSL_ia32cap(3).
const IFMA_MASK: (&str, &str) = ("OPENSSL_ia32cap", ":~0x200000");

/// Name of the configuration, in a server's directory, that loads the provider.
const OPENSSL_CONFIGURATION: &str = "openssl.cnf";

/// Name of the directory, in a server's, where the provider counts.
pub(super) const COUNTERS: &str = "counters";

/// A place for a server.
pub(super) struct Site {
    pub(super) directory: PathBuf,
    pub(super) address: SocketAddr,
}

/// What starts servers: a temporary directory, the programs, a CPU and a supply of ports.
pub struct Testbed {
    // Dropped first: it writes into the directory.
    application: Option<Application>,
    directory: TempDir,
    programs: Programs,
    workers: Workers,
    /// Where servers listen.
    host: Ipv4Addr,
    /// The ports that are left, where they were chosen.
    ports: Option<RangeInclusive<u16>>,
    content: Option<Content>,
    /// Groups that servers offer beside the usual ones, in front of them.
    groups: Vec<Group>,
    /// Whether servers listen for HTTP/3 as well.
    quic: bool,
    /// The authority of clients, if servers demand certificates of them: a PEM file.
    authority_of_clients: Option<PathBuf>,
    /// The CPUs set aside for the lane process of these servers.
    lane_cpus: Option<LaneCpus>,
    with_lane_process: Subject,
    server_count: usize,
}

impl Testbed {
    /// Prepares for servers pinned to `cpus`, with a worker on each, or with one anywhere;
    /// on consecutive ports from `port_first` or free ones.
    ///
    /// # Errors
    ///
    /// [`ServerError::Directory`].
    pub fn open(
        programs: Programs,
        cpus: &[usize],
        port_first: Option<u16>,
    ) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Directory { path: "TMPDIR".into(), source };
        let directory = tempfile::Builder::new().prefix("widelane-").tempdir().map_err(failed)?;
        // Workers that gave up root must be able to pass through to their counters.
        set_mode(directory.path(), 0o711)?;
        Ok(Testbed {
            directory,
            programs,
            workers: Workers::on_each(cpus),
            host: Ipv4Addr::LOCALHOST,
            ports: port_first.map(|first| first..=u16::MAX),
            content: None,
            groups: Vec::new(),
            quic: false,
            authority_of_clients: None,
            lane_cpus: None,
            with_lane_process: Subject::Accelerated,
            application: None,
            server_count: 0,
        })
    }

    /// Has servers listen on `host` instead of the loopback address.
    pub fn listen_on(&mut self, host: Ipv4Addr) {
        self.host = host;
    }

    /// Gives servers `count` workers on their CPUs.
    pub fn set_workers(&mut self, count: usize) {
        self.workers.count = count;
    }

    /// Has servers offer `groups` beside the usual ones, native ones those that they have.
    pub fn set_groups(&mut self, groups: Vec<Group>) {
        self.groups = groups;
    }

    /// Has servers listen for HTTP/3 as well, on the same port of UDP.
    pub fn set_quic(&mut self, quic: bool) {
        self.quic = quic;
    }

    /// Has servers serve clients only that show a certificate for which `authority` vouches, a PEM
    /// file.
    pub fn set_client_authority(&mut self, authority: PathBuf) {
        self.authority_of_clients = Some(authority);
    }

    /// Sets CPUs aside for the lane process of the servers of a subject.
    pub fn set_lane_cpus(&mut self, lane_cpus: Option<LaneCpus>, subject: Subject) {
        (self.lane_cpus, self.with_lane_process) = (lane_cpus, subject);
    }

    /// The CPUs set aside for a subject.
    fn lane_cpus_of(&self, subject: Subject) -> Option<&LaneCpus> {
        self.lane_cpus.as_ref().filter(|_| subject == self.with_lane_process)
    }

    /// The policy that the environment of this process asks for, but for what subjects differ in.
    fn policy(&self) -> impl Iterator<Item = (&'static str, OsString)> {
        let variables = self.programs.policy.iter();
        variables.filter(|(name, _)| !is_of_subjects(name)).cloned()
    }

    /// The groups of a server, as OpenSSL reads them.
    fn groups(&self, subject: Subject) -> String {
        let has = |group: &&Group| match subject {
            Subject::Native | Subject::NativeMasked => groups::is_native(**group),
            _ => true,
        };
        let more = self.groups.iter().filter(has).map(|group| group.openssl_name());
        more.chain([GROUPS]).collect::<Vec<_>>().join(":")
    }

    /// Has servers serve bodies of `sizes`; where they need an origin, it stays on `cpu`.
    ///
    /// # Errors
    ///
    /// [`ServerError::Directory`].
    pub fn serve_content(&mut self, sizes: &[u64], cpu: Option<usize>) -> Result<(), ServerError> {
        let directory = self.directory.path();
        let content = Content::make(directory, sizes, cpu)
            .map_err(|source| ServerError::Directory { path: directory.to_owned(), source })?;
        self.content = Some(content);
        Ok(())
    }

    /// Has nginx serve the pages of an application, which runs beside it.
    ///
    /// # Errors
    ///
    /// See [`ServerError`].
    pub fn host_application(&mut self) -> Result<(), ServerError> {
        let directory = self.directory.path().join("application");
        let cpus = self.workers.cpus.as_slice();
        self.application = Some(Application::start(&self.programs, &directory, cpus)?);
        Ok(())
    }

    /// The directory that is removed with the testbed.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Starts a server that shows `identities`, the first by default, and waits until it accepts
    /// connections.
    ///
    /// # Errors
    ///
    /// See [`ServerError`].
    pub fn start(
        &mut self,
        kind: ServerKind,
        subject: Subject,
        identities: &[Identity],
    ) -> Result<Server, ServerError> {
        let site = self.site(&format!("{}-{subject}", kind.name()))?;
        let command = self.command(kind, subject, identities, site.address, &site.directory)?;
        self.launch(format!("{}/{subject}", kind.name()), command, site, subject.is_ours())
    }

    /// A place for one more server.
    pub(super) fn site(&mut self, name: &str) -> Result<Site, ServerError> {
        let directory = self.directory.path().join(format!("{}-{name}", self.server_count));
        self.server_count += 1;
        make_directory(&directory, 0o711)?;
        make_directory(&directory.join(COUNTERS), 0o1777)?;
        Ok(Site { directory, address: self.address()? })
    }

    /// Starts `command` at its site and waits until it accepts connections.
    pub(super) fn launch(
        &self,
        name: String,
        command: Command,
        site: Site,
        is_ours: bool,
    ) -> Result<Server, ServerError> {
        let Site { directory, address } = site;
        let program = command.get_program().to_string_lossy().into_owned();
        let mut process = Process::start(command, &self.workers.cpus, directory.join("log"))
            .map_err(|source| ServerError::Start { program, source })?;
        process.wait_to_listen(&name, address, || TcpStream::connect(address).is_ok())?;
        let counters = is_ours.then(|| directory.join(COUNTERS));
        let pids = self.application.as_ref().map(Application::pids);
        let companions = pids.into_iter().flatten().collect();
        let server = Server { name, process, address, counters, companions };
        if !is_ours {
            server.check_plain()?;
        }
        Ok(server)
    }

    /// The programs that servers are made of.
    pub(super) fn programs(&self) -> &Programs {
        &self.programs
    }

    fn address(&mut self) -> Result<SocketAddr, ServerError> {
        let port = match &mut self.ports {
            Some(ports) => ports.next().ok_or(ServerError::NoPortLeft)?,
            None => 0,
        };
        let address = SocketAddr::from((self.host, port));
        let listening = TcpListener::bind(address).and_then(|listener| listener.local_addr());
        listening.map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => ServerError::PortInUse { port, source },
            _ => ServerError::Address { address, source },
        })
    }

    /// The whole command of a server, its configuration written to `directory` and checked.
    fn command(
        &self,
        kind: ServerKind,
        subject: Subject,
        identities: &[Identity],
        address: SocketAddr,
        directory: &Path,
    ) -> Result<Command, ServerError> {
        let groups = self.groups(subject);
        let settings = Settings {
            address,
            identities,
            groups: &groups,
            workers: &self.workers,
            content: self.content.as_ref(),
            quic: self.quic,
            authority: self.authority_of_clients.as_deref(),
        };
        let (server, check) = match kind {
            ServerKind::Embedded => (self.embedded(&settings), None),
            ServerKind::Haproxy => (self.haproxy(&settings, subject, directory)?, Some("-c")),
            ServerKind::Listed(recipe) => match identities {
                [one] => (recipe.prepare(&self.programs, one, address, &groups, directory)?, None),
                _ => return Err(ServerError::OneCertificate(recipe.name)),
            },
            ServerKind::Nginx => (self.nginx(&settings, directory)?, Some("-t")),
            ServerKind::SServer => (self.s_server(&settings)?, None),
        };
        // By the subject itself: what the provider brings, the server accepts with it only.
        if let Some(flag) = check {
            let failed = |error| match error {
                ServerError::Rejected { output, .. } if output.contains("curves") => {
                    ServerError::NoGroup { kind: kind.name(), subject, groups, output }
                }
                ServerError::Rejected { output, .. } => {
                    ServerError::Rejected { program: server[0].display().to_string(), output }
                }
                error => error,
            };
            let mut run = self.as_subject(&server, subject, directory)?;
            self::check(run.arg(flag)).map_err(failed)?;
        }
        self.as_subject(&server, subject, directory)
    }

    /// The command of `server` as `subject` runs it.
    fn as_subject(
        &self,
        server: &[PathBuf],
        subject: Subject,
        directory: &Path,
    ) -> Result<Command, ServerError> {
        let counters = directory.join(COUNTERS);
        Ok(match subject {
            Subject::Native | Subject::HaproxyAwsLc => command(server),
            Subject::NativeMasked => {
                let mut masked = command(server);
                masked.env(IFMA_MASK.0, IFMA_MASK.1);
                masked
            }
            Subject::Qat if qat::devices() == 0 => return Err(ServerError::NoDevice),
            Subject::Accelerated
            | Subject::LaneCpus
            | Subject::Qat
            | Subject::Auto
            | Subject::Waiting(_) => {
                let mut run = command(&[self.widelane()?.to_owned()]);
                run.envs(self.policy()).arg("run").arg("--counters-dir").arg(counters);
                let options: &[&str] = match subject {
                    Subject::Qat => &["--engine", "qat"],
                    Subject::Auto => &["--policy", "auto"],
                    Subject::Waiting(limit) => &["--wait-max", limit.option],
                    _ => &[],
                };
                run.args(options);
                if let Some(cpus) = self.lane_cpus_of(subject) {
                    run.arg("--lane-cpus").arg(cpus.to_string());
                }
                run.arg("--").args(server);
                run
            }
            Subject::Async | Subject::Configured => {
                let configuration = directory.join(OPENSSL_CONFIGURATION);
                write(&configuration, &config::openssl(self.provider()?))?;
                let mut configured = command(server);
                configured
                    .envs(self.policy())
                    .env("OPENSSL_CONF", configuration)
                    .env("WIDELANE_COUNTERS_DIR", counters);
                configured
            }
        })
    }

    pub(super) fn widelane(&self) -> Result<&Path, ServerError> {
        let widelane = Some(self.programs.widelane.as_path());
        widelane.filter(|path| path.is_file()).ok_or_else(|| self.without("widelane"))
    }

    fn provider(&self) -> Result<&Path, ServerError> {
        self.programs.provider.as_deref().ok_or_else(|| self.without("widelane.so"))
    }

    fn without(&self, missing: &'static str) -> ServerError {
        ServerError::Incomplete { missing, executable: self.programs.bench.clone() }
    }

    fn embedded(&self, settings: &Settings<'_>) -> Vec<PathBuf> {
        let Settings { address, identities, groups, .. } = *settings;
        let mut server = vec![self.programs.bench.clone(), "serve-embedded".into()];
        server.extend(["--listen".into(), address.to_string().into()]);
        server.extend(["--groups".into(), groups.into()]);
        for identity in identities {
            server.extend(["--certificate".into(), identity.certificate.clone()]);
            server.extend(["--private-key".into(), identity.private_key.clone()]);
        }
        server
    }

    fn s_server(&self, settings: &Settings<'_>) -> Result<Vec<PathBuf>, ServerError> {
        let openssl = self.programs.openssl.clone().ok_or(ServerError::NotInstalled("openssl"))?;
        let mut server = vec![openssl];
        server.extend(config::s_server(settings).into_iter().map(PathBuf::from));
        Ok(server)
    }

    fn nginx(
        &self,
        settings: &Settings<'_>,
        directory: &Path,
    ) -> Result<Vec<PathBuf>, ServerError> {
        let file = directory.join("nginx.conf");
        write(&file, &config::nginx(settings, self.application.as_ref(), directory))?;
        self.programs.nginx_words(directory, file)
    }

    fn haproxy(
        &self,
        settings: &Settings<'_>,
        subject: Subject,
        directory: &Path,
    ) -> Result<Vec<PathBuf>, ServerError> {
        let haproxy = match subject {
            Subject::HaproxyAwsLc => self.haproxy_aws_lc()?,
            _ => self.programs.haproxy.clone().ok_or(ServerError::NotInstalled("haproxy"))?,
        };
        let file = directory.join("haproxy.cfg");
        write(&file, &config::haproxy(settings, subject == Subject::Async))?;
        // Only a worker has a lane process: its keys are loaded before it is forked.
        let mode = if self.lane_cpus_of(subject).is_some() { "-W" } else { "-db" };
        Ok(vec![haproxy, mode.into(), "-f".into(), file])
    }

    fn haproxy_aws_lc(&self) -> Result<PathBuf, ServerError> {
        let reason = match &self.programs.haproxy_aws_lc {
            Built::At(program) => return Ok(program.clone()),
            Built::Missing(reason) => reason.clone(),
            Built::Unwanted => None,
        };
        Err(ServerError::NotBuilt { name: Subject::HaproxyAwsLc.name(), reason })
    }
}

/// Runs a server's own check of its configuration.
pub(super) fn check(command: &mut Command) -> Result<(), ServerError> {
    run(command, |program, output| ServerError::Rejected { program, output })
}

/// Runs `command` to its end; if it fails, an error is made of its name and of what it says. In a
/// group of its own, so that Ctrl-C is no failure of it.
pub(super) fn run(
    command: &mut Command,
    failed: impl FnOnce(String, String) -> ServerError,
) -> Result<(), ServerError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .process_group(0)
        .output()
        .map_err(|source| ServerError::Start { program: program.clone(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let said = if said.trim().is_empty() { "(nothing)" } else { said.as_ref() };
    Err(failed(program, said.to_owned()))
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

pub(super) fn write(path: &Path, text: &str) -> Result<(), ServerError> {
    fs::write(path, text).map_err(|source| ServerError::Directory { path: path.to_owned(), source })
}
