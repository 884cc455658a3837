//! Intel QuickAssist (QAT): operations with private keys done by a device, through qatlib.
//!
//! Each process opens the library when it first has such an operation, which for a server's worker
//! is after the fork, and each thread uses one of the process's instances. An operation goes to the
//! device at once and alone: there is nothing to batch. `docs/design/qat.md` has the rest.
//!
//! **This has never run on a real device**, only on the stand-in of the tests.
#![allow(unsafe_code, reason = "calls Intel's library")]

mod call;
mod curve;
mod health;
mod interface;
mod job;
mod key;
mod memory;

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use widelane_batch::{SLEEP_COST_NS, Tick};
use widelane_bridge::counters::Counters;
use widelane_cpu::policy::Engine as Choice;

use self::health::Health;
use self::interface::{
    CPA_INSTANCE_EVENT_RESTARTED, CPA_STATUS_INVALID_PARAM, CPA_STATUS_RETRY, CPA_STATUS_SUCCESS,
    CPA_STATUS_UNSUPPORTED, CpaCyCapabilitiesInfo, CpaInstanceEvent, CpaInstanceHandle, CpaStatus,
    Library, PinnedMemory, words,
};
use self::job::{NO_RESULT, Slot, Ticket, UnderWay};
use self::key::Keys;
use super::{Asker, Engine};
use crate::batching::kernel::Outcome;
use crate::batching::request::{Answer, Request};
use crate::batching::{Skill, Task, execute};
use crate::config::config;
use crate::counters::count;
use crate::errors::{self, say, say_once};
use crate::process::{self, Process};
use crate::stack;

/// The devices of a process.
pub(crate) struct Devices {
    instances: Vec<Instance>,
    /// How many threads have been given an instance.
    threads: AtomicUsize,
}

/// A part of a device that a process may use, by one thread or several.
pub(crate) struct Instance {
    library: &'static Library,
    handle: Handle,
    /// Becomes readable when something is finished; −1 where the instance has none.
    descriptor: c_int,
    skills: Skills,
    keys: Arc<Keys>,
    /// Never freed, as each of them.
    slots: &'static [Slot],
    health: &'static Health,
    /// What the latest look for results has cost, ns.
    polled_ns: AtomicU64,
    /// When it was last asked whether it has restarted.
    events_polled: AtomicU64,
}

/// What an instance is capable of.
struct Skills {
    rsa: bool,
    ecdsa: bool,
    ecdh: bool,
    x25519: bool,
}

/// What the library calls an instance.
struct Handle(CpaInstanceHandle);

// SAFETY: instances may be used by several threads.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// Operations that one instance has at a time; more are not given to it.
const SLOTS: usize = 64;

/// The longest that an operation stays with a device.
const STAYS_MAX_NS: u64 = 50_000_000;

/// After what time a thread looks whether anything is finished: with a descriptor only in case that
/// a call was lost, without one in order to learn it.
const LOOK_AGAIN_NS: u64 = 2_000_000;
const LOOK_EVERY_NS: u64 = 100_000;

/// After what time a thread that looks for results also asks whether the device has restarted.
const EVENTS_EVERY_NS: u64 = 1_000_000_000;

const NO_MEMORY: &str = "no pinned memory left; raise LimitMEMLOCK= of the service";

/// What instances are asked for by: the section of the configuration, where the system has one.
const SECTION: &std::ffi::CStr = c"SSL";

/// Whether this process has opened the library, or one that it was forked from: what a child
/// inherits of it is of no use.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The instance of a thread, or that there is none, and the process in which that was found.
    static FOUND: Cell<(*const Process, Option<&'static Instance>)> =
        const { Cell::new((ptr::null(), None)) };
}

/// The instance of the calling thread; nothing if the policy wants none, or there is none.
pub(crate) fn instance() -> Option<&'static Instance> {
    if config().engine == Choice::Cpu {
        return None;
    }
    let process = process::current();
    if !ptr::eq(FOUND.get().0, process) {
        FOUND.set((process, process.devices().and_then(Devices::next)));
    }
    FOUND.get().1
}

/// The instance of the calling thread, if the thread has asked for it in this process; opens no
/// device.
pub(crate) fn known() -> Option<&'static Instance> {
    let (process, found) = FOUND.get();
    found.filter(|_| process::is_current(process))
}

impl Devices {
    /// Opens what there is; nothing, and one line on standard error, if that is nothing.
    pub(crate) fn open() -> Option<Self> {
        let opened = stack::on_large(Self::try_open);
        let opened = opened.unwrap_or_else(|| Err("no memory for a stack".to_owned()));
        opened
            .inspect_err(|error| {
                let line = format!("no QAT device: {error}; the CPU does its work");
                say_once(errors::Once::NoDevice, &line);
            })
            .ok()
    }

    fn try_open() -> Result<Self, String> {
        if IS_OPEN.load(Ordering::Relaxed) {
            return Err("the process that forked this one uses it, and it cannot be shared".into());
        }
        let library: &'static Library = Box::leak(Box::new(Library::load()?));
        let memory: &'static PinnedMemory = Box::leak(Box::new(PinnedMemory::load()?));
        let handles = start(library).map_err(|error| {
            format!("{error}; see that the service qat runs and this user is in the group qat")
        })?;
        IS_OPEN.store(true, Ordering::Relaxed);
        let keys = Arc::new(Keys::new(memory).ok_or(NO_MEMORY)?);
        let start = |handle| Instance::start(library, memory, &keys, handle);
        let (mut instances, mut failure) = (Vec::new(), None);
        for started in handles.into_iter().map(start) {
            match started {
                Ok(instance) => instances.push(instance),
                // Others may do: some are for symmetric ciphers only.
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure.filter(|_| instances.is_empty()) {
            Some(failure) => Err(failure),
            None => Ok(Devices { instances, threads: AtomicUsize::new(0) }),
        }
    }

    /// The instance of one more thread.
    fn next(&'static self) -> Option<&'static Instance> {
        let thread = self.threads.fetch_add(1, Ordering::Relaxed);
        self.instances.get(thread % self.instances.len().max(1))
    }
}

/// Begins to use devices: the handles of the instances that this process may use.
fn start(library: &Library) -> Result<Vec<CpaInstanceHandle>, String> {
    // SAFETY: a C string.
    succeeds("icp_sal_userStart", unsafe { (library.icp_sal_userStart)(SECTION.as_ptr()) })?;
    let mut count = 0;
    // SAFETY: a place to write to.
    let status = unsafe { (library.cpaCyGetNumInstances)(&mut count) };
    succeeds("cpaCyGetNumInstances", status)?;
    if count == 0 {
        return Err("there is no instance for cryptography".to_owned());
    }
    let mut handles = vec![ptr::null_mut(); count.into()];
    // SAFETY: room for `count` handles.
    let status = unsafe { (library.cpaCyGetInstances)(count, handles.as_mut_ptr()) };
    succeeds("cpaCyGetInstances", status)?;
    Ok(handles)
}

fn succeeds(function: &str, status: CpaStatus) -> Result<(), String> {
    match status {
        CPA_STATUS_SUCCESS => Ok(()),
        other => Err(format!("{function}: {}", words(other))),
    }
}

impl Instance {
    /// The descriptor that becomes readable when something is finished, for edge-triggered epoll;
    /// −1 if there is none.
    pub(in crate::batching) fn descriptor(&self) -> c_int {
        self.descriptor
    }

    fn start(
        library: &'static Library,
        memory: &'static PinnedMemory,
        keys: &Arc<Keys>,
        handle: CpaInstanceHandle,
    ) -> Result<Self, String> {
        let (translate, health) = (memory.qaeVirtToPhysNUMA, Box::leak(Box::default()));
        // SAFETY: an instance, and a function that stays.
        let status = unsafe { (library.cpaCySetAddressTranslation)(handle, translate) };
        succeeds("cpaCySetAddressTranslation", status)?;
        // SAFETY: an instance.
        succeeds("cpaCyStartInstance", unsafe { (library.cpaCyStartInstance)(handle) })?;
        let mut capabilities = CpaCyCapabilitiesInfo::NONE;
        // SAFETY: an instance, and a place to write to.
        let status = unsafe { (library.cpaCyQueryCapabilities)(handle, &mut capabilities) };
        succeeds("cpaCyQueryCapabilities", status)?;
        let skills = Skills::of(&capabilities).ok_or("the device has neither RSA nor curves")?;
        let tag = ptr::from_ref::<Health>(health).cast_mut().cast();
        // Where it cannot, restarts are learnt from operations that fail.
        // SAFETY: an instance, a function and its argument, which both stay.
        unsafe { (library.cpaCyInstanceSetNotificationCb)(handle, told, tag) };
        let mut descriptor = -1;
        // SAFETY: an instance, and a place to write to.
        let status = unsafe { (library.icp_sal_CyGetFileDescriptor)(handle, &mut descriptor) };
        if status != CPA_STATUS_SUCCESS {
            descriptor = -1;
        }
        let slots: Option<Box<[Slot]>> = (0..SLOTS).map(|_| Slot::new(memory)).collect();
        let slots = slots.ok_or(NO_MEMORY)?;
        let slots = Box::leak(slots);
        let (handle, keys) = (Handle(handle), Arc::clone(keys));
        let [polled_ns, events_polled] = [0; 2].map(AtomicU64::new);
        Ok(Instance {
            library,
            handle,
            descriptor,
            skills,
            keys,
            slots,
            health,
            polled_ns,
            events_polled,
        })
    }

    /// Has the library call `told` if the device has restarted.
    fn poll_events(&self, now: Tick) {
        self.events_polled.store(now.0, Ordering::Relaxed);
        // SAFETY: no arguments.
        let _ = stack::on_large(|| unsafe { (self.library.icp_sal_poll_device_events)() });
    }

    /// Whether all slots have operations that were given up, and which the device has not finished.
    fn has_lost_all(&self) -> bool {
        self.slots.iter().all(Slot::is_abandoned)
    }

    /// The same, once what is finished by now has been taken.
    fn still_has_lost_all(&self) -> bool {
        self.poll();
        self.has_lost_all()
    }

    fn under_way(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_awaited()).count()
    }

    /// Gives it the operation of a request.
    ///
    /// # Errors
    /// What the library says instead; [`CPA_STATUS_RETRY`] too if all slots are in use.
    fn try_submit(&self, request: &Request, now: Tick) -> Result<Ticket, CpaStatus> {
        let task = request.operation().task().ok_or(CPA_STATUS_UNSUPPORTED)?;
        let first = self.submit_once(&task)?;
        let second = match &task {
            // There is no y to check it with: only a second run shows whether it is right.
            Task::X25519 { .. } => Some(self.submit_once(&task)?),
            _ => None,
        };
        Ok(Ticket::new(first, second, now))
    }

    fn submit_once(&self, task: &Task<'_>) -> Result<UnderWay, CpaStatus> {
        let slot = self.slots.iter().find(|slot| slot.take()).ok_or(CPA_STATUS_RETRY)?;
        let submitted = slot.submit(self.library, self.handle.0, |call| {
            call.prepare(task, &self.keys).then_some(()).ok_or(CPA_STATUS_UNSUPPORTED)
        });
        // What it does not like of a peer's input is not the key's fault.
        if let (Err(CPA_STATUS_INVALID_PARAM), Task::Rsa { name, is_signature: true, .. }) =
            (&submitted, task)
        {
            self.keys.refuse(name);
        }
        submitted
    }
}

impl Skills {
    /// Nothing if there is none.
    fn of(capabilities: &CpaCyCapabilitiesInfo) -> Option<Self> {
        let skills = Skills {
            rsa: capabilities.rsaSupported != 0,
            ecdsa: capabilities.ecdsaSupported != 0,
            ecdh: capabilities.ecdhSupported != 0,
            x25519: capabilities.ecEdMontSupported != 0,
        };
        let any = skills.rsa || skills.ecdsa || skills.ecdh || skills.x25519;
        any.then_some(skills)
    }

    fn include(&self, skill: Skill) -> bool {
        match skill {
            Skill::Rsa => self.rsa,
            Skill::Ecdsa => self.ecdsa,
            Skill::Ecdh => self.ecdh,
            Skill::X25519 => self.x25519,
        }
    }
}

/// Whether a device is to do a request that lanes could do as well.
fn is_preferred(request: &Request, asker: Asker) -> bool {
    if config().engine == Choice::QatFirst {
        return true;
    }
    let process = process::current();
    let costs = &process.queues(request.kind()).costs;
    let is_preferred = match asker {
        Asker::Loop(jobs) => costs.prefer_device(jobs, 0),
        Asker::Thread => costs.prefer_device(1, SLEEP_COST_NS),
    };
    if !is_preferred {
        count(&process.counters().device_dearer);
    }
    is_preferred
}

impl Engine for Instance {
    type Ticket = Ticket;

    const QUEUES: bool = false;

    fn works_alone(&self) -> bool {
        true
    }

    fn is_at_work(&self, now: Tick) -> bool {
        !self.health.rests(now)
    }

    fn takes(&self, request: &Request, asker: Asker, now: Tick) -> bool {
        let is_able = request.operation().skill().is_some_and(|skill| self.skills.include(skill));
        if !is_able || !self.health.admits(now, || self.under_way()) {
            return false;
        }
        if self.health.is_doubtful() {
            // What was given up may be finished by now, and frees its slot.
            self.poll();
            self.poll_events(now);
        }
        !self.health.rests(now) && is_preferred(request, asker)
    }

    fn submit(&self, request: &Request, now: Tick) -> Option<Ticket> {
        let (begin, counters) = (now, process::current().counters());
        // The library may need more stack than a fibre or an ASYNC job has.
        let submitted = stack::on_large(|| self.try_submit(request, now));
        match submitted.unwrap_or(Err(CPA_STATUS_RETRY)) {
            Ok(mut ticket) => {
                ticket.spent_ns = execute::now().since(begin);
                Some(ticket)
            }
            Err(CPA_STATUS_RETRY) if self.has_lost_all() && self.still_has_lost_all() => {
                static SAID: Once = Once::new();
                SAID.call_once(|| {
                    say("a QAT device does not finish its operations; the CPU does its work");
                });
                count(&counters.device_faults);
                self.health.fails(now);
                None
            }
            Err(CPA_STATUS_RETRY) => {
                count(&counters.device_full);
                None
            }
            // That is the key's.
            Err(CPA_STATUS_INVALID_PARAM | CPA_STATUS_UNSUPPORTED) => {
                count(&counters.device_refused);
                None
            }
            Err(_) => {
                count(&counters.device_faults);
                self.health.fails(now);
                None
            }
        }
    }

    fn submitted(&self, _now: Tick, _is_first: bool) {}

    fn poll(&self) {
        // SAFETY: an instance that was started; it calls `finished_number` and `finished_pair`.
        let poll = || unsafe { (self.library.icp_sal_CyPollInstance)(self.handle.0, 0) };
        let begin = execute::now();
        // Whatever it says, operations tell by themselves whether they are finished.
        let _ = stack::on_large(poll);
        self.polled_ns.store(execute::now().since(begin), Ordering::Relaxed);
        if begin.since(Tick(self.events_polled.load(Ordering::Relaxed))) >= EVENTS_EVERY_NS {
            self.poll_events(begin);
        }
    }

    fn is_finished(&self, ticket: &Ticket) -> bool {
        ticket.is_finished()
    }

    fn collect(&self, ticket: Ticket, request: &Request, counters: &Counters) -> Answer {
        let (begin, submitted) = (execute::now(), ticket.submitted);
        let spent_ns = ticket.spent_ns + self.polled_ns.load(Ordering::Relaxed);
        let operation = request.operation();
        let outcome = match ticket.result() {
            Ok(result) => operation.conclude(result),
            // The peer may have sent a point of small order.
            Err(NO_RESULT) if operation.skill() == Some(Skill::X25519) => Outcome::Rejected,
            Err(_) => Outcome::Fault,
        };
        match outcome {
            Outcome::Done(result) => {
                self.health.succeeds(submitted);
                count(&counters.device_jobs);
                let end = execute::now();
                let queues = process::current().queues(request.kind());
                queues.by_device.fetch_add(1, Ordering::Relaxed);
                queues.costs.record_device(spent_ns + end.since(begin));
                Answer::Done(result)
            }
            Outcome::Rejected => {
                count(&counters.device_refused);
                Answer::Failed
            }
            Outcome::Fault => {
                count(&counters.device_faults);
                self.health.fails(execute::now());
                Answer::Failed
            }
        }
    }

    fn left_ns(&self, now: Tick, asked: Tick) -> u64 {
        let look = if self.descriptor < 0 { LOOK_EVERY_NS } else { LOOK_AGAIN_NS };
        asked.after(STAYS_MAX_NS).since(now).min(look)
    }

    fn withdraw(&self, _ticket: &Ticket) -> bool {
        false
    }

    fn abandon(&self, ticket: Ticket) {
        drop(ticket);
    }

    fn count_late(&self, now: Tick, asked: Tick, counters: &Counters) {
        count(&counters.device_late);
        if self.left_ns(now, asked) == 0 {
            self.health.fails(now);
        }
    }
}

/// The device restarts, has restarted, or has failed.
unsafe extern "C" fn told(_: CpaInstanceHandle, health: *mut c_void, event: CpaInstanceEvent) {
    // SAFETY: `start` passes the health of its instance, which is never freed.
    if let Some(health) = unsafe { health.cast::<Health>().as_ref() }
        && event != CPA_INSTANCE_EVENT_RESTARTED
    {
        health.fails(execute::now());
    }
}
