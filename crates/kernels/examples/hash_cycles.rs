//! Cycles per byte of the hashes, every room beside OpenSSL in the same run.
//!
//! `cargo run --release -p widelane-kernels --example hash_cycles`
#![allow(clippy::print_stdout, reason = "an example answers on the terminal")]

use openssl::hash::{Hasher, MessageDigest};
use widelane_cpu::clock::now_ns;
use widelane_cpu::{Avx2, Avx512, Policy, Shani, Vaes512};
use widelane_kernels::hash::{Hash, States, compress};
use widelane_kernels::sha1::{self, SHA1, Sha1};
use widelane_kernels::sha2::{self, SHA256, SHA512, Sha256, Sha512};
use widelane_kernels::words::{Avx2x1, Avx2x4, Avx2x8, Avx512x8, Avx512x16, Vaes512x8, Words};
use widelane_testkit::clock::cycles_per_ns;

/// Bytes of each message: a whole number of blocks.
const MESSAGE_BYTES: usize = 8192;
/// Rounds in which every subject has its turn; the fastest turn of each counts.
const ROUNDS: usize = 300;

/// Hashes some messages.
type HashMessages = Box<dyn FnMut(&[&[u8]])>;

/// One implementation: hashes as many messages as it has lanes.
struct Subject {
    name: &'static str,
    lanes: usize,
    hash: HashMessages,
}

impl Subject {
    fn new(name: &'static str, lanes: usize, hash: impl FnMut(&[&[u8]]) + 'static) -> Self {
        Subject { name, lanes, hash: Box::new(hash) }
    }

    fn lanes<H: Hash<W>, W: Words + 'static>(
        name: &'static str,
        room: W::Room,
        mut states: States<W>,
    ) -> Self {
        Subject::new(name, W::LANES, move |messages| {
            compress::<H, W>(room, &mut states, messages, MESSAGE_BYTES / W::BLOCK_BYTES);
        })
    }

    fn openssl(name: &'static str, digest: MessageDigest) -> Self {
        let mut hasher = Hasher::new(digest).expect("OpenSSL has the digest");
        Subject::new(name, 1, move |messages| {
            hasher.update(messages[0]).expect("a message");
            hasher.finish().expect("a digest");
        })
    }
}

fn main() {
    let mut subjects = vec![
        Subject::openssl("SHA-1 OpenSSL", MessageDigest::sha1()),
        Subject::lanes::<Sha1, u32>("SHA-1 portable", (), SHA1.map(|word| [word])),
        Subject::openssl("SHA-256 OpenSSL", MessageDigest::sha256()),
        Subject::lanes::<Sha256, u32>("SHA-256 portable", (), SHA256.map(|word| [word])),
        Subject::openssl("SHA-512 OpenSSL", MessageDigest::sha512()),
        Subject::lanes::<Sha512, u64>("SHA-512 portable", (), SHA512.map(|word| [word])),
    ];
    if let Some(room) = Shani::enter(&Policy::open()) {
        let mut state = SHA1;
        subjects.push(Subject::new("SHA-1 shani", 1, move |messages| {
            sha1::shani::compress(room, &mut state, messages[0].as_chunks().0);
        }));
        let mut state = SHA256;
        subjects.push(Subject::new("SHA-256 shani", 1, move |messages| {
            sha2::shani::compress(room, &mut state, messages[0].as_chunks().0);
        }));
    }
    if let Some(room) = Avx2::enter(&Policy::open()) {
        let mut state = SHA512;
        subjects.push(Subject::new("SHA-512 avx2", 1, move |messages| {
            sha2::avx2::compress(room, &mut state, messages[0].as_chunks().0);
        }));
        let [narrow, wide] = [SHA1, SHA256].map(|state| state.map(|word| [word]));
        subjects.extend([
            Subject::lanes::<Sha1, Avx2x1<u32>>("SHA-1 avx2", room, narrow),
            Subject::lanes::<Sha256, Avx2x1<u32>>("SHA-256 avx2", room, wide),
            Subject::lanes::<Sha1, Avx2x8>("SHA-1 avx2 x8", room, SHA1.map(|word| [word; 8])),
            Subject::lanes::<Sha256, Avx2x8>("SHA-256 avx2 x8", room, SHA256.map(|word| [word; 8])),
            Subject::lanes::<Sha512, Avx2x4>("SHA-512 avx2 x4", room, SHA512.map(|word| [word; 4])),
        ]);
    }
    if let Some(room) = Avx512::enter(&Policy::open()) {
        let mut state = SHA512;
        subjects.push(Subject::new("SHA-512 avx512", 1, move |messages| {
            sha2::avx512::compress(room, &mut state, messages[0].as_chunks().0);
        }));
        let wide = SHA256.map(|word| [word; 16]);
        subjects.extend([
            Subject::lanes::<Sha1, Avx512x16>(
                "SHA-1 avx512 x16",
                room,
                SHA1.map(|word| [word; 16]),
            ),
            Subject::lanes::<Sha256, Avx512x16>("SHA-256 avx512 x16", room, wide),
            Subject::lanes::<Sha512, Avx512x8>(
                "SHA-512 avx512 x8",
                room,
                SHA512.map(|word| [word; 8]),
            ),
        ]);
    }
    if let Some(room) = Vaes512::enter(&Policy::open()) {
        subjects.extend([
            Subject::lanes::<Sha1, Vaes512x8>("SHA-1 vaes512 x8", room, SHA1.map(|word| [word; 8])),
            Subject::lanes::<Sha256, Vaes512x8>(
                "SHA-256 vaes512 x8",
                room,
                SHA256.map(|word| [word; 8]),
            ),
        ]);
    }
    measure(subjects);
}

fn measure(mut subjects: Vec<Subject>) {
    subjects.sort_by_key(|subject| subject.name.split_once(' ').map(|(hash, _)| hash));
    let texts: Vec<_> = (0..16u8).map(|lane| vec![lane; MESSAGE_BYTES]).collect();
    let messages: Vec<_> = texts.iter().map(|text| &text[..]).collect();
    let mut best = vec![f64::INFINITY; subjects.len()];
    for round in 0..ROUNDS {
        for (subject, best) in subjects.iter_mut().zip(&mut best) {
            let before = cycles_per_ns();
            let start = now_ns();
            (subject.hash)(&messages[..subject.lanes]);
            let elapsed = (now_ns() - start) as f64;
            let clock = cycles_per_ns();
            // A clock that changes meanwhile would count cycles that were not.
            if round > 1 && (before / clock - 1.0).abs() < 0.01 {
                let bytes = (subject.lanes * MESSAGE_BYTES) as f64;
                *best = best.min(elapsed * clock / bytes);
            }
        }
    }
    for (subject, best) in subjects.iter().zip(best) {
        println!("{:20} {best:.3} cycles per byte", subject.name);
    }
}
