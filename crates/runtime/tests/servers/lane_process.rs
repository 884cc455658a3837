//! A lane process that makes the signatures of a stock server's workers: what it does, what happens
//! when it is killed or stopped, and when it ends.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use widelane_host::process::Stat;
use widelane_loadgen::{Group, TlsVersion};
use widelane_testkit::background::while_repeating;
use widelane_testkit::rooms::has_lanes;
use widelane_testkit::server::{free_address, nginx_files};

use crate::support;
use crate::support::authority::{Authority, Identity, Kind};
use crate::support::clients::{load, load_mixed};
use crate::support::counters::Sums;
use crate::support::server::{OLD_PID_FILE, PID_FILE, Server, send_signal};
use crate::support::{wait_until, widelane};

const WORKERS: usize = 2;

/// Outstanding at a time.
const CONNECTIONS: usize = 24;

/// On the first CPU, which every machine has.
const LANES: [&str; 2] = ["--lane-cpus", "0"];

fn http(certificate: &Path, key: &Path) -> String {
    let (certificate, key) = (certificate.display(), key.display());
    format!(
        "ssl_certificate {certificate}; ssl_certificate_key {key};
         location / {{ return 204; }}"
    )
}

fn nginx(identity: &Identity) -> Server {
    Server::nginx_under(&LANES, WORKERS, &http(&identity.certificate, &identity.key))
}

fn of_workers(server: &Server) -> Sums {
    Sums::of(&server.path("counters"), |starts| starts == 0)
}

fn of_lane_process(server: &Server) -> Sums {
    Sums::of(&server.path("counters"), |starts| starts > 0)
}

fn name(pid: i32) -> Option<String> {
    let stat = Stat::of(pid.cast_unsigned()).ok()?;
    (!stat.has_ended()).then_some(stat.name)
}

fn parent(pid: i32) -> i32 {
    Stat::of(pid.cast_unsigned()).expect("it lives").parent.cast_signed()
}

/// The lane processes of a server that live, by number.
fn lane_processes(server: &Server) -> Vec<i32> {
    let entries = fs::read_dir(server.path("counters")).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.path().file_stem()?.to_str()?.parse().ok());
    pids.filter(|pid| name(*pid).as_deref() == Some("widelane-lanes")).collect()
}

/// Waits for the only lane process of a server, other than those.
fn lane_process(server: &Server, others: &[i32]) -> i32 {
    let found = || match lane_processes(server)[..] {
        [pid] if !others.contains(&pid) => Some(pid),
        _ => None,
    };
    wait_until("the lane process", || found().is_some());
    found().expect("it lives still")
}

/// Waits until neither lane processes nor their supervisors are there.
fn assert_gone(server: &Server, supervisors: &[i32]) {
    wait_until("the lane process to end", || lane_processes(server).is_empty());
    wait_until("its supervisor to end", || supervisors.iter().all(|pid| name(*pid).is_none()));
}

/// Workers have signed all that they did not leave to the lane process.
fn assert_lent(server: &Server) {
    let (workers, lane) = (of_workers(server), of_lane_process(server));
    assert_eq!((workers.jobs_refused, lane.jobs_refused), (0, 0), "{workers:?}, {lane:?}");
    assert_eq!((workers.fallbacks, lane.fallbacks), (0, 0), "{workers:?}, {lane:?}");
    if !workers.has_lanes() {
        return;
    }
    assert!(workers.jobs_lent > 0, "{workers:?}");
    // Who only looked whether the server listens did not get as far as a signature.
    let unsigned = workers.handshakes.checked_sub(workers.jobs_lent + workers.rsa());
    assert!(unsigned.is_some_and(|unsigned| unsigned <= 1), "{workers:?}");
    assert!(lane.rsa() >= workers.jobs_lent, "{workers:?}, {lane:?}");
}

fn assert_untroubled(server: &Server) {
    let output = server.output();
    for trouble in ["SSL_do_handshake() failed", "[alert]", "[crit]", "unknown process"] {
        assert!(!output.contains(trouble), "{output}");
    }
}

/// Loads a server while `befall` does something to it; no client may meet an error.
fn under_load(server: &Server, identity: &Identity, befall: impl FnOnce()) {
    let clients = || {
        load(server.port, identity, TlsVersion::Tls13, CONNECTIONS, 200);
    };
    while_repeating(clients, befall);
}

#[test]
fn the_lane_process_makes_all_signatures_of_workers() {
    let (_authority, identity) = support::localhost();
    let server = nginx(&identity);
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        load(server.port, &identity, version, CONNECTIONS, 1_000);
        assert_lent(&server);
    }
    if !of_workers(&server).has_lanes() {
        return;
    }
    let lane = lane_process(&server, &[]);
    let allowed = fs::read_to_string(format!("/proc/{lane}/status")).expect("it lives");
    assert!(allowed.contains("Cpus_allowed_list:\t0\n"), "{allowed}");
    let title = fs::read(format!("/proc/{lane}/cmdline")).expect("it lives");
    assert!(title.starts_with(b"widelane lane process"), "{:?}", String::from_utf8_lossy(&title));
    for descriptor in fs::read_dir(format!("/proc/{lane}/fd")).expect("it lives") {
        let file = fs::read_link(descriptor.expect("an entry").path()).expect("a link");
        let file = file.display().to_string();
        assert!(file == "/dev/null" || file.contains("timerfd"), "{file}");
    }
    let supervisor = parent(lane);
    server.signal(libc::SIGQUIT);
    assert_gone(&server, &[supervisor]);
    assert_untroubled(&server);
}

#[test]
fn handshakes_go_on_when_the_lane_process_is_killed_or_stopped() {
    let (_authority, identity) = support::localhost();
    let server = nginx(&identity);
    if !server_has_lanes(&server, &identity) {
        return;
    }
    under_load(&server, &identity, || {
        for round in 0..8 {
            let lane = lane_process(&server, &[]);
            thread::sleep(Duration::from_millis(300));
            if round % 2 == 0 {
                send_signal(lane, libc::SIGKILL);
                lane_process(&server, &[lane]);
            } else {
                send_signal(lane, libc::SIGSTOP);
                thread::sleep(Duration::from_millis(400));
                send_signal(lane, libc::SIGCONT);
            }
            let lent = of_workers(&server).jobs_lent;
            wait_until("workers to lend again", || of_workers(&server).jobs_lent > lent);
        }
    });
    assert_untroubled(&server);
    assert_lent(&server);
    let workers = of_workers(&server);
    assert!(workers.jobs_taken_back > 0, "{workers:?}");
    assert_eq!(of_lane_process(&server).lane_process_starts, 5);
}

/// Python that ends whoever calls `sched_setaffinity`, and becomes its arguments.
const FILTER: &str = "
import ctypes, os, struct, sys
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 203), (6, 0, 0, 0x80000000), (6, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))
program = struct.pack('HxxxxxxP', len(steps), ctypes.addressof(code))
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, program, 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])";

/// As `SystemCallFilter=~@resources` does.
#[test]
fn a_filter_of_system_calls_ends_the_lane_process_once() {
    if Command::new("python3").arg("--version").output().is_err() {
        return eprintln!("there is no python3: nothing was tested");
    }
    let (_authority, identity) = support::localhost();
    let port = free_address().port();
    let http = http(&identity.certificate, &identity.key);
    let blocks = format!(
        "http {{ {} server {{ listen 127.0.0.1:{port} ssl; {http} }} }}",
        nginx_files(Path::new("."))
    );
    let mut run = Command::new("python3");
    run.args(["-c", FILTER]).arg(widelane()).arg("run").args(LANES);
    let server = Server::nginx_run(&mut run, port, WORKERS, "", &blocks);
    load(server.port, &identity, TlsVersion::Tls12, CONNECTIONS, 200);
    if of_workers(&server).has_lanes() {
        let told = || server.output().matches("a filter of system calls").count();
        wait_until("it to be told", || told() > 0);
        // It was started again five times a second.
        thread::sleep(Duration::from_secs(1));
        assert_eq!((told(), lane_processes(&server).len()), (1, 0));
    }
    load(server.port, &identity, TlsVersion::Tls12, CONNECTIONS, 200);
}

/// `cargo xtask stress` has many handshakes made, and something befall the lane process every five
/// seconds; without it there are few, and it befalls it more often.
#[test]
fn no_handshake_fails_however_the_lane_process_fares() {
    let stress = std::env::var("WIDELANE_STRESS_HANDSHAKES");
    let handshakes: u64 = stress.as_ref().map_or(4_000, |text| text.parse().expect("a number"));
    let (pause, ordeal) = match stress {
        Ok(_) => (Duration::from_secs(5), Duration::from_secs(2)),
        Err(_) => (Duration::from_millis(300), Duration::from_millis(300)),
    };
    let (_authority, identity) = support::localhost();
    let server = nginx(&identity);
    if !server_has_lanes(&server, &identity) {
        return;
    }
    let mut ordeals = [0; 3];
    let befall = || {
        let kind = ordeals.iter().sum::<usize>() % ordeals.len();
        let lane = lane_process(&server, &[]);
        match kind {
            0 => send_signal(lane, libc::SIGKILL),
            1 => {
                send_signal(lane, libc::SIGSTOP);
                thread::sleep(ordeal);
                send_signal(lane, libc::SIGCONT);
            }
            _ => starve(lane, ordeal),
        }
        ordeals[kind] += 1;
        thread::sleep(pause);
    };
    let made = while_repeating(befall, || {
        let mut made = 0;
        while made < handshakes {
            load(server.port, &identity, TlsVersion::Tls13, CONNECTIONS, 1_000);
            made += 1_000;
        }
        made
    });
    assert_untroubled(&server);
    assert_lent(&server);
    let workers = of_workers(&server);
    eprintln!(
        "{made} handshakes, none failed; killed, stopped, starved {ordeals:?} times; {workers:?}"
    );
    assert!(ordeals[0] > 0 && workers.jobs_taken_back > 0, "{ordeals:?}, {workers:?}");
}

/// Has others use the CPU of a process, which they may before it, for some time.
fn starve(pid: i32, time: Duration) {
    support::run(Command::new("renice").args(["-n", "19", "-p", &pid.to_string()]));
    let busy = || {
        let mut command = Command::new("timeout");
        command.arg(time.as_secs_f64().to_string());
        command.args(["taskset", "-c", "0", "sh", "-c", "while :; do :; done"]);
        command.spawn().expect("coreutils and util-linux are installed")
    };
    let others = [(); 3].map(|()| busy());
    for mut other in others {
        other.wait().expect("our child");
    }
    support::run(Command::new("renice").args(["-n", "0", "-p", &pid.to_string()]));
}

#[test]
fn it_runs_as_another_user_where_that_is_asked_for() {
    const USER: &str = "nobody";
    let (_authority, identity) = support::localhost();
    let is_root = fs::metadata("/proc/self").expect("our own process").uid() == 0;
    let lanes = [&LANES[..], &["--lane-user", USER]].concat();
    if !is_root {
        eprintln!("only root can: nothing was tested");
        return;
    }
    let http = http(&identity.certificate, &identity.key);
    let server = Server::nginx_under(&lanes, WORKERS, &http);
    if !server_has_lanes(&server, &identity) {
        return;
    }
    let lane = lane_process(&server, &[]);
    load(server.port, &identity, TlsVersion::Tls13, CONNECTIONS, 1_000);
    assert_lent(&server);
    let id = support::run(Command::new("id").args(["-u", USER])).stdout;
    let id = String::from_utf8(id).expect("a number");
    let uids = [id.trim(); 4].join("\t");
    for pid in [lane, parent(lane)] {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
        assert!(status.contains(&format!("Uid:\t{uids}\n")), "{status}");
        assert!(status.contains("Groups:\t \n"), "{status}");
    }
    let supervisor = parent(lane);
    send_signal(lane, libc::SIGKILL);
    let next = lane_process(&server, &[lane]);
    assert_eq!(parent(next), supervisor, "begun again as that user");
    server.signal(libc::SIGQUIT);
    assert_gone(&server, &[supervisor]);
    assert_untroubled(&server);
}

#[test]
fn it_is_begun_again_as_soon_as_the_system_allows_a_process() {
    let (_authority, identity) = support::localhost();
    if fs::metadata("/proc/self").expect("our own process").uid() != 0 {
        eprintln!("only root can: nothing was tested");
        return;
    }
    // Root has no limit of processes.
    let lanes = [&LANES[..], &["--lane-user", "nobody"]].concat();
    let http = http(&identity.certificate, &identity.key);
    let server = Server::nginx_under(&lanes, WORKERS, &http);
    if !server_has_lanes(&server, &identity) {
        return;
    }
    let lane = lane_process(&server, &[]);
    let supervisor = parent(lane);
    let limits = fs::read_to_string(format!("/proc/{supervisor}/limits")).expect("it lives");
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max processes"));
    let usual = limit.and_then(|limit| limit.split_whitespace().next()).expect("a limit");
    let allow = |processes: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "prlimit"]);
        command.args(["--pid", &supervisor.to_string(), &format!("--nproc={processes}:")]);
        support::run(&mut command);
    };
    allow("0");
    send_signal(lane, libc::SIGKILL);
    thread::sleep(Duration::from_millis(600));
    assert!(lane_processes(&server).is_empty(), "the system allows none");
    allow(usual);
    lane_process(&server, &[lane]);
    let before = of_workers(&server).jobs_lent;
    load(server.port, &identity, TlsVersion::Tls13, CONNECTIONS, 200);
    assert!(of_workers(&server).jobs_lent > before, "{:?}", of_workers(&server));
    assert_untroubled(&server);
}

#[test]
fn workers_multiply_in_no_wide_register_while_the_lane_process_does() {
    if !has_lanes() {
        return;
    }
    let (_authority, identity) = support::localhost();
    let directory = tempfile::tempdir().expect("a directory");
    let policy = directory.path().join("policy.toml");
    let text = "classes_closed = [\"256-heavy\", \"512-heavy\"]\n[lane_process]\n";
    fs::write(&policy, text).expect("a write");
    let policy = policy.to_str().expect("a plain path");
    let options = [&LANES[..], &["--policy", policy]].concat();
    let http = http(&identity.certificate, &identity.key);
    let server = Server::nginx_under(&options, WORKERS, &http);
    let load_both = || {
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            load(server.port, &identity, version, CONNECTIONS, 300);
        }
        let workers = of_workers(&server);
        assert_eq!((workers.lanes, workers.heavy_runs), (1, 0), "{workers:?}");
        assert_eq!((workers.jobs_refused, workers.fallbacks), (0, 0), "{workers:?}");
        workers
    };
    let workers = load_both();
    let lane = of_lane_process(&server);
    assert!(workers.jobs_lent > 0 && lane.heavy_runs > 0, "{workers:?}, {lane:?}");
    assert!(lane.lanes > 1 && lane.rsa() >= workers.jobs_lent, "{workers:?}, {lane:?}");
    // Without it workers sign by themselves, and obey their own policy.
    let supervisor = parent(lane_process(&server, &[]));
    send_signal(supervisor, libc::SIGKILL);
    assert_gone(&server, &[supervisor]);
    let alone = load_both();
    assert!(alone.rsa() >= workers.rsa() + 600 - CONNECTIONS as u64, "{alone:?}, {workers:?}");
    assert_untroubled(&server);
}

#[test]
fn a_lane_process_that_may_use_less_than_its_workers_does_so() {
    let (_authority, identity) = support::localhost();
    let http = http(&identity.certificate, &identity.key);
    let narrow = |bits| [&LANES[..], &["--lane-max-simd-bitwidth", bits]].concat();
    let server = Server::nginx_under(&narrow("256"), WORKERS, &http);
    if !server_has_lanes(&server, &identity) {
        return;
    }
    load(server.port, &identity, TlsVersion::Tls13, CONNECTIONS, 1_000);
    assert_lent(&server);
    let lane = of_lane_process(&server);
    assert!(lane.lanes == 4 && lane.heavy_runs > 0, "{lane:?}");
    assert_eq!(lane.batches_by_fill[5..].iter().sum::<u64>(), 0, "{lane:?}");
    let server = Server::nginx_under(&narrow("128"), WORKERS, &http);
    load(server.port, &identity, TlsVersion::Tls13, CONNECTIONS, 300);
    assert!(server.output().contains("no room with lanes is open to RSA"), "{}", server.output());
    let workers = of_workers(&server);
    assert!(workers.jobs_lent == 0 && workers.rsa() >= 300, "{workers:?}");
}

fn server_has_lanes(server: &Server, identity: &Identity) -> bool {
    load(server.port, identity, TlsVersion::Tls13, 1, 1);
    of_workers(server).has_lanes()
}

#[test]
fn each_generation_of_workers_has_its_own() {
    let (_authority, identity) = support::localhost();
    let server = nginx(&identity);
    if !server_has_lanes(&server, &identity) {
        return;
    }
    let mut past = vec![lane_process(&server, &[])];
    let mut supervisors = vec![parent(past[0])];
    under_load(&server, &identity, || {
        for _ in 0..4 {
            server.signal(libc::SIGHUP);
            let lane = lane_process(&server, &past);
            past.push(lane);
            supervisors.push(parent(lane));
            let lent = of_workers(&server).jobs_lent;
            wait_until("new workers to lend", || of_workers(&server).jobs_lent > lent);
        }
    });
    assert_untroubled(&server);
    server.signal(libc::SIGQUIT);
    assert_gone(&server, &supervisors);
}

#[test]
fn it_lives_as_long_as_a_worker_of_a_master_that_was_killed() {
    let (_authority, identity) = support::localhost();
    let server = nginx(&identity);
    if !server_has_lanes(&server, &identity) {
        return;
    }
    let supervisor = parent(lane_process(&server, &[]));
    let pid = server.pid();
    let workers = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let workers = workers.expect("the server runs");
    let workers: Vec<i32> =
        workers.split_whitespace().map(|pid| pid.parse().expect("a number")).collect();
    assert_eq!(workers.len(), WORKERS, "neither it nor its supervisor is the server's child");
    send_signal(pid, libc::SIGKILL);
    load(server.port, &identity, TlsVersion::Tls13, CONNECTIONS, 200);
    assert_lent(&server);
    workers.iter().for_each(|worker| send_signal(*worker, libc::SIGKILL));
    assert_gone(&server, &[supervisor]);
}

#[test]
fn an_upgraded_binary_has_its_own() {
    let (_authority, identity) = support::localhost();
    let server = nginx(&identity);
    if !server_has_lanes(&server, &identity) {
        return;
    }
    let before = lane_process(&server, &[]);
    let supervisor = parent(before);
    under_load(&server, &identity, || {
        server.signal(libc::SIGUSR2);
        wait_until("the next master", || {
            let is_another = server.pid_in(PID_FILE) != server.pid_in(OLD_PID_FILE);
            server.pid_in(OLD_PID_FILE).is_some() && is_another && server.pid_in(PID_FILE).is_some()
        });
        send_signal(server.pid_in(OLD_PID_FILE).expect("the old master"), libc::SIGQUIT);
        lane_process(&server, &[before]);
    });
    assert!(name(supervisor).is_none(), "the first generation is over");
    assert_untroubled(&server);
}

#[test]
fn a_key_that_it_does_not_have_stays_with_the_worker() {
    let authority = Authority::new();
    let identity = authority.issue("localhost");
    let default = authority.issue_with("localhost", Kind::Rsa3072);
    // nginx loads a certificate whose name has a variable when a client comes, in the worker.
    let (directory, files) = (tempfile::tempdir().expect("a directory"), ["pem", "key"]);
    for (from, kind) in [&identity.certificate, &identity.key].into_iter().zip(files) {
        let file = directory.path().join(format!("localhost.{kind}"));
        fs::copy(from, &file).expect("a copy");
        for path in [&*file, directory.path()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own");
        }
    }
    let [certificate, key] =
        files.map(|kind| directory.path().join(format!("$ssl_server_name.{kind}")));
    let http = format!(
        "{} }} server {{ listen unix:socket ssl; {}",
        self::http(&certificate, &key),
        self::http(&default.certificate, &default.key)
    );
    let server = Server::nginx_under(&LANES, WORKERS, &http);
    load(server.port, &identity, TlsVersion::Tls13, CONNECTIONS, 300);
    let workers = of_workers(&server);
    if workers.has_lanes() {
        lane_process(&server, &[]);
        assert_eq!((workers.jobs_lent, workers.rsa()), (0, workers.handshakes), "{workers:?}");
    }
}

#[test]
fn several_keys_and_kinds_are_told_apart() {
    let (authority, rsa) = support::localhost();
    let others = [Kind::Rsa3072, Kind::P256].map(|kind| authority.issue_with("localhost", kind));
    let certificates: String = [&rsa, &others[1]]
        .map(|one| {
            let (certificate, key) = (one.certificate.display(), one.key.display());
            format!("ssl_certificate {certificate}; ssl_certificate_key {key};")
        })
        .concat();
    let http = format!("{certificates} location / {{ return 204; }}");
    let server = Server::nginx_under(&LANES, WORKERS, &http);
    load_mixed(server.port, &[&rsa, &others[1]], TlsVersion::Tls13, Group::X25519, 16, 1_000);
    let (workers, lane) = (of_workers(&server), of_lane_process(&server));
    if workers.has_lanes() {
        assert!(workers.jobs_lent > 0 && workers.jobs_refused == 0, "{workers:?}");
        assert_eq!(lane.rsa(), lane.jobs_batched + lane.jobs_single, "RSA alone: {lane:?}");
    }
}

#[test]
fn threads_of_a_worker_that_was_forked_have_one_too() {
    let (authority, identity) = support::localhost();
    let pem = authority.bundle(&identity);
    let server = Server::haproxy_under(&LANES, "  nbthread 4\n", &pem, &["-W"]);
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        load(server.port, &identity, version, CONNECTIONS, 800);
        assert_lent(&server);
    }
}

#[test]
fn a_daemon_without_master_has_one() {
    let (authority, identity) = support::localhost();
    let pem = authority.bundle(&identity);
    let server = Server::haproxy_under(&LANES, "  nbthread 2\n", &pem, &["-D", "-p", PID_FILE]);
    if !server_has_lanes(&server, &identity) {
        return;
    }
    let supervisor = parent(lane_process(&server, &[]));
    load(server.port, &identity, TlsVersion::Tls13, CONNECTIONS, 800);
    assert_lent(&server);
    server.signal(libc::SIGTERM);
    assert_gone(&server, &[supervisor]);
}

#[test]
fn a_server_that_does_not_fork_has_one_too() {
    let (authority, identity) = support::localhost();
    let pem = authority.bundle(&identity);
    for threads in ["  nbthread 1\n", "  nbthread 3\n"] {
        let server = Server::haproxy_under(&LANES, threads, &pem, &["-db"]);
        load(server.port, &identity, TlsVersion::Tls13, CONNECTIONS, 600);
        assert_lent(&server);
    }
}

#[test]
fn a_server_without_rsa_keys_has_none_and_says_so() {
    let (authority, _rsa) = support::localhost();
    let ecdsa = authority.issue_with("localhost", Kind::P256);
    let server = nginx(&ecdsa);
    load(server.port, &ecdsa, TlsVersion::Tls13, CONNECTIONS, 100);
    assert_eq!(lane_processes(&server).len(), 0);
    assert!(tells_of_missing_keys(&server), "{}", server.output());
}

fn tells_of_missing_keys(server: &Server) -> bool {
    server.output().matches("no lane process: it has the RSA keys").count() == 1
}

#[test]
fn cpus_that_are_not_there_are_named_before_the_server_starts() {
    if !Path::new("/sys/devices/system/cpu/online").exists() {
        eprintln!("nothing tells which CPUs there are: nothing was tested");
        return;
    }
    refuses(&["--lane-cpus", "0,8191"], "there is no CPU 8191 to set aside; the CPUs");
}

#[test]
fn what_it_cannot_be_is_named_before_the_server_starts() {
    let user = |name: &'static str| [&LANES[..], &["--lane-user", name]].concat();
    refuses(&user("no-such-user-here"), "there is no user no-such-user-here for the lane process");
    let width = ["--lane-max-simd-bitwidth", "512"];
    refuses(&width, "there is no lane process for --lane-max-simd-bitwidth; give --lane-cpus");
    refuses(&["--lane-user", "nobody"], "there is no lane process that could run as nobody; give");
    let by_nobody = |program: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--clear-groups", program]);
        command
    };
    let sees_it = by_nobody("test").arg("-x").arg(widelane()).status();
    if sees_it.is_ok_and(|status| status.success()) {
        let mut by_nobody = by_nobody(&widelane().display().to_string());
        let words = "only root can have the lane process run as nobody; start the server as root";
        refuses_by(&mut by_nobody, &user("nobody"), words);
    }
}

/// Demands that `widelane run` says why it starts no server, in one line.
fn refuses(arguments: &[&str], words: &str) {
    refuses_by(&mut Command::new(widelane()), arguments, words);
}

fn refuses_by(command: &mut Command, arguments: &[&str], words: &str) {
    let command = command.arg("run").args(arguments).args(["--", "/usr/sbin/nginx"]);
    let output = command.args(["-c", "/nonexistent"]).output().expect("widelane was built");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with(&format!("widelane: {words}")), "{said}");
    assert!(said.lines().count() == 1 && !output.status.success(), "{said}");
}
