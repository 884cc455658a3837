//! AES-GCM: IVs of 1 to 128 bytes, set or drawn, and records of TLS 1.2.
#![allow(unsafe_code, reason = "parameters are pointers of the program's")]

use std::ffi::c_int;
use std::slice;
use std::sync::Arc;

use widelane_bridge::counters::CipherKind;
use widelane_cpu::Room;
use widelane_crypto::aead::{Algorithm, Direction, TAG_BYTES};
use widelane_ossl_sys::core::{self, OsslParam, PARAM_OCTET_STRING, PARAM_UNSIGNED_INTEGER};

use super::context::{Context, Header, Refused, write};
use super::piece::Piece;
use super::tagged::Tagged;
use crate::delegate::Delegate;
use crate::params::{self, Array, Name, Value, gettable};

/// Bytes of the longest IV.
const IV_BYTES_MAX: usize = 128;

/// Bytes of the IV unless another length is set, and of the shortest that is drawn.
const IV_BYTES: usize = 12;

/// Bytes at the end of an IV that count, and that a record of TLS 1.2 brings.
const EXPLICIT_BYTES: usize = 8;

/// Bytes at the beginning of an IV that a connection keeps, at least.
const FIXED_BYTES_MIN: usize = 4;

/// A context of AES-GCM.
#[derive(Clone)]
pub(super) struct Gcm {
    tagged: Tagged,
    iv: [u8; IV_BYTES_MAX],
    iv_bytes: usize,
    state: State,
    /// Whether IVs are made from what is fixed and a counter.
    counts: bool,
    /// Whether the IV, or the counter's beginning, was drawn here.
    drawn: bool,
    /// Bytes of the tag that was made or set.
    tag_bytes: Option<usize>,
    /// Header of the record of TLS 1.2 that comes next.
    header: Option<Header>,
    /// Bytes that a record grows by, once a header was set.
    growth: usize,
}

/// What has become of the IV.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// There is none.
    Missing,
    /// No message has begun with it.
    Set,
    /// A message has begun with it.
    InUse,
    /// A message was finished with it, or its length was changed: it is not used again.
    Spent,
}

impl Gcm {
    fn iv(&self) -> &[u8] {
        &self.iv[..self.iv_bytes]
    }

    /// Draws an IV.
    fn draw(&mut self) -> Result<(), Refused> {
        if self.iv_bytes < IV_BYTES || self.tagged.direction == Direction::Open {
            return Err(Refused::SILENTLY);
        }
        let iv = &mut self.iv[..self.iv_bytes];
        self.tagged.delegate.public_random(iv).ok_or(Refused::SILENTLY)?;
        (self.state, self.drawn) = (State::Set, true);
        Ok(())
    }

    /// Begins a message with the IV that was set, or with one that is drawn.
    fn begin(&mut self) -> Result<(), Refused> {
        if !self.tagged.has_key() || self.state == State::Spent {
            return Err(Refused::SILENTLY);
        }
        if self.state == State::Missing {
            self.draw()?;
        }
        self.start()
    }

    /// Begins a message with the IV as it is.
    fn start(&mut self) -> Result<(), Refused> {
        self.tagged.start(&self.iv[..self.iv_bytes])?;
        self.state = State::InUse;
        Ok(())
    }

    /// The part of the IV that counts, if this IV counts.
    fn explicit(&mut self) -> Result<&mut [u8; EXPLICIT_BYTES], Refused> {
        let iv = &mut self.iv[..self.iv_bytes];
        iv.last_chunk_mut().filter(|_| self.counts).ok_or(Refused::SILENTLY)
    }

    /// Lets the IV count.
    fn count(&mut self) -> Result<(), Refused> {
        let explicit = self.explicit()?;
        *explicit = u64::from_be_bytes(*explicit).wrapping_add(1).to_be_bytes();
        Ok(())
    }

    /// Keeps the beginning of the IV for the connection, and draws where the rest begins to count.
    fn fix(&mut self, fixed: &[u8]) -> Result<(), Refused> {
        let counted = self.iv_bytes.saturating_sub(fixed.len());
        if fixed.len() < FIXED_BYTES_MIN || counted < EXPLICIT_BYTES {
            return Err(core::PROV_R_FAILED_TO_GET_PARAMETER.into());
        }
        let (kept, counts) = self.iv[..self.iv_bytes].split_at_mut(fixed.len());
        kept.copy_from_slice(fixed);
        if self.tagged.direction == Direction::Seal {
            let drawn = self.tagged.delegate.public_random(counts);
            drawn.ok_or(core::PROV_R_FAILED_TO_GET_PARAMETER)?;
            self.drawn = true;
        }
        (self.state, self.counts) = (State::Set, true);
        Ok(())
    }

    /// Begins a message with the next IV, and copies its end to where it was asked for.
    fn take_next(&mut self, param: &mut OsslParam) -> Result<(), Refused> {
        if param.data.is_null() || param.data_type != PARAM_OCTET_STRING {
            return Err(Refused::SILENTLY);
        }
        self.explicit()?;
        self.start()?;
        let wanted = match param.data_size {
            // As many as there are, says the default provider.
            0 => self.iv_bytes,
            size => size.min(self.iv_bytes),
        };
        // SAFETY: the program has room for as many bytes as it asks for, or for a whole IV.
        let target = unsafe { slice::from_raw_parts_mut(param.data.cast::<u8>(), wanted) };
        target.copy_from_slice(&self.iv()[self.iv_bytes - wanted..]);
        self.count()
    }

    /// Begins a message with an IV of which a record of TLS 1.2 brought the end.
    fn bring(&mut self, end: &[u8]) -> Result<(), Refused> {
        let fixed = self.iv_bytes.checked_sub(end.len()).ok_or(Refused::SILENTLY)?;
        if !self.counts || self.tagged.direction == Direction::Seal {
            return Err(Refused::SILENTLY);
        }
        self.iv[fixed..self.iv_bytes].copy_from_slice(end);
        self.start()
    }

    /// Seals or opens a record of TLS 1.2 where it is: the end of its IV, text, tag.
    fn record(&mut self, header: &Header, piece: Piece<'_>) -> Result<usize, Refused> {
        let Piece::InPlace(record) = piece else { return Err(Refused::SILENTLY) };
        let bytes = record.len();
        let direction = self.tagged.direction;
        let (end, rest) = record.split_first_chunk_mut().ok_or(Refused::SILENTLY)?;
        let explicit = self.explicit()?;
        match direction {
            Direction::Seal => *end = *explicit,
            Direction::Open => *explicit = *end,
        }
        let text = self.tagged.record(&self.iv[..self.iv_bytes], header, rest)?;
        match direction {
            Direction::Seal => {
                self.tag_bytes = Some(TAG_BYTES);
                self.count()?;
                Ok(bytes)
            }
            Direction::Open => Ok(text),
        }
    }

    fn set_iv_bytes(&mut self, bytes: usize) -> Result<(), Refused> {
        if !(1..=IV_BYTES_MAX).contains(&bytes) {
            return Err(core::PROV_R_INVALID_IV_LENGTH.into());
        }
        if bytes != self.iv_bytes {
            self.iv_bytes = bytes;
            if self.state != State::Missing {
                self.state = State::Spent;
            }
        }
        Ok(())
    }

    fn set_tag(&mut self, param: &OsslParam) -> Result<(), Refused> {
        let tag = params::octets(param).filter(|tag| tag.len() <= TAG_BYTES);
        let tag = tag.ok_or(core::PROV_R_FAILED_TO_GET_PARAMETER)?;
        if tag.is_empty() || self.tagged.direction == Direction::Seal {
            return Err(core::PROV_R_INVALID_TAG.into());
        }
        self.tagged.tag[..tag.len()].copy_from_slice(tag);
        self.tag_bytes = Some(tag.len());
        Ok(())
    }

    /// Takes the beginning of the IV, or with a length of −1 the whole of it.
    fn set_fixed(&mut self, param: &OsslParam) -> Result<(), Refused> {
        const REASON: c_int = core::PROV_R_FAILED_TO_GET_PARAMETER;
        if param.data_size == usize::MAX && param.data_type == PARAM_OCTET_STRING {
            if param.data.is_null() {
                return Err(REASON.into());
            }
            // SAFETY: with this length the program passes a whole IV.
            let iv = unsafe { slice::from_raw_parts(param.data.cast::<u8>(), self.iv_bytes) };
            self.iv[..iv.len()].copy_from_slice(iv);
            (self.state, self.counts) = (State::Set, true);
            return Ok(());
        }
        self.fix(params::octets(param).ok_or(REASON)?)
    }
}

impl Context for Gcm {
    type Algorithm = Algorithm;

    const UPDATE_FAILED: Option<c_int> = Some(core::PROV_R_CIPHER_OPERATION_FAILED);
    const GETTABLE: &'static [OsslParam] = &[
        gettable(core::CIPHER_PARAM_KEYLEN, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_IVLEN, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_AEAD_TAGLEN, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_IV, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_UPDATED_IV, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_AEAD_TAG, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_AEAD_TLS1_AAD_PAD, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_AEAD_TLS1_GET_IV_GEN, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_AEAD_IV_GENERATED, PARAM_UNSIGNED_INTEGER),
        OsslParam::END,
    ];
    const SETTABLE: &'static [OsslParam] = &[
        gettable(core::CIPHER_PARAM_IVLEN, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_AEAD_TAG, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_AEAD_TLS1_AAD, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_AEAD_TLS1_IV_FIXED, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_AEAD_TLS1_SET_IV_INV, PARAM_OCTET_STRING),
        OsslParam::END,
    ];

    fn gains(algorithm: Algorithm) -> bool {
        match super::aead(algorithm).room() {
            Room::Vaes512 | Room::Vaes256 => true,
            Room::Aesni | Room::Portable => false,
            // AES-GCM has no such room.
            Room::Shani | Room::Adx | Room::Avx2 | Room::Fma256 | Room::Ifma256 => false,
            Room::Avx512 | Room::Ifma512 | Room::Vbmi512 => false,
        }
    }

    fn new(delegate: Arc<Delegate>, kind: CipherKind, algorithm: Algorithm) -> Self {
        Gcm {
            tagged: Tagged::new(delegate, kind, algorithm),
            iv: [0; IV_BYTES_MAX],
            iv_bytes: IV_BYTES,
            state: State::Missing,
            counts: false,
            drawn: false,
            tag_bytes: None,
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
            self.set_iv_bytes(iv.len())?;
            // Most IVs have this length, and a copy that knows its length takes no call.
            match <&[u8; IV_BYTES]>::try_from(iv) {
                Ok(iv) => self.iv[..IV_BYTES].copy_from_slice(iv),
                Err(_) => self.iv[..iv.len()].copy_from_slice(iv),
            }
            (self.state, self.drawn) = (State::Set, false);
        }
        self.tagged.set_key(key)
    }

    fn advance(&mut self, piece: Piece<'_>) -> Result<usize, Refused> {
        if let Some(header) = self.header {
            let done = self.record(&header, piece);
            (self.header, self.state) = (None, State::Spent);
            return done;
        }
        if self.state != State::InUse {
            self.begin()?;
        }
        if !matches!(piece, Piece::End) {
            return self.tagged.feed(piece);
        }
        if self.tagged.direction == Direction::Seal {
            self.tag_bytes = Some(TAG_BYTES);
        }
        self.tagged.finish(self.tag_bytes.ok_or(core::PROV_R_TAG_NOT_SET)?)?;
        self.state = State::Spent;
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
            self.header = self.tagged.header(header, EXPLICIT_BYTES);
            if self.header.is_none() {
                // No message is to take the place of the record.
                self.state = State::Spent;
                return Err(core::PROV_R_INVALID_AAD.into());
            }
            self.growth = TAG_BYTES;
            Ok(())
        } else if name == core::CIPHER_PARAM_IVLEN {
            self.set_iv_bytes(params::size(param).ok_or(core::PROV_R_FAILED_TO_GET_PARAMETER)?)
        } else if name == core::CIPHER_PARAM_AEAD_TLS1_IV_FIXED {
            self.set_fixed(param)
        } else if name == core::CIPHER_PARAM_AEAD_TLS1_SET_IV_INV {
            self.bring(params::octets(param).ok_or(Refused::SILENTLY)?)
        } else {
            Ok(())
        }
    }

    unsafe fn answer(&mut self, name: Name<'_>, param: &mut OsslParam) -> Result<(), Refused> {
        // What is asked of every message comes first, apart from what would make this a table.
        let value = if name == core::CIPHER_PARAM_IVLEN {
            Value::Size(self.iv_bytes)
        } else if name == core::CIPHER_PARAM_AEAD_TAG {
            let wanted = param.data_size;
            let made = self.tagged.direction == Direction::Seal && self.tag_bytes.is_some();
            if !made || !(1..=TAG_BYTES).contains(&wanted) {
                return Err(core::PROV_R_INVALID_TAG.into());
            }
            Value::Octets(&self.tagged.tag[..wanted])
        } else {
            // SAFETY: the caller vouches for the room.
            return unsafe { self.answer_seldom(name, param) };
        };
        // SAFETY: as above.
        unsafe { write(value, param) }
    }
}

impl Gcm {
    /// What is not asked of every message.
    ///
    /// # Safety
    /// As for [`Context::answer`].
    #[inline(never)]
    unsafe fn answer_seldom(
        &mut self,
        name: Name<'_>,
        param: &mut OsslParam,
    ) -> Result<(), Refused> {
        let value = if name == core::CIPHER_PARAM_AEAD_TLS1_AAD_PAD {
            Value::Size(self.growth)
        } else if name == core::CIPHER_PARAM_KEYLEN {
            Value::Size(self.tagged.key_bytes())
        } else if name == core::CIPHER_PARAM_AEAD_TAGLEN {
            Value::Size(self.tag_bytes.unwrap_or(TAG_BYTES))
        } else if name == core::CIPHER_PARAM_IV || name == core::CIPHER_PARAM_UPDATED_IV {
            if self.state == State::Missing {
                if self.header.is_some() {
                    return Err(Refused::SILENTLY);
                }
                self.draw()?;
            }
            if param.data_size < self.iv_bytes {
                return Err(core::PROV_R_INVALID_IV_LENGTH.into());
            }
            Value::Place(self.iv())
        } else if name == core::CIPHER_PARAM_AEAD_TLS1_GET_IV_GEN {
            return self.take_next(param);
        } else if name == core::CIPHER_PARAM_AEAD_IV_GENERATED {
            Value::Size(usize::from(self.drawn))
        } else {
            return Ok(());
        };
        // SAFETY: the caller vouches for the room.
        unsafe { write(value, param) }
    }
}
