//! Rules for C: sets from text, and single ones.
#![allow(unsafe_code, reason = "functions for C")]

use std::borrow::Cow;
use std::ffi::c_char;

use widelane_classify::rule::{self, Layout, RuleSet};

use crate::door;
use crate::status::Status;

/// How rules are written.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Rules of DPDK's l3fwd-acl.
    Dpdk = 0,
    /// ClassBench filters.
    Classbench = 1,
    /// Comma-separated values with a line of column names.
    Csv = 2,
    /// What iptables-save and ip6tables-save write.
    Iptables = 3,
    /// What nft list ruleset writes.
    Nftables = 4,
}

/// A set of rules.
#[derive(Debug)]
pub struct Rules(pub(crate) RuleSet);

/// How a field is compared.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchKind {
    /// The bits of `second` that are set are those of `first`.
    Mask = 0,
    /// It lies between `first` and `second`, both included.
    Range = 1,
}

/// What one field must be. Values are in network byte order and end with the last byte.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Match {
    /// One of `widelane_match_kind`.
    pub kind: u32,
    /// The value, or the lowest value.
    pub first: [u8; 16],
    /// The mask, or the highest value.
    pub second: [u8; 16],
}

/// One rule.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// One match for each field of the set, in its order.
    pub matches: *const Match,
    /// How many there are.
    pub match_count: usize,
    /// The highest priority wins; of equal ones, the rule that was there first.
    pub priority: i32,
    /// One bit for each category that the rule belongs to; at least one of the set's, of which the
    /// lowest bit stands for the first.
    pub categories: u16,
    /// What a packet gets whose best rule this is.
    pub result: u32,
}

/// Reads the text of a rule file; `format` is one of `widelane_format`, and `file` is what messages
/// call it. A zero byte ends the text: give what was read from a file to
/// `widelane_rules_parse_bytes`, which refuses it there.
///
/// # Safety
///
/// `file` and `text` end with a zero, and `rules` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_rules_parse(
    format: u32,
    file: *const c_char,
    text: *const c_char,
    rules: *mut *mut Rules,
) -> Status {
    // SAFETY: the caller vouches for it.
    let text = || unsafe { door::text(text) };
    // SAFETY: the caller vouches for it.
    unsafe { parse(format, file, text, rules) }
}

/// Reads `length` bytes of a rule file as `widelane_rules_parse` reads a text. Comments and names
/// may be in any encoding.
///
/// # Safety
///
/// `file` ends with a zero, there are `length` bytes, and `rules` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_rules_parse_bytes(
    format: u32,
    file: *const c_char,
    bytes: *const u8,
    length: usize,
    rules: *mut *mut Rules,
) -> Status {
    // SAFETY: the caller vouches for it.
    let text = || Ok(String::from_utf8_lossy(unsafe { door::array(bytes, length) }?));
    // SAFETY: the caller vouches for it.
    unsafe { parse(format, file, text, rules) }
}

/// Reads a text. The parsers refuse what is not ASCII elsewhere than in comments and names.
///
/// # Safety
///
/// `file` ends with a zero, and `rules` can be written to.
unsafe fn parse<'a>(
    format: u32,
    file: *const c_char,
    text: impl FnOnce() -> Result<Cow<'a, str>, Status>,
    rules: *mut *mut Rules,
) -> Status {
    let made = || {
        // SAFETY: the caller vouches for it.
        let file = unsafe { door::text(file) }?;
        let text = text()?;
        let format = door::choice(&rule::Format::ALL, format, "format")?;
        let set = format.parse(&file, &text).map_err(|error| Status::Parse.because(error))?;
        Ok(Rules(set))
    };
    // SAFETY: the caller vouches for it.
    unsafe { door::make(rules, made) }
}

/// How many rules there are; 0 for null.
///
/// # Safety
///
/// `rules` is null or a set that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_rules_count(rules: *const Rules) -> usize {
    // SAFETY: the caller vouches for it.
    unsafe { rules.as_ref() }.map_or(0, |rules| rules.0.rules.len())
}

/// Whether the rules are for IPv6 rather than IPv4; false for null, and where there are none to
/// tell.
///
/// # Safety
///
/// `rules` is null or a set that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_rules_is_ipv6(rules: *const Rules) -> bool {
    // SAFETY: the caller vouches for it.
    unsafe { rules.as_ref() }.is_some_and(|rules| rules.0.layout == Layout::ipv6())
}

/// How many results a lookup by these rules gives for each packet; 0 for null.
///
/// # Safety
///
/// `rules` is null or a set that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_rules_categories(rules: *const Rules) -> usize {
    // SAFETY: the caller vouches for it.
    unsafe { rules.as_ref() }.map_or(0, |rules| rules.0.categories)
}

/// Frees a set.
///
/// # Safety
///
/// `rules` is null or a set that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_rules_free(rules: *mut Rules) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(rules) }
}

impl Rule {
    /// The rule in Rust's form.
    ///
    /// # Safety
    ///
    /// `matches` points to `match_count` matches.
    pub(crate) unsafe fn read(&self) -> Result<rule::Rule, Status> {
        // SAFETY: the caller vouches for it.
        let matches = unsafe { door::array(self.matches, self.match_count) }?;
        let matches: Result<Box<[rule::Match]>, Status> = matches.iter().map(Match::read).collect();
        Ok(rule::Rule {
            matches: matches?,
            priority: self.priority,
            categories: self.categories,
            result: self.result,
            line: 0,
        })
    }
}

impl Match {
    fn read(&self) -> Result<rule::Match, Status> {
        let (first, second) = (u128::from_be_bytes(self.first), u128::from_be_bytes(self.second));
        match self.kind {
            kind if kind == MatchKind::Mask as u32 => {
                Ok(rule::Match::Mask { value: first, mask: second })
            }
            kind if kind == MatchKind::Range as u32 => Ok(rule::Match::range(first, second)),
            other => Err(Status::Argument.because(format!("there is no kind of match {other}"))),
        }
    }
}
