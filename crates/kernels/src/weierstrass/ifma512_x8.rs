//! Room ifma512_x8 of weierstrass: eight jobs, one per 64-bit lane. Secret-independent.

use core::marker::PhantomData;

use widelane_cpu::Ifma512;

use super::batch::{Derive, Generate, Sign, Verify};
use super::job::{DeriveJob, GenerateJob, SignJob, VerifyJob};
use super::{Door, P256, P384, check_count};
use crate::lanes::{Ifma512x8, Lanes};

doors!(Ifma512, Ifma512x8, self => self);
