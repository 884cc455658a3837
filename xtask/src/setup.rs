//! Installs what the machine lacks, through apt where that is allowed.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail, ensure};

use crate::shell::{announce, announce_and_run, find_program, run as run_command, succeeds};

/// Installs what the machine lacks to build and to compare servers, as [`meet`] does.
pub fn run() -> Result<()> {
    meet(BUILDING.iter().chain(COMPARED))
}

/// The same with what only the tests need.
pub fn run_for_tests() -> Result<()> {
    meet(BUILDING.iter().chain(COMPARED).chain(TESTED))
}

/// Installs what the machine lacks to build, and the needs of one chore.
pub fn run_to_build(more: &[Need]) -> Result<()> {
    meet(BUILDING.iter().chain(more))
}

/// Installs what the machine lacks of `needs`. Without apt or the right to use it, prints the line
/// that an administrator has to run, and fails only if nothing can be built without it, or if
/// continuous integration would pass without tests.
pub fn meet<'a>(needs: impl IntoIterator<Item = &'a Need>) -> Result<()> {
    let lacking: Vec<&Need> = needs.into_iter().filter(|need| !need.is_met()).collect();
    if lacking.is_empty() {
        announce("set-up: nothing lacks");
        return Ok(());
    }
    announce(&format!("set-up: installing {}", packages(&lacking)));
    let Err(error) = install(&lacking) else { return Ok(()) };
    let lacking: Vec<&Need> = lacking.into_iter().filter(|need| !need.is_met()).collect();
    let line = format!("apt-get install {}", packages(&lacking));
    let has_to_have_all = std::env::var_os("CI").is_some();
    if lacking.iter().any(|need| need.to_build || has_to_have_all) {
        bail!("{error:#}; run this as root, then try again:\n\n    {line}\n");
    }
    if !lacking.is_empty() {
        eprintln!("    {error:#}; to have these too, run this as root:\n\n    {line}\n");
    }
    Ok(())
}

fn packages(needs: &[&Need]) -> String {
    needs.iter().map(|need| need.package).collect::<Vec<_>>().join(" ")
}

/// Something that building, testing or comparing takes.
pub struct Need {
    /// Debian's name for it.
    package: &'static str,
    proof: Proof,
    /// Whether nothing can be built without it.
    to_build: bool,
    /// Whether the package starts a service of its name when it is installed.
    is_service: bool,
}

/// How to tell that it is there, however it was installed.
pub enum Proof {
    Program(&'static str),
    OneOf(&'static [&'static str]),
    PkgConfig(&'static str),
    /// That Debian's package is installed, where its files have names of versions.
    Package,
}

impl Need {
    pub const fn to_build(package: &'static str, proof: Proof) -> Self {
        Need { package, proof, to_build: true, is_service: false }
    }

    const fn to_compare(package: &'static str, proof: Proof) -> Self {
        Need { package, proof, to_build: false, is_service: false }
    }

    const fn service(package: &'static str, program: &'static str) -> Self {
        Need { package, proof: Proof::Program(program), to_build: false, is_service: true }
    }

    fn is_met(&self) -> bool {
        match self.proof {
            Proof::Program(name) => find_program(name).is_some(),
            Proof::OneOf(files) => files.iter().any(|file| Path::new(file).exists()),
            Proof::PkgConfig(library) => {
                succeeds(Command::new("pkg-config").args(["--exists", library]))
            }
            Proof::Package => succeeds(Command::new("dpkg").args(["--status", self.package])),
        }
    }
}

/// Installs the packages that apt knows; fails if it does not know some.
fn install(needs: &[&Need]) -> Result<()> {
    if find_program("apt-get").is_none() {
        bail!("there is no apt-get here");
    }
    let Some(prefix) = becoming_root() else { bail!("neither root nor sudo without a password") };
    let root = |words: &[&str]| {
        let mut all = prefix.iter().chain(words);
        let mut command = Command::new(all.next().expect("words name a program"));
        command.args(all);
        command
    };
    announce_and_run(root(&["apt-get", "update", "--quiet=2"]).stdout(Stdio::null()))?;
    let (known, unknown): (Vec<&Need>, Vec<_>) = needs.iter().partition(|need| {
        succeeds(Command::new("apt-get").args(["install", "--simulate", need.package]))
    });
    let mut words = vec!["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install"];
    words.extend(["--yes", "--quiet=2", "--no-install-recommends"]);
    words.extend(known.iter().map(|need| need.package));
    // Even quiet, dpkg has five lines for every package.
    announce_and_run(root(&words).stdout(Stdio::null()))?;
    // Debian starts a server when it installs it. None is wanted on port 80 here.
    for server in known.iter().filter(|need| need.is_service).map(|need| need.package) {
        announce(&format!("set-up: leaving the system's own {server} stopped"));
        if Path::new("/run/systemd/system").exists() {
            run_command(&mut root(&["systemctl", "--quiet", "disable", "--now", server]))?;
        } else if find_program("service").is_some() {
            // Fails where it never started, as in a container.
            succeeds(&mut root(&["service", server, "stop"]));
        }
    }
    ensure!(unknown.is_empty(), "apt cannot install {}", packages(&unknown));
    Ok(())
}

/// What to put before a command to run it as root: nothing, `sudo`, or none if there is no way.
fn becoming_root() -> Option<&'static [&'static str]> {
    if succeeds(Command::new("test").args(["-w", "/var/lib/dpkg"])) {
        Some(&[])
    } else if succeeds(Command::new("sudo").args(["--non-interactive", "true"])) {
        Some(&["sudo", "--non-interactive"])
    } else {
        None
    }
}

/// What building takes, beside the C compiler with which `xtask` was linked.
const BUILDING: &[Need] = &[
    Need::to_build("pkg-config", Proof::Program("pkg-config")),
    Need::to_build("libssl-dev", Proof::PkgConfig("openssl")),
];

/// What a comparison runs.
const COMPARED: &[Need] = &[
    Need::to_compare("openssl", Proof::Program("openssl")),
    Need::service("nginx", "nginx"),
    Need::service("haproxy", "haproxy"),
];

/// Servers, their modules and tools that the tests run, and nothing else. Modules are not for the
/// demo: Debian has an nginx that serves load them.
const TESTED: &[Need] = &[
    Need::to_compare("curl", Proof::Program("curl")),
    Need::to_compare("iptables", Proof::Program("iptables")),
    Need::to_compare(
        "libnginx-mod-http-lua",
        Proof::OneOf(&[
            "/usr/lib/nginx/modules/ngx_http_lua_module.so",
            "/usr/lib64/nginx/modules/ngx_http_lua_module.so",
        ]),
    ),
    Need::to_compare(
        "libnginx-mod-http-brotli-filter",
        Proof::OneOf(&[
            "/usr/lib/nginx/modules/ngx_http_brotli_filter_module.so",
            "/usr/lib64/nginx/modules/ngx_http_brotli_filter_module.so",
        ]),
    ),
    Need::to_compare(
        "libnginx-mod-stream",
        Proof::OneOf(&[
            "/usr/lib/nginx/modules/ngx_stream_module.so",
            "/usr/lib64/nginx/modules/ngx_stream_module.so",
        ]),
    ),
    Need::to_compare(
        "libnginx-mod-mail",
        Proof::OneOf(&[
            "/usr/lib/nginx/modules/ngx_mail_module.so",
            "/usr/lib64/nginx/modules/ngx_mail_module.so",
        ]),
    ),
    Need::service("lighttpd", "lighttpd"),
    Need::to_compare("lighttpd-mod-openssl", Proof::Package),
    Need::service("memcached", "memcached"),
    Need::service("nats-server", "nats-server"),
    Need::to_compare("nftables", Proof::Program("nft")),
    Need::service("prometheus", "prometheus"),
    Need::service("redis-server", "redis-server"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_installs_servers_and_no_module_of_them() {
        let packages = packages(&BUILDING.iter().chain(COMPARED).collect::<Vec<_>>());
        assert_eq!(packages, "pkg-config libssl-dev openssl nginx haproxy");
    }
}
