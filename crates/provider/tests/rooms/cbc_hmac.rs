//! AES-CBC with HMAC through EVP in every room, as libssl uses it: what it answers, call by call,
//! is what the default provider's answers.
#![allow(unsafe_code, reason = "passes a C structure")]

use std::ffi::c_int;
use std::ptr;
use std::slice;

use widelane_bridge::counters::CipherKind;
use widelane_cpu::Room;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::supported_of;

use crate::common;
use crate::common::evp::{
    CTRL_AEAD_SET_MAC_KEY, CTRL_MULTIBLOCK_AAD, CTRL_MULTIBLOCK_ENCRYPT,
    CTRL_MULTIBLOCK_MAX_BUFSIZE, CTRL_TLS1_AAD, Context, reason,
};
use crate::common::tour::{Pair, both, bytes};

const KINDS: [CipherKind; 4] = [
    CipherKind::Aes128CbcHmacSha1,
    CipherKind::Aes256CbcHmacSha1,
    CipherKind::Aes128CbcHmacSha256,
    CipherKind::Aes256CbcHmacSha256,
];

const TLS_1_0: u16 = 0x0301;
const TLS_1_2: u16 = 0x0303;

/// Lengths of texts about the edges of blocks of both the cipher and the hash, and of records.
const LENGTHS: [usize; 24] = [
    0, 1, 11, 12, 15, 16, 17, 31, 32, 43, 50, 51, 52, 64, 100, 114, 115, 200, 255, 256, 1350, 4096,
    16383, 16384,
];

/// Runs `test` on every cipher in every room.
fn tour(test: impl Fn(&Pair)) {
    let visited = common::tour::tour(&KINDS, test);
    assert_eq!(visited, KINDS.len() * supported_of(&[Room::Vaes512]).len());
}

fn tag_bytes(pair: &Pair) -> usize {
    match pair.kind {
        CipherKind::Aes128CbcHmacSha1 | CipherKind::Aes256CbcHmacSha1 => 20,
        _ => 32,
    }
}

/// The header of a record of so many bytes.
fn header(version: u16, number: u64, bytes: usize) -> [u8; 13] {
    let mut header = common::tour::header(number, bytes);
    header[9..11].copy_from_slice(&version.to_be_bytes());
    header
}

/// Contexts of both with one key, one IV, and one key of HMAC.
fn keyed(pair: &Pair, random: &mut Random, seal: bool) -> [Context; 2] {
    let (key, iv) = (bytes(random, pair.key_bytes()), bytes(random, 16));
    let mut mac = bytes(random, tag_bytes(pair));
    let mut contexts = pair.contexts(seal);
    both(&mut contexts, "keys", |context| {
        let begun = context.init(Some(&key), Some(&iv), seal);
        (begun, context.control(CTRL_AEAD_SET_MAC_KEY, mac.len() as c_int, &mut mac))
    });
    contexts
}

/// The same contexts for the other direction.
fn turned(pair: &Pair, seed: u64) -> ([Context; 2], [Context; 2]) {
    let of = |seal| keyed(pair, &mut Random::new(seed), seal);
    (of(true), of(false))
}

/// A record: what becomes its IV, a text, and room for what `growth` says.
fn record(random: &mut Random, explicit: usize, text: &[u8], growth: c_int) -> Vec<u8> {
    let growth = usize::try_from(growth).expect("a header is taken");
    [&bytes(random, explicit), text, &vec![0; growth]].concat()
}

/// Seals or opens a record where it is.
fn within(context: &mut Context, record: &[u8]) -> ((c_int, c_int), Vec<u8>) {
    let mut record = record.to_vec();
    let done = context.update_within(&mut record.clone(), 0, 0, 0);
    assert_eq!(done, (1, 0), "nothing is no record");
    let bytes = record.len();
    (context.update_within(&mut record, 0, 0, bytes), record)
}

#[test]
fn names_lengths_and_flags_are_the_default_providers() {
    tour(|pair| {
        assert_eq!(pair.ours.facts(), pair.theirs.facts());
        assert!(pair.ours.is_a(&pair.name));
        let mut contexts = keyed(pair, &mut Random::new(1), true);
        both(&mut contexts, "lengths", |context| context.lengths());
        both(&mut contexts, "IV", |context| context.updated_iv(16));
        both(&mut contexts, "blocks", |context| context.update(&[7; 32]));
        both(&mut contexts, "IV, advanced", |context| context.updated_iv(16));
        both(&mut contexts, "end", Context::finish);
    });
}

#[test]
fn records_are_the_default_providers() {
    tour(|pair| {
        for version in [TLS_1_0, 0x0302, TLS_1_2] {
            let explicit = if version > TLS_1_0 { 16 } else { 0 };
            let mut random = Random::new(2);
            let (mut sealers, mut openers) = turned(pair, version.into());
            for (number, length) in (0..).zip(LENGTHS) {
                let text = bytes(&mut random, length);
                let growth = both(&mut sealers, "header", |sealer| {
                    let mut header = header(version, number, explicit + length);
                    sealer.control(CTRL_TLS1_AAD, 13, &mut header)
                });
                let plain = record(&mut random, explicit, &text, growth);
                let ((done, _), sealed) =
                    both(&mut sealers, "a record", |sealer| within(sealer, &plain));
                assert_eq!(done, 1, "{version:#x}, {length} bytes");
                let (done, opened) = both(&mut openers, "the record", |opener| {
                    let mut header = header(version, number, sealed.len());
                    assert!(opener.control(CTRL_TLS1_AAD, 13, &mut header) > 0);
                    within(opener, &sealed)
                });
                let opened = &opened[explicit..];
                assert_eq!(done, (1, sealed.len() as c_int), "{version:#x}, {length} bytes");
                assert_eq!(opened[..length], text, "{version:#x}, {length} bytes");
            }
            both(&mut sealers, "IV", |sealer| sealer.updated_iv(16));
            both(&mut openers, "IV", |opener| opener.updated_iv(16));
        }
    });
}

#[test]
fn what_is_damaged_is_refused() {
    tour(|pair| {
        let mut random = Random::new(3);
        let (mut sealers, mut openers) = turned(pair, 9);
        for length in [0, 1, 40, 300, 1350] {
            let text = bytes(&mut random, length);
            let growth =
                sealers[0].control(CTRL_TLS1_AAD, 13, &mut header(TLS_1_2, 5, 16 + length));
            let plain = record(&mut random, 16, &text, growth);
            let (_, sealed) = within(&mut sealers[0], &plain);
            for round in 0..40 {
                let mut damaged = sealed.clone();
                let mut head = header(TLS_1_2, 5, sealed.len());
                match round {
                    0 => head[7] ^= 1,
                    1 => head[8] ^= 1,
                    2 => damaged.truncate(sealed.len() - 16),
                    3 => damaged.truncate(sealed.len() - 1),
                    4 => damaged.truncate(16),
                    _ => {
                        let place = random.below(sealed.len());
                        damaged[place] ^= 1 << random.below(8);
                    }
                }
                let mut opened = Vec::new();
                both(&mut openers, "a damaged record", |opener| {
                    assert!(opener.control(CTRL_TLS1_AAD, 13, &mut head.clone()) > 0);
                    let ((done, _), result) = within(opener, &damaged);
                    assert_eq!(done, 0, "round {round} of {length} bytes");
                    opened.push(result);
                    reason()
                });
                if damaged.len() == sealed.len() {
                    assert!(opened[0][16..].iter().all(|byte| *byte == 0), "nothing is released");
                }
            }
        }
    });
}

#[test]
fn blocks_without_a_header_are_chained_and_not_authenticated() {
    tour(|pair| {
        let mut random = Random::new(4);
        for seal in [true, false] {
            let mut contexts = keyed(pair, &mut random, seal);
            for blocks in [1, 2, 4, 33, 100] {
                let text = bytes(&mut random, 16 * blocks);
                both(&mut contexts, "blocks", |context| context.update(&text));
            }
            both(&mut contexts, "no blocks", |context| (context.update(&[1; 15]).0, reason()));
            // Without another IV it begins again with the one that was set.
            both(&mut contexts, "again", |context| {
                (context.init(None, None, seal), context.update(&[1; 48]))
            });
        }
    });
}

#[test]
fn wrong_order_is_refused() {
    tour(|pair| {
        let (mut sealers, mut openers) = turned(pair, 5);
        for bytes in [0, 15] {
            both(&mut sealers, "a header shorter than an IV", |sealer| {
                sealer.control(CTRL_TLS1_AAD, 13, &mut header(TLS_1_2, 0, bytes))
            });
        }
        for contexts in [&mut sealers, &mut openers] {
            both(contexts, "a header of another length", |context| {
                context.control(CTRL_TLS1_AAD, 12, &mut header(TLS_1_2, 0, 99))
            });
        }
        both(&mut sealers, "a header, an end, and its record", |sealer| {
            let growth = sealer.control(CTRL_TLS1_AAD, 13, &mut header(TLS_1_2, 0, 100));
            let ended = sealer.finish();
            (ended, within(sealer, &record(&mut Random::new(6), 16, &[3; 84], growth)))
        });
        both(&mut sealers, "a record of another length", |sealer| {
            assert!(sealer.control(CTRL_TLS1_AAD, 13, &mut header(TLS_1_2, 0, 116)) > 0);
            let refused = sealer.update(&[0; 128]).0;
            // The header is used up.
            (refused, reason(), sealer.update(&[0; 16]).0)
        });
        let [mut ours, _] = pair.contexts(true);
        ours.init(Some(&[1; 32]), Some(&[2; 16]), true);
        assert!(ours.control(CTRL_TLS1_AAD, 13, &mut header(TLS_1_2, 0, 99)) <= 0, "no HMAC key");
    });
}

/// `EVP_CTRL_TLS1_1_MULTIBLOCK_PARAM`.
#[repr(C)]
struct MultiBlock {
    out: *mut u8,
    input: *const u8,
    bytes: usize,
    interleave: u32,
}

impl MultiBlock {
    fn pass(&mut self, context: &mut Context, control: c_int) -> c_int {
        let bytes = size_of::<MultiBlock>();
        // SAFETY: the structure's own bytes.
        let structure = unsafe { slice::from_raw_parts_mut(ptr::from_mut(self).cast(), bytes) };
        context.control(control, bytes as c_int, structure)
    }
}

/// What both answer to a request for several records, and the records.
fn several(
    sealer: &mut Context,
    said: usize,
    text: &[u8],
    interleave: u32,
) -> Option<(c_int, u32, Vec<u8>)> {
    let mut head = header(TLS_1_2, u64::MAX - 2, said);
    let mut request = MultiBlock {
        out: ptr::null_mut(),
        input: head.as_mut_ptr(),
        bytes: text.len(),
        interleave,
    };
    let packed = request.pass(sealer, CTRL_MULTIBLOCK_AAD);
    if packed <= 0 {
        return None;
    }
    let mut records = vec![0; packed as usize];
    (request.out, request.input) = (records.as_mut_ptr(), text.as_ptr());
    assert_eq!(request.pass(sealer, CTRL_MULTIBLOCK_ENCRYPT), packed);
    Some((packed, request.interleave, records))
}

#[test]
fn several_records_at_once_are_records() {
    tour(|pair| {
        let mut random = Random::new(6);
        let (mut sealers, mut openers) = turned(pair, 7);
        for longest in [512, 1 << 14] {
            both(&mut sealers, "longest record", |sealer| {
                sealer.control(CTRL_MULTIBLOCK_MAX_BUFSIZE, longest, &mut [])
            });
        }
        // OpenSSL 4.0 refuses a header that says more than one record holds, and any other number
        // of records than four or eight.
        let is_4_0 = openssl::version::number() >= 0x4000_0000;
        // As libssl asks: a text of four or eight times the longest record; and as `speed` does.
        for (said, length, interleave) in [
            (0, 4 * 15872, 4),
            (0, 8 * 15872, 8),
            (0, 8 * 512, 8),
            (4096, 4096, 0),
            (8192, 8192, 4),
            (65528, 65528, 8),
        ] {
            let text = bytes(&mut random, length);
            let made = sealers.each_mut().map(|sealer| several(sealer, said, &text, interleave));
            let [ours, theirs] = &made;
            let ours = ours.as_ref().expect("the records can be made");
            let refuses = is_4_0 && (said > 1 << 14 || interleave == 0);
            assert_eq!(theirs.is_none(), refuses, "{said}, {length}, {interleave}");
            if let Some(theirs) = theirs {
                assert_eq!(
                    (ours.0, ours.1),
                    (theirs.0, theirs.1),
                    "{said}, {length}, {interleave}"
                );
                assert_ne!(ours.2, theirs.2, "IVs are drawn");
            }
            for (_, _, records) in made.into_iter().flatten() {
                let opened = both(&mut openers, "the records", |opener| {
                    let (mut rest, mut text) = (&records[..], Vec::<u8>::new());
                    let mut number = u64::MAX - 2;
                    while let Some((head, behind)) = rest.split_first_chunk::<5>() {
                        let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
                        assert_eq!(head[..3], [23, 3, 3]);
                        let (record, behind) = behind.split_at(length);
                        let mut head = header(TLS_1_2, number, length);
                        assert!(opener.control(CTRL_TLS1_AAD, 13, &mut head) > 0);
                        let (done, opened) = within(opener, record);
                        assert_eq!(done.0, 1);
                        let padding = usize::from(opened[length - 1]) + 1;
                        text.extend(&opened[16..length - padding - tag_bytes(pair)]);
                        (rest, number) = (behind, number.wrapping_add(1));
                    }
                    text
                });
                assert_eq!(opened, text);
            }
        }
        for (said, length, interleave) in [(0, 4096, 3), (0, 4096, 12), (4095, 4095, 4)] {
            let text = vec![0; length];
            let refused =
                sealers.each_mut().map(|sealer| several(sealer, said, &text, interleave).is_none());
            assert_eq!(refused, [true; 2], "{said}, {length}, {interleave}");
        }
        let mut text = vec![0; 4096];
        for opener in &mut openers {
            assert!(several(opener, 0, &text, 8).is_none(), "who opens makes no records");
        }
        // A text that is not the one that was announced, and records over their own text.
        let sealer = &mut sealers[0];
        let mut head = header(TLS_1_2, 0, 0);
        for (bytes, apart) in [(4032, true), (4096, false)] {
            let mut request = MultiBlock {
                out: ptr::null_mut(),
                input: head.as_mut_ptr(),
                bytes: 4096,
                interleave: 4,
            };
            let packed = request.pass(sealer, CTRL_MULTIBLOCK_AAD);
            let mut records = vec![0; packed as usize];
            request.out = if apart { records.as_mut_ptr() } else { text.as_mut_ptr() };
            (request.input, request.bytes) = (text.as_ptr(), bytes);
            assert_eq!(request.pass(sealer, CTRL_MULTIBLOCK_ENCRYPT), 0);
        }
    });
}
