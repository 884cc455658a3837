//! The header is what cbindgen writes, and programs in C work with it.

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
    let path = root().join("include/widelane.h");
    if env::var_os("WIDELANE_WRITE_HEADER").is_some() {
        fs::write(&path, &written).unwrap();
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    let advice = "run WIDELANE_WRITE_HEADER=1 cargo test -p widelane-c";
    assert!(written == checked_in, "the header is out of date: {advice}");
}

/// The library of this build, which cargo puts beside this test.
fn library() -> PathBuf {
    env::current_exe().unwrap().with_file_name("libwidelane_c.a")
}

/// Compiles a program of this directory, links it with `libraries`, and runs it in a directory that
/// is empty.
fn run(program: &str, libraries: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let compiled = directory.path().join(program);
    let compiler = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&compiled)
        .arg(root().join("tests").join(program).with_extension("c"))
        .arg("-I")
        .arg(root().join("include"))
        .arg(library())
        .args(libraries)
        .args(["-lpthread", "-ldl", "-lm"])
        .status();
    let Ok(status) = compiler else { return eprintln!("skipped: there is no C compiler here") };
    assert!(status.success());
    let output = Command::new(&compiled).current_dir(directory.path()).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    assert_eq!(output.stdout, b"done\n");
}

#[test]
fn a_program_in_c_classifies() {
    run("classify", &[]);
}

#[test]
fn a_program_in_c_does_batches_that_openssl_confirms() {
    run("crypto", &["-lcrypto"]);
}

#[test]
fn the_header_is_one_of_cplusplus_too() {
    let header = root().join("include/widelane.h");
    let compiler =
        Command::new("c++").args(["-fsyntax-only", "-Wall", "-Werror"]).arg(header).status();
    let Ok(status) = compiler else { return eprintln!("skipped: there is no C++ compiler here") };
    assert!(status.success());
}

/// The version that the package's file for pkg-config names is that of the library.
#[test]
fn pkg_config_tells_the_version() {
    let file = root().join("../../packaging/pkgconfig/widelane.pc");
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(concat!("\nVersion: ", env!("CARGO_PKG_VERSION"), "\n")), "{text}");
}
