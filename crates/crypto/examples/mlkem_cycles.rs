//! Cycles per job of ML-KEM, in every room and in batches of several sizes, beside AWS-LC and
//! libcrux in the same run, and those of Keccak per state.
//!
//! `cargo run --release -p widelane-crypto --example mlkem_cycles [512|768|1024]`
//!
//! In other profiles the C parts of AWS-LC are hardly optimised.
#![allow(clippy::print_stdout, reason = "an example answers on the terminal")]

use aws_lc_rs::kem;
use libcrux_ml_kem::mlkem768;
use widelane_cpu::clock::now_ns;
use widelane_cpu::{Avx2, Avx512, Policy, Room, Width};
use widelane_crypto::mlkem::{DecapsulateJob, EncapsulateJob, MlKem, ParameterSet, Workspace};
use widelane_kernels::keccak::sponge::Sponges;
use widelane_kernels::words::{Avx2x4, Avx512x8, Words};
use widelane_testkit::clock::cycles_per_ns;

/// Rounds in which every subject has its turn; the middle one of its turns counts.
const ROUNDS: usize = 1000;

/// Operations of a turn. Code and memory of the first one have to come from afar, where all other
/// subjects had their turns; the last one finds them near, as in a busy server.
const REPEATED: usize = 4;

/// One operation, on so many jobs at once.
struct Subject {
    name: String,
    jobs: usize,
    work: Box<dyn FnMut()>,
}

fn main() {
    let set = match std::env::args().nth(1).as_deref() {
        Some("512") => ParameterSet::MlKem512,
        Some("1024") => ParameterSet::MlKem1024,
        _ => ParameterSet::MlKem768,
    };
    let mut subjects = Vec::new();
    states::<u64>(&mut subjects, (), "portable");
    if let Some(room) = Avx2::enter(&Policy::open()) {
        states::<Avx2x4>(&mut subjects, room, "avx2");
    }
    if let Some(room) = Avx512::enter(&Policy::open()) {
        states::<Avx512x8>(&mut subjects, room, "avx512");
    }
    let without_vbmi = Policy { rooms_closed: [Room::Vbmi512].into(), ..Policy::open() };
    let narrower = [Width::W256, Width::W128].map(Policy::up_to);
    for policy in [Policy::open(), without_vbmi].iter().chain(&narrower) {
        let ml_kem = MlKem::choose(set, policy);
        for jobs in [1, 2, 4, 8] {
            ours(&mut subjects, ml_kem, jobs);
        }
    }
    if set == ParameterSet::MlKem768 {
        others(&mut subjects);
    }
    measure(subjects);
}

fn states<W: Words<Word = u64> + 'static>(subjects: &mut Vec<Subject>, room: W::Room, name: &str)
where
    W::Room: 'static,
{
    let mut sponges = Sponges::<W>::default();
    let work = Box::new(move || sponges.permute(room));
    subjects.push(Subject { name: format!("Keccak-f[1600] {name}"), jobs: W::LANES, work });
}

fn ours(subjects: &mut Vec<Subject>, ml_kem: MlKem, jobs: usize) {
    let room = ml_kem.room();
    let mut subject = |operation: &str, work: Box<dyn FnMut()>| {
        subjects.push(Subject { name: format!("{operation} {room} x{jobs}"), jobs, work });
    };
    let seeds: Vec<[u8; 64]> = (0..jobs).map(|job| [job as u8; 64]).collect();
    let keys = ml_kem.generate_batch(&mut Workspace::new(), &seeds.iter().collect::<Vec<_>>());
    let ciphertext = vec![0; ml_kem.parameter_set().ciphertext_bytes()];
    let mut places = vec![(ciphertext, [0; 32]); jobs];
    let encapsulate = {
        let (keys, mut places) = (keys.clone(), places.clone());
        let mut workspace = Workspace::new();
        move || {
            let mut jobs: Vec<_> = keys
                .iter()
                .zip(&mut places)
                .map(|(key, (ciphertext, shared))| {
                    EncapsulateJob::new(key.encapsulation_key(), &[7; 32], ciphertext, shared)
                })
                .collect();
            ml_kem.encapsulate_batch(&mut workspace, &mut jobs);
        }
    };
    let mut workspace = Workspace::new();
    let decapsulate = move || {
        let mut jobs: Vec<_> = keys
            .iter()
            .zip(&mut places)
            .map(|(key, (ciphertext, shared))| DecapsulateJob::new(key, ciphertext, shared))
            .collect();
        ml_kem.decapsulate_batch(&mut workspace, &mut jobs);
    };
    let mut workspace = Workspace::new();
    let generate = move || {
        ml_kem.generate_batch(&mut workspace, &seeds.iter().collect::<Vec<_>>());
    };
    subject("generate", Box::new(generate));
    subject("encapsulate", Box::new(encapsulate));
    subject("decapsulate", Box::new(decapsulate));
}

fn others(subjects: &mut Vec<Subject>) {
    let mut subject = |name: &str, work: Box<dyn FnMut()>| {
        subjects.push(Subject { name: name.to_owned(), jobs: 1, work });
    };
    let made = || kem::DecapsulationKey::generate(&kem::ML_KEM_768).expect("a key");
    let private = made();
    let public = private.encapsulation_key().expect("a key");
    let bytes = public.key_bytes().expect("a key").as_ref().to_vec();
    subject("generate AWS-LC", Box::new(move || drop(made())));
    let (ciphertext, _) = public.encapsulate().expect("a ciphertext");
    let ciphertext = ciphertext.as_ref().to_vec();
    subject(
        "encapsulate AWS-LC",
        Box::new(move || {
            let key = kem::EncapsulationKey::new(&kem::ML_KEM_768, &bytes).expect("a key");
            key.encapsulate().expect("a ciphertext");
        }),
    );
    subject(
        "decapsulate AWS-LC",
        Box::new(move || {
            private.decapsulate(kem::Ciphertext::from(&ciphertext[..])).expect("a secret");
        }),
    );
    let pair = mlkem768::generate_key_pair([1; 64]);
    let public = *pair.pk();
    subject(
        "generate libcrux",
        Box::new(|| {
            mlkem768::generate_key_pair([1; 64]);
        }),
    );
    subject(
        "encapsulate libcrux",
        Box::new(move || {
            let key = mlkem768::MlKem768PublicKey::from(public);
            assert!(mlkem768::validate_public_key(&key));
            mlkem768::encapsulate(&key, [7; 32]);
        }),
    );
    let (ciphertext, _) = mlkem768::encapsulate(pair.public_key(), [7; 32]);
    subject(
        "decapsulate libcrux",
        Box::new(move || {
            mlkem768::decapsulate(pair.private_key(), &ciphertext);
        }),
    );
}

fn measure(mut subjects: Vec<Subject>) {
    let mut turns = vec![[const { Vec::new() }; 2]; subjects.len()];
    for round in 0..ROUNDS {
        for (subject, turns) in subjects.iter_mut().zip(&mut turns) {
            let before = cycles_per_ns();
            let mut elapsed = [0.0; REPEATED];
            for elapsed in &mut elapsed {
                let start = now_ns();
                (subject.work)();
                *elapsed = (now_ns() - start) as f64;
            }
            let clock = cycles_per_ns();
            // A clock that changes meanwhile would count cycles that were not.
            if round > 1 && (before / clock - 1.0).abs() < 0.02 {
                for (turns, elapsed) in turns.iter_mut().zip([elapsed[0], elapsed[REPEATED - 1]]) {
                    turns.push(elapsed * clock / subject.jobs as f64);
                }
            }
        }
    }
    println!("{:32}{:>10}{:>10}", "cycles of each job", "at first", "repeated");
    for (subject, turns) in subjects.iter().zip(&mut turns) {
        let [first, repeated] = turns.each_mut().map(|turns| {
            turns.sort_by(f64::total_cmp);
            turns.get(turns.len() / 2).copied().unwrap_or(f64::NAN)
        });
        println!("{:32}{first:>10.0}{repeated:>10.0}", subject.name);
    }
}
