//! Packets of QUIC and their headers (RFC 9001, 5).

use rustls::Error;
use rustls::crypto::cipher::{AeadKey, Iv, Nonce};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use widelane_crypto::aead::{self, Aead, HEADER_SAMPLE_BYTES, Key, NONCE_BYTES, TAG_BYTES};

use super::{expanded, open};

/// The bit of a long header in its first byte.
const LONG_HEADER: u8 = 0x80;

/// The cipher of a suite.
pub(crate) struct Cipher(pub(crate) Aead);

impl Algorithm for Cipher {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        Box::new(Packets { key: expanded(&self.0, &key), iv })
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        Box::new(Headers(expanded(&self.0, &key)))
    }

    fn aead_key_len(&self) -> usize {
        self.0.algorithm().key_bytes()
    }
}

/// The key for packets of one direction.
struct Packets {
    key: Key,
    iv: Iv,
}

impl Packets {
    fn seal(
        &self,
        nonce: &[u8; NONCE_BYTES],
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        let mut tag = [0; TAG_BYTES];
        self.key
            .seal_in_place(nonce, header, payload, &mut tag)
            .map_err(|_| Error::EncryptError)?;
        Ok(Tag::from(&tag[..]))
    }

    fn open<'a>(
        &self,
        nonce: &[u8; NONCE_BYTES],
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let text_bytes = open(&self.key, nonce, header, payload)?;
        Ok(&payload[..text_bytes])
    }
}

impl PacketKey for Packets {
    fn encrypt_in_place(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        self.seal(&Nonce::new(&self.iv, packet_number).0, header, payload)
    }

    fn encrypt_in_place_for_path(
        &self,
        path_id: u32,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        self.seal(&Nonce::for_path(path_id, &self.iv, packet_number).0, header, payload)
    }

    fn decrypt_in_place<'a>(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.open(&Nonce::new(&self.iv, packet_number).0, header, payload)
    }

    fn decrypt_in_place_for_path<'a>(
        &self,
        path_id: u32,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.open(&Nonce::for_path(path_id, &self.iv, packet_number).0, header, payload)
    }

    fn tag_len(&self) -> usize {
        TAG_BYTES
    }

    fn confidentiality_limit(&self) -> u64 {
        match self.key.algorithm() {
            aead::Algorithm::ChaCha20Poly1305 => u64::MAX,
            // RFC 9001, 6.6.
            _ => 1 << 23,
        }
    }

    fn integrity_limit(&self) -> u64 {
        // RFC 9001, 6.6.
        match self.key.algorithm() {
            aead::Algorithm::ChaCha20Poly1305 => 1 << 36,
            _ => 1 << 52,
        }
    }
}

/// The key for headers of one direction.
struct Headers(Key);

impl Headers {
    /// Exclusive-ors the mask onto a header, of which `length_of` tells the bytes of the packet
    /// number from the first byte and its mask.
    fn apply(
        &self,
        sample: &[u8],
        first: &mut u8,
        packet_number: &mut [u8],
        length_of: impl FnOnce(u8, u8) -> u8,
    ) -> Result<(), Error> {
        let sample: &[u8; HEADER_SAMPLE_BYTES] = sample
            .try_into()
            .map_err(|_| Error::General("the sample of a header has not 16 bytes".into()))?;
        let [first_mask, mask @ ..] = self.0.header_mask(sample);
        if packet_number.len() > mask.len() {
            return Err(Error::General("a packet number has more than 4 bytes".into()));
        }
        let masked_bits = if *first & LONG_HEADER == 0 { 0x1f } else { 0x0f };
        let first_mask = first_mask & masked_bits;
        let bytes = usize::from(length_of(*first, first_mask) & 3) + 1;
        *first ^= first_mask;
        for (byte, mask) in packet_number.iter_mut().zip(mask).take(bytes) {
            *byte ^= mask;
        }
        Ok(())
    }
}

impl HeaderProtectionKey for Headers {
    fn encrypt_in_place(
        &self,
        sample: &[u8],
        first: &mut u8,
        packet_number: &mut [u8],
    ) -> Result<(), Error> {
        self.apply(sample, first, packet_number, |first, _| first)
    }

    fn decrypt_in_place(
        &self,
        sample: &[u8],
        first: &mut u8,
        packet_number: &mut [u8],
    ) -> Result<(), Error> {
        self.apply(sample, first, packet_number, |first, mask| first ^ mask)
    }

    fn sample_len(&self) -> usize {
        HEADER_SAMPLE_BYTES
    }
}
