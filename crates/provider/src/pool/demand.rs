//! How many key pairs were asked for of late.

use widelane_batch::Tick;

/// When key pairs were asked for, the last few times.
#[derive(Default)]
pub(super) struct Demand {
    asked: [Option<Tick>; ASKED_MAX],
    next: usize,
}

impl Demand {
    /// Notes a request; returns how many there were within the last second, this one included, as
    /// far as is remembered.
    pub(super) fn asked(&mut self, now: Tick) -> usize {
        self.asked[self.next] = Some(now);
        self.next = (self.next + 1) % ASKED_MAX;
        let recent = |asked: &&Option<Tick>| {
            asked.is_some_and(|asked| now.since(asked) <= super::storage::AGE_MAX_NS)
        };
        self.asked.iter().filter(recent).count()
    }
}

/// How many times are remembered: as many as the widest batch has lanes.
const ASKED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::storage::AGE_MAX_NS;

    #[test]
    fn only_the_last_second_counts() {
        let mut demand = Demand::default();
        assert_eq!(demand.asked(Tick(5)), 1);
        assert_eq!(demand.asked(Tick(5 + AGE_MAX_NS)), 2);
        assert_eq!(demand.asked(Tick(6 + AGE_MAX_NS)), 2);
        assert_eq!(demand.asked(Tick(10 * AGE_MAX_NS)), 1);
        for _ in 0..20 {
            demand.asked(Tick(10 * AGE_MAX_NS));
        }
        assert_eq!(demand.asked(Tick(10 * AGE_MAX_NS)), ASKED_MAX);
    }
}
