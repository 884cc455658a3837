//! Safe algorithms on top of the kernels, one-shot and batch.
#![forbid(unsafe_code)]

pub mod rsa;
mod stack;
