//! Masks of lanes: one answer per lane, about secrets that must not be branched on.

use core::ops::{BitAnd, BitOr, BitXor, Not};

/// One bit per lane: set for yes. Bits of lanes that a register lacks mean nothing.
#[derive(Clone, Copy)]
pub struct LaneMask(u8);

impl LaneMask {
    /// Yes in every lane.
    pub const ALL: LaneMask = LaneMask(u8::MAX);
    /// Yes in no lane.
    pub const NONE: LaneMask = LaneMask(0);

    /// Takes bit j as the answer of lane j.
    #[inline(always)]
    pub const fn from_bits(bits: u8) -> Self {
        LaneMask(bits)
    }

    /// Bit j is the answer of lane j; still a secret.
    #[inline(always)]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Gives the answer of a lane up to ordinary control flow. From here on it is no secret.
    pub const fn declassify(self, lane: usize) -> bool {
        self.0 >> lane & 1 == 1
    }
}

impl BitAnd for LaneMask {
    type Output = LaneMask;

    #[inline(always)]
    fn bitand(self, other: LaneMask) -> LaneMask {
        LaneMask(self.0 & other.0)
    }
}

impl BitOr for LaneMask {
    type Output = LaneMask;

    #[inline(always)]
    fn bitor(self, other: LaneMask) -> LaneMask {
        LaneMask(self.0 | other.0)
    }
}

impl BitXor for LaneMask {
    type Output = LaneMask;

    #[inline(always)]
    fn bitxor(self, other: LaneMask) -> LaneMask {
        LaneMask(self.0 ^ other.0)
    }
}

impl Not for LaneMask {
    type Output = LaneMask;

    #[inline(always)]
    fn not(self) -> LaneMask {
        LaneMask(!self.0)
    }
}
