//! `widelane enable`, `disable` and `status` on a system of their own in a directory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

const NGINX: &str = "usr/sbin/nginx";
pub const DROP_IN: &str = "etc/systemd/system/nginx.service.d/widelane.conf";

/// A system with a unit of nginx, a program that is linked as nginx is, and our libraries.
pub struct System {
    pub directory: tempfile::TempDir,
}

impl System {
    /// None where no program is installed that could stand for nginx.
    pub fn new() -> Option<Self> {
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

    pub fn path(&self, path: &str) -> PathBuf {
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

/// An image's links lead to places in it.
#[test]
fn links_of_an_image_do_not_lead_out_of_it() {
    let Some(system) = System::new() else { return };
    let outside = tempfile::tempdir().unwrap();
    for (link, place) in [("etc/tmpfiles.d", "tmpfiles"), ("etc/systemd/system", "units")] {
        let target = outside.path().join(place);
        let within = system.path(target.strip_prefix("/").unwrap().to_str().unwrap());
        fs::create_dir_all(&target).unwrap();
        fs::create_dir_all(&within).unwrap();
        fs::remove_dir(system.path(link)).unwrap();
        symlink(&target, system.path(link)).unwrap();
    }
    let count = |directory: &Path| {
        ["tmpfiles", "units"].map(|place| fs::read_dir(directory.join(place)).unwrap().count())
    };
    let within = system.path(outside.path().strip_prefix("/").unwrap().to_str().unwrap());
    system.done(&["enable", "nginx"]);
    assert_eq!((count(outside.path()), count(&within)), ([0, 0], [1, 1]));
    assert!(within.join("units/nginx.service.d/widelane.conf").exists());
    let status: serde_json::Value =
        serde_json::from_str(&system.done(&["status", "--json"])).unwrap();
    assert_eq!((&status[0]["service"], &status[0]["enabled"]), (&"nginx".into(), &true.into()));
    system.done(&["disable", "nginx"]);
    assert_eq!((count(outside.path()), count(&within)), ([0, 0], [0, 0]));

    // A link in the place of a file of ours is none of ours.
    let file = outside.path().join("file");
    fs::write(&file, "").unwrap();
    fs::create_dir(within.join("units/nginx.service.d")).unwrap();
    symlink(&file, within.join("units/nginx.service.d/widelane.conf")).unwrap();
    symlink("/dev/null", within.join("tmpfiles/widelane.conf")).unwrap();
    for command in ["enable", "disable"] {
        assert!(system.refused(&[command, "nginx"]).contains("widelane.conf"));
    }
    fs::remove_file(within.join("units/nginx.service.d/widelane.conf")).unwrap();
    system.done(&["enable", "nginx"]);
    assert!(within.join("tmpfiles/widelane.conf").is_symlink());
    assert_eq!(fs::read(&file).unwrap(), b"");
}

#[test]
fn a_second_name_of_a_service_is_led_back_to_its_own() {
    let Some(system) = System::new() else { return };
    let units = system.path("etc/systemd/system");
    symlink("/lib/systemd/system/nginx.service", units.join("haproxy.service")).unwrap();
    let said = system.done(&["enable", "haproxy"]);
    assert!(said.contains("haproxy is another name of nginx"), "{said}");
    assert!(said.contains("nginx is accelerated when the system in "), "{said}");
    assert!(system.path(DROP_IN).exists() && !units.join("haproxy.service.d").exists());
    let status: serde_json::Value =
        serde_json::from_str(&system.done(&["status", "--json"])).unwrap();
    assert_eq!(status.as_array().unwrap().len(), 1, "{status}");
    assert_eq!((&status[0]["service"], &status[0]["enabled"]), (&"nginx".into(), &true.into()));

    // The version before this one wrote it beside the second name.
    fs::rename(units.join("nginx.service.d"), units.join("haproxy.service.d")).unwrap();
    system.done(&["disable", "haproxy"]);
    assert!(!units.join("haproxy.service.d").exists());
    system.done(&["enable", "haproxy"]);
    system.done(&["disable", "haproxy"]);
    assert!(!system.path(DROP_IN).exists());
}

#[test]
fn what_is_enabled_can_be_disabled_without_a_trace() {
    let Some(system) = System::new() else { return };
    let before = system.tree();

    let shown = system.done(&["enable", "nginx", "--dry-run"]);
    assert!(shown.contains("Would write") && shown.contains("LD_PRELOAD="), "{shown}");
    assert_eq!(system.tree(), before, "a dry run changes nothing");

    let said = system.done(&["enable", "nginx"]);
    let root = system.directory.path().canonicalize().unwrap();
    let starts = format!("when the system in {} starts it\n", root.display());
    assert!(said.contains(&starts) && !said.contains("systemctl"), "{said}");
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
    let status = system.done(&["status"]);
    assert!(status.contains("nginx would run unchanged: it is statically linked"), "{status}");
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

/// A package of a distribution may come to be built otherwise.
#[test]
fn status_tells_of_a_service_that_can_no_longer_be_accelerated() {
    let Some(system) = System::new() else { return };
    system.done(&["enable", "nginx"]);
    program::install(Path::new("/sbin/ldconfig"), &system.path(NGINX));
    let said = system.done(&["status"]);
    let expected = "nginx runs unchanged: it is statically linked; `widelane disable nginx --root";
    assert!(said.contains(expected), "{said}");
}

/// systemd reads our drop-in last, so that it holds what the unit said when it was written.
#[test]
fn status_tells_of_a_drop_in_that_is_out_of_date() {
    let Some(system) = System::new() else { return };
    system.done(&["enable", "nginx", "--wait-max", "2ms"]);
    let advice = || {
        let status: serde_json::Value =
            serde_json::from_str(&system.done(&["status", "--json"])).unwrap();
        status[0]["advice"].as_str().map(str::to_owned)
    };
    assert_eq!(advice(), None);
    let others = "etc/systemd/system/nginx.service.d/others.conf";
    for setting in
        ["Environment=LD_PRELOAD=/usr/lib/jemalloc.so", "ProtectSystem=strict", "PrivatePIDs=yes"]
    {
        system.write(others, &format!("[Service]\n{setting}\n"));
        let said = advice().unwrap_or_default();
        assert!(said.starts_with("its unit has changed since"), "{setting}: {said}");
        system.done(&["enable", "nginx", "--wait-max", "2ms"]);
        assert_eq!(advice(), None, "{setting}");
    }
    fs::rename(system.path("usr/lib/widelane"), system.path("usr/lib/elsewhere")).unwrap();
    let said = advice().unwrap_or_default();
    assert!(said.contains("/usr/lib/widelane/libwidelane_runtime.so, which is not"), "{said}");
}

/// Debian's apache2 is started by a script, and its rsyslog loads TLS later.
#[test]
fn a_service_that_starts_or_loads_its_server_is_enabled_with_a_remark() {
    let Some(system) = System::new() else { return };
    program::install(Path::new("/bin/sh"), &system.path("usr/sbin/nginx"));
    let said = system.done(&["enable", "nginx"]);
    assert!(said.contains("/usr/sbin/nginx does not link OpenSSL 3 or later itself"), "{said}");
    assert!(system.path(DROP_IN).exists());
}

#[test]
fn libraries_that_the_system_does_not_have_are_refused() {
    let Some(system) = System::new() else { return };
    fs::remove_dir_all(system.path("usr/lib/widelane")).unwrap();
    let before = system.tree();
    let outside = tempfile::tempdir().unwrap();
    for name in ["widelane.so", "libwidelane_runtime.so"] {
        fs::write(outside.path().join(name), "").unwrap();
    }
    let enable = |directory: &Path| {
        let mut command = widelane();
        command.args(["enable", "nginx", "--root"]).arg(system.directory.path());
        let output = command.env("WIDELANE_LIBRARY_DIR", directory).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let root = system.directory.path().canonicalize().unwrap();
    let (done, said) = enable(outside.path());
    assert!(!done && said.contains(&format!("install widelane into {} first", root.display())));
    assert_eq!(system.tree(), before);
    // Those of this system stand in the same place, or in that of packages, in the other one.
    let inside = outside.path().strip_prefix("/").unwrap();
    for place in [inside, Path::new("usr/local/lib/widelane")] {
        for name in ["widelane.so", "libwidelane_runtime.so"] {
            system.write(place.join(name).to_str().unwrap(), "");
        }
        let (done, said) = enable(outside.path());
        let text = fs::read_to_string(system.path(DROP_IN)).unwrap();
        let line = format!("LD_PRELOAD=/{}/libwidelane_runtime.so\"", place.display());
        assert!(done && text.contains(&line), "{said}{text}");
        fs::remove_dir_all(system.path(place.to_str().unwrap())).unwrap();
    }
}

/// The user of a service gains by file capabilities, as root does not.
#[test]
fn a_service_is_judged_as_its_user() {
    let Some(system) = System::new() else { return };
    let settings = "etc/systemd/system/nginx.service.d/user.conf";
    let library = system.path("usr/lib/widelane/libwidelane_runtime.so");
    let set_mode = |mode: u32| {
        fs::set_permissions(&library, fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::set_permissions(system.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    system.write(settings, "[Service]\nUser=www-data\n");
    set_mode(0o600);
    let said = system.refused(&["enable", "nginx"]);
    assert!(said.contains("libwidelane_runtime.so is closed to its user"), "{said}");
    set_mode(0o644);
    system.write("etc/widelane/policy.toml", "width_max = 256\n");
    let policy = system.path("etc/widelane");
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o700)).unwrap();
    let said = system.refused(&["enable", "nginx"]);
    assert!(said.contains("etc/widelane is closed to its user"), "{said}");
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o755)).unwrap();
    let lane = ["enable", "nginx", "--lane-cpus", "0", "--lane-user", "lane"];
    assert!(system.refused(&lane).contains("nginx does not start as root"));
    system.done(&["enable", "nginx"]);
    system.done(&["disable", "nginx"]);

    let set =
        Command::new("setcap").arg("cap_net_bind_service=ep").arg(system.path(NGINX)).status();
    if !set.is_ok_and(|status| status.success()) {
        eprintln!("no file can be given capabilities: they were not tested");
        return;
    }
    let said = system.refused(&["enable", "nginx"]);
    assert!(said.contains("its file capabilities"), "{said}");
    fs::remove_file(system.path(settings)).unwrap();
    system.done(&["enable", "nginx"]);
}

#[test]
fn what_is_written_can_be_read_whatever_the_umask_is() {
    let Some(system) = System::new() else { return };
    fs::remove_dir(system.path("etc/tmpfiles.d")).unwrap();
    let mut shell = Command::new("sh");
    let script = "umask 077; exec \"$0\" enable nginx --root \"$1\"";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_widelane")]).arg(system.directory.path());
    shell.env("WIDELANE_LIBRARY_DIR", system.path("usr/lib/widelane"));
    assert!(shell.output().unwrap().status.success());
    for (path, mode) in [
        (DROP_IN, 0o644),
        ("etc/systemd/system/nginx.service.d", 0o755),
        ("etc/tmpfiles.d/widelane.conf", 0o644),
        ("etc/tmpfiles.d", 0o755),
    ] {
        let permissions = fs::metadata(system.path(path)).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, mode, "{path}");
    }
}

#[test]
fn a_template_and_its_instances_are_enabled() {
    let Some(system) = System::new() else { return };
    system.write(
        "lib/systemd/system/many@.service",
        "[Service]\nExecStart=\"/opt/the %i/nginx\" -g 'daemon off;'\n",
    );
    let said = system.refused(&["enable", "many@web"]);
    assert!(said.contains("/opt/the web/nginx cannot be read (No such file"), "{said}");
    fs::create_dir_all(system.path("opt/the web")).unwrap();
    fs::copy(system.path(NGINX), system.path("opt/the web/nginx")).unwrap();
    let said = system.done(&["enable", "many@web"]);
    assert!(said.contains("many@web is accelerated when"), "{said}");
    let said = system.done(&["enable", "many@"]);
    assert!(said.contains("Only systemd can resolve"), "{said}");
    assert!(system.path("etc/systemd/system/many@.service.d/widelane.conf").exists());
}

/// Processes of the same name that run here are not those of another system.
#[test]
fn status_of_another_system_tells_of_no_processes() {
    let Some(system) = System::new() else { return };
    let name = "widelane-other-system";
    let program = system.path(&format!("usr/sbin/{name}"));
    program::install(Path::new("/usr/bin/openssl"), &program);
    system.write(
        &format!("lib/systemd/system/{name}.service"),
        &format!("[Service]\nExecStart=/usr/sbin/{name} dgst\n"),
    );
    system.done(&["enable", name]);
    let mut server = Command::new(&program);
    let mut server =
        server.arg("dgst").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let said = system.done(&["status", "--json"]);
    drop(server.stdin.take());
    server.wait().unwrap();
    let status: serde_json::Value = serde_json::from_str(&said).unwrap();
    let services = status.as_array().unwrap();
    let of = |name: &str| services.iter().find(|it| it["service"] == name).unwrap();
    assert_eq!((&of(name)["enabled"], &of(name)["processes"]), (&true.into(), &0.into()));
    assert!(of(name)["advice"].is_null(), "{said}");
    let root = system.directory.path().canonicalize().unwrap();
    let advice = format!("`widelane enable nginx --root {}` accelerates it", root.display());
    assert_eq!(of("nginx")["advice"], advice);
}

/// A drop-in of a template is for all instances, unless one has a link to `/dev/null` instead.
#[test]
fn an_instance_that_its_template_accelerates_is_told_so() {
    let Some(system) = System::new() else { return };
    system.write("lib/systemd/system/many@.service", NGINX_UNIT);
    system.done(&["enable", "many@"]);
    system.done(&["enable", "many@a", "--wait-max", "2ms"]);
    let root = system.directory.path().canonicalize().unwrap();
    let told = format!(
        "many@a is accelerated by the drop-in of many@: `widelane disable many@ --root {}` is for \
         all instances",
        root.display()
    );
    for _ in 0..2 {
        let said = system.done(&["disable", "many@a"]);
        assert!(said.contains(&told) && !said.contains("runs as it was"), "{said}");
    }
    let own = system.path("etc/systemd/system/many@a.service.d");
    fs::create_dir(&own).unwrap();
    symlink("/dev/null", own.join("widelane.conf")).unwrap();
    assert_eq!(system.done(&["disable", "many@a"]), "Nothing to change.\n");
    let enabled: serde_json::Value =
        serde_json::from_str(&system.done(&["status", "--json"])).unwrap();
    let names = enabled.as_array().unwrap().iter().filter(|it| it["enabled"] == true);
    assert_eq!(names.map(|it| &it["service"]).collect::<Vec<_>>(), ["many@"]);
    // Somebody wants it so.
    let said = system.refused(&["enable", "many@a"]);
    assert!(said.contains("the drop-in of many@a is masked by a link to /dev/null"), "{said}");
    system.done(&["enable", "many@b"]);
    for beginning in ["many@ runs as it was", "Nothing to change"] {
        let said = system.done(&["disable", "many@"]);
        assert!(said.contains(beginning), "{said}");
        let own = format!("accelerated: `widelane disable many@b --root {}`\n", root.display());
        assert!(said.contains("many@b has a drop-in of its own") && said.ends_with(&own), "{said}");
    }
    system.done(&["disable", "many@b"]);
    assert!(!system.path("etc/tmpfiles.d/widelane.conf").exists());
}

#[test]
fn status_does_not_recommend_what_enable_refuses() {
    let Some(system) = System::new() else { return };
    let drop_in = system.path(DROP_IN);
    fs::create_dir(drop_in.parent().unwrap()).unwrap();
    symlink("/dev/null", &drop_in).unwrap();
    let status: serde_json::Value =
        serde_json::from_str(&system.done(&["status", "--json"])).unwrap();
    assert_eq!((&status[0]["service"], &status[0]["enabled"]), (&"nginx".into(), &false.into()));
    let root = system.directory.path().canonicalize().unwrap();
    let path = root.join(DROP_IN);
    let masked = format!("masked by a link to /dev/null: remove {} to enable it", path.display());
    assert_eq!(status[0]["advice"], masked);
    assert!(system.refused(&["enable", "nginx"]).contains(&masked));
    fs::remove_file(&drop_in).unwrap();
    system.done(&["enable", "nginx"]);
}

/// Stateless images have units in `/usr` only.
#[test]
fn an_image_without_directories_of_its_operator_gets_them() {
    let Some(system) = System::new() else { return };
    fs::remove_dir_all(system.path("etc")).unwrap();
    let before = system.tree();
    let said = system.done(&["enable", "nginx"]);
    assert!(said.contains("etc/systemd/system/nginx.service.d/\n"), "{said}");
    assert_eq!(said.matches("/etc/\n").count(), 1, "{said}");
    assert!(system.path("etc/tmpfiles.d/widelane.conf").exists());
    system.done(&["disable", "nginx"]);
    // It takes back only the innermost.
    fs::remove_dir(system.path("etc/systemd/system")).unwrap();
    fs::remove_dir(system.path("etc/systemd")).unwrap();
    fs::remove_dir(system.path("etc")).unwrap();
    assert_eq!(system.tree(), before);
}

#[test]
fn what_is_not_done_is_not_told_as_done() {
    let Some(system) = System::new() else { return };
    // Not even root can make a directory in a file.
    fs::remove_dir(system.path("etc/tmpfiles.d")).unwrap();
    system.write("etc/tmpfiles.d", "");
    let before = system.tree();
    let said = system.refused(&["enable", "nginx"]);
    assert!(said.starts_with("widelane: what was done before is taken back"), "{said}");
    assert!(!said.contains("as root"), "{said}");
    assert_eq!(system.tree(), before);
}

#[test]
fn the_last_disable_takes_back_what_is_for_all_wherever_the_drop_in_went() {
    let Some(system) = System::new() else { return };
    let before = system.tree();
    system.done(&["enable", "nginx"]);
    fs::remove_dir_all(system.path(DROP_IN).parent().unwrap()).unwrap();
    let said = system.done(&["disable", "nginx"]);
    assert!(said.contains("tmpfiles.d/widelane.conf") && !said.contains("restart"), "{said}");
    assert_eq!(system.tree(), before);
}

#[test]
fn the_archives_file_for_tmpfiles_is_enough() {
    let Some(system) = System::new() else { return };
    system.write("usr/local/lib/tmpfiles.d/widelane.conf", "");
    system.done(&["enable", "nginx"]);
    assert!(!system.path("etc/tmpfiles.d/widelane.conf").exists());
}

#[test]
fn a_user_for_the_lane_process_is_refused_whoever_names_it() {
    let Some(system) = System::new() else { return };
    system.write("etc/widelane/policy.toml", "lane_cpus = \"0\"\nlane_user = \"lane\"\n");
    for path in ["", "etc", "etc/widelane", "usr", "usr/lib", "usr/lib/widelane"] {
        fs::set_permissions(system.path(path), fs::Permissions::from_mode(0o755)).unwrap();
    }
    system.done(&["enable", "nginx"]);
    system.done(&["disable", "nginx"]);
    let settings = "etc/systemd/system/nginx.service.d/user.conf";
    system.write(settings, "[Service]\nUser=www-data\n");
    let said = system.refused(&["enable", "nginx"]);
    assert!(said.contains("run as lane, and nginx does not start as root"), "{said}");
}

#[test]
fn libraries_that_others_may_change_are_told() {
    let Some(system) = System::new() else { return };
    let set_mode = |path: &str, mode| {
        fs::set_permissions(system.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let remark = "can be written by everybody: whoever may change the libraries";
    assert!(!system.done(&["enable", "nginx"]).contains(remark));
    for (path, open, closed) in
        [("usr/lib/widelane/widelane.so", 0o666, 0o644), ("usr/lib", 0o777, 0o755)]
    {
        set_mode(path, open);
        let said = system.done(&["enable", "nginx"]);
        assert!(said.contains(&format!("{path} {remark}")), "{said}");
        set_mode(path, closed);
    }
    // As /tmp is.
    set_mode("usr/lib", 0o1777);
    assert!(!system.done(&["enable", "nginx"]).contains(remark));
}

#[test]
fn a_service_that_is_gone_is_to_be_disabled() {
    let Some(system) = System::new() else { return };
    system.done(&["enable", "nginx"]);
    fs::remove_file(system.path("lib/systemd/system/nginx.service")).unwrap();
    let said = system.done(&["status"]);
    assert!(said.contains("there is no service nginx in"), "{said}");
    assert!(said.contains("` removes its drop-in"), "{said}");
    system.done(&["disable", "nginx"]);
    assert!(!system.path(DROP_IN).exists());
    let said = system.done(&["status"]);
    assert!(said.contains("neither nginx nor HAProxy is installed"), "{said}");
}

#[test]
fn a_name_with_a_backslash_is_one_for_shells_too() {
    let Some(system) = System::new() else { return };
    system.write("lib/systemd/system/my\\x2dserver.service", NGINX_UNIT);
    let said = system.done(&["enable", "my\\x2dserver"]);
    assert!(said.contains("`widelane disable 'my\\x2dserver'` takes it back"), "{said}");
    assert!(system.done(&["status"]).contains("my\\x2dserver"));
    system.done(&["disable", "my\\x2dserver"]);
}
