//! AES-CBC with HMAC: records of TLS 1.0 to 1.2, one or several at once, and blocks without a tag.
#![allow(unsafe_code, reason = "parameters are pointers of the program's")]

use std::ffi::c_int;
use std::slice;
use std::sync::Arc;

use widelane_bridge::counters::CipherKind;
use widelane_cpu::Room;
use widelane_crypto::aead::Direction;
use widelane_crypto::cbc_hmac::{self, Algorithm, BLOCK_BYTES, Key};
use widelane_ossl_sys::core::{self, OsslParam, PARAM_OCTET_STRING, PARAM_UNSIGNED_INTEGER};

use super::context::{Context, Header, Refused, write};
use super::multi_block::{self, Ivs, Plan};
use super::piece::Piece;
use super::tally::Tally;
use crate::delegate::Delegate;
use crate::params::{self, Array, Name, Value, gettable};
use crate::stack;

/// A context of AES-CBC with HMAC.
#[derive(Clone)]
pub(super) struct CbcHmac {
    delegate: Arc<Delegate>,
    suite: cbc_hmac::CbcHmac,
    direction: Direction,
    key: Option<Key>,
    /// Whether the key has that of HMAC as well, which comes by itself.
    has_mac: bool,
    /// The IV that was set.
    iv: [u8; BLOCK_BYTES],
    /// The block that the next one is chained to.
    last: [u8; BLOCK_BYTES],
    /// The record that comes next.
    record: Option<Record>,
    /// Bytes that a record grows by, once its header was set.
    growth: usize,
    /// Whether results are counted without IV, tag and padding: libssl asks for that.
    strips: bool,
    /// Bytes of the longest text that a record may have, where several are made at once.
    longest_piece: usize,
    /// The records that are made at once by the next call.
    plan: Option<Plan>,
    /// Bytes of all records that were planned.
    packed_bytes: usize,
    tally: Tally,
}

/// What a header says of its record.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) header: cbc_hmac::Header,
    /// Bytes that the length counts: for a record to be sealed IV and text, otherwise all.
    pub(super) bytes: usize,
}

impl Record {
    /// Reads a header.
    pub(super) fn new(bytes: &Header) -> Self {
        let [sequence @ .., kind, major, minor, high, low] = *bytes;
        let header = cbc_hmac::Header {
            sequence: u64::from_be_bytes(sequence),
            kind,
            version: u16::from_be_bytes([major, minor]),
        };
        Record { header, bytes: u16::from_be_bytes([high, low]).into() }
    }

    /// Bytes of the IV that the record brings.
    pub(super) fn explicit_bytes(&self) -> usize {
        self.header.iv_bytes()
    }
}

impl CbcHmac {
    /// The key, if that of HMAC is known.
    fn whole_key(&self) -> Result<&Key, Refused> {
        self.key.as_ref().filter(|_| self.has_mac).ok_or(Refused::SILENTLY)
    }

    fn set_iv(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.iv = bytes.try_into().map_err(|_| core::PROV_R_INVALID_IV_LENGTH)?;
        Ok(())
    }

    fn set_mac_key(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.key.as_mut().ok_or(Refused::SILENTLY)?.set_mac(bytes);
        self.has_mac = true;
        Ok(())
    }

    fn set_header(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let record = Record::new(bytes.try_into().map_err(|_| Refused::SILENTLY)?);
        self.growth = match self.direction {
            Direction::Seal => {
                let text = record.bytes.checked_sub(record.explicit_bytes());
                let text = text.ok_or(Refused::SILENTLY)?;
                self.whole_key()?.record_bytes(text) - text
            }
            Direction::Open => self.suite.algorithm().tag_bytes(),
        };
        self.record = Some(record);
        Ok(())
    }

    /// Seals a record where it is: what becomes its IV, the text, room for tag and padding.
    fn seal(&mut self, record: Record, bytes: &mut [u8]) -> Result<usize, Refused> {
        let text_bytes = record.bytes - record.explicit_bytes();
        let mut last = self.last;
        // What the program put in front is a block of text to the cipher, which makes an IV of it.
        self.whole_key()?.seal_next(&mut last, record.header, text_bytes, bytes)?;
        self.last = last;
        self.count(text_bytes);
        Ok(bytes.len())
    }

    /// Opens a record where it is, behind its IV.
    fn open(&mut self, record: Record, bytes: &mut [u8]) -> Result<usize, Refused> {
        let (explicit, rest) =
            bytes.split_at_mut_checked(record.explicit_bytes()).ok_or(Refused::SILENTLY)?;
        let iv = explicit.first_chunk().copied().unwrap_or(self.last);
        // OpenSSL's suites with SHA-256 decrypt an explicit IV as if it were text; those with SHA-1
        // leave it as it is.
        if self.decrypts_iv() {
            self.key.as_ref().ok_or(Refused::SILENTLY)?.decrypt(&mut self.last, explicit)?;
        }
        self.last = *rest.last_chunk().ok_or(Refused::SILENTLY)?;
        let text_bytes = self.whole_key()?.open(&iv, record.header, rest)?;
        self.count(text_bytes);
        Ok(if self.strips { text_bytes } else { bytes.len() })
    }

    /// Whether the explicit IV of an opened record is decrypted.
    fn decrypts_iv(&self) -> bool {
        match self.suite.algorithm() {
            Algorithm::Aes128Sha1 | Algorithm::Aes256Sha1 => false,
            Algorithm::Aes128Sha256 | Algorithm::Aes256Sha256 => true,
        }
    }

    /// Plans several records of a text that is as long as the parameter says, which holds the
    /// header of the first one.
    fn plan(&mut self, param: &OsslParam, records: usize) -> Result<(), Refused> {
        if param.data_type != PARAM_OCTET_STRING || param.data.is_null() {
            return Err(core::PROV_R_FAILED_TO_GET_PARAMETER.into());
        }
        // SAFETY: whatever length it says, the program passes a header.
        let first = Record::new(unsafe { &*param.data.cast::<Header>() });
        let key = self.whole_key()?;
        let plan = Plan::new(first, param.data_size, records);
        let plan = plan.filter(|_| self.direction == Direction::Seal).ok_or(Refused::SILENTLY)?;
        (self.packed_bytes, self.plan) = (plan.packed_bytes(key), Some(plan));
        Ok(())
    }

    /// Makes the records that were planned, where the parameter says.
    fn seal_many(&mut self, param: &OsslParam, text: &[u8], records: usize) -> Result<(), Refused> {
        let plan = self.plan.take().filter(|plan| plan.is_for(text.len(), records));
        let plan = plan.ok_or(Refused::SILENTLY)?;
        let output = param.data.cast::<u8>();
        let (start, end) = (output.addr(), output.addr() + self.packed_bytes);
        let apart = text.as_ptr_range().end.addr() <= start || end <= text.as_ptr().addr();
        if output.is_null() || !apart {
            return Err(Refused::SILENTLY);
        }
        // SAFETY: the program has been told how many bytes the records will have, and has room for
        // them that does not overlap the text.
        let output = unsafe { slice::from_raw_parts_mut(output, self.packed_bytes) };
        let mut ivs = Ivs::default();
        self.delegate.public_random(ivs.as_flattened_mut()).ok_or(Refused::SILENTLY)?;
        let key = self.whole_key()?;
        // The caller may be on the small stack of an ASYNC job, and lanes take a large one.
        let sealed = stack::on_large(|| plan.seal(key, &ivs, text, output)).flatten();
        sealed.ok_or(Refused::SILENTLY)?;
        self.tally.text(text.len());
        (0..plan.records).for_each(|_| self.tally.message());
        Ok(())
    }

    fn count(&mut self, text_bytes: usize) {
        self.tally.text(text_bytes);
        self.tally.message();
    }
}

impl Context for CbcHmac {
    type Algorithm = Algorithm;

    const UPDATE_FAILED: Option<c_int> = Some(core::PROV_R_CIPHER_OPERATION_FAILED);
    const GETTABLE: &'static [OsslParam] = &[
        gettable(core::CIPHER_PARAM_TLS1_MULTIBLOCK_MAX_BUFSIZE, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_TLS1_MULTIBLOCK_INTERLEAVE, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_TLS1_MULTIBLOCK_AAD_PACKLEN, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_TLS1_MULTIBLOCK_ENC_LEN, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_AEAD_TLS1_AAD_PAD, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_KEYLEN, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_IVLEN, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_IV, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_UPDATED_IV, PARAM_OCTET_STRING),
        OsslParam::END,
    ];
    const SETTABLE: &'static [OsslParam] = &[
        gettable(core::CIPHER_PARAM_AEAD_MAC_KEY, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_AEAD_TLS1_AAD, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_TLS1_MULTIBLOCK_MAX_SEND_FRAGMENT, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_TLS1_MULTIBLOCK_AAD, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_TLS1_MULTIBLOCK_INTERLEAVE, PARAM_UNSIGNED_INTEGER),
        gettable(core::CIPHER_PARAM_TLS1_MULTIBLOCK_ENC, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_TLS1_MULTIBLOCK_ENC_IN, PARAM_OCTET_STRING),
        gettable(core::CIPHER_PARAM_KEYLEN, PARAM_UNSIGNED_INTEGER),
        OsslParam::END,
    ];

    fn gains(algorithm: Algorithm) -> bool {
        match super::cbc_hmac(algorithm).room() {
            Room::Vaes512 => true,
            Room::Vaes256 | Room::Aesni | Room::Portable => false,
            // AES-CBC has no such room.
            Room::Shani | Room::Adx | Room::Avx2 | Room::Fma256 | Room::Ifma256 => false,
            Room::Avx512 | Room::Ifma512 | Room::Vbmi512 => false,
        }
    }

    fn new(delegate: Arc<Delegate>, kind: CipherKind, algorithm: Algorithm) -> Self {
        let suite = super::cbc_hmac(algorithm);
        CbcHmac {
            delegate,
            suite,
            direction: Direction::Seal,
            key: None,
            has_mac: false,
            iv: [0; BLOCK_BYTES],
            last: [0; BLOCK_BYTES],
            record: None,
            growth: 0,
            strips: false,
            longest_piece: 0,
            plan: None,
            packed_bytes: 0,
            tally: Tally::new(kind, suite.room()),
        }
    }

    fn delegate(&self) -> &Delegate {
        &self.delegate
    }

    fn init(
        &mut self,
        direction: Direction,
        key: Option<&[u8]>,
        iv: Option<&[u8]>,
    ) -> Result<(), Refused> {
        self.direction = direction;
        if let Some(iv) = iv {
            self.set_iv(iv)?;
        }
        self.last = self.iv;
        if let Some(key) = key {
            let key = self.suite.key(key, &[]).map_err(|_| core::PROV_R_INVALID_KEY_LENGTH)?;
            self.key = Some(key);
            (self.has_mac, self.record) = (false, None);
        }
        Ok(())
    }

    fn advance(&mut self, piece: Piece<'_>) -> Result<usize, Refused> {
        // A header that is set waits for its record.
        if matches!(piece, Piece::End) {
            return Ok(0);
        }
        let record = self.record.take();
        let bytes = piece.in_place().ok_or(Refused::SILENTLY)?;
        match (record, self.direction) {
            (Some(record), Direction::Seal) => return self.seal(record, bytes),
            (Some(record), Direction::Open) => return self.open(record, bytes),
            (None, _) => {}
        }
        let key = self.key.as_ref().ok_or(Refused::SILENTLY)?;
        match self.direction {
            Direction::Seal => key.encrypt(&mut self.last, bytes)?,
            Direction::Open => key.decrypt(&mut self.last, bytes)?,
        }
        self.count(bytes.len());
        Ok(bytes.len())
    }

    fn set(&mut self, name: Name<'_>, param: &OsslParam, beside: Array<'_>) -> Result<(), Refused> {
        const REASON: c_int = core::PROV_R_FAILED_TO_GET_PARAMETER;
        if name == core::CIPHER_PARAM_AEAD_TLS1_AAD {
            self.set_header(params::octets(param).ok_or(REASON)?)
        } else if name == core::CIPHER_PARAM_AEAD_MAC_KEY {
            self.set_mac_key(params::octets(param).ok_or(REASON)?)
        } else if name == core::CIPHER_PARAM_TLS_VERSION {
            let version = params::size(param).and_then(|version| u32::try_from(version).ok());
            self.strips = version.ok_or(REASON)? > 0;
            Ok(())
        } else if name == core::CIPHER_PARAM_KEYLEN {
            let same = params::size(param).ok_or(REASON)? == self.suite.algorithm().key_bytes();
            same.then_some(()).ok_or(core::PROV_R_INVALID_KEY_LENGTH.into())
        } else if name == core::CIPHER_PARAM_TLS1_MULTIBLOCK_MAX_SEND_FRAGMENT {
            self.longest_piece = params::size(param).ok_or(REASON)?;
            Ok(())
        } else if name == core::CIPHER_PARAM_TLS1_MULTIBLOCK_AAD {
            let records = beside.find(core::CIPHER_PARAM_TLS1_MULTIBLOCK_INTERLEAVE);
            self.plan(param, records.and_then(params::size).ok_or(REASON)?)
        } else if name == core::CIPHER_PARAM_TLS1_MULTIBLOCK_ENC {
            let records = beside.find(core::CIPHER_PARAM_TLS1_MULTIBLOCK_INTERLEAVE);
            let text = beside.find(core::CIPHER_PARAM_TLS1_MULTIBLOCK_ENC_IN);
            let text = text.and_then(params::octets).ok_or(REASON)?;
            self.seal_many(param, text, records.and_then(params::size).ok_or(REASON)?)
        } else {
            Ok(())
        }
    }

    unsafe fn answer(&mut self, name: Name<'_>, param: &mut OsslParam) -> Result<(), Refused> {
        let value = if name == core::CIPHER_PARAM_AEAD_TLS1_AAD_PAD {
            Value::Size(self.growth)
        } else if name == core::CIPHER_PARAM_KEYLEN {
            Value::Size(self.suite.algorithm().key_bytes())
        } else if name == core::CIPHER_PARAM_IVLEN {
            Value::Size(BLOCK_BYTES)
        } else if name == core::CIPHER_PARAM_IV {
            Value::Place(&self.iv)
        } else if name == core::CIPHER_PARAM_UPDATED_IV {
            Value::Place(&self.last)
        } else if name == core::CIPHER_PARAM_TLS1_MULTIBLOCK_MAX_BUFSIZE {
            Value::Size(multi_block::packed_bytes(self.whole_key()?, self.longest_piece))
        } else if name == core::CIPHER_PARAM_TLS1_MULTIBLOCK_INTERLEAVE {
            Value::Size(self.plan.map_or(0, |plan| plan.records))
        } else if name == core::CIPHER_PARAM_TLS1_MULTIBLOCK_AAD_PACKLEN
            || name == core::CIPHER_PARAM_TLS1_MULTIBLOCK_ENC_LEN
        {
            Value::Size(self.packed_bytes)
        } else {
            return Ok(());
        };
        // SAFETY: the caller vouches for the room.
        unsafe { write(value, param) }
    }
}
