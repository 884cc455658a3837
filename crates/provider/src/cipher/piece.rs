//! Pieces of messages: what one call of EVP brings, and where the result goes.
#![allow(unsafe_code, reason = "buffers are pointers of the program's")]

use std::{ptr, slice};

/// What one call brings.
pub(super) enum Piece<'a> {
    /// More that is authenticated but not encrypted.
    Aad(&'a [u8]),
    /// More text, to be overwritten by the result.
    InPlace(&'a mut [u8]),
    /// More text, with the result in another buffer of the same length.
    Between(&'a [u8], &'a mut [u8]),
    /// The end of the message.
    End,
}

impl Piece<'_> {
    /// A piece as EVP means it: without input it is the end, without output it is AAD. Buffers may
    /// overlap in any way.
    ///
    /// # Safety
    /// `input` must be null or readable, `output` null or writable, for `bytes` bytes that nobody
    /// else uses while the piece is used.
    #[inline]
    pub(super) unsafe fn new(output: *mut u8, input: *const u8, bytes: usize) -> Self {
        if input.is_null() {
            return Piece::End;
        }
        if output.is_null() {
            // SAFETY: passed on to the caller.
            return Piece::Aad(unsafe { slice::from_raw_parts(input, bytes) });
        }
        let distance = output.addr().abs_diff(input.addr());
        if distance >= bytes {
            // SAFETY: passed on to the caller.
            let input = unsafe { slice::from_raw_parts(input, bytes) };
            // SAFETY: passed on to the caller, and it begins behind the input or ends before it.
            return Piece::Between(input, unsafe { slice::from_raw_parts_mut(output, bytes) });
        }
        if distance > 0 {
            // SAFETY: passed on to the caller; this copy allows for buffers that overlap.
            unsafe { ptr::copy(input, output, bytes) };
        }
        // SAFETY: passed on to the caller.
        Piece::InPlace(unsafe { slice::from_raw_parts_mut(output, bytes) })
    }
}

impl<'a> Piece<'a> {
    /// The text where its result belongs; nothing if the piece is none.
    pub(super) fn in_place(self) -> Option<&'a mut [u8]> {
        match self {
            Piece::InPlace(text) => Some(text),
            Piece::Between(input, output) => {
                output.copy_from_slice(input);
                Some(output)
            }
            Piece::Aad(_) | Piece::End => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_overlap_are_worked_on_in_place() {
        let bytes: Vec<u8> = (0..64).collect();
        for (from, to) in [(0, 32), (32, 0), (0, 1), (1, 0), (7, 7), (0, 31), (31, 0)] {
            let mut buffer = bytes.clone();
            let start = buffer.as_mut_ptr();
            let (input, output) = (start.wrapping_add(from), start.wrapping_add(to));
            // SAFETY: both are in the buffer, which is used through the piece alone.
            let piece = unsafe { Piece::new(output, input, 32) };
            match piece {
                Piece::InPlace(text) => {
                    assert!(from.abs_diff(to) < 32, "{from} to {to}");
                    assert_eq!(text, &bytes[from..from + 32]);
                }
                Piece::Between(input, output) => {
                    assert!(from.abs_diff(to) == 32, "{from} to {to}");
                    assert_eq!((input, output.len()), (&bytes[from..from + 32], 32));
                }
                Piece::Aad(_) | Piece::End => panic!("there are input and output"),
            }
        }
    }
}
