//! Whether workers execute each other's operations.

super::word::words! {
    /// Whether the workers of a server execute each other's operations, so that batches fill.
    Combine {
        /// They do.
        On = "on",
        /// Each executes its own.
        Off = "off",
        /// They do where that is known to gain; docs/design/combining.md says where.
        #[default]
        Auto = "auto",
    }
    /// What is no such choice.
    UnknownCombine: "combining is on, off or auto, not {0:?}"
}
