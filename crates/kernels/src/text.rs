//! Texts: where a message is read from and where the result goes, in place or not.
#![allow(unsafe_code, reason = "pointers that may name the same bytes twice")]

use core::marker::PhantomData;
use core::ops::BitXor;

/// Which way a text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Plaintext in, ciphertext out.
    Seal,
    /// Ciphertext in, plaintext out.
    Open,
}

/// A message to be transformed: `len` bytes to read and as many to write, which are the same bytes
/// or do not overlap.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    source: *const u8,
    target: *mut u8,
    bytes: usize,
    life: PhantomData<&'a mut [u8]>,
}

impl<'a> Text<'a> {
    /// A message that is overwritten by the result.
    #[inline]
    pub fn in_place(bytes: &'a mut [u8]) -> Self {
        let target = bytes.as_mut_ptr();
        Text { source: target, target, bytes: bytes.len(), life: PhantomData }
    }

    /// A message in one buffer, with the result in another.
    ///
    /// # Panics
    ///
    /// Panics if the lengths differ.
    #[inline]
    pub fn between(source: &'a [u8], target: &'a mut [u8]) -> Self {
        assert_eq!(source.len(), target.len(), "a text is written where there is room for it");
        Text {
            source: source.as_ptr(),
            target: target.as_mut_ptr(),
            bytes: source.len(),
            life: PhantomData,
        }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there is nothing to do.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The same text for a path that is seldom taken: what a function that is not inlined gets lies
    /// in memory, and without a copy of its own, for all other paths as well.
    #[inline(always)]
    pub fn apart(self) -> Self {
        self.split_at(0).1
    }

    /// The first `bytes` bytes, and the others.
    ///
    /// # Panics
    ///
    /// Panics if the text is shorter.
    #[inline(always)]
    pub fn split_at(self, bytes: usize) -> (Self, Self) {
        assert!(bytes <= self.bytes, "a text is split inside");
        let rest = Text {
            source: self.source.wrapping_add(bytes),
            target: self.target.wrapping_add(bytes),
            bytes: self.bytes - bytes,
            life: PhantomData,
        };
        (Text { bytes, ..self }, rest)
    }

    /// The result, once it is written, as a message: to be read.
    #[inline(always)]
    pub(crate) fn result(self) -> Self {
        Text { source: self.target, ..self }
    }

    /// Replaces up to one block of the message: `transform` gets what is read and returns what is
    /// written.
    ///
    /// # Panics
    ///
    /// Panics if the text is longer than `N`.
    pub fn map<const N: usize>(self, transform: impl FnOnce(&mut [u8; N])) {
        assert!(self.bytes <= N, "a text is mapped block by block");
        let mut block = [0; N];
        // SAFETY: `source` names `bytes` readable bytes, and the block is as long at least.
        unsafe { self.source.copy_to_nonoverlapping(block.as_mut_ptr(), self.bytes) };
        transform(&mut block);
        // SAFETY: `target` names `bytes` writable bytes, and the block is as long at least.
        unsafe { self.target.copy_from_nonoverlapping(block.as_ptr(), self.bytes) };
    }

    /// Adds a key stream that is no shorter, by words.
    ///
    /// # Panics
    ///
    /// Panics if the text is longer.
    #[inline(always)]
    pub(crate) fn add_words(self, stream: &[u64]) {
        let (words, rest) = self.split_at(self.bytes - self.bytes % 8);
        let (whole, last) = stream.split_at(words.bytes / 8);
        for (index, word) in whole.iter().enumerate() {
            words.add_at(8 * index, *word);
        }
        if !rest.is_empty() {
            rest.add_part_of_word(last[0]);
        }
    }

    /// Adds the first bytes of a word, as many as there are: four, two and one.
    #[inline(always)]
    fn add_part_of_word(self, word: u64) {
        let (behind_four, behind_two) = (self.bytes & 4, self.bytes & 6);
        if self.bytes & 4 != 0 {
            self.add_at(0, word as u32);
        }
        if self.bytes & 2 != 0 {
            self.add_at(behind_four, (word >> (8 * behind_four)) as u16);
        }
        if self.bytes & 1 != 0 {
            self.add_at(behind_two, (word >> (8 * behind_two)) as u8);
        }
    }

    /// Adds a word, an unsigned integer, to the bytes from `offset` on.
    #[inline(always)]
    fn add_at<W: BitXor<Output = W>>(self, offset: usize, word: W) {
        let source = self.source(offset, size_of::<W>()).cast::<W>();
        // SAFETY: `source` names as many readable bytes as the word has, and any bytes are a word.
        let sum = unsafe { source.read_unaligned() } ^ word;
        let target = self.target(offset, size_of::<W>()).cast::<W>();
        // SAFETY: `target` names as many writable bytes as the word has.
        unsafe { target.write_unaligned(sum) }
    }

    /// Copies what is read: the message.
    ///
    /// # Panics
    ///
    /// Panics if the copy has another length.
    #[inline]
    pub fn copy_source(&self, copy: &mut [u8]) {
        copy.copy_from_slice(self.message());
    }

    /// Copies what is written: the result, where it is there already.
    ///
    /// # Panics
    ///
    /// Panics if the copy has another length.
    #[inline]
    pub fn copy_target(&self, copy: &mut [u8]) {
        copy.copy_from_slice(self.written());
    }

    /// What is read: the message. Nobody may write it, by way of a copy of this text, while this
    /// is in use.
    #[inline(always)]
    fn message(&self) -> &[u8] {
        // SAFETY: `source` names `bytes` readable bytes, which nobody writes meanwhile.
        unsafe { core::slice::from_raw_parts(self.source, self.bytes) }
    }

    /// What is written: the result, where it is there already. As [`message`](Self::message).
    #[inline(always)]
    fn written(&self) -> &[u8] {
        // SAFETY: `target` names `bytes` readable bytes, which nobody writes meanwhile.
        unsafe { core::slice::from_raw_parts(self.target, self.bytes) }
    }

    /// The ciphertext: what is written if the text is sealed, what is read if it is opened. Nobody
    /// may write it, by way of a copy of this text, while this is in use.
    #[inline(always)]
    pub(crate) fn ciphertext<const SEAL: bool>(&self) -> &[u8] {
        if SEAL { self.written() } else { self.message() }
    }

    /// Where `bytes` bytes from `offset` on can be read.
    ///
    /// # Panics
    ///
    /// Panics if they are not all in the text. Costs nothing where both lengths are constants.
    #[inline(always)]
    pub(crate) fn source(&self, offset: usize, bytes: usize) -> *const u8 {
        assert!(offset + bytes <= self.bytes, "a text is read inside");
        self.source.wrapping_add(offset)
    }

    /// Where `bytes` bytes from `offset` on can be written, and read once they are.
    ///
    /// # Panics
    ///
    /// As [`source`](Self::source).
    #[inline(always)]
    pub(crate) fn target(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(offset + bytes <= self.bytes, "a text is written inside");
        self.target.wrapping_add(offset)
    }
}

/// Defines how a room reads and writes a `Row`, `ROW_BYTES` of a text.
macro_rules! rows_of_text {
    (#[$features:meta], load = $load:ident, store = $store:ident) => {
        #[inline]
        #[$features]
        fn load(text: Text<'_>, offset: usize) -> Row {
            let source = text.source(offset, ROW_BYTES);
            // SAFETY: `source` names as many readable bytes as a row has.
            unsafe { $load(source.cast()) }
        }

        #[inline]
        #[$features]
        fn store(text: Text<'_>, offset: usize, row: Row) {
            let target = text.target(offset, ROW_BYTES);
            // SAFETY: `target` names as many writable bytes as a row has.
            unsafe { $store(target.cast(), row) }
        }
    };
}
pub(crate) use rows_of_text;
