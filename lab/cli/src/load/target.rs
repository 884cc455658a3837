//! Where a load goes: a URL or HOST:PORT.

use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use anyhow::{Context, bail};
use widelane_loadgen::first_that_accepts;

/// A server, as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path and query; only URLs have one.
    pub path: Option<String>,
}

/// The port of HTTPS.
const HTTPS: u16 = 443;

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is neither https://HOST[:PORT]/PATH nor HOST:PORT");
        let (authority, path) = match text.split_once("://") {
            Some(("https", rest)) => match rest.find(['/', '?', '#']) {
                Some(end) => (&rest[..end], Some(rest[end..].to_owned())),
                None => (rest, Some("/".to_owned())),
            },
            Some((scheme, _)) => return Err(format!("{scheme}: only https can be loaded")),
            None => (text, None),
        };
        let path = path.map(|path| path.split('#').next().unwrap_or_default().to_owned());
        let path = path.map(|path| match path.starts_with('/') {
            true => path,
            false => format!("/{path}"),
        });
        if path.as_ref().is_some_and(|path| !path.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(format!("{text:?}: write what is not ASCII in a path as %XX"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
            None if path.is_some() => HTTPS,
            None if host.is_empty() || host.contains(['@', '/', ' ']) => return Err(wrong()),
            None => return Err(format!("{}; did you mean {host}:{HTTPS}?", wrong())),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let ambiguous = bare.is_none() && host.contains(':');
        if host.is_empty() || ambiguous || host.contains(['@', '/', ' ']) {
            return Err(wrong());
        }
        Ok(Target { host: host.to_owned(), port, path })
    }
}

impl Target {
    /// The first address of the host that accepts connections.
    pub fn resolve(&self) -> anyhow::Result<SocketAddr> {
        let addresses = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .with_context(|| format!("cannot resolve {:?}; check the name", self.host))?;
        match first_that_accepts(addresses) {
            Some(address) => Ok(address),
            None => bail!("{:?} has no address", self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, port: u16, path: Option<&str>) -> Target {
        Target { host: host.to_owned(), port, path: path.map(str::to_owned) }
    }

    #[test]
    fn reads_urls_and_addresses() {
        for (text, expected) in [
            ("localhost:8443", target("localhost", 8443, None)),
            ("[::1]:443", target("::1", 443, None)),
            ("https://example.com", target("example.com", 443, Some("/"))),
            ("https://example.com:8443/a?b#c", target("example.com", 8443, Some("/a?b"))),
            ("https://example.com?b", target("example.com", 443, Some("/?b"))),
            ("https://[::1]/x", target("::1", 443, Some("/x"))),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_host_alone_is_told_the_usual_port() {
        for host in ["localhost", "[::1]"] {
            let error = host.parse::<Target>().unwrap_err();
            assert!(error.ends_with(&format!("; did you mean {host}:443?")), "{error}");
        }
    }

    #[test]
    fn refuses_what_is_neither() {
        for text in [
            "",
            "localhost",
            "localhost:",
            "localhost:0",
            "localhost:65536",
            ":443",
            "::1:443",
            "http://example.com/",
            "https://",
            "https://user@example.com/",
            "https://a b/",
            "https://example.com/\u{e9}",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
