//! What the device is asked to do, and how it answers.
#![allow(unsafe_code, reason = "pointers and callbacks of a caller in C")]

use std::ffi::{c_int, c_void};

use crate::arithmetic::{PrivateKey, private_operation};
use crate::curves::{self, Weierstrass};
use crate::exports::{
    Callback, CpaFlatBuffer, CpaStatus, EcdhMultiply, EcdsaSign, MontgomeryMultiply, PairCallback,
    RsaDecrypt, RsaPrivateKey,
};

/// An operation, by its pointers, which the caller keeps until the callback.
pub(crate) enum Work {
    /// The private operation of RSA.
    Rsa { callback: Callback, call: *const RsaDecrypt, output: *mut CpaFlatBuffer },
    /// One on a curve, which gives two numbers.
    Pair { callback: PairCallback, call: Curve, outputs: [*mut CpaFlatBuffer; 2] },
}

/// An operation on a curve.
pub(crate) enum Curve {
    Ecdsa(*const EcdsaSign),
    Ecdh(*const EcdhMultiply),
    X25519(*const MontgomeryMultiply),
}

// SAFETY: the thread that polls follows the pointers, one thread for each operation.
unsafe impl Send for Work {}

impl Work {
    /// Writes the result, with some bits turned over; whether there is any.
    pub(crate) fn execute(&self, turned: u8) -> bool {
        match self {
            Work::Rsa { call, output, .. } => {
                // SAFETY: the caller keeps it until the callback.
                let call = unsafe { &**call };
                // SAFETY: as above.
                let output = unsafe { &**output };
                let mut result = private_operation(&call.key().parts(), call.input.bytes());
                spoil(&mut result, turned);
                output.write(&result);
                true
            }
            Work::Pair { call, outputs, .. } => {
                let Some([mut first, second]) = call.execute() else { return false };
                spoil(&mut first, turned);
                for (output, number) in outputs.iter().zip([first, second]) {
                    // SAFETY: as above.
                    unsafe { &**output }.write(&number);
                }
                true
            }
        }
    }

    pub(crate) fn call_back(&self, tag: *mut c_void, status: CpaStatus, is_valid: bool) {
        match self {
            Work::Rsa { callback, call, output } => {
                // SAFETY: what the caller has given, with its arguments.
                unsafe { callback(tag, status, call.cast_mut().cast(), *output) };
            }
            Work::Pair { callback, call, outputs: [first, second] } => {
                let is_valid = c_int::from(is_valid);
                // SAFETY: as above.
                unsafe { callback(tag, status, call.pointer(), is_valid, *first, *second) };
            }
        }
    }
}

fn spoil(result: &mut [u8], turned: u8) {
    *result.last_mut().expect("a number has bytes") ^= turned;
}

impl Curve {
    fn pointer(&self) -> *mut c_void {
        match self {
            Curve::Ecdsa(call) => call.cast_mut().cast(),
            Curve::Ecdh(call) => call.cast_mut().cast(),
            Curve::X25519(call) => call.cast_mut().cast(),
        }
    }

    /// Both numbers of the result; nothing if there is none.
    fn execute(&self) -> Option<[Vec<u8>; 2]> {
        match self {
            Curve::Ecdsa(call) => {
                // SAFETY: the caller keeps it until the callback.
                let call = unsafe { &**call };
                call.check();
                let curve = Weierstrass::new(call.q.bytes(), call.a.bytes(), call.b.bytes());
                let base = [call.xg.bytes(), call.yg.bytes()];
                let [n, k, m, d] = [&call.n, &call.k, &call.m, &call.d].map(|part| part.bytes());
                curve.sign(base, n, k, m, d)
            }
            Curve::Ecdh(call) => {
                // SAFETY: as above.
                let call = unsafe { &**call };
                call.check();
                let curve = Weierstrass::new(call.q.bytes(), call.a.bytes(), call.b.bytes());
                curve.multiply(call.k.bytes(), [call.xg.bytes(), call.yg.bytes()])
            }
            Curve::X25519(call) => {
                // SAFETY: as above.
                let call = unsafe { &**call };
                call.check();
                let x = curves::x25519(call.k.bytes(), call.x.bytes())?;
                Some([x, vec![0; 32]])
            }
        }
    }
}

impl RsaPrivateKey {
    fn parts(&self) -> PrivateKey<'_> {
        let [p, q, dp, dq, qinv] = self.numbers.each_ref().map(CpaFlatBuffer::bytes);
        PrivateKey { p, q, dp, dq, qinv }
    }
}
