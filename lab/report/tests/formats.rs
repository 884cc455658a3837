//! The sample results in every format, as snapshots.

use serde_json::{Value, json};
use widelane_results::{Results, Row, Status};
use widelane_tables::Style;

const RAW_RESULTS: &str = "data:application/json;base64,";

fn sample() -> Results {
    Results::from_json(include_str!("sample.json")).unwrap()
}

#[test]
fn terminal() {
    let style = Style { colour: false, width: 120 };
    insta::assert_snapshot!(widelane_report::terminal(&sample(), &style));
}

#[test]
fn terminal_of_speed() {
    let speed = Results::from_json(include_str!("speed.json")).unwrap();
    let style = Style { colour: false, width: 100 };
    insta::assert_snapshot!(widelane_report::terminal(&speed, &style));
}

/// A row with a ratio to `rival`, whose interval is a tenth of it.
fn row(scenario: &str, subject: &str, metric: &str, value: f64, rival: Option<(&str, f64)>) -> Row {
    Row {
        scenario: scenario.to_owned(),
        subject: subject.to_owned(),
        room: (subject == "widelane").then(|| "vaes512".to_owned()),
        metric: metric.to_owned(),
        value: Some(value),
        rival: rival.map(|(rival, _)| rival.to_owned()),
        ratio: rival.map(|(_, ratio)| ratio),
        ratio_low: rival.map(|(_, ratio)| ratio * 0.95),
        ratio_high: rival.map(|(_, ratio)| ratio * 1.05),
        ..Row::default()
    }
}

/// What `speed` finds at two sizes.
fn messages() -> Results {
    let mut rows = Vec::new();
    for (size, openssl, ours, ratio) in [(64, 12.9, 1.53, 8.4), (16384, 0.578, 0.174, 3.32)] {
        let scenario = format!("aes-128-gcm/seal/{size}");
        rows.extend([
            row(&scenario, "openssl", "operations_per_second", 1e6, None),
            row(&scenario, "openssl", "cycles_per_byte", openssl, None),
            row(&scenario, "widelane", "operations_per_second", 1e6, Some(("openssl", ratio))),
            row(&scenario, "widelane", "cycles_per_byte", ours, Some(("openssl", 1.0 / ratio))),
            row(&scenario, "ring", "cycles_per_byte", 2.0 * ours, None),
        ]);
        let absent =
            [("graviola", "one at a time"), ("aws-lc", "one at a time"), ("ipsec-mb", "no")];
        rows.extend(absent.map(|(subject, reason)| Row {
            value: None,
            status: Status::NotApplicable,
            reason: Some(reason.to_owned()),
            ..row(&scenario, subject, "operations_per_second", 0.0, None)
        }));
    }
    Results { rows, complete: true, ..Results::default() }
}

#[test]
fn messages_are_told_size_by_size() {
    let terminal = widelane_report::terminal(&messages(), &Style { colour: false, width: 100 });
    let lines: Vec<String> = terminal
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for expected in [
        "Widelane does 3.32× as many AES-128-GCM seal operations on 16 KiB per second as OpenSSL.",
        "AES-128-GCM seal: Cycles per byte (less is better)",
        "Who 64 B 16 KiB",
        "vaes512 1.53 0.174",
        "OpenSSL 12.9 0.578",
        "ring 3.06 0.348",
        "AES-128-GCM seal: times as fast as OpenSSL",
        "vaes512 8.40× 3.32×",
        "Missing: graviola, AWS-LC: one at a time; ipsec-mb: no.",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}:\n{terminal}");
    }
    let html = widelane_report::html(&messages());
    assert_eq!(html.matches("<svg class=\"curves\"").count(), 1);
    assert_eq!(html.matches("<polyline class=\"other0\"").count(), 1);
    assert!(html.contains("<th scope=\"row\">vaes512</th><td class=\"number\">1.53</td>"));
}

#[test]
fn downloads_are_told_by_their_cost() {
    let mut rows = Vec::new();
    for (size, cost, rate) in [("1MiB", 820.0, 8.1), ("16MiB", 700.0, 9.9)] {
        let scenario = format!("nginx/tls1.3/rsa2048/aes128-gcm/{size}/c4");
        let mut pair = |metric, native: f64, ratio: f64| {
            let rival = Some(("native", ratio));
            rows.push(row(&scenario, "native", metric, native, None));
            rows.push(row(&scenario, "accelerated", metric, native * ratio, rival));
        };
        pair("server_cpu_per_gb", cost, 0.66);
        pair("goodput", rate, 1.5);
    }
    let results = Results { rows, complete: true, ..Results::default() };
    let terminal = widelane_report::terminal(&results, &Style { colour: false, width: 100 });
    let sentence = "nginx spends 0.66× the CPU per gigabyte: 1.5× as much data per core.";
    assert!(terminal.starts_with(sentence), "{terminal}");
    for expected in ["16 MiB", "Server CPU per gigabyte", "Gigabits per second"] {
        assert!(terminal.contains(expected), "{expected}:\n{terminal}");
    }
    assert_eq!(widelane_report::html(&results).matches("<svg class=\"curves\"").count(), 1);
}

#[test]
fn shares_of_a_mix_are_told_and_drawn() {
    let mut rows = Vec::new();
    for (percent, native, kept) in [(0, 440.0, 1.0), (10, 420.0, 0.95), (100, 430.0, 0.97)] {
        let scenario = format!("nginx/mixed/chacha20-poly1305-{percent}/c16");
        let rival = Some(("native", 1.04));
        for (subject, rival) in [("native", None), ("light-256", rival)] {
            rows.push(row(&scenario, subject, "requests_per_second", native, rival));
            rows.push(row(&scenario, subject, "requests_kept", kept, None));
        }
    }
    let results = Results { rows, complete: true, ..Results::default() };
    let terminal = widelane_report::terminal(&results, &Style { colour: false, width: 120 });
    for expected in ["10 %", "100 %", "Requests kept, of those under the first share", "0.950"] {
        assert!(terminal.contains(expected), "{expected}:\n{terminal}");
    }
    let html = widelane_report::html(&results);
    assert_eq!(html.matches(">nginx, mixed, 10 % ChaCha20-Poly1305</th>").count(), 1);
    assert_eq!(html.matches("<svg class=\"curves\"").count(), 1);
    assert!(html.contains("over the share of ChaCha20-Poly1305"));
}

#[test]
fn two_ciphers_are_told_by_their_ratio() {
    let of =
        |subject: &str, ratio| row("cipher-compare/16384", subject, "cipher_ratio", ratio, None);
    let rows = vec![of("openssl", 4.2), of("widelane-evp", 13.4)];
    let results = Results { rows, complete: true, ..Results::default() };
    let terminal = widelane_report::terminal(&results, &Style { colour: false, width: 200 });
    assert!(terminal.contains("in records of 16 KiB: 13× by EVP, 4.2× OpenSSL."), "{terminal}");
}

/// What `power` may find on another CPU, of all kinds at once; made up.
fn found() -> Results {
    Results::from_json(include_str!("found/power-made-up.json")).unwrap()
}

#[test]
fn what_compares_no_servers_is_told_in_full() {
    let terminal = widelane_report::terminal(&found(), &Style { colour: false, width: 120 });
    let lines: Vec<String> = terminal
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for expected in [
        "vfmadd213pd-512: scalar code keeps 81 % beside 10 µs every 20 µs; bursts from 5 µs on \
         cost it something.",
        "Clock kept, of the ambient one (more is better): Licence map",
        "2 CPUs fma 80 % 0.80× 0.76–0.84",
        "Licence map, 1 CPU",
        "fma 0.800 (0.760 to 0.840) 2,100 MHz capped at 2100 MHz",
        "tiles not applicable: no amx",
        "Watch: clock",
        "CPU 0 3,000 MHz 2,000 MHz 2,900 MHz 3,000 MHz 2,900 MHz █▂█",
        "Duty, fma: speed kept, %",
        "1 µs 96.0 ▓ 100.0 █",
        "10 µs 81.0 ░ 91.0 ▒ 99.0 █",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}:\n{terminal}");
    }
    let markdown = widelane_report::markdown(&found());
    assert!(markdown.contains("| 10 µs | 81.0 ░ | 91.0 ▒ | 99.0 █ |"), "{markdown}");
    assert!(widelane_report::csv(&found()).contains("capped at 2100 MHz"));
}

#[test]
fn what_compares_no_servers_is_drawn() {
    let html = widelane_report::html(&found());
    assert!(html.contains("<header class=\"worse\">"), "{html}");
    assert_eq!(html.matches("class=\"mark worse\"").count(), 2);
    assert_eq!(html.matches("<svg class=\"curves\"").count(), 1);
    assert_eq!(html.matches("<polyline class=\"ours0\"").count(), 1);
    assert_eq!(html.matches("<polyline class=\"other0\"").count(), 1);
    for expected in [
        "<td class=\"number loss3\">81.0</td>",
        "<td class=\"number loss0\">99.0</td>",
        ">3,000 MHz</text>",
        "<td>capped at 2100 MHz</td>",
        "not applicable: no amx",
    ] {
        assert!(html.contains(expected), "{expected}: {html}");
    }
}

#[test]
fn terminal_lines_fit_a_narrow_screen() {
    let style = Style { colour: false, width: 60 };
    let mut results = sample();
    results.command.truncate(2);
    for line in widelane_report::terminal(&results, &style).lines() {
        assert!(line.chars().count() <= 60, "{line}");
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    let coloured = widelane_report::terminal(&sample(), &Style { colour: true, width: 120 });
    let plain = widelane_report::terminal(&sample(), &Style { colour: false, width: 120 });
    let mut stripped = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        stripped.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    stripped.push_str(rest);
    let trimmed =
        |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    assert_ne!(coloured, plain);
    assert_eq!(trimmed(&stripped), trimmed(&plain));
}

#[test]
fn markdown() {
    insta::assert_snapshot!(widelane_report::markdown(&sample()));
}

#[test]
fn csv() {
    insta::assert_snapshot!(widelane_report::csv(&sample()));
}

#[test]
fn html() {
    let page = widelane_report::html(&sample());
    let (before, rest) = page.split_once(RAW_RESULTS).unwrap();
    let (_, after) = rest.split_once('"').unwrap();
    insta::assert_snapshot!(format!("{before}{RAW_RESULTS}\"{after}"));
}

#[test]
fn html_fetches_nothing_and_runs_nothing() {
    let page = widelane_report::html(&sample());
    for forbidden in ["http:", "https:", "<script", "<img", "<link", "@import", "url(", "src="] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn html_cannot_be_injected() {
    let mut results = sample();
    let hostile = "\"><script>alert(1)</script>&";
    results.machine.model = Some(hostile.to_owned());
    results.notes = vec![hostile.to_owned()];
    results.command = vec![hostile.to_owned()];
    for row in &mut results.rows {
        row.scenario = format!("{hostile}/{}", row.scenario);
        row.reason = Some(hostile.to_owned());
        row.room = Some(hostile.to_owned());
    }
    for histogram in &mut results.histograms {
        histogram.scenario = hostile.to_owned();
    }
    assert!(!widelane_report::html(&results).contains("<script"));
}

#[test]
fn html_holds_the_raw_results() {
    use base64::Engine;
    let page = widelane_report::html(&sample());
    let (_, rest) = page.split_once(RAW_RESULTS).unwrap();
    let (encoded, _) = rest.split_once('"').unwrap();
    let json = base64::prelude::BASE64_STANDARD.decode(encoded).unwrap();
    assert_eq!(Results::from_json(std::str::from_utf8(&json).unwrap()).unwrap(), sample());
}

#[test]
fn empty_results_are_shown_without_a_panic() {
    let empty = Results::default();
    let terminal = widelane_report::terminal(&empty, &Style { colour: false, width: 80 });
    assert!(terminal.starts_with("These results hold no comparison."), "{terminal}");
    assert!(widelane_report::markdown(&empty).contains("no comparison"));
    assert_eq!(widelane_report::csv(&empty).lines().count(), 1, "a header");
    assert!(widelane_report::html(&empty).contains("no comparison"));
}

/// Every number below `value` that is `picked`, by its count, replaced by another of its kind.
fn replace(value: &mut Value, absurd: &[Value], picked: &mut dyn FnMut() -> Option<usize>) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|it| replace(it, absurd, picked)),
        Value::Object(fields) => fields.values_mut().for_each(|it| replace(it, absurd, picked)),
        Value::Number(_) => {
            if let Some(index) = picked() {
                *value = absurd[index % absurd.len()].clone();
            }
        }
        _ => {}
    }
}

#[test]
fn absurd_figures_stop_no_report() {
    let absurd = [
        json!(1e18),
        json!(u64::MAX),
        json!(1e308),
        json!(5e-324),
        json!(1e-300),
        json!(0),
        json!(-1e308),
        json!(4_000_000_000_u64),
    ];
    let style = Style { colour: false, width: 100 };
    let mut read = 0;
    for sample in [
        include_str!("sample.json"),
        include_str!("speed.json"),
        include_str!("found/load.json"),
        include_str!("found/load-search.json"),
        include_str!("found/power-map.json"),
        include_str!("found/power-transitions.json"),
        include_str!("found/tune.json"),
    ] {
        let whole: Value = serde_json::from_str(sample).unwrap();
        // The same for all numbers, and something else for some, from sparse to dense.
        for round in 0..absurd.len() + 24 {
            let mut results = whole.clone();
            let mut state = round as u64;
            let mut picked = || {
                if round < absurd.len() {
                    return Some(round);
                }
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let drawn = (state >> 33) as usize;
                drawn.is_multiple_of(1 + round / 4).then_some(drawn / 64)
            };
            replace(&mut results, &absurd, &mut picked);
            // A fraction or a negative number where there is none to be is refused.
            let Ok(results) = Results::from_json(&results.to_string()) else { continue };
            read += 1;
            widelane_report::terminal(&results, &style);
            widelane_report::markdown(&results);
            widelane_report::csv(&results);
            widelane_report::html(&results);
        }
    }
    assert!(read > 20, "{read} were read");
}

#[test]
fn a_histogram_of_absurd_batches_is_left_out() {
    let mut results = sample();
    let fills = |results: &Results| widelane_report::html(results).matches("Jobs in a run").count();
    let before = fills(&results);
    for histogram in &mut results.histograms {
        if let Some(last) = histogram.buckets.last_mut() {
            last.upto = 1e18;
        }
    }
    assert!(fills(&results) < before);
}

#[test]
fn a_ratio_of_single_searches_is_marked_by_what_they_leave_open() {
    let marked = |ratio: f64| {
        let limited = Row {
            ratio_low: None,
            ratio_high: None,
            ..row(
                "nginx/tls1.3/rsa2048/c8",
                "accelerated",
                "goodput_within_limit",
                3.0,
                Some(("native", ratio)),
            )
        };
        let html = widelane_report::html(&Results { rows: vec![limited], ..Results::default() });
        let class = html.split("<svg class=\"mark ").nth(1).expect("a mark");
        assert!(!class.split("</svg>").next().unwrap().contains("whisker"), "{class}");
        class.split('"').next().unwrap().to_owned()
    };
    assert_eq!([0.9, 0.97, 1.03, 1.2].map(marked), ["worse", "same", "same", "better"]);
}

#[test]
fn a_ratio_of_few_rounds_is_shown_without_an_interval() {
    let few = Row {
        ratio_low: None,
        ratio_high: None,
        ..row(
            "nginx/tls1.3/rsa2048/x25519/load30",
            "accelerated",
            "server_cpu_per_handshake",
            300.0,
            Some(("native", 0.6)),
        )
    };
    let results = Results { rows: vec![few], complete: true, ..Results::default() };
    let html = widelane_report::html(&results);
    assert!(html.contains("<svg class=\"mark same\""), "{html}");
    assert!(!html.contains("class=\"whisker\""), "{html}");
    assert!(html.contains("a dot without them stands on fewer than six rounds"), "{html}");
    let terminal = widelane_report::terminal(&results, &Style { colour: false, width: 100 });
    assert!(terminal.starts_with("This run cannot tell:"), "{terminal}");
    assert!(terminal.contains("0.60×") && terminal.contains("too few rounds"), "{terminal}");
}
