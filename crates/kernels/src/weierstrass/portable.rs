//! Room portable of weierstrass: one job at a time, in plain Rust. Secret-independent.

use core::marker::PhantomData;

use super::batch::{Derive, Generate, Sign, Verify};
use super::job::{DeriveJob, GenerateJob, SignJob, VerifyJob};
use super::{Door, P256, P384, check_count};
use crate::lanes::{Lanes, Portable};

/// The portable room, which needs no token.
#[derive(Clone, Copy, Debug)]
pub struct Single;

doors!(Single, Portable, self => ());
