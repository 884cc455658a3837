//! Libraries with ring's interface.

/// Defines how such a library does a task, given the algorithm that not all have, and why it makes
/// no records.
macro_rules! work {
    ($library:ident, $aes_192_gcm:expr, $no_record:literal) => {
        use $library::aead::{
            AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
        };
        use $library::{digest, hmac};

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
                    let (key, text) =
                        (hmac::Key::new(hmac_algorithm(hash), &HMAC_KEY), task.text());
                    Ok(alone(move |output| {
                        output.copy_from_slice(hmac::sign(&key, &text).as_ref())
                    }))
                }
                Operation::Record(_) => Err($no_record.to_owned()),
            }
        }

        fn key(aead: Aead) -> Result<LessSafeKey, String> {
            let algorithm = match aead {
                Aead::Aes128Gcm => &AES_128_GCM,
                Aead::Aes192Gcm => $aes_192_gcm,
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
    };
}

pub(crate) use work;
