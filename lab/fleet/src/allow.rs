//! Which servers an agent may load: its own list, which cannot be changed over the bus.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// An entry of an agent's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    host: Host,
    /// None for all ports.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    /// As the load names it.
    Name(String),
    /// By the address that the name has on the agent.
    Network(IpNet),
}

impl Allowed {
    /// Whether it covers a server, by its name or by its address.
    pub fn covers(&self, name: &str, address: IpAddr, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
            && match &self.host {
                Host::Name(own) => own.eq_ignore_ascii_case(name),
                Host::Network(network) => network.contains(&address.to_canonical()),
            }
    }
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not HOST:PORT; a host is a name, an address or a network such as \
                 10.0.0.0/8 or [2001:db8::]/32, a port is a number or *"
            )
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = match port {
            "*" => None,
            port => Some(port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?),
        };
        let bare = host.replace(['[', ']'], "");
        let network = bare.parse().or_else(|_| bare.parse::<IpAddr>().map(IpNet::from));
        let host = match network {
            Ok(network) => Host::Network(network),
            Err(_) if host.is_empty() || host.contains(['/', ':', '[', ' ', '*']) => {
                return Err(wrong());
            }
            Err(_) => Host::Name(host.to_owned()),
        };
        Ok(Allowed { host, port })
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => formatter.write_str(name)?,
            Host::Network(IpNet::V6(network)) => {
                write!(formatter, "[{}]/{}", network.addr(), network.prefix_len())?;
            }
            Host::Network(network) => write!(formatter, "{network}")?,
        }
        match self.port {
            Some(port) => write!(formatter, ":{port}"),
            None => formatter.write_str(":*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(entry: &str, name: &str, address: &str, port: u16) -> bool {
        let entry: Allowed = entry.parse().expect(entry);
        assert_eq!(entry.to_string().parse(), Ok(entry.clone()));
        entry.covers(name, address.parse().expect(address), port)
    }

    #[test]
    fn covers_what_it_names_and_nothing_else() {
        assert!(covers("www.example.com:443", "WWW.example.com", "192.0.2.1", 443));
        assert!(!covers("www.example.com:443", "www.example.com", "192.0.2.1", 8443));
        assert!(!covers("www.example.com:443", "example.com", "192.0.2.1", 443));
        assert!(covers("10.0.0.0/8:*", "anything", "10.9.8.7", 1));
        assert!(covers("10.0.0.0/8:*", "anything", "::ffff:10.9.8.7", 1));
        assert!(!covers("10.0.0.0/8:443", "10.0.0.0", "11.0.0.1", 443));
        assert!(covers("127.0.0.1:8443", "localhost", "127.0.0.1", 8443));
        assert!(!covers("127.0.0.1:8443", "localhost", "127.0.0.2", 8443));
        assert!(covers("[2001:db8::]/32:443", "v6", "2001:db8::1", 443));
        assert!(covers("[::1]:443", "v6", "::1", 443));
    }

    #[test]
    fn refuses_what_it_cannot_read() {
        for text in ["", "example.com", "example.com:", "example.com:0", ":443", "a/b:443", "*:*"] {
            let error = text.parse::<Allowed>().expect_err(text);
            assert!(error.contains("HOST:PORT"), "{error}");
        }
    }
}
