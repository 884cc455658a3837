//! Rules: what is compared with which bytes of a packet, and what comes out.

pub mod classbench;
pub mod csv;
pub mod dpdk;
pub mod iptables;
mod layout;
pub mod nftables;
mod parse;
mod protocol;

pub use layout::{Field, Layout, LayoutError};
pub use parse::ParseError;

use parse::Cursor;

/// How a rule file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Rules of DPDK's l3fwd-acl.
    Dpdk,
    /// ClassBench filters.
    Classbench,
    /// Comma-separated values with a line of column names.
    Csv,
    /// What iptables-save and ip6tables-save write.
    Iptables,
    /// What nft list ruleset writes.
    Nftables,
}

/// What one field of a packet must be for a rule to match. Values are in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// The bits that `mask` leaves equal those of `value`.
    Mask {
        /// The value; bits outside the mask do not count.
        value: u128,
        /// The bits that count.
        mask: u128,
    },
    /// The field lies between two values, both included.
    Range {
        /// The lowest value that matches.
        first: u128,
        /// The highest value that matches.
        last: u128,
    },
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// One match for each field of the layout, in its order.
    pub matches: Box<[Match]>,
    /// The highest priority wins; of equal ones, the rule that stands first.
    pub priority: i32,
    /// One bit for each category that the rule belongs to.
    pub categories: u16,
    /// What a packet gets whose best rule this is; any value, zero too.
    pub result: u32,
    /// Where the rule stands in its file, counted from 1; zero where it comes from no file.
    pub line: u32,
}

/// Rules over one layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSet {
    /// Where the fields lie.
    pub layout: Layout,
    /// How many results a lookup gives, 1 to [`CATEGORIES_MAX`].
    pub categories: usize,
    /// What a packet gets that no rule matches, in every category.
    pub default: u32,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// How many categories there can be.
pub const CATEGORIES_MAX: usize = 16;

impl Format {
    /// All formats.
    pub const ALL: [Format; 5] =
        [Format::Dpdk, Format::Classbench, Format::Csv, Format::Iptables, Format::Nftables];

    /// The format of a text, by its first line that says something.
    pub fn recognise(text: &str) -> Option<Self> {
        let line = Cursor::lines("", text).next()?.rest_trimmed();
        match line.split_once(' ').map_or(line, |(word, _)| word) {
            "table" => Some(Format::Nftables),
            word if word.starts_with('*') => Some(Format::Iptables),
            // ClassBench alone has flags: two addresses, a protocol and them make four slashes.
            word if word.starts_with('@') && line.matches('/').count() == 4 => {
                Some(Format::Classbench)
            }
            word if word.starts_with(['@', 'R']) => Some(Format::Dpdk),
            _ if line.split(',').any(|name| name.trim() == "result") => Some(Format::Csv),
            _ => None,
        }
    }

    /// Reads the text of a file; `file` is what errors call it.
    ///
    /// # Errors
    ///
    /// At the first place that is wrong, with line and column.
    pub fn parse(self, file: &str, text: &str) -> Result<RuleSet, ParseError> {
        let parse = match self {
            Format::Dpdk => dpdk::parse,
            Format::Classbench => classbench::parse,
            Format::Csv => csv::parse,
            Format::Iptables => iptables::parse,
            Format::Nftables => nftables::parse,
        };
        parse(file, text)
    }
}

/// Whether a text is empty, or has comments only.
pub fn is_blank(text: &str) -> bool {
    Cursor::lines("", text).next().is_none()
}

impl Match {
    /// Matches everything.
    pub const ANY: Match = Match::Mask { value: 0, mask: 0 };

    /// Matches one value of a field of `bytes` bytes.
    pub const fn exact(value: u128, bytes: usize) -> Self {
        Match::Mask { value, mask: ones(8 * bytes as u32) }
    }

    /// Matches the values of a field of `bytes` bytes that begin with the `length` first bits of
    /// `value`.
    pub const fn prefix(value: u128, length: u32, bytes: usize) -> Self {
        let bits = 8 * bytes as u32;
        let length = if length > bits { bits } else { length };
        Match::Mask { value, mask: ones(length) << ((bits - length) % 128) }
    }

    /// Matches the values from `first` to `last`.
    pub const fn range(first: u128, last: u128) -> Self {
        Match::Range { first, last }
    }

    /// Whether `value` matches.
    pub const fn accepts(&self, value: u128) -> bool {
        match *self {
            Match::Mask { value: wanted, mask } => (value ^ wanted) & mask == 0,
            Match::Range { first, last } => first <= value && value <= last,
        }
    }

    /// Whether every value of a field of `bytes` bytes matches.
    pub const fn is_any(&self, bytes: usize) -> bool {
        let all = ones(8 * bytes as u32);
        match *self {
            Match::Mask { mask, .. } => mask & all == 0,
            Match::Range { first, last } => first == 0 && last >= all,
        }
    }

    /// Whether it compares only bits that a field of `bytes` bytes has.
    pub(crate) const fn fits(&self, bytes: usize) -> bool {
        let all = ones(8 * bytes as u32);
        match *self {
            Match::Mask { mask, .. } => mask & !all == 0,
            Match::Range { first, last } => first <= all && last <= all,
        }
    }

    /// The first and last value, if the values that match are all those in between.
    pub const fn as_range(&self, bytes: usize) -> Option<(u128, u128)> {
        let all = ones(8 * bytes as u32);
        match *self {
            Match::Range { first, last } => Some((first, if last < all { last } else { all })),
            Match::Mask { value, mask } => {
                let free = !mask & all;
                // The free bits are the lowest: adding one to them carries out of all of them.
                if free & free.wrapping_add(1) & all != 0 {
                    return None;
                }
                Some((value & mask & all, value & mask & all | free))
            }
        }
    }

    /// Value and mask, if the values that match are those of a mask.
    pub const fn as_mask(&self, bytes: usize) -> Option<(u128, u128)> {
        let all = ones(8 * bytes as u32);
        match *self {
            Match::Mask { value, mask } => Some((value & mask & all, mask & all)),
            Match::Range { first, last } => {
                let last = if last < all { last } else { all };
                let differing = first ^ last;
                let is_prefix = differing & differing.wrapping_add(1) == 0
                    && first & differing == 0
                    && last & differing == differing;
                if is_prefix { Some((first, !differing & all)) } else { None }
            }
        }
    }

    /// Whether every value of a field of `bytes` bytes that `other` accepts is accepted here.
    pub(crate) fn covers(&self, other: &Match, bytes: usize) -> bool {
        if self.is_any(bytes) {
            return true;
        }
        if let (Some((first, last)), Some((other_first, other_last))) =
            (self.as_range(bytes), other.as_range(bytes))
        {
            return first <= other_first && other_last <= last;
        }
        match (self.as_mask(bytes), other.as_mask(bytes)) {
            (Some((value, mask)), Some((other_value, other_mask))) => {
                mask & !other_mask == 0 && (value ^ other_value) & mask == 0
            }
            // A mask with holes and a range that is no prefix: equal bounds are all we can tell.
            _ => false,
        }
    }

    /// Whether some value of a field of `bytes` bytes is accepted by both, or might be.
    pub(crate) fn overlaps(&self, other: &Match, bytes: usize) -> bool {
        if let (Some((first, last)), Some((other_first, other_last))) =
            (self.as_range(bytes), other.as_range(bytes))
        {
            return first <= other_last && other_first <= last;
        }
        match (self.as_mask(bytes), other.as_mask(bytes)) {
            (Some((value, mask)), Some((other_value, other_mask))) => {
                (value ^ other_value) & mask & other_mask == 0
            }
            _ => true,
        }
    }
}

impl RuleSet {
    /// No rules yet, one category, and the default zero.
    pub const fn new(layout: Layout) -> Self {
        RuleSet { layout, categories: 1, default: 0, rules: Vec::new() }
    }

    /// The rules, strongest first.
    pub fn in_order(&self) -> impl Iterator<Item = &Rule> {
        self.by_strength().into_iter().map(|index| &self.rules[index as usize])
    }

    /// A copy of the rules, the strongest first and all in one category. The result of each is its
    /// place among them, counted from 1, and the default is 0: so lookups tell which rule they met.
    pub fn numbered(&self) -> RuleSet {
        let numbered =
            |(rule, place): (&Rule, u32)| Rule { categories: 1, result: place, ..rule.clone() };
        let rules = self.in_order().zip(1..).map(numbered).collect();
        RuleSet { rules, ..RuleSet::new(self.layout.clone()) }
    }

    /// The indices of the rules, strongest first.
    pub(crate) fn by_strength(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.rules.len() as u32).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(self.rules[index as usize].priority));
        order
    }
}

impl Rule {
    /// Whether every packet that `other` matches is matched here.
    pub(crate) fn covers(&self, other: &Rule, layout: &Layout) -> bool {
        let fields = layout.fields().iter();
        let mut pairs = self.matches.iter().zip(&other.matches).zip(fields);
        pairs.all(|((own, other), field)| own.covers(other, field.bytes))
    }

    /// Whether some packet is matched by both, as far as one can tell field by field.
    pub(crate) fn overlaps(&self, other: &Rule, layout: &Layout) -> bool {
        let fields = layout.fields().iter();
        let mut pairs = self.matches.iter().zip(&other.matches).zip(fields);
        pairs.all(|((own, other), field)| own.overlaps(other, field.bytes))
    }
}

/// The number whose lowest `count` bits are set.
pub(crate) const fn ones(count: u32) -> u128 {
    if count == 0 { 0 } else { u128::MAX >> (128 - count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_in_place_of_the_rest_are_refused() {
        let rule = "R10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 1 6/0xff 1\n";
        for rest in ["\0\0", "# as a\0\0", "R10.0.0.0/8\0\0"] {
            let error = Format::Dpdk.parse("r", &format!("{rule}{rest}")).unwrap_err().to_string();
            assert!(error.starts_with("r:2:"), "{error}");
        }
    }

    #[test]
    fn formats_are_recognised_by_the_first_line_that_says_something() {
        for (line, format) in [
            ("@10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 1 6/0xff", Format::Dpdk),
            ("R10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 1 6/0xff 1", Format::Dpdk),
            ("@10.0.0.0/8\t0.0.0.0/0\t0 : 1\t0 : 1\t6/0xff\t0/0", Format::Classbench),
            ("source, destination, result", Format::Csv),
            ("*filter", Format::Iptables),
            ("table ip filter {", Format::Nftables),
        ] {
            let text = format!("\u{feff}# made: today\n\n  {line}\n*,*,1\n");
            assert_eq!(Format::recognise(&text), Some(format), "{line}");
        }
        for text in ["", "# nothing\n", "{ \"nftables\": [] }\n", "source,destination\n"] {
            assert_eq!(Format::recognise(text), None, "{text}");
        }
        assert!(is_blank("\u{feff}# nothing\n\n") && !is_blank("nothing"));
    }

    #[test]
    fn a_prefix_is_a_range_and_a_mask() {
        let prefix = Match::prefix(0x0a01_0000, 16, 4);
        assert_eq!(prefix.as_range(4), Some((0x0a01_0000, 0x0a01_ffff)));
        assert_eq!(prefix.as_mask(4), Some((0x0a01_0000, 0xffff_0000)));
        assert_eq!(Match::range(1024, 2047).as_mask(2), Some((1024, 0xfc00)));
        assert_eq!(Match::range(1024, 2048).as_mask(2), None);
        assert_eq!(Match::Mask { value: 1, mask: 5 }.as_range(1), None);
        assert_eq!(Match::prefix(7, 0, 16), Match::Mask { value: 7, mask: 0 });
        assert_eq!(Match::prefix(7, 128, 16), Match::exact(7, 16));
    }

    #[test]
    fn anything_is_recognised_in_both_forms() {
        assert!(Match::ANY.is_any(16));
        assert!(Match::range(0, 0xffff).is_any(2));
        assert!(!Match::range(0, 0xfffe).is_any(2));
        assert!(!Match::exact(0, 1).is_any(1));
    }

    #[test]
    fn cover_and_overlap_agree_with_enumeration() {
        let matches = [
            Match::ANY,
            Match::exact(5, 1),
            Match::prefix(0x80, 2, 1),
            Match::range(3, 9),
            Match::range(128, 191),
            Match::Mask { value: 1, mask: 0x81 },
        ];
        for own in matches {
            for other in matches {
                let both = |value: &u128| own.accepts(*value) && other.accepts(*value);
                assert_eq!(
                    own.overlaps(&other, 1),
                    (0..256).any(|value| both(&value))
                        || (own.as_range(1).is_none() || other.as_range(1).is_none())
                            && (own.as_mask(1).is_none() || other.as_mask(1).is_none())
                );
                let covered = (0..256).all(|value| own.accepts(value) || !other.accepts(value));
                assert!(covered || !own.covers(&other, 1), "{own:?} {other:?}");
            }
        }
    }
}
