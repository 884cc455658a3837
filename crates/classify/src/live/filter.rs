//! Which packets a changed rule may concern: by sixteen bits of each of two fields.

use std::sync::Arc;

use super::Candidate;
use super::index::Anchor;
use super::paged::Bits;
use crate::rule::Match;

/// Two bytes of a field that tell rules apart well, or the only one it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    anchor: Anchor,
    /// Their place in a packet.
    offset: usize,
    bytes: usize,
}

/// What rules allow in each window.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    windows: Arc<[Window]>,
    allowed: Vec<Bits>,
    /// How many rules were marked since the filter was empty.
    pub marks: usize,
}

/// The windows in which most values are told apart by the rules.
pub(super) fn windows(anchors: &[Anchor], rules: &[Arc<Candidate>]) -> Arc<[Window]> {
    let best = |&anchor: &Anchor| {
        let bytes = anchor.bytes.min(2);
        let places = (0..=anchor.bytes - bytes).map(|skipped| Window {
            anchor,
            offset: anchor.offset + skipped,
            bytes,
        });
        places.max_by_key(|window| window.distinct(rules))
    };
    anchors.iter().filter_map(best).collect()
}

impl Window {
    /// How many values there are.
    fn values(self) -> usize {
        1 << (8 * self.bytes)
    }

    /// The bits of the window that a rule fixes, and which they are.
    fn fixed(self, of: &Match) -> (usize, usize) {
        let anchor = self.anchor;
        let shift = 8 * (anchor.offset + anchor.bytes - self.offset - self.bytes);
        let (value, mask) = match (of.as_mask(anchor.bytes), of.as_range(anchor.bytes)) {
            (Some(fixed), _) => fixed,
            // The bits before the first in which the lowest and the highest value differ.
            (None, Some((first, last))) => {
                let differing = (first ^ last).leading_zeros();
                (first, !u128::MAX.checked_shr(differing).unwrap_or(0))
            }
            (None, None) => (0, 0),
        };
        let inside = self.values() - 1;
        ((value >> shift) as usize & inside, (mask >> shift) as usize & inside)
    }

    /// How many values rules name whole.
    fn distinct(self, rules: &[Arc<Candidate>]) -> usize {
        let mut seen = vec![false; self.values()];
        for rule in rules {
            let (value, mask) = self.fixed(&rule.rule.matches[self.anchor.index]);
            seen[value] |= mask + 1 == self.values();
        }
        seen.into_iter().filter(|seen| *seen).count()
    }

    #[inline]
    fn read(self, packet: &[u8]) -> usize {
        let first = usize::from(packet[self.offset]);
        match self.bytes {
            1 => first,
            _ => first << 8 | usize::from(packet[self.offset + 1]),
        }
    }
}

impl Filter {
    /// Lets no packet through.
    pub fn new(windows: &Arc<[Window]>) -> Self {
        let allowed = windows.iter().map(|window| Bits::new(window.values())).collect();
        Filter { windows: Arc::clone(windows), allowed, marks: 0 }
    }

    /// Lets through what a rule may match.
    pub fn mark(&mut self, rule: &Candidate) {
        self.marks += 1;
        for (window, allowed) in self.windows.iter().zip(&mut self.allowed) {
            let (value, mask) = window.fixed(&rule.rule.matches[window.anchor.index]);
            let free = (window.values() - 1) & !mask;
            let mut chosen = 0usize;
            loop {
                allowed.insert(value & mask | chosen);
                // The next subset of the free bits.
                chosen = chosen.wrapping_sub(free) & free;
                if chosen == 0 {
                    break;
                }
            }
        }
    }

    /// Whether a packet may be concerned.
    #[inline]
    pub fn lets_through(&self, packet: &[u8]) -> bool {
        let mut pairs = self.windows.iter().zip(&self.allowed);
        pairs.all(|(window, allowed)| allowed.contains(window.read(packet)))
    }
}
