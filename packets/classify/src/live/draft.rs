//! The writer's draft of the rules: trees that are changed entry by entry, and the ranks of
//! rules. Readers have versions of it, which share the chunks.
#![allow(unsafe_code, reason = "writing chunks that no reader looks at, beside others")]

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, Range};
use std::sync::Arc;

use widelane_cpu::{Policy, Room};

use super::slots::{self, Slot};
use super::{Candidate, Strength, relay};
use crate::build::{self, BuildError, Edits, Encoded, Forest, Place, Plan, Run, categories_of};
use crate::rule::RuleSet;
use crate::run::shared::SharedChunks;
use crate::table::{Gone, Part, RANK_MAX, Table, category_place};
use crate::{Classifier, Limits, LookupError};

/// Rules in trees that can be changed.
#[derive(Debug)]
pub(super) struct Draft {
    /// No rules, but all else.
    pub(super) shape: RuleSet,
    limits: Limits,
    policy: Policy,
    plan: Plan,
    pub(super) encoded: Encoded,
    pub(super) forest: Forest,
    /// The chunks of the forest, as readers look at them.
    shared: Arc<SharedChunks>,
    /// Chunks that the forest does not need any more, and the first change that readers must have
    /// seen before they are written again.
    released: VecDeque<(u64, Run)>,
    pub(super) rules: BTreeMap<Strength, Placed>,
    /// Rules that are gone, and stay where they stood until they are cleaned up.
    pub(super) gone: Gone,
    /// Behind all ranks that a rule can have.
    pub(super) ranks_end: u32,
    /// The categories of the ranks, where there are several.
    categories: Vec<u64>,
    /// How many changes there have been.
    number: u64,
    /// How many of them since the trees have grown.
    pending: usize,
    /// What the trees took when they had grown.
    grown_bytes: usize,
    /// What the last changes have written.
    journal: VecDeque<Written>,
    /// What the next one has.
    written: Written,
}

/// A rule in its tree or list.
#[derive(Debug)]
pub(super) struct Placed {
    pub candidate: Arc<Candidate>,
    pub entries: Range<u32>,
    pub rank: u32,
}

/// Words that a change has written.
#[derive(Debug, Default)]
struct Written {
    index: Vec<Range<usize>>,
    /// Of the categories.
    categories: Vec<usize>,
}

/// The rules as readers have them.
#[derive(Debug)]
pub(super) struct Version {
    /// How many changes there have been.
    pub number: u64,
    /// How many of them since the trees have grown.
    pub pending: usize,
    classifier: Classifier,
}

/// A rule that is replaced by another; nothing by something, or something by nothing.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub old: Option<Arc<Candidate>>,
    pub new: Option<Arc<Candidate>>,
}

/// What a change reports about the trees.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangeReport {
    /// Whether the trees should be rebuilt.
    pub wants_rebuild: bool,
    /// How many changes there have been since these have grown.
    pub pending: usize,
    /// Cells that the change has looked at, and rules that it has written.
    pub work: usize,
}

/// A version that is further behind is not corrected.
const JOURNAL_MAX: usize = 1024;
/// Rules that are listed at once, while writers wait.
const LISTED_AT_ONCE: usize = 256;
/// The trees are rebuilt when this many rules are in lists behind them.
const LISTED_MAX: usize = 32;
/// Or when this many are gone that still stand there, or this many are shadowed.
const GONE_MAX: usize = 32;
const SHADOWED_MAX: usize = 512;
/// Or when they have grown by this fraction, and this many bytes besides.
const GROWTH_SHARE: usize = 4;
const GROWTH_BYTES: usize = 64 << 10;
/// Or when as many rules have changed as there are, and this many besides.
const CHANGES_MAX: usize = 64;
/// Ranks for each rule where there are several categories: they take up memory there.
const RANKS_EACH: usize = 256;

impl Draft {
    /// Builds the trees of rules, given the strongest first. The rules of `shape` are ignored.
    pub fn of(
        shape: &RuleSet,
        candidates: &[Arc<Candidate>],
        limits: &Limits,
        policy: &Policy,
        number: u64,
    ) -> Result<Self, BuildError> {
        let wanted = categories_of(shape.categories);
        let in_use = |of: &&Arc<Candidate>| of.rule.categories & wanted != 0;
        let candidates: Vec<&Arc<Candidate>> = candidates.iter().filter(in_use).collect();
        let set = RuleSet {
            rules: candidates.iter().map(|candidate| candidate.rule.clone()).collect(),
            ..shape.clone()
        };
        let ranks_end = match set.categories {
            1 => RANK_MAX,
            _ => (RANKS_EACH * set.rules.len()).clamp(1 << 16, RANK_MAX as usize) as u32,
        };
        let ranks = slots::ranks(&candidates, ranks_end)?;
        let grown = build::grow(&set, limits, &ranks, true)?;
        let mut entries = 0..0;
        let mut rules = BTreeMap::new();
        for (candidate, rank) in candidates.into_iter().zip(ranks) {
            let count = grown.encoded.ranks[entries.end as usize..].iter();
            let count = count.take_while(|other| **other == rank).count() as u32;
            entries = entries.end..entries.end + count;
            let (candidate, entries) = (Arc::clone(candidate), entries.clone());
            rules.insert(candidate.strength, Placed { candidate, entries, rank });
        }
        let mut categories = Vec::new();
        if set.categories > 1 {
            categories = grown.encoded.category_masks();
            categories.resize((ranks_end as usize).div_ceil(4), 0);
        }
        let (plan, mut encoded, mut forest) = (grown.plan, grown.encoded, grown.forest);
        let changes = rules.len() + CHANGES_MAX;
        encoded.reserve(changes);
        forest.lift_limits(changes, forest.chunks.len() + FREE_WORDS);
        forest.build_hidden_tree(
            &encoded,
            rules.values().map(|rule: &Placed| rule.entries.clone()),
        )?;
        forest.take_edits();
        forest.take_work();
        let (shared, shadowed) = (share(&forest), forest.roots().shadowed);
        Ok(Draft {
            shape: RuleSet { rules: Vec::new(), ..set },
            limits: *limits,
            policy: policy.clone(),
            grown_bytes: forest.bytes(),
            plan,
            encoded,
            forest,
            shared,
            released: VecDeque::new(),
            rules,
            gone: Gone { ranks: Vec::new(), shadowed },
            ranks_end,
            categories,
            number,
            pending: 0,
            journal: VecDeque::new(),
            written: Written::default(),
        })
    }

    /// How many rules are gone that still stand where they stood.
    #[cfg(test)]
    pub fn gone(&self) -> usize {
        self.gone.ranks.len()
    }

    /// How many entries stand in lists behind the trees.
    #[cfg(test)]
    pub fn listed(&self) -> usize {
        self.forest.listed()
    }

    /// How many rules share the rank that most rules share.
    #[cfg(test)]
    pub fn largest_share(&self) -> usize {
        let rules: Vec<&Placed> = self.rules.values().collect();
        rules.chunk_by(|one, other| one.rank == other.rank).map(<[_]>::len).max().unwrap_or(0)
    }

    /// The shape of the rules, and how many changes there have been.
    pub fn shape(&self) -> (RuleSet, u64) {
        (self.shape.clone(), self.number)
    }

    /// Lists the next few rules behind those that are listed, the strongest first; false if there
    /// are no more.
    pub fn list(&self, rules: &mut Vec<Arc<Candidate>>) -> bool {
        let listed = rules.last().map_or(Bound::Unbounded, |last| Bound::Excluded(last.strength));
        let before = rules.len();
        let next = self.rules.range((listed, Bound::Unbounded)).take(LISTED_AT_ONCE);
        rules.extend(next.map(|(_, placed)| Arc::clone(&placed.candidate)));
        rules.len() - before == LISTED_AT_ONCE
    }

    fn report(&self, work: usize) -> ChangeReport {
        let growth_max = self.grown_bytes / GROWTH_SHARE + GROWTH_BYTES;
        let wants_rebuild = self.forest.listed() >= LISTED_MAX
            || self.gone.ranks.len() >= GONE_MAX
            || self.forest.shadowed() >= SHADOWED_MAX
            || self.forest.bytes() > self.grown_bytes + growth_max
            || self.pending > self.rules.len() + CHANGES_MAX;
        ChangeReport { wants_rebuild, pending: self.pending, work }
    }

    fn edit(&mut self, change: &Change) -> Result<(), BuildError> {
        match (&change.old, &change.new) {
            (Some(old), Some(new))
                if old.differs_in_result_only(new) && !self.is_broad(old, false) =>
            {
                self.restate(new)
            }
            (old, new) => self.replace(old.as_deref(), new.as_ref()),
        }
    }

    /// Goes on with the work that earlier changes have deferred.
    fn go_on(&mut self) -> Result<(), BuildError> {
        for cleaned in self.forest.go_on(&self.encoded) {
            let rank = self.encoded.ranks[cleaned.start as usize];
            self.gone.ranks.retain(|gone| *gone != rank);
        }
        match self.gone.ranks.is_empty() {
            true => self.forest.clear_shadowed_list(&self.encoded),
            false => Ok(()),
        }
    }

    /// Whether it takes long to rewrite a rule where it stands, or to remove it.
    fn is_broad(&self, candidate: &Candidate, goes: bool) -> bool {
        let placed = self.rules.get(&candidate.strength);
        placed.is_some_and(|of| self.forest.is_broad(&self.encoded, of.entries.clone(), goes))
    }

    /// Has a rule give another result.
    fn restate(&mut self, candidate: &Arc<Candidate>) -> Result<(), BuildError> {
        let Some(placed) = self.rules.get_mut(&candidate.strength) else { return Ok(()) };
        placed.candidate = Arc::clone(candidate);
        let ids = placed.entries.clone();
        self.encoded.results[ids.start as usize..ids.end as usize].fill(candidate.rule.result);
        self.forest.rewrite(&self.encoded, ids)
    }

    /// Replaces a rule by another. A rule of the new one's strength is removed, too, and an old one
    /// that is not there is ignored: so changes can be applied that the rules contain already.
    fn replace(
        &mut self,
        old: Option<&Candidate>,
        new: Option<&Arc<Candidate>>,
    ) -> Result<(), BuildError> {
        let places: Vec<(Strength, bool)> = old
            .into_iter()
            .chain(new.map(|new| &**new))
            .map(|of| (of.strength, self.is_broad(of, true)))
            .collect();
        let stays = places.last().is_some_and(|(_, is_broad)| *is_broad);
        let placed = new.map(|new| self.insert(new, stays)).transpose()?;
        for (place, is_broad) in places {
            let Some(there) = self.rules.get(&place) else { continue };
            let (rank, entries) = (there.rank, there.entries.clone());
            let removed = match is_broad {
                true => self.forest.mark_gone(&self.encoded, entries),
                false => self.forest.remove(&self.encoded, entries),
            };
            if let Err(error) = removed {
                if let Some(new) = placed {
                    self.forest.remove(&self.encoded, new.entries)?;
                }
                return Err(error);
            }
            self.rules.remove(&place);
            if is_broad {
                let behind = self.gone.ranks.partition_point(|other| *other < rank);
                self.gone.ranks.insert(behind, rank);
            }
        }
        if let Some(new) = placed {
            self.categorise(new.rank, new.candidate.rule.categories);
            self.rules.insert(new.candidate.strength, new);
        }
        Ok(())
    }

    /// Inserts a rule. It takes the slot of the one that it replaces, or one of its own if that one
    /// `stays` where it stands.
    fn insert(&mut self, candidate: &Arc<Candidate>, stays: bool) -> Result<Placed, BuildError> {
        let wanted = categories_of(self.shape.categories);
        let slot = match self.rules.get(&candidate.strength) {
            Some(replaced) if !stays => self.slot_of(replaced),
            _ => self.free_slot(candidate.strength)?,
        };
        let Slot { rank, mut place } = slot;
        let layout = &self.shape.layout;
        let entries = self.encoded.push(&candidate.rule, rank, wanted, layout, &self.plan)?;
        if place == Place::Any && self.forest.bytes() > self.limits.table_bytes {
            // A forest that has become too large takes rules into its lists only.
            place = Place::AnyList;
        }
        if let Place::List(_) = place {
            self.tie(candidate.strength, rank, &entries);
        }
        self.forest.insert(&self.encoded, entries.clone(), place)?;
        Ok(Placed { candidate: Arc::clone(candidate), entries, rank })
    }

    /// Writes down the categories of a rank.
    pub(super) fn categorise(&mut self, rank: u32, categories: u16) {
        if self.shape.categories == 1 {
            return;
        }
        let (word, shift) = category_place(rank);
        let wanted = categories & categories_of(self.shape.categories);
        let others = self.categories[word] & !(u64::from(u16::MAX) << shift);
        self.categories[word] = others | u64::from(wanted) << shift;
        self.written.categories.push(word);
    }

    /// Copies what changes have written to the table of a version; false if it does not fit.
    fn copy(&self, written: &Written, table: &mut Table) -> bool {
        let index = |range: &Range<usize>| &self.forest.index[range.clone()];
        let mut ranges = written.index.iter();
        ranges.all(|range| table.write_part(Part::Index, range.start, index(range)))
            && written.categories.iter().all(|&word| {
                table.write_part(Part::Categories, word, &self.categories[word..=word])
            })
    }

    /// Writes chunks of the forest to the memory that versions share, or all of them to new memory
    /// if that is full.
    fn write_chunks(&mut self, chunks: &[Range<usize>]) {
        let mut ranges = chunks.iter();
        let fits = ranges.all(|range| {
            let words = &self.forest.chunks[range.clone()];
            // SAFETY: a change writes only chunks that were behind all others, or that `recycle`
            // has given back: no version that a reader holds leads there, nor one that it can come
            // to before it is corrected. What is written becomes visible to readers when the next
            // version is published; and a writer has the draft to itself.
            unsafe { self.shared.write(range.start, words) }
        });
        if !fits {
            // Versions that share the old memory cannot be corrected, so no reader sees this yet.
            self.shared = share(&self.forest);
            self.released.drain(..).for_each(|(_, run)| self.forest.reuse(run));
        }
    }
}

impl relay::Draft for Draft {
    type Change = Change;
    type Outcome = ChangeReport;
    type Version = Version;
    type Refusal = BuildError;

    fn apply(&mut self, change: &Change) -> Result<ChangeReport, BuildError> {
        let edited = self.edit(change);
        let cleaned = self.go_on();
        let work = self.forest.take_work();
        // A change that is refused may have written too, nothing that lookups would notice.
        let Edits { index, chunks, released } = self.forest.take_edits();
        self.written.index.extend(index);
        self.released.extend(released.into_iter().map(|run| (self.number + 1, run)));
        self.write_chunks(&chunks);
        edited.and(cleaned)?;
        (self.number, self.pending) = (self.number + 1, self.pending + 1);
        if self.journal.len() == JOURNAL_MAX {
            self.journal.pop_front();
        }
        self.journal.push_back(std::mem::take(&mut self.written));
        Ok(self.report(work))
    }

    fn version(&self) -> Version {
        let content = crate::table::Content {
            layout: &self.shape.layout,
            shape: self.plan.shape,
            pieces: self.plan.pieces.concat(),
            categories: self.shape.categories,
            default: self.shape.default,
            rules: self.rules.len(),
            roots: self.forest.roots_in_use(),
            index: &self.forest.index,
            chunks: &self.forest.chunks,
            category_masks: &self.categories,
        };
        let free = content.index.len() + FREE_WORDS;
        let mut table = Table::sharing(content, Arc::clone(&self.shared), free);
        table.set_gone(&self.gone);
        let classifier = Classifier::choose(Arc::new(table), &self.policy);
        Version { number: self.number, pending: self.pending, classifier }
    }

    fn correct(&self, version: &mut Version) -> bool {
        let behind = (self.number - version.number) as usize;
        let Some(kept) = self.journal.len().checked_sub(behind) else { return false };
        let Some(table) = version.classifier.table_mut() else { return false };
        let shares = |shared| Arc::ptr_eq(shared, &self.shared);
        if !table.shared().is_some_and(shares)
            || !self.journal.range(kept..).all(|written| self.copy(written, table))
        {
            return false;
        }
        table.set_roots(self.forest.roots_in_use());
        table.set_gone(&self.gone);
        (version.number, version.pending) = (self.number, self.pending);
        true
    }

    fn recycle(&mut self, oldest: Option<&Version>) {
        let seen = oldest.map_or(self.number, |version| version.number);
        while let Some((_, run)) = self.released.pop_front_if(|(since, _)| *since <= seen) {
            self.forest.reuse(run);
        }
    }
}

/// A version has room for as many more words of the index, the shared memory for three times as
/// many chunks, and both for this many words besides; what is never written takes up no memory.
const FREE_WORDS: usize = 1 << 16;

/// The chunks of a forest, for readers.
fn share(forest: &Forest) -> Arc<SharedChunks> {
    Arc::new(SharedChunks::new(&forest.chunks, 3 * forest.chunks.len() + FREE_WORDS))
}

impl Version {
    /// The room that looks up.
    pub fn room(&self) -> Room {
        self.classifier.room()
    }

    /// Looks up packets; see [`Classifier::classify`].
    #[inline]
    pub fn classify(&self, packets: &[&[u8]], results: &mut [u32]) -> Result<(), LookupError> {
        self.classifier.classify(packets, results)
    }
}
