//! Parameters of signatures, shared secrets, decryption, ciphers and key derivations.

use std::ffi::CStr;

use super::evp::{CipherContext, KdfContext, Key, KeyContext, MessageContext, Use};
use super::keys::{MESSAGE, RIGHT, Right};
use super::params::{Parameter, Params, Reader, Source};
use super::{Said, compare, is_since};

/// Does one operation with parameters of any kind.
pub fn operation_parameters(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let (operation, which) = (first % 5, usize::from(first / 5));
    let right = &RIGHT[which % RIGHT.len()];
    compare(rest, |source, query, said| match operation {
        0 => signed(right, source, query, said),
        1 => message_signed(right, source, query, said),
        2 => transformed(right, source, query, said),
        3 => sealed(CIPHERS[which % CIPHERS.len()], source, query, said),
        _ => derived(which % 2 == 0, source, query, said),
    });
}

const SIGNATURE_QUESTIONS: [&CStr; 8] = [
    c"algorithm-id",
    c"pad-mode",
    c"digest",
    c"mgf1-digest",
    c"saltlen",
    c"digest-size",
    c"instance",
    c"unknown",
];

fn signature_settings() -> Vec<Parameter> {
    vec![
        Parameter::int(c"pad-mode", 1),
        Parameter::int(c"pad-mode", 6),
        Parameter::int(c"pad-mode", 3),
        Parameter::text(c"pad-mode", "pss"),
        Parameter::text(c"digest", "SHA256"),
        Parameter::text(c"digest", "SHA512"),
        Parameter::text(c"digest", "SHA1"),
        Parameter::text(c"mgf1-digest", "SHA384"),
        Parameter::int(c"saltlen", -1),
        Parameter::int(c"saltlen", 32),
        Parameter::text(c"saltlen", "max"),
        Parameter::size(c"digest-size", 32),
        Parameter::int(c"nonce-type", 1),
    ]
}

/// Signs a digest; whoever signed, the default provider verifies.
fn signed(right: &Right, source: &mut Source<'_>, query: &CStr, said: &mut Said) {
    let settings = signature_settings();
    let some = |source: &mut Source<'_>| source.some_of(&settings, Reader::Copies);
    let context = KeyContext::of(right.key(query), query);
    let judge = KeyContext::of(right.key(THEIRS), THEIRS);
    let first = some(source);
    said.note("begin", context.begin(Use::Sign, &first));
    judge.begin(Use::Verify, &first);
    for _ in 0..source.below(3) {
        let more = some(source);
        said.note("set", context.set(&more));
        judge.set(&more);
        said.note("get", context.get(&source.questions(&SIGNATURE_QUESTIONS)));
    }
    let digest = &[0x5a; 300][..source.one(&[32, 20, 48, 64, 0, 1, 31, 255, 256])];
    let (done, signature) = context.transform(Use::Sign, digest);
    said.note("sign", done);
    if done > 0 {
        said.note("verify", judge.verify(digest, &signature));
    }
}

/// Signs a message, which whoever signed verifies as well, and then with a wrong bit.
fn message_signed(right: &Right, source: &mut Source<'_>, query: &CStr, said: &mut Said) {
    let settings = signature_settings();
    let some = |source: &mut Source<'_>| source.some_of(&settings, Reader::Copies);
    let digest = source.one(&[Some(c"SHA256"), Some(c"SHA384"), None, Some(c"MD5"), Some(c"?")]);
    let first = some(source);
    let begin = |what, key: &Key, query| MessageContext::begin(what, key, query, digest, &first);
    let (ours, judge) =
        (begin(Use::Sign, right.key(query), query), begin(Use::Verify, right.key(THEIRS), THEIRS));
    let (Ok((message, context)), Ok((judging, judge))) = (&ours, &judge) else {
        return said.note("begin", ours.err());
    };
    let Ok((verifying, verifier)) = begin(Use::Verify, right.key(query), query) else {
        return said.note("begin to verify", ());
    };
    for _ in 0..source.below(3) {
        let more = some(source);
        said.note("set", context.set(&more));
        judge.set(&more);
        said.note("set to verify", verifier.set(&more));
        let questions = source.questions(&SIGNATURE_QUESTIONS);
        said.note("get", context.get(&questions));
        said.note("get to verify", verifier.get(&questions));
    }
    let (done, mut signature) = message.sign(MESSAGE);
    said.note("sign", done);
    if done > 0 {
        said.note("verify", judging.verify(MESSAGE, &signature));
        let wrong = verifying.copy();
        said.note("verify by itself", verifying.verify(MESSAGE, &signature));
        let last = signature.len() - 1;
        signature[last] ^= 1;
        said.note("verify what is wrong", wrong.verify(MESSAGE, &signature));
    }
}

/// Decrypts or makes a shared secret.
fn transformed(right: &Right, source: &mut Source<'_>, query: &CStr, said: &mut Said) {
    let settings = vec![
        Parameter::int(c"pad-mode", 1),
        Parameter::int(c"pad-mode", 3),
        Parameter::int(c"pad-mode", 4),
        Parameter::int(c"pad-mode", 7),
        Parameter::text(c"digest", "SHA256"),
        Parameter::text(c"mgf1-digest", "SHA1"),
        Parameter::octets(c"oaep-label", b"label"),
        Parameter::size(c"tls-client-version", 0x0303),
        Parameter::size(c"tls-negotiated-version", 0x0303),
        Parameter::int(c"ecdh-cofactor-mode", 1),
        Parameter::text(c"kdf-type", "X963KDF"),
        Parameter::text(c"kdf-digest", "SHA256"),
        Parameter::size(c"kdf-outlen", 40),
        Parameter::octets(c"kdf-ukm", b"material"),
        Parameter::int(c"pad", 1),
    ];
    let names: Vec<_> = settings.iter().map(|setting| setting.name).collect();
    let what = if right.is_rsa() { Use::Decrypt } else { Use::Derive };
    let context = KeyContext::of(right.key(query), query);
    said.note("begin", context.begin(what, &source.some_of(&settings, Reader::Copies)));
    for _ in 0..source.below(3) {
        said.note("set", context.set(&source.some_of(&settings, Reader::Copies)));
        said.note("get", context.get(&source.questions(&names)));
    }
    match what {
        Use::Derive => said.note("derive", context.derive(right.key(query))),
        _ => {
            let bytes = source.one(&[256, 256, 256, 255, 257, 0]);
            let (done, made) = context.transform(what, &[0x21; 257][..bytes]);
            // Of a wrong padding of TLS a random secret is made.
            said.note("decrypt", (done, (made.len() != 48).then_some(made)));
        }
    }
}

const CIPHERS: [&CStr; 8] = [
    c"AES-128-GCM",
    c"AES-192-GCM",
    c"AES-256-GCM",
    c"ChaCha20-Poly1305",
    c"AES-128-CBC-HMAC-SHA1",
    c"AES-256-CBC-HMAC-SHA1",
    c"AES-128-CBC-HMAC-SHA256",
    c"AES-256-CBC-HMAC-SHA256",
];

const CIPHER_QUESTIONS: [&CStr; 11] = [
    c"keylen",
    c"ivlen",
    c"iv",
    c"updated-iv",
    c"tag",
    c"taglen",
    c"tlsaadpad",
    c"tlsivgen",
    c"padding",
    c"num",
    c"unknown",
];

/// Seals or opens.
fn sealed(name: &CStr, source: &mut Source<'_>, query: &CStr, said: &mut Said) {
    let header = |bytes: u8| [0, 0, 0, 0, 0, 0, 0, 1, 23, 3, 3, 0, bytes];
    let mut settings = vec![
        Parameter::octets(c"tlsaad", &header(96)),
        Parameter::octets(c"tlsaad", &header(24)),
        Parameter::octets(c"tag", &[9; 16]),
        Parameter::size(c"ivlen", 12),
        Parameter::size(c"ivlen", 16),
        Parameter::size(c"keylen", 16),
        Parameter::size(c"taglen", 16),
        Parameter::octets(c"tlsivfixed", b"salt"),
        Parameter::octets(c"tlsivinv", &[3; 8]),
        Parameter::octets(c"mackey", &[4; 20]),
        Parameter::size(c"tls-mac-size", 20),
        Parameter::size(c"tls1multi_maxsndfrag", 512),
        Parameter::size(c"padding", 0),
        Parameter::size(c"num", 0),
    ];
    let seal = source.is_chosen();
    // OpenSSL 3.0 writes beyond an IV that is shorter than its fixed beginning.
    let without = source.one(&[c"ivlen", c"tlsivfixed"]);
    settings.retain(|setting| setting.name != without);
    let some = |source: &mut Source<'_>| {
        let mut made = source.one_of(&settings, Reader::Trusts);
        made.0.retain(|param| param.name != c"tlsivfixed" || param.length() <= 12);
        made
    };
    let mut first = some(source);
    first.0.retain(|param| param.name != c"tlsaad");
    // The rest of an IV of which the beginning is fixed is drawn.
    let mut is_drawn = seal && first.has(c"tlsivfixed");
    let begun = CipherContext::begin(name, query, (&[1; 32], &[2; 128]), seal, &first);
    let (context, begun) = begun.expect("the default provider has it, too");
    said.note("begin", begun);
    if begun <= 0 {
        // Without a key, OpenSSL's ChaCha20-Poly1305 ends messages all the same.
        return;
    }
    let is_cbc = name.to_bytes().windows(3).any(|word| word == b"CBC");
    if is_cbc {
        // Without one, OpenSSL makes tags of nothing that is a key.
        said.note("mac key", context.set(&Params(vec![Parameter::octets(c"mackey", &[5; 20])])));
    }
    // Behind a header OpenSSL's ChaCha20-Poly1305 takes more than a record, too: we do not.
    let is_chacha = name == c"ChaCha20-Poly1305";
    let (mut has_text, mut has_header, mut has_tag) = (false, false, first.has(c"tag"));
    // OpenSSL's MAC begins with the header and ends with the key of that moment: ours has one key.
    let mut mac_begun = false;
    for _ in 0..source.below(6) {
        match source.below(4) {
            0 => {
                let mut more = some(source);
                more.0.retain(|param| !mac_begun || param.name != c"mackey");
                mac_begun |= is_cbc && more.has(c"tlsaad");
                is_drawn |= seal && more.has(c"tlsivfixed");
                has_header |= is_chacha && more.has(c"tlsaad");
                has_tag |= more.has(c"tag");
                let set = context.set(&more);
                said.note("set", set);
                if set <= 0 {
                    // What is left of a context that has refused something is each one's own.
                    return;
                }
            }
            1 => {
                let (done, told) = context.get(&source.questions(&CIPHER_QUESTIONS));
                said.note("get", (done, (!is_drawn).then_some(told)));
            }
            kind => {
                // What comes behind text is text to OpenSSL's ChaCha20-Poly1305.
                let is_aad = kind == 2 && !is_cbc && !has_text && !has_header;
                (has_text, has_header, mac_begun) = (has_text || !is_aad, false, false);
                let bytes = source.one(&[16, 32, 48, 96, 112, 120, 128, 0, 1, 24, 40, 255]);
                let (done, made) = context.update(bytes, is_aad);
                said.note("update", (done, (!is_drawn).then_some(made)));
                if done <= 0 {
                    return;
                }
            }
        }
    }
    // Before 4.0 OpenSSL compares what is opened without a tag with nothing; we refuse it.
    let lacks_tag = is_chacha && !seal && !has_tag && !is_since(4, 0);
    if !has_header && !lacks_tag {
        said.note("finish", context.finish());
    }
}

/// Derives keys of TLS 1.3 or 1.2.
fn derived(is_13: bool, source: &mut Source<'_>, query: &CStr, said: &mut Said) {
    let settings = vec![
        Parameter::text(c"digest", "SHA256"),
        Parameter::text(c"digest", "SHA384"),
        Parameter::int(c"mode", 1),
        Parameter::int(c"mode", 2),
        Parameter::octets(c"key", &[5; 32]),
        Parameter::octets(c"salt", &[6; 32]),
        Parameter::octets(c"prefix", b"tls13 "),
        Parameter::octets(c"label", b"derived"),
        Parameter::octets(c"data", &[7; 32]),
        Parameter::octets(c"secret", &[8; 48]),
        Parameter::octets(c"seed", b"master secret"),
        Parameter::text(c"mode", "EXPAND_ONLY"),
    ];
    let right = |settings: &[Parameter], which: &[usize]| -> Vec<Parameter> {
        which.iter().map(|index| settings[*index].clone()).collect()
    };
    let (name, all) = if is_13 {
        (c"TLS13-KDF", right(&settings, &[0, 3, 4, 6, 7, 8]))
    } else {
        (c"TLS1-PRF", right(&settings, &[0, 9, 10]))
    };
    let context = KdfContext::new_of(name, query);
    // With us, as in OpenSSL 3.0, data do not outlast the next setting: what later releases make
    // of those that are left is not compared.
    let outlast = is_13 && is_since(3, 1);
    let mut has_data = false;
    for _ in 0..1 + source.below(4) {
        let some = if source.is_chosen() {
            source.all_of(&all, Reader::Copies)
        } else {
            source.some_of(&settings, Reader::Copies)
        };
        let which = source.below(3);
        if which != 1 {
            if outlast && has_data && !some.has(c"data") {
                return;
            }
            has_data = some.has(c"data");
        }
        let (call, (done, made)) = match which {
            0 => ("set", (context.set(&some), Vec::new())),
            1 => ("get", context.get(&source.questions(&[c"size", c"digest", c"key"]))),
            _ => ("derive", context.derive(source.one(&[32, 48, 0, 12, 300]), &some)),
        };
        said.note(call, (done, made));
        if call != "get" && done <= 0 {
            // OpenSSL 3.0 itself does not survive the use of a context that has refused something.
            return;
        }
    }
    if !(outlast && has_data) {
        said.note("derive", context.derive(32, &Params::default()));
    }
}

const THEIRS: &CStr = super::PROVIDERS[1];
