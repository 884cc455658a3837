//! All chores of the workspace: `cargo xtask demo`, `test`, `pages`, `stress`, `ct`, `deb`, `tidy`.

mod archive;
mod asan;
mod certificates;
mod chroot;
mod confined;
mod containers;
mod ct;
mod deb;
mod demo;
mod emulate;
mod fuzz;
mod guided;
mod miri;
mod openssl;
mod openssl_suite;
mod pages;
mod profile;
mod programs;
mod reproduce;
mod rival;
mod rpm;
mod server;
mod setup;
mod shell;
mod soak;
mod stress;
mod supply;
mod systems;
mod tarball;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// All chores of the workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Runs the tests of servers with AddressSanitizer in nginx and HAProxy, on a nightly compiler.
    Asan,
    /// Compares nginx with very many certificates to itself, natively and accelerated
    Certificates(certificates::Arguments),
    /// Boots Debian with AppArmor and with SELinux in a virtual machine, and checks what a confined
    /// nginx does there. As root, with debootstrap and QEMU
    Confined(confined::Arguments),
    /// Runs a server and its exporter in hardened containers. As root, with runc
    Containers,
    /// Looks for side channels wherever secrets are handled, and proves that it would see one.
    Ct(ct::Arguments),
    /// Builds the Debian package; with --check installs it on a fresh Debian and takes it back.
    Deb(deb::Arguments),
    /// Installs what the machine lacks, builds, compares your servers with and without Widelane.
    Demo,
    /// Runs tests of the arithmetic on an emulated CPU that has every room. Takes minutes.
    Emulate(emulate::Arguments),
    /// Runs every fuzz target for a while, on a nightly compiler.
    Fuzz(fuzz::Arguments),
    /// Builds a release as the packages have it: what runs in servers by a profile of handshakes
    /// (profile-guided optimisation). Takes minutes
    Guided,
    /// Runs the tests that Miri can run, on a nightly compiler: undefined behaviour, data races.
    Miri,
    /// Builds newer releases of OpenSSL and runs what touches OpenSSL under them. Takes minutes
    Openssl(openssl::Arguments),
    /// Runs OpenSSL's own tests natively and with the provider, and lists what differs. Takes long
    OpensslSuite(openssl_suite::Arguments),
    /// Opens reports in Chromium, with axe-core; what it says, and who could not read them.
    Pages(pages::Arguments),
    /// Watches a server under load with perf: CPU time of a handshake by cause, native and
    /// accelerated
    Profile(profile::Arguments),
    /// Builds a program that `widelane compare --rival` measures beside the servers. Takes minutes
    Rival(rival::Arguments),
    /// Makes rpm packages of what the Debian packages hold
    Rpm(rpm::Arguments),
    /// Installs what the machine lacks to build and test: OpenSSL's headers, servers, modules.
    Setup,
    /// Runs nginx and HAProxy for long under changing load, and draws what they held.
    Soak(soak::Arguments),
    /// Runs a test program of `cargo xtask test`, and ends what it leaves behind
    #[command(hide = true)]
    Supervise(test::supervise::Arguments),
    /// Drives real servers hard: hang-ups at every stage, reloads, killed workers.
    Stress(stress::Arguments),
    /// Checks licences and advisories of dependencies, and lists them all (SBOM); with --reproduce
    /// builds what the package holds twice and compares.
    Supply(supply::Arguments),
    /// Runs tests and comparisons of servers in chroots of Debian's and Ubuntu's releases, and
    /// writes the tables of docs/operate/compatibility.md. Takes minutes
    Systems(systems::Arguments),
    /// Makes an archive with a script that installs it, for systems without Debian's packages
    Tarball(tarball::Arguments),
    /// Runs everything that has to pass: formatting, clippy, tidy, documentation, all tests; with
    /// --full also what takes long and rarely breaks.
    #[command(visible_alias = "ci")]
    Test(test::Arguments),
    /// Checks the rules of the house that no other tool checks.
    Tidy,
}

fn main() -> ExitCode {
    let result = guided::stand_in_for_compiler().and_then(|()| match Arguments::parse().chore {
        // Often, and without cargo.
        Chore::Supervise(arguments) => test::supervise::run(&arguments),
        chore => Workspace::find().and_then(|workspace| run(chore, &workspace)),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore, workspace: &Workspace) -> Result<()> {
    match chore {
        Chore::Asan => asan::run(workspace),
        Chore::Certificates(arguments) => certificates::run(workspace, &arguments),
        Chore::Confined(arguments) => confined::run(workspace, &arguments),
        Chore::Containers => containers::test(workspace),
        Chore::Ct(arguments) => ct::run(workspace, &arguments),
        Chore::Deb(arguments) => deb::run(workspace, &arguments),
        Chore::Demo => demo::run(workspace),
        Chore::Emulate(arguments) => emulate::run(workspace, &arguments),
        Chore::Fuzz(arguments) => fuzz::run(workspace, &arguments),
        Chore::Guided => guided::run(workspace),
        Chore::Miri => miri::run(workspace),
        Chore::Openssl(arguments) => openssl::run(workspace, &arguments),
        Chore::OpensslSuite(arguments) => openssl_suite::run(workspace, &arguments),
        Chore::Pages(arguments) => pages::run(workspace, &arguments),
        Chore::Profile(arguments) => profile::run(workspace, &arguments),
        Chore::Rival(arguments) => rival::run(workspace, &arguments),
        Chore::Rpm(arguments) => rpm::run(workspace, &arguments),
        Chore::Setup => setup::run_for_tests(),
        Chore::Soak(arguments) => soak::run(workspace, &arguments),
        Chore::Stress(arguments) => stress::run(workspace, &arguments),
        Chore::Supply(arguments) => supply::run(workspace, &arguments),
        Chore::Supervise(arguments) => test::supervise::run(&arguments),
        Chore::Systems(arguments) => systems::run(workspace, &arguments),
        Chore::Tarball(arguments) => tarball::run(workspace, &arguments),
        Chore::Test(arguments) => test::run(workspace, &arguments),
        Chore::Tidy => tidy::run(workspace),
    }
}
