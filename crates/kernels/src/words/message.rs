//! What is read block by block: bytes of a slice, or a text that is overwritten behind the reader.
#![allow(unsafe_code, reason = "loads of blocks")]

use crate::text::Text;

/// A message.
///
/// # Safety
///
/// What a source names can be read as long as the message is there.
pub unsafe trait Message {
    /// Where `bytes` bytes from `offset` on can be read.
    ///
    /// # Panics
    ///
    /// Panics if they are not all in the message.
    fn source(&self, offset: usize, bytes: usize) -> *const u8;
}

// SAFETY: the bytes are those of the slice.
unsafe impl Message for &[u8] {
    #[inline(always)]
    fn source(&self, offset: usize, bytes: usize) -> *const u8 {
        self[offset..][..bytes].as_ptr()
    }
}

// SAFETY: a text names bytes that can be read.
unsafe impl Message for Text<'_> {
    #[inline(always)]
    fn source(&self, offset: usize, bytes: usize) -> *const u8 {
        Text::source(self, offset, bytes)
    }
}

/// `CHUNKS` chunks of `BYTES` bytes, from `offset` on in a message.
///
/// # Panics
///
/// Panics if they are not all in the message.
#[inline(always)]
pub(super) fn chunks_at<const BYTES: usize, const CHUNKS: usize>(
    message: &impl Message,
    offset: usize,
) -> &[[u8; BYTES]; CHUNKS] {
    let source = message.source(offset, BYTES * CHUNKS);
    // SAFETY: the source names as many bytes, and rooms write to a text only behind what they read.
    unsafe { &*source.cast() }
}
