//! Handshakes in orders that no server would choose: those of the fuzz target's corpus, and what is
//! made of them by chance.

use std::cell::RefCell;

use widelane_bridge::counters::OperationKind;
use widelane_testkit::fuzz::replay;
use widelane_testkit::rooms::{has_lanes, has_lanes_of_curves};

use crate::support::by_hand::accelerated_with;
use crate::support::orders::{Event, Seen, handshake_orders};

#[test]
fn handshakes_end_in_every_order_of_events() {
    for wait_max in ["0", "2ms"] {
        // Lanes of ML-KEM are those of more machines than lanes of RSA.
        let options: &[&str] = if has_lanes() { &["--pq"] } else { &[] };
        let options = [options, &["--wait-max", wait_max]].concat();
        let counters = accelerated_with("orders::scenario_orders", &options);
        eprintln!("{counters:?}");
        assert_eq!(counters.fallbacks, 0, "{counters:?}");
        counters.assert_parked(None);
        let ml_kem = counters.parked_of(OperationKind::X25519MlKem768Encapsulate);
        assert!(ml_kem > 0 || !counters.has_lanes(), "{counters:?}");
        assert_eq!(counters.jobs_cancelled > 0, has_lanes_of_curves(), "{counters:?}");
        // How soon handshakes follow each other here depends on what else the machine does.
        assert!(counters.short_waits == 0 || wait_max != "0", "{counters:?}");
    }
}

#[test]
#[ignore = "runs under `accelerated_with`"]
fn scenario_orders() {
    let total = RefCell::new(Seen::default());
    replay("handshake_orders", 73, 64, |bytes| total.borrow_mut().add(&handshake_orders(bytes)));
    let total = total.into_inner();
    eprintln!("{total:?}");
    assert!(total.ended > 0 && total.given_up > 0);
    assert!(total.waited_for_room > 0 && total.waited_for_itself > 0);
    let of_one = Event::ALL.into_iter().map(|(event, _)| event).filter(|event| event.is_of_one());
    let met = |event: Event| total.parked[event as usize] > 0;
    assert_eq!(of_one.clone().any(met), has_lanes_of_curves());
    // Where RSA does not wait, handshakes are parked too seldom to meet them all.
    if has_lanes() {
        of_one.for_each(|event| assert!(met(event), "parked handshakes met no {event:?}"));
    }
}
