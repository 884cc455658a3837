//! Servers that are known by a command and a configuration with blanks: one row of a table and one
//! file each. What only some servers have (workers, bodies, an asynchronous mode) is not for these.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::config::SUITES;
use super::{Identity, ServerError, testbed};
use crate::programs::Programs;

/// A server that accepts TLS connections by a command and a configuration.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recipe {
    /// The server's name in scenarios and flags.
    pub name: &'static str,
    /// What it is, for a help text.
    pub about: &'static str,
    /// Debian's packages that bring it.
    pub packages: &'static str,
    /// The words of its command, the program first; blanks are named in braces, and
    /// `{configuration}` is the file.
    command: &'static str,
    /// Name and text of the configuration, with blanks as well, if there is one.
    configuration: Option<(&'static str, &'static str)>,
}

macro_rules! file {
    ($name:literal) => {
        Some(($name, include_str!(concat!("recipes/", $name))))
    };
}

/// All of them, by name.
pub const RECIPES: &[Recipe] = &[
    Recipe {
        name: "apache",
        about: "Apache httpd with its event module, one process of 64 threads",
        packages: "apache2",
        command: "apache2 -D FOREGROUND -d {directory} -f {configuration}",
        configuration: file!("apache.conf"),
    },
    Recipe {
        name: "asyncio",
        about: "A server of Python's asyncio",
        packages: "python3",
        command: "python3 {configuration}",
        configuration: file!("asyncio-server.py"),
    },
    Recipe {
        name: "coturn",
        about: "coturn, TURN over TLS",
        packages: "coturn",
        command: "turnserver -c {configuration}",
        configuration: file!("turnserver.conf"),
    },
    Recipe {
        name: "dnsdist",
        about: "dnsdist, DNS over TLS",
        packages: "dnsdist",
        command: "dnsdist --supervised --disable-syslog -C {configuration}",
        configuration: file!("dnsdist.lua"),
    },
    Recipe {
        name: "gunicorn",
        about: "gunicorn, one process of 16 threads",
        packages: "gunicorn",
        command: "gunicorn -c {configuration} wsgiref.simple_server:demo_app",
        configuration: file!("gunicorn-settings.py"),
    },
    Recipe {
        name: "hitch",
        about: "hitch, one worker",
        packages: "hitch",
        command: "hitch --config={configuration}",
        configuration: file!("hitch.conf"),
    },
    Recipe {
        name: "lighttpd",
        about: "lighttpd with mod_openssl",
        packages: "lighttpd lighttpd-mod-openssl",
        command: "lighttpd -D -f {configuration}",
        configuration: file!("lighttpd.conf"),
    },
    Recipe {
        name: "memcached",
        about: "memcached, one worker thread",
        packages: "memcached",
        command: "memcached -u root -l {host} -p {port} -t 1 -c 8192 -Z \
                  -o ssl_chain_cert={certificate},ssl_key={key},ssl_ciphers={suites}",
        configuration: None,
    },
    Recipe {
        name: "mosquitto",
        about: "mosquitto, MQTT over TLS",
        packages: "mosquitto",
        command: "mosquitto -c {configuration}",
        configuration: file!("mosquitto.conf"),
    },
    Recipe {
        name: "nghttpx",
        about: "nghttpx, one worker",
        packages: "nghttp2-proxy",
        command: "nghttpx --conf={configuration}",
        configuration: file!("nghttpx.conf"),
    },
    Recipe {
        name: "node",
        about: "A server of Node.js",
        packages: "nodejs",
        command: "node {configuration}",
        configuration: file!("node.js"),
    },
    Recipe {
        name: "redis",
        about: "Redis",
        packages: "redis-server",
        command: "redis-server {configuration}",
        configuration: file!("redis.conf"),
    },
    Recipe {
        name: "rsyslog",
        about: "rsyslog, syslog over TLS",
        packages: "rsyslog-openssl",
        command: "rsyslogd -n -i NONE -f {configuration}",
        configuration: file!("rsyslog.conf"),
    },
    Recipe {
        name: "slapd",
        about: "OpenLDAP's slapd, LDAP over TLS",
        packages: "slapd",
        command: "slapd -d 0 -f {configuration} -h ldaps://{host}:{port}",
        configuration: file!("slapd.conf"),
    },
    Recipe {
        name: "squid",
        about: "Squid as a reverse proxy",
        packages: "squid-openssl",
        command: "squid -N -f {configuration}",
        configuration: file!("squid.conf"),
    },
    Recipe {
        name: "stunnel",
        about: "stunnel, a thread for each connection",
        packages: "stunnel4",
        command: "stunnel4 {configuration}",
        configuration: file!("stunnel.conf"),
    },
    Recipe {
        name: "unbound",
        about: "Unbound, DNS over TLS",
        packages: "unbound",
        command: "unbound -d -p -c {configuration}",
        configuration: file!("unbound.conf"),
    },
    Recipe {
        name: "uvicorn",
        about: "uvicorn, one process",
        packages: "uvicorn",
        command: "python3 {configuration}",
        configuration: file!("uvicorn-server.py"),
    },
    Recipe {
        name: "valkey",
        about: "Valkey",
        packages: "valkey-server",
        command: "valkey-server {configuration}",
        configuration: file!("redis.conf"),
    },
];

impl Recipe {
    /// The recipe of this name.
    pub fn named(name: &str) -> Option<&'static Recipe> {
        RECIPES.iter().find(|recipe| recipe.name == name)
    }

    /// The program's name.
    pub fn program(&self) -> &'static str {
        self.command.split(' ').next().expect("a command has a program")
    }

    /// The command of a server with its configuration in `directory`.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotInstalled`] and [`ServerError::Directory`].
    pub(super) fn prepare(
        &self,
        programs: &Programs,
        identity: &Identity,
        address: SocketAddr,
        groups: &str,
        directory: &Path,
    ) -> Result<Vec<PathBuf>, ServerError> {
        let program = programs.find(self.program());
        let program = program.ok_or(ServerError::NotInstalled(self.packages))?;
        let (name, text) = self.configuration.unwrap_or_default();
        let configuration = directory.join(name);
        let fill = |text: &str| fill(text, identity, address, groups, directory, &configuration);
        if self.configuration.is_some() {
            testbed::write(&configuration, &fill(text))?;
        }
        let arguments = self.command.split(' ').skip(1).map(|word| fill(word).into());
        Ok(std::iter::once(program).chain(arguments).collect())
    }
}

/// `text` with its blanks filled.
fn fill(
    text: &str,
    identity: &Identity,
    address: SocketAddr,
    groups: &str,
    directory: &Path,
    configuration: &Path,
) -> String {
    let blanks = [
        ("{host}", address.ip().to_string()),
        ("{port}", address.port().to_string()),
        ("{certificate}", identity.certificate.display().to_string()),
        ("{key}", identity.private_key.display().to_string()),
        ("{bundle}", identity.bundle.display().to_string()),
        ("{directory}", directory.display().to_string()),
        ("{configuration}", configuration.display().to_string()),
        ("{suites}", SUITES.to_owned()),
        ("{groups}", groups.to_owned()),
    ];
    blanks.iter().fold(text.to_owned(), |text, (blank, value)| text.replace(blank, value))
}

#[cfg(test)]
mod tests {
    use super::super::Key;
    use super::*;

    #[test]
    fn names_are_in_order_and_no_blank_stays() {
        assert!(RECIPES.is_sorted_by(|one, next| one.name < next.name));
        let identity = Identity {
            certificate: "/c".into(),
            private_key: "/k".into(),
            bundle: "/b".into(),
            leaf: Vec::new(),
            key: Key::EcdsaP256,
        };
        for recipe in RECIPES {
            let text = recipe.configuration.map_or("", |(_, text)| text);
            let text = format!("{} {text}", recipe.command);
            let address = SocketAddr::from(([127, 0, 0, 1], 4433));
            let (directory, file) = (Path::new("/d"), Path::new("/d/f"));
            let filled = fill(&text, &identity, address, "X25519", directory, file);
            for name in
                ["host", "port", "certificate", "key", "bundle", "directory", "suites", "groups"]
            {
                assert!(!filled.contains(&format!("{{{name}}}")), "{}: {name}", recipe.name);
            }
            assert!(filled.contains("4433"), "{} does not listen on the port", recipe.name);
        }
    }
}
