//! Lookups: a table, and the room that searches it.

mod avx2;
mod avx512;
mod burst;
mod keys;
mod list;
pub(crate) mod map;
mod portable;
pub(crate) mod record;
pub(crate) mod shared;
mod wide;

use std::sync::Arc;

use widelane_cpu::{Policy, Room, choice};

use self::burst::{Fixed, View, Words};
use self::keys::Recipe;
use crate::rule::CATEGORIES_MAX;
use crate::table::{Shape, Table, WORDS_MAX};

/// Looks packets up in a table.
///
/// A clone shares the table; all methods take `&self`, from any number of threads.
#[derive(Clone, Debug)]
pub struct Classifier {
    table: Arc<Table>,
    recipe: Recipe,
    choice: Choice,
}

choice! { $
    /// The room of lookups.
    enum Choice by in_room {
        Avx512 => avx512, Avx2 => avx2, Portable => portable
    }
}

/// Why packets were not looked up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// A packet ends before the last field.
    #[error("packet {index} has {bytes} bytes, and the fields reach to byte {span}")]
    Short {
        /// Which packet of the burst.
        index: usize,
        /// How long it is.
        bytes: usize,
        /// How long it must be.
        span: usize,
    },
    /// There is not one place for each result.
    #[error("{packets} packets in {categories} categories need as many results, not {results}")]
    Results {
        /// Packets given.
        packets: usize,
        /// Categories of the table.
        categories: usize,
        /// Places for results given.
        results: usize,
    },
}

impl Classifier {
    /// The rooms that lookups have, best first.
    pub const ROOMS: &'static [Room] = Choice::ROOMS;

    /// Chooses the widest room that the machine has and `policy` leaves open.
    #[must_use]
    pub fn choose(table: Arc<Table>, policy: &Policy) -> Self {
        Classifier { recipe: Recipe::of(&table), table, choice: Choice::new(policy) }
    }

    /// The room chosen.
    pub fn room(&self) -> Room {
        self.choice.room()
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The table, to be changed, if nobody else has it.
    pub(crate) fn table_mut(&mut self) -> Option<&mut Table> {
        Arc::get_mut(&mut self.table)
    }

    /// Looks up packets, each of which begins where the layout counts from. The results of a packet
    /// stand side by side, one for each category; `results` has room for those of all packets.
    ///
    /// Fields are read at the layout's places, whatever the packet is: with IPv4 options or IPv6
    /// extension headers, and in later fragments, other bytes stand where the ports are expected.
    /// [`headers::parse`](crate::headers::parse) makes of any packet what can be looked up.
    ///
    /// Any number of packets is welcome; 32 and more at a time cost least for each.
    ///
    /// # Errors
    ///
    /// If a packet is shorter than the layout's span, or `results` has another length; nothing has
    /// been looked up then.
    pub fn classify(&self, packets: &[&[u8]], results: &mut [u32]) -> Result<(), LookupError> {
        let (categories, span) = (self.table.categories(), self.recipe.span);
        if results.len() != packets.len() * categories {
            let (packets, results) = (packets.len(), results.len());
            return Err(LookupError::Results { packets, categories, results });
        }
        if let Some(index) = packets.iter().position(|packet| packet.len() < span) {
            return Err(LookupError::Short { index, bytes: packets[index].len(), span });
        }
        let view = View::new(&self.table, &self.recipe);
        if categories > 1 {
            self.enter::<_, WORDS_MAX, CATEGORIES_MAX>(self.table.shape(), view, packets, results);
            return Ok(());
        }
        // The usual shapes have code of their own: IPv4 and IPv6 tuples, and addresses alone.
        match self.table.shape() {
            Shape { masks: 1, halves: 0, wholes: 0, .. } => {
                self.enter::<_, 2, 1>(Fixed::<1, 0, false>, view, packets, results);
            }
            Shape { masks: 1, halves: 1, wholes: 0, paired: true } => {
                self.enter::<_, 2, 1>(Fixed::<1, 1, true>, view, packets, results);
            }
            Shape { masks: 1, halves: 1, wholes: 0, paired: false } => {
                self.enter::<_, 2, 1>(Fixed::<1, 1, false>, view, packets, results);
            }
            Shape { masks: 4, halves: 1, wholes: 0, paired: true } => {
                self.enter::<_, 6, 1>(Fixed::<4, 1, true>, view, packets, results);
            }
            Shape { masks: 4, halves: 1, wholes: 0, paired: false } => {
                self.enter::<_, 6, 1>(Fixed::<4, 1, false>, view, packets, results);
            }
            shape => self.enter::<_, WORDS_MAX, 1>(shape, view, packets, results),
        }
        Ok(())
    }

    /// Looks up with keys of `K` words, an even number, and at most `C` categories.
    #[inline(always)]
    fn enter<W: Words, const K: usize, const C: usize>(
        &self,
        words: W,
        view: View<'_>,
        packets: &[&[u8]],
        results: &mut [u32],
    ) {
        in_room!(self.choice, |room, lookup| {
            lookup::classify::<W, K, C>(room, words, view, packets, results);
        });
    }
}
