//! Trace equality of ML-KEM: two sets of secrets take the same way through the code, instruction by
//! instruction, in every room, where the seeds of matrices are the same.

use widelane_cpu::{Avx2, Avx512, Policy, Room, Vbmi512};
use widelane_crypto::mlkem::{
    DecapsulateJob, DecapsulationKey, EncapsulateJob, MlKem, Outcome, ParameterSet, ROOMS,
    Workspace,
};
use widelane_kernels::coefficients::{
    Avx2Pairs, Avx512Pairs, Coefficients, PortablePairs, Vbmi512Pairs,
};
use widelane_kernels::mlkem::{self, BUFFERS, Buffer, ExpandedSeed, GROUPS, GenerateJob, Group};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room_of;
use widelane_testkit::trace::{Tracing, trace};

/// Steps through this module's cases; panics when secrets can be told apart.
pub fn run() {
    for_each_room_of(ROOMS, |room, policy| {
        for set in ParameterSet::ALL {
            [1, 2, 3, 8].into_iter().for_each(|jobs| all(room, policy, set, jobs));
        }
    });
}

fn all(room: Room, policy: &Policy, set: ParameterSet, jobs: usize) {
    let what = format!("{jobs} jobs of {set:?} in {room}");
    let seeds = |seed| (0..jobs).map(|job| seed_of_noise(seed + 100 * job as u64)).collect();
    compare(&format!("key generation, {what}"), seeds, |seeds: &Vec<_>| match room {
        Room::Vbmi512 => {
            generation::<Vbmi512Pairs>(Vbmi512::enter(policy).expect("open"), set, seeds)
        }
        Room::Avx512 => generation::<Avx512Pairs>(Avx512::enter(policy).expect("open"), set, seeds),
        Room::Avx2 => generation::<Avx2Pairs>(Avx2::enter(policy).expect("open"), set, seeds),
        _ => generation::<PortablePairs>((), set, seeds),
    });
    let ml_kem = MlKem::choose(set, policy);
    assert_eq!(ml_kem.room(), room);
    let mut workspace = Workspace::new();
    let public = ml_kem.generate_batch(&mut workspace, &[&[1; 64]]).swap_remove(0);
    let messages = |seed| (0..jobs).map(|job| random(seed + 100 * job as u64)).collect();
    compare(&format!("encapsulation, {what}"), messages, |messages: &Vec<[u8; 32]>| {
        encapsulation(ml_kem, public.encapsulation_key(), messages)
    });
    // A ciphertext made for one key is none for the other: acceptance and rejection take one way.
    let mut ciphertext = vec![0; set.ciphertext_bytes()];
    let mut shared = [0; 32];
    let mut made =
        [EncapsulateJob::new(public.encapsulation_key(), &[3; 32], &mut ciphertext, &mut shared)];
    ml_kem.encapsulate_batch(&mut workspace, &mut made);
    let mut keys = |seed: u64| -> Vec<DecapsulationKey> {
        let mut bytes = public.as_bytes().to_vec();
        let vector = set.encapsulation_key_bytes() - 32;
        if seed == 2 {
            // Another secret vector, another z; the public half is the same.
            let mut random = Random::new(7);
            bytes[..vector].as_chunks_mut().0.iter_mut().for_each(|three: &mut [u8; 3]| {
                let [first, second] = [random.below(3329), random.below(3329)];
                let number = first | second << 12;
                three.copy_from_slice(&number.to_le_bytes()[..3]);
            });
            random.fill(bytes.last_chunk_mut::<32>().expect("z"));
        }
        (0..jobs).map(|_| ml_kem.import(&mut workspace, &bytes).expect("a key")).collect()
    };
    compare(&format!("decapsulation, {what}"), &mut keys, |keys: &Vec<_>| {
        decapsulation(ml_kem, keys, &ciphertext)
    });
}

fn compare<K>(what: &str, mut secrets: impl FnMut(u64) -> K, traced: impl Fn(&K) -> Tracing) {
    // All secrets come first, and are copied: the heap must be the same for both.
    let secrets = [secrets(1), secrets(2)];
    let [one, other] = secrets.each_ref().map(traced).map(Tracing::end);
    eprintln!("{what}: {} and {} instructions", one.instructions, other.instructions);
    assert_eq!(one, other, "{what} takes two ways");
    assert!(one.instructions > 1000, "{what} did something");
}

fn random(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// An expanded seed whose matrix is the same for all, and a z.
fn seed_of_noise(seed: u64) -> (ExpandedSeed, [u8; 32]) {
    let mut noise = Random::new(seed);
    let noise = std::array::from_fn(|_| noise.next_u64());
    (ExpandedSeed { matrix: [6; 32], noise }, random(seed + 1))
}

#[inline(never)]
fn generation<C: Coefficients>(
    room: C::Room,
    set: ParameterSet,
    seeds: &[(ExpandedSeed, [u8; 32])],
) -> Tracing {
    let parameters = match set {
        ParameterSet::MlKem512 => mlkem::ML_KEM_512,
        ParameterSet::MlKem768 => mlkem::ML_KEM_768,
        ParameterSet::MlKem1024 => mlkem::ML_KEM_1024,
    };
    trace(
        || {
            let keys = vec![vec![0; parameters.decapsulation_key_bytes()]; seeds.len()];
            (seeds.to_vec(), keys, vec![Group::ZERO; GROUPS], vec![Buffer::ZERO; BUFFERS])
        },
        |(seeds, keys, groups, buffers)| {
            let (groups, buffers) = (groups.first_chunk_mut(), buffers.first_chunk_mut());
            let mut workspace = mlkem::Workspace::<C>::new(groups.unwrap(), buffers.unwrap());
            let mut jobs: Vec<_> = seeds
                .iter()
                .zip(keys)
                .map(|((seed, rejection), key)| GenerateJob { seed, rejection, key })
                .collect();
            mlkem::generate_vartime::<C>(room, &parameters, &mut workspace, &mut jobs);
        },
    )
}

#[inline(never)]
fn encapsulation(ml_kem: MlKem, key: &[u8], messages: &[[u8; 32]]) -> Tracing {
    let bytes = ml_kem.parameter_set().ciphertext_bytes();
    trace(
        || {
            // Made here: what the parent frees in between moves the second one's allocations.
            let places = vec![(vec![0_u8; bytes], [0_u8; 32]); messages.len()];
            (messages.to_vec(), places, Workspace::new())
        },
        |(messages, places, workspace)| {
            let mut jobs: Vec<_> = messages
                .iter()
                .zip(places)
                .map(|(message, (ciphertext, shared))| {
                    EncapsulateJob::new(key, message, ciphertext, shared)
                })
                .collect();
            ml_kem.encapsulate_batch(workspace, &mut jobs);
            assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
        },
    )
}

#[inline(never)]
fn decapsulation(ml_kem: MlKem, keys: &[DecapsulationKey], ciphertext: &[u8]) -> Tracing {
    trace(
        || (keys.to_vec(), vec![[0; 32]; keys.len()], Workspace::new()),
        |(keys, shared, workspace)| {
            let mut jobs: Vec<_> = keys
                .iter()
                .zip(shared)
                .map(|(key, shared)| DecapsulateJob::new(key, ciphertext, shared))
                .collect();
            ml_kem.decapsulate_batch(workspace, &mut jobs);
            assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
        },
    )
}
