//! What the operations on curve25519 cost, in cycles of the clock they run at.
//!
//! `cargo run --release -p widelane-kernels --example curve25519_cycles`
#![allow(clippy::print_stdout, reason = "an example answers on the terminal")]

use widelane_cpu::clock::now_ns;
use widelane_cpu::{Fma256, Ifma256, Ifma512, Policy};
use widelane_kernels::curve25519::{
    Limbs, QUAD, ed25519_base, ed25519_difference, x25519, x25519_base, x25519_quad,
};
use widelane_kernels::lanes::{Fma256x4, Ifma256x4, Ifma512x8, Portable};
use widelane_testkit::clock::cycles_per_ns;

/// Rounds per row; the first quartile counts, because the machine may be busy.
const ROUNDS: usize = 201;

fn main() {
    println!("room      operation                cycles/op      GHz      ops/s");
    if let Some(room) = Ifma512::enter(&Policy::open()) {
        measure::<Ifma512x8>("ifma512", room);
        measure_few::<Ifma512x8>("ifma512", room);
    }
    if let Some(room) = Ifma256::enter(&Policy::open()) {
        measure::<Ifma256x4>("ifma256", room);
        measure_few::<Ifma256x4>("ifma256", room);
    }
    if let Some(room) = Fma256::enter(&Policy::open()) {
        measure::<Fma256x4>("fma256", room);
        measure_few::<Fma256x4>("fma256", room);
    }
    measure::<Portable>("portable", ());
}

fn measure<L: Limbs>(name: &str, room: L::Room) {
    let scalars = [[0x0b; 32]; 8];
    let scalars = &scalars.each_ref()[..L::LANES];
    let mut point = [0; 32];
    point[0] = 9;
    let mut public = [[0; 32]];
    ed25519_base::<Portable>((), &scalars[..1], &mut public);
    let (points, publics) = ([&point], public.each_ref());
    let mut results = [[0; 32]; 8];

    let report = |operation, run: &mut dyn FnMut()| report(name, L::LANES, operation, run);
    report("X25519 key agreement", &mut || {
        x25519::<L>(room, scalars, &points, &mut results);
    });
    report("X25519 key generation", &mut || x25519_base::<L>(room, scalars, &mut results));
    report("Ed25519 multiple of B", &mut || ed25519_base::<L>(room, scalars, &mut results));
    report("Ed25519 verification", &mut || {
        ed25519_difference::<L>(room, &publics, scalars, scalars, &mut results);
    });
}

/// What has four lanes for a job.
fn measure_few<L: Limbs>(name: &str, room: L::Room) {
    let jobs = L::LANES / QUAD;
    let scalars = [[0x0b; 32]; 2];
    let scalars = &scalars.each_ref()[..jobs];
    let mut point = [0; 32];
    point[0] = 9;
    let mut results = [[0; 32]; 2];
    report(name, jobs, &format!("X25519 agreement of {jobs}"), &mut || {
        x25519_quad::<L>(room, scalars, &[&point], &mut results);
    });
}

fn report(room: &str, jobs: usize, operation: &str, run: &mut dyn FnMut()) {
    let mut rounds: Vec<(f64, f64)> = (0..ROUNDS)
        .map(|_| {
            let before = cycles_per_ns();
            let start = now_ns();
            run();
            let elapsed = (now_ns() - start) as f64;
            // An interrupted add chain looks like a slow clock.
            (elapsed * before.max(cycles_per_ns()), elapsed)
        })
        .collect();
    rounds.sort_by(|left, right| left.0.total_cmp(&right.0));
    let (cycles, nanoseconds) = rounds[ROUNDS / 4];
    let jobs = jobs as f64;
    println!(
        "{room:<8}  {operation:<22}  {:>10.0}  {:>7.2}  {:>9.0}",
        cycles / jobs,
        cycles / nanoseconds,
        jobs * 1e9 / nanoseconds,
    );
}
