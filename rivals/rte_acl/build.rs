//! Links Debian's libdpdk (package libdpdk-dev).

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-lib=rte_acl");
    println!("cargo:rustc-link-lib=rte_eal");
}
