//! Trace equality of every algorithm whose input is secret. `planted_leaks` in `testkit` shows that
//! the traces see leaks.
//!
//! Tracing forks, so this program has one thread and no test harness. Arguments are names of the
//! modules to run.

mod aead;
mod cbc_hmac;
mod curve25519;
mod ec;
mod kdf;
mod mac;
mod mlkem;
mod rsa;

use widelane_testkit::program::{Module, run_modules};

const MODULES: [Module; 8] = [
    ("aead", |_| aead::run()),
    ("cbc_hmac", |_| cbc_hmac::run()),
    ("curve25519", |_| curve25519::run()),
    ("ec", |_| ec::run()),
    ("kdf", |_| kdf::run()),
    ("mac", |_| mac::run()),
    ("mlkem", |_| mlkem::run()),
    ("rsa", |_| rsa::run()),
];

fn main() {
    run_modules(&MODULES);
}
