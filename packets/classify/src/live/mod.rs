//! Rule sets that change while packets are looked up.
//!
//! A [`Live`] set keeps the trees of its table so that rules can be inserted and removed, one by
//! one. Readers look packets up in versions of the table: a writer corrects one that no reader
//! holds, and publishes it in one step. A reader never waits, and sees one version in all packets
//! of a call. A thread rebuilds the trees in the background when they have become inefficient.
//!
//! # Examples
//!
//! ```
//! use widelane_classify::live::Live;
//! use widelane_classify::rule::{Match, dpdk};
//! use widelane_classify::{Flow, Limits};
//! use widelane_cpu::Policy;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rules = "R10.0.0.0/8 0.0.0.0/0 0 : 65535 0 : 65535 0/0 1\n";
//! let set = dpdk::parse("example.rules", rules)?;
//! let mut deny = set.rules[0].clone();
//! deny.matches[0] = Match::exact(0x0a01_0203, 4);
//! (deny.priority, deny.result) = (1, dpdk::DENY);
//!
//! let live = Live::new(&set, &Limits::default(), &Policy::open())?;
//! let mut reader = live.reader();
//! let flow = Flow::v4(0x0a01_0203, 0xc0a8_0001, [40_000, 80], 6);
//! let mut results = [0];
//! let id = live.insert(deny)?;
//! reader.classify(&[flow.packet()], &mut results)?;
//! assert_eq!(results, [dpdk::DENY]);
//! live.remove(id)?;
//! reader.classify(&[flow.packet()], &mut results)?;
//! assert_eq!(results, [1]);
//! # Ok(())
//! # }
//! ```

#[cfg(test)]
mod bounds;
mod builder;
mod draft;
mod fork;
mod published;
mod relay;
mod signals;
mod slots;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use widelane_cpu::{Policy, Room};

use self::builder::Builder;
use self::draft::{Change, Draft, Version};
use self::fork::ForkMutex;
use self::published::{Latest, Published, View};
use self::relay::Relay;
use crate::build::{self, BuildError, categories_of};
use crate::rule::{Rule, RuleSet};
use crate::{Limits, LookupError};

/// Names a rule of a live set, from its insertion to its removal.
///
/// The rules of the set that a [`Live`] begins with have the numbers from 0 in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u64);

/// How many cells a change looks at, and rules it writes, at most; see docs/program/live-rules.md.
pub const WORK_MAX: usize = 192 << 10;

/// Why a set was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// There is no such rule, or no more.
    #[error("there is no rule {}; it may have been removed", .0.0)]
    NoSuchRule(RuleId),
    /// The rules cannot be built into a table.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Readers rely on where the fields lie and how many results there are.
    #[error("the new rules look at other fields or have other categories; begin another set")]
    OtherShape,
    /// A thread was changing the rules when this process was forked from another, so they may be
    /// changed half. Lookups go on.
    #[error("the rules were being changed when this process was forked; begin another set")]
    Forked,
}

/// A rule set that changes while packets are looked up.
///
/// All methods take `&self`, from any number of threads; changes wait for each other.
///
/// A forked child has a set of its own, with the rules of that moment. Its thread is missing there,
/// so the first change in a child takes longer: it rebuilds the trees, or fails as
/// [`new`](Self::new) does, and starts another thread. If a thread of the parent was changing rules
/// at the fork, changes in the child are [refused](UpdateError::Forked).
#[derive(Debug)]
pub struct Live {
    roll: ForkMutex<Roll>,
    published: Published<Version>,
    /// In a forked child that of the parent, until the first change.
    builder: ArcSwap<Builder>,
    heaviest: AtomicUsize,
    limits: Limits,
    policy: Policy,
}

/// Looks packets up in a live set; each thread has one of its own.
#[derive(Clone, Debug)]
pub struct Reader {
    view: View<Version>,
}

/// The rules by their numbers.
#[derive(Debug)]
struct Roll {
    /// No rules, but all else.
    shape: RuleSet,
    rules: BTreeMap<u64, Arc<Candidate>>,
    next_id: u64,
}

/// A rule as it stands in a set.
#[derive(Debug)]
struct Candidate {
    strength: Strength,
    rule: Rule,
}

/// What decides between rules that match: the lesser is the stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Strength {
    priority: Reverse<i32>,
    /// The rule's number: of equal priorities, the rule that was there first wins.
    place: u64,
}

impl Live {
    /// Builds a table of a set, and starts the thread that will rebuild it.
    ///
    /// # Errors
    ///
    /// Those of [`Table::build`](crate::Table::build), and [`BuildError::NoThread`].
    pub fn new(set: &RuleSet, limits: &Limits, policy: &Policy) -> Result<Self, BuildError> {
        let roll = Roll::of(set, 0);
        let relay = Relay::new(roll.draft(limits, policy, 0)?);
        let published = relay.published();
        let builder = Builder::start(relay, *limits, policy.clone())?;
        Ok(Live {
            roll: ForkMutex::new(roll),
            published,
            builder: ArcSwap::from_pointee(builder),
            heaviest: AtomicUsize::new(0),
            limits: *limits,
            policy: policy.clone(),
        })
    }

    /// What looks packets up.
    pub fn reader(&self) -> Reader {
        Reader { view: self.published.view() }
    }

    /// Adds a rule, behind those of its priority. Readers see it when this returns.
    ///
    /// # Errors
    ///
    /// If the rule does not fit the layout, is in none of the set's categories, or has ranges that
    /// make too many pieces: whether those of a field are compared as they are or as prefixes
    /// depends on the rules when the set began or was [replaced](Self::replace), so `replace` may
    /// take such a rule with all others.
    pub fn insert(&self, rule: Rule) -> Result<RuleId, UpdateError> {
        let mut roll = self.roll.lock()?;
        let id = roll.next_id;
        let new = Arc::new(Candidate::new(id, rule));
        self.publish(&roll, None, Some(&new))?;
        roll.next_id += 1;
        roll.rules.insert(id, new);
        Ok(RuleId(id))
    }

    /// Removes a rule, and returns it. No reader sees it any more when this returns.
    ///
    /// # Errors
    ///
    /// If there is no such rule.
    pub fn remove(&self, id: RuleId) -> Result<Rule, UpdateError> {
        let mut roll = self.roll.lock()?;
        let old = roll.rules.get(&id.0).ok_or(UpdateError::NoSuchRule(id))?;
        self.publish(&roll, Some(old), None)?;
        let rule = old.rule.clone();
        roll.rules.remove(&id.0);
        Ok(rule)
    }

    /// Replaces a rule by another, in one step. It keeps its number, and its place among rules of
    /// equal priority.
    ///
    /// # Errors
    ///
    /// If there is no such rule, and those of [`insert`](Self::insert).
    pub fn change(&self, id: RuleId, rule: Rule) -> Result<(), UpdateError> {
        let mut roll = self.roll.lock()?;
        let old = roll.rules.get(&id.0).ok_or(UpdateError::NoSuchRule(id))?;
        let new = Arc::new(Candidate::new(id.0, rule));
        self.publish(&roll, Some(old), Some(&new))?;
        roll.rules.insert(id.0, new);
        Ok(())
    }

    /// Replaces all rules and the default, in one step, once a table of them is built. Other
    /// changes wait meanwhile; readers do not. The new rules get the next numbers, in their order;
    /// the first of these is returned.
    ///
    /// # Errors
    ///
    /// If no table can be built, or the layout or the number of categories is another; the rules
    /// stay as they were.
    pub fn replace(&self, set: &RuleSet) -> Result<RuleId, UpdateError> {
        let mut roll = self.roll.lock()?;
        let shape = &roll.shape;
        if shape.layout != set.layout || shape.categories != set.categories {
            return Err(UpdateError::OtherShape);
        }
        let first = roll.next_id;
        let new = Roll::of(set, first);
        let draft = new.draft(&self.limits, &self.policy, self.version() + 1)?;
        let builder = self.builder.load();
        if builder.is_here() {
            builder.reset(draft);
        } else {
            self.begin_in_child(&builder, draft)?;
        }
        *roll = new;
        Ok(RuleId(first))
    }

    /// All rules with their numbers, the strongest first.
    ///
    /// # Errors
    ///
    /// [`UpdateError::Forked`].
    pub fn rules(&self) -> Result<Vec<(RuleId, Rule)>, UpdateError> {
        let roll = self.roll.lock()?;
        let rules = roll.by_strength().into_iter();
        Ok(rules.map(|of| (RuleId(of.strength.place), of.rule.clone())).collect())
    }

    /// How many changes there have been.
    pub fn version(&self) -> u64 {
        self.latest().number
    }

    /// How many changes there have been since the trees were built that lookups go through.
    pub fn pending(&self) -> usize {
        self.latest().pending
    }

    /// How many cells the heaviest change so far has looked at, and rules it has written: never
    /// more than [`WORK_MAX`], whatever the rules.
    pub fn heaviest_change(&self) -> usize {
        self.heaviest.load(Ordering::Relaxed)
    }

    /// Why the trees could not be rebuilt, if so. Lookups are right all the same, but may get
    /// slower with every change.
    pub fn trouble(&self) -> Option<BuildError> {
        self.builder.load().trouble()
    }

    /// Has the trees rebuilt from the rules as they are now, and waits for it.
    pub fn settle(&self) {
        let builder = self.roll.lock().and_then(|roll| Ok(self.builder(&roll)?));
        if let Ok(builder) = builder {
            builder.settle();
        }
    }

    /// The room that lookups take.
    pub fn room(&self) -> Room {
        self.latest().room()
    }

    fn latest(&self) -> Latest<Version> {
        self.published.latest()
    }

    fn publish(
        &self,
        roll: &Roll,
        old: Option<&Arc<Candidate>>,
        new: Option<&Arc<Candidate>>,
    ) -> Result<(), BuildError> {
        if let Some(new) = new {
            build::check_rule(&new.rule, &roll.shape.layout)?;
            if new.rule.categories & categories_of(roll.shape.categories) == 0 {
                return Err(BuildError::NoCategory { line: new.rule.line });
            }
        }
        let builder = self.builder(roll)?;
        let change = Change { old: old.cloned(), new: new.cloned() };
        let report = match builder.relay().change(change.clone()) {
            // Since the trees were built, thousands of rules have come that trees cannot take.
            Err(
                BuildError::LeafTooLong { .. }
                | BuildError::TooManyRules { .. }
                | BuildError::NoRank,
            ) => {
                builder.settle();
                builder.relay().change(change)?
            }
            outcome => outcome?,
        };
        self.heaviest.fetch_max(report.work, Ordering::Relaxed);
        builder.note(report);
        Ok(())
    }

    /// The builder of this process. In a forked child, that begins with trees built anew.
    fn builder(&self, roll: &Roll) -> Result<Arc<Builder>, BuildError> {
        let builder = self.builder.load_full();
        if builder.is_here() {
            return Ok(builder);
        }
        let draft = roll.draft(&self.limits, &self.policy, self.version());
        let begun = draft.and_then(|draft| self.begin_in_child(&builder, draft));
        begun.inspect_err(|error| builder.set_trouble(error.clone()))
    }

    /// Begins a builder for a forked child, in place of the parent's.
    fn begin_in_child(&self, parent: &Builder, draft: Draft) -> Result<Arc<Builder>, BuildError> {
        let relay = parent.relay().beside(draft);
        let builder = Arc::new(Builder::start(relay, self.limits, self.policy.clone())?);
        builder.relay().succeed_in_child();
        self.builder.store(Arc::clone(&builder));
        Ok(builder)
    }
}

impl Reader {
    /// Looks up packets in the latest version, and returns its number; see
    /// [`Classifier::classify`](crate::Classifier::classify).
    ///
    /// # Errors
    ///
    /// If a packet is shorter than the layout's span, or `results` has another length; nothing has
    /// been looked up then.
    pub fn classify(&mut self, packets: &[&[u8]], results: &mut [u32]) -> Result<u64, LookupError> {
        let version = self.view.latest();
        version.classify(packets, results)?;
        Ok(version.number)
    }
}

impl Roll {
    /// The rules of a set, with numbers from `first` on.
    fn of(set: &RuleSet, first: u64) -> Self {
        let rules = (first..).zip(&set.rules);
        Roll {
            shape: RuleSet { layout: set.layout.clone(), rules: Vec::new(), ..*set },
            rules: rules
                .map(|(id, rule)| (id, Arc::new(Candidate::new(id, rule.clone()))))
                .collect(),
            next_id: first + set.rules.len() as u64,
        }
    }

    /// Trees of the rules, after `number` changes.
    fn draft(&self, limits: &Limits, policy: &Policy, number: u64) -> Result<Draft, BuildError> {
        let candidates: Vec<Arc<Candidate>> = self.by_strength().into_iter().cloned().collect();
        Draft::of(&self.shape, &candidates, limits, policy, number)
    }

    /// All rules, the strongest first.
    fn by_strength(&self) -> Vec<&Arc<Candidate>> {
        let mut rules: Vec<&Arc<Candidate>> = self.rules.values().collect();
        rules.sort_by_key(|candidate| candidate.strength);
        rules
    }
}

impl Candidate {
    /// A rule of a number.
    fn new(id: u64, rule: Rule) -> Self {
        Candidate { strength: Strength { priority: Reverse(rule.priority), place: id }, rule }
    }

    fn differs_in_result_only(&self, other: &Candidate) -> bool {
        self.strength == other.strength
            && self.rule.matches == other.rule.matches
            && self.rule.categories == other.rule.categories
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flow;
    use crate::rule::{Layout, Match};

    /// A rule for UDP packets to some ports.
    fn to_ports(ports: Match, priority: i32, result: u32) -> Rule {
        let matches = [Match::ANY, Match::ANY, Match::ANY, ports, Match::exact(17, 1)];
        Rule { matches: matches.into(), priority, categories: 1, result, line: 0 }
    }

    /// Rules for one port each; the weakest, number 12,000, for all of them; number 12,001 for
    /// some, before all others but one; that one, number 12,002; and number 12,003 behind both.
    fn with_broad_rules() -> (RuleSet, Live) {
        let mut set = RuleSet::new(Layout::ipv4());
        set.rules =
            (0..12_000).map(|port| to_ports(Match::exact(port, 2), 0, port as u32)).collect();
        set.rules.push(to_ports(Match::range(0, 12_500), -9, 7777));
        set.rules.push(to_ports(Match::range(0, 999), 9, 9999));
        set.rules.push(to_ports(Match::range(100, 199), 10, 3333));
        set.rules.push(to_ports(Match::range(150, 250), 1, 4444));
        let live = Live::new(&set, &Limits::default(), &Policy::open()).unwrap();
        (set, live)
    }

    fn result_at(live: &Live, port: u16) -> u32 {
        let flow = Flow::v4(1, 2, [3, port], 17);
        let mut results = [0];
        live.reader().classify(&[flow.packet()], &mut results).unwrap();
        results[0]
    }

    #[test]
    fn a_broad_rule_goes_at_once_and_leaves_its_cells_later() {
        let (set, live) = with_broad_rules();
        let gone = || live.builder.load().relay().look(Draft::gone);
        let at = |port| result_at(&live, port);
        assert_eq!((gone(), at(7), at(2000), at(12_200)), (0, 9999, 2000, 7777));
        live.change(RuleId(12_000), to_ports(Match::range(0, 12_500), -9, 5555)).unwrap();
        assert_eq!((gone(), at(7), at(12_200)), (1, 9999, 5555), "its cells still say 7777");
        live.remove(RuleId(12_001)).unwrap();
        assert_eq!((gone(), at(7), at(999), at(12_200)), (2, 7, 999, 5555));
        assert_eq!((at(120), at(150), at(220)), (3333, 3333, 4444));
        live.remove(RuleId(12_002)).unwrap();
        assert_eq!((at(120), at(150), at(220)), (120, 4444, 4444), "what both have hidden");
        live.remove(RuleId(7)).unwrap();
        assert_eq!((gone(), at(7), at(8)), (2, 5555, 8));
        live.change(RuleId(8), to_ports(Match::exact(8, 2), 0, 1111)).unwrap();
        live.remove(RuleId(12_000)).unwrap();
        assert_eq!((at(7), at(8), at(12_200)), (set.default, 1111, set.default));
        for result in 0..100 {
            live.change(RuleId(8), to_ports(Match::exact(8, 2), 0, 1000 + result)).unwrap();
        }
        assert_eq!((gone(), at(7), at(8), at(12_200)), (0, set.default, 1099, set.default));
        live.change(RuleId(8), to_ports(Match::exact(8, 2), 0, 1111)).unwrap();
        live.settle();
        assert_eq!((gone(), at(7), at(8), at(12_200)), (0, set.default, 1111, set.default));
    }
}
