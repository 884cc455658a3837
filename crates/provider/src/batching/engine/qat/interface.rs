//! Intel's interface to QuickAssist devices, as qatlib 24.02 has it: the part that is called here,
//! under Intel's names. Both libraries are loaded when they are first needed.
#![allow(unsafe_code, reason = "dlopen, dlsym and casts to the types in Intel's headers")]
#![allow(non_snake_case, reason = "named as in Intel's headers")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{offset_of, transmute};

/// `CpaStatus`: one of the constants below.
pub(super) type CpaStatus = i32;

pub(super) const CPA_STATUS_SUCCESS: CpaStatus = 0;
/// The rings of the device are full, or there is nothing to poll.
pub(super) const CPA_STATUS_RETRY: CpaStatus = -2;
pub(super) const CPA_STATUS_INVALID_PARAM: CpaStatus = -4;
pub(super) const CPA_STATUS_UNSUPPORTED: CpaStatus = -6;

/// `CpaInstanceHandle`.
pub(super) type CpaInstanceHandle = *mut c_void;

/// `CpaBoolean`: 0 or 1.
pub(super) type CpaBoolean = c_int;

/// `CpaInstanceEvent`: one of the constants below.
pub(super) type CpaInstanceEvent = c_int;

pub(super) const CPA_INSTANCE_EVENT_RESTARTED: CpaInstanceEvent = 1;

/// `CpaVirtualToPhysical`.
pub(super) type CpaVirtualToPhysical = unsafe extern "C" fn(*mut c_void) -> u64;

/// `CpaCyInstanceNotificationCbFunc`.
pub(super) type CpaCyInstanceNotificationCbFunc =
    unsafe extern "C" fn(CpaInstanceHandle, *mut c_void, CpaInstanceEvent);

/// `CpaCyGenFlatBufCbFunc`.
pub(super) type CpaCyGenFlatBufCbFunc =
    unsafe extern "C" fn(*mut c_void, CpaStatus, *mut c_void, *mut CpaFlatBuffer);

/// `CpaFlatBuffer`: bytes in pinned memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct CpaFlatBuffer {
    pub(super) dataLenInBytes: u32,
    pub(super) pData: *mut u8,
}

/// `CpaCyEcdsaSignRSCbFunc`, `CpaCyEcdhPointMultiplyCbFunc` and `CpaCyEcPointMultiplyCbFunc`.
pub(super) type CpaCyPairCbFunc = unsafe extern "C" fn(
    *mut c_void,
    CpaStatus,
    *mut c_void,
    CpaBoolean,
    *mut CpaFlatBuffer,
    *mut CpaFlatBuffer,
);

/// `CpaCyRsaPrivateKeyRep1`, which is not used here.
#[repr(C)]
pub(super) struct CpaCyRsaPrivateKeyRep1 {
    pub(super) modulusN: CpaFlatBuffer,
    pub(super) privateExponentD: CpaFlatBuffer,
}

/// `CpaCyRsaPrivateKeyRep2`: the numbers of the Chinese remainder theorem, big-endian.
#[repr(C)]
pub(super) struct CpaCyRsaPrivateKeyRep2 {
    pub(super) prime1P: CpaFlatBuffer,
    pub(super) prime2Q: CpaFlatBuffer,
    pub(super) exponent1Dp: CpaFlatBuffer,
    pub(super) exponent2Dq: CpaFlatBuffer,
    pub(super) coefficientQInv: CpaFlatBuffer,
}

/// `CpaCyRsaPrivateKey`.
#[repr(C)]
pub(super) struct CpaCyRsaPrivateKey {
    pub(super) version: c_int,
    pub(super) privateKeyRepType: c_int,
    pub(super) privateKeyRep1: CpaCyRsaPrivateKeyRep1,
    pub(super) privateKeyRep2: CpaCyRsaPrivateKeyRep2,
}

pub(super) const CPA_CY_RSA_VERSION_TWO_PRIME: c_int = 1;
pub(super) const CPA_CY_RSA_PRIVATE_KEY_REP_TYPE_2: c_int = 2;

/// `CpaCyRsaDecryptOpData`.
#[repr(C)]
pub(super) struct CpaCyRsaDecryptOpData {
    pub(super) pRecipientPrivateKey: *const CpaCyRsaPrivateKey,
    pub(super) inputData: CpaFlatBuffer,
}

pub(super) const CPA_CY_EC_FIELD_TYPE_PRIME: c_int = 1;
pub(super) const CPA_CY_EC_MONTEDWDS_CURVE25519_TYPE: c_int = 1;

/// `CpaCyEcdsaSignRSOpData`.
#[repr(C)]
pub(super) struct CpaCyEcdsaSignRSOpData {
    pub(super) xg: CpaFlatBuffer,
    pub(super) yg: CpaFlatBuffer,
    pub(super) n: CpaFlatBuffer,
    pub(super) q: CpaFlatBuffer,
    pub(super) a: CpaFlatBuffer,
    pub(super) b: CpaFlatBuffer,
    pub(super) k: CpaFlatBuffer,
    pub(super) m: CpaFlatBuffer,
    pub(super) d: CpaFlatBuffer,
    pub(super) fieldType: c_int,
}

/// `CpaCyEcdhPointMultiplyOpData`.
#[repr(C)]
pub(super) struct CpaCyEcdhPointMultiplyOpData {
    pub(super) k: CpaFlatBuffer,
    pub(super) xg: CpaFlatBuffer,
    pub(super) yg: CpaFlatBuffer,
    pub(super) a: CpaFlatBuffer,
    pub(super) b: CpaFlatBuffer,
    pub(super) q: CpaFlatBuffer,
    pub(super) h: CpaFlatBuffer,
    pub(super) fieldType: c_int,
    pub(super) pointVerify: CpaBoolean,
}

/// `CpaCyEcMontEdwdsPointMultiplyOpData`.
#[repr(C)]
pub(super) struct CpaCyEcMontEdwdsPointMultiplyOpData {
    pub(super) curveType: c_int,
    pub(super) generator: CpaBoolean,
    pub(super) k: CpaFlatBuffer,
    pub(super) x: CpaFlatBuffer,
    pub(super) y: CpaFlatBuffer,
}

/// `CpaCyCapabilitiesInfo`, of which some members are looked at.
#[repr(C)]
pub(super) struct CpaCyCapabilitiesInfo {
    before: [CpaBoolean; 4],
    pub(super) rsaSupported: CpaBoolean,
    ecSupported: CpaBoolean,
    pub(super) ecdhSupported: CpaBoolean,
    pub(super) ecdsaSupported: CpaBoolean,
    between: [CpaBoolean; 9],
    pub(super) ecEdMontSupported: CpaBoolean,
    behind: CpaBoolean,
}

impl CpaFlatBuffer {
    /// No bytes.
    pub(super) const NONE: Self = CpaFlatBuffer { dataLenInBytes: 0, pData: std::ptr::null_mut() };
}

impl CpaCyCapabilitiesInfo {
    /// What a device without any has.
    pub(super) const NONE: Self = CpaCyCapabilitiesInfo {
        before: [0; 4],
        rsaSupported: 0,
        ecSupported: 0,
        ecdhSupported: 0,
        ecdsaSupported: 0,
        between: [0; 9],
        ecEdMontSupported: 0,
        behind: 0,
    };
}

/// `NUMA_ANY_NODE`.
pub(super) const NUMA_ANY_NODE: c_int = -1;

// As a C compiler has it.
const _: () = assert!(size_of::<CpaFlatBuffer>() == 16);
const _: () = assert!(offset_of!(CpaFlatBuffer, pData) == 8);
const _: () = assert!(size_of::<CpaCyRsaPrivateKey>() == 120);
const _: () = assert!(offset_of!(CpaCyRsaPrivateKey, privateKeyRep1) == 8);
const _: () = assert!(offset_of!(CpaCyRsaPrivateKey, privateKeyRep2) == 40);
const _: () = assert!(size_of::<CpaCyRsaDecryptOpData>() == 24);
const _: () = assert!(offset_of!(CpaCyRsaDecryptOpData, inputData) == 8);
const _: () = assert!(size_of::<CpaCyCapabilitiesInfo>() == 76);
const _: () = assert!(offset_of!(CpaCyCapabilitiesInfo, rsaSupported) == 16);
const _: () = assert!(offset_of!(CpaCyCapabilitiesInfo, ecdhSupported) == 24);
const _: () = assert!(offset_of!(CpaCyCapabilitiesInfo, ecEdMontSupported) == 68);
const _: () = assert!(size_of::<CpaCyEcdsaSignRSOpData>() == 152);
const _: () = assert!(offset_of!(CpaCyEcdsaSignRSOpData, fieldType) == 144);
const _: () = assert!(size_of::<CpaCyEcdhPointMultiplyOpData>() == 120);
const _: () = assert!(offset_of!(CpaCyEcdhPointMultiplyOpData, fieldType) == 112);
const _: () = assert!(size_of::<CpaCyEcMontEdwdsPointMultiplyOpData>() == 56);
const _: () = assert!(offset_of!(CpaCyEcMontEdwdsPointMultiplyOpData, k) == 8);

macro_rules! library {
    ($(#[$doc:meta])* $library:ident in $file:literal;
        $($name:ident($($argument:ty),*) $(-> $result:ty)?;)*
    ) => {
        $(#[$doc])*
        pub(super) struct $library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $library {
            /// Loads it.
            ///
            /// # Errors
            /// A text that says what is missing.
            pub(super) fn load() -> Result<Self, String> {
                let library = open($file)?;
                Ok($library {$(
                    $name: {
                        let symbol = find(library, concat!(stringify!($name), "\0"))?;
                        // SAFETY: what has this name has this type in Intel's headers.
                        unsafe {
                            transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(symbol)
                        }
                    },
                )*})
            }
        }
    };
}

library! {
    /// The library of devices.
    Library in c"libqat.so.4";

    icp_sal_userStart(*const c_char) -> CpaStatus;
    icp_sal_poll_device_events() -> CpaStatus;
    icp_sal_CyPollInstance(CpaInstanceHandle, u32) -> CpaStatus;
    icp_sal_CyGetFileDescriptor(CpaInstanceHandle, *mut c_int) -> CpaStatus;
    cpaCyGetNumInstances(*mut u16) -> CpaStatus;
    cpaCyGetInstances(u16, *mut CpaInstanceHandle) -> CpaStatus;
    cpaCySetAddressTranslation(CpaInstanceHandle, CpaVirtualToPhysical) -> CpaStatus;
    cpaCyStartInstance(CpaInstanceHandle) -> CpaStatus;
    cpaCyQueryCapabilities(CpaInstanceHandle, *mut CpaCyCapabilitiesInfo) -> CpaStatus;
    cpaCyInstanceSetNotificationCb(
        CpaInstanceHandle, CpaCyInstanceNotificationCbFunc, *mut c_void
    ) -> CpaStatus;
    cpaCyRsaDecrypt(
        CpaInstanceHandle, CpaCyGenFlatBufCbFunc, *mut c_void,
        *const CpaCyRsaDecryptOpData, *mut CpaFlatBuffer
    ) -> CpaStatus;
    cpaCyEcdsaSignRS(
        CpaInstanceHandle, CpaCyPairCbFunc, *mut c_void, *const CpaCyEcdsaSignRSOpData,
        *mut CpaBoolean, *mut CpaFlatBuffer, *mut CpaFlatBuffer
    ) -> CpaStatus;
    cpaCyEcdhPointMultiply(
        CpaInstanceHandle, CpaCyPairCbFunc, *mut c_void, *const CpaCyEcdhPointMultiplyOpData,
        *mut CpaBoolean, *mut CpaFlatBuffer, *mut CpaFlatBuffer
    ) -> CpaStatus;
    cpaCyEcMontEdwdsPointMultiply(
        CpaInstanceHandle, CpaCyPairCbFunc, *mut c_void, *const CpaCyEcMontEdwdsPointMultiplyOpData,
        *mut CpaBoolean, *mut CpaFlatBuffer, *mut CpaFlatBuffer
    ) -> CpaStatus;
}

library! {
    /// The library of pinned memory.
    PinnedMemory in c"libusdm.so.0";

    qaeMemAllocNUMA(usize, c_int, usize) -> *mut c_void;
    qaeMemFreeNUMA(*mut *mut c_void);
    qaeVirtToPhysNUMA(*mut c_void) -> u64;
}

fn open(file: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: a name; what the library does while it is loaded is Intel's.
    let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !library.is_null() {
        return Ok(library);
    }
    // SAFETY: no arguments.
    let error = unsafe { libc::dlerror() };
    // SAFETY: not null after a failure of this thread's, and a C string.
    let error = unsafe { CStr::from_ptr(error) };
    Err(format!("{}; install qatlib (Debian's qatlib-service)", error.to_string_lossy()))
}

/// Finds what has a name, which ends with a NUL.
fn find(library: *mut c_void, name: &str) -> Result<*mut c_void, String> {
    // SAFETY: a library that is never closed, and a C string.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
    let missing =
        || format!("qatlib has no {}; install qatlib 24.02 or later", &name[..name.len() - 1]);
    if symbol.is_null() { Err(missing()) } else { Ok(symbol) }
}

/// What a status says, for people.
pub(super) fn words(status: CpaStatus) -> &'static str {
    match status {
        CPA_STATUS_SUCCESS => "success",
        -1 => "it failed",
        CPA_STATUS_RETRY => "it is busy",
        -3 => "a resource is missing",
        CPA_STATUS_INVALID_PARAM => "a parameter is invalid",
        -5 => "the device has failed",
        CPA_STATUS_UNSUPPORTED => "it is not supported",
        -7 => "the device restarts",
        _ => "an unknown status",
    }
}
