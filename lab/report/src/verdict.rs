//! The one sentence: is it worth it on this machine?

pub use widelane_results::Answer as Verdict;
use widelane_results::{
    BUSY_SHARE, Measurement, Pair, ROUNDS_FOR_INTERVAL, Results, Row, Status, Tone,
};

use crate::view::{self, Comparison, Ratio};
use crate::words::{
    self, Axis, CIPHER_RATIO, CYCLES_PER_LOOKUP, GOODPUT_WITHIN, OPERATIONS, SERVER_CPU,
    SERVER_CPU_PER_GB, TIME_PER_LOOKUP,
};

/// Finds the answer in `results`, or repeats the one that is there.
pub fn verdict(results: &Results) -> Verdict {
    if let Some(answer) = &results.answer {
        return answer.clone();
    }
    let servers: Vec<Comparison<'_>> = words::METRICS
        .iter()
        .filter(|metric| metric.answers())
        .flat_map(|metric| view::comparisons(results, metric.name))
        .collect();
    if let Some((first, others)) = answers(&servers, "native").split_first() {
        let mut verdict = of_server(results, first, others);
        verdict.detail.push_str(&beside_aws_lc(&answers(&servers, AWS_LC)));
        return verdict;
    }
    let algorithms = view::comparisons(results, OPERATIONS.name);
    if let Some((first, others)) = best_of_families(&algorithms).split_first() {
        return of_algorithm(first, others);
    }
    let lookups = view::comparisons(results, CYCLES_PER_LOOKUP.name);
    let mut best: Vec<Answer<'_, '_>> = lookups.iter().filter_map(Answer::of).collect();
    best.sort_by(|a, b| a.ratio.centre.total_cmp(&b.ratio.centre));
    if let Some(best) = best.first() {
        return of_lookups(best);
    }
    let timed = view::comparisons(results, TIME_PER_LOOKUP.name);
    let own: Vec<Answer<'_, '_>> = timed.iter().filter_map(Answer::of).collect();
    if let Some(verdict) = of_changes(&own) {
        return verdict;
    }
    let limited = view::comparisons(results, GOODPUT_WITHIN.name);
    if let Some(first) = limited.first() {
        return limited.iter().find_map(Answer::of).map_or_else(|| none_kept(first), of_limited);
    }
    of_ciphers(results)
        .unwrap_or_else(|| without_answer(servers.iter().chain(&algorithms).chain(&lookups)))
}

/// A comparison that can be relied on.
struct Answer<'a, 'b> {
    comparison: &'a Comparison<'b>,
    ratio: Ratio,
}

impl<'a, 'b> Answer<'a, 'b> {
    fn of(comparison: &'a Comparison<'b>) -> Option<Self> {
        let ratio = comparison.row.rival.as_ref().and(comparison.reliable())?;
        Some(Answer { comparison, ratio })
    }

    /// What was wanted of the server.
    fn wanted(&self) -> Wanted {
        match self.comparison.row.metric.as_str() {
            name if name == SERVER_CPU.name => Wanted::Handshakes,
            name if name == SERVER_CPU_PER_GB.name => Wanted::Downloads,
            _ => Wanted::Pages,
        }
    }
}

/// What was wanted of servers, the most telling first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    Handshakes,
    Downloads,
    Pages,
}

impl Wanted {
    /// One of it, and many more of it.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Wanted::Handshakes => ("full TLS handshake", "as many handshakes"),
            Wanted::Downloads => ("gigabyte", "as much data"),
            Wanted::Pages => ("request", "as many requests"),
        }
    }
}

/// The comparisons with `rival`, those that speak for their server first.
fn answers<'a, 'b>(servers: &'a [Comparison<'b>], rival: &str) -> Vec<Answer<'a, 'b>> {
    let against = |answer: &Answer<'_, '_>| answer.comparison.row.rival.as_deref() == Some(rival);
    let mut answers: Vec<_> = servers.iter().filter_map(Answer::of).filter(against).collect();
    // Stable: among equals the order of the file decides, behind what most users run.
    answers.sort_by_key(|answer| {
        let scenario = &answer.comparison.scenario;
        let detour = match (scenario.size, scenario.mix) {
            (Some(size), _) => size_detour(size),
            (None, Some(mix)) => mix_detour(mix),
            (None, None) => match scenario.load {
                // A saturated server answers first, then one that is nearly so.
                Some(load) => u32::MAX - load as u32,
                None => view::detour(scenario.connections),
            },
        };
        let rank = server_rank(&answer.comparison.row.scenario);
        let is_special = view::mode(&answer.comparison.row.subject).is_some();
        (answer.wanted(), rank, is_rare(scenario), detour, is_special)
    });
    answers
}

/// The best kernel of each algorithm at the largest size, beside OpenSSL, or if it was not timed,
/// beside whoever was.
fn best_of_families<'a, 'b>(algorithms: &'a [Comparison<'b>]) -> Vec<Answer<'a, 'b>> {
    let all = || algorithms.iter().filter_map(Answer::of);
    let rival = |answer: &Answer<'a, 'b>| answer.comparison.row.rival.as_deref();
    let openssl = all().find(|answer| rival(answer) == Some("openssl"));
    let beside = openssl.or_else(|| all().next()).and_then(|answer| rival(&answer));
    let mut answers: Vec<Answer<'_, '_>> = Vec::new();
    for answer in all().filter(|answer| rival(answer) == beside) {
        let family = answer.comparison.scenario.family();
        let rank = |of: &Answer<'_, '_>| {
            let scenario = &of.comparison.scenario;
            (scenario.size, scenario.jobs, of.ratio.centre)
        };
        match answers.iter_mut().find(|known| known.comparison.scenario.family() == family) {
            Some(best) if rank(best) < rank(&answer) => *best = answer,
            Some(_) => {}
            None => answers.push(answer),
        }
    }
    answers
}

/// The same server at a partial load, as most servers are.
fn partial_load<'a, 'b, 'c>(
    of: &Comparison<'_>,
    others: &'c [Answer<'a, 'b>],
) -> Option<&'c Answer<'a, 'b>> {
    const TELLING_PERCENT: u64 = 30;
    let is_same = |answer: &&Answer<'_, '_>| {
        answer.comparison.scenario.load.is_some() && are_alike_but_for_load(answer.comparison, of)
    };
    let detour = |answer: &&Answer<'_, '_>| {
        answer.comparison.scenario.load.unwrap_or(0).abs_diff(TELLING_PERCENT)
    };
    others.iter().filter(is_same).min_by_key(detour)
}

/// Whether two comparisons are of the same server, run in the same way, and differ in its load
/// alone.
fn are_alike_but_for_load(one: &Comparison<'_>, other: &Comparison<'_>) -> bool {
    let family = |of: &Comparison<'_>| of.scenario.family_along(Axis::Load);
    one.row.subject == other.row.subject && family(one) == family(other)
}

/// How far a share of ChaCha20-Poly1305 is from the one that is found on the web.
fn mix_detour(percent: u64) -> u32 {
    const TELLING_PERCENT: u64 = 10;
    percent.abs_diff(TELLING_PERCENT) as u32
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

/// What is said of a ratio, whichever way it goes.
struct Claim {
    /// Whether a ratio below 1 is a gain.
    less_is_better: bool,
    /// Who does it, and the words for that now and in the past.
    subject: String,
    does: &'static str,
    did: &'static str,
    /// What it does that many times.
    what: String,
    /// The sentence where nothing is gained or lost, and the one about a gain.
    alike: String,
    gain: String,
    /// The flag that takes more rounds.
    flag: &'static str,
}

impl Claim {
    fn about(&self, ratio: Ratio) -> (Tone, String) {
        let Claim { subject, does, did, what, flag, .. } = self;
        let times = words::ratio(ratio.centre);
        let [gains, loses] = match self.less_is_better {
            true => [ratio.is_less(), ratio.is_more()],
            false => [ratio.is_more(), ratio.is_less()],
        };
        if ratio.is_alike() {
            return (Tone::Same, self.alike.clone());
        } else if gains {
            return (Tone::Better, self.gain.clone());
        } else if loses {
            return (Tone::Worse, format!("Not worth it here: {subject} {does} {times} {what}."));
        }
        let told = match ratio.ends.map(|ends| ends.map(words::ratio)) {
            Some([low, high]) => format!("{does} between {low} and {high} {what}."),
            None => format!("{did} {times} {what}, but in too few rounds to rely on."),
        };
        let sentence =
            format!("This run cannot tell: {subject} {told} More rounds ({flag}) tell more.");
        (Tone::Unknown, sentence)
    }
}

/// Whether both servers used up their CPUs in most rounds that count, so that what they did is what
/// they can do; also where the rounds were not kept.
fn were_busy(results: &Results, row: &Row) -> bool {
    [Some(&row.subject), row.rival.as_ref()].into_iter().flatten().all(|subject| {
        let sound = view::rounds(results, row).filter(|pair| view::counts(pair, row));
        let own = sound.flat_map(|pair| &pair.measurements).filter(|it| it.subject == *subject);
        let (busy, idle): (Vec<f64>, Vec<f64>) =
            own.map(Measurement::server_share).partition(|share| *share >= BUSY_SHARE);
        busy.len() >= idle.len()
    })
}

fn of_server(results: &Results, first: &Answer<'_, '_>, others: &[Answer<'_, '_>]) -> Verdict {
    let Answer { comparison, ratio } = first;
    let Comparison { scenario, row, .. } = comparison;
    let server = named(comparison);
    let spends = words::ratio(ratio.centre);
    let (one, many) = first.wanted().words();
    let what = format!("the CPU per {one}");
    // How many more it could do, a server with time to spare does not tell.
    let place = match (scenario.load, scenario.connections) {
        (Some(load), _) => Some(format!("at {load} % load ")),
        (None, Some(count)) if !were_busy(results, row) => {
            Some(format!("with {} ", words::connections(count)))
        }
        _ => None,
    };
    let gain = match &place {
        Some(place) => format!("{place}{server} spends {spends} {what}."),
        None => {
            let gain = words::ratio_short(1.0 / ratio.centre);
            format!("{server} spends {spends} {what}: {gain} {many} per core.")
        }
    };
    let claim = Claim {
        less_is_better: true,
        alike: format!(
            "Nothing to gain here: accelerated or not, {server} spends about the same CPU per \
             {one}."
        ),
        gain,
        subject: format!("{}{server}", place.unwrap_or_default()),
        does: "spends",
        did: "spent",
        what,
        flag: "--pairs",
    };
    let (tone, sentence) = claim.about(*ratio);
    let interval = match ratio.ends {
        Some(ends) => format!("95 % interval {}", words::interval(Some(ends))),
        None => format!("a 95 % interval takes {ROUNDS_FOR_INTERVAL} rounds or more"),
    };
    let mut detail = format!("{}: {spends}, {interval}", comparison.scenario.conditions());
    if let Some(rounds) = rounds(results, comparison.row) {
        detail.push_str(&rounds);
    }
    detail.push('.');
    if comparison.scenario.load.is_none()
        && let Some(partial) = partial_load(comparison, others)
    {
        let conditions = partial.comparison.scenario.conditions();
        detail.push_str(&format!(" {conditions}: {}.", ratio_with_interval(partial.ratio)));
    }
    if comparison.scenario.load.is_some() {
        let is_same = |it: &&Answer<'_, '_>| are_alike_but_for_load(it.comparison, comparison);
        for other in others.iter().filter(is_same) {
            let Some(load) = other.comparison.scenario.load else { continue };
            detail.push_str(&format!(" {load} % load: {}.", ratio_with_interval(other.ratio)));
        }
    }
    let mut told = vec![(first.wanted(), answerer(comparison))];
    let mut conditions = comparison.scenario.conditions();
    for other in others {
        let answerer = (other.wanted(), answerer(other.comparison));
        if told.contains(&answerer) {
            continue;
        }
        let (wanted, server) = &answerer;
        // What is wanted is said where it changes.
        let per = match told.last().is_some_and(|(before, _)| before == wanted) {
            true => String::new(),
            false => format!(" per {}", wanted.words().0),
        };
        // Under the same conditions as the one before, if there is such a figure; others are said.
        let of_same =
            |it: &&Answer<'_, '_>| (it.wanted(), self::answerer(it.comparison)) == answerer;
        let alike = |it: &&Answer<'_, '_>| it.comparison.scenario.conditions() == conditions;
        let other = others.iter().filter(of_same).find(alike).unwrap_or(other);
        let own = other.comparison.scenario.conditions();
        let under = if own == conditions { String::new() } else { format!(", {own}") };
        let (server, ratio) = (words::capitalised(server), ratio_with_interval(other.ratio));
        detail.push_str(&format!(" {server}{per}{under}: {ratio}."));
        conditions = own;
        told.push(answerer);
    }
    Verdict { tone, sentence: words::capitalised(&sentence), detail }
}

/// The rebuilt server that a user could run instead.
const AWS_LC: &str = "haproxy-aws-lc";

/// What the comparison with that server says: where it is busy, and at a partial load.
fn beside_aws_lc(answers: &[Answer<'_, '_>]) -> String {
    let Some((first, others)) = answers.split_first() else { return String::new() };
    let partial = partial_load(first.comparison, others);
    let partial = partial.filter(|_| first.comparison.scenario.load.is_none());
    let told = |answer: &Answer<'_, '_>| {
        let (rival, conditions) = (words::subject(AWS_LC), answer.comparison.scenario.conditions());
        let mode = view::mode(&answer.comparison.row.subject);
        let mode = mode.map_or(String::new(), |mode| format!(", {mode}"));
        format!(" Against {rival}{mode}, {conditions}: {}.", ratio_with_interval(answer.ratio))
    };
    [first].into_iter().chain(partial).map(told).collect()
}

/// Packets, beside the classifier of others.
fn of_lookups(Answer { comparison, ratio }: &Answer<'_, '_>) -> Verdict {
    let (times, rival) = (words::ratio(ratio.centre), comparison.rival());
    let claim = Claim {
        less_is_better: true,
        alike: format!("Widelane and {rival} take about the same cycles for a packet."),
        gain: format!(
            "Widelane finds the rule of a packet in {times} the cycles of {rival}: {} as many \
             packets per core.",
            words::ratio_short(1.0 / ratio.centre)
        ),
        subject: "Widelane".to_owned(),
        does: "takes",
        did: "took",
        what: format!("the cycles of {rival} for a packet"),
        flag: "--rounds",
    };
    let (tone, sentence) = claim.about(*ratio);
    let detail = format!("{}: {}.", comparison.title(), ratio_with_interval(*ratio));
    Verdict { tone, sentence, detail }
}

/// Lookups while rules change, beside lookups of our own without changes.
fn of_changes(answers: &[Answer<'_, '_>]) -> Option<Verdict> {
    let against = |rival: &str| {
        answers.iter().find(|answer| answer.comparison.row.rival.as_deref() == Some(rival))
    };
    let first = against("table")?;
    let kept = words::ratio(1.0 / first.ratio.centre);
    let (tone, sentence) = match first.ratio.ends {
        Some(_) => (
            Tone::Same,
            format!("While rules change, packets are looked up at {kept} a table's rate."),
        ),
        None => (
            Tone::Unknown,
            format!(
                "This run cannot tell: while rules changed, packets were looked up at {kept} a \
                 table's rate, but in too few rounds to rely on."
            ),
        ),
    };
    let mut detail = first.comparison.title();
    for (mark, answer) in [": ", "; "].into_iter().zip(["table", "live/quiet"].map(against)) {
        let Some(Answer { comparison, ratio }) = answer else { continue };
        let (rate, rival) = (ratio_with_interval(ratio.inverse()), comparison.rival());
        detail.push_str(&format!("{mark}{rate} the rate of {rival}"));
    }
    detail.push('.');
    Some(Verdict { tone, sentence, detail })
}

/// Downloads under a limit.
fn of_limited(Answer { comparison, ratio }: Answer<'_, '_>) -> Verdict {
    let (server, times) = (named(comparison), words::ratio(ratio.centre));
    let sentence = format!("Within the limit, {server} sends {times} as much data accelerated.");
    let tone = match ratio.centre {
        gain if gain > words::SEARCH_CLOSE => Tone::Better,
        loss if loss < 1.0 / words::SEARCH_CLOSE => Tone::Worse,
        _ => Tone::Same,
    };
    let [own, rival] = [comparison.value(), comparison.rival_value()];
    let detail = format!("{}: {own}, {rival} as installed.", comparison.title());
    Verdict { tone, sentence: words::capitalised(&sentence), detail }
}

/// Downloads of which none, or none that can be relied on, keeps the limit.
fn none_kept(comparison: &Comparison<'_>) -> Verdict {
    let objection = comparison.objection().unwrap_or_else(|| "no rival".to_owned());
    Verdict {
        tone: Tone::Unknown,
        sentence: "No rate of downloads was found that keeps the limit.".to_owned(),
        detail: format!("{}: {objection}.", comparison.title()),
    }
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

/// The same amid a sentence that goes on.
fn named(comparison: &Comparison<'_>) -> String {
    let comma = if view::mode(&comparison.row.subject).is_some() { "," } else { "" };
    format!("{}{comma}", answerer(comparison))
}

/// Algorithms beside the first that are told one by one.
const OTHERS_TOLD: usize = 4;

fn of_algorithm(first: &Answer<'_, '_>, others: &[Answer<'_, '_>]) -> Verdict {
    let Answer { comparison, ratio } = first;
    let algorithm = comparison.scenario.family();
    let operations = match comparison.scenario.size {
        Some(size) => format!("{algorithm} operations on {}", words::size(size)),
        None if comparison.row.scenario.ends_with("/private") => {
            format!("{algorithm} private-key operations")
        }
        None => format!("{algorithm} operations"),
    };
    let rival = comparison.rival();
    let what = format!("as many {operations} per second as {rival}");
    let claim = Claim {
        less_is_better: false,
        alike: format!(
            "Nothing to gain here: Widelane and {rival} do about as many {operations} per second."
        ),
        gain: format!("Widelane does {} {what}.", words::ratio(ratio.centre)),
        subject: "Widelane".to_owned(),
        does: "does",
        did: "did",
        what,
        flag: "--pairs",
    };
    let (tone, sentence) = claim.about(*ratio);
    let mut detail = format!("{}: {}.", comparison.title(), ratio_with_interval(*ratio));
    if others.len() <= OTHERS_TOLD {
        for Answer { comparison, ratio } in others {
            let ratio = ratio_with_interval(*ratio);
            detail.push_str(&format!(" {}: {ratio}.", comparison.title()));
        }
    } else {
        let by_ratio =
            |a: &&Answer<'_, '_>, b: &&Answer<'_, '_>| a.ratio.centre.total_cmp(&b.ratio.centre);
        let ends = others.iter().min_by(by_ratio).zip(others.iter().max_by(by_ratio));
        if let Some((least, most)) = ends {
            let told = |end: &Answer<'_, '_>| {
                let family = end.comparison.scenario.family();
                format!("{} ({family})", words::ratio(end.ratio.centre))
            };
            let (least, most) = (told(least), told(most));
            detail.push_str(&format!(" {} others: from {least} to {most}.", others.len()));
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
    let mut of_messages = true;
    for comparison in comparisons {
        let reason = comparison.row.reason.clone().unwrap_or_else(|| "no reason given".to_owned());
        match comparison.row.status {
            Status::Ok => {}
            Status::Rejected => rejected = rejected.or(Some(reason)),
            Status::NotApplicable => not_applicable = not_applicable.or(Some(reason)),
        }
        let is_speed = comparison.row.metric == OPERATIONS.name;
        of_messages &= is_speed && comparison.scenario.size.is_some();
    }
    let (tone, sentence, detail) = match (rejected, not_applicable) {
        (Some(reason), _) => (
            Tone::Unknown,
            "This run cannot tell: its comparisons were rejected.",
            format!("First reason: {reason}. Remove the cause and repeat the run."),
        ),
        (None, Some(reason)) if of_messages => (
            Tone::Unknown,
            "Nothing of Widelane's was timed beside another library here.",
            format!("{}; `--against openssl` compares.", words::capitalised(&reason)),
        ),
        (None, Some(reason)) => (
            Tone::Unknown,
            "Nothing could be compared here.",
            format!("{}.", words::capitalised(&reason)),
        ),
        (None, None) => (Tone::Unknown, "These results hold no comparison.", String::new()),
    };
    Verdict { tone, sentence: sentence.to_owned(), detail }
}

fn ratio_with_interval(Ratio { centre, ends }: Ratio) -> String {
    format!("{} ({})", words::ratio(centre), words::interval(ends))
}

/// `, 11 of 12 rounds accepted`; nothing where the rounds were not kept.
fn rounds(results: &Results, row: &Row) -> Option<String> {
    let rounds: Vec<&Pair> = view::rounds(results, row).collect();
    let accepted = rounds.iter().filter(|pair| view::counts(pair, row)).count();
    (!rounds.is_empty()).then(|| format!(", {accepted} of {} rounds accepted", rounds.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{Metric, SERVER_CPU_PER_REQUEST};

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

    /// What a room of ours did beside a rival.
    fn of_room(room: &str, metric: Metric, rival: &str, scenario: &str, ratio: [f64; 3]) -> Row {
        Row {
            subject: "widelane".to_owned(),
            room: Some(room.to_owned()),
            metric: metric.name.to_owned(),
            rival: Some(rival.to_owned()),
            ..row(scenario, ratio)
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
    fn what_is_not_the_plain_mode_is_named() {
        let scenario = "haproxy/tls1.3/rsa2048/x25519/c200";
        let mode =
            |subject: &str, ratio| Row { subject: subject.to_owned(), ..row(scenario, ratio) };
        let rejected = Row { status: Status::Rejected, ..mode("accelerated", [0.62, 0.60, 0.65]) };
        let verdict = verdict_of(vec![rejected, mode("async", [0.7, 0.68, 0.72])]);
        assert_eq!(
            verdict.sentence,
            "HAProxy, async, spends 0.70× the CPU per full TLS handshake: 1.4× as many handshakes \
             per core."
        );
        let verdict = verdict_of(vec![
            mode("async", [0.7, 0.68, 0.72]),
            mode("accelerated", [0.62, 0.60, 0.65]),
        ]);
        assert!(verdict.sentence.starts_with("HAProxy spends 0.62×"), "{}", verdict.sentence);
        assert!(verdict.detail.ends_with("HAProxy, async: 0.70× (0.68–0.72)."));
        let verdict = verdict_of(vec![mode("wait-0", [1.2, 1.15, 1.26])]);
        assert_eq!(
            verdict.sentence,
            "Not worth it here: HAProxy, no wait, spends 1.20× the CPU per full TLS handshake."
        );
    }

    #[test]
    fn what_a_core_can_do_is_told_only_of_busy_servers() {
        let scenario = "nginx/tls1.3/rsa2048/x25519/c8";
        let sentence = |[native, accelerated]: [f64; 2]| {
            let measurement = |subject: &str, share: f64| Measurement {
                subject: subject.to_owned(),
                wall_s: 2.0,
                cpu_s: 4.0 * share,
                server_cpus: 2,
                ..Measurement::default()
            };
            let pair = Pair {
                scenario: scenario.to_owned(),
                measurements: vec![
                    measurement("native", native),
                    measurement("accelerated", accelerated),
                ],
                ..Pair::default()
            };
            let rows = vec![row(scenario, [0.58, 0.56, 0.60])];
            super::verdict(&Results { rows, pairs: vec![pair; 6], ..Results::default() }).sentence
        };
        assert!(sentence([0.99, 0.95]).ends_with(": 1.7× as many handshakes per core."));
        assert_eq!(
            sentence([0.99, 0.6]),
            "With 8 connections nginx spends 0.58× the CPU per full TLS handshake."
        );
    }

    #[test]
    fn a_partial_load_is_told_behind_the_saturated_server() {
        let partial =
            |percent: u32, ratio| row(&format!("nginx/tls1.3/rsa2048/x25519/load{percent}"), ratio);
        let verdict = verdict_of(vec![
            partial(20, [0.83, 0.80, 0.86]),
            partial(30, [0.82, 0.80, 0.84]),
            row("nginx/tls1.3/rsa2048/x25519/c200", [0.58, 0.56, 0.60]),
        ]);
        assert_eq!(
            verdict.detail,
            "TLS 1.3, RSA-2048, X25519, 200 connections: 0.58×, 95 % interval 0.56–0.60. \
             TLS 1.3, RSA-2048, X25519, 30 % load: 0.82× (0.80–0.84)."
        );
        let alone =
            verdict_of(vec![partial(20, [0.83, 0.80, 0.86]), partial(80, [0.7, 0.68, 0.72])]);
        assert!(alone.detail.starts_with("TLS 1.3, RSA-2048, X25519, 80 % load: 0.70×"));
        assert_eq!(
            alone.sentence,
            "At 80 % load nginx spends 0.70× the CPU per full TLS handshake."
        );
    }

    #[test]
    fn loads_of_other_keys_versions_and_servers_are_not_those_of_the_first() {
        let at = |scenario: &str, load: u32, ratio| row(&format!("{scenario}/load{load}"), ratio);
        let loads = |scenario: &str, ratio: f64| {
            let at = |load, ratio: f64| at(scenario, load, [ratio, ratio - 0.02, ratio + 0.02]);
            [at(30, ratio + 0.1), at(60, ratio)]
        };
        let verdict = verdict_of(
            [
                loads("nginx/tls1.3/rsa2048/x25519", 0.60),
                loads("nginx/tls1.3/ecdsa-p256/x25519", 0.75),
                loads("nginx/tls1.2/rsa2048/x25519", 0.55),
                loads("haproxy/tls1.3/ecdsa-p256/x25519", 0.80),
            ]
            .concat(),
        );
        assert_eq!(
            verdict.detail,
            "TLS 1.3, RSA-2048, X25519, 60 % load: 0.60×, 95 % interval 0.58–0.62. 30 % load: \
             0.70× (0.68–0.72). HAProxy, TLS 1.3, ECDSA P-256, X25519, 60 % load: 0.80× \
             (0.78–0.82)."
        );
        // Nor is the partial load of another key told behind a saturated server.
        let mut rows = loads("nginx/tls1.3/ecdsa-p256/x25519", 0.75).to_vec();
        rows.push(row("nginx/tls1.3/rsa2048/x25519/c200", [0.5, 0.48, 0.52]));
        rows.push(row("haproxy/tls1.3/rsa2048/x25519/load30", [0.8, 0.78, 0.82]));
        rows.push(row("haproxy/tls1.3/rsa2048/x25519/c200", [0.6, 0.58, 0.62]));
        assert_eq!(
            verdict_of(rows).detail,
            "TLS 1.3, RSA-2048, X25519, 200 connections: 0.50×, 95 % interval 0.48–0.52. HAProxy: \
             0.60× (0.58–0.62)."
        );
    }

    #[test]
    fn every_server_has_its_name() {
        let verdict = verdict_of(vec![
            row("lighttpd/tls1.3/rsa2048/x25519/c100", [0.45, 0.43, 0.47]),
            row("mosquitto/tls1.3/rsa2048/x25519/c100", [0.62, 0.60, 0.65]),
        ]);
        assert!(verdict.sentence.contains("ighttpd spends 0.45×"), "{}", verdict.sentence);
        assert!(verdict.detail.ends_with("osquitto: 0.62× (0.60–0.65)."), "{}", verdict.detail);
    }

    #[test]
    fn too_few_rounds_tell_nothing() {
        let load = "nginx/tls1.3/rsa2048/x25519/load30";
        let without = Row { ratio_low: None, ratio_high: None, ..row(load, [0.6; 3]) };
        let verdict = verdict_of(vec![without.clone()]);
        assert_eq!(verdict.tone, Tone::Unknown);
        assert_eq!(
            verdict.sentence,
            "This run cannot tell: at 30 % load nginx spent 0.60× the CPU per full TLS handshake, \
             but in too few rounds to rely on. More rounds (--pairs) tell more."
        );
        assert_eq!(
            verdict.detail,
            "TLS 1.3, RSA-2048, X25519, 30 % load: 0.60×, a 95 % interval takes 6 rounds or more."
        );
        // Files of before have the range of a few rounds where others have an interval.
        let pair = |status| Pair { scenario: load.to_owned(), status, ..Pair::default() };
        let of = |sound: usize| {
            let mut pairs = vec![pair(Status::Ok); sound];
            pairs.push(pair(Status::Rejected));
            let rows = vec![row(load, [0.6, 0.58, 0.62])];
            super::verdict(&Results { rows, pairs, ..Results::default() }).tone
        };
        assert_eq!((of(5), of(6)), (Tone::Unknown, Tone::Better));
        let speed = |metric: Metric, scenario: &str| Row {
            ratio_low: None,
            ratio_high: None,
            ..of_room("ifma512", metric, "openssl", scenario, [4.0; 3])
        };
        for row in [
            speed(OPERATIONS, "rsa2048/private"),
            speed(CYCLES_PER_LOOKUP, "acl/fw/burst32"),
            Row { rival: Some("table".to_owned()), ..speed(TIME_PER_LOOKUP, "acl/fw/updates100") },
        ] {
            let verdict = verdict_of(vec![row]);
            assert_eq!(verdict.tone, Tone::Unknown, "{}", verdict.sentence);
            assert!(verdict.sentence.starts_with("This run cannot tell"), "{}", verdict.sentence);
        }
    }

    #[test]
    fn a_rebuilt_server_is_told_beside_the_native_one() {
        let against = |rival: &str, place: &str, ratio| Row {
            rival: Some(rival.to_owned()),
            ..row(&format!("haproxy/tls1.3/rsa2048/x25519/{place}"), ratio)
        };
        let verdict = verdict_of(vec![
            against("native", "c200", [0.45, 0.44, 0.46]),
            against("haproxy-aws-lc", "c200", [0.72, 0.70, 0.74]),
            against("haproxy-aws-lc", "load30", [0.95, 0.93, 0.97]),
        ]);
        assert_eq!(
            verdict.detail,
            "TLS 1.3, RSA-2048, X25519, 200 connections: 0.45×, 95 % interval 0.44–0.46. Against \
             HAProxy on AWS-LC, TLS 1.3, RSA-2048, X25519, 200 connections: 0.72× (0.70–0.74). \
             Against HAProxy on AWS-LC, TLS 1.3, RSA-2048, X25519, 30 % load: 0.95× (0.93–0.97)."
        );
    }

    #[test]
    fn every_workload_is_told() {
        let of = |metric: words::Metric, scenario: &str, ratio: [f64; 3]| Row {
            metric: metric.name.to_owned(),
            ..row(scenario, ratio)
        };
        let mixed = |percent: u32, ratio| {
            let scenario = format!("nginx/mixed/chacha20-poly1305-{percent}/c16");
            of(SERVER_CPU_PER_REQUEST, &scenario, ratio)
        };
        let bulk = "nginx/tls1.3/rsa2048/aes128-gcm/16MiB/c4";
        let verdict = verdict_of(vec![
            mixed(0, [1.0, 0.9, 1.1]),
            mixed(10, [0.96, 0.9, 1.05]),
            of(SERVER_CPU_PER_GB, bulk, [0.74, 0.71, 0.79]),
            row("nginx/tls1.2/rsa2048/c200", [0.58, 0.56, 0.60]),
            row("haproxy/tls1.2/rsa2048/c200", [0.62, 0.60, 0.65]),
        ]);
        assert_eq!(
            verdict.detail,
            "TLS 1.2, RSA-2048, 200 connections: 0.58×, 95 % interval 0.56–0.60. \
             HAProxy: 0.62× (0.60–0.65). nginx per gigabyte, TLS 1.3, RSA-2048, AES-128-GCM, 16 \
             MiB, 4 connections: 0.74× (0.71–0.79). nginx per request, mixed, 10 % \
             ChaCha20-Poly1305, 16 connections: 0.96× (0.90–1.05)."
        );
    }

    #[test]
    fn lookups_name_the_other_classifier() {
        let lookups = |room: &str, ratio: [f64; 3]| {
            of_room(room, CYCLES_PER_LOOKUP, "rte_acl", "acl/fw-4096/burst32", ratio)
        };
        let verdict = verdict_of(vec![
            lookups("portable", [1.33, 1.30, 1.34]),
            lookups("avx512", [0.36, 0.35, 0.37]),
        ]);
        assert_eq!(verdict.tone, Tone::Better);
        assert_eq!(
            verdict.sentence,
            "Widelane finds the rule of a packet in 0.36× the cycles of DPDK's rte_acl: 2.8× as \
             many packets per core."
        );
        assert_eq!(verdict.detail, "fw-4096, bursts of 32, avx512: 0.36× (0.35–0.37).");
    }

    #[test]
    fn lookups_while_rules_change_are_told_by_their_rate() {
        let beside = |rival: &str, ratio: [f64; 3]| {
            of_room("avx512", TIME_PER_LOOKUP, rival, "acl/fw/updates10000", ratio)
        };
        let verdict = verdict_of(vec![
            beside("live/quiet", [1.6, 1.25, 2.0]),
            beside("table", [1.25, 1.0, 1.6]),
        ]);
        assert_eq!(verdict.tone, Tone::Same);
        assert_eq!(
            verdict.sentence,
            "While rules change, packets are looked up at 0.80× a table's rate."
        );
        assert_eq!(
            verdict.detail,
            "fw, 10,000 changes per second, avx512: 0.80× (0.62–1.00) the rate of a table; \
             0.62× (0.50–0.80) the rate of the same rules without changes."
        );
    }

    #[test]
    fn downloads_under_a_limit_are_told_with_their_figures() {
        let limited = |ratio: f64| Row {
            metric: GOODPUT_WITHIN.name.to_owned(),
            unit: "Gbit/s".to_owned(),
            value: Some(10.0 * ratio),
            ..row("nginx/tls1.3/rsa2048/aes128-gcm/1MiB/c1000", [ratio; 3])
        };
        let verdict = verdict_of(vec![limited(1.5)]);
        assert_eq!(verdict.tone, Tone::Better);
        assert_eq!(
            verdict.sentence,
            "Within the limit, nginx sends 1.50× as much data accelerated."
        );
        let infeasible = Row {
            value: None,
            status: Status::NotApplicable,
            reason: Some("infeasible: 17.2 Gbit/s".to_owned()),
            ..limited(1.0)
        };
        let verdict = verdict_of(vec![infeasible]);
        assert_eq!(verdict.sentence, "No rate of downloads was found that keeps the limit.");
        assert!(verdict.detail.ends_with("infeasible: 17.2 Gbit/s."), "{}", verdict.detail);
    }

    #[test]
    fn without_openssl_another_library_is_the_rival() {
        let beside = |rival: &str, ratio: [f64; 3]| {
            of_room("avx2", OPERATIONS, rival, "sha-1/digest-many/16384", ratio)
        };
        let other = beside("ipsec-mb", [1.05, 1.03, 1.07]);
        let sentence = |rows| verdict_of(rows).sentence;
        assert!(sentence(vec![other.clone()]).ends_with("per second as ipsec-mb."));
        let both = vec![other, beside("openssl", [1.8, 1.7, 1.9])];
        assert!(sentence(both).ends_with("per second as OpenSSL."));
    }

    #[test]
    fn messages_without_openssl_are_not_taken_for_handshakes() {
        let missing = |scenario: &str| Row {
            scenario: scenario.to_owned(),
            subject: "widelane-evp".to_owned(),
            metric: OPERATIONS.name.to_owned(),
            rival: Some("openssl".to_owned()),
            status: Status::NotApplicable,
            reason: Some("the provider does not offer it".to_owned()),
            ..Row::default()
        };
        let verdict = verdict_of(vec![missing("sha-512/digest/16384")]);
        assert_eq!(
            verdict.sentence,
            "Nothing of Widelane's was timed beside another library here."
        );
        assert_eq!(verdict.tone, Tone::Unknown);
        let verdict = verdict_of(vec![missing("rsa2048/sign")]);
        assert_eq!(verdict.sentence, "Nothing could be compared here.");
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
    fn a_certain_difference_too_small_to_be_seen_is_none() {
        for ratio in [[1.004, 1.001, 1.007], [0.996, 0.993, 0.999]] {
            let verdict = verdict_of(vec![row("nginx/tls1.3/rsa2048/c8", ratio)]);
            assert_eq!(verdict.tone, Tone::Same, "{}", verdict.sentence);
            assert!(verdict.sentence.starts_with("Nothing to gain here"), "{}", verdict.sentence);
        }
        let less = verdict_of(vec![row("nginx/tls1.3/rsa2048/c8", [0.98, 0.97, 0.99])]);
        assert_eq!(less.tone, Tone::Better, "{}", less.sentence);
    }

    #[test]
    fn a_wide_interval_around_one_tells_nothing_and_other_loads_are_told() {
        let at = |load: u32, ratio| row(&format!("haproxy/tls1.3/ecdsa-p256/load{load}"), ratio);
        let verdict = verdict_of(vec![at(30, [0.79, 0.73, 0.97]), at(60, [0.85, 0.78, 1.02])]);
        assert_eq!(verdict.tone, Tone::Unknown);
        assert_eq!(
            verdict.sentence,
            "This run cannot tell: at 60 % load HAProxy spends between 0.78× and 1.02× the CPU per \
             full TLS handshake. More rounds (--pairs) tell more."
        );
        assert!(verdict.detail.ends_with(" 30 % load: 0.79× (0.73–0.97)."), "{}", verdict.detail);
    }

    #[test]
    fn only_a_narrow_interval_around_one_makes_algorithms_and_lookups_alike() {
        let speed = |ratio| of_room("ifma256", OPERATIONS, "openssl", "rsa2048/private", ratio);
        let lookups =
            |ratio| of_room("avx512", CYCLES_PER_LOOKUP, "rte_acl", "acl/fw/burst32", ratio);
        for (row, expected) in [
            (
                speed([1.4, 0.8, 2.1]),
                "Widelane does between 0.80× and 2.10× as many RSA-2048 private-key operations \
                 per second as OpenSSL. More rounds (--pairs) tell more.",
            ),
            (
                lookups([0.7, 0.5, 1.2]),
                "Widelane takes between 0.50× and 1.20× the cycles of DPDK's rte_acl for a \
                 packet. More rounds (--rounds) tell more.",
            ),
            (
                lookups([1.004, 1.002, 1.2]),
                "Widelane takes between 1.00× and 1.20× the cycles of DPDK's rte_acl for a \
                 packet. More rounds (--rounds) tell more.",
            ),
        ] {
            let verdict = verdict_of(vec![row]);
            assert_eq!(verdict.tone, Tone::Unknown);
            assert_eq!(verdict.sentence, format!("This run cannot tell: {expected}"));
        }
        for row in [
            speed([1.0, 0.98, 1.03]),
            lookups([1.0, 0.98, 1.03]),
            // What is certain, but not to be seen.
            speed([0.997, 0.994, 0.999]),
            lookups([1.004, 1.002, 1.008]),
            lookups([1.004, 1.002, 1.04]),
        ] {
            let verdict = verdict_of(vec![row]);
            assert_eq!(verdict.tone, Tone::Same, "{}", verdict.sentence);
        }
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
        // Older files say so of handshakes on CPUs without lanes.
        let closed = verdict_of(vec![with(Status::NotApplicable)]);
        assert_eq!((closed.tone, closed.detail.as_str()), (Tone::Unknown, "No avx512ifma."));
        assert_eq!(closed.sentence, "Nothing could be compared here.");
        let noisy = verdict_of(vec![with(Status::NotApplicable), with(Status::Rejected)]);
        assert_eq!(noisy.tone, Tone::Unknown);
        assert!(noisy.detail.contains("no avx512ifma"), "{}", noisy.detail);
        assert_eq!(verdict_of(Vec::new()).sentence, "These results hold no comparison.");
    }

    #[test]
    fn speed_results_name_the_algorithm_and_the_rival() {
        let row = |algorithm: &str, room: &str, ratio: f64| {
            let scenario = format!("{algorithm}/private");
            of_room(room, OPERATIONS, "openssl", &scenario, [ratio, ratio - 0.1, ratio + 0.1])
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
