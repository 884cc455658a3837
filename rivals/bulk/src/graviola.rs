//! Graviola.

use graviola::aead::{AesGcm, ChaCha20Poly1305};
use graviola::hashing::hmac::Hmac;
use graviola::hashing::{self, Sha256, Sha384, Sha512};

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
