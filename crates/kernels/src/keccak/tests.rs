//! Tests of Keccak.
