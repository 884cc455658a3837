//! Cycles per sealed message, every room beside OpenSSL, AWS-LC and ring in the same run.
//!
//! `cargo run --release -p widelane-crypto --example aead_cycles [aes128|aes256|chacha20]`
#![allow(clippy::print_stdout, reason = "an example answers on the terminal")]

use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use widelane_cpu::clock::now_ns;
use widelane_cpu::{Aesni, Avx2, Avx512, Ifma256, Ifma512, Policy, Vaes256, Vaes512};
use widelane_kernels::aes_gcm::{KeyBytes, Message, aesni, first_counter, vaes256, vaes512};
use widelane_kernels::chacha20_poly1305 as chacha;
use widelane_kernels::text::Text;
use widelane_testkit::clock::cycles_per_ns;

const SIZES: [usize; 8] = [64, 128, 256, 512, 1024, 1350, 4096, 16384];
/// Rounds in which every subject has its turn; the fastest turn of each counts.
const ROUNDS: usize = 1500;
/// How long a turn takes, about.
const TURN_NS: f64 = 8_000.0;
/// Messages that are sealed by one call of `seal_many`.
const MANY: usize = 32;
const AAD: [u8; 13] = [0x17; 13];

/// Seals a message where it is.
type Seal<'a> = Box<dyn FnMut(&mut [u8]) + 'a>;

/// One implementation: seals a message of the length that it is made for, `MANY` times if `many`.
struct Subject<'a> {
    name: &'a str,
    messages: usize,
    seal: Seal<'a>,
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_else(|| "aes128".to_owned());
    let subjects = match wanted.as_str() {
        "aes128" => aes_gcm(16),
        "aes256" => aes_gcm(32),
        "chacha20" => chacha20_poly1305(),
        other => panic!("aes128, aes256 or chacha20, not {other}"),
    };
    measure(subjects);
}

fn aes_gcm(key_bytes: usize) -> Vec<Subject<'static>> {
    let key = vec![0x42; key_bytes];
    let bytes = || KeyBytes::new(&key).expect("a length of AES");
    let first = first_counter(&[7; 12]);
    let mut subjects = Vec::new();
    if let Some(room) = Vaes512::enter(&Policy::open()) {
        let mut key = vaes512::Key::default();
        vaes512::expand(room, bytes(), &mut key);
        let (many, opening) = (key.clone(), key.clone());
        subjects.push(Subject::new("vaes512", 1, move |text| {
            let (text, mut tag) = (Text::in_place(text), [0; 16]);
            vaes512::seal(room, Message { key: &key, first, aad: &AAD, text, tag: &mut tag });
        }));
        subjects.push(Subject::new("vaes512 open", 1, move |text| {
            let (text, mut tag) = (Text::in_place(text), [0; 16]);
            vaes512::open(room, Message { key: &opening, first, aad: &AAD, text, tag: &mut tag });
        }));
        let (mut others, mut tags) = (Vec::new(), [[0; 16]; MANY]);
        subjects.push(Subject::new("vaes512 x32", MANY, move |text| {
            // Side by side, as records are: buffers a power of two apart would share cache sets.
            others.resize(MANY * text.len(), 0);
            let others = others.chunks_exact_mut(text.len());
            let mut messages = others.zip(&mut tags).map(|(text, tag)| Message {
                key: &many,
                first,
                aad: &AAD,
                text: Text::in_place(text),
                tag,
            });
            vaes512::seal_many(room, &mut messages);
        }));
    }
    if let Some(room) = Vaes256::enter(&Policy::open()) {
        let mut key = vaes256::Key::default();
        vaes256::expand(room, bytes(), &mut key);
        subjects.push(Subject::new("vaes256", 1, move |text| {
            let (text, mut tag) = (Text::in_place(text), [0; 16]);
            vaes256::seal(room, Message { key: &key, first, aad: &AAD, text, tag: &mut tag });
        }));
    }
    if let Some(room) = Aesni::enter(&Policy::open()) {
        let mut key = aesni::Key::default();
        aesni::expand(room, bytes(), &mut key);
        subjects.push(Subject::new("aesni", 1, move |text| {
            let (text, mut tag) = (Text::in_place(text), [0; 16]);
            aesni::seal(room, Message { key: &key, first, aad: &AAD, text, tag: &mut tag });
        }));
    }
    let (cipher, aws, ring) = if key_bytes == 16 {
        (Cipher::aes_128_gcm(), &aws_lc_rs::aead::AES_128_GCM, &ring::aead::AES_128_GCM)
    } else {
        (Cipher::aes_256_gcm(), &aws_lc_rs::aead::AES_256_GCM, &ring::aead::AES_256_GCM)
    };
    subjects.push(openssl("OpenSSL", cipher, &key));
    subjects.extend(rivals(&key, aws, ring));
    subjects
}

fn chacha20_poly1305() -> Vec<Subject<'static>> {
    let raw = [0x42; 32];
    let mut key = chacha::Key::default();
    key.fill(&raw);
    let nonce = &[7; 12];
    let mut subjects = Vec::new();
    if let Some(room) = Ifma512::enter(&Policy::open()) {
        let key = key.clone();
        subjects.push(Subject::new("ifma512", 1, move |text| {
            let (text, mut tag) = (Text::in_place(text), [0; 16]);
            let message = chacha::Message { key: &key, nonce, aad: &AAD, text, tag: &mut tag };
            chacha::ifma512::seal(room, message);
        }));
    }
    if let Some(room) = Ifma256::enter(&Policy::open()) {
        let key = key.clone();
        subjects.push(Subject::new("ifma256", 1, move |text| {
            let (text, mut tag) = (Text::in_place(text), [0; 16]);
            let message = chacha::Message { key: &key, nonce, aad: &AAD, text, tag: &mut tag };
            chacha::ifma256::seal(room, message);
        }));
    }
    if let Some(room) = Avx512::enter(&Policy::open()) {
        let key = key.clone();
        subjects.push(Subject::new("avx512", 1, move |text| {
            let (text, mut tag) = (Text::in_place(text), [0; 16]);
            let message = chacha::Message { key: &key, nonce, aad: &AAD, text, tag: &mut tag };
            chacha::avx512::seal(room, message);
        }));
    }
    if let Some(room) = Avx2::enter(&Policy::open()) {
        subjects.push(Subject::new("avx2", 1, move |text| {
            let (text, mut tag) = (Text::in_place(text), [0; 16]);
            let message = chacha::Message { key: &key, nonce, aad: &AAD, text, tag: &mut tag };
            chacha::avx2::seal(room, message);
        }));
    }
    subjects.push(openssl("OpenSSL", Cipher::chacha20_poly1305(), &raw));
    let (aws, ring) = (&aws_lc_rs::aead::CHACHA20_POLY1305, &ring::aead::CHACHA20_POLY1305);
    subjects.extend(rivals(&raw, aws, ring));
    subjects
}

/// OpenSSL with a context that is kept, as a TLS connection keeps it.
fn openssl(
    name: &'static str,
    cipher: &'static openssl::cipher::CipherRef,
    key: &[u8],
) -> Subject<'static> {
    let mut context = CipherCtx::new().expect("a context");
    context.encrypt_init(Some(cipher), Some(key), None).expect("a key");
    let mut tag = [0; 16];
    Subject::new(name, 1, move |text| {
        context.encrypt_init(None, None, Some(&[7; 12])).expect("a nonce");
        context.cipher_update(&AAD, None).expect("AAD");
        let length = text.len();
        context.cipher_update_inplace(text, length).expect("a message");
        context.cipher_final(&mut []).expect("the end");
        context.tag(&mut tag).expect("a tag");
    })
}

fn rivals(
    key: &[u8],
    aws: &'static aws_lc_rs::aead::Algorithm,
    ring: &'static ring::aead::Algorithm,
) -> [Subject<'static>; 2] {
    let aws = aws_lc_rs::aead::UnboundKey::new(aws, key).expect("a key");
    let aws = aws_lc_rs::aead::LessSafeKey::new(aws);
    let ring = ring::aead::UnboundKey::new(ring, key).expect("a key");
    let ring = ring::aead::LessSafeKey::new(ring);
    [
        Subject::new("AWS-LC", 1, move |text| {
            let nonce = aws_lc_rs::aead::Nonce::assume_unique_for_key([7; 12]);
            let aad = aws_lc_rs::aead::Aad::from(AAD);
            let _ = aws.seal_in_place_separate_tag(nonce, aad, text).expect("sealed");
        }),
        Subject::new("ring", 1, move |text| {
            let nonce = ring::aead::Nonce::assume_unique_for_key([7; 12]);
            let aad = ring::aead::Aad::from(AAD);
            let _ = ring.seal_in_place_separate_tag(nonce, aad, text).expect("sealed");
        }),
    ]
}

impl<'a> Subject<'a> {
    fn new(name: &'a str, messages: usize, seal: impl FnMut(&mut [u8]) + 'a) -> Self {
        Subject { name, messages, seal: Box::new(seal) }
    }
}

fn measure(mut subjects: Vec<Subject<'_>>) {
    print!("{:14}", "cycles");
    SIZES.iter().for_each(|size| print!("{size:>9}"));
    println!("     c/B at {}", SIZES[SIZES.len() - 1]);
    let mut best = vec![[f64::INFINITY; SIZES.len()]; subjects.len()];
    let mut clock = 0f64;
    for (column, size) in SIZES.into_iter().enumerate() {
        let mut text = vec![0x5a; size];
        let mut turns: Vec<usize> = vec![1; subjects.len()];
        for round in 0..ROUNDS {
            for (row, subject) in subjects.iter_mut().enumerate() {
                let before = cycles_per_ns();
                let start = now_ns();
                for _ in 0..turns[row] {
                    (subject.seal)(&mut text);
                }
                let elapsed = (now_ns() - start) as f64;
                clock = cycles_per_ns();
                let cycles = elapsed * clock / (turns[row] * subject.messages) as f64;
                // A clock that changes meanwhile would count cycles that were not.
                if round > 1 && (before / clock - 1.0).abs() < 0.01 {
                    best[row][column] = best[row][column].min(cycles);
                }
                turns[row] = ((TURN_NS / elapsed * turns[row] as f64) as usize).clamp(1, 10_000);
            }
        }
    }
    for (subject, best) in subjects.iter().zip(&best) {
        print!("{:14}", subject.name);
        best.iter().for_each(|cycles| print!("{cycles:>9.0}"));
        println!("{:>10.3}", best[SIZES.len() - 1] / SIZES[SIZES.len() - 1] as f64);
    }
    println!("clock at the end {clock:.2} GHz");
}
