//! Session tickets, sealed with a key that lives a few hours.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rustls::crypto::GetRandomFailed;
use rustls::server::ProducesTickets;
use rustls::{Error, TicketRotator};
use widelane_crypto::aead::{Aead, Algorithm, Key, NONCE_BYTES, TAG_BYTES};

use crate::machine_policy;
use crate::random::Random;

/// How long a key seals tickets, in seconds; for as long again it opens them.
const LIFETIME_SECONDS: u32 = 6 * 60 * 60;

/// Bytes that name the key of a ticket.
const NAME_BYTES: usize = 16;

/// The cipher of tickets, in the room that the policy of the machine leaves open.
static AEAD: OnceLock<Aead> = OnceLock::new();

/// Makes session tickets, for servers that keep no sessions themselves:
/// `config.ticketer = Ticketer::new()?`.
///
/// A ticket is sealed by AES-256-GCM with a random nonce. Keys change every six hours; a ticket is
/// accepted for twelve at most.
#[derive(Debug)]
pub struct Ticketer(());

impl Ticketer {
    /// A new ticketer, with a new key of its own, under the policy of this machine (see
    /// [`default_provider`](crate::default_provider)).
    ///
    /// # Errors
    ///
    /// If that policy is malformed, or the operating system has no random bytes.
    #[expect(clippy::new_ret_no_self, reason = "rustls wants what makes tickets as a trait object")]
    pub fn new() -> Result<Arc<dyn ProducesTickets>, Error> {
        let policy = machine_policy().map_err(|error| Error::General(error.to_string()))?;
        AEAD.get_or_init(|| Aead::choose(Algorithm::Aes256Gcm, &policy));
        Ok(Arc::new(TicketRotator::new(LIFETIME_SECONDS, || Ok(Box::new(SealedTickets::new()?)))?))
    }
}

/// The tickets of one key: its name, a nonce, the sealed session, and a tag.
struct SealedTickets {
    name: [u8; NAME_BYTES],
    key: Key,
    /// Bytes of the longest ticket so far: a longer one is not ours, and is not worth an opening.
    longest: AtomicUsize,
}

impl SealedTickets {
    fn new() -> Result<Self, GetRandomFailed> {
        let (name, key) = (Random::draw()?, Random::<32>::draw()?);
        let aead = AEAD.get().expect("a ticketer has chosen its cipher");
        let key = aead.key(&key[..]).expect("AES-256 has keys of 32 bytes");
        Ok(SealedTickets { name: *name, key, longest: AtomicUsize::new(0) })
    }
}

impl ProducesTickets for SealedTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        2 * LIFETIME_SECONDS
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let nonce: Random<NONCE_BYTES> = Random::draw().ok()?;
        let mut ticket = [&self.name[..], &nonce[..], plain].concat();
        let mut tag = [0; TAG_BYTES];
        let text = &mut ticket[NAME_BYTES + NONCE_BYTES..];
        self.key.seal_in_place(&nonce[..], &self.name, text, &mut tag).ok()?;
        ticket.extend_from_slice(&tag);
        self.longest.fetch_max(ticket.len(), Ordering::Relaxed);
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        if ticket.len() > self.longest.load(Ordering::Relaxed) {
            return None;
        }
        let rest = ticket.strip_prefix(&self.name)?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE_BYTES>()?;
        let (sealed, tag) = rest.split_last_chunk::<TAG_BYTES>()?;
        let mut plain = vec![0; sealed.len()];
        self.key.open(nonce, &self.name, sealed, &mut plain, tag).ok()?;
        Some(plain)
    }
}

impl fmt::Debug for SealedTickets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SealedTickets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_any_ticket_so_far_is_not_opened() {
        Ticketer::new().expect("a policy");
        let one = SealedTickets::new().expect("random bytes");
        let short = one.encrypt(&[1; 10]).expect("a ticket");
        let long = one.encrypt(&[2; 11]).expect("a ticket");
        assert_eq!(one.decrypt(&long), Some(vec![2; 11]));
        one.longest.store(short.len(), Ordering::Relaxed);
        assert_eq!(one.decrypt(&short), Some(vec![1; 10]));
        assert_eq!(one.decrypt(&long), None);
    }
}
