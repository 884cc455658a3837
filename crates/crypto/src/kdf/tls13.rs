//! The key schedule of TLS 1.3: HKDF (RFC 5869) with labels (RFC 8446, 7.1).

use std::slice;

use widelane_secret::stack::{kib, wiped};
use widelane_secret::{Mask, wipe};

use crate::digest::{self, BLOCK_BYTES_MAX, Block, Digest, FEW_MAX, State};
use crate::kdf::{Hash, Kdf, STACK, Secret, Tag, TooLong};

/// HKDF-Extract: a secret as long as a digest from `input`, salted with the secret before it.
///
/// An `output` of another length than a digest's is [`TooLong`], and stays as it is.
///
/// Secrets: `salt`, `input`, `output`.
pub fn extract(kdf: &Kdf, salt: &[u8], input: &[u8], output: &mut [u8]) -> Result<(), TooLong> {
    if output.len() != kdf.hash.bytes() {
        return Err(TooLong);
    }
    wiped::<STACK, _>(|| {
        output.copy_from_slice(Tag::of(&kdf.hmac.key(salt), &[input]).as_bytes());
    });
    Ok(())
}

/// [`extract`] with the salt of [`early`], which is ready: the secret of a handshake without a
/// pre-shared key.
///
/// Secrets: `input`, `output`.
pub fn extract_first(kdf: &Kdf, input: &[u8], output: &mut [u8]) -> Result<(), TooLong> {
    if output.len() != kdf.hash.bytes() {
        return Err(TooLong);
    }
    wiped::<STACK, _>(|| {
        let [inner, outer] = &kdf.early;
        output.copy_from_slice(Tag(kdf.hmac.hash().whole(inner, input, Some(outer))).as_bytes());
    });
    Ok(())
}

/// HKDF-Extract, made ready at once for what is derived from the result.
///
/// Secrets: `salt`, `input`.
#[must_use]
pub fn extract_secret(kdf: &Kdf, salt: &[u8], input: &[u8]) -> Secret {
    wiped::<STACK, _>(|| {
        let tag = Tag::of(&kdf.hmac.key(salt), &[input]);
        Secret { hash: kdf.hash, key: kdf.hmac.key(tag.as_bytes()) }
    })
}

/// HKDF-Expand-Label: `output.len()` bytes from a secret, for the use that `prefix` and `label`
/// name together in the `context` of so far a handshake.
///
/// TLS 1.3 has the prefix `"tls13 "`. Label and context have up to 255 bytes each, the output has
/// up to 255 digests; otherwise it stays as it is.
///
/// Secrets: `secret`, `output`.
pub fn expand_label(
    kdf: &Kdf,
    secret: &[u8],
    prefix: &[u8],
    label: &[u8],
    context: &[u8],
    output: &mut [u8],
) -> Result<(), TooLong> {
    kdf.secret(secret).expand_label(prefix, label, context, output)
}

/// A secret that [`expand_labels`] derives from.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// As it is, as long as a digest.
    Bytes(&'a [u8]),
    /// Made ready.
    Ready(&'a Secret),
}

/// What [`expand_labels`] is to derive.
#[derive(Clone, Copy)]
pub struct Expansion<'a> {
    /// The place of its secret among the sources.
    pub source: usize,
    /// What it is for.
    pub label: &'a [u8],
    /// Of so far a handshake.
    pub context: &'a [u8],
    /// How many bytes, up to a digest.
    pub bytes: usize,
}

/// Most secrets that [`expand_labels`] derives from at once.
pub const SOURCES_MAX: usize = 2;

/// Most values that it derives at once.
pub const EXPANSIONS_MAX: usize = FEW_MAX;

/// [`expand_label`], several times at once, in lanes where that takes less time. Each value is the
/// beginning of its output.
///
/// What is more or longer than TLS 1.3 has it is [`TooLong`]; nothing is derived then.
///
/// Secrets: `sources`, outputs.
pub fn expand_labels(
    kdf: &Kdf,
    sources: &[Source<'_>],
    prefix: &[u8],
    expansions: &[Expansion<'_>],
    outputs: &mut [[u8; Hash::BYTES_MAX]],
) -> Result<(), TooLong> {
    let hash = kdf.hmac.hash();
    let is_whole = |source: &Source<'_>| match source {
        Source::Bytes(bytes) => bytes.len() == kdf.hash.bytes(),
        Source::Ready(secret) => secret.hash == kdf.hash,
    };
    let is_short = |it: &Expansion<'_>| {
        is_short(hash, &[prefix, it.label, it.context], it.bytes) && it.source < sources.len()
    };
    let fit = sources.len() <= SOURCES_MAX
        && expansions.len() <= EXPANSIONS_MAX.min(outputs.len())
        && sources.iter().all(is_whole)
        && expansions.iter().all(is_short);
    if !fit {
        return Err(TooLong);
    }
    wiped::<STACK_AT_ONCE, _>(|| {
        expand_at_once(hash, sources, prefix, expansions, outputs);
    });
    Ok(())
}

/// Stack of values derived at once.
const STACK_AT_ONCE: usize = kib(7);

fn expand_at_once(
    hash: &digest::Hash,
    sources: &[Source<'_>],
    prefix: &[u8],
    expansions: &[Expansion<'_>],
    outputs: &mut [[u8; Hash::BYTES_MAX]],
) {
    let mut ready = [[*hash.initial(); 2]; SOURCES_MAX];
    // Those that are to be made ready, all at once, stand in front of the others.
    let (mut bytes, mut count, mut places) = ([&[][..]; SOURCES_MAX], 0, [0; SOURCES_MAX]);
    for (source, place) in sources.iter().zip(&mut places) {
        if let Source::Bytes(secret) = source {
            (bytes[count], *place) = (secret, count);
            count += 1;
        }
    }
    if count > 0 {
        hash.keys_of_few(&bytes[..count], &mut ready);
    }
    for (source, place) in sources.iter().zip(&mut places) {
        if let Source::Ready(secret) = source {
            (ready[count], *place) = (*secret.key.states(), count);
            count += 1;
        }
    }
    let (mut blocks, mut tags) = ([[0; BLOCK_BYTES_MAX]; FEW_MAX], [Digest::default(); FEW_MAX]);
    let mut keys = [&ready[0]; FEW_MAX];
    let (blocks, tags) = (&mut blocks[..expansions.len()], &mut tags[..expansions.len()]);
    for ((block, key), it) in blocks.iter_mut().zip(&mut keys).zip(expansions) {
        put_message(hash, block, prefix, it.label, it.context, it.bytes);
        *key = &ready[places[it.source]];
    }
    hash.tags_of_few(&keys[..expansions.len()], blocks, tags);
    for ((tag, it), output) in tags.iter_mut().zip(expansions).zip(outputs) {
        output[..it.bytes].copy_from_slice(&tag.as_ref()[..it.bytes]);
        tag.wipe();
    }
    wipe(blocks.as_flattened_mut());
    wipe(ready.as_flattened_mut().as_flattened_mut());
}

/// Whether a value is one digest of a message that is one block.
fn is_short(hash: &digest::Hash, texts: &[&[u8]; 3], output_bytes: usize) -> bool {
    let bytes = texts.iter().fold(5_usize, |sum, text| sum.saturating_add(text.len()));
    hash.is_short(bytes) && output_bytes <= hash.algorithm().digest_bytes()
}

/// The message that a short value is the tag of, in its block.
fn put_message(
    hash: &digest::Hash,
    block: &mut Block,
    prefix: &[u8],
    label: &[u8],
    context: &[u8],
    output_bytes: usize,
) {
    let mut at = 0;
    let mut put = |piece: &[u8]| {
        block[at..][..piece.len()].copy_from_slice(piece);
        at += piece.len();
    };
    let [high, low] = (output_bytes as u16).to_be_bytes();
    put(&[high, low, (prefix.len() + label.len()) as u8]);
    put(prefix);
    put(label);
    put(&[context.len() as u8]);
    put(context);
    put(&[1]);
    hash.pad_short(block, at);
}

impl Secret {
    /// [`expand_label`] from this secret.
    ///
    /// Secrets: `self`, `output`.
    pub fn expand_label(
        &self,
        prefix: &[u8],
        label: &[u8],
        context: &[u8],
        output: &mut [u8],
    ) -> Result<(), TooLong> {
        if is_short(self.key.hash(), &[prefix, label, context], output.len()) {
            wiped::<STACK, _>(|| self.expand_short(prefix, label, context, output));
            return Ok(());
        }
        let output_bytes = u16::try_from(output.len()).map_err(|_| TooLong)?.to_be_bytes();
        let label_bytes = u8::try_from(prefix.len() + label.len()).map_err(|_| TooLong)?;
        let context_bytes = u8::try_from(context.len()).map_err(|_| TooLong)?;
        let info: [&[u8]; 6] =
            [&output_bytes, &[label_bytes], prefix, label, &[context_bytes], context];
        self.expand(&info, output)
    }

    fn expand_short(&self, prefix: &[u8], label: &[u8], context: &[u8], output: &mut [u8]) {
        let (mut block, mut tag) = ([0; BLOCK_BYTES_MAX], Tag(Digest::default()));
        let (hash, states): (_, &[State; 2]) = (self.key.hash(), self.key.states());
        put_message(hash, &mut block, prefix, label, context, output.len());
        hash.tags_of_two(&[states], slice::from_mut(&mut block), slice::from_mut(&mut tag.0));
        output.copy_from_slice(&tag.as_bytes()[..output.len()]);
        wipe(&mut block);
    }

    /// HKDF-Expand: `output.len()` bytes from this secret, for the use that the pieces of `info`
    /// name one behind the other.
    ///
    /// The output has up to 255 digests; otherwise it stays as it is.
    ///
    /// Secrets: `self`, `output`.
    pub fn expand(&self, info: &[&[u8]], output: &mut [u8]) -> Result<(), TooLong> {
        let digest_bytes = self.hash.bytes();
        if output.len() > usize::from(u8::MAX) * digest_bytes {
            return Err(TooLong);
        }
        wiped::<STACK, _>(|| {
            let mut before: Option<Tag> = None;
            for (number, chunk) in (1..=u8::MAX).zip(output.chunks_mut(digest_bytes)) {
                let mut stream = self.key.begin();
                stream.update(before.as_ref().map_or(&[], Tag::as_bytes));
                info.iter().for_each(|piece| stream.update(piece));
                stream.update(&[number]);
                let tag = Tag(stream.end());
                chunk.copy_from_slice(&tag.as_bytes()[..chunk.len()]);
                before = Some(tag);
            }
        });
        Ok(())
    }

    /// The tag of HMAC over a message, with this secret as its key: what a Finished message has.
    ///
    /// Secrets: `self`.
    #[must_use]
    pub fn tag(&self, message: &[u8]) -> Digest {
        wiped::<STACK, _>(|| self.key.tag(message))
    }
}

/// The digest of nothing: the context in which a secret is derived for the next extraction.
pub fn empty_digest(hash: Hash) -> &'static [u8] {
    match hash {
        Hash::Sha256 => &EMPTY_SHA256,
        Hash::Sha384 => &EMPTY_SHA384,
    }
}

/// What all handshakes without a pre-shared key begin with (RFC 8446, 7.1), so nothing secret.
#[derive(Clone, Copy, Debug)]
pub struct Early {
    /// What extraction makes of zeroes.
    pub secret: &'static [u8],
    /// What is derived from that as the salt of the next extraction.
    pub salt: &'static [u8],
}

impl Early {
    /// Whether a secret is the one that these are about, which the peer knows as well. Otherwise
    /// nothing of it is told, not even by how long this takes.
    #[must_use]
    pub fn is(self, secret: &[u8]) -> bool {
        secret.len() == self.secret.len() && Mask::equal_bytes(self.secret, secret).declassify()
    }
}

/// The beginning without a pre-shared key.
pub fn early(hash: Hash) -> Early {
    match hash {
        Hash::Sha256 => Early { secret: &EARLY_SHA256, salt: &EARLY_SALT_SHA256 },
        Hash::Sha384 => Early { secret: &EARLY_SHA384, salt: &EARLY_SALT_SHA384 },
    }
}

const EARLY_SHA256: [u8; 32] = [
    0x33, 0xad, 0x0a, 0x1c, 0x60, 0x7e, 0xc0, 0x3b, 0x09, 0xe6, 0xcd, 0x98, 0x93, 0x68, 0x0c, 0xe2,
    0x10, 0xad, 0xf3, 0x00, 0xaa, 0x1f, 0x26, 0x60, 0xe1, 0xb2, 0x2e, 0x10, 0xf1, 0x70, 0xf9, 0x2a,
];

const EARLY_SALT_SHA256: [u8; 32] = [
    0x6f, 0x26, 0x15, 0xa1, 0x08, 0xc7, 0x02, 0xc5, 0x67, 0x8f, 0x54, 0xfc, 0x9d, 0xba, 0xb6, 0x97,
    0x16, 0xc0, 0x76, 0x18, 0x9c, 0x48, 0x25, 0x0c, 0xeb, 0xea, 0xc3, 0x57, 0x6c, 0x36, 0x11, 0xba,
];

const EARLY_SHA384: [u8; 48] = [
    0x7e, 0xe8, 0x20, 0x6f, 0x55, 0x70, 0x02, 0x3e, 0x6d, 0xc7, 0x51, 0x9e, 0xb1, 0x07, 0x3b, 0xc4,
    0xe7, 0x91, 0xad, 0x37, 0xb5, 0xc3, 0x82, 0xaa, 0x10, 0xba, 0x18, 0xe2, 0x35, 0x7e, 0x71, 0x69,
    0x71, 0xf9, 0x36, 0x2f, 0x2c, 0x2f, 0xe2, 0xa7, 0x6b, 0xfd, 0x78, 0xdf, 0xec, 0x4e, 0xa9, 0xb5,
];

const EARLY_SALT_SHA384: [u8; 48] = [
    0x15, 0x91, 0xda, 0xc5, 0xcb, 0xbf, 0x03, 0x30, 0xa4, 0xa8, 0x4d, 0xe9, 0xc7, 0x53, 0x33, 0x0e,
    0x92, 0xd0, 0x1f, 0x0a, 0x88, 0x21, 0x4b, 0x44, 0x64, 0x97, 0x2f, 0xd6, 0x68, 0x04, 0x9e, 0x93,
    0xe5, 0x2f, 0x2b, 0x16, 0xfa, 0xd9, 0x22, 0xfd, 0xc0, 0x58, 0x44, 0x78, 0x42, 0x8f, 0x28, 0x2b,
];

const EMPTY_SHA256: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

const EMPTY_SHA384: [u8; 48] = [
    0x38, 0xb0, 0x60, 0xa7, 0x51, 0xac, 0x96, 0x38, 0x4c, 0xd9, 0x32, 0x7e, 0xb1, 0xb1, 0xe3, 0x6a,
    0x21, 0xfd, 0xb7, 0x11, 0x14, 0xbe, 0x07, 0x43, 0x4c, 0x0c, 0xc7, 0xbf, 0x63, 0xf6, 0xe1, 0xda,
    0x27, 0x4e, 0xde, 0xbf, 0xe7, 0x6f, 0x65, 0xfb, 0xd5, 0x1a, 0xd2, 0xf1, 0x48, 0x98, 0xb9, 0x5b,
];

#[cfg(test)]
mod tests {
    use widelane_cpu::Policy;

    use super::*;
    use crate::digest::{self, Algorithm};

    #[test]
    fn the_digest_of_nothing() {
        let digest = |algorithm| digest::Hash::choose(algorithm, &Policy::open()).digest(&[]);
        assert_eq!(empty_digest(Hash::Sha256), digest(Algorithm::Sha256).as_ref());
        assert_eq!(empty_digest(Hash::Sha384), digest(Algorithm::Sha384).as_ref());
    }

    #[test]
    fn the_beginning_without_a_pre_shared_key() {
        for hash in Hash::ALL {
            let kdf = Kdf::choose(hash, &Policy::open());
            let (mut secret, mut salt) = (vec![0; hash.bytes()], vec![0; hash.bytes()]);
            extract(&kdf, &[], &vec![0; hash.bytes()], &mut secret).expect("a digest's length");
            let context = empty_digest(hash);
            expand_label(&kdf, &secret, b"tls13 ", b"derived", context, &mut salt)
                .expect("a digest's length");
            assert_eq!((early(hash).secret, early(hash).salt), (&secret[..], &salt[..]));
            assert!(early(hash).is(&secret));
            assert!(!early(hash).is(&secret[1..]) && !early(hash).is(&[]));
            for byte in 0..hash.bytes() {
                let mut other = secret.clone();
                other[byte] ^= 0x80;
                assert!(!early(hash).is(&other), "byte {byte}");
            }
        }
    }

    #[test]
    fn lengths_that_do_not_fit_change_nothing() {
        let [short, long] = Hash::ALL.map(|hash| Kdf::choose(hash, &Policy::open()));
        let mut output = [7; 48];
        assert_eq!(extract(&short, &[], &[], &mut output), Err(TooLong));
        let field = [0; 256];
        assert_eq!(expand_label(&long, &[], b"", &field, b"", &mut output), Err(TooLong));
        assert_eq!(expand_label(&long, &[], b"", b"", &field, &mut output), Err(TooLong));
        assert_eq!(output, [7; 48]);
        let mut longest = vec![0; 255 * 32];
        assert_eq!(expand_label(&short, &[], b"", b"", b"", &mut longest), Ok(()));
        longest.push(0);
        assert_eq!(expand_label(&short, &[], b"", b"", b"", &mut longest), Err(TooLong));
    }
}
