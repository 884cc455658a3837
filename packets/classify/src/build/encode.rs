//! Rules as words: what a lookup compares, and which bits it knows of them.

use std::ops::Range;

use super::plan::{Kind, Plan};
use super::{BuildError, Limits};
use crate::rule::{CATEGORIES_MAX, Field, Layout, Match, Rule, RuleSet};
use crate::table::{Piece, RANK_MAX, category_place};

/// Rules as words. A rule may need several entries, all of its rank, and following each other.
#[derive(Debug)]
pub(crate) struct Encoded {
    /// Words of an entry.
    pub words: usize,
    /// What the bits must be, or the lowest value of each lane; `words` for each entry.
    values: Vec<u64>,
    /// The bits that count, or how far each lane may lie above the lowest value.
    others: Vec<u64>,
    /// The bits that are the same in all keys that the entry matches.
    known: Vec<u64>,
    /// For each entry, the rank of its rule: the lesser is the stronger.
    pub ranks: Vec<u32>,
    /// For each entry, the place of its rule among those of its rank.
    pub ties: Vec<u32>,
    /// For each entry, the result of its rule.
    pub results: Vec<u32>,
    /// For each entry, the categories of its rule that are in use.
    pub categories: Vec<u16>,
}

/// The categories in use, one bit for each.
pub(crate) fn categories_of(count: usize) -> u16 {
    // Numbers that are not offered are refused elsewhere.
    ((1u32 << count.min(CATEGORIES_MAX)) - 1) as u16
}

/// How many entries one rule may need.
const ENTRIES_MAX: usize = 4096;
/// How many times as large as the table the entries may be: three times where no rule is copied or
/// left out.
const SLACK: usize = 4;

impl Encoded {
    /// Encodes the rules in the given order, the strongest first, each with a rank.
    pub fn new(
        set: &RuleSet,
        order: &[u32],
        plan: &Plan,
        ranks: &[u32],
        limits: &Limits,
    ) -> Result<Self, BuildError> {
        if ranks.last().is_some_and(|last| *last >= RANK_MAX) {
            return Err(BuildError::TooManyRules { rules: order.len(), most: RANK_MAX as usize });
        }
        let words = plan.shape.words();
        let mut encoded = Encoded {
            words,
            values: Vec::with_capacity(order.len() * words),
            others: Vec::with_capacity(order.len() * words),
            known: Vec::with_capacity(order.len() * words),
            ranks: Vec::with_capacity(order.len()),
            ties: Vec::with_capacity(order.len()),
            results: Vec::with_capacity(order.len()),
            categories: Vec::with_capacity(order.len()),
        };
        let wanted = categories_of(set.categories);
        for (&index, &rank) in order.iter().zip(ranks) {
            let rule = &set.rules[index as usize];
            encoded.push(rule, rank, wanted, &set.layout, plan)?;
            if encoded.bytes() > limits.table_bytes.saturating_mul(SLACK) {
                return Err(BuildError::TooLarge { limit: limits.table_bytes });
            }
        }
        Ok(encoded)
    }

    /// How many bytes the entries take.
    fn bytes(&self) -> usize {
        // Three words for each word of a key; rank, tie, result and categories.
        self.len() * (3 * 8 * self.words + 3 * 4 + 2)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Makes room for `more` entries, so that none of the next has to wait for it.
    pub fn reserve(&mut self, more: usize) {
        for words in [&mut self.values, &mut self.others, &mut self.known] {
            words.reserve(more * self.words);
        }
        self.ranks.reserve(more);
        self.ties.reserve(more);
        self.results.reserve(more);
        self.categories.reserve(more);
    }

    pub fn values(&self, entry: u32) -> &[u64] {
        &self.values[entry as usize * self.words..][..self.words]
    }

    pub fn others(&self, entry: u32) -> &[u64] {
        &self.others[entry as usize * self.words..][..self.words]
    }

    pub fn known(&self, entry: u32) -> &[u64] {
        &self.known[entry as usize * self.words..][..self.words]
    }

    /// What orders entries: the lesser is the stronger.
    pub fn order(&self, entry: u32) -> (u32, u32) {
        (self.ranks[entry as usize], self.ties[entry as usize])
    }

    /// Encodes another rule, of some of the `wanted` categories; returns its entries.
    pub fn push(
        &mut self,
        rule: &Rule,
        rank: u32,
        wanted: u16,
        layout: &Layout,
        plan: &Plan,
    ) -> Result<Range<u32>, BuildError> {
        let fields = layout.fields();
        let mut options = Vec::with_capacity(fields.len());
        let mut count = 1usize;
        for (index, field) in fields.iter().enumerate() {
            let lanes = match plan.kinds[index] {
                Kind::Unused => continue,
                Kind::Mask => masks(&rule.matches[index], field),
                Kind::Range => ranges(&rule.matches[index], field),
            };
            count = count.saturating_mul(lanes.len());
            options.push((index, lanes));
        }
        if count > ENTRIES_MAX {
            return Err(BuildError::TooIntricate { line: rule.line, entries: count });
        }
        let first = self.len() as u32;
        for choice in 0..count {
            self.push_entry(rank, plan, &options, choice);
            self.results.push(rule.result);
            self.categories.push(rule.categories & wanted);
        }
        Ok(first..first + count as u32)
    }

    /// The categories of all ranks up to the last, four in a word.
    pub fn category_masks(&self) -> Vec<u64> {
        let ranks = self.ranks.last().map_or(0, |last| *last as usize + 1);
        let mut masks = vec![0; ranks.div_ceil(4)];
        for (&rank, &categories) in self.ranks.iter().zip(&self.categories) {
            let (word, shift) = category_place(rank);
            masks[word] |= u64::from(categories) << shift;
        }
        masks
    }

    fn push_entry(
        &mut self,
        rank: u32,
        plan: &Plan,
        options: &[(usize, Vec<Lanes>)],
        choice: usize,
    ) {
        let base = self.values.len();
        self.ranks.push(rank);
        self.ties.push(0);
        self.values.resize(base + self.words, 0);
        self.known.resize(base + self.words, 0);
        // What no field fills matches everything: no bit counts, and every value is in range.
        self.others.extend((0..self.words).map(|word| match word < plan.shape.masks {
            true => 0,
            false => u64::MAX,
        }));
        let mut left = choice;
        for (field, lanes) in options {
            let lanes_chosen = &lanes[left % lanes.len()];
            left /= lanes.len();
            for (piece, &(value, other)) in plan.pieces[*field].iter().zip(lanes_chosen) {
                self.set(base + usize::from(piece.word), plan, piece, value, other);
            }
        }
    }

    fn set(&mut self, at: usize, plan: &Plan, piece: &Piece, value: u32, other: u32) {
        let lane = plan.shape.lane_bits(piece.word.into());
        let all = (1u64 << lane) - 1;
        let (value, other) = (u64::from(value), u64::from(other));
        let known = match usize::from(piece.word) < plan.shape.masks {
            true => other,
            // The bits before the first in which the lowest and the highest value differ.
            false => {
                let differing = value ^ (value + other);
                all & !(u64::MAX.checked_shr(differing.leading_zeros()).unwrap_or(0))
            }
        };
        self.values[at] |= value << piece.shift;
        self.others[at] = self.others[at] & !(all << piece.shift) | other << piece.shift;
        self.known[at] |= known << piece.shift;
    }
}

/// Value and mask, or lowest value and extent, of each part of a field.
type Lanes = Vec<(u32, u32)>;

fn parts(value: u128, field: &Field) -> impl Iterator<Item = u32> {
    let count = field.bytes.div_ceil(4);
    (0..count).rev().map(move |part| (value >> (32 * part)) as u32)
}

fn masks(of: &Match, field: &Field) -> Vec<Lanes> {
    let lanes = |value, mask| parts(value, field).zip(parts(mask, field)).collect();
    match (of.as_mask(field.bytes), of) {
        (Some((value, mask)), _) => vec![lanes(value, mask)],
        (None, &Match::Range { first, last }) => {
            let all = crate::rule::ones(8 * field.bytes as u32);
            prefixes(first, last.min(all), all)
                .into_iter()
                .map(|(value, mask)| lanes(value, mask))
                .collect()
        }
        (None, Match::Mask { .. }) => unreachable!("a mask is a mask"),
    }
}

/// The prefixes, as value and mask, that make up the values from `first` to `last`.
fn prefixes(mut first: u128, last: u128, all: u128) -> Vec<(u128, u128)> {
    let mut found = Vec::new();
    loop {
        // The largest block that begins at `first` and does not pass `last`.
        let mut free = 0;
        while free < 128 {
            let block = crate::rule::ones(free + 1);
            if first & block != 0 || block > all || last - first < block {
                break;
            }
            free += 1;
        }
        let block = crate::rule::ones(free);
        found.push((first, all & !block));
        match (first | block).checked_add(1) {
            Some(next) if next <= last => first = next,
            _ => return found,
        }
    }
}

fn ranges(of: &Match, field: &Field) -> Vec<Lanes> {
    let mut boxes = Vec::new();
    for (first, last) in runs(of, field.bytes) {
        let (first, last): (Vec<u32>, Vec<u32>) =
            (parts(first, field).collect(), parts(last, field).collect());
        split(&first, &last, &mut Vec::new(), &mut boxes);
    }
    boxes
}

/// First and last value of all runs that make up what matches; of a mask with very many holes, only
/// so many that the rule is refused.
fn runs(of: &Match, bytes: usize) -> Vec<(u128, u128)> {
    if let Some(run) = of.as_range(bytes) {
        return vec![run];
    }
    let Some((value, mask)) = of.as_mask(bytes) else {
        unreachable!("what is no range is a mask");
    };
    let within = crate::rule::ones(mask.trailing_zeros());
    let holes = !mask & crate::rule::ones(8 * bytes as u32) & !within;
    let subsets = std::iter::successors(Some(0u128), |chosen| {
        Some(chosen.wrapping_sub(holes) & holes).filter(|next| *next != 0)
    });
    let run = |chosen| (value | chosen, value | chosen | within);
    subsets.take(ENTRIES_MAX + 1).map(run).collect()
}

/// Splits the numbers from `first` to `last`, of several digits, into boxes that are a range in
/// every digit.
fn split(first: &[u32], last: &[u32], before: &mut Lanes, boxes: &mut Vec<Lanes>) {
    let mut emit = |before: &mut Lanes, digit: (u32, u32), first: &[u32], last: &[u32]| {
        before.push((digit.0, digit.1 - digit.0));
        match first.is_empty() {
            true => boxes.push(before.clone()),
            false => split(first, last, before, boxes),
        }
        before.pop();
    };
    let (&[low, ref first_rest @ ..], &[high, ref last_rest @ ..]) = (first, last) else { return };
    let (zeros, ones) = (vec![0; first_rest.len()], vec![u32::MAX; first_rest.len()]);
    if low == high {
        return emit(before, (low, low), first_rest, last_rest);
    }
    let starts_whole = first_rest.iter().all(|digit| *digit == 0);
    let ends_whole = last_rest.iter().all(|digit| *digit == u32::MAX);
    let whole = (low + u32::from(!starts_whole), high - u32::from(!ends_whole));
    if !starts_whole {
        emit(before, (low, low), first_rest, &ones);
    }
    if whole.0 <= whole.1 {
        emit(before, whole, &zeros, &ones);
    }
    if !ends_whole {
        emit(before, (high, high), &zeros, last_rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_very_many_pieces_stop_at_the_limit() {
        // Ports are compared under masks, because one rule has holes in them: so the ranges of all
        // others become 30 prefixes each.
        let rule = |ports: Match| {
            let matches = [Match::ANY, Match::ANY, ports, ports, Match::ANY].into();
            Rule { matches, priority: 0, categories: 1, result: 0, line: 1 }
        };
        let mut set = RuleSet::new(Layout::ipv4());
        set.rules = vec![rule(Match::range(1, 65_534)); 100];
        set.rules.push(rule(Match::Mask { value: 0, mask: 0x5a }));
        let order: Vec<u32> = (0..101).collect();
        let plan = Plan::of(&set, false);
        let encode =
            |table_bytes| Encoded::new(&set, &order, &plan, &order, &Limits { table_bytes });
        let all = encode(256 << 20).unwrap();
        assert_eq!(all.len(), 100 * 30 * 30 + 1);
        let limit = all.bytes() / SLACK - 1;
        assert_eq!(encode(limit).unwrap_err(), BuildError::TooLarge { limit });
        assert!(encode(limit + 2).is_ok());
    }

    #[test]
    fn prefixes_make_up_the_range_and_nothing_else() {
        for (first, last) in [(0, 255), (1, 254), (7, 7), (3, 200), (128, 255)] {
            let found = prefixes(first, last, 0xff);
            for value in 0..256u128 {
                let inside =
                    found.iter().filter(|(wanted, mask)| (value ^ wanted) & mask == 0).count();
                assert_eq!(
                    inside,
                    usize::from((first..=last).contains(&value)),
                    "{first}-{last}: {value}"
                );
            }
        }
        assert_eq!(prefixes(0, u128::MAX, u128::MAX), [(0, 0)]);
        assert_eq!(prefixes(1, u128::MAX, u128::MAX).len(), 128);
    }

    #[test]
    fn a_mask_with_holes_is_made_of_runs() {
        let of = Match::Mask { value: 0x48, mask: 0x5a };
        let runs = runs(&of, 1);
        assert_eq!(runs.len(), 8);
        for value in 0..256 {
            let inside = runs.iter().filter(|(first, last)| (*first..=*last).contains(&value));
            assert_eq!(inside.count(), usize::from(of.accepts(value)), "{value:x}");
        }
    }

    #[test]
    fn boxes_make_up_the_range_and_nothing_else() {
        let field = Field { name: "f".into(), offset: 0, bytes: 8 };
        let (first, last) = (0x1_8000_0000u128, 0x3_0000_0010u128);
        let boxes = ranges(&Match::range(first, last), &field);
        assert_eq!(boxes.len(), 3);
        for value in
            [0, first - 1, first, first + 1, 0x2_0000_0000, last - 1, last, last + 1, 0x3_8000_0000]
        {
            let digits: Vec<u32> = parts(value, &field).collect();
            let accepts = |lanes: &Lanes| {
                lanes
                    .iter()
                    .zip(&digits)
                    .all(|((low, extent), digit)| digit.wrapping_sub(*low) <= *extent)
            };
            let inside = boxes.iter().filter(|lanes| accepts(lanes)).count();
            assert_eq!(inside, usize::from((first..=last).contains(&value)), "{value:x}");
        }
    }
}
