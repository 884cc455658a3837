//! How much a process has done, in one number, so that slices of time can be compared in which it
//! did not do the same.
//!
//! Each handshake, operation, record and byte counts as the CPU time that OpenSSL needs for it on
//! the machines of `records/`, roughly. That it takes another time on another machine does no harm:
//! policies are compared by what one and the same list says of each.

use std::sync::atomic::{AtomicU64, Ordering};

use widelane_bridge::counters::{Counters, KindCounters, OperationKind};

use crate::counters::Pages;

/// What the process has done since its start. `by_device` says how many operations of a kind a
/// device has, which kinds do not count.
pub(super) fn done_ns(pages: &Pages, by_device: impl Fn(OperationKind) -> u64) -> f64 {
    let of_kind_ns = |kind| price_ns(kind) * by_device(kind) as f64;
    let by_device_ns: f64 = OperationKind::ALL.into_iter().map(of_kind_ns).sum();
    pages.used().iter().map(of_thread_ns).sum::<f64>() + by_device_ns
}

fn of_thread_ns(counters: &Counters) -> f64 {
    let kinds = OperationKind::ALL.into_iter().zip(&counters.kinds);
    let operations: f64 = kinds.map(|(kind, of_kind)| price_ns(kind) * operations(of_kind)).sum();
    let ciphers = counters.ciphers.iter().map(|cipher| {
        let records: f64 = cipher.messages_by_room.iter().map(load).sum();
        RECORD_NS * records + BYTE_NS * load(&cipher.bytes)
    });
    HANDSHAKE_NS * load(&counters.handshakes) + operations + ciphers.sum::<f64>()
}

fn operations(of_kind: &KindCounters) -> f64 {
    let KindCounters { batched, single, synchronous, delegated, .. } = of_kind;
    [batched, single, synchronous, delegated].map(load).iter().sum()
}

fn load(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64
}

/// A handshake without its operations.
const HANDSHAKE_NS: f64 = 150_000.0;

/// A record and a byte in it, with what carries them.
const RECORD_NS: f64 = 2_000.0;
const BYTE_NS: f64 = 0.5;

fn price_ns(kind: OperationKind) -> f64 {
    f64::from(kind.price_us()) * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{How, add, count_job};

    fn done_by_cpu_ns(pages: &Pages) -> f64 {
        done_ns(pages, |_| 0)
    }

    #[test]
    fn what_a_device_does_counts_as_much() {
        let pages = Pages::of_nobody();
        let done = done_ns(&pages, |kind| u64::from(kind == OperationKind::Rsa2048));
        count_job(pages.first(), OperationKind::Rsa2048, How::Batched);
        assert_eq!(done, done_by_cpu_ns(&pages));
    }

    #[test]
    fn what_is_done_counts_once_and_more_for_longer_keys() {
        let pages = Pages::of_nobody();
        let counters = pages.first();
        assert_eq!(done_by_cpu_ns(&pages), 0.0);
        add(&counters.handshakes, 2);
        count_job(counters, OperationKind::X25519Generate, How::Single);
        assert_eq!(done_by_cpu_ns(&pages), 2.0 * HANDSHAKE_NS);
        let mut before = done_by_cpu_ns(&pages);
        let mut least = 0.0;
        for kind in [OperationKind::P256Sign, OperationKind::Rsa2048, OperationKind::Rsa4096] {
            count_job(counters, kind, How::Batched);
            let price = done_by_cpu_ns(&pages) - before;
            assert!(price > least, "{kind:?}: {price}");
            (before, least) = (done_by_cpu_ns(&pages), price);
        }
        add(&counters.ciphers[0].messages_by_room[3], 1);
        add(&counters.ciphers[0].bytes, 16_384);
        assert_eq!(done_by_cpu_ns(&pages) - before, RECORD_NS + 16_384.0 * BYTE_NS);
    }
}
