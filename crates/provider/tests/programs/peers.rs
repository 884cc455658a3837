//! Peers' vectors: those of Python's `cryptography`, and its `ssl` module, through our provider.
//!
//! `apt-get install python3-cryptography python3-cryptography-vectors` brings what this takes.

use widelane_bridge::counters::OperationKind;
use widelane_testkit::rooms::{has_lanes, policy_here};

use crate::common::{Place, ciphers_offered, done};

/// Operations that must have come to us. Python's ECDSA calls OpenSSL's old functions, which know
/// no providers; its handshakes do not.
const KINDS: [OperationKind; 7] = [
    OperationKind::Rsa2048,
    OperationKind::Rsa3072,
    OperationKind::Rsa4096,
    OperationKind::P256Sign,
    OperationKind::Ed25519Sign,
    OperationKind::X25519Derive,
    OperationKind::X25519Generate,
];

#[test]
fn vectors_of_python_pass_as_they_do_natively() {
    let place = Place::new();
    // The interpreter of the system is linked to the OpenSSL of the system.
    let python = "/usr/bin/python3";
    let needs = place.plain(&format!("{python} -c")).arg("import cryptography_vectors").output();
    if !needs.is_ok_and(|output| output.status.success()) {
        eprintln!("python3-cryptography-vectors is not installed: nothing was tested");
        return;
    }
    for (name, key) in [("rsa", "rsa:2048"), ("ec", "ec -pkeyopt ec_paramgen_curve:P-256")] {
        done(&mut place.plain(&format!(
            "openssl req -x509 -nodes -newkey {key} -subj /CN=localhost \
             -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:TRUE \
             -keyout {name}.key -out {name}.pem"
        )));
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/vectors.py");
    let command = format!("{python} {script} .");
    let native = done(place.plain(&command).env_remove("LD_LIBRARY_PATH"));
    let ours = done(place.ours(&command).env_remove("LD_LIBRARY_PATH"));
    assert_eq!(ours, native);
    eprintln!("{ours}");
    if !has_lanes() {
        return;
    }
    for kind in KINDS {
        let done = place.sum(|counters| counters.by_kind[kind as usize].synchronous)
            + place.sum(|counters| counters.by_kind[kind as usize].pooled)
            + place.sum(|counters| counters.by_kind[kind as usize].batched)
            + place.sum(|counters| counters.by_kind[kind as usize].single);
        assert!(done > 0, "{} was not ours", kind.name());
    }
    for (kind, room) in ciphers_offered(&policy_here()) {
        let messages = place.counters()[0].by_cipher[kind as usize].messages_by_room[room as usize];
        let is_aead = ["gcm", "poly1305"].iter().any(|name| kind.name().contains(name));
        assert!(messages > 0 || !is_aead, "{} was not ours", kind.name());
    }
    for failures in
        [place.sum(|counters| counters.fallbacks), place.sum(|counters| counters.faults_detected)]
    {
        assert_eq!(failures, 0);
    }
}
