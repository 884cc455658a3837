//! Key-exchange groups: which of them the installed OpenSSL has, and which it prefers.

use openssl::ssl::{SslContext, SslMethod};
use widelane_loadgen::{Group, TlsVersion};

/// The first version whose own list of groups begins with X25519MLKEM768.
const OPENSSL_3_5: i64 = 0x3050_0000;

/// The installed OpenSSL with its version: `OpenSSL 3.0.17`.
pub fn openssl() -> String {
    openssl::version::version().split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// Whether the installed OpenSSL has `group` without us.
pub fn is_native(group: Group) -> bool {
    let has_it = |mut builder: openssl::ssl::SslContextBuilder| {
        builder.set_groups_list(group.openssl_name()).is_ok()
    };
    SslContext::builder(SslMethod::tls()).is_ok_and(has_it)
}

/// What the installed OpenSSL would negotiate with a client that offers everything.
pub fn preferred(version: TlsVersion) -> Group {
    let has_ml_kem = version == TlsVersion::Tls13 && openssl::version::number() >= OPENSSL_3_5;
    if has_ml_kem && is_native(Group::X25519MlKem768) {
        Group::X25519MlKem768
    } else {
        Group::X25519
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_preferred_is_there() {
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            assert!(is_native(preferred(version)), "{version:?}");
        }
        assert_eq!(preferred(TlsVersion::Tls12), Group::X25519);
    }
}
