//! What CONTRIBUTING.md says about additions.

use std::fs;
use std::path::Path;

use crate::tidy::{Finding, House};

const GUIDE: &str = "CONTRIBUTING.md";

/// The most existing files that an addition may touch.
const FILES_MAX: usize = 12;

/// T14: files of the guide that do not exist, and lists that are too long.
pub fn check(house: &House<'_>) -> Vec<Finding> {
    let root = &house.workspace.root;
    let guide = fs::read_to_string(root.join(GUIDE)).unwrap_or_default();
    findings(&guide, |path| root.join(path).is_file())
}

fn findings(guide: &str, exists: impl Fn(&Path) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut is_guide, mut files) = (false, 0);
    for (line, number) in guide.lines().zip(1..) {
        if line.starts_with("## ") {
            is_guide = line == "## To add something";
        }
        if line.starts_with('#') {
            files = 0;
        }
        let Some(path) = line.strip_prefix("- `").filter(|_| is_guide) else { continue };
        let path = path.split('`').next().unwrap_or_default();
        if !exists(Path::new(path)) {
            findings.push(Finding::new(GUIDE, number, format!("there is no {path}")));
        }
        files += 1;
        if files == FILES_MAX + 1 {
            findings.push(Finding::new(GUIDE, number, format!("more than {FILES_MAX} files")));
        }
    }
    if !guide.contains("\n## To add something\n") {
        findings.push(Finding::new(GUIDE, 0, "it does not say how to add something"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(guide: &str) -> Vec<String> {
        let found = findings(guide, |path| path == Path::new("a.rs"));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn files_that_are_gone_are_found_and_lists_that_grew() {
        let guide = "# A\n- `c.rs`\n\n## To add something\n### X\n- `a.rs`: a line\n";
        assert_eq!(found(guide), [""; 0]);
        let gone = format!("{guide}- `b.rs`: a line\n");
        assert_eq!(found(&gone), ["CONTRIBUTING.md:7: there is no b.rs"]);
        let twelve = guide.to_owned() + &"- `a.rs`\n".repeat(11);
        assert_eq!(found(&twelve), [""; 0]);
        let thirteen = twelve.clone() + "- `a.rs`\n";
        assert_eq!(found(&thirteen), ["CONTRIBUTING.md:18: more than 12 files"]);
        let two_lists = twelve + "### Y\n- `a.rs`\n## Z\n- `b.rs`\n";
        assert_eq!(found(&two_lists), [""; 0]);
    }

    #[test]
    fn a_guide_that_is_gone_is_found() {
        assert_eq!(found("# A\n"), ["CONTRIBUTING.md: it does not say how to add something"]);
    }
}
