//! Curve25519 in lanes: the ladder of X25519 (RFC 7748) and the group of Ed25519 (RFC 8032).
//!
//! Written once over the registers of [`lanes`](crate::lanes); the room is chosen with the type of
//! the register. The mathematics and its bounds are in `docs/design/curve25519.md`.

mod adx;
mod base;
mod bytes;
mod edwards;
mod field;
mod ladder;
mod limbs;
mod number;
mod quad;
mod scalar;
mod table;
#[cfg(test)]
mod tests;
mod verify;

pub use limbs::Limbs;
pub use scalar::Scalar;

use widelane_cpu::Adx;

use crate::lanes::LaneMask;

/// Computes X25519(scalar, point) for 1 to `L::LANES` scalars, each with a point of its own, and
/// returns in which lanes the result is zero: those whose point has a small order.
///
/// Secrets: scalars, points, results. Branches and addresses depend on none.
///
/// # Panics
///
/// Panics if there is no scalar or no point.
pub fn x25519<L: Limbs>(
    room: L::Room,
    scalars: &[&[u8; 32]],
    points: &[&[u8; 32]],
    results: &mut [[u8; 32]],
) -> LaneMask {
    let zero = L::enter(room, ladder::Ladder { scalars, points, results });
    L::wipe_registers(room);
    zero
}

/// How many lanes [`x25519_quad`] takes for a job.
pub const QUAD: usize = quad::WIDTH;

/// Does what [`x25519`] does for 1 to `L::LANES / QUAD` scalars, each of which has four lanes: less
/// work is done at a time, and it is done sooner.
///
/// Secrets: scalars, points, results. Branches and addresses depend on none.
///
/// # Panics
///
/// Panics if there is no scalar or no point.
pub fn x25519_quad<L: Limbs>(
    room: L::Room,
    scalars: &[&[u8; 32]],
    points: &[&[u8; 32]],
    results: &mut [[u8; 32]],
) -> LaneMask {
    let zero = L::enter(room, quad::Ladder { scalars, points, results });
    L::wipe_registers(room);
    zero
}

/// Computes X25519(scalar, point) for one job, and returns in lane 0 whether the result is zero.
///
/// Secrets: scalar, point, result. Branches and addresses depend on none.
pub fn x25519_one(
    room: Adx,
    scalar: &[u8; 32],
    point: &[u8; 32],
    result: &mut [u8; 32],
) -> LaneMask {
    adx::x25519(room, scalar, point, result)
}

/// Computes X25519(scalar, 9), the public keys of 1 to `L::LANES` private keys.
///
/// Secrets: scalars. Branches and addresses depend on none.
///
/// # Panics
///
/// Panics if there is no scalar.
pub fn x25519_base<L: Limbs>(room: L::Room, scalars: &[&[u8; 32]], results: &mut [[u8; 32]]) {
    L::enter(room, base::GenerateU { scalars, results });
    L::wipe_registers(room);
}

/// Computes and encodes scalar·B of Ed25519 for 1 to `L::LANES` scalars below 2^254.
///
/// Secrets: scalars. Branches and addresses depend on none.
///
/// # Panics
///
/// Panics if there is no scalar.
pub fn ed25519_base<L: Limbs>(room: L::Room, scalars: &[&[u8; 32]], results: &mut [[u8; 32]]) {
    L::enter(room, base::EncodeMultiples { scalars, results });
    L::wipe_registers(room);
}

/// Computes and encodes S·B − k·A of Ed25519 for 1 to `L::LANES` scalars S and k below 2^254 and
/// encoded points A, and returns in which lanes A is a point.
///
/// # Panics
///
/// Panics if one of the lists is empty.
pub fn ed25519_difference<L: Limbs>(
    room: L::Room,
    publics: &[&[u8; 32]],
    scalars: &[&[u8; 32]],
    challenges: &[&[u8; 32]],
    results: &mut [[u8; 32]],
) -> LaneMask {
    L::enter(room, verify::EncodeDifferences { publics, scalars, challenges, results })
}
