//! What the command line of `compare` says: keys, versions, lengths, times.

use std::time::Duration;

use anyhow::bail;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use widelane_bench::compare;
use widelane_bench::server::{Key, WaitLimit};
use widelane_cli::units;
use widelane_loadgen::{Cipher, Group};

use super::Keys;

/// The keys of one server: a name, or two of different kinds joined by `+`.
pub fn keys(text: &str) -> Result<Keys, String> {
    let keys = text.split('+').map(key).collect::<Result<Vec<Key>, String>>()?;
    match keys[..] {
        [_] => Ok(Keys(keys)),
        // A server has a place for one certificate of each family.
        [first, second] if first.family() != second.family() => Ok(Keys(keys)),
        _ => Err("two keys of different kinds at most, such as rsa2048+ecdsa-p256".to_owned()),
    }
}

fn key(name: &str) -> Result<Key, String> {
    let known = Key::ALL.into_iter().find(|key| key.to_string() == name);
    known.ok_or_else(|| format!("the keys are {}", key_names()))
}

fn key_names() -> String {
    Key::ALL.map(|key| key.to_string()).join(", ")
}

pub fn keys_help() -> String {
    format!(
        "Keys to make certificates for: {}; two joined by + for a server that shows either, each \
         to half of the clients [default: rsa2048; of handshakes with --quick ecdsa-p256 and \
         rsa2048]",
        key_names()
    )
}

/// One of the ciphers that every server has in both versions.
pub fn usual_ciphers() -> impl TypedValueParser<Value = Cipher> {
    one_of([Cipher::Aes256Gcm, Cipher::Aes128Gcm, Cipher::Chacha20Poly1305], Cipher::name)
}

/// A group of the key exchange.
pub fn groups() -> impl TypedValueParser<Value = Group> {
    one_of(Group::ALL, Group::name)
}

/// A limit to how long operations wait for company.
pub fn wait_limits() -> impl TypedValueParser<Value = WaitLimit> {
    one_of(WaitLimit::ALL, |limit| limit.option)
}

/// One of `all`, which the help lists by their names.
fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name_of: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.map(name_of)).map(move |name| {
        let named = all.into_iter().find(|it| name_of(*it) == name);
        named.expect("the parser lets only their names pass")
    })
}

/// A distance of clients.
pub fn round_trip(text: &str) -> Result<Duration, String> {
    let time = units::duration(text)?;
    let within = (1..=500).contains(&time.as_millis());
    within.then_some(time).ok_or_else(|| format!("a round trip is 1ms to 500ms here, not {text}"))
}

/// A number of cores that servers can have here.
pub fn server_cores(text: &str) -> Result<u16, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    let count: u16 = count.ok_or_else(|| "expected a number of cores, from 1 on".to_owned())?;
    compare::check_cores(count.into()).map(|()| count)
}

/// A partial load, in percent.
pub fn load(text: &str) -> Result<u8, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let within = percent.filter(|percent| (1..=95).contains(percent));
    within.ok_or_else(|| {
        "expected percent of what the native server can do, from 1 to 95; it is saturated above"
            .to_owned()
    })
}

/// Whether one was there before.
pub fn has_twins<T: PartialEq>(all: &[T]) -> bool {
    all.iter().enumerate().any(|(at, one)| all[..at].contains(one))
}

/// Refuses the first of some flags that names one thing twice.
pub fn refuse_twins(lists: &[(&str, bool)]) -> anyhow::Result<()> {
    match lists.iter().find(|(_, has_twins)| *has_twins) {
        Some((flag, _)) => bail!("{flag} names one twice; say each once"),
        None => Ok(()),
    }
}

/// Lengths between which downloads are useful, and a server's disk is not filled.
const SIZE_MIN: u64 = 1 << 10;
const SIZE_MAX: u64 = 1 << 32;

/// A length of downloads: a number with K, M or G after it, for powers of 1024, or without.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = units::bytes(text).ok();
    let within = bytes.filter(|bytes| (SIZE_MIN..=SIZE_MAX).contains(bytes));
    within.ok_or_else(|| "expected a length between 1K and 4G, such as 16M".to_owned())
}
