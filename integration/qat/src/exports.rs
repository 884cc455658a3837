//! The C symbols of qatlib, and types as Intel's headers have them.
#![allow(unsafe_code, reason = "speaks C")]
#![allow(non_snake_case, reason = "named as in Intel's headers")]

use std::ffi::{c_char, c_int, c_void};

use crate::device::{self, INSTANCES};
use crate::faults::faults;
use crate::memory;
use crate::work::{Curve, Work};

pub(crate) type CpaStatus = i32;

pub(crate) const CPA_STATUS_SUCCESS: CpaStatus = 0;
pub(crate) const CPA_STATUS_FAIL: CpaStatus = -1;
pub(crate) const CPA_STATUS_RETRY: CpaStatus = -2;
const CPA_STATUS_INVALID_PARAM: CpaStatus = -4;
const CPA_STATUS_UNSUPPORTED: CpaStatus = -6;
pub(crate) const CPA_STATUS_RESTARTING: CpaStatus = -7;

/// `CpaCyGenFlatBufCbFunc`.
pub(crate) type Callback =
    unsafe extern "C" fn(*mut c_void, CpaStatus, *mut c_void, *mut CpaFlatBuffer);

/// `CpaCyEcdsaSignRSCbFunc`, `CpaCyEcdhPointMultiplyCbFunc` and `CpaCyEcPointMultiplyCbFunc`.
pub(crate) type PairCallback = unsafe extern "C" fn(
    *mut c_void,
    CpaStatus,
    *mut c_void,
    c_int,
    *mut CpaFlatBuffer,
    *mut CpaFlatBuffer,
);

/// `CpaCyInstanceNotificationCbFunc`.
pub(crate) type Notify = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int);

/// `CpaFlatBuffer`.
#[repr(C)]
pub struct CpaFlatBuffer {
    length: u32,
    data: *mut u8,
}

/// `CpaCyRsaPrivateKey` of type 2.
#[repr(C)]
pub struct RsaPrivateKey {
    version: u32,
    representation: u32,
    unused: [CpaFlatBuffer; 2],
    /// p, q, dp, dq and the inverse of q.
    pub(crate) numbers: [CpaFlatBuffer; 5],
}

/// `CpaCyRsaDecryptOpData`.
#[repr(C)]
pub struct RsaDecrypt {
    key: *const RsaPrivateKey,
    pub(crate) input: CpaFlatBuffer,
}

/// `CpaCyEcdsaSignRSOpData`.
#[repr(C)]
pub struct EcdsaSign {
    /// Base point, order, prime, coefficients.
    pub(crate) xg: CpaFlatBuffer,
    pub(crate) yg: CpaFlatBuffer,
    pub(crate) n: CpaFlatBuffer,
    pub(crate) q: CpaFlatBuffer,
    pub(crate) a: CpaFlatBuffer,
    pub(crate) b: CpaFlatBuffer,
    /// Nonce, digest, private key.
    pub(crate) k: CpaFlatBuffer,
    pub(crate) m: CpaFlatBuffer,
    pub(crate) d: CpaFlatBuffer,
    field: c_int,
}

/// `CpaCyEcdhPointMultiplyOpData`.
#[repr(C)]
pub struct EcdhMultiply {
    /// Scalar and point.
    pub(crate) k: CpaFlatBuffer,
    pub(crate) xg: CpaFlatBuffer,
    pub(crate) yg: CpaFlatBuffer,
    /// Coefficients, prime, cofactor.
    pub(crate) a: CpaFlatBuffer,
    pub(crate) b: CpaFlatBuffer,
    pub(crate) q: CpaFlatBuffer,
    h: CpaFlatBuffer,
    field: c_int,
    verify: c_int,
}

/// `CpaCyEcMontEdwdsPointMultiplyOpData`.
#[repr(C)]
pub struct MontgomeryMultiply {
    curve: c_int,
    generator: c_int,
    /// Scalar and point.
    pub(crate) k: CpaFlatBuffer,
    pub(crate) x: CpaFlatBuffer,
    y: CpaFlatBuffer,
}

/// `CpaCyCapabilitiesInfo`: symmetric, its data plane, DH, DSA, RSA and so on.
#[repr(C)]
pub struct Capabilities([c_int; 19]);

const RSA: usize = 4;
const ECDH: usize = 6;
const ECDSA: usize = 7;
const MONTGOMERY: usize = 17;

impl CpaFlatBuffer {
    /// Its bytes, which must be pinned.
    pub(crate) fn bytes(&self) -> &[u8] {
        memory::check(self.data, self.length as usize);
        // SAFETY: checked above; the caller leaves them alone until its callback.
        unsafe { std::slice::from_raw_parts(self.data, self.length as usize) }
    }

    /// Writes a result of its length.
    pub(crate) fn write(&self, result: &[u8]) {
        memory::check(self.data, self.length as usize);
        if result.len() != self.length as usize {
            memory::give_up("the output has another length than the result");
        }
        // SAFETY: checked above.
        unsafe { std::ptr::copy_nonoverlapping(result.as_ptr(), self.data, result.len()) };
    }
}

impl RsaDecrypt {
    pub(crate) fn key(&self) -> &RsaPrivateKey {
        // SAFETY: the caller keeps it until its callback.
        let key = unsafe { &*self.key };
        if (key.version, key.representation) != (1, 2) {
            memory::give_up("a key of another version or type");
        }
        key
    }
}

impl EcdsaSign {
    pub(crate) fn check(&self) {
        check_prime_field(self.field);
    }
}

impl EcdhMultiply {
    pub(crate) fn check(&self) {
        check_prime_field(self.field);
        if !self.h.data.is_null() || self.verify != 0 {
            memory::give_up("a cofactor, or a point to be verified");
        }
    }
}

impl MontgomeryMultiply {
    pub(crate) fn check(&self) {
        let lengths = [&self.k, &self.x].map(|buffer| buffer.length);
        if (self.curve, self.generator, lengths) != (1, 0, [32, 32]) || !self.y.data.is_null() {
            memory::give_up("not a multiplication on the curve of X25519");
        }
    }
}

/// Makes sure that a curve is one over a prime field.
fn check_prime_field(field: c_int) {
    if field != 1 {
        memory::give_up("a curve over another field");
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn icp_sal_userStart(_name: *const c_char) -> CpaStatus {
    if faults().is_absent { CPA_STATUS_FAIL } else { CPA_STATUS_SUCCESS }
}

#[unsafe(no_mangle)]
pub extern "C" fn icp_sal_poll_device_events() -> CpaStatus {
    device::poll_events();
    CPA_STATUS_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn icp_sal_CyPollInstance(instance: *mut c_void, _quota: u32) -> CpaStatus {
    if device::poll(instance) { CPA_STATUS_SUCCESS } else { CPA_STATUS_RETRY }
}

/// # Safety
/// `descriptor` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icp_sal_CyGetFileDescriptor(
    instance: *mut c_void,
    descriptor: *mut c_int,
) -> CpaStatus {
    if faults().is_silent {
        return CPA_STATUS_UNSUPPORTED;
    }
    // SAFETY: as the caller promises.
    unsafe { descriptor.write(device::instance(instance).timer()) };
    CPA_STATUS_SUCCESS
}

/// # Safety
/// `count` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cpaCyGetNumInstances(count: *mut u16) -> CpaStatus {
    // SAFETY: as the caller promises.
    unsafe { count.write(INSTANCES as u16) };
    CPA_STATUS_SUCCESS
}

/// # Safety
/// `instances` must have room for `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cpaCyGetInstances(count: u16, instances: *mut *mut c_void) -> CpaStatus {
    for index in 0..usize::from(count).min(INSTANCES) {
        // SAFETY: as the caller promises.
        let place = unsafe { instances.add(index) };
        // SAFETY: as above.
        unsafe { place.write(std::ptr::without_provenance_mut(index + 1)) };
    }
    CPA_STATUS_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cpaCySetAddressTranslation(
    _instance: *mut c_void,
    _translation: unsafe extern "C" fn(*mut c_void) -> u64,
) -> CpaStatus {
    CPA_STATUS_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cpaCyStartInstance(instance: *mut c_void) -> CpaStatus {
    device::instance(instance).start();
    CPA_STATUS_SUCCESS
}

/// # Safety
/// `capabilities` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cpaCyQueryCapabilities(
    _instance: *mut c_void,
    capabilities: *mut Capabilities,
) -> CpaStatus {
    let mut all = [0; 19];
    for skill in [RSA, ECDH, ECDSA, MONTGOMERY] {
        all[skill] = 1;
    }
    // SAFETY: as the caller promises.
    unsafe { capabilities.write(Capabilities(all)) };
    CPA_STATUS_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cpaCyInstanceSetNotificationCb(
    instance: *mut c_void,
    notify: Notify,
    tag: *mut c_void,
) -> CpaStatus {
    device::instance(instance).notify(notify, tag);
    CPA_STATUS_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cpaCyRsaDecrypt(
    instance: *mut c_void,
    callback: Callback,
    tag: *mut c_void,
    call: *const RsaDecrypt,
    output: *mut CpaFlatBuffer,
) -> CpaStatus {
    submit(instance, Work::Rsa { callback, call, output }, tag)
}

#[unsafe(no_mangle)]
pub extern "C" fn cpaCyEcdsaSignRS(
    instance: *mut c_void,
    callback: PairCallback,
    tag: *mut c_void,
    call: *const EcdsaSign,
    _valid: *mut c_int,
    r: *mut CpaFlatBuffer,
    s: *mut CpaFlatBuffer,
) -> CpaStatus {
    submit(instance, Work::Pair { callback, call: Curve::Ecdsa(call), outputs: [r, s] }, tag)
}

#[unsafe(no_mangle)]
pub extern "C" fn cpaCyEcdhPointMultiply(
    instance: *mut c_void,
    callback: PairCallback,
    tag: *mut c_void,
    call: *const EcdhMultiply,
    _valid: *mut c_int,
    x: *mut CpaFlatBuffer,
    y: *mut CpaFlatBuffer,
) -> CpaStatus {
    submit(instance, Work::Pair { callback, call: Curve::Ecdh(call), outputs: [x, y] }, tag)
}

#[unsafe(no_mangle)]
pub extern "C" fn cpaCyEcMontEdwdsPointMultiply(
    instance: *mut c_void,
    callback: PairCallback,
    tag: *mut c_void,
    call: *const MontgomeryMultiply,
    _valid: *mut c_int,
    x: *mut CpaFlatBuffer,
    y: *mut CpaFlatBuffer,
) -> CpaStatus {
    submit(instance, Work::Pair { callback, call: Curve::X25519(call), outputs: [x, y] }, tag)
}

fn submit(instance: *mut c_void, work: Work, tag: *mut c_void) -> CpaStatus {
    if faults().refuses {
        return CPA_STATUS_INVALID_PARAM;
    }
    device::instance(instance).submit(work, tag)
}

#[unsafe(no_mangle)]
pub extern "C" fn qaeMemAllocNUMA(bytes: usize, _node: c_int, alignment: usize) -> *mut c_void {
    memory::allocate(bytes, alignment).cast()
}

/// # Safety
/// `block` must lead to what [`qaeMemAllocNUMA`] gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qaeMemFreeNUMA(block: *mut *mut c_void) {
    // SAFETY: as the caller promises.
    let freed = unsafe { block.replace(std::ptr::null_mut()) };
    memory::free(freed.cast());
}

#[unsafe(no_mangle)]
pub extern "C" fn qaeVirtToPhysNUMA(address: *mut c_void) -> u64 {
    address.addr() as u64
}
