//! Signatures by a stand-in for a QAT device: right ones, and faults that the CPU makes good.
//!
//! Each test runs again in a process of its own, which has the stand-in where the system would have
//! qatlib: the dynamic linker reads its search path only when a process begins.

mod common;

use std::env;
use std::process::Command;
use std::thread;

use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::{Padding, Rsa};
use openssl::sign::{Signer, Verifier};
use widelane_host::counters::Counts;
use widelane_qat_stand_in::VARIABLE;
use widelane_testkit::rooms::has_lanes;

use common::process::{in_child, setting};
use common::{Place, done, on_stand_in};

/// Runs `body`, which is the test of this name, in a process of its own whose device has faults.
fn on_device(test: &str, faults: &str, body: impl FnOnce(&Place)) {
    if !has_lanes() {
        eprintln!("no signature is accelerated here: nothing was tested");
        return;
    }
    if env::var(VARIABLE).is_ok() {
        let (place, _lock) = setting();
        return body(place);
    }
    let mut command = Command::new(env::current_exe().expect("this program"));
    let _library = on_stand_in(command.args([test, "--exact", "--nocapture"]), faults);
    done(&mut command);
}

fn key(bits: u32) -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(bits).unwrap()).unwrap()
}

/// Makes signatures and verifies each.
fn sign(key: &PKey<Private>, signatures: usize) {
    for number in 0..signatures {
        let padding = [Padding::PKCS1, Padding::PKCS1_PSS][number % 2];
        let message = number.to_le_bytes();
        let mut signer = Signer::new(MessageDigest::sha256(), key).unwrap();
        signer.set_rsa_padding(padding).unwrap();
        let signature = signer.sign_oneshot_to_vec(&message).unwrap();
        let mut verifier = Verifier::new(MessageDigest::sha256(), key).unwrap();
        verifier.set_rsa_padding(padding).unwrap();
        assert!(verifier.verify_oneshot(&signature, &message).unwrap());
    }
}

/// The same by several threads at once, so many each.
fn sign_by_threads(key: &PKey<Private>, signatures: usize) {
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| sign(key, signatures));
        }
    });
}

const THREADS: usize = 6;

fn of_device(place: &Place) -> u64 {
    place.sum(|counts| counts.device_jobs)
}

fn counted(place: &Place, counter: impl Fn(&Counts) -> u64) -> u64 {
    let count = place.sum(counter);
    assert_eq!(place.sum(|counts| counts.fallbacks), 0);
    count
}

#[test]
fn it_makes_signatures_of_all_sizes() {
    on_device("it_makes_signatures_of_all_sizes", "", |place| {
        for bits in [2048, 3072, 4096] {
            sign(&key(bits), 4);
        }
        assert_eq!((of_device(place), place.sum(Counts::jobs)), (12, 12));
        sign(&key(1024), 1);
        assert_eq!(of_device(place), 12, "of such keys OpenSSL makes signatures");
    });
}

/// Threads have it make all their signatures.
fn sign_together(place: &Place) {
    sign_by_threads(&key(2048), 20);
    assert_eq!(of_device(place), 20 * THREADS as u64);
}

#[test]
fn threads_share_it() {
    on_device("threads_share_it", "slow=2000", sign_together);
}

#[test]
fn results_may_come_in_any_order() {
    on_device("results_may_come_in_any_order", "slow=2000,backwards", sign_together);
}

#[test]
fn it_need_not_have_a_descriptor() {
    on_device("it_need_not_have_a_descriptor", "slow=2000,silent", sign_together);
}

#[test]
fn what_it_has_no_room_for_the_cpu_does() {
    on_device("what_it_has_no_room_for_the_cpu_does", "slow=5000,room=1", |place| {
        sign_by_threads(&key(2048), 10);
        let full = counted(place, |counts| counts.device_full);
        assert!(full > 0, "none found it full");
        assert_eq!(of_device(place) + full, 10 * THREADS as u64);
    });
}

#[test]
fn a_wrong_result_is_made_anew() {
    on_device("a_wrong_result_is_made_anew", "wrong=3", |place| {
        sign(&key(2048), 20);
        assert!(counted(place, |counts| counts.device_faults) > 0);
        assert!(of_device(place) > 0);
    });
}

#[test]
fn an_operation_that_fails_is_done_by_the_cpu() {
    on_device("an_operation_that_fails_is_done_by_the_cpu", "fails=4", |place| {
        sign_by_threads(&key(2048), 10);
        assert!(counted(place, |counts| counts.device_faults) > 0);
    });
}

#[test]
fn a_late_result_is_not_waited_for_and_lands_nowhere() {
    on_device("a_late_result_is_not_waited_for_and_lands_nowhere", "late=5", |place| {
        let key = key(2048);
        // Until a result that was given up comes, and is the slot's next one's.
        while counted(place, |counts| counts.device_late) < 3 {
            sign(&key, 5);
            thread::sleep(std::time::Duration::from_millis(100));
        }
        assert!(of_device(place) > 0);
    });
}

#[test]
fn a_device_that_restarts_is_used_again() {
    on_device("a_device_that_restarts_is_used_again", "resets=6", |place| {
        let key = key(2048);
        while counted(place, |counts| counts.device_faults) < 3 {
            sign_by_threads(&key, 2);
        }
        let before = of_device(place);
        while of_device(place) < before + 3 {
            sign(&key, 5);
        }
    });
}

#[test]
fn without_a_device_the_cpu_makes_signatures() {
    on_device("without_a_device_the_cpu_makes_signatures", "absent", |place| {
        sign(&key(2048), 3);
        assert_eq!((of_device(place), place.sum(Counts::jobs)), (0, 3));
    });
}

#[test]
fn a_key_that_it_refuses_does_not_make_it_doubtful() {
    on_device("a_key_that_it_refuses_does_not_make_it_doubtful", "refuses", |place| {
        sign(&key(2048), 3);
        assert_eq!(counted(place, |counts| counts.device_refused), 3);
        assert_eq!((of_device(place), place.sum(|counts| counts.device_faults)), (0, 0));
    });
}

#[test]
fn keys_that_were_freed_are_wiped() {
    // The stand-in ends the process if memory comes back that was not wiped.
    on_device("keys_that_were_freed_are_wiped", "", |place| {
        for _ in 0..3 {
            sign(&key(2048), 2);
        }
        assert_eq!(of_device(place), 6);
    });
}

#[test]
fn each_process_opens_it_but_for_children_of_one_that_has() {
    let name = "each_process_opens_it_but_for_children_of_one_that_has";
    on_device(name, "", |place| {
        let key = key(2048);
        let forked = || in_child(|| sign(&key, 2));
        assert_eq!((forked(), forked()), (0, 0));
        assert_eq!(of_device(place), 4);
        sign(&key, 1);
        assert_eq!(of_device(place), 5);
        assert_eq!(forked(), 0);
        assert_eq!((of_device(place), place.sum(Counts::jobs)), (5, 7));
    });
}
