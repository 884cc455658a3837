//! Rules of places: which files may contain what.

use std::path::Path;

use crate::tidy::source::Source;
use crate::tidy::{Finding, House};

/// T2: vector instructions and detection outside their places.
pub fn instructions(house: &House<'_>) -> Vec<Finding> {
    misplaced(house, INSTRUCTIONS)
}

/// T6: C doors, printing, the clock and the environment outside their places.
pub fn places(house: &House<'_>) -> Vec<Finding> {
    misplaced(house, PLACES)
}

/// Words that may stand in some places only, and in tests, examples and benchmarks.
struct Placement {
    words: &'static [&'static str],
    /// Files, or directories with all that is in them, relative to the root.
    places: &'static [&'static str],
}

fn misplaced(house: &House<'_>, placements: &[Placement]) -> Vec<Finding> {
    let sources = house.sources.iter();
    sources.flat_map(|source| placements.iter().flat_map(|rule| rule.findings(source))).collect()
}

impl Placement {
    fn findings(&self, source: &Source) -> Vec<Finding> {
        if source.is_test() || self.allows(&source.path) {
            return Vec::new();
        }
        let words = self.words.iter();
        words
            .flat_map(|words| source.lines_with(words).map(move |line| (line, words)))
            .filter(|&(line, _)| !source.is_in_unit_tests(line))
            .map(|(line, words)| Finding::new(&source.path, line, format!("`{words}` here")))
            .collect()
    }

    fn allows(&self, path: &Path) -> bool {
        self.places.iter().any(|place| path.starts_with(place))
    }
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
    },
    Placement {
        words: &["is_x86_feature_detected!", "__cpuid", "__cpuid_count"],
        places: &["crates/cpu/src"],
    },
];

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
        ],
    },
    Placement {
        words: &["println!", "print!", "io::stdout"],
        places: &[
            "crates/c/build.rs",
            "crates/cli/build.rs",
            "crates/cli/src",
            "crates/kernels/build.rs",
            "crates/provider/build.rs",
            "crates/runtime/build.rs",
            "xtask/src",
        ],
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
            "xtask/src/test",              // how long each program takes
            "xtask/src/test.rs",           // how long each part takes
        ],
    },
    Placement {
        words: &["std::env", "env::var", "env::var_os", "env::args"],
        places: &[
            "crates/cli",
            "crates/cpu/src/environment.rs",
            "crates/host/src/programs.rs", // divides a `PATH`
            "crates/kernels/build.rs",
            "crates/provider/src/config.rs",
            "crates/runtime/src/config.rs",
            "crates/runtime/src/interpose/exec.rs", // what a program passes on to itself
            "crates/testkit/src",
            "lab/cli/src",
            "xtask/src",
        ],
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
