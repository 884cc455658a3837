//! How the owner of an ASYNC job learns that it can go on: its callback, or a descriptor.
#![allow(unsafe_code, reason = "calls libcrypto and the program's callback")]

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use widelane_ossl_sys::core::{AsyncJob, AsyncWaitCtx};
use widelane_ossl_sys::{AsyncCallback, Libcrypto};
use widelane_reserve::uncancelled;

use crate::batching::request::{Answer, Request};
use crate::entry::{entry, lend, share, take_back};
use crate::params::address;
use crate::process;

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
    /// The process in which it was made.
    process: u64,
    /// An eventfd, from when an owner without a callback has to wait.
    event: OnceLock<File>,
    state: Mutex<State>,
    /// A thread has returned from the callback.
    returned: Condvar,
    /// The wait context knows this entry.
    entered: AtomicBool,
}

struct State {
    /// The wait context still exists.
    open: bool,
    /// Threads that are in its callback, for which it has to exist.
    callers: Vec<libc::pthread_t>,
}

impl Signal {
    /// How the owner of `job` wants to learn that it can go on; nothing if there is no way.
    pub(super) fn of(libcrypto: &Libcrypto, job: NonNull<AsyncJob>) -> Option<Self> {
        let context = wait_context(libcrypto, job)?;
        let line = Line::find(libcrypto, context).unwrap_or_else(|| Arc::new(Line::new()));
        Some(Signal { line, callback: Callback::of(libcrypto, context) })
    }

    /// Gets ready for a pause of the job that waits for `request`; false if its owner could not
    /// learn of its end.
    ///
    /// Before the first pause the wait context gets a descriptor, and not any earlier: HAProxy
    /// assumes that it knows every descriptor there, and learns of new ones when a job pauses.
    pub(super) fn prepare(
        &self,
        libcrypto: &Libcrypto,
        job: NonNull<AsyncJob>,
        request: &Request,
    ) -> bool {
        let entered = self.line.entered.load(Ordering::Relaxed);
        if self.callback.is_none() && self.line.event.get().is_none() {
            if entered {
                // By a job that had a callback: our entry has no descriptor, and gets none later.
                return false;
            }
            let Some(event) = new_event() else { return false };
            // A request that was finished while there was no event yet is reported now.
            let answer = request.answer();
            if answer.is_some() {
                raise(&event);
            }
            // Error: cannot be, since only the job's own thread prepares.
            let _ = self.line.event.set(event);
        }
        entered || self.line.enter(libcrypto, job)
    }

    /// Whether the job's owner still exists.
    pub(super) fn is_wanted(&self) -> bool {
        self.line.state().open
    }

    /// Stores the answer and notifies the owner.
    pub(super) fn deliver(&self, request: &Request, answer: Answer) {
        let Some(callback) = self.callback else {
            // Under one lock: a thread that sees the answer can take the event back.
            let mut place = request.answer();
            *place = Some(answer);
            if let Some(event) = self.line.event.get() {
                raise(event);
            }
            return;
        };
        *request.answer() = Some(answer);
        // Not under the lock: the callback may free the wait context, or wait for a thread that
        // asks whether this job is wanted.
        if let Some(caller) = self.line.enter_callback() {
            // SAFETY: the wait context exists, so the program expects its callback.
            unsafe { (callback.function)(callback.argument) };
            self.line.leave_callback(caller);
        }
    }

    /// The owner has learnt it: takes the event back.
    pub(super) fn acknowledge(&self) {
        if let (None, Some(mut event)) = (self.callback, self.line.event.get()) {
            // Error: the event was taken back already.
            let _ = uncancelled(|| event.read(&mut [0; 8]));
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

fn this_thread() -> libc::pthread_t {
    // SAFETY: concerns the calling thread.
    unsafe { libc::pthread_self() }
}

impl Line {
    fn new() -> Self {
        Line {
            process: process::identity(),
            event: OnceLock::new(),
            state: Mutex::new(State { open: true, callers: Vec::new() }),
            returned: Condvar::new(),
            entered: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread is about to call the callback; nothing if the wait context is freed.
    fn enter_callback(&self) -> Option<libc::pthread_t> {
        let (this, mut state) = (this_thread(), self.state());
        state.open.then(|| state.callers.push(this))?;
        Some(this)
    }

    fn leave_callback(&self, this: libc::pthread_t) {
        let mut state = self.state();
        if let Some(place) = state.callers.iter().position(|caller| *caller == this) {
            state.callers.swap_remove(place);
        }
        // Only who frees the wait context waits.
        if !state.open {
            self.returned.notify_all();
        }
    }

    /// Whether it was made in this process. The helper of a parent may have held the lock of one
    /// that was inherited, and the parent's threads never return from its callback here.
    fn is_of_this_process(&self) -> bool {
        self.process == process::identity()
    }

    /// The wait context is being freed: waits until other threads have left its callback.
    fn close(&self) {
        if !self.is_of_this_process() {
            return;
        }
        let (this, mut state) = (this_thread(), self.state());
        state.open = false;
        let is_called = |state: &mut State| state.callers.iter().any(|caller| *caller != this);
        drop(self.returned.wait_while(state, is_called));
    }

    fn find(libcrypto: &Libcrypto, context: NonNull<AsyncWaitCtx>) -> Option<Arc<Self>> {
        let (mut fd, mut line) = (0, ptr::null_mut());
        let get = libcrypto.ASYNC_WAIT_CTX_get_fd;
        // SAFETY: the context is the running job's.
        let found = unsafe { get(context.as_ptr(), address(&NAME), &mut fd, &mut line) > 0 };
        if !found {
            return None;
        }
        // SAFETY: what stands under our name was lent by `enter`.
        unsafe { share(line) }.filter(|line: &Arc<Self>| line.is_of_this_process())
    }

    fn enter(self: &Arc<Self>, libcrypto: &Libcrypto, job: NonNull<AsyncJob>) -> bool {
        let Some(context) = wait_context(libcrypto, job) else { return false };
        let fd = self.event.get().map_or(NO_DESCRIPTOR, AsRawFd::as_raw_fd);
        let lent = lend(Arc::clone(self));
        let set = libcrypto.ASYNC_WAIT_CTX_set_wait_fd;
        // SAFETY: the context is the running job's; `close` takes back what is lent.
        let done = unsafe { set(context.as_ptr(), address(&NAME), fd, lent, Some(close)) > 0 };
        if !done {
            // SAFETY: lent above, and not taken.
            drop(unsafe { take_back::<Line>(lent) });
        }
        self.entered.store(done, Ordering::Relaxed);
        done
    }
}

entry! {
    /// The wait context is being freed.
    fn close(_context: *mut AsyncWaitCtx, _name: *const c_void, _fd: c_int, line: *mut c_void) {
        // SAFETY: lent by `enter`, ended once.
        unsafe { take_back::<Line>(line) }?.close();
        Some(())
    }
}

fn wait_context(libcrypto: &Libcrypto, job: NonNull<AsyncJob>) -> Option<NonNull<AsyncWaitCtx>> {
    // SAFETY: the job is running.
    NonNull::new(unsafe { (libcrypto.ASYNC_get_wait_ctx)(job.as_ptr()) })
}

fn raise(mut event: &File) {
    // Error: the counter is at its limit, so the descriptor is readable.
    let _ = uncancelled(|| event.write(&1_u64.to_ne_bytes()));
}

fn new_event() -> Option<File> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok().map(File::from)
}

/// Its address is the name of our entry in wait contexts.
static NAME: u8 = 0;

/// `OSSL_BAD_ASYNC_FD`.
const NO_DESCRIPTOR: c_int = -1;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::batching::execute::new_key;
    use crate::entry::borrow;
    use crate::rsa::batch::PrivateOperation;

    type Body = Box<dyn Fn() + Send + Sync>;

    /// Calls the body that the argument points to.
    unsafe extern "C" fn call(body: *mut c_void) -> c_int {
        // SAFETY: `signal` passes a body.
        unsafe { borrow::<Body>(body) }.expect("a body")();
        1
    }

    /// A signal by a callback, and the line as the wait context has it.
    fn signal(body: impl FnOnce(Arc<Line>) -> Body) -> Signal {
        let line = Arc::new(Line::new());
        let argument = Box::into_raw(Box::new(body(Arc::clone(&line)))).cast();
        Signal { line, callback: Some(Callback { function: call, argument }) }
    }

    /// Delivers an answer, which has to be done soon.
    fn deliver(signal: &Signal) {
        let signal = signal.clone();
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            // A library context is freed by the thread that has used it.
            let (key, input) = (new_key(), vec![1; 256].into());
            let operation = PrivateOperation { key, input, is_signature: true };
            signal.deliver(&Request::new(operation), Answer::Cancelled);
            done.send(()).expect("somebody waits");
        });
        is_done.recv_timeout(Duration::from_secs(60)).expect("delivered");
    }

    #[test]
    fn a_callback_may_free_its_wait_context() {
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let signal = signal(|line| {
            Box::new(move || {
                CALLS.fetch_add(1, Ordering::SeqCst);
                line.close();
            })
        });
        (0..2).for_each(|_| deliver(&signal));
        assert!(!signal.is_wanted());
        assert_eq!(CALLS.load(Ordering::SeqCst), 1, "a freed wait context has no callback");
    }

    #[test]
    fn a_callback_may_wait_for_a_thread_that_asks_for_its_job() {
        let signal = signal(|line| {
            Box::new(move || {
                let signal = Signal { line: Arc::clone(&line), callback: None };
                assert!(thread::spawn(move || signal.is_wanted()).join().expect("asked"));
            })
        });
        deliver(&signal);
    }

    #[test]
    fn freeing_a_wait_context_waits_until_its_callback_has_returned() {
        static IS_FREED: AtomicBool = AtomicBool::new(false);
        static WAS_FREED_EARLY: AtomicBool = AtomicBool::new(false);
        let signal = signal(|line| {
            Box::new(move || {
                let line = Arc::clone(&line);
                let (begins, has_begun) = mpsc::channel();
                thread::spawn(move || {
                    begins.send(()).expect("somebody waits");
                    line.close();
                    IS_FREED.store(true, Ordering::SeqCst);
                });
                has_begun.recv().expect("a thread that frees");
                thread::sleep(Duration::from_millis(50));
                WAS_FREED_EARLY.store(IS_FREED.load(Ordering::SeqCst), Ordering::SeqCst);
            })
        });
        deliver(&signal);
        assert!(!WAS_FREED_EARLY.load(Ordering::SeqCst));
        let deadline = Instant::now() + Duration::from_secs(60);
        while !IS_FREED.load(Ordering::SeqCst) {
            assert!(Instant::now() < deadline, "it goes on waiting");
            thread::yield_now();
        }
    }
}
