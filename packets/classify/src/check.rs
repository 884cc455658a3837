//! What is odd about a rule set: rules that never decide anything, and rules that disagree.

use std::sync::Arc;

use widelane_cpu::Policy;

use crate::build::BuildError;
use crate::rule::{Match, Rule, RuleSet};
use crate::{Classifier, Limits, Table};

/// A rule that a stronger one hides entirely. Rules are named by their index in the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// The rule that never decides.
    pub rule: usize,
    /// A stronger rule that matches all that it matches.
    pub by: usize,
    /// Whether both have one result, so that the hidden rule is merely superfluous.
    pub same_result: bool,
}

/// Finds the rules that one stronger rule hides. Rules that several hide together are not found.
///
/// A table tells which rule decides a rule's first packet. If that one does not hide the rule, all
/// stronger rules are tried, so the time grows with the square of the number of rules if most of
/// them overlap.
///
/// # Errors
///
/// If no table within the limits can be built from the rules.
pub fn hidden(set: &RuleSet, limits: &Limits) -> Result<Vec<Hidden>, BuildError> {
    let order = set.by_strength();
    let table = Table::build(&set.numbered(), limits)?;
    let classifier = Classifier::choose(Arc::new(table), &Policy::open());
    let mut found = Vec::new();
    for (position, &index) in order.iter().enumerate() {
        let rule = &set.rules[index as usize];
        // A rule that hides this one matches its first packet, too. If that finds this rule, no
        // rule hides it.
        let first = first_packet(set, rule);
        let mut place = [0];
        let packet: &[u8] = &first;
        if classifier.classify(&[packet], &mut place).is_err() {
            continue;
        }
        let winner = order.get((place[0] as usize).wrapping_sub(1)).copied();
        if winner == Some(index) {
            continue;
        }
        let hides = |by: &u32| {
            let by = &set.rules[*by as usize];
            rule.categories & !by.categories == 0 && by.covers(rule, &set.layout)
        };
        let stronger = || order[..position].iter().copied().find(hides);
        let by = winner.filter(hides).or_else(stronger);
        if let Some(by) = by {
            let same_result = set.rules[by as usize].result == rule.result;
            found.push(Hidden { rule: index as usize, by: by as usize, same_result });
        }
    }
    found.sort_by_key(|hidden| hidden.rule);
    Ok(found)
}

/// Finds pairs of rules of which each matches something that the other does not, that both match
/// something, and that have different results: there priority or order decides. The stronger rule
/// of a pair stands first. Compares pairs as it is asked for more, the strongest rules first.
pub fn conflicts(set: &RuleSet) -> impl Iterator<Item = (usize, usize)> {
    let order = set.by_strength();
    let places =
        (0..order.len()).flat_map(|weaker| (0..weaker).map(move |stronger| (stronger, weaker)));
    let pairs =
        places.map(move |(stronger, weaker)| (order[stronger] as usize, order[weaker] as usize));
    pairs.filter(|&(stronger, weaker)| {
        let (stronger, weaker) = (&set.rules[stronger], &set.rules[weaker]);
        stronger.result != weaker.result
            && stronger.categories & weaker.categories != 0
            && stronger.overlaps(weaker, &set.layout)
            && !stronger.covers(weaker, &set.layout)
            && !weaker.covers(stronger, &set.layout)
    })
}

/// The packet with the lowest values that a rule matches.
fn first_packet(set: &RuleSet, rule: &Rule) -> Vec<u8> {
    let mut packet = vec![0; set.layout.span()];
    for (of, field) in rule.matches.iter().zip(set.layout.fields()) {
        let value = match *of {
            Match::Mask { value, mask } => value & mask,
            Match::Range { first, .. } => first,
        };
        let bytes = value.to_be_bytes();
        packet[field.offset..][..field.bytes].copy_from_slice(&bytes[16 - field.bytes..]);
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{csv, dpdk};

    const RULES: &str = "\
        R10.0.0.0/8 0.0.0.0/0 0 : 65535 0 : 65535 0/0 1\n\
        R10.1.0.0/16 0.0.0.0/0 0 : 65535 80 : 80 0/0 2\n\
        R10.2.0.0/16 0.0.0.0/0 0 : 65535 80 : 90 0/0 1\n\
        R0.0.0.0/0 9.9.9.9/32 0 : 65535 0 : 65535 0/0 3\n";

    #[test]
    fn hidden_rules_are_told_from_superfluous_ones() {
        let set = dpdk::parse("r", RULES).unwrap();
        assert_eq!(
            hidden(&set, &Limits::default()).unwrap(),
            [
                Hidden { rule: 1, by: 0, same_result: false },
                Hidden { rule: 2, by: 0, same_result: true }
            ]
        );
        let limits = Limits { table_bytes: 8 };
        assert_eq!(hidden(&set, &limits), Err(BuildError::TooLarge { limit: 8 }));
    }

    #[test]
    fn the_stronger_of_two_conflicting_rules_stands_first() {
        let text = "source,destination,priority,result\n\
            10.0.0.0/8,*,1,1\n*,192.0.2.0/24,3,2\n*,192.0.0.0/8,2,3\n";
        let set = csv::parse("r", text).unwrap();
        assert_eq!(conflicts(&set).collect::<Vec<_>>(), [(1, 0), (2, 0)]);
    }

    #[test]
    fn rules_conflict_where_the_order_decides() {
        let set = dpdk::parse("r", RULES).unwrap();
        assert_eq!(conflicts(&set).collect::<Vec<_>>(), [(0, 3), (1, 3), (2, 3)]);
    }
}
