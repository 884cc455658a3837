//! One container: a bundle as the Open Container Initiative has it, run by runc.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::shell::{capture, run};

/// The filter that Podman and CRI-O apply by default; Docker's and containerd's differ from it in
/// what takes privileges.
pub const SECCOMP: &str = "/usr/share/containers/seccomp.json";

/// What is mounted into a container.
#[derive(Clone)]
pub struct Mount(Value);

impl Mount {
    /// A directory of this machine.
    pub fn bind(from: &Path, to: &str, is_read_only: bool) -> Self {
        let access = if is_read_only { "ro" } else { "rw" };
        let options = ["rbind", access, "nosuid", "nodev"];
        Mount(json!({ "type": "bind", "source": from, "destination": to, "options": options }))
    }

    /// Memory.
    pub fn memory(to: &str, options: &str) -> Self {
        let options: Vec<&str> = options.split(',').chain(["nosuid", "nodev"]).collect();
        Mount(json!({ "type": "tmpfs", "source": "tmpfs", "destination": to, "options": options }))
    }
}

/// A running container; ends when dropped.
pub struct Container {
    name: String,
    pid: u32,
    bundle: PathBuf,
}

impl Container {
    /// Runs `words` as `user` in a container on `root`; `beside` another one, in its network and
    /// among its processes.
    pub fn start(
        name: &str,
        root: &Path,
        user: u32,
        words: &[&str],
        mounts: &[Mount],
        beside: Option<&Container>,
    ) -> Result<Self> {
        let bundle = root.with_file_name(name);
        fs::create_dir_all(&bundle)?;
        let configuration = configuration(root, user, words, mounts, beside)?;
        fs::write(bundle.join("config.json"), serde_json::to_string_pretty(&configuration)?)?;
        let name = format!("widelane-{name}-{}", std::process::id());
        let (output, pid_file) = (bundle.join("output"), bundle.join("pid"));
        let output = File::create(output)?;
        let mut command = Command::new("runc");
        command.args(["run", "--detach", "--pid-file"]);
        command.arg(&pid_file).arg("--bundle").arg(&bundle).arg(&name);
        let status = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .status()
            .context("cannot start runc")?;
        let said = || fs::read_to_string(bundle.join("output")).unwrap_or_default();
        ensure!(status.success(), "runc does not start {name}: {}", said());
        let pid = fs::read_to_string(&pid_file)?.trim().parse().context("runc's pid file")?;
        let container = Container { name, pid, bundle };
        if beside.is_none() {
            run(container.in_network(Path::new("ip")).args(["link", "set", "lo", "up"]))?;
        }
        Ok(container)
    }

    /// A program of this machine in the container's network.
    pub fn in_network(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.pid)).arg(program);
        command
    }

    /// What the container has written.
    pub fn output(&self) -> String {
        fs::read_to_string(self.bundle.join("output")).unwrap_or_default()
    }

    /// Makes sure that the kernel holds it to what was asked for.
    pub fn check_hardened(&self, user: u32) -> Result<()> {
        let status = capture(Command::new("cat").arg(format!("/proc/{}/status", self.pid)))?;
        let has = |name: &str, value: &str| {
            status.lines().any(|line| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.split_whitespace().any(|it| it == value))
            })
        };
        let is_so = has("Uid:", &user.to_string())
            && has("NoNewPrivs:", "1")
            && has("Seccomp:", "2")
            && has("CapEff:", "0000000000000000");
        ensure!(is_so, "{} is not as hardened as it should be:\n{status}", self.name);
        Ok(())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("runc").args(["delete", "--force", &self.name])) {
            eprintln!("    {error:#}");
        }
    }
}

fn configuration(
    root: &Path,
    user: u32,
    words: &[&str],
    mounts: &[Mount],
    beside: Option<&Container>,
) -> Result<Value> {
    let namespace = |kind: &str, name: &str| match beside {
        Some(other) => json!({ "type": kind, "path": format!("/proc/{}/ns/{name}", other.pid) }),
        None => json!({ "type": kind }),
    };
    let mut all = vec![
        json!({ "type": "proc", "source": "proc", "destination": "/proc" }),
        json!({
            "type": "tmpfs", "source": "tmpfs", "destination": "/dev",
            "options": ["nosuid", "noexec"],
        }),
    ];
    all.extend(mounts.iter().map(|Mount(mount)| mount.clone()));
    let nothing: [&str; 0] = [];
    Ok(json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": user, "gid": user },
            "args": words,
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "cwd": "/",
            "noNewPrivileges": true,
            "capabilities": {
                "bounding": nothing, "effective": nothing, "permitted": nothing,
            },
        },
        "root": { "path": root, "readonly": true },
        "mounts": all,
        "linux": {
            "namespaces": [
                namespace("pid", "pid"),
                namespace("network", "net"),
                { "type": "mount" }, { "type": "ipc" }, { "type": "uts" },
            ],
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"],
            "seccomp": seccomp(&serde_json::from_str(&fs::read_to_string(SECCOMP)?)?),
        },
    }))
}

/// The filter as runtimes read it: what it says for this architecture and no capabilities.
fn seccomp(filter: &Value) -> Value {
    let list = |rule: &Value, which: &str, what: &str| {
        rule[which][what].as_array().cloned().unwrap_or_default()
    };
    let applies = |rule: &&Value| {
        let architectures = list(rule, "includes", "arches");
        list(rule, "includes", "caps").is_empty()
            && (architectures.is_empty() || architectures.iter().any(|name| name == "amd64"))
    };
    let rules = filter["syscalls"].as_array().into_iter().flatten().filter(applies).map(|rule| {
        let arguments = rule["args"].as_array().cloned().unwrap_or_default();
        let mut rule = json!({
            "names": rule["names"], "action": rule["action"], "errnoRet": rule["errnoRet"],
            "args": arguments,
        });
        if rule["errnoRet"].is_null() {
            rule.as_object_mut().map(|rule| rule.remove("errnoRet"));
        }
        rule
    });
    json!({
        "defaultAction": filter["defaultAction"],
        "defaultErrnoRet": filter["defaultErrnoRet"],
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": rules.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_keeps_what_applies_here() {
        let filter = json!({
            "defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38,
            "syscalls": [
                { "names": ["read"], "action": "SCMP_ACT_ALLOW", "args": null },
                { "names": ["bpf"], "action": "SCMP_ACT_ALLOW",
                  "includes": { "caps": ["CAP_SYS_ADMIN"] } },
                { "names": ["arch_prctl"], "action": "SCMP_ACT_ALLOW",
                  "includes": { "arches": ["amd64"] } },
                { "names": ["breakpoint"], "action": "SCMP_ACT_ALLOW",
                  "includes": { "arches": ["arm"] } },
            ],
        });
        let filter = seccomp(&filter);
        let rules = filter["syscalls"].as_array().unwrap();
        let names: Vec<&Value> = rules.iter().map(|rule| &rule["names"][0]).collect();
        assert_eq!(names, ["read", "arch_prctl"]);
        assert!(rules[0].get("errnoRet").is_none());
    }
}
