//! Real traffic between two network namespaces, through a forwarder whose rules change a thousand
//! times meanwhile. Needs root and `ip`; without them it says so and passes.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::panic::{self, AssertUnwindSafe};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use widelane_classify::Limits;
use widelane_cpu::Policy;
use widelane_forward::port::{Interface, Offload, Port, Ring, Worker, parse_address};
use widelane_forward::{Counts, Engine, Reload, Routes};
use widelane_testkit::network::{Network, Side, arrived, ip};

const CHANGES: u32 = 1000;
/// A port that is always open, one that never is, and one that each change opens or closes.
const OPEN: u16 = 5000;
const CLOSED: u16 = 5001;
const TURNING: u16 = 5002;

fn port(network: &Network, side: Side) -> Port {
    let neighbour = parse_address(&network.address(side)).unwrap();
    Port { interface: Interface::open(&network.near(side)).unwrap(), neighbour }
}

/// The rules of a change: the turning port is closed after even ones, and other rules come and go.
fn rules(change: u32) -> String {
    let any = "0 : 65535";
    let deny = |port: u16| format!("@10.77.1.2/32 10.77.2.2/32 {any} {port} : {port} 17/0xff\n");
    let mut text = format!(
        "R0.0.0.0/0 10.77.1.0/24 {any} {any} 0/0 0\nR0.0.0.0/0 10.77.2.0/24 {any} {any} 0/0 1\n{}",
        deny(CLOSED)
    );
    if change.is_multiple_of(2) {
        text.push_str(&deny(TURNING));
    }
    // Between the others, a rule comes and goes only with all the rest.
    for other in 0..change / 50 % 3 {
        text.push_str(&deny(7000 + other as u16 * 10 + (change / 50) as u16));
    }
    text
}

/// Routes between the two sides, and nothing else.
const ROUTES: &str = "R0.0.0.0/0 10.77.1.0/24 0 : 65535 0 : 65535 0/0 0\n\
                      R0.0.0.0/0 10.77.2.0/24 0 : 65535 0 : 65535 0/0 1\n";

fn network(prefix: &str) -> Option<Network> {
    let built = Network::build(prefix);
    built.map_err(|reason| eprintln!("skipped: no network namespaces here: {reason}")).ok()
}

/// Forwards by rules while traffic goes on, and returns what was counted.
fn forwarding(network: &Network, routes: &Routes, traffic: impl FnOnce()) -> Counts {
    let (ports, rings) = open(network);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let forwarders = rings.map(|ring| scope.spawn(|| forward(ring, &ports, routes, &ended)));
        let outcome = panic::catch_unwind(AssertUnwindSafe(traffic));
        ended.store(true, Ordering::Relaxed);
        let mut counts = Counts::default();
        forwarders.into_iter().for_each(|thread| counts.add(&thread.join().unwrap()));
        outcome.unwrap_or_else(|cause| panic::resume_unwind(cause));
        counts
    })
}

fn forward(ring: Ring, ports: &[Port], routes: &Routes, ended: &AtomicBool) -> Counts {
    let mut worker = Worker::new(ring, ports, Engine::new([routes]));
    while !ended.load(Ordering::Relaxed) {
        if !worker.turn().unwrap() {
            worker.rest(5).unwrap();
        }
    }
    worker.drain().unwrap();
    worker.engine.counts
}

#[test]
fn denied_flows_never_arrive_and_allowed_ones_all_do() {
    let Some(network) = network("wl") else { return };
    let routes = routes(&rules(0));
    let sender = network.socket(Side::A, 4000);
    let [open, closed, turning] = [OPEN, CLOSED, TURNING].map(|port| network.socket(Side::B, port));
    let mut reloads = [0; 2];
    let counts = forwarding(&network, &routes, || {
        for change in 1..=CHANGES {
            match routes.reload(&rules(change)).unwrap() {
                Reload::OneRule => reloads[0] += 1,
                Reload::All => reloads[1] += 1,
                Reload::Unchanged => panic!("every change changes something"),
            }
            // In this order: what has come through the open port was decided about last.
            for port in [CLOSED, TURNING, OPEN] {
                sender.send_to(&change.to_be_bytes(), ("10.77.2.2", port)).unwrap();
            }
            let patience = Duration::from_secs(20);
            assert_eq!(arrived(&open, patience), Some(change));
            if change % 2 == 1 {
                assert_eq!(arrived(&turning, patience), Some(change));
            }
        }
    });
    assert!(reloads[0] > 500 && reloads[1] > 200, "{reloads:?}");
    for socket in [open, closed, turning] {
        assert_eq!(arrived(&socket, Duration::from_millis(50)), None);
    }
    assert_eq!(counts.denied, u64::from(CHANGES + CHANGES / 2));
    assert_eq!((counts.sent[1], counts.unsent, counts.overrun), (1500, 0, 0));
}

/// Bytes of a transfer: enough for many frames of the largest size.
const BULK: usize = 64 << 20;
/// A transfer that goes on for so long has come almost to a halt.
const BULK_MAX: Duration = Duration::from_secs(60);

#[test]
fn bulk_transfers_pass_in_segments_that_the_sender_has_not_cut() {
    let Some(network) = network("wt") else { return };
    transfer(&network, "10.77.2.2:5000");
    // The same where the card that they leave by cannot cut them either, so that the kernel does.
    ip(&format!("link set {} gso_max_size 2000", network.near(Side::B))).unwrap();
    transfer(&network, "10.77.2.2:5000");
}

#[test]
fn bulk_transfers_pass_in_tunnels() {
    let Some(network) = network("wx") else { return };
    let vxlan = "vxlan id 7 dstport 4789";
    let mut passed = 0;
    for kind in [
        &format!("{vxlan} noudpcsum"),
        &format!("{vxlan} udpcsum"),
        "geneve id 7",
        "gre",
        "gre csum key 5",
        "gretap",
        "ipip",
    ] {
        if let Err(reason) = set_up(&network, kind) {
            eprintln!("skipped: no such tunnel here: {reason}");
            continue;
        }
        transfer(&network, "10.88.0.2:5000");
        for side in [Side::A, Side::B] {
            within(&network, side, "link delete wx").unwrap();
        }
        passed += 1;
    }
    assert!(passed >= 2, "each system that has namespaces has VXLAN");
}

/// Sets up a tunnel from one side to the other, through the forwarder.
fn set_up(network: &Network, kind: &str) -> Result<(), String> {
    for (side, own, other) in [(Side::A, 1, 2), (Side::B, 2, 1)] {
        let (kind, options) = kind.split_once(' ').unwrap_or((kind, ""));
        let local = if kind == "geneve" { String::new() } else { format!("local 10.77.{own}.2 ") };
        let command =
            format!("link add wx mtu 1400 type {kind} {local}remote 10.77.{other}.2 {options}");
        within(network, side, command.trim_end())?;
        within(network, side, &format!("addr add 10.88.0.{own}/24 dev wx"))?;
        within(network, side, "link set wx up")?;
    }
    Ok(())
}

fn within(network: &Network, side: Side, command: &str) -> Result<String, String> {
    let outcome = network.within(side, || ip(command).map_err(io::Error::other));
    outcome.map_err(|error| error.to_string())
}

/// Sends much to side B by one connection.
fn transfer(network: &Network, to: &str) {
    let listener = network.within(Side::B, || TcpListener::bind(to)).unwrap();
    let counts = forwarding(network, &routes(ROUTES), || {
        let mut sender = network.within(Side::A, || TcpStream::connect(to)).unwrap();
        let patience = Some(Duration::from_secs(20));
        sender.set_write_timeout(patience).unwrap();
        let mut receiver = listener.accept().unwrap().0;
        receiver.set_read_timeout(patience).unwrap();
        let data: Vec<u8> = (0..BULK).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect();
        let received = thread::scope(|scope| {
            let receives = scope.spawn(move || {
                let (began, mut received) = (Instant::now(), Vec::with_capacity(BULK));
                let mut part = (&mut receiver).take(1 << 14);
                while began.elapsed() < BULK_MAX && part.read_to_end(&mut received)? > 0 {
                    part.set_limit(1 << 14);
                }
                Ok::<_, io::Error>(received)
            });
            sender.write_all(&data).unwrap();
            drop(sender);
            receives.join().unwrap().unwrap()
        });
        assert!(received == data, "what arrived is what was sent");
    });
    assert_eq!((counts.unsent, counts.unsegmented), (0, 0), "{counts:?}");
    // Frames are far longer than a segment.
    assert!(counts.sent[1] < (BULK / 4000) as u64, "{counts:?}");
}

/// Ports and rings of both sides.
fn open(network: &Network) -> ([Port; 2], [Ring; 2]) {
    let ports = [Side::A, Side::B].map(|side| port(network, side));
    let rings = ports.each_ref().map(|port| Ring::open(&port.interface, None).unwrap());
    (ports, rings)
}

fn routes(rules: &str) -> Routes {
    Routes::new("rules", rules, false, 2, &Limits::default(), &Policy::open()).unwrap()
}

#[test]
fn what_is_not_sent_to_the_port_stays() {
    let Some(network) = network("wa") else { return };
    let sender = network.socket(Side::A, 4000);
    sender.set_broadcast(true).unwrap();
    let open = network.socket(Side::B, OPEN);
    let counts = forwarding(&network, &routes(ROUTES), || {
        for number in 0..10u32 {
            sender.send_to(&number.to_be_bytes(), ("10.77.1.255", OPEN)).unwrap();
        }
        sender.send_to(&[0; 4], ("10.77.2.2", OPEN)).unwrap();
        assert_eq!(arrived(&open, Duration::from_secs(20)), Some(0));
    });
    assert_eq!(counts.sent, [0, 1], "{counts:?}");
    assert!(counts.not_addressed >= 10, "{counts:?}");
    let dropped: u64 = counts.dropped().map(|(_, count)| count).sum();
    assert_eq!(counts.received, dropped + 1, "every frame is counted once: {counts:?}");
}

/// Sends more and more, until a ring is full.
fn flood_until(flood: impl Fn(), mut is_full: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_full() {
        assert!(began.elapsed() < Duration::from_secs(20), "the ring gets full");
        for _ in 0..1000 {
            flood();
        }
    }
}

#[test]
fn an_overloaded_worker_tells_so_and_ends_all_the_same() {
    let Some(network) = network("wo") else { return };
    let (ports, [ring, _]) = open(&network);
    let sender = network.socket(Side::A, 4000);
    let flood = || {
        sender.send_to(&[7; 1400], ("10.77.2.2", OPEN)).unwrap();
    };
    // The ring is full before any of it is forwarded, and what comes then has no place.
    flood_until(flood, || ring.take_overrun() > 0);
    for _ in 0..1000 {
        flood();
    }
    let routes = routes(ROUTES);
    let mut worker = Worker::new(ring, &ports, Engine::new([&routes]));
    for _ in 0..Ring::BLOCKS {
        assert!(worker.turn().unwrap(), "it never rests");
    }
    assert!(worker.engine.counts.overrun > 0, "{:?}", worker.engine.counts);
    let before = worker.engine.counts.overrun;
    flood_until(flood, || {
        worker.rest(0).unwrap();
        worker.engine.counts.overrun > before
    });
    let ended = AtomicBool::new(false);
    let blocks = thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                flood();
            }
        });
        let blocks = worker.drain();
        ended.store(true, Ordering::Relaxed);
        blocks
    });
    assert_eq!(blocks.unwrap(), Ring::BLOCKS);
}

#[test]
fn a_port_whose_queue_is_slow_keeps_nobody_waiting() {
    let Some(network) = network("ws") else { return };
    let near = network.near(Side::A);
    // Ten frames a second leave, and the queue takes more than a socket may have under way.
    let slow = format!("qdisc add dev {near} root tbf rate 112kbit burst 1600 limit 100000000");
    match Command::new("tc").args(slow.split(' ')).output() {
        Ok(output) if output.status.success() => {}
        refused => return eprintln!("skipped: no slow queues here: {refused:?}"),
    }
    let interface = Interface::open(&near).unwrap();
    let (frame, began) = ([0; 1400], Instant::now());
    let frames = vec![(&frame[..], Offload::default()); 10_000];
    let unsent = interface.send(&frames).unwrap();
    assert!((1..9000).contains(&unsent.len()), "{}", unsent.len());
    assert!(unsent.is_sorted() && unsent[0] > 0 && unsent.last() < Some(&10_000), "{unsent:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn rings_of_a_port_share_what_comes_in() {
    let Some(network) = network("wq") else { return };
    let (ports, [first, _]) = open(&network);
    let interface = &ports[0].interface;
    let mut rings = vec![first];
    for _ in 0..2 {
        let ring = Ring::open(interface, rings.last()).unwrap();
        rings.push(ring);
    }
    let (flows, mut counts, mut others) = (200, [0; 3], 0);
    let mut receive = |wait_ms: u32| {
        for (ring, count) in rings.iter_mut().zip(&mut counts) {
            ring.wait(wait_ms).unwrap();
            while ring.next_block(|block| {
                *count += block.frames.len();
                others += block.not_addressed;
            }) {}
        }
        counts
    };
    for flow in 0..flows {
        let sender = network.socket(Side::A, 20_000 + flow);
        sender.send_to(&[0; 4], ("10.77.2.2", OPEN)).unwrap();
        // What leaves by the port comes in by no ring of it.
        interface.send(&[(&[2; 60], Offload::default())]).unwrap();
        // A millisecond after its first frame a block is full: on a busy machine one for each frame
        // would be more than a ring has.
        receive(0);
    }
    let began = Instant::now();
    let total = |counts: [usize; 3]| counts.iter().sum::<usize>();
    while total(receive(10)) < flows.into() && began.elapsed() < Duration::from_secs(20) {}
    assert_eq!(total(counts), usize::from(flows), "each comes in once: {counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert!(others < flows.into(), "{others} frames left by the port");
}

#[test]
fn an_interface_may_go_down_but_not_away() {
    let Some(network) = network("wi") else { return };
    let (ports, [mut ring, _]) = open(&network);
    let near = network.near(Side::A);
    ip(&format!("link set {near} down")).unwrap();
    // Once that is told, and the last frames are taken, nothing comes, and waiting takes its time.
    let waits = (0..10).any(|_| {
        while ring.next_block(|_| ()) {}
        let began = Instant::now();
        ring.wait(300).unwrap();
        began.elapsed() >= Duration::from_millis(290)
    });
    assert!(waits, "a thread without work sleeps");
    ip(&format!("link set {near} up")).unwrap();
    let sender = network.socket(Side::A, 4000);
    let mut came = 0;
    let began = Instant::now();
    while came == 0 && began.elapsed() < Duration::from_secs(20) {
        sender.send_to(&[0; 4], ("10.77.2.2", OPEN)).ok();
        ring.wait(100).unwrap();
        ring.next_block(|block| came += block.frames.len());
    }
    assert!(came > 0, "it forwards again");
    ip(&format!("link delete {near}")).unwrap();
    let gone = format!("interface {near} has been removed");
    while ring.next_block(|_| ()) {}
    let waited = (0..10).find_map(|_| ring.wait(1000).err());
    assert_eq!(waited.map(|error| error.to_string()).as_ref(), Some(&gone));
    let sent = ports[0].interface.send(&[(&[0; 60], Offload::default())]);
    assert_eq!(sent.map_err(|error| error.to_string()), Err(gone));
}

#[test]
fn an_interface_may_get_another_address() {
    let Some(network) = network("wm") else { return };
    let near = network.near(Side::B);
    let interface = Interface::open(&near).unwrap();
    let new = "02:00:00:00:0a:ff";
    assert_ne!(interface.address().unwrap(), parse_address(new).unwrap());
    ip(&format!("link set {near} address {new}")).unwrap();
    assert_eq!(interface.address().unwrap(), parse_address(new).unwrap());
    ip(&format!("link delete {near}")).unwrap();
    let gone = interface.address().map_err(|error| error.to_string());
    assert_eq!(gone, Err(format!("interface {near} has been removed")));
}

#[test]
fn a_port_has_ethernet_headers() {
    let name = format!("wn{}", std::process::id() % 100_000);
    let added = ip(&format!("tuntap add dev {name} mode tun"))
        .or_else(|_| ip(&format!("link add {name} type ipip local 127.0.0.1 remote 127.0.0.2")));
    if let Err(reason) = added {
        return eprintln!("skipped: no tunnels here: {reason}");
    }
    let opened = Interface::open(&name).map_err(|error| error.to_string());
    ip(&format!("link delete {name}")).unwrap();
    let wanted = format!(
        "{name} has no Ethernet header, as tunnels have none; a port is an Ethernet interface"
    );
    assert_eq!(opened.map(drop), Err(wanted));
    Interface::open("lo").unwrap();
}
