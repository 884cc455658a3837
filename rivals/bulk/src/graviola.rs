//! Graviola.

use graviola::aead::{AesGcm, ChaCha20Poly1305};
use graviola::hashing::hmac::Hmac;
use graviola::hashing::{self, Sha256, Sha384, Sha512};
use graviola::key_agreement::mlkem768::{Ciphertext, DecapKey, EncapKey};

use crate::kem;
use crate::task::{
    AAD, Aead, HMAC_KEY, Hash, NONCE, Operation, Task, Work, alone, message, text_and_tag,
};

const NO_AES_192_GCM: &str = "no AES-192-GCM";
const NO_SHA_1: &str = "no SHA-1";

/// How it does `task`, or why it cannot.
pub fn work(task: &Task) -> Result<Work, String> {
    task.takes_one()?;
    match task.operation {
        Operation::Seal(aead) => seal(aead),
        Operation::Open(aead) => open(aead),
        Operation::Digest(hash) => match hash {
            Hash::Sha1 => Err(NO_SHA_1.to_owned()),
            Hash::Sha256 => Ok(digest::<Sha256>(task.text())),
            Hash::Sha384 => Ok(digest::<Sha384>(task.text())),
            Hash::Sha512 => Ok(digest::<Sha512>(task.text())),
        },
        Operation::Tag(hash) => match hash {
            Hash::Sha1 => Err(NO_SHA_1.to_owned()),
            Hash::Sha256 => Ok(tag::<Sha256>(task.text())),
            Hash::Sha384 => Ok(tag::<Sha384>(task.text())),
            Hash::Sha512 => Ok(tag::<Sha512>(task.text())),
        },
        Operation::Record(_) => Err("no AES-CBC".to_owned()),
    }
}

/// How it does a task of ML-KEM-768, with random bytes of its own; encapsulation takes the bytes of
/// a key. A key is for one decapsulation, so that those that are timed go by what its own tests
/// use.
pub fn ml_kem(task: kem::Task) -> Result<Work, String> {
    if task.set != 768 {
        return Err("ML-KEM-768 only".to_owned());
    }
    let pairs = task.pairs()?;
    Ok(match task.operation {
        kem::Operation::Generate => kem::Task::for_each(|_, output| {
            output.copy_from_slice(&DecapKey::generate().expect("random bytes").as_bytes());
        }),
        kem::Operation::Encapsulate => kem::Task::for_each(move |lane, output| {
            let bytes = pairs[lane].public.as_slice().try_into().expect("a key of this set");
            let key = EncapKey::from_bytes(bytes).expect("a sound key");
            let (shared, ciphertext) = key.encaps().expect("random bytes");
            let (front, back) = output.split_at_mut(ciphertext.as_ref().len());
            front.copy_from_slice(ciphertext.as_ref());
            back.copy_from_slice(shared.as_ref());
        }),
        kem::Operation::Decapsulate => {
            let key = |lane| DecapKey::keygen_internal(&kem::Task::seed(lane));
            let keys: Vec<DecapKey> = (0..kem::LANES).map(key).collect();
            let ciphertext = |pair: &kem::Pair| {
                let bytes: [u8; 1088] = pair.ciphertext.as_slice().try_into().expect("of this set");
                Ciphertext::from(bytes)
            };
            let ciphertexts: Vec<Ciphertext> = pairs.iter().map(ciphertext).collect();
            kem::Task::for_each(move |lane, output| {
                let shared = keys[lane].decaps_internal(&ciphertexts[lane]);
                output.copy_from_slice(shared.as_ref());
            })
        }
    })
}

fn seal(aead: Aead) -> Result<Work, String> {
    match aead {
        Aead::Aes128Gcm | Aead::Aes256Gcm => {
            let key = AesGcm::new(&aead.key());
            Ok(alone(move |output| {
                let (text, tag) = text_and_tag(output);
                key.encrypt(&NONCE, &AAD, text, tag);
            }))
        }
        Aead::Aes192Gcm => Err(NO_AES_192_GCM.to_owned()),
        Aead::ChaCha20Poly1305 => {
            let key = aead.key().try_into().map_err(|_| "the key has not 32 bytes")?;
            let key = ChaCha20Poly1305::new(key);
            Ok(alone(move |output| {
                let (text, tag) = text_and_tag(output);
                key.encrypt(&NONCE, &AAD, text, tag);
            }))
        }
    }
}

fn open(aead: Aead) -> Result<Work, String> {
    match aead {
        Aead::Aes128Gcm | Aead::Aes256Gcm => {
            let key = AesGcm::new(&aead.key());
            Ok(alone(move |output| {
                let (text, tag) = text_and_tag(message(output));
                key.decrypt(&NONCE, &AAD, text, tag).expect("the tag is right");
            }))
        }
        Aead::Aes192Gcm => Err(NO_AES_192_GCM.to_owned()),
        Aead::ChaCha20Poly1305 => {
            let key = aead.key().try_into().map_err(|_| "the key has not 32 bytes")?;
            let key = ChaCha20Poly1305::new(key);
            Ok(alone(move |output| {
                let (text, tag) = text_and_tag(message(output));
                key.decrypt(&NONCE, &AAD, text, tag).expect("the tag is right");
            }))
        }
    }
}

fn digest<H: hashing::Hash>(text: Vec<u8>) -> Work {
    alone(move |output| output.copy_from_slice(H::hash(&text).as_ref()))
}

/// The key is set up once, and copied for every tag.
fn tag<H: hashing::Hash + Clone + 'static>(text: Vec<u8>) -> Work {
    let key = Hmac::<H>::new(HMAC_KEY);
    alone(move |output| {
        let mut message = key.clone();
        message.update(&text);
        output.copy_from_slice(message.finish().as_ref());
    })
}
