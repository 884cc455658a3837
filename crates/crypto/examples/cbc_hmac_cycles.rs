//! Cycles per byte of AES-CBC with HMAC, alone and in lanes, beside OpenSSL's stitched ciphers and
//! the rounds of AES-128 alone, each of which waits for the one in front of it.
//!
//! `cargo run --release -p widelane-crypto --example cbc_hmac_cycles`
#![allow(clippy::print_stdout, reason = "an example answers on the terminal")]
#![allow(unsafe_code, reason = "the control of OpenSSL's ciphers that libssl uses")]

use std::arch::asm;

use foreign_types::ForeignType;
use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use widelane_cpu::Policy;
use widelane_cpu::clock::now_ns;
use widelane_crypto::cbc_hmac::{Algorithm, CbcHmac, Header, Mode, Outcome, SealJob, seal_many};
use widelane_testkit::clock::cycles_per_ns;

const SIZES: [usize; 5] = [64, 256, 1350, 4096, 16384];
/// Rounds in which every subject has its turn; the fastest turn of each counts.
const ROUNDS: usize = 1000;
/// Records that are sealed by one call of `seal_many`: as many as libssl makes of a long text, and
/// as many as fill the lanes of the hash and of the cipher.
const MANY: [usize; 4] = [4, 8, 16, 32];
const HEADER: Header = Header { sequence: 0, kind: 23, version: 0x0303 };

/// One implementation: works on records with a text of the length it is given.
struct Subject {
    name: String,
    records: usize,
    work: Box<dyn FnMut(usize)>,
}

fn main() {
    let mut subjects = Vec::new();
    for (algorithm, name) in [
        (Algorithm::Aes128Sha1, "AES-128-CBC-HMAC-SHA1"),
        (Algorithm::Aes256Sha256, "AES-256-CBC-HMAC-SHA256"),
    ] {
        subjects.extend(ours(algorithm, Mode::MacThenEncrypt, name));
        subjects.push(openssl(algorithm, name));
    }
    subjects.push(Subject {
        name: "rounds of AES-128, one after the other".to_owned(),
        records: 1,
        work: Box::new(rounds),
    });
    measure(subjects);
}

/// The rounds of AES-128 that a text of so many bytes takes in a chain: what no single record of
/// AES-CBC can be quicker than.
fn rounds(length: usize) {
    assert!(is_x86_feature_detected!("aes"), "there are rounds of AES in hardware");
    // SAFETY: works on registers only, with instructions that the machine has.
    unsafe {
        asm!(
            "2:",
            ".rept 9",
            "aesenc {state}, {key}",
            ".endr",
            "aesenclast {state}, {key}",
            "dec {blocks}",
            "jnz 2b",
            state = out(xmm_reg) _,
            key = out(xmm_reg) _,
            blocks = inout(reg) length / 16 => _,
            options(nomem, nostack),
        );
    }
}

fn ours(algorithm: Algorithm, mode: Mode, name: &str) -> Vec<Subject> {
    let suite = CbcHmac::choose(algorithm, mode, &Policy::open());
    let key = suite
        .key(&vec![0x42; algorithm.key_bytes()], &vec![0x17; algorithm.tag_bytes()])
        .expect("a key");
    let (iv, buffer) = ([7; 16], vec![0x5a; 20000]);

    let (seal_key, mut record) = (key.clone(), buffer.clone());
    let seal = move |length: usize| {
        let record = &mut record[..seal_key.record_bytes(length)];
        seal_key.seal(&iv, HEADER, length, record).expect("sealed");
    };

    let (open_key, mut sealed, mut record) = (key.clone(), (0, Vec::new()), Vec::new());
    let open = move |length: usize| {
        if sealed.0 != length {
            sealed = (length, vec![0x5a; open_key.record_bytes(length)]);
            open_key.seal(&iv, HEADER, length, &mut sealed.1).expect("sealed");
        }
        record.clone_from(&sealed.1);
        open_key.open(&iv, HEADER, &mut record).expect("opened");
    };

    let many = MANY.map(|count| {
        let (key, mut records) = (key.clone(), vec![buffer.clone(); count]);
        let work = move |length: usize| {
            let bytes = key.record_bytes(length);
            let jobs = records.iter_mut().map(|record| SealJob {
                key: &key,
                iv: &iv,
                header: HEADER,
                text_bytes: length,
                record: &mut record[..bytes],
                outcome: Outcome::Pending,
            });
            seal_many(&mut jobs.collect::<Vec<_>>());
        };
        Subject { name: format!("{name} seal x{count}"), records: count, work: Box::new(work) }
    });
    let alone = [
        Subject { name: format!("{name} seal"), records: 1, work: Box::new(seal) },
        Subject { name: format!("{name} open"), records: 1, work: Box::new(open) },
    ];
    alone.into_iter().chain(many).collect()
}

/// OpenSSL as libssl calls it: the header as a control, then the record in place.
fn openssl(algorithm: Algorithm, name: &str) -> Subject {
    let cipher = Cipher::fetch(None, name, None).expect("OpenSSL has the cipher");
    let mut context = CipherCtx::new().expect("a context");
    let key = vec![0x42; algorithm.key_bytes()];
    context.encrypt_init(Some(&cipher), Some(&key), Some(&[7; 16])).expect("a key");
    let mut mac = vec![0x17; algorithm.tag_bytes()];
    control(&mut context, 0x17, &mut mac); // EVP_CTRL_AEAD_SET_MAC_KEY
    let mut buffer = vec![0x5a; 20000];
    let work = move |length: usize| {
        let [high, low] = (length as u16).to_be_bytes();
        // TLS 1.0, whose records have no IV of their own, so that the text is the payload.
        let mut header = [0, 0, 0, 0, 0, 0, 0, 0, 23, 3, 1, high, low];
        let more = control(&mut context, 0x16, &mut header); // EVP_CTRL_AEAD_TLS1_AAD
        let bytes = length + more;
        context.cipher_update_inplace(&mut buffer[..bytes + 16], bytes).expect("a record");
    };
    Subject { name: format!("{name} seal, OpenSSL"), records: 1, work: Box::new(work) }
}

fn control(context: &mut CipherCtx, kind: i32, bytes: &mut [u8]) -> usize {
    let (pointer, length) = (bytes.as_mut_ptr().cast(), bytes.len() as i32);
    // SAFETY: the context is alive, and the pointer names as many bytes as are announced.
    let answer =
        unsafe { openssl_sys::EVP_CIPHER_CTX_ctrl(context.as_ptr(), kind, length, pointer) };
    usize::try_from(answer).expect("OpenSSL takes the control")
}

fn measure(mut subjects: Vec<Subject>) {
    print!("{:44}", "cycles per byte");
    SIZES.iter().for_each(|size| print!("{size:>9}"));
    println!();
    let mut best = vec![[f64::INFINITY; SIZES.len()]; subjects.len()];
    for (column, size) in SIZES.into_iter().enumerate() {
        for round in 0..ROUNDS {
            for (subject, best) in subjects.iter_mut().zip(&mut best) {
                let before = cycles_per_ns();
                let start = now_ns();
                (subject.work)(size);
                let elapsed = (now_ns() - start) as f64;
                let clock = cycles_per_ns();
                // A clock that changes meanwhile would count cycles that were not.
                if round > 1 && (before / clock - 1.0).abs() < 0.01 {
                    let bytes = (subject.records * size) as f64;
                    best[column] = best[column].min(elapsed * clock / bytes);
                }
            }
        }
    }
    for (subject, best) in subjects.iter().zip(&best) {
        print!("{:44}", subject.name);
        best.iter().for_each(|cycles| print!("{cycles:>9.2}"));
        println!();
    }
}
