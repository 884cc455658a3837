//! ASYNC jobs, threads and forks of one process that signs by our provider.
#![allow(unsafe_code, reason = "drives ASYNC jobs through libcrypto")]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey, Private};
use openssl::rsa::{Padding, Rsa};
use openssl::sign::{Signer, Verifier};
use widelane_testkit::rooms::{has_lanes, has_lanes_of_curves, has_rsa};

use crate::common::ffi;
use crate::common::process::{grown, in_child, setting};

const ASYNC_PAUSE: c_int = 2;
const ASYNC_FINISH: c_int = 3;
const MESSAGE: &[u8] = b"the message";

type Callback = unsafe extern "C" fn(*mut c_void) -> c_int;

/// A signature to be made in an ASYNC job, and the job.
struct Task {
    key: PKey<Private>,
    padding: Padding,
    may_pause: bool,
    signature: Option<Vec<u8>>,
    job: *mut c_void,
    wait: *mut c_void,
}

impl Task {
    fn new(key: &PKey<Private>, padding: Padding) -> Box<Self> {
        // SAFETY: no arguments.
        let wait = unsafe { ffi::ASYNC_WAIT_CTX_new() };
        let (key, job) = (key.clone(), ptr::null_mut());
        Box::new(Task { key, padding, may_pause: true, signature: None, job, wait })
    }

    fn set_callback(&self, callback: Option<Callback>, argument: *mut c_void) {
        // SAFETY: the wait context is the task's; tests pass what their callback takes.
        let set = unsafe { ffi::ASYNC_WAIT_CTX_set_callback(self.wait, callback, argument) };
        assert_eq!(set, 1);
    }

    /// Starts or resumes the job; answers whether it is finished.
    fn step(&mut self) -> bool {
        let mut result = 0;
        let mut argument: *mut Task = self;
        // SAFETY: the arguments are copied into the job; the task stays where it is, in its box.
        let status = unsafe {
            ffi::ASYNC_start_job(
                &mut self.job,
                self.wait,
                &mut result,
                Task::work,
                ptr::from_mut(&mut argument).cast(),
                size_of::<*mut Task>(),
            )
        };
        assert!(status == ASYNC_PAUSE || status == ASYNC_FINISH, "status {status}");
        status == ASYNC_FINISH
    }

    unsafe extern "C" fn work(argument: *mut c_void) -> c_int {
        // SAFETY: `step` passes a pointer to a pointer to its task.
        let task = unsafe { argument.cast::<*mut Task>().read() };
        // SAFETY: the task stays where it is.
        let task = unsafe { &mut *task };
        if !task.may_pause {
            // SAFETY: no arguments.
            unsafe { ffi::ASYNC_block_pause() };
        }
        task.signature = Some(sign(&task.key, task.padding));
        if !task.may_pause {
            // SAFETY: no arguments.
            unsafe { ffi::ASYNC_unblock_pause() };
        }
        1
    }

    /// Waits until the job can go on, and lets it.
    fn finish(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.step() {
            assert!(Instant::now() < deadline, "the job is never finished");
            let mut fds = [0; 4];
            let mut count = 0;
            // SAFETY: first the number is asked for, then there is room for so many.
            unsafe { ffi::ASYNC_WAIT_CTX_get_all_fds(self.wait, ptr::null_mut(), &mut count) };
            assert_eq!(count, 1, "one descriptor for each wait context");
            // SAFETY: as above.
            unsafe { ffi::ASYNC_WAIT_CTX_get_all_fds(self.wait, fds.as_mut_ptr(), &mut count) };
            let mut poll = libc::pollfd { fd: fds[0], events: libc::POLLIN, revents: 0 };
            // SAFETY: one descriptor.
            assert_eq!(unsafe { libc::poll(&mut poll, 1, 60_000) }, 1, "the descriptor is raised");
        }
        let signature = self.signature.take().expect("a finished job has signed");
        assert!(verify(&self.key, self.padding, &signature));
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // SAFETY: made by `new`, freed once.
        unsafe { ffi::ASYNC_WAIT_CTX_free(self.wait) };
    }
}

fn sign(key: &PKey<Private>, padding: Padding) -> Vec<u8> {
    let mut signer = Signer::new(MessageDigest::sha256(), key).unwrap();
    if key.id() == Id::RSA {
        signer.set_rsa_padding(padding).unwrap();
    }
    signer.sign_oneshot_to_vec(MESSAGE).unwrap()
}

fn verify(key: &PKey<Private>, padding: Padding, signature: &[u8]) -> bool {
    let mut verifier = Verifier::new(MessageDigest::sha256(), key).unwrap();
    if key.id() == Id::RSA {
        verifier.set_rsa_padding(padding).unwrap();
    }
    verifier.verify_oneshot(signature, MESSAGE).unwrap()
}

fn key(bits: u32) -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(bits).unwrap()).unwrap()
}

/// A key of which operations have several lanes wherever those on curves have.
fn p384() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::SECP384R1).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

fn paddings() -> impl Iterator<Item = Padding> {
    [Padding::PKCS1, Padding::PKCS1_PSS].into_iter().cycle()
}

#[test]
fn jobs_of_one_thread_share_batches_whatever_their_keys() {
    let (place, _lock) = setting();
    let keys = [key(2048), key(2048), key(3072), key(4096)];
    let full = place.sum(|counters| counters.closed_full);
    let batched = place.sum(|counters| counters.jobs_batched);
    for key in &keys[1..] {
        // Two keys of the smallest size in one batch.
        let keys = [&keys[0], key].into_iter().cycle();
        let of_one_size = keys.filter(|any| any.size() == key.size());
        let mut tasks: Vec<_> = of_one_size
            .zip(paddings())
            .take(16)
            .map(|(key, padding)| Task::new(key, padding))
            .collect();
        let unfinished: Vec<_> =
            tasks.iter_mut().filter_map(|task| (!task.step()).then_some(task)).collect();
        unfinished.into_iter().for_each(|task| task.finish());
    }
    assert_eq!(grown(place, full, |counters| counters.closed_full) > 0, has_rsa());
    assert_eq!(grown(place, batched, |counters| counters.jobs_batched) > 0, has_rsa());
}

#[test]
fn a_partial_batch_is_closed_by_its_deadline() {
    let (place, _lock) = setting();
    let key = key(2048);
    sign(&key, Padding::PKCS1);
    let closed = place.sum(|counters| counters.closed_deadline);
    // Where jobs have come too far apart, only one in a few waits for others.
    for _ in 0..100 {
        let mut tasks: Vec<_> = (0..5).map(|_| Task::new(&key, Padding::PKCS1)).collect();
        let parked: Vec<_> =
            tasks.iter_mut().filter_map(|task| (!task.step()).then_some(task)).collect();
        parked.into_iter().for_each(|task| task.finish());
    }
    let closed = grown(place, closed, |counters| counters.closed_deadline);
    assert_eq!(closed > 0, has_lanes());
}

#[test]
fn jobs_are_finished_where_no_thread_can_be_started() {
    let (_place, _lock) = setting();
    let key = key(2048);
    let status = in_child(|| {
        // Whoever may not have a second process may not have a second thread either.
        let none = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
        // SAFETY: a limit to be read.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &none) }, 0);
        // SAFETY: numbers; the limit is not for root.
        unsafe { libc::setresuid(65_534, 65_534, 65_534) };
        // No other job comes that would take this one into its batch.
        (0..20).for_each(|_| Task::new(&key, Padding::PKCS1).finish());
    });
    assert_eq!(status, 0);
}

#[test]
fn a_callback_is_called_where_one_is_set() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn called(_argument: *mut c_void) -> c_int {
        CALLS.fetch_add(1, Ordering::SeqCst);
        1
    }
    let (_place, _lock) = setting();
    let key = key(2048);
    sign(&key, Padding::PKCS1);
    let mut tasks: Vec<_> = (0..6).map(|_| Task::new(&key, Padding::PKCS1)).collect();
    let mut parked = Vec::new();
    for task in &mut tasks {
        task.set_callback(Some(called), ptr::null_mut());
        if !task.step() {
            parked.push(task);
        }
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while CALLS.load(Ordering::SeqCst) < parked.len() {
        assert!(
            Instant::now() < deadline,
            "{} of {} calls",
            CALLS.load(Ordering::SeqCst),
            parked.len()
        );
        thread::yield_now();
    }
    for task in parked {
        assert!(task.step(), "who was called can go on");
        assert!(verify(&task.key, task.padding, task.signature.as_ref().unwrap()));
        // Without its callback, the owner could not learn of the end of another pause.
        task.set_callback(None, ptr::null_mut());
        assert!(task.step(), "nothing pauses");
    }
}

#[test]
fn a_callback_may_free_its_wait_context() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    struct Waiting {
        wait: *mut c_void,
        has_paused: AtomicBool,
    }
    unsafe extern "C" fn called(waiting: *mut c_void) -> c_int {
        // SAFETY: the test passes one, and keeps it until all callbacks have returned.
        let waiting = unsafe { &*waiting.cast::<Waiting>() };
        // A helper may call before the job has paused, which still uses the wait context.
        while !waiting.has_paused.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        // SAFETY: the test makes another one for its task.
        unsafe { ffi::ASYNC_WAIT_CTX_free(waiting.wait) };
        CALLS.fetch_add(1, Ordering::SeqCst);
        1
    }
    let (_place, _lock) = setting();
    let key = p384();
    sign(&key, Padding::PKCS1);
    let mut expected = 0;
    for _ in 0..20 {
        let mut tasks: Vec<_> = (0..6).map(|_| Task::new(&key, Padding::PKCS1)).collect();
        let waiting: Vec<_> = tasks
            .iter()
            .map(|task| Waiting { wait: task.wait, has_paused: AtomicBool::new(false) })
            .collect();
        let mut parked = Vec::new();
        for (task, waiting) in tasks.iter_mut().zip(&waiting) {
            let argument = ptr::from_ref(waiting).cast_mut().cast();
            task.set_callback(Some(called), argument);
            if !task.step() {
                waiting.has_paused.store(true, Ordering::SeqCst);
                parked.push(task);
            }
        }
        expected += parked.len();
        let deadline = Instant::now() + Duration::from_secs(60);
        while CALLS.load(Ordering::SeqCst) < expected {
            assert!(Instant::now() < deadline, "a callback has not returned");
            thread::yield_now();
        }
        for task in parked {
            // SAFETY: no arguments.
            task.wait = unsafe { ffi::ASYNC_WAIT_CTX_new() };
        }
    }
    assert_eq!(expected > 0, has_lanes_of_curves());
}

#[test]
fn abandoned_jobs_harm_nobody() {
    let (_place, _lock) = setting();
    let key = key(4096);
    for round in 0..20 {
        let mut abandoned: Vec<_> = (0..5).map(|_| Task::new(&key, Padding::PKCS1)).collect();
        let mut kept: Vec<_> = (0..2).map(|_| Task::new(&key, Padding::PKCS1_PSS)).collect();
        for task in &mut abandoned {
            // Its signature goes to a task that still exists, should its job be finished after all.
            task.step();
        }
        let parked: Vec<_> =
            kept.iter_mut().filter_map(|task| (!task.step()).then_some(task)).collect();
        for task in &mut abandoned[..round % 5] {
            // SAFETY: the old wait context is freed once, and replaced.
            unsafe { ffi::ASYNC_WAIT_CTX_free(task.wait) };
            // SAFETY: no arguments.
            task.wait = unsafe { ffi::ASYNC_WAIT_CTX_new() };
        }
        parked.into_iter().for_each(|task| task.finish());
        drop(abandoned);
    }
    assert!(verify(&key, Padding::PKCS1, &sign(&key, Padding::PKCS1)));
}

#[test]
fn a_job_that_may_not_pause_signs_all_the_same() {
    let (_place, _lock) = setting();
    let key = key(2048);
    sign(&key, Padding::PKCS1);
    // Enough for some that would wait for others.
    for _ in 0..50 {
        let mut task = Task::new(&key, Padding::PKCS1);
        task.may_pause = false;
        assert!(task.step(), "nothing pauses");
        assert!(verify(&key, Padding::PKCS1, task.signature.as_ref().unwrap()));
    }
}

#[test]
fn a_job_that_is_resumed_early_waits_on() {
    let (_place, _lock) = setting();
    let key = key(2048);
    sign(&key, Padding::PKCS1);
    for _ in 0..10 {
        let mut tasks: Vec<_> = (0..3).map(|_| Task::new(&key, Padding::PKCS1)).collect();
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut unfinished: Vec<_> = tasks.iter_mut().collect();
        while !unfinished.is_empty() {
            assert!(Instant::now() < deadline);
            unfinished.retain_mut(|task| !task.step());
        }
        for task in &tasks {
            assert!(verify(&key, Padding::PKCS1, task.signature.as_ref().unwrap()));
        }
    }
}

#[test]
fn more_threads_than_cpus_share_batches() {
    const THREADS: usize = 16;
    const SIGNATURES: usize = 40;
    let (place, _lock) = setting();
    let key = key(2048);
    let before = place.sum(|counters| counters.jobs_batched);
    let begin = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                begin.wait();
                for padding in paddings().take(SIGNATURES) {
                    assert!(verify(&key, padding, &sign(&key, padding)));
                }
            });
        }
    });
    let batched = grown(place, before, |counters| counters.jobs_batched);
    let crowded = thread::available_parallelism().unwrap().get() < THREADS / 2;
    if has_lanes() && crowded {
        assert!(batched > 0, "nobody shared a batch");
    }
    assert_eq!(place.sum(|counters| counters.fallbacks), 0);
    assert_eq!(place.sum(|counters| counters.faults_detected), 0);
}

#[test]
fn a_child_starts_afresh_at_any_depth() {
    let (place, _lock) = setting();
    let key = key(2048);
    let processes = place.counters().len();
    let mut tasks: Vec<_> = (0..4).map(|_| Task::new(&key, Padding::PKCS1)).collect();
    let parked: Vec<_> =
        tasks.iter_mut().filter_map(|task| (!task.step()).then_some(task)).collect();
    // The child resumes its copies of the parked jobs, which no helper serves there, and its own.
    let status = in_child(|| {
        let mut own: Vec<_> = (0..12).map(|_| Task::new(&key, Padding::PKCS1)).collect();
        for task in &mut own {
            while !task.step() {}
            assert!(verify(&key, Padding::PKCS1, task.signature.as_ref().unwrap()));
        }
        assert_eq!(
            in_child(|| assert!(verify(&key, Padding::PKCS1, &sign(&key, Padding::PKCS1)))),
            0
        );
    });
    assert_eq!(status, 0, "the child, and its child");
    parked.into_iter().for_each(|task| task.finish());
    assert_eq!(place.counters().len(), processes.max(1) + 2, "each process counts for itself");
}

#[test]
fn a_child_made_without_fork_handlers_works_alone_and_ends() {
    let (_place, _lock) = setting();
    let key = p384();
    // In a process that has no threads but its own helper.
    let status = in_child(|| {
        for _ in 0..20 {
            let mut tasks: Vec<_> = (0..3).map(|_| Task::new(&key, Padding::PKCS1)).collect();
            let parked: Vec<_> =
                tasks.iter_mut().filter_map(|task| (!task.step()).then_some(task)).collect();
            parked.into_iter().for_each(|task| task.finish());
        }
        // The helper goes to sleep.
        thread::sleep(Duration::from_millis(50));
        // The system call itself: no handler of pthread_atfork runs.
        // SAFETY: the child signs, and ends as programs do.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if child == 0 {
            let mut task = Task::new(&key, Padding::PKCS1);
            let is_signed = task.step()
                && verify(&key, task.padding, task.signature.as_ref().expect("a signature"));
            std::process::exit(i32::from(!is_signed));
        }
        let child = libc::pid_t::try_from(child).expect("a process");
        let (mut status, deadline) = (-1, Instant::now() + Duration::from_secs(60));
        // SAFETY: our own child.
        while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
            if Instant::now() > deadline {
                // SAFETY: as above.
                unsafe { libc::kill(child, libc::SIGKILL) };
            }
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(status, 0, "the child has signed, and its end was no wait");
    });
    assert_eq!(status, 0);
}
