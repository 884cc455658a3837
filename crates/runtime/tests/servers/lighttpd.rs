//! Stock lighttpd under `widelane run`: a server that handshakes by reading.

use widelane_loadgen::TlsVersion;

use crate::support;
use crate::support::clients::load;
use crate::support::server::Server;

#[test]
fn handshakes_by_reading_are_batched() {
    let (authority, identity) = support::localhost();
    let pem = authority.path("both.pem");
    let both = [&identity.certificate, &identity.key].map(|file| std::fs::read(file).expect("PEM"));
    std::fs::write(&pem, both.concat()).expect("a write");
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let Some(server) = Server::lighttpd(&pem) else {
            eprintln!("there is no lighttpd: nothing was tested");
            return;
        };
        let tally = load(server.port, &identity, version, 64, 600);
        assert!(tally.full >= 600, "{version:?}: {}", tally.full);
        let counters = server.counters();
        counters.assert_batched();
        assert_eq!(counters.jobs_synchronous, 0, "{version:?}: {counters:?}");
    }
}
