//! The script that installs the archive (`packaging/tarball/install`), in a directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use widelane_testkit::program;

use crate::enable::{DROP_IN, System};
use crate::widelane;

const MANIFEST: [&str; 3] =
    ["bin/widelane", "lib/widelane/widelane.so", "lib/widelane/libwidelane_runtime.so"];

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
            fs::write(path, "").unwrap();
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
