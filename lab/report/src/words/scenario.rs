//! What was done, taken from the paths of scenarios.

use super::{capitalised, connections, count, size};

/// A scenario taken apart: `nginx/tls1.2/rsa2048/x25519/c200`, `x25519/derive`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The server; nothing where the scenario drives none.
    pub server: Option<String>,
    /// What is between server and connections, in words: `TLS 1.2`, `RSA-2048`, `X25519`.
    pub parts: Vec<String>,
    /// Bytes of a message or download, where the scenario names them.
    pub size: Option<u64>,
    /// Percents of the connections under ChaCha20-Poly1305, where they are mixed.
    pub mix: Option<u64>,
    /// Cores of the server, where they are counted.
    pub cores: Option<u64>,
    /// Jobs that are done at once, where they are counted.
    pub jobs: Option<u64>,
    /// Percent of native's capacity at which connections arrive, where they do so by themselves.
    pub load: Option<u64>,
    /// How many connections are open at a time.
    pub connections: Option<u32>,
}

impl Scenario {
    /// Takes `path` apart. Anything unknown in it is kept as it is written.
    pub fn parse(path: &str) -> Self {
        let mut parts: Vec<&str> = path.split('/').collect();
        let connections = parts
            .last()
            .and_then(|last| last.strip_prefix('c'))
            .and_then(|count| count.parse().ok());
        if connections.is_some() {
            parts.pop();
        }
        let mut take = |read: fn(&str) -> Option<u64>| {
            let value = parts.last().and_then(|last| read(last));
            if value.is_some() {
                parts.pop();
            }
            value
        };
        let load = take(|part| part.strip_prefix("load")?.parse().ok());
        let cores = take(|part| part.strip_suffix("-cores")?.parse().ok());
        let jobs = take(|part| part.strip_suffix("-jobs")?.parse().ok());
        let size = take(bytes);
        let mix = take(|part| part.strip_prefix("chacha20-poly1305-")?.parse().ok());
        let names_server = match parts[..] {
            [first, second, ..] => SERVERS.contains(&first) || is_version(second),
            [only] => SERVERS.contains(&only),
            [] => false,
        };
        let server = names_server.then(|| server(parts.remove(0)));
        let parts = match parts[..] {
            // The only operation of RSA's that is timed.
            [algorithm, "private"] => vec![part(algorithm)],
            ["acl", rules, how] => vec![rules.to_owned(), lookups(how)],
            ["load", target, ref what @ ..] => {
                let what = what.iter().map(|what| part(what));
                [format!("Load of {target}")].into_iter().chain(what).collect()
            }
            ["simulate", ref what @ ..] => {
                let what = what.iter().map(|what| part(what));
                ["Simulation".to_owned()].into_iter().chain(what).collect()
            }
            ["tune", workload, stage] => {
                vec![format!("Policies for {workload}"), stage.to_owned()]
            }
            ["power", "map", cpus] => vec!["Licence map".to_owned(), self::cpus(cpus)],
            ["power", experiment] => vec![capitalised(experiment)],
            [algorithm, operation] if OPERATIONS_TIMED.contains(&operation) => {
                vec![format!("{} {}", self::algorithm(algorithm), operation_timed(operation))]
            }
            _ => parts.into_iter().map(part).collect(),
        };
        Scenario { server, parts, size, mix, cores, jobs, load, connections }
    }

    /// All but size, mix, cores, jobs and connections: `nginx, TLS 1.2, RSA-2048`.
    pub fn family(&self) -> String {
        let load = self.load.map(|load| Axis::Load.label(load));
        [self.named()].into_iter().chain(load).collect::<Vec<_>>().join(", ")
    }

    /// What has a name: server, version, key, group.
    fn named(&self) -> String {
        self.names().collect::<Vec<_>>().join(", ")
    }

    /// What has a name, one by one: server, version, key, group.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.server.iter().chain(&self.parts).map(String::as_str)
    }

    /// All but what lies on `axis`, and the connections: `nginx, TLS 1.2, RSA-2048, 4 cores`.
    pub fn family_along(&self, axis: Axis) -> String {
        let others = Axis::ALL.into_iter().filter(|other| *other != axis);
        let places = others.filter_map(|other| Some(other.label(other.of(self)?)));
        [self.named()].into_iter().chain(places).collect::<Vec<_>>().join(", ")
    }

    /// What stands together in a table: the family, and what is mixed.
    pub fn group(&self) -> String {
        let mix = self.mix.map(|mix| Axis::Mix.label(mix));
        [self.family()].into_iter().chain(mix).collect::<Vec<_>>().join(", ")
    }

    /// What sets it apart from others of its group: `16 MiB, 4 connections`.
    pub fn place(&self) -> Vec<String> {
        let axes = [Axis::Size, Axis::Jobs, Axis::Cores];
        let places = axes.into_iter().filter_map(|axis| Some(axis.label(axis.of(self)?)));
        places.chain(self.connections.map(connections)).collect()
    }

    /// All but the server: `TLS 1.2, RSA-2048, 200 connections`.
    pub fn conditions(&self) -> String {
        Scenario { server: None, ..self.clone() }.title()
    }

    /// All but the connections: `nginx, TLS 1.2, RSA-2048, 4 cores`.
    pub fn title_without_connections(&self) -> String {
        Scenario { connections: None, ..self.clone() }.title()
    }

    /// Everything: `nginx, TLS 1.2, RSA-2048, 200 connections`.
    pub fn title(&self) -> String {
        let mix = self.mix.map(|mix| Axis::Mix.label(mix));
        let load = self.load.map(|load| Axis::Load.label(load));
        let parts = self.names().map(str::to_owned).chain(mix).chain(load).chain(self.place());
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// What curves run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Bytes.
    Size,
    /// Percents of the connections under ChaCha20-Poly1305.
    Mix,
    /// Cores of the server.
    Cores,
    /// Jobs that are done at once.
    Jobs,
    /// Percent of native's capacity.
    Load,
}

impl Axis {
    /// All, in the order in which they are told.
    pub const ALL: [Axis; 5] = [Axis::Size, Axis::Mix, Axis::Cores, Axis::Jobs, Axis::Load];

    /// Where `scenario` lies on the axis.
    pub fn of(self, scenario: &Scenario) -> Option<u64> {
        match self {
            Axis::Size => scenario.size,
            Axis::Mix => scenario.mix,
            Axis::Cores => scenario.cores,
            Axis::Jobs => scenario.jobs,
            Axis::Load => scenario.load,
        }
    }

    /// What a place on the axis is called.
    pub fn label(self, at: u64) -> String {
        match self {
            Axis::Size => size(at),
            Axis::Mix => format!("{at} % ChaCha20-Poly1305"),
            Axis::Cores => format!("{at} core{}", if at == 1 { "" } else { "s" }),
            Axis::Jobs => format!("{at} job{}", if at == 1 { "" } else { "s" }),
            Axis::Load => format!("{at} % load"),
        }
    }

    /// What a place on the axis is called at a tick or above a column, where little room is.
    pub fn tick(self, at: u64) -> String {
        match self {
            Axis::Mix | Axis::Load => format!("{at} %"),
            Axis::Size | Axis::Cores | Axis::Jobs => self.label(at),
        }
    }

    /// What the axis is called.
    pub fn name(self) -> &'static str {
        match self {
            Axis::Size => "size",
            Axis::Mix => "the share of ChaCha20-Poly1305",
            Axis::Cores => "cores of the server",
            Axis::Jobs => "the jobs that are done at once",
            Axis::Load => "the load, in percent of what the native server can do",
        }
    }
}

/// How packets are looked up, in results of `acl bench`: `burst32`, `build`, `updates10000`.
fn lookups(how: &str) -> String {
    let number = |prefix: &str| how.strip_prefix(prefix)?.parse().ok();
    match (number("burst"), number("updates")) {
        (Some(1), _) => "one by one".to_owned(),
        (Some(packets), _) => format!("bursts of {}", count(packets)),
        (_, Some(changes)) => format!("{} changes per second", count(changes)),
        (None, None) => how.to_owned(),
    }
}

/// How many CPUs did the same, in results of `power map`: `2-cpus`.
fn cpus(part: &str) -> String {
    match part.strip_suffix("-cpus") {
        Some("1") => "1 CPU".to_owned(),
        Some(count) => format!("{count} CPUs"),
        None => part.to_owned(),
    }
}

/// Whether a part of a path is a version of the protocol: what stands before it is a server.
fn is_version(part: &str) -> bool {
    let of_tls = part.strip_prefix("tls").and_then(|version| version.split_once('.'));
    let is_number = |digits: &str| digits.parse::<u8>().is_ok();
    part == "http3" || of_tls.is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

/// The servers that most people run, the most used first.
pub const SERVERS: [&str; 4] = ["nginx", "haproxy", "s-server", "embedded"];

/// What algorithms do in results of `speed`.
const OPERATIONS_TIMED: [&str; 14] = [
    "decapsulate",
    "derive",
    "digest",
    "digest-many",
    "encapsulate",
    "generate",
    "open",
    "record",
    "seal",
    "seal-many",
    "sign",
    "tag",
    "tag-many",
    "verify",
];

/// An algorithm in results of `speed`: what has no form of its own is written in capitals.
fn algorithm(name: &str) -> String {
    let words = part(name);
    if words == name { name.to_uppercase() } else { words }
}

fn operation_timed(name: &str) -> &str {
    match name {
        "digest-many" => "digest, 32 at once",
        "seal-many" => "seal, 32 at once",
        "tag-many" => "tag, 32 at once",
        other => other,
    }
}

/// The bytes that a part of a path names: `1350`, `16MiB`.
fn bytes(part: &str) -> Option<u64> {
    let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
    let (count, unit) = part.split_at(digits);
    let shift = match unit {
        "" | "B" => 0,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    count.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn server(name: &str) -> String {
    match name {
        "embedded" => "embedded server".to_owned(),
        "haproxy" => "HAProxy".to_owned(),
        "s-server" => "openssl s_server".to_owned(),
        other => other.to_owned(),
    }
}

/// One part of a path in words: `tls1.2`, `rsa2048`, `x25519`.
pub(super) fn part(part: &str) -> String {
    if let Some((own, native)) = part.split_once("-vs-") {
        format!("{} (native: {})", self::part(own), self::part(native))
    } else if let Some((one, other)) = part.split_once('+') {
        format!("{} + {}", self::part(one), self::part(other))
    } else if let Some(version) = part.strip_prefix("tls") {
        format!("TLS {version}")
    } else if let Some(bits) = part.strip_prefix("rsa") {
        format!("RSA-{bits}")
    } else if let Some((algorithm @ ("ecdsa" | "ecdh"), curve)) = part.split_once('-') {
        format!("{} {}", algorithm.to_uppercase(), self::part(curve))
    } else if let Some(bits) = part.strip_prefix('p').filter(|bits| bits.parse::<u32>().is_ok()) {
        format!("P-{bits}")
    } else if let "x25519" | "ed25519" = part {
        capitalised(part)
    } else if let Some((curve, set)) = part.split_once("mlkem") {
        let curve = curve.replace("secp", "SecP").replace('x', "X");
        format!("{curve}MLKEM{set}")
    } else if let Some(bits) = part.strip_suffix("-gcm").and_then(|key| key.strip_prefix("aes")) {
        format!("AES-{}-GCM", bits.trim_start_matches('-'))
    } else if let Some(count) = part.strip_suffix("-workers") {
        format!("{count} worker{}", if count == "1" { "" } else { "s" })
    } else if let Some(time) = part.strip_prefix("wait-").and_then(|time| time.strip_suffix("us")) {
        if time == "0" { "no wait".to_owned() } else { format!("wait of {time} µs at most") }
    } else if let Some(time) = part.strip_prefix("rtt").and_then(|time| time.strip_suffix("ms")) {
        format!("round trip {time} ms")
    } else if let Some(count) = part.strip_suffix("-threads") {
        format!("{count} thread{}", if count == "1" { "" } else { "s" })
    } else if let Some(mode) = part.strip_prefix("aes128-sha") {
        format!("AES128-SHA{}", mode.replace("-mac-first", ", MAC first"))
    } else if part == "client-certificates" {
        "clients show certificates".to_owned()
    } else if part == "http3" {
        "HTTP/3".to_owned()
    } else if part == "cipher-compare" {
        "Two ciphers".to_owned()
    } else if part == "chacha20-poly1305" {
        "ChaCha20-Poly1305".to_owned()
    } else {
        part.to_owned()
    }
}
