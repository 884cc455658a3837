//! Parts of a rule set that get a tree each: rules that leave an address free would have to be
//! copied into every cell of a tree that looks at that address.

use super::encode::Encoded;
use super::plan::{Kind, Plan};
use crate::table::Piece;

/// Entries that share a tree, by increasing strength of their best rule, and what they have in
/// common.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// One bit for each wide field of the layout that all entries fix.
    pub fixed: u32,
    /// The entries, strongest first.
    pub ids: Vec<u32>,
}

/// At most this many fields are distinguished.
const FIELDS_MAX: usize = 4;
/// A field is fixed by a rule that knows more than this share of its bits.
const FIXED: (u32, u32) = (3, 8);
/// A group of less than one in this many entries joins another that can take it without copies.
const SMALL: usize = 16;
/// So few rules are one list, whatever they fix.
const LIST: usize = 16;
/// So few rules can be copied without harm.
const FEW: usize = 256;

/// The wide fields by which rules are divided into groups.
#[derive(Clone, Debug)]
pub(super) struct Wide {
    /// Where each lies in the key.
    fields: Vec<Vec<Piece>>,
}

impl Wide {
    pub fn of(plan: &Plan) -> Self {
        let pieces = plan.kinds.iter().zip(&plan.pieces);
        let wide = pieces.filter(|(kind, of)| **kind != Kind::Unused && of[0].bytes == 4);
        Wide { fields: wide.take(FIELDS_MAX).map(|(_, pieces)| pieces.clone()).collect() }
    }

    /// Which of the wide fields an entry fixes, one bit for each.
    pub fn fixed(&self, encoded: &Encoded, id: u32) -> u32 {
        let known = encoded.known(id);
        let is_fixed = |pieces: &Vec<Piece>| {
            let known: u32 = pieces.iter().map(|piece| piece.part(known).count_ones()).sum();
            known * FIXED.1 > 32 * pieces.len() as u32 * FIXED.0
        };
        let fixed = self.fields.iter().map(is_fixed);
        fixed.enumerate().fold(0, |all, (bit, is_fixed)| all | u32::from(is_fixed) << bit)
    }
}

/// Divides all entries into groups by which of the wide fields they fix.
pub(super) fn divide(encoded: &Encoded, wide: &Wide) -> Vec<Group> {
    let mut groups: Vec<Group> =
        (0..1 << wide.fields.len()).map(|fixed| Group { fixed, ids: Vec::new() }).collect();
    for id in 0..encoded.len() as u32 {
        groups[wide.fixed(encoded, id) as usize].ids.push(id);
    }
    if encoded.len() < LIST {
        groups = vec![whole(encoded)];
    }
    merge_small(&mut groups, encoded.len());
    groups.retain(|group| !group.ids.is_empty());
    sort(&mut groups);
    groups
}

/// Whose rules are strongest on average goes first: what it finds spares the others the search.
fn sort(groups: &mut [Group]) {
    groups.sort_by_key(|group| {
        group.ids.iter().map(|&id| u64::from(id)).sum::<u64>() / group.ids.len() as u64
    });
}

/// All divisions in which one group has joined another that fixes some of its addresses, not all:
/// a tree for the other looks at nothing that the rules of the one leave free.
pub(super) fn joined(groups: &[Group]) -> Vec<Vec<Group>> {
    let mut divisions = Vec::new();
    for (guest_at, guest) in groups.iter().enumerate() {
        for (host_at, host) in groups.iter().enumerate() {
            if host.fixed == 0 || host.fixed == guest.fixed || host.fixed & !guest.fixed != 0 {
                continue;
            }
            let mut division = groups.to_vec();
            division[host_at].ids.extend(&guest.ids);
            division[host_at].ids.sort_unstable();
            division.remove(guest_at);
            sort(&mut division);
            divisions.push(division);
        }
    }
    divisions
}

/// All entries in one group.
pub(super) fn whole(encoded: &Encoded) -> Group {
    Group { fixed: 0, ids: (0..encoded.len() as u32).collect() }
}

fn merge_small(groups: &mut [Group], total: usize) {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&index| groups[index].ids.len());
    for index in order {
        let (fixed, count) = (groups[index].fixed, groups[index].ids.len());
        if count == 0 || count >= total.div_ceil(SMALL) {
            continue;
        }
        let hosts = (0..groups.len()).filter(|&host| {
            host != index && groups[host].fixed & !fixed == 0 && groups[host].ids.len() > count
        });
        // Without one, few rules share a tree of their own, the one that fixes nothing.
        let host = match hosts.max_by_key(|&host| groups[host].ids.len()) {
            Some(host) => host,
            None if index != 0 && groups[0].ids.len() + count < FEW => 0,
            None => continue,
        };
        let ids = std::mem::take(&mut groups[index].ids);
        groups[host].ids.extend(ids);
        groups[host].ids.sort_unstable();
    }
}
