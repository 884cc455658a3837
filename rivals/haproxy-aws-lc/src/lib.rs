//! Has cargo fetch and build AWS-LC, libssl included: `cargo xtask rival haproxy-aws-lc` links
//! HAProxy with it.
