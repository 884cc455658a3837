//! The tests of signatures and shared secrets once more, in a process that has a QAT device with
//! faults.

use std::env;
use std::process::Command;

use widelane_qat_stand_in::VARIABLE;

use crate::common::{done, on_stand_in};

#[test]
fn results_are_the_same_on_a_device_with_faults() {
    if env::var(VARIABLE).is_ok() {
        return;
    }
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["jobs::", "messages::", "foreign_digests::", "curves::"]);
    let _library = on_stand_in(&mut command, "wrong=5,late=40,resets=60");
    done(&mut command);
}
