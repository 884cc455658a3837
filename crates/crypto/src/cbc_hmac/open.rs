//! Opening records whose tag is encrypted with the text, in a time that depends on their length
//! alone (Lucky Thirteen, AlFardan and Paterson 2013).
//!
//! How long the text is stands in the padding, so it is a secret until the tag is checked. Every
//! block that might be the last one of the hash is compressed, and the state behind the one that is
//! is picked by a mask; every place where the tag might stand is compared.

use widelane_kernels::text::Text;
use widelane_secret::{Mask, wipe};

use super::{BLOCK_BYTES, CbcHmacError, HASH_BLOCK_BYTES, HEADER_BYTES, Header, Key};
use crate::digest::{Digest, State};

/// Bytes of the length at the end of a hashed message.
const LENGTH_BYTES: usize = 8;

/// The longest padding, without the byte that says how long it is.
const PADDING_MAX: usize = 255;

/// Bytes of the longest tag, that of SHA-256.
const TAG_BYTES_MAX: usize = 32;

/// Bytes among which a tag stands, in whole steps.
const WINDOW_BYTES: usize = PADDING_MAX + 1 + TAG_BYTES_MAX;

/// Places by which the bytes are moved at least: as many as a register has, so that no step waits
/// for pieces that the one before it has written.
const STEP_MIN: usize = 16;

impl Key {
    /// Opens a record of [`Mode::MacThenEncrypt`](super::Mode::MacThenEncrypt).
    pub(super) fn open_padded(
        &self,
        iv: &[u8; BLOCK_BYTES],
        header: Header,
        record: &mut [u8],
    ) -> Result<usize, CbcHmacError> {
        let tag_bytes = self.algorithm.tag_bytes();
        let longest = record.len().checked_sub(tag_bytes + 1).ok_or(CbcHmacError::Rejected)?;
        let fits = record.len() <= self.encrypted_bytes_max();
        if !fits || !record.len().is_multiple_of(BLOCK_BYTES) {
            return Err(CbcHmacError::Rejected);
        }
        self.cipher.decrypt(&mut { *iv }, Text::in_place(record));
        let shortest = longest.saturating_sub(PADDING_MAX);
        let (padded, padding) = padding(&record[shortest + tag_bytes..]);
        // Without a padding the text is taken for as long as can be (RFC 5246, 6.2.3.2).
        let text_bytes = longest as u64 - padded.select(padding, 0);
        let mut tag = self.tag_of_secret_length(header, record, shortest..=longest, text_bytes);
        let place = text_bytes - shortest as u64;
        let same = equal_at(&record[shortest..longest + tag_bytes], place, tag.as_ref());
        // A forged record would be accepted with it.
        tag.wipe();
        if (padded & same).declassify() {
            Ok(text_bytes as usize)
        } else {
            Err(CbcHmacError::Rejected)
        }
    }

    /// The tag of the first `text_bytes` bytes of a record, a secret in the range `lengths`.
    fn tag_of_secret_length(
        &self,
        header: Header,
        record: &[u8],
        lengths: std::ops::RangeInclusive<usize>,
        text_bytes: u64,
    ) -> Digest {
        let hash = self.mac.hash();
        let header = header.bytes(text_bytes as usize);
        // Blocks that are all text, however long it is.
        let total = HEADER_BYTES as u64 + text_bytes;
        let sure = (HEADER_BYTES + lengths.start()) / HASH_BLOCK_BYTES;
        let mut state = self.mac.inner_state();
        let (filling, rest) = record.split_at(record.len().min(HASH_BLOCK_BYTES - HEADER_BYTES));
        let mut first = [0; HASH_BLOCK_BYTES];
        first[..HEADER_BYTES].copy_from_slice(&header);
        first[HEADER_BYTES..][..filling.len()].copy_from_slice(filling);
        if let Some(blocks) = sure.checked_sub(1) {
            hash.compress(&mut state, &first);
            hash.compress(&mut state, &rest[..blocks * HASH_BLOCK_BYTES]);
        }
        // The pad of HMAC is a block in front.
        let bits = (8 * (HASH_BLOCK_BYTES as u64 + total)).to_be_bytes();
        let last = (total + LENGTH_BYTES as u64) / HASH_BLOCK_BYTES as u64;
        let end = (HEADER_BYTES + lengths.end() + LENGTH_BYTES) / HASH_BLOCK_BYTES;
        let mut picked = State::default();
        for index in sure..=end {
            let mut block = first;
            if let Some(before) = index.checked_sub(1) {
                block.fill(0);
                let bytes = rest.get(before * HASH_BLOCK_BYTES..).unwrap_or(&[]);
                let bytes = &bytes[..bytes.len().min(HASH_BLOCK_BYTES)];
                block[..bytes.len()].copy_from_slice(bytes);
            }
            end_at(&mut block, total.wrapping_sub((index * HASH_BLOCK_BYTES) as u64));
            let is_last = Mask::equal(index as u64, last);
            for (target, byte) in block[HASH_BLOCK_BYTES - LENGTH_BYTES..].iter_mut().zip(bits) {
                *target |= byte & is_last.word() as u8;
            }
            hash.compress(&mut state, &block);
            for (picked, word) in picked.iter_mut().zip(state) {
                *picked = is_last.select(word, *picked);
            }
            wipe(&mut block);
        }
        wipe(&mut first);
        self.mac.end(&mut picked, &[])
    }
}

/// Keeps the first `bytes` bytes of a block, puts 0x80 behind them, and clears the others. The end
/// may also lie in a later block, or, as a number below zero, in an earlier one.
fn end_at(block: &mut [u8; HASH_BLOCK_BYTES], bytes: u64) {
    let limit = HASH_BLOCK_BYTES as u64;
    let is_here = Mask::is_zero(bytes / limit);
    let is_later = Mask::is_zero(bytes >> 63) & !is_here;
    let kept = (is_here.select(bytes, 0) | is_later.select(limit, 0)) as u8;
    let end = is_here.select(bytes, limit) as u8;
    // Places are below 64, so that differences are signed bytes; the compiler takes 16 at a time.
    for (place, byte) in (0u8..).zip(block) {
        let is_kept = (place.wrapping_sub(kept).cast_signed() >> 7).cast_unsigned();
        let from_end = place ^ end;
        let is_end = from_end.wrapping_sub(1) & !from_end;
        *byte = *byte & is_kept | is_end & 0x80;
    }
}

/// Whether the end of a record is a padding, and how long it is without the byte that says so.
///
/// `bytes` is as much of the record as may be padding.
fn padding(bytes: &[u8]) -> (Mask, u64) {
    let (&length, bytes) = bytes.split_last().expect("a record has room for a byte of padding");
    let fits = (bytes.len() as u64).wrapping_sub(u64::from(length)) >> 63;
    // Of the bytes in front of the last one, those up to `length` are padding.
    let mut wrong = 0;
    for (place, byte) in (0u16..).zip(bytes.iter().rev()) {
        let is_padding = (place.wrapping_sub(length.into()).cast_signed() >> 15) as u8;
        wrong |= is_padding & (byte ^ length);
    }
    (Mask::is_zero(fits | u64::from(wrong)), length.into())
}

/// Whether `tag` stands at a secret place of `bytes`, at most [`PADDING_MAX`]. The bytes are moved
/// to the front step by step, one for each of the upper bits that the place may have, and then
/// compared at all places that the lower bits may mean.
fn equal_at(bytes: &[u8], place: u64, tag: &[u8]) -> Mask {
    let (mut window, mut expected) = ([0; WINDOW_BYTES], [0; TAG_BYTES_MAX]);
    let last_place = bytes.len() - tag.len();
    window[..bytes.len()].copy_from_slice(bytes);
    expected[..tag.len()].copy_from_slice(tag);
    macro_rules! steps {
        ($($step:literal)*) => {$(
            if last_place >= $step {
                advance::<$step>(&mut window, place);
            }
        )*};
    }
    steps!(128 64 32 16);
    let mut differences = [0; TAG_BYTES_MAX];
    for at in 0..STEP_MIN {
        let is_here = Mask::equal(place % STEP_MIN as u64, at as u64).word() as u8;
        for (index, difference) in differences.iter_mut().enumerate() {
            *difference |= (window[at + index] ^ expected[index]) & is_here;
        }
    }
    let difference = differences[..tag.len()].iter().fold(0, |sum, difference| sum | difference);
    wipe(&mut window);
    wipe(&mut expected);
    Mask::is_zero(difference.into())
}

/// Moves the bytes to the front by `STEP` places if the place has that bit, as many as the steps
/// after this one may need.
fn advance<const STEP: usize>(window: &mut [u8; WINDOW_BYTES], place: u64) {
    let moved = (!Mask::is_zero(place & STEP as u64)).word() as u8;
    for index in 0..STEP + TAG_BYTES_MAX {
        window[index] = window[index] & !moved | window[index + STEP] & moved;
    }
}
