//! Function tables of the operations that we serve and of the provider itself, with the numbers of
//! `openssl/core_dispatch.h`.
#![allow(unsafe_code, reason = "casts function pointers to the types of their numbers")]

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::mem::transmute;

use crate::core::{
    self, OsslAlgorithm, OsslCallback, OsslCoreBio, OsslDispatch, OsslParam, OsslPassphraseCallback,
};

/// The functions by which a provider serves one operation of libcrypto, such as signatures.
pub trait Table: Sized {
    /// The number of the operation.
    const OPERATION: c_int;

    /// Reads a table of functions; unknown numbers are skipped.
    ///
    /// # Safety
    /// `table` must be a table of this operation, ended by [`OsslDispatch::END`].
    unsafe fn read(table: *const OsslDispatch) -> Self;
}

/// A table of functions; that of an operation is a [`Table`].
macro_rules! table {
    (
        $(#[$doc:meta])*
        $name:ident of $operation:ident {
            $($field:ident: $number:literal => fn($($arg:ty),*) $(-> $ret:ty)?,)*
        }
    ) => {
        table! {
            $(#[$doc])*
            $name {
                $($field: $number => fn($($arg),*) $(-> $ret)?,)*
            }
        }

        impl Table for $name {
            const OPERATION: c_int = core::$operation;

            unsafe fn read(mut table: *const OsslDispatch) -> Self {
                let mut functions = Self::default();
                loop {
                    // SAFETY: the end, where this loop leaves, has not been seen yet.
                    let entry = unsafe { *table };
                    match (entry.function_id, entry.function) {
                        (0, _) => return functions,
                        $(($number, Some(function)) => {
                            // SAFETY: core_dispatch.h gives functions of this number this type.
                            functions.$field = Some(unsafe {
                                transmute::<
                                    unsafe extern "C" fn(),
                                    unsafe extern "C" fn($($arg),*) $(-> $ret)?,
                                >(function)
                            });
                        })*
                        _ => {}
                    }
                    // SAFETY: this entry was not the end, so there is another.
                    table = unsafe { table.add(1) };
                }
            }
        }
    };
    (
        $(#[$doc:meta])*
        $name:ident {
            $($field:ident: $number:literal => fn($($arg:ty),*) $(-> $ret:ty)?,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        #[allow(missing_docs, reason = "named as in core_dispatch.h")]
        pub struct $name {
            $(pub $field: Option<unsafe extern "C" fn($($arg),*) $(-> $ret)?>,)*
        }

        impl $name {
            /// Writes the table for the core: its functions, and the end.
            pub fn write(&self) -> Box<[OsslDispatch]> {
                self.write_like(self)
            }

            /// Writes the table for the core: those functions that `like` has as well, and the end.
            pub fn write_like(&self, like: &Self) -> Box<[OsslDispatch]> {
                let mut table = Vec::new();
                $(if let (Some(function), Some(_)) = (self.$field, like.$field) {
                    // SAFETY: only the type is forgotten; the number brings it back.
                    let function = unsafe {
                        transmute::<
                            unsafe extern "C" fn($($arg),*) $(-> $ret)?,
                            unsafe extern "C" fn(),
                        >(function)
                    };
                    table.push(OsslDispatch { function_id: $number, function: Some(function) });
                })*
                table.push(OsslDispatch::END);
                table.into()
            }
        }
    };
}

table! {
    /// The functions of a provider itself (`OSSL_FUNC_PROVIDER_…`).
    ProviderFunctions {
        teardown: 1024 => fn(*mut c_void),
        gettable_params: 1025 => fn(*mut c_void) -> *const OsslParam,
        get_params: 1026 => fn(*mut c_void, *mut OsslParam) -> c_int,
        query_operation: 1027 => fn(*mut c_void, c_int, *mut c_int) -> *const OsslAlgorithm,
        get_capabilities: 1030 => fn(
            *mut c_void, *const c_char, Option<OsslCallback>, *mut c_void
        ) -> c_int,
    }
}

table! {
    /// `OSSL_OP_CIPHER`.
    CipherFunctions of OP_CIPHER {
        newctx: 1 => fn(*mut c_void) -> *mut c_void,
        encrypt_init: 2 => fn(
            *mut c_void, *const c_uchar, usize, *const c_uchar, usize, *const OsslParam
        ) -> c_int,
        decrypt_init: 3 => fn(
            *mut c_void, *const c_uchar, usize, *const c_uchar, usize, *const OsslParam
        ) -> c_int,
        update: 4 => fn(
            *mut c_void, *mut c_uchar, *mut usize, usize, *const c_uchar, usize
        ) -> c_int,
        finish: 5 => fn(*mut c_void, *mut c_uchar, *mut usize, usize) -> c_int,
        cipher: 6 => fn(
            *mut c_void, *mut c_uchar, *mut usize, usize, *const c_uchar, usize
        ) -> c_int,
        freectx: 7 => fn(*mut c_void),
        dupctx: 8 => fn(*mut c_void) -> *mut c_void,
        get_params: 9 => fn(*mut OsslParam) -> c_int,
        get_ctx_params: 10 => fn(*mut c_void, *mut OsslParam) -> c_int,
        set_ctx_params: 11 => fn(*mut c_void, *const OsslParam) -> c_int,
        gettable_params: 12 => fn(*mut c_void) -> *const OsslParam,
        gettable_ctx_params: 13 => fn(*mut c_void, *mut c_void) -> *const OsslParam,
        settable_ctx_params: 14 => fn(*mut c_void, *mut c_void) -> *const OsslParam,
    }
}

table! {
    /// `OSSL_OP_KEYMGMT`.
    KeymgmtFunctions of OP_KEYMGMT {
        new: 1 => fn(*mut c_void) -> *mut c_void,
        gen_init: 2 => fn(*mut c_void, c_int, *const OsslParam) -> *mut c_void,
        gen_set_template: 3 => fn(*mut c_void, *mut c_void) -> c_int,
        gen_set_params: 4 => fn(*mut c_void, *const OsslParam) -> c_int,
        gen_settable_params: 5 => fn(*mut c_void, *mut c_void) -> *const OsslParam,
        generate: 6 => fn(*mut c_void, Option<OsslCallback>, *mut c_void) -> *mut c_void,
        gen_cleanup: 7 => fn(*mut c_void),
        free: 10 => fn(*mut c_void),
        get_params: 11 => fn(*mut c_void, *mut OsslParam) -> c_int,
        gettable_params: 12 => fn(*mut c_void) -> *const OsslParam,
        set_params: 13 => fn(*mut c_void, *const OsslParam) -> c_int,
        settable_params: 14 => fn(*mut c_void) -> *const OsslParam,
        query_operation_name: 20 => fn(c_int) -> *const c_char,
        has: 21 => fn(*const c_void, c_int) -> c_int,
        validate: 22 => fn(*const c_void, c_int, c_int) -> c_int,
        matches: 23 => fn(*const c_void, *const c_void, c_int) -> c_int,
        import: 40 => fn(*mut c_void, c_int, *const OsslParam) -> c_int,
        import_types: 41 => fn(c_int) -> *const OsslParam,
        export: 42 => fn(*mut c_void, c_int, Option<OsslCallback>, *mut c_void) -> c_int,
        export_types: 43 => fn(c_int) -> *const OsslParam,
        dup: 44 => fn(*const c_void, c_int) -> *mut c_void,
    }
}

table! {
    /// `OSSL_OP_KDF`.
    KdfFunctions of OP_KDF {
        newctx: 1 => fn(*mut c_void) -> *mut c_void,
        dupctx: 2 => fn(*mut c_void) -> *mut c_void,
        freectx: 3 => fn(*mut c_void),
        reset: 4 => fn(*mut c_void),
        derive: 5 => fn(*mut c_void, *mut c_uchar, usize, *const OsslParam) -> c_int,
        gettable_ctx_params: 7 => fn(*mut c_void, *mut c_void) -> *const OsslParam,
        settable_ctx_params: 8 => fn(*mut c_void, *mut c_void) -> *const OsslParam,
        get_ctx_params: 10 => fn(*mut c_void, *mut OsslParam) -> c_int,
        set_ctx_params: 11 => fn(*mut c_void, *const OsslParam) -> c_int,
    }
}

table! {
    /// `OSSL_OP_KEYEXCH`.
    KeyexchFunctions of OP_KEYEXCH {
        newctx: 1 => fn(*mut c_void) -> *mut c_void,
        init: 2 => fn(*mut c_void, *mut c_void, *const OsslParam) -> c_int,
        derive: 3 => fn(*mut c_void, *mut c_uchar, *mut usize, usize) -> c_int,
        set_peer: 4 => fn(*mut c_void, *mut c_void) -> c_int,
        freectx: 5 => fn(*mut c_void),
        dupctx: 6 => fn(*mut c_void) -> *mut c_void,
        set_ctx_params: 7 => fn(*mut c_void, *const OsslParam) -> c_int,
        settable_ctx_params: 8 => fn(*mut c_void, *mut c_void) -> *const OsslParam,
        get_ctx_params: 9 => fn(*mut c_void, *mut OsslParam) -> c_int,
        gettable_ctx_params: 10 => fn(*mut c_void, *mut c_void) -> *const OsslParam,
    }
}

table! {
    /// `OSSL_OP_SIGNATURE`.
    SignatureFunctions of OP_SIGNATURE {
        newctx: 1 => fn(*mut c_void, *const c_char) -> *mut c_void,
        sign_init: 2 => fn(*mut c_void, *mut c_void, *const OsslParam) -> c_int,
        sign: 3 => fn(
            *mut c_void, *mut c_uchar, *mut usize, usize, *const c_uchar, usize
        ) -> c_int,
        verify_init: 4 => fn(*mut c_void, *mut c_void, *const OsslParam) -> c_int,
        verify: 5 => fn(*mut c_void, *const c_uchar, usize, *const c_uchar, usize) -> c_int,
        verify_recover_init: 6 => fn(*mut c_void, *mut c_void, *const OsslParam) -> c_int,
        verify_recover: 7 => fn(
            *mut c_void, *mut c_uchar, *mut usize, usize, *const c_uchar, usize
        ) -> c_int,
        digest_sign_init: 8 => fn(
            *mut c_void, *const c_char, *mut c_void, *const OsslParam
        ) -> c_int,
        digest_sign_update: 9 => fn(*mut c_void, *const c_uchar, usize) -> c_int,
        digest_sign_final: 10 => fn(*mut c_void, *mut c_uchar, *mut usize, usize) -> c_int,
        digest_sign: 11 => fn(
            *mut c_void, *mut c_uchar, *mut usize, usize, *const c_uchar, usize
        ) -> c_int,
        digest_verify_init: 12 => fn(
            *mut c_void, *const c_char, *mut c_void, *const OsslParam
        ) -> c_int,
        digest_verify_update: 13 => fn(*mut c_void, *const c_uchar, usize) -> c_int,
        digest_verify_final: 14 => fn(*mut c_void, *const c_uchar, usize) -> c_int,
        digest_verify: 15 => fn(
            *mut c_void, *const c_uchar, usize, *const c_uchar, usize
        ) -> c_int,
        freectx: 16 => fn(*mut c_void),
        dupctx: 17 => fn(*mut c_void) -> *mut c_void,
        get_ctx_params: 18 => fn(*mut c_void, *mut OsslParam) -> c_int,
        gettable_ctx_params: 19 => fn(*mut c_void, *mut c_void) -> *const OsslParam,
        set_ctx_params: 20 => fn(*mut c_void, *const OsslParam) -> c_int,
        settable_ctx_params: 21 => fn(*mut c_void, *mut c_void) -> *const OsslParam,
        get_ctx_md_params: 22 => fn(*mut c_void, *mut OsslParam) -> c_int,
        gettable_ctx_md_params: 23 => fn(*mut c_void) -> *const OsslParam,
        set_ctx_md_params: 24 => fn(*mut c_void, *const OsslParam) -> c_int,
        settable_ctx_md_params: 25 => fn(*mut c_void) -> *const OsslParam,
        query_key_types: 26 => fn() -> *const *const c_char,
        sign_message_init: 27 => fn(*mut c_void, *mut c_void, *const OsslParam) -> c_int,
        verify_message_init: 30 => fn(*mut c_void, *mut c_void, *const OsslParam) -> c_int,
    }
}

table! {
    /// `OSSL_OP_ASYM_CIPHER`.
    AsymCipherFunctions of OP_ASYM_CIPHER {
        newctx: 1 => fn(*mut c_void) -> *mut c_void,
        encrypt_init: 2 => fn(*mut c_void, *mut c_void, *const OsslParam) -> c_int,
        encrypt: 3 => fn(
            *mut c_void, *mut c_uchar, *mut usize, usize, *const c_uchar, usize
        ) -> c_int,
        decrypt_init: 4 => fn(*mut c_void, *mut c_void, *const OsslParam) -> c_int,
        decrypt: 5 => fn(
            *mut c_void, *mut c_uchar, *mut usize, usize, *const c_uchar, usize
        ) -> c_int,
        freectx: 6 => fn(*mut c_void),
        dupctx: 7 => fn(*mut c_void) -> *mut c_void,
        get_ctx_params: 8 => fn(*mut c_void, *mut OsslParam) -> c_int,
        gettable_ctx_params: 9 => fn(*mut c_void, *mut c_void) -> *const OsslParam,
        set_ctx_params: 10 => fn(*mut c_void, *const OsslParam) -> c_int,
        settable_ctx_params: 11 => fn(*mut c_void, *mut c_void) -> *const OsslParam,
    }
}

table! {
    /// `OSSL_OP_KEM`.
    KemFunctions of OP_KEM {
        newctx: 1 => fn(*mut c_void) -> *mut c_void,
        encapsulate_init: 2 => fn(*mut c_void, *mut c_void, *const OsslParam) -> c_int,
        encapsulate: 3 => fn(
            *mut c_void, *mut c_uchar, *mut usize, *mut c_uchar, *mut usize
        ) -> c_int,
        decapsulate_init: 4 => fn(*mut c_void, *mut c_void, *const OsslParam) -> c_int,
        decapsulate: 5 => fn(
            *mut c_void, *mut c_uchar, *mut usize, *const c_uchar, usize
        ) -> c_int,
        freectx: 6 => fn(*mut c_void),
        dupctx: 7 => fn(*mut c_void) -> *mut c_void,
        set_ctx_params: 10 => fn(*mut c_void, *const OsslParam) -> c_int,
        settable_ctx_params: 11 => fn(*mut c_void, *mut c_void) -> *const OsslParam,
    }
}

table! {
    /// `OSSL_OP_ENCODER`.
    EncoderFunctions of OP_ENCODER {
        newctx: 1 => fn(*mut c_void) -> *mut c_void,
        freectx: 2 => fn(*mut c_void),
        set_ctx_params: 5 => fn(*mut c_void, *const OsslParam) -> c_int,
        settable_ctx_params: 6 => fn(*mut c_void) -> *const OsslParam,
        does_selection: 10 => fn(*mut c_void, c_int) -> c_int,
        encode: 11 => fn(
            *mut c_void, *mut OsslCoreBio, *const c_void, *const OsslParam, c_int,
            Option<OsslPassphraseCallback>, *mut c_void
        ) -> c_int,
        import_object: 20 => fn(*mut c_void, c_int, *const OsslParam) -> *mut c_void,
        free_object: 21 => fn(*mut c_void),
    }
}
