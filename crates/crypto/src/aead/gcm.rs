//! AES-GCM in the room chosen: which kernel does what.

use widelane_kernels::aes_gcm::{
    BLOCK_BYTES, Block, KeyBytes, Message, aesni, first_counter, later_counter, lengths_block,
    portable, vaes256, vaes512,
};
use widelane_kernels::text::{Direction, Text};
use widelane_secret::wipe;

use super::kernel::end_of;
use super::{HEADER_MASK_BYTES, SealJob, kernel};

keyed_choice! { $
    /// The room of AES-GCM.
    pub(super) enum Choice, Kernel by in_room {
        Vaes512 => vaes512, Vaes256 => vaes256, Aesni => aesni, Portable => portable
    }
}

/// A message on its way: what its stream remembers.
#[derive(Clone)]
pub(super) struct Session {
    /// The counter block whose encryption masks the tag.
    first: Block,
    /// Whether that is a hash, because the nonce does not have 96 bits.
    hashed: bool,
    /// How many blocks were encrypted.
    blocks: u32,
    /// What was hashed so far. With the ciphertext it tells the hash key, as a counter block that
    /// is a hash does.
    sum: Block,
    /// Whether the sum is multiplied by the hash key already, for the next block to be added to.
    multiplied: bool,
}

impl Session {
    /// The next counter block.
    fn counter(&self) -> Block {
        later_counter(&self.first, self.blocks.wrapping_add(1))
    }

    /// Counts the whole blocks of a text.
    #[inline]
    fn advance(&mut self, text: Text<'_>) {
        // The counter comes around after 2^32 blocks, which no message has.
        self.blocks = self.blocks.wrapping_add((text.len() / BLOCK_BYTES) as u32);
    }

    /// Adds a block, or the beginning of one, to the sum.
    fn add(&mut self, block: &[u8]) {
        for (sum, byte) in self.sum.iter_mut().zip(block) {
            *sum ^= byte;
        }
    }
}

impl Drop for Session {
    #[inline]
    fn drop(&mut self) {
        wipe(&mut self.sum);
        wipe(&mut self.first);
    }
}

impl Kernel {
    /// The sample, encrypted as a block (RFC 9001, 5.4.3), is the mask and more.
    pub(super) fn header_mask(&self, sample: &Block) -> [u8; HEADER_MASK_BYTES] {
        let mut block = *sample;
        in_room!(self, |room, key, gcm| gcm::encrypt_block(room, key, &mut block));
        *block.first_chunk().expect("a block is longer")
    }

    #[inline(always)]
    pub(super) fn seal(&self, nonce: &[u8], aad: &[u8], text: Text<'_>, tag: &mut Block) {
        if let Ok(nonce) = nonce.try_into() {
            let first = first_counter(nonce);
            in_room!(self, |room, key, gcm| gcm::seal(
                room,
                Message { key, first, aad, text, tag }
            ));
        } else {
            self.in_pieces(Direction::Seal, &mut self.begin(nonce), aad, text.apart(), tag);
        }
    }

    /// Decrypts and stores the tag that the message should have come with.
    #[inline(always)]
    pub(super) fn open(&self, nonce: &[u8], aad: &[u8], text: Text<'_>, tag: &mut Block) {
        if let Ok(nonce) = nonce.try_into() {
            let first = first_counter(nonce);
            in_room!(self, |room, key, gcm| gcm::open(
                room,
                Message { key, first, aad, text, tag }
            ));
        } else {
            self.in_pieces(Direction::Open, &mut self.begin(nonce), aad, text.apart(), tag);
        }
    }

    /// Seals or opens a message from the beginning on, and stores the tag that it has if it ends
    /// here.
    #[cold]
    #[inline(never)]
    fn in_pieces(
        &self,
        direction: Direction,
        session: &mut Session,
        aad: &[u8],
        text: Text<'_>,
        tag: &mut Block,
    ) {
        let lengths = [aad.len(), text.len()].map(|bytes| bytes as u64);
        self.authenticate(session, aad);
        self.crypt(direction, session, text);
        self.finish(&mut session.clone(), lengths[0], lengths[1], tag);
    }

    /// The first counter block of a nonce that does not have 96 bits (SP 800-38D, 7.1).
    fn hashed(&self, nonce: &[u8]) -> Block {
        let mut sum = [0; BLOCK_BYTES];
        self.absorb(&mut sum, nonce);
        self.absorb(&mut sum, &lengths_block(0, nonce.len() as u64));
        in_room!(self, |room, key, gcm| gcm::close(room, key, &mut sum));
        sum
    }

    fn absorb(&self, sum: &mut Block, bytes: &[u8]) {
        in_room!(self, |room, key, gcm| gcm::absorb(room, key, sum, bytes));
    }

    #[inline]
    pub(super) fn begin(&self, nonce: &[u8]) -> Session {
        let (first, hashed) = match nonce.try_into() {
            Ok(nonce) => (first_counter(nonce), false),
            Err(_) => (self.hashed(nonce), true),
        };
        Session { first, hashed, blocks: 0, sum: [0; BLOCK_BYTES], multiplied: false }
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
        tag: &mut Block,
    ) {
        let first = session.first;
        let end = end_of(text, last);
        if direction == Direction::Open {
            end.copy_source(last);
        }
        if session.hashed {
            self.in_pieces(direction, session, aad, text.apart(), tag);
        } else {
            session.sum = in_room!(self, |room, key, gcm| gcm::start(
                room,
                direction,
                Message { key, first, aad, text, tag }
            ));
            session.advance(text);
        }
        if direction == Direction::Seal {
            end.copy_target(last);
        }
    }

    /// Goes on with a message that did not end where [`start`](Self::start) did: takes its last
    /// block, which is not whole, out of the sum.
    pub(super) fn go_on(session: &mut Session, last: &[u8]) {
        if !last.is_empty() {
            session.add(last);
            session.multiplied = true;
        }
    }

    /// Hashes whole blocks, or the last one.
    pub(super) fn authenticate(&self, session: &mut Session, bytes: &[u8]) {
        let mut bytes = bytes;
        if session.multiplied && !bytes.is_empty() {
            let (block, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES));
            session.add(block);
            session.multiplied = false;
            bytes = rest;
        }
        self.absorb(&mut session.sum, bytes);
    }

    /// Encrypts or decrypts whole blocks and hashes the ciphertext.
    pub(super) fn crypt(&self, direction: Direction, session: &mut Session, text: Text<'_>) {
        let counter = session.counter();
        in_room!(self, |room, key, gcm| gcm::crypt(
            room,
            direction,
            key,
            &counter,
            &mut session.sum,
            text
        ));
        session.advance(text);
    }

    /// Stores what the next block is encrypted with.
    pub(super) fn stream_block(&self, session: &mut Session, block: &mut Block) {
        *block = session.counter();
        session.blocks = session.blocks.wrapping_add(1);
        in_room!(self, |room, key, gcm| gcm::encrypt_block(room, key, block));
    }

    /// Stores the tag of a message of so many bytes.
    pub(super) fn finish(&self, session: &mut Session, aad: u64, text: u64, tag: &mut Block) {
        let Session { first, sum, .. } = session;
        self.absorb(sum, &lengths_block(aad, text));
        in_room!(self, |room, key, gcm| gcm::close(room, key, sum));
        let mut mask = *first;
        in_room!(self, |room, key, gcm| gcm::encrypt_block(room, key, &mut mask));
        for ((tag, sum), mask) in tag.iter_mut().zip(sum).zip(&mask) {
            *tag = *sum ^ mask;
        }
        wipe(&mut mask);
    }
}

/// Seals those of the jobs that are accepted; all keys live in the room of the first.
pub(super) fn seal_many(jobs: &mut [SealJob<'_>]) {
    let Some(first) = jobs.first().and_then(kernel_of) else { return };
    in_room!(like first, |room, key_of, gcm| {
        let accepted = jobs.iter_mut().filter_map(|job| job.accept().then_some(job));
        let mut messages = accepted.filter_map(|job| {
            Some(Message {
                key: key_of(kernel_of(job)?)?,
                first: first_counter(job.nonce),
                aad: job.aad,
                text: Text::in_place(job.text),
                tag: job.tag,
            })
        });
        gcm::seal_many(room, &mut messages);
    });
}

fn kernel_of<'a>(job: &SealJob<'a>) -> Option<&'a Kernel> {
    match &job.key.kernel {
        kernel::Kernel::Gcm(kernel) => Some(kernel),
        kernel::Kernel::ChaCha(_) => None,
    }
}
