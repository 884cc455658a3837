//! A tour through the ciphers of the provider in all rooms, beside those of the default provider.
//!
//! A process has one policy, so each room gets a process of its own, forked before the provider is
//! loaded.

use std::collections::BTreeSet;
use std::env;
use std::ffi::CString;

use widelane_bridge::counters::CipherKind;
use widelane_cpu::{Room, Width};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::policy_here_up_to;

use super::evp::{Cipher, Context, reason};
use super::process::{in_child, setting};
use super::{Place, ciphers_offered};

/// One cipher of ours and the default provider's of the same name.
pub struct Pair {
    pub kind: CipherKind,
    pub name: CString,
    pub ours: Cipher,
    pub theirs: Cipher,
}

impl Pair {
    pub fn key_bytes(&self) -> usize {
        self.ours.key_bytes()
    }

    /// Contexts of both.
    pub fn contexts(&self, seal: bool) -> [Context; 2] {
        [&self.ours, &self.theirs].map(|cipher| Context::new(cipher, seal))
    }
}

/// Policies that open one room after the other.
const WIDTHS: [Width; 3] = [Width::W128, Width::W256, Width::W512];

/// Runs `test` on each of some ciphers in every room, and asserts that it ran there; answers in how
/// many rooms of ciphers that was: a machine may have none for the widest policy alone.
pub fn tour(kinds: &[CipherKind], test: impl Fn(&Pair)) -> usize {
    let mut visited = BTreeSet::new();
    for width in WIDTHS {
        let offered = ciphers_offered(&policy_here_up_to(width));
        visited.extend(offered.iter().copied().filter(|(kind, _)| kinds.contains(kind)));
        let status = in_child(|| {
            // SAFETY: the child has one thread.
            unsafe { env::set_var("WIDELANE_MAX_SIMD_BITWIDTH", width.bits().to_string()) };
            let (place, _lock) = setting();
            for &kind in kinds {
                let name = CString::new(kind.name()).unwrap();
                let ours = Cipher::fetch(&name, c"provider=widelane");
                let room = offered.iter().find(|(other, _)| *other == kind).map(|(_, room)| *room);
                assert_eq!(ours.is_some(), room.is_some(), "{kind:?} at {width:?}");
                let (Some(ours), Some(room)) = (ours, room) else { continue };
                let theirs = Cipher::fetch(&name, c"provider=default").unwrap();
                test(&Pair { kind, name, ours, theirs });
                ran_in(place, kind, room);
            }
        });
        assert_eq!(status, 0, "the child's test at {width:?} passes");
    }
    eprintln!("ciphers in their rooms: {visited:?}");
    visited.len()
}

/// Asserts that messages of a cipher ran in one room and in no other.
fn ran_in(place: &Place, kind: CipherKind, room: Room) {
    for other in Room::ALL {
        let messages = place
            .sum(|counters| counters.by_cipher[kind as usize].messages_by_room[other as usize]);
        assert_eq!(messages > 0, other == room, "{kind:?}: {messages} in {}", other.name());
    }
}

pub fn bytes(random: &mut Random, length: usize) -> Vec<u8> {
    let mut made = vec![0; length];
    random.fill(&mut made);
    made
}

/// Does the same with both contexts and asserts that they answer the same.
pub fn both<T: PartialEq + std::fmt::Debug>(
    contexts: &mut [Context; 2],
    what: &str,
    mut call: impl FnMut(&mut Context) -> T,
) -> T {
    let [ours, theirs] = contexts.each_mut().map(|context| {
        // What earlier calls left on the queue is theirs.
        reason();
        call(context)
    });
    assert_eq!(ours, theirs, "{what}");
    ours
}

/// The header of a record of TLS 1.2 with so many bytes of text and explicit IV.
pub fn header(number: u64, bytes: usize) -> [u8; 13] {
    let mut header = [0; 13];
    header[..8].copy_from_slice(&number.to_be_bytes());
    header[8..11].copy_from_slice(&[23, 3, 3]);
    header[11..].copy_from_slice(&(bytes as u16).to_be_bytes());
    header
}
