//! Servers that `widelane compare` cannot ask: TLS begins within their own protocol, or they make a
//! process for each connection, or are the clients.
//!
//! `tried/NAME.sh` starts one on port `$PORT` with `$DIRECTORY/certificate` and `key`, by the words
//! that are its arguments; `tried/client.py` asks it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use crate::chroot;
use crate::workspace::Workspace;

/// A server by the name of its script.
#[derive(PartialEq, Eq)]
pub struct Tried {
    pub name: &'static str,
    pub title: &'static str,
    /// Debian's packages; the version of the first is told.
    packages: &'static str,
    /// What comes before TLS on its connections, as the client knows it.
    opening: &'static str,
    /// What it gains and why, or why not.
    pub remark: &'static str,
}

pub const TRIED: [Tried; 7] = [
    Tried {
        name: "nginx-upstream",
        title: "nginx, TLS to an upstream",
        packages: "nginx",
        opening: "http",
        remark: "Key pairs made in advance, key schedule; a client signs nothing",
    },
    Tried {
        name: "haproxy-backend",
        title: "HAProxy, TLS to a server",
        packages: "haproxy nginx",
        opening: "http",
        remark: "The same",
    },
    Tried {
        name: "trafficserver",
        title: "Traffic Server",
        packages: "trafficserver",
        opening: "tls",
        remark: "",
    },
    Tried {
        name: "postgres",
        title: "PostgreSQL",
        packages: "postgresql",
        opening: "postgres",
        remark: "Forks a process for each connection, and a forked process copies more pages",
    },
    Tried {
        name: "mariadb",
        title: "MariaDB",
        packages: "mariadb-server",
        opening: "mysql",
        remark: "A thread for each connection",
    },
    Tried {
        name: "postfix",
        title: "Postfix",
        packages: "postfix",
        opening: "tls",
        remark: "A process for some connections",
    },
    Tried {
        name: "dovecot",
        title: "Dovecot",
        packages: "dovecot-core dovecot-imapd",
        opening: "tls",
        remark: "Executes a login process for each connection, which loads the provider each time",
    },
];

/// Asks a server: its version with what the client found, or why it found nothing.
pub fn run(workspace: &Workspace, root: &Path, tried: &Tried) -> Result<Value> {
    let Some(version) = super::install(root, tried.packages)? else {
        return Ok(json!({ "missing": true }));
    };
    let counters = workspace.target.join("systems/counters");
    let _ = fs::remove_dir_all(&counters);
    fs::create_dir_all(&counters)?;
    fs::set_permissions(&counters, PermissionsExt::from_mode(0o1777))?;
    let scripts = workspace.root.join("xtask/src/systems/tried");
    let [client, script] = ["client.py", &format!("{}.sh", tried.name)]
        .map(|name| scripts.join(name).display().to_string());
    let program = workspace.quick("widelane").display().to_string();
    let counters = counters.display().to_string();
    let words = ["python3", &client, &script, tried.opening, &program, &counters];
    let command = chroot::command(root, &[&workspace.root, &workspace.target], &words);
    let output = chroot::within(super::SECONDS_MAX, &command).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        eprintln!("    {said}");
        let line = said.lines().rev().find(|line| !line.trim().is_empty());
        return Ok(json!({ "version": version, "failure": line.unwrap_or("it said nothing") }));
    }
    let found: Value = serde_json::from_slice(&output.stdout)?;
    Ok(json!({ "version": version, "tried": found }))
}
