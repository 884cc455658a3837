//! What does private-key operations: the lanes of the CPU, or a device.

super::word::words! {
    /// What does those private-key operations that it can do; all others, and those that it fails,
    /// the CPU does.
    Engine {
        /// The CPU.
        #[default]
        Cpu = "cpu",
        /// Intel QuickAssist (QAT), by qatlib, where that costs the CPU less; docs/design/qat.md.
        Qat = "qat",
        /// Intel QuickAssist (QAT) whenever the device has room, whatever that costs.
        QatFirst = "qat-first",
    }
    /// What is no engine.
    UnknownEngine: "an engine is cpu, qat or qat-first, not {0:?}"
}
