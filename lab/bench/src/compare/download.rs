//! What is downloaded: the length of the body, and what protects it.

use std::fmt;

use widelane_loadgen::Cipher;

/// A body of some length under some cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Download {
    /// The cipher.
    pub cipher: Cipher,
    /// Length of the body.
    pub bytes: u64,
}

impl fmt::Display for Download {
    /// Cipher and length as scenarios have them: `aes128-gcm/16MiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        const GIB: u64 = 1 << 30;
        let (count, unit) = match self.bytes {
            bytes if bytes % GIB == 0 => (bytes / GIB, "GiB"),
            bytes if bytes % MIB == 0 => (bytes / MIB, "MiB"),
            bytes => (bytes, "B"),
        };
        write!(f, "{}/{count}{unit}", self.cipher.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_told_in_the_unit_that_divides_them() {
        let path = |bytes| Download { cipher: Cipher::Aes128Gcm, bytes }.to_string();
        assert_eq!(path(16 << 20), "aes128-gcm/16MiB");
        assert_eq!(path(1 << 30), "aes128-gcm/1GiB");
        assert_eq!(path(1000), "aes128-gcm/1000B");
    }
}
