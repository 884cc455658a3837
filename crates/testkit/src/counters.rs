//! The counters file of a process, from outside.

use std::mem::offset_of;

use widelane_bridge::counters::{COUNTERS_FILE_BYTES, Counters};

/// One page with the sums of what all threads of a process have counted; what stands on its first
/// page only stays as it is.
///
/// # Panics
///
/// If the file has not the size of one.
pub fn sum(file: &[u8]) -> Vec<u8> {
    assert_eq!(file.len(), COUNTERS_FILE_BYTES, "a counters file");
    let (first, others) = file.split_at(size_of::<Counters>());
    let mut sum = first.to_vec();
    let figures = offset_of!(Counters, batches_by_fill);
    let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    for page in others.chunks_exact(size_of::<Counters>()) {
        for (mine, theirs) in
            sum[figures..].chunks_exact_mut(8).zip(page[figures..].chunks_exact(8))
        {
            let both = number(mine) + number(theirs);
            mine.copy_from_slice(&both.to_ne_bytes());
        }
    }
    sum
}
