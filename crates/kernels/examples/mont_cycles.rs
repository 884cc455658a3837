//! How far the RSA batches are from the madd52 port limit, in cycles of the clock they run at.
//!
//! `cargo run --release -p widelane-kernels --example mont_cycles`
#![allow(clippy::print_stdout, reason = "an example answers on the terminal")]

use widelane_cpu::clock::now_ns;
use widelane_cpu::{Fma256, Ifma256, Ifma512, Policy};
use widelane_kernels::lanes::{Fma256x4, Ifma256x4, Ifma512x8};
use widelane_kernels::mont::{Batches, CrtJob, CrtKey, CrtParts, Verdict};
use widelane_testkit::clock::cycles_per_ns;
use widelane_testkit::rsa::test_keys;

/// Rounds per row; the first quartile counts, because the machine may be busy.
const ROUNDS: usize = 101;
/// Multiply-adds that the machine can start per cycle.
const PORTS: f64 = 2.0;

fn main() {
    println!("room     jobs  key       kcycles/op  madd52/op  % of port limit      GHz      ops/s");
    measure::<20, 40>("rsa2048");
    measure::<30, 60>("rsa3072");
    measure::<40, 80>("rsa4096");
}

fn measure<const HALF: usize, const FULL: usize>(name: &str) {
    if let Some(room) = Ifma512::enter(&Policy::open()) {
        measure_in::<Ifma512x8, HALF, FULL>(name, "ifma512", room);
    }
    if let Some(room) = Ifma256::enter(&Policy::open()) {
        measure_in::<Ifma256x4, HALF, FULL>(name, "ifma256", room);
    }
    if let Some(room) = Fma256::enter(&Policy::open()) {
        measure_in::<Fma256x4, HALF, FULL>(name, "fma256", room);
    }
}

fn measure_in<L: Batches, const HALF: usize, const FULL: usize>(
    name: &str,
    room_name: &str,
    room: L::Room,
) {
    let key = key::<HALF, FULL>();
    for &lanes in L::KERNELS {
        let count = match lanes {
            1 => madd52_of_one(HALF, L::LANES),
            _ => madd52_per_batch(HALF) / L::LANES,
        };
        report(name, room_name, lanes, count, &key, |jobs| L::private_crt(room, lanes, jobs));
    }
}

fn report<const HALF: usize, const FULL: usize>(
    name: &str,
    room: &str,
    lanes: usize,
    madd52: usize,
    key: &CrtKey<HALF, FULL>,
    run: impl Fn(&mut [CrtJob<'_, HALF, FULL>]),
) {
    let input = vec![0x5a; FULL / 5 * 32];
    let mut outputs = vec![vec![0; input.len()]; lanes];
    let mut jobs: Vec<_> = outputs
        .iter_mut()
        .map(|output| CrtJob { key, input: &input, output, verdict: Verdict::Pending })
        .collect();
    let mut rounds: Vec<(f64, f64)> = (0..ROUNDS)
        .map(|_| {
            let before = cycles_per_ns();
            let start = now_ns();
            run(&mut jobs);
            let elapsed = (now_ns() - start) as f64;
            // An interrupted add chain looks like a slow clock.
            (elapsed * before.max(cycles_per_ns()), elapsed)
        })
        .collect();
    rounds.sort_by(|left, right| left.0.total_cmp(&right.0));
    let (cycles, nanoseconds) = rounds[ROUNDS / 4];
    let clock = cycles / nanoseconds;
    let cycles = cycles / lanes as f64;
    println!(
        "{room}  {lanes:>4}  {name}  {:>10.1}  {madd52:>9}  {:>15.1}  {clock:>7.2}  {:>9.0}",
        cycles / 1e3,
        100.0 * madd52 as f64 / PORTS / cycles,
        lanes as f64 * 1e9 / nanoseconds,
    );
}

/// Multiply-adds of one batch, whatever its lanes: two exponentiations, Garner, the public check.
fn madd52_per_batch(half: usize) -> usize {
    let reduce = |digits: usize| digits / 10 * (20 * digits + 3);
    let multiply = |digits: usize| 2 * digits * digits + reduce(digits);
    let square = |digits: usize| digits * (digits + 1) + reduce(digits);
    let windows = (half / 5 * 256).div_ceil(5);
    let exponentiate =
        15 * (square(half) + multiply(half)) + (windows - 1) * (5 * square(half) + multiply(half));
    let half_in_and_out = multiply(half) + 2 * reduce(half);
    let garner = multiply(half) + 2 * half * half;
    let check = 2 * multiply(2 * half) + 16 * square(2 * half);
    2 * (exponentiate + half_in_and_out) + garner + check
}

/// Multiply-adds of one operation in registers of so many digits of one number.
fn madd52_of_one(half: usize, lanes: usize) -> usize {
    let by_rows = (half, lanes) == (20, 8);
    let multiply = |digits: usize| {
        let blocks = digits.div_ceil(lanes);
        if by_rows { 4 * digits * blocks } else { 2 * lanes * (2 * blocks * blocks + 2) }
    };
    let square = |digits: usize| {
        let blocks = digits.div_ceil(lanes);
        let halved = if by_rows { 0 } else { lanes * blocks * (blocks - 1) };
        multiply(digits) - halved
    };
    let windows = (half / 5 * 256).div_ceil(5);
    let exponentiate =
        15 * (square(half) + multiply(half)) + (windows - 1) * (5 * square(half) + multiply(half));
    let others = 5 * multiply(half);
    2 * (exponentiate + others) + 2 * multiply(2 * half) + 16 * square(2 * half)
}

fn key<const HALF: usize, const FULL: usize>() -> CrtKey<HALF, FULL> {
    let key = &test_keys(FULL / 5 * 256)[0];
    assert_eq!(key.e, [1, 0, 1], "the count of multiply-adds is that of e = 65537");
    CrtKey::new(&CrtParts {
        n: &key.n,
        e: 65537,
        p: &key.p,
        q: &key.q,
        dp: &key.dp,
        dq: &key.dq,
        qinv: &key.qinv,
    })
}
