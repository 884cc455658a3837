//! What has to hold in a table that came from outside before a lookup may trust it.

use super::{Entry, NODE_HEADER, Node, Table, TableError, WORDS_MAX, rank_of};
use crate::rule::CATEGORIES_MAX;

impl Table {
    /// Checks that every search ends, and inside the table, which has these chunks.
    pub(super) fn verify(&self, chunks: &[u64]) -> Result<(), TableError> {
        let words = self.shape.words();
        require((1..=WORDS_MAX).contains(&words) && self.shape.masks > 0, "its words")?;
        require(self.shape.halves > 0 || !self.shape.paired, "its words")?;
        require((1..=CATEGORIES_MAX).contains(&self.categories), "its categories")?;
        require(self.pieces.iter().all(|piece| self.holds_piece(piece)), "its pieces")?;
        let stride = self.shape.chunk_words();
        require(chunks.len().is_multiple_of(stride), "its chunks")?;
        require(!chunks.is_empty(), "its chunks")?;
        require(self.index()[..self.roots].iter().all(|root| Entry(*root).is_node()), "its roots")?;
        require(self.verdicts_are_known(chunks), "its ranks")?;
        let chunks = chunks.len() / stride;
        let mut open = Vec::new();
        let mut visited = vec![false; self.index.len()];
        for root in &self.index()[..self.roots] {
            self.check_entry(Entry(*root), None, chunks, &mut open)?;
        }
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut visited[at], true) {
                continue;
            }
            for entry in Node::at(self.index(), at).entries {
                self.check_entry(Entry(*entry), Some(at), chunks, &mut open)?;
            }
        }
        Ok(())
    }

    fn holds_piece(&self, piece: &super::Piece) -> bool {
        let inside = usize::from(piece.offset) + usize::from(piece.bytes) <= self.layout.span();
        // Wide rooms place whole bytes.
        let fits = piece.shift.is_multiple_of(8)
            && u32::from(piece.shift) + 8 * u32::from(piece.bytes) <= 64;
        let word = usize::from(piece.word) < self.shape.words();
        inside && fits && word && [1, 2, 4].contains(&piece.bytes)
    }

    /// Whether every rank that a chunk names has its categories, where they are looked up.
    fn verdicts_are_known(&self, chunks: &[u64]) -> bool {
        let stride = self.shape.chunk_words();
        let masks = 4 * self.category_masks.len();
        let mut chunks = chunks.chunks(stride).skip(1);
        self.categories == 1
            || chunks.all(|chunk| {
                chunk[stride - 8..].iter().all(|&verdict| (rank_of(verdict) as usize) < masks)
            })
    }

    /// Checks where an entry of the node at `from` leads, and notes it if it is a node.
    fn check_entry(
        &self,
        entry: Entry,
        from: Option<usize>,
        chunks: usize,
        open: &mut Vec<usize>,
    ) -> Result<(), TableError> {
        if entry == Entry::EMPTY {
            return Ok(());
        }
        let Some(at) = entry.as_node() else {
            let inside = entry.chunk() > 0 && entry.chunk() + entry.further_chunks() < chunks;
            return require(inside, "a leaf lies outside");
        };
        // Nodes lead forward only, so that every search ends.
        require(from.is_none_or(|from| from < at), "a node leads back")?;
        let index = self.index();
        let bits =
            at.checked_add(2).and_then(|control| index.get(control)).map(|word| word >> 24 & 63);
        let end =
            bits.and_then(|bits| 1usize.checked_shl(bits as u32)?.checked_add(at + NODE_HEADER));
        require(end.is_some_and(|end| end <= index.len()), "a node lies outside")?;
        require(Node::at(index, at).is_sound(self.shape.words()), "a node's header")?;
        open.push(at);
        Ok(())
    }
}

fn require(holds: bool, what: &'static str) -> Result<(), TableError> {
    if holds { Ok(()) } else { Err(TableError::Unsound(what)) }
}
