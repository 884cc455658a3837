//! Words and numbers for readers: what scenarios, subjects, metrics and values are called.

mod metric;
mod scenario;

use widelane_results::Row;
use widelane_tables::grouped;
pub use widelane_tables::{count, percent};

pub use self::metric::*;
use self::scenario::part;
pub use self::scenario::{Axis, SERVERS, Scenario};

/// A number of bytes: `1,350 B`, `16 KiB`.
pub fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((shift, unit)) => format!("{} {unit}", count(bytes >> shift)),
        None => format!("{} B", count(bytes)),
    }
}

/// A kind of operation as the counters name it: `rsa-2048`, `x25519-derive`.
pub fn operation(kind: &str) -> String {
    match kind.split_once('-') {
        Some(("rsa", bits)) => format!("RSA-{bits}"),
        Some((algorithm, operation)) => format!("{} {operation}", part(algorithm)),
        None => kind.to_owned(),
    }
}

/// `text` as the beginning of a sentence; nginx writes itself small.
pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(_) if text.starts_with("nginx") || text.starts_with("openssl") => text.to_owned(),
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// `text` in the middle of a sentence, but for what is written in capitals: `p99`, `CPU`.
pub fn uncapitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if !letters.as_str().starts_with(char::is_uppercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

/// `1 connection`, `200 connections`.
pub fn connections(count: u32) -> String {
    format!("{count} connection{}", if count == 1 { "" } else { "s" })
}

/// What a subject is called in a table.
pub fn subject(name: &str) -> &str {
    match name {
        "ambient" => "the ambient clock",
        "async" => "accelerated, async",
        "auto" => "accelerated, policy chosen",
        "aws-lc" => "AWS-LC",
        "configured" => "accelerated, by configuration",
        "haproxy-aws-lc" => "HAProxy on AWS-LC",
        "lane-cpus" => "accelerated, lane CPUs",
        "light-256" => "accelerated, 256 bits without multiplications",
        "light-only" => "accelerated, without multiplications",
        "live/quiet" => "the same rules without changes",
        "native" => "as installed",
        "native-masked" => "IFMA masked",
        "openssl" => "OpenSSL",
        "qat" => "accelerated, QAT",
        "rte_acl" => "DPDK's rte_acl",
        "table" => "a table",
        "wait-0" => "accelerated, no wait",
        "wait-0.5ms" => "accelerated, waits up to 0.5 ms",
        "wait-1ms" => "accelerated, waits up to 1 ms",
        "wait-2ms" => "accelerated, waits up to 2 ms",
        "wait-5ms" => "accelerated, waits up to 5 ms",
        "wait-10ms" => "accelerated, waits up to 10 ms",
        "wait-rtt" => "accelerated, waits by round trip",
        "widelane" => "Widelane",
        "widelane-evp" => "by EVP",
        other => other,
    }
}

/// Whether a subject is what others are compared with, and nothing of ours.
pub fn is_rival(subject: &str) -> bool {
    matches!(
        subject,
        "aws-lc"
            | "graviola"
            | "haproxy-aws-lc"
            | "ipsec-mb"
            | "libcrux"
            | "native"
            | "native-masked"
            | "openssl"
            | "ring"
            | "rte_acl"
    )
}

/// A value whose unit stands above it: `0.174`, `13.6`.
pub fn figure(value: f64) -> String {
    match value {
        // Three decimals would be zeros.
        tiny if tiny > 0.0 && tiny < 0.01 => significant(tiny),
        small if small < 1.0 => format!("{small:.3}"),
        value => significant(value),
    }
}

/// The value of a row with its unit; empty where there is none.
pub fn value(row: &Row) -> String {
    let is_share = SHARES.contains(&row.metric.as_str());
    match (row.value, row.unit.as_str()) {
        (None, _) => String::new(),
        (Some(plain), "1") if !is_share => figure(plain),
        (Some(value), unit) => quantity(value, unit),
    }
}

/// A value with its unit, which is 1 of shares.
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        _ if value < 0.0 => format!("-{}", quantity(-value, unit)),
        "B" if value >= 1e6 => format!("{} MB", significant(value / 1e6)),
        "s" if value < 1.0 => format!("{} ms", significant(value * 1e3)),
        "us" if value >= 10_000.0 => format!("{} ms", significant(value / 1000.0)),
        "us" => format!("{} µs", significant(value)),
        "cycles/B" => figure(value),
        "1/s" => format!("{}/s", significant(value)),
        "1" => percent(value),
        "count" => count(value as u64),
        // The metric's title says what is counted.
        "cycles" => significant(value),
        _ => format!("{} {unit}", significant(value)),
    }
}

/// A round latency as the label of a scale: `500 µs`, `10 ms`, `2 s`.
pub fn tick_us(value: f64) -> String {
    match value {
        tick if tick >= 1e6 => format!("{} s", tick / 1e6),
        tick if tick >= 1e3 => format!("{} ms", tick / 1e3),
        tick => format!("{tick} µs"),
    }
}

/// A round value as the label of a scale: `10 ms`, `2,000/s`, `0.9`.
pub fn tick(value: f64, unit: &str) -> String {
    match unit {
        "us" => tick_us(value),
        "1" => value.to_string(),
        "1/s" => format!("{}/s", round(value)),
        unit => format!("{} {unit}", round(value)),
    }
}

/// A round value, in groups of three digits where it is whole.
fn round(value: f64) -> String {
    if value.fract() == 0.0 { grouped(&value.to_string()) } else { value.to_string() }
}

/// A share of one in a table; nothing where there is none.
pub fn share(share: f64) -> String {
    match share {
        0.0 => String::new(),
        little if little < 0.005 => "< 1 %".to_owned(),
        share => percent(share),
    }
}

/// A ratio: `0.58×`, `12.6×`.
pub fn ratio(ratio: f64) -> String {
    format!("{}×", bare_ratio(ratio))
}

/// A ratio for prose, two digits: `1.7×`, `13×`.
pub fn ratio_short(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.1}×") } else { format!("{ratio:.0}×") }
}

/// A 95 % interval: `0.56–0.60`; why there is none where the ends are unknown.
pub fn interval(ends: Option<[f64; 2]>) -> String {
    match ends {
        Some([low, high]) => format!("{}–{}", bare_ratio(low), bare_ratio(high)),
        None => "too few rounds".to_owned(),
    }
}

fn bare_ratio(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.1}") }
}

/// A value that is not negative, with three significant digits or all before the point, those in
/// groups of three: `9.24`, `382`, `223,610`; below 1 with two, as far as six decimals have them:
/// `0.58`, `0.012`.
fn significant(value: f64) -> String {
    let decimals = match value {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size < 0.1 => (1.0 - size.log10().floor()).clamp(2.0, 6.0) as usize,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    grouped(whole) + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_put_into_words() {
        let compare = Scenario::parse("haproxy/tls1.2/rsa2048/c200");
        assert_eq!(compare.title(), "HAProxy, TLS 1.2, RSA-2048, 200 connections");
        assert_eq!(compare.family(), "HAProxy, TLS 1.2, RSA-2048");
        assert_eq!(compare.conditions(), "TLS 1.2, RSA-2048, 200 connections");
        assert_eq!(
            Scenario::parse("nginx/mixed/chacha20-poly1305-20/c32").title(),
            "nginx, mixed, 20 % ChaCha20-Poly1305, 32 connections"
        );
        assert_eq!(
            Scenario::parse("s-server/tls1.3/rsa2048+ecdsa-p384/p256/c8").title(),
            "openssl s_server, TLS 1.3, RSA-2048 + ECDSA P-384, P-256, 8 connections"
        );
        assert_eq!(
            Scenario::parse("embedded/tls1.3/ed25519/x25519/c1").conditions(),
            "TLS 1.3, Ed25519, X25519, 1 connection"
        );
        let partial = Scenario::parse("nginx/tls1.3/rsa2048/x25519/2-cores/load30");
        assert_eq!(partial.title(), "nginx, TLS 1.3, RSA-2048, X25519, 30 % load, 2 cores");
        assert_eq!(partial.family(), "nginx, TLS 1.3, RSA-2048, X25519, 30 % load");
        assert_eq!(partial.family_along(Axis::Load), "nginx, TLS 1.3, RSA-2048, X25519, 2 cores");
        let crowded = Scenario::parse("nginx/tls1.3/rsa2048/x25519/4-workers/2-cores/c8");
        assert_eq!(
            crowded.title(),
            "nginx, TLS 1.3, RSA-2048, X25519, 4 workers, 2 cores, 8 connections"
        );
        let far = Scenario::parse("nginx/tls1.3/rsa2048/x25519/rtt20ms/load30");
        assert_eq!(far.title(), "nginx, TLS 1.3, RSA-2048, X25519, round trip 20 ms, 30 % load");
        let shown = Scenario::parse("haproxy/tls1.3/ecdsa-p256/x25519/client-certificates/c200");
        assert_eq!(
            shown.title(),
            "HAProxy, TLS 1.3, ECDSA P-256, X25519, clients show certificates, 200 connections"
        );
        let threads = Scenario::parse("haproxy/tls1.3/rsa2048/x25519/2-threads/load30");
        assert_eq!(
            threads.family_along(Axis::Load),
            "HAProxy, TLS 1.3, RSA-2048, X25519, 2 threads"
        );
        assert_eq!(Scenario::parse("rsa3072/private").title(), "RSA-3072");
        let two_groups = Scenario::parse("nginx/tls1.3/rsa2048/x25519mlkem768-vs-x25519/c8");
        assert_eq!(
            two_groups.title(),
            "nginx, TLS 1.3, RSA-2048, X25519MLKEM768 (native: X25519), 8 connections"
        );
        assert_eq!(scenario::part("secp384r1mlkem1024"), "SecP384r1MLKEM1024");
        let other = Scenario::parse("ml-kem-768/encapsulate").title();
        assert_eq!(other, "ML-KEM-768 encapsulate");
        assert_eq!(Scenario::parse("ml-dsa-65/sign/8-jobs").title(), "ML-DSA-65 sign, 8 jobs");
        assert_eq!(Scenario::parse("hmac-sha3-256/tag/64").title(), "HMAC-SHA3-256 tag, 64 B");
        let few = Scenario::parse("x25519/derive/3-jobs");
        assert_eq!(few.title(), "X25519 derive, 3 jobs");
        assert_eq!(few.family_along(Axis::Jobs), "X25519 derive");
        assert_eq!(Scenario::parse("rsa2048/private/1-jobs").title(), "RSA-2048, 1 job");
        assert_eq!(Scenario::parse("ecdh-p384/generate").title(), "ECDH P-384 generate");
        assert_eq!(operation("p256-sign"), "P-256 sign");
        assert_eq!(operation("rsa-2048"), "RSA-2048");
        assert_eq!(Scenario::parse("nginx/h2/c1").title(), "nginx, h2, 1 connection");
        assert_eq!(Scenario::parse("haproxy/rsa2048").title(), "HAProxy, RSA-2048");
        assert_eq!(Scenario::parse("odd").title(), "odd");
        assert_eq!(
            Scenario::parse("nginx/tls1.3/rsa2048/aes128-gcm/16MiB/c4").title(),
            "nginx, TLS 1.3, RSA-2048, AES-128-GCM, 16 MiB, 4 connections"
        );
        assert_eq!(
            Scenario::parse("nginx/tls1.2/rsa2048/aes128-sha-mac-first/1GiB/c4").family(),
            "nginx, TLS 1.2, RSA-2048, AES128-SHA, MAC first"
        );
        let message = Scenario::parse("aes-128-gcm/seal-many/1350");
        assert_eq!(message.title(), "AES-128-GCM seal, 32 at once, 1,350 B");
        assert_eq!(message.size, Some(1350));
        assert_eq!(
            Scenario::parse("chacha20-poly1305/open/16384").title(),
            "ChaCha20-Poly1305 open, 16 KiB"
        );
        assert_eq!(
            Scenario::parse("nginx/tls1.2/rsa2048/x25519/4-cores/c4000").title(),
            "nginx, TLS 1.2, RSA-2048, X25519, 4 cores, 4000 connections"
        );
        assert_eq!(Scenario::parse("acl/fw-4096/burst32").title(), "fw-4096, bursts of 32");
        assert_eq!(Scenario::parse("acl/fw-4096/burst1").title(), "fw-4096, one by one");
        assert_eq!(Scenario::parse("acl/fw/updates10000").title(), "fw, 10,000 changes per second");
        assert_eq!(Scenario::parse("load/[::1]:443/latency").title(), "Load of [::1]:443, latency");
        assert_eq!(Scenario::parse("tune/mixed/survey").title(), "Policies for mixed, survey");
        assert_eq!(Scenario::parse("power/map/1-cpus").title(), "Licence map, 1 CPU");
        assert_eq!(Scenario::parse("power/map/2-cpus").title(), "Licence map, 2 CPUs");
        assert_eq!(Scenario::parse("power/duty").title(), "Duty");
        assert_eq!(
            Scenario::parse("simulate/4-workers/wait-500us/combined").title(),
            "Simulation, 4 workers, wait of 500 µs at most, combined"
        );
        let alone = Scenario::parse("simulate/1-workers/wait-0us/apart").title();
        assert_eq!(alone, "Simulation, 1 worker, no wait, apart");
        assert_eq!(Scenario::parse("").title(), "");
    }

    #[test]
    fn values_are_rounded_to_what_matters() {
        for (value, unit, text) in [
            (382.21, "us", "382 µs"),
            (9_999.4, "us", "9,999 µs"),
            (170_200.0, "us", "170 ms"),
            (-106.0, "us", "-106 µs"),
            (12_345.0, "us", "12.3 ms"),
            (1_234_567.8, "1/s", "1,234,568/s"),
            (0.931, "1", "93 %"),
            (233_911.6, "cycles", "233,912"),
            (1_003_264.0, "B", "1.00 MB"),
            (0.015_86, "s", "15.9 ms"),
            (2.5, "jobs", "2.50 jobs"),
            (0.0, "jobs", "0 jobs"),
        ] {
            assert_eq!(quantity(value, unit), text);
        }
        for (value, unit, text) in [
            (20_000.0, "us", "20 ms"),
            (20_000.0, "1/s", "20,000/s"),
            (2_600.0, "MHz", "2,600 MHz"),
            (0.5, "s", "0.5 s"),
            (0.95, "1", "0.95"),
        ] {
            assert_eq!(tick(value, unit), text);
        }
        assert_eq!(["Clock", "CPU", "p99"].map(uncapitalised), ["clock", "CPU", "p99"]);
        assert_eq!(ratio(0.5798), "0.58×");
        assert_eq!(ratio(12.57), "12.6×");
        assert_eq!(interval(Some([0.564, 0.597])), "0.56–0.60");
        assert_eq!(interval(None), "too few rounds");
    }

    #[test]
    fn only_shares_are_percentages() {
        let of = |metric: &str, value: f64| {
            let (metric, unit) = (metric.to_owned(), "1".to_owned());
            super::value(&Row { metric, unit, value: Some(value), ..Row::default() })
        };
        assert_eq!(of("jobs_per_batch", 5.32), "5.32");
        assert_eq!(of("short_waits_per_handshake", 0.4), "0.400");
        assert_eq!(of("cipher_ratio", 1.5), "1.50");
        assert_eq!(of("full_batches", 0.33), "33 %");
        assert_eq!(of("client_busy", 0.5), "50 %");
    }

    #[test]
    fn small_values_keep_two_digits() {
        for (value, expected) in
            [(0.58, "0.58 µs"), (0.0123, "0.012 µs"), (0.000_4, "0.00040 µs"), (0.0, "0 µs")]
        {
            assert_eq!(quantity(value, "us"), expected);
        }
        assert_eq!([0.0123, 0.0042, 0.0].map(figure), ["0.012", "0.0042", "0.000"]);
    }
}
