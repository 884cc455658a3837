//! What a server pays for handshakes and records with this provider, AWS-LC's and ring's: all in
//! one run, taking turns. `cargo run --release -p widelane-rustls --example handshakes`; seconds to
//! spend may follow, and part of the names of rows to measure alone (`-- 20 MLKEM`).
#![allow(clippy::print_stdout, reason = "an example says what it found")]

#[path = "handshakes/bulk.rs"]
mod bulk;
#[path = "handshakes/ends.rs"]
mod ends;
#[path = "handshakes/shake.rs"]
mod shake;

use std::env;
use std::time::{Duration, Instant};

use ends::Rival;

/// One thing that is measured with every rival: nanoseconds for a unit of it.
struct Row {
    name: String,
    unit: Unit,
    /// Measures a rival once.
    measure: Box<dyn FnMut(&Rival) -> f64>,
    /// By rival, what was measured in each round.
    samples: Vec<Vec<f64>>,
}

/// What a row is shown in.
#[derive(Clone, Copy)]
enum Unit {
    /// µs of the server's time for a handshake: less is better.
    Handshake,
    /// GB per second: more is better.
    Bytes(usize),
}

fn main() {
    let seconds = env::args().nth(1).and_then(|seconds| seconds.parse().ok()).unwrap_or(60);
    let wanted = env::args().nth(2).unwrap_or_default();
    let rivals = ends::rivals();
    let mut rows = shake::rows();
    rows.extend(bulk::rows());
    rows.retain(|row| row.name.contains(&wanted));
    for row in &mut rows {
        row.samples = vec![Vec::new(); rivals.len()];
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut round = 0;
    while round < 3 || Instant::now() < end {
        for row in &mut rows {
            // Whoever comes first in one round comes last in another.
            for turn in 0..rivals.len() {
                let index = (turn + round) % rivals.len();
                let sample = (row.measure)(&rivals[index]);
                row.samples[index].push(sample);
            }
        }
        round += 1;
    }
    print(&rivals, &rows, round);
}

fn print(rivals: &[Rival], rows: &[Row], rounds: usize) {
    println!(
        "Medians of {rounds} rounds in turns. Ratios: how often the first provider does it in"
    );
    println!("the time in which the other does it once; in brackets, nine rounds of ten.\n");
    print!("{:44}", "");
    rivals.iter().for_each(|rival| print!("{:>12}", rival.name));
    rivals[1..].iter().for_each(|rival| print!("{:>26}", format!("beside {}", rival.name)));
    println!();
    for row in rows {
        print!("{:44}", row.name);
        for samples in &row.samples {
            let median = quantile(samples, 0.5);
            match row.unit {
                _ if median.is_nan() => print!("{:>12}", "-"),
                Unit::Handshake => print!("{:>9.1} µs", median / 1e3),
                Unit::Bytes(bytes) => print!("{:>7.2} GB/s", bytes as f64 / median),
            }
        }
        for other in &row.samples[1..] {
            let ratios: Vec<f64> =
                row.samples[0].iter().zip(other).map(|(ours, theirs)| theirs / ours).collect();
            let [low, middle, high] = [0.05, 0.5, 0.95].map(|share| quantile(&ratios, share));
            let ratio = format!("{middle:.2} ({low:.2}..{high:.2})");
            print!("{:>26}", if middle.is_nan() { "-" } else { &ratio });
        }
        println!();
    }
}

fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}
