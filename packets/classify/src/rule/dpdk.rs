//! Rule files of DPDK's `l3fwd-acl`: `@` lines deny, `R` lines route.
//!
//! ```text
//! @10.1.0.0/16 0.0.0.0/0 0 : 65535 25 : 25 0x06/0xff
//! R0.0.0.0/0 192.168.0.0/16 0 : 65535 0 : 65535 0x0/0x0 3
//! ```
//!
//! A file holds IPv4 rules or IPv6 rules. Whichever line stands first wins, whatever its kind.

use super::parse::{Cursor, ParseError};
use super::{Layout, Rule, RuleSet};

/// Set in the result of a packet that an `@` line denies; the other bits count those lines from 0.
pub const DENY: u32 = 0xf000_0000;

/// The result of a packet that no line matches.
pub const NO_ROUTE: u32 = u32::MAX;

/// The highest port that an `R` line can name: the values from [`DENY`] on mean something else.
pub const PORT_MAX: u32 = DENY - 1;

/// Reads the text of a rule file; `file` is what errors call it. The result of a routed packet is
/// the port of its line.
///
/// # Errors
///
/// At the first line that is no rule, with line and column.
pub fn parse(file: &str, text: &str) -> Result<RuleSet, ParseError> {
    let mut bytes = None;
    let mut rules = Vec::new();
    let mut denials = 0;
    for mut cursor in Cursor::lines(file, text) {
        let routes = cursor.take('R');
        if !routes && !cursor.take('@') {
            return Err(cursor.expected("\"@\" to deny or \"R\" to route"));
        }
        let matches = cursor.five_fields(&mut bytes)?;
        let result = match routes {
            true => cursor.integer("a port to route to", PORT_MAX.into())? as u32,
            false => {
                denials += 1;
                DENY | (denials - 1)
            }
        };
        cursor.end()?;
        rules.push(Rule { matches, priority: 0, categories: 1, result, line: cursor.number() });
    }
    Ok(RuleSet { default: NO_ROUTE, rules, ..RuleSet::new(Layout::of_addresses(bytes)) })
}

#[cfg(test)]
mod tests {
    use super::super::Match;
    use super::*;

    #[test]
    fn both_kinds_of_lines_are_read() {
        let text = "# comment\n\
            @1.2.3.0/24 0.0.0.0/0 0 : 65535 20 : 25 0x06/0xff\n\n\
            R0.0.0.0/0 192.168.0.0/36 0 : 65535 0 : 65535 0x0/0x0 3\n";
        let error = parse("a.rules", text).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.rules:4:24: expected a prefix length, 0 to 32, found \"36\""
        );
        let set = parse("a.rules", &text.replace("/36", "/16")).unwrap();
        assert_eq!(set.layout, Layout::ipv4());
        assert_eq!(set.rules.iter().map(|rule| rule.result).collect::<Vec<_>>(), [DENY, 3]);
        assert_eq!(set.rules[0].line, 2);
        assert_eq!(set.rules[0].matches[3], Match::range(20, 25));
        assert_eq!(set.rules[1].matches[1], Match::prefix(0xc0a8_0000, 16, 4));
    }

    #[test]
    fn addresses_of_one_version_make_a_file() {
        let v6 = "R2001:db8::/32 ::/0 0 : 65535 0 : 65535 0x11/0xff 0\n";
        let set = parse("b", v6).unwrap();
        assert_eq!(set.layout, Layout::ipv6());
        let mixed = format!("{v6}@1.2.3.4/32 ::/0 0 : 1 0 : 1 0/0\n");
        let error = parse("b", &mixed).unwrap_err();
        assert_eq!(
            error.to_string(),
            "b:2:2: expected an IPv6 address, as the file's others are, found \"1.2.3.4/32\""
        );
    }

    #[test]
    fn every_cut_of_a_line_is_an_error_with_its_place() {
        let line = "R1.2.3.0/24 0.0.0.0/0 10 : 65535 20 : 25 0x06/0xff 7";
        parse("c", line).unwrap();
        for cut in [2, 12, 13, 23, 26, 28, 34, 37, 39, 42, 47, 52] {
            let error = parse("c", &line[..cut - 1]).unwrap_err();
            assert_eq!(error.found, "the end of the line", "cut before column {cut}");
            assert!(error.column <= cut, "{error}");
        }
        let backward = "@1.2.3.0/24 0.0.0.0/0 10 : 9 20 : 25 0x06/0xff";
        let error = parse("c", backward).unwrap_err();
        assert_eq!((error.column, error.found.as_str()), (28, "\"9\""));
        assert_eq!(parse("c", "X").unwrap_err().expected, "\"@\" to deny or \"R\" to route");
        assert_eq!(parse("c", &format!("{line} x")).unwrap_err().column, 54);
    }
}
