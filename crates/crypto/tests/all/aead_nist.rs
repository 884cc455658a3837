//! The test cases of GCM's specification as submitted to NIST (McGrew and Viega, revised in May
//! 2005, appendix B), in every room. Their numbers are those of the document.

use widelane_crypto::aead::{Aead, Algorithm};
use widelane_testkit::hex;
use widelane_testkit::rooms::for_each_room_of;

/// Of all test cases but those with an empty key; AES-192 and AES-256 take more of it.
const KEY: &str = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
const TEXT: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                    1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255";
const AAD: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
const NONCE: &str = "cafebabefacedbaddecaf888";
const SHORT_NONCE: &str = "cafebabefacedbad";
const LONG_NONCE: &str = "9313225df88406e555909c5aff5269aa6a7a9538534f7da1e4c303d2a318a728\
                          c3c0c95156809539fcf0e2429a6b525416aedbf5a0de6a57a637b39b";

/// What a test case asks for; the tag depends on all bytes of the ciphertext.
#[derive(Clone, Copy)]
enum Case {
    /// Zeros as key and nonce, and no text.
    Empty,
    /// Zeros as key and nonce, and one block of zeros.
    Zeros,
    /// Four blocks.
    Whole,
    /// 60 bytes, with AAD.
    Part,
    /// The same with a nonce of 64 bits.
    ShortNonce,
    /// The same with a nonce of 480 bits.
    LongNonce,
}

const CASES: [Case; 6] =
    [Case::Empty, Case::Zeros, Case::Whole, Case::Part, Case::ShortNonce, Case::LongNonce];

/// The tags of test cases 1 to 6, 7 to 12 and 13 to 18.
const TAGS: [(Algorithm, [&str; 6]); 3] = [
    (
        Algorithm::Aes128Gcm,
        [
            "58e2fccefa7e3061367f1d57a4e7455a",
            "ab6e47d42cec13bdf53a67b21257bddf",
            "4d5c2af327cd64a62cf35abd2ba6fab4",
            "5bc94fbc3221a5db94fae95ae7121a47",
            "3612d2e79e3b0785561be14aaca2fccb",
            "619cc5aefffe0bfa462af43c1699d050",
        ],
    ),
    (
        Algorithm::Aes192Gcm,
        [
            "cd33b28ac773f74ba00ed1f312572435",
            "2ff58d80033927ab8ef4d4587514f0fb",
            "9924a7c8587336bfb118024db8674a14",
            "2519498e80f1478f37ba55bd6d27618c",
            "65dcc57fcf623a24094fcca40d3533f8",
            "dcf566ff291c25bbb8568fc3d376a6d9",
        ],
    ),
    (
        Algorithm::Aes256Gcm,
        [
            "530f8afbc74536b9a963b4f1c4cb738b",
            "d0d1c8a799996bf0265b98b5d48ab919",
            "b094dac5d93471bdec1a502270e3cc6c",
            "76fc6ece0f4e1768cddf8853bb2d551b",
            "3a337dbf46a792c45e454913fe2ea8f2",
            "a44a8266ee1c8eb0c8b5d4cf5ae9f19a",
        ],
    ),
];

#[test]
fn all_test_cases_have_their_tags() {
    for (algorithm, tags) in TAGS {
        for_each_room_of(algorithm.rooms(), |room, policy| {
            let aead = Aead::choose(algorithm, policy);
            assert_eq!(aead.room(), room);
            for (index, (case, expected)) in CASES.into_iter().zip(tags).enumerate() {
                judge(&aead, case, &hex::decode(expected), index + 1);
            }
        });
    }
}

fn judge(aead: &Aead, case: Case, expected: &[u8], number: usize) {
    let (text, zeros) = (hex::decode(TEXT), [0; 32]);
    let (key, nonce, plain, aad) = match case {
        Case::Empty => (&zeros[..], vec![0; 12], &text[..0], vec![]),
        Case::Zeros => (&zeros[..], vec![0; 12], &zeros[..16], vec![]),
        Case::Whole => (&hex::decode(KEY)[..], hex::decode(NONCE), &text[..], vec![]),
        Case::Part => (&hex::decode(KEY)[..], hex::decode(NONCE), &text[..60], hex::decode(AAD)),
        Case::ShortNonce => {
            (&hex::decode(KEY)[..], hex::decode(SHORT_NONCE), &text[..60], hex::decode(AAD))
        }
        Case::LongNonce => {
            (&hex::decode(KEY)[..], hex::decode(LONG_NONCE), &text[..60], hex::decode(AAD))
        }
    };
    let key = aead.key(&key[..aead.algorithm().key_bytes()]).unwrap();
    let (mut sealed, mut tag) = (plain.to_vec(), [0; 16]);
    key.seal_in_place(&nonce, &aad, &mut sealed, &mut tag).unwrap();
    assert_eq!(tag, expected, "{:?}, case {number}", aead.algorithm());
    key.open_in_place(&nonce, &aad, &mut sealed, expected).unwrap();
    assert_eq!(sealed, plain, "{:?}, case {number}", aead.algorithm());
}
