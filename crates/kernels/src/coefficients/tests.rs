//! Tests of registers.
