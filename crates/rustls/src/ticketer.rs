//! Session tickets, sealed with keys that live a few hours.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use rustls::Error;
use rustls::crypto::GetRandomFailed;
use rustls::server::ProducesTickets;
use widelane_cpu::Policy;
use widelane_cpu::clock::now_ns;
use widelane_crypto::aead::{Aead, Algorithm, Key, NONCE_BYTES, TAG_BYTES};

use crate::machine_policy;
use crate::random::Random;

/// How long a key seals tickets, in seconds; for as long again it opens them.
const LIFETIME_SECONDS: u32 = 6 * 60 * 60;

/// The same in nanoseconds.
const LIFETIME_NS: u64 = LIFETIME_SECONDS as u64 * 1_000_000_000;

/// Bytes that name the key of a ticket.
const NAME_BYTES: usize = 16;

/// Makes session tickets, for servers that keep no sessions themselves:
/// `config.ticketer = Ticketer::new()?`.
///
/// A ticket is sealed by AES-256-GCM with a random nonce. A key seals tickets for six hours, and is
/// refused twelve hours after it was made; time in which the machine sleeps does not count. It is
/// wiped when a ticket is made or shown after that.
pub struct Ticketer {
    aead: Aead,
    keys: RwLock<Keys>,
}

/// The key that seals tickets, and the one before, which opens them.
struct Keys {
    current: TicketKey,
    previous: Option<TicketKey>,
}

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
        Self::under(&policy)
    }

    /// A new ticketer, with a new key of its own, under `policy`, as [`provider`](crate::provider)
    /// takes it.
    ///
    /// # Errors
    ///
    /// If the operating system has no random bytes.
    pub fn under(policy: &Policy) -> Result<Arc<dyn ProducesTickets>, Error> {
        Ok(Arc::new(Self::made_at(now_ns(), policy)?))
    }

    fn made_at(now_ns: u64, policy: &Policy) -> Result<Self, GetRandomFailed> {
        let aead = Aead::choose(Algorithm::Aes256Gcm, policy);
        let current = TicketKey::draw(&aead, now_ns)?;
        Ok(Ticketer { aead, keys: RwLock::new(Keys { current, previous: None }) })
    }

    /// The keys, after a new one has taken the place of one that has sealed long enough.
    fn keys_at(&self, now_ns: u64) -> RwLockReadGuard<'_, Keys> {
        let read = || self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let keys = read();
        if keys.current.seals_at(now_ns) {
            return keys;
        }
        drop(keys);
        if let Ok(next) = TicketKey::draw(&self.aead, now_ns) {
            let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
            if !keys.current.seals_at(now_ns) {
                let last = mem::replace(&mut keys.current, next);
                keys.previous = last.opens_at(now_ns).then_some(last);
            }
        }
        read()
    }

    fn encrypt_at(&self, now_ns: u64, plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.keys_at(now_ns);
        if keys.current.seals_at(now_ns) { keys.current.seal(plain) } else { None }
    }

    fn decrypt_at(&self, now_ns: u64, ticket: &[u8]) -> Option<Vec<u8>> {
        let keys = self.keys_at(now_ns);
        let all = [Some(&keys.current), keys.previous.as_ref()].into_iter().flatten();
        all.filter(|key| key.opens_at(now_ns)).find_map(|key| key.open(ticket))
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        2 * LIFETIME_SECONDS
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.encrypt_at(now_ns(), plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.decrypt_at(now_ns(), ticket)
    }
}

impl fmt::Debug for Ticketer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ticketer").finish_non_exhaustive()
    }
}

/// A key with its name. A ticket is the name, a nonce, the sealed session, and a tag.
struct TicketKey {
    made_ns: u64,
    name: [u8; NAME_BYTES],
    key: Key,
    /// Bytes of the longest ticket so far: a longer one is not ours, and is not worth an opening.
    longest: AtomicUsize,
}

impl TicketKey {
    fn draw(aead: &Aead, now_ns: u64) -> Result<Self, GetRandomFailed> {
        let (name, key) = (Random::draw()?, Random::<32>::draw()?);
        let key = aead.key(&key[..]).expect("AES-256 has keys of 32 bytes");
        Ok(TicketKey { made_ns: now_ns, name: *name, key, longest: AtomicUsize::new(0) })
    }

    fn seals_at(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.made_ns) < LIFETIME_NS
    }

    fn opens_at(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.made_ns) < 2 * LIFETIME_NS
    }

    fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let nonce: Random<NONCE_BYTES> = Random::draw().ok()?;
        let mut ticket = [&self.name[..], &nonce[..], plain].concat();
        let mut tag = [0; TAG_BYTES];
        let text = &mut ticket[NAME_BYTES + NONCE_BYTES..];
        self.key.seal_in_place(&nonce[..], &self.name, text, &mut tag).ok()?;
        ticket.extend_from_slice(&tag);
        self.longest.fetch_max(ticket.len(), Ordering::Relaxed);
        Some(ticket)
    }

    fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
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

#[cfg(test)]
mod tests {
    use widelane_cpu::Width;

    use super::*;

    fn made_at(now_ns: u64) -> Ticketer {
        Ticketer::made_at(now_ns, &Policy::open()).expect("random bytes")
    }

    #[test]
    fn what_is_longer_than_any_ticket_so_far_is_not_opened() {
        let one = made_at(0).keys.into_inner().expect("keys").current;
        let short = one.seal(&[1; 10]).expect("a ticket");
        let long = one.seal(&[2; 11]).expect("a ticket");
        assert_eq!(one.open(&long), Some(vec![2; 11]));
        one.longest.store(short.len(), Ordering::Relaxed);
        assert_eq!(one.open(&short), Some(vec![1; 10]));
        assert_eq!(one.open(&long), None);
    }

    #[test]
    fn every_ticketer_keeps_to_its_policy() {
        for width in [Width::W128, Width::W512, Width::W128] {
            let policy = Policy::up_to(width);
            let ticketer = Ticketer::made_at(0, &policy).expect("random bytes");
            let room = ticketer.keys_at(0).current.key.room();
            assert_eq!(room, Aead::choose(Algorithm::Aes256Gcm, &policy).room());
            assert!(policy.allows(room), "{room}");
        }
    }

    #[test]
    fn a_key_seals_for_six_hours_and_opens_for_twelve() {
        let ticketer = made_at(7);
        let first = ticketer.encrypt_at(7, b"first").expect("a ticket");
        let last = ticketer.encrypt_at(6 + LIFETIME_NS, b"last").expect("a ticket");
        let next = ticketer.encrypt_at(7 + LIFETIME_NS, b"next").expect("a ticket");
        assert_eq!(first[..NAME_BYTES], last[..NAME_BYTES]);
        assert_ne!(first[..NAME_BYTES], next[..NAME_BYTES]);
        let late = 6 + 2 * LIFETIME_NS;
        assert_eq!(ticketer.decrypt_at(late, &first).as_deref(), Some(&b"first"[..]));
        assert_eq!(ticketer.decrypt_at(late, &next).as_deref(), Some(&b"next"[..]));
        assert_eq!(ticketer.decrypt_at(late + 1, &last), None);
        assert_eq!(ticketer.decrypt_at(late + 1, &next).as_deref(), Some(&b"next"[..]));
    }

    #[test]
    fn an_idle_server_opens_no_old_ticket() {
        let ticketer = made_at(0);
        let friday = ticketer.encrypt_at(0, b"friday").expect("a ticket");
        let monday = 10 * LIFETIME_NS;
        assert_eq!(ticketer.decrypt_at(monday, &friday), None);
        assert!(ticketer.keys_at(monday).previous.is_none(), "its key is gone");
        // Time is that of a thread, which others may have overtaken.
        let ticket = ticketer.encrypt_at(monday - 1, b"monday").expect("a ticket");
        assert!(ticketer.decrypt_at(monday, &ticket).is_some());
    }
}
