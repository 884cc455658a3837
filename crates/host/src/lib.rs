//! What is on this machine: servers and other programs that are installed, processes, and what
//! those that are accelerated have counted.

pub mod choice;
pub mod counters;
pub mod process;
pub mod programs;
pub mod qat;
