//! Walks over the cells of a tree that an entry belongs to, which may rest and go on later.

use super::encode::Encoded;
use super::tree::{Cell, Cells, Forest, Region, cells_of};
use crate::table::{NODE_HEADER, Node};

/// The cells below one cell, and that itself: a node comes before what is behind it. What trees
/// grow while it rests is visited too.
#[derive(Debug)]
pub(super) struct Walk {
    /// Where it begins, until it has.
    first: Option<(Cell, Option<Region>)>,
    /// The nodes that have been come to, and the cells that are left of each.
    nodes: Vec<Ahead>,
}

#[derive(Debug)]
struct Ahead {
    at: usize,
    region: Option<Region>,
    cells: Cells,
}

/// A cell, and what is there.
pub(super) struct Visit {
    pub cell: Cell,
    /// None if it is not known.
    pub region: Option<Region>,
    pub sight: Sight,
}

/// What a cell leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// What the entry has no part in.
    Nothing,
    /// The node at a word of the index.
    Node(usize),
    Leaf,
}

impl Walk {
    /// A walk from a cell on. Where the region is not known, an entry is taken to reach all cells
    /// that its bits allow.
    pub fn from(cell: Cell, region: Option<Region>) -> Self {
        Walk { first: Some((cell, region)), nodes: Vec::new() }
    }

    /// A walk through the tree of a root.
    pub fn of_tree(root: usize, region: Option<Region>) -> Self {
        Walk::from(Cell { place: root as u32, node: 0 }, region)
    }

    /// The next cell, of those that the entry belongs to.
    pub fn next(&mut self, forest: &Forest, encoded: &Encoded, id: u32) -> Option<Visit> {
        let (cell, region) = self.first.take().or_else(|| self.next_cell(forest))?;
        let sight = if region.as_ref().is_some_and(|of| !forest.reaches(encoded, id, of)) {
            Sight::Nothing
        } else if let Some(at) = forest.node_at(cell.place as usize) {
            let cells = cells_of(encoded, id, Node::at(&forest.index, at).parts());
            self.nodes.push(Ahead { at, region: region.clone(), cells });
            Sight::Node(at)
        } else {
            Sight::Leaf
        };
        Some(Visit { cell, region, sight })
    }

    fn next_cell(&mut self, forest: &Forest) -> Option<(Cell, Option<Region>)> {
        loop {
            let Ahead { at, region, cells } = self.nodes.last_mut()?;
            if let Some(index) = cells.next() {
                forest.count_work(1);
                let cell = Cell { place: (*at + NODE_HEADER + index) as u32, node: *at as u32 };
                let parts = Node::at(&forest.index, *at).parts();
                return Some((cell, region.as_ref().map(|region| region.below(parts, index))));
            }
            self.nodes.pop();
        }
    }
}
