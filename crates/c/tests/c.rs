//! The header is what cbindgen writes, and programs in C work with it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_header_is_up_to_date() {
    let mut config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    let mut types = types(&root().join("src"));
    types.sort_unstable();
    for (name, kind) in types {
        config.export.rename.insert(name.clone(), c_name(&name));
        // Functions take their numbers, so nothing refers to them.
        if kind == "enum" {
            config.export.include.push(name);
        }
    }
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

/// The types that C gets, each with `struct` or `enum` behind it: all that are public.
fn types(directory: &Path) -> Vec<(String, String)> {
    let of_file = |path: &Path| -> Vec<(String, String)> {
        let text = fs::read_to_string(path).unwrap();
        let declared = text.lines().filter_map(|line| line.strip_prefix("pub ")?.split_once(' '));
        declared
            .filter(|(kind, _)| ["struct", "enum"].contains(kind))
            .map(|(kind, rest)| {
                (rest.chars().take_while(|char| char.is_alphanumeric()).collect(), kind.to_owned())
            })
            .collect()
    };
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { types(&path) } else { of_file(&path) }).collect()
}

/// What C calls a type: `EcSignJob` is `widelane_ec_sign_job`.
fn c_name(name: &str) -> String {
    let mut words = String::from("widelane");
    for letter in name.chars() {
        if letter.is_uppercase() {
            words.push('_');
        }
        words.extend(letter.to_lowercase());
    }
    words
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
fn a_program_in_c_calls_while_threads_and_the_process_end() {
    run("exit", &[]);
}

#[test]
fn a_program_in_c_forks() {
    run("fork", &[]);
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
