//! From packets to keys: where the bytes of a key lie in a packet.

use crate::table::{Piece, Table};

/// Sixteen bytes of a packet, and where they go in two words of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// The first byte.
    pub offset: usize,
    /// Which two words.
    pub block: usize,
    /// For each byte of the two words, its place in the window; above 127 if it is not there.
    pub shuffle: [u8; 16],
}

/// Bytes of a window.
pub(super) const WINDOW: usize = 16;
const ABSENT: u8 = 0x80;

/// How keys are read.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    /// The pieces of a key, for reading them one by one.
    pub pieces: Vec<Piece>,
    /// The windows that hold the bytes of all words, in the order of the words.
    pub windows: Vec<Window>,
    /// How long a packet has to be.
    pub span: usize,
}

impl Recipe {
    pub fn of(table: &Table) -> Self {
        let blocks = table.shape().words().div_ceil(2);
        let span = table.layout().span();
        let of_block = |block| windows(table.pieces(), block, span);
        let windows = (0..blocks).flat_map(of_block).collect();
        Recipe { pieces: table.pieces().to_vec(), windows, span }
    }
}

/// The windows for two words: as few as possible, and inside the span where it is long enough.
fn windows(pieces: &[Piece], block: usize, span: usize) -> Vec<Window> {
    let mut sources: Vec<(usize, usize)> = Vec::new();
    for piece in pieces.iter().filter(|piece| usize::from(piece.word) / 2 == block) {
        let (offset, bytes) = (usize::from(piece.offset), usize::from(piece.bytes));
        let place = usize::from(piece.word) % 2 * 8 + usize::from(piece.shift) / 8;
        sources.extend((0..bytes).map(|byte| (offset + bytes - 1 - byte, place + byte)));
    }
    sources.sort_unstable();
    let mut windows = Vec::new();
    while let Some(&(first, _)) = sources.first() {
        let offset = first.min(span.saturating_sub(WINDOW));
        let mut shuffle = [ABSENT; WINDOW];
        sources.retain(|&(source, place)| {
            let inside = source < offset + WINDOW;
            if inside {
                shuffle[place] = (source - offset) as u8;
            }
            !inside
        });
        windows.push(Window { offset, block, shuffle });
    }
    windows
}

impl Window {
    /// The window's bytes, if the packet goes on so long.
    #[inline(always)]
    pub fn bytes<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8; WINDOW]> {
        packet.get(self.offset..)?.first_chunk()
    }

    /// The window's bytes of a packet that ends in it, with zeros behind.
    #[cold]
    pub fn last_bytes(&self, packet: &[u8]) -> [u8; WINDOW] {
        let mut bytes = [0; WINDOW];
        let rest = packet.get(self.offset..).unwrap_or(&[]);
        bytes[..rest.len()].copy_from_slice(rest);
        bytes
    }
}
