//! How fields are laid out in the words that a lookup compares.
//!
//! A packet's key is a few 64-bit words, and every rule has as many. A word is of one kind: bits
//! under a mask, four ranges of 16 bits, or two ranges of 32. Fields that no rule looks at are left
//! out.

use crate::rule::{Layout, Match, RuleSet};
use crate::table::{Piece, Shape, WORDS_MAX};

/// How one field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No rule looks at it.
    Unused,
    /// Bits under a mask.
    Mask,
    /// A first and a last value.
    Range,
}

/// The words of a key, and which part of them each field fills.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How many words of each kind there are.
    pub shape: Shape,
    /// How each field is compared, in the order of the layout.
    pub kinds: Vec<Kind>,
    /// The parts of each field, the most significant first, and none if it is unused.
    pub pieces: Vec<Vec<Piece>>,
}

impl Plan {
    /// Lays out the fields that the rules look at, or `all`.
    pub fn of(set: &RuleSet, all: bool) -> Self {
        let fields = set.layout.fields();
        let mut kinds: Vec<Kind> = (0..fields.len())
            .map(|field| match kind(set, field) {
                Kind::Unused if all && fields[field].bytes < 4 => Kind::Range,
                Kind::Unused if all => Kind::Mask,
                kind => kind,
            })
            .collect();
        // A key has at least one word of masks. Ranges may need all of its words; then the first
        // field is compared under masks instead.
        let bytes: usize = fields.iter().map(|field| field.bytes).sum();
        if bytes == 8 * WORDS_MAX && kinds.iter().all(|kind| *kind == Kind::Range) {
            kinds[0] = Kind::Mask;
        }
        let mut packer = Packer::default();
        let mut pieces = vec![Vec::new(); fields.len()];
        let part = |kind: Kind, wide: bool, index: usize| {
            let bytes = set.layout.fields()[index].bytes;
            kinds[index] == kind && (bytes >= 4) == wide
        };
        // The first four bytes of all addresses come first, so that one word holds what tells most.
        for quarter in 0..4 {
            for (index, field) in fields.iter().enumerate() {
                if part(Kind::Mask, true, index) && 4 * quarter < field.bytes {
                    pieces[index].push(packer.place(&set.layout, index, quarter, 32));
                }
            }
        }
        for index in (0..fields.len()).filter(|&index| part(Kind::Mask, false, index)) {
            pieces[index].push(packer.place(&set.layout, index, 0, 16));
        }
        let masks = packer.close_word().max(1);
        packer.bits = 64 * masks;
        let mut lanes = 0;
        for index in (0..fields.len()).filter(|&index| part(Kind::Range, false, index)) {
            pieces[index].push(packer.place(&set.layout, index, 0, 16));
            lanes += 1;
        }
        let halves = packer.close_word() - masks;
        for index in (0..fields.len()).filter(|&index| part(Kind::Range, true, index)) {
            for quarter in 0..fields[index].bytes / 4 {
                pieces[index].push(packer.place(&set.layout, index, quarter, 32));
            }
        }
        let wholes = packer.close_word() - masks - halves;
        let paired = matches!(lanes % 4, 1 | 2);
        Plan { shape: Shape { masks, halves, wholes, paired }, kinds, pieces }
    }
}

#[derive(Default)]
struct Packer {
    /// Bits that are filled.
    bits: usize,
}

impl Packer {
    /// Places four bytes, or all of a smaller field, in the next `lane` bits.
    fn place(&mut self, layout: &Layout, field: usize, quarter: usize, lane: usize) -> Piece {
        self.bits = self.bits.next_multiple_of(lane);
        let field = &layout.fields()[field];
        let piece = Piece {
            offset: (field.offset + 4 * quarter) as u16,
            bytes: field.bytes.min(4) as u8,
            word: (self.bits / 64) as u8,
            shift: (self.bits % 64) as u8,
        };
        self.bits += lane;
        piece
    }

    /// Begins a new word, and returns how many are closed.
    fn close_word(&mut self) -> usize {
        self.bits = self.bits.next_multiple_of(64);
        self.bits / 64
    }
}

fn kind(set: &RuleSet, field: usize) -> Kind {
    let bytes = set.layout.fields()[field].bytes;
    let all =
        |holds: &dyn Fn(&Match) -> bool| set.rules.iter().all(|rule| holds(&rule.matches[field]));
    if all(&|of| of.is_any(bytes)) {
        Kind::Unused
    } else if bytes < 4 && all(&|of| of.as_range(bytes).is_some()) {
        // Small fields are compared as ranges where possible: ports and protocol fit one word.
        Kind::Range
    } else if all(&|of| of.as_mask(bytes).is_some()) {
        Kind::Mask
    } else if all(&|of| of.as_range(bytes).is_some()) {
        Kind::Range
    } else {
        // Masks with holes beside ranges: the ranges become prefixes.
        Kind::Mask
    }
}
