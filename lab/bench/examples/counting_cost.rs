//! What counting costs a handshake: the additions that one in TLS 1.3 makes at most, while other
//! threads of the same process make as many on pages of their own, or on the same page as those do
//! for which there is none left, and a reader reads all.
//!
//! `cargo run --release -p widelane-bench --example counting_cost`
#![allow(clippy::print_stdout, reason = "an example answers on the terminal")]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;
use std::time::Instant;

use widelane_bridge::counters::{Counters, OperationKind};

/// Measurements of each case; the median counts.
const ROUNDS: usize = 1_001;

/// Handshakes of one measurement: shorter than what the system gives a thread at a time.
const HANDSHAKES: u32 = 500;

/// CPU time of a server's handshake that is as short as any in `records/`: nginx, ECDSA, batched.
const HANDSHAKE_NS: f64 = 150_000.0;

fn main() {
    let all: Vec<Page> = (0..THREADS_MAX).map(|_| Page::default()).collect();
    println!("{} additions for a handshake whose operations all run alone", additions().len());
    for (threads, pages) in [(1, 1), (2, 2), (4, 4), (2, 1), (4, 1)] {
        let ns = measure(&all[..pages], threads);
        println!(
            "{threads} threads, {pages} pages: {ns:7.1} ns, {:.3} % of a handshake of {:.0} µs",
            100.0 * ns / HANDSHAKE_NS,
            HANDSHAKE_NS / 1e3
        );
    }
}

/// A page of counters, as numbers.
#[repr(align(4096))]
struct Page([AtomicU64; WORDS]);

impl Default for Page {
    fn default() -> Self {
        Page([const { AtomicU64::new(0) }; WORDS])
    }
}

const WORDS: usize = size_of::<Counters>() / 8;

const THREADS_MAX: usize = 4;

/// Where the additions go, as words of the page.
fn additions() -> Vec<usize> {
    use std::mem::offset_of;
    let kind = |kind: OperationKind| {
        let one = size_of::<widelane_bridge::counters::KindCounters>();
        offset_of!(Counters, kinds) + kind as usize * one
    };
    let mut offsets = vec![offset_of!(Counters, handshakes), kind(OperationKind::X25519Generate)];
    for operation in [OperationKind::X25519Derive, OperationKind::Rsa2048] {
        offsets.extend([
            kind(operation),
            kind(operation) + 56,
            offset_of!(Counters, jobs_batched),
            offset_of!(Counters, batches_by_fill) + 8,
            offset_of!(Counters, runs_by_room),
            offset_of!(Counters, closed_idle),
            offset_of!(Counters, waits_by_bucket) + 32,
            offset_of!(Counters, wait_ns_total),
        ]);
    }
    // Messages and bytes of both directions, under the keys of the handshake and those after it.
    let ciphers = offset_of!(Counters, ciphers);
    offsets.extend([ciphers, ciphers + 128].repeat(4));
    offsets.into_iter().map(|offset| offset / 8).collect()
}

/// Nanoseconds of a handshake's additions, while `threads` threads make them, in turn on the pages
/// that there are, and one reads all.
fn measure(pages: &[Page], threads: usize) -> f64 {
    let additions = &additions();
    let count = |thread: usize| {
        for &word in additions {
            pages[thread % pages.len()].0[word].fetch_add(1, Ordering::Relaxed);
        }
    };
    let done = AtomicBool::new(false);
    scope(|scope| {
        let (count, done) = (&count, &done);
        for thread in 1..threads {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    count(thread);
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let words = pages.iter().flat_map(|page| &page.0);
                let sum: u64 = words.map(|word| word.load(Ordering::Relaxed) & 1).sum();
                black_box(sum);
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        });
        let mut times: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let began = Instant::now();
                (0..HANDSHAKES).for_each(|_| count(0));
                began.elapsed().as_nanos() as f64 / f64::from(HANDSHAKES)
            })
            .collect();
        done.store(true, Ordering::Relaxed);
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    })
}
