//! Which of a server's addresses a load goes to.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an address may take to accept a connection.
const ACCEPT_MAX: Duration = Duration::from_secs(1);

/// Addresses that are tried at most.
const TRIED_MAX: usize = 4;

/// The first of several addresses that accepts a TCP connection, as `localhost` may stand for one
/// at which nobody listens; the first of all if none does, so that errors name it.
pub fn first_that_accepts(addresses: impl IntoIterator<Item = SocketAddr>) -> Option<SocketAddr> {
    let addresses: Vec<_> = addresses.into_iter().collect();
    let accepts = |address: &&SocketAddr| TcpStream::connect_timeout(address, ACCEPT_MAX).is_ok();
    let accepting = match addresses.len() {
        0 | 1 => None,
        _ => addresses.iter().take(TRIED_MAX).find(accepts),
    };
    accepting.or(addresses.first()).copied()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_address_at_which_nobody_listens_is_passed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let closed = SocketAddr::new("127.0.0.2".parse().unwrap(), open.port());
        assert_eq!(first_that_accepts([closed, open]), Some(open));
        assert_eq!(first_that_accepts([closed]), Some(closed));
        assert_eq!(first_that_accepts([]), None);
        drop(listener);
        assert_eq!(first_that_accepts([closed, open]), Some(closed));
    }
}
