//! Jobs, which are handed over together and flushed; a lone one where there is no direct call.

use std::ptr::{self, NonNull};

use crate::task::{AAD, CbcHmac, HMAC_KEY, MANY, NONCE, Operation, Task, Work};

use super::{NO_MANAGER, kind};

/// What is authenticated ahead of a record's text, without its length: the number of the record,
/// application data, TLS 1.2.
const HEADER: [u8; 11] = [0, 0, 0, 0, 0, 0, 0, 1, 23, 3, 3];

/// Jobs of the C side.
#[repr(C)]
struct Handle {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn widelane_jobs_digest(digest_bytes: usize, size: usize) -> *mut Handle;
    fn widelane_jobs_tag(
        digest_bytes: usize,
        key: *const u8,
        key_bytes: usize,
        size: usize,
    ) -> *mut Handle;
    fn widelane_jobs_seal(
        kind: u32,
        key: *const u8,
        nonce: *const u8,
        aad: *const u8,
        size: usize,
    ) -> *mut Handle;
    fn widelane_jobs_record(
        key: *const u8,
        key_bytes: usize,
        mac_key: *const u8,
        tag_bytes: usize,
        header: *const u8,
        size: usize,
    ) -> *mut Handle;
    fn widelane_jobs_run(
        jobs: *mut Handle,
        is_checked: bool,
        texts: *const *const u8,
        outputs: *const *mut u8,
        count: usize,
    ) -> usize;
}

/// Jobs that are alike, with what they hash where they do not seal in place.
struct Jobs {
    task: Task,
    handle: NonNull<Handle>,
    texts: Vec<Vec<u8>>,
}

/// How jobs do `task`, or why they cannot.
pub fn work(task: &Task) -> Result<Work, String> {
    let mut jobs = Jobs::new(*task)?;
    if jobs.run(true, &mut task.outputs()) < task.count {
        return Err(format!("no jobs of {} bytes", task.size));
    }
    Ok(Box::new(move |outputs| {
        jobs.run(false, outputs);
    }))
}

impl Jobs {
    fn new(task: Task) -> Result<Self, String> {
        let size = task.size;
        let (handle, texts) = match task.operation {
            Operation::Digest(hash) => {
                // SAFETY: takes no pointers.
                let handle = unsafe { widelane_jobs_digest(hash.digest_bytes(), size) };
                (handle, task.texts())
            }
            Operation::Tag(hash) => {
                let (bytes, key) = (hash.digest_bytes(), HMAC_KEY.as_ptr());
                // SAFETY: the key has the length that is told, less than a block.
                let handle = unsafe { widelane_jobs_tag(bytes, key, HMAC_KEY.len(), size) };
                (handle, task.texts())
            }
            Operation::Seal(aead) => {
                let (kind, key) = (kind(aead), aead.key());
                let (key, nonce, aad) = (key.as_ptr(), NONCE.as_ptr(), AAD.as_ptr());
                // SAFETY: the key has as many bytes as its kind says, 32 for ChaCha20-Poly1305, the
                // nonce 12 and the AAD 13.
                let handle = unsafe { widelane_jobs_seal(kind, key, nonce, aad, size) };
                (handle, Vec::new())
            }
            Operation::Record(algorithm) => (record(algorithm, size), Vec::new()),
            Operation::Open(_) => return Err("no opening of many".to_owned()),
        };
        let handle = NonNull::new(handle).ok_or(NO_MANAGER)?;
        Ok(Jobs { task, handle, texts })
    }

    /// Does every job, and answers how many were done.
    fn run(&mut self, is_checked: bool, outputs: &mut [Vec<u8>]) -> usize {
        let Jobs { task, handle, texts } = self;
        assert_eq!(outputs.len(), task.count);
        let mut places = [ptr::null_mut(); MANY];
        for (place, output) in places.iter_mut().zip(outputs) {
            assert_eq!(output.len(), task.output_bytes());
            *place = output.as_mut_ptr();
        }
        let mut sources = [ptr::null(); MANY];
        for (source, text) in sources.iter_mut().zip(texts.iter()) {
            *source = text.as_ptr();
        }
        let sources = if texts.is_empty() { ptr::null() } else { sources.as_ptr() };
        let (jobs, places, count) = (handle.as_ptr(), places.as_ptr(), task.count);
        // SAFETY: the jobs were made by `new` and are never freed; there are as many outputs as the
        // count says, each of the length that the task has, and as many texts or none. `work` lets
        // only those run unchecked that passed the checks before.
        unsafe { widelane_jobs_run(jobs, is_checked, sources, places, count) }
    }
}

fn record(algorithm: CbcHmac, size: usize) -> *mut Handle {
    let key = match algorithm {
        CbcHmac::Aes128Sha1 | CbcHmac::Aes128Sha256 => vec![3; 16],
        CbcHmac::Aes256Sha256 => vec![3; 32],
    };
    let mac_key = vec![9; algorithm.hash().digest_bytes()];
    let header = [&HEADER[..], &[(size >> 8) as u8, size as u8]].concat();
    let (header, mac_place) = (header.as_ptr(), mac_key.as_ptr());
    // SAFETY: both keys have the lengths that are told, 16 or 32 that of AES, and the header has
    // 13 bytes.
    unsafe { widelane_jobs_record(key.as_ptr(), key.len(), mac_place, mac_key.len(), header, size) }
}
