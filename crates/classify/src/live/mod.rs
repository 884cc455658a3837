//! Rule sets that change while packets are looked up.
//!
//! A [`Live`] set keeps a table for lookups and an index that can be changed rule by rule. Readers
//! ask the table, and the index about the few packets that a change since its building may concern.
//! When many rules have changed, a thread builds another table in the background. Every change is
//! published as a new version, in one step; a reader never waits, and sees one version in all
//! packets of a call.
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

mod builder;
mod filter;
mod index;
mod paged;
mod published;
mod relay;
mod version;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use widelane_cpu::{Policy, Room};

use self::builder::Builder;
use self::published::View;
use self::relay::Relay;
use self::version::{Change, Version};
use crate::build::BuildError;
use crate::rule::{Layout, Rule, RuleSet};
use crate::{Limits, LookupError, Table};

/// Names a rule of a live set, from its insertion to its removal.
///
/// The rules of the set that a [`Live`] begins with have the numbers from 0 in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u64);

/// Why a set was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// There is no such rule, or no more.
    #[error("there is no rule {}; it may have been removed", .0.0)]
    NoSuchRule(RuleId),
    /// The rules cannot be built into a table.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Readers count on where the fields lie and how many results there are.
    #[error("the new rules look at other fields or have other categories; begin another set")]
    OtherShape,
}

/// A rule set that changes while packets are looked up.
///
/// All methods take `&self`, from any number of threads; changes wait for each other.
#[derive(Debug)]
pub struct Live {
    roll: Mutex<Roll>,
    relay: Arc<Relay<Version, Change>>,
    builder: Builder,
    limits: Limits,
    policy: Policy,
}

/// Looks packets up in a live set; each thread has one of its own.
///
/// An idle reader keeps the version that it saw last in memory.
#[derive(Clone, Debug)]
pub struct Reader {
    view: View<Version>,
}

/// The rules by their numbers.
#[derive(Debug)]
struct Roll {
    rules: BTreeMap<u64, Arc<Candidate>>,
    next_id: u64,
    next_serial: u64,
}

/// A rule as it stands in a set.
#[derive(Debug)]
struct Candidate {
    /// Tells it from all others, also from what it was before a change.
    serial: u64,
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
    /// Builds a table of a set, and starts the thread that will build the next ones.
    ///
    /// # Errors
    ///
    /// Those of [`Table::build`].
    pub fn new(set: &RuleSet, limits: &Limits, policy: &Policy) -> Result<Self, BuildError> {
        let mut roll = Roll { rules: BTreeMap::new(), next_id: 0, next_serial: 0 };
        roll.enlist(&set.rules);
        let version = Version::new(set, roll.candidates(), limits, policy, 0)?;
        let relay = Arc::new(Relay::new(version, Version::apply));
        let builder = Builder::start(&relay, *limits, policy.clone());
        let (roll, policy) = (Mutex::new(roll), policy.clone());
        Ok(Live { roll, relay, builder, limits: *limits, policy })
    }

    /// What looks packets up.
    pub fn reader(&self) -> Reader {
        Reader { view: self.relay.view() }
    }

    /// Adds a rule, behind those of its priority. Readers see it when this returns.
    ///
    /// # Errors
    ///
    /// If the rule does not fit the layout.
    pub fn insert(&self, rule: Rule) -> Result<RuleId, UpdateError> {
        self.check(&rule)?;
        let mut roll = self.roll();
        let id = roll.next_id;
        roll.next_id += 1;
        let new = roll.enter(id, rule);
        self.publish(Change { old: None, new: Some(new) });
        Ok(RuleId(id))
    }

    /// Takes a rule away, and returns it. No reader sees it when this returns.
    ///
    /// # Errors
    ///
    /// If there is no such rule.
    pub fn remove(&self, id: RuleId) -> Result<Rule, UpdateError> {
        let mut roll = self.roll();
        let old = roll.rules.remove(&id.0).ok_or(UpdateError::NoSuchRule(id))?;
        let rule = old.rule.clone();
        self.publish(Change { old: Some(old), new: None });
        Ok(rule)
    }

    /// Replaces a rule by another, in one step. It keeps its number, and its place among rules of
    /// equal priority.
    ///
    /// # Errors
    ///
    /// If there is no such rule, or the new one does not fit the layout.
    pub fn change(&self, id: RuleId, rule: Rule) -> Result<(), UpdateError> {
        self.check(&rule)?;
        let mut roll = self.roll();
        let old = roll.rules.get(&id.0).cloned().ok_or(UpdateError::NoSuchRule(id))?;
        let new = roll.enter(id.0, rule);
        self.publish(Change { old: Some(old), new: Some(new) });
        Ok(())
    }

    /// Replaces all rules and the default, in one step, once a table of them is built. Other
    /// changes wait meanwhile; readers do not. The new rules get the next numbers, in their order.
    ///
    /// # Errors
    ///
    /// If no table can be built, or the layout or the number of categories is another; the rules
    /// stay as they were.
    pub fn replace(&self, set: &RuleSet) -> Result<(), UpdateError> {
        let mut roll = self.roll();
        let latest = self.relay.latest();
        let (layout, categories) = latest.shape();
        if *layout != set.layout || categories != set.categories {
            return Err(UpdateError::OtherShape);
        }
        let (next_id, next_serial) = (roll.next_id, roll.next_serial);
        let mut new = Roll { rules: BTreeMap::new(), next_id, next_serial };
        new.enlist(&set.rules);
        let number = latest.number + 1;
        let version = Version::new(set, new.candidates(), &self.limits, &self.policy, number)?;
        self.relay.reset(version);
        *roll = new;
        Ok(())
    }

    /// All rules with their numbers, the strongest first.
    pub fn rules(&self) -> Vec<(RuleId, Rule)> {
        let roll = self.roll();
        let mut rules: Vec<_> = roll.rules.iter().collect();
        rules.sort_by_key(|(_, candidate)| candidate.strength);
        rules.into_iter().map(|(&id, candidate)| (RuleId(id), candidate.rule.clone())).collect()
    }

    /// How many changes there have been.
    pub fn version(&self) -> u64 {
        self.relay.latest().number
    }

    /// How many rules differ from those of the table that lookups begin with.
    pub fn pending(&self) -> usize {
        self.relay.latest().pending()
    }

    /// Why the last table could not be built, if so. Lookups are right all the same, but get slower
    /// with every change.
    pub fn trouble(&self) -> Option<BuildError> {
        self.builder.trouble()
    }

    /// Has a table built of all changes up to now, and waits for it.
    pub fn settle(&self) {
        self.builder.settle();
    }

    /// The room that lookups begin in.
    pub fn room(&self) -> Room {
        self.relay.latest().room()
    }

    /// Whether a table can be built of a rule.
    fn check(&self, rule: &Rule) -> Result<(), BuildError> {
        let latest = self.relay.latest();
        let (layout, categories) = latest.shape();
        let set = RuleSet { categories, rules: vec![rule.clone()], ..RuleSet::new(layout.clone()) };
        Table::build(&set, &self.limits).map(drop)
    }

    fn publish(&self, change: Change) {
        let version = self.relay.change(change);
        self.builder.note(&version);
    }

    /// A panic elsewhere does not poison it: rules are entered and taken out in one step.
    fn roll(&self) -> MutexGuard<'_, Roll> {
        self.roll.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn enlist(&mut self, rules: &[Rule]) {
        for rule in rules {
            let id = self.next_id;
            self.next_id += 1;
            self.enter(id, rule.clone());
        }
    }

    /// Enters a rule under a number, instead of the one that had it.
    fn enter(&mut self, id: u64, rule: Rule) -> Arc<Candidate> {
        let strength = Strength { priority: Reverse(rule.priority), place: id };
        let candidate = Arc::new(Candidate { serial: self.next_serial, strength, rule });
        self.next_serial += 1;
        self.rules.insert(id, Arc::clone(&candidate));
        candidate
    }

    fn candidates(&self) -> Vec<Arc<Candidate>> {
        self.rules.values().cloned().collect()
    }
}

impl Candidate {
    /// Whether a packet with these values of the fields matches.
    fn accepts(&self, values: &[u128; Layout::FIELDS_MAX]) -> bool {
        self.rule.matches.iter().zip(values).all(|(of, value)| of.accepts(*value))
    }
}
