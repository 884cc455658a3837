//! One cipher against another: AES-128-GCM and AES-128-CBC with HMAC-SHA1, record by record.
//!
//! Both are asked for as libssl asks for them, once of OpenSSL alone and once with our provider
//! preferred, which leaves to OpenSSL what it does not offer.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use openssl::cipher::Cipher;
use openssl::error::ErrorStack;
use widelane_crypto::aead::{NONCE_BYTES, TAG_BYTES};
use widelane_results::{Pair, Results, Row, Status};

use super::benchmark::{Runner, in_turn};
use super::evp::{Records, Stitched, Way, default_cipher};
use super::interleaved::{Implementation, Interleaved, Subject, Timed};
use super::rows::{cycles, per_second};
use super::{Plan, SpeedError, stay_on_this_cpu};
use crate::Observer;
use crate::pairs::{self, Basis};
use crate::stats::{self, median};

const GCM: &str = "AES-128-GCM";
const CBC_HMAC: &str = "AES-128-CBC-HMAC-SHA1";
const KEY: [u8; 16] = [3; 16];
const MAC_KEY: [u8; 20] = [9; 20];
const NONCE: [u8; NONCE_BYTES] = [7; NONCE_BYTES];
const AAD: [u8; 13] = [1; 13];

/// The longest text of a record.
const RECORD_BYTES_MAX: usize = 16 << 10;

const CIPHER_RATIO: (&str, &str) = ("cipher_ratio", "1");
const CYCLES_PER_BYTE: (&str, &str) = ("cycles_per_byte", "cycles/B");

/// Times both ciphers at the sizes of `plan`, and fills up `results`.
///
/// # Errors
///
/// See [`SpeedError`]; what was measured before is in `results` all the same.
pub fn run(
    plan: &Plan,
    results: &mut Results,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<(), SpeedError> {
    let began = Instant::now();
    stay_on_this_cpu(results);
    let (sizes, too_long): (Vec<usize>, Vec<usize>) =
        plan.sizes.iter().partition(|size| **size <= RECORD_BYTES_MAX);
    if !too_long.is_empty() {
        let note = format!("Records hold {RECORD_BYTES_MAX} bytes at most: {too_long:?} left out.");
        results.note(note);
    }
    if let (true, Some(size)) = (sizes.is_empty(), too_long.first()) {
        let (operation, most) = ("--cipher-compare".to_owned(), RECORD_BYTES_MAX);
        return Err(SpeedError::Size { operation, most, size: *size });
    }
    observer.planned(sizes.len() as u64 * u64::from(plan.rounds.least));
    let openssl = |cipher: &'static str| {
        default_cipher(cipher).map_err(|source| SpeedError::Cipher { cipher, source })
    };
    let provider = super::provider(plan);
    let mut clock = super::clock(results);
    for size in sizes {
        let scenario = format!("cipher-compare/{size}");
        observer.began(&scenario);
        let mut subjects = vec![
            (Implementation::Openssl, gcm(&openssl(GCM)?, size)?),
            (Implementation::OpensslCbc, cbc_hmac(&openssl(CBC_HMAC)?, size)?),
        ];
        let mut precise = vec![(Implementation::Openssl, Implementation::OpensslCbc)];
        match &provider {
            Ok(provider) => {
                subjects.push((Implementation::Provider, gcm(&provider.preferred(GCM)?, size)?));
                subjects.push((
                    Implementation::ProviderCbc,
                    cbc_hmac(&provider.preferred(CBC_HMAC)?, size)?,
                ));
                precise.push((Implementation::Provider, Implementation::ProviderCbc));
            }
            Err(reason) => results.rows.push(missing(&scenario, reason)),
        }
        let blank = vec![vec![0; Stitched::record_bytes(size, MAC_KEY.len())]];
        check(&scenario, &mut subjects, &blank)?;
        let subjects = subjects
            .into_iter()
            .map(|(implementation, run)| Subject { implementation, timed: Timed::Here(run) });
        let mut interleaved = Interleaved {
            scenario: &scenario,
            subjects: subjects.collect(),
            outputs: blank,
            rounds: plan.rounds,
            window: plan.window.unwrap_or(super::WINDOW_SIZED),
            precise,
            clock: &clock,
        };
        let mut pairs = interleaved.rounds(stop, observer)?;
        let implementations = interleaved.implementations();
        drop(interleaved);
        super::confirm(&mut clock, &mut pairs, &scenario, results);
        write_rows(&scenario, size, &implementations, &pairs, &mut results.rows);
        results.pairs.extend(pairs);
        results.duration_s = began.elapsed().as_secs_f64();
        observer.ended(results);
    }
    results.complete = true;
    observer.ended(results);
    Ok(())
}

/// Sealing of a text of `size` bytes at the beginning of the output.
fn gcm(cipher: &Cipher, size: usize) -> Result<Runner<'static>, ErrorStack> {
    let mut records = Records::new(cipher, &KEY, Way::Seal)?;
    let mut tag = [0; TAG_BYTES];
    Ok(in_turn(move |_, output| records.seal(&NONCE, &AAD, &mut output[..size], &mut tag)))
}

/// A record of TLS 1.2 that takes up the output.
fn cbc_hmac(cipher: &Cipher, size: usize) -> Result<Runner<'static>, ErrorStack> {
    let mut records = Stitched::new(cipher, &KEY, &MAC_KEY, Way::Seal)?;
    Ok(in_turn(move |_, output| records.seal(size, output)))
}

/// Makes sure that both ciphers of our provider make of a `blank` record what OpenSSL's make.
fn check(
    scenario: &str,
    subjects: &mut [(Implementation, Runner<'static>)],
    blank: &[Vec<u8>],
) -> Result<(), SpeedError> {
    let mut sealed = Vec::new();
    for (implementation, run) in subjects {
        let mut outputs = blank.to_vec();
        run(&mut outputs)?;
        sealed.push((*implementation, outputs));
    }
    let of = |wanted: Implementation| {
        sealed
            .iter()
            .find(|(implementation, _)| *implementation == wanted)
            .map(|(_, record)| record)
    };
    for (ours, openssl) in [
        (Implementation::Provider, Implementation::Openssl),
        (Implementation::ProviderCbc, Implementation::OpensslCbc),
    ] {
        if of(ours).is_some_and(|record| Some(record) != of(openssl)) {
            let (room, scenario) = (ours.label(), scenario.to_owned());
            return Err(SpeedError::Wrong { room, scenario });
        }
    }
    Ok(())
}

/// The row of the provider where it is not there.
fn missing(scenario: &str, reason: &str) -> Row {
    let (metric, unit) = CIPHER_RATIO;
    Row {
        scenario: scenario.to_owned(),
        subject: Implementation::Provider.subject().to_owned(),
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        status: Status::NotApplicable,
        reason: Some(reason.to_owned()),
        ..Row::default()
    }
}

fn write_rows(
    scenario: &str,
    size: usize,
    all: &[Implementation],
    pairs: &[Pair],
    rows: &mut Vec<Row>,
) {
    let row = |scenario: &str,
               implementation: Implementation,
               (metric, unit): (&str, &str),
               value,
               basis: &Basis<'_>| Row {
        scenario: scenario.to_owned(),
        subject: implementation.subject().to_owned(),
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        value,
        status: basis.status(),
        reason: basis.objection.clone(),
        ..Row::default()
    };
    for (gcm, cbc) in [
        (Implementation::Openssl, Implementation::OpensslCbc),
        (Implementation::Provider, Implementation::ProviderCbc),
    ] {
        if !all.contains(&gcm) {
            continue;
        }
        let both = [gcm, cbc].map(Implementation::label);
        let basis = pairs::basis(pairs, &both);
        let ratio = stats::ratio(&basis.both(both, per_second));
        rows.push(Row {
            ratio_low: ratio.and_then(|ratio| ratio.low()),
            ratio_high: ratio.and_then(|ratio| ratio.high()),
            ..row(scenario, gcm, CIPHER_RATIO, ratio.map(|ratio| ratio.value), &basis)
        });
        for (implementation, cipher) in [(gcm, GCM), (cbc, CBC_HMAC)] {
            let basis = pairs::basis(pairs, &[implementation.label()]);
            let per_byte = median(&basis.values(implementation.label(), cycles))
                .map(|cycles| cycles / size as f64);
            let path = format!("{}/record/{size}", cipher.to_lowercase());
            rows.push(row(&path, gcm, CYCLES_PER_BYTE, per_byte, &basis));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cipher_that_seals_something_else_is_found() {
        let sealing = |byte: u8| -> Runner<'static> {
            in_turn(move |_, output| {
                output.fill(byte);
                Ok(())
            })
        };
        let all = |ours: u8| {
            [
                (Implementation::Openssl, 1),
                (Implementation::OpensslCbc, 2),
                (Implementation::Provider, 1),
                (Implementation::ProviderCbc, ours),
            ]
            .map(|(implementation, byte)| (implementation, sealing(byte)))
        };
        let blank = vec![vec![0; 32]];
        check("s", &mut all(2), &blank).unwrap();
        let wrong = check("s", &mut all(3), &blank).unwrap_err().to_string();
        assert!(wrong.contains("widelane-evp-cbc-hmac gives a wrong result for s"), "{wrong}");
        check("s", &mut all(3)[..2], &blank).unwrap();
    }
}
