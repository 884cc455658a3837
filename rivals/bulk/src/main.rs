//! Other libraries under command: does what they have, shows what came out, and says how long it
//! took.
//!
//! `widelane-rival-bulk` says which libraries it has, and answers one line of JSON for every line
//! on standard input, where a path is `ALGORITHM/OPERATION/SIZE` as in results of `widelane speed`,
//! or `ALGORITHM/OPERATION` of ML-KEM:
//!
//! - `output LIBRARY PATH`: what came out for every message, after one call on texts of zeros or
//!   on what there is to hash, or for every key; or why the library cannot do it
//! - `slice LIBRARY PATH NANOSECONDS`: how many messages, or operations, were done in at least so
//!   much CPU time, and in how much
//!
//! Keys and inputs are the same as in `widelane speed`, which checks the output.

mod aws_lc;
mod graviola;
#[cfg(feature = "ipsec-mb")]
mod ipsec_mb;
mod kem;
mod ring;
mod ring_like;
mod task;

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use nix::time::ClockId;

use crate::task::{Operation, TAG_BYTES, Task, Work};

/// Calls between two looks at the CPU time at first; as many as fill `BURST` later.
const BURST: Duration = Duration::from_micros(200);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A library, and how it does a task, or why it cannot.
struct Library {
    name: &'static str,
    messages: fn(&Task) -> Result<Work, String>,
    ml_kem: fn(kem::Task) -> Result<Work, String>,
}

const LIBRARIES: &[Library] = &[
    Library { name: "aws-lc", messages: aws_lc::work, ml_kem: aws_lc::ml_kem },
    Library { name: "ring", messages: ring::work, ml_kem: |_| Err("no ML-KEM".to_owned()) },
    Library { name: "graviola", messages: graviola::work, ml_kem: graviola::ml_kem },
    #[cfg(feature = "ipsec-mb")]
    Library { name: "ipsec-mb", messages: ipsec_mb::work, ml_kem: |_| Err("no ML-KEM".to_owned()) },
    Library {
        name: "libcrux",
        messages: |_| Err("not asked for".to_owned()),
        ml_kem: kem::libcrux,
    },
];

fn main() -> Outcome<()> {
    let mut out = io::stdout().lock();
    let names: Vec<String> =
        LIBRARIES.iter().map(|library| format!("\"{}\"", library.name)).collect();
    writeln!(out, r#"{{"libraries":[{}]}}"#, names.join(","))?;
    out.flush()?;
    let mut bench = HashMap::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words.as_slice() {
            ["output", library, path] => match Contest::new(library, path) {
                Ok(mut contest) => {
                    (contest.work)(&mut contest.outputs);
                    let answer = format!(r#"{{"done":{:?}}}"#, contest.results());
                    bench.insert((library.to_string(), path.to_string()), contest);
                    answer
                }
                Err(reason) => format!(r#"{{"missing":{reason:?}}}"#),
            },
            ["slice", library, path, time] => {
                let time = Duration::from_nanos(time.parse()?);
                let contest = bench.get_mut(&(library.to_string(), path.to_string()));
                let (operations, cpu) = contest.ok_or("ask for the output first")?.slice(time)?;
                let cpu_ns = cpu.as_nanos();
                format!(r#"{{"done":{{"operations":{operations},"cpu_ns":{cpu_ns}}}}}"#)
            }
            _ => return Err(format!("unknown command {line:?}").into()),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

/// One library at one task.
struct Contest {
    work: Work,
    outputs: Vec<Vec<u8>>,
    output_bytes: usize,
    /// Operations of one call.
    count: u64,
    calls: u64,
}

impl Contest {
    fn new(library: &str, path: &str) -> Result<Self, String> {
        let known = LIBRARIES.iter().find(|known| known.name == library);
        let known = known.ok_or_else(|| format!("{library} is not built in"))?;
        if let Some(task) = kem::Task::at(path) {
            let (work, output_bytes) = ((known.ml_kem)(task)?, task.output_bytes());
            let outputs = vec![vec![0; output_bytes]; kem::LANES];
            return Ok(Contest { work, outputs, output_bytes, count: kem::LANES as u64, calls: 1 });
        }
        let work_of = known.messages;
        let task = Task::at(path)?;
        let work = work_of(&task)?;
        let mut outputs = task.outputs();
        if let Operation::Open(aead) = task.operation {
            let mut seal = work_of(&Task { operation: Operation::Seal(aead), ..task })?;
            let mut message = [vec![0; task.size + TAG_BYTES]];
            let mut tag = || {
                seal(&mut message);
                message[0][task.size..].to_vec()
            };
            let (of_key_stream, of_zeros) = (tag(), tag());
            outputs[0].extend([0; TAG_BYTES].into_iter().chain(of_zeros).chain(of_key_stream));
        }
        let (output_bytes, count) = (task.output_bytes(), task.count as u64);
        Ok(Contest { work, outputs, output_bytes, count, calls: 1 })
    }

    /// What came out for every message.
    fn results(&self) -> Vec<&[u8]> {
        self.outputs.iter().map(|output| &output[..self.output_bytes]).collect()
    }

    fn slice(&mut self, time: Duration) -> Outcome<(u64, Duration)> {
        let began = cpu_time()?;
        let (mut operations, mut burst_began) = (0, began);
        loop {
            for _ in 0..self.calls {
                (self.work)(&mut self.outputs);
            }
            operations += self.calls * self.count;
            let now = cpu_time()?;
            if now - began >= time {
                return Ok((operations, now - began));
            }
            if now - burst_began < BURST {
                self.calls *= 2;
            }
            burst_began = now;
        }
    }
}

fn cpu_time() -> Outcome<Duration> {
    Ok(ClockId::CLOCK_THREAD_CPUTIME_ID.now()?.into())
}
