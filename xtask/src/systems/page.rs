//! The tables of docs/operate/compatibility.md, from what earlier runs left.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::tried::{TRIED, Tried};
use super::{KEYS, SERVERS, SYSTEMS, Server, System};

const BEGIN: &str = "<!-- Written by `cargo xtask systems`: begin -->\n";
const END: &str = "<!-- Written by `cargo xtask systems`: end -->\n";

/// Where what came of a server is kept.
pub fn outcome_file(place: &Path, system: &System, name: &str) -> PathBuf {
    place.join("outcomes").join(system.name).join(format!("{name}.json"))
}

/// Writes the tables anew, from all that there is in `place`.
pub fn write(place: &Path, page: &Path) -> Result<()> {
    let text = fs::read_to_string(page)?;
    let marks = "docs/operate/compatibility.md has lost its marks";
    let (before, rest) = text.split_once(BEGIN).context(marks)?;
    let (old, after) = rest.split_once(END).context(marks)?;
    let tables: Result<Vec<String>> =
        SYSTEMS.iter().map(|system| section(place, system, &section_before(old, system))).collect();
    let tables = tables?.concat();
    fs::write(page, format!("{before}{BEGIN}{tables}{END}{after}"))?;
    Ok(())
}

/// What the page said of one system until now.
fn section_before(old: &str, system: &System) -> String {
    let title = format!("\n### {}\n", system.title);
    let Some((_, rest)) = old.split_once(&title) else { return String::new() };
    rest.split("\n### ").next().unwrap_or_default().to_owned()
}

/// What the page says of one system; empty where nothing was ever run. What no outcome is left of
/// stays as it was `before`.
fn section(place: &Path, system: &System, before: &str) -> Result<String> {
    let outcome = |name| -> Result<Option<Value>> {
        let text = fs::read_to_string(outcome_file(place, system, name)).ok();
        text.map(|text| serde_json::from_str(&text).context("an outcome")).transpose()
    };
    let old_row = |title: &str| {
        let line = before.lines().find(|line| line.starts_with(&format!("| {title} | ")));
        line.map_or_else(String::new, |line| format!("{line}\n"))
    };
    let (mut compared, mut tried) = (String::new(), String::new());
    for server in &SERVERS {
        let found = outcome(server.name)?;
        compared += &found.map_or_else(|| old_row(server.title), |found| row(server, &found));
    }
    for one in &TRIED {
        let found = outcome(one.name)?;
        tried += &found.map_or_else(|| old_row(one.title), |found| tried_row(one, &found));
    }
    let mut section = String::new();
    if !compared.is_empty() || !tried.is_empty() {
        write!(section, "\n### {}\n\n", system.title)?;
    }
    for (columns, rows) in [(COLUMNS, compared), (COLUMNS_OF_TRIED, tried)] {
        if !rows.is_empty() {
            writeln!(section, "{columns}{rows}")?;
        }
    }
    Ok(section)
}

const COLUMNS: &str = "\
| Server | Version | RSA-2048 | ECDSA P-256 | In batches: signatures, key exchange | | Measured |\n\
|---|---|---|---|---|---|---|\n";

const COLUMNS_OF_TRIED: &str = "\
| Server | Version | CPU of a full handshake, ms | Resumption | After a reload | | Measured |\n\
|---|---|---|---|---|---|---|\n";

/// With what, on which CPU and when something was measured.
fn measured(openssl: &Value, model: &Value, date: &Value) -> String {
    let [openssl, model, date] = [openssl, model, date].map(|of| of.as_str().unwrap_or_default());
    let openssl = openssl.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let date = date.split('T').next().unwrap_or_default();
    format!("{date}, {openssl}, {model}")
}

fn tried_row(tried: &Tried, outcome: &Value) -> String {
    let (title, remark) = (tried.title, tried.remark);
    if outcome["missing"] == true {
        return format!("| {title} | | | | | not in this release | |\n");
    }
    let version = outcome["version"].as_str().unwrap_or_default();
    if let Some(failure) = outcome["failure"].as_str() {
        return format!("| {title} | {version} | | | | fails: {failure} | |\n");
    }
    let found = &outcome["tried"];
    let [native, ours] = ["native", "accelerated"].map(|subject| {
        found[subject].as_array().map_or(&[] as &[Value], |rounds| rounds.as_slice())
    });
    // What fails without us as well is not ours to tell.
    let fails = |field: &str| match [native, ours].map(|rounds| failure(rounds, field)) {
        [None, Some(error)] => Some(format!("**fails**: {error}")),
        [Some(error), _] => Some(format!("fails natively: {error}")),
        [None, None] => None,
    };
    let resumes =
        |rounds: &[Value]| rounds.iter().find_map(|round| round["resumed"].as_bool()) == Some(true);
    let resumed = match (resumes(native), resumes(ours)) {
        (true, true) => "works",
        (true, false) => "**lost**",
        _ => "not offered",
    };
    let handshakes = fails("failed").unwrap_or_else(|| cost(native, ours));
    let reload = fails("failed_after_reload").unwrap_or_else(|| "works".to_owned());
    let measured = measured(&found["openssl"], &outcome["model"], &found["date"]);
    format!(
        "| {title} | {version} | {handshakes} | {resumed} | {reload} | {remark} | {measured} |\n"
    )
}

/// What failed first in some rounds, if anything did.
fn failure(rounds: &[Value], field: &str) -> Option<String> {
    let all = rounds.iter().filter_map(|round| round[field].as_array());
    all.flatten().next().map(ToString::to_string)
}

/// The medians of what a handshake costs, and that of the ratios of the pairs with their range,
/// which for six pairs is the 97 % interval of the median.
fn cost(native: &[Value], ours: &[Value]) -> String {
    let of = |rounds: &[Value]| -> Vec<f64> {
        rounds.iter().filter_map(|round| round["milliseconds"].as_f64()).collect()
    };
    let [native, ours] = [of(native), of(ours)];
    let mut ratios: Vec<f64> = native.iter().zip(&ours).map(|(one, other)| other / one).collect();
    ratios.sort_by(f64::total_cmp);
    let (Some(&low), Some(&high)) = (ratios.first(), ratios.last()) else {
        return "not measured".to_owned();
    };
    let [native, ours, ratio] = [native, ours, ratios].map(median);
    format!("{native:.2} → {ours:.2}: {ratio:.2} ({low:.2}–{high:.2})")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

fn row(server: &Server, outcome: &Value) -> String {
    let title = server.title;
    if outcome["missing"] == true {
        return format!("| {title} | | | | | not in this release | |\n");
    }
    let version = outcome["version"].as_str().unwrap_or_default();
    if let Some(failure) = outcome["failure"].as_str() {
        return format!("| {title} | {version} | | | | fails: {failure} | |\n");
    }
    let (results, remark) = (&outcome["results"], server.remark);
    let [rsa, ecdsa] = KEYS.map(|key| ratio(results, key));
    let batched = batched(results);
    let machine = &results["machine"];
    let measured = measured(&machine["openssl"], &machine["model"], &results["created"]);
    format!("| {title} | {version} | {rsa} | {ecdsa} | {batched} | {remark} | {measured} |\n")
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
        // A 95 % interval takes six rounds.
        (Some(ratio), ..) if row["status"] == "ok" => format!("{ratio:.2} (too few rounds)"),
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
            // What a kernel did was not in a batch where it has one lane, or hardly any met.
            let met = count("batched") + count("single");
            if count("lanes") != 1 && met * 20 >= count("meetings") * 21 {
                batched += count("batched");
            }
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
    fn what_was_not_run_again_stays() {
        let place = std::env::temp_dir().join("widelane-no-outcomes");
        let [_, debian13, ..] = &SYSTEMS;
        let old = "\n### Debian 13\n\n| Server |\n| HAProxy | 3.0 | 0.42 |\n\n\
                   | Server |\n| MariaDB | 11 | 1.0 |\n\n\n### Debian sid\n\n| HAProxy | 3.2 |\n";
        let section = section(&place, debian13, &section_before(old, debian13));
        let section = section.expect("nothing to read");
        assert!(section.starts_with("\n### Debian 13\n\n| Server | Version | RSA"));
        assert!(section.contains("|\n| HAProxy | 3.0 | 0.42 |\n\n| Server | Version | CPU"));
        assert!(section.ends_with("|\n| MariaDB | 11 | 1.0 |\n\n"), "{section}");
    }

    #[test]
    fn rows_tell_ratios_shares_and_reasons() {
        let results = json!({
            "created": "2026-11-29T10:00:00Z",
            "machine": { "openssl": "OpenSSL 3.0.20 7 Apr 2026", "model": "AMD EPYC" },
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
                { "kind": "x25519-derive", "lanes": 8, "meetings": 99, "batched": 100 },
                { "kind": "p256-derive", "lanes": 1, "meetings": 2, "batched": 9 },
            ],
        });
        let outcome = json!({ "version": "1.7", "results": results });
        let server = SERVERS.iter().find(|server| server.name == "hitch").expect("a row");
        assert_eq!(
            row(server, &outcome),
            "| hitch | 1.7 | 0.61 (0.60–0.62) | the machine was busy | 75 %, 0 % |  | \
             2026-11-29, OpenSSL 3.0.20, AMD EPYC |\n"
        );
        let missing = row(server, &json!({ "missing": true }));
        assert_eq!(missing, "| hitch | | | | | not in this release | |\n");
        let tried = TRIED.iter().find(|tried| tried.name == "mariadb").expect("a row");
        let round = |milliseconds: f64| json!({ "milliseconds": milliseconds, "failed": [] });
        let last = |resumed: bool, failed: &[&str]| {
            json!({ "milliseconds": 1.5, "failed": [], "resumed": resumed,
                    "failed_after_reload": failed })
        };
        let line = |native: [&Value; 2], ours: [&Value; 2]| {
            let both = json!({ "native": native, "accelerated": ours, "date": "2026-11-29",
                               "openssl": "OpenSSL 3.5.9" });
            tried_row(tried, &json!({ "version": "11", "tried": both, "model": "AMD EPYC" }))
        };
        let works = last(true, &[]);
        assert_eq!(
            line([&round(2.0), &works], [&round(1.0), &works]),
            "| MariaDB | 11 | 1.75 → 1.25: 0.75 (0.50–1.00) | works | works | A thread for each \
             connection | 2026-11-29, OpenSSL 3.5.9, AMD EPYC |\n"
        );
        let refuses = last(false, &["refused"]);
        let lost = line([&round(1.5), &works], [&round(1.5), &refuses]);
        assert!(lost.contains(" | **lost** | **fails**: \"refused\" | "), "{lost}");
        let both = line([&round(1.5), &refuses], [&round(1.5), &refuses]);
        assert!(both.contains(" | not offered | fails natively: \"refused\" | "), "{both}");
        let fails = row(server, &json!({ "version": "1", "failure": "no key" }));
        assert_eq!(fails, "| hitch | 1 | | | | fails: no key | |\n");
    }
}
