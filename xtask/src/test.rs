//! Everything that has to pass, in one order, for people and machines alike.

pub mod runner;
pub mod supervise;

use std::fmt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::nice;
use widelane_cpu::Room;

use crate::programs::TestProgram;
use crate::shell::{announce, announce_and_run, capture, cpu_model, run as run_command};
use crate::test::runner::{MEASURING, Terms};
use crate::workspace::{QUICK, Workspace};
use crate::{guided, pages, setup, tidy};

/// What `cargo xtask test` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Also what takes long and rarely breaks: every interleaving of threads, servers with
    /// libraries compiled by a profile and as on a CPU whose operations cannot be batched, reports
    /// in Chromium. Before a release
    #[arg(long)]
    full: bool,
}

/// Runs everything that has to pass; what costs least goes first. Says in the end, or where it
/// failed, how long each part took.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    introduce()?;
    let mut clock = Clock::default();
    let outcome = parts(workspace, arguments.full, &mut clock);
    announce(&clock.to_string());
    outcome
}

fn parts(workspace: &Workspace, full: bool, clock: &mut Clock) -> Result<()> {
    clock.time("set-up", setup::run_for_tests)?;
    clock.time("format", || format(workspace))?;
    clock.time("tidy", || tidy::run(workspace))?;
    clock.time("clippy", || clippy(workspace))?;
    // Behind what has fetched all crates from the registry: it asks for none.
    clock.time("packages", || package(workspace))?;
    clock.time("documentation", || document(workspace))?;
    if full {
        clock.time("loom", || loom(workspace))?;
    }
    let programs = clock.time("builds", || build(workspace))?;
    clock.time("tests", || test(workspace, programs.clone()))?;
    clock.time("examples in documentation", || test_documentation(workspace))?;
    if full {
        clock.time("kernels as shipped", || test_kernels(workspace))?;
        clock.time("servers by a profile", || test_servers_by_profile(workspace, &programs))?;
    }
    if full && Room::Ifma256.is_supported() {
        clock.time("servers without batches", || test_servers_without_batches(&programs))?;
    }
    if full {
        clock.time("stress with one certificate", || stress(&programs))?;
        clock.time("pages", || pages::look_at_all(workspace))?;
    }
    Ok(())
}

/// How long each part took.
#[derive(Default)]
struct Clock(Vec<(&'static str, Duration)>);

impl Clock {
    fn time<T>(&mut self, part: &'static str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let began = Instant::now();
        let outcome = run();
        self.0.push((part, began.elapsed()));
        outcome
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: Duration = self.0.iter().map(|(_, time)| *time).sum();
        let parts: Vec<_> =
            self.0.iter().map(|(part, time)| format!("{part} {}", time.as_secs())).collect();
        write!(formatter, "{} s: {}", total.as_secs(), parts.join(", "))
    }
}

fn format(workspace: &Workspace) -> Result<()> {
    announce_and_run(workspace.cargo().args(["fmt", "--all", "--check"]))
        .context("run `cargo fmt --all` and look at what it changed")?;
    let outside = tidy::files_outside(workspace)?;
    announce("rustfmt of fuzz targets and rivals");
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.current_dir(&workspace.root).args(["--edition=2024", "--check"]);
    run_command(rustfmt.args(outside)).context("run `rustfmt --edition=2024` on these files")
}

fn clippy(workspace: &Workspace) -> Result<()> {
    announce_and_run(
        workspace
            .cargo()
            .args(["clippy", QUICK, "--workspace", "--all-targets", "--quiet"])
            .args(["--", "--deny=warnings"]),
    )
}

/// These pages are not published, so they may link to what is private. Libraries and programs are
/// documented one after the other: the provider's library and our program are both named `widelane`
/// and collide in target/doc.
///
/// That an example is documented too makes cargo count the dependencies of tests. With them,
/// third-party crates have the features that they had for Clippy, and are not checked again.
fn document(workspace: &Workspace) -> Result<()> {
    for targets in ["--lib", "--bins"] {
        announce_and_run(
            workspace
                .cargo()
                .args(["doc", QUICK, "--no-deps", "--document-private-items", "--workspace"])
                .args(["--keep-going", "--quiet", "--example=rules", targets])
                .env("RUSTDOCFLAGS", "--deny=warnings --allow=rustdoc::private_intra_doc_links"),
        )?;
    }
    Ok(())
}

/// Every interleaving of a few threads, in a target directory of its own: other flags would throw
/// the first one's builds away.
fn loom(workspace: &Workspace) -> Result<()> {
    for (package, tests) in
        [("batch", ["--test=loom"].as_slice()), ("classify", &["--lib", "relay"])]
    {
        announce_and_run(
            workspace
                .cargo()
                .args(["test", &format!("--package=widelane-{package}"), "--release", "--quiet"])
                .args(tests)
                .env("RUSTFLAGS", "--cfg loom")
                .env("CARGO_TARGET_DIR", workspace.target.join("loom")),
        )?;
    }
    Ok(())
}

/// Runs all test programs. While servers are waited for, what is tested with assertions is built.
fn test(workspace: &Workspace, programs: Vec<TestProgram>) -> Result<()> {
    announce(&format!("{} test programs", programs.len()));
    let (measuring, others): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| program.target == MEASURING);
    let run = |programs| runner::run(programs, &Terms::default());
    let (outcome, checked) = thread::scope(|scope| {
        let checked = scope.spawn(|| build_with_assertions(workspace));
        (run(others), checked.join().expect("a build does not panic"))
    });
    let rest = checked.and_then(|checked| run([checked, measuring].concat()));
    outcome.and(rest)
}

/// Takes only the time of CPUs that nothing else wants.
fn build_with_assertions(workspace: &Workspace) -> Result<Vec<TestProgram>> {
    // Of this thread, and so of what it starts.
    nice(19)?;
    announce(&format!("building {} with every debug assertion on", CHECKED.join(", ")));
    let packages = CHECKED.map(|name| format!("--package=widelane-{name}"));
    TestProgram::build(workspace.cargo().args(["build", "--tests"]).args(packages))
}

/// The tests of the servers need the program and both shared objects beside it. Built with the
/// tests, these have the features that the tests want of what both use, and are built once. What is
/// left out are examples, which Clippy has checked, and doc tests, which have a part of their own.
pub fn build(workspace: &Workspace) -> Result<Vec<TestProgram>> {
    announce("building what is tested");
    TestProgram::build(workspace.cargo().arg("build").args(TESTED))
}

/// In the same profile and with the same features as everything else, so that nothing but the
/// examples is compiled.
fn test_documentation(workspace: &Workspace) -> Result<()> {
    announce_and_run(workspace.cargo().args(["test", QUICK, "--workspace", "--doc", "--quiet"]))
}

/// What crates.io would be given: complete manifests, and no file from outside a package. Nothing
/// is compiled or sent anywhere.
fn package(workspace: &Workspace) -> Result<()> {
    let packages = PUBLISHED.map(|name| format!("--package=widelane-{name}"));
    announce_and_run(
        workspace
            .cargo()
            .args(["package", "--no-verify", "--offline", "--allow-dirty", "--quiet"])
            .args(packages),
    )
}

/// Servers with one certificate under stress.
fn stress(programs: &[TestProgram]) -> Result<()> {
    let programs = those(programs, |program| program.name() == "integration/all");
    runner::run(programs, &Terms { arguments: &["stress::", "--ignored"], ..Terms::default() })
}

/// What kernels leave on the stack: with debug assertions, as they are tested otherwise, frames are
/// others.
fn test_kernels(workspace: &Workspace) -> Result<()> {
    let kernels = ["build", QUICK, "--package=widelane-kernels", "--tests"];
    runner::run(TestProgram::build(workspace.cargo().args(kernels))?, &Terms::default())
}

/// What the packages hold is compiled by a profile; it stays for what is run after this.
fn test_servers_by_profile(workspace: &Workspace, programs: &[TestProgram]) -> Result<()> {
    let arguments = [&["build"], &TESTED[..]].concat();
    guided::build_by_profile(workspace, &arguments, "quick")?;
    announce("what loads libraries once more, with those compiled by a profile");
    let loads_them =
        |program: &TestProgram| is_of_servers(program) || program.name() == "provider/programs";
    runner::run(those(programs, loads_them), &Terms::default())
}

fn test_servers_without_batches(programs: &[TestProgram]) -> Result<()> {
    announce("servers once more, as on a CPU whose operations cannot be batched");
    let narrow = [(widelane_cpu::policy::BITWIDTH_VARIABLE, "128".into())];
    runner::run(those(programs, is_of_servers), &Terms { variables: &narrow, ..Terms::default() })
}

/// The programs that are wanted.
fn those(programs: &[TestProgram], is_wanted: impl Fn(&TestProgram) -> bool) -> Vec<TestProgram> {
    programs.iter().filter(|program| is_wanted(program)).cloned().collect()
}

/// Whether a program tests the runtime in servers.
fn is_of_servers(program: &TestProgram) -> bool {
    program.package == "runtime" && program.target != "lib"
}

/// What is built and tested as it is shipped: everything at once, for what is built of a package
/// alone has other features. The kernels' own tests would take nearly half as long again to
/// compile; what is shipped of kernels is tested by those of crypto.
const TESTED: [&str; 6] =
    [QUICK, "--workspace", "--exclude=widelane-kernels", "--lib", "--bins", "--tests"];

/// Crates that are fit for crates.io, each behind those that it depends on.
const PUBLISHED: [&str; 8] =
    ["secret", "cpu", "vault", "kernels", "crypto", "classify", "meter", "rustls"];

/// Set for the tests of the runtime if the program and what it preloads are built: otherwise they
/// would build them as packages, with other features.
const BUILT: &str = "WIDELANE_BUILT";

/// Crates that are tested in the dev profile, with every debug assertion: those that have some and
/// that nothing else builds so.
const CHECKED: [&str; 2] = ["cpu", "kernels"];

/// Says what this run stands for: compiler, CPU, rooms.
fn introduce() -> Result<()> {
    announce(capture(Command::new("rustc").arg("--version"))?.trim());
    announce(&format!("CPU {}", cpu_model()));
    let rooms: Vec<String> = Room::ALL
        .iter()
        .map(|room| {
            format!("{}{}", room.name(), if room.is_supported() { "" } else { " (closed)" })
        })
        .collect();
    announce(&format!("rooms {}", rooms.join(", ")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_and_what_it_starts_give_way() {
        let niceness = || capture(&mut Command::new("nice")).unwrap();
        let before = niceness();
        let inside = thread::spawn(move || nice(19).map(|_| niceness())).join().unwrap().unwrap();
        assert_eq!((inside.trim(), niceness()), ("19", before));
    }
}
