//! Protocols by the names that `nft` and `iptables-save` write: those of `/etc/protocols`.

use super::Match;
use super::parse::{Cursor, ParseError};

/// Whether these are packets of one protocol whose first four bytes are ports: TCP, UDP, DCCP, SCTP
/// and UDP-Lite.
pub(super) fn has_ports(of: &Match) -> bool {
    [6, 17, 33, 132, 136].iter().any(|&number| *of == Match::exact(number, 1))
}

/// Takes a protocol by its name or its number.
pub(super) fn protocol(cursor: &mut Cursor<'_>) -> Result<Match, ParseError> {
    let number = match PROTOCOLS.iter().find(|(name, _)| cursor.take_protocol(name)) {
        Some(&(_, number)) => number.into(),
        None => cursor.integer("a protocol by its name or its number", 0xff)?,
    };
    Ok(Match::exact(number, 1))
}

/// The official names of Debian's `/etc/protocols`, and what iptables and other distributions call
/// some of them. A saved file may come from another machine, so this one's is not asked.
const PROTOCOLS: [(&str, u8); 64] = [
    ("tcp", 6),
    ("udp", 17),
    ("icmp", 1),
    ("ah", 51),
    ("ax.25", 93),
    ("carp", 112),
    ("cbt", 7),
    ("dccp", 33),
    ("ddp", 37),
    ("egp", 8),
    ("eigrp", 88),
    ("encap", 98),
    ("esp", 50),
    ("ethernet", 143),
    ("etherip", 97),
    ("fc", 133),
    ("ggp", 3),
    ("gre", 47),
    ("hip", 139),
    ("hmp", 20),
    ("hopopt", 0),
    ("icmpv6", 58),
    ("idpr-cmtp", 38),
    ("idrp", 45),
    ("igmp", 2),
    ("igp", 9),
    ("ip", 0),
    ("ipcomp", 108),
    ("ipencap", 4),
    ("ipip", 94),
    ("ipv4", 4),
    ("ipv6", 41),
    ("ipv6-frag", 44),
    ("ipv6-icmp", 58),
    ("ipv6-mh", 135),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("ipv6-route", 43),
    ("isis", 124),
    ("iso-tp4", 29),
    ("l2tp", 115),
    ("manet", 138),
    ("mh", 135),
    ("mobility-header", 135),
    ("mpls-in-ip", 137),
    ("ospf", 89),
    ("ospfigp", 89),
    ("pgm", 113),
    ("pim", 103),
    ("pup", 12),
    ("rdp", 27),
    ("rohc", 142),
    ("rspf", 73),
    ("rsvp", 46),
    ("sctp", 132),
    ("shim6", 140),
    ("skip", 57),
    ("st", 5),
    ("udplite", 136),
    ("vmtp", 81),
    ("vrrp", 112),
    ("wesp", 141),
    ("xns-idp", 22),
    ("xtp", 36),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_have_names_and_numbers() {
        let read = |text| protocol(&mut Cursor::new("f", 1, text)).map_err(|of| of.to_string());
        for (text, number) in [
            ("tcp", 6),
            ("vrrp,", 112),
            ("ospf", 89),
            ("ipencap", 4),
            ("ipv6", 41),
            ("ipv6-icmp }", 58),
            ("ax.25", 93),
            ("253", 253),
        ] {
            assert_eq!(read(text), Ok(Match::exact(number, 1)), "{text}");
        }
        let wanted = "f:1:1: expected a protocol by its name or its number, 0 to 255, found ";
        assert_eq!(read("tcpx"), Err(format!("{wanted}\"tcpx\"")));
        assert_eq!(read("256"), Err(format!("{wanted}\"256\"")));
    }

    #[test]
    fn every_name_of_this_machine_that_fits_is_known() {
        let Ok(text) = std::fs::read_to_string("/etc/protocols") else {
            eprintln!("not compared: this machine has no /etc/protocols");
            return;
        };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let (Some(name), Some(Ok(number))) = (words.next(), words.next().map(str::parse))
            else {
                continue;
            };
            let found = protocol(&mut Cursor::new("f", 1, name));
            assert_eq!(found, Ok(Match::exact(u8::into(number), 1)), "{name}");
        }
    }
}
