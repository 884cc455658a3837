//! Rules of rooms: what they enable, and what chooses them.

use std::collections::BTreeSet;
use std::path::Path;

use widelane_cpu::Room;

use crate::tidy::source::{Source, has_word};
use crate::tidy::{Finding, House};

/// T1: `#[target_feature]` lists that differ from their room's.
pub fn features(house: &House<'_>) -> Vec<Finding> {
    house.sources.iter().filter(|source| !source.is_test()).flat_map(features_of).collect()
}

fn features_of(source: &Source) -> Vec<Finding> {
    let room = room_of(&source.path);
    let mut findings = Vec::new();
    for (index, (text, code)) in source.text.lines().zip(source.code.lines()).enumerate() {
        // A macro of a helper takes the list from the room's file, which hands it on.
        let enables = code.trim_start().starts_with("#[target_feature(") && !code.contains("= $");
        let hands_on = room.is_some() && has_word(code, "features") && code.contains(" = \"");
        if !(enables || hands_on) {
            continue;
        }
        let enabled: BTreeSet<&str> =
            text.split('"').nth(1).unwrap_or_default().split(',').collect();
        let what = match room {
            Some((room, _)) if enabled == room.features().iter().copied().collect() => continue,
            Some((room, _)) => {
                format!("room {} enables {}", room.name(), room.features().join(","))
            }
            None if is_helper(&source.path) && fits_some_room(&enabled) => continue,
            None if is_helper(&source.path) => "no room enables all of these".to_owned(),
            None => "only rooms and their helpers in `kernels` enable features".to_owned(),
        };
        findings.push(Finding::new(&source.path, index + 1, what));
    }
    findings
}

/// T4: rooms that neither their folder's `mod.rs` nor `crypto` chooses.
pub fn choice(house: &House<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &house.sources {
        let Some((_, stem)) = room_of(&source.path) else { continue };
        let folder = source.path.parent().unwrap_or(Path::new("")).join("mod.rs");
        let mut choosers = house.sources.iter().filter(|candidate| {
            candidate.path == folder || candidate.path.starts_with("crates/crypto/src")
        });
        if !choosers.any(|chooser| chooses(&chooser.code, stem)) {
            findings.push(Finding::new(&source.path, 0, "nothing chooses this room"));
        }
    }
    findings
}

/// Whether code names the module `stem` other than to declare it.
fn chooses(code: &str, stem: &str) -> bool {
    let mut lines = code.lines().filter(|line| has_word(line, stem));
    lines.any(|line| !line.trim_end().ends_with(&format!("mod {stem};")))
}

/// Where rooms stand: beside secrets, and beside public data.
const ROOMS: &[&str] = &["crates/kernels/src", "packets/classify/src/run"];

/// The room whose file this is, and the file's stem: `mont/ifma512_x8.rs` belongs to `ifma512`.
pub fn room_of(path: &Path) -> Option<(Room, &str)> {
    if !ROOMS.iter().any(|place| path.starts_with(place)) {
        return None;
    }
    let stem = path.file_stem()?.to_str()?;
    let name = stem.split_once('_').map_or(stem, |(name, _)| name);
    let room = Room::ALL.into_iter().find(|room| room.name() == name)?;
    Some((room, stem))
}

/// Whether a file that is no room may enable features: code shared by rooms, and the wiping of the
/// registers they leave behind.
fn is_helper(path: &Path) -> bool {
    path.starts_with("crates/kernels/src") || path == Path::new("crates/secret/src/wipe.rs")
}

fn fits_some_room(enabled: &BTreeSet<&str>) -> bool {
    Room::ALL.iter().any(|room| enabled.iter().all(|feature| room.features().contains(feature)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_knows_its_room() {
        let room = room_of(Path::new("crates/kernels/src/mont/ifma512_x8.rs"));
        assert_eq!(room, Some((Room::Ifma512, "ifma512_x8")));
        assert_eq!(room_of(Path::new("crates/kernels/src/mont/mod.rs")), None);
        assert_eq!(room_of(Path::new("crates/crypto/src/portable.rs")), None);
    }

    #[test]
    fn features_beyond_the_room_are_found() {
        let path = "crates/kernels/src/mont/ifma512_x8.rs";
        let own = format!("#[target_feature(enable = \"{}\")]", Room::Ifma512.features().join(","));
        assert_eq!(features_of(&Source::new(path, own)), []);
        let more = "fn f() {}\n#[target_feature(enable = \"avx512f,avx512vbmi\")]\n";
        assert_eq!(features_of(&Source::new(path, more))[0].line, 2);
        let elsewhere = "#[target_feature(enable = \"avx512f\")]\n";
        assert_eq!(features_of(&Source::new("crates/crypto/src/rsa.rs", elsewhere)).len(), 1);
        assert_eq!(features_of(&Source::new("crates/kernels/src/mont/lanes.rs", elsewhere)), []);
    }

    #[test]
    fn a_list_handed_to_a_macro_is_checked_where_it_stands() {
        let path = "crates/kernels/src/lanes/ifma512_x8.rs";
        let macros = "#[target_feature(enable = $features)]\n";
        assert_eq!(features_of(&Source::new("crates/kernels/src/lanes/wide.rs", macros)), []);
        let own = format!("    room, features = \"{}\",\n", Room::Ifma512.features().join(","));
        assert_eq!(features_of(&Source::new(path, own)), []);
        let less = "    room, features = \"avx512f\",\n";
        assert_eq!(features_of(&Source::new(path, less)).len(), 1);
    }

    #[test]
    fn a_declaration_is_no_choice() {
        assert!(!chooses("pub mod ifma512_x8;\n", "ifma512_x8"));
        assert!(chooses("mod ifma512_x8;\nRoom::Ifma512 => ifma512_x8::power(a),\n", "ifma512_x8"));
    }
}
