//! From rules to a table: words, groups, bits, trees. docs/classify.md explains the choices.

mod encode;
mod group;
mod plan;
mod select;
mod tree;

use std::fmt;

use self::encode::Encoded;
use self::group::Group;
use self::plan::{Kind, Plan};
use self::tree::Forest;
use crate::rule::{CATEGORIES_MAX, RuleSet};
use crate::table::{Content, Entry, RANK_MAX, RULES_PER_CHUNK, Table, node_entries};

/// What a table may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the finished table.
    pub table_bytes: usize,
}

impl Default for Limits {
    /// 256 MiB.
    fn default() -> Self {
        Limits { table_bytes: 256 << 20 }
    }
}

/// Why there is no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// More rules than a table can rank.
    #[error("{rules} rules are more than the {RANK_MAX} that a table can hold; split the set")]
    TooManyRules {
        /// How many there are.
        rules: usize,
    },
    /// A number of categories that is not offered.
    #[error("{0} categories; there can be 1 to {CATEGORIES_MAX}")]
    Categories(usize),
    /// A rule does not fit the layout.
    #[error("the rule of line {line} has {found} matches, and the layout has {expected} fields")]
    Matches {
        /// The rule's line.
        line: u32,
        /// How many matches it has.
        found: usize,
        /// How many it should have.
        expected: usize,
    },
    /// A range runs backward.
    #[error("the rule of line {line} has a range of {field} that ends before it begins")]
    Backward {
        /// The rule's line.
        line: u32,
        /// The field's name.
        field: String,
    },
    /// Ranges of one rule that have to be cut up make too many pieces.
    #[error(
        "the ranges of the rule of line {line} make {entries} pieces; use prefixes, or split it"
    )]
    TooIntricate {
        /// The rule's line.
        line: u32,
        /// How many pieces.
        entries: usize,
    },
    /// Rules that overlap and that no bit tells apart.
    #[error("{rules} rules overlap so that nothing tells them apart; split the set")]
    LeafTooLong {
        /// How many rules.
        rules: usize,
    },
    /// The table would be larger than allowed.
    #[error("the table needs more than {limit} bytes; raise the limit, or split the set")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
}

/// What the builder did with a rule set, and why.
#[derive(Clone, Debug)]
pub struct Account {
    /// The groups, in the order in which a lookup visits them.
    pub groups: Vec<GroupAccount>,
    /// Words of a key.
    pub words: usize,
    /// Bytes of the table.
    pub table_bytes: usize,
}

/// What became of one group of rules.
#[derive(Clone, Debug)]
pub struct GroupAccount {
    /// Names of the address fields that its rules fix.
    pub fixed: Vec<String>,
    /// Rules, counting pieces.
    pub rules: usize,
    /// Tables of the tree.
    pub nodes: usize,
    /// Entries of the first table; none where the group is one list.
    pub root_entries: usize,
    /// Rules in all leaves together.
    pub listed: usize,
}

impl fmt::Display for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "keys of {} words, table of {} bytes", self.words, self.table_bytes)?;
        for group in &self.groups {
            let fixed = match group.fixed.as_slice() {
                [] => "of no common address".to_owned(),
                fixed => format!("that fix {}", fixed.join(" and ")),
            };
            let how = match group.nodes {
                0 => "one list".to_owned(),
                nodes => format!("{nodes} tables, the first with {} entries", group.root_entries),
            };
            writeln!(
                formatter,
                "{} rules {fixed}: {how}; {} places in leaves",
                group.rules, group.listed
            )?;
        }
        Ok(())
    }
}

impl Table {
    /// Builds a table.
    ///
    /// # Errors
    ///
    /// If the rules do not fit the layout, or the table would not fit the limits.
    pub fn build(set: &RuleSet, limits: &Limits) -> Result<Table, BuildError> {
        Ok(build(set, limits)?.0)
    }
}

/// Builds a table and accounts for it; see [`Table::build`].
///
/// # Errors
///
/// Those of [`Table::build`].
pub fn build(set: &RuleSet, limits: &Limits) -> Result<(Table, Account), BuildError> {
    check(set)?;
    let wanted = ((1u32 << set.categories) - 1) as u16;
    let mut order = set.by_strength();
    order.retain(|&index| set.rules[index as usize].categories & wanted != 0);
    let plan = Plan::of(set);
    let encoded = Encoded::new(set, &order, &plan)?;
    let of_rule = |index: &u32| &set.rules[*index as usize];
    let categories: Vec<u16> =
        order.iter().map(|index| of_rule(index).categories & wanted).collect();
    let results: Vec<u32> = order.iter().map(|index| of_rule(index).result).collect();
    let sources = Sources { set, plan: &plan, encoded: &encoded, categories: &categories };
    let divided = group::divide(&encoded, &plan);
    let mut grown = sources.grow(&divided, &results, *limits)?;
    if encoded.len() <= FEW_RULES {
        // A lookup visits every tree: fewer are faster, where their copies of rules stay
        // affordable.
        let bytes_max = GROWTH_MAX * grown.forest.bytes();
        let attempt = Limits { table_bytes: limits.table_bytes.min(2 * bytes_max) };
        let mut divisions = group::joined(&divided);
        divisions.truncate(JOINED_MAX);
        if divided.len() > 1 {
            divisions.push(vec![group::whole(&encoded)]);
        }
        let cost = |of: &Grown<'_>| (of.roots.len(), of.forest.bytes());
        for division in divisions {
            if let Ok(other) = sources.grow(&division, &results, attempt)
                && other.forest.bytes() <= bytes_max
                && cost(&other) < cost(&grown)
            {
                grown = other;
            }
        }
    }
    let Grown { forest, roots, groups } = grown;
    let table = Table::assemble(Content {
        layout: &set.layout,
        shape: plan.shape,
        pieces: plan.pieces.concat(),
        categories: set.categories,
        default: set.default,
        rules: set.rules.len(),
        roots: &roots,
        index: &forest.index,
        chunks: &forest.chunks,
        category_masks: if set.categories > 1 { &categories } else { &[] },
    });
    let account = Account { groups, words: plan.shape.words(), table_bytes: table.bytes() };
    Ok((table, account))
}

/// For sets up to this size, fewer trees are tried.
const FEW_RULES: usize = 8192;
/// So many ways to join two groups are tried: with several addresses there are dozens.
const JOINED_MAX: usize = 4;
/// How much larger fewer trees may be.
const GROWTH_MAX: usize = 2;

/// What trees are grown from.
struct Sources<'a> {
    set: &'a RuleSet,
    plan: &'a Plan,
    encoded: &'a Encoded,
    categories: &'a [u16],
}

/// Trees, and what is to be said of them.
struct Grown<'a> {
    forest: Forest<'a>,
    roots: Vec<Entry>,
    groups: Vec<GroupAccount>,
}

impl<'a> Sources<'a> {
    /// Grows a tree of each group.
    fn grow(
        &self,
        divided: &[Group],
        results: &'a [u32],
        limits: Limits,
    ) -> Result<Grown<'a>, BuildError> {
        let (plan, fields) = (self.plan, self.set.layout.fields());
        let mut forest = Forest::new(
            self.encoded,
            plan.shape,
            self.categories,
            results,
            self.set.default,
            limits,
        );
        let (mut roots, mut groups) = (Vec::new(), Vec::new());
        for group in divided {
            let (nodes, chunks) = (forest.nodes, forest.chunks.len());
            let root = forest.plant(&group.ids)?;
            roots.push(root);
            let wide = (0..fields.len())
                .filter(|&field| plan.kinds[field] != Kind::Unused && fields[field].bytes >= 4);
            let fixed = wide.enumerate().filter(|(bit, _)| group.fixed >> bit & 1 == 1);
            groups.push(GroupAccount {
                fixed: fixed.map(|(_, field)| fields[field].name.clone()).collect(),
                rules: group.ids.len(),
                nodes: forest.nodes - nodes,
                root_entries: root.as_node().map_or(0, |at| node_entries(&forest.index, at)),
                listed: (forest.chunks.len() - chunks) / plan.shape.chunk_words() * RULES_PER_CHUNK,
            });
        }
        Ok(Grown { forest, roots, groups })
    }
}

fn check(set: &RuleSet) -> Result<(), BuildError> {
    if !(1..=CATEGORIES_MAX).contains(&set.categories) {
        return Err(BuildError::Categories(set.categories));
    }
    let fields = set.layout.fields();
    for rule in &set.rules {
        if rule.matches.len() != fields.len() {
            let (line, found) = (rule.line, rule.matches.len());
            return Err(BuildError::Matches { line, found, expected: fields.len() });
        }
        for (of, field) in rule.matches.iter().zip(fields) {
            if of.as_range(field.bytes).is_some_and(|(first, last)| last < first) {
                return Err(BuildError::Backward { line: rule.line, field: field.name.clone() });
            }
        }
    }
    Ok(())
}
