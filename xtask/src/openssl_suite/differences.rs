//! What the provider makes different, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::openssl_suite::finishes;
use crate::openssl_suite::tap::Outcome;

/// A test that ends otherwise with the provider.
pub struct Difference {
    recipe: String,
    test: String,
    natively: Option<Outcome>,
    accelerated: Option<Outcome>,
}

impl Difference {
    /// The tests of a recipe that end differently; of those that have parts, the parts.
    pub fn between(
        recipe: &str,
        natively: &BTreeMap<String, Outcome>,
        accelerated: &BTreeMap<String, Outcome>,
    ) -> Vec<Self> {
        let tests: BTreeSet<&String> = natively.keys().chain(accelerated.keys()).collect();
        let mut differ = tests.into_iter().map(String::as_str).collect::<Vec<_>>();
        differ.retain(|test| natively.get(*test) != accelerated.get(*test));
        let without_whole = differ
            .iter()
            .filter(|test| **test == finishes() || !differ.iter().any(|other| is_in(other, test)));
        without_whole
            .map(|test| Difference {
                recipe: recipe.to_owned(),
                test: (*test).to_owned(),
                natively: natively.get(*test).copied(),
                accelerated: accelerated.get(*test).copied(),
            })
            .collect()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |outcome| match outcome {
            Some(Outcome::Passed) => "passes",
            Some(Outcome::Failed) => "fails",
            Some(Outcome::Skipped) => "is skipped",
            None => "does not run",
        };
        let (natively, accelerated) = (word(self.natively), word(self.accelerated));
        write!(
            f,
            "{}: {} {natively} natively, {accelerated} with the provider",
            self.recipe, self.test
        )
    }
}

/// Whether a test is a part of `whole`. Those at the top of a recipe have other names than their
/// parts say.
fn is_in(part: &str, whole: &str) -> bool {
    let numbered = |name: &str| Some(name.split_once(" - ")?.1.to_owned());
    match whole.rsplit_once(" / ") {
        Some((parents, name)) => {
            let name = numbered(name).unwrap_or_default();
            part.starts_with(&format!("{parents} / {name} / "))
        }
        None => part.contains(" / "),
    }
}

/// Why a difference is harmless; nothing if it has not been explained.
pub fn judge(difference: &Difference) -> Option<&'static str> {
    let is_meant = |explained: &&Explained| {
        explained.recipe == difference.recipe && difference.test.contains(explained.test)
    };
    EXPLAINED.iter().find(is_meant).map(|explained| explained.why)
}

/// Differences that are as they should be.
struct Explained {
    recipe: &'static str,
    /// Part of the test's name.
    test: &'static str,
    why: &'static str,
}

/// These tests change messages of a handshake on the way, or end at once where one of them does.
/// What both sides derive from the messages stays equal natively, since the engine `ossltest` has
/// the digests inside the default provider's `TLS1-PRF` end in a constant. Ours computes its own.
const ENGINE: &str = "an engine of the tests makes every digest a constant; the provider's key \
                      derivation computes the real one";

const EXPLAINED: &[Explained] = &[
    Explained {
        recipe: "test_out_option",
        test: "invalid output path: ",
        why: "the test is called after a path that it draws by chance",
    },
    Explained { recipe: "test_sslextension", test: "Zero extension length test", why: ENGINE },
    Explained { recipe: "test_sslrecords", test: "TLSv1.2 in SSLv2 ClientHello", why: ENGINE },
    Explained { recipe: "test_sslrecords", test: "Fragmented ClientHello in TLSv1.2", why: ENGINE },
    Explained { recipe: "test_sslvertol", test: "Version tolerance test", why: ENGINE },
    Explained { recipe: "test_tlsextms", test: "extended master secret", why: ENGINE },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(tests: &[(&str, Outcome)]) -> BTreeMap<String, Outcome> {
        tests.iter().map(|(test, outcome)| ((*test).to_owned(), *outcome)).collect()
    }

    #[test]
    fn of_a_test_with_parts_the_parts_differ_and_whether_all_end() {
        use Outcome::{Failed, Passed};
        let natively = outcomes(&[
            ("1 - running x", Passed),
            ("x / 1 - inner", Passed),
            ("x / 2 - other", Passed),
            ("x / inner / 1 - a", Passed),
            (&finishes(), Passed),
        ]);
        let accelerated = outcomes(&[
            (&finishes(), Failed),
            ("1 - running x", Failed),
            ("x / 1 - inner", Failed),
            ("x / 2 - other", Passed),
        ]);
        let differences = Difference::between("test_x", &natively, &accelerated);
        let said: Vec<String> = differences.iter().map(ToString::to_string).collect();
        let (hangs, part) = (&said[0], &said[1]);
        assert!(hangs.ends_with(" s passes natively, fails with the provider"), "{hangs}");
        assert!(part.starts_with("test_x: x / inner / 1 - a passes natively, does not run"));
        assert_eq!(said.len(), 2);
        assert!(Difference::between("test_x", &natively, &natively).is_empty());
    }
}
