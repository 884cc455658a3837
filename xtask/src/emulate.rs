//! Rooms that this machine lacks: Bochs emulates an Intel Ice Lake, on which Debian's kernel runs
//! tests of the arithmetic, some hundred times slower than they are. What is measured there says
//! nothing.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::programs::TestProgram;
use crate::setup::{self, Need, Proof};
use crate::shell::{announce, announce_and_run, capture, make_afresh, run as run_command};
use crate::workspace::{QUICK, Workspace};

/// What `cargo xtask emulate` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Test programs of kernels and crypto, such as all and kernels; without a name, what takes a
    /// few minutes
    tests: Vec<String>,

    /// Runs the tests whose names contain this
    #[arg(long)]
    only: Option<String>,

    /// Gives up after so many minutes
    #[arg(long, default_value_t = 60)]
    minutes: u32,
}

/// Builds the tests, boots them, and fails if one of them does.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    setup::meet(NEEDS)?;
    let machine = Machine { directory: workspace.target.join("emulate") };
    fs::create_dir_all(&machine.directory)?;
    let (kernel, busybox) = machine.fetch()?;
    let built = tests(workspace)?;
    let mut named: Vec<(&str, &str)> =
        arguments.tests.iter().map(|name| (name.as_str(), "")).collect();
    if named.is_empty() {
        named.extend(SHORT);
    }
    let only = arguments.only.as_deref().unwrap_or_default();
    let mut chosen = BTreeMap::new();
    for (name, options) in named {
        let known = || built.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let program = built
            .get(name)
            .with_context(|| format!("no test program is called {name}; there are {}", known()))?;
        let wrong = WRONG.map(|test| format!("--skip={test}")).join(" ");
        chosen.insert(name, (program, format!("{wrong} {options} {only}")));
    }
    machine.pack(&kernel, &busybox, &chosen)?;
    let Passed { programs, tests } = machine.boot(arguments.minutes)?;
    let failed = chosen.len() - programs;
    ensure!(failed == 0, "{failed} of {} test programs failed", chosen.len());
    ensure!(tests > 0, "no test was run: none has a name that contains what --only says");
    announce(&format!("{tests} tests of {programs} programs pass on the emulated CPU"));
    Ok(())
}

/// What has passed.
#[derive(Default)]
struct Passed {
    programs: usize,
    tests: usize,
}

/// The test programs of the crates with arithmetic, by name.
fn tests(workspace: &Workspace) -> Result<BTreeMap<String, PathBuf>> {
    announce("building the tests");
    let programs = TestProgram::build(
        workspace
            .cargo()
            .args(["build", QUICK, "--lib", "--tests"])
            .args(CRATES.map(|name| format!("--package=widelane-{name}"))),
    )?;
    let named = |program: TestProgram| (program.short_name().to_owned(), program.path);
    Ok(programs.into_iter().map(named).collect())
}

/// An emulated machine, and where its files are.
struct Machine {
    directory: PathBuf,
}

impl Machine {
    /// Fetches a kernel and a shell from Debian, and unpacks without installing them.
    fn fetch(&self) -> Result<(PathBuf, PathBuf)> {
        let said = capture(Command::new("apt-cache").args(["depends", "linux-image-cloud-amd64"]))
            .context("Debian's kernel is not among apt's packages")?;
        let newest = said.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
        let image = newest.context("linux-image-cloud-amd64 names no kernel")?;
        let unpacked = self.directory.join(image);
        if !unpacked.exists() {
            let fresh = self.directory.join("fresh");
            make_afresh(&fresh)?;
            announce_and_run(Command::new("apt-get").current_dir(&fresh).args([
                "download",
                "--quiet=2",
                image,
                "busybox-static",
            ]))?;
            for file in files_in(&fresh)? {
                run_command(Command::new("dpkg-deb").arg("--extract").args([&file, &fresh]))?;
                fs::remove_file(file)?;
            }
            fs::rename(fresh, &unpacked)?;
        }
        let kernel = unpacked.join("boot").join(image.replace("linux-image", "vmlinuz"));
        let busybox = ["bin", "usr/bin"].map(|place| unpacked.join(place).join("busybox"));
        let busybox = busybox.into_iter().find(|file| file.exists());
        Ok((kernel, busybox.context("busybox-static has no busybox")?))
    }

    /// Makes the disc: a kernel, and in memory the tests with what they are linked to.
    fn pack(
        &self,
        kernel: &Path,
        busybox: &Path,
        tests: &BTreeMap<&str, (&PathBuf, String)>,
    ) -> Result<()> {
        let (memory, disc) = (self.directory.join("memory"), self.directory.join("disc"));
        make_afresh(&memory)?;
        make_afresh(&disc)?;
        for place in ["bin", "dev", "options", "proc", "sys", "tests", "tmp"] {
            fs::create_dir_all(memory.join(place))?;
        }
        fs::create_dir_all(disc.join("boot/grub"))?;
        fs::copy(busybox, memory.join("bin/busybox"))?;
        symlink("busybox", memory.join("bin/sh"))?;
        for (name, (program, options)) in tests {
            fs::write(memory.join("options").join(name), options)?;
            let stripped = memory.join("tests").join(name);
            run_command(Command::new("strip").arg("-o").arg(stripped).arg(program))?;
            for library in libraries(program)? {
                let place = memory.join(library.strip_prefix("/")?);
                fs::create_dir_all(place.parent().context("a library in the root")?)?;
                fs::copy(&library, place)?;
            }
        }
        let init = memory.join("init");
        fs::write(&init, first_program())?;
        fs::set_permissions(init, Permissions::from_mode(0o755))?;
        let archive = File::create(disc.join("boot/memory"))?;
        let mut pack = Command::new(busybox);
        pack.current_dir(&memory).args(["sh", "-c", "find . | cpio -o -H newc"]).stdout(archive);
        run_command(pack.stderr(Stdio::null()))?;
        fs::copy(kernel, disc.join("boot/kernel"))?;
        fs::write(disc.join("boot/grub/grub.cfg"), BOOT)?;
        run_command(
            Command::new("grub-mkrescue")
                .args(["--directory=/usr/lib/grub/i386-pc", "--output"])
                .args([self.directory.join("disc.iso"), disc])
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )
    }

    /// Runs the machine until it says that it has ended, and shows what it says.
    fn boot(&self, minutes: u32) -> Result<Passed> {
        announce("booting the emulated CPU, which takes a minute");
        fs::write(self.directory.join("bochsrc"), BOCHS)?;
        // Debian's Bochs has its debugger, which waits for a command to begin.
        fs::write(self.directory.join("commands"), "continue\n")?;
        let serial = self.directory.join("serial");
        fs::write(&serial, "")?;
        let log = File::create(self.directory.join("bochs.out"))?;
        let mut machine = Stopped(
            Command::new("bochs")
                .current_dir(&self.directory)
                .args(["-q", "-f", "bochsrc", "-rc", "commands"])
                // The emulated screen, which is not read, is drawn for a terminal.
                .env("TERM", "xterm")
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()
                .context("cannot start bochs")?,
        );
        let mut said = Console::new(File::open(serial)?);
        let mut passed = Passed::default();
        for _ in 0..minutes * LOOKS_PER_MINUTE {
            let has_ended = machine.0.try_wait()?.is_some();
            for line in said.lines()? {
                if line == ENDED {
                    return Ok(passed);
                }
                passed.programs += usize::from(line == PASSED);
                passed.tests += usize::from(line.starts_with("test ") && line.ends_with(" ok"));
                eprintln!("    {line}");
            }
            let logs = self.directory.join("bochs.out");
            ensure!(!has_ended, "the emulator ended before the tests: see {}", logs.display());
            thread::sleep(Duration::from_secs(60) / LOOKS_PER_MINUTE);
        }
        bail!("not done after {minutes} minutes; --minutes gives more")
    }
}

/// A process that does not outlive this.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the machine writes to its serial line, from its first program on.
struct Console<R> {
    serial: R,
    rest: Vec<u8>,
    is_up: bool,
}

impl<R: Read> Console<R> {
    fn new(serial: R) -> Self {
        Console { serial, rest: Vec::new(), is_up: false }
    }

    /// The lines that are whole since the last call.
    fn lines(&mut self) -> Result<Vec<String>> {
        self.serial.read_to_end(&mut self.rest)?;
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(Vec::new());
        };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        let text = String::from_utf8_lossy(&whole).replace('\r', "");
        let mut lines = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if self.is_up {
                lines.push(line.to_owned());
            }
            self.is_up |= line == BEGUN;
        }
        Ok(lines)
    }
}

/// The libraries that a program is linked to, and its loader.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let said = capture(Command::new("ldd").arg(program))?;
    let paths = said.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(PathBuf::from).collect())
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.collect::<std::io::Result<Vec<_>>>()?;
    Ok(entries.into_iter().map(|entry| entry.path()).collect())
}

/// Crates whose tests are arithmetic, and want nothing of a machine but its CPU.
const CRATES: [&str; 2] = ["kernels", "crypto"];

/// Test programs, and what of them takes a few minutes there: authenticated encryption, and the
/// kernels without three tests.
const SHORT: [(&str, &str); 2] = [
    ("all", "aead"),
    (
        "kernels",
        "--skip=rsa_3072_batches --skip=rsa_4096_batches --skip=exponentiation_agrees_for_primes",
    ),
];

/// Tests of what the emulator has wrong, all of which pass on CPUs that have the instructions.
const WRONG: [&str; 7] = [
    "the_sha_extensions_hash",
    // Of ADCX and ADOX, one changes the carry of the other.
    "curve25519::adx::",
    // VPCOMPRESSW gives zeros where its mask keeps all 32 words.
    "the_wide_rooms_do_as_portable_does",
    // In room fma256: a multiply-add gives zero where product and summand all but cancel out.
    "curve25519::tests::the_field_agrees_with_plain_integers",
    "weierstrass::tests::elements_agree_with_the_model_in_every_room",
    "weierstrass::tests::signatures_are_confirmed_in_every_room",
    "weierstrass::tests::the_rounding_mode_of_the_program_does_not_matter",
];

/// How often the output of the machine is read.
const LOOKS_PER_MINUTE: u32 = 300;

/// What the first program says when it begins and ends, and behind a test program that passes.
const BEGUN: &str = "the emulated CPU is up";
const ENDED: &str = "the emulated CPU has done its work";
const PASSED: &str = "this program passes";

/// The first program. Libcrypto does without SHA extensions by a bit of its second number:
/// OPENSSL_ia32cap(3). Without the features that all this is for, nothing is tested and so nothing
/// passes. What is still on its way to the serial line would be lost with the power.
fn first_program() -> String {
    format!(
        "\
#!/bin/sh
export PATH=/bin OPENSSL_ia32cap=:~0x20000000
busybox mount -t proc proc /proc
busybox mount -t devtmpfs dev /dev
echo '{BEGUN}'
for feature in avx512ifma avx512bw vaes vpclmulqdq; do
    if ! busybox grep -qw $feature /proc/cpuinfo; then
        echo \"the emulated CPU has no $feature\"
        busybox rm -rf /tests
    fi
done
for test in /tests/*; do
    name=${{test##*/}}
    echo \"==> $name\"
    if $test --test-threads=1 $(busybox cat /options/$name) 2>&1; then
        echo '{PASSED}'
    fi
done
echo '{ENDED}'
busybox sleep 10
busybox poweroff -f
"
    )
}

/// How the kernel starts. The emulator has FSRM without ERMS, which the kernel's memmove takes for
/// impossible, and says a wrong size of what XSAVE stores with protection keys or in its short
/// form, with which there would be no AVX. A blinking cursor would fill the output of the screen,
/// which is not read, until the emulator blocked.
const BOOT: &str = "\
set timeout=0
menuentry tests {
    linux /boot/kernel console=ttyS0 quiet loglevel=1 nosmp nokaslr mitigations=off \
        clearcpuid=fsrm,pku,xsaves,xsavec vt.global_cursor_default=0
    initrd /boot/memory
}
";

/// The machine: an Ice Lake, as fast as it goes.
const BOCHS: &str = "\
cpu: model=corei7_icelake_u, count=1, ips=50000000, reset_on_triple_fault=0, ignore_bad_msrs=1
memory: guest=1024, host=1024
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
boot: cdrom
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=disc.iso, status=inserted
com1: enabled=1, mode=file, dev=serial
clock: sync=none
log: bochs.log
panic: action=fatal
error: action=report
info: action=ignore
display_library: term
";

/// What this takes beside Debian's kernel and busybox.
const NEEDS: &[Need] = &[
    Need::to_build("bochs", Proof::Program("bochs")),
    Need::to_build(
        "bochs-term",
        Proof::OneOf(&["/usr/lib/x86_64-linux-gnu/bochs/plugins/libbx_term_gui.so"]),
    ),
    Need::to_build("bochsbios", Proof::OneOf(&["/usr/share/bochs/BIOS-bochs-latest"])),
    Need::to_build("vgabios", Proof::OneOf(&["/usr/share/vgabios/vgabios.bin"])),
    Need::to_build("binutils", Proof::Program("strip")),
    Need::to_build("grub-common", Proof::Program("grub-mkrescue")),
    Need::to_build("grub-pc-bin", Proof::OneOf(&["/usr/lib/grub/i386-pc/modinfo.sh"])),
    Need::to_build("xorriso", Proof::Program("xorriso")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_are_told_once_the_machine_is_up() {
        let mut console = Console::new(&b"Booting\r\n"[..]);
        assert!(console.lines().unwrap().is_empty());
        let begun = format!("{BEGUN}\r\n\r\ntest one ... ok\r\ntest tw");
        console.serial = begun.as_bytes();
        assert_eq!(console.lines().unwrap(), ["test one ... ok"]);
        console.serial = b"o ... ok\r\n";
        assert_eq!(console.lines().unwrap(), ["test two ... ok"]);
    }

    #[test]
    fn what_is_run_without_a_name_exists() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        for (name, _) in SHORT {
            let main = |package| crates.join(format!("{package}/tests/{name}/main.rs"));
            let is_there = CRATES.contains(&name) || CRATES.map(main).iter().any(|it| it.exists());
            assert!(is_there, "{name}");
        }
    }
}
