//! What `iptables-save` and `ip6tables-save` write, as far as it is about the five fields.
//!
//! ```text
//! *filter
//! :FORWARD DROP [0:0]
//! -A FORWARD -s 10.0.0.0/8 -p tcp -m tcp --dport 80 -j ACCEPT
//! COMMIT
//! ```
//!
//! The rules of the chain `FORWARD` in the table `filter` are read, and its policy; other chains
//! and tables are left alone, and so are the counters of `iptables-save -c`. What looks at more
//! than addresses, protocol and ports is refused.

use super::parse::{Cursor, ParseError, lines};
use super::protocol::{has_ports, protocol};
use super::{Layout, Match, Rule, RuleSet};

/// The result of a packet that is dropped or rejected.
pub const DROP: u32 = 0;

/// The result of a packet that is accepted; the default where the file names no policy.
pub const ACCEPT: u32 = 1;

/// Reads the text of a saved table; `file` is what errors call it.
///
/// # Errors
///
/// At the first rule that looks at something else, with line and column; and if the chain is
/// missing.
pub fn parse(file: &str, text: &str) -> Result<RuleSet, ParseError> {
    // Rules without an address may be of either version; the comment of `ip6tables-save` decides.
    let is_v6 = lines(text).any(|line| line.starts_with('#') && line.contains("ip6tables"));
    let mut bytes = is_v6.then_some(16);
    let mut default = ACCEPT;
    let mut rules = Vec::new();
    let (mut is_filter, mut is_read) = (false, false);
    for mut cursor in Cursor::lines(file, text) {
        if cursor.take('[') {
            counters(&mut cursor)?;
        }
        match cursor.peek() {
            word if word.starts_with('*') => is_filter = word == "*filter",
            "COMMIT" => is_filter = false,
            ":FORWARD" if is_filter => {
                cursor.skip();
                (is_read, default) = (true, verdict(&mut cursor)?);
            }
            word if word.starts_with(':') => {}
            "-A" => {
                cursor.skip();
                if is_filter && cursor.peek() == "FORWARD" {
                    cursor.skip();
                    is_read = true;
                    rules.push(rule(&mut cursor, &mut bytes)?);
                }
            }
            _ => return Err(cursor.expected("\"*\" and a table, \":\" and a chain, or \"-A\"")),
        }
    }
    if !is_read {
        let wanted = "the chain FORWARD of the table filter, as iptables-save writes it";
        return Err(Cursor::missing(file, text, wanted));
    }
    Ok(RuleSet { default, rules, ..RuleSet::new(Layout::of_addresses(bytes)) })
}

/// Reads what follows the name of the chain. The first address settles how long addresses are.
fn rule(cursor: &mut Cursor<'_>, bytes: &mut Option<usize>) -> Result<Rule, ParseError> {
    let mut matches = [None; 5];
    let mut result = None;
    while !cursor.is_at_end() {
        let option = cursor.peek();
        let field = match option {
            "-s" => 0,
            "-d" => 1,
            "--sport" => 2,
            "--dport" => 3,
            "-p" => 4,
            "-m" | "--comment" | "--reject-with" | "-j" => 5,
            _ => return Err(cursor.expected("-s, -d, -p, --sport, --dport or -j")),
        };
        if matches.get(field).is_some_and(Option::is_some) || option == "-j" && result.is_some() {
            return Err(cursor.expected("each option once"));
        }
        if matches!(field, 2 | 3) && !matches[4].as_ref().is_some_and(has_ports) {
            return Err(cursor.expected("ports behind -p and a protocol that has them"));
        }
        cursor.skip();
        match (field, option) {
            (0 | 1, _) => {
                let (prefix, length) = cursor.prefix(*bytes)?;
                (*bytes, matches[field]) = (Some(length), Some(prefix));
            }
            (2 | 3, _) => matches[field] = Some(cursor.port_or_ports(':')?),
            (4, _) => matches[field] = Some(protocol_or_any(cursor)?),
            (_, "-m") => module(cursor)?,
            (_, "-j") => result = Some(verdict(cursor)?),
            (_, "--comment") => cursor.skip_quoted(),
            _ => cursor.skip(),
        }
    }
    let Some(result) = result else { return Err(cursor.expected("-j ACCEPT, DROP or REJECT")) };
    let matches = matches.map(|of| of.unwrap_or(Match::ANY)).into();
    Ok(Rule { matches, priority: 0, categories: 1, result, line: cursor.number() })
}

/// Takes a protocol; "all" and number 0 are any.
fn protocol_or_any(cursor: &mut Cursor<'_>) -> Result<Match, ParseError> {
    if cursor.take_name("all") {
        return Ok(Match::ANY);
    }
    let one = protocol(cursor)?;
    Ok(if one.accepts(0) { Match::ANY } else { one })
}

/// Leaves behind how many packets and bytes a rule has seen: `12:3456]`.
fn counters(cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
    let what = "a count of packets or bytes";
    cursor.integer(what, u64::MAX.into())?;
    cursor.must_take(':')?;
    cursor.integer(what, u64::MAX.into())?;
    cursor.must_take(']')
}

fn verdict(cursor: &mut Cursor<'_>) -> Result<u32, ParseError> {
    let result = match cursor.peek() {
        "ACCEPT" => ACCEPT,
        "DROP" | "REJECT" => DROP,
        _ => return Err(cursor.expected("ACCEPT, DROP or REJECT")),
    };
    cursor.skip();
    Ok(result)
}

/// Takes the name of a module that looks at ports, or at nothing.
fn module(cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
    match cursor.peek() {
        "tcp" | "udp" | "sctp" | "dccp" | "udplite" | "comment" => cursor.skip(),
        _ => return Err(cursor.expected("tcp, udp, sctp or comment: others need more than fields")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVED: &str = "\
# Generated by iptables-save v1.8.9
*nat
:PREROUTING ACCEPT [0:0]
-A PREROUTING -p tcp -m addrtype --dst-type LOCAL -j DOCKER
COMMIT
*filter
:INPUT ACCEPT [12:3456]
:FORWARD DROP [0:0]
-A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT
-A FORWARD -s 10.0.0.0/8 -d 192.0.2.1/32 -p tcp -m tcp --dport 80:81 -j ACCEPT
-A FORWARD -p udp -m udp --sport 53 -m comment --comment \"no -j here\" -j REJECT --reject-with x
-A FORWARD -p 50 -j ACCEPT
COMMIT
";

    #[test]
    fn the_forward_chain_is_read() {
        let set = parse("saved", SAVED).unwrap();
        assert_eq!((set.layout, set.default), (Layout::ipv4(), DROP));
        let results: Vec<u32> = set.rules.iter().map(|rule| rule.result).collect();
        assert_eq!(results, [ACCEPT, DROP, ACCEPT]);
        let first = [
            Match::prefix(0x0a00_0000, 8, 4),
            Match::exact(0xc000_0201, 4),
            Match::ANY,
            Match::range(80, 81),
            Match::exact(6, 1),
        ];
        assert_eq!((&*set.rules[0].matches, set.rules[0].line), (&first[..], 10));
        assert_eq!(set.rules[1].matches[2], Match::exact(53, 2));
        assert_eq!(set.rules[2].matches[4], Match::exact(50, 1));
        let v6 = "# Generated by ip6tables-save\n*filter\n-A FORWARD -p ipv6-icmp -j DROP\n";
        let set = parse("saved", v6).unwrap();
        assert_eq!((set.layout, set.default), (Layout::ipv6(), ACCEPT));
        assert_eq!(parse("saved", &format!("\u{feff}{v6}")).unwrap().layout, Layout::ipv6());
    }

    #[test]
    fn counters_names_and_a_byte_order_mark_change_nothing() {
        let counted = SAVED.replace("-A FORWARD", "[7:420] -A FORWARD");
        let counted = counted.replace("-A INPUT", "[0:0] -A INPUT");
        assert_eq!(parse("saved", &counted), parse("saved", SAVED));
        assert_eq!(parse("saved", &format!("\u{feff}{SAVED}")), parse("saved", SAVED));
        let error = parse("saved", &counted.replace("[7:420]", "[7]")).unwrap_err().to_string();
        assert_eq!(error, "saved:10:3: expected \":\", found \"]\"");
        let named =
            SAVED.replace("-p 50", "-p vrrp").replace("-p udp -m udp --sport 53", "-p ospf");
        let set = parse("saved", &named).unwrap();
        assert_eq!(set.rules[1].matches[4], Match::exact(89, 1));
        assert_eq!(set.rules[2].matches[4], Match::exact(112, 1));
    }

    #[test]
    fn a_save_without_the_chain_is_no_rule_set() {
        let wanted = "expected the chain FORWARD of the table filter, as iptables-save writes it";
        let nat = SAVED.split_once("*filter").unwrap().0;
        let error = parse("saved", nat).unwrap_err().to_string();
        assert_eq!(error, format!("saved:5:1: {wanted}, found the end of the file"));
        let error = parse("saved", "").unwrap_err().to_string();
        assert_eq!(error, format!("saved:1:1: {wanted}, found an empty file"));
        let set = parse("saved", "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n").unwrap();
        assert_eq!((set.rules.len(), set.default), (0, DROP));
    }

    #[test]
    fn protocol_zero_is_any() {
        for protocol in ["0", "ip", "all"] {
            let text = format!("*filter\n-A FORWARD -p {protocol} -j DROP\n");
            let set = parse("saved", &text).unwrap();
            assert_eq!(set.rules[0].matches[4], Match::ANY, "{protocol}");
        }
    }

    #[test]
    fn what_needs_more_than_fields_is_refused() {
        let error = |options: &str| {
            let text = format!("*filter\n-A FORWARD {options}\n");
            parse("saved", &text).unwrap_err().to_string()
        };
        assert_eq!(
            error("-i eth0 -j DROP"),
            "saved:2:12: expected -s, -d, -p, --sport, --dport or -j, found \"-i\""
        );
        assert!(error("! -s 10.0.0.0/8 -j DROP").ends_with("found \"!\""));
        assert!(
            error("-m conntrack --ctstate NEW -j DROP").starts_with("saved:2:15: expected tcp")
        );
        assert!(error("-p tcp -j LOG").starts_with("saved:2:22: expected ACCEPT"));
        assert!(error("-p tcp").ends_with("-j ACCEPT, DROP or REJECT, found the end of the line"));
        assert!(error("-p tcp --dport 9:8 -j DROP").contains("not below 9, found \"8\""));
        assert!(error("-s 10.0.0.1 -j DROP").contains("expected \"/\""));
        for (options, place) in [
            ("-p tcp -p udp -j DROP", "2:19"),
            ("-j DROP -j ACCEPT", "2:20"),
            ("-s 10.0.0.0/8 -s 11.0.0.0/8 -j DROP", "2:26"),
            ("-p tcp --dport 1 --dport 2 -j DROP", "2:29"),
        ] {
            let error = error(options);
            assert!(
                error.starts_with(&format!("saved:{place}: expected each option once")),
                "{error}"
            );
        }
        for options in
            ["--dport 5 -j DROP", "-p icmp --dport 5 -j DROP", "-p all --sport 5 -j DROP"]
        {
            assert!(error(options).contains("expected ports behind -p"), "{options}");
        }
        assert!(parse("saved", "flush ruleset\n").is_err());
    }
}
