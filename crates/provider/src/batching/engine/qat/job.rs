//! What is under way in a device: slots of an instance, each with memory for one operation.
#![allow(unsafe_code, reason = "pointers that Intel's library keeps until it calls back")]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use widelane_batch::Tick;

use super::call::Call;
use super::interface::{
    CPA_STATUS_SUCCESS, CpaBoolean, CpaFlatBuffer, CpaInstanceHandle, CpaStatus, Library,
    PinnedMemory,
};
use crate::secret::Secret;

/// Memory for one operation. It is never freed: the device may write to it long after its owner has
/// given up.
pub(super) struct Slot {
    /// One of the constants below.
    state: AtomicU32,
    /// What the device said in the end.
    status: AtomicI32,
    call: Mutex<Call>,
}

/// What changes each: `FREE`, the thread that takes the slot; `BUSY`, the device to `DONE` and the
/// owner to `ABANDONED`; `DONE`, the owner; `ABANDONED`, the device to `FREE`.
const FREE: u32 = 0;
const BUSY: u32 = 1;
const DONE: u32 = 2;
const ABANDONED: u32 = 3;

/// In place of success: the device has no result for these numbers.
pub(super) const NO_RESULT: CpaStatus = 1;

/// What a device has, or has finished, for one request: an operation, or two that confirm each
/// other.
pub(crate) struct Ticket {
    first: UnderWay,
    second: Option<UnderWay>,
    /// When it was submitted, and what it has cost this thread so far, ns.
    pub(super) submitted: Tick,
    pub(super) spent_ns: u64,
}

/// An operation that the device has, or has finished.
pub(super) struct UnderWay(&'static Slot);

impl Slot {
    /// A free one; nothing if there is no pinned memory left.
    pub(super) fn new(memory: &'static PinnedMemory) -> Option<Self> {
        let (state, status) = (AtomicU32::new(FREE), AtomicI32::new(CPA_STATUS_SUCCESS));
        Some(Slot { state, status, call: Mutex::new(Call::new(memory)?) })
    }

    /// Takes the slot; false if it is in use.
    pub(super) fn take(&self) -> bool {
        self.goes(FREE, BUSY)
    }

    /// Gives an operation to a device; the slot was taken. `prepare` makes the call, or says that
    /// it cannot be made.
    ///
    /// # Errors
    /// What the library says instead, or `prepare`.
    pub(super) fn submit(
        &'static self,
        library: &Library,
        instance: CpaInstanceHandle,
        prepare: impl FnOnce(&mut Call) -> Result<(), CpaStatus>,
    ) -> Result<UnderWay, CpaStatus> {
        let mut call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        let tag = ptr::from_ref(self).cast_mut().cast();
        let started = prepare(&mut call).and_then(|()| {
            // SAFETY: it belongs to a slot, which is never freed; nothing changes it while the slot
            // is `BUSY` or `ABANDONED`, which it is until the device has called back.
            match unsafe { call.start(library, instance, tag) } {
                CPA_STATUS_SUCCESS => Ok(()),
                error => Err(error),
            }
        });
        if let Err(error) = started {
            call.wipe();
            self.goes(BUSY, FREE);
            return Err(error);
        }
        Ok(UnderWay(self))
    }

    fn goes(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether an operation is under way whose owner still waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        self.state.load(Ordering::Relaxed) == BUSY
    }

    /// Whether an operation was given up that the device still has, or has lost.
    pub(super) fn is_abandoned(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ABANDONED
    }

    /// The device has finished the operation, or will not.
    fn finish(&self, status: CpaStatus) {
        self.status.store(status, Ordering::Relaxed);
        if self.goes(BUSY, DONE) {
            return;
        }
        // Error: no other thread looks at what is abandoned.
        if let Ok(mut call) = self.call.try_lock() {
            call.wipe();
        }
        self.goes(ABANDONED, FREE);
    }
}

impl Ticket {
    pub(super) fn new(first: UnderWay, second: Option<UnderWay>, submitted: Tick) -> Self {
        Ticket { first, second, submitted, spent_ns: 0 }
    }

    /// Whether the device has called back for all of it.
    pub(super) fn is_finished(&self) -> bool {
        self.first.is_finished() && self.second.as_ref().is_none_or(UnderWay::is_finished)
    }

    /// The result, the second operation's behind that of the first, or what the device says
    /// instead. It is not confirmed yet.
    pub(super) fn result(&self) -> Result<Secret, CpaStatus> {
        let first = self.first.result()?;
        let Some(second) = &self.second else { return Ok(first) };
        Ok(Secret([&*first.0, &*second.result()?.0].concat()))
    }
}

impl UnderWay {
    fn is_finished(&self) -> bool {
        self.0.state.load(Ordering::Acquire) == DONE
    }

    fn result(&self) -> Result<Secret, CpaStatus> {
        let status = self.0.status.load(Ordering::Relaxed);
        if !self.is_finished() || status != CPA_STATUS_SUCCESS {
            return Err(status);
        }
        Ok(Secret(self.0.call.lock().unwrap_or_else(PoisonError::into_inner).result()))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.0.goes(BUSY, ABANDONED) {
            return;
        }
        // Error: after a fork, a thread of the parent held it.
        if let Ok(mut call) = self.0.call.try_lock() {
            call.wipe();
        }
        self.0.goes(DONE, FREE);
    }
}

/// The device has finished an operation that gives one number, or will not. It may do so on any
/// thread that polls.
pub(super) unsafe extern "C" fn finished_number(
    slot: *mut c_void,
    status: CpaStatus,
    _operation: *mut c_void,
    _result: *mut CpaFlatBuffer,
) {
    // SAFETY: `submit` passes its slot, which is never freed.
    if let Some(slot) = unsafe { slot.cast::<Slot>().as_ref() } {
        slot.finish(status);
    }
}

/// The device has finished an operation that gives two numbers, or will not; a result that it calls
/// invalid counts as none. It may do so on any thread that polls.
pub(super) unsafe extern "C" fn finished_pair(
    slot: *mut c_void,
    status: CpaStatus,
    _operation: *mut c_void,
    is_valid: CpaBoolean,
    _first: *mut CpaFlatBuffer,
    _second: *mut CpaFlatBuffer,
) {
    // SAFETY: as above.
    if let Some(slot) = unsafe { slot.cast::<Slot>().as_ref() } {
        let is_invalid = status == CPA_STATUS_SUCCESS && is_valid == 0;
        slot.finish(if is_invalid { NO_RESULT } else { status });
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;

    use super::super::memory::Pinned;
    use super::*;
    use crate::process::children::assert_in_child_of_same_number;

    /// Memory that a child does not inherit.
    unsafe extern "C" fn allocate(bytes: usize, _node: c_int, _alignment: usize) -> *mut c_void {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, where the kernel likes.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        assert_ne!(mapped, libc::MAP_FAILED);
        // SAFETY: the mapping.
        assert_eq!(unsafe { libc::madvise(mapped, bytes, libc::MADV_DONTFORK) }, 0);
        mapped
    }

    unsafe extern "C" fn free(_: *mut *mut c_void) {}

    unsafe extern "C" fn translate(_: *mut c_void) -> u64 {
        0
    }

    const MEMORY: &PinnedMemory = &PinnedMemory {
        qaeMemAllocNUMA: allocate,
        qaeMemFreeNUMA: free,
        qaeVirtToPhysNUMA: translate,
    };

    #[test]
    fn a_child_leaves_memory_alone_that_it_does_not_inherit() {
        let make = || {
            let slot: &'static Slot = Box::leak(Box::new(Slot::new(MEMORY).expect("memory")));
            slot.take();
            slot.finish(CPA_STATUS_SUCCESS);
            (UnderWay(slot), Pinned::new(MEMORY, 64).expect("memory"))
        };
        assert_in_child_of_same_number(make, |made| {
            drop(made);
            true
        });
    }
}
