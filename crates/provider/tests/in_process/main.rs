//! A process that has loaded the provider and calls libcrypto as libssl and programs do.

#[path = "../common/mod.rs"]
mod common;
mod contexts;
mod curves;
mod device;
mod foreign_digests;
mod jobs;
mod kdf;
#[path = "../kem/mod.rs"]
mod kem;
mod kem_alerts;
mod kems;
mod memory;
mod messages;
#[path = "../pkey/mod.rs"]
mod pkey;
mod threads;
mod verification;

use common::ffi;
