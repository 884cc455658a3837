//! ChaCha20-Poly1305 in the room chosen: which kernel does what.

use widelane_cpu::{Policy, Room, choice};
use widelane_kernels::chacha20_poly1305::{
    BLOCK_BYTES, Key, Message, NONCE_BYTES, Poly1305, TAG_BYTES, avx2, avx512, close, ifma256,
    ifma512, portable,
};
use widelane_kernels::text::{Direction, Text};
use widelane_secret::wipe;

use super::kernel::end_of;
use super::{HEADER_MASK_BYTES, HEADER_SAMPLE_BYTES, SealJob, kernel};

choice! { $
    /// The room of ChaCha20-Poly1305.
    pub(super) enum Choice by in_room {
        Ifma512 => ifma512, Ifma256 => ifma256, Avx512 => avx512, Avx2 => avx2,
        Portable => portable
    }
}

/// The rooms chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rooms {
    choice: Choice,
    /// For texts that a narrower room takes less time for: that one, where it is open.
    short: Choice,
}

/// A key and its rooms. Boxed, so that moving it leaves no copies behind.
#[derive(Clone)]
pub(super) struct Kernel {
    rooms: Rooms,
    key: Box<Key>,
}

/// A message on its way: what its stream remembers.
#[derive(Clone)]
pub(super) struct Session {
    nonce: [u8; NONCE_BYTES],
    /// The number of the next block.
    counter: u32,
    /// Made from the first block when it is first needed.
    poly: Option<Poly1305>,
}

impl Session {
    /// Counts the whole blocks of a text.
    fn advance(&mut self, text: Text<'_>) {
        // The counter comes around after 2^32 blocks, which no message has.
        self.counter = self.counter.wrapping_add((text.len() / BLOCK_BYTES) as u32);
    }
}

impl Rooms {
    pub(super) fn new(policy: &Policy) -> Self {
        let choice = Choice::new(policy);
        let is_narrower = |other: &Choice| matches!(other, Choice::Ifma256(_));
        Rooms { choice, short: Choice::open(policy).find(is_narrower).unwrap_or(choice) }
    }

    /// The room for a whole text of so many bytes.
    #[inline(always)]
    fn for_text(self, bytes: usize) -> Choice {
        match self.choice {
            Choice::Ifma512(_) if ifma512::is_slower_than_ifma256(bytes) => self.short,
            choice => choice,
        }
    }

    pub(super) fn room(self) -> Room {
        self.choice.room()
    }
}

impl Kernel {
    /// Takes a key of 32 bytes.
    pub(super) fn new(rooms: Rooms, bytes: &[u8]) -> Self {
        let mut key = Box::<Key>::default();
        key.fill(bytes.try_into().expect("the caller has looked at the length"));
        Kernel { rooms, key }
    }

    pub(super) fn room(&self) -> Room {
        self.rooms.room()
    }

    /// The sample says where in the key stream the mask begins: a counter, and a nonce behind it
    /// (RFC 9001, 5.4.4).
    pub(super) fn header_mask(
        &self,
        sample: &[u8; HEADER_SAMPLE_BYTES],
    ) -> [u8; HEADER_MASK_BYTES] {
        let (counter, nonce) = sample.split_first_chunk().expect("four bytes of sixteen");
        let nonce = nonce.first_chunk().expect("twelve bytes are left");
        let mut block = [0; BLOCK_BYTES];
        let counter = u32::from_le_bytes(*counter);
        in_room!(self.rooms.choice, |room, chacha| chacha::stream_block(
            room, &self.key, nonce, counter, &mut block
        ));
        let mask = *block.first_chunk().expect("a block is longer");
        wipe(&mut block);
        mask
    }

    #[inline(always)]
    pub(super) fn seal(
        &self,
        nonce: &[u8; NONCE_BYTES],
        aad: &[u8],
        text: Text<'_>,
        tag: &mut [u8; TAG_BYTES],
    ) {
        let choice = self.rooms.for_text(text.len());
        in_room!(choice, |room, chacha| chacha::seal(
            room,
            Message { key: &self.key, nonce, aad, text, tag }
        ));
    }

    /// Decrypts and stores the tag that the message should have come with.
    #[inline(always)]
    pub(super) fn open(
        &self,
        nonce: &[u8; NONCE_BYTES],
        aad: &[u8],
        text: Text<'_>,
        tag: &mut [u8; TAG_BYTES],
    ) {
        let choice = self.rooms.for_text(text.len());
        let message = Message { key: &self.key, nonce, aad, text, tag };
        in_room!(choice, |room, chacha| chacha::open(room, message));
    }

    pub(super) fn begin(&self, nonce: &[u8; NONCE_BYTES]) -> Session {
        Session { nonce: *nonce, counter: 1, poly: None }
    }

    fn poly<'a>(&self, session: &'a mut Session) -> &'a mut Poly1305 {
        let Session { nonce, poly, .. } = session;
        // Made where it stays: moving it would leave copies behind.
        let begun = poly.is_some();
        let poly = poly.get_or_insert_default();
        if !begun {
            in_room!(self.rooms.choice, |room, chacha| chacha::begin(room, &self.key, nonce, poly));
        }
        poly
    }

    /// Takes AAD and text of a message from the beginning on, and keeps the ciphertext of a last
    /// block that is not whole; stores the tag that the message has if it ends here.
    #[inline(always)]
    pub(super) fn start(
        &self,
        direction: Direction,
        session: &mut Session,
        aad: &[u8],
        text: Text<'_>,
        last: &mut [u8],
        tag: &mut [u8; TAG_BYTES],
    ) {
        let Session { nonce, poly, .. } = &mut *session;
        let end = end_of(text, last);
        if direction == Direction::Open {
            end.copy_source(last);
        }
        let message = Message { key: &self.key, nonce, aad, text, tag };
        let choice = self.rooms.for_text(text.len());
        in_room!(choice, |room, chacha| chacha::start(
            room,
            direction,
            message,
            poly.insert(Poly1305::default())
        ));
        if direction == Direction::Seal {
            end.copy_target(last);
        }
        session.advance(text);
    }

    /// Authenticates whole blocks, or the last one.
    pub(super) fn authenticate(&self, session: &mut Session, bytes: &[u8]) {
        in_room!(self.rooms.choice, |room, chacha| chacha::absorb(room, self.poly(session), bytes));
    }

    /// Encrypts or decrypts whole blocks and authenticates the ciphertext.
    pub(super) fn crypt(&self, direction: Direction, session: &mut Session, text: Text<'_>) {
        let (nonce, counter) = (session.nonce, session.counter);
        let poly = self.poly(session);
        in_room!(self.rooms.choice, |room, chacha| chacha::crypt(
            room, direction, &self.key, &nonce, counter, poly, text
        ));
        session.advance(text);
    }

    /// Stores what the next block is encrypted with.
    pub(super) fn stream_block(&self, session: &mut Session, block: &mut [u8; BLOCK_BYTES]) {
        let Session { nonce, counter, .. } = session;
        in_room!(self.rooms.choice, |room, chacha| chacha::stream_block(
            room, &self.key, nonce, *counter, block
        ));
        *counter = counter.wrapping_add(1);
    }

    /// Stores the tag of a message of so many bytes.
    pub(super) fn finish(
        &self,
        session: &mut Session,
        aad: u64,
        text: u64,
        tag: &mut [u8; TAG_BYTES],
    ) {
        *tag = close(self.poly(session), &[], aad, text);
    }
}

/// Seals those of the jobs that are accepted; all keys live in the room of the first.
pub(super) fn seal_many(jobs: &mut [SealJob<'_>]) {
    let choice = jobs.iter().find_map(|job| match &job.key.kernel {
        kernel::Kernel::ChaCha(kernel) => Some(kernel.rooms.choice),
        kernel::Kernel::Gcm(_) => None,
    });
    let Some(choice) = choice else { return };
    let accepted = jobs.iter_mut().filter_map(|job| job.accept().then_some(job));
    let messages = accepted.filter_map(|job| match &job.key.kernel {
        kernel::Kernel::ChaCha(kernel) => Some(Message {
            key: &kernel.key,
            nonce: job.nonce,
            aad: job.aad,
            text: Text::in_place(job.text),
            tag: job.tag,
        }),
        kernel::Kernel::Gcm(_) => None,
    });
    in_room!(choice, |room, chacha| chacha::seal_many(room, messages));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_goes_through_a_room_that_is_closed() {
        let mut visited = 0;
        for closed in Room::ALL {
            let policy = Policy { rooms_closed: [closed].into(), ..Policy::open() };
            let rooms = Rooms::new(&policy);
            for bytes in 0..20_000 {
                let room = rooms.for_text(bytes).room();
                assert!(room == Room::Portable || room != closed, "{bytes} bytes in {closed}");
                visited += 1;
            }
        }
        assert_eq!(visited, 20_000 * Room::ALL.len());
    }

    #[test]
    fn what_is_narrower_is_used_only_where_it_is_open() {
        let open = Rooms::new(&Policy::open());
        if ifma512::is_slower_than_ifma256(500) && open.room() == Room::Ifma512 {
            assert_eq!(open.for_text(500).room(), Room::Ifma256);
            let policy = Policy { rooms_closed: [Room::Ifma256].into(), ..Policy::open() };
            assert_eq!(Rooms::new(&policy).for_text(500).room(), Room::Ifma512);
        }
    }
}
