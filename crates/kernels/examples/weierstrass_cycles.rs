//! Cycles per operation on P-256 and P-384 in the wide rooms, beside OpenSSL in the same run.
//!
//! `cargo run --release -p widelane-kernels --example weierstrass_cycles`
#![allow(clippy::print_stdout, reason = "an example answers on the terminal")]

mod add_chain;

use add_chain::cycles_per_ns;
use openssl::derive::Deriver;
use openssl::ec::{EcGroup, EcKey};
use openssl::ecdsa::EcdsaSig;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use widelane_cpu::clock::now_ns;
use widelane_cpu::{Ifma256, Ifma512, Policy};
use widelane_kernels::lanes::{Ifma256x4, Ifma512x8};
use widelane_kernels::weierstrass::{
    Curve, CurveLanes, DeriveJob, GenerateJob, P256, P384, Point, Scalar, SignJob, Verdict,
    VerifyJob,
};

/// Rounds in which our batch and OpenSSL have their turns; machines have other work too.
const ROUNDS: usize = 200;

fn main() {
    println!("room     curve  operation  kcycles/op     GHz   times OpenSSL");
    if let Some(room) = Ifma512::enter(&Policy::open()) {
        measure::<Ifma512x8, P256, 5>("ifma512  p256 ", room, Nid::X9_62_PRIME256V1);
        measure::<Ifma512x8, P384, 8>("ifma512  p384 ", room, Nid::SECP384R1);
    }
    if let Some(room) = Ifma256::enter(&Policy::open()) {
        measure::<Ifma256x4, P256, 5>("ifma256  p256 ", room, Nid::X9_62_PRIME256V1);
        measure::<Ifma256x4, P384, 8>("ifma256  p384 ", room, Nid::SECP384R1);
    }
}

fn measure<L: CurveLanes<C, D>, C: Curve<D>, const D: usize>(name: &str, room: L::Room, nid: Nid) {
    let group = EcGroup::from_curve_name(nid).expect("OpenSSL knows the curve");
    let theirs = EcKey::generate(&group).expect("a key of OpenSSL");
    let bytes = theirs.private_key().to_vec_padded(C::BYTES as i32).expect("a padded number");
    let private = Scalar::from_bytes::<C>(&bytes).expect("a private key");
    let mut public_bytes = vec![0; 2 * C::BYTES];
    let verdict = Verdict::Pending;
    L::generate(room, &mut [GenerateJob { private: &private, public: &mut public_bytes, verdict }]);
    let public = Point::from_bytes::<C>(&public_bytes).expect("a public key");
    let digest = [0x5a; 32];
    let mut outputs = vec![vec![0; 2 * C::BYTES]; L::LANES];

    let mut ours = || {
        let mut jobs: Vec<_> = outputs
            .iter_mut()
            .map(|public| GenerateJob { private: &private, public, verdict })
            .collect();
        L::generate(room, &mut jobs);
    };
    report(name, "generate", L::LANES, &mut ours, &mut || {
        EcKey::generate(&group).expect("a key of OpenSSL");
    });

    let mut ours = || {
        let mut jobs: Vec<_> = outputs
            .iter_mut()
            .map(|output| &mut output[..C::BYTES])
            .map(|shared| DeriveJob { private: &private, peer: &public, shared, verdict })
            .collect();
        L::derive(room, &mut jobs);
    };
    let key = PKey::from_ec_key(theirs.clone()).expect("a key of OpenSSL");
    report(name, "derive", L::LANES, &mut ours, &mut || openssl_derive(&key));

    let nonce = [0x3c; 64];
    let mut ours = || {
        let mut jobs: Vec<_> = outputs
            .iter_mut()
            .map(|signature| SignJob {
                private: &private,
                nonce: &nonce,
                digest: &digest,
                signature,
                verdict,
            })
            .collect();
        L::sign(room, &mut jobs);
    };
    report(name, "sign", L::LANES, &mut ours, &mut || {
        EcdsaSig::sign(&digest, &theirs).expect("a signature of OpenSSL");
    });

    let signature = EcdsaSig::sign(&digest, &theirs).expect("a signature of OpenSSL");
    let mut ours = || {
        let mut jobs: Vec<_> = outputs
            .iter()
            .map(|signature| VerifyJob { public: &public, digest: &digest, signature, verdict })
            .collect();
        L::verify(room, &mut jobs);
        assert!(jobs.iter().all(|job| job.verdict == Verdict::Done));
    };
    report(name, "verify", L::LANES, &mut ours, &mut || {
        signature.verify(&digest, &theirs).expect("a verdict of OpenSSL");
    });
}

fn openssl_derive(key: &PKey<Private>) {
    let mut deriver = Deriver::new(key).expect("a context of OpenSSL");
    deriver.set_peer(key).expect("a peer on the same curve");
    deriver.derive_to_vec().expect("a secret of OpenSSL");
}

fn report(
    name: &str,
    operation: &str,
    lanes: usize,
    ours: &mut dyn FnMut(),
    theirs: &mut dyn FnMut(),
) {
    let (mut cycles, mut nanoseconds, mut ratios) = (f64::INFINITY, 1.0, Vec::new());
    for _ in 0..ROUNDS {
        let before = cycles_per_ns(400);
        let start = now_ns();
        ours();
        let between = now_ns();
        theirs();
        let end = now_ns();
        let elapsed = (between - start) as f64;
        // An interrupted add chain looks like a slow clock.
        let spent = elapsed * before.max(cycles_per_ns(400));
        if spent < cycles {
            (cycles, nanoseconds) = (spent, elapsed);
        }
        ratios.push((end - between) as f64 * lanes as f64 / elapsed);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "{name}  {operation:<9}  {:>10.1}  {:>6.2}  {:>14.1}",
        cycles / lanes as f64 / 1e3,
        cycles / nanoseconds,
        ratios[ROUNDS / 2],
    );
}
