//! Requests of an event loop that an engine has, or is to have.

use std::collections::VecDeque;
use std::mem;

use widelane_batch::{Entry, Lane, Tick};
use widelane_bridge::counters::Counters;
use widelane_bridge::hooks::Extent;

use super::Parked;
use crate::batching::engine::{Asker, Engine};
use crate::batching::request::Answer;

/// Requests of one kind that an engine has, or is to have as soon as there is room. Which engine
/// that is is said by each call: none, if it is gone.
pub(super) struct Away<E: Engine> {
    submitted: Vec<Submitted<E::Ticket>>,
    queued: VecDeque<Entry<Parked>>,
}

/// A request that the engine has.
pub(super) struct Submitted<T> {
    pub(super) entry: Entry<Parked>,
    pub(super) ticket: T,
}

impl<E: Engine> Away<E> {
    pub(super) fn new() -> Self {
        Away { submitted: Vec::new(), queued: VecDeque::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.submitted.len() + self.queued.len()
    }

    /// What the engine has.
    pub(super) fn submitted(&self) -> &[Submitted<E::Ticket>] {
        &self.submitted
    }

    /// Hands a request over, or queues it; returns one that the engine does not take.
    pub(super) fn add(
        &mut self,
        entry: Entry<Parked>,
        asker: Asker,
        now: Tick,
        engine: Option<&E>,
    ) -> Option<Entry<Parked>> {
        let takes = |engine: &&E| engine.takes(&entry.job.request, asker, now);
        let Some(engine) = engine.filter(takes) else {
            return Some(entry);
        };
        self.queued.push_back(entry);
        self.submit(now, engine);
        if E::QUEUES { None } else { self.queued.pop_back() }
    }

    /// Whether anything waits for room.
    pub(super) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Hands over what is queued, as far as there is room.
    pub(super) fn submit(&mut self, now: Tick, engine: &E) {
        let before = self.submitted.len();
        while let Some(entry) = self.queued.pop_front() {
            if let Some(entry) = self.offer(entry, now, engine) {
                self.queued.push_front(entry);
                break;
            }
        }
        if self.submitted.len() > before {
            engine.submitted(now, before == 0);
        }
    }

    /// Hands a request over; returns it if there is no room.
    pub(super) fn offer(
        &mut self,
        entry: Entry<Parked>,
        now: Tick,
        engine: &E,
    ) -> Option<Entry<Parked>> {
        let Some(ticket) = engine.submit(&entry.job.request, now) else { return Some(entry) };
        self.submitted.push(Submitted { entry, ticket });
        None
    }

    /// Takes out a request that is withdrawn.
    pub(super) fn remove(
        &mut self,
        engine: Option<&E>,
        is_it: impl Fn(&Parked) -> bool,
    ) -> Option<Parked> {
        if let Some(index) = self.queued.iter().position(|entry| is_it(&entry.job)) {
            return self.queued.remove(index).map(|entry| entry.job);
        }
        let index = self.submitted.iter().position(|submitted| is_it(&submitted.entry.job))?;
        let Submitted { entry, ticket } = self.submitted.swap_remove(index);
        if let Some(engine) = engine {
            engine.abandon(ticket);
        }
        Some(entry.job)
    }

    /// How long until the thread should look again, 0 if anything is finished or late; nothing if
    /// there is nothing.
    pub(super) fn left_ns(&self, now: Tick, engine: Option<&E>) -> Option<u64> {
        let of_entry =
            |entry: &Entry<_>| engine.map_or(0, |engine| engine.left_ns(now, entry.submitted));
        let of_submitted = |submitted: &Submitted<E::Ticket>| {
            let is_finished = engine.is_some_and(|engine| engine.is_finished(&submitted.ticket));
            if is_finished { 0 } else { of_entry(&submitted.entry) }
        };
        let submitted = self.submitted.iter().map(of_submitted);
        submitted.chain(self.queued.front().map(of_entry)).min()
    }

    /// Takes what is finished, each with its answer.
    pub(super) fn collect(
        &mut self,
        engine: &E,
        counters: &Counters,
    ) -> Vec<(Entry<Parked>, Answer)> {
        if self.submitted.is_empty() {
            return Vec::new();
        }
        engine.poll();
        let is_finished = |it: &mut Submitted<E::Ticket>| engine.is_finished(&it.ticket);
        let finished: Vec<_> = self.submitted.extract_if(.., is_finished).collect();
        let collect = |Submitted { entry, ticket }: Submitted<E::Ticket>| {
            let answer = engine.collect(ticket, &entry.job.request, counters);
            (entry, answer)
        };
        finished.into_iter().map(collect).collect()
    }

    /// Gives requests to the lanes of this thread: those that are late, queued ones too; those that
    /// an engine that needs its help has not begun; and all that are queued for one that is not at
    /// work.
    pub(super) fn take_back(
        &mut self,
        what: Extent,
        now: Tick,
        engine: Option<&E>,
        lane: &mut Lane<Parked>,
        counters: &Counters,
    ) {
        let mut to_lane = |entry: Entry<Parked>| {
            lane.submit(entry.job, entry.submitted);
        };
        for submitted in mem::take(&mut self.submitted) {
            let Some(engine) = engine else {
                // The engine is gone.
                to_lane(submitted.entry);
                continue;
            };
            let asked = submitted.entry.submitted;
            let is_late = engine.left_ns(now, asked) == 0;
            let is_over = is_late || what == Extent::Everything;
            if is_over {
                // A thread that was kept from its CPU is late, and not the engine.
                engine.poll();
            }
            let alone = engine.works_alone();
            if (is_over || !alone) && engine.withdraw(&submitted.ticket) {
                if alone && is_late {
                    engine.count_late(now, asked, counters);
                }
                to_lane(submitted.entry);
            } else if is_over && !engine.is_finished(&submitted.ticket) {
                if is_late {
                    engine.count_late(now, asked, counters);
                }
                engine.abandon(submitted.ticket);
                to_lane(submitted.entry);
            } else {
                self.submitted.push(submitted);
            }
        }
        let is_at_work = |engine: &&E| what != Extent::Everything && engine.is_at_work(now);
        let engine = engine.filter(is_at_work);
        // One at work takes no longer than its longest wait over what is queued either.
        let is_over = |entry: &mut Entry<Parked>| {
            engine.is_none_or(|engine| engine.left_ns(now, entry.submitted) == 0)
        };
        while let Some(entry) = self.queued.pop_front_if(is_over) {
            to_lane(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use widelane_bridge::counters::OperationKind;
    use widelane_ossl_sys::Libcrypto;

    use super::*;
    use crate::batching::operation::Operation;
    use crate::batching::request::Request;
    use crate::counters::Pages;
    use crate::runtime::Handshake;
    use crate::secret::Secret;

    struct Nothing;

    impl Operation for Nothing {
        fn kind(&self) -> OperationKind {
            OperationKind::Rsa2048
        }

        fn libcrypto(&self) -> &Libcrypto {
            unreachable!("nobody executes it")
        }

        fn run_single(&self) -> Option<Secret> {
            None
        }
    }

    /// Is always at work, has room for so many, and finishes nothing.
    struct Busy {
        room: Cell<usize>,
        has_begun: bool,
        late: Cell<usize>,
    }

    impl Busy {
        fn new(room: usize, has_begun: bool) -> Self {
            Busy { room: Cell::new(room), has_begun, late: Cell::new(0) }
        }
    }

    /// How long it may keep a request.
    const LENT_NS: u64 = 1_000;

    impl Engine for Busy {
        type Ticket = ();
        const QUEUES: bool = true;

        fn works_alone(&self) -> bool {
            true
        }

        fn is_at_work(&self, _: Tick) -> bool {
            true
        }

        fn takes(&self, _: &Request, _: Asker, _: Tick) -> bool {
            true
        }

        fn submit(&self, _: &Request, _: Tick) -> Option<()> {
            self.room.set(self.room.get().checked_sub(1)?);
            Some(())
        }

        fn submitted(&self, _: Tick, _: bool) {}

        fn poll(&self) {}

        fn is_finished(&self, (): &()) -> bool {
            false
        }

        fn collect(&self, (): (), _: &Request, _: &Counters) -> Answer {
            Answer::Failed
        }

        fn left_ns(&self, now: Tick, asked: Tick) -> u64 {
            LENT_NS.saturating_sub(now.since(asked))
        }

        fn withdraw(&self, (): &()) -> bool {
            !self.has_begun
        }

        fn abandon(&self, (): ()) {}

        fn count_late(&self, _: Tick, _: Tick, _: &Counters) {
            self.late.set(self.late.get() + 1);
        }
    }

    fn add(away: &mut Away<Busy>, engine: &Busy, asked: u64) {
        let (request, handshake) = (Arc::new(Request::new(Nothing)), Handshake::nobody());
        let entry = Entry { job: Parked { request, handshake }, submitted: Tick(asked) };
        assert!(away.add(entry, Asker::Loop(1), Tick(asked), Some(engine)).is_none());
    }

    #[test]
    fn only_what_is_late_counts_as_late() {
        for has_begun in [false, true] {
            let (engine, mut away) = (Busy::new(2, has_begun), Away::new());
            add(&mut away, &engine, 0);
            add(&mut away, &engine, 500);
            let (mut lane, counters) = (Lane::new(8), Pages::of_nobody().first());
            let everything = Extent::Everything;
            away.take_back(everything, Tick(LENT_NS), Some(&engine), &mut lane, counters);
            assert_eq!((lane.len(), away.len(), engine.late.get()), (2, 0, 1));
        }
    }

    #[test]
    fn what_is_queued_for_an_engine_at_work_is_taken_back_when_it_is_late() {
        let (engine, mut away) = (Busy::new(1, false), Away::new());
        for asked in [0, 0, 500] {
            add(&mut away, &engine, asked);
        }
        assert_eq!((away.submitted().len(), away.len()), (1, 3));
        let (mut lane, counters) = (Lane::new(8), Pages::of_nobody().first());
        let now = Tick(LENT_NS);
        assert_eq!(away.left_ns(now, Some(&engine)), Some(0), "the thread does not sleep");
        away.take_back(Extent::Due, now, Some(&engine), &mut lane, counters);
        assert_eq!((lane.len(), away.len()), (2, 1));
        assert_eq!(away.left_ns(now, Some(&engine)), Some(500), "it may sleep again");
    }
}
