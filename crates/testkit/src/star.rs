//! Network namespaces around another one, for tests of programs that stand on several hosts.

use std::iter;
use std::net::Ipv4Addr;

use crate::network::{Spaces, ip, within};

/// A namespace in the middle, and some around it that reach the middle and nothing else.
#[derive(Debug)]
pub struct Star {
    /// The middle, and then the hosts.
    spaces: Spaces,
}

impl Star {
    /// Where everybody reaches the middle.
    pub const MIDDLE: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);

    /// Makes it, with names that begin with `prefix` and that no other process uses.
    ///
    /// # Errors
    ///
    /// If there are no namespaces to be had: without root, or without `ip`.
    pub fn build(prefix: &str, hosts: usize) -> Result<Self, String> {
        let suffixes = (0..hosts).map(|host| format!("h{host}"));
        let spaces = Spaces::make(prefix, iter::once("m".to_owned()).chain(suffixes))?;
        let star = Star { spaces };
        let middle = star.middle();
        let within = |space: &str, command: String| ip(&format!("-n {space} {command}"));
        within(middle, "link set lo up".to_owned())?;
        within(middle, format!("addr add {}/32 dev lo", Self::MIDDLE))?;
        for host in 0..hosts {
            let (space, net) = (star.host(host), host + 1);
            within(middle, format!("link add to{host} type veth peer name out netns {space}"))?;
            within(middle, format!("addr add 10.78.{net}.1/24 dev to{host}"))?;
            within(middle, format!("link set to{host} up"))?;
            within(space, format!("addr add 10.78.{net}.2/24 dev out"))?;
            within(space, "link set out up".to_owned())?;
            within(space, format!("route add {} via 10.78.{net}.1", Self::MIDDLE))?;
        }
        Ok(star)
    }

    /// Does `work` in the middle; processes that it starts stay there.
    pub fn in_the_middle<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        within(self.middle(), work).expect("the namespace is there")
    }

    /// Does `work` on one of the hosts around, counted from 0; processes that it starts stay there.
    pub fn on_host<T: Send>(&self, host: usize, work: impl FnOnce() -> T + Send) -> T {
        within(self.host(host), work).expect("the namespace is there")
    }

    fn middle(&self) -> &str {
        self.spaces.name(0)
    }

    fn host(&self, host: usize) -> &str {
        self.spaces.name(1 + host)
    }
}
