//! The one sentence: is it worth it on this machine?

use widelane_results::{Pair, Results, Status};

use crate::view::{self, Comparison, Ratio};
use crate::words::{
    self, CIPHER_RATIO, OPERATIONS, SERVER_CPU, SERVER_CPU_PER_GB, SERVER_CPU_PER_REQUEST,
};

/// The answer, in one sentence, and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Which way the answer goes.
    pub tone: Tone,
    /// The answer.
    pub sentence: String,
    /// Conditions, interval, rounds, and the answers of other servers.
    pub detail: String,
}

/// Which way the answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// It pays.
    Better,
    /// No difference that could be told.
    Same,
    /// It costs.
    Worse,
    /// The results do not answer.
    Unknown,
}

/// Finds the answer in `results`.
pub fn verdict(results: &Results) -> Verdict {
    let handshakes = view::comparisons(results, SERVER_CPU.name);
    let downloads = view::comparisons(results, SERVER_CPU_PER_GB.name);
    let requests = view::comparisons(results, SERVER_CPU_PER_REQUEST.name);
    let servers: Vec<&Comparison<'_>> =
        handshakes.iter().chain(&downloads).chain(&requests).collect();
    let mut answers: Vec<(&Comparison<'_>, Ratio)> = servers
        .iter()
        .copied()
        .filter(|comparison| comparison.row.rival.as_deref() == Some("native"))
        .filter_map(|comparison| Some((comparison, comparison.reliable()?)))
        .collect();
    // Stable: among equals the order of the file decides.
    answers.sort_by_key(|(comparison, _)| {
        let scenario = &comparison.scenario;
        let detour = match scenario.size {
            None => view::detour(scenario.connections),
            Some(size) => size_detour(size),
        };
        (scenario.size.is_some(), server_rank(&comparison.row.scenario), is_rare(scenario), detour)
    });
    if let Some((comparison, ratio)) = answers.first() {
        return of_server(results, comparison, *ratio, &answers[1..]);
    }
    let algorithms = view::comparisons(results, OPERATIONS.name);
    let mut answers: Vec<(&Comparison<'_>, Ratio)> = Vec::new();
    for comparison in &algorithms {
        let Some(ratio) = comparison.reliable() else { continue };
        if comparison.row.rival.as_deref() != Some("openssl") {
            continue;
        }
        // The best kernel speaks for its algorithm, at the largest size.
        let family = comparison.scenario.family();
        let rank = |(of, ratio): &(&Comparison<'_>, Ratio)| (of.scenario.size, ratio.centre);
        match answers.iter_mut().find(|(known, _)| known.scenario.family() == family) {
            Some(best) if rank(best) < rank(&(comparison, ratio)) => *best = (comparison, ratio),
            Some(_) => {}
            None => answers.push((comparison, ratio)),
        }
    }
    if let Some((comparison, ratio)) = answers.first() {
        return of_algorithm(comparison, *ratio, &answers[1..]);
    }
    if let Some(verdict) = of_ciphers(results) {
        return verdict;
    }
    without_answer(servers.into_iter().chain(&algorithms))
}

/// How far, in powers of two, a download is from the one that speaks for a server: neither all
/// handshake nor all memory.
fn size_detour(size: u64) -> u32 {
    const TELLING_POWER: u32 = 24;
    size.max(1).ilog2().abs_diff(TELLING_POWER)
}

/// Whether downloads go under another cipher than the one that most servers pick.
fn is_rare(scenario: &words::Scenario) -> bool {
    scenario.size.is_some() && !scenario.parts.iter().any(|part| part == "AES-128-GCM")
}

/// Which server leads: the one that most people run first.
fn server_rank(scenario: &str) -> usize {
    let server = scenario.split('/').next();
    let known = words::SERVERS.iter().position(|known| Some(*known) == server);
    known.unwrap_or(words::SERVERS.len())
}

fn of_server(
    results: &Results,
    comparison: &Comparison<'_>,
    ratio: Ratio,
    others: &[(&Comparison<'_>, Ratio)],
) -> Verdict {
    let server = server(comparison);
    let spends = words::ratio(ratio.centre);
    let gain = words::ratio_short(1.0 / ratio.centre);
    let (per, as_much) = match comparison.scenario.size {
        None if comparison.row.metric == SERVER_CPU_PER_REQUEST.name => {
            ("request", "as many requests")
        }
        None => ("full TLS handshake", "as many handshakes"),
        Some(_) => ("gigabyte", "as much data"),
    };
    let (tone, sentence) = if ratio.high < 1.0 {
        let sentence =
            format!("{server} spends {spends} the CPU per {per}: {gain} {as_much} per core.");
        (Tone::Better, sentence)
    } else if ratio.low > 1.0 {
        let sentence =
            format!("Not worth it here: accelerated, {server} spends {spends} the CPU per {per}.");
        (Tone::Worse, sentence)
    } else {
        let sentence = format!(
            "Nothing to gain here: accelerated or not, {server} spends about the same CPU \
             per {per}."
        );
        (Tone::Same, sentence)
    };
    let mut detail = format!(
        "{}: {spends}, 95 % interval {}",
        comparison.scenario.conditions(),
        words::interval(Some(ratio.low), Some(ratio.high))
    );
    if let Some(rounds) = rounds(results, &comparison.row.scenario) {
        detail.push_str(&rounds);
    }
    detail.push('.');
    let mut told = vec![answerer(comparison)];
    for (other, ratio) in others {
        let other = answerer(other);
        if !told.contains(&other) {
            detail.push_str(&format!(
                " {}: {}.",
                words::capitalised(&other),
                ratio_with_interval(*ratio)
            ));
            told.push(other);
        }
    }
    Verdict { tone, sentence: words::capitalised(&sentence), detail }
}

/// The server as a sentence names it.
fn server(comparison: &Comparison<'_>) -> String {
    match comparison.scenario.server.as_deref() {
        Some(common_noun @ "embedded server") => format!("the {common_noun}"),
        Some(name) => name.to_owned(),
        None => "the server".to_owned(),
    }
}

/// The server and the mode that a comparison speaks for.
fn answerer(comparison: &Comparison<'_>) -> String {
    let server = server(comparison);
    match view::mode(&comparison.row.subject) {
        Some(mode) => format!("{server}, {mode}"),
        None => server,
    }
}

/// Algorithms beside the first that are told one by one.
const OTHERS_TOLD: usize = 4;

fn of_algorithm(
    comparison: &Comparison<'_>,
    ratio: Ratio,
    others: &[(&Comparison<'_>, Ratio)],
) -> Verdict {
    let algorithm = comparison.scenario.family();
    let operations = match comparison.scenario.size {
        Some(size) => format!("{algorithm} operations on {}", words::size(size)),
        None if comparison.row.scenario.ends_with("/private") => {
            format!("{algorithm} private-key operations")
        }
        None => format!("{algorithm} operations"),
    };
    let rival = comparison.rival();
    let times = words::ratio(ratio.centre);
    let (tone, sentence) = if ratio.low > 1.0 {
        let sentence = format!("Widelane does {times} as many {operations} per second as {rival}.");
        (Tone::Better, sentence)
    } else if ratio.high < 1.0 {
        let sentence = format!(
            "Not worth it here: Widelane does {times} as many {operations} per second as {rival}."
        );
        (Tone::Worse, sentence)
    } else {
        let sentence = format!(
            "Nothing to gain here: Widelane and {rival} do about as many {operations} per second."
        );
        (Tone::Same, sentence)
    };
    let mut detail = format!("{}: {}.", comparison.title(), ratio_with_interval(ratio));
    if others.len() <= OTHERS_TOLD {
        for (other, ratio) in others {
            detail.push_str(&format!(" {}: {}.", other.title(), ratio_with_interval(*ratio)));
        }
    } else {
        let by_ratio = |a: &&(&Comparison<'_>, Ratio), b: &&(&Comparison<'_>, Ratio)| {
            a.1.centre.total_cmp(&b.1.centre)
        };
        let ends = others.iter().min_by(by_ratio).zip(others.iter().max_by(by_ratio));
        if let Some(((least, low), (most, high))) = ends {
            detail.push_str(&format!(
                " {} others: from {} ({}) to {} ({}).",
                others.len(),
                words::ratio(low.centre),
                least.scenario.family(),
                words::ratio(high.centre),
                most.scenario.family()
            ));
        }
    }
    Verdict { tone, sentence, detail }
}

/// Which of two ciphers is faster, at the largest size.
fn of_ciphers(results: &Results) -> Option<Verdict> {
    let curves = view::curves(results).into_iter().find(|c| c.metric == CIPHER_RATIO)?;
    let last = |series: &view::Series| Some((series.name.clone(), curves.reliable(series).last()?));
    let ends: Vec<_> = curves.series.iter().filter_map(last).collect();
    let (_, (size, _)) = ends.first()?;
    let told = |(name, (_, ratio)): &(String, (u64, f64))| {
        format!("{} {name}", words::ratio_short(*ratio))
    };
    let told = ends.iter().map(told).collect::<Vec<_>>().join(", ");
    let sentence = format!(
        "AES-128-GCM against AES-128-CBC with HMAC-SHA1, in records of {}: {told}.",
        words::size(*size)
    );
    let detail = "How many times as fast; what Widelane does not offer is OpenSSL's.".to_owned();
    Some(Verdict { tone: Tone::Same, sentence, detail })
}

fn without_answer<'a, 'b: 'a>(comparisons: impl Iterator<Item = &'a Comparison<'b>>) -> Verdict {
    let mut rejected = None;
    let mut not_applicable = None;
    for comparison in comparisons {
        let reason = comparison.row.reason.clone().unwrap_or_else(|| "no reason given".to_owned());
        match comparison.row.status {
            Status::Ok => {}
            Status::Rejected => rejected = rejected.or(Some(reason)),
            Status::NotApplicable => not_applicable = not_applicable.or(Some(reason)),
        }
    }
    let (tone, sentence, detail) = match (rejected, not_applicable) {
        (Some(reason), _) => (
            Tone::Unknown,
            "This run cannot tell: its comparisons were rejected.",
            format!("First reason: {reason}. Remove the cause and repeat the run."),
        ),
        (None, Some(reason)) => (
            Tone::Same,
            "Nothing to gain from batching private-key operations on this machine.",
            format!("{}.", words::capitalised(&reason)),
        ),
        (None, None) => (Tone::Unknown, "These results hold no comparison.", String::new()),
    };
    Verdict { tone, sentence: sentence.to_owned(), detail }
}

fn ratio_with_interval(Ratio { centre, low, high }: Ratio) -> String {
    format!("{} ({})", words::ratio(centre), words::interval(Some(low), Some(high)))
}

/// `, 11 of 12 rounds accepted`; nothing where the rounds were not kept.
fn rounds(results: &Results, scenario: &str) -> Option<String> {
    let rounds: Vec<&Pair> = results.pairs.iter().filter(|p| p.scenario == scenario).collect();
    let accepted = rounds.iter().filter(|pair| pair.status == Status::Ok).count();
    (!rounds.is_empty()).then(|| format!(", {accepted} of {} rounds accepted", rounds.len()))
}

#[cfg(test)]
mod tests {
    use widelane_results::Row;

    use super::*;

    fn row(scenario: &str, ratio: [f64; 3]) -> Row {
        Row {
            scenario: scenario.to_owned(),
            subject: "accelerated".to_owned(),
            metric: SERVER_CPU.name.to_owned(),
            rival: Some("native".to_owned()),
            ratio: Some(ratio[0]),
            ratio_low: Some(ratio[1]),
            ratio_high: Some(ratio[2]),
            ..Row::default()
        }
    }

    fn verdict_of(rows: Vec<Row>) -> Verdict {
        verdict(&Results { rows, ..Results::default() })
    }

    #[test]
    fn a_gain_is_told_with_its_figure() {
        let verdict = verdict_of(vec![
            row("haproxy/tls1.2/rsa2048/c200", [0.62, 0.60, 0.65]),
            row("nginx/tls1.2/rsa2048/c8", [0.70, 0.68, 0.72]),
            row("nginx/tls1.2/rsa2048/c200", [0.58, 0.56, 0.60]),
        ]);
        assert_eq!(verdict.tone, Tone::Better);
        assert_eq!(
            verdict.sentence,
            "nginx spends 0.58× the CPU per full TLS handshake: 1.7× as many handshakes per core."
        );
        assert_eq!(
            verdict.detail,
            "TLS 1.2, RSA-2048, 200 connections: 0.58×, 95 % interval 0.56–0.60. \
             HAProxy: 0.62× (0.60–0.65)."
        );
    }

    #[test]
    fn an_interval_around_one_is_no_gain() {
        let verdict = verdict_of(vec![row("embedded/tls1.3/rsa2048/c8", [0.98, 0.95, 1.01])]);
        assert_eq!(verdict.tone, Tone::Same);
        assert_eq!(
            verdict.sentence,
            "Nothing to gain here: accelerated or not, the embedded server spends about the same \
             CPU per full TLS handshake."
        );
    }

    #[test]
    fn a_loss_is_called_one() {
        let verdict = verdict_of(vec![row("haproxy/tls1.2/rsa2048/c8", [1.2, 1.15, 1.26])]);
        assert_eq!(verdict.tone, Tone::Worse);
        assert!(verdict.sentence.contains("HAProxy spends 1.20× the CPU"), "{}", verdict.sentence);
    }

    #[test]
    fn without_an_answer_the_reason_is_given() {
        let with = |status| Row {
            status,
            reason: Some("no avx512ifma".to_owned()),
            ..row("nginx/tls1.2/rsa2048/c8", [0.5, 0.5, 0.5])
        };
        let closed = verdict_of(vec![with(Status::NotApplicable)]);
        assert_eq!((closed.tone, closed.detail.as_str()), (Tone::Same, "No avx512ifma."));
        let noisy = verdict_of(vec![with(Status::NotApplicable), with(Status::Rejected)]);
        assert_eq!(noisy.tone, Tone::Unknown);
        assert!(noisy.detail.contains("no avx512ifma"), "{}", noisy.detail);
        assert_eq!(verdict_of(Vec::new()).sentence, "These results hold no comparison.");
    }

    #[test]
    fn speed_results_name_the_algorithm_and_the_rival() {
        let row = |algorithm: &str, room: &str, ratio: f64| Row {
            subject: "widelane".to_owned(),
            room: Some(room.to_owned()),
            metric: OPERATIONS.name.to_owned(),
            rival: Some("openssl".to_owned()),
            ..row(&format!("{algorithm}/private"), [ratio, ratio - 0.1, ratio + 0.1])
        };
        let verdict = verdict_of(vec![
            row("rsa2048", "portable", 0.3),
            row("rsa2048", "ifma512", 4.02),
            row("rsa2048", "ifma256", 2.1),
            row("rsa4096", "ifma512", 5.3),
        ]);
        assert_eq!(
            verdict.sentence,
            "Widelane does 4.02× as many RSA-2048 private-key operations per second as OpenSSL."
        );
        assert_eq!(
            verdict.detail,
            "RSA-2048, ifma512: 4.02× (3.92–4.12). RSA-4096, ifma512: 5.30× (5.20–5.40)."
        );
    }
}
