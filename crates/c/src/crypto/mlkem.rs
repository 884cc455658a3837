//! ML-KEM: keys, and shared secrets in batches.
#![allow(unsafe_code, reason = "functions for C")]

use std::cell::RefCell;
use std::ptr;

use widelane_crypto::mlkem::{
    DecapsulateJob, DecapsulationKey, EncapsulateJob, MlKem, Outcome, ParameterSet, SEED_BYTES,
    SHARED_BYTES, Workspace,
};

use super::Crypto;
use super::jobs::{self, Job, refused};
use crate::door;
use crate::status::Status;

/// Parameter sets of ML-KEM.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum MlKemParameterSet {
    /// ML-KEM-512.
    MlKem512 = 0,
    /// ML-KEM-768.
    MlKem768 = 1,
    /// ML-KEM-1024.
    MlKem1024 = 2,
}

/// A decapsulation key; may be used by several threads at once.
#[derive(Debug)]
pub struct MlKemKey(DecapsulationKey);

/// One key to be made of a seed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MlKemGenerateJob {
    /// 64 random bytes: those that FIPS 203 names d, and then z.
    pub seed: *const u8,
    /// Where the key goes, which the caller frees; null if there is none.
    pub key: *mut *mut MlKemKey,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// One shared secret to be encapsulated.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MlKemEncapsulateJob {
    /// The peer's encapsulation key, as long as those of the parameter set.
    pub public_key: *const u8,
    /// 32 random bytes, which must be kept secret.
    pub message: *const u8,
    /// Where the ciphertext goes, as long as those of the parameter set; zeros if the key is
    /// refused.
    pub ciphertext: *mut u8,
    /// Where the shared secret goes, 32 bytes; zeros if the key is refused.
    pub shared: *mut u8,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

/// One shared secret to be decapsulated.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MlKemDecapsulateJob {
    /// Our key.
    pub key: *const MlKemKey,
    /// The ciphertext, as long as those of the key's parameter set.
    pub ciphertext: *const u8,
    /// Where the shared secret goes, 32 bytes. Nothing reveals whether the ciphertext was valid.
    pub shared: *mut u8,
    /// What became of the job: one of `widelane_status`.
    pub status: u32,
}

fn set_of(number: u32) -> Result<ParameterSet, Status> {
    door::choice(&ParameterSet::ALL, number, "parameter set")
}

/// As many bytes as a parameter set has of something; 0 if there is no such set.
fn bytes_of(number: u32, of: impl FnOnce(ParameterSet) -> usize) -> usize {
    ParameterSet::ALL.get(number as usize).copied().map_or(0, of)
}

/// Lends the memory that batches of this thread work in, or other memory while the thread ends.
fn with_workspace<T>(work: impl FnOnce(&mut Workspace) -> T) -> T {
    thread_local! {
        static WORKSPACE: RefCell<Workspace> = RefCell::new(Workspace::new());
    }
    match WORKSPACE.try_with(|_| ()) {
        Ok(()) => WORKSPACE.with_borrow_mut(work),
        Err(_) => work(&mut Workspace::new()),
    }
}

/// Bytes of an encapsulation key of a parameter set; 0 if there is no such set.
#[unsafe(no_mangle)]
pub extern "C" fn widelane_ml_kem_public_key_bytes(parameter_set: u32) -> usize {
    bytes_of(parameter_set, ParameterSet::encapsulation_key_bytes)
}

/// Bytes of a decapsulation key of a parameter set; 0 if there is no such set.
#[unsafe(no_mangle)]
pub extern "C" fn widelane_ml_kem_private_key_bytes(parameter_set: u32) -> usize {
    bytes_of(parameter_set, ParameterSet::decapsulation_key_bytes)
}

/// Bytes of a ciphertext of a parameter set; 0 if there is no such set.
#[unsafe(no_mangle)]
pub extern "C" fn widelane_ml_kem_ciphertext_bytes(parameter_set: u32) -> usize {
    bytes_of(parameter_set, ParameterSet::ciphertext_bytes)
}

/// Takes over a decapsulation key in its expanded form, and checks it (FIPS 203, 7.3).
///
/// # Safety
///
/// `crypto` is one that is not freed, there are `bytes_count` bytes, and `key` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ml_kem_key_new(
    crypto: *const Crypto,
    parameter_set: u32,
    bytes: *const u8,
    bytes_count: usize,
    key: *mut *mut MlKemKey,
) -> Status {
    let made = || {
        // SAFETY: the caller vouches for it.
        let crypto = unsafe { door::reference(crypto) }?;
        // SAFETY: the caller vouches for it.
        let bytes = unsafe { door::array(bytes, bytes_count) }?;
        let ml_kem = MlKem::choose(set_of(parameter_set)?, &crypto.policy);
        let imported = with_workspace(|workspace| ml_kem.import(workspace, bytes))
            .map_err(|error| Status::Key.because(error))?;
        Ok(MlKemKey(imported))
    };
    // SAFETY: the caller vouches for it.
    unsafe { door::make(key, made) }
}

/// Stores the encapsulation key that belongs to a key.
///
/// # Safety
///
/// `key` is one that is not freed, and there are as many bytes as its parameter set's have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ml_kem_public_key(
    key: *const MlKemKey,
    public_key: *mut u8,
) -> Status {
    door::guarded(|| {
        // SAFETY: the caller vouches for it.
        let bytes = unsafe { door::reference(key) }?.0.encapsulation_key();
        // SAFETY: the caller vouches for it.
        unsafe { door::places(public_key, bytes.len()) }?.copy_from_slice(bytes);
        Ok(())
    })
}

/// Stores a key in its expanded form.
///
/// # Safety
///
/// `key` is one that is not freed, and there are as many bytes as its parameter set's have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ml_kem_private_key(
    key: *const MlKemKey,
    private_key: *mut u8,
) -> Status {
    door::guarded(|| {
        // SAFETY: the caller vouches for it.
        let bytes = unsafe { door::reference(key) }?.0.as_bytes();
        // SAFETY: the caller vouches for it.
        unsafe { door::places(private_key, bytes.len()) }?.copy_from_slice(bytes);
        Ok(())
    })
}

/// Wipes and frees a key.
///
/// # Safety
///
/// `key` is null or one that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ml_kem_key_free(key: *mut MlKemKey) {
    // SAFETY: the caller vouches for it.
    unsafe { door::take(key) }
}

jobs::lent!(MlKemGenerateJob as (&'a [u8; SEED_BYTES], &'a mut *mut MlKemKey), |job| {
    seed: reference(job.seed.cast::<[u8; SEED_BYTES]>()),
    key: exclusive(job.key),
} => (seed, key));

impl Job for MlKemEncapsulateJob {
    type Lent<'a> = MlKemEncapsulateJob;

    unsafe fn lend<'a>(&self, _: usize) -> Result<Self::Lent<'a>, Status> {
        Ok(*self)
    }

    fn status(&mut self) -> &mut u32 {
        &mut self.status
    }
}

impl MlKemEncapsulateJob {
    /// Looks at the pointers of the job at `index`, given the parameter set.
    ///
    /// # Safety
    ///
    /// As for [`Job::lend`].
    unsafe fn lend_of<'a>(
        &self,
        set: ParameterSet,
        index: usize,
    ) -> Result<EncapsulateJob<'a>, Status> {
        jobs::pointers!(index, {
            public_key: array(self.public_key, set.encapsulation_key_bytes()),
            message: reference(self.message.cast::<[u8; SHARED_BYTES]>()),
            ciphertext: places(self.ciphertext, set.ciphertext_bytes()),
            shared: exclusive(self.shared.cast::<[u8; SHARED_BYTES]>()),
        });
        Ok(EncapsulateJob::new(public_key, message, ciphertext, shared))
    }
}

jobs::lent!(MlKemDecapsulateJob as DecapsulateJob<'a>, |job| {
    key: reference(job.key),
}, {
    ciphertext: array(job.ciphertext, key.0.parameter_set().ciphertext_bytes()),
    shared: exclusive(job.shared.cast::<[u8; SHARED_BYTES]>()),
} => DecapsulateJob::new(&key.0, ciphertext, shared));

/// Makes keys of one parameter set.
///
/// # Safety
///
/// `crypto` is one that is not freed; there are `job_count` jobs, each points to what it says, and
/// no output overlaps anything else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ml_kem_generate_batch(
    crypto: *const Crypto,
    parameter_set: u32,
    jobs: *mut MlKemGenerateJob,
    job_count: usize,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch_of(jobs, job_count, |jobs: &mut [MlKemGenerateJob]| {
            let places = jobs.iter().map(|job| job.key).filter(|place| !place.is_null());
            places.for_each(|place| place.write(ptr::null_mut()));
            let (seeds, places): (Vec<_>, Vec<_>) = jobs::lend(jobs)?.into_iter().unzip();
            let policy = &door::reference(crypto)?.policy;
            let ml_kem = MlKem::choose(set_of(parameter_set)?, policy);
            let keys = with_workspace(|workspace| ml_kem.generate_batch(workspace, &seeds));
            for (place, key) in places.into_iter().zip(keys) {
                *place = door::lend(MlKemKey(key));
            }
            Ok(seeds.iter().map(|_| Ok(())).collect())
        })
    }
}

/// Encapsulates shared secrets, for keys of one parameter set.
///
/// # Safety
///
/// As for `widelane_ml_kem_generate_batch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ml_kem_encapsulate_batch(
    crypto: *const Crypto,
    parameter_set: u32,
    jobs: *mut MlKemEncapsulateJob,
    job_count: usize,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch(jobs, job_count, |jobs| {
            let policy = &door::reference(crypto)?.policy;
            let set = set_of(parameter_set)?;
            let lend = |(index, job): (_, &MlKemEncapsulateJob)| job.lend_of(set, index);
            let mut lent = jobs.iter().enumerate().map(lend).collect::<Result<Vec<_>, _>>()?;
            let ml_kem = MlKem::choose(set, policy);
            with_workspace(|workspace| ml_kem.encapsulate_batch(workspace, &mut lent));
            Ok(lent.iter().map(|job| outcome(job.outcome)).collect())
        })
    }
}

/// Decapsulates shared secrets; the keys may be of several parameter sets.
///
/// # Safety
///
/// As for `widelane_ml_kem_generate_batch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_ml_kem_decapsulate_batch(
    crypto: *const Crypto,
    jobs: *mut MlKemDecapsulateJob,
    job_count: usize,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe {
        jobs::batch(jobs, job_count, |mut jobs| {
            let policy = &door::reference(crypto)?.policy;
            let of_one_set = |one: &DecapsulateJob<'_>, other: &DecapsulateJob<'_>| {
                one.key.parameter_set() == other.key.parameter_set()
            };
            for jobs in jobs.chunk_by_mut(of_one_set) {
                let ml_kem = MlKem::choose(jobs[0].key.parameter_set(), policy);
                with_workspace(|workspace| ml_kem.decapsulate_batch(workspace, jobs));
            }
            Ok(jobs.iter().map(|job| outcome(job.outcome)).collect())
        })
    }
}

fn outcome(outcome: Outcome) -> jobs::Outcome {
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::InvalidKey => {
            refused(Status::Rejected, "a coefficient of the encapsulation key is not below q")
        }
        Outcome::WrongLength | Outcome::Pending => refused(Status::Defect, "it was not executed"),
    }
}
