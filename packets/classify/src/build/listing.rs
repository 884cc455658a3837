//! How entries come into leaves, change there, and leave them.

use super::BuildError;
use super::costs::AFFORDED;
use super::encode::Encoded;
use super::tree::{Cell, Forest, Region, leaf_entry};
use super::walk::{Sight, Visit, Walk};
use crate::table::{Entry, NODE_HEADER, Node, rank_of};

impl Forest {
    fn entry(&self, place: usize) -> Entry {
        Entry(self.index[place])
    }

    pub(super) fn node_at(&self, place: usize) -> Option<usize> {
        self.entry(place).as_node()
    }

    /// The list that a place leads to, which is no node.
    pub(super) fn list(&self, place: usize) -> &[u32] {
        let entry = self.entry(place);
        if entry == Entry::EMPTY || entry.is_node() {
            return &[];
        }
        self.leaves.list(entry.chunk()).unwrap_or_default()
    }

    /// The list of a leaf, if it may be written anew.
    fn short_list(&self, place: usize) -> Result<&[u32], BuildError> {
        let list = self.list(place);
        match list.len() > AFFORDED {
            true => Err(BuildError::LeafTooLong { rules: list.len() }),
            false => Ok(list),
        }
    }

    /// Lists an entry in all leaves that a walk comes to.
    pub(super) fn list_along(
        &mut self,
        encoded: &Encoded,
        id: u32,
        mut walk: Walk,
    ) -> Result<(), BuildError> {
        while self.list_next(encoded, id, &mut walk, false)? {}
        Ok(())
    }

    /// Lists an entry where a walk comes to next; false at its end. With `may_hide`, it hides the
    /// entries there that are also in the tree of hidden rules.
    pub(super) fn list_next(
        &mut self,
        encoded: &Encoded,
        id: u32,
        walk: &mut Walk,
        may_hide: bool,
    ) -> Result<bool, BuildError> {
        let Some(Visit { cell, region, sight }) = walk.next(self, encoded, id) else {
            return Ok(false);
        };
        match sight {
            Sight::Nothing => {}
            Sight::Node(at) => self.raise(encoded, id, cell, at),
            Sight::Leaf => self.list_in(encoded, id, cell, region, may_hide)?,
        }
        Ok(true)
    }

    /// Raises the rank of a cell's node to that of an entry behind it, so that lookups that have
    /// found nothing better go there.
    fn raise(&mut self, encoded: &Encoded, id: u32, cell: Cell, at: usize) {
        let (rank, place) = (encoded.ranks[id as usize], cell.place as usize);
        if rank < rank_of(self.index[place]) {
            self.put(place, Entry::node(rank, at));
        }
    }

    /// Lists an entry in the leaf of a cell.
    fn list_in(
        &mut self,
        encoded: &Encoded,
        id: u32,
        cell: Cell,
        region: Option<Region>,
        may_hide: bool,
    ) -> Result<(), BuildError> {
        let list = self.short_list(cell.place as usize)?;
        if list.contains(&id) {
            return Ok(());
        }
        let own = encoded.order(id);
        let stronger = list.partition_point(|&other| encoded.order(other) <= own);
        let mut with = list[..stronger].to_vec();
        with.push(id);
        let mut hidden = Vec::new();
        for &weaker in &list[stronger..] {
            let is_hidden = may_hide
                && self.stand(weaker).in_hidden_tree
                && region.as_ref().is_some_and(|of| self.hides(encoded, id, weaker, of));
            if is_hidden { &mut hidden } else { &mut with }.push(weaker);
        }
        self.count_work(hidden.len());
        if let Some(change_state) = self.change_state.as_mut().filter(|_| !hidden.is_empty()) {
            change_state.note_since(id, hidden.into_iter(), cell);
        }
        if let Some(region) = region {
            self.plan_division(cell, region, with.len());
        }
        let entry = self.leaf(encoded, &with)?;
        self.replace(cell, entry);
        Ok(())
    }

    /// Takes an entry out of what a walk comes to next; false at its end.
    pub(super) fn unlist_next(
        &mut self,
        encoded: &Encoded,
        id: u32,
        walk: &mut Walk,
    ) -> Result<bool, BuildError> {
        let Some(Visit { cell, sight, .. }) = walk.next(self, encoded, id) else {
            return Ok(false);
        };
        let list = self.short_list(cell.place as usize)?;
        if sight == Sight::Leaf && list.contains(&id) {
            let without: Vec<u32> = list.iter().copied().filter(|&other| other != id).collect();
            let entry = match without.is_empty() {
                true => Entry::EMPTY,
                false => self.leaf(encoded, &without)?,
            };
            self.replace(cell, entry);
        }
        Ok(true)
    }

    pub(super) fn rewrite_in(
        &mut self,
        encoded: &Encoded,
        id: u32,
        root: usize,
    ) -> Result<(), BuildError> {
        let mut walk = Walk::of_tree(root, None);
        while let Some(Visit { cell, sight, .. }) = walk.next(self, encoded, id) {
            match sight {
                Sight::Nothing => {}
                Sight::Node(at) => self.raise(encoded, id, cell, at),
                Sight::Leaf => self.rewrite_leaf(encoded, id, cell.place as usize)?,
            }
        }
        Ok(())
    }

    fn rewrite_leaf(&mut self, encoded: &Encoded, id: u32, place: usize) -> Result<(), BuildError> {
        // Of cells that share a leaf, the first has it written, and the others find it.
        let old = self.entry(place);
        let moved = self.leaves.moved(old.chunk());
        let chunk = moved.unwrap_or(old.chunk());
        let list = self.leaves.list(chunk).filter(|list| list.contains(&id));
        let Some(list) = list.map(<[u32]>::to_vec) else { return Ok(()) };
        let entry = match moved {
            Some(chunk) => leaf_entry(encoded, &list, chunk)?,
            None => self.renew(encoded, &list, chunk)?,
        };
        if entry != old {
            self.put(place, entry);
        }
        Ok(())
    }

    /// Rewrites the leaf at a chunk, in other chunks if readers may look at it.
    fn renew(
        &mut self,
        encoded: &Encoded,
        list: &[u32],
        chunk: usize,
    ) -> Result<Entry, BuildError> {
        let end = self.end_chunk();
        leaf_entry(encoded, list, end)?;
        self.count_work(list.len());
        let chunk = self.leaves.renew(chunk, end);
        self.fill(encoded, list, chunk);
        leaf_entry(encoded, list, chunk)
    }

    /// Leads a cell to another leaf, or to a node in its stead.
    pub(super) fn replace(&mut self, cell: Cell, entry: Entry) {
        let place = cell.place as usize;
        let old = self.entry(place);
        if old != Entry::EMPTY {
            self.leaves.release(old.chunk());
        }
        self.put(place, entry);
        let header = cell.node as usize + NODE_HEADER - 1;
        if (entry.is_node() || entry.is_long())
            && !Node::at(&self.index, cell.node as usize).leads_on()
        {
            self.index[header] |= Node::LEADS_ON;
            self.edits.index.push(header..header + 1);
        }
    }

    pub(super) fn put(&mut self, place: usize, entry: Entry) {
        self.index[place] = entry.0;
        self.edits.index.push(place..place + 1);
    }
}
