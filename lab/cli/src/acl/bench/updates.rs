//! What changes of rules cost the lookups that go on meanwhile.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use widelane_bench::accounting::thread_cpu;
use widelane_bench::pairs::with_ratio;
use widelane_bench::stats;
use widelane_classify::live::{Live, Reader, RuleId, UpdateError};
use widelane_classify::rule::{Match, Rule, RuleSet};
use widelane_classify::{Classifier, Flow, LookupError, Table};
use widelane_cli::system;
use widelane_cpu::Policy;
use widelane_meter::place;
use widelane_results::{Results, Row};
use widelane_tables::{Block, Kind, Table as Sheet};

use super::{Args, Set};
use crate::acl::build::limits;
use crate::measure;

/// A slice of lookups without changes.
const QUIET: Duration = Duration::from_millis(250);
/// A slice with changes: long enough for tables to be built meanwhile.
const BUSY: Duration = Duration::from_secs(1);
/// Microseconds within which changes are counted.
const BANDS: [u32; 8] = [10, 30, 100, 300, 1000, 3000, 10_000, 100_000];
/// A share of the rate asked for below which a note says so.
const ACHIEVED_MIN: f64 = 0.95;
/// Rules that come and go: so many are there at a time.
const GUESTS: usize = 1000;

/// Measures all rule files of a command line.
pub fn run(
    args: &Args,
    sets: &[Set<'_>],
    rate: u32,
    stop: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let &[burst] = args.burst.as_slice() else {
        bail!("--updates measures bursts of one length; give --burst one number");
    };
    let resolved = system::policy()?;
    let programs = measure::programs()?;
    let mut results = measure::blank(widelane_bench::machine::describe(&programs, &resolved));
    let began = Instant::now();
    let cpus = place::allowed();
    let cpu = super::cpu(args.cpu, &cpus)?;
    let mut blocks = Vec::new();
    let outcome = sets.iter().try_for_each(|Set { path, rules, flows }| {
        // Who changes rules and builds tables stays off the CPU that looks packets up.
        let others: Vec<usize> = cpus.iter().copied().filter(|other| *other != cpu).collect();
        place::roam(if others.is_empty() { &cpus } else { &others });
        let limits = limits(args.memory_max);
        let unusable = || format!("cannot build a table of {}", path.display());
        let live = Live::new(rules, &limits, &resolved.policy).with_context(unusable)?;
        let table = Table::build(rules, &limits).with_context(unusable)?;
        let name = super::name(path);
        let burst = burst as usize;
        let setup = Setup { name, set: rules, flows, live: &live, rate, burst };
        let plain = Classifier::choose(table.into(), &Policy::clone(&resolved.policy));
        let held = setup.hold(args.rounds, &plain, cpu, stop, &mut results, &mut blocks);
        drop(args.keep(&results));
        held
    });
    args.finish(results, began, blocks, outcome)
}

/// Lookups in one set, with and without changes.
struct Setup<'a> {
    name: String,
    set: &'a RuleSet,
    flows: &'a [Flow],
    live: &'a Live,
    /// Changes per second.
    rate: u32,
    /// Packets per call.
    burst: usize,
}

/// Nanoseconds per lookup.
#[derive(Clone, Copy)]
struct Cost {
    /// Of the CPU: what the thread waits for its turn does not count.
    computed: f64,
    /// By the clock.
    elapsed: f64,
}

/// What lookups cost in one round.
struct Round {
    table: Cost,
    quiet: Cost,
    busy: Cost,
}

/// One of a round's costs, and one of the two ways to tell it.
type Figure = fn(&Round) -> Cost;
type Clock = fn(Cost) -> f64;

/// What all changes took, in microseconds, each list in ascending order.
struct Latencies {
    /// Until readers see them.
    visible: Vec<f64>,
    /// Of the CPU: without what the thread waited for its turn.
    computed: Vec<f64>,
}

impl Latencies {
    fn of(changes: &[(Duration, Duration)]) -> Self {
        let sorted = |part: fn(&(Duration, Duration)) -> Duration| {
            let mut all: Vec<f64> = changes.iter().map(|of| part(of).as_secs_f64() * 1e6).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        Latencies { visible: sorted(|change| change.0), computed: sorted(|change| change.1) }
    }

    /// How many changes were visible, and how many computed, within each of the [`BANDS`].
    fn within(&self) -> impl Iterator<Item = (u32, [usize; 2])> {
        let count = |of: &[f64], most: u32| of.partition_point(|us| *us <= f64::from(most));
        BANDS
            .into_iter()
            .map(move |most| (most, [count(&self.visible, most), count(&self.computed, most)]))
    }

    /// What is recorded and shown of them: a name, and microseconds.
    fn figures(&self) -> [(&'static str, f64); 4] {
        let quantile = |of: &[f64], share: f64| {
            let place = ((of.len() as f64 * share) as usize).min(of.len().max(1) - 1);
            of.get(place).copied().unwrap_or_default()
        };
        [
            ("visible_median_us", quantile(&self.visible, 0.5)),
            ("visible_p99_us", quantile(&self.visible, 0.99)),
            ("visible_longest_us", quantile(&self.visible, 1.0)),
            ("computed_longest_us", quantile(&self.computed, 1.0)),
        ]
    }
}

/// What the thread that changes rules shares with the one that looks packets up.
struct Pace<'a> {
    busy: AtomicBool,
    ended: AtomicBool,
    /// Held while a rule changes, and while the rules are put back.
    mix: Mutex<Mix<'a>>,
}

impl<'a> Pace<'a> {
    fn mix(&self) -> MutexGuard<'_, Mix<'a>> {
        self.mix.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Setup<'_> {
    fn hold(
        &self,
        rounds_wanted: u32,
        plain: &Classifier,
        cpu: usize,
        stop: &AtomicBool,
        results: &mut Results,
        blocks: &mut Vec<Block>,
    ) -> anyhow::Result<()> {
        let mix = Mutex::new(Mix::new(self)?);
        let pace = Pace { busy: AtomicBool::new(false), ended: AtomicBool::new(false), mix };
        let packets: Vec<&[u8]> = self.flows.iter().map(Flow::packet).collect();
        let mut reader = self.live.reader();
        let mut rounds = Vec::new();
        let mut elapsed = Duration::ZERO;
        let (outcome, changes) = thread::scope(|scope| {
            let changer = scope.spawn(|| self.change(&pace));
            let outcome = (|| -> anyhow::Result<()> {
                place::stay_on(cpu)?;
                for _ in 0..rounds_wanted {
                    super::go_on(stop)?;
                    if changer.is_finished() {
                        break;
                    }
                    // Each round begins with the rules of the file: changes of the last one may
                    // have moved some behind others of their priority.
                    let mut mix = pace.mix();
                    self.live.replace(self.set)?;
                    *mix = Mix::new(self)?;
                    drop(mix);
                    self.live.settle();
                    let by_table =
                        |packets: &[&[u8]], results: &mut [u32]| plain.classify(packets, results);
                    let table = self.time(QUIET, &packets, by_table)?;
                    let quiet = self.time(QUIET, &packets, by_reader(&mut reader))?;
                    pace.busy.store(true, Ordering::Relaxed);
                    let began = Instant::now();
                    let busy = self.time(BUSY, &packets, by_reader(&mut reader));
                    elapsed += began.elapsed();
                    pace.busy.store(false, Ordering::Relaxed);
                    rounds.push(Round { table, quiet, busy: busy? });
                }
                Ok(())
            })();
            pace.ended.store(true, Ordering::Relaxed);
            (outcome, changer.join())
        });
        let changes = changes.map_err(|_| anyhow::anyhow!("the changes panicked"))?;
        let changes =
            changes.with_context(|| format!("cannot change the rules of {}", self.name))?;
        if rounds.is_empty() {
            return outcome;
        }
        let latencies = Latencies::of(&changes);
        let rate = changes.len() as f64 / elapsed.as_secs_f64();
        self.record(&rounds, &latencies, rate, results);
        if rate < ACHIEVED_MIN * f64::from(self.rate) {
            results.note(format!(
                "{}: {rate:.0} of {} changes per second were made.",
                self.name, self.rate
            ));
        }
        blocks.extend(self.blocks(&rounds, &latencies, rate));
        outcome
    }

    /// Changes rules while it should, at its rate at most; returns how long each change took, and
    /// how much of that this thread had a CPU.
    fn change(&self, pace: &Pace<'_>) -> anyhow::Result<Vec<(Duration, Duration)>> {
        let (mut changes, mut next) = (Vec::new(), Instant::now());
        while !pace.ended.load(Ordering::Relaxed) {
            let now = Instant::now();
            if !pace.busy.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
                next = Instant::now();
            } else if now < next {
                thread::sleep(next - now);
            } else {
                next += Duration::from_secs(1) / self.rate;
                let mut mix = pace.mix();
                if !pace.busy.load(Ordering::Relaxed) {
                    continue;
                }
                let computed = thread_cpu();
                let now = Instant::now();
                mix.one(self.live)?;
                changes.push((now.elapsed(), thread_cpu() - computed));
            }
        }
        Ok(changes)
    }

    /// What a lookup costs, over about as long as `slice`.
    fn time(
        &self,
        slice: Duration,
        packets: &[&[u8]],
        mut classify: impl FnMut(&[&[u8]], &mut [u32]) -> Result<(), LookupError>,
    ) -> anyhow::Result<Cost> {
        let categories = self.set.categories;
        let mut results = vec![0; packets.len() * categories];
        let (began, start) = (Instant::now(), thread_cpu());
        let mut passes = 0;
        while began.elapsed() < slice {
            let bursts = results.chunks_mut(self.burst * categories);
            for (packets, results) in packets.chunks(self.burst).zip(bursts) {
                classify(packets, results)?;
            }
            passes += 1;
        }
        let lookups = (passes * packets.len()).max(1) as f64;
        let each = |time: Duration| time.as_secs_f64() * 1e9 / lookups;
        Ok(Cost { computed: each(thread_cpu() - start), elapsed: each(began.elapsed()) })
    }

    fn record(&self, rounds: &[Round], latencies: &Latencies, rate: f64, results: &mut Results) {
        let named = || Row {
            scenario: format!("acl/{}/updates{}", self.name, self.rate),
            subject: "widelane".to_owned(),
            room: Some(self.live.room().to_string()),
            ..Row::default()
        };
        let against: [(&str, Figure); 2] =
            [("live/quiet", |round| round.quiet), ("table", |round| round.table)];
        let clocks: [(&str, Clock); 2] = [
            ("ns_per_lookup", |cost| cost.computed),
            ("elapsed_ns_per_lookup", |cost| cost.elapsed),
        ];
        for (metric, clock) in clocks {
            for (rival, of) in against {
                let pairs: Vec<(f64, f64)> =
                    rounds.iter().map(|round| (clock(round.busy), clock(of(round)))).collect();
                let ratio = stats::ratio(&pairs);
                let row = Row {
                    metric: metric.to_owned(),
                    unit: "ns".to_owned(),
                    value: stats::median(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>()),
                    ..named()
                };
                results.rows.push(with_ratio(row, rival, ratio));
            }
        }
        results.rows.extend(latencies.figures().map(|(metric, value)| Row {
            metric: metric.to_owned(),
            unit: "us".to_owned(),
            value: Some(value),
            ..named()
        }));
        results.rows.push(Row {
            metric: "changes_per_second".to_owned(),
            unit: "1/s".to_owned(),
            value: Some(rate),
            ..named()
        });
        results.rows.push(Row {
            metric: "heaviest_change".to_owned(),
            unit: "cells and rules".to_owned(),
            value: Some(self.live.heaviest_change() as f64),
            ..named()
        });
        for (most, [visible, computed]) in latencies.within() {
            results.rows.extend([("visible", visible), ("computed", computed)].map(
                |(what, count)| Row {
                    metric: format!("{what}_within_{most}_us"),
                    unit: "changes".to_owned(),
                    value: Some(count as f64),
                    ..named()
                },
            ));
        }
    }

    fn blocks(&self, rounds: &[Round], latencies: &Latencies, rate: f64) -> Vec<Block> {
        let [median, most, longest, computed] = latencies.figures().map(|(_, of)| of);
        let facts = format!(
            "{} rules, {} flows; {rate:.0} changes per second, each seen by every lookup that \
             begins after {median:.0} µs (median), {most:.0} µs (99 %), {longest:.0} µs (longest); \
             none took more than {computed:.0} µs of CPU time, the rest is waiting for a CPU or a \
             rebuild; the heaviest looked at or wrote {} cells and rules",
            self.set.rules.len(),
            self.flows.len(),
            self.live.heaviest_change(),
        );
        let mut sheet = Sheet::new(&[
            ("Lookups", Kind::Words),
            ("ns of CPU", Kind::Number),
            ("ns in all", Kind::Number),
            ("Rate of the table's", Kind::Words),
            ("Rate without changes", Kind::Words),
        ]);
        let subjects: [(&str, Figure); 3] = [
            ("in a table", |round| round.table),
            ("in a live set without changes", |round| round.quiet),
            ("while rules change", |round| round.busy),
        ];
        for (who, of) in subjects {
            let median = |clock: Clock| {
                let all: Vec<f64> = rounds.iter().map(|round| clock(of(round))).collect();
                stats::median(&all).map_or(String::new(), |ns| format!("{ns:.1}"))
            };
            let rate = |rival: Figure| {
                let pair = |round: &Round| (rival(round).computed, of(round).computed);
                let pairs: Vec<(f64, f64)> = rounds.iter().map(pair).collect();
                stats::ratio(&pairs).map_or(String::new(), |ratio| ratio.to_string())
            };
            sheet.rows.push(vec![
                who.to_owned(),
                median(|cost| cost.computed),
                median(|cost| cost.elapsed),
                rate(|round| round.table),
                rate(|round| round.quiet),
            ]);
        }
        let mut bands = Sheet::new(&[
            ("Of all changes, within µs", Kind::Number),
            ("Seen by lookups", Kind::Number),
            ("By CPU time", Kind::Number),
        ]);
        let all = latencies.visible.len().max(1);
        for (most, counts) in latencies.within() {
            let share = |count: usize| format!("{:.3} %", 100.0 * count as f64 / all as f64);
            let [visible, computed] = counts.map(share);
            bands.rows.push(vec![most.to_string(), visible, computed]);
        }
        vec![
            Block::Heading(self.name.clone()),
            Block::Text(facts),
            Block::Table(sheet.without_empty_columns()),
            Block::Table(bands),
        ]
    }
}

/// Which rules change: in turn, a rule for one flow comes before all others; the oldest such rule
/// goes; a rule of the set gets another result; a rule of the set goes; and it comes back.
struct Mix<'a> {
    setup: &'a Setup<'a>,
    /// The rules of the set, by their numbers.
    rules: Vec<(RuleId, Rule)>,
    guests: VecDeque<RuleId>,
    /// The rule that has gone and comes back.
    away: Option<usize>,
    first: i32,
    turn: usize,
}

impl<'a> Mix<'a> {
    fn new(setup: &'a Setup<'a>) -> Result<Self, UpdateError> {
        let rules = setup.live.rules()?;
        let highest = setup.set.rules.iter().map(|rule| rule.priority).max().unwrap_or(0);
        let first = highest.saturating_add(1);
        Ok(Mix { setup, rules, guests: VecDeque::new(), away: None, first, turn: 0 })
    }

    fn one(&mut self, live: &Live) -> anyhow::Result<()> {
        self.turn += 1;
        // Multiples of a large odd number visit all rules in an order that nothing else has.
        let at = self.turn.wrapping_mul(0x9e37_79b1) >> 3;
        match self.turn % 5 {
            1 => self.guests.push_back(live.insert(self.guest(at))?),
            2 if self.guests.len() > GUESTS => {
                if let Some(oldest) = self.guests.pop_front() {
                    live.remove(oldest)?;
                }
            }
            2 | 3 if !self.rules.is_empty() => {
                let at = at % self.rules.len();
                let (id, rule) = &mut self.rules[at];
                rule.result = rule.result.wrapping_add(1);
                live.change(*id, rule.clone())?;
            }
            4 if !self.rules.is_empty() => {
                let at = at % self.rules.len();
                live.remove(self.rules[at].0)?;
                self.away = Some(at);
            }
            _ => {
                if let Some(at) = self.away.take() {
                    let (id, rule) = &mut self.rules[at];
                    *id = live.insert(rule.clone())?;
                }
            }
        }
        Ok(())
    }

    /// A rule for one flow.
    fn guest(&self, at: usize) -> Rule {
        let flow = &self.setup.flows[at % self.setup.flows.len()];
        let layout = &self.setup.set.layout;
        let exact = |field| Match::exact(layout.value(field, flow.packet()), field.bytes);
        Rule {
            matches: layout.fields().iter().map(exact).collect(),
            priority: self.first,
            categories: 1,
            result: at as u32,
            line: 0,
        }
    }
}

fn by_reader(
    reader: &mut Reader,
) -> impl FnMut(&[&[u8]], &mut [u32]) -> Result<(), LookupError> + '_ {
    |packets, results| reader.classify(packets, results).map(drop)
}

#[cfg(test)]
mod tests {
    use widelane_classify::Limits;
    use widelane_classify::rule::dpdk;

    use super::*;

    #[test]
    fn rounds_before_an_interruption_are_kept() {
        let set = dpdk::parse("rules", "R10.0.0.0/8 0.0.0.0/0 0 : 9 0 : 9 6/0xff 1\n").unwrap();
        let (limits, policy) = (Limits::default(), Policy::open());
        let live = Live::new(&set, &limits, &policy).unwrap();
        let plain = Classifier::choose(Table::build(&set, &limits).unwrap().into(), &policy);
        let flows = Flow::drawn(&set, 100, 1).unwrap();
        let name = "a".to_owned();
        let setup = Setup { name, set: &set, flows: &flows, live: &live, rate: 50, burst: 32 };
        let stop = AtomicBool::new(false);
        let (mut results, mut blocks) = (Results::default(), Vec::new());
        let outcome = thread::scope(|scope| {
            // Amid the first round: in its last part rules come.
            scope.spawn(|| {
                let began = Instant::now();
                while live.rules().unwrap().len() == 1 && began.elapsed() < Duration::from_secs(60)
                {
                    thread::sleep(Duration::from_millis(1));
                }
                stop.store(true, Ordering::Relaxed);
            });
            setup.hold(1000, &plain, place::here(), &stop, &mut results, &mut blocks)
        });
        assert_eq!(outcome.unwrap_err().to_string(), "interrupted");
        let metrics: Vec<&str> = results.rows.iter().map(|row| row.metric.as_str()).collect();
        assert!(metrics.contains(&"changes_per_second"), "{metrics:?}");
        assert_eq!(blocks.len(), 4);
    }
}
