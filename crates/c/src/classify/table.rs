//! Tables and lookups for C.
#![allow(unsafe_code, reason = "functions for C")]

use std::error::Error;
use std::ffi::c_char;
use std::iter;
use std::path::Path;
use std::sync::Arc;

use widelane_classify::rule::Layout;
use widelane_classify::{self as classify, Limits, LookupError};

use crate::classify::rules::Rules;
use crate::door;
use crate::status::Status;

/// A table of rules.
#[derive(Debug)]
pub struct Table(Arc<classify::Table>);

/// Looks packets up in a table; may be used by several threads at once.
#[derive(Debug)]
pub struct Classifier(classify::Classifier);

/// What is looked up: the first bytes of a packet, from its IP header on.
///
/// Lookups compare bytes at fixed places: of IPv4 the first 24, of IPv6 the first 44, with the
/// ports directly behind a header of 20 or 40 bytes. So this must be a packet of the table's
/// version of IP without IPv4 options or IPv6 extension headers, which is not a later fragment, has
/// ports, and says itself that it is long enough to have them. Of any other packet something else
/// would be taken for ports, and its sender could evade rules that deny.
///
/// `widelane_flow_parse` makes of any packet what can be looked up; use it unless all packets are
/// known to be of this form. If one packet is too short, none of the call is looked up.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The first byte.
    pub bytes: *const u8,
    /// How many there are.
    pub length: usize,
}

/// Builds a table of at most `table_bytes` bytes; 0 is 256 MiB.
///
/// # Safety
///
/// `rules` is a set that is not freed, and `table` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_table_build(
    rules: *const Rules,
    table_bytes: usize,
    table: *mut *mut Table,
) -> Status {
    let made = || {
        // SAFETY: the caller vouches for it.
        let rules = unsafe { door::reference(rules) }?;
        let built = classify::Table::build(&rules.0, &limits(table_bytes));
        let built = built.map_err(|error| Status::Build.because(error))?;
        Ok(Table(Arc::new(built)))
    };
    // SAFETY: the caller vouches for it.
    unsafe { door::make(table, made) }
}

/// Maps a table that was written to a file, after checking all of it.
///
/// # Safety
///
/// `path` ends with a zero, and `table` can be written to. The file stays as it is, neither written
/// to nor shortened, until the table and its classifiers are freed: it is replaced by renaming
/// another over it, as `widelane_table_write` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_table_open(
    path: *const c_char,
    table: *mut *mut Table,
) -> Status {
    let made = || {
        // SAFETY: the caller vouches for it.
        let path = unsafe { door::path(path) }?;
        let opened = classify::Table::open(path).map_err(|error| refused(path, &error))?;
        Ok(Table(Arc::new(opened)))
    };
    // SAFETY: the caller vouches for it.
    unsafe { door::make(table, made) }
}

/// Writes a table to a file: to a new one beside it first, which then takes its place. A table that
/// is mapped from the old file stays as it is.
///
/// # Safety
///
/// `table` is one that is not freed, and `path` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_table_write(table: *const Table, path: *const c_char) -> Status {
    door::guarded(|| {
        // SAFETY: the caller vouches for it.
        let table = unsafe { door::reference(table) }?;
        // SAFETY: the caller vouches for it.
        let path = unsafe { door::path(path) }?;
        table.0.save(path).map_err(|error| refused(path, &error))
    })
}

/// Notes what went wrong with a file, and what that came from.
fn refused(path: &Path, error: &dyn Error) -> Status {
    let causes = iter::successors(Some(error), |&error| error.source());
    let text = causes.fold(path.display().to_string(), |text, cause| format!("{text}: {cause}"));
    Status::Table.because(text)
}

/// Whether a table is for IPv6 rather than IPv4; false for null.
///
/// # Safety
///
/// `table` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_table_is_ipv6(table: *const Table) -> bool {
    // SAFETY: the caller vouches for it.
    unsafe { table.as_ref() }.is_some_and(|table| *table.0.layout() == Layout::ipv6())
}

/// How many results a lookup gives for each packet; 0 for null.
///
/// # Safety
///
/// `table` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_table_categories(table: *const Table) -> usize {
    // SAFETY: the caller vouches for it.
    unsafe { table.as_ref() }.map_or(0, |table| table.0.categories())
}

/// Frees a table; classifiers that use it go on.
///
/// # Safety
///
/// `table` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_table_free(table: *mut Table) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(table) }
}

/// Chooses the widest room that the machine has, with registers of at most `width_max` bits: 128,
/// 256 or 512, or 0 for no limit.
///
/// # Safety
///
/// `table` is one that is not freed, and `classifier` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_classifier_choose(
    table: *const Table,
    width_max: u32,
    classifier: *mut *mut Classifier,
) -> Status {
    let made = || {
        // SAFETY: the caller vouches for it.
        let table = unsafe { door::reference(table) }?;
        let policy = door::policy(width_max)?;
        let chosen = classify::Classifier::choose(Arc::clone(&table.0), &policy);
        Ok(Classifier(chosen))
    };
    // SAFETY: the caller vouches for it.
    unsafe { door::make(classifier, made) }
}

/// Looks up packets; `results` has a place for each category of each packet, `result_count` in all.
///
/// # Safety
///
/// `classifier` is one that is not freed; there are as many packets and results as said, and as
/// many bytes as each packet says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_classifier_classify(
    classifier: *const Classifier,
    packets: *const Packet,
    packet_count: usize,
    results: *mut u32,
    result_count: usize,
) -> Status {
    door::guarded(|| {
        // SAFETY: the caller vouches for it.
        let classifier = unsafe { door::reference(classifier) }?;
        let lookup =
            |packets: &[&[u8]], results: &mut [u32]| classifier.0.classify(packets, results);
        // SAFETY: the caller vouches for it.
        let packets = unsafe { door::array(packets, packet_count) }?;
        // SAFETY: the caller vouches for it.
        let results = unsafe { door::places(results, result_count) }?;
        // SAFETY: the caller vouches for it.
        unsafe { look_up(packets, results, lookup) }
    })
}

/// Frees a classifier.
///
/// # Safety
///
/// `classifier` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_classifier_free(classifier: *mut Classifier) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(classifier) }
}

/// Looks up packets of C.
///
/// # Safety
///
/// Every packet has as many bytes as it says.
pub(crate) unsafe fn look_up(
    packets: &[Packet],
    results: &mut [u32],
    lookup: impl FnOnce(&[&[u8]], &mut [u32]) -> Result<(), LookupError>,
) -> Result<(), Status> {
    let mut lent: Vec<&[u8]> = Vec::with_capacity(packets.len());
    for packet in packets {
        // SAFETY: the caller vouches for it.
        lent.push(unsafe { door::array(packet.bytes, packet.length) }?);
    }
    lookup(&lent, results).map_err(|error| Status::Lookup.because(error))
}

/// The limits that a number of bytes stands for.
pub(crate) fn limits(table_bytes: usize) -> Limits {
    match table_bytes {
        0 => Limits::default(),
        table_bytes => Limits { table_bytes },
    }
}
