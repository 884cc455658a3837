//! Rules of places: which files may contain what.

use std::path::Path;

use crate::tidy::source::Source;
use crate::tidy::{Finding, House};

/// T2: vector instructions and detection outside their places.
pub fn instructions(house: &House<'_>) -> Vec<Finding> {
    misplaced(house, INSTRUCTIONS)
}

/// T3: `unsafe` outside the listed files, and listed files that have none.
pub fn unsafe_code(house: &House<'_>) -> Vec<Finding> {
    let mut findings = misplaced(house, UNSAFE);
    findings.extend(UNSAFE.iter().flat_map(|rule| rule.unneeded(&house.sources)));
    findings
}

/// T6: C doors, printing, the clock and the environment outside their places.
pub fn places(house: &House<'_>) -> Vec<Finding> {
    misplaced(house, PLACES)
}

/// Words that may stand in some places only.
struct Placement {
    words: &'static [&'static str],
    /// Files, or directories with all that is in them, relative to the root.
    places: &'static [&'static str],
    /// Whether tests, examples and benchmarks may use the words too.
    in_tests: bool,
}

fn misplaced(house: &House<'_>, placements: &[Placement]) -> Vec<Finding> {
    let sources = house.sources.iter();
    sources.flat_map(|source| placements.iter().flat_map(|rule| rule.findings(source))).collect()
}

impl Placement {
    fn findings(&self, source: &Source) -> Vec<Finding> {
        if self.allows(&source.path) || (self.in_tests && source.is_test()) {
            return Vec::new();
        }
        let words = self.words.iter();
        words
            .flat_map(|words| source.lines_with(words).map(move |line| (line, words)))
            // Unit tests stand at the very bottom of their file.
            .filter(|&(line, _)| !(self.in_tests && is_in_unit_tests(source, line)))
            .map(|(line, words)| Finding::new(&source.path, line, format!("`{words}` here")))
            .collect()
    }

    /// Listed files in which none of the words stands.
    fn unneeded(&self, sources: &[Source]) -> Vec<Finding> {
        let needs = |source: &Source| {
            self.words.iter().any(|words| {
                let mut lines = source.lines_with(words);
                lines.any(|line| !is_in_unit_tests(source, line))
            })
        };
        let is_needed = |place: &str| {
            sources.iter().any(|source| source.path.starts_with(place) && needs(source))
        };
        let places = self.places.iter().filter(|place| !is_needed(place));
        places.map(|place| Finding::new(place, 0, "listed, but without need")).collect()
    }

    fn allows(&self, path: &Path) -> bool {
        self.places.iter().any(|place| path.starts_with(place))
    }
}

fn is_in_unit_tests(source: &Source, line: usize) -> bool {
    let marker = source.code.lines().position(|line| line.trim() == "mod tests {");
    marker.is_some_and(|index| line > index)
}

const INSTRUCTIONS: &[Placement] = &[
    Placement {
        words: &["core::arch", "std::arch"],
        places: &[
            "packets/classify/src/run",
            "crates/cpu/src",
            "crates/kernels/src",
            "crates/meter/src/stimulus", // loops that provoke a licence
            "crates/provider/src/stack.rs", // the switch to a stack of its own
            "crates/runtime/src/fibre.rs", // the switch between fibres
            "crates/runtime/src/interpose/load.rs", // a jump to the loader, which tells its caller
            "crates/runtime/src/interpose/vfork.rs", // returns twice
            "crates/secret/src",
            "crates/testkit/src/trace/follow.rs", // ways into code that is made at run time
        ],
        in_tests: true,
    },
    Placement {
        words: &["is_x86_feature_detected!", "__cpuid", "__cpuid_count"],
        places: &["crates/cpu/src"],
        in_tests: true,
    },
];

/// Where a file has no comment here, it says itself why, beside its `allow(unsafe_code)`.
const UNSAFE: &[Placement] = &[Placement {
    words: &["unsafe"],
    places: &[
        "lab/bench/src/embedded.rs",          // a server that speaks C to libssl
        "lab/bench/src/link/interface.rs",    // an interface of our own
        "lab/bench/src/server/process.rs",    // between fork and exec
        "lab/bench/src/speed/evp.rs",         // OpenSSL's calls for a record
        "lab/bench/src/speed/kem.rs",         // OpenSSL's calls of key encapsulation
        "crates/bridge/src/hooks.rs",         // types of C functions
        "packets/classify/src/live/draft.rs", // chunks that no reader looks at
        "packets/classify/src/live/signals.rs", // a thread's mask
        "packets/classify/src/run",           // rooms, and a table mapped from a file
        "crates/c/src",                       // speaks C
        "crates/cli/src/sigpipe.rs",          // before Rust's runtime, and before execve
        "crates/cpu/src/chain.rs",            // the chain that meters the clock
        "crates/cpu/src/environment.rs",      // asks whether it can be trusted
        "crates/cpu/src/features.rs",         // asks which registers are saved
        "packets/forward/src/port/ring.rs",   // packet sockets, and memory shared with the kernel
        "crates/kernels/src/lanes",           // intrinsics behind safe methods, and doors
        "crates/kernels/src/coefficients",    // intrinsics behind safe methods, and doors
        "crates/kernels/src/aes_cbc",         // rooms: doors, loads, stores
        "crates/kernels/src/aes_gcm",         // rooms: doors, loads, stores, rounds of a chunk
        "crates/kernels/src/chacha20_poly1305", // rooms: doors, loads, stores
        "crates/kernels/src/curve25519/adx/field.rs", // multiplications in assembly
        "crates/kernels/src/hash/one_message.rs", // the door of rooms with the SHA extensions
        "crates/kernels/src/mont/one/blocks.rs", // stores that stay as they are
        "crates/kernels/src/mont/one/fma256.rs", // multiply-adds in assembly, loads, stores
        "crates/kernels/src/mont/tiles.rs",   // their assembly
        "crates/kernels/src/sha1/shani.rs",
        "crates/kernels/src/sha2/pairs.rs", // loads and stores of two rooms
        "crates/kernels/src/sha2/shani.rs",
        "crates/kernels/src/words", // intrinsics behind safe methods, and doors
        "crates/kernels/src/registers/wide.rs", // the same for what all registers have
        "crates/meter/src/stimulus", // loops that provoke a licence
        "crates/kernels/src/text.rs", // messages that are read and written at one place
        "crates/kernels/src/stack.rs", // what its tests find below kernels
        "crates/ossl-sys/src",      // speaks C
        "crates/provider/src/batching/combining.rs",
        "crates/provider/src/batching/combining/tests.rs",
        "crates/provider/src/batching/combining/timer.rs",
        "crates/provider/src/batching/engine/qat/call.rs",
        "crates/provider/src/batching/engine/qat/curve.rs",
        "crates/provider/src/batching/engine/qat/interface.rs",
        "crates/provider/src/batching/engine/qat/job.rs",
        "crates/provider/src/batching/engine/qat/key.rs",
        "crates/provider/src/batching/engine/qat/memory.rs",
        "crates/provider/src/batching/engine/qat/mod.rs",
        "crates/provider/src/batching/lane_process/start.rs",
        "crates/provider/src/batching/lane_process/user.rs",
        "crates/provider/src/batching/measured.rs",
        "crates/provider/src/batching/mod.rs",
        "crates/provider/src/batching/native.rs",
        "crates/provider/src/batching/notify.rs",
        "crates/provider/src/batching/owner.rs",
        "crates/provider/src/batching/signals.rs",
        "crates/provider/src/cipher/cbc_hmac.rs",
        "crates/provider/src/cipher/chacha.rs",
        "crates/provider/src/cipher/context.rs",
        "crates/provider/src/cipher/entries.rs",
        "crates/provider/src/cipher/gcm.rs",
        "crates/provider/src/cipher/piece.rs",
        "crates/provider/src/counters/file.rs",
        "crates/provider/src/counters/pages.rs",
        "crates/provider/src/curve/ecdsa.rs",
        "crates/provider/src/curve/eddsa.rs",
        "crates/provider/src/curve/encoder.rs",
        "crates/provider/src/curve/exchange.rs",
        "crates/provider/src/curve/generation.rs",
        "crates/provider/src/curve/key.rs",
        "crates/provider/src/curve/params.rs",
        "crates/provider/src/curve/single.rs",
        "crates/provider/src/delegate.rs",
        "crates/provider/src/digest.rs",
        "crates/provider/src/entry.rs",
        "crates/provider/src/errors.rs",
        "crates/provider/src/init.rs",
        "crates/provider/src/instance.rs",
        "crates/provider/src/kdf/context.rs",
        "crates/provider/src/kdf/tls13_kdf.rs",
        "crates/provider/src/kdf/tls1_prf.rs",
        "crates/provider/src/kem/context.rs",
        "crates/provider/src/kem/group.rs",
        "crates/provider/src/kem/key.rs",
        "crates/provider/src/kem/keymgmt.rs",
        "crates/provider/src/kem/single.rs",
        "crates/provider/src/keymgmt.rs",
        "crates/provider/src/lent.rs",
        "crates/provider/src/params.rs",
        "crates/provider/src/pool/storage.rs",
        "crates/provider/src/process.rs",
        "crates/provider/src/rsa/asym_cipher.rs",
        "crates/provider/src/rsa/key.rs",
        "crates/provider/src/rsa/keymgmt.rs",
        "crates/provider/src/rsa/scheme.rs",
        "crates/provider/src/runtime.rs",
        "crates/provider/src/signature.rs",
        "crates/provider/src/stack.rs",
        "crates/provider/src/switch.rs",
        "crates/reserve/src", // an allocator, and memory from the kernel
        "crates/runtime/src/activate.rs",
        "crates/runtime/src/config.rs",
        "crates/runtime/src/cork.rs",
        "crates/runtime/src/event_loop.rs",
        "crates/runtime/src/event_loop/events.rs",
        "crates/runtime/src/event_loop/mailbox.rs",
        "crates/runtime/src/event_loop/queue.rs",
        "crates/runtime/src/fibre.rs",
        "crates/runtime/src/foreign.rs",
        "crates/runtime/src/forks.rs",
        "crates/runtime/src/groups.rs",
        "crates/runtime/src/handshake.rs",
        "crates/runtime/src/handshake/ahead.rs",
        "crates/runtime/src/handshake/notified.rs",
        "crates/runtime/src/handshake/round_trip.rs",
        "crates/runtime/src/handshake/tickets.rs",
        "crates/runtime/src/interpose/bio.rs",
        "crates/runtime/src/interpose/certificate.rs",
        "crates/runtime/src/interpose/chroot.rs",
        "crates/runtime/src/interpose/end.rs",
        "crates/runtime/src/interpose/epoll.rs",
        "crates/runtime/src/interpose/exec.rs",
        "crates/runtime/src/interpose/fetch.rs",
        "crates/runtime/src/interpose/load.rs",
        "crates/runtime/src/interpose/memory.rs",
        "crates/runtime/src/interpose/pem.rs",
        "crates/runtime/src/interpose/poll.rs",
        "crates/runtime/src/interpose/session.rs",
        "crates/runtime/src/interpose/socket.rs",
        "crates/runtime/src/interpose/ssl.rs",
        "crates/runtime/src/interpose/thread.rs",
        "crates/runtime/src/interpose/vfork.rs",
        "crates/runtime/src/keys.rs",
        "crates/runtime/src/methods.rs",
        "crates/runtime/src/provider.rs",
        "crates/runtime/src/random.rs",
        "crates/runtime/src/real.rs",
        "crates/runtime/src/registry.rs",
        "crates/runtime/src/sessions/decoding.rs",
        "crates/runtime/src/sessions/encoding.rs",
        "crates/runtime/src/sessions/storing.rs",
        "crates/runtime/src/transfer.rs",
        "crates/secret/src",           // assembly that hides from the optimiser
        "integration/qat/src",         // a library that speaks C
        "crates/testkit/src/fault.rs", // forks, and writes into the child
        "crates/testkit/src/guard.rs", // pages that cannot be touched
        "crates/testkit/src/trace.rs", // forks
        "crates/testkit/src/trace/follow.rs", // runs code that is made at run time
        "crates/testkit/src/trace/stepped.rs", // handles a trap behind every instruction
        "crates/vault/src",            // an allocator
    ],
    in_tests: true,
}];

const PLACES: &[Placement] = &[
    Placement {
        words: &["extern \" \" fn"],
        places: &[
            "crates/bridge/src",
            "crates/c/src",
            "crates/cli/src/sigpipe.rs", // called before `main`
            "crates/ossl-sys/src",
            "crates/provider/src",
            "crates/runtime/src",
            "crates/testkit/src/trace/follow.rs", // what code made at run time calls
            "crates/testkit/src/trace/stepped.rs", // the handler of a signal
            "integration/qat/src",
        ],
        in_tests: true,
    },
    Placement {
        words: &["println!", "print!", "io::stdout"],
        places: &[
            "crates/c/build.rs",
            "crates/cli/build.rs",
            "crates/cli/src",
            "crates/kernels/build.rs",
            "crates/provider/build.rs",
            "xtask/src",
        ],
        in_tests: true,
    },
    Placement {
        words: &["Instant::now", "SystemTime::now", "_rdtsc", "__rdtscp"],
        places: &[
            "lab/bench/src",
            "crates/cli/src",
            "crates/cpu/src/clock.rs",
            "crates/provider/src/counters/file.rs", // how old files of counters are
            "crates/runtime/src/event_loop/mailbox.rs", // a deadline of its tests
            "crates/runtime/src/event_loop/waiting.rs", // when the timeout of a program ends
            "crates/runtime/src/random.rs",         // how old random bytes are
            "lab/cli/src",
            "lab/fleet/src",
            "lab/loadgen/src",
            "crates/testkit/src/fault.rs", // how long a disturbed child may take
            "crates/testkit/src/server.rs", // how long to wait for a server
            "integration/qat/src",         // a device that takes its time
            "xtask/src/test",              // how long each program takes
            "xtask/src/test.rs",           // how long each part takes
        ],
        in_tests: true,
    },
    Placement {
        words: &["std::env", "env::var", "env::var_os", "env::args"],
        places: &[
            "crates/cli",
            "crates/cpu/src/environment.rs",
            "crates/kernels/build.rs",
            "crates/provider/src/config.rs",
            "crates/runtime/src/config.rs",
            "crates/runtime/src/interpose/exec.rs", // what a program passes on to itself
            "crates/testkit/src",
            "integration/qat/src/faults.rs", // which faults there are
            "lab/cli/src",
            "xtask/src",
        ],
        in_tests: true,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(placements: &[Placement], path: &str, text: &str) -> Vec<usize> {
        let source = Source::new(path, text);
        let findings = placements.iter().flat_map(|rule| rule.findings(&source));
        findings.map(|finding| finding.line).collect()
    }

    #[test]
    fn unsafe_code_stays_where_it_is_listed() {
        let text = "fn f() {\n    // unsafe in words only\n    unsafe { g() }\n}\n";
        assert_eq!(lines(UNSAFE, "crates/crypto/src/rsa.rs", text), [3]);
        assert_eq!(lines(UNSAFE, "crates/kernels/src/mont/tiles.rs", text), [0; 0]);
    }

    #[test]
    fn a_file_that_is_listed_without_need_is_found() {
        let rule = Placement { words: &["unsafe"], places: &["a.rs", "b"], in_tests: true };
        let source = |path: &str, text: &str| Source::new(path, text);
        let tested = "fn f() {}\n\nmod tests {\n    fn g() { unsafe { h() } }\n}\n";
        let sources = [source("a.rs", tested), source("b/c.rs", "fn f() { unsafe { g() } }\n")];
        let unneeded: Vec<_> = rule.unneeded(&sources).into_iter().map(|it| it.path).collect();
        assert_eq!(unneeded, [Path::new("a.rs")]);
    }

    #[test]
    fn a_c_function_is_a_door() {
        let door = "pub extern \"C\" fn f() {}\n";
        assert_eq!(lines(PLACES, "crates/crypto/src/rsa.rs", door), [1]);
        assert_eq!(lines(PLACES, "crates/provider/src/entry.rs", door), [0; 0]);
    }

    #[test]
    fn unit_tests_may_look_at_the_clock() {
        let text = "fn f() {}\n\nmod tests {\n    fn g() { Instant::now(); }\n}\n";
        assert_eq!(lines(PLACES, "crates/batch/src/lane.rs", text), [0; 0]);
        let text = "fn f() { Instant::now(); }\n\nmod tests {\n}\n";
        assert_eq!(lines(PLACES, "crates/batch/src/lane.rs", text), [1]);
    }
}
