//! The search for secrets that were left in memory.

use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt;

/// Words of a secret, kept inverted so that the search does not find itself.
#[derive(Clone, Debug, Default)]
pub struct Secret {
    inverted: Vec<u64>,
}

impl Secret {
    /// Adds a big-endian number, in the forms that our arithmetic gives it: limbs of 64 bits and
    /// digits of 52 and 51.
    pub fn add(&mut self, bytes: &[u8]) {
        for digit_bits in [64, 52, 51] {
            let above = u64::MAX.checked_shl(digit_bits).unwrap_or(0);
            let mut word = 0u64;
            for bit in 0..8 * bytes.len() {
                let byte = !bytes[bytes.len() - 1 - bit / 8];
                let place = bit as u32 % digit_bits;
                word |= u64::from(byte >> (bit % 8) & 1) << place;
                if place == digit_bits - 1 {
                    self.inverted.push(word | above);
                    word = 0;
                }
            }
        }
        self.inverted.sort_unstable();
    }

    /// How often a word of the secret stands in the writable memory of this process: stacks, heap
    /// and statics of all threads.
    ///
    /// # Panics
    /// When `/proc/self` cannot be read.
    pub fn count(&self) -> usize {
        self.count_where(|_| true)
    }

    /// How often a word of the secret stands in the memory that a core file of this process would
    /// have.
    ///
    /// # Panics
    /// When `/proc/self` cannot be read.
    pub fn count_in_core_file(&self) -> usize {
        self.count_where(|mapping| !mapping.flags.contains("dd"))
    }

    fn count_where(&self, is_wanted: impl Fn(&Mapping) -> bool) -> usize {
        let memory = File::open("/proc/self/mem").expect("the memory of this process is readable");
        let maps = fs::read_to_string("/proc/self/smaps").expect("its mappings are readable");
        let mut buffer = vec![0; 1 << 16];
        let own = buffer.as_ptr_range();
        let own = own.start as u64..own.end as u64;
        let mut count = 0;
        for Mapping { start, end, .. } in mappings(&maps).into_iter().filter(is_wanted) {
            let mut address = start;
            while address < end {
                let length = buffer.len().min((end - address) as usize);
                // A mapping may have gone since, or be unreadable as device memory is.
                let Ok(read) = memory.read_at(&mut buffer[..length], address) else { break };
                count += (address..)
                    .step_by(8)
                    .zip(buffer[..read].chunks_exact(8))
                    .filter(|(at, word)| !own.contains(at) && self.contains(word))
                    .count();
                address += read.max(1) as u64;
            }
        }
        // The next search would find what this one has read.
        buffer.fill(0);
        black_box(&buffer);
        count
    }

    fn contains(&self, word: &[u8]) -> bool {
        let inverted = !u64::from_le_bytes(word.try_into().expect("a word has eight bytes"));
        self.inverted.binary_search(&inverted).is_ok()
    }
}

/// A mapping that can be written to.
struct Mapping<'a> {
    start: u64,
    end: u64,
    /// What `proc(5)` calls `VmFlags`.
    flags: &'a str,
}

/// The mappings of a `/proc/self/smaps` that can be written to.
fn mappings(maps: &str) -> Vec<Mapping<'_>> {
    let mut lines = maps.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if let Some((start, end)) = writable(line) {
            let flags = lines.by_ref().find_map(|line| line.strip_prefix("VmFlags:"));
            found.push(Mapping { start, end, flags: flags.unwrap_or_default() });
        }
    }
    found
}

/// The addresses of the first line of a mapping, if what lies there can be written.
fn writable(line: &str) -> Option<(u64, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    if !fields.next()?.starts_with("rw") {
        return None;
    }
    let parse = |digits| u64::from_str_radix(digits, 16).ok();
    Some((parse(start)?, parse(end)?))
}
