//! What `nft list ruleset` writes, as far as it is about the five fields.
//!
//! ```text
//! table inet filter {
//!     chain forward {
//!         type filter hook forward priority filter; policy drop;
//!         ip saddr { 10.0.0.0/8, 192.0.2.1 } tcp dport 80-81 accept
//!     }
//! }
//! ```
//!
//! The rules of the filter chain at the hook `forward` are read, and its policy; other chains, sets
//! with names, tables that are dormant or of other families, and the handles of `nft -a` are left
//! alone. A rule with anonymous sets stands for one rule for each choice
//! of their elements. What looks at more than addresses, protocol and ports is refused.

use super::iptables::{ACCEPT, DROP};
use super::parse::{Cursor, ParseError};
use super::protocol::{has_ports, protocol};
use super::{Layout, Match, Rule, RuleSet};

/// How many rules the sets of one rule may stand for.
const CHOICES_MAX: usize = 4096;
/// How many rules a file may stand for. Each takes some 300 bytes of memory.
const RULES_MAX: usize = 1 << 20;

/// Where a line stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    Table,
    /// In what is left alone, but for the line that says that it is the chain; and in how many
    /// blocks within.
    Block(usize),
    Forward,
}

/// Which packets come to a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Packets with addresses of so many bytes.
    Of(usize),
    /// Packets of both versions of IP.
    Both,
    /// Frames of bridges and others.
    Other,
}

/// Reads the text of a rule set; `file` is what errors call it.
///
/// # Errors
///
/// At the first rule that looks at something else, with line and column; and if the chain is
/// missing.
pub fn parse(file: &str, text: &str) -> Result<RuleSet, ParseError> {
    let (mut bytes, mut default, mut rules) = (None, ACCEPT, Vec::new());
    let (mut place, mut is_read) = (Place::Outside, false);
    let (mut family, mut is_live) = (Family::Other, false);
    for mut cursor in Cursor::lines(file, text) {
        cursor.cut_off(" # handle ");
        let line = cursor.rest_trimmed();
        place = match place {
            Place::Outside => {
                family = table(&mut cursor)?;
                is_live = family != Family::Other;
                Place::Table
            }
            Place::Table if line.starts_with("flags ") && line.contains("dormant") => {
                is_live = false;
                Place::Table
            }
            Place::Table if line == "}" => Place::Outside,
            Place::Forward if line == "}" => Place::Table,
            // Behind the end of an anonymous chain, a comment may follow.
            Place::Block(within) if line.starts_with('}') => {
                within.checked_sub(1).map_or(Place::Table, Place::Block)
            }
            Place::Table if line.ends_with('{') => Place::Block(0),
            Place::Block(within) if line.ends_with('{') => Place::Block(within + 1),
            Place::Block(_) if is_live && line.starts_with("type filter hook forward ") => {
                if is_read {
                    return Err(cursor.expected(
                        "one chain at the hook forward in all tables; where there are more, list \
                         one table alone, as with `nft list table ip filter`",
                    ));
                }
                (is_read, default) = (true, policy(&mut cursor)?);
                if let Family::Of(length) = family {
                    settle(&mut cursor, &mut bytes, length)?;
                }
                Place::Forward
            }
            Place::Forward => {
                rules.extend(rule(&mut cursor, &mut bytes)?);
                if rules.len() > RULES_MAX {
                    let wanted = format!("a file whose sets stand for at most {RULES_MAX} rules");
                    return Err(cursor.expected(wanted));
                }
                Place::Forward
            }
            place => place,
        };
    }
    if !is_read {
        let wanted = "a filter chain at the hook forward, as nft list ruleset writes it";
        return Err(Cursor::missing(file, text, wanted));
    }
    Ok(RuleSet { default, rules, ..RuleSet::new(Layout::of_addresses(bytes)) })
}

/// Reads the first line of a table.
fn table(cursor: &mut Cursor<'_>) -> Result<Family, ParseError> {
    if !cursor.take_name("table") {
        return Err(cursor.expected("\"table\", as nft list ruleset begins"));
    }
    Ok(match cursor.peek() {
        "ip" => Family::Of(4),
        "ip6" => Family::Of(16),
        "inet" => Family::Both,
        _ => Family::Other,
    })
}

/// Reads the policy behind a chain's hook and priority, up to the end of the line; without one,
/// packets are accepted.
fn policy(cursor: &mut Cursor<'_>) -> Result<u32, ParseError> {
    cursor.skip_behind(';');
    let policy = match cursor.take_name("policy") {
        true if cursor.take_name("drop") => DROP,
        true if !cursor.take_name("accept") => return Err(cursor.expected("accept or drop")),
        _ => ACCEPT,
    };
    cursor.take(';');
    cursor.end()?;
    Ok(policy)
}

/// Notes how long addresses are, which is the same for all rules.
fn settle(
    cursor: &mut Cursor<'_>,
    bytes: &mut Option<usize>,
    length: usize,
) -> Result<(), ParseError> {
    if bytes.is_some_and(|settled| settled != length) {
        let version = if length == 4 { 6 } else { 4 };
        return Err(cursor.expected(format!("rules of IPv{version} only, as those before")));
    }
    *bytes = Some(length);
    Ok(())
}

/// Reads a rule, a line.
fn rule(cursor: &mut Cursor<'_>, bytes: &mut Option<usize>) -> Result<Vec<Rule>, ParseError> {
    let mut fields: [Vec<Match>; 5] = Default::default();
    let result = loop {
        match cursor.peek() {
            "accept" => break ACCEPT,
            "drop" | "reject" => break DROP,
            "counter" => counter(cursor),
            word @ ("ip" | "ip6") => {
                let length = if word == "ip" { 4 } else { 16 };
                settle(cursor, bytes, length)?;
                cursor.skip();
                match cursor.peek() {
                    "saddr" => set(cursor, &mut fields[0], |at| at.values(length))?,
                    "daddr" => set(cursor, &mut fields[1], |at| at.values(length))?,
                    "protocol" if length == 4 => set(cursor, &mut fields[4], protocol)?,
                    // The kernel compares the first header with it, which may be an extension.
                    "nexthdr" => {
                        return Err(cursor.expected("meta l4proto, which skips extension headers"));
                    }
                    _ => return Err(cursor.expected("saddr, daddr or protocol")),
                }
            }
            "tcp" | "udp" | "sctp" | "dccp" | "udplite" => {
                let transport = protocol(cursor)?;
                if !fields[4].is_empty() && !fields[4].contains(&transport) {
                    return Err(cursor.expected("ports of the protocol that the rule names"));
                }
                fields[4] = vec![transport];
                ports(cursor, &mut fields)?;
            }
            "th" => {
                // Of any other packet, the kernel compares what stands in the place of the ports.
                if fields[4].is_empty() || !fields[4].iter().all(has_ports) {
                    return Err(cursor.expected("th behind meta l4proto, of protocols with ports"));
                }
                cursor.skip();
                ports(cursor, &mut fields)?;
            }
            "meta" => {
                cursor.skip();
                match cursor.peek() {
                    "l4proto" => set(cursor, &mut fields[4], protocol)?,
                    "nfproto" => {
                        cursor.skip();
                        let length = match cursor.peek() {
                            "ipv4" => 4,
                            "ipv6" => 16,
                            _ => return Err(cursor.expected("ipv4 or ipv6")),
                        };
                        settle(cursor, bytes, length)?;
                        cursor.skip();
                    }
                    _ => return Err(cursor.expected("l4proto or nfproto")),
                }
            }
            _ => {
                let known = "ip, ip6, tcp, udp, th, meta l4proto, counter, accept, drop or reject";
                return Err(cursor.expected(known));
            }
        }
    };
    cursor.skip();
    if cursor.take_name("with") {
        // What the sender of a rejected packet gets, such as `icmp port-unreachable`. The kernel
        // rejects packets of that version only; `icmpx` and `tcp` are of both.
        match cursor.peek() {
            "icmp" => settle(cursor, bytes, 4)?,
            "icmpv6" => settle(cursor, bytes, 16)?,
            // Only connections of TCP can be reset. Such a rule is for TCP alone, although nft does
            // not always list that.
            "tcp" => {
                let tcp = Match::exact(6, 1);
                if !fields[4].is_empty() && !fields[4].contains(&tcp) {
                    let wanted = "icmp or icmpx, as the rule is not for TCP alone";
                    return Err(cursor.expected(wanted));
                }
                fields[4] = vec![tcp];
            }
            _ => {}
        }
        cursor.skip_name();
        cursor.take_name("type");
        cursor.skip_name();
    }
    if cursor.take_name("comment") {
        cursor.skip_quoted();
    }
    cursor.end()?;
    let sizes = fields.iter().map(|of| of.len().max(1));
    let choices = sizes.fold(1, usize::saturating_mul);
    if choices > CHOICES_MAX {
        let wanted = format!("sets that stand for at most {CHOICES_MAX} rules");
        return Err(cursor.expected(wanted));
    }
    let line = cursor.number();
    let choose = |mut choice: usize| {
        let matches = fields.iter().map(|of| {
            let chosen = of.get(choice % of.len().max(1)).copied();
            choice /= of.len().max(1);
            chosen.unwrap_or(Match::ANY)
        });
        Rule { matches: matches.collect(), priority: 0, categories: 1, result, line }
    };
    Ok((0..choices).map(choose).collect())
}

/// Leaves a counter behind, and what it has counted.
fn counter(cursor: &mut Cursor<'_>) {
    cursor.skip();
    for word in ["packets", "bytes"] {
        if cursor.take_name(word) {
            cursor.skip();
        }
    }
}

/// Reads which ports, behind the name of the protocol.
fn ports(cursor: &mut Cursor<'_>, fields: &mut [Vec<Match>; 5]) -> Result<(), ParseError> {
    let field = match cursor.peek() {
        "sport" => 2,
        "dport" => 3,
        _ => return Err(cursor.expected("sport or dport")),
    };
    set(cursor, &mut fields[field], |at| at.port_or_ports('-'))
}

/// Reads what follows the name of a field: one element, or several in braces.
fn set(
    cursor: &mut Cursor<'_>,
    field: &mut Vec<Match>,
    mut element: impl FnMut(&mut Cursor<'_>) -> Result<Match, ParseError>,
) -> Result<(), ParseError> {
    if !field.is_empty() {
        return Err(cursor.expected("each field once"));
    }
    cursor.skip();
    if !cursor.take('{') {
        field.push(element(cursor)?);
        return Ok(());
    }
    loop {
        field.push(element(cursor)?);
        if !cursor.take(',') {
            return cursor.must_take('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by nft 1.0.6.
    const LISTED: &str = "\
table inet filter {
	set allowed {
		type ipv4_addr
		elements = { 10.0.0.1, 10.0.0.2,
			     10.0.0.9 }
	}

	chain input {
		type filter hook input priority filter; policy accept;
		ct state established accept
	}

	chain forward {
		type filter hook forward priority filter; policy drop;
		ip saddr 10.0.0.0/8 ip daddr 192.0.2.1 tcp dport 80 accept
		ip saddr { 10.1.0.0-10.2.255.255 } udp sport 53 udp dport 1024-65535 counter packets 0 \
bytes 0 accept comment \"dns back\"
		tcp dport { 22, 80, 8000-8010 } accept
		ip protocol icmp accept
		ip protocol { tcp, udp } ip daddr 192.0.2.7 drop
		meta l4proto { tcp, udp } th dport 53 accept
		ip saddr 10.0.0.5-10.0.0.9 reject with icmp port-unreachable
		meta nfproto ipv4 meta l4proto esp accept
	}
}
";

    #[test]
    fn the_chain_at_the_hook_is_read() {
        let set = parse("listed", LISTED).unwrap();
        assert_eq!((set.layout, set.default), (Layout::ipv4(), DROP));
        let lines: Vec<u32> = set.rules.iter().map(|rule| rule.line).collect();
        assert_eq!(lines, [15, 16, 17, 17, 17, 18, 19, 19, 20, 20, 21, 22]);
        let first = [
            Match::prefix(0x0a00_0000, 8, 4),
            Match::exact(0xc000_0201, 4),
            Match::ANY,
            Match::exact(80, 2),
            Match::exact(6, 1),
        ];
        assert_eq!(&*set.rules[0].matches, first);
        let ports: Vec<Match> = set.rules[2..5].iter().map(|rule| rule.matches[3]).collect();
        assert_eq!(ports, [Match::exact(22, 2), Match::exact(80, 2), Match::range(8000, 8010)]);
        assert_eq!(set.rules[1].matches[0], Match::range(0x0a01_0000, 0x0a02_ffff));
        assert_eq!(set.rules[1].matches[2..4], [Match::exact(53, 2), Match::range(1024, 65_535)]);
        let protocols: Vec<Match> = set.rules[6..].iter().map(|rule| rule.matches[4]).collect();
        let exact = |number| Match::exact(number, 1);
        assert_eq!(protocols, [exact(6), exact(17), exact(6), exact(17), Match::ANY, exact(50)]);
        assert_eq!((set.rules[7].result, set.rules[10].result), (DROP, DROP));
        assert_eq!((set.rules[8].result, set.rules[11].result), (ACCEPT, ACCEPT));
    }

    #[test]
    fn anonymous_chains_in_other_chains_are_left_alone() {
        let inner = "tcp dport 22 jump {\n\t\t\tip saddr 10.0.0.1 goto {\n\t\t\t\taccept\n\t\t\t}\n\
                     \t\t} comment \"admin\"\n\t\tct state";
        let set = parse("listed", &LISTED.replace("ct state", inner)).unwrap();
        assert_eq!((set.rules.len(), set.rules[0].line), (12, 20));
    }

    /// A chain of one rule.
    fn one(family: &str, rule: &str) -> Result<RuleSet, String> {
        let text = format!(
            "table {family} t {{\n\tchain c {{\n\t\ttype filter hook forward priority 0;\n\
             {rule}\n\t}}\n}}\n"
        );
        parse("listed", &text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_family_or_the_first_address_tells_the_version() {
        let set = one("ip6", "drop").unwrap();
        assert_eq!((set.layout, set.default), (Layout::ipv6(), ACCEPT));
        let set = one("inet", "ip6 daddr { 2001:db8::1, 2001:db8:1::/48 } tcp dport 443 accept");
        let set = set.unwrap();
        assert_eq!((set.layout, set.rules.len()), (Layout::ipv6(), 2));
        assert_eq!(set.rules[1].matches[1], Match::prefix(0x2001_0db8_0001 << 80, 48, 16));
        assert_eq!(one("inet", "meta nfproto ipv6 accept").unwrap().layout, Layout::ipv6());
        for (how, layout) in [
            ("icmp port-unreachable", Layout::ipv4()),
            ("icmpv6 no-route", Layout::ipv6()),
            ("icmpx type admin-prohibited", Layout::ipv4()),
            ("tcp reset", Layout::ipv4()),
        ] {
            let rules = format!("tcp dport 22 reject with {how}");
            assert_eq!(one("inet", &rules).unwrap().layout, layout, "{how}");
        }
        let error =
            one("inet", "ip6 saddr ::1 drop\ntcp dport 22 reject with icmp host-unreachable");
        let error = error.unwrap_err();
        assert!(error.starts_with("listed:5:26: expected rules of IPv6 only"), "{error}");
        let error = one("ip", "ip6 saddr ::1 drop").unwrap_err();
        assert!(error.starts_with("listed:4:1: expected rules of IPv4 only"), "{error}");
    }

    #[test]
    fn a_reset_is_for_tcp_alone() {
        for rule in
            ["ip saddr 10.0.0.1", "meta l4proto tcp", "meta l4proto { udp, tcp }", "tcp dport 22"]
        {
            let set = one("ip", &format!("{rule} reject with tcp reset")).unwrap();
            let protocols: Vec<Match> = set.rules.iter().map(|rule| rule.matches[4]).collect();
            assert_eq!(protocols, [Match::exact(6, 1)], "{rule}");
        }
        let error = one("ip", "udp dport 53 reject with tcp reset").unwrap_err();
        assert!(error.contains(": expected icmp or icmpx"), "{error}");
    }

    #[test]
    fn nothing_behind_the_policy_is_lost() {
        let with = |policy: &str| {
            let text = LISTED.replace("filter; policy drop;", policy);
            parse("listed", &text).map(|set| set.default).map_err(|error| error.to_string())
        };
        for (policy, default) in [
            ("0;policy drop", DROP),
            ("filter + 10; policy drop ;", DROP),
            ("-5; policy accept;", ACCEPT),
            ("0;", ACCEPT),
            ("0", ACCEPT),
        ] {
            assert_eq!(with(policy), Ok(default), "{policy}");
        }
        for (policy, place, found) in [
            ("0; policy drop; ip saddr 10.0.0.0/8 accept", "14:53", "\"ip\""),
            ("0; tcp dport 22 accept", "14:40", "\"tcp\""),
            ("0; policy drop garbage", "14:52", "\"garbage\""),
        ] {
            let wanted = format!("listed:{place}: expected the end of the line, found {found}");
            assert_eq!(with(policy), Err(wanted), "{policy}");
        }
    }

    #[test]
    fn handles_names_and_a_byte_order_mark_change_nothing() {
        // As `nft -a` writes them: behind every line that begins something, and behind rules.
        let with_handles: String = LISTED
            .lines()
            .zip(1..)
            .map(|(line, handle)| match line.trim() {
                "" | "}" => format!("{line}\n"),
                text if text.starts_with("type ") || text.starts_with("elements") => {
                    format!("{line}\n")
                }
                text if text.starts_with("10.0.0.9") => format!("{line}\n"),
                _ => format!("{line} # handle {handle}\n"),
            })
            .collect();
        assert!(with_handles.contains("chain forward { # handle 13\n"), "{with_handles}");
        assert_eq!(parse("listed", &with_handles), parse("listed", LISTED));
        assert_eq!(parse("listed", &format!("\u{feff}{LISTED}")), parse("listed", LISTED));
        let set = one("ip", "meta l4proto { vrrp, ospf, ipencap } accept").unwrap();
        let protocols: Vec<Match> = set.rules.iter().map(|rule| rule.matches[4]).collect();
        assert_eq!(protocols, [112, 89, 4].map(|number| Match::exact(number, 1)));
    }

    #[test]
    fn only_a_chain_that_sees_forwarded_packets_makes_a_rule_set() {
        let wanted = "expected a filter chain at the hook forward, as nft list ruleset writes it";
        for (text, line, found) in [
            (String::new(), 1, "an empty file"),
            (LISTED.replace("hook forward", "hook output"), 24, "the end of the file"),
            (LISTED.replace("table inet", "table bridge"), 24, "the end of the file"),
            (
                LISTED.replace("table inet filter {", "table inet filter {\n\tflags dormant\n"),
                26,
                "the end of the file",
            ),
            (
                LISTED.replace("filter {\n\tset", "filter {\n\tflags dormant,owner\n\tset"),
                25,
                "the end of the file",
            ),
        ] {
            let error = parse("listed", &text).unwrap_err().to_string();
            assert_eq!(error, format!("listed:{line}:1: {wanted}, found {found}"));
        }
    }

    #[test]
    fn what_needs_more_than_fields_is_refused() {
        let error = |rule: &str| one("inet", rule).unwrap_err();
        assert_eq!(
            error("ct state established accept"),
            "listed:4:1: expected ip, ip6, tcp, udp, th, meta l4proto, counter, accept, drop or \
             reject, found \"ct\""
        );
        for (rule, place, found) in [
            ("iifname \"eth0\" accept", "4:1", "\"iifname\""),
            ("ip saddr != 10.0.0.0/8 drop", "4:10", "\"!=\""),
            ("ip saddr @allowed accept", "4:10", "\"@allowed\""),
            ("ip saddr 2001:db8::1 accept", "4:10", "\"2001:db8::1\""),
            ("ip saddr 10.0.0.9-10.0.0.1 accept", "4:19", "\"10.0.0.1\""),
            ("tcp flags syn drop", "4:5", "\"flags\""),
            ("tcp dport 9-8 drop", "4:13", "\"8\""),
            ("tcp dport vmap { 22 : accept }", "4:11", "\"vmap\""),
            ("tcp dport { 22, 80 accept", "4:20", "\"accept\""),
            ("ip protocol udp tcp dport 7 drop", "4:21", "\"dport\""),
            ("udp dport 1 udp dport 2 drop", "4:17", "\"dport\""),
            ("ip6 nexthdr tcp drop", "4:5", "\"nexthdr\""),
            ("th dport 53 drop", "4:1", "\"th\""),
            ("meta l4proto { tcp, icmp } th dport 53 drop", "4:28", "\"th\""),
            ("ip saddr 10.0.0.0/8 goto other", "4:21", "\"goto\""),
            ("ip saddr 1.2.3.4 counter packets 1 bytes 40", "4:44", "the end of the line"),
            ("drop garbage here", "4:6", "\"garbage\""),
            ("accept ; ip saddr 10.0.0.0/8 drop", "4:8", "\";\""),
            ("reject with icmp type host-unreachable; accept", "4:39", "\";\""),
            ("drop comment \"spam\" accept", "4:21", "\"accept\""),
        ] {
            let error = error(rule);
            assert!(error.starts_with(&format!("listed:{place}: expected ")), "{rule}: {error}");
            assert!(error.ends_with(&format!("found {found}")), "{rule}: {error}");
        }
        let ports: Vec<String> = (0..70).map(|port| port.to_string()).collect();
        let set = ports.join(", ");
        let error = error(&format!("tcp sport {{ {set} }} tcp dport {{ {set} }} drop"));
        assert!(error.contains("expected sets that stand for at most 4096 rules"), "{error}");
        // 65,536 choices in each of four fields: their product, 2^64, overflows.
        let (address, port) = ("1.2.3.4,".repeat(1 << 16), "7,".repeat(1 << 16));
        let [address, port] = [address, port].map(|set| set.trim_end_matches(',').to_owned());
        let rule = format!(
            "ip saddr {{ {address} }} ip daddr {{ {address} }} \
             tcp sport {{ {port} }} tcp dport {{ {port} }} drop"
        );
        let error = one("inet", &rule).unwrap_err();
        assert!(error.contains("expected sets that stand for at most 4096 rules"), "{error}");
        // Many such rules are too many together, however small the file is.
        let ports: Vec<String> = (0..64).map(|port| port.to_string()).collect();
        let set = ports.join(", ");
        let rule = format!("tcp sport {{ {set} }} tcp dport {{ {set} }} drop\n");
        assert_eq!(one("inet", &rule.repeat(2)).unwrap().rules.len(), 8192);
        let error = one("inet", &rule.repeat(300)).unwrap_err();
        let wanted = "listed:260:";
        assert!(error.starts_with(wanted) && error.contains("at most 1048576 rules"), "{error}");
        let twice = LISTED.replace("hook input", "hook forward");
        let error = parse("listed", &twice).unwrap_err().to_string();
        assert!(error.starts_with("listed:10:3: expected ip, ip6"), "{error}");
        let both = LISTED.replace("ct state established accept", "accept");
        let both = both.replace("hook input", "hook forward");
        let error = parse("listed", &both).unwrap_err().to_string();
        assert!(error.starts_with("listed:14:3: expected one chain"), "{error}");
        assert!(parse("listed", "*filter\n").is_err());
    }
}
