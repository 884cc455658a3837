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
pub(super) const CONNECTIONS_MAX: u32 = 4096;

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

/// What every server is told.
pub struct Settings<'a> {
    /// Where it listens.
    pub address: SocketAddr,
    /// The certificates that it shows.
    pub identities: &'a [Identity],
    /// Key-exchange groups, as OpenSSL reads them.
    pub groups: &'a str,
    /// Its workers, or threads.
    pub workers: &'a Workers,
    /// What it serves, if anything.
    pub content: Option<&'a Content>,
    /// Whether it listens for HTTP/3 as well.
    pub quic: bool,
    /// If it serves clients only that show a certificate: the authority of which another one has
    /// issued those, a PEM file.
    pub authority: Option<&'a Path>,
}

/// nginx: nothing but TLS, sessions as by default; what there is to serve as files, or pages of an
/// application.
pub fn nginx(
    settings: &Settings<'_>,
    application: Option<&Application>,
    directory: &Path,
) -> String {
    let Settings { address, identities, groups, workers, content, quic, authority } = *settings;
    // Each worker has a socket of its own for HTTP/3.
    let quic =
        if quic { format!("        listen {address} quic reuseport;\n") } else { String::new() };
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
    let demand = authority.map_or(String::new(), |authority| {
        format!(
            "        ssl_client_certificate \"{}\";
        ssl_verify_client on;
        ssl_verify_depth {CLIENT_CHAIN_DEPTH};
",
            authority.display()
        )
    });
    let files = content.map_or(String::new(), |content| {
        let root = content.root().display();
        format!("        location {PREFIX} {{ root \"{root}\"; sendfile on; tcp_nopush on; }}\n")
    });
    let pages = application.map_or("return 200;".to_owned(), Application::location);
    let http = format!(
        "    server {{
{quic}        listen {address} ssl backlog={CONNECTIONS_MAX};
{certificates}{demand}        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_ciphers {SUITES};
        ssl_ecdh_curve {groups};
{files}        location / {{ {pages} }}
    }}
"
    );
    nginx_of(&processes(workers), &http, directory)
}

/// A configuration of nginx that writes to `directory` only, with these lines of its own at the
/// beginning and about HTTP.
pub fn nginx_of(first: &str, http: &str, directory: &Path) -> String {
    format!(
        "{first}daemon off;
pid \"{directory}/nginx.pid\";
error_log stderr warn;
events {{ worker_connections {CONNECTIONS_MAX}; }}
http {{
    access_log off;
    client_body_temp_path \"{directory}/body\";
    proxy_temp_path \"{directory}/proxy\";
    fastcgi_temp_path \"{directory}/fastcgi\";
    uwsgi_temp_path \"{directory}/uwsgi\";
    scgi_temp_path \"{directory}/scgi\";
{http}}}
",
        directory = directory.display(),
    )
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
/// there is to serve from its origin. For HTTP/3, Debian 13's wants a directive that permits it,
/// since it is built for an OpenSSL that could not do QUIC by itself.
pub fn haproxy(settings: &Settings<'_>, asynchronous: bool) -> String {
    let Settings { address, identities, groups, workers, content, quic, authority } = *settings;
    let (front, back) = content.map_or_else(Default::default, |content| {
        let front = format!("    use_backend origin if {{ path_beg {PREFIX} }}\n");
        (front, format!("backend origin\n    server origin {}\n", content.origin()))
    });
    let certificate = |identity: &Identity| format!(" crt \"{}\"", identity.bundle.display());
    let certificates: String = identities.iter().map(certificate).collect();
    let demand = authority.map_or(String::new(), |authority| {
        format!(" ca-file \"{}\" verify required", authority.display())
    });
    let tls = format!("ssl{certificates}{demand}");
    let (limited, quic) = match quic {
        true => ("    limited-quic\n", format!("    bind quic4@{address} {tls} alpn h3\n")),
        false => ("", String::new()),
    };
    let threads = threads(workers);
    let mode = if asynchronous { "    ssl-mode-async\n" } else { "" };
    format!(
        "global
{limited}    {threads}
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
{quic}    bind {address} {tls} backlog {CONNECTIONS_MAX}
    http-request return status 200 unless {{ path_beg {PREFIX} }}
{front}{back}"
    )
}

/// `openssl s_server`, which takes what a client says for the request of a page; no session is
/// kept. It takes two certificates at most.
pub fn s_server(settings: &Settings<'_>) -> Vec<String> {
    let Settings { address, identities, groups, .. } = *settings;
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

    /// The configurations of nginx and HAProxy, with HTTP/3 or with an authority of clients.
    fn both(quic: bool, authority: Option<&Path>) -> [String; 2] {
        let settings = Settings {
            address: SocketAddr::from(([127, 0, 0, 1], 4433)),
            identities: &[identity()],
            groups: "X25519",
            workers: &Workers::on_each(&[]),
            content: None,
            quic,
            authority,
        };
        [nginx(&settings, None, Path::new("/directory")), haproxy(&settings, false)]
    }

    #[test]
    fn http3_is_listened_for_beside_tcp() {
        let [nginx, haproxy] = both(true, None);
        assert!(nginx.contains("listen 127.0.0.1:4433 quic reuseport;"), "{nginx}");
        assert!(nginx.contains("listen 127.0.0.1:4433 ssl backlog"), "{nginx}");
        assert!(haproxy.contains("    bind quic4@127.0.0.1:4433 ssl crt \"/b\" alpn h3\n"));
        assert!(haproxy.contains("    bind 127.0.0.1:4433 ssl crt \"/b\" backlog"));
        assert!(haproxy.starts_with("global\n    limited-quic\n"), "{haproxy}");
        assert!(both(false, None).iter().all(|text| !text.contains("quic")));
    }

    #[test]
    fn certificates_of_clients_are_demanded_and_verified() {
        let [nginx, haproxy] = both(false, Some(Path::new("/a b")));
        for line in
            ["ssl_client_certificate \"/a b\";", "ssl_verify_client on;", "ssl_verify_depth 2;"]
        {
            assert!(nginx.contains(&format!("        {line}\n")), "{nginx}");
        }
        let bind = "bind 127.0.0.1:4433 ssl crt \"/b\" ca-file \"/a b\" verify required backlog";
        assert!(haproxy.contains(bind), "{haproxy}");
        assert!(both(false, None).iter().all(|text| !text.contains("verify")));
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
