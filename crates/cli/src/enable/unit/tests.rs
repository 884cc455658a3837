//! Whether units are found as systemd finds them, and what is said about them.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::files::drop_in_directories;
use super::syntax::joined_lines;
use super::*;

struct System(tempfile::TempDir);

impl System {
    fn new(unit: &str) -> Self {
        let system = System(tempfile::tempdir().unwrap());
        system.write("lib/systemd/system/server.service", unit);
        system
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, target: &str, path: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn find(&self) -> anyhow::Result<Unit> {
        Unit::find(self.0.path(), "server")
    }

    fn refusal(&self) -> String {
        self.find().unwrap_err().to_string()
    }

    fn remarks(&self) -> Vec<String> {
        self.find().unwrap().remarks(self.0.path(), Path::new(LIBRARY))
    }
}

const LIBRARY: &str = "/usr/lib/widelane/libwidelane_runtime.so";

const UNIT: &str = "[Unit]\nExecStart=/not/this\n[Service]\nExecStart=-/usr/sbin/server -x \\\n\
                    -y\n# Environment=LD_PRELOAD=/no.so\n";

#[test]
fn the_program_is_found_and_a_drop_in_may_replace_it() {
    let system = System::new(UNIT);
    let plain =
        Unit { name: "server".to_owned(), program: "/usr/sbin/server".into(), ..Unit::default() };
    assert_eq!(system.find().unwrap(), plain);
    let other = "[Service]\nExecStart=\nExecStart=/opt/server\nProtectSystem=strict\n";
    system.write("etc/systemd/system/server.service.d/a.conf", other);
    let replaced = Unit {
        program: "/opt/server".into(),
        is_read_only: true,
        in_force: ["ProtectSystem"].into(),
        ..plain
    };
    assert_eq!(system.find().unwrap(), replaced);
}

#[test]
fn drop_ins_of_all_of_a_prefix_and_of_a_template_count() {
    assert_eq!(
        drop_in_directories("a-b@web"),
        ["a-.service.d", "a-b@.service.d", "a-b@web.service.d"]
    );
    assert_eq!(drop_in_directories("server"), ["server.service.d"]);
    let system = System::new(UNIT);
    let preload = |file: &str| format!("[Service]\nEnvironment=LD_PRELOAD={file}\n");
    system.write("etc/systemd/system/service.d/a.conf", &preload("/all.so"));
    assert_eq!(system.find().unwrap().preload.as_deref(), Some("/all.so"));
    system.write("lib/systemd/system/server.service.d/b.conf", &preload("/own.so"));
    assert_eq!(system.find().unwrap().preload.as_deref(), Some("/own.so"));
}

#[test]
fn a_drop_in_of_all_services_gives_way_to_any_of_the_service_of_its_name() {
    let system = System::new(UNIT);
    system.write("etc/systemd/system/service.d/a.conf", "[Service]\nExecStart=/all\n");
    system.write("lib/systemd/system/server.service.d/a.conf", "[Service]\nExecStart=/own\n");
    assert_eq!(system.find().unwrap().program, Path::new("/own"));
    // Of the service's own the stronger directory has the say.
    system.write("etc/systemd/system/server.service.d/a.conf", "[Service]\nExecStart=/etc\n");
    assert_eq!(system.find().unwrap().program, Path::new("/etc"));
}

/// `systemctl enable` makes such links of names that a unit has beside its own.
#[test]
fn a_second_name_is_led_back_to_the_first_and_drop_ins_of_all_names_count() {
    let system = System::new(&format!("{UNIT}User=%p\n"));
    let root = system.0.path();
    system.write("etc/systemd/system/x.service", "");
    system.link("/lib/systemd/system/server.service", "etc/systemd/system/other.service");
    system.link("other.service", "etc/systemd/system/third.service");
    let unit = Unit::find(root, "third").unwrap();
    assert_eq!((&*unit.name, unit.user.as_deref()), ("server", Some("server")));
    assert_eq!(unit.program, Path::new("/usr/sbin/server"));

    let preload = |file: &str| format!("[Service]\nEnvironment=LD_PRELOAD={file}\n");
    system.write("lib/systemd/system/server.service.d/a.conf", &preload("/own.so"));
    system.write("etc/systemd/system/other.service.d/a.conf", &preload("/other.so"));
    for name in ["server", "other", "third"] {
        assert_eq!(Unit::find(root, name).unwrap().preload.as_deref(), Some("/own.so"));
    }
    system.write("etc/systemd/system/third.service.d/zz.conf", &preload("/late.so"));
    for name in ["server", "other", "third"] {
        assert!(Unit::find(root, name).unwrap_err().to_string().contains("zz.conf"));
    }
}

#[test]
fn links_that_are_no_second_names_are_followed() {
    let system = System::new(UNIT);
    let find = |name: &str| Unit::find(system.0.path(), name);
    // Files elsewhere.
    system.write("opt/units/elsewhere.service", "[Service]\nExecStart=/elsewhere\n");
    system.link("/opt/units/elsewhere.service", "etc/systemd/system/linked.service");
    let linked = find("linked").unwrap();
    assert_eq!((&*linked.name, linked.program), ("linked", "/elsewhere".into()));
    // The same name, and that of the template.
    system.link("../../../lib/systemd/system/server.service", "etc/systemd/system/server.service");
    assert_eq!(find("server").unwrap().name, "server");
    system.write("lib/systemd/system/many@.service", "[Service]\nExecStart=/%i\n");
    system.link("/lib/systemd/system/many@.service", "etc/systemd/system/many@web.service");
    let instance = find("many@web").unwrap();
    assert_eq!((&*instance.name, instance.program), ("many@web", "/web".into()));
    // A second name of a template is one of its instances, too.
    system.link("/lib/systemd/system/many@.service", "etc/systemd/system/second@.service");
    assert_eq!(find("second@web").unwrap().name, "many@web");
    assert_eq!(find("second@").unwrap().name, "many@");
    for (target, name) in [("loop", "loop"), ("nowhere", "to-nowhere")] {
        system.link(&format!("{target}.service"), &format!("etc/systemd/system/{name}.service"));
    }
    assert!(find("to-nowhere").unwrap_err().to_string().contains("no service to-nowhere"));
    assert!(find("loop").is_err());
}

#[test]
fn an_instances_own_unit_comes_before_any_template() {
    let system = System::new(UNIT);
    system.write("etc/systemd/system/many@.service", "[Service]\nExecStart=/template\n");
    system.write("lib/systemd/system/many@web.service", "[Service]\nExecStart=/own\n");
    let unit = Unit::find(system.0.path(), "many@web").unwrap();
    assert_eq!(unit.program, Path::new("/own"));
}

/// Most images have no `/dev/null`.
#[test]
fn what_is_masked_in_an_image_is_masked() {
    let system = System::new(UNIT);
    let preload = "[Service]\nEnvironment=LD_PRELOAD=/a.so\n";
    system.write("lib/systemd/system/server.service.d/a.conf", preload);
    system.link("/dev/null", "etc/systemd/system/server.service.d/a.conf");
    assert_eq!(system.find().unwrap().preload, None);
    system.link("/dev/null", "etc/systemd/system/server.service");
    assert!(system.refusal().contains("masked"));
    fs::remove_file(system.0.path().join("etc/systemd/system/server.service")).unwrap();
    system.link("/opt/missing", "etc/systemd/system/server.service");
    assert!(system.refusal().contains("etc/systemd/system/server.service is a link to a file"));
}

#[test]
fn an_environment_is_not_cleared_behind_ours() {
    let system = System::new(UNIT);
    let cleared = "[Service]\nEnvironment=\n";
    system.write("etc/systemd/system/server.service.d/a.conf", cleared);
    assert!(system.find().is_ok());
    system.write("etc/systemd/system/server.service.d/zz.conf", cleared);
    assert!(system.refusal().contains("zz.conf clears the environment"));
}

#[test]
fn a_dynamic_user_sees_a_read_only_system() {
    for (value, is_dynamic) in [("yes", true), ("True", true), ("no", false)] {
        let unit = format!("{UNIT}DynamicUser={value}\n");
        let unit = System::new(&unit).find().unwrap();
        assert_eq!(unit.is_read_only, is_dynamic);
        assert_eq!(unit.hides(Path::new("/tmp/widelane.so")).is_some(), is_dynamic);
    }
}

#[test]
fn paths_above_the_counters_may_be_read_only() {
    for (value, is_read_only) in
        [("/", true), ("-/run", true), ("/etc", false), ("/\nReadOnlyPaths=", false)]
    {
        let unit = System::new(&format!("{UNIT}ReadOnlyPaths={value}\n")).find().unwrap();
        assert_eq!(unit.is_read_only, is_read_only, "{value}");
    }
}

#[test]
fn a_program_is_found_by_its_name() {
    let system = System::new("[Service]\nExecStart=server -x\n");
    assert_eq!(system.find().unwrap().program, Path::new("server"));
    system.write("bin/server", "");
    assert_eq!(system.find().unwrap().program, Path::new("/bin/server"));
    system.write("usr/sbin/server", "");
    assert_eq!(system.find().unwrap().program, Path::new("/usr/sbin/server"));
    let searched = "[Service]\nExecSearchPath=/opt/none:/opt/%p/sbin\nExecSearchPath=/opt\n";
    system.write("etc/systemd/system/server.service.d/a.conf", searched);
    assert_eq!(system.find().unwrap().program, Path::new("server"));
    system.write("opt/server/sbin/server", "");
    assert_eq!(system.find().unwrap().program, Path::new("/opt/server/sbin/server"));
}

#[test]
fn a_program_in_quotes_or_escaped_is_found() {
    for command in [
        "\"/opt/my server/bin/server\" -x",
        "-'/opt/my server/bin/server'",
        "\"-/opt/my server/bin/server\"",
        "/opt/my\\x20server/bin/server -x",
        "/opt/my\\sserver/bin/server",
    ] {
        let unit = System::new(&format!("[Service]\nExecStart={command}\n")).find().unwrap();
        assert_eq!(unit.program, Path::new("/opt/my server/bin/server"), "{command}");
    }
    let system = System::new(&format!("{UNIT}ExecStart=\n"));
    assert!(system.refusal().contains("starts no program"));
}

#[test]
fn specifiers_are_those_of_the_instance() {
    for (word, expected) in [
        ("/opt/%i/%p", Some("/opt/in-side/a-b")),
        ("%I %j", Some("in/side b")),
        ("%n %N", Some("a-b@in-side.service a-b@in-side")),
        ("%%i %P %J", Some("%i a/b b")),
        ("/%t/x", None),
        ("100%", None),
    ] {
        assert_eq!(expanded(word, "a-b@in-side").as_deref(), expected, "{word}");
    }
    assert_eq!(expanded("/%p%%", "a-b@").as_deref(), Some("/a-b%"));
    assert_eq!(expanded("%I", "web@srv-a\\x2db").as_deref(), Some("srv/a-b"));
    for unknown in ["%i", "%I", "%n", "%N"] {
        assert_eq!(expanded(unknown, "a-b@"), None, "{unknown}");
    }
    assert_eq!(expanded("%p%i %n", "server").as_deref(), Some("server server.service"));
}

#[test]
fn a_program_that_only_systemd_knows_is_passed_on_with_a_remark() {
    let system = System::new(UNIT);
    system.write(
        "lib/systemd/system/many@.service",
        "[Service]\nExecStart=/opt/%i/server\nEnvironmentFile=/etc/default/%i\nUser=%i\n",
    );
    system.write("etc/default/web", "LD_PRELOAD=/a.so\n");
    let find = |name: &str| Unit::find(system.0.path(), name);
    assert!(find("many@web").unwrap_err().to_string().contains("/etc/default/web sets"));
    let unit = find("many@other").unwrap();
    assert_eq!((unit.program, unit.user), ("/opt/other/server".into(), Some("other".into())));
    let template = find("many@").unwrap();
    assert!(template.is_program_unknown && !template.starts_as_root());
    let remarks = template.remarks(system.0.path(), Path::new(LIBRARY));
    assert!(remarks[0].contains("/opt/%i/server"), "{remarks:?}");
    assert!(!find("server").unwrap().is_program_unknown);
}

#[test]
fn who_starts_the_program_is_known() {
    for (settings, is_root) in [
        ("", true),
        ("User=root\n", true),
        ("User=0\n", true),
        ("User=www-data\nUser=\n", true),
        ("User=www-data\n", false),
        ("DynamicUser=yes\n", false),
        ("User=www-data\nExecStart=+/s\n", true),
        ("User=www-data\nExecStart=!/s\n", true),
        ("User=www-data\nExecStart=-!!/s\n", false),
    ] {
        let unit = System::new(&format!("{UNIT}{settings}")).find().unwrap();
        assert_eq!(unit.starts_as_root(), is_root, "{settings}");
    }
}

#[test]
fn what_a_services_user_cannot_read_is_found() {
    let system = System::new(UNIT);
    let root = system.0.path();
    system.write("home/admin/l.so", "");
    let set_mode = |path: &str, mode: u32| {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let file = Path::new("/home/admin/l.so");
    let user = Unit { user: Some("www-data".to_owned()), ..Unit::default() };
    set_mode("", 0o755);
    for path in ["home", "home/admin"] {
        set_mode(path, 0o755);
    }
    set_mode("home/admin/l.so", 0o644);
    assert_eq!(user.obstacle_to_read(root, file), None);
    for (path, closed, open) in
        [("home/admin/l.so", 0o640, 0o644), ("home/admin", 0o700, 0o711), ("home", 0o750, 0o755)]
    {
        set_mode(path, closed);
        assert_eq!(user.obstacle_to_read(root, file), Some(root.join(path)));
        assert_eq!(Unit::default().obstacle_to_read(root, file), None);
        set_mode(path, open);
    }
    // By way of links, in an image and in the system that runs.
    system.write("root/links/x", "");
    system.link("../../home/admin/l.so", "root/links/l.so");
    system.link("root/links", "links");
    let of_this = root.join("links/l.so");
    let ways = [(root, Path::new("/links/l.so")), (Path::new("/"), &*of_this)];
    for (path, mode) in [("root/links", 0o700), ("home/admin", 0o700), ("root", 0o644)] {
        for path in ["root", "root/links", "home/admin"] {
            set_mode(path, 0o755);
        }
        assert_eq!(ways.map(|(root, file)| user.obstacle_to_read(root, file)), [None, None]);
        set_mode(path, mode);
        for (system, file) in ways {
            assert_eq!(user.obstacle_to_read(system, file), Some(root.join(path)));
        }
    }
}

#[test]
fn files_that_the_service_does_not_see_are_told() {
    let system = System::new("[Service]\nExecStart=/s\nProtectHome=yes\nPrivateTmp=true\n");
    let hides = |file: &str| system.find().unwrap().hides(Path::new(file));
    assert_eq!(hides("/root/widelane/target/release/l.so"), Some("ProtectHome"));
    assert_eq!(hides("/tmp/l.so"), Some("PrivateTmp"));
    assert_eq!(hides("/usr/lib/widelane/l.so"), None);
    assert_eq!(hides("/homestead/l.so"), None);
    for no in ["no", "No", "n", "FALSE", "f", "F", "off", "0"] {
        let open = format!("[Service]\nProtectHome=read-only\nPrivateTmp={no}\n");
        system.write("etc/systemd/system/server.service.d/a.conf", &open);
        assert_eq!((hides("/home/l.so"), hides("/tmp/l.so")), (None, None), "{no}");
    }
}

#[test]
fn what_is_preloaded_already_is_known() {
    let system = System::new(UNIT);
    let drop_in = "[Service]\nEnvironment=\"A=b c\" 'LD_PRELOAD=/usr/lib/jemalloc.so'\n";
    system.write("usr/lib/systemd/system/server.service.d/malloc.conf", drop_in);
    assert_eq!(system.find().unwrap().preload.as_deref(), Some("/usr/lib/jemalloc.so"));
}

#[test]
fn a_comment_neither_continues_nor_ends_a_setting() {
    let unit = |service: &str| System::new(&format!("[Service]\n{service}")).find().unwrap();
    let start = "ExecStart=/usr/sbin/nginx\n";
    let old = unit(&format!("# old: /usr/sbin/x \\\n{start}"));
    assert_eq!(old.program, Path::new("/usr/sbin/nginx"));
    let tuned = format!("{start}#tuned \\\nEnvironment=LD_PRELOAD=/usr/lib/libjemalloc.so.2\n");
    assert_eq!(unit(&tuned).preload.as_deref(), Some("/usr/lib/libjemalloc.so.2"));
    let between = format!("{start}Environment=A=1 \\\n# note\n ; note \\\n LD_PRELOAD=/x.so\n");
    assert_eq!(unit(&between).preload.as_deref(), Some("/x.so"));
}

#[test]
fn a_backslash_that_is_escaped_continues_no_line() {
    let lines = joined_lines("A=1 \\\nB=2 \\\\\nC=3 \\\\\\\nD=4\n\nE=5 \\");
    assert_eq!(lines, ["A=1  B=2 \\\\", "C=3 \\\\ D=4", "", "E=5  "]);
}

#[test]
fn what_would_keep_us_out_is_refused_by_name() {
    let system = System::new(UNIT);
    let late = "[Service]\nEnvironment=LD_PRELOAD=/a.so\n";
    system.write("etc/systemd/system/server.service.d/zz.conf", late);
    assert!(system.refusal().contains("zz.conf"));

    let system = System::new("[Service]\nExecStart=/s\nEnvironmentFile=-/etc/default/server\n");
    assert!(system.find().is_ok(), "the file need not exist");
    // A comment may be in any encoding, and the name has blanks behind it.
    let file = system.0.path().join("etc/default/server");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    for text in [&b"A=1\nLD_PRELOAD=/a.so\n"[..], b"# \xdcbersicht\n LD_PRELOAD = /a.so\n"] {
        fs::write(&file, text).unwrap();
        assert!(system.refusal().contains("/etc/default/server"), "{text:?}");
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let remarks = system.remarks();
    assert!(remarks[0].starts_with("/etc/default/server cannot be read (Is a"), "{remarks:?}");

    // Nothing is read of what a later line takes back.
    let none = "[Service]\nEnvironmentFile=\n";
    system.write("etc/systemd/system/server.service.d/a.conf", none);
    assert!(system.find().is_ok());

    let unset = "[Service]\nExecStart=/s\nUnsetEnvironment=A LD_PRELOAD\n";
    let system = System::new(unset);
    assert!(system.refusal().contains("server.service unsets LD_PRELOAD"));
    let none = "[Service]\nUnsetEnvironment=\n";
    system.write("etc/systemd/system/server.service.d/a.conf", none);
    assert!(system.find().is_ok());
}

#[test]
fn environment_files_that_only_systemd_knows_are_told() {
    let files = "EnvironmentFile=-/etc/default/server.d/*.env\nEnvironmentFile=%t/server\n\
                 EnvironmentFile=/etc/default/%p\n";
    let system = System::new(&format!("{UNIT}{files}"));
    let remarks = system.remarks();
    assert_eq!(remarks.len(), 2, "{remarks:?}");
    for (remark, file) in remarks.iter().zip(["-/etc/default/server.d/*.env", "%t/server"]) {
        assert!(remark.contains(&format!("EnvironmentFile={file}: ")), "{remark}");
    }
}

#[test]
fn a_server_that_loses_by_it_is_told() {
    let system = System::new(UNIT);
    let root = system.0.path();
    for (name, server) in [
        ("dovecot", "dovecot"),
        ("exim", "exim"),
        ("exim4", "exim4"),
        ("postfix@-", "postfix"),
        ("postgresql@15-main", "postgresql"),
        ("postgresql@", "postgresql"),
        ("postgresql-16", "postgresql"),
    ] {
        system.write(&format!("etc/systemd/system/{name}.service"), UNIT);
        let unit = Unit::find(root, name).unwrap();
        let remarks = unit.remarks(root, Path::new(LIBRARY));
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        let begin = format!("{server} has a process for each connection");
        assert!(remarks[0].starts_with(&begin), "{remarks:?}");
        let command = format!("`widelane disable {name} --root {}`", root.display());
        assert!(remarks[0].ends_with(&command), "{remarks:?}");
        // Of the system that runs.
        let remarks = unit.remarks(Path::new("/"), Path::new(LIBRARY));
        assert!(remarks[0].ends_with(&format!("`widelane disable {name}`")), "{remarks:?}");
    }
    for other in ["postgresql-exporter", "postfix-exporter"] {
        system.write(&format!("etc/systemd/system/{other}.service"), UNIT);
        let unit = Unit::find(root, other).unwrap();
        assert_eq!(unit.remarks(root, Path::new(LIBRARY)), [] as [String; 0]);
    }
}

#[test]
fn a_file_system_of_its_own_is_told() {
    let system = System::new(&format!("{UNIT}RootDirectory=/srv/jail\nRootImage=\n"));
    let remarks = system.remarks();
    assert_eq!(remarks.len(), 1, "{remarks:?}");
    assert!(remarks[0].starts_with("RootDirectory= gives it"), "{remarks:?}");
    let own = "[Service]\nRootDirectory=/\n";
    system.write("etc/systemd/system/server.service.d/a.conf", own);
    assert!(system.remarks().is_empty());
}

#[test]
fn a_program_that_only_another_root_has_is_judged_there() {
    let openssl = Path::new("/usr/bin/openssl");
    if !openssl.exists() {
        eprintln!("openssl is not installed: nothing was tested");
        return;
    }
    let system = System::new(&format!("{UNIT}RootDirectory=/srv/jail\n"));
    let root = system.0.path();
    let reason = |fitness| match fitness {
        Fitness::RunsUnchanged(reason) => reason,
        fitness => format!("{fitness:?}"),
    };
    let missing = reason(system.find().unwrap().fitness(root));
    assert!(missing.contains("srv/jail/usr/sbin/server cannot be read"), "{missing}");
    fs::create_dir_all(root.join("srv/jail/usr/sbin")).unwrap();
    fs::copy(openssl, root.join("srv/jail/usr/sbin/server")).unwrap();
    assert_eq!(system.find().unwrap().fitness(root), Fitness::Accelerates);
    let image = System::new(&format!("{UNIT}RootImage=/srv/image\n"));
    assert_eq!(image.find().unwrap().fitness(image.0.path()), Fitness::Accelerates);
}

#[test]
fn what_a_filter_keeps_from_it_is_told() {
    let filter = "SystemCallFilter=";
    for (lines, is_told) in [
        (&["@system-service"][..], false),
        (&["@system-service", "~@privileged @resources"], true),
        (&["@system-service", "~@resources", "@resources"], false),
        (&["~@resources", ""], false),
    ] {
        let settings: String = lines.iter().map(|line| format!("{filter}{line}\n")).collect();
        let remarks = System::new(&format!("{UNIT}{settings}")).remarks();
        assert_eq!(remarks.len(), usize::from(is_told), "{settings}: {remarks:?}");
        assert!(remarks.iter().all(|it| it.starts_with("SystemCallFilter= keeps it from")));
    }
}

#[test]
fn a_filter_that_would_end_the_server_is_told() {
    for (filter, expected) in [
        ("@basic-io @network-io @resources", Some("allow @memlock and @timer")),
        ("@basic-io @resources @memlock", Some("allow @timer")),
        // A worker that takes over memory of its parent's locks it by `mlock2`.
        ("@basic-io @resources @timer mlock", Some("allow @memlock")),
        ("@basic-io @resources @memlock @timer", None),
        ("~@memlock @clock", Some("allow @memlock")),
        ("~@memlock:EPERM @clock", None),
        ("@system-service\nSystemCallFilter=~timerfd_settime", Some("allow @timer")),
        ("~@clock", None),
    ] {
        let remarks = System::new(&format!("{UNIT}SystemCallFilter={filter}\n")).remarks();
        let told = remarks.iter().find_map(|it| Some(it.split_once("may end the server: ")?.1));
        assert_eq!((told, remarks.len()), (expected, usize::from(expected.is_some())), "{filter}");
    }
}

#[test]
fn what_systemd_preloads_into_all_services_is_told() {
    let environment = "LANG=C\nLD_PRELOAD=/usr/lib/libjemalloc.so\n";
    let unit = System::new(UNIT).find().unwrap();
    let remark = unit.remark_on_manager(environment).unwrap();
    assert!(remark.starts_with("systemd preloads /usr/lib/libjemalloc.so into all"), "{remark}");
    assert_eq!(unit.remark_on_manager("LANG=C\nOLD_LD_PRELOAD=x\n"), None);
    let unit = System::new(&format!("{UNIT}Environment=LD_PRELOAD=/l.so\n")).find().unwrap();
    assert_eq!(unit.remark_on_manager(environment), None);
}

#[test]
fn numbers_of_its_own_cost_the_counters() {
    let unit = System::new(&format!("{UNIT}PrivatePIDs=yes\nProtectSystem=strict\n"));
    let remarks = unit.remarks();
    assert_eq!(remarks.len(), 1, "{remarks:?}");
    assert!(remarks[0].starts_with("PrivatePIDs= gives it process numbers"), "{remarks:?}");
    assert!(!unit.find().unwrap().can_count());
}

#[test]
fn what_sets_our_variables_behind_us_is_told() {
    let system = System::new(&format!("{UNIT}EnvironmentFile=/etc/default/server\n"));
    system.write("etc/default/server", "A=1\nWIDELANE_WAIT_MAX=0\n#WIDELANE_POLICY=auto\n");
    let set = "[Service]\nEnvironment=B=2 WIDELANE_POLICY=auto\n";
    system.write("etc/systemd/system/server.service.d/a.conf", set);
    system.write("etc/systemd/system/server.service.d/zz.conf", set);
    let remarks = system.remarks();
    assert_eq!(remarks.len(), 2, "{remarks:?}");
    assert!(remarks[0].contains("zz.conf sets WIDELANE_POLICY and so overrides"), "{remarks:?}");
    assert!(remarks[1].starts_with("/etc/default/server sets WIDELANE_WAIT_MAX"), "{remarks:?}");
}

#[test]
fn what_keeps_it_from_loading_a_library_is_told() {
    for (settings, told) in [
        ("TemporaryFileSystem=/var /usr:ro\n", Some("TemporaryFileSystem= keeps it")),
        ("InaccessiblePaths=-/usr/lib/%p\n", None),
        ("InaccessiblePaths=-/usr/lib/widelane\n", Some("InaccessiblePaths= keeps it")),
        ("InaccessiblePaths=/usr\nInaccessiblePaths=\n", None),
        ("NoExecPaths=/\nExecPaths=/usr/sbin\n", Some("NoExecPaths= keeps it")),
        ("NoExecPaths=/\nExecPaths=/usr/sbin +/usr/lib\n", None),
        ("NoExecPaths=/usr/lib\nExecPaths=/usr\n", Some("NoExecPaths= keeps it")),
        ("NoExecPaths=/usr/\nExecPaths=/usr\n", Some("NoExecPaths= keeps it")),
        ("ExecPaths=/opt\n", None),
        ("ReadOnlyPaths=/\n", None),
        ("InaccessiblePaths=/run\n", Some("InaccessiblePaths= keeps it from /run/widelane,")),
    ] {
        let remarks = System::new(&format!("{UNIT}{settings}")).remarks();
        assert_eq!(remarks.len(), usize::from(told.is_some()), "{settings}: {remarks:?}");
        assert!(told.is_none_or(|told| remarks[0].starts_with(told)), "{remarks:?}");
    }
}

#[test]
fn a_command_that_was_taken_back_is_no_directory() {
    let system = System::new(&format!("{UNIT}ExecStart=\n"));
    // Where systemd looks for programs.
    system.write("usr/local/sbin/other", "");
    assert!(system.refusal().contains("starts no program"));
}

#[test]
fn units_that_generators_and_commands_have_made_are_found() {
    let system = System::new(UNIT);
    let program = |file: &str| format!("[Service]\nExecStart={file}\n");
    system.write("run/systemd/generator.late/old.service", &program("/etc/init.d/old"));
    let old = Unit::find(system.0.path(), "old").unwrap();
    assert_eq!(old.program, Path::new("/etc/init.d/old"));
    // Strongest last.
    for place in ["generator.late", "generator", "system", "transient", "system.control"] {
        system
            .write(&format!("run/systemd/{place}/server.service"), &program(&format!("/{place}")));
        let weaker = place == "generator.late";
        let expected = if weaker { "/usr/sbin/server".into() } else { format!("/{place}") };
        assert_eq!(system.find().unwrap().program, Path::new(&expected), "{place}");
    }
    let preload = "[Service]\nEnvironment=LD_PRELOAD=/late.so\n";
    system.write("etc/systemd/system.control/server.service.d/zz.conf", preload);
    assert!(system.refusal().contains("zz.conf"));
}

#[test]
fn a_service_that_is_not_there_or_masked_is_told() {
    let system = System::new("");
    assert!(system.refusal().contains("masked"));
    let error = Unit::find(system.0.path(), "other").unwrap_err().to_string();
    assert!(error.contains("no service other") && error.contains("widelane run"), "{error}");
}

#[test]
fn where_selinux_enforces_its_policy_the_module_is_named_until_it_is_installed() {
    let system = System::new(UNIT);
    system.write(&LIBRARY[1..], "");
    let named = || system.remarks().iter().any(|remark| remark.contains("widelane.cil"));
    assert!(!named());
    system.write("sys/fs/selinux/enforce", "0");
    assert!(!named());
    system.write("sys/fs/selinux/enforce", "1");
    assert!(!named() && system.remarks()[0].ends_with("docs/operate/operating.md"));
    let module = "/usr/share/widelane/widelane.cil";
    system.write(&module[1..], "");
    assert!(named() && system.remarks()[0].ends_with(&format!("semodule -i {module}")));
    system.write("var/lib/selinux/targeted/active/modules/400/widelane/cil", "");
    assert!(!named());
}
