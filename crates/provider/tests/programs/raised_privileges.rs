//! A program with raised privileges does not hear our variables: whoever started it chose them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use widelane_testkit::program;

use crate::common;
use crate::common::Place;

/// The user `nobody`.
const NOBODY: u32 = 65_534;

#[test]
fn a_set_user_id_program_does_not_hear_our_variables() {
    let place = Place::new();
    if std::os::unix::fs::chown(place.path("counters"), Some(0), None).is_err() {
        eprintln!("only root can make such a program: nothing was tested");
        return;
    }
    common::done(&mut place.plain("openssl genrsa -out key.pem 2048"));
    fs::write(place.path("message"), "words").unwrap();
    // The other user has to come this far, and to read what is here.
    fs::remove_file(place.path("widelane.so")).unwrap();
    fs::copy(common::library(), place.path("widelane.so")).unwrap();
    program::install(Path::new("/usr/bin/openssl"), &place.path("openssl"));
    for (name, mode) in
        [("", 0o755), ("counters", 0o1777), ("key.pem", 0o644), ("widelane.so", 0o644)]
    {
        fs::set_permissions(place.path(name), Permissions::from_mode(mode)).unwrap();
    }

    let signed = |mode: u32| -> Output {
        fs::set_permissions(place.path("openssl"), Permissions::from_mode(mode)).unwrap();
        let options = "dgst -sha256 -sign key.pem -out /dev/null -provider-path . \
                       -provider widelane -provider default -propquery ?provider=widelane message";
        Command::new(place.path("openssl"))
            .args(options.split_whitespace())
            .current_dir(place.path(""))
            .env("WIDELANE_COUNTERS_DIR", place.path("counters"))
            .env("WIDELANE_MAX_SIMD_BITWIDTH", "nonsense")
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .unwrap()
    };
    let told = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let files = || fs::read_dir(place.path("counters")).unwrap().count();

    let raised = signed(0o4755);
    assert!(raised.status.success(), "{}", told(&raised));
    assert!(!told(&raised).contains("nonsense"), "{}", told(&raised));
    assert_eq!(files(), 0, "a set-user-ID program wrote where its user told it");

    let plain = signed(0o755);
    assert!(plain.status.success(), "{}", told(&plain));
    assert!(told(&plain).contains("nonsense"), "the variables are heard otherwise");
    assert_eq!(files(), 1);
}
