//! Chores from outside.

mod supervise;
mod x;
