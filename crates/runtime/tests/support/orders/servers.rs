//! The threads of a simulated server. Each has an epoll set of its own, waits for it in one way or
//! another, and does what it is told.
#![allow(unsafe_code, reason = "epoll and its relatives by their C interfaces")]

use std::ffi::c_int;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::{mem, ptr, thread};

/// How a thread waits for its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Wait,
    WaitWithMask,
    /// By a duplicate of the epoll descriptor.
    Duplicate,
    /// By another epoll set, which contains its own.
    Nested,
    Poll,
    PollWithMask,
    Select,
    SelectWithMask,
    /// Without epoll, for each descriptor.
    Descriptors,
}

impl Way {
    /// Those in which a thread hears of all that its epoll set could be told.
    pub const PLAIN: [Way; 2] = [Way::Wait, Way::WaitWithMask];

    pub const ALL: [Way; 9] = [
        Way::Wait,
        Way::WaitWithMask,
        Way::Duplicate,
        Way::Nested,
        Way::Poll,
        Way::PollWithMask,
        Way::Select,
        Way::SelectWithMask,
        Way::Descriptors,
    ];
}

/// A descriptor, what is asked of it, and its data word.
#[derive(Clone, Copy, Debug)]
pub struct Interest {
    pub descriptor: c_int,
    pub events: c_int,
    pub number: u64,
}

/// One thread of the server.
pub struct Server {
    /// How it waits when nothing else was drawn.
    pub way: Way,
    sets: Sets,
    /// `None` for the thread of the test itself.
    worker: Option<Worker>,
}

impl Server {
    /// The thread of the test itself.
    pub fn own(way: Way) -> Self {
        let server = Server { way, sets: Sets::new(), worker: None };
        server.begin();
        server
    }

    /// A thread beside it.
    pub fn beside(way: Way) -> Self {
        let server = Server { way, sets: Sets::new(), worker: Some(Worker::new()) };
        server.begin();
        server
    }

    /// Sleeps once, so that the thread is known as one that does.
    fn begin(&self) {
        self.wait(Way::Wait, 1, 1, &[]);
    }

    /// Has the thread do something, and waits until it is done.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        match &self.worker {
            None => work(),
            Some(worker) => worker.run(work),
        }
    }

    /// The data words of `interests` and of what is registered that are ready within `timeout`
    /// milliseconds.
    pub fn wait(&self, way: Way, room: usize, timeout: c_int, interests: &[Interest]) -> Vec<u64> {
        let (sets, interests) = (self.sets, interests.to_owned());
        self.run(move || sets.wait(way, room, timeout, &interests))
    }

    /// Changes what is registered; nothing where the thread looks at descriptors itself.
    pub fn control(&self, operation: c_int, interest: Interest) {
        if self.way == Way::Descriptors {
            return;
        }
        let events = interest.events.cast_unsigned();
        let mut event = libc::epoll_event { events, u64: interest.number };
        let set = self.sets.own;
        // SAFETY: the kernel reads the event during the call.
        let done = unsafe { libc::epoll_ctl(set, operation, interest.descriptor, &mut event) };
        assert_eq!(done, 0);
    }

    pub fn is_beside(&self) -> bool {
        self.worker.is_some()
    }

    /// Whether the thread can be told something.
    pub fn is_awake(&self) -> bool {
        self.worker.as_ref().is_none_or(|worker| worker.blocked.is_none())
    }

    /// Ends the thread; another takes its place.
    pub fn replace(&mut self) {
        *self = Server::beside(self.way);
    }

    /// Has the thread wait for a connection that comes when the order is over.
    pub fn block(&mut self) {
        if let Some(worker) = &mut self.worker {
            worker.block();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A thread that ends may still use its set.
        self.worker = None;
        let Sets { own, duplicate, outer } = self.sets;
        for set in [own, duplicate, outer] {
            // SAFETY: made by `Sets::new`, closed once.
            unsafe { libc::close(set) };
        }
    }
}

/// The descriptors by which a thread waits.
#[derive(Clone, Copy)]
struct Sets {
    own: c_int,
    duplicate: c_int,
    outer: c_int,
}

/// Events that a thread takes at most.
pub const ROOM: usize = 8;

impl Sets {
    fn new() -> Self {
        // SAFETY: makes a descriptor.
        let own = unsafe { libc::epoll_create1(0) };
        // SAFETY: as above.
        let duplicate = unsafe { libc::dup(own) };
        // SAFETY: as above.
        let outer = unsafe { libc::epoll_create1(0) };
        let mut event = libc::epoll_event { events: libc::EPOLLIN.cast_unsigned(), u64: 0 };
        // SAFETY: the kernel reads the event during the call.
        let done = unsafe { libc::epoll_ctl(outer, libc::EPOLL_CTL_ADD, own, &mut event) };
        assert_eq!(done, 0);
        Sets { own, duplicate, outer }
    }

    fn wait(self, way: Way, room: usize, timeout: c_int, interests: &[Interest]) -> Vec<u64> {
        let is_ready = match way {
            Way::Wait => return take(self.own, room, timeout),
            Way::WaitWithMask => return take_with_mask(self.own, room, timeout),
            Way::Duplicate => return take(self.duplicate, room, timeout),
            Way::Descriptors => return poll_all(interests, timeout),
            Way::Nested => !take(self.outer, 1, timeout).is_empty(),
            Way::Poll | Way::PollWithMask => poll(self.own, way == Way::PollWithMask, timeout),
            Way::Select | Way::SelectWithMask => {
                select(self.own, way == Way::SelectWithMask, timeout)
            }
        };
        if is_ready { take(self.own, room, 0) } else { Vec::new() }
    }
}

fn take(set: c_int, room: usize, timeout: c_int) -> Vec<u64> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; ROOM];
    // SAFETY: there is room for as many.
    let count = unsafe { libc::epoll_wait(set, events.as_mut_ptr(), room as c_int, timeout) };
    numbers(&events, count)
}

fn take_with_mask(set: c_int, room: usize, timeout: c_int) -> Vec<u64> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; ROOM];
    let (place, room, mask) = (events.as_mut_ptr(), room as c_int, ptr::null());
    // SAFETY: there is room for as many; no mask.
    let count = unsafe { libc::epoll_pwait(set, place, room, timeout, mask) };
    numbers(&events, count)
}

/// A signal ends a wait early.
fn numbers(events: &[libc::epoll_event], count: c_int) -> Vec<u64> {
    events[..usize::try_from(count).unwrap_or(0)].iter().map(|event| event.u64).collect()
}

fn poll(set: c_int, has_mask: bool, timeout: c_int) -> bool {
    let mut question = libc::pollfd { fd: set, events: libc::POLLIN, revents: 0 };
    let time = timespec(timeout);
    match has_mask {
        // SAFETY: one entry.
        false => unsafe { libc::poll(&mut question, 1, timeout) == 1 },
        // SAFETY: one entry, and no mask.
        true => unsafe { libc::ppoll(&mut question, 1, &time, ptr::null()) == 1 },
    }
}

fn select(set: c_int, has_mask: bool, timeout: c_int) -> bool {
    // SAFETY: a set of bits.
    let mut read: libc::fd_set = unsafe { mem::zeroed() };
    // SAFETY: tests have few descriptors.
    unsafe { libc::FD_SET(set, &mut read) };
    let (none, time) = (ptr::null_mut(), timespec(timeout));
    let count = if has_mask {
        // SAFETY: sets of bits or none; no mask.
        unsafe { libc::pselect(set + 1, &mut read, none, none, &time, ptr::null()) }
    } else {
        let mut time = libc::timeval { tv_sec: 0, tv_usec: i64::from(timeout) * 1_000 };
        // SAFETY: sets of bits or none.
        unsafe { libc::select(set + 1, &mut read, none, none, &mut time) }
    };
    count == 1
}

fn timespec(milliseconds: c_int) -> libc::timespec {
    libc::timespec { tv_sec: 0, tv_nsec: i64::from(milliseconds) * 1_000_000 }
}

/// Looks at each descriptor, as programs do that have no epoll set.
fn poll_all(interests: &[Interest], timeout: c_int) -> Vec<u64> {
    let both = libc::POLLIN | libc::POLLOUT;
    let question = |interest: &Interest| libc::pollfd {
        fd: interest.descriptor,
        events: interest.events as i16 & both,
        revents: 0,
    };
    let mut questions: Vec<_> = interests.iter().map(question).collect();
    // SAFETY: as many entries.
    unsafe { libc::poll(questions.as_mut_ptr(), questions.len() as libc::nfds_t, timeout) };
    let ready = interests.iter().zip(&questions).filter(|(_, answer)| answer.revents != 0);
    ready.map(|(interest, _)| interest.number).collect()
}

type Work = Box<dyn FnOnce() + Send>;

/// A thread that works.
struct Worker {
    /// `None` to have it end.
    work: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
    /// Whom to call to have it go on.
    blocked: Option<SocketAddr>,
}

impl Worker {
    fn new() -> Self {
        let (work, works) = channel::<Work>();
        let thread = thread::spawn(move || works.into_iter().for_each(|work| work()));
        Worker { work: Some(work), thread: Some(thread), blocked: None }
    }

    fn begin(&self, work: impl FnOnce() + Send + 'static) {
        let sender = self.work.as_ref().expect("it works");
        sender.send(Box::new(work)).expect("it takes work until it is dropped");
    }

    fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (result, results) = channel();
        self.begin(move || drop(result.send(work())));
        results.recv().expect("the thread has not panicked")
    }

    fn block(&mut self) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        self.blocked = Some(listener.local_addr().expect("it has an address"));
        self.begin(move || drop(listener.accept()));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(address) = self.blocked {
            drop(TcpStream::connect(address));
        }
        self.work = None;
        let ended = self.thread.take().expect("it has not ended").join();
        assert!(thread::panicking() || ended.is_ok(), "a thread of the server has panicked");
    }
}
