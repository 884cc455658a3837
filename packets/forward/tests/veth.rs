//! Real traffic between two network namespaces, through a forwarder whose rules change a thousand
//! times meanwhile. Needs root and `ip`; without them it says so and passes.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use widelane_classify::Limits;
use widelane_cpu::Policy;
use widelane_forward::port::{Interface, Port, Ring, Worker, parse_address};
use widelane_forward::{Counts, Engine, Reload, Routes};
use widelane_testkit::network::{Network, Side, arrived};

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

fn forward(ring: Ring, ports: &[Port], routes: &Routes, ended: &AtomicBool) -> Counts {
    let mut worker = Worker::new(ring, ports, Engine::new([routes]));
    while !ended.load(Ordering::Relaxed) {
        if !worker.turn() {
            worker.rest(5);
        }
    }
    worker.engine.counts
}

#[test]
fn denied_flows_never_arrive_and_allowed_ones_all_do() {
    let network = match Network::build("wl") {
        Ok(network) => network,
        Err(reason) => return eprintln!("skipped: no network namespaces here: {reason}"),
    };
    let ports = [Side::A, Side::B].map(|side| port(&network, side));
    let (limits, policy) = (Limits::default(), Policy::open());
    let routes = Routes::new("rules", &rules(0), 2, &limits, &policy).unwrap();
    let rings = ports.each_ref().map(|port| Ring::open(&port.interface, None).unwrap());
    let sender = network.socket(Side::A, 4000);
    let [open, closed, turning] = [OPEN, CLOSED, TURNING].map(|port| network.socket(Side::B, port));
    let (ended, mut reloads) = (AtomicBool::new(false), [0; 2]);
    let counts = thread::scope(|scope| {
        let forwarders = rings.map(|ring| scope.spawn(|| forward(ring, &ports, &routes, &ended)));
        let traffic = panic::catch_unwind(AssertUnwindSafe(|| {
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
        }));
        ended.store(true, Ordering::Relaxed);
        let mut counts = Counts::default();
        forwarders.into_iter().for_each(|thread| counts.add(&thread.join().unwrap()));
        traffic.unwrap_or_else(|cause| panic::resume_unwind(cause));
        counts
    });
    assert!(reloads[0] > 500 && reloads[1] > 200, "{reloads:?}");
    for socket in [open, closed, turning] {
        assert_eq!(arrived(&socket, Duration::from_millis(50)), None);
    }
    assert_eq!(counts.denied, u64::from(CHANGES + CHANGES / 2));
    assert_eq!((counts.sent[1], counts.unsent, counts.overrun), (1500, 0, 0));
}
