//! The functions of libcrypto and libssl that the tests call as programs do. Every object is an
//! untyped pointer.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(unsafe_code, reason = "declares functions of C")]

use std::ffi::{c_char, c_int, c_long, c_void};

// Links both.
use openssl_sys as _;
use widelane_ossl_sys::core::{OsslParam, OsslProviderInit};

unsafe extern "C" {
    pub fn ASYNC_WAIT_CTX_free(context: *mut c_void);
    pub fn ASYNC_WAIT_CTX_get_all_fds(
        wait: *mut c_void,
        fds: *mut c_int,
        count: *mut usize,
    ) -> c_int;
    pub fn ASYNC_WAIT_CTX_new() -> *mut c_void;
    pub fn ASYNC_WAIT_CTX_set_callback(
        wait: *mut c_void,
        callback: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
        argument: *mut c_void,
    ) -> c_int;
    pub fn ASYNC_block_pause();
    pub fn ASYNC_start_job(
        job: *mut *mut c_void,
        context: *mut c_void,
        answer: *mut c_int,
        body: unsafe extern "C" fn(*mut c_void) -> c_int,
        arguments: *mut c_void,
        size: usize,
    ) -> c_int;
    pub fn ASYNC_unblock_pause();
    pub fn CRYPTO_free(memory: *mut c_void, file: *const c_char, line: c_int);
    pub fn CRYPTO_set_mem_functions(
        allocate: unsafe extern "C" fn(usize, *const c_char, c_int) -> *mut c_void,
        resize: unsafe extern "C" fn(*mut c_void, usize, *const c_char, c_int) -> *mut c_void,
        free: unsafe extern "C" fn(*mut c_void, *const c_char, c_int),
    ) -> c_int;
    pub fn ERR_clear_error();
    pub fn ERR_get_error() -> u64;
    pub fn EVP_CIPHER_CTX_copy(to: *mut c_void, from: *const c_void) -> c_int;
    pub fn EVP_CIPHER_CTX_ctrl(
        context: *mut c_void,
        kind: c_int,
        number: c_int,
        pointer: *mut c_void,
    ) -> c_int;
    pub fn EVP_CIPHER_CTX_free(context: *mut c_void);
    pub fn EVP_CIPHER_CTX_get_iv_length(context: *const c_void) -> c_int;
    pub fn EVP_CIPHER_CTX_get_key_length(context: *const c_void) -> c_int;
    pub fn EVP_CIPHER_CTX_get_params(context: *mut c_void, params: *mut OsslParam) -> c_int;
    pub fn EVP_CIPHER_CTX_get_tag_length(context: *const c_void) -> c_int;
    pub fn EVP_CIPHER_CTX_get_updated_iv(
        context: *mut c_void,
        buffer: *mut c_void,
        bytes: usize,
    ) -> c_int;
    pub fn EVP_CIPHER_CTX_new() -> *mut c_void;
    pub fn EVP_CIPHER_CTX_set_params(context: *mut c_void, params: *const OsslParam) -> c_int;
    pub fn EVP_CIPHER_fetch(
        context: *mut c_void,
        name: *const c_char,
        query: *const c_char,
    ) -> *mut c_void;
    pub fn EVP_CIPHER_free(cipher: *mut c_void);
    pub fn EVP_CIPHER_get_block_size(cipher: *const c_void) -> c_int;
    pub fn EVP_CIPHER_get_flags(cipher: *const c_void) -> u64;
    pub fn EVP_CIPHER_get_key_length(cipher: *const c_void) -> c_int;
    pub fn EVP_CIPHER_get_mode(cipher: *const c_void) -> c_int;
    pub fn EVP_CIPHER_get_nid(cipher: *const c_void) -> c_int;
    pub fn EVP_CIPHER_is_a(cipher: *const c_void, name: *const c_char) -> c_int;
    pub fn EVP_CipherFinal_ex(context: *mut c_void, output: *mut u8, length: *mut c_int) -> c_int;
    pub fn EVP_CipherInit_ex(
        context: *mut c_void,
        cipher: *const c_void,
        engine: *mut c_void,
        key: *const u8,
        iv: *const u8,
        encrypt: c_int,
    ) -> c_int;
    pub fn EVP_CipherInit_ex2(
        context: *mut c_void,
        cipher: *const c_void,
        key: *const u8,
        iv: *const u8,
        encrypt: c_int,
        params: *const OsslParam,
    ) -> c_int;
    pub fn EVP_CipherUpdate(
        context: *mut c_void,
        output: *mut u8,
        length: *mut c_int,
        input: *const u8,
        bytes: c_int,
    ) -> c_int;
    pub fn EVP_DigestSign(
        context: *mut c_void,
        signature: *mut u8,
        length: *mut usize,
        message: *const u8,
        bytes: usize,
    ) -> c_int;
    pub fn EVP_DigestSignInit_ex(
        context: *mut c_void,
        key_context: *mut *mut c_void,
        digest: *const c_char,
        library: *mut c_void,
        query: *const c_char,
        key: *mut c_void,
        params: *const OsslParam,
    ) -> c_int;
    pub fn EVP_DigestVerify(
        context: *mut c_void,
        signature: *const u8,
        length: usize,
        message: *const u8,
        bytes: usize,
    ) -> c_int;
    pub fn EVP_DigestVerifyInit_ex(
        context: *mut c_void,
        key_context: *mut *mut c_void,
        digest: *const c_char,
        library: *mut c_void,
        query: *const c_char,
        key: *mut c_void,
        params: *const OsslParam,
    ) -> c_int;
    pub fn EVP_KDF_CTX_dup(context: *const c_void) -> *mut c_void;
    pub fn EVP_KDF_CTX_free(context: *mut c_void);
    pub fn EVP_KDF_CTX_get_kdf_size(context: *mut c_void) -> usize;
    pub fn EVP_KDF_CTX_get_params(context: *mut c_void, params: *mut OsslParam) -> c_int;
    pub fn EVP_KDF_CTX_new(kdf: *mut c_void) -> *mut c_void;
    pub fn EVP_KDF_CTX_reset(context: *mut c_void);
    pub fn EVP_KDF_CTX_set_params(context: *mut c_void, params: *const OsslParam) -> c_int;
    pub fn EVP_KDF_derive(
        context: *mut c_void,
        key: *mut u8,
        length: usize,
        params: *const OsslParam,
    ) -> c_int;
    pub fn EVP_KDF_fetch(
        context: *mut c_void,
        name: *const c_char,
        query: *const c_char,
    ) -> *mut c_void;
    pub fn EVP_KDF_free(kdf: *mut c_void);
    pub fn EVP_KDF_get0_provider(kdf: *const c_void) -> *const c_void;
    pub fn EVP_KEYEXCH_fetch(
        context: *mut c_void,
        name: *const c_char,
        query: *const c_char,
    ) -> *mut c_void;
    pub fn EVP_KEYEXCH_free(exchange: *mut c_void);
    pub fn EVP_KEYEXCH_gettable_ctx_params(exchange: *const c_void) -> *const OsslParam;
    pub fn EVP_KEYEXCH_settable_ctx_params(exchange: *const c_void) -> *const OsslParam;
    pub fn EVP_MD_CTX_copy_ex(to: *mut c_void, from: *const c_void) -> c_int;
    pub fn EVP_MD_CTX_free(context: *mut c_void);
    pub fn EVP_MD_CTX_new() -> *mut c_void;
    pub fn EVP_MD_CTX_set_flags(context: *mut c_void, flags: c_int);
    pub fn EVP_MD_CTX_set_params(context: *mut c_void, params: *const OsslParam) -> c_int;
    pub fn EVP_PKEY_CTX_dup(context: *const c_void) -> *mut c_void;
    pub fn EVP_PKEY_CTX_free(context: *mut c_void);
    pub fn EVP_PKEY_CTX_get_params(context: *mut c_void, params: *mut OsslParam) -> c_int;
    pub fn EVP_PKEY_CTX_new_from_name(
        context: *mut c_void,
        name: *const c_char,
        query: *const c_char,
    ) -> *mut c_void;
    pub fn EVP_PKEY_CTX_new_from_pkey(
        context: *mut c_void,
        key: *mut c_void,
        query: *const c_char,
    ) -> *mut c_void;
    pub fn EVP_PKEY_CTX_set_group_name(context: *mut c_void, name: *const c_char) -> c_int;
    pub fn EVP_PKEY_CTX_set_params(context: *mut c_void, params: *const OsslParam) -> c_int;
    pub fn EVP_PKEY_CTX_settable_params(context: *const c_void) -> *const OsslParam;
    pub fn EVP_PKEY_check(context: *mut c_void) -> c_int;
    pub fn EVP_PKEY_copy_parameters(to: *mut c_void, from: *const c_void) -> c_int;
    pub fn EVP_PKEY_decapsulate(
        context: *mut c_void,
        secret: *mut u8,
        length: *mut usize,
        ciphertext: *const u8,
        bytes: usize,
    ) -> c_int;
    pub fn EVP_PKEY_decapsulate_init(context: *mut c_void, params: *const OsslParam) -> c_int;
    pub fn EVP_PKEY_decrypt(
        context: *mut c_void,
        output: *mut u8,
        length: *mut usize,
        input: *const u8,
        bytes: usize,
    ) -> c_int;
    pub fn EVP_PKEY_decrypt_init_ex(context: *mut c_void, params: *const OsslParam) -> c_int;
    pub fn EVP_PKEY_derive(context: *mut c_void, secret: *mut u8, length: *mut usize) -> c_int;
    pub fn EVP_PKEY_derive_init(context: *mut c_void) -> c_int;
    pub fn EVP_PKEY_derive_init_ex(context: *mut c_void, params: *const OsslParam) -> c_int;
    pub fn EVP_PKEY_derive_set_peer(context: *mut c_void, peer: *mut c_void) -> c_int;
    pub fn EVP_PKEY_dup(key: *mut c_void) -> *mut c_void;
    pub fn EVP_PKEY_encapsulate(
        context: *mut c_void,
        ciphertext: *mut u8,
        length: *mut usize,
        secret: *mut u8,
        secret_length: *mut usize,
    ) -> c_int;
    pub fn EVP_PKEY_encapsulate_init(context: *mut c_void, params: *const OsslParam) -> c_int;
    pub fn EVP_PKEY_eq(first: *const c_void, second: *const c_void) -> c_int;
    pub fn EVP_PKEY_free(key: *mut c_void);
    pub fn EVP_PKEY_fromdata(
        context: *mut c_void,
        key: *mut *mut c_void,
        selection: c_int,
        params: *mut OsslParam,
    ) -> c_int;
    pub fn EVP_PKEY_fromdata_init(context: *mut c_void) -> c_int;
    pub fn EVP_PKEY_generate(context: *mut c_void, key: *mut *mut c_void) -> c_int;
    pub fn EVP_PKEY_get0_provider(key: *const c_void) -> *const c_void;
    pub fn EVP_PKEY_get1_encoded_public_key(key: *mut c_void, bytes: *mut *mut u8) -> usize;
    pub fn EVP_PKEY_get_bits(key: *const c_void) -> c_int;
    pub fn EVP_PKEY_get_group_name(
        key: *const c_void,
        name: *mut c_char,
        size: usize,
        length: *mut usize,
    ) -> c_int;
    pub fn EVP_PKEY_get_int_param(
        key: *const c_void,
        name: *const c_char,
        value: *mut c_int,
    ) -> c_int;
    pub fn EVP_PKEY_get_octet_string_param(
        key: *const c_void,
        name: *const c_char,
        bytes: *mut u8,
        size: usize,
        length: *mut usize,
    ) -> c_int;
    pub fn EVP_PKEY_get_params(key: *const c_void, params: *mut OsslParam) -> c_int;
    pub fn EVP_PKEY_gettable_params(key: *const c_void) -> *const OsslParam;
    pub fn EVP_PKEY_get_utf8_string_param(
        key: *const c_void,
        name: *const c_char,
        value: *mut c_char,
        size: usize,
        length: *mut usize,
    ) -> c_int;
    pub fn EVP_PKEY_keygen_init(context: *mut c_void) -> c_int;
    pub fn EVP_PKEY_new() -> *mut c_void;
    pub fn EVP_PKEY_pairwise_check(context: *mut c_void) -> c_int;
    pub fn EVP_PKEY_paramgen_init(context: *mut c_void) -> c_int;
    pub fn EVP_PKEY_public_check(context: *mut c_void) -> c_int;
    pub fn EVP_PKEY_set1_encoded_public_key(
        key: *mut c_void,
        bytes: *const u8,
        length: usize,
    ) -> c_int;
    pub fn EVP_PKEY_set_params(key: *mut c_void, params: *mut OsslParam) -> c_int;
    pub fn EVP_PKEY_set_utf8_string_param(
        key: *mut c_void,
        name: *const c_char,
        value: *const c_char,
    ) -> c_int;
    pub fn EVP_PKEY_sign(
        context: *mut c_void,
        signature: *mut u8,
        length: *mut usize,
        digest: *const u8,
        bytes: usize,
    ) -> c_int;
    pub fn EVP_PKEY_sign_init_ex(context: *mut c_void, params: *const OsslParam) -> c_int;
    pub fn EVP_PKEY_verify(
        context: *mut c_void,
        signature: *const u8,
        length: usize,
        digest: *const u8,
        bytes: usize,
    ) -> c_int;
    pub fn EVP_PKEY_verify_init_ex(context: *mut c_void, params: *const OsslParam) -> c_int;
    pub fn EVP_SIGNATURE_fetch(
        context: *mut c_void,
        name: *const c_char,
        query: *const c_char,
    ) -> *mut c_void;
    pub fn EVP_SIGNATURE_free(signature: *mut c_void);
    pub fn EVP_set_default_properties(context: *mut c_void, query: *const c_char) -> c_int;
    pub fn OPENSSL_thread_stop_ex(context: *mut c_void);
    pub fn OSSL_LIB_CTX_free(context: *mut c_void);
    pub fn OSSL_LIB_CTX_new() -> *mut c_void;
    pub fn OSSL_LIB_CTX_set0_default(context: *mut c_void) -> *mut c_void;
    pub fn OSSL_PARAM_locate(params: *mut OsslParam, name: *const c_char) -> *mut OsslParam;
    pub fn OSSL_PARAM_set_size_t(param: *mut OsslParam, value: usize) -> c_int;
    pub fn OSSL_PROVIDER_add_builtin(
        context: *mut c_void,
        name: *const c_char,
        begin: OsslProviderInit,
    ) -> c_int;
    pub fn OSSL_PROVIDER_get0_name(provider: *const c_void) -> *const c_char;
    pub fn OSSL_PROVIDER_load(context: *mut c_void, name: *const c_char) -> *mut c_void;
    pub fn OSSL_PROVIDER_unload(provider: *mut c_void) -> c_int;
    pub fn SSL_ctrl(
        ssl: *mut c_void,
        command: c_int,
        number: c_long,
        pointer: *mut c_void,
    ) -> c_long;
    pub fn SSL_key_update(ssl: *mut c_void, kind: c_int) -> c_int;
    pub fn SSL_renegotiate(ssl: *mut c_void) -> c_int;
}
