//! Configuration files for the servers under test.

use std::net::SocketAddr;
use std::path::Path;

use super::application::Application;
use super::certificate::Identity;
use super::content::{Content, PREFIX};

/// TLS 1.2 suites that every server offers; the client picks one of them.
pub(super) const SUITES: &str = "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:\
                      ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
                      ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:AES128-SHA";

/// Key-exchange groups that every server offers; the client's first is taken.
pub const GROUPS: &str = "X25519:P-256:P-384";

/// Connections that may wait to be accepted, and that a server may hold.
const CONNECTIONS_MAX: u32 = 4096;

/// How many certificates may stand above a client's.
const CLIENT_CHAIN_DEPTH: u32 = 2;

/// The workers, or threads, of a server.
#[derive(Clone, Debug)]
pub struct Workers {
    /// How many there are.
    pub count: usize,
    /// The CPUs that they share; wherever they are if none are given.
    pub cpus: Vec<usize>,
}

impl Workers {
    /// One on each of `cpus`, or one anywhere.
    pub fn on_each(cpus: &[usize]) -> Self {
        Workers { count: cpus.len().max(1), cpus: cpus.to_vec() }
    }

    /// The CPU of each, where there are several to choose from.
    fn placed(&self) -> Option<impl Iterator<Item = usize> + '_> {
        (self.cpus.len() > 1).then(|| self.cpus.iter().copied().cycle().take(self.count))
    }
}

/// nginx: nothing but TLS, sessions as by default; what there is to serve as files, or pages of an
/// application.
pub fn nginx(
    address: SocketAddr,
    identities: &[Identity],
    content: Option<&Content>,
    application: Option<&Application>,
    workers: &Workers,
    groups: &str,
    directory: &Path,
) -> String {
    let pages = application.map_or("return 200;".to_owned(), Application::location);
    let workers = processes(workers);
    let files = content.map_or(String::new(), |content| {
        let root = content.root().display();
        format!("        location {PREFIX} {{ root \"{root}\"; sendfile on; tcp_nopush on; }}\n")
    });
    let certificates: String = identities
        .iter()
        .map(|Identity { certificate, private_key, .. }| {
            format!(
                "        ssl_certificate \"{}\";\n        ssl_certificate_key \"{}\";\n",
                certificate.display(),
                private_key.display()
            )
        })
        .collect();
    format!(
        "daemon off;
{workers}pid \"{directory}/nginx.pid\";
error_log stderr warn;
events {{ worker_connections {CONNECTIONS_MAX}; }}
http {{
    access_log off;
    client_body_temp_path \"{directory}/body\";
    proxy_temp_path \"{directory}/proxy\";
    fastcgi_temp_path \"{directory}/fastcgi\";
    uwsgi_temp_path \"{directory}/uwsgi\";
    scgi_temp_path \"{directory}/scgi\";
    server {{
        listen {address} ssl backlog={CONNECTIONS_MAX};
{certificates}        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_ciphers {SUITES};
        ssl_ecdh_curve {groups};
{files}        location / {{ {pages} }}
    }}
}}
",
        directory = directory.display(),
    )
}

/// The same, which listens for HTTP/3 as well; each worker has a socket of its own for that.
pub fn nginx_with_quic(text: &str, address: SocketAddr) -> String {
    let listens = format!("        listen {address} ssl ");
    text.replacen(&listens, &format!("        listen {address} quic reuseport;\n{listens}"), 1)
}

/// The same, which serves clients only that show a certificate, by an intermediate authority of the
/// one in the file `authority`.
pub fn nginx_with_client_certificates(text: &str, authority: &Path) -> String {
    let demand = format!(
        "        ssl_client_certificate \"{}\";
        ssl_verify_client on;
        ssl_verify_depth {CLIENT_CHAIN_DEPTH};
",
        authority.display()
    );
    let protocols = "        ssl_protocols ";
    text.replacen(protocols, &format!("{demand}{protocols}"), 1)
}

/// nginx's lines for its workers, each on its CPU.
fn processes(workers: &Workers) -> String {
    let mask = |cpu: usize| {
        let highest = workers.cpus.iter().copied().max().unwrap_or(cpu);
        let bit = |place: usize| if place == cpu { '1' } else { '0' };
        format!(" {}", (0..=highest).rev().map(bit).collect::<String>())
    };
    let count = format!("worker_processes {};\n", workers.count);
    workers.placed().map_or(count.clone(), |cpus| {
        format!("{count}worker_cpu_affinity{};\n", cpus.map(mask).collect::<String>())
    })
}

/// HAProxy's lines for its threads, each on its CPU.
fn threads(workers: &Workers) -> String {
    let map = |(thread, cpu): (usize, usize)| format!("\n    cpu-map 1/{thread} {cpu}");
    let maps = workers.placed().into_iter().flat_map(|cpus| (1..).zip(cpus)).map(map);
    format!("nbthread {}{}", workers.count, maps.collect::<String>())
}

/// HAProxy: nothing but TLS, sessions as by default; its own asynchronous mode on request, and what
/// there is to serve from its origin.
pub fn haproxy(
    address: SocketAddr,
    identities: &[Identity],
    content: Option<&Content>,
    asynchronous: bool,
    workers: &Workers,
    groups: &str,
) -> String {
    let (front, back) = content.map_or_else(Default::default, |content| {
        let front = format!("    use_backend origin if {{ path_beg {PREFIX} }}\n");
        (front, format!("backend origin\n    server origin {}\n", content.origin()))
    });
    let certificate = |identity: &Identity| format!(" crt \"{}\"", identity.bundle.display());
    let certificates: String = identities.iter().map(certificate).collect();
    let threads = threads(workers);
    let mode = if asynchronous { "    ssl-mode-async\n" } else { "" };
    format!(
        "global
    {threads}
    maxconn {CONNECTIONS_MAX}
    ssl-default-bind-options ssl-min-ver TLSv1.2 prefer-client-ciphers
    ssl-default-bind-ciphers {SUITES}
    ssl-default-bind-curves {groups}
{mode}defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend tls
    bind {address} ssl{certificates} backlog {CONNECTIONS_MAX}
    http-request return status 200 unless {{ path_beg {PREFIX} }}
{front}{back}"
    )
}

/// The same, which listens for HTTP/3 as well. Debian 13's is built for an OpenSSL that could not
/// do QUIC by itself, and needs a directive that permits it.
pub fn haproxy_with_quic(text: &str, address: SocketAddr) -> String {
    let binds = format!("    bind {address} ssl");
    let bind = text.lines().find(|line| line.starts_with(&binds)).unwrap_or_default();
    let certificates = bind.trim_start_matches(&binds);
    let certificates = certificates.split(" backlog").next().unwrap_or_default();
    let quic = format!("    bind quic4@{address} ssl{certificates} alpn h3\n{binds}");
    text.replacen("global\n", "global\n    limited-quic\n", 1).replacen(&binds, &quic, 1)
}

/// The same, which serves clients only that show a certificate, by an intermediate authority of the
/// one in the file `authority`.
pub fn haproxy_with_client_certificates(text: &str, authority: &Path) -> String {
    let demand = format!(" ca-file \"{}\" verify required backlog ", authority.display());
    text.replacen(" backlog ", &demand, 1)
}

/// `openssl s_server`, which takes what a client says for the request of a page; no session is
/// kept. It takes two certificates at most.
pub fn s_server(address: SocketAddr, identities: &[Identity], groups: &str) -> Vec<String> {
    let mut words: Vec<String> =
        ["s_server", "-www", "-quiet", "-no_cache", "-no_ticket", "-num_tickets", "0", "-no_dhe"]
            .map(str::to_owned)
            .into();
    words.extend(["-accept".to_owned(), address.to_string()]);
    words.extend(["-cipher", SUITES, "-groups", groups].map(str::to_owned));
    for (identity, flags) in identities.iter().zip([["-cert", "-key"], ["-dcert", "-dkey"]]) {
        let files = [&identity.certificate, &identity.private_key];
        for (flag, file) in flags.into_iter().zip(files) {
            words.extend([flag.to_owned(), file.display().to_string()]);
        }
    }
    words
}

/// An OpenSSL configuration that loads the provider beside the default one, without the runtime.
pub fn openssl(provider: &Path) -> String {
    format!(
        "openssl_conf = widelane
[widelane]
providers = providers
alg_section = algorithms
[providers]
default = default_provider
widelane = widelane_provider
[default_provider]
activate = 1
[widelane_provider]
module = {}
activate = 1
[algorithms]
default_properties = ?provider=widelane
",
        provider.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            certificate: "/c".into(),
            private_key: "/k".into(),
            bundle: "/b".into(),
            leaf: Vec::new(),
            key: super::super::Key::EcdsaP256,
        }
    }

    #[test]
    fn http3_is_listened_for_beside_tcp() {
        let address = SocketAddr::from(([127, 0, 0, 1], 4433));
        let (identities, workers) = ([identity()], Workers::on_each(&[]));
        let text =
            nginx(address, &identities, None, None, &workers, "X25519", Path::new("/directory"));
        let with_quic = nginx_with_quic(&text, address);
        assert!(with_quic.contains("listen 127.0.0.1:4433 quic reuseport;"), "{with_quic}");
        assert!(with_quic.contains("listen 127.0.0.1:4433 ssl backlog"), "{with_quic}");
        let text = haproxy(address, &identities, None, false, &workers, "X25519");
        let with_quic = haproxy_with_quic(&text, address);
        assert!(with_quic.contains("    bind quic4@127.0.0.1:4433 ssl crt \"/b\" alpn h3\n"));
        assert!(with_quic.contains("    bind 127.0.0.1:4433 ssl crt \"/b\" backlog"));
        assert!(with_quic.starts_with("global\n    limited-quic\n"), "{with_quic}");
    }

    #[test]
    fn certificates_of_clients_are_demanded_and_verified() {
        let address = SocketAddr::from(([127, 0, 0, 1], 4433));
        let (identities, workers) = ([identity()], Workers::on_each(&[]));
        let authority = Path::new("/a b");
        let text =
            nginx(address, &identities, None, None, &workers, "X25519", Path::new("/directory"));
        let demands = nginx_with_client_certificates(&text, authority);
        for line in
            ["ssl_client_certificate \"/a b\";", "ssl_verify_client on;", "ssl_verify_depth 2;"]
        {
            assert!(demands.contains(&format!("        {line}\n")), "{demands}");
        }
        let text = haproxy(address, &identities, None, false, &workers, "X25519");
        let demands = haproxy_with_client_certificates(&text, authority);
        let bind = "bind 127.0.0.1:4433 ssl crt \"/b\" ca-file \"/a b\" verify required backlog";
        assert!(demands.contains(bind), "{demands}");
    }

    #[test]
    fn workers_have_cpus_of_their_own() {
        let on_each = |cpus: &[usize]| processes(&Workers::on_each(cpus));
        assert_eq!(on_each(&[]), "worker_processes 1;\n");
        assert_eq!(on_each(&[3]), "worker_processes 1;\n");
        let two = "worker_processes 2;\nworker_cpu_affinity 0001 1000;\n";
        assert_eq!(on_each(&[0, 3]), two);
        assert_eq!(threads(&Workers::on_each(&[2])), "nbthread 1");
    }

    #[test]
    fn more_workers_share_the_cpus_evenly() {
        let three = |cpus: &[usize]| Workers { count: 3, cpus: cpus.to_vec() };
        assert_eq!(processes(&three(&[1])), "worker_processes 3;\n");
        let shared = "worker_processes 3;\nworker_cpu_affinity 01 10 01;\n";
        assert_eq!(processes(&three(&[0, 1])), shared);
        assert_eq!(threads(&three(&[])), "nbthread 3");
        let shared = "nbthread 3\n    cpu-map 1/1 0\n    cpu-map 1/2 1\n    cpu-map 1/3 0";
        assert_eq!(threads(&three(&[0, 1])), shared);
    }
}
