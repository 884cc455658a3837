//! Every operation of the provider on the smallest stacks that programs have: those of ASYNC jobs,
//! and of a thread of 32 KiB. A page below ends the process if anything is touched there.
#![allow(unsafe_code, reason = "maps stacks, and calls libcrypto as programs do")]

mod kem;
mod pkey;
mod support;

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use kem::KNOWN;
use pkey::Key;
use support::{ffi, kem_parameters, key_parameters, operation_parameters};
use widelane_testkit::fuzz::corpus;
use widelane_testkit::random::Random;

/// What OpenSSL gives an ASYNC job.
const STACK_BYTES: usize = 32 << 10;

const PAGE_BYTES: usize = 4 << 10;

/// Inputs of each fuzz target that are made by chance, beside its corpus.
const BY_CHANCE: usize = 300;

/// The only test of its process: libcrypto takes its allocator before it has allocated anything.
#[test]
fn every_operation_fits_an_asynchronous_job_and_a_small_thread() {
    // SAFETY: functions that do what libcrypto asks of them.
    let set = unsafe { ffi::CRYPTO_set_mem_functions(allocate, resize, free) };
    assert_eq!(set, 1, "nothing is allocated yet");

    let calls = calls();
    calls.iter().for_each(in_job);
    assert!(!GUARDED.lock().unwrap().is_empty(), "stacks of jobs were guarded");

    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: a place to write to.
    assert_eq!(unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) }, 0);
    // SAFETY: begun above.
    let attributes = unsafe { attributes.assume_init_mut() };
    let stack = guarded(STACK_BYTES);
    // SAFETY: the attributes, and memory that nothing else uses.
    let set = unsafe { libc::pthread_attr_setstack(attributes, stack, STACK_BYTES) };
    assert_eq!(set, 0);
    let mut thread = MaybeUninit::uninit();
    let argument = ptr::from_ref(&calls).cast_mut().cast();
    // SAFETY: as above; the calls outlive the thread.
    let made =
        unsafe { libc::pthread_create(thread.as_mut_ptr(), attributes, in_thread, argument) };
    assert_eq!(made, 0);
    // SAFETY: made above.
    let thread = unsafe { thread.assume_init() };
    // SAFETY: joined once.
    assert_eq!(unsafe { libc::pthread_join(thread, ptr::null_mut()) }, 0);
}

/// What a fuzz target does with an input.
struct Call {
    target: fn(&[u8]),
    input: Vec<u8>,
}

/// Calls of everything that the provider does with keys of all kinds.
fn calls() -> Vec<Call> {
    let mut random = Random::new(64);
    let mut calls = Vec::new();
    let names = ["kem_parameters", "key_parameters", "operation_parameters"];
    let targets: [fn(&[u8]); 3] = [kem_parameters, key_parameters, operation_parameters];
    for (name, target) in names.into_iter().zip(targets) {
        let by_chance = std::iter::repeat_with(|| {
            let mut input = vec![0; 64];
            random.fill(&mut input);
            input
        });
        let inputs = corpus(name).into_iter().chain(by_chance.take(BY_CHANCE));
        calls.extend(inputs.map(|input| Call { target, input }));
    }
    // Often enough that each way of doing it has its turn.
    calls.extend((0..40).map(|_| Call { target: kems, input: Vec::new() }));
    calls
}

/// Shares a secret by each mechanism of key encapsulation.
fn kems(_: &[u8]) {
    for known in &KNOWN {
        let client = Key::of_group(known.name, true);
        let [ciphertext, secret] =
            Key::peer(known.name, &client.public()).unwrap().encapsulate().unwrap();
        assert_eq!(client.decapsulate(&ciphertext).unwrap(), secret);
    }
}

extern "C" fn in_thread(calls: *mut c_void) -> *mut c_void {
    // SAFETY: what the test hands over.
    let calls = unsafe { &*calls.cast::<Vec<Call>>() };
    calls.iter().for_each(|call| (call.target)(&call.input));
    ptr::null_mut()
}

/// Makes a call in an ASYNC job, until it is done.
fn in_job(call: &Call) {
    // SAFETY: no arguments.
    let context = unsafe { ffi::ASYNC_WAIT_CTX_new() };
    let (mut job, mut answer, mut argument) = (ptr::null_mut(), 0, ptr::from_ref(call));
    loop {
        let (argument, size) = (ptr::from_mut(&mut argument).cast(), size_of_val(&argument));
        // SAFETY: pointers to what the calls before have left; the argument is copied.
        let started =
            unsafe { ffi::ASYNC_start_job(&mut job, context, &mut answer, body, argument, size) };
        match started {
            PAUSED => thread::sleep(Duration::from_micros(50)),
            FINISHED => break,
            other => panic!("the job cannot be started: {other}"),
        }
    }
    assert_eq!(answer, 1);
    // SAFETY: made above; its job is done.
    unsafe { ffi::ASYNC_WAIT_CTX_free(context) };
}

const PAUSED: c_int = 2;
const FINISHED: c_int = 3;

unsafe extern "C" fn body(argument: *mut c_void) -> c_int {
    // SAFETY: what `in_job` hands over.
    let call = unsafe { argument.cast::<*const Call>().read_unaligned() };
    // SAFETY: `in_job` waits for this job.
    let call = unsafe { &*call };
    (call.target)(&call.input);
    1
}

/// Stacks of jobs, and how long they are.
static GUARDED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Memory above a page that cannot be touched.
fn guarded(bytes: usize) -> *mut c_void {
    let (readable, private) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, where the kernel likes.
    let mapped =
        unsafe { libc::mmap(ptr::null_mut(), bytes + PAGE_BYTES, readable, private, -1, 0) };
    assert_ne!(mapped, libc::MAP_FAILED);
    // SAFETY: the first page of the mapping.
    assert_eq!(unsafe { libc::mprotect(mapped, PAGE_BYTES, libc::PROT_NONE) }, 0);
    // SAFETY: within the mapping.
    unsafe { mapped.byte_add(PAGE_BYTES) }
}

unsafe extern "C" fn allocate(bytes: usize, _: *const c_char, _: c_int) -> *mut c_void {
    if bytes == STACK_BYTES {
        let stack = guarded(bytes);
        GUARDED.lock().unwrap().insert(stack.addr(), bytes);
        return stack;
    }
    // SAFETY: any number of bytes.
    unsafe { libc::malloc(bytes) }
}

unsafe extern "C" fn resize(
    memory: *mut c_void,
    bytes: usize,
    _: *const c_char,
    _: c_int,
) -> *mut c_void {
    let known = GUARDED.lock().unwrap().get(&memory.addr()).copied();
    let Some(old) = known else {
        // SAFETY: allocated by `malloc`.
        return unsafe { libc::realloc(memory, bytes) };
    };
    // SAFETY: any number of bytes.
    let new = unsafe { libc::malloc(bytes) };
    // SAFETY: both are as long.
    unsafe { ptr::copy_nonoverlapping(memory.cast::<u8>(), new.cast(), old.min(bytes)) };
    new
}

unsafe extern "C" fn free(memory: *mut c_void, _: *const c_char, _: c_int) {
    // Stacks stay mapped: there are few, and a late use would be seen.
    if !GUARDED.lock().unwrap().contains_key(&memory.addr()) {
        // SAFETY: allocated by `malloc`.
        unsafe { libc::free(memory) };
    }
}
