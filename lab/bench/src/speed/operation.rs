//! What can be timed, by name: `widelane speed x25519/derive`.

use thiserror::Error;

use super::benchmark::Benchmark;
use super::evp::leave_configuration_out;
use super::libraries::Library;
use super::{SpeedError, aead, operations};

/// What can be timed: an algorithm's operation by name, and how its benchmark is made.
pub struct Operation {
    /// The algorithm.
    pub algorithm: &'static str,
    /// The operation.
    pub name: &'static str,
    make: Make,
    is_elsewhere: bool,
}

/// How a benchmark is made: of an operation that is done in lanes, or for a size.
enum Make {
    InLanes(fn() -> Result<Box<dyn Benchmark>, SpeedError>),
    Sized {
        /// The largest size.
        most: usize,
        make: fn(usize) -> Result<Box<dyn Benchmark>, SpeedError>,
    },
}

impl Operation {
    /// An operation that is done in lanes.
    pub const fn in_lanes(
        algorithm: &'static str,
        name: &'static str,
        make: fn() -> Result<Box<dyn Benchmark>, SpeedError>,
    ) -> Self {
        Operation { algorithm, name, make: Make::InLanes(make), is_elsewhere: false }
    }

    /// An operation on messages of any size.
    pub const fn of_messages(
        algorithm: &'static str,
        name: &'static str,
        make: fn(usize) -> Result<Box<dyn Benchmark>, SpeedError>,
    ) -> Self {
        let make = Make::Sized { most: usize::MAX, make };
        Operation { algorithm, name, make, is_elsewhere: true }
    }

    /// An operation on messages of up to `most` bytes.
    pub const fn of_records(
        algorithm: &'static str,
        name: &'static str,
        most: usize,
        make: fn(usize) -> Result<Box<dyn Benchmark>, SpeedError>,
    ) -> Self {
        Operation {
            make: Make::Sized { most, make },
            ..Operation::of_messages(algorithm, name, make)
        }
    }

    /// The operation, with other libraries asked for it.
    pub const fn also_elsewhere(self) -> Self {
        Operation { is_elsewhere: true, ..self }
    }

    /// Whether other libraries are asked for it.
    pub fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// The path of its results: `x25519/derive`; size or jobs follow: `aes-128-gcm/seal/1350`,
    /// `x25519/derive/3-jobs`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.algorithm, self.name)
    }

    /// The operation's cases, with messages of `sizes` bytes, or by numbers of `jobs`, in full
    /// batches if there are no such numbers.
    pub fn cases(&'static self, sizes: &[usize], jobs: &[usize]) -> Vec<Case> {
        let full = Case { operation: self, size: None, jobs: None };
        match self.make {
            Make::InLanes(_) if jobs.is_empty() => vec![full],
            Make::InLanes(_) => {
                jobs.iter().map(|jobs| Case { jobs: Some(*jobs), ..full }).collect()
            }
            Make::Sized { .. } => {
                sizes.iter().map(|size| Case { size: Some(*size), ..full }).collect()
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
pub struct Case {
    /// The operation.
    pub operation: &'static Operation,
    /// Bytes of a message.
    pub size: Option<usize>,
    /// Jobs at a time, where that is a question.
    pub jobs: Option<usize>,
}

impl Case {
    /// The path of its results.
    pub fn path(&self) -> String {
        let path = self.operation.path();
        match (self.size, self.jobs) {
            (Some(size), _) => format!("{path}/{size}"),
            (None, Some(jobs)) => format!("{path}/{jobs}-jobs"),
            (None, None) => path,
        }
    }

    /// By what name another library is asked for it, which does it one job at a time. libcrux is
    /// not asked for operations on messages.
    pub fn path_for(&self, library: Library) -> Option<String> {
        match self.size {
            _ if !self.operation.is_elsewhere => None,
            Some(_) if library == Library::Libcrux => None,
            Some(_) => Some(self.path()),
            None => Some(self.operation.path()),
        }
    }

    /// # Errors
    ///
    /// [`SpeedError::Size`] where no message of the operation is as large.
    pub fn check_size(&self) -> Result<(), SpeedError> {
        match (&self.operation.make, self.size) {
            (Make::Sized { most, .. }, Some(size)) if size > *most => {
                Err(SpeedError::Size { operation: self.operation.path(), most: *most, size })
            }
            _ => Ok(()),
        }
    }

    /// Makes keys and inputs, for this thread, whose OpenSSL has no configuration from then on.
    pub fn benchmark(&self) -> Result<Box<dyn Benchmark>, SpeedError> {
        leave_configuration_out()?;
        match (&self.operation.make, self.size) {
            (Make::InLanes(make), _) => make(),
            (Make::Sized { make, .. }, size) => make(size.unwrap_or_default()),
        }
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

/// All algorithms that have something to time.
pub fn algorithms() -> Vec<&'static str> {
    algorithms_of(operations())
}

/// The algorithms that have some of these operations, each once.
pub fn algorithms_of(operations: impl Iterator<Item = &'static Operation>) -> Vec<&'static str> {
    let mut names: Vec<_> = operations.map(|operation| operation.algorithm).collect();
    names.dedup();
    names
}

/// What `name` stands for: an operation, an algorithm, or all whose names begin so.
///
/// # Errors
///
/// [`UnknownAlgorithm`], which lists those that there are.
pub fn select(name: &str) -> Result<Vec<&'static Operation>, UnknownAlgorithm> {
    if name == AEAD {
        return Ok(aead::OPERATIONS.iter().collect());
    }
    let selected: Vec<_> =
        operations().filter(|operation| operation.path().starts_with(name)).collect();
    if selected.is_empty() || name.is_empty() {
        return Err(UnknownAlgorithm { name: name.to_owned() });
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use widelane_cpu::Policy;

    use super::super::benchmark::Ours;
    use super::*;

    #[test]
    fn names_select_operations_algorithms_and_families() {
        let paths =
            |name| select(name).unwrap().into_iter().map(Operation::path).collect::<Vec<_>>();
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
    fn cases() -> impl Iterator<Item = Case> {
        operations().flat_map(|operation| operation.cases(&[1350], &[]))
    }

    #[test]
    fn sizes_are_for_those_operations_that_have_them() {
        assert_eq!(cases().count(), operations().count());
        let cases = |name: &str| select(name).unwrap()[0].cases(&[64, 1350], &[1, 8]);
        let paths = |name| cases(name).iter().map(Case::path).collect::<Vec<_>>();
        assert_eq!(paths("aes-128-gcm/open"), ["aes-128-gcm/open/64", "aes-128-gcm/open/1350"]);
        assert_eq!(paths("rsa2048"), ["rsa2048/private/1-jobs", "rsa2048/private/8-jobs"]);
        assert_eq!(select("aead").unwrap().len(), 12);
    }

    #[test]
    fn a_record_larger_than_tls_allows_is_refused() {
        let check = |name: &str, size| select(name).unwrap()[0].cases(&[size], &[])[0].check_size();
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
        let few = |operation: &&'static Operation| {
            operation.has_lanes() && !operation.algorithm.starts_with("rsa")
        };
        let operations = operations().filter(few).chain(select("rsa2048").unwrap());
        for case in operations.flat_map(|operation| operation.cases(&[], &[1, 2, 3, 5, 8])) {
            let benchmark = case.benchmark().unwrap();
            for status in widelane_cpu::rooms::status(&Policy::open()) {
                if status.open && benchmark.rooms().contains(&status.room) {
                    let policy = super::super::only(status.room, benchmark.rooms());
                    let mut ours = benchmark.widelane(&policy, case.jobs);
                    assert_eq!(Some(ours.lanes), case.jobs);
                    let right = super::super::is_right(&*benchmark, &mut ours).unwrap();
                    assert!(right, "{}, {}", case.path(), status.room);
                }
            }
        }
    }

    #[test]
    fn every_benchmark_comes_out_right_in_every_open_room() {
        let open: Vec<_> = (widelane_cpu::rooms::status(&Policy::open()).into_iter())
            .filter(|status| status.open)
            .map(|status| status.room)
            .collect();
        let mut compared = 0;
        for case in cases() {
            let benchmark = case.benchmark().unwrap();
            let mut outputs = vec![vec![0; benchmark.output_len()]; benchmark.inputs()];
            if benchmark.openssl_lacks().is_none() {
                let mut openssl = benchmark.openssl().unwrap();
                for _ in 0..benchmark.inputs() {
                    assert_eq!(openssl(&mut outputs).unwrap(), 1, "{}", case.path());
                }
            }
            for room in benchmark.rooms().iter().filter(|room| open.contains(room)) {
                let policy = super::super::only(*room, benchmark.rooms());
                let mut ours = benchmark.widelane(&policy, case.jobs);
                let right = super::super::is_right(&*benchmark, &mut ours).unwrap();
                assert!(right, "{}, {room}", case.path());
                compared += 1;
            }
        }
        // At least the portable room of each, but for digests and tags of many, which have none.
        assert!(compared >= operations().count() - 8, "{compared}");
    }

    #[test]
    fn a_wrong_result_is_noticed() {
        for case in cases() {
            let benchmark = case.benchmark().unwrap();
            let mut ours = benchmark.widelane(&Policy::open(), case.jobs);
            let lanes = ours.lanes;
            let mut spoiled = Ours {
                lanes,
                run: Box::new(move |outputs| {
                    let done = (ours.run)(outputs)?;
                    outputs[lanes - 1][0] ^= 1;
                    Ok(done)
                }),
            };
            assert!(!super::super::is_right(&*benchmark, &mut spoiled).unwrap(), "{}", case.path());
        }
    }
}
