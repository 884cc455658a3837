//! The `openssl` program on our keys: nothing differs from the default provider, but who signs.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::thread;

use widelane_cpu::{Room, Width};
use widelane_crypto::rsa::Rsa;
use widelane_testkit::rooms::{has_lanes, has_rsa, policy_here_up_to};

use crate::common::server::Server;
use crate::common::{Place, done, may_run};

/// Signs by our provider and verifies by the machine's OpenSSL, and the other way round.
fn crosses(place: &Place, key: &str, options: &str) {
    for (signer, verifier) in [(true, false), (false, true)] {
        let command = |ours: bool, text: String| {
            if ours { place.ours(&text) } else { place.plain(&text) }
        };
        let sign = format!("openssl dgst {options} -sign {key} -out signature message");
        let verify = format!("openssl dgst {options} -prverify {key} -signature signature message");
        done(&mut command(signer, sign));
        let said = done(&mut command(verifier, verify));
        assert!(said.contains("Verified OK"), "{options}: {said}");
    }
}

fn with_message() -> Place {
    let place = Place::new();
    fs::write(place.path("message"), "the message").unwrap();
    place
}

#[test]
fn keys_of_every_size_are_made_read_written_and_checked() {
    let place = with_message();
    for bits in [1024, 2048, 3072, 4096] {
        done(&mut place.ours(&format!(
            "openssl genpkey -quiet -algorithm RSA -pkeyopt rsa_keygen_bits:{bits} -out key.pem"
        )));
        done(&mut place.ours("openssl pkey -in key.pem -check -noout"));
        done(&mut place.ours("openssl rsa -in key.pem -traditional -out traditional.pem"));
        let ours = done(&mut place.ours("openssl pkey -in traditional.pem -text -noout"));
        let theirs = done(&mut place.plain("openssl pkey -in key.pem -text -noout"));
        assert_eq!(ours, theirs);
        crosses(&place, "key.pem", "-sha256");
    }
}

#[test]
fn every_padding_and_digest_verifies() {
    let place = with_message();
    done(&mut place.plain("openssl genpkey -quiet -algorithm RSA -out key.pem"));
    for digest in ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha512-256", "sha3-384"]
    {
        crosses(&place, "key.pem", &format!("-{digest}"));
    }
    assert_eq!(place.sum(|counters| counters.fallbacks), 0);
    for salt in ["-1", "-2", "-3", "0", "20"] {
        let pss = format!("-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:{salt}");
        crosses(&place, "key.pem", &format!("-sha256 {pss}").replace("saltlen:-3", "saltlen:max"));
    }
    crosses(
        &place,
        "key.pem",
        "-sha512 -sigopt rsa_padding_mode:pss -sigopt rsa_mgf1_md:sha1 -sigopt rsa_pss_saltlen:32",
    );
    crosses(&place, "key.pem", "-sha256 -sigopt rsa_padding_mode:x931");
    let signed = place.sum(|counters| counters.jobs_synchronous);
    let delegated = place.sum(|counters| counters.jobs_delegated);
    // MD5 and X9.31 are the default provider's business; the other 13 are ours where there are
    // kernels.
    let expected = if has_rsa() { (13, 2) } else { (0, 15) };
    assert_eq!((signed, delegated), expected);
}

#[test]
fn keys_limited_to_pss_keep_their_limits() {
    let place = with_message();
    done(&mut place.ours("openssl genpkey -quiet -algorithm RSA-PSS -out free.pem"));
    crosses(&place, "free.pem", "-sha384");
    done(&mut place.ours(
        "openssl genpkey -quiet -algorithm RSA-PSS -pkeyopt rsa_pss_keygen_md:sha256 \
         -pkeyopt rsa_pss_keygen_mgf1_md:sha256 -pkeyopt rsa_pss_keygen_saltlen:32 \
         -out limited.pem",
    ));
    crosses(&place, "limited.pem", "-sha256");
    for refused in ["-sha384", "-sha256 -sigopt rsa_pss_saltlen:20"] {
        let command = format!("openssl dgst {refused} -sign limited.pem -out signature message");
        for openssl in [&mut place.ours(&command), &mut place.plain(&command)] {
            assert!(!openssl.output().unwrap().status.success(), "{openssl:?} must be refused");
        }
    }
}

#[test]
fn requests_certificates_and_raw_operations_work() {
    let place = with_message();
    done(&mut place.ours("openssl genpkey -quiet -algorithm RSA -out key.pem"));
    done(&mut place.ours("openssl req -new -key key.pem -subj /CN=request -out request.pem"));
    done(&mut place.plain("openssl req -in request.pem -verify -noout"));
    for options in ["", "-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:-1"] {
        let make = format!(
            "openssl req -x509 -key key.pem -subj /CN=localhost {options} \
             -addext basicConstraints=critical,CA:TRUE -out root.pem"
        );
        done(&mut place.ours(&make));
        done(&mut place.plain("openssl verify -CAfile root.pem root.pem"));
        done(&mut place.ours("openssl verify -CAfile root.pem root.pem"));
        let theirs = done(&mut place.plain("openssl x509 -in root.pem -noout -text"));
        assert_eq!(theirs.contains("rsassaPss"), !options.is_empty(), "{theirs}");
    }
    // The certificate's key and the private key are compared across providers.
    done(
        &mut place
            .ours("openssl x509 -req -in request.pem -CA root.pem -CAkey key.pem -out leaf.pem"),
    );
    done(&mut place.plain("openssl verify -CAfile root.pem leaf.pem"));

    for options in ["", "-pkeyopt rsa_padding_mode:oaep"] {
        let encrypt =
            format!("openssl pkeyutl -encrypt {options} -inkey key.pem -in message -out box");
        let decrypt = format!("openssl pkeyutl -decrypt {options} -inkey key.pem -in box");
        done(&mut place.plain(&encrypt));
        assert_eq!(done(&mut place.ours(&decrypt)), "the message");
        done(&mut place.ours(&encrypt));
        assert_eq!(done(&mut place.plain(&decrypt)), "the message");
    }
    // Signed as it is, without a digest; then recovered.
    done(&mut place.ours("openssl pkeyutl -sign -inkey key.pem -in message -out raw"));
    let recover = "openssl pkeyutl -verifyrecover -inkey key.pem -in raw";
    assert_eq!(done(&mut place.plain(recover)), "the message");
    assert_eq!(done(&mut place.ours(recover)), "the message");
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
    for key in ["rsa2048", "rsa3072", "rsa4096"] {
        place.forget_counters();
        let command = "openssl speed -provider-path . -provider widelane -provider default \
                       -async_jobs 16 -seconds 1 ";
        let mut speed = place.plain(&format!("{command}{key}"));
        speed.env("WIDELANE_COUNTERS_DIR", place.path("counters"));
        speed.env("WIDELANE_MAX_SIMD_BITWIDTH", width.bits().to_string());
        done(&mut speed);
        let rsa = Rsa::choose(&policy_here_up_to(width));
        let open = rsa.room();
        for other in Room::ALL {
            let runs = place.sum(|counters| counters.runs_by_room[other as usize]);
            let said = format!("{key}, {width:?}: {runs} runs in {}", other.name());
            if open != Room::Portable && other == open {
                assert!(runs > 0, "{said}");
            } else if !may_run(other, width) {
                assert_eq!(runs, 0, "{said}");
            }
        }
        let lanes = place.counters()[0].lanes;
        assert_eq!(lanes, rsa.lanes(), "{width:?}");
        let full = place.sum(|counters| counters.batches_by_fill[lanes]);
        assert_eq!(full > 0, open != Room::Portable, "{key}, {width:?}: {full} full batches");
        for failures in [
            place.sum(|counters| counters.fallbacks),
            place.sum(|counters| counters.faults_detected),
        ] {
            assert_eq!(failures, 0);
        }
    }
}

#[test]
fn a_malformed_policy_is_said_and_accelerates_nothing() {
    let place = with_message();
    done(&mut place.plain("openssl genpkey -quiet -algorithm RSA -out key.pem"));
    fs::write(place.path("policy.toml"), "width_max = 333\n").unwrap();
    done(&mut place.plain("openssl genpkey -quiet -algorithm X25519 -out mine.pem"));
    done(&mut place.plain("openssl pkey -in mine.pem -pubout -out mine.public.pem"));
    // By rooms with lanes, and by those without.
    for (command, delegated) in [
        ("openssl dgst -sha256 -sign key.pem -out signature message", 1),
        ("openssl pkeyutl -derive -inkey mine.pem -peerkey mine.public.pem -out secret", 2),
    ] {
        let mut command = place.ours(command);
        let said = done(command.env("WIDELANE_POLICY", place.path("policy.toml")));
        assert!(said.contains("policy.toml") && said.contains("nothing is accelerated"), "{said}");
        assert_eq!(place.sum(|counters| counters.jobs_delegated), delegated);
    }
    assert_eq!(place.counters()[0].lanes, 1);
}

#[test]
fn a_full_disk_costs_the_counters_and_nothing_else() {
    let place = with_message();
    if !place.plain("unshare --mount true").status().is_ok_and(|status| status.success()) {
        eprintln!("only root can mount a small disk: nothing was tested");
        return;
    }
    done(&mut place.plain("openssl genpkey -quiet -algorithm RSA -out key.pem"));
    let sign = "openssl dgst -sha256 -sign key.pem -out signature message";
    let verify = "openssl dgst -sha256 -prverify key.pem -signature signature message";
    // The second time nobody can be told, for the log of the program is on a full disk as well.
    for errors in ["", "2> /dev/full"] {
        let small_disk = format!(
            "mount -t tmpfs -o size=4k none counters && echo > counters/full \
             && exec \"$@\" {errors}"
        );
        let mut command = place.ours("unshare --mount sh -c");
        let said = done(command.args([&small_disk, "sh"]).args(sign.split_whitespace()));
        let tells = said.contains("cannot write counters") && said.contains("No space left");
        assert_eq!(tells, errors.is_empty(), "{said}");
        assert!(done(&mut place.plain(verify)).contains("Verified OK"));
        fs::remove_file(place.path("signature")).unwrap();
    }
    assert_eq!(place.counters().len(), 0);
}

#[test]
fn tls_servers_and_clients_shake_hands() {
    let place = Place::new();
    done(&mut place.ours("openssl genpkey -quiet -algorithm RSA -out key.pem"));
    done(&mut place.ours(
        "openssl req -x509 -key key.pem -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 \
         -out root.pem",
    ));
    for server_options in ["", "-async"] {
        let server = Server::start(&mut place.ours(&format!(
            "openssl s_server -accept 127.0.0.1:0 -cert root.pem -key key.pem -www {server_options}"
        )));
        let before = place.sum(|counters| counters.jobs_delegated);
        for options in [
            "-tls1_3",
            "-tls1_2 -cipher ECDHE-RSA-AES256-GCM-SHA384",
            "-tls1_2 -cipher ECDHE-RSA-AES256-GCM-SHA384 -sigalgs RSA-PSS+SHA256",
            "-tls1_2 -cipher AES128-SHA",
            "-tls1_2 -cipher AES128-GCM-SHA256",
        ] {
            for ours in [false, true] {
                let command = format!(
                    "openssl s_client -connect 127.0.0.1:{} -CAfile root.pem -verify_return_error \
                     -brief {options}",
                    server.port
                );
                let mut client = if ours { place.ours(&command) } else { place.plain(&command) };
                client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut client = client.spawn().unwrap();
                let _ = client.stdin.take().unwrap().write_all(b"Q\n");
                let output = client.wait_with_output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success() && said.contains("Verification: OK"), "{said}");
            }
        }
        let url = format!("https://127.0.0.1:{}/", server.port);
        let mut curl = place.ours("curl --silent --show-error --max-time 20 --cacert root.pem");
        let page = done(curl.arg(&url));
        assert!(page.contains("s_server"), "{page}");
        if has_lanes() {
            let after = place.sum(|counters| counters.jobs_delegated);
            assert_eq!(after, before, "nothing in a handshake is unusual");
        }
        drop(server);
    }
    assert_eq!(place.sum(|counters| counters.fallbacks), 0);
}
