//! Other libraries under command: seals messages, shows what came out, and says how long it took.
//!
//! `widelane-rival-bulk` says which libraries it has, and answers one line of JSON for every line
//! on standard input, where a path is `ALGORITHM/OPERATION/SIZE` as in results of `widelane speed`:
//!
//! - `output LIBRARY PATH`: the bytes of text and tag after one call on a text of zeros
//! - `slice LIBRARY PATH NANOSECONDS`: how many calls were made in at least so much CPU time, and
//!   in how much
//!
//! Key, nonce and AAD are the same as in `widelane speed`, which checks the output.

#[cfg(feature = "ipsec-mb")]
mod ipsec_mb;

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use aws_lc_rs::aead as aws_lc;
use nix::time::ClockId;
use ring::aead as ring_aead;

/// Bytes of a tag.
const TAG_BYTES: usize = 16;

const NONCE: [u8; 12] = [7; 12];
const AAD: [u8; 13] = [1; 13];

/// Calls between two looks at the CPU time at first; as many as fill `BURST` later.
const BURST: Duration = Duration::from_micros(200);

/// Seals the text in front of the place for its tag.
type Work = Box<dyn FnMut(&mut [u8])>;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What is sealed with.
#[derive(Clone, Copy)]
enum Algorithm {
    Aes128Gcm,
    Aes192Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
}

impl Algorithm {
    fn named(name: &str) -> Option<Self> {
        match name {
            "aes-128-gcm" => Some(Algorithm::Aes128Gcm),
            "aes-192-gcm" => Some(Algorithm::Aes192Gcm),
            "aes-256-gcm" => Some(Algorithm::Aes256Gcm),
            "chacha20-poly1305" => Some(Algorithm::ChaCha20Poly1305),
            _ => None,
        }
    }

    fn key(self) -> Vec<u8> {
        let bytes = match self {
            Algorithm::Aes128Gcm => 16,
            Algorithm::Aes192Gcm => 24,
            Algorithm::Aes256Gcm | Algorithm::ChaCha20Poly1305 => 32,
        };
        (0..bytes).collect()
    }
}

/// A library: its name, and how it seals with a key, or why it cannot.
type Library = (&'static str, fn(Algorithm, &[u8]) -> Result<Work, String>);

const LIBRARIES: &[Library] = &[
    ("aws-lc", seal_by_aws_lc),
    ("ring", seal_by_ring),
    ("graviola", seal_by_graviola),
    #[cfg(feature = "ipsec-mb")]
    ("ipsec-mb", ipsec_mb::seal),
];

fn main() -> Outcome<()> {
    let mut out = io::stdout().lock();
    let names: Vec<String> = LIBRARIES.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    writeln!(out, r#"{{"libraries":[{}]}}"#, names.join(","))?;
    out.flush()?;
    let mut bench = HashMap::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words.as_slice() {
            ["output", library, path] => match Contest::new(library, path) {
                Ok(mut contest) => {
                    (contest.work)(&mut contest.output);
                    let answer = format!(r#"{{"done":{:?}}}"#, contest.output);
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

/// One library at one size.
struct Contest {
    work: Work,
    output: Vec<u8>,
    calls: u64,
}

impl Contest {
    fn new(library: &str, path: &str) -> Result<Self, String> {
        let known = LIBRARIES.iter().find(|(name, _)| *name == library);
        let (_, seal) = known.ok_or_else(|| format!("{library} is not built in"))?;
        let parts: Vec<&str> = path.split('/').collect();
        let [algorithm, "seal", size] = parts.as_slice() else {
            return Err("timed sealing messages one by one only".to_owned());
        };
        let algorithm =
            Algorithm::named(algorithm).ok_or_else(|| format!("not timed with {algorithm}"))?;
        let size: usize = size.parse().map_err(|_| format!("{size} is no size"))?;
        let work = seal(algorithm, &algorithm.key())?;
        Ok(Contest { work, output: vec![0; size + TAG_BYTES], calls: 1 })
    }

    fn slice(&mut self, time: Duration) -> Outcome<(u64, Duration)> {
        let began = cpu_time()?;
        let (mut operations, mut burst_began) = (0, began);
        loop {
            for _ in 0..self.calls {
                (self.work)(&mut self.output);
            }
            operations += self.calls;
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

fn text_and_tag(output: &mut [u8]) -> (&mut [u8], &mut [u8; TAG_BYTES]) {
    output.split_last_chunk_mut().expect("every output has a tag")
}

fn seal_by_aws_lc(algorithm: Algorithm, key: &[u8]) -> Result<Work, String> {
    let algorithm = match algorithm {
        Algorithm::Aes128Gcm => &aws_lc::AES_128_GCM,
        Algorithm::Aes192Gcm => &aws_lc::AES_192_GCM,
        Algorithm::Aes256Gcm => &aws_lc::AES_256_GCM,
        Algorithm::ChaCha20Poly1305 => &aws_lc::CHACHA20_POLY1305,
    };
    let key = aws_lc::UnboundKey::new(algorithm, key).map_err(|error| error.to_string())?;
    let key = aws_lc::LessSafeKey::new(key);
    Ok(Box::new(move |output| {
        let (text, tag) = text_and_tag(output);
        let nonce = aws_lc::Nonce::assume_unique_for_key(NONCE);
        let made = key.seal_in_place_separate_tag(nonce, aws_lc::Aad::from(AAD), text);
        tag.copy_from_slice(made.expect("the text is short enough").as_ref());
    }))
}

fn seal_by_ring(algorithm: Algorithm, key: &[u8]) -> Result<Work, String> {
    let algorithm = match algorithm {
        Algorithm::Aes128Gcm => &ring_aead::AES_128_GCM,
        Algorithm::Aes192Gcm => return Err("has no AES-192-GCM".to_owned()),
        Algorithm::Aes256Gcm => &ring_aead::AES_256_GCM,
        Algorithm::ChaCha20Poly1305 => &ring_aead::CHACHA20_POLY1305,
    };
    let key = ring_aead::UnboundKey::new(algorithm, key).map_err(|error| error.to_string())?;
    let key = ring_aead::LessSafeKey::new(key);
    Ok(Box::new(move |output| {
        let (text, tag) = text_and_tag(output);
        let nonce = ring_aead::Nonce::assume_unique_for_key(NONCE);
        let made = key.seal_in_place_separate_tag(nonce, ring_aead::Aad::from(AAD), text);
        tag.copy_from_slice(made.expect("the text is short enough").as_ref());
    }))
}

fn seal_by_graviola(algorithm: Algorithm, key: &[u8]) -> Result<Work, String> {
    match algorithm {
        Algorithm::Aes128Gcm | Algorithm::Aes256Gcm => {
            let key = graviola::aead::AesGcm::new(key);
            Ok(Box::new(move |output| {
                let (text, tag) = text_and_tag(output);
                key.encrypt(&NONCE, &AAD, text, tag);
            }))
        }
        Algorithm::Aes192Gcm => Err("has no AES-192-GCM".to_owned()),
        Algorithm::ChaCha20Poly1305 => {
            let key = key.try_into().map_err(|_| "the key has not 32 bytes")?;
            let key = graviola::aead::ChaCha20Poly1305::new(key);
            Ok(Box::new(move |output| {
                let (text, tag) = text_and_tag(output);
                key.encrypt(&NONCE, &AAD, text, tag);
            }))
        }
    }
}
