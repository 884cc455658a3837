//! Has the library compiled again where `cargo xtask guided` asks for other flags.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=WIDELANE_GUIDED");
}
