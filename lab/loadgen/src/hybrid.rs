//! Key exchange by a curve and ML-KEM together (RFC 10024). Every connection has a new key of
//! ML-KEM, as a client that sent the same share again would not be one that servers meet; the
//! curve's is that of all connections (`client_cost`), which saves the client a tenth of its work.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::crypto::aws_lc_rs::kx_group::{MLKEM768, MLKEM1024};
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};

use crate::client_cost::{SECP256R1_REUSED, SECP384R1_REUSED, X25519_REUSED};

/// ML-KEM-768 before X25519.
pub static X25519_MLKEM768: Hybrid = Hybrid {
    name: NamedGroup::X25519MLKEM768,
    curve: Part { group: &X25519_REUSED, server_share_bytes: 32 },
    ml_kem: Part { group: MLKEM768, server_share_bytes: 1088 },
    is_ml_kem_first: true,
};

/// P-256 before ML-KEM-768.
pub static SECP256R1_MLKEM768: Hybrid = Hybrid {
    name: NamedGroup::secp256r1MLKEM768,
    curve: Part { group: &SECP256R1_REUSED, server_share_bytes: 65 },
    ml_kem: Part { group: MLKEM768, server_share_bytes: 1088 },
    is_ml_kem_first: false,
};

/// P-384 before ML-KEM-1024, which rustls does not name.
pub static SECP384R1_MLKEM1024: Hybrid = Hybrid {
    name: NamedGroup::Unknown(0x11ED),
    curve: Part { group: &SECP384R1_REUSED, server_share_bytes: 97 },
    ml_kem: Part { group: MLKEM1024, server_share_bytes: 1568 },
    is_ml_kem_first: false,
};

/// Two groups whose shares, and whose secrets, follow each other.
pub struct Hybrid {
    name: NamedGroup,
    curve: Part,
    ml_kem: Part,
    is_ml_kem_first: bool,
}

/// Keys of ML-KEM that were made ahead, each for one connection; all of one parameter set.
static AHEAD: Mutex<Vec<Box<dyn ActiveKeyExchange>>> = Mutex::new(Vec::new());

fn ahead() -> MutexGuard<'static, Vec<Box<dyn ActiveKeyExchange>>> {
    AHEAD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One of them.
struct Part {
    group: &'static dyn SupportedKxGroup,
    server_share_bytes: usize,
}

impl Hybrid {
    /// Has `count` keys of ML-KEM lie ready, so that clients that are to keep a server busy do not
    /// make them meanwhile. Where there are not enough, connections make their own. Several threads
    /// may make them together.
    pub fn make_keys_ahead(&self, count: usize) {
        ahead().retain(|key| self.fits(&**key));
        while ahead().len() < count {
            let Ok(key) = self.ml_kem.group.start() else { return };
            ahead().push(key);
        }
    }

    fn fits(&self, key: &dyn ActiveKeyExchange) -> bool {
        key.group() == self.ml_kem.group.name()
    }

    fn key(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let made = ahead().pop_if(|key| self.fits(&**key));
        made.map_or_else(|| self.ml_kem.group.start(), Ok)
    }
}

impl fmt::Debug for Hybrid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.name)
    }
}

impl SupportedKxGroup for Hybrid {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut keys = [self.curve.group.start()?, self.key()?];
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
    fn every_connection_has_a_new_key_of_ml_kem() {
        let shares = [(); 2].map(|()| X25519_MLKEM768.start().expect("a random generator"));
        let [(one, one_of_curve), (other, other_of_curve)] =
            shares.each_ref().map(|exchange| exchange.pub_key().split_at(1184));
        assert!(one != other && one_of_curve == other_of_curve);
    }

    #[test]
    fn keys_of_another_parameter_set_do_not_stay() {
        SECP256R1_MLKEM768.make_keys_ahead(3);
        SECP384R1_MLKEM1024.make_keys_ahead(1);
        assert!(ahead().iter().all(|key| key.group() == NamedGroup::MLKEM1024));
    }

    #[test]
    fn keys_made_ahead_are_used_once() {
        SECP384R1_MLKEM1024.make_keys_ahead(3);
        let exchanges = [(); 5].map(|()| SECP384R1_MLKEM1024.start().expect("a random generator"));
        let mut shares = exchanges.each_ref().map(|exchange| exchange.pub_key().to_vec());
        shares.sort();
        assert!(shares.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn a_share_of_wrong_length_is_refused() {
        for length in [0, 1087, 1119, 1121] {
            let exchange = X25519_MLKEM768.start().expect("a random generator");
            assert!(exchange.complete(&vec![0; length]).is_err(), "{length}");
        }
    }
}
