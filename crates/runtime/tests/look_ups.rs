//! What a handshake looks up by name: how many locks that takes, and that every change of providers
//! and properties is noticed at once.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "libcrypto by its C interface, and counting doors in front of libc")]

mod support;

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use openssl::ssl::{ClientHelloResponse, SslContext, SslMethod};
use openssl_sys as sys;
use support::by_hand::{
    Connection, Epoll, accelerated, context, file, new_ssl, quick_context, rare_context_with,
};
use widelane_testkit::rooms::has_lanes;

#[test]
fn a_handshake_takes_few_locks() {
    accelerated("scenario_locks");
}

#[test]
fn so_do_new_contexts_and_handshakes_without_an_event_loop() {
    accelerated("scenario_locks_without_an_event_loop");
}

#[test]
fn changes_are_noticed_within_a_handshake() {
    accelerated("scenario_changes");
}

#[test]
fn programs_look_up_for_themselves_behind_what_throws() {
    accelerated("scenario_thrown");
}

#[test]
fn what_was_used_before_the_first_context_is_ours_afterwards() {
    accelerated("scenario_used_before");
}

unsafe extern "C" {
    fn BIO_get_new_index() -> c_int;
    fn BIO_meth_set_ctrl(
        method: *mut sys::BIO_METHOD,
        ctrl: extern "C" fn(*mut sys::BIO, c_int, c_long, *mut c_void) -> c_long,
    ) -> c_int;
    fn BIO_meth_set_write(
        method: *mut sys::BIO_METHOD,
        write: extern "C-unwind" fn(*mut sys::BIO, *const c_char, c_int) -> c_int,
    ) -> c_int;
    fn BIO_set_init(bio: *mut sys::BIO, is_so: c_int);
    fn EVP_KDF_fetch(ctx: *mut c_void, name: *const c_char, query: *const c_char) -> *mut c_void;
    fn EVP_KDF_free(kdf: *mut c_void);
    fn EVP_KDF_get0_provider(kdf: *const c_void) -> *mut c_void;
    fn EVP_MD_fetch(ctx: *mut c_void, name: *const c_char, query: *const c_char) -> *mut c_void;
    fn EVP_MD_free(digest: *mut c_void);
    fn EVP_set_default_properties(ctx: *mut c_void, properties: *const c_char) -> c_int;
    fn OSSL_LIB_CTX_free(ctx: *mut c_void);
    fn OSSL_LIB_CTX_new() -> *mut c_void;
    fn OSSL_LIB_CTX_set0_default(ctx: *mut c_void) -> *mut c_void;
    fn OSSL_PROVIDER_get0_name(provider: *const c_void) -> *const c_char;
    fn OSSL_PROVIDER_load(ctx: *mut c_void, name: *const c_char) -> *mut c_void;
    fn OSSL_PROVIDER_unload(provider: *mut c_void) -> c_int;
}

/// A lock of pthreads, and how often it was taken.
struct Counted {
    name: &'static CStr,
    next: AtomicPtr<c_void>,
    times: AtomicUsize,
}

impl Counted {
    const fn new(name: &'static CStr) -> Self {
        Self { name, next: AtomicPtr::new(ptr::null_mut()), times: AtomicUsize::new(0) }
    }

    fn take(&self, lock: *mut c_void) -> c_int {
        self.times.fetch_add(1, Ordering::Relaxed);
        let mut next = self.next.load(Ordering::Relaxed);
        if next.is_null() {
            // SAFETY: a C string; looking up a symbol has no precondition.
            next = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.next.store(next, Ordering::Relaxed);
        }
        // SAFETY: libc's function of this name has this signature.
        let next = unsafe {
            std::mem::transmute::<*mut c_void, extern "C" fn(*mut c_void) -> c_int>(next)
        };
        next(lock)
    }
}

static READERS: Counted = Counted::new(c"pthread_rwlock_rdlock");
static WRITERS: Counted = Counted::new(c"pthread_rwlock_wrlock");

#[unsafe(no_mangle)]
extern "C" fn pthread_rwlock_rdlock(lock: *mut c_void) -> c_int {
    READERS.take(lock)
}

#[unsafe(no_mangle)]
extern "C" fn pthread_rwlock_wrlock(lock: *mut c_void) -> c_int {
    WRITERS.take(lock)
}

/// Reader and writer locks that `work` takes.
fn locks_of<T>(work: impl FnOnce() -> T) -> (usize, usize) {
    let taken = || (READERS.times.load(Ordering::Relaxed), WRITERS.times.load(Ordering::Relaxed));
    let before = taken();
    work();
    let after = taken();
    (after.0 - before.0, after.1 - before.1)
}

/// Reader locks that the server's part may take. OpenSSL 3.0 takes some 300 by itself, and 30 of
/// writers, 3.5 some 120 and none.
///
/// Debian's from 3.5 on and all of Ubuntu's are linked so that libcrypto's own calls do not come by
/// us: only libssl's are answered with what is kept.
fn readers_max() -> usize {
    match openssl::version::number() {
        // Where operations cannot be batched, the default provider does more of it.
        _ if !has_lanes() => 120,
        // 54 with 3.5, 67 with 3.6.
        0x3050_0000.. => 70,
        // 154 with 3.0.13.
        _ if is_ubuntu() => 160,
        _ => 50,
    }
}

fn is_ubuntu() -> bool {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    release.lines().any(|line| line == "ID=ubuntu")
}

/// The server's part of a handshake of TLS 1.3, up to where it waits for the client, on an event
/// loop or at once; reader and writer locks that it took.
fn handshake(context: &SslContext, epoll: Option<&Epoll>) -> (usize, usize) {
    let (mut connection, _client) = Connection::with_client(context);
    let hello = std::fs::read(file("hello-of-1.3")).expect("captured");
    connection.client.write_all(&hello).expect("room");
    if let Some(epoll) = epoll {
        epoll.add(connection.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
    }
    let locks = locks_of(|| {
        assert_eq!(connection.handshake(), -1);
        while connection.sent() == 0 {
            epoll.expect("what does not park is done at once").wait(1000);
            assert_eq!(connection.handshake(), -1);
        }
    });
    connection.free();
    locks
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_locks() {
    let (context, epoll) = (quick_context(), Epoll::new());
    let first = handshake(&context, Some(&epoll));
    handshake(&context, Some(&epoll));
    let (readers, writers) = handshake(&context, Some(&epoll));
    assert!(readers <= readers_max(), "{readers} reader locks");
    assert!(writers <= 20, "{writers} writer locks");
    assert!(first.0 > readers, "what was looked up is kept: {first:?}");
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_locks_without_an_event_loop() {
    let first = locks_of(quick_context);
    locks_of(quick_context);
    let again = locks_of(quick_context);
    // Most of what is left are algorithms that nobody has. OpenSSL 3.0 with two providers takes
    // 16,900 by itself, most of them to read the key.
    assert!(again.0 <= 6_000, "{again:?}");
    assert!(first.0 > again.0, "what was looked up is kept: {first:?}");
    let context = quick_context();
    handshake(&context, None);
    handshake(&context, None);
    let (readers, writers) = handshake(&context, None);
    assert!(readers <= readers_max(), "{readers} reader locks");
    assert!(writers <= 20, "{writers} writer locks");
}

/// Whether the default context has a digest of this name.
fn has_digest(name: &CStr) -> bool {
    // SAFETY: the default context, and C strings.
    let digest = unsafe { EVP_MD_fetch(ptr::null_mut(), name.as_ptr(), ptr::null()) };
    // SAFETY: null, or fetched above.
    unsafe { EVP_MD_free(digest) };
    !digest.is_null()
}

/// The provider that the key schedule of TLS 1.3 comes from.
fn provider_of_kdf() -> Option<String> {
    // SAFETY: the default context, and C strings.
    let kdf = unsafe { EVP_KDF_fetch(ptr::null_mut(), c"TLS13-KDF".as_ptr(), ptr::null()) };
    if kdf.is_null() {
        return None;
    }
    // SAFETY: fetched above.
    let provider = unsafe { EVP_KDF_get0_provider(kdf) };
    // SAFETY: the provider of what was fetched.
    let name = unsafe { OSSL_PROVIDER_get0_name(provider) };
    // SAFETY: a C string.
    let name = unsafe { CStr::from_ptr(name) }.to_str().expect("text").to_owned();
    // SAFETY: fetched above.
    unsafe { EVP_KDF_free(kdf) };
    Some(name)
}

fn set_properties(properties: &CStr) {
    // SAFETY: the default context and a C string.
    assert_eq!(unsafe { EVP_set_default_properties(ptr::null_mut(), properties.as_ptr()) }, 1);
}

/// Changes everything while a handshake is under way, and undoes it.
fn change_and_look() {
    for _ in 0..2 {
        assert!(has_digest(c"SHA2-256") && !has_digest(c"no such digest"));
        assert_eq!(provider_of_kdf().as_deref(), Some("widelane"));
    }
    set_properties(c"provider=default");
    assert_eq!(provider_of_kdf().as_deref(), Some("default"));
    set_properties(c"provider=absent");
    assert!(!has_digest(c"SHA2-256"));
    assert_eq!(provider_of_kdf(), None);
    set_properties(c"");
    assert!(has_digest(c"SHA2-256"));
    assert_eq!(provider_of_kdf().as_deref(), Some("widelane"));

    assert!(!has_digest(c"MD4"));
    // SAFETY: the default context and a C string.
    let legacy = unsafe { OSSL_PROVIDER_load(ptr::null_mut(), c"legacy".as_ptr()) };
    assert!(!legacy.is_null(), "OpenSSL's legacy provider");
    assert!(has_digest(c"MD4") && has_digest(c"MD4"));
    // SAFETY: loaded above.
    assert_eq!(unsafe { OSSL_PROVIDER_unload(legacy) }, 1);
    assert!(!has_digest(c"MD4"));

    // SAFETY: a context without our provider.
    let other = unsafe { OSSL_LIB_CTX_new() };
    // SAFETY: made above.
    let before = unsafe { OSSL_LIB_CTX_set0_default(other) };
    assert_eq!(provider_of_kdf().as_deref(), Some("default"));
    // Nothing of it is kept, since it may be freed at any time.
    for _ in 0..3 {
        let (readers, _) = locks_of(|| has_digest(c"SHA2-256"));
        assert!(readers > 0, "libcrypto looks it up each time");
    }
    // SAFETY: the one that was this thread's.
    unsafe { OSSL_LIB_CTX_set0_default(before) };
    assert_eq!(provider_of_kdf().as_deref(), Some("widelane"));
    // SAFETY: made above, and nothing of it is left.
    unsafe { OSSL_LIB_CTX_free(other) };
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_changes() {
    static LOOKED: AtomicUsize = AtomicUsize::new(0);
    let context = rare_context_with(|| {
        change_and_look();
        LOOKED.fetch_add(1, Ordering::Relaxed);
        ClientHelloResponse::SUCCESS
    });
    let epoll = Epoll::new();
    for count in 1..=2 {
        handshake(&context, Some(&epoll));
        assert_eq!(LOOKED.load(Ordering::Relaxed), count);
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_used_before() {
    assert_eq!(provider_of_kdf().as_deref(), Some("default"));
    let _context = context();
    assert_eq!(provider_of_kdf().as_deref(), Some("widelane"));
}

/// libssl's own, which a callback may leave.
mod left {
    use super::{c_int, sys};

    unsafe extern "C-unwind" {
        pub fn SSL_do_handshake(ssl: *mut sys::SSL) -> c_int;
    }
}

extern "C" fn create(bio: *mut sys::BIO) -> c_int {
    // SAFETY: a BIO that is being made.
    unsafe { BIO_set_init(bio, 1) };
    1
}

/// OpenSSL 3.0.2 writes nothing to a BIO that cannot be asked anything.
extern "C" fn control(_: *mut sys::BIO, _command: c_int, _: c_long, _: *mut c_void) -> c_long {
    1
}

extern "C-unwind" fn throw(_bio: *mut sys::BIO, _data: *const c_char, _bytes: c_int) -> c_int {
    panic!("a callback that throws")
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_thrown() {
    // Makes this process a server, and the thread one with an event loop.
    let (_context, epoll) = (context(), Epoll::new());
    let locks = || locks_of(|| has_digest(c"SHA2-256"));
    has_digest(c"SHA2-256");
    let natively = locks();
    assert!(natively.0 > 0);
    // SAFETY: no precondition.
    let index = unsafe { BIO_get_new_index() };
    // SAFETY: a C string that lives as long as the program; the table is never freed.
    let kind = unsafe { sys::BIO_meth_new(index, c"throws".as_ptr()) };
    // SAFETY: a function of this signature.
    unsafe { sys::BIO_meth_set_create__fixed_rust(kind, Some(create)) };
    // SAFETY: a function of this signature.
    unsafe { BIO_meth_set_ctrl(kind, control) };
    // SAFETY: a function of this signature, but that it throws.
    unsafe { BIO_meth_set_write(kind, throw) };
    let client = SslContext::builder(SslMethod::tls()).expect("OpenSSL").build();
    let ssl = new_ssl(&client);
    // SAFETY: a live SSL.
    unsafe { sys::SSL_set_connect_state(ssl) };
    // SAFETY: a table made above.
    let bio = unsafe { sys::BIO_new(kind) };
    // SAFETY: the SSL takes the BIO for both directions.
    unsafe { sys::SSL_set_bio(ssl, bio, bio) };
    // SAFETY: a live SSL, which nobody uses any more.
    std::panic::catch_unwind(|| unsafe { left::SSL_do_handshake(ssl) }).expect_err("thrown");
    assert_eq!(epoll.wait(0), None);
    assert_eq!([(), ()].map(|()| locks()), [natively; 2]);
}
