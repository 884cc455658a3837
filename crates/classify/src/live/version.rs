//! One version of a live rule set: a table, what has changed since it was built, and an index of
//! all rules. It never changes; the next one shares most of it.

use std::collections::HashMap;
use std::sync::Arc;

use widelane_cpu::{Policy, Room};

use super::Candidate;
use super::filter::{self, Filter, Window};
use super::index::{self, Anchor, Index};
use super::paged::Bits;
use crate::build::BuildError;
use crate::rule::{Layout, Rule, RuleSet};
use crate::{Classifier, Limits, LookupError, Table};

/// A rule set as a packet meets it.
#[derive(Clone, Debug)]
pub(super) struct Version {
    /// How many changes there have been.
    pub number: u64,
    base: Arc<Base>,
    /// The rules of the base that are gone, by their slots.
    removed: Bits,
    removed_count: usize,
    /// The rules that the base does not have.
    inserted: Index,
    /// Which packets those may concern.
    filter: Filter,
    /// All rules.
    pub all: Index,
}

/// A rule that is replaced by another; nothing by something, or something by nothing.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub old: Option<Arc<Candidate>>,
    pub new: Option<Arc<Candidate>>,
}

/// A table, whose results are the slots of its rules.
#[derive(Debug)]
struct Base {
    classifier: Classifier,
    /// The rules by their slots, the strongest first.
    rules: Vec<Arc<Candidate>>,
    /// Their results, and the default, which has the last slot.
    results: Vec<u32>,
    slots: HashMap<u64, u32>,
    anchors: Arc<[Anchor]>,
    windows: Arc<[Window]>,
}

impl Base {
    /// Builds a table of rules. Of `set`, the rules do not count.
    fn new(
        set: &RuleSet,
        mut rules: Vec<Arc<Candidate>>,
        limits: &Limits,
        policy: &Policy,
    ) -> Result<Self, BuildError> {
        rules.sort_by_key(|rule| rule.strength);
        let slotted = |(slot, candidate): (usize, &Arc<Candidate>)| Rule {
            result: slot as u32,
            ..candidate.rule.clone()
        };
        let slotted = RuleSet {
            layout: set.layout.clone(),
            categories: set.categories,
            default: rules.len() as u32,
            rules: rules.iter().enumerate().map(slotted).collect(),
        };
        let table = Arc::new(Table::build(&slotted, limits)?);
        let anchors = index::anchors(&set.layout);
        let windows = filter::windows(&anchors, &rules);
        Ok(Base {
            classifier: Classifier::choose(table, policy),
            results: rules.iter().map(|rule| rule.rule.result).chain([set.default]).collect(),
            slots: rules.iter().zip(0..).map(|(rule, slot)| (rule.serial, slot)).collect(),
            rules,
            anchors,
            windows,
        })
    }

    /// What a packet gets that no rule matches.
    fn default(&self) -> u32 {
        self.results[self.rules.len()]
    }
}

impl Version {
    /// Builds a version of which all rules are in the table. Of `set`, the rules do not count.
    pub fn new(
        set: &RuleSet,
        rules: Vec<Arc<Candidate>>,
        limits: &Limits,
        policy: &Policy,
        number: u64,
    ) -> Result<Self, BuildError> {
        let base = Arc::new(Base::new(set, rules, limits, policy)?);
        let all = Index::of(&base.anchors, base.rules.iter());
        Ok(Version::unchanged(base, all, number))
    }

    /// The same version on a table that has all its rules.
    pub fn rebuilt(&self, limits: &Limits, policy: &Policy) -> Result<Self, BuildError> {
        let (layout, categories) = self.shape();
        let default = self.base.default();
        let set = RuleSet { categories, default, ..RuleSet::new(layout.clone()) };
        let rules = self.all.iter().cloned().collect();
        let base = Arc::new(Base::new(&set, rules, limits, policy)?);
        Ok(Version::unchanged(base, self.all.clone(), self.number))
    }

    fn unchanged(base: Arc<Base>, all: Index, number: u64) -> Self {
        Version {
            number,
            removed: Bits::new(base.rules.len() + 1),
            removed_count: 0,
            inserted: Index::new(&base.anchors),
            filter: Filter::new(&base.windows),
            all,
            base,
        }
    }

    /// How many rules differ from those of the table.
    pub fn pending(&self) -> usize {
        self.removed_count + self.inserted.len()
    }

    /// Where the fields lie, and how many results a lookup gives.
    pub fn shape(&self) -> (&Layout, usize) {
        let table = self.base.classifier.table();
        (table.layout(), table.categories())
    }

    /// The room that lookups begin in.
    pub fn room(&self) -> Room {
        self.base.classifier.room()
    }

    /// Becomes the next version.
    pub fn apply(&mut self, change: &Change) {
        self.number += 1;
        if let Some(old) = &change.old {
            self.all.remove(old);
            match self.base.slots.get(&old.serial) {
                Some(&slot) => {
                    self.removed.insert(slot as usize);
                    self.removed_count += 1;
                }
                None => self.inserted.remove(old),
            }
        }
        if let Some(new) = &change.new {
            self.all.insert(new);
            self.inserted.insert(new);
            self.filter.mark(new);
        }
        // Marks cannot be taken back: when most are of rules that have gone, they are made anew.
        if self.filter.marks > 2 * self.inserted.len() + MARKS_SPARE {
            let mut filter = Filter::new(&self.base.windows);
            self.inserted.iter().for_each(|rule| filter.mark(rule));
            self.filter = filter;
        }
    }

    /// Looks up packets; see [`Classifier::classify`].
    pub fn classify(&self, packets: &[&[u8]], results: &mut [u32]) -> Result<(), LookupError> {
        let base = &*self.base;
        base.classifier.classify(packets, results)?;
        if self.pending() == 0 {
            for slot in results {
                *slot = base.results[*slot as usize];
            }
            return Ok(());
        }
        let (_, categories) = self.shape();
        for (packet, results) in packets.iter().zip(results.chunks_exact_mut(categories)) {
            let may_concern = self.filter.lets_through(packet);
            for (category, slot) in results.iter_mut().enumerate() {
                let found = *slot as usize;
                *slot = match self.removed.contains(found) | may_concern {
                    false => base.results[found],
                    true => self.amended(packet, category, found),
                };
            }
        }
        Ok(())
    }

    /// The result of a packet that may be concerned by changes, and that met `slot` in the table.
    fn amended(&self, packet: &[u8], category: usize, slot: usize) -> u32 {
        let base = &*self.base;
        let (layout, _) = self.shape();
        let is_gone = self.removed.contains(slot);
        let better = match is_gone {
            true => self.all.search(layout, packet, category, None),
            false => {
                let floor = base.rules.get(slot).map(|rule| rule.strength);
                self.inserted.search(layout, packet, category, floor)
            }
        };
        match better {
            Some(rule) => rule.rule.result,
            None if is_gone => base.default(),
            None => base.results[slot],
        }
    }
}

/// Marks of a filter before it is made anew, however few rules there are.
const MARKS_SPARE: usize = 64;
