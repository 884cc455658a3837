//! The tables of docs/operate/compatibility.md, from what earlier runs left.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{KEYS, SERVERS, SYSTEMS, Server, System};

const BEGIN: &str = "<!-- Written by `cargo xtask systems`: begin -->\n";
const END: &str = "<!-- Written by `cargo xtask systems`: end -->\n";

/// Where what came of a server is kept.
pub fn outcome_file(place: &Path, system: &System, server: &Server) -> PathBuf {
    place.join("outcomes").join(system.name).join(format!("{}.json", server.name))
}

/// Writes the tables anew, from all that there is in `place`.
pub fn write(place: &Path, page: &Path) -> Result<()> {
    let text = fs::read_to_string(page)?;
    let marks = "docs/operate/compatibility.md has lost its marks";
    let (before, rest) = text.split_once(BEGIN).context(marks)?;
    let (_, after) = rest.split_once(END).context(marks)?;
    let tables: Result<Vec<String>> = SYSTEMS.iter().map(|system| table(place, system)).collect();
    let tables = tables?.concat();
    fs::write(page, format!("{before}{BEGIN}{tables}{END}{after}"))?;
    Ok(())
}

/// The table of one system; empty where nothing was run.
fn table(place: &Path, system: &System) -> Result<String> {
    let mut rows = String::new();
    let mut heading = None;
    for server in &SERVERS {
        let file = outcome_file(place, system, server);
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let outcome: Value = serde_json::from_str(&text).context("an outcome")?;
        if heading.is_none() && outcome["results"].is_object() {
            heading = Some(outcome["results"].clone());
        }
        rows += &row(server, &outcome);
    }
    let Some(results) = heading else { return Ok(String::new()) };
    let machine = &results["machine"];
    let mut table = String::new();
    writeln!(table, "\n### {}\n", system.title)?;
    writeln!(
        table,
        "{}, on {} with {} CPUs, {}.\n",
        machine["openssl"].as_str().unwrap_or("OpenSSL"),
        machine["model"].as_str().unwrap_or("an unknown CPU"),
        machine["cpus"],
        results["created"].as_str().unwrap_or_default().split('T').next().unwrap_or_default(),
    )?;
    table +=
        "| Server | Version | RSA-2048 | ECDSA P-256 | In batches: signatures, key exchange | |\n";
    table += "|---|---|---|---|---|---|\n";
    Ok(table + &rows + "\n")
}

fn row(server: &Server, outcome: &Value) -> String {
    let title = server.title;
    if outcome["missing"] == true {
        return format!("| {title} | | | | | not in this release |\n");
    }
    let version = outcome["version"].as_str().unwrap_or_default();
    if let Some(failure) = outcome["failure"].as_str() {
        return format!("| {title} | {version} | | | | fails: {failure} |\n");
    }
    let results = &outcome["results"];
    let [rsa, ecdsa] = KEYS.map(|key| ratio(results, key));
    let batched = batched(results);
    format!("| {title} | {version} | {rsa} | {ecdsa} | {batched} | {} |\n", server.remark)
}

/// CPU per handshake over that of the server as installed, with its interval.
fn ratio(results: &Value, key: &str) -> String {
    let rows = results["rows"].as_array().into_iter().flatten();
    let mut of_key = rows.filter(|row| {
        let is_of = |field: &str, part: &str| row[field].as_str().is_some_and(|s| s.contains(part));
        is_of("scenario", &format!("/{key}/"))
            && row["metric"] == "server_cpu_per_handshake"
            && row["subject"] != "native"
    });
    let Some(row) = of_key.next() else { return "not measured".to_owned() };
    match (row["ratio"].as_f64(), row["ratio_low"].as_f64(), row["ratio_high"].as_f64()) {
        (Some(ratio), Some(low), Some(high)) if row["status"] == "ok" => {
            format!("{ratio:.2} ({low:.2}–{high:.2})")
        }
        _ => row["reason"].as_str().unwrap_or("no ratio").to_owned(),
    }
}

/// Shares of signatures and of key agreements that were executed in batches.
fn batched(results: &Value) -> String {
    let share = |is_counted: fn(&str) -> bool| {
        let kinds = results["operations"].as_array().into_iter().flatten();
        let (mut batched, mut all) = (0_u64, 0);
        for row in kinds.filter(|row| row["kind"].as_str().is_some_and(is_counted)) {
            let count = |path: &str| row[path].as_u64().unwrap_or(0);
            batched += count("batched");
            all += ["batched", "single", "synchronous", "delegated"].map(count).iter().sum::<u64>();
        }
        let percent = (100 * batched).checked_div(all);
        percent.map_or("none".to_owned(), |percent| format!("{percent} %"))
    };
    let signatures = share(|kind| kind.starts_with("rsa") || kind.ends_with("sign"));
    let exchanges = share(|kind| kind.ends_with("derive"));
    format!("{signatures}, {exchanges}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_tell_ratios_shares_and_reasons() {
        let results = json!({
            "rows": [
                { "scenario": "hitch/tls1.3/rsa2048/x25519/c100", "subject": "native",
                  "metric": "server_cpu_per_handshake", "ratio": null, "status": "ok" },
                { "scenario": "hitch/tls1.3/rsa2048/x25519/c100", "subject": "accelerated",
                  "metric": "server_cpu_per_handshake", "ratio": 0.61, "ratio_low": 0.6,
                  "ratio_high": 0.625, "status": "ok" },
                { "scenario": "hitch/tls1.3/ecdsa-p256/x25519/c100", "subject": "accelerated",
                  "metric": "server_cpu_per_handshake", "status": "rejected",
                  "reason": "the machine was busy" },
            ],
            "operations": [
                { "kind": "rsa-2048", "batched": 3, "single": 1, "synchronous": 0, "delegated": 0 },
                { "kind": "x25519-derive", "batched": 0, "single": 4 },
            ],
        });
        let outcome = json!({ "version": "1.7", "results": results });
        let server = SERVERS.iter().find(|server| server.name == "hitch").expect("a row");
        assert_eq!(
            row(server, &outcome),
            "| hitch | 1.7 | 0.61 (0.60–0.62) | the machine was busy | 75 %, 0 % |  |\n"
        );
        let missing = row(server, &json!({ "missing": true }));
        assert_eq!(missing, "| hitch | | | | | not in this release |\n");
        let fails = row(server, &json!({ "version": "1", "failure": "no key" }));
        assert_eq!(fails, "| hitch | 1 | | | | fails: no key |\n");
    }
}
