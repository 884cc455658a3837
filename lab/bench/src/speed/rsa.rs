//! RSA private-key operations.

use openssl::error::ErrorStack;
use openssl::pkey::Private as PrivatePart;
use openssl::rsa::{Padding, Rsa as OpensslRsa};
use widelane_cpu::{Policy, Room};
use widelane_crypto::rsa::{
    Components, KeySize, Outcome, PrivateJob, PrivateKey, ROOMS, Rsa, confirms_one,
};

use super::SpeedError;
use super::benchmark::{Benchmark, LANES_MAX, Ours, Runner, in_turn};
use super::operation::Operation;

/// What is timed here.
pub static OPERATIONS: &[Operation] = &[
    Operation::in_lanes("rsa2048", "private", || Ok(Box::new(Private::new(KeySize::Rsa2048)?))),
    Operation::in_lanes("rsa3072", "private", || Ok(Box::new(Private::new(KeySize::Rsa3072)?))),
    Operation::in_lanes("rsa4096", "private", || Ok(Box::new(Private::new(KeySize::Rsa4096)?))),
];

/// The private-key operation by CRT, without padding, its result checked.
pub struct Private {
    openssl: OpensslRsa<PrivatePart>,
    key: PrivateKey,
    inputs: Vec<Vec<u8>>,
    bytes: usize,
}

impl Private {
    /// Makes a key of `size` and inputs.
    pub fn new(size: KeySize) -> Result<Self, SpeedError> {
        let openssl = OpensslRsa::generate(size.bits() as u32)?;
        let part = |number: Option<&openssl::bn::BigNumRef>| {
            number.map(|number| number.to_vec()).unwrap_or_default()
        };
        let (p, q) = (part(openssl.p()), part(openssl.q()));
        let (dp, dq, qinv) = (part(openssl.dmp1()), part(openssl.dmq1()), part(openssl.iqmp()));
        let key = PrivateKey::from_components(&Components {
            n: &openssl.n().to_vec(),
            e: &openssl.e().to_vec(),
            p: &p,
            q: &q,
            dp: &dp,
            dq: &dq,
            qinv: &qinv,
        })
        .map_err(SpeedError::key)?;
        let bytes = size.bytes();
        let mut inputs = vec![vec![0; bytes]; LANES_MAX];
        for input in &mut inputs {
            // A leading zero keeps every input below the modulus.
            openssl::rand::rand_bytes(&mut input[1..])?;
        }
        Ok(Private { openssl, key, inputs, bytes })
    }

    fn one(&self, lane: usize, output: &mut [u8]) -> Result<(), ErrorStack> {
        self.openssl.private_encrypt(&self.inputs[lane], output, Padding::NONE).map(drop)
    }
}

impl Benchmark for Private {
    fn output_len(&self) -> usize {
        self.bytes
    }

    fn rooms(&self) -> &'static [Room] {
        ROOMS
    }

    fn openssl(&self) -> Result<Runner<'_>, ErrorStack> {
        Ok(in_turn(|lane, output| self.one(lane, output)))
    }

    fn widelane(&self, policy: &Policy, jobs: Option<usize>) -> Ours<'_> {
        let rsa = Rsa::choose(policy);
        let lanes = jobs.unwrap_or(rsa.lanes());
        let run = move |outputs: &mut [Vec<u8>]| {
            let inputs = self.inputs.iter().zip(outputs).take(lanes);
            let mut jobs: Vec<_> =
                inputs.map(|(input, output)| PrivateJob::new(&self.key, input, output)).collect();
            rsa.private_batch(&mut jobs);
            Ok(jobs.iter().filter(|job| job.outcome == Outcome::Done).count() as u64)
        };
        Ours { lanes, run: Box::new(run) }
    }

    fn confirmation(&self, policy: &Policy) -> Option<Runner<'_>> {
        let kernel = Rsa::choose(policy).kernels().into_iter().next();
        let mut is_signed = false;
        Some(Box::new(move |signatures| {
            if !is_signed {
                for (lane, signature) in signatures.iter_mut().enumerate() {
                    self.one(lane, signature)?;
                }
                is_signed = true;
            }
            let confirms = |(input, signature): &(&Vec<u8>, &mut Vec<u8>)| match kernel {
                Some(kernel) => kernel.confirms(&self.key, input, signature),
                None => confirms_one(&self.key, input, signature),
            };
            Ok(self.inputs.iter().zip(signatures).filter(confirms).count() as u64)
        }))
    }

    fn is_right(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        let mut expected = vec![0; self.bytes];
        self.one(lane, &mut expected)?;
        Ok(expected == output)
    }
}
