//! Which bits of a key tell the rules of a node apart best.

use super::encode::Encoded;

/// Bits of at most two words of the key; together they are the index into a node's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    /// The words, and the bits of each. The second may have none.
    pub parts: [(usize, u64); 2],
}

impl Selection {
    /// How often all entries have been looked at to find it.
    pub fn rounds(&self) -> usize {
        1 + self.parts.iter().map(|(_, bits)| bits.count_ones() as usize).sum::<usize>()
    }
}

/// How many rules a lookup compares at once: a cell with fewer gains nothing by being split.
pub(super) const CELL_GOAL: usize = 8;
/// Lists up to this length become leaves: to compare further chunks, which few packets need, costs
/// less than another node, which all need.
pub(super) const LEAF_MAX: usize = 32;
/// No table has more than two to the power of this entries.
const BITS_MAX: u32 = 16;
/// The share of packets that a root may send to another node before it is worth copies.
const UNSETTLED_MAX: f64 = 0.2;

/// What the bits of a node may cost, and what each must bring.
#[derive(Clone, Copy)]
struct Terms {
    bits_max: u32,
    /// Entries of all cells together.
    copies_max: usize,
    /// A cell of so few entries gains nothing by being split.
    goal: usize,
    /// What splitting by one more bit must leave of the work.
    gain_min: f64,
    /// How much copies of rules weigh against work saved.
    copies_exponent: f64,
}

impl Terms {
    /// For every node.
    fn usual(entries: usize, copies_max: usize) -> Self {
        Terms {
            bits_max: BITS_MAX.min((entries / 2).max(2).ilog2() + 1),
            copies_max,
            goal: CELL_GOAL,
            gain_min: 0.95,
            copies_exponent: 0.35,
        }
    }

    /// For a root that leaves too many packets to other nodes. Clustered addresses bring that
    /// about: no few bits tell their rules apart.
    fn generous(entries: usize) -> Self {
        Terms {
            bits_max: BITS_MAX.min((entries / 2).max(2).ilog2() + 5),
            copies_max: 40 * entries,
            goal: LEAF_MAX,
            gain_min: 0.98,
            copies_exponent: 0.05,
        }
    }
}

/// The entries of a cell, in a list that all cells share.
#[derive(Clone, Copy)]
struct Cell {
    start: usize,
    end: usize,
    /// The share of lookups that are taken to come here, in rules.
    traffic: f64,
}

/// The cells that the bits chosen so far make.
struct Division<'a> {
    encoded: &'a Encoded,
    cells: Vec<Cell>,
    /// The entries of all cells.
    listed: Vec<u32>,
    /// The words, and the bits of each.
    chosen: Vec<(usize, u64)>,
    /// The bits of each word in which entries differ.
    telling: Vec<u64>,
}

/// Chooses bits greedily: each time the one that leaves the least work, where a copy of a rule
/// counts as work too. `copies_max` bounds the entries of all cells together; if `is_generous`, so
/// many more are made as it takes to spare most packets another node.
///
/// Returns nothing if no bit is worth a table.
pub(super) fn select(
    encoded: &Encoded,
    ids: &[u32],
    copies_max: usize,
    is_generous: bool,
) -> Option<Selection> {
    let mut division = Division::of(encoded, ids);
    division.split_by(&Terms::usual(ids.len(), copies_max), None);
    if is_generous {
        let unsettled_max = UNSETTLED_MAX * ids.len() as f64;
        division.split_by(&Terms::generous(ids.len()), Some(unsettled_max));
    }
    let first = *division.chosen.first()?;
    let second = division.chosen.get(1).copied().unwrap_or((first.0, 0));
    Some(Selection { parts: [first, second] })
}

impl<'a> Division<'a> {
    /// One cell.
    fn of(encoded: &'a Encoded, ids: &[u32]) -> Self {
        let telling = |word: usize| {
            let (mut ones, mut zeros) = (0u64, 0u64);
            for &id in ids {
                let (known, values) = (encoded.known(id)[word], encoded.values(id)[word]);
                (ones, zeros) = (ones | known & values, zeros | known & !values);
            }
            ones & zeros
        };
        Division {
            encoded,
            cells: vec![Cell { start: 0, end: ids.len(), traffic: ids.len() as f64 }],
            listed: ids.to_vec(),
            chosen: Vec::new(),
            telling: (0..encoded.words).map(telling).collect(),
        }
    }

    /// Splits by one bit after the other as long as that is worth it; with a limit, only until no
    /// more traffic than that comes to cells that do not become leaves.
    fn split_by(&mut self, terms: &Terms, unsettled_max: Option<f64>) {
        let bits = |chosen: &[(usize, u64)]| -> u32 {
            chosen.iter().map(|(_, bits)| bits.count_ones()).sum()
        };
        let wants_more = |own: &Self| unsettled_max.is_none_or(|most| own.unsettled() > most);
        while bits(&self.chosen) < terms.bits_max && wants_more(self) {
            let Some((word, bit)) = self.best_bit(terms) else { break };
            match self.chosen.iter_mut().find(|(known, _)| *known == word) {
                Some((_, mask)) => *mask |= 1 << bit,
                None => self.chosen.push((word, 1 << bit)),
            }
            (self.cells, self.listed) = split(self.encoded, &self.cells, &self.listed, word, bit);
        }
    }

    /// The traffic of cells that do not become leaves.
    fn unsettled(&self) -> f64 {
        let cells = self.cells.iter().filter(|cell| cell.end - cell.start > LEAF_MAX);
        cells.map(|cell| cell.traffic).sum()
    }

    fn best_bit(&self, terms: &Terms) -> Option<(usize, u32)> {
        let words: Vec<usize> = match self.chosen.as_slice() {
            [first, second] => vec![first.0, second.0],
            _ => (0..self.encoded.words).collect(),
        };
        let work_now: f64 = self.cells.iter().map(|cell| cell.work(terms.goal)).sum();
        let mut best = None;
        let mut score_best = terms.gain_min;
        for word in words {
            let used = self.chosen.iter().find(|part| part.0 == word).map_or(0, |part| part.1);
            let candidates = self.telling[word] & !used;
            if candidates == 0 {
                continue;
            }
            let (work, copies) = self.consider(word, candidates, terms.goal);
            for bit in bits_of(candidates) {
                let entries = self.listed.len() + copies[bit] as usize;
                if entries > terms.copies_max {
                    continue;
                }
                let growth = entries as f64 / self.listed.len() as f64;
                let score = work[bit] / work_now * growth.powf(terms.copies_exponent);
                if score < score_best {
                    score_best = score;
                    best = Some((word, bit as u32));
                }
            }
        }
        best
    }

    /// For each candidate among the bits of a word: the work left if cells were split by it, and
    /// the copies that it makes.
    fn consider(&self, word: usize, candidates: u64, goal: usize) -> ([f64; 64], [u32; 64]) {
        let encoded = self.encoded;
        let (mut work, mut copies) = ([0.0; 64], [0; 64]);
        let mut settled = 0.0;
        let (mut ones, mut free, mut free_in_small) =
            (Tally::default(), Tally::default(), Tally::default());
        for cell in &self.cells {
            let ids = &self.listed[cell.start..cell.end];
            if ids.len() <= goal {
                settled += cell.work(goal);
                ids.iter().for_each(|&id| free_in_small.add(!encoded.known(id)[word]));
                continue;
            }
            for &id in ids {
                let known = encoded.known(id)[word];
                ones.add(encoded.values(id)[word] & known);
                free.add(!known);
            }
            let traffic_each = cell.traffic / ids.len() as f64;
            for bit in bits_of(candidates) {
                let (one, free) = (ones.of(bit) as usize, free.of(bit) as usize);
                let zero = ids.len() - one - free;
                let share = |own: usize| traffic_each * (own as f64 + free as f64 / 2.0);
                let cost = |own: usize| share(own) * (own + free).max(goal) as f64;
                work[bit] += cost(zero) + cost(one);
                copies[bit] += free as u32;
            }
            ones.clear();
            free.clear();
        }
        for bit in bits_of(candidates) {
            work[bit] += settled;
            copies[bit] += free_in_small.of(bit);
        }
        (work, copies)
    }
}

/// The places of the bits that are set.
fn bits_of(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (place < 64).then_some(place)
    })
}

fn split(
    encoded: &Encoded,
    cells: &[Cell],
    listed: &[u32],
    word: usize,
    bit: u32,
) -> (Vec<Cell>, Vec<u32>) {
    let mut halves = Vec::with_capacity(2 * cells.len());
    let mut list = Vec::with_capacity(listed.len());
    for cell in cells {
        let ids = &listed[cell.start..cell.end];
        let traffic_each = cell.traffic / ids.len().max(1) as f64;
        for side in 0..2 {
            let start = list.len();
            let mut traffic = 0.0;
            for &id in ids {
                let known = encoded.known(id)[word] >> bit & 1;
                let value = encoded.values(id)[word] >> bit & 1;
                if known == 0 || value == side {
                    list.push(id);
                    traffic += if known == 0 { traffic_each / 2.0 } else { traffic_each };
                }
            }
            if list.len() > start {
                halves.push(Cell { start, end: list.len(), traffic });
            }
        }
    }
    (halves, list)
}

impl Cell {
    /// The entries that lookups compare here, where none compares fewer than `goal`.
    fn work(&self, goal: usize) -> f64 {
        self.traffic * (self.end - self.start).max(goal) as f64
    }
}

/// How often each of 64 bits was set, counted in bytes: byte `b` of lane `l` counts bit `8b + l`.
#[derive(Default)]
struct Tally {
    lanes: [u64; 8],
    /// What has been added since the bytes were zero.
    added: u32,
    /// What the bytes had counted before.
    sums: Option<Box<[u32; 64]>>,
}

impl Tally {
    const BYTES: u64 = 0x0101_0101_0101_0101;

    fn add(&mut self, bits: u64) {
        if self.added == u32::from(u8::MAX) {
            self.settle();
        }
        self.added += 1;
        for (shift, lane) in self.lanes.iter_mut().enumerate() {
            *lane += bits >> shift & Self::BYTES;
        }
    }

    fn settle(&mut self) {
        let sums = self.sums.get_or_insert_with(|| Box::new([0; 64]));
        for (bit, sum) in sums.iter_mut().enumerate() {
            *sum += byte(&self.lanes, bit);
        }
        (self.lanes, self.added) = ([0; 8], 0);
    }

    /// How often a bit was set.
    fn of(&self, bit: usize) -> u32 {
        byte(&self.lanes, bit) + self.sums.as_ref().map_or(0, |sums| sums[bit])
    }

    fn clear(&mut self) {
        *self = Tally::default();
    }
}

fn byte(lanes: &[u64; 8], bit: usize) -> u32 {
    (lanes[bit % 8] >> (bit / 8 * 8) & 0xff) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_counts_beyond_its_bytes() {
        let mut tally = Tally::default();
        for turn in 0..1000u64 {
            tally.add(1 | (turn & 1) << 5 | 1 << 63);
        }
        assert_eq!([0, 5, 63, 1].map(|bit| tally.of(bit)), [1000, 500, 1000, 0]);
        tally.clear();
        assert!((0..64).all(|bit| tally.of(bit) == 0));
    }
}
