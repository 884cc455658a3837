//! Key pairs made in advance: ephemeral keys at the price of a batch, also where nothing waits.
//!
//! A handshake needs a fresh key pair, and nothing about it depends on the handshake. So each
//! thread makes as many at once as a batch has lanes, hands each out once, and wipes it as it does.
//! A pool is filled only where as many were asked for within the last second as make a batch worth
//! while: at low load nothing is made that is not used.
//!
//! **Invariant**: no key pair is handed out twice, not by two threads, not after a fork, and not
//! when it is more than a second old. `docs/design/pools.md` has the details.

mod demand;
mod ml_kem;
mod storage;

use std::cell::RefCell;

use widelane_batch::Tick;
use widelane_bridge::counters::OperationKind;
use widelane_crypto::mlkem::{ParameterSet, SHARED_BYTES};
use widelane_crypto::{ec, x25519};

use crate::batching::execute::now;
use crate::batching::queues::Method;
use crate::counters::{add, count, of_kind};
use crate::curve::Curve;
use crate::curve::batch::{EC, X25519};
use crate::delegate::Delegate;
use crate::process::{self, Process};
use crate::{stack, switch};
use demand::Demand;
pub(crate) use ml_kem::take as take_ml_kem;
use storage::{ITEMS_MAX, Item, Mapped, MlKemKey, Store, Stores};
pub(crate) use storage::{Message, Pair};

thread_local! {
    static POOLS: RefCell<Option<Pools>> = const { RefCell::new(None) };
}

/// Makes the calling thread's variable; pools come when they are first asked for.
pub(crate) fn begin_thread() {
    // Error: the thread is ending.
    let _ = POOLS.try_with(|_| ());
}

/// Takes a new key pair on a curve; nothing where the default provider makes one at less cost.
pub(crate) fn take(delegate: &Delegate, curve: Curve) -> Option<Box<Pair>> {
    let index = index(curve)?;
    take_from(
        (curve.generate_kind(), index),
        |stores| &mut stores.curves[index],
        |kernel, lanes| generate(delegate, curve, kernel, lanes),
    )
}

/// Takes a key pair of a kind, whose demand has this place, from its store, which is filled if need
/// be by what `make` gives for a kernel and its lanes.
fn take_from<I: Item>(
    kind: (OperationKind, usize),
    store: impl FnOnce(&mut Stores) -> &mut Store<I>,
    make: impl FnOnce(usize, usize) -> Option<Vec<I>>,
) -> Option<Box<I>> {
    with_pools(|pools| pools.take(kind, store, make, now()))
}

/// Takes the random bytes of an encapsulation: drawing those of many at once takes hardly longer
/// than those of one. Nothing where there are no pools.
pub(crate) fn take_message(delegate: &Delegate) -> Option<Box<Message>> {
    with_pools(|pools| pools.take_message(delegate, now()))
}

/// Calls `take` with the pools of this thread and process; nothing where it has none.
fn with_pools<T>(take: impl FnOnce(&mut Pools) -> Option<T>) -> Option<T> {
    if switch::is_off() {
        return None;
    }
    POOLS
        .try_with(|pools| {
            let mut pools = pools.try_borrow_mut().ok()?;
            let process = process::current();
            if pools.as_ref().is_none_or(|pools| !std::ptr::eq(pools.process, process)) {
                // A child drops what its parent has made, wiped as it is.
                *pools = Some(Pools::new(process)?);
            }
            take(pools.as_mut()?)
        })
        .ok()
        .flatten()
}

/// The pools of one thread.
struct Pools {
    process: &'static Process,
    mapped: Mapped,
    demand: [Demand; CURVES + ML_KEMS],
}

impl Pools {
    fn new(process: &'static Process) -> Option<Self> {
        Some(Pools { process, mapped: Mapped::map()?, demand: Default::default() })
    }

    fn take<I: Item>(
        &mut self,
        (kind, index): (OperationKind, usize),
        store: impl FnOnce(&mut Stores) -> &mut Store<I>,
        make: impl FnOnce(usize, usize) -> Option<Vec<I>>,
        at: Tick,
    ) -> Option<Box<I>> {
        let counters = of_kind(self.process.counters(), kind);
        let recent = self.demand[index].asked(at);
        let store = store(self.mapped.stores());
        add(&counters.pool_expired, store.expire(at));
        if let Some(item) = store.take() {
            count(&counters.pooled);
            return Some(item);
        }
        let costs = &self.process.queues(kind).costs;
        let Method::Kernel(index) = costs.choose(recent, true) else { return None };
        let (lanes, room) = costs.lanes_and_room(index);
        let begin = now();
        // A caller on a small stack is not paused in there: nothing waits.
        let items = stack::on_large(|| make(index, lanes)).flatten()?;
        costs.record(Method::Kernel(index), now().since(begin));
        count(&counters.runs);
        count(&self.process.counters().runs_by_room[room as usize]);
        add(&counters.pool_made, items.len());
        store.fill(&items, at);
        count(&counters.pooled);
        store.take()
    }

    fn take_message(&mut self, delegate: &Delegate, at: Tick) -> Option<Box<Message>> {
        let store = &mut self.mapped.stores().messages;
        store.expire(at);
        if let Some(message) = store.take() {
            return Some(message);
        }
        let random = delegate.random_secret(ITEMS_MAX * SHARED_BYTES)?;
        let mut messages = [const { Message::EMPTY }; ITEMS_MAX];
        for (message, random) in messages.iter_mut().zip(random.0.as_chunks::<SHARED_BYTES>().0) {
            message.bytes_mut().copy_from_slice(random);
        }
        store.fill(&messages, at);
        store.take()
    }
}

/// Makes as many key pairs as a kernel has lanes; which kernel is a place among those of its
/// kind.
fn generate(delegate: &Delegate, curve: Curve, index: usize, lanes: usize) -> Option<Vec<Pair>> {
    let bytes = curve.private_bytes();
    let random = delegate.random_secret(lanes * bytes)?;
    let mut pairs: Vec<Pair> =
        (0..lanes).map(|_| Pair::empty(bytes, curve.public_bytes())).collect();
    for (pair, random) in pairs.iter_mut().zip(random.0.chunks_exact(bytes)) {
        pair.private_mut().copy_from_slice(random);
        if curve == Curve::X25519 {
            clamp(pair.private_mut());
        }
    }
    match curve {
        Curve::X25519 => generate_x25519(&mut pairs, index)?,
        Curve::Ec(curve) => generate_ec(delegate, curve, &mut pairs, index)?,
        Curve::Ed25519 => return None,
    }
    Some(pairs)
}

fn generate_x25519(pairs: &mut [Pair], index: usize) -> Option<()> {
    let keys = pairs
        .iter()
        .map(|pair| Some(x25519::PrivateKey::from_bytes(pair.private().try_into().ok()?)))
        .collect::<Option<Vec<_>>>()?;
    let mut jobs = keys
        .iter()
        .zip(pairs)
        .map(|(private, pair)| {
            Some(x25519::GenerateJob { private, public: pair.public_mut().try_into().ok()? })
        })
        .collect::<Option<Vec<_>>>()?;
    X25519[index].generate_batch(&mut jobs);
    Some(())
}

fn generate_ec(
    delegate: &Delegate,
    curve: ec::Curve,
    pairs: &mut [Pair],
    index: usize,
) -> Option<()> {
    let keys = pairs
        .iter_mut()
        .map(|pair| valid_key(delegate, curve, pair))
        .collect::<Option<Vec<_>>>()?;
    let mut jobs: Vec<_> = keys
        .iter()
        .zip(pairs)
        .map(|(private, pair)| ec::GenerateJob {
            private,
            public: pair.public_mut(),
            outcome: ec::Outcome::Pending,
        })
        .collect();
    EC[index].generate_batch(&mut jobs);
    let faults = jobs.iter().filter(|job| job.outcome == ec::Outcome::FaultDetected).count();
    add(&process::current().counters().faults_detected, faults);
    jobs.iter().all(|job| job.outcome == ec::Outcome::Done).then_some(())
}

/// The private key of a pair. Where the random bytes are none (one time in 2^32 on P-256), others
/// are drawn: each number below the order is as likely as any other (FIPS 186-5, A.2.2).
fn valid_key(delegate: &Delegate, curve: ec::Curve, pair: &mut Pair) -> Option<ec::PrivateKey> {
    for _ in 0..DRAWS_MAX {
        curve.trim(pair.private_mut());
        if let Ok(key) = ec::PrivateKey::from_bytes(curve, pair.private()) {
            return Some(key);
        }
        delegate.random(pair.private_mut())?;
    }
    None
}

/// RFC 7748, section 5. OpenSSL's keys are stored like this, and so are ours when they are written.
fn clamp(private: &mut [u8]) {
    if let [first, .., last] = private {
        *first &= 0xf8;
        *last = *last & 0x7f | 0x40;
    }
}

/// The curves that have pools.
const CURVES: usize = 1 + ec::Curve::ALL.len();

fn index(curve: Curve) -> Option<usize> {
    match curve {
        Curve::X25519 => Some(0),
        Curve::Ec(curve) => Some(1 + curve as usize),
        Curve::Ed25519 => None,
    }
}

/// The parameter sets of ML-KEM, all of which have pools.
const ML_KEMS: usize = ParameterSet::ALL.len();

/// Draws after which a generator that gives no valid key is taken for broken.
const DRAWS_MAX: usize = 16;
