//! Structures and numbers of `openssl/core.h`, `core_dispatch.h` and `core_names.h`.
#![allow(unsafe_code, reason = "shares tables of constants")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

/// `OSSL_PARAM`: one named value, passed in or asked for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OsslParam {
    /// Name; null ends an array.
    pub key: *const c_char,
    /// One of the `PARAM_*` types.
    pub data_type: c_uint,
    /// The value, or where it goes.
    pub data: *mut c_void,
    /// Bytes at `data`.
    pub data_size: usize,
    /// Bytes that were, or would have been, written.
    pub return_size: usize,
}

/// `OSSL_DISPATCH`: one numbered function.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OsslDispatch {
    /// Number; 0 ends an array.
    pub function_id: c_int,
    /// The function, to be cast to the type that belongs to its number.
    pub function: Option<unsafe extern "C" fn()>,
}

/// `OSSL_ALGORITHM`: one implementation of an algorithm.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OsslAlgorithm {
    /// Names, separated by colons; null ends an array.
    pub algorithm_names: *const c_char,
    /// Properties by which it can be asked for.
    pub property_definition: *const c_char,
    /// Its functions.
    pub implementation: *const OsslDispatch,
    /// For people.
    pub algorithm_description: *const c_char,
}

/// `OSSL_CALLBACK`.
pub type OsslCallback = unsafe extern "C" fn(params: *const OsslParam, arg: *mut c_void) -> c_int;

/// `OSSL_PASSPHRASE_CALLBACK`.
pub type OsslPassphraseCallback = unsafe extern "C" fn(
    passphrase: *mut c_char,
    size: usize,
    length: *mut usize,
    params: *const OsslParam,
    arg: *mut c_void,
) -> c_int;

/// `OSSL_provider_init_fn`.
pub type OsslProviderInit = unsafe extern "C" fn(
    handle: *const OsslCoreHandle,
    upcalls: *const OsslDispatch,
    functions: *mut *const OsslDispatch,
    provctx: *mut *mut c_void,
) -> c_int;

/// `OSSL_CORE_BIO`.
#[repr(C)]
pub struct OsslCoreBio([u8; 0]);
/// `OSSL_LIB_CTX`.
#[repr(C)]
pub struct OsslLibCtx([u8; 0]);
/// `OSSL_PROVIDER`.
#[repr(C)]
pub struct OsslProvider([u8; 0]);
/// `OSSL_CORE_HANDLE`.
#[repr(C)]
pub struct OsslCoreHandle([u8; 0]);
/// `ASYNC_JOB`.
#[repr(C)]
pub struct AsyncJob([u8; 0]);
/// `ASYNC_WAIT_CTX`.
#[repr(C)]
pub struct AsyncWaitCtx([u8; 0]);
/// `EVP_MAC`.
#[repr(C)]
pub struct EvpMac([u8; 0]);
/// `EVP_CIPHER`.
#[repr(C)]
pub struct EvpCipher([u8; 0]);
/// `EVP_MD`.
#[repr(C)]
pub struct EvpMd([u8; 0]);
/// `EVP_RAND_CTX`.
#[repr(C)]
pub struct EvpRandCtx([u8; 0]);
/// `EVP_MD_CTX`.
#[repr(C)]
pub struct EvpMdCtx([u8; 0]);

impl OsslParam {
    /// Ends an array of parameters.
    pub const END: OsslParam = OsslParam {
        key: ptr::null(),
        data_type: 0,
        data: ptr::null_mut(),
        data_size: 0,
        return_size: 0,
    };

    /// A parameter whose value is at `data`, or goes there.
    pub const fn new(
        key: &'static CStr,
        data_type: c_uint,
        data: *mut c_void,
        bytes: usize,
    ) -> Self {
        OsslParam {
            key: key.as_ptr(),
            data_type,
            data,
            data_size: bytes,
            return_size: PARAM_UNMODIFIED,
        }
    }
}

impl OsslDispatch {
    /// Ends a table of functions.
    pub const END: OsslDispatch = OsslDispatch { function_id: 0, function: None };
}

impl OsslAlgorithm {
    /// Ends a list of algorithms.
    pub const END: OsslAlgorithm = OsslAlgorithm {
        algorithm_names: ptr::null(),
        property_definition: ptr::null(),
        implementation: ptr::null(),
        algorithm_description: ptr::null(),
    };
}

// SAFETY: the pointers of a parameter descriptor in a constant table lead to constants.
unsafe impl Sync for OsslParam {}

/// Signed integer in the machine's byte order.
pub const PARAM_INTEGER: c_uint = 1;
/// Unsigned integer in the machine's byte order, of any length.
pub const PARAM_UNSIGNED_INTEGER: c_uint = 2;
/// Number with a fraction, which OpenSSL takes for an integer where it is one.
pub const PARAM_REAL: c_uint = 3;
/// Text.
pub const PARAM_UTF8_STRING: c_uint = 4;
/// Bytes.
pub const PARAM_OCTET_STRING: c_uint = 5;
/// Pointer to text.
pub const PARAM_UTF8_PTR: c_uint = 6;
/// Pointer to bytes.
pub const PARAM_OCTET_PTR: c_uint = 7;
/// `return_size` of a parameter that has not been set.
pub const PARAM_UNMODIFIED: usize = usize::MAX;

/// Operation: digest.
pub const OP_DIGEST: c_int = 1;
/// Operation: cipher.
pub const OP_CIPHER: c_int = 2;
/// Operation: key derivation.
pub const OP_KDF: c_int = 4;
/// Operation: key management.
pub const OP_KEYMGMT: c_int = 10;
/// Operation: key exchange.
pub const OP_KEYEXCH: c_int = 11;
/// Operation: signature.
pub const OP_SIGNATURE: c_int = 12;
/// Operation: asymmetric cipher.
pub const OP_ASYM_CIPHER: c_int = 13;
/// Operation: key encapsulation.
pub const OP_KEM: c_int = 14;
/// Operation: encoder.
pub const OP_ENCODER: c_int = 20;

/// Capability: groups of TLS.
pub const CAPABILITY_TLS_GROUP: &CStr = c"TLS-GROUP";
/// Parameter of a group of TLS: the algorithm of its keys.
pub const TLS_GROUP_ALG: &CStr = c"tls-group-alg";

/// Parameter of a group of TLS: its name.
pub const TLS_GROUP_NAME: &CStr = c"tls-group-name";
/// Parameter of a group of TLS: what its keys know it by.
pub const TLS_GROUP_NAME_INTERNAL: &CStr = c"tls-group-name-internal";
/// Parameter of a group of TLS: its number.
pub const TLS_GROUP_ID: &CStr = c"tls-group-id";
/// Parameter of a group of TLS: its strength in bits.
pub const TLS_GROUP_SECURITY_BITS: &CStr = c"tls-group-sec-bits";
/// Parameter of a group of TLS: whether its keys encapsulate.
pub const TLS_GROUP_IS_KEM: &CStr = c"tls-group-is-kem";
/// Parameter of a group of TLS: the lowest version of TLS.
pub const TLS_GROUP_MIN_TLS: &CStr = c"tls-min-tls";
/// Parameter of a group of TLS: the highest version of TLS, or 0.
pub const TLS_GROUP_MAX_TLS: &CStr = c"tls-max-tls";
/// Parameter of a group of TLS: the lowest version of DTLS, or -1 for none.
pub const TLS_GROUP_MIN_DTLS: &CStr = c"tls-min-dtls";
/// Parameter of a group of TLS: the highest version of DTLS, or -1 for none.
pub const TLS_GROUP_MAX_DTLS: &CStr = c"tls-max-dtls";
/// `TLS1_3_VERSION`.
pub const TLS_1_3: c_int = 0x0304;

/// Of a key: its private half.
pub const SELECT_PRIVATE_KEY: c_int = 0x01;
/// Of a key: its public half.
pub const SELECT_PUBLIC_KEY: c_int = 0x02;
/// Of a key: both halves.
pub const SELECT_KEYPAIR: c_int = 0x03;
/// Of a key: its curve.
pub const SELECT_DOMAIN_PARAMETERS: c_int = 0x04;
/// Of a key: curve and whatever else is no half of it.
pub const SELECT_ALL_PARAMETERS: c_int = 0x84;
/// Everything a key has.
pub const SELECT_ALL: c_int = 0x87;

/// Provider parameter: name.
pub const PROV_PARAM_NAME: &CStr = c"name";
/// Provider parameter: version.
pub const PROV_PARAM_VERSION: &CStr = c"version";
/// Provider parameter: build information.
pub const PROV_PARAM_BUILDINFO: &CStr = c"buildinfo";
/// Provider parameter: whether it runs.
pub const PROV_PARAM_STATUS: &CStr = c"status";

/// Key parameter: modulus.
pub const PKEY_PARAM_RSA_N: &CStr = c"n";
/// Key parameter: public exponent.
pub const PKEY_PARAM_RSA_E: &CStr = c"e";
/// Key parameter: private exponent.
pub const PKEY_PARAM_RSA_D: &CStr = c"d";
/// Key parameter: first prime.
pub const PKEY_PARAM_RSA_FACTOR1: &CStr = c"rsa-factor1";
/// Key parameter: second prime.
pub const PKEY_PARAM_RSA_FACTOR2: &CStr = c"rsa-factor2";
/// Key parameter: third prime, of keys that we leave alone.
pub const PKEY_PARAM_RSA_FACTOR3: &CStr = c"rsa-factor3";
/// Key parameter: private exponent modulo the first prime less one.
pub const PKEY_PARAM_RSA_EXPONENT1: &CStr = c"rsa-exponent1";
/// Key parameter: private exponent modulo the second prime less one.
pub const PKEY_PARAM_RSA_EXPONENT2: &CStr = c"rsa-exponent2";
/// Key parameter: inverse of the second prime modulo the first.
pub const PKEY_PARAM_RSA_COEFFICIENT1: &CStr = c"rsa-coefficient1";
/// Key parameter: size in bits.
pub const PKEY_PARAM_BITS: &CStr = c"bits";
/// Key parameter: bits of a symmetric key of the same strength.
pub const PKEY_PARAM_SECURITY_BITS: &CStr = c"security-bits";
/// Key parameter, since OpenSSL 3.5: NIST's category of strength against quantum computers, 0 for
/// none.
pub const PKEY_PARAM_SECURITY_CATEGORY: &CStr = c"security-category";
/// Key parameter: bytes of the longest output.
pub const PKEY_PARAM_MAX_SIZE: &CStr = c"max-size";
/// Key parameter: name of the curve.
pub const PKEY_PARAM_GROUP_NAME: &CStr = c"group";
/// Whether a curve is written by its name or by its equation.
pub const PKEY_PARAM_EC_ENCODING: &CStr = c"encoding";
/// How points are written.
pub const PKEY_PARAM_EC_POINT_CONVERSION_FORMAT: &CStr = c"point-format";
/// How a curve is checked.
pub const PKEY_PARAM_EC_GROUP_CHECK_TYPE: &CStr = c"group-check";
/// Whether a curve was read by its equation.
pub const PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS: &CStr = c"decoded-from-explicit";
/// Whether a shared secret is multiplied by the cofactor.
pub const PKEY_PARAM_USE_COFACTOR_FLAG: &CStr = c"use-cofactor-flag";
/// Whether a private key is written with its public half.
pub const PKEY_PARAM_EC_INCLUDE_PUBLIC: &CStr = c"include-public";
/// Key parameter: public half as protocols send it.
pub const PKEY_PARAM_ENCODED_PUBLIC_KEY: &CStr = c"encoded-pub-key";
/// Key parameter: public half.
pub const PKEY_PARAM_PUB_KEY: &CStr = c"pub";
/// Key parameter: private half.
pub const PKEY_PARAM_PRIV_KEY: &CStr = c"priv";

/// Key parameter, since OpenSSL 3.5: what a key of ML-KEM was generated from.
pub const PKEY_PARAM_ML_KEM_SEED: &CStr = c"seed";
/// Parameter of an encapsulation: the random bytes that it begins with.
pub const KEM_PARAM_IKME: &CStr = c"ikme";

/// Parameter of a signature and of an asymmetric cipher: padding.
pub const PARAM_PAD_MODE: &CStr = c"pad-mode";
/// Parameter of an ECDSA signature: how its nonce is made; a number.
pub const SIGNATURE_PARAM_NONCE_TYPE: &CStr = c"nonce-type";
/// Parameter of a signature: digest.
pub const SIGNATURE_PARAM_DIGEST: &CStr = c"digest";
/// Parameter of a signature: digest of the mask generation function.
pub const SIGNATURE_PARAM_MGF1_DIGEST: &CStr = c"mgf1-digest";
/// Parameter of a shared secret: digest of the key derivation on top of it.
pub const EXCHANGE_PARAM_KDF_DIGEST: &CStr = c"kdf-digest";
/// Parameter of an encoder: cipher for private keys.
pub const ENCODER_PARAM_CIPHER: &CStr = c"cipher";
/// Parameter of a signature: bytes of PSS salt, or one of the `SALTLEN_*` rules.
pub const SIGNATURE_PARAM_PSS_SALTLEN: &CStr = c"saltlen";
/// Parameter of an asymmetric cipher: the version that the client offered.
pub const ASYM_CIPHER_PARAM_TLS_CLIENT_VERSION: &CStr = c"tls-client-version";
/// Parameter of an asymmetric cipher: the version that was agreed on, where it is accepted as well.
pub const ASYM_CIPHER_PARAM_TLS_NEGOTIATED_VERSION: &CStr = c"tls-negotiated-version";

/// Parameter of a cipher: bytes of the key.
pub const CIPHER_PARAM_KEYLEN: &CStr = c"keylen";
/// Parameter of a cipher: bytes of the IV.
pub const CIPHER_PARAM_IVLEN: &CStr = c"ivlen";
/// Parameter of a cipher: the IV.
pub const CIPHER_PARAM_IV: &CStr = c"iv";
/// Parameter of a cipher: the IV, as far as it has advanced.
pub const CIPHER_PARAM_UPDATED_IV: &CStr = c"updated-iv";
/// Parameter of a cipher with tags: the tag.
pub const CIPHER_PARAM_AEAD_TAG: &CStr = c"tag";
/// Parameter of a cipher with tags: bytes of the tag.
pub const CIPHER_PARAM_AEAD_TAGLEN: &CStr = c"taglen";
/// Parameter of a cipher with tags: header of the record of TLS 1.2 that comes next.
pub const CIPHER_PARAM_AEAD_TLS1_AAD: &CStr = c"tlsaad";
/// Parameter of a cipher with tags: bytes that a record of TLS 1.2 grows by.
pub const CIPHER_PARAM_AEAD_TLS1_AAD_PAD: &CStr = c"tlsaadpad";
/// Parameter of a cipher with tags: the part of the IV that a connection of TLS 1.2 keeps.
pub const CIPHER_PARAM_AEAD_TLS1_IV_FIXED: &CStr = c"tlsivfixed";
/// Parameter of a cipher with tags: takes the next IV.
pub const CIPHER_PARAM_AEAD_TLS1_GET_IV_GEN: &CStr = c"tlsivgen";
/// Parameter of a cipher with tags: the end of the IV that a record of TLS 1.2 brought.
pub const CIPHER_PARAM_AEAD_TLS1_SET_IV_INV: &CStr = c"tlsivinv";
/// Parameter of a cipher with tags, since OpenSSL 3.4: whether it drew its IV itself.
pub const CIPHER_PARAM_AEAD_IV_GENERATED: &CStr = c"iv-generated";

/// Parameter of a cipher with HMAC: the key of HMAC.
pub const CIPHER_PARAM_AEAD_MAC_KEY: &CStr = c"mackey";
/// Parameter of a cipher with HMAC: the version of TLS, whose padding, tag and IV are taken off.
pub const CIPHER_PARAM_TLS_VERSION: &CStr = c"tls-version";
/// Parameter of a cipher with HMAC: bytes of the longest text of a record, of several at once.
pub const CIPHER_PARAM_TLS1_MULTIBLOCK_MAX_SEND_FRAGMENT: &CStr = c"tls1multi_maxsndfrag";
/// Parameter of a cipher with HMAC: bytes of such a record.
pub const CIPHER_PARAM_TLS1_MULTIBLOCK_MAX_BUFSIZE: &CStr = c"tls1multi_maxbufsz";
/// Parameter of a cipher with HMAC: how many records are made at once.
pub const CIPHER_PARAM_TLS1_MULTIBLOCK_INTERLEAVE: &CStr = c"tls1multi_interleave";
/// Parameter of a cipher with HMAC: header of the first of several records.
pub const CIPHER_PARAM_TLS1_MULTIBLOCK_AAD: &CStr = c"tls1multi_aad";
/// Parameter of a cipher with HMAC: bytes that several records will have.
pub const CIPHER_PARAM_TLS1_MULTIBLOCK_AAD_PACKLEN: &CStr = c"tls1multi_aadpacklen";
/// Parameter of a cipher with HMAC: where several records go.
pub const CIPHER_PARAM_TLS1_MULTIBLOCK_ENC: &CStr = c"tls1multi_enc";
/// Parameter of a cipher with HMAC: the text of several records.
pub const CIPHER_PARAM_TLS1_MULTIBLOCK_ENC_IN: &CStr = c"tls1multi_encin";
/// Parameter of a cipher with HMAC: bytes that several records have.
pub const CIPHER_PARAM_TLS1_MULTIBLOCK_ENC_LEN: &CStr = c"tls1multi_enclen";

/// Parameter of a key derivation: hash function.
pub const KDF_PARAM_DIGEST: &CStr = c"digest";
/// Parameter of a key derivation: the secret that others follow from.
pub const KDF_PARAM_KEY: &CStr = c"key";
/// Parameter of a key derivation: which part of HKDF, one of the `HKDF_MODE_*`.
pub const KDF_PARAM_MODE: &CStr = c"mode";
/// Parameter of a key derivation: salt.
pub const KDF_PARAM_SALT: &CStr = c"salt";
/// Parameter of a key derivation: what all labels begin with.
pub const KDF_PARAM_PREFIX: &CStr = c"prefix";
/// Parameter of a key derivation: what the derived is for.
pub const KDF_PARAM_LABEL: &CStr = c"label";
/// Parameter of a key derivation: what the derived depends on.
pub const KDF_PARAM_DATA: &CStr = c"data";
/// Parameter of a key derivation: the secret of TLS 1.2.
pub const KDF_PARAM_SECRET: &CStr = c"secret";
/// Parameter of a key derivation: label and random numbers of TLS 1.2.
pub const KDF_PARAM_SEED: &CStr = c"seed";

/// `EVP_KDF_HKDF_MODE_EXTRACT_ONLY`.
pub const HKDF_MODE_EXTRACT_ONLY: c_int = 1;
/// `EVP_KDF_HKDF_MODE_EXPAND_ONLY`.
pub const HKDF_MODE_EXPAND_ONLY: c_int = 2;

/// `EVP_AEAD_TLS1_AAD_LEN`: bytes of the header of a record of TLS 1.2.
pub const AEAD_TLS1_AAD_BYTES: usize = 13;

/// `RSA_PKCS1_PADDING`.
pub const PADDING_PKCS1: c_int = 1;
/// `RSA_NO_PADDING`.
pub const PADDING_NONE: c_int = 3;
/// `RSA_PKCS1_PSS_PADDING`.
pub const PADDING_PSS: c_int = 6;
/// `RSA_PKCS1_WITH_TLS_PADDING`.
pub const PADDING_TLS: c_int = 7;

/// `RSA_PSS_SALTLEN_DIGEST`: as long as the digest.
pub const SALTLEN_DIGEST: c_int = -1;
/// `RSA_PSS_SALTLEN_AUTO`: for signing, as long as fits.
pub const SALTLEN_AUTO: c_int = -2;
/// `RSA_PSS_SALTLEN_MAX`: as long as fits.
pub const SALTLEN_MAX: c_int = -3;
/// `RSA_PSS_SALTLEN_AUTO_DIGEST_MAX`: as long as fits, at most as the digest.
pub const SALTLEN_AUTO_DIGEST_MAX: c_int = -4;

/// `ERR_LIB_PROV`.
pub const ERR_LIB_PROV: c_int = 57;
/// `PROV_R_CIPHER_OPERATION_FAILED`.
pub const PROV_R_CIPHER_OPERATION_FAILED: c_int = 102;
/// `PROV_R_FAILED_TO_GET_PARAMETER`.
pub const PROV_R_FAILED_TO_GET_PARAMETER: c_int = 103;
/// `PROV_R_FAILED_TO_SET_PARAMETER`.
pub const PROV_R_FAILED_TO_SET_PARAMETER: c_int = 104;
/// `PROV_R_INVALID_KEY_LENGTH`.
pub const PROV_R_INVALID_KEY_LENGTH: c_int = 105;
/// `PROV_R_OUTPUT_BUFFER_TOO_SMALL`.
pub const PROV_R_OUTPUT_BUFFER_TOO_SMALL: c_int = 106;
/// `PROV_R_INVALID_AAD`.
pub const PROV_R_INVALID_AAD: c_int = 108;
/// `PROV_R_INVALID_IV_LENGTH`.
pub const PROV_R_INVALID_IV_LENGTH: c_int = 109;
/// `PROV_R_INVALID_TAG`.
pub const PROV_R_INVALID_TAG: c_int = 110;
/// `PROV_R_INVALID_DATA`.
pub const PROV_R_INVALID_DATA: c_int = 115;
/// `PROV_R_INVALID_TAG_LENGTH`.
pub const PROV_R_INVALID_TAG_LENGTH: c_int = 118;
/// `PROV_R_TAG_NOT_SET`.
pub const PROV_R_TAG_NOT_SET: c_int = 119;
/// `PROV_R_TAG_NOT_NEEDED`.
pub const PROV_R_TAG_NOT_NEEDED: c_int = 120;
/// `PROV_R_MISSING_KEY`.
pub const PROV_R_MISSING_KEY: c_int = 128;
/// `PROV_R_BAD_LENGTH`.
pub const PROV_R_BAD_LENGTH: c_int = 142;
/// `PROV_R_INVALID_SEED_LENGTH`.
pub const PROV_R_INVALID_SEED_LENGTH: c_int = 154;
/// `PROV_R_INVALID_KEY`.
pub const PROV_R_INVALID_KEY: c_int = 158;
/// `PROV_R_OPERATION_NOT_SUPPORTED_FOR_THIS_KEYTYPE`.
pub const PROV_R_OPERATION_NOT_SUPPORTED_FOR_THIS_KEYTYPE: c_int = 178;
/// `ERR_R_INTERNAL_ERROR`.
pub const ERR_R_INTERNAL_ERROR: c_int = 259 | (0x3 << 18);

const _: () = assert!(size_of::<OsslParam>() == 40);
const _: () = assert!(size_of::<OsslDispatch>() == 16);
const _: () = assert!(size_of::<OsslAlgorithm>() == 32);
const _: () = assert!(size_of::<Option<OsslCallback>>() == size_of::<*const c_void>());
