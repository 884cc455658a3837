//! Rules that the kernel was given by `nft` and `iptables-restore`, as `nft list ruleset` and
//! `iptables-save` write them, and packets one by one: the rule that the kernel counts and what it
//! does must be what the classifier finds. Needs root, `ip`, `nft` and `iptables`; without them it
//! says so and passes.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use widelane_classify::rule::{RuleSet, iptables, nftables};
use widelane_classify::{Classifier, Limits, Table};
use widelane_cpu::Policy;
use widelane_forward::headers::{self, Link};
use widelane_testkit::network::{Router, Sender};
use widelane_testkit::random::Random;

/// What the chains of all rule sets count besides: packets that come, and those that leave. What
/// the kernel says by itself has other addresses.
const NFT_COUNTS: &str = "
table inet counts {
    chain come { type filter hook prerouting priority -300; COMES counter; }
    chain leave { type filter hook postrouting priority 300; LEAVES counter; }
}
";
const NFT_V4: &str = "
table inet filter {
    set unused { type ipv4_addr; elements = { 10.1.2.3, 10.2.0.9 }; }
    chain input { type filter hook input priority filter; tcp dport 22 accept; }
    chain forward {
        type filter hook forward priority filter; policy drop;
        ip saddr 10.1.0.0/16 ip daddr { 192.0.2.1, 198.51.100.0/24 } \
         tcp dport { 22, 80-90, 443 } counter accept
        ip saddr 10.1.2.0-10.1.3.255 tcp sport 1024-65535 tcp dport 9-443 counter drop
        udp sport 53 udp dport 1024-65535 counter accept comment \"answers # handle 7\"
        meta l4proto { tcp, udp, sctp } th dport 8000-8100 counter reject
        tcp dport 8101 counter reject with icmp host-unreachable
        meta l4proto { tcp, udp } th sport { 53, 22 } ip daddr 203.0.113.7 counter accept
        udplite dport 9-443 counter accept
        dccp sport 22-443 counter accept
        ip protocol { icmp, esp } counter accept
        ip protocol ah counter accept
        ip protocol tcp ip daddr 203.0.113.0/24 counter drop
        meta nfproto ipv4 ip saddr 10.2.0.9 counter accept
        ip saddr 10.2.0.0/31 meta l4proto 253 counter drop
    }
}
";
/// In a table of one version, nft does not list that a reset without a counter is for TCP alone.
const NFT_RESET: &str = "
table ip filter {
    chain forward {
        type filter hook forward priority filter; policy accept;
        ip saddr 10.1.0.0/16 reject with tcp reset
        tcp dport 22-443 counter reject with tcp reset
        ip saddr 10.1.2.0/23 counter drop
    }
}
";
const NFT_V6: &str = "
table ip6 filter {
    chain forward {
        type filter hook forward priority filter; policy accept;
        ip6 saddr 2001:db8:1::/48 ip6 daddr { 2001:db8:2::1, 2001:db8:3::/64 } \
         tcp dport { 22, 443 } counter drop
        ip6 saddr 2001:db8:1::1-2001:db8:1::ff udp dport 53 counter accept
        meta l4proto ipv6-icmp counter accept
        meta l4proto { tcp, udp } th sport 1024-65535 ip6 daddr 2001:db8:3::/64 counter drop
        meta l4proto { udp, 135, 139 } counter drop
        meta l4proto tcp ip6 saddr 2001:db8:1:ff::/64 counter drop
    }
}
";
const IPTABLES_COUNTS: &str = "
*raw
-A PREROUTING COMES
COMMIT
*mangle
-A POSTROUTING LEAVES
COMMIT
";
const IPTABLES_V4: &str = "
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:other - [0:0]
-A INPUT -i lo -j ACCEPT
-A other -s 10.1.2.3/32 -j ACCEPT
-A FORWARD -s 10.1.0.0/16 -d 192.0.2.1/32 -p tcp -m tcp --dport 80:90 -j ACCEPT
-A FORWARD -s 10.1.2.0/23 -p tcp -m tcp --sport 1024:65535 --dport 9:443 -j REJECT \
 --reject-with tcp-reset
-A FORWARD -p udp -m udp --sport 53 -m comment --comment \"no -j here\" -j ACCEPT
-A FORWARD -d 203.0.113.0/24 -p tcp -j DROP
-A FORWARD -p icmp -j ACCEPT
-A FORWARD -p ah -j ACCEPT
-A FORWARD -s 10.2.0.9/32 -j ACCEPT
COMMIT
";
const IPTABLES_V6: &str = "
*filter
:FORWARD ACCEPT [0:0]
-A FORWARD -s 2001:db8:1::/48 -d 2001:db8:2::1/128 -p tcp -m tcp --dport 22:443 -j DROP
-A FORWARD -p ipv6-icmp -j ACCEPT
-A FORWARD -p udp -m udp --dport 53 -j ACCEPT
-A FORWARD -s 2001:db8:1::/64 -p udp -j DROP
-A FORWARD -d 2001:db8:3::/64 -j REJECT
COMMIT
";

const PACKETS: usize = 250;
const PORTS: [u16; 10] = [22, 53, 80, 90, 91, 443, 1024, 8000, 8101, 9];
const SOURCES_V4: [[u8; 4]; 7] = [
    [10, 1, 2, 3],
    [10, 1, 3, 255],
    [10, 1, 4, 0],
    [10, 2, 0, 9],
    [10, 2, 0, 1],
    [10, 9, 1, 1],
    [10, 20, 0, 1],
];
const DESTINATIONS_V4: [[u8; 4]; 4] =
    [[192, 0, 2, 1], [198, 51, 100, 77], [203, 0, 113, 7], [8, 8, 8, 8]];
const SOURCES_V6: [&str; 4] =
    ["2001:db8:1::1", "2001:db8:1::100", "2001:db8:1:ff::1", "2001:db8:9::1"];
const DESTINATIONS_V6: [&str; 3] = ["2001:db8:2::1", "2001:db8:3::9", "2001:db8:4::1"];

/// A tool that gives rules to the kernel, and writes them down.
struct Tool {
    load: &'static [&'static str],
    list: &'static [&'static str],
    counts: &'static str,
    /// How packets of the test are told from others as they come and as they leave, in IPv4 and in
    /// IPv6.
    own: [[&'static str; 2]; 2],
    parse: fn(&str, &str) -> Result<RuleSet, widelane_classify::rule::ParseError>,
}

const NFT: Tool = Tool {
    load: &["nft", "-f", "-"],
    list: &["nft", "list", "ruleset"],
    counts: NFT_COUNTS,
    own: [
        ["meta nfproto ipv4", "ip daddr != 10.0.0.0/8"],
        ["ip6 saddr 2001:db8::/32", "ip6 saddr 2001:db8::/32"],
    ],
    parse: nftables::parse,
};
const IPTABLES: Tool = Tool {
    load: &["iptables-restore"],
    list: &["iptables-save", "-c"],
    counts: IPTABLES_COUNTS,
    own: [["", "! -d 10.0.0.0/8"], ["-s 2001:db8::/32", "-s 2001:db8::/32"]],
    parse: iptables::parse,
};
const IP6TABLES: Tool =
    Tool { load: &["ip6tables-restore"], list: &["ip6tables-save", "-c"], ..IPTABLES };

fn run(words: &[&str], input: &str) -> Result<String, String> {
    let told = |error: std::io::Error| format!("{}: {error}", words[0]);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(told)?;
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).map_err(told)?;
    let output = child.wait_with_output().map_err(told)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{}: {}", words[0], String::from_utf8_lossy(&output.stderr))),
    }
}

/// What has been counted, by the number of the line.
type Counts = BTreeMap<u32, u64>;

/// Reads the counters of a listing, `packets N` or `[N:`, and the lines of the two that count what
/// comes and what leaves.
fn counts(listing: &str) -> (Counts, [u32; 2]) {
    let mut chain = "";
    let mut lines = [0; 2];
    let mut counts = Counts::new();
    for (line, number) in listing.lines().map(str::trim).zip(1..) {
        let words: Vec<&str> = line.split([' ', ':']).collect();
        chain = match words.as_slice() {
            ["chain", name, ..] | [_, _, "-A", name, ..] => name,
            _ => chain,
        };
        let count = line.split_once("packets ").map(|of| of.1).or(line.strip_prefix('['));
        let digits = count.and_then(|of| of.split([' ', ':']).next());
        let Some(Ok(count)) = digits.map(str::parse) else { continue };
        counts.insert(number, count);
        match chain {
            "come" | "PREROUTING" => lines[0] = number,
            "leave" | "POSTROUTING" => lines[1] = number,
            _ => {}
        }
    }
    assert!(lines.iter().all(|&line| line > 0), "{listing}");
    (counts, lines)
}

/// The lines whose counters have risen, when a packet more has come than `before`.
fn risen(tool: &Tool, before: &Counts) -> (Counts, Vec<u32>, bool) {
    for _ in 0..1000 {
        let (counts, [come, leave]) = counts(&run(tool.list, "").unwrap());
        if counts[&come] > before[&come] {
            assert_eq!(counts[&come], before[&come] + 1);
            let rises = |line: &u32| counts[line] > before[line];
            let rules = counts.keys().filter(|line| ![come, leave].contains(line));
            let rules = rules.copied().filter(rises).collect();
            let leaves = rises(&leave);
            return (counts, rules, leaves);
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("the packet never came: {before:?}");
}

/// Has the kernel forward packets by rules, and compares each with what the classifier finds.
fn compare(tool: &Tool, rules: &str, sender: &Sender, packets: &[Vec<u8>]) {
    let [comes, leaves] = tool.own[usize::from(packets[0][0] >> 4 == 6)];
    let counts_text = tool.counts.replace("COMES", comes).replace("LEAVES", leaves);
    run(tool.load, &format!("{rules}{counts_text}")).unwrap();
    let listing = run(tool.list, "").unwrap();
    let mut set =
        (tool.parse)("listing", &listing).unwrap_or_else(|error| panic!("{error}\n{listing}"));
    let default = set.default;
    let verdicts: BTreeMap<u32, u32> =
        set.rules.iter().map(|rule| (rule.line, rule.result)).collect();
    set.rules.iter_mut().for_each(|rule| rule.result = rule.line);
    set.default = 0;
    let table = Arc::new(Table::build(&set, &Limits::default()).unwrap());
    let classifier = Classifier::choose(table, &Policy::open());
    let (mut before, _) = counts(&listing);
    let mut met = BTreeMap::<u32, u32>::new();
    for packet in packets {
        let parsed = headers::parse(Link::Ip, packet).unwrap();
        let mut line = [0];
        classifier.classify(&[parsed.key(packet)], &mut line).unwrap();
        sender.send(packet);
        let (after, rules, leaves) = risen(tool, &before);
        let wanted: Vec<u32> = line.into_iter().filter(|line| before.contains_key(line)).collect();
        assert_eq!(rules, wanted, "lines of {listing}{packet:x?}");
        let verdict = verdicts.get(&line[0]).copied().unwrap_or(default);
        assert_eq!(leaves, verdict == iptables::ACCEPT, "line {} of {listing}{packet:x?}", line[0]);
        *met.entry(line[0]).or_default() += 1;
        before = after;
    }
    let missed = set.rules.iter().filter(|rule| !met.contains_key(&rule.line)).count();
    assert!(met.contains_key(&0) && missed == 0, "packets meet too few rules: {met:?}\n{listing}");
}

/// What stands between the addresses and the transport header, or which part of a packet it is.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Plain,
    Options,
    First,
    Later,
}

fn draw<T: Copy>(of: &[T], random: &mut Random) -> T {
    of[random.below(of.len())]
}

fn shape(protocol: u8, random: &mut Random) -> Shape {
    use Shape::{First, Later, Options, Plain};
    match draw(&[Plain, Plain, Plain, Options, First, Later], random) {
        // Linux takes what a later fragment carries for ports.
        Later if matches!(protocol, 6 | 17 | 33 | 132 | 136) => Plain,
        shape => shape,
    }
}

/// Ports, and as much behind them as any transport header has; for an authentication header, that
/// of TCP is behind it.
fn transport(random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; 40];
    bytes[0..2].copy_from_slice(&draw(&PORTS, random).to_be_bytes());
    bytes[2..4].copy_from_slice(&draw(&PORTS, random).to_be_bytes());
    // Where TCP has its header's length.
    bytes[12] = 0x50;
    bytes
}

/// An authentication header of 12 bytes before another.
fn authenticated(behind: &[u8]) -> Vec<u8> {
    [&[6, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1], behind].concat()
}

fn packet_v4(random: &mut Random) -> Vec<u8> {
    let protocol = draw(&[6, 6, 6, 17, 17, 17, 1, 50, 51, 132, 136, 33, 253], random);
    let shape = shape(protocol, random);
    let mut payload = transport(random);
    if protocol == 51 {
        payload = authenticated(&payload);
    }
    let options: &[u8] = if shape == Shape::Options { &[1, 1, 1, 0] } else { &[] };
    let fragment: u16 = match shape {
        Shape::First => 0x2000,
        Shape::Later => 100,
        _ => 0,
    };
    let mut packet = vec![0x45 + options.len() as u8 / 4, 0];
    packet.extend((20 + options.len() as u16 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 7]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(draw(&SOURCES_V4, random));
    packet.extend(draw(&DESTINATIONS_V4, random));
    [&packet, options, &payload].concat()
}

fn packet_v6(random: &mut Random) -> Vec<u8> {
    let protocol = draw(&[6, 6, 6, 17, 17, 58, 132, 135, 139, 253], random);
    let fragment = |place: u16| [[protocol, 0], place.to_be_bytes(), [0; 2], [0, 7]].concat();
    // What the header names first, and what it is.
    let (next, extension) = match shape(protocol, random) {
        Shape::Plain => (protocol, Vec::new()),
        // Eight bytes of padding, to be looked at by each hop or by the last; or a signature.
        Shape::Options => match random.below(3) {
            0 => (0, vec![protocol, 0, 1, 4, 0, 0, 0, 0]),
            1 => (60, vec![protocol, 0, 1, 4, 0, 0, 0, 0]),
            _ => (51, [&[protocol], &authenticated(&[])[1..]].concat()),
        },
        Shape::First => (44, fragment(1)),
        Shape::Later => (44, fragment(100 << 3)),
    };
    let payload = [extension, transport(random)].concat();
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    for address in [draw(&SOURCES_V6, random), draw(&DESTINATIONS_V6, random)] {
        packet.extend(address.parse::<std::net::Ipv6Addr>().unwrap().octets());
    }
    [packet, payload].concat()
}

/// The rules of a version of IP, and packets for it.
type Case = (&'static Tool, &'static str, fn(&mut Random) -> Vec<u8>);

#[test]
fn rules_that_are_read_decide_as_the_kernel_does() {
    for program in ["nft", "iptables", "ip6tables"] {
        if let Err(reason) = run(&[program, "--version"], "") {
            return eprintln!("skipped: {reason}; install nftables and iptables");
        }
    }
    let router = match Router::build("wk") {
        Ok(router) => router,
        Err(reason) => return eprintln!("skipped: no network namespaces here: {reason}"),
    };
    let sender = router.sender();
    router.enter().unwrap();
    if let Err(reason) = run(NFT.load, NFT_V4) {
        return eprintln!("skipped: this kernel has no nftables: {reason}");
    }
    let cases: [Case; 5] = [
        (&NFT, NFT_V4, packet_v4),
        (&NFT, NFT_RESET, packet_v4),
        (&NFT, NFT_V6, packet_v6),
        (&IPTABLES, IPTABLES_V4, packet_v4),
        (&IP6TABLES, IPTABLES_V6, packet_v6),
    ];
    for (tool, rules, packet) in cases {
        run(&["nft", "flush", "ruleset"], "").unwrap();
        let mut random = Random::new(44);
        let packets: Vec<Vec<u8>> = (0..PACKETS).map(|_| packet(&mut random)).collect();
        compare(tool, rules, &sender, &packets);
    }
}
