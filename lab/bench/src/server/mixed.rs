//! nginx that minifies a page in Lua and compresses it by brotli for every request: a server on
//! which cryptography is the smaller part.

use std::net::SocketAddr;
use std::path::Path;

use widelane_cpu::Policy;

use super::config::{CONNECTIONS_MAX, nginx_of};
use super::plain::command;
use super::testbed::{COUNTERS, Testbed, check, write};
use super::{Identity, Server, ServerError};

/// The modules that it wants, in the order of loading.
const MODULES: [&str; 3] =
    ["ndk_http_module.so", "ngx_http_lua_module.so", "ngx_http_brotli_filter_module.so"];

/// Bytes of the page, before anything is taken out of it.
const PAGE_BYTES: usize = 64 << 10;

impl Testbed {
    /// Starts it as installed, or under `widelane run` with a policy, and waits until it accepts
    /// connections.
    ///
    /// # Errors
    ///
    /// See [`ServerError`].
    pub fn start_mixed(
        &mut self,
        name: &str,
        policy: Option<&Policy>,
        identity: &Identity,
    ) -> Result<Server, ServerError> {
        let site = self.site(name)?;
        let directory = &site.directory;
        let file = directory.join("nginx.conf");
        let server = self.programs().nginx_words(directory, file.clone())?;
        let modules = self.programs().nginx_modules().unwrap_or_else(|| "modules".into());
        if let Some(missing) = MODULES.into_iter().find(|name| !modules.join(name).is_file()) {
            return Err(ServerError::NoModule { missing, directory: modules });
        }
        write(&directory.join("page.html"), &page())?;
        write(&file, &configuration(site.address, identity, &modules, directory))?;
        check(command(&server).arg("-t"))?;
        let command = match policy {
            None => command(&server),
            Some(policy) => {
                let file = directory.join("policy.toml");
                write(&file, &toml::to_string(policy).expect("a policy is TOML"))?;
                let mut run = command(&[self.widelane()?.to_owned()]);
                run.arg("run").arg("--policy").arg(file);
                run.arg("--counters-dir").arg(directory.join(COUNTERS)).arg("--").args(server);
                run
            }
        };
        self.launch(format!("nginx/{name}"), command, site, policy.is_some())
    }
}

/// One worker, TLS 1.3, no session kept; the page is read once.
fn configuration(
    address: SocketAddr,
    identity: &Identity,
    modules: &Path,
    directory: &Path,
) -> String {
    let load = |name: &str| format!("load_module \"{}\";\n", modules.join(name).display());
    let http = format!(
        "    keepalive_requests 100000;
    brotli on;
    brotli_comp_level 4;
    init_by_lua_block {{
        local file = assert(io.open(\"{directory}/page.html\"))
        page = file:read(\"*a\")
        file:close()
    }}
    server {{
        listen {address} ssl backlog={CONNECTIONS_MAX};
        ssl_certificate \"{certificate}\";
        ssl_certificate_key \"{private_key}\";
        ssl_protocols TLSv1.3;
        default_type text/html;
        location / {{
            rewrite_by_lua_block {{ ngx.req.set_header(\"Accept-Encoding\", \"br\") }}
            content_by_lua_block {{
                local text = page:gsub(\"<!%-%-.-%-%->\", \"\"):gsub(\"%s+\", \" \")
                ngx.print((text:gsub(\"> <\", \"><\")))
            }}
        }}
    }}
",
        directory = directory.display(),
        certificate = identity.certificate.display(),
        private_key = identity.private_key.display(),
    );
    nginx_of(&format!("{}worker_processes 1;\n", MODULES.map(load).concat()), &http, directory)
}

/// A page with comments, blanks and words.
fn page() -> String {
    const WORDS: [&str; 16] = [
        "the", "clock", "of", "a", "core", "follows", "what", "it", "is", "asked", "for", "width",
        "costs", "more", "than", "gives",
    ];
    let mut page = "<!doctype html>\n<html>\n<body>\n".to_owned();
    let mut number = 1_u32;
    while page.len() < PAGE_BYTES {
        page.push_str("  <!-- row -->\n  <div class=\"row\">\n    <p>");
        for _ in 0..20 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            page.push(' ');
            page.push_str(WORDS[(number >> 28) as usize]);
        }
        page.push_str("  </p>\n  </div>\n");
    }
    page + "</body>\n</html>\n"
}
