//! The hook tables by which provider and runtime find each other.
//!
//! At start the provider looks up [`ATTACH_SYMBOL`] in the global scope. If it is there, the
//! process runs under `widelane run`: the provider hands over a [`ProviderHooks`] and receives
//! [`RuntimeHooks`].
//!
//! The course of one private-key operation on a server's event loop:
//!
//! 1. The runtime's `SSL_do_handshake` calls libssl on a fibre of its own (256 KiB with a guard
//!    page: OpenSSL's ASYNC fibres are 32 KiB of heap, too little for a server's callbacks, and
//!    unguarded). There is no OpenSSL ASYNC job: `ASYNC_get_current_job` returns null.
//! 2. The provider's sign operation asks [`RuntimeHooks::current`]; a non-null answer means it may
//!    park: it queues its request with that handle on this thread's lanes and calls
//!    [`RuntimeHooks::pause`] until the request is finished or cancelled, but not for ever.
//! 3. Back on the thread's own stack the runtime asks [`ProviderHooks::full`]; if lanes are full it
//!    calls [`ProviderHooks::execute`]. Otherwise the call returns that it is to be repeated later.
//! 4. When the server is about to sleep in `epoll_wait`, the runtime asks
//!    [`ProviderHooks::wait_ns`] whether company is worth a short wait, and then calls
//!    [`ProviderHooks::execute`]. While it waits, another worker may do the operation; then
//!    [`ProviderHooks::wake_descriptor`] wakes it.
//! 5. For each finished request the provider calls [`RuntimeHooks::completed`] with its handle; the
//!    runtime wakes the connection, the server calls `SSL_do_handshake` again, and that resumes the
//!    fibre.
//! 6. A connection freed while parked: the runtime calls [`ProviderHooks::cancel`], then resumes
//!    the fibre once, off the wire, so that it runs to its end. In a process that forked meanwhile
//!    the request may be gone; then the fibre is dropped with its stack.
#![allow(unsafe_code, reason = "types of functions that are called through C")]

use core::ffi::{c_char, c_int, c_void};

use crate::counters::Counters;

/// Version of both tables; each side refuses another one.
pub const HOOKS_VERSION: u32 = 11;

/// Name of the symbol that the runtime exports, of type [`Attach`].
pub const ATTACH_SYMBOL: &core::ffi::CStr = c"widelane_runtime_attach";

/// Hands the provider's table to the runtime and returns the runtime's, or null if the versions
/// differ.
pub type Attach = unsafe extern "C" fn(*const ProviderHooks) -> *const RuntimeHooks;

/// Name of the symbol that the provider exports, of type [`Prepare`].
pub const PREPARE_SYMBOL: &core::ffi::CStr = c"widelane_provider_prepare";

/// Has a loaded provider read its policy and open the counters of this process, while their files
/// can be found.
pub type Prepare = unsafe extern "C" fn() -> c_int;

/// Name of the symbol that the runtime exports, of type [`Variable`].
pub const VARIABLE_SYMBOL: &core::ffi::CStr = c"widelane_runtime_variable";

/// The value that a variable of the environment had when the program started, if its name begins
/// with `WIDELANE_`; null if there was none. Some servers clear their environment before they begin
/// with TLS (Exim does).
pub type Variable = unsafe extern "C" fn(name: *const c_char) -> *const c_char;

/// Which of a thread's parked requests are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Extent {
    /// Whole batches only.
    Whole = 0,
    /// Whole batches, and requests that are not to wait for company any longer.
    Due = 1,
    /// All requests but those that another worker, the lane process or a device is about to finish.
    All = 2,
    /// All requests, those included that something else is about to finish.
    Everything = 3,
}

/// What the provider offers the runtime. All act on the calling thread's lanes only.
#[repr(C)]
pub struct ProviderHooks {
    /// [`HOOKS_VERSION`].
    pub version: u32,
    /// Makes what the provider keeps for the calling thread. The runtime calls it before the thread
    /// first waits, when memory is not short yet: the C library ends a process in which it finds
    /// none for a variable of a thread.
    pub begin_thread: extern "C" fn(),
    /// The program is about to make a thread. What takes a process with a single one is started
    /// now.
    pub before_threads: extern "C" fn(),
    /// The calling thread begins to run a handshake's fibre, or has left it: what the provider
    /// keeps meanwhile of the handshake's secrets is wiped.
    pub fibre: extern "C" fn(is_begun: bool),
    /// Whether a whole batch is parked on this thread.
    pub full: extern "C" fn() -> bool,
    /// Executes parked requests on the caller's stack, of which it needs up to 256 KiB.
    pub execute: extern "C" fn(what: Extent),
    /// How long, in ns, the calling thread should wait for company of what is parked, if it has
    /// nothing else to do; 0 if something is [due](Extent::Due). `begins` says that it does.
    pub wait_ns: extern "C" fn(begins: bool) -> u64,
    /// The descriptor that becomes readable when another worker has finished what the calling
    /// thread waits for, −1 if there is none. It is for epoll, edge-triggered, and never read.
    pub wake_descriptor: extern "C" fn() -> c_int,
    /// The program makes a configuration of TLS: workers that it forks then do no operations
    /// together with those that it has forked before.
    pub configures: extern "C" fn(),
    /// Whether RSA keys that are loaded before the program forks are to be made known to the
    /// provider then, and not by the worker that first signs with them.
    pub wants_keys: extern "C" fn() -> bool,
    /// Withdraws the request of handshake `h`, done or not; its fibre will see a failed operation
    /// when resumed.
    pub cancel: extern "C" fn(h: *mut c_void),
    /// Whether an EC key of these parameters, an array of `OSSL_PARAM` that ends with a null name,
    /// loses nothing where the provider holds it alone.
    pub keeps_key: extern "C" fn(parameters: *const c_void) -> bool,
    /// Whether the process is switched off: the runtime then begins nothing of its own.
    pub is_off: extern "C" fn() -> bool,
    /// The counters of the calling thread.
    pub counters: extern "C" fn() -> *const Counters,
}

/// What the runtime offers the provider.
#[repr(C)]
pub struct RuntimeHooks {
    /// [`HOOKS_VERSION`].
    pub version: u32,
    /// The handshake that the runtime is driving on this thread now, or null if the caller may not
    /// park: not on one of our fibres, or called by a callback of the program instead of by libssl
    /// itself.
    pub current: extern "C" fn() -> *mut c_void,
    /// Suspends the fibre of the current handshake; returns when the runtime resumes it, which may
    /// be before its request is finished. Does nothing where [`RuntimeHooks::current`] is null.
    pub pause: extern "C" fn(),
    /// Whether handshake `h` may be made to wait for company, which it may once: its later requests
    /// go with what is there.
    pub may_wait: extern "C" fn(h: *mut c_void) -> bool,
    /// The round-trip time to the peer of handshake `h`, in ns, as TCP has measured it; 0 where it
    /// is not known: its connection is no TCP, or hides its socket.
    pub round_trip_ns: extern "C" fn(h: *mut c_void) -> u64,
    /// Notifies the runtime that the request parked for `h` is finished: its fibre can be resumed.
    pub completed: extern "C" fn(h: *mut c_void),
}
