//! Nanoseconds per lookup in every room: `lookup_ns RULES TRACE [BURST [PASSES]]`.

use std::env;
use std::error::Error;
use std::fs;
use std::sync::Arc;
use std::time::Instant;

use widelane_classify::rule::{classbench, dpdk};
use widelane_classify::{Classifier, Flow, Limits, build};
use widelane_cpu::{Policy, Width};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (rules, trace) = (&arguments[0], &arguments[1]);
    let burst: usize = arguments.get(2).map_or(Ok(32), |word| word.parse())?;
    let passes: usize = arguments.get(3).map_or(Ok(100), |word| word.parse())?;
    let set = dpdk::parse(rules, &fs::read_to_string(rules)?)?;
    let began = Instant::now();
    let (table, account) = build::build(&set, &Limits::default())?;
    eprintln!("built in {:.3} s\n{account}", began.elapsed().as_secs_f64());
    let flows = classbench::parse_trace(trace, &fs::read_to_string(trace)?)?;
    let packets: Vec<&[u8]> = flows.iter().map(Flow::packet).collect();
    let table = Arc::new(table);
    let mut results = vec![0; packets.len()];
    for width in [Width::W128, Width::W256, Width::W512] {
        let classifier = Classifier::choose(table.clone(), &Policy::up_to(width));
        let mut fastest = f64::MAX;
        for _ in 0..passes {
            let began = Instant::now();
            for (packets, results) in packets.chunks(burst).zip(results.chunks_mut(burst)) {
                classifier.classify(packets, results)?;
            }
            fastest = fastest.min(began.elapsed().as_secs_f64());
        }
        eprintln!("{}: {:.2} ns", classifier.room(), fastest * 1e9 / packets.len() as f64);
    }
    Ok(())
}
