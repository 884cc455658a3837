//! The `openssl` program on keys on elliptic curves: nothing differs from the default provider, but
//! who computes.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::thread;

use widelane_bridge::counters::OperationKind;
use widelane_cpu::{Room, Width};
use widelane_host::counters::KindCounts;
use widelane_testkit::rooms::has_x25519;

use crate::common::server::Server;
use crate::common::{Place, done, may_run};

/// What `openssl genpkey` takes for each kind of keys, ours and others.
const KEYS: &[&str] = &[
    "-algorithm EC -pkeyopt ec_paramgen_curve:P-256",
    "-algorithm EC -pkeyopt ec_paramgen_curve:secp384r1",
    "-algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:explicit",
    "-algorithm EC -pkeyopt ec_paramgen_curve:P-521",
    "-algorithm EC -pkeyopt ec_paramgen_curve:secp256k1",
    "-algorithm EC -pkeyopt ec_paramgen_curve:brainpoolP256r1",
    "-algorithm X25519",
    "-algorithm X448",
    "-algorithm ED25519",
    "-algorithm ED448",
];

fn with_message() -> Place {
    let place = Place::new();
    fs::write(place.path("message"), "the message").unwrap();
    place
}

fn by(place: &Place, ours: bool, command: &str) -> String {
    done(&mut if ours { place.ours(command) } else { place.plain(command) })
}

#[test]
fn keys_of_every_kind_are_made_read_written_checked_and_compared() {
    let place = with_message();
    for kind in KEYS {
        for maker in [true, false] {
            by(&place, maker, &format!("openssl genpkey {kind} -out key.pem"));
            by(&place, true, "openssl pkey -in key.pem -check -noout");
            by(&place, true, "openssl pkey -in key.pem -pubout -out public.pem");
            by(&place, true, "openssl pkey -pubin -in public.pem -pubcheck -noout");
            for command in [
                "openssl pkey -in key.pem -text -noout",
                "openssl pkey -in key.pem -outform DER -out -",
                "openssl pkey -pubin -in public.pem -text -noout",
                "openssl pkey -in key.pem -text -traditional",
            ] {
                let read = |ours| place_output(&place, ours, command);
                assert_eq!(read(true), read(false), "{kind}: {command}");
            }
        }
    }
}

/// Every curve that `openssl` knows by a name.
fn curves(place: &Place) -> Vec<String> {
    let listed = done(&mut place.plain("openssl ecparam -list_curves"));
    let names = listed.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
    names.filter(|name| !name.is_empty()).collect()
}

#[test]
fn keys_on_every_named_curve_are_written_as_by_the_default_provider() {
    let all = curves(&Place::new());
    assert!(all.len() > 20 && all.iter().any(|name| name == "SM2"), "{all:?}");
    thread::scope(|scope| {
        for curves in all.chunks(all.len().div_ceil(4)) {
            scope.spawn(|| curves.iter().for_each(|curve| is_written_as_natively(curve)));
        }
    });
}

fn is_written_as_natively(curve: &str) {
    let place = Place::new();
    let option = format!("-algorithm EC -pkeyopt ec_paramgen_curve:{curve}");
    // A key as it comes from its generation, and then from a file: some curves have another kind of
    // keys there.
    let made = by(&place, true, &format!("openssl genpkey {option} -text"));
    fs::write(place.path("key.pem"), &made).unwrap();
    assert_eq!(by(&place, false, "openssl pkey -in key.pem -text"), made, "{curve}");
    by(&place, true, &format!("openssl genpkey {option} -outform DER -out made.der"));
    by(&place, false, "openssl pkey -in made.der -inform DER -check -noout");
    by(&place, true, &format!("openssl ecparam -name {curve} -genkey -noout -out traditional.pem"));
    for command in [
        "openssl pkey -in key.pem -outform DER",
        "openssl pkey -in key.pem -pubout",
        "openssl pkey -in traditional.pem -pubout -outform DER",
        "openssl ec -in traditional.pem -text",
        "openssl ec -in key.pem -conv_form compressed -param_enc explicit",
    ] {
        let written = |ours| place_output(&place, ours, command);
        assert_eq!(written(true), written(false), "{curve}: {command}");
    }
    let parameters = |ours| by(&place, ours, &format!("openssl genpkey -genparam {option}"));
    let named = parameters(true);
    assert_eq!(named, parameters(false), "{curve}");
    fs::write(place.path("parameters.pem"), named).unwrap();
    let read = |ours| by(&place, ours, "openssl pkeyparam -in parameters.pem -text -check");
    assert_eq!(read(true), read(false), "{curve}");
    by(&place, true, "openssl genpkey -paramfile parameters.pem -out key.pem");
    by(&place, false, "openssl pkey -in key.pem -check -noout");
}

/// What a command writes, which need not be text, and whether it succeeds.
fn place_output(place: &Place, ours: bool, command: &str) -> (bool, Vec<u8>) {
    let mut command = if ours { place.ours(command) } else { place.plain(command) };
    let output = command.output().expect("openssl is installed");
    (output.status.success(), output.stdout)
}

#[test]
fn secrets_are_the_same_whoever_derives_them() {
    let place = Place::new();
    for kind in KEYS.iter().filter(|kind| !kind.contains("ED")) {
        for name in ["mine", "yours"] {
            by(&place, true, &format!("openssl genpkey {kind} -out {name}.pem"));
            by(
                &place,
                true,
                &format!("openssl pkey -in {name}.pem -pubout -out {name}.public.pem"),
            );
        }
        let derive = |ours, key, peer, options| {
            let command = format!(
                "openssl pkeyutl -derive {options} -inkey {key}.pem -peerkey {peer}.public.pem"
            );
            let (done, secret) = place_output(&place, ours, &command);
            assert!(done, "{command}");
            secret
        };
        let secret = derive(false, "mine", "yours", "");
        assert_eq!(derive(true, "mine", "yours", ""), secret, "{kind}");
        assert_eq!(derive(true, "yours", "mine", ""), secret, "{kind}");
        if kind.contains("EC") {
            let kdf = "-pkeyopt kdf-type:X963KDF -pkeyopt kdf-digest:sha256 \
                       -pkeyopt kdf-outlen:50";
            let derived = derive(false, "mine", "yours", kdf);
            assert_eq!(derived.len(), 50);
            assert_eq!(derive(true, "mine", "yours", kdf), derived, "{kind}");
            let cofactor = "-pkeyopt ecdh_cofactor_mode:1";
            assert_eq!(derive(true, "mine", "yours", cofactor), secret, "{kind}");
        }
    }
    let derived =
        place.sum(|counters| counters.by_kind[OperationKind::X25519Derive as usize].synchronous);
    assert_eq!(derived, if has_x25519() { 2 } else { 0 });
}

#[test]
fn every_signature_verifies_across_providers() {
    let place = with_message();
    for kind in KEYS.iter().filter(|kind| !kind.contains("X25519") && !kind.contains("X448")) {
        by(&place, true, &format!("openssl genpkey {kind} -out key.pem"));
        for (signer, verifier) in [(true, false), (false, true), (true, true)] {
            if kind.contains("ED") {
                by(
                    &place,
                    signer,
                    "openssl pkeyutl -sign -rawin -inkey key.pem -in message -out s",
                );
                let said = by(
                    &place,
                    verifier,
                    "openssl pkeyutl -verify -rawin -inkey key.pem -in message -sigfile s",
                );
                assert!(said.contains("Verified Successfully"), "{kind}: {said}");
                continue;
            }
            for digest in ["sha1", "sha256", "sha384", "sha512", "sha512-224", "sha3-256", "md5"] {
                by(&place, signer, &format!("openssl dgst -{digest} -sign key.pem -out s message"));
                let verify =
                    format!("openssl dgst -{digest} -prverify key.pem -signature s message");
                assert!(by(&place, verifier, &verify).contains("Verified OK"), "{kind}, {digest}");
            }
            // A digest by itself, of whatever length.
            by(&place, signer, "openssl pkeyutl -sign -inkey key.pem -in message -out s");
            let verify = "openssl pkeyutl -verify -inkey key.pem -in message -sigfile s";
            assert!(by(&place, verifier, verify).contains("Verified Successfully"), "{kind}");
        }
    }
    assert_eq!(place.sum(|counters| counters.fallbacks), 0);
}

#[test]
fn certificates_of_every_key_are_requested_made_and_verified() {
    let place = with_message();
    for kind in KEYS.iter().filter(|kind| !kind.contains("X25519") && !kind.contains("X448")) {
        by(&place, true, &format!("openssl genpkey {kind} -out key.pem"));
        by(&place, true, "openssl req -new -key key.pem -subj /CN=request -out request.pem");
        by(&place, false, "openssl req -in request.pem -verify -noout");
        let make = "openssl req -x509 -key key.pem -subj /CN=localhost \
                    -addext basicConstraints=critical,CA:TRUE -out root.pem";
        by(&place, true, make);
        // The certificate's key and the private key are compared across providers.
        let sign = "openssl x509 -req -in request.pem -CA root.pem -CAkey key.pem -out leaf.pem";
        by(&place, true, sign);
        // OpenSSL verifies no chain of keys with explicit parameters.
        if !kind.contains("explicit") {
            for ours in [true, false] {
                by(&place, ours, "openssl verify -CAfile root.pem leaf.pem");
            }
        }
        let text = |ours| by(&place, ours, "openssl x509 -in leaf.pem -noout -text");
        assert_eq!(text(true), text(false));
    }
}

#[test]
fn jobs_of_openssl_speed_run_in_the_room_that_the_policy_opens() {
    // Each of them takes its second.
    thread::scope(|scope| {
        for width in [Width::W128, Width::W256, Width::W512] {
            scope.spawn(move || jobs_run_in_their_room(width));
        }
    });
}

fn jobs_run_in_their_room(width: Width) {
    let place = Place::new();
    for (name, kind) in [
        ("ecdsap256", OperationKind::P256Sign),
        ("ecdsap384", OperationKind::P384Sign),
        ("ecdhp256", OperationKind::P256Derive),
        ("ecdhp384", OperationKind::P384Derive),
        ("ecdhx25519", OperationKind::X25519Derive),
        ("ed25519", OperationKind::Ed25519Sign),
    ] {
        place.forget_counters();
        // Of two providers none of which is preferred, OpenSSL 3.6 takes the default one for
        // shared secrets: this prefers ours.
        let command = format!("openssl speed -async_jobs 16 -seconds 1 {name}");
        let mut speed = place.ours(&command);
        speed.env("WIDELANE_MAX_SIMD_BITWIDTH", width.bits().to_string());
        done(&mut speed);
        let rooms = [Room::Ifma256, Room::Ifma512, Room::Fma256];
        let has_lanes = rooms.into_iter().any(|room| may_run(room, width));
        let counters = &place.counters()[0];
        let KindCounts { runs, batched, .. } = counters.by_kind[kind as usize];
        let is_done_alone = kind == OperationKind::X25519Derive && may_run(Room::Adx, width);
        let expected = has_lanes || is_done_alone;
        assert_eq!(runs > 0, expected, "{name}, {width:?}: {runs}, {batched}");
        // On P-256 a batch costs some CPUs hardly less than OpenSSL's own operations, and what was
        // measured, here beside other work, decides.
        let is_close = matches!(kind, OperationKind::P256Sign | OperationKind::P256Derive);
        assert!(batched > 0 || is_close || !expected, "{name}, {width:?}: {runs}, {batched}");
        for other in Room::ALL.into_iter().filter(|other| !may_run(*other, width)) {
            let runs = counters.runs_by_room[other as usize];
            assert_eq!(runs, 0, "{name}, {width:?}: {runs} runs in {}", other.name());
        }
        for failures in [counters.fallbacks, counters.faults_detected] {
            assert_eq!(failures, 0, "{name}, {width:?}");
        }
    }
}

#[test]
fn every_certificate_group_and_version_shakes_hands() {
    let place = Place::new();
    let certificates = [
        ("-algorithm RSA", "RSA", ""),
        ("-algorithm EC -pkeyopt ec_paramgen_curve:P-256", "ECDSA", ""),
        ("-algorithm EC -pkeyopt ec_paramgen_curve:P-384", "ECDSA", "-async"),
        ("-algorithm ED25519", "ECDSA", "-async"),
    ];
    for (key, suite, options) in certificates {
        done(&mut place.ours(&format!("openssl genpkey -quiet {key} -out key.pem")));
        done(&mut place.ours(
            "openssl req -x509 -key key.pem -subj /CN=localhost \
             -addext subjectAltName=IP:127.0.0.1 -out root.pem",
        ));
        let server = Server::start(&mut place.ours(&format!(
            "openssl s_server -accept 127.0.0.1:0 -cert root.pem -key key.pem -www \
             -groups X25519:P-256:P-384:P-521:X448 {options}"
        )));
        for group in ["X25519", "P-256", "P-384", "P-521", "X448"] {
            for version in
                ["-tls1_3".to_owned(), format!("-tls1_2 -cipher ECDHE-{suite}-AES256-GCM-SHA384")]
            {
                for ours in [false, true] {
                    // TLS 1.2 takes the groups for the curves of certificates as well.
                    let mut groups = vec![group];
                    groups.extend(["P-256", "P-384"].into_iter().filter(|other| *other != group));
                    let groups = groups.join(":");
                    let command = format!(
                        "openssl s_client -connect 127.0.0.1:{} -CAfile root.pem \
                         -verify_return_error -brief -groups {groups} {version}",
                        server.port
                    );
                    let mut client =
                        if ours { place.ours(&command) } else { place.plain(&command) };
                    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                    let mut client = client.spawn().unwrap();
                    let _ = client.stdin.take().unwrap().write_all(b"Q\n");
                    let output = client.wait_with_output().unwrap();
                    let said = String::from_utf8_lossy(&output.stderr);
                    let verified = output.status.success() && said.contains("Verification: OK");
                    assert!(verified, "{key}, {group}, {version}: {said}");
                    let key_exchange = said.lines().find(|line| line.contains("Temp Key"));
                    let named = key_exchange.is_some_and(|line| {
                        line.replace("prime256v1", "P-256")
                            .replace("secp384r1", "P-384")
                            .replace("secp521r1", "P-521")
                            .contains(group)
                    });
                    assert!(named, "{group}: {said}");
                }
            }
        }
        drop(server);
    }
    assert_eq!(place.sum(|counters| counters.fallbacks), 0);
    assert_eq!(place.sum(|counters| counters.faults_detected), 0);
}

#[test]
fn clients_with_nists_curves_alone_do_no_harm_to_asynchronous_servers() {
    let place = Place::new();
    done(&mut place.ours("openssl genpkey -quiet -algorithm RSA -out key.pem"));
    done(&mut place.ours("openssl req -x509 -key key.pem -subj /CN=localhost -out root.pem"));
    let server = Server::start(
        &mut place
            .ours("openssl s_server -accept 127.0.0.1:0 -cert root.pem -key key.pem -www -async"),
    );
    for _ in 0..10 {
        for group in ["P-256", "P-384"] {
            let mut client = place.plain(&format!(
                "openssl s_client -connect 127.0.0.1:{} -CAfile root.pem -brief -groups {group}",
                server.port
            ));
            let said = done(client.stdin(Stdio::null()));
            assert!(said.contains("Verification: OK"), "{said}");
        }
    }
}
