//! ClassBench: filter files and the traces that go with them.
//!
//! ```text
//! @10.1.0.0/16  0.0.0.0/0  0 : 65535  25 : 25  0x06/0xFF  0x0000/0x0000
//! ```
//!
//! Addresses may be of IPv6 instead, in all of a file. The flags at the end of a filter are read
//! and not compared. The result of a packet is the index of its filter, counted from 0.

use super::parse::{Address, Cursor, ParseError};
use super::{Layout, Rule, RuleSet};
use crate::flow::Flow;

/// The result of a packet that no filter matches.
pub const NO_FILTER: u32 = u32::MAX;

/// Reads the text of a filter file; `file` is what errors call it.
///
/// # Errors
///
/// At the first line that is no filter, with line and column.
pub fn parse(file: &str, text: &str) -> Result<RuleSet, ParseError> {
    let (mut bytes, mut rules) = (None, Vec::new());
    for mut cursor in Cursor::lines(file, text) {
        cursor.must_take('@')?;
        let matches = cursor.five_fields(&mut bytes)?;
        if !cursor.is_at_end() {
            cursor.integer("flags", 0xffff)?;
            cursor.must_take('/')?;
            cursor.integer("a mask", 0xffff)?;
        }
        cursor.end()?;
        rules.push(Rule {
            matches,
            priority: 0,
            categories: 1,
            result: rules.len() as u32,
            line: cursor.number(),
        });
    }
    Ok(RuleSet { default: NO_FILTER, rules, ..RuleSet::new(Layout::of_addresses(bytes)) })
}

/// Reads a trace: one flow per line, as addresses, ports and protocol separated by space. An IPv4
/// address may be one decimal number, as ClassBench writes it; what follows the protocol is left
/// alone.
///
/// # Errors
///
/// At the first line that is no flow, with line and column.
pub fn parse_trace(file: &str, text: &str) -> Result<Vec<Flow>, ParseError> {
    Cursor::lines(file, text).map(|mut cursor| flow(&mut cursor)).collect()
}

fn flow(cursor: &mut Cursor<'_>) -> Result<Flow, ParseError> {
    let source = cursor.flow_address()?;
    let destination = cursor.flow_address()?;
    let ports = [cursor.integer("a port", 0xffff)?, cursor.integer("a port", 0xffff)?];
    let protocol = cursor.integer("a protocol", 0xff)? as u8;
    let ports = ports.map(|port| port as u16);
    match (source, destination) {
        (Address::V4(source), Address::V4(destination)) => {
            Ok(Flow::v4(source, destination, ports, protocol))
        }
        (Address::V6(source), Address::V6(destination)) => {
            Ok(Flow::v6(source, destination, ports, protocol))
        }
        _ => {
            cursor.seek(0);
            Err(cursor.expected("two addresses of one version"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Match;

    const LINE: &str = "@10.1.0.0/16\t0.0.0.0/0\t0 : 65535\t25 : 25\t0x06/0xFF\t0x1000/0x1000\t";

    #[test]
    fn filters_count_from_zero() {
        let set = parse("acl1", &format!("{LINE}\n{LINE}\n")).unwrap();
        assert_eq!(set.rules.iter().map(|rule| rule.result).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(set.rules[0].matches[4], Match::Mask { value: 6, mask: 0xff });
        assert_eq!(set.default, NO_FILTER);
    }

    #[test]
    fn a_filter_without_its_sign_is_refused() {
        let error = parse("acl1", &LINE[1..]).unwrap_err();
        assert_eq!(error.to_string(), "acl1:1:1: expected \"@\", found \"10.1.0.0/16\"");
    }

    #[test]
    fn filters_of_ipv6_are_read_and_what_does_not_fit_is_named_where_it_stands() {
        let v6 = LINE.replace("10.1.0.0/16", "2001:db8::/32").replace("0.0.0.0/0", "::/0");
        let set = parse("acl1", &format!("\u{feff}{v6}\n{v6}\n")).unwrap();
        assert_eq!((set.layout, set.rules.len()), (Layout::ipv6(), 2));
        let error = parse("acl1", &format!("{v6}\n{LINE}\n")).unwrap_err().to_string();
        assert!(error.starts_with("acl1:2:2: expected an IPv6 address, as the file's"), "{error}");
        let mixed = LINE.replace("0.0.0.0/0", "::/0");
        let error = parse("acl1", &mixed).unwrap_err().to_string();
        assert!(error.starts_with("acl1:1:14: expected an IPv4 address, as the file's"), "{error}");
    }

    #[test]
    fn traces_hold_addresses_as_numbers_or_as_text() {
        let text = "167772161\t1.2.3.4\t5\t6\t17\t0\t3\n2001:db8::1 ::2 7 8 6\n";
        let flows = parse_trace("t", text).unwrap();
        assert_eq!(flows[0], Flow::v4(0x0a00_0001, 0x0102_0304, [5, 6], 17));
        assert_eq!(flows[1], Flow::v6(0x2001_0db8 << 96 | 1, 2, [7, 8], 6));
        let error = parse_trace("t", "1 ::2 7 8 6").unwrap_err();
        assert_eq!(error.to_string(), "t:1:1: expected two addresses of one version, found \"1\"");
        let error = parse_trace("t", "1 2 70000 8 6").unwrap_err();
        assert_eq!(error.to_string(), "t:1:5: expected a port, 0 to 65535, found \"70000\"");
    }
}
