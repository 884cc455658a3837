//! Compiles the calls of ipsec-mb, which are macros in C, where that library is asked for.

fn main() {
    println!("cargo:rerun-if-changed=src/ipsec_mb.c");
    #[cfg(feature = "ipsec-mb")]
    {
        cc::Build::new().file("src/ipsec_mb.c").compile("widelane_ipsec_mb");
        println!("cargo:rustc-link-lib=IPSec_MB");
    }
}
