//! Keeps `widelane.so` loaded for good: it has threads, fork handlers and thread-local values.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
