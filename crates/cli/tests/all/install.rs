//! The script that installs the archive (`packaging/tarball/install`), in a directory.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use widelane_testkit::program;

use crate::enable::{DROP_IN, System};
use crate::widelane;

const MANIFEST: [&str; 4] = [
    "bin/widelane",
    "lib/widelane/widelane.so",
    "lib/widelane/libwidelane_runtime.so",
    "lib/systemd/system/widelane-exporter.service",
];

/// An archive with what servers need, as it is once unpacked.
struct Archive(tempfile::TempDir);

impl Archive {
    fn new() -> Self {
        let archive = tempfile::tempdir().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/tarball/install");
        program::install(Path::new(script), &archive.path().join("install"));
        fs::write(archive.path().join("manifest"), MANIFEST.join("\n") + "\n").unwrap();
        for file in MANIFEST {
            let path = archive.path().join("files").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text =
                if file.ends_with(".service") { "ExecStart=/usr/bin/widelane\n" } else { "" };
            fs::write(&path, text).unwrap();
            // As an archive is unpacked where the umask is 077.
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        }
        let own = Path::new(env!("CARGO_BIN_EXE_widelane"));
        program::install(own, &archive.path().join("files/bin/widelane"));
        Archive(archive)
    }

    /// Runs the script, from `directory`.
    fn install(&self, directory: &Path, arguments: &[&str]) -> (bool, String) {
        let mut script = Command::new(self.0.path().join("install"));
        let output = script.current_dir(directory).args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[test]
fn a_relative_root_is_seen_from_where_the_caller_is() {
    let (archive, here) = (Archive::new(), tempfile::tempdir().unwrap());
    let contents = files(archive.0.path());
    let (done, said) = archive.install(here.path(), &["--root", "image"]);
    assert!(done, "{said}");
    assert!(here.path().join("image/usr/local/bin/widelane").is_file(), "{said}");
    let (done, said) = archive.install(here.path(), &["--root", "./image/", "--remove"]);
    assert!(done && files(&here.path().join("image/usr/local")).is_empty(), "{said}");
    assert_eq!(files(archive.0.path()).len(), contents.len());
    let (done, said) = archive.install(here.path(), &["--root", ""]);
    assert!(!done && said.contains("--root needs a directory"), "{said}");
}

#[test]
fn modes_are_those_of_programs_and_files_and_units_name_the_program() {
    let (archive, here) = (Archive::new(), tempfile::tempdir().unwrap());
    let root = here.path().to_str().unwrap();
    let (done, said) = archive.install(here.path(), &["--prefix", "/opt/100%//", "--root", root]);
    assert!(done, "{said}");
    let path = |file: &str| here.path().join("opt/100%").join(file);
    for (file, mode) in MANIFEST.into_iter().zip([0o755, 0o644, 0o644, 0o644]) {
        let found = path(file).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{file}");
    }
    let unit = fs::read_to_string(path(MANIFEST[3])).unwrap();
    assert_eq!(unit, "ExecStart=/opt/100%%/bin/widelane\n");
}

#[test]
fn an_upgrade_that_broke_off_can_be_removed_by_either_version() {
    let (former, archive) = (Archive::new(), Archive::new());
    let added = "share/doc/widelane/docs/added.md";
    let path = archive.0.path().join("files").join(added);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "").unwrap();
    let missing = "share/doc/widelane/docs/missing.md";
    let manifest = [&[added], &MANIFEST[..], &[missing]].concat().join("\n") + "\n";
    fs::write(archive.0.path().join("manifest"), manifest).unwrap();
    for remover in [&former, &archive] {
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("usr/local");
        let root = ["--root", here.path().to_str().unwrap()];
        let (done, said) = former.install(here.path(), &root);
        assert!(done, "{said}");
        let (done, said) = archive.install(here.path(), &root);
        assert!(!done && target.join(added).exists(), "{said}");
        let (done, said) = remover.install(here.path(), &[&root[..], &["--remove"]].concat());
        assert!(done, "{said}");
        assert_eq!(files(&target), [] as [PathBuf; 0]);
    }
}

#[test]
fn nothing_stays_of_a_file_that_a_version_no_longer_has() {
    let (former, archive) = (Archive::new(), Archive::new());
    let moved = "share/doc/widelane/docs/moved.md";
    let path = former.0.path().join("files").join(moved);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "").unwrap();
    let manifest = [&MANIFEST[..], &[moved]].concat().join("\n") + "\n";
    fs::write(former.0.path().join("manifest"), manifest).unwrap();
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("usr/local");
    let run = |archive: &Archive, arguments: &[&str]| {
        let root = ["--root", here.path().to_str().unwrap()];
        let (done, said) = archive.install(here.path(), &[&root, arguments].concat());
        assert!(done, "{said}");
    };
    run(&former, &[]);
    assert!(target.join(moved).exists());
    run(&archive, &[]);
    assert!(!target.join(moved).exists() && target.join(MANIFEST[0]).exists());
    run(&former, &[]);
    run(&archive, &["--remove"]);
    assert_eq!(files(&target), [] as [PathBuf; 0]);
}

#[test]
fn prefixes_that_would_end_up_elsewhere_are_refused() {
    let (archive, here) = (Archive::new(), tempfile::tempdir().unwrap());
    for prefix in ["/", "//", "/opt/a&b", "/opt/a|b", "/opt/a\\b", "opt"] {
        let root = here.path().join("root");
        let arguments = ["--prefix", prefix, "--root", root.to_str().unwrap()];
        let (done, said) = archive.install(here.path(), &arguments);
        assert!(!done && said.contains("--prefix"), "{prefix}: {said}");
        assert!(!root.exists(), "{prefix}");
    }
}

#[test]
fn a_link_in_the_way_is_not_followed() {
    let (archive, here) = (Archive::new(), tempfile::tempdir().unwrap());
    let other = here.path().join("other");
    fs::write(&other, "kept").unwrap();
    let programs = here.path().join("usr/local/bin");
    fs::create_dir_all(&programs).unwrap();
    symlink(&other, programs.join("widelane.new")).unwrap();
    let (done, said) = archive.install(here.path(), &["--root", here.path().to_str().unwrap()]);
    assert!(done, "{said}");
    assert_eq!(fs::read_to_string(other).unwrap(), "kept");
    assert!(!programs.join("widelane").is_symlink());
}

#[test]
fn nothing_is_removed_while_a_service_cannot_be_disabled() {
    let Some(system) = System::new() else { return };
    let (archive, root) = (Archive::new(), system.directory.path());
    let arguments = ["--root", root.to_str().unwrap()];
    let (done, said) = archive.install(root, &arguments);
    assert!(done, "{said}");
    let mut enable = widelane();
    enable.args(["enable", "nginx", "--root"]).arg(root);
    enable.env("WIDELANE_LIBRARY_DIR", system.path("usr/local/lib/widelane"));
    assert!(enable.output().unwrap().status.success());
    let text = fs::read_to_string(system.path(DROP_IN)).unwrap();
    fs::write(system.path(DROP_IN), format!("{text}# edited\n")).unwrap();
    let remove = || archive.install(root, &[&arguments[..], &["--remove"]].concat());
    let (done, said) = remove();
    assert!(!done && said.contains("nothing is removed while services load"), "{said}");
    assert!(system.path("usr/local").join(MANIFEST[2]).exists(), "{said}");
    fs::remove_file(system.path(DROP_IN)).unwrap();
    let (done, said) = remove();
    assert!(done && !system.path("usr/local").join(MANIFEST[2]).exists(), "{said}");
}

#[test]
fn services_are_disabled_whatever_links_lead_to_the_libraries() {
    let Some(system) = System::new() else { return };
    let (archive, root) = (Archive::new(), system.directory.path());
    fs::create_dir_all(system.path("opt/100%")).unwrap();
    symlink("100%", system.path("opt/linked")).unwrap();
    for (prefix, other) in [("/opt/linked", "/usr"), ("/opt/100%", "/opt/100")] {
        let arguments = |prefix| ["--prefix", prefix, "--root", root.to_str().unwrap()];
        let remove =
            |prefix| archive.install(root, &[&arguments(prefix)[..], &["--remove"]].concat());
        let (done, said) = archive.install(root, &arguments(prefix));
        assert!(done, "{said}");
        let libraries = system.path(prefix.trim_start_matches('/')).join("lib/widelane");
        let mut enable = widelane();
        enable.args(["enable", "nginx", "--root"]).arg(root);
        assert!(enable.env("WIDELANE_LIBRARY_DIR", libraries).output().unwrap().status.success());
        let text = fs::read_to_string(system.path(DROP_IN)).unwrap();
        assert!(text.contains("LD_PRELOAD=/opt/100%%/lib/widelane/"), "{text}");
        remove(other);
        assert!(system.path(DROP_IN).exists(), "that of another installation stays");
        let (done, said) = remove(prefix);
        assert!(done && !system.path(DROP_IN).exists(), "{said}");
    }
}
