//! What is on this machine: servers and other programs that are installed, and what accelerated
//! processes have counted.

pub mod choice;
pub mod counters;
pub mod programs;
pub mod qat;
