//! `widelane enable`, `disable` and `status` on a system of their own in a directory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use assert_cmd::prelude::*;
use widelane_testkit::program;

use crate::widelane;

/// Debian 12's unit of nginx, shortened.
const NGINX_UNIT: &str = "\
[Unit]
Description=A high performance web server and a reverse proxy server
[Service]
Type=forking
PIDFile=/run/nginx.pid
ExecStartPre=/usr/sbin/nginx -t -q -g 'daemon on; master_process on;'
ExecStart=/usr/sbin/nginx -g 'daemon on; master_process on;'
[Install]
WantedBy=multi-user.target
";

const DROP_IN: &str = "etc/systemd/system/nginx.service.d/widelane.conf";

/// A system with a unit of nginx, a program that is linked as nginx is, and our libraries.
struct System {
    directory: tempfile::TempDir,
}

impl System {
    /// None where no program is installed that could stand for nginx.
    fn new() -> Option<Self> {
        let server = Path::new("/usr/bin/openssl");
        if !server.exists() {
            eprintln!("openssl is not installed: nothing was tested");
            return None;
        }
        let system = System { directory: tempfile::tempdir().unwrap() };
        for path in ["etc/systemd/system", "etc/tmpfiles.d", "usr/sbin"] {
            fs::create_dir_all(system.path(path)).unwrap();
        }
        system.write("lib/systemd/system/nginx.service", NGINX_UNIT);
        system.write("usr/lib/widelane/widelane.so", "");
        system.write("usr/lib/widelane/libwidelane_runtime.so", "");
        program::install(server, &system.path("usr/sbin/nginx"));
        Some(system)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = widelane()
            .args(arguments)
            .arg("--root")
            .arg(self.directory.path())
            .env("WIDELANE_LIBRARY_DIR", self.path("usr/lib/widelane"))
            .env("WIDELANE_COUNTERS_DIR", self.path("run/widelane"))
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    fn done(&self, arguments: &[&str]) -> String {
        let (done, text) = self.run(arguments);
        assert!(done, "{arguments:?}: {text}");
        text
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let (done, text) = self.run(arguments);
        assert!(!done, "{arguments:?}: {text}");
        text
    }

    /// Every file and directory with its mode and contents.
    fn tree(&self) -> BTreeMap<PathBuf, (u32, Option<Vec<u8>>)> {
        let mut tree = BTreeMap::new();
        let mut left = vec![self.directory.path().to_owned()];
        while let Some(path) = left.pop() {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            if path.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                tree.insert(path, (mode, None));
            } else {
                tree.insert(path.clone(), (mode, Some(fs::read(path).unwrap())));
            }
        }
        tree
    }
}

#[test]
fn nor_is_a_directory_left_that_was_made_for_tmpfiles() {
    let Some(system) = System::new() else { return };
    fs::remove_dir(system.path("etc/tmpfiles.d")).unwrap();
    let before = system.tree();
    system.done(&["enable", "nginx"]);
    assert!(system.path("etc/tmpfiles.d/widelane.conf").exists());
    system.done(&["disable", "nginx"]);
    assert_eq!(system.tree(), before);
}

#[test]
fn what_is_enabled_can_be_disabled_without_a_trace() {
    let Some(system) = System::new() else { return };
    let before = system.tree();

    let shown = system.done(&["enable", "nginx", "--dry-run"]);
    assert!(shown.contains("Would write") && shown.contains("LD_PRELOAD="), "{shown}");
    assert_eq!(system.tree(), before, "a dry run changes nothing");

    let said = system.done(&["enable", "nginx"]);
    assert!(said.contains("systemctl restart nginx"), "{said}");
    let text = fs::read_to_string(system.path(DROP_IN)).unwrap();
    for line in [
        "Environment=\"LD_PRELOAD=/usr/lib/widelane/libwidelane_runtime.so\"\n",
        "Environment=\"WIDELANE_PROVIDER=/usr/lib/widelane/widelane.so\"\n",
        "Environment=\"WIDELANE_COUNTERS_DIR=/run/widelane\"\n",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    let enabled = system.tree();
    assert!(system.done(&["enable", "nginx.service"]).contains("Nothing to change"));
    assert_eq!(system.tree(), enabled);
    let status = system.done(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!((&status[0]["service"], &status[0]["enabled"]), (&"nginx".into(), &true.into()));

    system.done(&["disable", "nginx"]);
    assert_eq!(system.tree(), before);
    assert!(system.done(&["disable", "nginx"]).contains("Nothing to change"));
    assert_eq!(system.tree(), before);
}

#[test]
fn what_others_wrote_stays() {
    let Some(system) = System::new() else { return };
    system.write(DROP_IN, "[Service]\nNice=5\n");
    let before = system.tree();
    for command in ["enable", "disable"] {
        assert!(system.refused(&[command, "nginx"]).contains("widelane.conf"));
        assert_eq!(system.tree(), before);
    }
    fs::remove_file(system.path(DROP_IN)).unwrap();

    let others = "etc/systemd/system/nginx.service.d/limits.conf";
    system.write(others, "[Service]\nLimitNOFILE=9\nEnvironment=LD_PRELOAD=/usr/lib/a.so\n");
    let before = system.tree();
    system.done(&["enable", "nginx"]);
    let text = fs::read_to_string(system.path(DROP_IN)).unwrap();
    assert!(text.contains("libwidelane_runtime.so:/usr/lib/a.so\""), "{text}");
    system.done(&["disable", "nginx"]);
    assert_eq!(system.tree(), before);
}

#[test]
fn an_edited_drop_in_belongs_to_who_edited_it() {
    let Some(system) = System::new() else { return };
    system.done(&["enable", "nginx"]);
    let text = fs::read_to_string(system.path(DROP_IN)).unwrap();
    system.write(DROP_IN, &format!("{text}Nice=5\n"));
    let edited = system.tree();
    assert!(system.refused(&["disable", "nginx"]).contains("edited"));
    assert!(system.done(&["status"]).contains("yes, edited"));
    assert_eq!(system.tree(), edited);
}

#[test]
fn what_cannot_be_accelerated_is_not_enabled() {
    let Some(system) = System::new() else { return };
    let before = system.tree();
    assert!(system.refused(&["enable", "haproxy"]).contains("no service haproxy"));
    assert!(system.refused(&["disable", "nosuch"]).contains("there is no service nosuch"));
    assert!(system.refused(&["enable", "../nginx"]).contains("letters, digits"));
    assert_eq!(system.tree(), before);
    program::install(Path::new("/sbin/ldconfig"), &system.path("usr/sbin/nginx"));
    assert!(system.refused(&["enable", "nginx"]).contains("statically linked"));
    widelane().args(["enable"]).assert().code(2);
}

#[test]
fn a_policy_is_one_that_the_server_can_read() {
    let Some(system) = System::new() else { return };
    let before = system.tree();
    let said = system.refused(&["enable", "nginx", "--policy", "/etc/widelane/narrow.toml"]);
    assert!(said.contains("narrow.toml; correct --policy"), "{said}");
    assert_eq!(system.tree(), before);
    system.write("etc/widelane/narrow.toml", "width_max = 256\n");
    let outside = system.path("etc/widelane/narrow.toml");
    for path in ["/etc/widelane/narrow.toml", outside.to_str().unwrap()] {
        system.done(&["enable", "nginx", "--policy", path, "--max-simd-bitwidth", "128"]);
        let text = fs::read_to_string(system.path(DROP_IN)).unwrap();
        for line in ["POLICY=/etc/widelane/narrow.toml\"\n", "MAX_SIMD_BITWIDTH=128\"\n"] {
            assert!(text.contains(&format!("Environment=\"WIDELANE_{line}")), "{text}");
        }
    }
}

/// Debian's apache2 is started by a script, and its rsyslog loads TLS later.
#[test]
fn a_service_that_starts_or_loads_its_server_is_enabled_with_a_remark() {
    let Some(system) = System::new() else { return };
    program::install(Path::new("/bin/sh"), &system.path("usr/sbin/nginx"));
    let said = system.done(&["enable", "nginx"]);
    assert!(said.contains("/usr/sbin/nginx is not linked with OpenSSL 3 itself"), "{said}");
    assert!(system.path(DROP_IN).exists());
}

/// A library that this process has loaded, and others can.
fn any_library() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    path.map(PathBuf::from).find(|path| path.ends_with("libgcc_s.so.1")).expect("of every program")
}

#[test]
fn status_tells_what_was_not_started_again_from_what_has_no_handshakes() {
    let Some(system) = System::new() else { return };
    let program = system.path("usr/sbin/trial-server");
    program::install(Path::new("/usr/bin/openssl"), &program);
    system.write(
        "lib/systemd/system/trial-server.service",
        "[Service]\nExecStart=/usr/sbin/trial-server dgst\n",
    );
    system.done(&["enable", "trial-server"]);
    let library = system.path("usr/lib/widelane/libwidelane_runtime.so");
    fs::copy(any_library(), &library).unwrap();
    for (preload, expected) in [
        (None, ["systemctl restart trial-server", "something keeps LD_PRELOAD"]),
        (Some(&library), ["no handshake came to it yet", "journalctl -u trial-server"]),
    ] {
        let mut server = Command::new(&program);
        server.arg("dgst").stdin(Stdio::piped()).stdout(Stdio::null());
        let mut server = server.envs(preload.map(|path| ("LD_PRELOAD", path))).spawn().unwrap();
        // What is preloaded comes before the libraries that it is linked with.
        let maps = format!("/proc/{}/maps", server.id());
        let end = Instant::now() + Duration::from_secs(30);
        while !fs::read_to_string(&maps).unwrap().contains("libcrypto") && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        let said = system.done(&["status", "--json"]);
        drop(server.stdin.take());
        server.wait().unwrap();
        for part in expected {
            assert!(said.contains(part), "{part} is missing in {said}");
        }
    }
}
