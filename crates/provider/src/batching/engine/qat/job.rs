//! What is under way in a device: slots of an instance, each with memory for one operation.
#![allow(unsafe_code, reason = "pointers that Intel's library keeps until it calls back")]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use widelane_secret::wipe;

use super::interface::{
    CPA_STATUS_SUCCESS, CpaCyRsaDecryptOpData, CpaFlatBuffer, CpaInstanceHandle, CpaStatus,
    Library, PinnedMemory,
};
use super::key::PinnedKey;
use super::memory::Pinned;

/// Memory for one operation. It is never freed: the device may write to it long after its owner has
/// given up.
pub(super) struct Slot {
    /// One of the constants below.
    state: AtomicU32,
    /// What the device said in the end.
    status: AtomicI32,
    call: Mutex<Call>,
}

/// What the library is told of an operation. It stays unchanged while the device has it.
struct Call {
    operation: CpaCyRsaDecryptOpData,
    result: CpaFlatBuffer,
    key: Option<Arc<PinnedKey>>,
    input: Pinned,
    output: Pinned,
}

// SAFETY: the pointers lead to what it owns.
unsafe impl Send for Call {}

/// Who may go on from each: `FREE`, whoever takes the slot; `BUSY`, the device to `DONE` and the
/// owner to `ABANDONED`; `DONE`, the owner; `ABANDONED`, the device to `FREE`.
const FREE: u32 = 0;
const BUSY: u32 = 1;
const DONE: u32 = 2;
const ABANDONED: u32 = 3;

/// Bytes of the longest input or result: those of RSA-4096.
const BYTES_MAX: usize = 512;

/// An operation that the device has, or has finished.
pub(crate) struct Ticket(&'static Slot);

impl Slot {
    /// A free one; nothing if there is no pinned memory left.
    pub(super) fn new(memory: &'static PinnedMemory) -> Option<Self> {
        let operation = CpaCyRsaDecryptOpData {
            pRecipientPrivateKey: ptr::null(),
            inputData: CpaFlatBuffer::NONE,
        };
        let call = Call {
            operation,
            result: CpaFlatBuffer::NONE,
            key: None,
            input: Pinned::new(memory, BYTES_MAX)?,
            output: Pinned::new(memory, BYTES_MAX)?,
        };
        let (state, status) = (AtomicU32::new(FREE), AtomicI32::new(CPA_STATUS_SUCCESS));
        Some(Slot { state, status, call: Mutex::new(call) })
    }

    /// Takes the slot; false if it is in use.
    pub(super) fn take(&self) -> bool {
        self.goes(FREE, BUSY)
    }

    /// Gives the operation with a private key on `input` to a device; the slot was taken.
    ///
    /// # Errors
    /// What the library says instead.
    pub(super) fn submit(
        &'static self,
        library: &Library,
        instance: CpaInstanceHandle,
        key: Arc<PinnedKey>,
        input: &[u8],
    ) -> Result<Ticket, CpaStatus> {
        let mut call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        let call = &mut *call;
        call.input.as_mut()[..input.len()].copy_from_slice(input);
        call.operation = CpaCyRsaDecryptOpData {
            pRecipientPrivateKey: key.description(),
            inputData: call.input.part(0, input.len()),
        };
        call.result = call.output.part(0, input.len());
        call.key = Some(key);
        let (operation, result) = (&raw const call.operation, &raw mut call.result);
        let tag = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: an instance that was started. Operation, key and buffers stay where they are and
        // as they are until the device has called back: the slot is `BUSY` or `ABANDONED` so long.
        let status =
            unsafe { (library.cpaCyRsaDecrypt)(instance, called_back, tag, operation, result) };
        if status == CPA_STATUS_SUCCESS {
            return Ok(Ticket(self));
        }
        call.key = None;
        self.goes(BUSY, FREE);
        Err(status)
    }

    fn goes(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether an operation is under way for which somebody waits.
    pub(super) fn is_awaited(&self) -> bool {
        self.state.load(Ordering::Relaxed) == BUSY
    }
}

impl Ticket {
    /// Whether the device has called back.
    pub(super) fn is_finished(&self) -> bool {
        self.0.state.load(Ordering::Acquire) == DONE
    }

    /// The result of so many bytes, or what the device says instead. It is not confirmed yet.
    pub(super) fn result(&self, bytes: usize) -> Result<Vec<u8>, CpaStatus> {
        let status = self.0.status.load(Ordering::Relaxed);
        if !self.is_finished() || status != CPA_STATUS_SUCCESS {
            return Err(status);
        }
        let mut call = self.0.call.lock().unwrap_or_else(PoisonError::into_inner);
        // A device that gives fewer bytes leaves the zeros in front out.
        let given = (call.result.dataLenInBytes as usize).min(bytes);
        let mut result = vec![0; bytes];
        result[bytes - given..].copy_from_slice(&call.output.as_mut()[..given]);
        // A wrong one would tell of the key.
        wipe(call.output.as_mut());
        Ok(result)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.0.goes(BUSY, ABANDONED) {
            return;
        }
        // Error: after a fork, a thread of the parent held it.
        if let Ok(mut call) = self.0.call.try_lock() {
            call.key = None;
        }
        self.0.goes(DONE, FREE);
    }
}

/// The device has finished an operation, or will not. It may do so on any thread that polls.
unsafe extern "C" fn called_back(
    slot: *mut c_void,
    status: CpaStatus,
    _operation: *mut c_void,
    _result: *mut CpaFlatBuffer,
) {
    // SAFETY: `submit` passes its slot, which is never freed.
    let Some(slot) = (unsafe { slot.cast::<Slot>().as_ref() }) else { return };
    slot.status.store(status, Ordering::Relaxed);
    if !slot.goes(BUSY, DONE) {
        slot.goes(ABANDONED, FREE);
    }
}
