//! AddressSanitizer in stock servers: their tests once more, with both libraries built for it.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::shell::{announce, announce_and_run, capture, find_program, nightly};
use crate::{setup, workspace::Workspace};

/// Builds both libraries for AddressSanitizer, proves that it sees a mistake in nginx, and runs the
/// tests that start servers.
pub fn run(workspace: &Workspace) -> Result<()> {
    setup::run_for_tests()?;
    let reports = Reports::open()?;
    let libraries = Libraries::build(workspace, &reports)?;
    libraries.see_a_planted_mistake(&reports)?;
    let tests = test(workspace, &libraries);
    let watched = reports.read()?;
    if watched.mistakes.is_empty() {
        tests?;
        for program in ["nginx", "haproxy"] {
            ensure!(
                watched.processes.contains_key(program),
                "AddressSanitizer was in no process of {program}: {:?}; is it installed?",
                watched.processes
            );
        }
        announce(&format!("AddressSanitizer found nothing in processes: {}", watched.describe()));
        return Ok(());
    }
    let (directory, first) = (reports.keep(), &watched.mistakes[0]);
    bail!(
        "AddressSanitizer ended {} processes; repair what it found. The reports are in {}, and the \
         first is:\n{first}",
        watched.mistakes.len(),
        directory.display()
    )
}

/// Runs every kind of handshake and every kind of life of a server, downloads under every cipher,
/// and hang-ups, reloads and killed workers.
fn test(workspace: &Workspace, libraries: &Libraries) -> Result<()> {
    announce_and_run(workspace.cargo().args(["build", "--release"]))?;
    let test = |package: &str, tests: &[&str]| {
        announce_and_run(
            workspace
                .cargo()
                .args(["test", "--release", "--no-fail-fast", &format!("--package={package}")])
                .args(tests)
                .env("WIDELANE_LIBRARY_DIR", &libraries.directory)
                // AddressSanitizer keeps what is freed for a while.
                .env("WIDELANE_STRESS_GROWTH_MIB", "1024"),
        )
    };
    // A longjmp from one stack to another leaves marks on both, so that AddressSanitizer reports
    // accesses that are right. And the runtime sees no thread begin, before which a server that
    // does not fork starts its lane process.
    let skipped = ["--skip=left::", "--skip=a_server_that_does_not_fork_has_one_too"];
    let runtime = test("widelane-runtime", &[&["--test=*", "--"], &skipped[..]].concat());
    test("widelane-integration", &["--test=all", "--", "downloads::", "counters::", "stress::"])?;
    runtime
}

/// The two libraries, in a directory as `widelane run` wants to see it.
struct Libraries {
    directory: PathBuf,
}

impl Libraries {
    /// Builds them. AddressSanitizer has to be loaded into a server before anything asks for
    /// memory, and the preloaded runtime is, so it becomes a part of that; the provider finds it
    /// there.
    fn build(workspace: &Workspace, reports: &Reports) -> Result<Self> {
        let target = workspace.target.join("asan");
        let cargo = |package: &str, kind: &str| {
            let mut cargo = nightly("cargo");
            cargo.current_dir(&workspace.root);
            cargo.args(["rustc", "--release", "--lib", "--target", TARGET, "--package", package]);
            cargo.args(["--crate-type", kind]).arg("--target-dir").arg(&target);
            cargo.env("RUSTFLAGS", FLAGS.join(" "));
            announce_and_run(&mut cargo).context("it needs rustup toolchain install nightly")
        };
        cargo("widelane-provider", "cdylib")?;
        cargo("widelane-runtime", "staticlib")?;
        let built = target.join(TARGET).join("release");
        let libraries = Libraries { directory: target.join("libraries") };
        fs::create_dir_all(&libraries.directory)?;
        fs::copy(built.join("libwidelane.so"), libraries.directory.join("libwidelane.so"))?;
        // AddressSanitizer has to see every thread that is joined, and gives way to other
        // definitions of what it intercepts.
        let archive = target.join("libwidelane_runtime.a");
        let mut localize = Command::new("objcopy");
        localize.arg("--localize-symbol=pthread_create");
        announce_and_run(localize.arg(built.join("libwidelane_runtime.a")).arg(&archive))?;
        let options = target.join("options.c");
        fs::write(&options, default_options(&reports.directory))?;
        announce_and_run(
            Command::new("cc")
                .args(["-shared", "-o"])
                .arg(libraries.runtime())
                .arg(&options)
                .arg("-Wl,--whole-archive")
                .arg(&archive)
                .arg("-Wl,--no-whole-archive")
                .arg(sanitizer()?)
                .args(["-lgcc_s", "-lm"]),
        )?;
        Ok(libraries)
    }

    /// The library to preload.
    fn runtime(&self) -> PathBuf {
        self.directory.join("libwidelane_runtime.so")
    }

    /// Has nginx load a library that writes where it must not, compiled as ours are.
    fn see_a_planted_mistake(&self, reports: &Reports) -> Result<()> {
        announce("a mistake that was planted has to be seen in nginx");
        let source = self.directory.join("planted.rs");
        let library = self.directory.join("libplanted.so");
        fs::write(&source, PLANTED)?;
        announce_and_run(
            nightly("rustc")
                .args(["--edition=2024", "--crate-type=cdylib", "-O", "--target", TARGET])
                .args(FLAGS)
                .arg("-o")
                .args([&library, &source]),
        )?;
        let nginx = find_program("nginx").context("nginx is not installed: cargo xtask setup")?;
        let preload = format!("{}:{}", self.runtime().display(), library.display());
        let status = Command::new(nginx)
            .arg("-v")
            .stdin(Stdio::null())
            .env("LD_PRELOAD", preload)
            // A program that resolves names of functions would load the planted mistake too.
            .env("ASAN_OPTIONS", "symbolize=0")
            .status()?;
        let watched = reports.read()?;
        let is_seen = |report: &String| {
            ["heap-buffer-overflow", "libplanted.so"].iter().all(|words| report.contains(words))
        };
        ensure!(
            !status.success() && watched.mistakes.iter().any(is_seen),
            "nginx ended with {status}, and the planted mistake was not seen: {:?}",
            watched.mistakes
        );
        reports.clear()
    }
}

/// The compiler's own AddressSanitizer.
fn sanitizer() -> Result<PathBuf> {
    let printed = capture(nightly("rustc").args(["--print=target-libdir", "--target", TARGET]))?;
    let directory = Path::new(printed.trim());
    let mut files = fs::read_dir(directory)?.flatten().map(|entry| entry.path());
    files
        .find(|file| file.to_string_lossy().ends_with("_rt.asan.a"))
        .with_context(|| format!("{} has no AddressSanitizer", directory.display()))
}

/// A file in C with the options that hold without a word in the environment, of which nginx keeps
/// nothing when it upgrades its binary.
///
/// Fibres have stacks of their own, which the search for uses after return does not know. Leaks
/// are the soak's: a search for them here would have to trace processes that gave up root.
fn default_options(reports: &Path) -> String {
    let reports = reports.join("report");
    let options = format!(
        "abort_on_error=1:detect_leaks=0:detect_stack_use_after_return=0:allow_addr2line=1:\
         atexit=1:log_exe_name=1:log_path={}",
        reports.display()
    );
    format!("const char *__asan_default_options(void) {{ return {options:?}; }}\n")
}

/// What AddressSanitizer writes, a file for each process; removed in the end unless it is kept.
struct Reports {
    directory: PathBuf,
}

impl Reports {
    /// Makes a directory where workers that gave up root can write.
    fn open() -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("widelane-asan-{}", std::process::id()));
        fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        fs::set_permissions(&directory, Permissions::from_mode(0o1777))?;
        Ok(Reports { directory })
    }

    fn read(&self) -> Result<Watched> {
        let mut watched = Watched::default();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let report = fs::read(entry.path())?;
            watched.add(&entry.file_name().to_string_lossy(), &String::from_utf8_lossy(&report));
        }
        Ok(watched)
    }

    fn clear(&self) -> Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(())
    }

    /// Leaves the files where they are.
    fn keep(mut self) -> PathBuf {
        std::mem::take(&mut self.directory)
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// What the reports say.
#[derive(Default)]
struct Watched {
    /// Processes by program, of those that ended by themselves.
    processes: BTreeMap<String, usize>,
    mistakes: Vec<String>,
}

impl Watched {
    /// Takes in the report of one process, whose file is called `report.<program>.<process>`. Test
    /// programs have a hyphen and a hash behind their names.
    fn add(&mut self, file: &str, report: &str) {
        // OpenSSL's fibres have AddressSanitizer say that it does not know their stacks.
        if report.contains("ERROR: ") {
            self.mistakes.push(report.to_owned());
        }
        if report.contains("AddressSanitizer exit stats") {
            let program = file.split(['.', '-']).nth(1).unwrap_or(file);
            *self.processes.entry(program.to_owned()).or_default() += 1;
        }
    }

    /// How many processes of which programs.
    fn describe(&self) -> String {
        let of = |(program, count): (&String, &usize)| format!("{count} of {program}");
        self.processes.iter().map(of).collect::<Vec<_>>().join(", ")
    }
}

/// The one target that Widelane is for; naming it keeps build scripts as they are.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Assertions are on: sums that overflow and broken promises to the standard library count too.
/// That makes kernels slow, but not the default provider, which is to be known when it is decided
/// which of them costs less.
const FLAGS: [&str; 4] = [
    "-Zsanitizer=address",
    "-Cdebug-assertions=yes",
    "-Cforce-frame-pointers=yes",
    "--cfg=widelane_instrumented",
];

/// A library that writes behind a block as soon as it is loaded.
const PLANTED: &str = "\
#[used]
#[unsafe(link_section = \".init_array\")]
static PLANTED: extern \"C\" fn() = write_behind_a_block;

extern \"C\" fn write_behind_a_block() {
    let mut block = vec![0_u8; 16];
    let end = std::hint::black_box(block.as_mut_ptr()).wrapping_add(std::hint::black_box(16));
    unsafe { end.write(1) };
}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_counted_by_program_and_mistakes_are_kept() {
        let mut watched = Watched::default();
        watched.add("report.nginx.1", "AddressSanitizer exit stats:\n");
        watched.add("report.haproxy.2", "==2==WARNING: ASan\nAddressSanitizer exit stats:\n");
        watched.add("report.nginx-5f.3", "AddressSanitizer exit stats:\n");
        assert_eq!(watched.describe(), "1 of haproxy, 2 of nginx");
        assert!(watched.mistakes.is_empty());
        let mistake = "==4==ERROR: AddressSanitizer: heap-use-after-free\n";
        watched.add("report.nginx.4", mistake);
        assert_eq!(watched.mistakes, [mistake]);
        assert_eq!(watched.processes["nginx"], 2, "it did not come to its end");
    }

    #[test]
    fn options_are_a_string_in_c() {
        let options = default_options(Path::new("/tmp/here"));
        assert!(options.contains("return \"abort_on_error=1:"), "{options}");
        assert!(options.ends_with(":log_path=/tmp/here/report\"; }\n"), "{options}");
    }
}
