//! Operations by a stand-in for a QAT device: right ones, and faults that the CPU makes good.
//!
//! Each test runs again in a process of its own, which has the stand-in where the system would have
//! qatlib: the dynamic linker reads its search path only when a process begins.

mod common;

#[path = "qat/jobs.rs"]
mod jobs;

use std::env;
use std::fmt::Debug;
use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use widelane_host::counters::Counts;
use widelane_qat_stand_in::VARIABLE;
use widelane_testkit::program::assert_ran_one;
use widelane_testkit::rooms::has_lanes;

use common::process::{self, in_child, setting, with_own_provider};
use common::{Place, done, on_stand_in};
use jobs::{Job, sign};

/// Runs `body`, which is the test of this name, in a process of its own whose device has faults.
fn on_device(test: &str, faults: &str, body: impl FnOnce(&Place)) {
    on_device_by("qat-first", test, faults, || {
        let (place, _lock) = setting();
        body(place);
    });
}

/// The same with an engine of this name.
fn on_device_by(engine: &str, test: &str, faults: &str, body: impl FnOnce()) {
    if !has_lanes() {
        eprintln!("nothing is accelerated here: nothing was tested");
        return;
    }
    if env::var(VARIABLE).is_ok() {
        return body();
    }
    let mut command = Command::new(env::current_exe().expect("this program"));
    let _library = on_stand_in(command.args([test, "--exact", "--nocapture"]), faults);
    assert_ran_one(done(command.env("WIDELANE_ENGINE", engine)).as_bytes());
}

/// Has several threads do a job at once, so often each.
fn by_threads(job: &Job, times: usize) {
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| job.run(times));
        }
    });
}

const THREADS: usize = 6;

fn of_device(place: &Place) -> u64 {
    place.sum(|counts| counts.device_jobs)
}

/// Asserts how many operations the device has done, or that it was late. The stand-in computes on
/// the CPUs of its caller, where the machine may be busy, and rests when it was late.
fn assert_of_device(place: &Place, expected: u64, what: impl Debug) {
    let done = of_device(place);
    let late = place.sum(|counts| counts.device_late);
    assert!(done == expected || late > 0 && done < expected, "{done} of {expected}: {what:?}");
}

fn counted(place: &Place, counter: impl Fn(&Counts) -> u64) -> u64 {
    let count = place.sum(counter);
    assert_eq!(place.sum(|counts| counts.fallbacks), 0);
    count
}

/// Does a step until what `seen` looks for has happened. A device that was late rests for some
/// time, and CPUs that are kept busy meanwhile make it late again: so this takes breaks.
#[track_caller]
fn repeat(place: &Place, seen: impl Fn() -> bool, step: impl Fn()) {
    let end = Instant::now() + PATIENCE;
    while !seen() {
        assert!(Instant::now() < end, "not seen for five minutes: {:?}", place.counters());
        step();
        if !seen() {
            thread::sleep(BREAK);
        }
    }
}

const BREAK: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(300);
const FILLED_WITHIN: Duration = Duration::from_secs(10);

/// Does each job until a counter has grown by a number for it, and the device has done some.
fn until(place: &Place, at_least: u64, counter: fn(&Counts) -> u64, step: impl Fn(&Job)) {
    for job in Job::quick() {
        let (before, of_device_before) = (counted(place, counter), of_device(place));
        let seen =
            || counted(place, counter) >= before + at_least && of_device(place) > of_device_before;
        repeat(place, seen, || step(&job));
    }
}

#[test]
fn it_does_all_that_it_can() {
    on_device("it_does_all_that_it_can", "", |place| {
        for job in Job::all() {
            let before = of_device(place);
            job.run(4);
            assert_of_device(place, before + 4 * job.operations(), job);
        }
        let before = of_device(place);
        sign(&jobs::short_rsa(), 1);
        assert_eq!(of_device(place), before, "such keys are OpenSSL's");
    });
}

/// Threads have it do their jobs.
fn together(place: &Place) {
    let job = Job::Sign(jobs::rsa(2048));
    by_threads(&job, 10);
    assert_of_device(place, 10 * THREADS as u64, job);
    for job in Job::quick() {
        let before = of_device(place);
        repeat(place, || of_device(place) > before, || by_threads(&job, 5));
        assert_eq!(counted(place, |counts| counts.device_faults), 0, "{job:?}");
    }
}

#[test]
fn threads_share_it() {
    on_device("threads_share_it", "slow=2000", together);
}

#[test]
fn results_may_come_in_any_order() {
    on_device("results_may_come_in_any_order", "slow=2000,backwards", together);
}

#[test]
fn it_need_not_have_a_descriptor() {
    on_device("it_need_not_have_a_descriptor", "slow=2000,silent", together);
}

#[test]
fn what_it_has_no_room_for_the_cpu_does() {
    on_device("what_it_has_no_room_for_the_cpu_does", "slow=3000,room=2", |place| {
        for job in Job::quick() {
            let before = counted(place, |counts| counts.device_full);
            let seen = || counted(place, |counts| counts.device_full) > before;
            repeat(place, seen, || by_threads(&job, 5));
        }
        assert!(of_device(place) > 0);
    });
}

#[test]
fn a_wrong_result_is_made_anew() {
    on_device("a_wrong_result_is_made_anew", "wrong=3", |place| {
        until(place, 1, |counts| counts.device_faults, |job| job.run(5));
    });
}

#[test]
fn an_operation_that_fails_is_done_by_the_cpu() {
    on_device("an_operation_that_fails_is_done_by_the_cpu", "fails=4", |place| {
        until(place, 1, |counts| counts.device_faults, |job| by_threads(job, 5));
    });
}

#[test]
fn a_late_result_is_not_waited_for_and_lands_nowhere() {
    on_device("a_late_result_is_not_waited_for_and_lands_nowhere", "late=5", |place| {
        // Until a result that was given up comes, and is the slot's next one's.
        until(
            place,
            2,
            |counts| counts.device_late,
            |job| {
                job.run(5);
                thread::sleep(Duration::from_millis(100));
            },
        );
    });
}

#[test]
fn a_device_that_restarts_is_used_again() {
    on_device("a_device_that_restarts_is_used_again", "resets=6", |place| {
        until(place, 2, |counts| counts.device_faults, |job| by_threads(job, 2));
    });
}

#[test]
fn a_device_that_has_lost_all_that_it_has_room_for_has_a_fault() {
    let name = "a_device_that_has_lost_all_that_it_has_room_for_has_a_fault";
    on_device(name, "loses=1", |place| {
        let job = Job::Sign(jobs::rsa(2048));
        // More than both instances have room for, before the first of them is late.
        let begin = Barrier::new(144);
        thread::scope(|scope| {
            for _ in 0..144 {
                scope.spawn(|| {
                    begin.wait();
                    job.run(1);
                });
            }
        });
        let has_fault = || counted(place, |counts| counts.device_faults) > 0;
        let end = Instant::now() + FILLED_WITHIN;
        while !has_fault() {
            if Instant::now() > end {
                // A device that rests gets one operation at a time: the rest takes minutes.
                return eprintln!(
                    "an operation was late before all were there: nothing was tested"
                );
            }
            job.run(1);
            thread::sleep(BREAK);
        }
        assert_eq!(of_device(place), 0);
    });
}

#[test]
fn without_a_device_the_cpu_does_all() {
    on_device("without_a_device_the_cpu_does_all", "absent", |place| {
        for job in Job::all() {
            let before = place.sum(Counts::jobs);
            job.run(3);
            assert!(place.sum(Counts::jobs) - before >= 3 * job.operations(), "{job:?}");
        }
        assert_eq!(of_device(place), 0);
    });
}

#[test]
fn what_it_refuses_does_not_make_it_doubtful() {
    on_device("what_it_refuses_does_not_make_it_doubtful", "refuses", |place| {
        for job in Job::all() {
            let before = counted(place, |counts| counts.device_refused);
            // Of a key for signatures it is asked once, of all others each time.
            job.run(3);
            assert!(counted(place, |counts| counts.device_refused) > before, "{job:?}");
        }
        assert_eq!((of_device(place), place.sum(|counts| counts.device_faults)), (0, 0));
    });
}

#[test]
fn what_lanes_do_for_less_lanes_do() {
    // The stand-in computes on the CPU that waits for it, by the textbook.
    let name = "what_lanes_do_for_less_lanes_do";
    on_device_by("qat", name, "", || {
        let (place, _lock) = setting();
        for job in Job::all() {
            job.run(40);
            let before = of_device(place);
            job.run(10);
            let of_device = of_device(place) - before;
            // It is tried again from time to time.
            assert!(of_device <= 1, "{job:?}: the device did {of_device}");
        }
        assert!(counted(place, |counts| counts.device_dearer) > 0);
    });
}

#[test]
fn keys_that_were_freed_are_wiped() {
    // The stand-in ends the process if memory comes back that was not wiped.
    on_device("keys_that_were_freed_are_wiped", "", |place| {
        for _ in 0..3 {
            sign(&jobs::rsa(2048), 2);
        }
        assert_of_device(place, 6, "keys that were freed");
    });
}

#[test]
fn it_is_used_on_when_the_last_provider_was_unloaded() {
    let name = "it_is_used_on_when_the_last_provider_was_unloaded";
    on_device_by("qat-first", name, "", || {
        let place = process::counted();
        for signatures in 1..=3 {
            with_own_provider(&place, || sign(&jobs::rsa(2048), 1));
            assert_of_device(&place, signatures, "after an unload");
        }
    });
}

#[test]
fn each_process_opens_it_but_for_children_of_one_that_has() {
    let name = "each_process_opens_it_but_for_children_of_one_that_has";
    on_device(name, "", |place| {
        let key = jobs::rsa(2048);
        let forked = || in_child(|| sign(&key, 2));
        assert_eq!((forked(), forked()), (0, 0));
        assert_of_device(place, 4, "by children");
        sign(&key, 1);
        assert_of_device(place, 5, "by children and their parent");
        let of_device_before = of_device(place);
        assert_eq!(forked(), 0);
        assert_eq!((of_device(place), place.sum(Counts::jobs)), (of_device_before, 7));
    });
}
