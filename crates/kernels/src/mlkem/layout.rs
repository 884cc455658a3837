//! Which polynomial of which job stands where in groups of eight.

use crate::coefficients::{POLYNOMIALS, Row};

/// Up to eight jobs, each with a slot of neighbouring lanes. With many jobs a slot is one lane, and
/// the polynomials of a vector are in groups of their own; a lone job has them side by side.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) jobs: usize,
    /// Lanes of a slot.
    pub(super) width: usize,
}

/// A lane of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) group: usize,
    pub(super) lane: usize,
}

impl Layout {
    /// The widest slots of 1 to 8 jobs.
    pub(super) fn new(jobs: usize) -> Self {
        assert!((1..=POLYNOMIALS).contains(&jobs), "a batch has 1 to {POLYNOMIALS} jobs");
        Layout { jobs, width: POLYNOMIALS >> jobs.next_power_of_two().trailing_zeros() }
    }

    /// Where entry `index` of a vector of a job stands.
    #[inline(always)]
    pub(super) fn place(self, job: usize, index: usize) -> Place {
        // Widths are powers of two: nothing is divided.
        let shift = self.width.trailing_zeros();
        Place { group: index >> shift, lane: (job << shift) + (index & (self.width - 1)) }
    }

    /// How many groups vectors of `entries` entries take.
    pub(super) fn groups(self, entries: usize) -> usize {
        (entries + self.width - 1) >> self.width.trailing_zeros()
    }

    /// In which lane entry `index` of a vector stands, for all lanes of each slot.
    pub(super) fn choice(self, index: usize) -> Row {
        let mut row = Row::ZERO;
        for lane in 0..POLYNOMIALS {
            row.0[lane] = self.place(lane >> self.width.trailing_zeros(), index).lane as u32;
        }
        row
    }
}
