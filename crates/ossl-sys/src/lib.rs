//! OpenSSL's C API as the provider uses it, declared by hand and resolved at run time.
//!
//! [`core`] holds the structures and numbers of `openssl/core.h`, `core_dispatch.h` and
//! `core_names.h`, which OpenSSL promises to keep from 3.0 on. [`dispatch`] holds the function
//! tables of the provider itself and of the operations that we serve. [`Libcrypto`] holds the few
//! public functions that we call, looked up in the libcrypto that called us: nothing here links
//! against OpenSSL, so one file serves every version, even where libcrypto was loaded without
//! exporting its symbols to others.
//!
//! **Invariant**: declarations only, and the loading of the table; no policy, no state.

pub mod core;
pub mod dispatch;
mod libcrypto;

pub use libcrypto::{AsyncCallback, Libcrypto, LibcryptoError, WaitCleanup};
