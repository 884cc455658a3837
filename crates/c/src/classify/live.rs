//! Rules that change while packets are looked up, for C.
#![allow(unsafe_code, reason = "functions for C")]

use std::ptr;

use widelane_classify::live::{self, RuleId, UpdateError};

use crate::classify::rules::{Rule, Rules};
use crate::classify::table::{Packet, limits, look_up};
use crate::door;
use crate::status::Status;

/// A rule set that changes while packets are looked up; may be used by several threads at once.
#[derive(Debug)]
pub struct Live(live::Live);

/// Looks packets up in a live set; each thread has one of its own.
#[derive(Debug)]
pub struct Reader(live::Reader);

fn refused(error: UpdateError) -> Status {
    match &error {
        UpdateError::NoSuchRule(_) => Status::NoSuchRule,
        UpdateError::Build(_) => Status::Build,
        UpdateError::Forked => Status::Forked,
        // A rule of another shape, or what later versions refuse.
        _ => Status::Argument,
    }
    .because(error)
}

/// Begins a live set, whose rules have the numbers from 0 in their order. `table_bytes` and
/// `width_max` are as for tables and classifiers.
///
/// A forked child has a set of its own, with the rules of that moment. Its first change takes as
/// long as this, or fails as this does; if another thread was changing the rules at the fork, the
/// child's changes are `WIDELANE_STATUS_FORKED`.
///
/// # Safety
///
/// `rules` is a set that is not freed, and `live` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_live_new(
    rules: *const Rules,
    table_bytes: usize,
    width_max: u32,
    live: *mut *mut Live,
) -> Status {
    let made = || {
        // SAFETY: the caller vouches for it.
        let rules = unsafe { door::reference(rules) }?;
        let policy = door::policy(width_max)?;
        let begun = live::Live::new(&rules.0, &limits(table_bytes), &policy);
        let begun = begun.map_err(|error| Status::Build.because(error))?;
        Ok(Live(begun))
    };
    // SAFETY: the caller vouches for it.
    unsafe { door::make(live, made) }
}

/// Adds a rule behind those of its priority, and stores its number. Readers see it when this
/// returns.
///
/// # Safety
///
/// `live` is one that is not freed, `rule` has the matches that it says, and `id` can be written
/// to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_live_insert(
    live: *const Live,
    rule: *const Rule,
    id: *mut u64,
) -> Status {
    door::guarded(|| {
        // SAFETY: the caller vouches for it.
        let live = unsafe { door::reference(live) }?;
        // SAFETY: the caller vouches for it.
        let rule = unsafe { door::reference(rule) }?;
        // SAFETY: the caller vouches for it.
        let rule = unsafe { rule.read() }?;
        // SAFETY: the caller vouches for it.
        let id = unsafe { door::exclusive(id) }?;
        *id = live.0.insert(rule).map_err(refused)?.0;
        Ok(())
    })
}

/// Takes a rule away. No reader sees it when this returns.
///
/// # Safety
///
/// `live` is one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_live_remove(live: *const Live, id: u64) -> Status {
    door::guarded(|| {
        // SAFETY: the caller vouches for it.
        let live = unsafe { door::reference(live) }?;
        live.0.remove(RuleId(id)).map(drop).map_err(refused)
    })
}

/// Replaces a rule by another, in one step; it keeps its number.
///
/// # Safety
///
/// `live` is one that is not freed, and `rule` has the matches that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_live_change(
    live: *const Live,
    id: u64,
    rule: *const Rule,
) -> Status {
    door::guarded(|| {
        // SAFETY: the caller vouches for it.
        let live = unsafe { door::reference(live) }?;
        // SAFETY: the caller vouches for it.
        let rule = unsafe { door::reference(rule) }?;
        // SAFETY: the caller vouches for it.
        let rule = unsafe { rule.read() }?;
        live.0.change(RuleId(id), rule).map_err(refused)
    })
}

/// Replaces all rules, in one step, once a table of them is built. They get the next numbers.
///
/// # Safety
///
/// `live` and `rules` are ones that are not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_live_replace(live: *const Live, rules: *const Rules) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe { widelane_live_replace_numbered(live, rules, ptr::null_mut()) }
}

/// Replaces all rules as `widelane_live_replace` does, and stores the number of the first rule
/// unless `first` is null; the others have the numbers behind it, in their order.
///
/// # Safety
///
/// `live` and `rules` are ones that are not freed, and `first` is null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_live_replace_numbered(
    live: *const Live,
    rules: *const Rules,
    first: *mut u64,
) -> Status {
    door::guarded(|| {
        // SAFETY: the caller vouches for it.
        let live = unsafe { door::reference(live) }?;
        // SAFETY: the caller vouches for it.
        let rules = unsafe { door::reference(rules) }?;
        // SAFETY: the caller vouches for it.
        let first = unsafe { first.as_mut() };
        let id = live.0.replace(&rules.0).map_err(refused)?;
        if let Some(first) = first {
            *first = id.0;
        }
        Ok(())
    })
}

/// Whether the trees of a live set could be rebuilt when that was due. If the status is `_BUILD`,
/// the text of the last error says why not; lookups are right all the same, but may get slower with
/// every change.
///
/// # Safety
///
/// `live` is one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_live_trouble(live: *const Live) -> Status {
    door::guarded(|| {
        // SAFETY: the caller vouches for it.
        let live = unsafe { door::reference(live) }?;
        live.0.trouble().map_or(Ok(()), |error| Err(Status::Build.because(error)))
    })
}

/// Frees a live set; readers of it go on with its last version.
///
/// # Safety
///
/// `live` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_live_free(live: *mut Live) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(live) }
}

/// Makes a reader of a live set.
///
/// # Safety
///
/// `live` is one that is not freed, and `reader` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_live_reader(
    live: *const Live,
    reader: *mut *mut Reader,
) -> Status {
    let made = || {
        // SAFETY: the caller vouches for it.
        let live = unsafe { door::reference(live) }?;
        Ok(Reader(live.0.reader()))
    };
    // SAFETY: the caller vouches for it.
    unsafe { door::make(reader, made) }
}

/// Looks up packets in the latest version, all in the same, as `widelane_classifier_classify` does,
/// and stores its number unless `version` is null.
///
/// # Safety
///
/// `reader` is one that is not freed and that no other thread uses now; there are as many packets
/// and results as said, and as many bytes as each packet says; `version` is null or can be written
/// to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_reader_classify(
    reader: *mut Reader,
    packets: *const Packet,
    packet_count: usize,
    results: *mut u32,
    result_count: usize,
    version: *mut u64,
) -> Status {
    door::guarded(|| {
        // SAFETY: the caller vouches for it.
        let reader = unsafe { door::exclusive(reader) }?;
        // SAFETY: the caller vouches for it.
        let packets = unsafe { door::array(packets, packet_count) }?;
        // SAFETY: the caller vouches for it.
        let results = unsafe { door::places(results, result_count) }?;
        // SAFETY: the caller vouches for it.
        let version = unsafe { version.as_mut() };
        let lookup = |packets: &[&[u8]], results: &mut [u32]| {
            let seen = reader.0.classify(packets, results)?;
            if let Some(version) = version {
                *version = seen;
            }
            Ok(())
        };
        // SAFETY: the caller vouches for it.
        unsafe { look_up(packets, results, lookup) }
    })
}

/// Frees a reader.
///
/// # Safety
///
/// `reader` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_reader_free(reader: *mut Reader) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(reader) }
}
