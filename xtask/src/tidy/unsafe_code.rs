//! Which files have `unsafe` code, and that each says why.

use crate::tidy::source::Source;
use crate::tidy::{Finding, House};

/// T3: files with `unsafe` that leave it to a module around them to allow it, and permissions
/// without a reason. Without any permission the compiler refuses them.
pub fn check(house: &House<'_>) -> Vec<Finding> {
    house.sources.iter().flat_map(findings).collect()
}

fn findings(source: &Source) -> Vec<Finding> {
    let attributes = source.code.match_indices("unsafe_code");
    let attributes: Vec<_> = attributes
        .map(|(at, _)| source.code.split_at(at))
        .filter(|(before, _)| before.trim_end().ends_with("allow("))
        .collect();
    if attributes.is_empty() && !source.is_test() {
        let line = source.lines_with("unsafe").find(|line| !source.is_in_unit_tests(*line));
        let what = "`unsafe` without `allow(unsafe_code, reason = …)` in this file";
        return line.map(|line| Finding::new(&source.path, line, what)).into_iter().collect();
    }
    let is_unexplained = |after: &str| !after.split(")]").next().unwrap_or("").contains("reason =");
    attributes
        .into_iter()
        .filter(|(_, after)| is_unexplained(after))
        .map(|(before, _)| {
            let line = before.lines().count();
            Finding::new(&source.path, line, "unsafe code is allowed without a reason")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        findings(&Source::new(path, text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_file_says_itself_why_it_has_unsafe_code() {
        let path = "crates/vault/src/chunk.rs";
        let code = "fn f() {\n    // unsafe in words only\n    unsafe { g() }\n}\n";
        assert_eq!(lines(path, code), [3]);
        assert_eq!(lines("crates/vault/tests/all/main.rs", code), [0; 0]);
        assert_eq!(lines(path, &format!("fn f() {{}}\nmod tests {{\n{code}}}\n")), [0; 0]);
        assert_eq!(lines(path, &format!("#![allow(unsafe_code, reason = \"C\")]\n{code}")), [0; 0]);
        let wide = "#![allow(\n    unsafe_code,\n    reason = \"C\"\n)]\n";
        assert_eq!(lines(path, &format!("{wide}{code}")), [0; 0]);
        assert_eq!(lines(path, &format!("#![allow(unsafe_code)]\n{code}")), [1]);
    }
}
