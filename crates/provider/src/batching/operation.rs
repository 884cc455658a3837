//! The operations that meet in batches, as those who execute them see them.

use std::any::Any;
use std::sync::Arc;

use widelane_batch::KeyName;
use widelane_bridge::counters::OperationKind;
use widelane_ossl_sys::Libcrypto;

use crate::batching::request::Secret;
use crate::rsa;

/// One operation with a private key. The kernels of its kind know its type.
pub(crate) trait Operation: Any + Send + Sync {
    /// What it meets: only operations of one kind share a batch.
    fn kind(&self) -> OperationKind;

    /// The libcrypto that asked for it.
    fn libcrypto(&self) -> &Libcrypto;

    /// Does it alone, by the default provider.
    fn run_single(&self) -> Option<Secret>;

    /// The name of the key, the key and what is signed, if this is a signature that another worker
    /// may make.
    fn signature(&self) -> Option<(KeyName, &Arc<rsa::key::Key>, &[u8])> {
        None
    }

    /// Whether `result` is the signature that this is to make.
    fn confirms(&self, _result: &[u8]) -> bool {
        false
    }
}
