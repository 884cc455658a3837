//! Compiles the calls of ipsec-mb, which are macros in C, where that library is asked for.

fn main() {
    println!("cargo:rerun-if-changed=src/ipsec_mb");
    #[cfg(feature = "ipsec-mb")]
    {
        let files = ["manager", "direct", "jobs"].map(|name| format!("src/ipsec_mb/{name}.c"));
        cc::Build::new().files(files).compile("widelane_ipsec_mb");
        println!("cargo:rustc-link-lib=IPSec_MB");
    }
}
