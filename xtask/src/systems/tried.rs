//! Servers that `widelane compare` cannot ask: TLS begins within their own protocol, or they make a
//! process for each connection, or are the clients.
//!
//! `tried/NAME.sh` starts one on port `$PORT` with `$DIRECTORY/certificate` and `key`, by the words
//! that are its arguments; `tried/client.py` asks it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::System;
use crate::archive::{self, Archive};
use crate::shell::make_afresh;
use crate::workspace::Workspace;
use crate::{chroot, shell};

/// How long one may take, which is started twelve times.
const SECONDS_MAX: u32 = 400;

/// A server by the name of its script.
#[derive(PartialEq, Eq)]
pub struct Tried {
    pub name: &'static str,
    pub title: &'static str,
    /// Packages, and behind | those of newer releases; the version of the first is shown.
    packages: &'static str,
    /// What comes before TLS on its connections or is asked by it, as the client knows it.
    opening: &'static str,
    /// How its program is built, where Debian's own is not on OpenSSL.
    source: Option<Source>,
    /// What it gains and why, or why not.
    pub remark: &'static str,
}

/// A program that `tried/NAME.build` builds from one of Debian's source packages.
#[derive(PartialEq, Eq)]
struct Source {
    package: &'static str,
    /// Where it is in the system then.
    program: &'static str,
}

pub const TRIED: [Tried; 11] = [
    Tried {
        name: "nginx-upstream",
        title: "nginx, TLS to an upstream",
        packages: "nginx",
        opening: "http",
        source: None,
        remark: "Upstream's certificate (RSA) not verified; a client signs nothing. With \
                 verification of a P-256 chain 0.39 on a Zen 5",
    },
    Tried {
        name: "haproxy-backend",
        title: "HAProxy, TLS to a server",
        packages: "haproxy nginx",
        opening: "http",
        source: None,
        remark: "Certificate not verified, as with nginx",
    },
    Tried {
        name: "trafficserver",
        title: "Traffic Server",
        packages: "trafficserver",
        opening: "tls",
        source: None,
        remark: "",
    },
    Tried {
        name: "postgres",
        title: "PostgreSQL",
        packages: "postgresql",
        opening: "postgres",
        source: None,
        remark: "Forks a process for each connection, and a forked process copies more pages",
    },
    Tried {
        name: "mariadb",
        title: "MariaDB",
        packages: "mariadb-server",
        opening: "mysql",
        source: None,
        remark: "A thread for each connection",
    },
    Tried {
        name: "postfix",
        title: "Postfix",
        packages: "postfix",
        opening: "tls",
        source: None,
        remark: "A process for some connections",
    },
    Tried {
        name: "dovecot",
        title: "Dovecot",
        packages: "dovecot-core dovecot-imapd",
        opening: "tls",
        source: None,
        remark: "Executes a login process for each connection, which loads the provider each time",
    },
    Tried {
        name: "exim",
        title: "Exim, built on OpenSSL",
        packages: "exim4-daemon-light gcc make perl libc6-dev libcrypt-dev libssl-dev \
                   libpcre2-dev libdb-dev",
        opening: "tls",
        source: Some(Source { package: "exim4", program: "opt/exim/bin/exim" }),
        remark: "Forks a process for each connection; Debian's own is on GnuTLS",
    },
    Tried {
        name: "openvpn",
        title: "OpenVPN, over TCP",
        packages: "openvpn",
        opening: "openvpn",
        source: None,
        remark: "TLS in memory: no operation waits for others",
    },
    Tried {
        name: "hitch-varnish",
        title: "Varnish behind hitch",
        packages: "varnish hitch | vinyl-cache hitch",
        opening: "https",
        source: None,
        remark: "A request on each connection; CPU is hitch's",
    },
    Tried {
        name: "memcached-reload",
        title: "memcached, with requests",
        packages: "memcached",
        opening: "memcached",
        source: None,
        remark: "A request on each connection; `refresh_certs` instead of a reload",
    },
];

/// Asks a server: its version with what the client found, or why it found nothing.
pub fn run(workspace: &Workspace, root: &Path, system: &System, tried: &Tried) -> Result<Value> {
    let Some(version) = super::install(root, tried.packages)? else {
        return Ok(json!({ "missing": true }));
    };
    if let Some(source) = &tried.source {
        build(workspace, root, system, tried, source)?;
    }
    let counters = workspace.target.join("systems/counters");
    make_afresh(&counters)?;
    fs::set_permissions(&counters, PermissionsExt::from_mode(0o1777))?;
    let [client, script] =
        ["client.py", &format!("{}.sh", tried.name)].map(|name| script(workspace, name));
    let program = workspace.quick("widelane").display().to_string();
    let counters = counters.display().to_string();
    let words = ["python3", &client, &script, tried.opening, &program, &counters];
    let command = chroot::command(root, &[&workspace.root, &workspace.target], &words);
    let output = chroot::within(SECONDS_MAX, &command).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        eprintln!("    {said}");
        let line = said.lines().rev().find(|line| !line.trim().is_empty());
        return Ok(json!({ "version": version, "failure": line.unwrap_or("it said nothing") }));
    }
    let found: Value = serde_json::from_slice(&output.stdout)?;
    Ok(json!({ "version": version, "tried": found, "model": shell::cpu_model() }))
}

/// Builds a server's program in the system at `root`, unless an earlier run has.
fn build(
    workspace: &Workspace,
    root: &Path,
    system: &System,
    tried: &Tried,
    source: &Source,
) -> Result<()> {
    if root.join(source.program).exists() {
        return Ok(());
    }
    let directory = root.with_extension("sources").join(source.package);
    fs::create_dir_all(&directory)?;
    let words = ["--download-only", "--tar-only", source.package];
    let archive = Archive::of(system.suite, root.parent().context("a system is in a directory")?)?;
    archive::fetch_source(&directory, &archive, system.suite, &words)?;
    let archive = archive::fetched(&directory)?.context("apt fetched no archive")?;
    archive::unpack(&archive, &root.join(UNPACKED))?;
    let script = script(workspace, &format!("{}.build", tried.name));
    let words = ["sh", "-euc", "cd \"$1\" && . \"$2\"", "sh", &format!("/{UNPACKED}"), &script];
    shell::run(&mut chroot::command(root, &[&workspace.root, &workspace.target], &words))
}

/// Where a source package is unpacked.
const UNPACKED: &str = "opt/source";

fn script(workspace: &Workspace, name: &str) -> String {
    workspace.root.join("xtask/src/systems/tried").join(name).display().to_string()
}
