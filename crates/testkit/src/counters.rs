//! The counters files of processes, read from outside.
#![allow(unsafe_code, reason = "a counters file holds one C structure per page")]

use std::fs;
use std::mem::offset_of;
use std::path::Path;
use std::sync::atomic::Ordering;

use widelane_bridge::counters::{COUNTERS_FILE_BYTES, COUNTERS_MAGIC, Counters};

/// The counters of every process that has left a file in `directory`.
///
/// # Panics
///
/// If the directory cannot be read, or one of its files is no counters file.
pub fn read_all(directory: &Path) -> Vec<Counters> {
    let files = fs::read_dir(directory).expect("a directory of counters");
    files.filter_map(|file| read(&file.expect("a counters file").path())).collect()
}

/// The counters of one process: the sums of what all its threads have counted, and what stands on
/// the first page only. None where the process has not begun to count yet.
fn read(path: &Path) -> Option<Counters> {
    let file = fs::read(path).expect("a counters file");
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
    // SAFETY: as many bytes as one `Counters` has, for which every pattern of bits is valid.
    let counters = unsafe { sum.as_ptr().cast::<Counters>().read_unaligned() };
    (counters.magic.load(Ordering::Relaxed) == COUNTERS_MAGIC).then_some(counters)
}
