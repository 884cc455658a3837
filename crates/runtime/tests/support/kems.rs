//! Groups with ML-KEM: clients that have them by our provider, and what is counted of them.

use std::process::{Command, Stdio};
use std::thread;

use widelane_bridge::counters::OperationKind;

use super::server::Server;
use super::widelane;

/// Each group, and what a server's part in its handshakes is counted as.
pub const GROUPS: [(&str, OperationKind); 4] = [
    ("X25519MLKEM768", OperationKind::X25519MlKem768Encapsulate),
    ("MLKEM768", OperationKind::MlKem768Encapsulate),
    ("SecP256r1MLKEM768", OperationKind::Secp256r1MlKem768Encapsulate),
    ("SecP384r1MLKEM1024", OperationKind::Secp384r1MlKem1024Encapsulate),
];

/// Has clients shake hands with a server in each group, and demands that it parked its part of all
/// of these handshakes.
pub fn shake_hands(server: &Server) {
    let clients: Vec<_> = (0..CLIENTS)
        .flat_map(|_| GROUPS)
        .map(|(group, _)| {
            let port = server.port;
            thread::spawn(move || (group, client(port, group)))
        })
        .collect();
    for client in clients {
        let (group, said) = client.join().expect("a client");
        assert!(said.contains("Verify return code"), "{group}: {said}");
        assert!(said.contains("New, TLSv1.3"), "{group}: {said}");
    }
    let counters = server.counters();
    // Lanes of ML-KEM are those of more machines than lanes of RSA.
    let kinds = GROUPS.into_iter().filter(|_| counters.has_lanes());
    kinds.for_each(|(_, kind)| counters.assert_parked_kind(kind));
    assert_eq!(counters.fallbacks, 0, "{counters:?}");
}

/// `openssl s_client` that offers one group only.
fn client(port: u16, group: &str) -> String {
    let output = Command::new(widelane())
        .args(["run", "--", "openssl", "s_client", "-tls1_3", "-groups", group])
        .args(["-connect", &format!("127.0.0.1:{port}")])
        .stdin(Stdio::null())
        .output()
        .expect("widelane was built");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Clients of each group at a time.
const CLIENTS: usize = 8;
