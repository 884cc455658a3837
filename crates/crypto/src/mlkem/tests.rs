//! The choice of a room, and batches of every size.
