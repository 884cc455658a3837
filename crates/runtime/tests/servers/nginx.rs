//! Stock nginx under `widelane run`: every kind of handshake, and every kind of life.

use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use widelane_loadgen::TlsVersion;
use widelane_testkit::server::{free_address, nginx_files};

use crate::support;
use crate::support::authority::{Authority, Identity, Kind};
use crate::support::clients::{
    REQUEST, client_hello, load, load_every_group, packets_of_an_answer, s_client, send,
};
use crate::support::server::{OLD_PID_FILE, PID_FILE, Server, send_signal};
use crate::support::{run, wait_until};

const ANSWER: &str =
    "location / { return 200 \"$ssl_session_reused $ssl_client_verify $http2.\\n\"; }";

fn identity_lines(identity: &Identity) -> String {
    format!(
        "ssl_certificate {}; ssl_certificate_key {};",
        identity.certificate.display(),
        identity.key.display()
    )
}

fn server(workers: usize, identity: &Identity, more: &str) -> Server {
    Server::nginx(workers, &format!("{} {more} {ANSWER}", identity_lines(identity)))
}

#[test]
fn full_handshakes_are_batched() {
    let (_authority, identity) = support::localhost();
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let server = server(1, &identity, "");
        let tally = load(server.port, &identity, version, 64, 600);
        assert!(tally.full >= 600, "{version:?}: {}", tally.full);
        let counters = server.counters();
        counters.assert_batched();
        assert_eq!(counters.jobs_synchronous, 0, "{version:?}: {counters:?}");
    }
}

#[test]
fn tickets_leave_with_the_answer() {
    let (_authority, identity) = support::localhost();
    let server = server(1, &identity, "");
    assert_eq!(packets_of_an_answer(server.port), 2, "a flight, and the rest");
}

#[test]
fn a_lone_handshake_is_not_kept_waiting() {
    let (_authority, identity) = support::localhost();
    let server = server(1, &identity, "");
    load(server.port, &identity, TlsVersion::Tls13, 1, 20);
    let counters = server.counters();
    counters.assert_closed_idle(20);
    // By the default provider, or by whichever kernel is cheapest for one.
    let alone = counters.jobs_single + counters.batches_by_fill[1];
    assert!(alone >= 40 || !counters.has_lanes(), "each is made alone: {counters:?}");
    assert_eq!(counters.batches_by_fill[2..].iter().sum::<u64>(), 0, "{counters:?}");
}

#[test]
fn both_certificates_and_every_group_are_batched() {
    let (authority, rsa) = support::localhost();
    let ecdsa = authority.issue_with("localhost", Kind::P256);
    let more = format!("{} ssl_ecdh_curve X25519:P-256:P-384;", identity_lines(&ecdsa));
    let server = server(1, &rsa, &more);
    load_every_group(&server, &[&rsa, &ecdsa]);
}

#[test]
fn groups_with_ml_kem_are_batched() {
    let (_authority, identity) = support::localhost();
    let groups = support::kems::GROUPS.map(|(group, _)| group).join(":");
    let server = server(1, &identity, &format!("ssl_ecdh_curve {groups}:X25519;"));
    support::kems::shake_hands(&server);
    load(server.port, &identity, TlsVersion::Tls13, 8, 20);
}

#[test]
fn sessions_resume() {
    let (authority, identity) = support::localhost();
    let server = server(1, &identity, "ssl_session_cache shared:s:1m;");
    for version in ["-tls1_2", "-tls1_3"] {
        let session = authority.path("session");
        let session = session.to_str().expect("text");
        s_client(server.port, &[version, "-sess_out", session], REQUEST);
        let before = server.counters();
        let said = s_client(server.port, &[version, "-sess_in", session], REQUEST);
        assert!(said.contains("Reused, "), "{version}: {said}");
        let after = server.counters();
        assert_eq!(after.signed(), before.signed(), "{version}: resuming needs no signature");
    }
}

#[test]
fn early_data_is_accepted_and_full_handshakes_with_it_enabled_are_parked() {
    let (authority, identity) = support::localhost();
    let server = server(1, &identity, "ssl_early_data on;");
    let session = authority.path("session");
    let session = session.to_str().expect("text");
    s_client(server.port, &["-tls1_3", "-sess_out", session], REQUEST);
    server.counters().assert_signed(1);
    let request = authority.path("request");
    std::fs::write(&request, REQUEST).expect("a short write");
    let request = request.to_str().expect("text");
    let arguments = ["-tls1_3", "-sess_in", session, "-early_data", request];
    let said = s_client(server.port, &arguments, "");
    assert!(said.contains("Early data was accepted"), "{said}");
    assert!(said.contains("HTTP/1.1 200 OK"), "{said}");
    load(server.port, &identity, TlsVersion::Tls13, 32, 200);
    server.counters().assert_batched();
}

#[test]
fn clients_show_certificates() {
    let (authority, identity) = support::localhost();
    let client = authority.issue("client");
    let verify = format!(
        "ssl_verify_client on; ssl_client_certificate {};",
        authority.certificate().display()
    );
    let server = server(1, &identity, &verify);
    let certificate = client.certificate.to_str().expect("text");
    let key = client.key.to_str().expect("text");
    for version in ["-tls1_2", "-tls1_3"] {
        let said = s_client(server.port, &[version, "-cert", certificate, "-key", key], REQUEST);
        assert!(said.contains("SUCCESS"), "{version}: {said}");
        let said = s_client(server.port, &[version], REQUEST);
        assert!(said.contains("400 No required SSL certificate"), "{version}: {said}");
    }
    server.counters().assert_signed(4);
}

#[test]
fn ocsp_responses_are_stapled() {
    let (authority, identity) = support::localhost();
    let response = authority.ocsp_response(&identity);
    let stapling = format!("ssl_stapling on; ssl_stapling_file {};", response.display());
    let server = server(1, &identity, &stapling);
    for version in ["-tls1_2", "-tls1_3"] {
        let said = s_client(server.port, &[version, "-status"], REQUEST);
        assert!(said.contains("OCSP Response Status: successful"), "{version}: {said}");
    }
    server.counters().assert_signed(2);
}

#[test]
fn three_hundred_names_with_keys_of_their_own() {
    let authority = Authority::new();
    let keys: Vec<_> = (0..6).map(|index| authority.issue(&format!("key{index}")).key).collect();
    let port = free_address().port();
    let mut servers = String::new();
    for index in 0..300 {
        let name = format!("host{index}.test");
        // One certificate file per key would do for nginx; each name has its own, as on real hosts.
        let identity = authority.issue_for_key(&name, &keys[index % keys.len()]);
        servers += &format!(
            "server {{ listen 127.0.0.1:{port} ssl; server_name {name}; {} \
             return 200 \"$ssl_server_name\\n\"; }}\n",
            identity_lines(&identity)
        );
    }
    let http = format!(
        "http {{ {} server_names_hash_max_size 2048; {servers} }}",
        nginx_files(Path::new("."))
    );
    let server = Server::nginx_with(port, 1, "", &http);
    for index in [0, 7, 150, 299] {
        let name = format!("host{index}.test");
        let said = s_client(port, &["-servername", &name], REQUEST);
        // OpenSSL 3.0 writes `CN = name`, later ones `CN=name`.
        assert!(said.replace(" = ", "=").contains(&format!("subject=CN={name}")), "{said}");
        assert!(said.contains(&format!("\r\n\r\n{name}")), "{said}");
    }
    server.counters().assert_signed(4);
}

#[test]
fn speaks_http2() {
    let (_authority, identity) = support::localhost();
    let server = server(1, &identity, "");
    let said = run(Command::new("curl")
        .args(["-sk", "--http2", "-w", "%{http_version}"])
        .arg(format!("https://127.0.0.1:{}/", server.port)));
    let said = String::from_utf8_lossy(&said.stdout);
    assert!(said.ends_with("h2.\n2"), "{said}");
    server.counters().assert_signed(1);
}

#[test]
fn stream_and_mail_modules_are_batched_too() {
    let (_authority, identity) = support::localhost();
    let lines = identity_lines(&identity);
    let (stream, mail) = (free_address().port(), free_address().port());
    let main = "load_module /usr/lib/nginx/modules/ngx_stream_module.so;
                load_module /usr/lib/nginx/modules/ngx_mail_module.so;";
    let blocks = format!(
        "stream {{ server {{ listen 127.0.0.1:{stream} ssl; {lines} return \"streamed\\n\"; }} }}
         mail {{ auth_http 127.0.0.1:1/;
           server {{ listen 127.0.0.1:{mail} ssl; protocol imap; {lines} }} }}"
    );
    let server = Server::nginx_with(stream, 1, main, &blocks);
    assert!(s_client(stream, &[], "").contains("streamed"));
    let said = s_client(mail, &[], "a LOGOUT\r\n");
    assert!(said.contains("* OK IMAP4 ready"), "{said}");
    for port in [stream, mail] {
        load(port, &identity, TlsVersion::Tls12, 32, 100);
    }
    server.counters().assert_batched();
}

#[test]
fn reloading_loses_no_handshake() {
    let (_authority, identity) = support::localhost();
    let server = server(2, &identity, "");
    std::thread::scope(|scope| {
        let clients = scope.spawn(|| load(server.port, &identity, TlsVersion::Tls12, 32, 1500));
        while !clients.is_finished() {
            server.signal(libc::SIGHUP);
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
    });
    let counters = server.counters();
    counters.assert_batched();
    assert!(counters.processes > 2, "no new workers: {counters:?}");
}

#[test]
fn upgrading_the_binary_stays_accelerated() {
    let (_authority, identity) = support::localhost();
    let server = server(1, &identity, "");
    let first = server.pid();
    // nginx forgets the signal while it is still starting.
    worker_of(&server);
    server.signal(libc::SIGUSR2);
    wait_until("the new master", || {
        server.pid_in(OLD_PID_FILE) == Some(first) && server.pid_in(PID_FILE).is_some()
    });
    send_signal(first, libc::SIGQUIT);
    wait_until("the old master to end", || server.pid_in(OLD_PID_FILE).is_none());
    assert_ne!(server.pid(), first);
    let before = server.counters();
    load(server.port, &identity, TlsVersion::Tls12, 64, 300);
    server.counters().assert_batched_since(&before);
}

#[test]
fn clients_that_hang_up_at_any_stage_leave_nothing_behind() {
    let (authority, identity) = support::localhost();
    let server = server(1, &identity, "");
    let hello = client_hello(&authority.path(""), "-tls1_2");
    let worker = worker_of(&server);
    let descriptors = || std::fs::read_dir(format!("/proc/{worker}/fd")).expect("alive").count();
    load(server.port, &identity, TlsVersion::Tls12, 8, 16);
    let descriptors_before = descriptors();
    let stages = [&hello[..0], &hello[..1], &hello[..hello.len() / 2], &hello[..]];
    for round in 0..60 {
        let connections: Vec<_> = (0..16)
            .map(|index| send(server.port, stages[(round + index) % stages.len()]))
            .collect();
        for (index, connection) in connections.into_iter().enumerate() {
            if index % 2 == 0 {
                reset_on_close(&connection);
            }
        }
    }
    load(server.port, &identity, TlsVersion::Tls13, 32, 200);
    wait_until("all descriptors to be closed", || descriptors() <= descriptors_before);
    assert_eq!(worker_of(&server), worker, "the worker died: {}", server.output());
    server.counters().assert_batched();
}

/// The only worker of a server with one.
fn worker_of(server: &Server) -> i32 {
    let children = format!("/proc/{0}/task/{0}/children", server.pid());
    let mut worker = None;
    wait_until("the worker", || {
        let children = std::fs::read_to_string(&children).expect("a running master");
        worker = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        worker.is_some()
    });
    worker.expect("waited for")
}

/// Makes closing `connection` send a reset at once, as a client does that dies.
#[allow(unsafe_code, reason = "setsockopt")]
fn reset_on_close(connection: &std::net::TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the option's own type and size, read only during the call.
    let set = unsafe {
        libc::setsockopt(
            connection.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    assert_eq!(set, 0);
}

#[test]
fn workers_without_privileges_are_accelerated_and_counted() {
    let (_authority, identity) = support::localhost();
    let server = server(1, &identity, "");
    for process in [server.pid(), worker_of(&server)] {
        let libraries = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("alive");
        assert!(libraries.contains("libwidelane_runtime.so"), "process {process}");
    }
    let mode =
        std::fs::metadata(server.path("counters")).expect("made by run").permissions().mode();
    assert_eq!(mode & 0o7777, 0o1777, "workers without privileges write there");
}
