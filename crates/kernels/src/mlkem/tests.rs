//! Tests of ML-KEM's kernels.
