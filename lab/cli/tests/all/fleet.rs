//! `widelane load --nats` and `widelane agent` on a real nats-server, beside stock nginx.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use widelane_testkit::server::{Process, free_address};

use crate::common::fleet::{Agent, Nats, agents, load};
use crate::common::nginx::{EC, Nginx, make_certificate};
use crate::common::{json, stderr, widelane};

/// Somebody on the bus who answers whatever is said with what nobody of ours says, until dropped.
struct Heckler {
    stream: TcpStream,
    thread: Option<JoinHandle<()>>,
}

impl Heckler {
    /// Joins; what asks for a reply gets one only if it `replies`.
    fn join(nats: &Nats, replies: bool) -> Self {
        let stream = TcpStream::connect(nats.address).unwrap();
        let mut own = stream.try_clone().unwrap();
        own.write_all(
            b"CONNECT {\"verbose\":false,\"echo\":false}\r\nSUB widelane.> 1\r\nPING\r\n",
        )
        .unwrap();
        let mut read = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while line != "PONG\r\n" {
            line.clear();
            assert!(read.read_line(&mut line).unwrap() > 0, "nats-server hangs up");
        }
        let thread = thread::spawn(move || {
            // The end of the connection is the end of the test.
            let _ = heckle(&mut own, &mut read, replies);
        });
        Heckler { stream, thread: Some(thread) }
    }
}

impl Drop for Heckler {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn heckle(own: &mut TcpStream, read: &mut impl BufRead, replies: bool) -> io::Result<()> {
    let nonsense = [b"".to_vec(), b"{}".to_vec(), vec![0xff; 4096], vec![b'x'; 1 << 19]];
    for round in 0.. {
        let mut line = String::new();
        if read.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["PING"] => own.write_all(b"PONG\r\n")?,
            ["MSG", subject, _, .., length] => {
                let length = length.parse::<usize>().map_err(io::Error::other)?;
                io::copy(&mut read.by_ref().take(length as u64 + 2), &mut io::sink())?;
                let reply = words.get(3).filter(|_| replies && words.len() == 5);
                for to in [Some(&subject), reply].into_iter().flatten() {
                    let said: &Vec<u8> = &nonsense[round % nonsense.len()];
                    own.write_all(format!("PUB {to} {}\r\n", said.len()).as_bytes())?;
                    own.write_all(said)?;
                    own.write_all(b"\r\n")?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn four_agents_make_one_load() {
    let (nats, nginx) = (Nats::start(&[]), Nginx::start());
    let agents = agents(4, &nats, &nginx);
    let output = load(&nats, &nginx, 4, 2, &["--rate", "200", "--requests", "1"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&output);
    assert_eq!(found["degraded"], serde_json::json!([]), "{found}");
    let parts = found["agents"].as_array().unwrap();
    assert_eq!(parts.len(), 4, "{found}");
    let each: Vec<u64> = parts.iter().map(|part| part["handshakes"].as_u64().unwrap()).collect();
    assert!(each.iter().all(|count| *count > 0), "{found}");
    assert_eq!(each.iter().sum::<u64>(), found["full"].as_u64().unwrap(), "{found}");
    let total = &found["latency_s"]["total"];
    assert_eq!(total["count"], found["answers"], "{found}");
    // nginx has also seen those that ended after the window.
    let answers = found["answers"].as_u64().unwrap();
    let late = nginx.counted((answers, 0)).0 as i64 - answers as i64;
    let unfinished = found["unfinished"].as_i64().unwrap();
    assert!((0..=unfinished).contains(&late), "{late} {found}");
    for part in parts {
        assert!(part["late_s"].is_f64() && part["clock_uncertainty_s"].is_f64(), "{found}");
        assert!(part["lost_s"].is_null(), "{found}");
    }
    // They are free again.
    let second = load(&nats, &nginx, 4, 1, &["--connections", "8"]).output().unwrap();
    assert!(second.status.success(), "{}", stderr(&second));
    drop(agents);
}

#[test]
fn a_killed_agent_is_noticed_and_what_it_counted_is_kept() {
    let (nats, nginx) = (Nats::start(&[]), Nginx::start());
    let mut agents = agents(3, &nats, &nginx);
    let running = Process::start(&mut load(&nats, &nginx, 3, 5, &["--rate", "90"]));
    agents[1].says("takes part");
    thread::sleep(Duration::from_secs(3));
    agents[1].process.child().kill().unwrap();
    let output = running.output();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("degraded: agent a1 was lost"), "{}", stderr(&output));
    let found = json(&output);
    let lost: Vec<bool> =
        found["agents"].as_array().unwrap().iter().map(|part| !part["lost_s"].is_null()).collect();
    assert_eq!(lost, [false, true, false], "{found}");
    assert!(found["agents"][1]["handshakes"].as_u64().unwrap() > 0, "{found}");
    let each = found["agents"].as_array().unwrap().iter();
    let sum: u64 = each.map(|part| part["handshakes"].as_u64().unwrap()).sum();
    assert_eq!(found["full"].as_u64().unwrap(), sum, "{found}");
    assert!(found["degraded"][0].as_str().unwrap().contains("30.0 connections per second"));
}

#[test]
fn nonsense_on_the_bus_is_no_load_and_no_end() {
    let (nats, nginx) = (Nats::start(&[]), Nginx::start());
    let agents = agents(2, &nats, &nginx);
    let heckler = Heckler::join(&nats, false);
    let output = load(&nats, &nginx, 2, 2, &["--connections", "4"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    drop(heckler);

    // Whoever answers first in the name of an agent may spoil a load, and do no more.
    let heckler = Heckler::join(&nats, true);
    let output = load(&nats, &nginx, 2, 1, &["--connections", "4"]).output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success() || said.contains("answers wrongly"), "{said}");
    drop(heckler);

    let output = load(&nats, &nginx, 2, 1, &["--connections", "4"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(json(&output)["degraded"], serde_json::json!([]));
    drop(agents);
}

#[test]
fn a_restart_of_the_bus_degrades_the_run_and_ends_it() {
    let (mut nats, nginx) = (Nats::start(&[]), Nginx::start());
    let agents = agents(2, &nats, &nginx);
    let running = Process::start(&mut load(&nats, &nginx, 2, 5, &["--rate", "50"]));
    agents[0].says("takes part");
    thread::sleep(Duration::from_secs(2));
    nats.restart();
    let output = running.output();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("NATS was away for"), "{}", stderr(&output));
    assert!(json(&output)["full"].as_u64().unwrap() > 0);
    agents[0].says("over");
    // The agents have found the bus again.
    let second = load(&nats, &nginx, 2, 1, &["--connections", "4"]).output().unwrap();
    assert!(second.status.success(), "{}", stderr(&second));
}

#[test]
fn agents_go_only_where_their_own_list_says() {
    let (nats, nginx) = (Nats::start(&[]), Nginx::start());
    let agent = Agent::start("careful", &nats.url(), &["--allow", "192.0.2.0/24:443"]);
    let output = load(&nats, &nginx, 1, 1, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("agent careful refuses") && said.contains("192.0.2.0/24:443"), "{said}");
    agent.says("refuses a load");
    let few = load(&nats, &nginx, 2, 1, &["--agents-wait", "1s"]).output().unwrap();
    assert!(stderr(&few).contains("1 of 2 agents answered (careful)"), "{}", stderr(&few));
    assert_eq!(nginx.counted((0, 0)), (0, 0));
}

#[test]
fn an_agent_stops_when_nobody_directs_it_any_more() {
    let (nats, nginx) = (Nats::start(&[]), Nginx::start());
    let agents = agents(1, &nats, &nginx);
    let director = Process::start(&mut load(&nats, &nginx, 1, 600, &["--connections", "1"]));
    agents[0].says("takes part");
    thread::sleep(Duration::from_secs(1));
    drop(director);
    agents[0].says("its director is gone");
    agents[0].says("over");
}

#[test]
fn a_director_that_is_interrupted_stops_its_agents() {
    let (nats, nginx) = (Nats::start(&[]), Nginx::start());
    let agents = agents(2, &nats, &nginx);
    let mut running = Process::start(&mut load(&nats, &nginx, 2, 600, &["--connections", "2"]));
    agents[1].says("takes part");
    thread::sleep(Duration::from_secs(3));
    let signalled = Command::new("sh")
        .args(["-c", &format!("kill -INT {}", running.child().id())])
        .status()
        .unwrap();
    assert!(signalled.success());
    let output = running.output();
    assert_eq!(output.status.code(), Some(1));
    let found = json(&output);
    assert_eq!(found["interrupted"], true);
    assert!(found["full"].as_u64().unwrap() > 0, "{found}");
    assert_eq!(found["degraded"], serde_json::json!([]), "{found}");
    agents[0].says("over");
    agents[1].says("over");
}

#[test]
fn the_bus_can_be_encrypted_and_closed_to_strangers() {
    let place = tempfile::tempdir().unwrap();
    make_certificate(place.path(), EC);
    let file = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file("certificate.pem"), file("key.pem"));
    let tls = ["--tls", "--tlscert", &certificate, "--tlskey", &key];
    let nats = Nats::start(&[&tls[..], &["--user", "director", "--pass", "secret"]].concat());
    let nginx = Nginx::start();
    let url = |who: &str| format!("tls://{who}localhost:{}", nats.address.port());
    let trusted = ["--nats-authorities", &certificate];
    let may = [&["--allow", nginx.address.as_str()], &trusted[..]].concat();
    let agent = Agent::start("insider", &url("director:secret@"), &may);
    let ask = |url: &str, words: &[&str]| {
        widelane()
            .args(["load", &nginx.address, "--insecure", "--json", "--duration", "1s"])
            .args(["--connections", "2", "--nats", url])
            .args(words)
            .output()
            .unwrap()
    };
    let output = ask(&url("director:secret@"), &trusted);
    assert!(output.status.success(), "{}", stderr(&output));
    for (who, words) in
        [("director:wrong@", &trusted[..]), ("", &trusted), ("director:secret@", &[])]
    {
        let output = ask(&url(who), words);
        assert_eq!(output.status.code(), Some(1), "{who}");
        let said = stderr(&output);
        assert!(said.contains("cannot join NATS") && !said.contains("secret"), "{said}");
    }
    drop(agent);
}

#[test]
fn says_what_is_wrong_with_a_command_line() {
    let run = |words: &[&str]| widelane().args(words).output().unwrap();
    let closed = free_address();
    let bus = format!("nats://{closed}");
    let target = "localhost:443";
    for (words, status, said) in [
        (&["agent", "--nats", bus.as_str()][..], 2, "--allow"),
        (&["agent", "--nats", &bus, "--allow", "everywhere"], 2, "HOST:PORT"),
        (&["agent", "--nats", &bus, "--allow", target, "--name", "a b"], 2, "not a name"),
        (&["agent", "--nats", "http://x", "--allow", target], 1, "nats://HOST:PORT"),
        (&["load", target, "--agents", "2"], 2, "--nats"),
        // Only agents have to know the server.
        (&["load", "host.invalid:443", "--nats", &bus], 1, "cannot join NATS"),
        (&["load", target, "--nats", &bus, "--nats-certificate", "x"], 2, "CHAIN:KEY"),
        (&["load", target, "--nats", &bus, "--insecure", "--nats-credentials", "/no"], 1, "/no"),
        (
            &["load", target, "--nats", &bus, "--insecure", "--agents", "9", "--connections", "8"],
            1,
            "8 connections cannot be divided among 9 agents",
        ),
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{words:?}: {}", stderr(&output));
    }
}
