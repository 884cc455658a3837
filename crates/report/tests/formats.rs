//! The sample results in every format, as snapshots.

use widelane_report::Style;
use widelane_results::Results;

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
    assert_eq!(widelane_report::csv(&empty), "");
    assert!(widelane_report::html(&empty).contains("no comparison"));
}
