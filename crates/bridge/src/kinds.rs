//! Kinds of operations and ciphers: one row each, by which they are counted, stored and shown.
//!
//! A row has a number, which counters files use and which never changes its meaning, and a name
//! for people and files.

/// Declares an enum of kinds, with the list of all of them and their names.
macro_rules! kinds {
    (
        $(#[$about:meta])*
        enum $type:ident { $($(#[$doc:meta])* $kind:ident = $number:literal, $name:literal;)+ }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum $type {
            $($(#[$doc])* $kind = $number,)+
        }

        impl $type {
            /// All kinds, in the order of their numbers.
            pub const ALL: [$type; [$($number),+].len()] = [$($type::$kind),+];

            /// The kind's name, for people and files.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$kind => $name,)+
                }
            }
        }

        const _: () = {
            let mut index = 0;
            while index < $type::ALL.len() {
                assert!($type::ALL[index] as usize == index, "rows stand in the order of numbers");
                index += 1;
            }
        };
    };
}

/// Declares [`OperationKind`]; the last two columns are the [`Role`] and the
/// [price](OperationKind::price_us).
macro_rules! operations {
    ($($(#[$doc:meta])*
        $kind:ident = $number:literal, $name:literal, $role:ident, $price_us:literal;)+) => {
        kinds! {
            /// Kinds of operations that are counted apart. What has a number keeps it.
            enum OperationKind { $($(#[$doc])* $kind = $number, $name;)+ }
        }

        const ROLES: [Role; OperationKind::ALL.len()] = [$(Role::$role),+];
        const PRICES_US: [u32; OperationKind::ALL.len()] = [$($price_us),+];
    };
}

/// What a handshake needs an operation for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// An ephemeral key pair for a pool.
    Generation,
    /// A secret shared with a peer.
    Derivation,
    /// Verification of a peer's signature, or of one in its certificates.
    Verification,
    /// Anything else.
    Other,
}

operations! {
    /// RSA signature or decryption with a key of 2048 bits.
    Rsa2048 = 0, "rsa-2048", Other, 250;
    /// RSA signature or decryption with a key of 3072 bits.
    Rsa3072 = 1, "rsa-3072", Other, 750;
    /// RSA signature or decryption with a key of 4096 bits.
    Rsa4096 = 2, "rsa-4096", Other, 1700;
    /// X25519 key pair.
    X25519Generate = 3, "x25519-generate", Generation, 0;
    /// X25519 shared secret.
    X25519Derive = 4, "x25519-derive", Derivation, 40;
    /// Key pair on P-256.
    P256Generate = 5, "p256-generate", Generation, 0;
    /// ECDH on P-256.
    P256Derive = 6, "p256-derive", Derivation, 40;
    /// ECDSA signature on P-256.
    P256Sign = 7, "p256-sign", Other, 40;
    /// Key pair on P-384.
    P384Generate = 8, "p384-generate", Generation, 0;
    /// ECDH on P-384.
    P384Derive = 9, "p384-derive", Derivation, 600;
    /// ECDSA signature on P-384.
    P384Sign = 10, "p384-sign", Other, 600;
    /// Ed25519 signature.
    Ed25519Sign = 11, "ed25519-sign", Other, 40;
    /// Whatever is none of these and goes to the default provider.
    Other = 12, "other", Other, 40;
    /// Key pair of ML-KEM-512, alone or beside a curve.
    MlKem512Generate = 13, "mlkem512-generate", Generation, 0;
    /// Key pair of ML-KEM-768, alone or beside a curve.
    MlKem768Generate = 14, "mlkem768-generate", Generation, 0;
    /// Key pair of ML-KEM-1024, alone or beside a curve.
    MlKem1024Generate = 15, "mlkem1024-generate", Generation, 0;
    /// Encapsulation by X25519MLKEM768.
    X25519MlKem768Encapsulate = 16, "x25519mlkem768-encapsulate", Derivation, 80;
    /// Decapsulation by X25519MLKEM768.
    X25519MlKem768Decapsulate = 17, "x25519mlkem768-decapsulate", Derivation, 80;
    /// Encapsulation by ML-KEM-512.
    MlKem512Encapsulate = 18, "mlkem512-encapsulate", Derivation, 40;
    /// Decapsulation by ML-KEM-512.
    MlKem512Decapsulate = 19, "mlkem512-decapsulate", Derivation, 40;
    /// Encapsulation by ML-KEM-768.
    MlKem768Encapsulate = 20, "mlkem768-encapsulate", Derivation, 40;
    /// Decapsulation by ML-KEM-768.
    MlKem768Decapsulate = 21, "mlkem768-decapsulate", Derivation, 40;
    /// Encapsulation by ML-KEM-1024.
    MlKem1024Encapsulate = 22, "mlkem1024-encapsulate", Derivation, 40;
    /// Decapsulation by ML-KEM-1024.
    MlKem1024Decapsulate = 23, "mlkem1024-decapsulate", Derivation, 40;
    /// Encapsulation by SecP256r1MLKEM768.
    Secp256r1MlKem768Encapsulate = 24, "secp256r1mlkem768-encapsulate", Derivation, 100;
    /// Decapsulation by SecP256r1MLKEM768.
    Secp256r1MlKem768Decapsulate = 25, "secp256r1mlkem768-decapsulate", Derivation, 100;
    /// Encapsulation by SecP384r1MLKEM1024.
    Secp384r1MlKem1024Encapsulate = 26, "secp384r1mlkem1024-encapsulate", Derivation, 600;
    /// Decapsulation by SecP384r1MLKEM1024.
    Secp384r1MlKem1024Decapsulate = 27, "secp384r1mlkem1024-decapsulate", Derivation, 600;
    /// Verification of an ECDSA signature on P-256.
    P256Verify = 28, "p256-verify", Verification, 60;
    /// Verification of an ECDSA signature on P-384.
    P384Verify = 29, "p384-verify", Verification, 600;
}

impl OperationKind {
    /// The CPU time that OpenSSL needs for it on the machines of `records/`, roughly, in
    /// microseconds. Key pairs are part of the handshake that they are made for.
    pub const fn price_us(self) -> u32 {
        PRICES_US[self as usize]
    }

    /// Whether it derives a secret shared with a peer.
    pub const fn is_derivation(self) -> bool {
        matches!(ROLES[self as usize], Role::Derivation)
    }

    /// Whether it verifies a signature.
    pub const fn is_verification(self) -> bool {
        matches!(ROLES[self as usize], Role::Verification)
    }

    /// Whether it makes an ephemeral key pair for a pool, which the totals leave out: no handshake
    /// waits for it in a batch.
    pub const fn is_generation(self) -> bool {
        matches!(ROLES[self as usize], Role::Generation)
    }
}

kinds! {
    /// Ciphers that are counted apart. What has a number keeps it.
    enum CipherKind {
        /// AES-GCM with a key of 128 bits.
        Aes128Gcm = 0, "aes-128-gcm";
        /// AES-GCM with a key of 192 bits.
        Aes192Gcm = 1, "aes-192-gcm";
        /// AES-GCM with a key of 256 bits.
        Aes256Gcm = 2, "aes-256-gcm";
        /// ChaCha20-Poly1305.
        ChaCha20Poly1305 = 3, "chacha20-poly1305";
        /// AES-CBC with a key of 128 bits and HMAC-SHA-1.
        Aes128CbcHmacSha1 = 4, "aes-128-cbc-hmac-sha1";
        /// AES-CBC with a key of 256 bits and HMAC-SHA-1.
        Aes256CbcHmacSha1 = 5, "aes-256-cbc-hmac-sha1";
        /// AES-CBC with a key of 128 bits and HMAC-SHA-256.
        Aes128CbcHmacSha256 = 6, "aes-128-cbc-hmac-sha256";
        /// AES-CBC with a key of 256 bits and HMAC-SHA-256.
        Aes256CbcHmacSha256 = 7, "aes-256-cbc-hmac-sha256";
    }
}
