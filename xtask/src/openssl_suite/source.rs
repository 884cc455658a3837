//! Debian's source package of OpenSSL: fetched and built once, with its tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::archive::{self, Archive};
use crate::shell::{announce, announce_and_run, capture, remove};

/// A built source tree.
pub struct Suite {
    directory: PathBuf,
}

impl Suite {
    /// Fetches and builds OpenSSL below `work`, if that was not done yet.
    pub fn prepare(work: &Path) -> Result<Self> {
        let built = work.join("built");
        if let Ok(name) = fs::read_to_string(&built) {
            return Ok(Suite { directory: work.join(name) });
        }
        remove(work)?;
        let suite = Suite { directory: fetch(work)? };
        suite.build()?;
        fs::write(built, suite.name())?;
        Ok(suite)
    }

    /// Name and version.
    pub fn name(&self) -> String {
        self.directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// All recipes, or those that are named.
    pub fn recipes(&self, named: &[String]) -> Result<Vec<String>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.directory.join("test/recipes"))? {
            files.push(entry?.file_name().to_string_lossy().into_owned());
        }
        files.sort();
        let recipe = |file: &String| Some(file.strip_suffix(".t")?.split_once('-')?.1.to_owned());
        // What prepares runs before each recipe.
        let mut recipes: Vec<_> =
            files.iter().filter_map(recipe).filter(|name| !name.starts_with("prep_")).collect();
        for name in named {
            ensure!(recipes.contains(name), "OpenSSL has no recipe {name}");
        }
        recipes.retain(|recipe| named.is_empty() || named.contains(recipe));
        Ok(recipes)
    }

    /// Writes the configurations that tests read: with the default provider, or with ours beside it
    /// and preferred.
    ///
    /// A configuration that names any provider has to name the default one as well. That alone
    /// makes a difference to tests that expect it only where nothing is loaded, so both have it.
    pub fn configure(&self, reach: Reach, provider: Option<&Path>) -> Result<()> {
        for name in CONFIGURATIONS {
            let file = self.directory.join(name);
            let pristine = file.with_extension("pristine");
            if !pristine.exists() {
                fs::copy(&file, &pristine)?;
            }
            let mut text = fs::read_to_string(&pristine)?;
            if reach == Reach::Everywhere || name != OF_ALL_PROGRAMS {
                text += DEFAULT;
                if let Some(provider) = provider {
                    text += &PREFERRED.replace('@', &provider.to_string_lossy());
                }
            }
            fs::write(file, text)?;
        }
        Ok(())
    }

    /// Makes sure that programs that read the configurations load the provider.
    pub fn sees_the_provider(&self) -> Result<()> {
        let mut list = self.command("util/shlib_wrap.sh");
        list.args(["apps/openssl", "list", "-providers"]);
        for name in CONFIGURATIONS {
            let listed = capture(list.env("OPENSSL_CONF", self.directory.join(name)))?;
            ensure!(listed.contains("Widelane"), "{name} does not load the provider:\n{listed}");
        }
        Ok(())
    }

    /// Runs a recipe; returns all that it says, whether it succeeds or not, and whether it came to
    /// its end within [`PATIENCE`].
    pub fn run(&self, recipe: &str) -> Result<(String, bool)> {
        let mut tests = self.command("timeout");
        tests.args(["--kill-after=10", &PATIENCE.to_string()]);
        tests.args(["perl", "test/run_tests.pl", recipe]);
        tests.envs([("SRCTOP", "."), ("BLDTOP", "."), ("PERL", "perl"), ("EXE_EXT", "")]);
        // Some recipes run their tests in the order of a hash table.
        tests.envs([("PERL_HASH_SEED", "0"), ("PERL_PERTURB_KEYS", "0")]);
        let output = tests
            .env("HARNESS_VERBOSE", "yes")
            .stdin(Stdio::null())
            .output()
            .context("cannot start perl")?;
        let is_stopped = [Some(TIMED_OUT), Some(KILLED)].contains(&output.status.code());
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), !is_stopped))
    }

    fn build(&self) -> Result<()> {
        announce_and_run(self.command("tar").args(["--extract", "--file=debian/binary.tar"]))?;
        announce_and_run(self.command("perl").arg("Configure").args(OPTIONS))?;
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        announce_and_run(self.command("make").args([
            "--silent",
            &format!("--jobs={jobs}"),
            "build_sw",
        ]))
    }

    /// A program that runs in the tree, and that no configuration of the user's reaches.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.directory);
        let ours = |name: &str| name.starts_with("OPENSSL_") || name.starts_with("WIDELANE_");
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(ours) {
                command.env_remove(name);
            }
        }
        command
    }
}

/// Has apt fetch and unpack the package, without a word to the system's own sources.
fn fetch(work: &Path) -> Result<PathBuf> {
    announce(&format!("OpenSSL's source package of Debian into {}", work.display()));
    archive::fetch_source(work, &Archive::debian(MIRROR.to_owned()), SUITE, &["openssl"]).context(
        "cannot fetch OpenSSL's source; apt-get, Debian's keyring and deb.debian.org are needed",
    )?;
    let entries = fs::read_dir(work)?.collect::<Result<Vec<_>, _>>()?;
    let unpacked =
        entries.iter().map(fs::DirEntry::path).find(|path| path.join("Configure").exists());
    unpacked.context("the source package was not unpacked")
}

/// Debian 12, without the updates between its point releases, which come and go.
const SUITE: &str = "bookworm";
const MIRROR: &str = "http://deb.debian.org/debian";

/// As `debian/rules` configures it.
const OPTIONS: &[&str] = &[
    "shared",
    "no-idea",
    "no-mdc2",
    "no-rc5",
    "no-zlib",
    "no-ssl3",
    "enable-unit-test",
    "no-ssl3-method",
    "enable-rfc3779",
    "enable-cms",
    "no-capieng",
    "no-rdrand",
    "enable-ec_nistp_64_gcc_128",
    "debian-amd64",
];

/// Which programs read of providers in their configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Everywhere,
    /// Tests that name a configuration, for a library context of their own.
    Contexts,
}

/// Configurations of tests that use the default provider: that of all programs, and those that some
/// tests name.
const CONFIGURATIONS: [&str; 3] =
    [OF_ALL_PROGRAMS, "test/default.cnf", "test/default-and-legacy.cnf"];
const OF_ALL_PROGRAMS: &str = "apps/openssl.cnf";

/// Names the default provider. A section that is there already is continued.
const DEFAULT: &str = "
[openssl_init]
providers = provider_sect
[provider_sect]
default = default_sect
[default_sect]
activate = 1
";

/// What users add to have ours preferred.
const PREFERRED: &str = "
[openssl_init]
alg_section = widelane_algorithms
[provider_sect]
widelane = widelane_sect
[widelane_sect]
module = @
activate = 1
[widelane_algorithms]
default_properties = ?provider=widelane
";

/// Seconds that a recipe may take, on a busy machine.
pub const PATIENCE: u32 = 1_800;

/// How `timeout` ends when the time was over, and when it had to kill as well.
const TIMED_OUT: i32 = 124;
const KILLED: i32 = 137;
