//! ChaCha20-Poly1305: IVs of 12 bytes, and records of TLS 1.2.
#![allow(unsafe_code, reason = "parameters are pointers of the program's")]

use std::ffi::c_int;
use std::sync::Arc;

use widelane_bridge::counters::CipherKind;
use widelane_cpu::Room;
use widelane_crypto::aead::{Algorithm, Direction, NONCE_BYTES, TAG_BYTES};
use widelane_ossl_sys::core::{self, OsslParam, PARAM_OCTET_STRING, PARAM_UNSIGNED_INTEGER};

use super::context::{Context, Header, Refused, write};
use super::piece::Piece;
use super::tagged::Tagged;
use crate::delegate::Delegate;
use crate::params::{self, Array, Name, Value, gettable};

/// Bytes at the beginning of an IV that the number of a record leaves alone.
const FIXED_BYTES: usize = 4;

/// A context of ChaCha20-Poly1305.
#[derive(Clone)]
pub(super) struct ChaCha {
    tagged: Tagged,
    /// What was set: the IV, or the secret that a connection adds the numbers of records to.
    iv: [u8; NONCE_BYTES],
    /// The IV of the message.
    nonce: [u8; NONCE_BYTES],
    under_way: bool,
    /// Bytes of the tag that was set; 0 if none was.
    tag_bytes: usize,
    /// Header of the record of TLS 1.2 that comes next.
    header: Option<Header>,
    /// Bytes that a record grows by, once a header was set.
    growth: usize,
}

impl ChaCha {
    fn set_iv(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let iv = bytes.try_into().map_err(|_| core::PROV_R_INVALID_IV_LENGTH)?;
        (self.iv, self.nonce) = (iv, iv);
        Ok(())
    }

    /// Takes the header of a record; its IV is the connection's and the record's number (RFC 7905).
    fn set_header(&mut self, bytes: &[u8]) -> Option<()> {
        let header = self.tagged.header(bytes, 0)?;
        self.nonce = self.iv;
        for (byte, number) in self.nonce[FIXED_BYTES..].iter_mut().zip(&header) {
            *byte ^= number;
        }
        self.under_way = false;
        self.header = Some(header);
        self.growth = TAG_BYTES;
        Some(())
    }

    /// Seals or opens a record of TLS 1.2: text, tag.
    fn record(&mut self, header: &Header, piece: Piece<'_>) -> Result<usize, Refused> {
        let record = piece.in_place().ok_or(Refused::SILENTLY)?;
        let &[.., high, low] = header;
        let bytes = record.len();
        if bytes != usize::from(u16::from_be_bytes([high, low])) + TAG_BYTES {
            return Err(Refused::SILENTLY);
        }
        let text = self.tagged.record(&self.nonce, header, record)?;
        Ok(if self.tagged.direction == Direction::Seal { bytes } else { text })
    }

    fn set_tag(&mut self, param: &OsslParam) -> Result<(), Refused> {
        if param.data_type != PARAM_OCTET_STRING {
            return Err(core::PROV_R_FAILED_TO_GET_PARAMETER.into());
        }
        if !(1..=TAG_BYTES).contains(&param.data_size) {
            return Err(core::PROV_R_INVALID_TAG_LENGTH.into());
        }
        // Without bytes it says how long the tag is to be.
        if let Some(tag) = params::octets(param) {
            if self.tagged.direction == Direction::Seal {
                return Err(core::PROV_R_TAG_NOT_NEEDED.into());
            }
            self.tagged.tag[..tag.len()].copy_from_slice(tag);
        }
        self.tag_bytes = param.data_size;
        Ok(())
    }

    /// Takes a length that cannot be changed.
    fn insist(param: &OsslParam, bytes: usize, otherwise: c_int) -> Result<(), Refused> {
        match params::size(param) {
            None => Err(core::PROV_R_FAILED_TO_GET_PARAMETER.into()),
            Some(wanted) if wanted == bytes => Ok(()),
            Some(_) => Err(otherwise.into()),
        }
    }
}

impl Context for ChaCha {
    type Algorithm = Algorithm;

    const UPDATE_FAILED: Option<c_int> = None;
    const GETTABLE: &'static [OsslParam] = &[
        gettable(core::CIPHER_PARAM_KEYLEN, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_IVLEN, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_AEAD_TAGLEN, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_AEAD_TAG, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_AEAD_TLS1_AAD_PAD, PARAM_UNSIGNED_INTEGER),
        OsslParam::END,
    ];
    const SETTABLE: &'static [OsslParam] = &[
        gettable(core::CIPHER_PARAM_KEYLEN, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_IVLEN, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_AEAD_TAG, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_AEAD_TLS1_AAD, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_AEAD_TLS1_IV_FIXED, PARAM_OCTET_STRING),
        OsslParam::END,
    ];

    fn gains(algorithm: Algorithm) -> bool {
        match super::aead(algorithm).room() {
            Room::Ifma512 => true,
            // With AVX-512, OpenSSL uses it whatever our policy is.
            Room::Avx2 => !Room::Avx512.is_supported(),
            Room::Ifma256 | Room::Avx512 | Room::Portable => false,
            // ChaCha20-Poly1305 has no such room.
            Room::Aesni | Room::Shani | Room::Adx | Room::Fma256 => false,
            Room::Vaes256 | Room::Vaes512 | Room::Vbmi512 => false,
        }
    }

    fn new(delegate: Arc<Delegate>, kind: CipherKind, algorithm: Algorithm) -> Self {
        ChaCha {
            tagged: Tagged::new(delegate, kind, algorithm),
            iv: [0; NONCE_BYTES],
            nonce: [0; NONCE_BYTES],
            under_way: false,
            tag_bytes: 0,
            header: None,
            growth: 0,
        }
    }

    fn delegate(&self) -> &Delegate {
        &self.tagged.delegate
    }

    fn init(
        &mut self,
        direction: Direction,
        key: Option<&[u8]>,
        iv: Option<&[u8]>,
    ) -> Result<(), Refused> {
        self.tagged.direction = direction;
        if let Some(iv) = iv {
            self.set_iv(iv)?;
        }
        if key.is_some() || iv.is_some() {
            self.under_way = false;
            self.header = None;
        }
        self.tagged.set_key(key)
    }

    fn advance(&mut self, piece: Piece<'_>) -> Result<usize, Refused> {
        if let Some(header) = self.header {
            let bytes = self.record(&header, piece)?;
            self.header = None;
            return Ok(bytes);
        }
        if !self.under_way {
            self.tagged.start(&self.nonce)?;
            self.under_way = true;
        }
        if !matches!(piece, Piece::End) {
            return self.tagged.feed(piece);
        }
        // A message may follow with the same IV, says the default provider.
        self.under_way = false;
        if self.tagged.direction == Direction::Open && self.tag_bytes == 0 {
            return Err(core::PROV_R_TAG_NOT_SET.into());
        }
        self.tagged.finish(self.tag_bytes)?;
        Ok(0)
    }

    fn set(
        &mut self,
        name: Name<'_>,
        param: &OsslParam,
        _beside: Array<'_>,
    ) -> Result<(), Refused> {
        if name == core::CIPHER_PARAM_AEAD_TAG {
            self.set_tag(param)
        } else if name == core::CIPHER_PARAM_AEAD_TLS1_AAD {
            let header = params::octets(param).ok_or(core::PROV_R_FAILED_TO_GET_PARAMETER)?;
            self.set_header(header).ok_or(core::PROV_R_INVALID_DATA.into())
        } else if name == core::CIPHER_PARAM_AEAD_TLS1_IV_FIXED {
            self.set_iv(params::octets(param).ok_or(core::PROV_R_FAILED_TO_GET_PARAMETER)?)
        } else if name == core::CIPHER_PARAM_IVLEN {
            ChaCha::insist(param, NONCE_BYTES, core::PROV_R_INVALID_IV_LENGTH)
        } else if name == core::CIPHER_PARAM_KEYLEN {
            ChaCha::insist(param, self.tagged.key_bytes(), core::PROV_R_INVALID_KEY_LENGTH)
        } else {
            Ok(())
        }
    }

    unsafe fn answer(&mut self, name: Name<'_>, param: &mut OsslParam) -> Result<(), Refused> {
        let value = if name == core::CIPHER_PARAM_IVLEN {
            Value::Size(NONCE_BYTES)
        } else if name == core::CIPHER_PARAM_AEAD_TAG {
            if param.data_type != PARAM_OCTET_STRING || param.data.is_null() {
                return Err(core::PROV_R_FAILED_TO_SET_PARAMETER.into());
            }
            if self.tagged.direction == Direction::Open {
                return Err(core::PROV_R_TAG_NOT_SET.into());
            }
            let wanted = param.data_size;
            if !(1..=TAG_BYTES).contains(&wanted) {
                return Err(core::PROV_R_INVALID_TAG_LENGTH.into());
            }
            Value::Octets(&self.tagged.tag[..wanted])
        } else if name == core::CIPHER_PARAM_AEAD_TLS1_AAD_PAD {
            Value::Size(self.growth)
        } else if name == core::CIPHER_PARAM_KEYLEN {
            Value::Size(self.tagged.key_bytes())
        } else if name == core::CIPHER_PARAM_AEAD_TAGLEN {
            Value::Size(self.tag_bytes)
        } else {
            return Ok(());
        };
        // SAFETY: the caller vouches for the room.
        unsafe { write(value, param) }
    }
}
