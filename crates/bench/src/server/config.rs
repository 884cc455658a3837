//! Configuration files for the servers under test.

use std::net::SocketAddr;
use std::path::Path;

use super::certificate::Identity;

/// TLS 1.2 suites that every server offers; the client picks one of them.
const SUITES: &str =
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-CHACHA20-POLY1305";

/// Connections that may wait to be accepted, and that a server may hold.
const CONNECTIONS_MAX: u32 = 4096;

/// nginx: one worker, nothing but TLS, no session kept.
pub fn nginx(address: SocketAddr, identity: &Identity, directory: &Path) -> String {
    let Identity { certificate, private_key, .. } = identity;
    format!(
        "daemon off;
worker_processes 1;
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
    server {{
        listen {address} ssl backlog={CONNECTIONS_MAX};
        ssl_certificate \"{certificate}\";
        ssl_certificate_key \"{private_key}\";
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_ciphers {SUITES};
        ssl_session_cache off;
        ssl_session_tickets off;
        location / {{ return 200; }}
    }}
}}
",
        directory = directory.display(),
        certificate = certificate.display(),
        private_key = private_key.display(),
    )
}

/// HAProxy: one thread, nothing but TLS, no session kept; its own asynchronous mode on request.
pub fn haproxy(address: SocketAddr, identity: &Identity, asynchronous: bool) -> String {
    let mode = if asynchronous { "    ssl-mode-async\n" } else { "" };
    format!(
        "global
    nbthread 1
    maxconn {CONNECTIONS_MAX}
    tune.ssl.cachesize 0
    ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets
    ssl-default-bind-ciphers {SUITES}
{mode}defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend tls
    bind {address} ssl crt {bundle} backlog {CONNECTIONS_MAX}
    http-request return status 200
",
        bundle = identity.bundle.display(),
    )
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
