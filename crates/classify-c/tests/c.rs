//! The header is what cbindgen writes, and a program in C works with it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_header_is_up_to_date() {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    let mut written = Vec::new();
    cbindgen::Builder::new()
        .with_crate(root())
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut written);
    let written = String::from_utf8(written).unwrap();
    let path = root().join("include/widelane_classify.h");
    if env::var_os("WIDELANE_WRITE_HEADER").is_some() {
        fs::write(&path, &written).unwrap();
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    let advice = "run WIDELANE_WRITE_HEADER=1 cargo test -p widelane-classify-c";
    assert!(written == checked_in, "the header is out of date: {advice}");
}

/// The library of this build, which cargo puts beside this test.
fn library() -> PathBuf {
    env::current_exe().unwrap().with_file_name("libwidelane_classify_c.a")
}

#[test]
fn a_program_in_c_classifies() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("example");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(root().join("tests/example.c"))
        .arg("-I")
        .arg(root().join("include"))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm"])
        .status();
    let Ok(status) = compiled else { return eprintln!("skipped: there is no C compiler here") };
    assert!(status.success());
    let output = Command::new(&program).arg(directory.path().join("table")).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    assert_eq!(output.stdout, b"done\n");
}
