//! `widelane load --nats` and `widelane agent` on a real nats-server, beside stock nginx.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::iter;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use widelane_testkit::server::{Process, free_address, free_address_at};
use widelane_testkit::star::Star;

use crate::common::haproxy::Haproxy;
use crate::common::nginx::{EC, Nginx, make_certificate};
use crate::common::{json, stderr, widelane};

/// Longest time to wait for anything; everything is there long before.
const PATIENCE: Duration = Duration::from_secs(60);

/// nats-server as installed.
struct Nats {
    process: Process,
    address: SocketAddr,
    words: Vec<String>,
}

impl Nats {
    fn start(words: &[&str]) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, words)
    }

    fn at(host: Ipv4Addr, words: &[&str]) -> Self {
        let address = free_address_at(host);
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        Nats { process: Self::launch(address, &words), address, words }
    }

    fn launch(address: SocketAddr, words: &[String]) -> Process {
        let mut command = Command::new("nats-server");
        command.args(["-a", &address.ip().to_string(), "-p", &address.port().to_string()]);
        Process::listening(command.args(words).stderr(Stdio::null()), address)
    }

    /// Kills it and starts another in its place.
    fn restart(&mut self) {
        self.process.end();
        self.process = Self::launch(self.address, &self.words);
    }

    fn url(&self) -> String {
        format!("nats://{}", self.address)
    }
}

/// An agent, and the lines that it says.
struct Agent {
    process: Process,
    lines: Receiver<String>,
}

impl Agent {
    /// Starts an agent, and waits until it is on the bus.
    fn start(name: &str, url: &str, words: &[&str]) -> Self {
        let mut command = widelane();
        command.args(["agent", "--nats", url, "--name", name]).args(words);
        let mut process = Process::start(command.stderr(Stdio::piped()));
        let read = BufReader::new(process.child().stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in read.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let agent = Agent { process, lines };
        agent.says("waits for loads");
        agent
    }

    /// The next line with `text` in it.
    fn says(&self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        let mut said = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => said.push(line),
                Err(_) => panic!("the agent does not say {text:?}, but {said:?}"),
            }
        }
    }
}

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

fn agents(count: usize, nats: &Nats, nginx: &Nginx) -> Vec<Agent> {
    agents_for(count, nats, &nginx.address)
}

fn agents_for(count: usize, nats: &Nats, address: &str) -> Vec<Agent> {
    let start = |index| Agent::start(&format!("a{index}"), &nats.url(), &["--allow", address]);
    (0..count).map(start).collect()
}

/// A load of `seconds`, which `count` agents share.
fn load(nats: &Nats, nginx: &Nginx, count: usize, seconds: u32, words: &[&str]) -> Command {
    let mut command = load_on(nats, &nginx.address, count, words);
    command.args(["--warm-up", "0", "--duration", &format!("{seconds}s")]);
    command
}

/// A load on the server at `address`.
fn load_on(nats: &Nats, address: &str, count: usize, words: &[&str]) -> Command {
    let mut command = widelane();
    command
        .args(["load", address, "--insecure", "--json"])
        .args(["--nats", &nats.url(), "--agents", &count.to_string()])
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
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
    let late = nginx.counted().0 as i64 - found["answers"].as_i64().unwrap();
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

/// The parts that agents had in a load.
fn parts(found: &Value, name: &str) -> Vec<Option<f64>> {
    let agents = found["agents"].as_array().unwrap();
    agents.iter().map(|part| part[name].as_f64()).collect()
}

#[test]
fn agents_on_hosts_of_their_own_begin_together() {
    const HOSTS: usize = 4;
    let star = match Star::build("wf", HOSTS) {
        Ok(star) => star,
        Err(reason) => return eprintln!("skipped: no network namespaces here: {reason}"),
    };
    let start = || (Nats::at(Star::MIDDLE, &[]), Nginx::at(Star::MIDDLE, EC));
    let (nats, nginx) = star.in_the_middle(start);
    let agent = |host: usize| {
        let words = ["--allow", nginx.address.as_str()];
        star.on_host(host, || Agent::start(&format!("a{host}"), &nats.url(), &words))
    };
    let mut agents: Vec<Agent> = (0..HOSTS).map(agent).collect();
    let begin = |seconds: u32| {
        let mut command = load(&nats, &nginx, HOSTS, seconds, &["--rate", "100"]);
        star.in_the_middle(|| command.spawn().unwrap())
    };

    // Whoever waits for a CPU is late, which a busy machine may do to one now and then.
    let together = (0..5).any(|_| {
        let output = begin(1).wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let late: Vec<f64> = parts(&json(&output), "late_s").into_iter().flatten().collect();
        assert_eq!(late.len(), HOSTS);
        let ends = late
            .iter()
            .fold((f64::MAX, f64::MIN), |(low, high), late| (low.min(*late), high.max(*late)));
        ends.1 - ends.0 < 0.02
    });
    assert!(together, "agents begin more than 20 ms apart");

    let running = begin(4);
    agents[2].says("takes part");
    thread::sleep(Duration::from_secs(2));
    agents[2].process.child().kill().unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let found = json(&output);
    let lost: Vec<bool> = parts(&found, "lost_s").iter().map(Option::is_some).collect();
    assert_eq!(lost, [false, false, true, false], "{found}");
    let handshakes: f64 = parts(&found, "handshakes").into_iter().flatten().sum();
    assert_eq!(found["full"].as_f64().unwrap(), handshakes, "{found}");
    assert!(found["degraded"][0].as_str().unwrap().contains("25.0 connections per second"));
}

#[test]
fn a_killed_agent_is_noticed_and_what_it_counted_is_kept() {
    let (nats, nginx) = (Nats::start(&[]), Nginx::start());
    let mut agents = agents(3, &nats, &nginx);
    let running = load(&nats, &nginx, 3, 5, &["--rate", "90"]).spawn().unwrap();
    agents[1].says("takes part");
    thread::sleep(Duration::from_secs(3));
    agents[1].process.child().kill().unwrap();
    let output = running.wait_with_output().unwrap();
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
fn a_search_has_all_agents_probe_together() {
    let (nats, haproxy) = (Nats::start(&[]), Haproxy::limited(100));
    let agents = agents_for(2, &nats, &haproxy.address);
    let search = |words: &[&str]| {
        // Poisson arrivals are more than HAProxy takes in some seconds, and fewer in others.
        let probes = ["--search-max", "--duration", "1s", "--warm-up", "1s", "--arrivals=constant"];
        load_on(&nats, &haproxy.address, 2, &[&probes[..], words].concat())
    };
    let attempt = || search(&["--latency-max", "400ms", "--percentile", "99"]).output().unwrap();
    // Beside other work a search may end without an answer, and says so.
    let tells = |output: &Output| !stderr(output).contains("on a quieter machine");
    let output = iter::repeat_with(attempt).take(4).find(tells).expect("one of four tells");
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&output);
    let rate = found["rate"].as_f64().unwrap();
    assert!((75.0..125.0).contains(&rate), "{found}");
    let probes = found["probes"].as_array().unwrap();
    assert!(probes[0]["rate"].is_null() && probes.len() > 3, "{found}");

    let never = search(&["--latency-max", "1us"]).output().unwrap();
    assert_eq!(never.status.code(), Some(1));
    assert!(json(&never)["ending"].as_str().unwrap().starts_with("infeasible: "));
    drop(agents);
}

#[test]
fn a_search_ends_with_its_first_lost_agent() {
    let (nats, haproxy) = (Nats::start(&[]), Haproxy::limited(100));
    let mut agents = agents_for(2, &nats, &haproxy.address);
    let words =
        ["--search-max", "--latency-max", "400ms", "--percentile", "90", "--duration", "3s"];
    let running = load_on(&nats, &haproxy.address, 2, &words).spawn().unwrap();
    // The connection that works alone is the first agent's.
    agents[1].says("takes part");
    thread::sleep(Duration::from_secs(2));
    agents[1].process.child().kill().unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("needs all its agents") && said.contains("a1"), "{said}");
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
    let running = load(&nats, &nginx, 2, 5, &["--rate", "50"]).spawn().unwrap();
    agents[0].says("takes part");
    thread::sleep(Duration::from_secs(2));
    nats.restart();
    let output = running.wait_with_output().unwrap();
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
    assert_eq!(nginx.counted(), (0, 0));
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
    let running = load(&nats, &nginx, 2, 600, &["--connections", "2"]).spawn().unwrap();
    agents[1].says("takes part");
    thread::sleep(Duration::from_secs(3));
    let signalled =
        Command::new("sh").args(["-c", &format!("kill -INT {}", running.id())]).status().unwrap();
    assert!(signalled.success());
    let output = running.wait_with_output().unwrap();
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
