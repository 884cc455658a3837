//! ring.

crate::ring_like::work!(ring, return Err("no AES-192-GCM".to_owned()), "no AES-CBC");
