//! The kinds of operations that have kernels: one row each.

use widelane_bridge::counters::OperationKind;
use widelane_cpu::Room;

use crate::batching::kernel::{Kernel, Outcome};
use crate::batching::request::Request;
use crate::config::Config;
use crate::{curve, kem, rsa};

/// A kind of operations, and what does many of them at once.
struct Row {
    kind: OperationKind,
    /// Lanes and room of each kernel that the policy leaves open, those with the fewest lanes
    /// first.
    kernels: fn(&Config) -> Vec<(usize, Room)>,
    /// Runs one of them; nothing where only pools do.
    run: Kernel,
}

const fn row(kind: OperationKind, kernels: fn(&Config) -> Vec<(usize, Room)>, run: Kernel) -> Row {
    Row { kind, kernels, run }
}

const ROWS: &[Row] = &[
    row(OperationKind::Rsa2048, rsa::batch::kernels, rsa::batch::run),
    row(OperationKind::Rsa3072, rsa::batch::kernels, rsa::batch::run),
    row(OperationKind::Rsa4096, rsa::batch::kernels, rsa::batch::run),
    row(OperationKind::X25519Generate, curve::batch::x25519_kernels, by_pools),
    row(
        OperationKind::X25519Derive,
        curve::batch::x25519_derive_kernels,
        curve::batch::derive_x25519,
    ),
    row(OperationKind::P256Generate, curve::batch::ec_kernels, by_pools),
    row(OperationKind::P256Derive, curve::batch::ec_kernels, curve::batch::derive_ec),
    row(OperationKind::P256Sign, curve::batch::ec_sign_kernels, curve::batch::sign_ec),
    row(OperationKind::P384Generate, curve::batch::ec_kernels, by_pools),
    row(OperationKind::P384Derive, curve::batch::ec_kernels, curve::batch::derive_ec),
    row(OperationKind::P384Sign, curve::batch::ec_sign_kernels, curve::batch::sign_ec),
    row(OperationKind::Ed25519Sign, curve::batch::ed25519_kernels, curve::batch::sign_ed25519),
    row(OperationKind::MlKem512Generate, kem::batch::kernels, by_pools),
    row(OperationKind::MlKem768Generate, kem::batch::kernels, by_pools),
    row(OperationKind::MlKem1024Generate, kem::batch::kernels, by_pools),
    row(OperationKind::X25519MlKem768Encapsulate, kem::batch::kernels, kem::batch::encapsulate),
    row(OperationKind::X25519MlKem768Decapsulate, kem::batch::kernels, kem::batch::decapsulate),
    row(OperationKind::MlKem512Encapsulate, kem::batch::kernels, kem::batch::encapsulate),
    row(OperationKind::MlKem512Decapsulate, kem::batch::kernels, kem::batch::decapsulate),
    row(OperationKind::MlKem768Encapsulate, kem::batch::kernels, kem::batch::encapsulate),
    row(OperationKind::MlKem768Decapsulate, kem::batch::kernels, kem::batch::decapsulate),
    row(OperationKind::MlKem1024Encapsulate, kem::batch::kernels, kem::batch::encapsulate),
    row(OperationKind::MlKem1024Decapsulate, kem::batch::kernels, kem::batch::decapsulate),
    row(OperationKind::Secp256r1MlKem768Encapsulate, kem::batch::kernels, kem::batch::encapsulate),
    row(OperationKind::Secp256r1MlKem768Decapsulate, kem::batch::kernels, kem::batch::decapsulate),
    row(OperationKind::Secp384r1MlKem1024Encapsulate, kem::batch::kernels, kem::batch::encapsulate),
    row(OperationKind::Secp384r1MlKem1024Decapsulate, kem::batch::kernels, kem::batch::decapsulate),
];

/// Lanes and room of each kernel for operations of a kind, those with the fewest lanes first; none
/// where there is nothing to batch.
pub(crate) fn kernels(config: &Config, kind: OperationKind) -> Vec<(usize, Room)> {
    find(kind).map_or_else(Vec::new, |row| (row.kernels)(config))
}

/// Runs one of these kernels, which has this place among them.
pub(super) fn run(requests: &[&Request], index: usize) -> Option<Vec<Outcome>> {
    (find(requests.first()?.kind())?.run)(requests, index)
}

fn find(kind: OperationKind) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.kind == kind)
}

fn by_pools(_requests: &[&Request], _index: usize) -> Option<Vec<Outcome>> {
    None
}
