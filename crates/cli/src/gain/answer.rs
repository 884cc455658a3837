//! From slices to what they say: pure.

use std::fmt;

use serde::Serialize;
use widelane_meter::estimate::{median, median_with_interval};
use widelane_tables::{Block, Kind, Table, Tone, count, counted, percent};

use super::EarlyEnd;
use super::plan::{PAIRS_FOR_INTERVAL, Plan};
use crate::units;

/// How the server is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Accelerated.
    On,
    /// By OpenSSL alone.
    Off,
}

impl Setting {
    /// The settings of a pair of slices, in order: every other pair has them in the other order, so
    /// that what grows or falls steadily cancels.
    pub fn of_pair(pair: usize) -> [Self; 2] {
        if pair.is_multiple_of(2) {
            [Setting::On, Setting::Off]
        } else {
            [Setting::Off, Setting::On]
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if *self == Setting::On { "on" } else { "off" })
    }
}

/// What a server did in the measured part of a slice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Its processes, a lane process included.
    pub processes: usize,
    /// How long it was measured.
    pub seconds: f64,
    /// Handshakes that began.
    pub handshakes: u64,
    /// The CPU time of all its processes.
    pub cpu_s: f64,
}

/// The fewest handshakes of a slice.
const HANDSHAKES_MIN: u64 = 100;

/// The least CPU time of a slice: ten steps of what `/proc` tells.
const CPU_MIN_S: f64 = 0.1;

impl Measured {
    /// Why a slice of that does not count, if so little was done.
    pub fn why_too_little(&self) -> Option<LeftOut> {
        if self.handshakes < HANDSHAKES_MIN {
            return Some(LeftOut::Handshakes);
        }
        // Sums of steps of 10 ms are a little off.
        (self.cpu_s < CPU_MIN_S - 1e-6).then_some(LeftOut::Cpu)
    }

    /// CPU time over handshakes, whatever it was spent on.
    pub fn cpu_us_per_handshake(&self) -> f64 {
        self.cpu_s * 1e6 / self.handshakes as f64
    }

    fn sum<'a>(all: impl Iterator<Item = &'a Measured>) -> Self {
        let none = Measured { processes: 0, seconds: 0.0, handshakes: 0, cpu_s: 0.0 };
        all.fold(none, |sum, one| Measured {
            processes: sum.processes.max(one.processes),
            seconds: sum.seconds + one.seconds,
            handshakes: sum.handshakes + one.handshakes,
            cpu_s: sum.cpu_s + one.cpu_s,
        })
    }
}

/// Why a slice, and with it its pair, does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// Processes have started or ended.
    Processes,
    /// Too few handshakes began.
    Handshakes,
    /// Too little CPU time was used.
    Cpu,
    /// This command was stopped for so long that the server was on again by itself.
    Late,
}

impl LeftOut {
    /// All of them.
    const ALL: [Self; 4] = [LeftOut::Processes, LeftOut::Handshakes, LeftOut::Cpu, LeftOut::Late];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            LeftOut::Processes => "processes started or ended",
            LeftOut::Handshakes => "fewer than 100 handshakes",
            LeftOut::Cpu => "less than 100 ms of CPU time",
            LeftOut::Late => "this command was kept waiting",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            LeftOut::Processes => "try again when the server is not being reloaded",
            LeftOut::Handshakes | LeftOut::Cpu => {
                "give a longer --slice, or try again when there is more traffic"
            }
            LeftOut::Late => "try again when this machine is less busy",
        }
    }
}

/// One slice of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slice {
    /// Its pair, from 0 on.
    pub pair: usize,
    /// How the server was switched.
    pub setting: Setting,
    /// What it did; nothing where processes started or ended.
    #[serde(flatten)]
    pub measured: Option<Measured>,
    /// Why it does not count.
    pub left_out: Option<LeftOut>,
}

/// The pairs of which both slices count, on and off.
pub fn pairs_of(slices: &[Slice]) -> Vec<(&Measured, &Measured)> {
    let counts = |pair, setting| {
        let is_it = |slice: &&Slice| slice.pair == pair && slice.setting == setting;
        let slice = slices.iter().find(is_it).filter(|slice| slice.left_out.is_none());
        slice.and_then(|slice| slice.measured.as_ref())
    };
    let pairs = slices.last().map_or(0, |last| last.pair + 1);
    (0..pairs)
        .filter_map(|pair| Some((counts(pair, Setting::On)?, counts(pair, Setting::Off)?)))
        .collect()
}

/// CPU time per handshake, on divided by off.
pub fn ratio_of((on, off): (&Measured, &Measured)) -> f64 {
    on.cpu_us_per_handshake() / off.cpu_us_per_handshake()
}

/// What was measured, and what it says.
#[derive(Debug, Serialize)]
pub struct Gain {
    /// The server's program.
    pub server: String,
    /// Whether Widelane saves CPU time.
    pub answer: Answer,
    /// CPU time per handshake, on divided by off: the median of the pairs' ratios, and the ends of
    /// its 95 % interval.
    pub ratio: Option<f64>,
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    /// Cores that are saved at this load.
    pub saved_cores: Option<f64>,
    /// The slices that count, on and off.
    pub on: Option<Side>,
    pub off: Option<Side>,
    /// Pairs that were planned, and those that count.
    pub pairs_planned: usize,
    pub pairs_counted: usize,
    /// Length of a slice, and of the part of it that is not measured.
    pub slice_s: f64,
    pub unmeasured_s: f64,
    /// Why it ended before its time.
    pub ended_early: Option<EarlyEnd>,
    /// All slices.
    pub slices: Vec<Slice>,
}

/// What the pairs say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The whole interval is below 1.
    Saves,
    /// It is above 1.
    Costs,
    /// It includes 1.
    Unclear,
    /// There are too few pairs for an interval.
    TooFewPairs,
}

/// The slices of one setting.
#[derive(Debug, Serialize)]
pub struct Side {
    pub handshakes_per_s: f64,
    pub cpu_us_per_handshake: f64,
    /// CPU time over time.
    pub cores: f64,
}

impl Side {
    fn of<'a>(slices: impl Iterator<Item = &'a Measured>) -> Self {
        let sum = Measured::sum(slices);
        Side {
            handshakes_per_s: sum.handshakes as f64 / sum.seconds,
            cpu_us_per_handshake: sum.cpu_us_per_handshake(),
            cores: sum.cpu_s / sum.seconds,
        }
    }
}

impl Gain {
    /// What the slices say.
    pub fn new(server: String, plan: &Plan, slices: Vec<Slice>, end: Option<EarlyEnd>) -> Self {
        let pairs = pairs_of(&slices);
        let ratios: Vec<f64> = pairs.iter().map(|pair| ratio_of(*pair)).collect();
        let interval = median_with_interval(&ratios).map(|(_, low, high)| (low, high));
        let ratio = median(&ratios);
        let sides = (!pairs.is_empty()).then(|| {
            let on = Side::of(pairs.iter().map(|(on, _)| *on));
            (on, Side::of(pairs.iter().map(|(_, off)| *off)))
        });
        let saved = ratio.zip(sides.as_ref()).map(|(ratio, (_, off))| (1.0 - ratio) * off.cores);
        let pairs_counted = pairs.len();
        let (on, off) = sides.unzip();
        Gain {
            server,
            answer: match interval {
                None => Answer::TooFewPairs,
                Some((_, high)) if high < 1.0 => Answer::Saves,
                Some((low, _)) if low > 1.0 => Answer::Costs,
                Some(_) => Answer::Unclear,
            },
            ratio,
            ratio_low: interval.map(|(low, _)| low),
            ratio_high: interval.map(|(_, high)| high),
            saved_cores: saved,
            on,
            off,
            pairs_planned: plan.pairs,
            pairs_counted,
            slice_s: plan.slice.as_secs_f64(),
            unmeasured_s: plan.unmeasured.as_secs_f64(),
            ended_early: end,
            slices,
        }
    }

    /// Whether the pairs show a difference.
    pub fn is_answer(&self) -> bool {
        matches!(self.answer, Answer::Saves | Answer::Costs)
    }

    /// As text; `is_on` tells whether the server could be switched on at the end.
    pub fn blocks(&self, is_on: bool) -> Vec<Block> {
        let mut blocks = vec![self.lead()];
        if let (Some(on), Some(off)) = (&self.on, &self.off) {
            blocks.push(Block::Table(table(on, off)));
        }
        if let Some(ratio) = self.ratio {
            blocks.push(Block::Text(format!(
                "CPU time per handshake, on divided by off: {ratio:.2}{}, median of {}.",
                self.interval().map_or(String::new(), |[low, high]| format!(
                    " ({low:.2} to {high:.2} with 95 % confidence)"
                )),
                counted(self.pairs_counted, "pair of slices", "pairs of slices"),
            )));
        }
        let end = self.ended_early.map(|end| match end {
            EarlyEnd::Signal if is_on => "It was ended before its time; the server is on.",
            EarlyEnd::Signal => {
                "It was ended before its time; the server is on again by itself after one slice."
            }
            EarlyEnd::SwitchedByOthers => {
                "Somebody else has switched the server meanwhile: it was ended, and left as it is."
            }
            EarlyEnd::ServerEnded => "The server has ended meanwhile.",
        });
        blocks.extend(end.map(|end| Block::Warning(end.to_owned())));
        blocks.extend(LeftOut::ALL.into_iter().filter_map(|why| self.left_out(why)));
        if self.ratio.is_some() {
            blocks.push(Block::Text(
                "Even when it is off, calls pass through Widelane's hooks, which cost 6 to 8 % in \
                 our measurements: compared with a server without Widelane the saving is smaller \
                 by that (docs/operate/operating.md)."
                    .to_owned(),
            ));
        }
        blocks
    }

    fn interval(&self) -> Option<[f64; 2]> {
        Some([self.ratio_low?, self.ratio_high?])
    }

    fn lead(&self) -> Block {
        let server = &self.server;
        let (Some(ratio), Some([low, high])) = (self.ratio, self.interval()) else {
            return Block::Lead(Tone::Unknown, self.too_few());
        };
        let cores = self.saved_cores.unwrap_or_default().abs();
        // Of what it saves, the interval's ends are in the other order.
        let share = |saved: f64, ends: [f64; 2]| {
            let [one, other] = ends.map(|end| (end * 100.0).round());
            format!(
                "{} ({one:.0} to {other:.0} %) of the CPU time per handshake of {server}: \
                 {cores:.2} cores at this load",
                percent(saved)
            )
        };
        match self.answer {
            Answer::Saves => Block::Lead(
                Tone::Better,
                format!("Widelane saves {}.", share(1.0 - ratio, [1.0 - high, 1.0 - low])),
            ),
            Answer::Costs => Block::Lead(
                Tone::Worse,
                format!("Widelane adds {}.", share(ratio - 1.0, [low - 1.0, high - 1.0])),
            ),
            _ => Block::Lead(
                Tone::Same,
                format!(
                    "No answer: the CPU time per handshake of {server} may be the same on and off. \
                     A longer --for narrows the interval; more traffic makes the difference larger."
                ),
            ),
        }
    }

    /// Why there is no interval.
    fn too_few(&self) -> String {
        let counted = counted(self.pairs_counted, "pair of slices counts", "pairs of slices count");
        let mut reasons = LeftOut::ALL.into_iter();
        let usual = reasons.find(|why| self.slices.iter().any(|it| it.left_out == Some(*why)));
        let remedy = match usual {
            Some(usual) => usual.remedy().to_owned(),
            None => {
                let slices = 2.0 * PAIRS_FOR_INTERVAL as f64 * self.slice_s;
                let time = units::words(std::time::Duration::from_secs_f64(slices));
                format!("measure for {time} at least, or in shorter slices")
            }
        };
        format!("No answer: {counted}, and {PAIRS_FOR_INTERVAL} are needed; {remedy}.")
    }

    /// How many slices were left out for one reason.
    fn left_out(&self, why: LeftOut) -> Option<Block> {
        let slices = self.slices.iter().filter(|slice| slice.left_out == Some(why)).count();
        (slices > 0).then(|| {
            let verb = if slices == 1 { "does" } else { "do" };
            let slices = counted(slices, "slice", "slices");
            Block::Warning(format!(
                "{slices} {verb} not count, nor the other of the pair: {}.",
                why.words()
            ))
        })
    }
}

fn table(on: &Side, off: &Side) -> Table {
    let mut table = Table::new(&[
        ("Widelane", Kind::Words),
        ("Handshakes/s", Kind::Number),
        ("CPU µs per handshake", Kind::Figure),
        ("Cores used", Kind::Number),
    ]);
    table.rows.extend([(off, "off"), (on, "on")].map(|(side, name)| {
        vec![
            name.to_owned(),
            count(side.handshakes_per_s.round() as u64),
            count(side.cpu_us_per_handshake.round() as u64),
            format!("{:.2}", side.cores),
        ]
    }));
    table
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use widelane_tables::Style;

    use super::*;

    fn slice(pair: usize, setting: Setting, handshakes: u64, cpu_us: f64) -> Slice {
        let cpu_s = cpu_us * handshakes as f64 / 1e6;
        let measured = Measured { processes: 2, seconds: 8.0, handshakes, cpu_s };
        let left_out = measured.why_too_little();
        Slice { pair, setting, measured: Some(measured), left_out }
    }

    /// A gain of pairs of which each has a ratio.
    fn gain(ratios: &[f64]) -> Gain {
        let slices = ratios.iter().enumerate().flat_map(|(pair, ratio)| {
            Setting::of_pair(pair).map(|setting| match setting {
                Setting::On => slice(pair, setting, 8_000, 400.0 * ratio),
                Setting::Off => slice(pair, setting, 8_000, 400.0),
            })
        });
        of(slices.collect())
    }

    fn of(slices: Vec<Slice>) -> Gain {
        let plan = Plan::new(Duration::from_secs(300), Duration::from_secs(10)).unwrap();
        Gain::new("nginx".to_owned(), &plan, slices, None)
    }

    fn text(gain: &Gain) -> String {
        widelane_tables::show(gain.blocks(true), &Style { colour: false, width: u16::MAX })
    }

    #[test]
    fn pairs_alternate() {
        assert_eq!(Setting::of_pair(0), [Setting::On, Setting::Off]);
        assert_eq!(Setting::of_pair(1), [Setting::Off, Setting::On]);
    }

    #[test]
    fn a_gain_is_told_with_its_interval_and_in_cores() {
        let gain = gain(&[0.69, 0.70, 0.66, 0.69, 0.72, 0.69]);
        assert_eq!((gain.answer, gain.pairs_counted), (Answer::Saves, 6));
        // 1,000 handshakes of 400 µs in a second.
        assert_eq!(gain.off.as_ref().map(|off| (off.cores * 1e3).round()), Some(400.0));
        let text = text(&gain);
        for expected in [
            "Widelane saves 31 % (28 to 34 %) of the CPU time per handshake of nginx: 0.12 cores",
            "on divided by off: 0.69 (0.66 to 0.72 with 95 % confidence), median of 6 pairs",
            "Widelane's hooks",
        ] {
            assert!(text.contains(expected), "{expected} is missing in {text}");
        }
        crate::output::assert_documented(&gain);
    }

    #[test]
    fn a_loss_is_told_as_one() {
        let gain = gain(&[1.10, 1.05, 1.07, 1.10, 1.12, 1.10]);
        assert_eq!((gain.answer, gain.is_answer()), (Answer::Costs, true));
        let text = text(&gain);
        assert!(text.contains("Widelane adds 10 % (5 to 12 %) of the CPU time"), "{text}");
    }

    #[test]
    fn an_interval_around_one_is_no_answer() {
        let gain = gain(&[0.9, 1.0, 0.9, 1.1, 0.9, 0.9]);
        assert_eq!((gain.answer, gain.is_answer()), (Answer::Unclear, false));
        assert!(text(&gain).contains("may be the same on and off"), "{}", text(&gain));
    }

    #[test]
    fn few_pairs_have_a_ratio_and_give_no_answer() {
        let few = gain(&[0.5; 5]);
        assert_eq!((few.answer, few.ratio, few.ratio_low), (Answer::TooFewPairs, Some(0.5), None));
        let said = text(&few);
        assert!(
            said.contains("5 pairs of slices count, and 6 are needed; measure for 2 min"),
            "{said}"
        );
        let none = of(Vec::new());
        assert!(none.on.is_none() && none.ratio.is_none() && !none.is_answer());
        assert!(text(&none).contains("0 pairs of slices count"), "{}", text(&none));
    }

    #[test]
    fn a_slice_that_does_not_count_leaves_its_pair_out() {
        let mut slices = Vec::new();
        for pair in 0..8 {
            slices.push(slice(pair, Setting::Off, 8_000, 400.0));
            slices.push(slice(pair, Setting::On, 8_000, 200.0));
        }
        (slices[3].measured, slices[3].left_out) = (None, Some(LeftOut::Processes));
        slices[4] = slice(2, Setting::Off, 99, 4_000.0);
        let gain = of(slices);
        assert_eq!((gain.pairs_counted, gain.answer), (6, Answer::Saves));
        let said = text(&gain);
        for expected in ["1 slice does not count", "fewer than 100 handshakes", "started or ended"]
        {
            assert!(said.contains(expected), "{expected} is missing in {said}");
        }
        let json = serde_json::to_value(&gain).unwrap();
        assert_eq!(json["slices"][3]["left_out"], "processes");
        assert_eq!(json["slices"][4]["handshakes"], 99);
        assert_eq!(json["slices"][0]["setting"], "off");
    }

    #[test]
    fn too_little_to_do_is_told() {
        assert_eq!(slice(0, Setting::On, 1_000, 90.0).left_out, Some(LeftOut::Cpu));
        assert_eq!(slice(0, Setting::On, 1_000, 100.0).left_out, None);
        let idle = (0..8)
            .flat_map(|pair| Setting::of_pair(pair).map(|setting| slice(pair, setting, 3, 400.0)));
        let said = text(&of(idle.collect()));
        assert!(
            said.contains("0 pairs of slices count, and 6 are needed; give a longer"),
            "{said}"
        );
        assert!(said.contains("16 slices do not count"), "{said}");
    }
}
