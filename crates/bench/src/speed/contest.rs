//! What is timed: an operation of an algorithm, as OpenSSL does it and as we do it.

use openssl::error::ErrorStack;
use thiserror::Error;
use widelane_cpu::Policy;
use widelane_crypto::ec::Curve;
use widelane_crypto::rsa::KeySize;

use super::{SpeedError, ec, ed25519, rsa, x25519};

/// Inputs that a contest holds: the widest batch of any room.
pub const LANES_MAX: usize = 8;

/// Does as many operations as go at once, the result of each in the output of its lane, and returns
/// how many came out well.
pub type Runner<'a> = Box<dyn FnMut(&mut [Vec<u8>]) -> Result<u64, ErrorStack> + 'a>;

/// One operation with keys and inputs for [`LANES_MAX`] lanes.
pub trait Contest {
    /// Length of a result.
    fn output_len(&self) -> usize;

    /// OpenSSL's own operation, one at a time, its contexts made beforehand.
    fn openssl(&self) -> Result<Runner<'_>, ErrorStack>;

    /// Ours, a full batch at a time, in the widest room that `policy` leaves open.
    fn widelane(&self, policy: &Policy) -> Ours<'_>;

    /// Whether OpenSSL agrees with what we put out for `lane`.
    fn is_right(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack>;
}

/// Our side of a contest.
pub struct Ours<'a> {
    /// Jobs in a full batch.
    pub lanes: usize,
    /// Does one batch.
    pub run: Runner<'a>,
}

/// A runner that takes the lanes in turn, one operation at a time.
pub fn in_turn<'a>(
    mut operation: impl FnMut(usize, &mut [u8]) -> Result<(), ErrorStack> + 'a,
) -> Runner<'a> {
    let mut lanes = (0..LANES_MAX).cycle();
    Box::new(move |outputs| {
        for lane in lanes.by_ref().take(1) {
            operation(lane, &mut outputs[lane])?;
        }
        Ok(1)
    })
}

/// What can be timed: an algorithm's operation by name, and how its contest is made.
pub struct Event {
    /// The algorithm.
    pub algorithm: &'static str,
    /// The operation.
    pub operation: &'static str,
    /// Makes keys and inputs.
    pub make: fn() -> Result<Box<dyn Contest>, SpeedError>,
}

impl Event {
    /// The path of its results: `x25519/derive`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.algorithm, self.operation)
    }
}

/// Everything that can be timed.
pub static EVENTS: [Event; 15] = [
    event("rsa2048", "private", || Ok(Box::new(rsa::Private::new(KeySize::Rsa2048)?))),
    event("rsa3072", "private", || Ok(Box::new(rsa::Private::new(KeySize::Rsa3072)?))),
    event("rsa4096", "private", || Ok(Box::new(rsa::Private::new(KeySize::Rsa4096)?))),
    event("x25519", "derive", || Ok(Box::new(x25519::Derive::new()?))),
    event("x25519", "generate", || Ok(Box::new(x25519::Generate::new()?))),
    event("ed25519", "sign", || Ok(Box::new(ed25519::Sign::new()?))),
    event("ed25519", "verify", || Ok(Box::new(ed25519::Verify::new()?))),
    event("ecdsa-p256", "sign", || Ok(Box::new(ec::Sign::new(Curve::P256)?))),
    event("ecdsa-p256", "verify", || Ok(Box::new(ec::Verify::new(Curve::P256)?))),
    event("ecdsa-p384", "sign", || Ok(Box::new(ec::Sign::new(Curve::P384)?))),
    event("ecdsa-p384", "verify", || Ok(Box::new(ec::Verify::new(Curve::P384)?))),
    event("ecdh-p256", "derive", || Ok(Box::new(ec::Derive::new(Curve::P256)?))),
    event("ecdh-p256", "generate", || Ok(Box::new(ec::Generate::new(Curve::P256)?))),
    event("ecdh-p384", "derive", || Ok(Box::new(ec::Derive::new(Curve::P384)?))),
    event("ecdh-p384", "generate", || Ok(Box::new(ec::Generate::new(Curve::P384)?))),
];

const fn event(
    algorithm: &'static str,
    operation: &'static str,
    make: fn() -> Result<Box<dyn Contest>, SpeedError>,
) -> Event {
    Event { algorithm, operation, make }
}

/// A name that nothing has.
#[derive(Debug, Error)]
#[error(
    "there is no algorithm {name:?}; there are {}, each with or without its operation \
     (x25519/derive), and what they begin with (rsa, ecdsa)",
    algorithms().join(", ")
)]
pub struct UnknownAlgorithm {
    name: String,
}

fn algorithms() -> Vec<&'static str> {
    let mut names: Vec<_> = EVENTS.iter().map(|event| event.algorithm).collect();
    names.dedup();
    names
}

/// What `name` stands for: an operation, an algorithm, or all whose names begin so.
///
/// # Errors
///
/// [`UnknownAlgorithm`], which tells what there is.
pub fn select(name: &str) -> Result<Vec<&'static Event>, UnknownAlgorithm> {
    let selected: Vec<_> = EVENTS.iter().filter(|event| event.path().starts_with(name)).collect();
    if selected.is_empty() || name.is_empty() {
        return Err(UnknownAlgorithm { name: name.to_owned() });
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_select_operations_algorithms_and_families() {
        let paths = |name| select(name).unwrap().into_iter().map(Event::path).collect::<Vec<_>>();
        assert_eq!(paths("x25519/derive"), ["x25519/derive"]);
        assert_eq!(paths("ed25519"), ["ed25519/sign", "ed25519/verify"]);
        assert_eq!(paths("rsa"), ["rsa2048/private", "rsa3072/private", "rsa4096/private"]);
        assert_eq!(paths("ecd").len(), 8);
    }

    #[test]
    fn unknown_names_are_told_what_there_is() {
        for name in ["rot13", "x25519/sign", "25519", ""] {
            let Err(error) = select(name) else { panic!("{name} is known") };
            assert!(error.to_string().contains("rsa4096, x25519, ed25519, ecdsa-p256"), "{error}");
        }
    }

    #[test]
    fn every_contest_is_won_right_in_every_open_room() {
        let open: Vec<_> = (widelane_cpu::rooms::status(&Policy::open()).into_iter())
            .filter(|status| status.open && super::super::ROOMS.contains(&status.room))
            .collect();
        assert!(!open.is_empty());
        for event in &EVENTS {
            let contest = (event.make)().unwrap();
            let mut outputs = vec![vec![0; contest.output_len()]; LANES_MAX];
            let mut openssl = contest.openssl().unwrap();
            for _ in 0..LANES_MAX {
                assert_eq!(openssl(&mut outputs).unwrap(), 1, "{}", event.path());
            }
            for status in &open {
                let mut ours = contest.widelane(&super::super::only(status.room));
                let right = super::super::is_right(&*contest, &mut ours).unwrap();
                assert!(right, "{}, {}", event.path(), status.room);
            }
        }
    }

    #[test]
    fn a_wrong_result_is_noticed() {
        for event in &EVENTS {
            let contest = (event.make)().unwrap();
            let mut ours = contest.widelane(&Policy::open());
            let lanes = ours.lanes;
            let mut spoiled = Ours {
                lanes,
                run: Box::new(move |outputs| {
                    let done = (ours.run)(outputs)?;
                    outputs[lanes - 1][0] ^= 1;
                    Ok(done)
                }),
            };
            assert!(!super::super::is_right(&*contest, &mut spoiled).unwrap(), "{}", event.path());
        }
    }
}
