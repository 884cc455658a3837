//! Instances of the device, and the operations that they have.
#![allow(unsafe_code, reason = "pointers and callbacks of a caller in C")]

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::exports::{
    CPA_STATUS_FAIL, CPA_STATUS_RESTARTING, CPA_STATUS_RETRY, CPA_STATUS_SUCCESS, CpaStatus, Notify,
};
use crate::faults::{faults, is_hit};
use crate::memory;
use crate::work::Work;

/// Instances that a process has.
pub(crate) const INSTANCES: usize = 2;

/// How long a late operation takes beyond its time, and a restart.
const LATE: Duration = Duration::from_millis(300);
const RESTART: Duration = Duration::from_millis(50);

/// An instance: its operations, and the timer that fires when one is finished.
pub(crate) struct Instance {
    timer: c_int,
    operations: Vec<Operation>,
    /// How many there have been.
    count: u64,
    restarts_until: Option<Instant>,
    /// The callback for restarts, and what it has not been called with yet.
    notify: Option<(Notify, Pointer)>,
    untold: Vec<c_int>,
}

/// A pointer of the caller's, which only it follows.
#[derive(Clone, Copy)]
pub(crate) struct Pointer(pub(crate) *mut c_void);

// SAFETY: it is handed back as it came.
unsafe impl Send for Pointer {}

struct Operation {
    number: u64,
    due: Instant,
    work: Work,
    tag: Pointer,
    is_lost: bool,
}

const EVENT_RESTARTING: c_int = 0;
const EVENT_RESTARTED: c_int = 1;

static ALL: [Mutex<Instance>; INSTANCES] = [const { Mutex::new(Instance::new()) }; INSTANCES];

/// The instance of a handle.
pub(crate) fn instance(handle: *mut c_void) -> MutexGuard<'static, Instance> {
    let Some(instance) = handle.addr().checked_sub(1).and_then(|index| ALL.get(index)) else {
        memory::give_up("there is no such instance");
    };
    instance.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Instance {
    const fn new() -> Self {
        Instance {
            timer: -1,
            operations: Vec::new(),
            count: 0,
            restarts_until: None,
            notify: None,
            untold: Vec::new(),
        }
    }

    /// Makes its timer.
    pub(crate) fn start(&mut self) {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: makes a descriptor.
        self.timer = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
    }

    pub(crate) fn timer(&self) -> c_int {
        self.timer
    }

    pub(crate) fn notify(&mut self, notify: Notify, tag: *mut c_void) {
        self.notify = Some((notify, Pointer(tag)));
    }

    pub(crate) fn submit(&mut self, work: Work, tag: *mut c_void) -> CpaStatus {
        let now = Instant::now();
        if self.restarts_until.is_some_and(|until| now < until) {
            return CPA_STATUS_RESTARTING;
        }
        if self.restarts_until.take().is_some() {
            self.untold.push(EVENT_RESTARTED);
        }
        if faults().room.is_some_and(|room| self.operations.len() >= room) {
            return CPA_STATUS_RETRY;
        }
        let number = self.count;
        self.count += 1;
        if is_hit(faults().loses, number) {
            return CPA_STATUS_SUCCESS;
        }
        let extra = if is_hit(faults().late, number) { LATE } else { Duration::ZERO };
        self.operations.push(Operation {
            number,
            due: now + faults().takes + extra,
            work,
            tag: Pointer(tag),
            is_lost: false,
        });
        if is_hit(faults().resets, number) {
            self.restarts_until = Some(now + RESTART);
            self.untold.push(EVENT_RESTARTING);
            for operation in &mut self.operations {
                (operation.is_lost, operation.due) = (true, now);
            }
        }
        self.set_timer(now);
        CPA_STATUS_SUCCESS
    }

    /// Has the timer expire when the next operation is finished.
    fn set_timer(&self, now: Instant) {
        let Some(due) = self.operations.iter().map(|operation| operation.due).min() else { return };
        let left = due.saturating_duration_since(now).max(Duration::from_nanos(1));
        // SAFETY: zeros are a time.
        let mut time: libc::itimerspec = unsafe { std::mem::zeroed() };
        time.it_value.tv_sec = left.as_secs().cast_signed();
        time.it_value.tv_nsec = left.subsec_nanos().into();
        // SAFETY: a timer of ours, and a time.
        unsafe { libc::timerfd_settime(self.timer, 0, &time, std::ptr::null_mut()) };
    }

    /// Takes out what is finished.
    fn take_finished(&mut self) -> Vec<Operation> {
        let now = Instant::now();
        let mut finished: Vec<_> =
            self.operations.extract_if(.., |operation| operation.due <= now).collect();
        if faults().is_backwards {
            finished.reverse();
        }
        self.set_timer(now);
        finished
    }
}

/// Finishes what is due, by callbacks; whether anything was.
pub(crate) fn poll(handle: *mut c_void) -> bool {
    let finished = instance(handle).take_finished();
    finished.iter().for_each(Operation::finish);
    !finished.is_empty()
}

/// Calls the callbacks for restarts.
pub(crate) fn poll_events() {
    for number in 1..=INSTANCES {
        let handle = std::ptr::without_provenance_mut(number);
        let (notify, untold) = {
            let mut instance = instance(handle);
            (instance.notify, std::mem::take(&mut instance.untold))
        };
        if let Some((notify, Pointer(tag))) = notify {
            // SAFETY: what the caller has set, with its argument.
            untold.into_iter().for_each(|event| unsafe { notify(handle, tag, event) });
        }
    }
}

impl Operation {
    fn finish(&self) {
        let is_failed = self.is_lost || is_hit(faults().fails, self.number);
        let status = if is_failed { CPA_STATUS_FAIL } else { CPA_STATUS_SUCCESS };
        let mut is_valid = false;
        if !is_failed {
            let is_wrong = is_hit(faults().wrong, self.number);
            // No two results are wrong in the same way.
            let turned = if is_wrong { self.number as u8 | 1 } else { 0 };
            is_valid = self.work.execute(turned);
        }
        self.work.call_back(self.tag.0, status, is_valid);
    }
}
