//! Configuration files for the servers under test.

use std::net::SocketAddr;
use std::path::Path;

use super::application::Application;
use super::certificate::Identity;
use super::content::{Content, PREFIX};

/// TLS 1.2 suites that every server offers; the client picks one of them.
const SUITES: &str = "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:\
                      ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
                      ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:AES128-SHA";

/// Key-exchange groups that every server offers; the client's first is taken.
const GROUPS: &str = "X25519:P-256:P-384";

/// Connections that may wait to be accepted, and that a server may hold.
const CONNECTIONS_MAX: u32 = 4096;

/// nginx: a worker on each of `cpus`, nothing but TLS, no session kept; what there is to serve as
/// files, or pages of an application.
pub fn nginx(
    address: SocketAddr,
    identities: &[Identity],
    content: Option<&Content>,
    application: Option<&Application>,
    cpus: &[usize],
    directory: &Path,
) -> String {
    let pages = application.map_or("return 200;".to_owned(), Application::location);
    let workers = workers(cpus);
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
        ssl_ecdh_curve {GROUPS};
        ssl_session_cache off;
        ssl_session_tickets off;
{files}        location / {{ {pages} }}
    }}
}}
",
        directory = directory.display(),
    )
}

/// As many workers as there are `cpus`, each on its own; one, wherever it is, if none are given.
fn workers(cpus: &[usize]) -> String {
    let mask = |cpu: &usize| {
        let highest = cpus.iter().max().unwrap_or(cpu);
        let bit = |place: usize| if place == *cpu { '1' } else { '0' };
        format!(" {}", (0..=*highest).rev().map(bit).collect::<String>())
    };
    let count = cpus.len().max(1);
    match cpus {
        [] | [_] => format!("worker_processes {count};\n"),
        _ => format!(
            "worker_processes {count};\nworker_cpu_affinity{};\n",
            cpus.iter().map(mask).collect::<String>()
        ),
    }
}

/// HAProxy: a thread on each of `cpus`, nothing but TLS, no session kept; its own asynchronous mode
/// on request, and what there is to serve from its origin.
pub fn haproxy(
    address: SocketAddr,
    identities: &[Identity],
    content: Option<&Content>,
    asynchronous: bool,
    cpus: &[usize],
) -> String {
    let (front, back) = content.map_or_else(Default::default, |content| {
        let front = format!("    use_backend origin if {{ path_beg {PREFIX} }}\n");
        (front, format!("backend origin\n    server origin {}\n", content.origin()))
    });
    let certificates: String =
        identities.iter().map(|identity| format!(" crt {}", identity.bundle.display())).collect();
    let threads = match cpus {
        [] | [_] => "nbthread 1".to_owned(),
        _ => {
            let count = cpus.len();
            let list: String = cpus.iter().map(|cpu| format!(" {cpu}")).collect();
            format!("nbthread {count}\n    cpu-map auto:1/1-{count}{list}")
        }
    };
    let mode = if asynchronous { "    ssl-mode-async\n" } else { "" };
    format!(
        "global
    {threads}
    maxconn {CONNECTIONS_MAX}
    tune.ssl.cachesize 0
    ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets prefer-client-ciphers
    ssl-default-bind-ciphers {SUITES}
    ssl-default-bind-curves {GROUPS}
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

/// `openssl s_server`, which takes what a client says for the request of a page; no session is
/// kept. It takes two certificates at most.
pub fn s_server(address: SocketAddr, identities: &[Identity]) -> Vec<String> {
    let mut words: Vec<String> =
        ["s_server", "-www", "-quiet", "-no_cache", "-no_ticket", "-num_tickets", "0", "-no_dhe"]
            .map(str::to_owned)
            .into();
    words.extend(["-accept".to_owned(), address.to_string()]);
    words.extend(["-cipher", SUITES, "-groups", GROUPS].map(str::to_owned));
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

    #[test]
    fn workers_have_cpus_of_their_own() {
        assert_eq!(workers(&[]), "worker_processes 1;\n");
        assert_eq!(workers(&[3]), "worker_processes 1;\n");
        let two = "worker_processes 2;\nworker_cpu_affinity 0001 1000;\n";
        assert_eq!(workers(&[0, 3]), two);
    }
}
