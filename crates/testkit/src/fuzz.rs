//! Fuzz targets without a fuzzer: their corpus is replayed, and changed at random from a seed.
//! What most of them make of an input are [`Decisions`].

use std::fs;
use std::path::Path;
use std::thread::panicking;

use crate::random::Random;

/// Bytes as decisions; zeros when there are no more.
#[derive(Clone, Debug)]
pub struct Decisions<'a>(&'a [u8]);

impl<'a> Decisions<'a> {
    /// Decisions that are still to be made.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Decisions(bytes)
    }

    /// Whether only zeros are left.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whatever a byte may be.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// One of `count` choices, which must not be more than a byte tells apart.
    pub fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    /// One of several things.
    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// Yes or no.
    pub fn is_chosen(&mut self) -> bool {
        self.byte() % 2 == 1
    }
}

/// What the corpus of a target in `fuzz/` holds, by name.
///
/// # Panics
///
/// If there is none.
pub fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
    paths.sort();
    let files: Vec<Vec<u8>> = paths.iter().filter_map(|path| fs::read(path).ok()).collect();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

/// Runs a target on its corpus, and on `rounds` inputs that are made of it by chance. An input on
/// which it panics is shown.
pub fn replay(target: &str, seed: u64, rounds: usize, run: impl Fn(&[u8])) {
    let run = |bytes: &[u8]| {
        let _shown = ShownOnPanic { target, bytes };
        run(bytes);
    };
    let corpus = corpus(target);
    corpus.iter().for_each(|bytes| run(bytes));
    let mut random = Random::new(seed);
    for _ in 0..rounds {
        run(&mutated(&corpus[random.below(corpus.len())], &mut random));
    }
    eprintln!("{target}: {} inputs, and {rounds} made of them by seed {seed}", corpus.len());
}

/// Some bytes changed, cut out, doubled or moved.
pub fn mutated(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut mutated = bytes.to_vec();
    for _ in 0..1 + random.below(4) {
        // Inside, or 0 where nothing is left.
        let at = random.below(mutated.len().max(1));
        let end = (at + 3).min(mutated.len());
        match random.below(5) {
            0 if at < mutated.len() => mutated[at] = random.next_u64() as u8,
            1 if at < mutated.len() => mutated[at] ^= 1 << random.below(8),
            2 => drop(mutated.drain(at.min(end)..end)),
            3 => mutated.extend_from_within(at.min(end)..),
            _ => mutated.rotate_left(at.min(end)),
        }
    }
    mutated.truncate(4096.max(bytes.len()));
    mutated
}

struct ShownOnPanic<'a> {
    target: &'a str,
    bytes: &'a [u8],
}

impl Drop for ShownOnPanic<'_> {
    fn drop(&mut self) {
        if panicking() {
            eprintln!("{} fails on {:?}", self.target, self.bytes.escape_ascii().to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_decide_in_their_order_and_zeros_follow() {
        let mut decisions = Decisions::new(&[7, 13, 3]);
        assert_eq!((decisions.byte(), decisions.below(10)), (7, 3));
        assert!(decisions.is_chosen() && decisions.is_empty());
        assert_eq!((decisions.one(&["first", "second"]), decisions.is_chosen()), ("first", false));
    }

    #[test]
    fn the_same_seed_makes_the_same_inputs_and_most_are_new() {
        let made = || {
            let mut random = Random::new(5);
            (0..100).map(|_| mutated(b"width_max = 256", &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(made(), made());
        let new = made().iter().filter(|bytes| *bytes != b"width_max = 256").count();
        assert!(new > 90, "{new}");
    }
}
