//! What is done, with the keys and inputs that `widelane speed` has.

/// Messages that are handed over at once where many are.
pub const MANY: usize = 32;

/// Bytes of the tag of authenticated encryption.
pub const TAG_BYTES: usize = 16;

pub const NONCE: [u8; 12] = [7; 12];
pub const AAD: [u8; 13] = [1; 13];

/// The key of HMAC, where that stands alone.
pub const HMAC_KEY: [u8; 32] = [9; 32];

/// Bytes of a block of AES.
const BLOCK_BYTES: usize = 16;

/// Does the task once for every message, each with an output of its own.
pub type Work = Box<dyn FnMut(&mut [Vec<u8>])>;

/// Work that is done on one message.
pub fn alone(mut operation: impl FnMut(&mut [u8]) + 'static) -> Work {
    Box::new(move |outputs| operation(&mut outputs[0]))
}

/// An operation, on so many messages of one size.
#[derive(Clone, Copy)]
pub struct Task {
    pub operation: Operation,
    pub size: usize,
    pub count: usize,
}

#[derive(Clone, Copy)]
pub enum Operation {
    /// Seals the text in front of the place for its tag.
    Seal(Aead),
    /// Opens the text in front of the place for its tag, behind which its tags are.
    Open(Aead),
    Digest(Hash),
    /// The tag of HMAC.
    Tag(Hash),
    /// A record of TLS 1.2: a block of chance, then text, tag and padding, encrypted.
    Record(CbcHmac),
}

#[derive(Clone, Copy)]
pub enum Aead {
    Aes128Gcm,
    Aes192Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
}

#[derive(Clone, Copy)]
pub enum Hash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

#[derive(Clone, Copy)]
pub enum CbcHmac {
    Aes128Sha1,
    Aes128Sha256,
    Aes256Sha256,
}

impl Task {
    /// The task that a path of results names: `aes-128-gcm/seal-many/1350`.
    pub fn at(path: &str) -> Result<Self, String> {
        let parts: Vec<&str> = path.split('/').collect();
        let [algorithm, operation, size] = parts.as_slice() else {
            return Err("messages only".to_owned());
        };
        let (operation, count) = match operation.strip_suffix("-many") {
            Some(operation) => (operation, MANY),
            None => (*operation, 1),
        };
        let operation = Operation::named(algorithm, operation)
            .ok_or_else(|| format!("no {operation} by {algorithm}"))?;
        let size = size.parse().map_err(|_| format!("{size} is no size"))?;
        Ok(Task { operation, size, count })
    }

    /// Refuses many messages, for libraries whose calls take one.
    pub fn takes_one(&self) -> Result<(), String> {
        if self.count == 1 { Ok(()) } else { Err("one message at a time only".to_owned()) }
    }

    /// Bytes of an output.
    pub fn output_bytes(&self) -> usize {
        match self.operation {
            Operation::Seal(_) => self.size + TAG_BYTES,
            Operation::Open(_) => self.size,
            Operation::Digest(hash) | Operation::Tag(hash) => hash.digest_bytes(),
            Operation::Record(algorithm) => {
                let sealed = self.size + algorithm.hash().digest_bytes();
                BLOCK_BYTES + sealed / BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES
            }
        }
    }

    /// Outputs before anything was done.
    pub fn outputs(&self) -> Vec<Vec<u8>> {
        vec![vec![0; self.output_bytes()]; self.count]
    }

    /// What is hashed: texts of which no two are alike.
    pub fn texts(&self) -> Vec<Vec<u8>> {
        let text = |lane| (0..self.size).map(|index| (index ^ lane) as u8).collect();
        (0..self.count).map(text).collect()
    }

    /// What is hashed where it is one message.
    pub fn text(&self) -> Vec<u8> {
        self.texts().swap_remove(0)
    }
}

impl Operation {
    fn named(algorithm: &str, operation: &str) -> Option<Self> {
        match operation {
            "seal" => {
                let record = || CbcHmac::named(algorithm).map(Operation::Record);
                Aead::named(algorithm).map(Operation::Seal).or_else(record)
            }
            "open" => Aead::named(algorithm).map(Operation::Open),
            "digest" => Hash::named(algorithm).map(Operation::Digest),
            "tag" => Hash::named(algorithm.strip_prefix("hmac-")?).map(Operation::Tag),
            _ => None,
        }
    }
}

impl Aead {
    fn named(name: &str) -> Option<Self> {
        match name {
            "aes-128-gcm" => Some(Aead::Aes128Gcm),
            "aes-192-gcm" => Some(Aead::Aes192Gcm),
            "aes-256-gcm" => Some(Aead::Aes256Gcm),
            "chacha20-poly1305" => Some(Aead::ChaCha20Poly1305),
            _ => None,
        }
    }

    pub fn key(self) -> Vec<u8> {
        let bytes = match self {
            Aead::Aes128Gcm => 16,
            Aead::Aes192Gcm => 24,
            Aead::Aes256Gcm | Aead::ChaCha20Poly1305 => 32,
        };
        (0..bytes).collect()
    }
}

impl Hash {
    fn named(name: &str) -> Option<Self> {
        match name {
            "sha-1" => Some(Hash::Sha1),
            "sha-256" => Some(Hash::Sha256),
            "sha-384" => Some(Hash::Sha384),
            "sha-512" => Some(Hash::Sha512),
            _ => None,
        }
    }

    pub fn digest_bytes(self) -> usize {
        match self {
            Hash::Sha1 => 20,
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }
}

impl CbcHmac {
    fn named(name: &str) -> Option<Self> {
        match name {
            "aes-128-cbc-hmac-sha1" => Some(CbcHmac::Aes128Sha1),
            "aes-128-cbc-hmac-sha256" => Some(CbcHmac::Aes128Sha256),
            "aes-256-cbc-hmac-sha256" => Some(CbcHmac::Aes256Sha256),
            _ => None,
        }
    }

    pub fn hash(self) -> Hash {
        match self {
            CbcHmac::Aes128Sha1 => Hash::Sha1,
            CbcHmac::Aes128Sha256 | CbcHmac::Aes256Sha256 => Hash::Sha256,
        }
    }
}

/// The message to open, which ends with its tag. Opened twice, a text is what it was: there are
/// zeros, whose tag is the first of the two behind the message, and the key stream, which does not
/// begin with zero.
pub fn message(output: &mut [u8]) -> &mut [u8] {
    let (message, tags) = output.split_at_mut(output.len() - 2 * TAG_BYTES);
    let (of_zeros, of_key_stream) = tags.split_at(TAG_BYTES);
    let (text, tag) = text_and_tag(message);
    tag.copy_from_slice(if let [0, ..] = text { of_zeros } else { of_key_stream });
    message
}

/// The text in front of the tag.
pub fn text_and_tag(output: &mut [u8]) -> (&mut [u8], &mut [u8; TAG_BYTES]) {
    output.split_last_chunk_mut().expect("every message has a tag")
}
