//! The variables of the environment by which `widelane run` tells a program what to load.

/// Names the libraries that the dynamic loader loads into every program, the runtime among them.
pub const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// Names the provider that the runtime loads.
pub const PROVIDER_VARIABLE: &str = "WIDELANE_PROVIDER";

/// Asks, by [`PQ_VALUE`], for X25519MLKEM768 where the program names no groups.
pub const PQ_VARIABLE: &str = "WIDELANE_PQ";

/// What [`PQ_VARIABLE`] says if it asks for anything.
pub const PQ_VALUE: &str = "yes";
