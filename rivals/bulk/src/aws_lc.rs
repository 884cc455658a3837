//! AWS-LC, by aws-lc-rs.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::kem::{
    Algorithm, DecapsulationKey, EncapsulationKey, ML_KEM_512, ML_KEM_768, ML_KEM_1024,
};
use aws_lc_rs::{digest, hmac};

use crate::kem;
use crate::task::{
    AAD, Aead, HMAC_KEY, Hash, NONCE, Operation, Task, Work, alone, message, text_and_tag,
};

/// How it does `task`, or why it cannot.
pub fn work(task: &Task) -> Result<Work, String> {
    task.takes_one()?;
    match task.operation {
        Operation::Seal(aead) => {
            let key = key(aead)?;
            Ok(alone(move |output| {
                let (text, tag) = text_and_tag(output);
                let nonce = Nonce::assume_unique_for_key(NONCE);
                let made = key.seal_in_place_separate_tag(nonce, Aad::from(AAD), text);
                tag.copy_from_slice(made.expect("the text is short enough").as_ref());
            }))
        }
        Operation::Open(aead) => {
            let key = key(aead)?;
            Ok(alone(move |output| {
                let nonce = Nonce::assume_unique_for_key(NONCE);
                let opened = key.open_in_place(nonce, Aad::from(AAD), message(output));
                opened.expect("the tag is right");
            }))
        }
        Operation::Digest(hash) => {
            let (algorithm, text) = (digest_algorithm(hash), task.text());
            Ok(alone(move |output| {
                output.copy_from_slice(digest::digest(algorithm, &text).as_ref());
            }))
        }
        Operation::Tag(hash) => {
            let (key, text) = (hmac::Key::new(hmac_algorithm(hash), &HMAC_KEY), task.text());
            Ok(alone(move |output| output.copy_from_slice(hmac::sign(&key, &text).as_ref())))
        }
        Operation::Record(_) => Err("no AES-CBC with HMAC by aws-lc-rs".to_owned()),
    }
}

/// How it does a task of ML-KEM, with random bytes of its own; encapsulation takes the bytes of a key.
pub fn ml_kem(task: kem::Task) -> Result<Work, String> {
    let set: &'static Algorithm = match task.set {
        512 => &ML_KEM_512,
        768 => &ML_KEM_768,
        1024 => &ML_KEM_1024,
        other => return Err(format!("no ML-KEM-{other}")),
    };
    let pairs = task.pairs()?;
    Ok(match task.operation {
        kem::Operation::Generate => kem::Task::for_each(move |_, output| {
            let key = DecapsulationKey::generate(set).expect("random bytes");
            output.copy_from_slice(key.key_bytes().expect("a key of ours").as_ref());
        }),
        kem::Operation::Encapsulate => kem::Task::for_each(move |lane, output| {
            let key = EncapsulationKey::new(set, &pairs[lane].public).expect("a sound key");
            let (ciphertext, shared) = key.encapsulate().expect("random bytes");
            let (front, back) = output.split_at_mut(ciphertext.as_ref().len());
            front.copy_from_slice(ciphertext.as_ref());
            back.copy_from_slice(shared.as_ref());
        }),
        kem::Operation::Decapsulate => {
            let key = |pair: &kem::Pair| DecapsulationKey::new(set, &pair.private);
            let keys = pairs.iter().map(key).collect::<Result<Vec<_>, _>>();
            let keys = keys.map_err(|error| error.to_string())?;
            kem::Task::for_each(move |lane, output| {
                let ciphertext = pairs[lane].ciphertext.as_slice().into();
                let shared =
                    keys[lane].decapsulate(ciphertext).expect("a ciphertext of its length");
                output.copy_from_slice(shared.as_ref());
            })
        }
    })
}

fn key(aead: Aead) -> Result<LessSafeKey, String> {
    let algorithm = match aead {
        Aead::Aes128Gcm => &AES_128_GCM,
        Aead::Aes192Gcm => &AES_192_GCM,
        Aead::Aes256Gcm => &AES_256_GCM,
        Aead::ChaCha20Poly1305 => &CHACHA20_POLY1305,
    };
    let key = UnboundKey::new(algorithm, &aead.key()).map_err(|error| error.to_string())?;
    Ok(LessSafeKey::new(key))
}

fn digest_algorithm(hash: Hash) -> &'static digest::Algorithm {
    match hash {
        Hash::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        Hash::Sha256 => &digest::SHA256,
        Hash::Sha384 => &digest::SHA384,
        Hash::Sha512 => &digest::SHA512,
    }
}

fn hmac_algorithm(hash: Hash) -> hmac::Algorithm {
    match hash {
        Hash::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        Hash::Sha256 => hmac::HMAC_SHA256,
        Hash::Sha384 => hmac::HMAC_SHA384,
        Hash::Sha512 => hmac::HMAC_SHA512,
    }
}
