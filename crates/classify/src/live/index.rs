//! An index that changes rule by rule: where to look for the rules that may match a packet.
//!
//! Rules are found by how much of two fields they fix, in quarters of the field: each combination
//! that occurs is a *tuple*, and a packet asks once for each. It is slower than a table by far, and
//! asked only for packets that changed rules may concern.

use std::sync::Arc;

use super::paged::Paged;
use super::{Candidate, Strength};
use crate::rule::{Layout, Match};

/// Rules by what they fix.
#[derive(Clone, Debug)]
pub(super) struct Index {
    anchors: Arc<[Anchor]>,
    buckets: Paged<Bucket>,
    bucket_count: usize,
    /// How many rules each tuple has.
    tuples: [u32; TUPLES],
    count: usize,
}

/// Rules of one bucket, the strongest first.
type Bucket = Option<Arc<[Arc<Candidate>]>>;

/// A field that rules are found by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    /// Its place among the fields.
    pub index: usize,
    /// Its first byte in a packet.
    pub offset: usize,
    /// Its length.
    pub bytes: usize,
}

/// Quarters of a field that a rule can fix, none to four.
const LEVELS: usize = 5;
/// With two anchors.
const TUPLES: usize = LEVELS * LEVELS;
const ANCHORS: usize = 2;
/// Buckets of an index with few rules.
const BUCKETS_MIN: usize = 64;
/// Rules for each bucket before there are more buckets.
const CROWD: usize = 2;

/// The fields that rules are found by: the two longest.
pub(super) fn anchors(layout: &Layout) -> Arc<[Anchor]> {
    let mut fields: Vec<(usize, _)> = layout.fields().iter().enumerate().collect();
    fields.sort_by_key(|(_, field)| std::cmp::Reverse(field.bytes));
    let anchor = |&(index, field): &(usize, &crate::rule::Field)| Anchor {
        index,
        offset: field.offset,
        bytes: field.bytes,
    };
    fields.iter().take(ANCHORS).map(anchor).collect()
}

impl Anchor {
    /// The value of the field, as much of it as `match` fixes from the first bit on: the bits, and
    /// how many.
    fn fixed(self, of: &Match) -> (u128, u32) {
        let bits = 8 * self.bytes as u32;
        let beyond = 128 - bits;
        match of.as_mask(self.bytes) {
            Some((value, mask)) => (value, (!(mask << beyond)).leading_zeros().min(bits)),
            None => match of.as_range(self.bytes) {
                Some((first, last)) => {
                    (first, ((first ^ last) << beyond).leading_zeros().min(bits))
                }
                None => (0, 0),
            },
        }
    }

    /// Bits of so many quarters of the field.
    fn bits_of(self, level: usize) -> u32 {
        (2 * self.bytes * level) as u32
    }

    /// The first quarters of a value, mixed with what stands before.
    fn mix(self, key: u64, value: u128, level: usize) -> u64 {
        let left = 8 * self.bytes as u32 - self.bits_of(level);
        let value = value.checked_shr(left).unwrap_or(0);
        let folded = (value as u64) ^ (value >> 64) as u64;
        (key.rotate_left(23) ^ folded).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Spreads what stands in the high bits.
fn bucket_of(key: u64, count: usize) -> usize {
    (key >> 32) as usize & (count - 1)
}

impl Index {
    /// An index without rules.
    pub fn new(anchors: &Arc<[Anchor]>) -> Self {
        Index::with_buckets(anchors, BUCKETS_MIN)
    }

    /// An index of many rules.
    pub fn of<'a>(
        anchors: &Arc<[Anchor]>,
        rules: impl ExactSizeIterator<Item = &'a Arc<Candidate>>,
    ) -> Self {
        let count = (rules.len() / CROWD).next_power_of_two().max(BUCKETS_MIN);
        let mut index = Index::with_buckets(anchors, count);
        rules.for_each(|rule| index.insert(rule));
        index
    }

    fn with_buckets(anchors: &Arc<[Anchor]>, bucket_count: usize) -> Self {
        Index {
            anchors: Arc::clone(anchors),
            buckets: Paged::new(bucket_count),
            bucket_count,
            tuples: [0; TUPLES],
            count: 0,
        }
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// All rules, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Candidate>> {
        self.buckets.iter().flatten().flat_map(|bucket| bucket.iter())
    }

    /// Takes a rule in.
    pub fn insert(&mut self, rule: &Arc<Candidate>) {
        if self.count >= 2 * CROWD * self.bucket_count {
            let rules: Vec<Arc<Candidate>> = self.iter().cloned().collect();
            *self = Index::of(&self.anchors, rules.iter());
        }
        let (tuple, bucket) = self.place(rule);
        let old = self.buckets.get_mut(bucket);
        let held = old.as_deref().unwrap_or(&[]);
        let (stronger, weaker) =
            held.split_at(held.partition_point(|other| other.strength < rule.strength));
        let with = stronger.iter().chain([rule]).chain(weaker);
        *old = Some(with.cloned().collect());
        self.tuples[tuple] += 1;
        self.count += 1;
    }

    /// Takes a rule out that is in it.
    pub fn remove(&mut self, rule: &Arc<Candidate>) {
        let (tuple, bucket) = self.place(rule);
        let old = self.buckets.get_mut(bucket);
        let left: Arc<[Arc<Candidate>]> = old
            .iter()
            .flat_map(|held| held.iter())
            .filter(|held| !Arc::ptr_eq(held, rule))
            .cloned()
            .collect();
        *old = (!left.is_empty()).then_some(left);
        self.tuples[tuple] -= 1;
        self.count -= 1;
    }

    /// The strongest rule of a category that matches a packet and is stronger than `floor`.
    pub fn search(
        &self,
        layout: &Layout,
        packet: &[u8],
        category: usize,
        floor: Option<Strength>,
    ) -> Option<&Arc<Candidate>> {
        let mut values = [0; Layout::FIELDS_MAX];
        for (value, field) in values.iter_mut().zip(layout.fields()) {
            *value = layout.value(field, packet);
        }
        let (mut best, mut floor) = (None, floor);
        for tuple in (0..TUPLES).filter(|&tuple| self.tuples[tuple] > 0) {
            let key = self.key(tuple, |anchor| values[anchor.index]);
            let bucket = self.buckets.get(bucket_of(key, self.bucket_count)).into_iter().flatten();
            for rule in bucket.flat_map(|bucket| bucket.iter()) {
                if floor.is_some_and(|floor| floor <= rule.strength) {
                    break;
                }
                if rule.rule.categories >> category & 1 == 1 && rule.accepts(&values) {
                    (best, floor) = (Some(rule), Some(rule.strength));
                    break;
                }
            }
        }
        best
    }

    fn place(&self, rule: &Candidate) -> (usize, usize) {
        let fixed = |anchor: Anchor| anchor.fixed(&rule.rule.matches[anchor.index]);
        let tuple = self.anchors.iter().fold(0, |tuple, &anchor| {
            let level = fixed(anchor).1 as usize * (LEVELS - 1) / (8 * anchor.bytes);
            tuple * LEVELS + level
        });
        let key = self.key(tuple, |anchor| fixed(anchor).0);
        (tuple, bucket_of(key, self.bucket_count))
    }

    fn key(&self, tuple: usize, value: impl Fn(Anchor) -> u128) -> u64 {
        let mut levels = [tuple / LEVELS, tuple % LEVELS].into_iter();
        if self.anchors.len() < ANCHORS {
            levels.next();
        }
        let pairs = self.anchors.iter().zip(levels);
        pairs.fold(tuple as u64, |key, (&anchor, level)| anchor.mix(key, value(anchor), level))
    }
}
