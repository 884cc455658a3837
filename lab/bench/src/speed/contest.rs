//! What is timed: an operation of an algorithm, as OpenSSL does it and as we do it.

use openssl::error::ErrorStack;
use thiserror::Error;
use widelane_cpu::{Policy, Room};
use widelane_crypto::aead::Algorithm;
use widelane_crypto::cbc_hmac::Algorithm as CbcHmac;
use widelane_crypto::digest::Algorithm as Hash;
use widelane_crypto::ec::Curve;
use widelane_crypto::mlkem::ParameterSet;
use widelane_crypto::rsa::{KeySize, ROOMS};

use super::evp::Provider;
use super::libraries::Library;
use super::{SpeedError, aead, cbc_hmac, ec, ed25519, hashes, mlkem, rsa, x25519};

/// Inputs that a contest of public-key operations holds: the widest batch of any room.
pub const LANES_MAX: usize = 8;

/// Messages that are handed over at once where many are.
pub const MANY: usize = 32;

/// Does as many operations as go at once, the result of each in the output of its lane, and returns
/// how many came out well.
pub type Runner<'a> = Box<dyn FnMut(&mut [Vec<u8>]) -> Result<u64, ErrorStack> + 'a>;

/// One operation with keys and inputs.
pub trait Contest {
    /// Length of a result.
    fn output_len(&self) -> usize;

    /// How many inputs there are, each with an output of its own.
    fn inputs(&self) -> usize {
        LANES_MAX
    }

    /// The rooms that the operation has, best first.
    fn rooms(&self) -> &'static [Room] {
        ROOMS
    }

    /// Why there is nothing of OpenSSL's to time: then [`openssl`](Self::openssl) is not called,
    /// and [`is_right`](Self::is_right) compares with another room.
    fn openssl_lacks(&self) -> Option<&'static str> {
        None
    }

    /// OpenSSL's own operation, one at a time, its contexts made beforehand.
    fn openssl(&self) -> Result<Runner<'_>, ErrorStack>;

    /// The same calls of OpenSSL with our provider behind them; `None` where that does not offer
    /// the algorithm or is not timed with it.
    fn provider(&self, _provider: &Provider) -> Option<Result<Runner<'_>, ErrorStack>> {
        None
    }

    /// Ours, so many jobs at a time, in the widest room that `policy` leaves open; full batches if
    /// none are named, and always where the operation is not done in lanes.
    fn widelane(&self, policy: &Policy, jobs: Option<usize>) -> Ours<'_>;

    /// Whether OpenSSL, or another room where it lacks the operation, agrees with what we put out
    /// for `lane`.
    fn is_right(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack>;

    /// The same of what another library put out. Where that draws random bytes which ours is given,
    /// it is not the same twice, and has to be checked otherwise.
    fn is_right_elsewhere(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        self.is_right(lane, output)
    }
}

/// Our side of a contest.
pub struct Ours<'a> {
    /// Jobs of one run.
    pub lanes: usize,
    /// Does as many.
    pub run: Runner<'a>,
}

/// The kernel with the fewest lanes that holds all jobs; of full batches that with the most.
/// `kernels` stand in the order of their `lanes`.
pub fn kernel_for<K: Copy>(
    kernels: &[K],
    lanes: impl Fn(&K) -> usize,
    jobs: Option<usize>,
) -> Option<K> {
    let holds = |kernel: &&K| jobs.is_some_and(|jobs| lanes(kernel) >= jobs);
    kernels.iter().find(holds).or(kernels.last()).copied()
}

/// A runner that takes the lanes in turn, one operation at a time.
pub fn in_turn<'a>(
    mut operation: impl FnMut(usize, &mut [u8]) -> Result<(), ErrorStack> + 'a,
) -> Runner<'a> {
    let mut next = 0;
    Box::new(move |outputs| {
        let lane = next;
        next = if lane + 1 < outputs.len() { lane + 1 } else { 0 };
        operation(lane, &mut outputs[lane])?;
        Ok(1)
    })
}

/// What can be timed: an algorithm's operation by name, and how its contest is made.
pub struct Event {
    /// The algorithm.
    pub algorithm: &'static str,
    /// The operation.
    pub operation: &'static str,
    make: Make,
}

/// How a contest is made: of an operation that is done in lanes, or for a size.
enum Make {
    InLanes(fn() -> Result<Box<dyn Contest>, SpeedError>),
    Sized {
        /// The largest size.
        most: usize,
        make: fn(usize) -> Result<Box<dyn Contest>, SpeedError>,
    },
}

impl Event {
    /// The path of its results: `x25519/derive`; size or jobs follow: `aes-128-gcm/seal/1350`,
    /// `x25519/derive/3-jobs`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.algorithm, self.operation)
    }

    /// The heats that it takes with messages of `sizes` bytes, or by numbers of `jobs`, in full
    /// batches if there are no such numbers.
    pub fn heats(&'static self, sizes: &[usize], jobs: &[usize]) -> Vec<Entry> {
        let full = Entry { event: self, size: None, jobs: None };
        match self.make {
            Make::InLanes(_) if jobs.is_empty() => vec![full],
            Make::InLanes(_) => {
                jobs.iter().map(|jobs| Entry { jobs: Some(*jobs), ..full }).collect()
            }
            Make::Sized { .. } => {
                sizes.iter().map(|size| Entry { size: Some(*size), ..full }).collect()
            }
        }
    }

    /// Whether it is done in lanes, so that numbers of jobs matter.
    pub fn has_lanes(&self) -> bool {
        matches!(self.make, Make::InLanes(_))
    }
}

/// An operation, with the size of its messages or the number of its jobs where that matters.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The operation.
    pub event: &'static Event,
    /// Bytes of a message.
    pub size: Option<usize>,
    /// Jobs at a time, where that is a question.
    pub jobs: Option<usize>,
}

impl Entry {
    /// The path of its results.
    pub fn path(&self) -> String {
        let path = self.event.path();
        match (self.size, self.jobs) {
            (Some(size), _) => format!("{path}/{size}"),
            (None, Some(jobs)) => format!("{path}/{jobs}-jobs"),
            (None, None) => path,
        }
    }

    /// By what name another library is asked for it, which does it one job at a time. Nobody is
    /// asked for operations of RSA's and on curves, and libcrux for ML-KEM only.
    pub fn path_for(&self, library: Library) -> Option<String> {
        match self.size {
            Some(_) if library == Library::Libcrux => None,
            Some(_) => Some(self.path()),
            None => self.event.algorithm.starts_with("ml-kem-").then(|| self.event.path()),
        }
    }

    /// # Errors
    ///
    /// [`SpeedError::Size`] where no message of the operation is as large.
    pub fn check_size(&self) -> Result<(), SpeedError> {
        match (&self.event.make, self.size) {
            (Make::Sized { most, .. }, Some(size)) if size > *most => {
                Err(SpeedError::Size { operation: self.event.path(), most: *most, size })
            }
            _ => Ok(()),
        }
    }

    /// Makes keys and inputs.
    pub fn contest(&self) -> Result<Box<dyn Contest>, SpeedError> {
        match (&self.event.make, self.size) {
            (Make::InLanes(make), _) => make(),
            (Make::Sized { make, .. }, size) => make(size.unwrap_or_default()),
        }
    }
}

/// Everything that can be timed.
pub static EVENTS: [Event; 58] = [
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
    event("ml-kem-512", "generate", || mlkem::generate(ParameterSet::MlKem512)),
    event("ml-kem-512", "encapsulate", || mlkem::encapsulate(ParameterSet::MlKem512)),
    event("ml-kem-512", "decapsulate", || mlkem::decapsulate(ParameterSet::MlKem512)),
    event("ml-kem-768", "generate", || mlkem::generate(ParameterSet::MlKem768)),
    event("ml-kem-768", "encapsulate", || mlkem::encapsulate(ParameterSet::MlKem768)),
    event("ml-kem-768", "decapsulate", || mlkem::decapsulate(ParameterSet::MlKem768)),
    event("ml-kem-1024", "generate", || mlkem::generate(ParameterSet::MlKem1024)),
    event("ml-kem-1024", "encapsulate", || mlkem::encapsulate(ParameterSet::MlKem1024)),
    event("ml-kem-1024", "decapsulate", || mlkem::decapsulate(ParameterSet::MlKem1024)),
    bulk("aes-128-gcm", "seal", |size| aead::seal(Algorithm::Aes128Gcm, size)),
    bulk("aes-128-gcm", "open", |size| aead::open(Algorithm::Aes128Gcm, size)),
    bulk("aes-128-gcm", "seal-many", |size| aead::seal_many(Algorithm::Aes128Gcm, size)),
    bulk("aes-192-gcm", "seal", |size| aead::seal(Algorithm::Aes192Gcm, size)),
    bulk("aes-192-gcm", "open", |size| aead::open(Algorithm::Aes192Gcm, size)),
    bulk("aes-192-gcm", "seal-many", |size| aead::seal_many(Algorithm::Aes192Gcm, size)),
    bulk("aes-256-gcm", "seal", |size| aead::seal(Algorithm::Aes256Gcm, size)),
    bulk("aes-256-gcm", "open", |size| aead::open(Algorithm::Aes256Gcm, size)),
    bulk("aes-256-gcm", "seal-many", |size| aead::seal_many(Algorithm::Aes256Gcm, size)),
    bulk("chacha20-poly1305", "seal", |size| aead::seal(Algorithm::ChaCha20Poly1305, size)),
    bulk("chacha20-poly1305", "open", |size| aead::open(Algorithm::ChaCha20Poly1305, size)),
    bulk("chacha20-poly1305", "seal-many", |size| {
        aead::seal_many(Algorithm::ChaCha20Poly1305, size)
    }),
    bulk("sha-1", "digest", |size| hashes::digest(Hash::Sha1, size)),
    bulk("sha-1", "digest-many", |size| hashes::digest_many(Hash::Sha1, size)),
    bulk("sha-256", "digest", |size| hashes::digest(Hash::Sha256, size)),
    bulk("sha-256", "digest-many", |size| hashes::digest_many(Hash::Sha256, size)),
    bulk("sha-384", "digest", |size| hashes::digest(Hash::Sha384, size)),
    bulk("sha-384", "digest-many", |size| hashes::digest_many(Hash::Sha384, size)),
    bulk("sha-512", "digest", |size| hashes::digest(Hash::Sha512, size)),
    bulk("sha-512", "digest-many", |size| hashes::digest_many(Hash::Sha512, size)),
    bulk("hmac-sha-1", "tag", |size| hashes::tag(Hash::Sha1, size)),
    bulk("hmac-sha-1", "tag-many", |size| hashes::tags(Hash::Sha1, size)),
    bulk("hmac-sha-256", "tag", |size| hashes::tag(Hash::Sha256, size)),
    bulk("hmac-sha-256", "tag-many", |size| hashes::tags(Hash::Sha256, size)),
    bulk("hmac-sha-384", "tag", |size| hashes::tag(Hash::Sha384, size)),
    bulk("hmac-sha-384", "tag-many", |size| hashes::tags(Hash::Sha384, size)),
    bulk("hmac-sha-512", "tag", |size| hashes::tag(Hash::Sha512, size)),
    bulk("hmac-sha-512", "tag-many", |size| hashes::tags(Hash::Sha512, size)),
    records("aes-128-cbc-hmac-sha1", "seal", |size| cbc_hmac::seal(CbcHmac::Aes128Sha1, size)),
    records("aes-128-cbc-hmac-sha1", "seal-many", |size| cbc_hmac::many(CbcHmac::Aes128Sha1, size)),
    records("aes-128-cbc-hmac-sha256", "seal", |size| cbc_hmac::seal(CbcHmac::Aes128Sha256, size)),
    records("aes-128-cbc-hmac-sha256", "seal-many", |size| {
        cbc_hmac::many(CbcHmac::Aes128Sha256, size)
    }),
    records("aes-256-cbc-hmac-sha256", "seal", |size| cbc_hmac::seal(CbcHmac::Aes256Sha256, size)),
    records("aes-256-cbc-hmac-sha256", "seal-many", |size| {
        cbc_hmac::many(CbcHmac::Aes256Sha256, size)
    }),
];

const fn event(
    algorithm: &'static str,
    operation: &'static str,
    make: fn() -> Result<Box<dyn Contest>, SpeedError>,
) -> Event {
    Event { algorithm, operation, make: Make::InLanes(make) }
}

const fn bulk(
    algorithm: &'static str,
    operation: &'static str,
    make: fn(usize) -> Result<Box<dyn Contest>, SpeedError>,
) -> Event {
    Event { algorithm, operation, make: Make::Sized { most: usize::MAX, make } }
}

const fn records(
    algorithm: &'static str,
    operation: &'static str,
    make: fn(usize) -> Result<Box<dyn Contest>, SpeedError>,
) -> Event {
    Event {
        algorithm,
        operation,
        make: Make::Sized { most: cbc_hmac::RECORD_TEXT_BYTES_MAX, make },
    }
}

/// The name of all authenticated encryption together.
const AEAD: &str = "aead";

/// A name that nothing has.
#[derive(Debug, Error)]
#[error(
    "there is no algorithm {name:?}; there are {}, each with or without its operation \
     (x25519/derive), what they begin with (rsa, ecdsa), and aead",
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
    let is_wanted = |event: &&Event| match name {
        AEAD => ["-gcm", "-poly1305"].iter().any(|end| event.algorithm.ends_with(end)),
        name => event.path().starts_with(name),
    };
    let selected: Vec<_> = EVENTS.iter().filter(is_wanted).collect();
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
        assert_eq!(paths("x25519/g"), ["x25519/generate"]);
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

    /// Every operation, with a size that fills no block where that matters.
    fn entries() -> impl Iterator<Item = Entry> {
        EVENTS.iter().flat_map(|event| event.heats(&[1350], &[]))
    }

    #[test]
    fn sizes_are_for_those_operations_that_have_them() {
        assert_eq!(entries().count(), EVENTS.len());
        let heats = |name: &str| select(name).unwrap()[0].heats(&[64, 1350], &[1, 8]);
        let paths = |name| heats(name).iter().map(Entry::path).collect::<Vec<_>>();
        assert_eq!(paths("aes-128-gcm/open"), ["aes-128-gcm/open/64", "aes-128-gcm/open/1350"]);
        assert_eq!(paths("rsa2048"), ["rsa2048/private/1-jobs", "rsa2048/private/8-jobs"]);
        assert_eq!(select("aead").unwrap().len(), 12);
    }

    #[test]
    fn a_record_larger_than_tls_allows_is_refused() {
        let check = |name: &str, size| select(name).unwrap()[0].heats(&[size], &[])[0].check_size();
        assert!(check("aes-128-cbc-hmac-sha1", 16_384).is_ok());
        let error = check("aes-128-cbc-hmac-sha1", 16_385).unwrap_err().to_string();
        assert!(
            error.contains("aes-128-cbc-hmac-sha1/seal") && error.contains("--size"),
            "{error}"
        );
        assert!(check("aes-128-gcm", 16_385).is_ok());
    }

    #[test]
    fn every_number_of_jobs_comes_out_right_in_every_open_room() {
        let few = |event: &&Event| event.has_lanes() && !event.algorithm.starts_with("rsa");
        let events = EVENTS.iter().filter(few).chain(select("rsa2048").unwrap());
        for entry in events.flat_map(|event| event.heats(&[], &[1, 2, 3, 5, 8])) {
            let contest = entry.contest().unwrap();
            for status in widelane_cpu::rooms::status(&Policy::open()) {
                if status.open && contest.rooms().contains(&status.room) {
                    let policy = super::super::only(status.room, contest.rooms());
                    let mut ours = contest.widelane(&policy, entry.jobs);
                    assert_eq!(Some(ours.lanes), entry.jobs);
                    let right = super::super::is_right(&*contest, &mut ours).unwrap();
                    assert!(right, "{}, {}", entry.path(), status.room);
                }
            }
        }
    }

    #[test]
    fn every_contest_is_won_right_in_every_open_room() {
        let open: Vec<_> = (widelane_cpu::rooms::status(&Policy::open()).into_iter())
            .filter(|status| status.open)
            .map(|status| status.room)
            .collect();
        let mut won = 0;
        for entry in entries() {
            let contest = entry.contest().unwrap();
            let mut outputs = vec![vec![0; contest.output_len()]; contest.inputs()];
            if contest.openssl_lacks().is_none() {
                let mut openssl = contest.openssl().unwrap();
                for _ in 0..contest.inputs() {
                    assert_eq!(openssl(&mut outputs).unwrap(), 1, "{}", entry.path());
                }
            }
            for room in contest.rooms().iter().filter(|room| open.contains(room)) {
                let policy = super::super::only(*room, contest.rooms());
                let mut ours = contest.widelane(&policy, entry.jobs);
                let right = super::super::is_right(&*contest, &mut ours).unwrap();
                assert!(right, "{}, {room}", entry.path());
                won += 1;
            }
        }
        // At least the portable room of each, but for digests and tags of many, which have none.
        assert!(won >= EVENTS.len() - 8, "{won}");
    }

    #[test]
    fn a_wrong_result_is_noticed() {
        for entry in entries() {
            let contest = entry.contest().unwrap();
            let mut ours = contest.widelane(&Policy::open(), entry.jobs);
            let lanes = ours.lanes;
            let mut spoiled = Ours {
                lanes,
                run: Box::new(move |outputs| {
                    let done = (ours.run)(outputs)?;
                    outputs[lanes - 1][0] ^= 1;
                    Ok(done)
                }),
            };
            assert!(!super::super::is_right(&*contest, &mut spoiled).unwrap(), "{}", entry.path());
        }
    }
}
