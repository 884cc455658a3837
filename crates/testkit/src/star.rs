//! Network namespaces around another one, for tests of programs that stand on several hosts.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::network::ip;

/// A namespace in the middle, and some around it that reach the middle and nothing else.
#[derive(Debug)]
pub struct Star {
    name: String,
    hosts: usize,
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
        let star = Star { name: format!("{prefix}{}", std::process::id() % 100_000), hosts };
        let middle = star.middle();
        let within = |space: &str, command: String| ip(&format!("-n {space} {command}"));
        ip(&format!("netns add {middle}"))?;
        within(&middle, "link set lo up".to_owned())?;
        within(&middle, format!("addr add {}/32 dev lo", Self::MIDDLE))?;
        for host in 0..hosts {
            let (space, net) = (star.host(host), host + 1);
            ip(&format!("netns add {space}"))?;
            within(&middle, format!("link add to{host} type veth peer name out netns {space}"))?;
            within(&middle, format!("addr add 10.78.{net}.1/24 dev to{host}"))?;
            within(&middle, format!("link set to{host} up"))?;
            within(&space, format!("addr add 10.78.{net}.2/24 dev out"))?;
            within(&space, "link set out up".to_owned())?;
            within(&space, format!("route add {} via 10.78.{net}.1", Self::MIDDLE))?;
        }
        Ok(star)
    }

    /// Does `work` in the middle; processes that it starts stay there.
    pub fn in_the_middle<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        within(&self.middle(), work)
    }

    /// The same on one of the hosts around.
    pub fn on_host<T: Send>(&self, host: usize, work: impl FnOnce() -> T + Send) -> T {
        within(&self.host(host), work)
    }

    fn middle(&self) -> String {
        format!("{}m", self.name)
    }

    fn host(&self, host: usize) -> String {
        format!("{}h{host}", self.name)
    }
}

impl Drop for Star {
    fn drop(&mut self) {
        let hosts = (0..self.hosts).map(|host| self.host(host));
        for space in hosts.chain([self.middle()]) {
            drop(ip(&format!("netns delete {space}")));
        }
    }
}

/// Does `work` on a thread in the namespace.
fn within<T: Send>(space: &str, work: impl FnOnce() -> T + Send) -> T {
    let file = File::open(format!("/run/netns/{space}")).expect("the namespace is there");
    let inside = move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("a namespace of ours");
        work()
    };
    thread::scope(|scope| {
        let worker = scope.spawn(inside);
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
