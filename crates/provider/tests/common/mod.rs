//! What the tests share: where the provider is, a configuration that loads it, and its counters.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(unsafe_code, reason = "the modules call libcrypto as libssl and programs do")]

pub mod debian_13;
pub mod evp;
#[path = "../ffi/mod.rs"]
pub mod ffi;
pub mod process;
pub mod server;
pub mod tour;
pub mod toy;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};

use widelane_bridge::counters::CipherKind;
use widelane_cpu::{Policy, Room, Width};
use widelane_crypto::aead::{Aead, Algorithm};
use widelane_crypto::cbc_hmac::{self, CbcHmac, Mode};
use widelane_host::counters::Counts;
use widelane_qat_stand_in::VARIABLE;
use widelane_testkit::rooms::{outruns_openssl, policy_here_up_to};

/// A directory with the provider, a configuration that loads it, and what a test makes.
pub struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let place = Place { dir: tempfile::tempdir().expect("a temporary directory") };
        symlink(library(), place.path("widelane.so")).expect("a link to the provider");
        fs::create_dir(place.path("counters")).expect("a directory for counters");
        fs::write(place.path("openssl.cnf"), CONFIGURATION.replace("@", &place.arg("widelane.so")))
            .expect("a configuration");
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn arg(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().expect("a path in UTF-8")
    }

    /// `openssl` as the machine has it, in our directory.
    pub fn plain(&self, command: &str) -> Command {
        let mut words = command.split_whitespace();
        let mut openssl = Command::new(words.next().expect("a program"));
        openssl.args(words).current_dir(self.dir.path()).env_remove("OPENSSL_CONF");
        openssl
    }

    /// `openssl` with our provider preferred.
    pub fn ours(&self, command: &str) -> Command {
        let mut openssl = self.plain(command);
        openssl.env("OPENSSL_CONF", self.path("openssl.cnf"));
        openssl.env("WIDELANE_COUNTERS_DIR", self.path("counters"));
        openssl
    }

    /// The counters of all processes that have signed here.
    pub fn counters(&self) -> Vec<Counts> {
        Counts::read_all(&self.path("counters"))
    }

    /// The sum of a counter over all processes.
    pub fn sum(&self, counter: impl Fn(&Counts) -> u64) -> u64 {
        self.counters().iter().map(counter).sum()
    }

    pub fn forget_counters(&self) {
        fs::remove_dir_all(self.path("counters")).expect("the counters' directory");
        fs::create_dir(self.path("counters")).expect("a directory for counters");
    }
}

/// Has a command find the stand-in for a QAT device, with faults, where the system would have
/// qatlib: in a directory that has to exist as long. The device gets all that it can do.
pub fn on_stand_in(command: &mut Command, faults: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let stand_in = library().with_file_name("libwidelane_qat_stand_in.so");
    assert!(stand_in.exists(), "cargo builds {} with its tests", stand_in.display());
    for name in ["libqat.so.4", "libusdm.so.0"] {
        symlink(&stand_in, directory.path().join(name)).expect("a link");
    }
    // Where the system's OpenSSL is not the one that is tested, this finds that.
    let libraries = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let others = std::env::split_paths(&libraries).filter(|path| !path.as_os_str().is_empty());
    let libraries = std::iter::once(directory.path().to_owned()).chain(others);
    let libraries = std::env::join_paths(libraries).expect("paths without colons");
    command.env("LD_LIBRARY_PATH", libraries);
    command.env(VARIABLE, faults).env("WIDELANE_ENGINE", "qat-first");
    directory
}

/// Runs a command and demands that it succeeds; answers what it wrote.
pub fn done(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the program is installed");
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{text}");
    text
}

/// Whether operations may run in a room, in a program that is told how wide registers may be: the
/// kernels of all that the policy leaves open are chosen by what they cost.
pub fn may_run(room: Room, width: Width) -> bool {
    let has_kernels = matches!(room, Room::Ifma256 | Room::Ifma512 | Room::Adx | Room::Fma256);
    has_kernels && room.is_supported() && policy_here_up_to(width).allows(room)
}

/// The ciphers that the provider offers under a policy, each with its room: those of a room that is
/// faster than OpenSSL's own.
pub fn ciphers_offered(policy: &Policy) -> Vec<(CipherKind, Room)> {
    let aead = |algorithm| Aead::choose(algorithm, policy).room();
    let cbc = |algorithm| CbcHmac::choose(algorithm, Mode::MacThenEncrypt, policy).room();
    let room = |kind| match kind {
        CipherKind::Aes128Gcm => aead(Algorithm::Aes128Gcm),
        CipherKind::Aes192Gcm => aead(Algorithm::Aes192Gcm),
        CipherKind::Aes256Gcm => aead(Algorithm::Aes256Gcm),
        CipherKind::ChaCha20Poly1305 => aead(Algorithm::ChaCha20Poly1305),
        CipherKind::Aes128CbcHmacSha1 => cbc(cbc_hmac::Algorithm::Aes128Sha1),
        CipherKind::Aes256CbcHmacSha1 => cbc(cbc_hmac::Algorithm::Aes256Sha1),
        CipherKind::Aes128CbcHmacSha256 => cbc(cbc_hmac::Algorithm::Aes128Sha256),
        CipherKind::Aes256CbcHmacSha256 => cbc(cbc_hmac::Algorithm::Aes256Sha256),
    };
    let ciphers = CipherKind::ALL.map(|kind| (kind, room(kind)));
    ciphers.into_iter().filter(|(kind, room)| outruns_openssl(*kind, *room)).collect()
}

/// The provider that cargo built beside this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let deps = test.parent().expect("a directory");
    let built = deps.join("libwidelane.so");
    assert!(built.exists(), "cargo builds {} with its tests", built.display());
    built
}

/// `openssl x509` of 4.0 takes the first lines for extensions unless others are named.
const CONFIGURATION: &str = "\
openssl_conf = openssl_init
extensions = none
[none]
[openssl_init]
providers = providers
alg_section = algorithms
[providers]
default = default_section
widelane = widelane_section
[default_section]
activate = 1
[widelane_section]
module = @
activate = 1
[algorithms]
default_properties = ?provider=widelane
";
