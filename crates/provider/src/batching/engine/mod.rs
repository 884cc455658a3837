//! Engines: what does operations elsewhere than on the thread that was asked for them.
//!
//! A request is handed to an engine if that does such requests and is at work; else, and whenever
//! it fails one, this thread's own lanes do it. There are three:
//!
//! | Engine | Done by | Chosen by |
//! |---|---|---|
//! | [`Member`] with a lane process | a process on CPUs set aside | `--lane-cpus` |
//! | [`Member`] without | whichever worker executes a batch next | `--combine` |
//! | [`Instance`] | Intel QuickAssist, a device | `--engine qat` |
//!
//! Some hooks mean nothing to one of them. A [`Member`] finds what is finished in shared memory, so
//! [`poll`](Engine::poll) does nothing, and it does not mind who asks. An [`Instance`] begins by
//! itself, so [`submitted`](Engine::submitted) does nothing, and gives nothing back before it is
//! finished.
//!
//! The lanes of the thread itself are no engine of this kind: they execute while the thread waits,
//! and have nothing to poll, lose or take back ([`execute`](super::execute)).
//!
//! [`Member`]: super::combining::Member

pub(crate) mod qat;

use std::thread;
use std::time::Duration;

use widelane_batch::Tick;
use widelane_bridge::counters::Counters;
use widelane_reserve::uncancelled;

use self::qat::Instance;
use crate::batching::execute::now;
use crate::batching::request::{Answer, Request};
use crate::process;

/// What does requests elsewhere.
pub(super) trait Engine {
    /// A request that is there.
    type Ticket;

    /// Whether requests for which there is no room wait for it. Else this thread's lanes do them.
    const QUEUES: bool;

    /// Whether it does requests without help of this thread, which need not think of them again
    /// before they are finished or late.
    fn works_alone(&self) -> bool;

    /// Whether it is at work, as far as is known.
    fn is_at_work(&self, now: Tick) -> bool;

    /// Whether a request is to be handed over: it does such, is at work, and does it for less than
    /// lanes would.
    fn takes(&self, request: &Request, asker: Asker, now: Tick) -> bool;

    /// Hands a request over; nothing if there is no room.
    fn submit(&self, request: &Request, now: Tick) -> Option<Self::Ticket>;

    /// Some were handed over; `is_first` says that there were none of this thread before.
    fn submitted(&self, now: Tick, is_first: bool);

    /// Learns what is finished.
    fn poll(&self);

    /// Whether a request is finished, with a result or without.
    fn is_finished(&self, ticket: &Self::Ticket) -> bool;

    /// The result of a finished request, confirmed, and counted; [`Answer::Failed`] if there is
    /// none that is right.
    fn collect(&self, ticket: Self::Ticket, request: &Request, counters: &Counters) -> Answer;

    /// How long a request that was asked for at a time may stay before this thread looks again; 0
    /// if it is to be taken back.
    fn left_ns(&self, now: Tick, asked: Tick) -> u64;

    /// Takes a request back; false if the engine has begun it.
    fn withdraw(&self, ticket: &Self::Ticket) -> bool;

    /// Takes a request back, or drops its result, however far it has got.
    fn abandon(&self, ticket: Self::Ticket);

    /// A request that was asked for at a time is taken back because it is late: counts that.
    fn count_late(&self, now: Tick, asked: Tick, counters: &Counters);
}

/// Where a request for an engine comes from, as far as it matters for its cost.
#[derive(Clone, Copy)]
pub(super) enum Asker {
    /// An event loop that has this many of the kind, the request included.
    Loop(usize),
    /// A thread that sleeps until its request is done.
    Thread,
}

/// Has the device do the request of a thread that can only wait; nothing if there is none, or it
/// failed.
pub(super) fn run_blocking(request: &Request) -> Option<Answer> {
    let engine = qat::instance()?;
    // It sleeps, and the device's library may read and write.
    uncancelled(|| wait_for(engine, request))
}

fn wait_for(engine: &Instance, request: &Request) -> Option<Answer> {
    let (asked, counters) = (now(), process::current().counters());
    if !engine.takes(request, Asker::Thread, asked) {
        return None;
    }
    let ticket = engine.submit(request, asked)?;
    loop {
        // Before it looks: a thread that is kept from its CPU is late, and not the engine.
        let now = now();
        engine.poll();
        if engine.is_finished(&ticket) {
            let answer = engine.collect(ticket, request, counters);
            return matches!(answer, Answer::Done(_)).then_some(answer);
        }
        match engine.left_ns(now, asked) {
            0 => {
                engine.count_late(now, asked, counters);
                engine.abandon(ticket);
                return None;
            }
            left_ns => thread::sleep(Duration::from_nanos(left_ns.min(LOOK_EVERY_NS))),
        }
    }
}

/// How often a thread that can only wait looks whether its request is finished.
const LOOK_EVERY_NS: u64 = 50_000;
