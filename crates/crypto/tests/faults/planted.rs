//! A judgement that takes long is waited for: otherwise it would be taken for a crash.

use std::thread::sleep;
use std::time::Duration;

use widelane_testkit::fault::{Ending, PATIENCE, disturb};
use widelane_testkit::random::Random;

/// Has a bit flip that changes nothing, and judges for longer than the work may take.
pub fn run(_: bool) {
    let work = || {
        let unused = std::hint::black_box([0_u8; 65_536]);
        sleep(Duration::from_millis(200));
        std::hint::black_box(unused);
    };
    let judge = |()| {
        sleep(PATIENCE + Duration::from_millis(100));
        7
    };
    let ending = disturb(work, judge, Duration::from_millis(100), &mut Random::new(1));
    assert_eq!(ending, Ending::Answered(7));
}
