//! A point in time, in nanoseconds of whatever clock the caller reads.

/// A point in time, in nanoseconds of whatever clock the caller reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// Nanoseconds from `earlier` to here; 0 if `earlier` is later.
    pub const fn since(self, earlier: Tick) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The point `ns` nanoseconds later.
    pub const fn after(self, ns: u64) -> Tick {
        Tick(self.0.saturating_add(ns))
    }
}
