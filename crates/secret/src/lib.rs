//! How we keep secrets: masks, constant-time select and equal, wiping.
//!
//! A comparison of secrets answers with a [`Mask`], never with a `bool`; turning a mask into a
//! `bool` is one word that can be searched for, [`Mask::declassify`]. [`wipe()`] clears memory in a
//! way the compiler may not remove; [`wipe_vector_registers`] clears what kernels leave behind in
//! the vector unit, and [`wipe_ymm_registers`] does where there is no AVX-512. What the compiler
//! spilled is cleared by functions of [`stack`].
#![doc = include_str!("../README.md")]
#![no_std]

mod mask;
pub mod stack;
mod wipe;

pub use mask::{Mask, hidden};
pub use wipe::{wipe, wipe_vector_registers, wipe_ymm_registers};
