//! Widelane in containers as clusters harden them: an unknown user, no privilege to gain, a root
//! that is read-only, the runtimes' usual seccomp filter; counters on a volume, and the exporter in
//! a container of its own beside the server.

mod bundle;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use self::bundle::{Container, Mount};
use crate::chroot;
use crate::setup::{self, Need, Proof};
use crate::shell::{announce, capture, make_afresh, run, succeeds};
use crate::workspace::Workspace;

/// Users that no image knows.
const SERVER: u32 = 12_345;
const EXPORTER: u32 = 23_456;

/// The example whose configuration of nginx is used.
const EXAMPLE: &str = "packaging/kubernetes/nginx.yaml";

/// Where the volumes are in a container, as in the example.
const COUNTERS: &str = "/run/widelane";
const CONFIGURATION: &str = "/etc/nginx-widelane";
const CERTIFICATE: &str = "/etc/tls";

/// The servers: as the example starts it, and one with the configuration below.
const NGINX: [&str; 5] = ["nginx", "-e", "stderr", "-c", "/etc/nginx-widelane/nginx.conf"];
const HAPROXY: [&str; 3] = ["haproxy", "-f", "/etc/nginx-widelane/haproxy.cfg"];

const HAPROXY_CONFIGURATION: &str = "\
global
    maxconn 512
    nbthread 2
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend tls
    bind :8443 ssl crt /etc/tls/tls.pem
    http-request return status 200
";

/// How often a server is asked whether it listens, and the pause in between.
const ATTEMPTS: u32 = 150;
const PAUSE: Duration = Duration::from_millis(100);

/// What is done in all containers.
struct Yard<'a> {
    workspace: &'a Workspace,
    root: PathBuf,
    files: PathBuf,
}

/// What runs containers, and what is run in them or beside.
const NEEDS: &[Need] = &[
    Need::to_build("runc", Proof::Program("runc")),
    Need::to_build("golang-github-containers-common", Proof::OneOf(&[bundle::SECCOMP])),
    Need::to_build("musl-tools", Proof::Program("musl-gcc")),
    Need::to_build("curl", Proof::Program("curl")),
];

/// Builds the libraries and an image's root, and runs it.
pub fn test(workspace: &Workspace) -> Result<()> {
    setup::run()?;
    setup::meet(chroot::NEEDS.iter().chain(NEEDS))?;
    workspace.build()?;
    let place = workspace.target.join("containers");
    let root = place.join("trixie");
    if !root.exists() {
        fs::create_dir_all(&place)?;
        chroot::bootstrap(&root, "trixie")?;
    }
    chroot::install(&root, "nginx haproxy openssl")?;
    let yard = Yard { workspace, root, files: place.join("files") };
    yard.fill()?;
    yard.accelerated_and_seen(&NGINX)?;
    yard.accelerated_and_seen(&HAPROXY)?;
    yard.without_counters("there is no directory of counters", &[])?;
    let full = Mount::memory(COUNTERS, "size=4k,mode=1777");
    yard.without_counters("the directory of counters is full", &[full])?;
    yard.musl_is_told()?;
    announce("containers: accelerated, counted, seen by the exporter");
    Ok(())
}

impl Yard<'_> {
    /// Puts into the root what packaging/container/Containerfile puts there, and makes the files
    /// that an operator brings.
    fn fill(&self) -> Result<()> {
        let libraries = self.root.join("usr/lib/widelane");
        fs::create_dir_all(&libraries)?;
        for (from, to) in [
            ("widelane", self.root.join("usr/bin/widelane")),
            ("libwidelane.so", libraries.join("widelane.so")),
            ("libwidelane_runtime.so", libraries.join("libwidelane_runtime.so")),
        ] {
            fs::copy(self.workspace.quick(from), to)?;
        }
        for directory in [&COUNTERS[1..], &CONFIGURATION[1..], &CERTIFICATE[1..]] {
            fs::create_dir_all(self.root.join(directory))?;
        }
        let counters = self.root.join(&COUNTERS[1..]);
        fs::set_permissions(counters, PermissionsExt::from_mode(0o1777))?;
        fs::create_dir_all(&self.files)?;
        let example = fs::read_to_string(self.workspace.root.join(EXAMPLE))?;
        fs::write(self.files.join("nginx.conf"), configuration(&example)?)?;
        let [key, certificate] = ["tls.key", "tls.crt"].map(|name| self.files.join(name));
        let mut make = Command::new("openssl");
        make.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]);
        make.args(["-subj", "/CN=localhost", "-keyout"]).arg(&key).arg("-out").arg(&certificate);
        ensure!(succeeds(&mut make), "openssl makes no certificate");
        let both = [&certificate, &key].map(fs::read_to_string).into_iter();
        fs::write(self.files.join("tls.pem"), both.collect::<Result<String, _>>()?)?;
        fs::write(self.files.join("haproxy.cfg"), HAPROXY_CONFIGURATION)?;
        Ok(fs::set_permissions(key, PermissionsExt::from_mode(0o644))?)
    }

    /// A server by the command line `own`, with more mounts.
    fn server(&self, name: &str, own: &[&str], more: &[Mount]) -> Result<Container> {
        let files = |to: &str| Mount::bind(&self.files, to, true);
        let temporary = Mount::memory("/tmp", "mode=1777");
        let mut mounts = vec![temporary, files(CONFIGURATION), files(CERTIFICATE)];
        mounts.extend_from_slice(more);
        let command = ["widelane", "run", "--counters-dir", COUNTERS, "--"];
        let words = [&command[..], own].concat();
        let server = Container::start(name, &self.root, SERVER, &words, &mounts, None)?;
        eventually(|| self.load(&server, "1"))
            .with_context(|| format!("the server does not listen: {}", server.output()))?;
        Ok(server)
    }

    /// Has clients shake hands with the server in its network, and returns their output.
    fn load(&self, server: &Container, connections: &str) -> Result<String> {
        let mut command = server.in_network(&self.workspace.quick("widelane"));
        command.args(["load", "--insecure", "--warm-up", "0s", "--duration", "500ms"]);
        command.args(["--fail-if", "errors>0", "--json", "--connections", connections]);
        capture(command.arg("127.0.0.1:8443"))
    }

    /// The server is accelerated, and an exporter in a container beside it, of another user, shows
    /// it.
    fn accelerated_and_seen(&self, own: &[&str]) -> Result<()> {
        let volume = self.files.join("counters");
        make_afresh(&volume)?;
        fs::set_permissions(&volume, PermissionsExt::from_mode(0o1777))?;
        let server = self.server("server", own, &[Mount::bind(&volume, COUNTERS, false)])?;
        server.check_hardened(SERVER)?;
        self.load(&server, "40")?;
        let words = ["widelane", "exporter", "--counters-dir", COUNTERS];
        let mounts = [Mount::bind(&volume, COUNTERS, true)];
        let beside = Some(&server);
        let exporter = Container::start("exporter", &self.root, EXPORTER, &words, &mounts, beside)?;
        exporter.check_hardened(EXPORTER)?;
        let metrics = self.metrics(&server).with_context(|| exporter.output())?;
        for series in ["widelane_handshakes_total{", "way=\"batched\""] {
            let counted = metrics.lines().filter(|line| line.contains(series)).any(|line| {
                line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap_or(0.0) > 0.0
            });
            ensure!(counted, "the exporter does not show {series}:\n{metrics}");
        }
        announce(&format!("{} and an exporter beside it: accelerated, counted and seen", own[0]));
        Ok(())
    }

    fn metrics(&self, server: &Container) -> Result<String> {
        eventually(|| {
            let mut ask = server.in_network(Path::new("curl"));
            capture(ask.args(["-sS", "http://127.0.0.1:9847/metrics"]))
        })
    }

    /// Where counters cannot be kept, one line says so and what helps, and the server runs.
    fn without_counters(&self, what: &str, mounts: &[Mount]) -> Result<()> {
        let server = self.server("lonely", &NGINX, mounts)?;
        self.load(&server, "40")?;
        let said = server.output();
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("widelane")).collect();
        ensure!(lines.len() == 1, "{what}, and that takes {} lines: {said}", lines.len());
        announce(&format!("{what}: {}", lines[0]));
        Ok(())
    }
}

impl Yard<'_> {
    /// A program of musl, as those of Alpine are, runs as ever, and one line says why.
    fn musl_is_told(&self) -> Result<()> {
        let [source, program] = ["musl.c", "musl"].map(|name| self.files.join(name));
        fs::write(&source, "int main(void) { return 7; }\n")?;
        run(Command::new("musl-gcc").arg("-o").arg(&program).arg(&source))?;
        let mut widelane = Command::new(self.workspace.quick("widelane"));
        let output = widelane.args(["run", "--"]).arg(&program).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(7) && said.lines().count() == 1 && said.contains("musl"),
            "a program of musl ends with {}: {said}",
            output.status
        );
        announce(&format!("musl: {}", said.trim_end()));
        Ok(())
    }
}

/// Asks what a server that starts does not answer at once.
fn eventually<T>(ask: impl Fn() -> Result<T>) -> Result<T> {
    for _ in 0..ATTEMPTS {
        if let Ok(answer) = ask() {
            return Ok(answer);
        }
        sleep(PAUSE);
    }
    ask()
}

/// nginx's configuration in the example.
fn configuration(example: &str) -> Result<String> {
    let (_, rest) = example.split_once("nginx.conf: |\n").context("the example has none")?;
    let lines = rest.lines().map_while(|line| line.strip_prefix("    "));
    Ok(lines.collect::<Vec<_>>().join("\n") + "\n")
}
