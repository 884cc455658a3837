//! The choice of a room, for algorithms that run one job per lane.

use widelane_cpu::{Ifma256, Ifma512, Policy, Room};
use widelane_kernels::lanes::{Ifma256x4, Ifma512x8, Lanes, Portable};

/// The most lanes a room has.
pub(crate) const LANES_MAX: usize = Ifma512x8::LANES;

/// The room chosen, with the token that opens it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    Ifma512(Ifma512),
    Ifma256(Ifma256),
    Portable,
}

impl Choice {
    /// Chooses the widest room that the machine has and `policy` leaves open.
    pub(crate) fn new(policy: &Policy) -> Self {
        Self::with_lanes(policy).last().unwrap_or(Choice::Portable)
    }

    /// The rooms with several lanes that the machine has and `policy` leaves open, narrowest first.
    pub(crate) fn with_lanes(policy: &Policy) -> impl Iterator<Item = Self> {
        let ifma256 = Ifma256::enter(policy).map(Choice::Ifma256);
        let ifma512 = Ifma512::enter(policy).map(Choice::Ifma512);
        ifma256.into_iter().chain(ifma512)
    }

    /// The room chosen.
    pub(crate) fn room(self) -> Room {
        match self {
            Choice::Ifma512(_) => Room::Ifma512,
            Choice::Ifma256(_) => Room::Ifma256,
            Choice::Portable => Room::Portable,
        }
    }

    /// How many jobs a full batch has.
    pub(crate) fn lanes(self) -> usize {
        match self {
            Choice::Ifma512(_) => Ifma512x8::LANES,
            Choice::Ifma256(_) => Ifma256x4::LANES,
            Choice::Portable => Portable::LANES,
        }
    }
}

/// Calls a kernel with the register and the token of the room chosen.
macro_rules! call_in {
    ($choice:expr, $module:ident::$kernel:ident($($argument:expr),* $(,)?)) => {
        match $choice {
            crate::choice::Choice::Ifma512(room) => {
                $module::$kernel::<widelane_kernels::lanes::Ifma512x8>(room, $($argument),*)
            }
            crate::choice::Choice::Ifma256(room) => {
                $module::$kernel::<widelane_kernels::lanes::Ifma256x4>(room, $($argument),*)
            }
            crate::choice::Choice::Portable => {
                $module::$kernel::<widelane_kernels::lanes::Portable>((), $($argument),*)
            }
        }
    };
}
pub(crate) use call_in;
