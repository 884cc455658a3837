//! ML-KEM: what `widelane speed` has of keys and ciphertexts, and how the libraries do it.
//!
//! The keys are those that `widelane speed` makes of its seeds. libcrux makes them here for all,
//! and takes the random bytes that ours is given; the others draw their own.

use crate::task::Work;

/// A task of ML-KEM.
#[derive(Clone, Copy)]
pub struct Task {
    /// 512, 768 or 1024.
    pub set: u16,
    pub operation: Operation,
}

#[derive(Clone, Copy)]
pub enum Operation {
    Generate,
    Encapsulate,
    Decapsulate,
}

/// Keys, and ciphertexts for them.
pub const LANES: usize = 8;

/// What encapsulation is given instead of random bytes.
pub const MESSAGE: [u8; 32] = [7; 32];

/// One key pair, and a ciphertext for it.
pub struct Pair {
    pub private: Vec<u8>,
    pub public: Vec<u8>,
    pub ciphertext: Vec<u8>,
}

impl Task {
    /// The task that a path of results names, if it is one: `ml-kem-768/encapsulate`.
    pub fn at(path: &str) -> Option<Self> {
        let (set, operation) = path.strip_prefix("ml-kem-")?.split_once('/')?;
        let operation = match operation {
            "generate" => Operation::Generate,
            "encapsulate" => Operation::Encapsulate,
            "decapsulate" => Operation::Decapsulate,
            _ => return None,
        };
        Some(Task { set: set.parse().ok()?, operation })
    }

    /// Bytes of an output: a private key, a ciphertext and its secret, a secret.
    pub fn output_bytes(self) -> usize {
        let rank = usize::from(self.set / 256);
        let ciphertext = if rank == 4 { 1568 } else { 320 * rank + 128 };
        match self.operation {
            Operation::Generate => 768 * rank + 96,
            Operation::Encapsulate => ciphertext + 32,
            Operation::Decapsulate => 32,
        }
    }

    /// The seed of a lane's key.
    pub fn seed(lane: usize) -> [u8; 64] {
        [lane as u8 + 1; 64]
    }

    /// Does something for every lane in turn, each with an output of its own.
    pub fn for_each(mut operation: impl FnMut(usize, &mut [u8]) + 'static) -> Work {
        Box::new(move |outputs| {
            outputs.iter_mut().enumerate().for_each(|(lane, output)| operation(lane, output));
        })
    }
}

macro_rules! by_libcrux {
    ($set:ident) => {
        mod $set {
            use super::{LANES, MESSAGE, Operation, Pair, Task};
            use crate::task::Work;
            use libcrux_ml_kem::$set::{decapsulate, encapsulate, generate_key_pair};

            /// The keys of all lanes.
            pub fn pairs() -> Vec<Pair> {
                let pair = |lane| {
                    let pair = generate_key_pair(Task::seed(lane));
                    let (ciphertext, _) = encapsulate(pair.public_key(), MESSAGE);
                    Pair {
                        private: pair.sk().to_vec(),
                        public: pair.pk().to_vec(),
                        ciphertext: ciphertext.as_ref().to_vec(),
                    }
                };
                (0..LANES).map(pair).collect()
            }

            pub fn work(operation: Operation) -> Work {
                let keys: Vec<_> =
                    (0..LANES).map(|lane| generate_key_pair(Task::seed(lane))).collect();
                match operation {
                    Operation::Generate => Task::for_each(|lane, output| {
                        output.copy_from_slice(generate_key_pair(Task::seed(lane)).sk());
                    }),
                    Operation::Encapsulate => Task::for_each(move |lane, output| {
                        let (ciphertext, shared) = encapsulate(keys[lane].public_key(), MESSAGE);
                        let (front, back) = output.split_at_mut(output.len() - shared.len());
                        front.copy_from_slice(ciphertext.as_ref());
                        back.copy_from_slice(&shared);
                    }),
                    Operation::Decapsulate => {
                        let ciphertext =
                            |lane: usize| encapsulate(keys[lane].public_key(), MESSAGE).0;
                        let ciphertexts: Vec<_> = (0..LANES).map(ciphertext).collect();
                        Task::for_each(move |lane, output| {
                            let private = keys[lane].private_key();
                            output.copy_from_slice(&decapsulate(private, &ciphertexts[lane]));
                        })
                    }
                }
            }
        }
    };
}

by_libcrux!(mlkem512);
by_libcrux!(mlkem768);
by_libcrux!(mlkem1024);

impl Task {
    /// Keys and ciphertexts of all lanes.
    pub fn pairs(self) -> Result<Vec<Pair>, String> {
        match self.set {
            512 => Ok(mlkem512::pairs()),
            768 => Ok(mlkem768::pairs()),
            1024 => Ok(mlkem1024::pairs()),
            other => Err(format!("no ML-KEM-{other}")),
        }
    }
}

/// How libcrux does `task`, or why it cannot.
pub fn libcrux(task: Task) -> Result<Work, String> {
    match task.set {
        512 => Ok(mlkem512::work(task.operation)),
        768 => Ok(mlkem768::work(task.operation)),
        1024 => Ok(mlkem1024::work(task.operation)),
        other => Err(format!("no ML-KEM-{other}")),
    }
}
