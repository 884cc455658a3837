//! From rules to a table: words, groups, bits, trees. docs/program/classify.md explains the
//! choices.

mod change_state;
mod costs;
mod deferred;
mod encode;
mod group;
mod leaves;
mod listing;
mod lists;
mod plan;
mod select;
mod tree;
mod walk;

use std::fmt;

use self::change_state::ChangeState;
pub(crate) use self::change_state::Edits;
pub(crate) use self::costs::AFFORDED;
pub(crate) use self::encode::{Encoded, categories_of};
use self::group::{Group, Wide};
pub(crate) use self::leaves::Run;
pub(crate) use self::lists::{Place, Roots};
use self::plan::Kind;
pub(crate) use self::plan::Plan;
pub(crate) use self::tree::Forest;
use crate::rule::{CATEGORIES_MAX, Layout, Rule, RuleSet};
use crate::table::{Content, Table, node_entries};

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
#[non_exhaustive]
pub enum BuildError {
    /// More rules than a table can rank.
    #[error("{rules} rules are more than the {most} that a table can hold; split the set")]
    TooManyRules {
        /// How many there are.
        rules: usize,
        /// How many there can be; fewer if rules are to change while packets are looked up.
        most: usize,
    },
    /// A number of categories that is not offered.
    #[error("{0} categories; there can be 1 to {CATEGORIES_MAX}")]
    Categories(usize),
    /// A rule does not fit the layout.
    #[error("{} has {found} matches, and the layout has {expected} fields", rule_of(*line))]
    Matches {
        /// The rule's line.
        line: u32,
        /// How many matches it has.
        found: usize,
        /// How many it should have.
        expected: usize,
    },
    /// A match has bits that its field does not have.
    #[error("{} looks at more than the {bytes} bytes of {field}", rule_of(*line))]
    Wide {
        /// The rule's line.
        line: u32,
        /// The field's name.
        field: String,
        /// How long the field is.
        bytes: usize,
    },
    /// A range runs backward.
    #[error("{} has a range of {field} that ends before it begins", rule_of(*line))]
    Backward {
        /// The rule's line.
        line: u32,
        /// The field's name.
        field: String,
    },
    /// A rule that would be inserted into a live set, and never match.
    #[error("{} is in none of the categories that the set has", rule_of(*line))]
    NoCategory {
        /// The rule's line.
        line: u32,
    },
    /// Ranges of one rule that have to be cut up make too many pieces.
    #[error(
        "the ranges of {} make {entries} pieces; use prefixes, split it, or, in a live set, \
         replace the whole set",
        rule_of(*line)
    )]
    TooIntricate {
        /// The rule's line.
        line: u32,
        /// How many pieces.
        entries: usize,
    },
    /// No rank is free between the neighbours of a rule that is inserted.
    #[error("no rank is free between the neighbours of the new rule; build the set anew")]
    NoRank,
    /// Rules that overlap and that no bit distinguishes.
    #[error("{rules} rules overlap, and no bit of their fields distinguishes them; split the set")]
    LeafTooLong {
        /// How many rules.
        rules: usize,
    },
    /// The table would be larger than allowed.
    #[error("the table needs more than {limit} bytes; raise that limit, or split the set")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The system has no thread for the trees of live rules.
    #[error("no thread can be had that rebuilds the trees: {0}")]
    NoThread(String),
    /// A build of live rules panicked.
    #[error("a rebuild of the trees panicked; this is a defect, please report it")]
    Panicked,
}

fn rule_of(line: u32) -> String {
    match line {
        0 => "a rule".to_owned(),
        line => format!("the rule of line {line}"),
    }
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
    /// Rules, counting the pieces that their ranges are cut into.
    pub rules: usize,
    /// Tables of the tree.
    pub nodes: usize,
    /// Entries of the first table; none where the group is one list.
    pub root_entries: usize,
    /// Pieces in all leaves together.
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
                "{} pieces of rules {fixed}: {how}; {} places in leaves",
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
    let ranks: Vec<u32> = (0..set.rules.len() as u32).collect();
    let grown = grow(set, limits, &ranks, false)?;
    let masks = match set.categories {
        1 => Vec::new(),
        _ => grown.encoded.category_masks(),
    };
    let table = Table::assemble(grown.content(set, &masks));
    let words = grown.plan.shape.words();
    let account = Account { groups: grown.groups, words, table_bytes: table.bytes() };
    Ok((table, account))
}

/// Grows the trees for a set of rules. If they are to be `changeable`, any rule that the layout
/// allows can be inserted later, and there are [`Roots::SPARE`] more roots, without trees yet.
pub(crate) fn grow(
    set: &RuleSet,
    limits: &Limits,
    ranks: &[u32],
    changeable: bool,
) -> Result<Grown, BuildError> {
    check(set)?;
    let wanted = categories_of(set.categories);
    let mut order = set.by_strength();
    order.retain(|&index| set.rules[index as usize].categories & wanted != 0);
    let plan = Plan::of(set, changeable);
    let encoded = Encoded::new(set, &order, &plan, ranks, limits)?;
    let wide = Wide::of(&plan);
    let sources = Sources { set, plan: &plan, wide: &wide, encoded: &encoded, changeable };
    let (forest, groups) = sources.trees(*limits)?;
    Ok(Grown { plan, encoded, forest, groups })
}

/// For sets up to this size, some ways to have fewer trees are tried.
const FEW_RULES: usize = 8192;
/// One tree for all is not tried first if more than one rule in this many is of another group than
/// most: those are copied, and it takes long to find out that they are too many.
const GUESTS: usize = 8;
/// How many ways to join two groups are tried: with several addresses there are dozens.
const JOINED_MAX: usize = 4;
/// How much larger fewer trees may be.
const GROWTH_MAX: usize = 2;
/// One tree for all is small if it takes no more memory than this many chunks for each rule.
const CHUNKS_PER_RULE: usize = 2;

/// What trees are grown from.
struct Sources<'a> {
    set: &'a RuleSet,
    plan: &'a Plan,
    wide: &'a Wide,
    encoded: &'a Encoded,
    changeable: bool,
}

/// Trees, and what is to be said of each.
type Trees = (Forest, Vec<GroupAccount>);

/// Trees, and what they have grown from.
#[derive(Debug)]
pub(crate) struct Grown {
    pub plan: Plan,
    pub encoded: Encoded,
    pub forest: Forest,
    pub groups: Vec<GroupAccount>,
}

impl Grown {
    /// What a table is to be made of.
    pub fn content<'a>(&'a self, set: &'a RuleSet, category_masks: &'a [u64]) -> Content<'a> {
        Content {
            layout: &set.layout,
            shape: self.plan.shape,
            pieces: self.plan.pieces.concat(),
            categories: set.categories,
            default: set.default,
            rules: set.rules.len(),
            roots: self.groups.len(),
            index: &self.forest.index,
            chunks: &self.forest.chunks,
            category_masks,
        }
    }
}

impl Sources<'_> {
    /// Grows a tree of each group; with few copies of rules if many do not fit the limits.
    /// Changeable trees have few copies in any case, since a change has to find them all.
    fn grow(&self, divided: &[Group], limits: Limits) -> Result<Trees, BuildError> {
        match self.grow_with(divided, limits, !self.changeable) {
            Err(BuildError::TooLarge { .. }) if !self.changeable => {
                self.grow_with(divided, limits, false)
            }
            grown => grown,
        }
    }

    /// The trees for the set: one for all if most rules are of one group and that one is small,
    /// else some for the groups.
    fn trees(&self, limits: Limits) -> Result<Trees, BuildError> {
        let divided = group::divide(self.encoded, self.wide);
        let largest = divided.iter().map(|group| group.ids.len()).max().unwrap_or(0);
        let (rules, guests) = (self.encoded.len(), self.encoded.len() - largest);
        if !self.changeable
            && divided.len() > 1
            && guests * GUESTS <= rules
            && let Some(one) = self.small_whole(limits)
        {
            return Ok(one);
        }
        let first = self.grow(&divided, limits)?;
        Ok(if rules > FEW_RULES { first } else { self.join(&divided, first, limits) })
    }

    /// One tree for all rules, if it is small.
    fn small_whole(&self, limits: Limits) -> Option<Trees> {
        let per_rule = CHUNKS_PER_RULE * 8 * self.plan.shape.chunk_words();
        // Copies get rare beyond half of what a table may take, so that this one may take twice as
        // much as is small.
        let bytes_max = (per_rule * self.encoded.len()).min(limits.table_bytes / 2);
        let attempt = Limits { table_bytes: 2 * bytes_max };
        let grown = self.grow_with(&[group::whole(self.encoded)], attempt, true);
        grown.ok().filter(|(forest, _)| forest.bytes() <= bytes_max)
    }

    /// Joins trees where their copies of rules stay affordable: a lookup visits every tree, so
    /// fewer are faster.
    fn join(&self, divided: &[Group], first: Trees, limits: Limits) -> Trees {
        let mut best = first;
        let bytes_max = GROWTH_MAX * best.0.bytes();
        let attempt = Limits { table_bytes: limits.table_bytes.min(2 * bytes_max) };
        let mut divisions = Vec::new();
        if divided.len() > 1 {
            divisions.push(vec![group::whole(self.encoded)]);
        }
        divisions.extend(group::joined(divided).into_iter().take(JOINED_MAX));
        let cost = |(forest, groups): &Trees| (groups.len(), forest.bytes());
        for division in divisions {
            // More trees than the best has would not be taken.
            if division.len() <= best.1.len()
                && let Ok(other) = self.grow(&division, attempt)
                && other.0.bytes() <= bytes_max
                && cost(&other) < cost(&best)
            {
                best = other;
            }
        }
        best
    }

    fn grow_with(
        &self,
        divided: &[Group],
        limits: Limits,
        is_generous: bool,
    ) -> Result<Trees, BuildError> {
        let (plan, encoded, changeable) = (self.plan, self.encoded, self.changeable);
        let (fields, default) = (self.set.layout.fields(), self.set.default);
        let spare = if changeable { Roots::SPARE } else { 0 };
        let roots = divided.len() + spare;
        let change_state = changeable.then(|| ChangeState::of(roots, self.wide));
        let mut forest = Forest::new(encoded, plan.shape, default, limits, roots, change_state);
        forest.is_generous = is_generous;
        let mut groups = Vec::new();
        for (root, group) in divided.iter().enumerate() {
            let (nodes, chunk) = (forest.nodes, forest.end_chunk());
            let entry = forest.grow_tree(encoded, root, &group.ids)?;
            forest.note_tree(root, group);
            let wide = (0..fields.len())
                .filter(|&field| plan.kinds[field] != Kind::Unused && fields[field].bytes >= 4);
            let fixed = wide.enumerate().filter(|(bit, _)| group.fixed >> bit & 1 == 1);
            groups.push(GroupAccount {
                fixed: fixed.map(|(_, field)| fields[field].name.clone()).collect(),
                rules: group.ids.len(),
                nodes: forest.nodes - nodes,
                root_entries: entry.as_node().map_or(0, |at| node_entries(&forest.index, at)),
                listed: forest.leaves.listed_from(chunk),
            });
        }
        (divided.len()..roots)
            .try_for_each(|root| forest.grow_tree(encoded, root, &[]).map(drop))?;
        Ok((forest, groups))
    }
}

fn check(set: &RuleSet) -> Result<(), BuildError> {
    if !(1..=CATEGORIES_MAX).contains(&set.categories) {
        return Err(BuildError::Categories(set.categories));
    }
    set.rules.iter().try_for_each(|rule| check_rule(rule, &set.layout))
}

/// Checks that a rule fits a layout.
pub(crate) fn check_rule(rule: &Rule, layout: &Layout) -> Result<(), BuildError> {
    let fields = layout.fields();
    if rule.matches.len() != fields.len() {
        let (line, found) = (rule.line, rule.matches.len());
        return Err(BuildError::Matches { line, found, expected: fields.len() });
    }
    for (of, field) in rule.matches.iter().zip(fields) {
        if !of.fits(field.bytes) {
            let (field, bytes) = (field.name.clone(), field.bytes);
            return Err(BuildError::Wide { line: rule.line, field, bytes });
        }
        if of.as_range(field.bytes).is_some_and(|(first, last)| last < first) {
            return Err(BuildError::Backward { line: rule.line, field: field.name.clone() });
        }
    }
    Ok(())
}
