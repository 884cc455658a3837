//! `widelane load` from the command line, beside stock nginx where it is installed.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

fn load(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_widelane")).arg("load").args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}{}", String::from_utf8_lossy(&output.stdout), stderr(output))
    })
}

/// nginx as installed, with a log of which requests came on resumed sessions.
struct Nginx {
    child: Child,
    directory: tempfile::TempDir,
    address: String,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its worker ends with it: there is no master.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Nginx {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        make_certificate(place);
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let configuration = format!(
            "daemon off; master_process off; pid {0}/pid; error_log {0}/errors;
            events {{ worker_connections 1024; }}
            http {{
                log_format resumed '$ssl_session_reused'; access_log {0}/access resumed;
                client_body_temp_path {0}/1; proxy_temp_path {0}/2; fastcgi_temp_path {0}/3;
                uwsgi_temp_path {0}/4; scgi_temp_path {0}/5;
                server {{
                    listen 127.0.0.1:{port} ssl;
                    ssl_certificate {0}/certificate.pem; ssl_certificate_key {0}/key.pem;
                    ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:s:1m;
                    location / {{ return 200 'hello'; }}
                    location /missing {{ return 404; }}
                }}
            }}",
            place.display()
        );
        fs::write(place.join("nginx.conf"), configuration).unwrap();
        let child = Command::new("/usr/sbin/nginx")
            .arg("-p")
            .arg(place)
            .arg("-c")
            .arg(place.join("nginx.conf"))
            .spawn()
            .expect("nginx; `cargo xtask setup` installs it");
        let address = format!("127.0.0.1:{port}");
        let end = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(&address).is_err() {
            assert!(Instant::now() < end, "nginx does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        Nginx { child, directory, address }
    }

    fn authority(&self) -> PathBuf {
        self.directory.path().join("certificate.pem")
    }

    /// Requests on full and on resumed sessions, as nginx counted them.
    fn counted(&self) -> (u64, u64) {
        let log = fs::read_to_string(self.directory.path().join("access")).unwrap();
        let count = |mark| log.lines().filter(|line| *line == mark).count() as u64;
        (count("."), count("r"))
    }
}

fn make_certificate(place: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(place.join("key.pem"))
        .arg("-out")
        .arg(place.join("certificate.pem"))
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{}", stderr(&made));
}

#[test]
fn counts_full_and_resumed_handshakes_as_nginx_does() {
    let nginx = Nginx::start();
    let url = format!("https://{}/", nginx.address);
    let authority = nginx.authority();
    let mut before = (0, 0);
    for (tls, resume) in [
        ("1.2", "never"),
        ("1.3", "never"),
        ("1.2", "ticket=3,never=1"),
        ("1.2", "session-id=3,never=1"),
        ("1.3", "ticket=3,never=1"),
        ("1.2,1.3", "ticket"),
    ] {
        let output = load(&[
            &url,
            "--sni",
            "localhost",
            "--authorities",
            authority.to_str().unwrap(),
            "--json",
            "--tls",
            tls,
            "--resume",
            resume,
            "--connections",
            "4",
            "--warm-up",
            "0",
            "--duration",
            "1s",
            "--group",
            "x25519,p256",
            "--cipher",
            "aes128-gcm,aes256-gcm",
        ]);
        assert!(output.status.success(), "{}", stderr(&output));
        let found = json(&output);
        let counted = nginx.counted();
        let (full, resumed) = (counted.0 - before.0, counted.1 - before.1);
        before = counted;
        let ours = |name: &str| found[name].as_u64().unwrap();
        // nginx has also seen those that ended after the window.
        assert!((0..=4).contains(&(full as i64 - ours("full") as i64)), "{resume}: {full} {found}");
        let late = resumed as i64 - ours("resumed") as i64;
        assert!((0..=4).contains(&late), "{resume}: {resumed} {found}");
        assert_eq!(resumed > 0, resume != "never", "{resume}: {found}");
        assert!(full > 0 && ours("answers") > 0, "{found}");
        assert_eq!(found["errors"], serde_json::json!({}));
    }
}

#[test]
fn thresholds_and_doubts_make_the_status() {
    let nginx = Nginx::start();
    let short = ["--insecure", "--connections", "2", "--warm-up", "0", "--duration", "500ms"];
    let run = |target: &str, more: &[&str]| load(&[&[target], &short[..], more].concat());

    let kept = run(&nginx.address, &["--fail-if", "p99>9s", "--fail-if", "errors>0"]);
    assert!(kept.status.success(), "{}", stderr(&kept));
    let text = String::from_utf8_lossy(&kept.stdout).into_owned();
    assert!(text.contains("Handshakes") && text.contains("handshake"), "{text}");

    let crossed = run(&nginx.address, &["--fail-if", "p50>1us", "--json"]);
    assert_eq!(crossed.status.code(), Some(1));
    assert_eq!(json(&crossed)["crossed"], serde_json::json!(["p50>1us"]));
    assert!(stderr(&crossed).contains("crossed: p50>1us"), "{}", stderr(&crossed));

    let untrusted = load(&[&nginx.address, "--duration", "5s"]);
    assert_eq!(untrusted.status.code(), Some(1));
    assert!(stderr(&untrusted).contains("certificate"), "{}", stderr(&untrusted));

    let missing = run(&format!("https://{}/missing", nginx.address), &[]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains(" status"), "{}", stderr(&missing));

    // A name that TLS cannot send, and a file that is no certificate.
    let name = run(&nginx.address, &["--sni", "no name"]);
    assert!(stderr(&name).contains("\"no name\" is not a valid server name"), "{}", stderr(&name));
    let key = nginx.directory.path().join("key.pem");
    let authority = load(&[&nginx.address, "--authorities", key.to_str().unwrap()]);
    assert!(stderr(&authority).contains("holds no certificate"), "{}", stderr(&authority));
}

#[test]
fn says_what_is_wrong_with_a_command_line() {
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let refused = load(&[&closed.to_string(), "--insecure"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("refused"), "{}", stderr(&refused));

    let unknown = load(&["https://host.invalid/", "--insecure"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).contains("cannot resolve \"host.invalid\""), "{}", stderr(&unknown));

    for (arguments, said) in [
        (&["localhost"][..], "neither https://HOST[:PORT]/PATH nor HOST:PORT"),
        (&["localhost:1", "--rate", "0"], "no number above 0"),
        (&["localhost:1", "--rate", "1e12"], "no number above 0"),
        (&["localhost:1", "--cipher", "rc4"], "none of aes256-gcm, aes128-gcm, chacha20-poly1305"),
        (&["localhost:1", "--tls", "1.3=x"], "the weight is no whole number"),
        (&["localhost:1", "--fail-if", "p99=1s"], "there is no < or >"),
        (&["localhost:1", "--search-max"], "--latency-max"),
        (&["localhost:1", "--client-certificate", "/none:/none"], "cannot read /none as PEM"),
    ] {
        let output = load(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
    let body = load(&["localhost:1", "--insecure", "--body-bytes", "1M"]);
    assert!(stderr(&body).contains("--body-bytes is about requests"), "{}", stderr(&body));
}
