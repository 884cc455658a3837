//! The one sentence: is it worth it on this machine?

#[cfg(test)]
mod tests;

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
    let series = curves.series.iter();
    let ends: Vec<(&str, &view::Point)> =
        series.filter_map(|series| Some((&*series.name, series.reliable().last()?))).collect();
    let (_, largest) = ends.first()?;
    let told = |(name, point): &(&str, &view::Point)| {
        format!("{} {name}", words::ratio_short(point.value))
    };
    let told = ends.iter().map(told).collect::<Vec<_>>().join(", ");
    let sentence = format!(
        "AES-128-GCM against AES-128-CBC with HMAC-SHA1, in records of {}: {told}.",
        words::size(largest.place)
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
            // What is beside nobody is no comparison.
            Status::Rejected if comparison.row.rival.is_none() => {}
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
