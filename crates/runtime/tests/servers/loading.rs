//! Programs that load OpenSSL in unusual ways: a copy of their own, a second one beside the
//! system's, or only when they are in another root directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::counters::Sums;
use crate::support::{SAYS_NO_END, localhost, run, widelane};

/// The directory of the system's libssl, as `openssl` finds it.
fn system_libraries() -> PathBuf {
    let openssl =
        ["/usr/bin/openssl", "/bin/openssl"].into_iter().find(|it| Path::new(it).exists());
    let output = run(Command::new("ldd").arg(openssl.expect("there is openssl")));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = said.split_whitespace();
    let libssl = words.find(|word| word.starts_with('/') && word.contains("/libssl.so."));
    let path = PathBuf::from(libssl.expect("openssl is linked with libssl"));
    path.canonicalize().expect("a library").parent().expect("its directory").to_owned()
}

/// Copies libcrypto and libssl into `directory`, under other names if they are to be foreign to
/// whatever else is in the process; returns where they are.
fn copy_libraries(directory: &Path, is_renamed: bool) -> [PathBuf; 2] {
    let (from, to) = (system_libraries(), |name: &str| name.replace(".so.", "-so."));
    ["libcrypto.so.3", "libssl.so.3"].map(|name| {
        let mut bytes = std::fs::read(from.join(name)).expect("a library that openssl loads");
        if is_renamed {
            for known in ["libcrypto.so.3", "libssl.so.3"] {
                replace(&mut bytes, known.as_bytes(), to(known).as_bytes());
            }
        }
        let path = directory.join(if is_renamed { to(name) } else { name.to_owned() });
        std::fs::write(&path, bytes).expect("a temporary directory has room");
        path
    })
}

/// Replaces `known` by as many bytes wherever it stands.
fn replace(bytes: &mut [u8], known: &[u8], new: &[u8]) {
    let mut start = 0;
    while let Some(at) = bytes[start..].windows(known.len()).position(|window| window == known) {
        bytes[start + at..][..new.len()].copy_from_slice(new);
        start += at + new.len();
    }
}

/// `python3` with `program` and `arguments` under `widelane run`; nothing where there is none.
fn python(counters: &Path, program: &str, arguments: &[&Path]) -> Option<Output> {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("there is no python3: nothing was tested");
        return None;
    }
    let mut command = Command::new(widelane());
    command.args(["run", "--counters-dir"]).arg(counters);
    let command = command.args(["--", "python3", "-c", program]).args(arguments);
    // Some enter another root directory.
    let command = command.envs([SAYS_NO_END]);
    Some(command.output().expect("widelane was built"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A function that shakes hands with itself by Python's own libraries, of which it loads those of
/// TLS only then.
const HANDSHAKE: &str = r"
import sys
def own(certificate, key):
    import ssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    ends = [client.wrap_bio(to_client, to_server), context.wrap_bio(to_server, to_client, True)]
    for _ in range(4):
        for end in ends:
            try: end.do_handshake()
            except ssl.SSLWantReadError: pass
    assert ends[1].version() == 'TLSv1.3'
";

/// Shakes hands with itself by the libraries that it is given, without asking for a certificate,
/// after a handshake by Python's own if it is told to.
const SECOND: &str = r"
import ctypes
is_second = len(sys.argv) > 5
if is_second: own(*sys.argv[3:5])
crypto, ssl = [ctypes.CDLL(path) for path in sys.argv[1:3]]
def call(library, name, *arguments, result=ctypes.c_void_p):
    function = getattr(library, name)
    function.restype = result
    return function(*arguments)
def pointer(library, name, *arguments):
    made = call(library, name, *arguments)
    assert made, name
    return ctypes.c_void_p(made)
certificate, key = [ctypes.c_char_p(path.encode()) for path in sys.argv[3:5]]
contexts = [pointer(ssl, 'SSL_CTX_new', pointer(ssl, name))
            for name in ('TLS_client_method', 'TLS_server_method')]
assert call(ssl, 'SSL_CTX_use_certificate_chain_file', contexts[1], certificate) == 1
assert call(ssl, 'SSL_CTX_use_PrivateKey_file', contexts[1], key, 1) == 1
ends = [pointer(ssl, 'SSL_new', context) for context in contexts]
bios = [ctypes.c_void_p(), ctypes.c_void_p()]
size = ctypes.c_size_t(0)
call(crypto, 'BIO_new_bio_pair', ctypes.byref(bios[0]), size, ctypes.byref(bios[1]), size)
for end, bio, state in zip(ends, bios, ('SSL_set_connect_state', 'SSL_set_accept_state')):
    call(ssl, 'SSL_set_bio', end, bio, bio)
    call(ssl, state, end)
for _ in range(6):
    done = [call(ssl, 'SSL_do_handshake', end, result=ctypes.c_int) for end in ends]
assert done == [1, 1], done
print(call(ssl, 'SSL_get_version', ends[1], result=ctypes.c_char_p).decode())
for end in ends: call(ssl, 'SSL_free', end)
for context in contexts: call(ssl, 'SSL_CTX_free', context)
if is_second: own(*sys.argv[3:5])
";

#[test]
fn a_second_openssl_in_the_process_works_as_without_us() {
    let (_authority, identity) = localhost();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let [crypto, ssl] = copy_libraries(directory.path(), true);
    let files = [&crypto, &ssl, &identity.certificate, &identity.key].map(PathBuf::as_path);
    let and_own = [&files[..], &[Path::new("own")]].concat();
    for arguments in [&files[..], &and_own] {
        let counters = directory.path().join("counters");
        let Some(output) = python(&counters, &[HANDSHAKE, SECOND].concat(), arguments) else {
            return;
        };
        let said = text(&output.stderr);
        assert!(output.status.success(), "{:?}: {said}", output.status);
        assert_eq!(text(&output.stdout), "TLSv1.3\n", "{said}");
        assert_eq!(said.matches("brings an OpenSSL of its own").count(), 1, "{said}");
        let sums = Sums::read(&counters);
        if arguments.len() == files.len() {
            assert_eq!(sums.rsa(), 0, "{sums:?}");
        } else {
            // Python's own handshakes are accelerated all the same.
            assert!(!sums.has_lanes() || sums.rsa() == 2, "{sums:?}");
        }
    }
}

/// A process without libssl, in which the runtime looks for functions of it in vain.
#[test]
fn what_loads_a_library_finds_no_error_of_the_loader() {
    const PROGRAM: &str = r"
import ctypes, sys
error = ctypes.CDLL(None).dlerror
error.restype = ctypes.c_char_p
for path in sys.argv[1:]: ctypes.CDLL(path)
print(error())
";
    let counters = tempfile::tempdir().expect("a temporary directory");
    let crypto = system_libraries().join("libcrypto.so.3");
    let last = Path::new("libresolv.so.2");
    let Some(output) = python(counters.path(), PROGRAM, &[&crypto, last]) else { return };
    assert_eq!(text(&output.stdout), "None\n", "{}", text(&output.stderr));
}

/// What has no libssl at first, and reads a private key then, may load it later.
#[test]
fn a_program_that_reads_a_key_before_it_loads_tls_is_accelerated() {
    const READ: &str = r"
import ctypes
crypto = ctypes.CDLL(sys.argv[3])
crypto.BIO_new_mem_buf.restype = ctypes.c_void_p
crypto.PEM_read_bio_PrivateKey.argtypes = [ctypes.c_void_p] * 4
text = crypto.BIO_new_mem_buf(b'no key', 6)
assert crypto.PEM_read_bio_PrivateKey(text, None, None, None) == 0
own(*sys.argv[1:3])
";
    let (_authority, identity) = localhost();
    let counters = tempfile::tempdir().expect("a temporary directory");
    let crypto = system_libraries().join("libcrypto.so.3");
    let program = [HANDSHAKE, READ].concat();
    let arguments = [&*identity.certificate, &*identity.key, &*crypto];
    let Some(output) = python(counters.path(), &program, &arguments) else { return };
    let said = text(&output.stderr);
    assert!(output.status.success() && !said.contains("unaccelerated"), "{said}");
    let sums = Sums::read(counters.path());
    assert!(!sums.has_lanes() || sums.rsa() == 1, "{sums:?} {said}");
}

/// What `openssl` says under `widelane run` with a provider in which one word is another.
fn said_with_provider(known: &[u8], new: &[u8]) -> String {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for name in ["libwidelane_runtime.so", "libwidelane.so"] {
        let built = widelane().with_file_name(name);
        let mut bytes = std::fs::read(built).expect("the libraries were built");
        if name == "libwidelane.so" {
            replace(&mut bytes, known, new);
        }
        std::fs::write(directory.path().join(name), bytes).expect("room");
    }
    let mut command = Command::new(widelane());
    command.args(["run", "--", "openssl", "ciphers"]);
    let output = run(command.env("WIDELANE_LIBRARY_DIR", directory.path()));
    text(&output.stderr).to_owned()
}

/// What a server has that was started before an upgrade, and begins with TLS after it.
#[test]
fn a_provider_that_the_runtime_does_not_know_is_told() {
    // It looks for the runtime by this name.
    let said = said_with_provider(b"widelane_runtime_attach", b"widelane_runtime_before");
    assert_eq!(said.matches("libwidelane.so is of another version").count(), 1, "{said}");
    assert!(said.contains("restart this server"), "{said}");
}

#[test]
fn why_a_provider_does_not_start_is_told() {
    // It looks for this algorithm among those of the default provider.
    let said = said_with_provider(b"TLS13-KDF", b"TLS13-XYZ");
    let reason = "libwidelane.so does not start: the default provider has no TLS13-XYZ (operation";
    assert!(said.contains(reason), "{said}");
    assert!(said.contains("this program runs unaccelerated"), "{said}");
}

/// A libssl of the program's own under the usual name, as `RPATH` and `LD_LIBRARY_PATH` bring it.
#[test]
fn a_bundled_libssl_is_accelerated() {
    let (_authority, identity) = localhost();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let [_, ssl] = copy_libraries(directory.path(), false);
    let wrapped = format!("{HANDSHAKE}own(*sys.argv[1:3])\nprint(open('/proc/self/maps').read())");
    let counters = directory.path().join("counters");
    let mut command = Command::new(widelane());
    command.args(["run", "--counters-dir"]).arg(&counters).args(["--", "python3", "-c"]);
    command.arg(wrapped).args([&identity.certificate, &identity.key]);
    let Ok(output) = command.env("LD_LIBRARY_PATH", directory.path()).output() else { return };
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(text(&output.stdout).contains(ssl.to_str().expect("text")), "{said}");
    let sums = Sums::read(&counters);
    assert!(!sums.has_lanes() || sums.rsa() == 1, "{sums:?} {said}");
}

#[test]
fn a_server_that_begins_with_tls_in_another_root_is_accelerated_and_counted() {
    let (_authority, identity) = localhost();
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (from, to) in [(&identity.certificate, "certificate"), (&identity.key, "key")] {
        std::fs::copy(from, directory.path().join(to)).expect("a copy");
    }
    let enters = format!("import os, ssl\nos.chroot('{}')\n", directory.path().display());
    let program = format!("{HANDSHAKE}{enters}own(*sys.argv[1:3])");
    let counters = tempfile::tempdir().expect("a temporary directory");
    let files = [Path::new("/certificate"), Path::new("/key")];
    let Some(output) = python(counters.path(), &program, &files) else { return };
    let said = text(&output.stderr);
    if said.contains("PermissionError") {
        eprintln!("only root can enter another root: nothing was tested");
        return;
    }
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("cannot be loaded") && !said.contains("cannot write"), "{said}");
    let sums = Sums::read(counters.path());
    assert!(!sums.has_lanes() || sums.rsa() == 1, "{sums:?} {said}");
}

/// Exim, for one, clears its environment before it begins with TLS.
#[test]
fn a_server_that_clears_its_environment_is_counted_and_obeys_the_policy() {
    let (_authority, identity) = localhost();
    let program = format!("{HANDSHAKE}import os\nos.environ.clear()\nown(*sys.argv[1:3])");
    let counters = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(widelane());
    command.args(["run", "--max-simd-bitwidth", "128", "--counters-dir"]).arg(counters.path());
    command.args(["--", "python3", "-c", &program]).args([&identity.certificate, &identity.key]);
    let output = command.output().expect("widelane was built");
    let said = text(&output.stderr);
    if said.contains("there is no program python3") {
        return eprintln!("there is no python3: nothing was tested");
    }
    assert!(output.status.success(), "{said}");
    let sums = Sums::read(counters.path());
    assert_eq!((sums.processes, sums.lanes), (1, 1), "{sums:?} {said}");
}
