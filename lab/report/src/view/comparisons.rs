//! Rows beside their rivals, metric by metric.

use widelane_results::{Pair, ROUNDS_FOR_INTERVAL, Results, Row, Status};

use super::{join, mode, status};
use crate::words::{self, CYCLES, LATENCY_ALONE, METRICS, Metric, OPERATIONS, Scenario};

/// One row with a rival, one that says why there is none, or an algorithm timed beside nobody.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// The row.
    pub row: &'a Row,
    /// Its scenario.
    pub scenario: Scenario,
    /// What the rival measured in the same scenario.
    pub rival_value: Option<f64>,
    /// How many rounds its ratio stands on, where they were kept.
    pub rounds: Option<usize>,
}

impl Comparison<'_> {
    /// Ratio and interval where the row can be relied on.
    pub fn reliable(&self) -> Option<Ratio> {
        (self.row.status == Status::Ok).then_some(())?;
        Some(Ratio { centre: self.row.ratio?, ends: ends(self.row, self.rounds) })
    }

    /// What the ratio may be at least and at most: its interval, or where it was searched, what the
    /// search leaves open.
    pub fn bounds(&self) -> Option<[f64; 2]> {
        let Ratio { centre, ends } = self.reliable()?;
        let searched = self
            .is_searched()
            .then_some([centre / words::SEARCH_CLOSE, centre * words::SEARCH_CLOSE]);
        ends.or(searched)
    }

    /// Whether the ratio is one of searches, which have no rounds.
    fn is_searched(&self) -> bool {
        self.row.metric == words::GOODPUT_WITHIN.name
    }

    /// The ratio; empty where there is none to rely on.
    pub fn ratio(&self) -> String {
        self.reliable().map_or(String::new(), |ratio| words::ratio(ratio.centre))
    }

    /// The 95 % interval, or that there were too few rounds for one; empty where there is no ratio
    /// to rely on.
    pub fn interval(&self) -> String {
        match self.reliable() {
            Some(Ratio { ends: None, .. }) if self.is_searched() => String::new(),
            Some(ratio) => words::interval(ratio.ends),
            None => String::new(),
        }
    }

    /// The row's value with its unit; empty where there is none.
    pub fn value(&self) -> String {
        words::value(self.row)
    }

    /// The rival's value with its unit; empty where there is none.
    pub fn rival_value(&self) -> String {
        self.rival_value.map_or(String::new(), |value| words::quantity(value, &self.row.unit))
    }

    /// The rival's name; empty where there is none.
    pub fn rival(&self) -> &str {
        let rival = self.row.rival.as_deref().map(words::subject);
        rival.or_else(|| self.lacking()).unwrap_or_default()
    }

    /// The rival that this row is about, because it lacks the algorithm.
    fn lacking(&self) -> Option<&str> {
        lacks(self.row).then(|| words::subject(&self.row.subject))
    }

    /// The scenario, the kernel and the mode, as far as they are known.
    pub fn title(&self) -> String {
        let lacking = self.lacking().map(str::to_owned);
        let parts = [Some(self.scenario.title()), self.named(), self.kernel(), lacking];
        join(parts).unwrap_or_default()
    }

    /// The subject, where subjects are what is compared: policies, instructions.
    pub fn named(&self) -> Option<String> {
        let compares_subjects =
            [words::WORK_DONE, words::CLOCK_KEPT].iter().any(|m| m.name == self.row.metric);
        compares_subjects.then(|| self.row.subject.clone())
    }

    /// What sets the comparison apart from others of its family: `200 connections, ifma512`.
    pub fn place(&self) -> String {
        let rival = self.row.rival.as_deref().filter(|rival| *rival == "native-masked");
        let against = rival.map(|rival| format!("against {}", words::subject(rival)));
        let place = self.scenario.place();
        let place = (!place.is_empty()).then(|| place.join(", ")).or_else(|| self.named());
        let alone = || words::subject(&self.row.subject).to_owned();
        join([place, self.kernel(), against]).unwrap_or_else(alone)
    }

    /// The kernel that ran, and the server's own asynchronous mode where that drove it.
    pub fn kernel(&self) -> Option<String> {
        let mode = mode(&self.row.subject).filter(|_| self.named().is_none());
        join([self.row.room.clone(), mode])
    }

    /// The row's status in words.
    pub fn status(&self) -> &'static str {
        status(self.row.status)
    }

    /// Why the comparison cannot be relied on; nothing where it can.
    pub fn objection(&self) -> Option<String> {
        let reason = self.row.reason.as_deref().unwrap_or("no reason given");
        let reason = reason.trim_end_matches(['.', ':', ' ']);
        (self.row.status != Status::Ok).then(|| format!("{}: {reason}", self.status()))
    }
}

/// A ratio, with its 95 % interval where there were enough rounds for one. Without one it is not
/// known which way it goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The ratio.
    pub centre: f64,
    /// Lower and upper end of the interval.
    pub ends: Option<[f64; 2]>,
}

impl Ratio {
    /// Whether the whole interval lies below 1, and the figure does as it is shown.
    pub fn is_less(self) -> bool {
        !self.is_shown_as_one() && self.ends.is_some_and(|[_, high]| high < 1.0)
    }

    /// Whether the whole interval lies above 1, and the figure does as it is shown.
    pub fn is_more(self) -> bool {
        !self.is_shown_as_one() && self.ends.is_some_and(|[low, _]| low > 1.0)
    }

    /// Whether it is as good as 1: it is known, and not only unknown which way it goes. What is
    /// certain must lie closer to 1 for that.
    pub fn is_alike(self) -> bool {
        const MARGIN: f64 = 0.05;
        const MARGIN_OF_CERTAIN: f64 = 0.01;
        let margin = if self.is_less() || self.is_more() { MARGIN_OF_CERTAIN } else { MARGIN };
        self.ends.is_some_and(|[low, high]| low >= 1.0 - margin && high <= 1.0 + margin)
    }

    /// Whether nobody sees in the figure that it is not 1.
    fn is_shown_as_one(self) -> bool {
        words::ratio(self.centre) == words::ratio(1.0)
    }

    /// The ratio the other way round, with its interval.
    #[must_use]
    pub fn inverse(self) -> Self {
        let ends = self.ends.map(|[low, high]| [1.0 / high, 1.0 / low]);
        Ratio { centre: 1.0 / self.centre, ends }
    }
}

/// The interval of a row that stands on so many rounds, if they are known. Files that were written
/// before November 2026 ended have the range of fewer rounds in its place, which is none.
pub fn ends(row: &Row, rounds: Option<usize>) -> Option<[f64; 2]> {
    let ends = row.ratio_low.zip(row.ratio_high).map(|(low, high)| [low, high]);
    ends.filter(|_| rounds.is_none_or(|rounds| rounds >= ROUNDS_FOR_INTERVAL))
}

/// The rounds of a row's scenario.
pub fn rounds<'a>(results: &'a Results, row: &'a Row) -> impl Iterator<Item = &'a Pair> {
    results.pairs.iter().filter(|pair| pair.scenario == row.scenario)
}

/// Whether a round counts for a row. Rounds name a room of ours where rows have it apart.
pub fn counts(pair: &Pair, row: &Row) -> bool {
    let subjects = [Some(&row.subject), row.room.as_ref(), row.rival.as_ref()];
    let subjects: Vec<&str> = subjects.into_iter().flatten().map(String::as_str).collect();
    pair.objection(&subjects).is_none()
}

/// How many rounds the ratio of a row stands on: those that count, or all of them where fewer than
/// half do, and the row is rejected. Nothing where no round was kept.
pub fn rounds_behind(results: &Results, row: &Row) -> Option<usize> {
    let sound = rounds(results, row).filter(|pair| counts(pair, row)).count();
    let taken = rounds(results, row).count();
    (taken > 0).then_some(if 2 * sound >= taken { sound } else { taken })
}

/// All comparisons of one metric.
#[derive(Debug)]
pub struct Section<'a> {
    /// The metric.
    pub metric: Metric,
    /// The comparisons, in the order of the file.
    pub comparisons: Vec<Comparison<'a>>,
}

impl Section<'_> {
    /// The rival of all comparisons, if they have only one.
    pub fn only_rival(&self) -> Option<&str> {
        let mut rivals = self.comparisons.iter().map(Comparison::rival).filter(|r| !r.is_empty());
        let first = rivals.next()?;
        rivals.all(|rival| rival == first).then_some(first)
    }

    /// What the rivals' values are called.
    pub fn rival_title(&self) -> String {
        self.only_rival().map_or("Rival".to_owned(), words::capitalised)
    }

    /// Whether a rival has a value of its own, and not only a ratio to it.
    pub fn has_rival_values(&self) -> bool {
        self.comparisons.iter().any(|comparison| comparison.rival_value.is_some())
    }

    /// What our values are called.
    pub fn our_title(&self) -> &'static str {
        let is_any = |is: fn(&Comparison<'_>) -> bool| self.comparisons.iter().any(is);
        if is_any(|comparison| comparison.row.subject == "widelane") {
            "Widelane"
        } else if is_any(|comparison| comparison.named().is_some()) {
            "Measured"
        } else {
            "Accelerated"
        }
    }
}

/// The sections that have something to show, most telling first.
pub fn sections(results: &Results) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = METRICS
        .into_iter()
        .map(|metric| {
            let is_shown = |row: &Row| is_compared(results, row) || lacks(row);
            let mut comparisons = comparisons_of(results, metric.name, is_shown);
            if metric == LATENCY_ALONE {
                comparisons.retain(|comparison| comparison.scenario.connections == Some(1));
            }
            // What has sizes or numbers of jobs has tables and curves over those instead.
            if metric.is_of_algorithms() {
                comparisons.retain(|comparison| {
                    comparison.scenario.size.is_none() && comparison.scenario.jobs.is_none()
                });
            }
            Section { metric, comparisons }
        })
        .filter(|section| !section.comparisons.is_empty())
        .collect();
    // What only says why there is no ratio says less than what has one.
    sections.sort_by_key(|section| section.comparisons.iter().all(|c| c.reliable().is_none()));
    sections
}

/// The rows of `metric` that are ours and have a rival or a reason, one family after the other.
pub fn comparisons<'a>(results: &'a Results, metric: &str) -> Vec<Comparison<'a>> {
    comparisons_of(results, metric, |row| is_compared(results, row))
}

/// Whether a row is ours and has a rival or a reason.
fn is_compared(results: &Results, row: &Row) -> bool {
    !words::is_rival(&row.subject)
        && (row.rival.is_some() || row.status != Status::Ok || has_no_rival(results, row))
}

/// Whether a row says that another library has no such algorithm.
fn lacks(row: &Row) -> bool {
    words::is_rival(&row.subject)
        && row.status == Status::NotApplicable
        && row.metric == OPERATIONS.name
}

fn comparisons_of<'a>(
    results: &'a Results,
    metric: &str,
    is_shown: impl Fn(&Row) -> bool,
) -> Vec<Comparison<'a>> {
    let rows = results.rows.iter().filter(|row| row.metric == metric);
    let mut comparisons: Vec<Comparison<'a>> = rows
        .filter(|row| is_shown(row))
        .map(|row| Comparison {
            row,
            scenario: Scenario::parse(&row.scenario),
            rival_value: results
                .rows
                .iter()
                .find(|other| {
                    other.scenario == row.scenario
                        && other.metric == row.metric
                        && Some(&other.subject) == row.rival.as_ref()
                })
                .and_then(|other| other.value),
            rounds: rounds_behind(results, row),
        })
        .collect();
    let families: Vec<String> = comparisons.iter().map(|c| c.scenario.family()).collect();
    comparisons.sort_by_key(|comparison| {
        let family = comparison.scenario.family();
        let Scenario { size, mix, cores, jobs, load, connections, .. } = comparison.scenario;
        let place = (size, mix, cores, jobs, load, connections);
        (families.iter().position(|known| *known == family), place)
    });
    comparisons
}

/// Whether an algorithm was timed beside nobody, so that its own figures are all there is.
fn has_no_rival(results: &Results, row: &Row) -> bool {
    let is_alike = |other: &&Row| other.scenario == row.scenario && other.metric == row.metric;
    let mut alike = results.rows.iter().filter(is_alike);
    [OPERATIONS.name, CYCLES.name].contains(&row.metric.as_str())
        && alike.all(|other| other.rival.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{SERVER_CPU, SERVER_CPU_PER_GB};

    #[test]
    fn libraries_without_an_algorithm_are_named_with_the_reason() {
        let row = |subject: &str, rival: Option<&str>| Row {
            scenario: "ml-kem-768/generate".to_owned(),
            subject: subject.to_owned(),
            metric: OPERATIONS.name.to_owned(),
            rival: rival.map(str::to_owned),
            ratio: rival.map(|_| 9.0),
            ..Row::default()
        };
        let ring = Row {
            status: Status::NotApplicable,
            reason: Some("no ML-KEM".to_owned()),
            ..row("ring", None)
        };
        let rows = vec![ring, row("widelane", Some("openssl"))];
        let results = Results { rows, ..Results::default() };
        let sections = sections(&results);
        let told: Vec<_> =
            sections[0].comparisons.iter().map(|it| (it.rival(), it.objection())).collect();
        let objection = Some("not applicable: no ML-KEM".to_owned());
        assert_eq!(told, [("ring", objection), ("OpenSSL", None)]);
        assert!(sections[0].comparisons[0].title().ends_with("ring"));
        assert_eq!(comparisons(&results, OPERATIONS.name).len(), 1, "the verdict is about ours");
    }

    #[test]
    fn what_has_ratios_comes_first() {
        let row = |scenario: &str, metric: Metric| Row {
            scenario: scenario.to_owned(),
            subject: "accelerated".to_owned(),
            metric: metric.name.to_owned(),
            rival: Some("native".to_owned()),
            ..Row::default()
        };
        let handshakes =
            Row { status: Status::NotApplicable, ..row("nginx/tls1.2/rsa2048/c256", SERVER_CPU) };
        let downloads = Row {
            ratio: Some(0.8),
            ratio_low: Some(0.7),
            ratio_high: Some(0.9),
            ..row("nginx/tls1.3/rsa2048/aes128-gcm/16MiB/c4", SERVER_CPU_PER_GB)
        };
        let results = Results { rows: vec![handshakes, downloads], ..Results::default() };
        let titles: Vec<&str> = sections(&results).iter().map(|s| s.metric.name).collect();
        assert_eq!(titles, [SERVER_CPU_PER_GB.name, SERVER_CPU.name]);
    }

    #[test]
    fn a_ratio_that_is_shown_as_one_goes_no_way() {
        let told = |centre, low, high| {
            let ratio = Ratio { centre, ends: Some([low, high]) };
            (ratio.is_alike(), ratio.is_less(), ratio.is_more())
        };
        assert_eq!(told(1.004, 1.002, 1.04), (true, false, false));
        assert_eq!(told(1.004, 1.002, 1.2), (false, false, false));
        assert_eq!(told(0.992, 0.991, 0.993), (true, true, false));
        assert_eq!(told(0.98, 0.97, 0.99), (false, true, false));
        assert_eq!(told(1.02, 0.98, 1.05), (true, false, false));
        assert_eq!(told(1.02, 1.01, 1.03), (false, false, true));
    }

    #[test]
    fn a_ratio_of_few_rounds_has_no_bounds() {
        let row = |metric: Metric| Row {
            scenario: "nginx/tls1.3/rsa2048/aes128-gcm/16MiB/c4".to_owned(),
            subject: "accelerated".to_owned(),
            metric: metric.name.to_owned(),
            rival: Some("native".to_owned()),
            ratio: Some(0.5),
            ..Row::default()
        };
        let told = |row: Row| {
            let results = Results { rows: vec![row.clone()], ..Results::default() };
            let comparisons = comparisons(&results, &row.metric);
            (comparisons[0].interval(), comparisons[0].bounds().is_some())
        };
        assert_eq!(told(row(SERVER_CPU_PER_GB)), ("too few rounds".to_owned(), false));
        // A search has no rounds, but a resolution.
        assert_eq!(told(row(words::GOODPUT_WITHIN)), (String::new(), true));
        let whole = Row { ratio_low: Some(0.4), ratio_high: Some(0.6), ..row(SERVER_CPU_PER_GB) };
        assert_eq!(told(whole), ("0.40–0.60".to_owned(), true));
    }

    #[test]
    fn an_algorithm_that_nobody_else_has_is_shown() {
        let row = |scenario: &str, rival: Option<&str>| Row {
            scenario: scenario.to_owned(),
            subject: "widelane".to_owned(),
            metric: OPERATIONS.name.to_owned(),
            rival: rival.map(str::to_owned),
            ..Row::default()
        };
        let rows = vec![
            row("ml-kem-768/encapsulate", None),
            row("x25519/derive", Some("openssl")),
            row("x25519/derive", None),
        ];
        let results = Results { rows, ..Results::default() };
        let shown = comparisons(&results, OPERATIONS.name);
        let paths: Vec<&str> = shown.iter().map(|shown| shown.row.scenario.as_str()).collect();
        assert_eq!(paths, ["ml-kem-768/encapsulate", "x25519/derive"]);
    }
}
