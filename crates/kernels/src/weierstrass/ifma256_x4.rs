//! Room ifma256_x4 of weierstrass: four jobs, one per 64-bit lane. Secret-independent.

use core::marker::PhantomData;

use widelane_cpu::Ifma256;

use super::batch::{Derive, Generate, Sign, Verify};
use super::job::{DeriveJob, GenerateJob, SignJob, VerifyJob};
use super::{Door, P256, P384, check_count};
use crate::lanes::{Ifma256x4, Lanes};

doors!(Ifma256, Ifma256x4, self => self);
