//! The description of an operation for a device, and the memory for its result.
#![allow(unsafe_code, reason = "calls Intel's library with pointers to memory of ours")]

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use widelane_crypto::{ec, x25519};
use widelane_secret::wipe;

use super::curve::PinnedCurve;
use super::interface::{
    CPA_CY_EC_FIELD_TYPE_PRIME, CPA_CY_EC_MONTEDWDS_CURVE25519_TYPE, CPA_STATUS_UNSUPPORTED,
    CpaBoolean, CpaCyEcMontEdwdsPointMultiplyOpData, CpaCyEcdhPointMultiplyOpData,
    CpaCyEcdsaSignRSOpData, CpaCyRsaDecryptOpData, CpaFlatBuffer, CpaInstanceHandle, CpaStatus,
    Library, PinnedMemory,
};
use super::job::{finished_number, finished_pair};
use super::key::{Keys, PinnedKey};
use super::memory::Pinned;
use crate::batching::Task;

/// An operation with all that the device reads and writes. It stays where it is and as it is while
/// the device has it.
pub(super) struct Call {
    operation: Operation,
    results: [CpaFlatBuffer; 2],
    /// What one result consists of: numbers, and the bytes of each.
    shape: Shape,
    is_valid: CpaBoolean,
    key: Option<Arc<PinnedKey>>,
    input: Pinned,
    output: Pinned,
}

enum Operation {
    None,
    Rsa(CpaCyRsaDecryptOpData),
    Ecdsa(CpaCyEcdsaSignRSOpData),
    Ecdh(CpaCyEcdhPointMultiplyOpData),
    X25519(CpaCyEcMontEdwdsPointMultiplyOpData),
}

#[derive(Clone, Copy)]
struct Shape {
    numbers: usize,
    bytes: usize,
    /// Whether the protocol has the least byte first, where the device has the most.
    is_reversed: bool,
}

// SAFETY: the pointers lead to what it owns, or to curves that are never freed.
unsafe impl Send for Call {}

/// Bytes of the longest input or result: those of RSA-4096.
const BYTES_MAX: usize = 512;

impl Call {
    /// None yet; nothing if there is no pinned memory left.
    pub(super) fn new(memory: &'static PinnedMemory) -> Option<Self> {
        Some(Call {
            operation: Operation::None,
            results: [CpaFlatBuffer::NONE; 2],
            shape: Shape { numbers: 0, bytes: 0, is_reversed: false },
            is_valid: 0,
            key: None,
            input: Pinned::new(memory, BYTES_MAX)?,
            output: Pinned::new(memory, BYTES_MAX)?,
        })
    }

    /// Prepares the call for a task; false if the device does not take its key.
    pub(super) fn prepare(&mut self, task: &Task<'_>, keys: &Keys) -> bool {
        match task {
            Task::Rsa { name, key, input, .. } => {
                let Some(key) = keys.get(*name, key) else { return false };
                self.prepare_rsa(key, input);
            }
            Task::Ecdsa { key, nonce, digest } => {
                let curve = keys.curve(key.curve());
                self.prepare_ecdsa(curve, key, nonce, digest);
            }
            Task::Ecdh { key, peer } => self.prepare_ecdh(keys.curve(key.curve()), key, peer),
            Task::X25519 { key, peer } => self.prepare_x25519(key, peer),
        }
        true
    }

    fn prepare_rsa(&mut self, key: Arc<PinnedKey>, input: &[u8]) {
        let [input_data] = self.inputs([input], input.len());
        self.operation = Operation::Rsa(CpaCyRsaDecryptOpData {
            pRecipientPrivateKey: key.description(),
            inputData: input_data,
        });
        self.key = Some(key);
        self.expect(Shape { numbers: 1, bytes: input.len(), is_reversed: false });
    }

    fn prepare_ecdsa(
        &mut self,
        curve: &PinnedCurve,
        key: &ec::PrivateKey,
        nonce: &ec::PrivateKey,
        digest: &[u8],
    ) {
        let bytes = key.curve().bytes();
        // What of a digest counts (FIPS 186-5, section 6.4.1).
        let leftmost = &digest[..digest.len().min(bytes)];
        let [k, m, d] = self.inputs([nonce.as_bytes(), leftmost, key.as_bytes()], bytes);
        let PinnedCurve { p: q, a, b, n, x: xg, y: yg, .. } = *curve;
        let field_type = CPA_CY_EC_FIELD_TYPE_PRIME;
        self.operation = Operation::Ecdsa(CpaCyEcdsaSignRSOpData {
            xg,
            yg,
            n,
            q,
            a,
            b,
            k,
            m,
            d,
            fieldType: field_type,
        });
        self.expect(Shape { numbers: 2, bytes, is_reversed: false });
    }

    fn prepare_ecdh(&mut self, curve: &PinnedCurve, key: &ec::PrivateKey, peer: &ec::PublicKey) {
        let bytes = key.curve().bytes();
        let point = peer.to_uncompressed();
        let (x, y) = point[1..].split_at(bytes);
        let [k, xg, yg] = self.inputs([key.as_bytes(), x, y], bytes);
        let PinnedCurve { p: q, a, b, .. } = *curve;
        self.operation = Operation::Ecdh(CpaCyEcdhPointMultiplyOpData {
            k,
            xg,
            yg,
            a,
            b,
            q,
            h: CpaFlatBuffer::NONE,
            fieldType: CPA_CY_EC_FIELD_TYPE_PRIME,
            // It was confirmed to lie on the curve when the key was read.
            pointVerify: 0,
        });
        self.expect(Shape { numbers: 2, bytes, is_reversed: false });
    }

    fn prepare_x25519(&mut self, key: &x25519::PrivateKey, peer: &[u8; 32]) {
        let [mut scalar, mut x] = [*key.as_bytes(), *peer];
        // The top bit does not count (RFC 7748, section 5).
        x[31] &= 0x7f;
        scalar.reverse();
        x.reverse();
        let [k, x] = self.inputs([&scalar, &x], 32);
        wipe(&mut scalar);
        self.operation = Operation::X25519(CpaCyEcMontEdwdsPointMultiplyOpData {
            curveType: CPA_CY_EC_MONTEDWDS_CURVE25519_TYPE,
            generator: 0,
            k,
            x,
            y: CpaFlatBuffer::NONE,
        });
        self.expect(Shape { numbers: 1, bytes: 32, is_reversed: true });
    }

    /// Copies numbers to where the device reads them, each into `bytes` bytes.
    fn inputs<const N: usize>(&mut self, numbers: [&[u8]; N], bytes: usize) -> [CpaFlatBuffer; N] {
        let places = self.input.as_mut().chunks_exact_mut(bytes);
        for (place, number) in places.zip(numbers) {
            place[bytes - number.len()..].copy_from_slice(number);
        }
        std::array::from_fn(|index| self.input.part(index * bytes, bytes))
    }

    /// Says where the results go. The device has room for two numbers on curves, whether or not
    /// both are wanted.
    fn expect(&mut self, shape: Shape) {
        self.shape = shape;
        let is_pair = !matches!(self.operation, Operation::Rsa(_));
        self.results[0] = self.output.part(0, shape.bytes);
        self.results[1] = match is_pair {
            true => self.output.part(shape.bytes, shape.bytes),
            false => CpaFlatBuffer::NONE,
        };
    }

    /// Gives the operation to a device, which calls back with the tag.
    ///
    /// # Safety
    /// The call stays where it is and as it is until the device has called back.
    pub(super) unsafe fn start(
        &mut self,
        library: &Library,
        instance: CpaInstanceHandle,
        tag: *mut c_void,
    ) -> CpaStatus {
        let valid = &raw mut self.is_valid;
        let [first, second] = self.results.each_mut().map(ptr::from_mut);
        let pair = finished_pair;
        match &self.operation {
            Operation::None => CPA_STATUS_UNSUPPORTED,
            Operation::Rsa(call) => {
                // SAFETY: an instance that was started; the caller promises the rest.
                unsafe { (library.cpaCyRsaDecrypt)(instance, finished_number, tag, call, first) }
            }
            Operation::Ecdsa(call) => {
                let sign = library.cpaCyEcdsaSignRS;
                // SAFETY: as above.
                unsafe { sign(instance, pair, tag, call, valid, first, second) }
            }
            Operation::Ecdh(call) => {
                let multiply = library.cpaCyEcdhPointMultiply;
                // SAFETY: as above.
                unsafe { multiply(instance, pair, tag, call, valid, first, second) }
            }
            Operation::X25519(call) => {
                let multiply = library.cpaCyEcMontEdwdsPointMultiply;
                // SAFETY: as above.
                unsafe { multiply(instance, pair, tag, call, valid, first, second) }
            }
        }
    }

    /// The numbers that the device has written, one behind the other.
    pub(super) fn result(&mut self) -> Vec<u8> {
        let Shape { numbers, bytes, is_reversed } = self.shape;
        let mut result = vec![0; numbers * bytes];
        let places = result.chunks_exact_mut(bytes.max(1));
        let written = self.output.as_mut().chunks_exact(bytes.max(1));
        for ((place, written), buffer) in places.zip(written).zip(&self.results) {
            // A device that gives fewer bytes leaves the zeros in front out.
            let given = (buffer.dataLenInBytes as usize).min(bytes);
            place[bytes - given..].copy_from_slice(&written[..given]);
            if is_reversed {
                place.reverse();
            }
        }
        result
    }

    /// Wipes what the device has read and written: keys, nonces, secrets, and wrong results, which
    /// would tell of the key. A child of the process whose call it is has nothing to wipe.
    pub(super) fn wipe(&mut self) {
        if !self.input.is_own() {
            return;
        }
        self.operation = Operation::None;
        self.key = None;
        wipe(self.input.as_mut());
        wipe(self.output.as_mut());
    }
}
