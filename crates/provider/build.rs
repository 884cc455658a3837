//! Keeps `widelane.so` loaded for good: it has threads, fork handlers and thread-local values.
//! Has it compiled again where `cargo xtask guided` asks for other flags.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=WIDELANE_GUIDED");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
