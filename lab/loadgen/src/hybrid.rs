//! Key exchange by a curve and ML-KEM together (RFC 10024), with the key pairs that all connections
//! share (`client_cost`).

use std::fmt;

use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};

use crate::client_cost::{
    ML_KEM_768_REUSED, ML_KEM_1024_REUSED, SECP256R1_REUSED, SECP384R1_REUSED, X25519_REUSED,
};

/// ML-KEM-768 before X25519.
pub static X25519_MLKEM768: Hybrid = Hybrid {
    name: NamedGroup::X25519MLKEM768,
    curve: Part { group: &X25519_REUSED, server_share_bytes: 32 },
    ml_kem: Part { group: &ML_KEM_768_REUSED, server_share_bytes: 1088 },
    is_ml_kem_first: true,
};

/// P-256 before ML-KEM-768.
pub static SECP256R1_MLKEM768: Hybrid = Hybrid {
    name: NamedGroup::secp256r1MLKEM768,
    curve: Part { group: &SECP256R1_REUSED, server_share_bytes: 65 },
    ml_kem: Part { group: &ML_KEM_768_REUSED, server_share_bytes: 1088 },
    is_ml_kem_first: false,
};

/// P-384 before ML-KEM-1024, which rustls does not name.
pub static SECP384R1_MLKEM1024: Hybrid = Hybrid {
    name: NamedGroup::Unknown(0x11ED),
    curve: Part { group: &SECP384R1_REUSED, server_share_bytes: 97 },
    ml_kem: Part { group: &ML_KEM_1024_REUSED, server_share_bytes: 1568 },
    is_ml_kem_first: false,
};

/// Two groups whose shares, and whose secrets, follow each other.
pub struct Hybrid {
    name: NamedGroup,
    curve: Part,
    ml_kem: Part,
    is_ml_kem_first: bool,
}

/// One of them.
struct Part {
    group: &'static dyn SupportedKxGroup,
    server_share_bytes: usize,
}

impl fmt::Debug for Hybrid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.name)
    }
}

impl SupportedKxGroup for Hybrid {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut keys = [self.curve.group.start()?, self.ml_kem.group.start()?];
        let mut server_share_bytes =
            [&self.curve, &self.ml_kem].map(|part| part.server_share_bytes);
        if self.is_ml_kem_first {
            keys.reverse();
            server_share_bytes.reverse();
        }
        let share = [keys[0].pub_key(), keys[1].pub_key()].concat();
        Ok(Box::new(Exchange { name: self.name, keys, share, server_share_bytes }))
    }

    fn name(&self) -> NamedGroup {
        self.name
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

/// The exchange of one connection.
struct Exchange {
    name: NamedGroup,
    keys: [Box<dyn ActiveKeyExchange>; 2],
    share: Vec<u8>,
    server_share_bytes: [usize; 2],
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let [of_first, of_second] = self.server_share_bytes;
        let (first, second) = match peer.split_at_checked(of_first) {
            Some(shares) if shares.1.len() == of_second => shares,
            _ => return Err(PeerMisbehaved::InvalidKeyShare.into()),
        };
        let [first_key, second_key] = self.keys;
        let (first, second) = (first_key.complete(first)?, second_key.complete(second)?);
        Ok(SharedSecret::from([first.secret_bytes(), second.secret_bytes()].concat()))
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn group(&self) -> NamedGroup {
        self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Client shares by RFC 10024, section 4.2.
    #[test]
    fn shares_have_their_lengths_and_order() {
        let all = [
            (&X25519_MLKEM768, 1184, 32),
            (&SECP256R1_MLKEM768, 65, 1184),
            (&SECP384R1_MLKEM1024, 97, 1568),
        ];
        for (group, first, second) in all {
            let exchange = group.start().expect("a random generator");
            assert_eq!(exchange.pub_key().len(), first + second, "{group:?}");
            // A point that is not compressed begins with 4.
            assert_eq!(exchange.pub_key()[0] == 4, first < second, "{group:?}");
        }
    }

    #[test]
    fn a_share_of_wrong_length_is_refused() {
        for length in [0, 1087, 1119, 1121] {
            let exchange = X25519_MLKEM768.start().expect("a random generator");
            assert!(exchange.complete(&vec![0; length]).is_err(), "{length}");
        }
    }
}
