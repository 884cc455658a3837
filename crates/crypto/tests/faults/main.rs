//! Fault injection: no signature leaves that would give a key away.
//!
//! A fault is injected from outside by ptrace, so this program has one thread and no test harness.
//! Arguments are names of the modules to run; `--full` flips ten times as many bits.

mod ec;
mod openssl_ec;
mod planted;
mod points;
mod rsa;

use widelane_testkit::program::{Module, run_modules};

const MODULES: [Module; 4] = [
    ("planted", planted::run),
    ("planted_ec", ec::run_planted),
    ("ec", ec::run),
    ("rsa", rsa::run),
];

fn main() {
    run_modules(&MODULES);
}
