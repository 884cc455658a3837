//! How the owner of an ASYNC job learns that it can go on: its callback, or a descriptor.
#![allow(unsafe_code, reason = "calls libcrypto and the program's callback")]

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use widelane_ossl_sys::core::{AsyncJob, AsyncWaitCtx};
use widelane_ossl_sys::{AsyncCallback, Libcrypto};

use crate::batching::request::{Answer, Request};
use crate::entry::{entry, lend, share, take_back};
use crate::params::address;

/// How the owner of an ASYNC job learns that it can go on.
#[derive(Clone)]
pub(super) struct Signal {
    line: Arc<Line>,
    callback: Option<Callback>,
}

/// The callback that the program has set.
#[derive(Clone, Copy)]
struct Callback {
    function: AsyncCallback,
    argument: *mut c_void,
}

// SAFETY: a callback is set to be called from another thread than the job's.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl Sync for Callback {}

/// Our entry in a wait context. It is made once for each, and ends with it.
struct Line {
    /// An eventfd, unless the program had set a callback when the line was made.
    event: Option<File>,
    /// The wait context still exists. Held while its callback is called, so that it exists for that
    /// long.
    open: Mutex<bool>,
}

impl Signal {
    /// How the owner of `job` wants to learn that it can go on; nothing if there is no way.
    pub(super) fn of(libcrypto: &Libcrypto, job: NonNull<AsyncJob>) -> Option<Self> {
        // SAFETY: the job is running.
        let context = NonNull::new(unsafe { (libcrypto.ASYNC_get_wait_ctx)(job.as_ptr()) })?;
        let callback = Callback::of(libcrypto, context);
        let line = match Line::find(libcrypto, context) {
            Some(line) => line,
            None => Line::open(libcrypto, context, callback.is_none())?,
        };
        (callback.is_some() || line.event.is_some()).then_some(Signal { line, callback })
    }

    /// Whether the job's owner still exists.
    pub(super) fn is_wanted(&self) -> bool {
        *self.line.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the answer and tells the owner.
    pub(super) fn deliver(&self, request: &Request, answer: Answer) {
        let Some(callback) = self.callback else {
            // Under one lock: who sees the answer can take the event back.
            let mut place = request.answer();
            *place = Some(answer);
            if let Some(mut event) = self.line.event.as_ref() {
                // Error: the counter is at its limit, so the descriptor is readable.
                let _ = event.write(&1_u64.to_ne_bytes());
            }
            return;
        };
        *request.answer() = Some(answer);
        let open = self.line.open.lock().unwrap_or_else(PoisonError::into_inner);
        if *open {
            // SAFETY: the wait context exists, so the program expects its callback.
            unsafe { (callback.function)(callback.argument) };
        }
    }

    /// The owner has learnt it: takes the event back.
    pub(super) fn acknowledge(&self) {
        if let (None, Some(mut event)) = (self.callback, self.line.event.as_ref()) {
            // Error: the event was taken back already.
            let _ = event.read(&mut [0; 8]);
        }
    }
}

impl Callback {
    fn of(libcrypto: &Libcrypto, context: NonNull<AsyncWaitCtx>) -> Option<Self> {
        let (mut function, mut argument) = (None, ptr::null_mut());
        let get = libcrypto.ASYNC_WAIT_CTX_get_callback;
        // SAFETY: the context is the running job's.
        let set = unsafe { get(context.as_ptr(), &mut function, &mut argument) > 0 };
        set.then_some(Callback { function: function?, argument })
    }
}

impl Line {
    fn find(libcrypto: &Libcrypto, context: NonNull<AsyncWaitCtx>) -> Option<Arc<Self>> {
        let (mut fd, mut line) = (0, ptr::null_mut());
        let get = libcrypto.ASYNC_WAIT_CTX_get_fd;
        // SAFETY: the context is the running job's.
        let found = unsafe { get(context.as_ptr(), address(&NAME), &mut fd, &mut line) > 0 };
        if !found {
            return None;
        }
        // SAFETY: what stands under our name was lent by `open`.
        unsafe { share(line) }
    }

    fn open(
        libcrypto: &Libcrypto,
        context: NonNull<AsyncWaitCtx>,
        with_event: bool,
    ) -> Option<Arc<Self>> {
        let event = if with_event { Some(new_event()?) } else { None };
        let fd = event.as_ref().map_or(NO_DESCRIPTOR, AsRawFd::as_raw_fd);
        let line = Arc::new(Line { event, open: Mutex::new(true) });
        let lent = lend(Arc::clone(&line));
        let set = libcrypto.ASYNC_WAIT_CTX_set_wait_fd;
        // SAFETY: the context is the running job's; `close` takes back what is lent.
        let done = unsafe { set(context.as_ptr(), address(&NAME), fd, lent, Some(close)) > 0 };
        if !done {
            // SAFETY: lent above, and not taken.
            drop(unsafe { take_back::<Line>(lent) });
            return None;
        }
        Some(line)
    }
}

entry! {
    /// The wait context is being freed.
    fn close(_context: *mut AsyncWaitCtx, _name: *const c_void, _fd: c_int, line: *mut c_void) {
        // SAFETY: lent by `open`, ended once.
        let line = unsafe { take_back::<Line>(line) }?;
        *line.open.lock().unwrap_or_else(PoisonError::into_inner) = false;
        Some(())
    }
}

fn new_event() -> Option<File> {
    // SAFETY: makes a descriptor.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    // SAFETY: a new descriptor that nobody else has.
    (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })
}

/// Its address is the name of our entry in wait contexts.
static NAME: u8 = 0;

/// `OSSL_BAD_ASYNC_FD`.
const NO_DESCRIPTOR: c_int = -1;
