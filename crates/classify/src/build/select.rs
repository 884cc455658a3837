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
/// What splitting by one more bit must leave of the work.
const GAIN_MIN: f64 = 0.95;
/// How much copies of rules weigh against work saved.
const COPIES_EXPONENT: f64 = 0.35;
/// No table has more than two to the power of this entries.
const BITS_MAX: u32 = 16;

/// The entries of a cell, in a list that all cells share.
#[derive(Clone, Copy)]
struct Cell {
    start: usize,
    end: usize,
    /// The share of lookups that are taken to come here, in rules.
    traffic: f64,
}

/// Chooses bits greedily: each time the one that leaves the least work, where a copy of a rule
/// counts as work too. `copies_max` bounds the entries of all cells together.
///
/// Returns nothing if no bit is worth a table.
pub(super) fn select(encoded: &Encoded, ids: &[u32], copies_max: usize) -> Option<Selection> {
    let mut cells = vec![Cell { start: 0, end: ids.len(), traffic: ids.len() as f64 }];
    let mut listed = ids.to_vec();
    let mut chosen: Vec<(usize, u64)> = Vec::new();
    let bits_max = BITS_MAX.min((ids.len() / 2).max(2).ilog2() + 1);
    for _ in 0..bits_max {
        let Some((word, bit)) = best_bit(encoded, &cells, &listed, &chosen, copies_max) else {
            break;
        };
        match chosen.iter_mut().find(|(known, _)| *known == word) {
            Some((_, mask)) => *mask |= 1 << bit,
            None => chosen.push((word, 1 << bit)),
        }
        (cells, listed) = split(encoded, &cells, &listed, word, bit);
    }
    let first = *chosen.first()?;
    let second = chosen.get(1).copied().unwrap_or((first.0, 0));
    Some(Selection { parts: [first, second] })
}

fn best_bit(
    encoded: &Encoded,
    cells: &[Cell],
    listed: &[u32],
    chosen: &[(usize, u64)],
    copies_max: usize,
) -> Option<(usize, u32)> {
    let words: Vec<usize> = match chosen {
        [first, second] => vec![first.0, second.0],
        _ => (0..encoded.words).collect(),
    };
    let work_now: f64 = cells.iter().map(Cell::work).sum();
    let mut best = None;
    let mut score_best = GAIN_MIN;
    for word in words {
        let used = chosen.iter().find(|part| part.0 == word).map_or(0, |part| part.1);
        let (work, copies) = consider(encoded, cells, listed, word);
        for bit in (0..64).filter(|bit| used >> bit & 1 == 0) {
            let entries = listed.len() + copies[bit] as usize;
            if entries > copies_max {
                continue;
            }
            let growth = entries as f64 / listed.len() as f64;
            let score = work[bit] / work_now * growth.powf(COPIES_EXPONENT);
            if score < score_best {
                score_best = score;
                best = Some((word, bit as u32));
            }
        }
    }
    best
}

/// For each bit of a word: the work left if cells were split by it, and the copies that it makes.
fn consider(
    encoded: &Encoded,
    cells: &[Cell],
    listed: &[u32],
    word: usize,
) -> ([f64; 64], [u32; 64]) {
    let (mut work, mut copies) = ([0.0; 64], [0; 64]);
    let mut settled = 0.0;
    let (mut ones, mut free, mut free_in_small) =
        (Tally::default(), Tally::default(), Tally::default());
    for cell in cells {
        let ids = &listed[cell.start..cell.end];
        if ids.len() <= CELL_GOAL {
            settled += cell.work();
            ids.iter().for_each(|&id| free_in_small.add(!encoded.known(id)[word]));
            continue;
        }
        for &id in ids {
            let known = encoded.known(id)[word];
            ones.add(encoded.values(id)[word] & known);
            free.add(!known);
        }
        let (ones, free) = (ones.take(), free.take());
        let traffic_each = cell.traffic / ids.len() as f64;
        for bit in 0..64 {
            let (one, free) = (ones[bit] as usize, free[bit] as usize);
            let zero = ids.len() - one - free;
            let share = |own: usize| traffic_each * (own as f64 + free as f64 / 2.0);
            let cost = |own: usize| share(own) * (own + free).max(CELL_GOAL) as f64;
            work[bit] += cost(zero) + cost(one);
            copies[bit] += free as u32;
        }
    }
    let free_in_small = free_in_small.take();
    for bit in 0..64 {
        work[bit] += settled;
        copies[bit] += free_in_small[bit];
    }
    (work, copies)
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
    fn work(&self) -> f64 {
        self.traffic * (self.end - self.start).max(CELL_GOAL) as f64
    }
}

/// How often each of 64 bits was set, counted in planes: plane `i` holds bit `i` of all counts.
struct Tally {
    planes: [u64; Tally::PLANES],
    added: u32,
    sums: [u32; 64],
}

impl Default for Tally {
    fn default() -> Self {
        Tally { planes: [0; Tally::PLANES], added: 0, sums: [0; 64] }
    }
}

impl Tally {
    const PLANES: usize = 8;

    fn add(&mut self, bits: u64) {
        if self.added == (1 << Self::PLANES) - 1 {
            self.settle();
        }
        self.added += 1;
        let mut carry = bits;
        for plane in &mut self.planes {
            (*plane, carry) = (*plane ^ carry, *plane & carry);
            if carry == 0 {
                break;
            }
        }
    }

    fn settle(&mut self) {
        let used = (u32::BITS - self.added.leading_zeros()) as usize;
        for (level, plane) in self.planes[..used].iter_mut().enumerate() {
            for (bit, sum) in self.sums.iter_mut().enumerate() {
                *sum += ((*plane >> bit & 1) as u32) << level;
            }
            *plane = 0;
        }
        self.added = 0;
    }

    fn take(&mut self) -> [u32; 64] {
        self.settle();
        std::mem::replace(&mut self.sums, [0; 64])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_counts_beyond_its_planes() {
        let mut tally = Tally::default();
        for turn in 0..1000u64 {
            tally.add(1 | (turn & 1) << 5 | 1 << 63);
        }
        let sums = tally.take();
        assert_eq!((sums[0], sums[5], sums[63], sums[1]), (1000, 500, 1000, 0));
        assert_eq!(tally.take(), [0; 64]);
    }
}
