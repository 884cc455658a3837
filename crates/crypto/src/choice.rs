//! The choice of a room: which rooms a family of algorithms has, and how a kernel is called in one.
//!
//! Authenticated encryption and AES-CBC keep keys in the form of their room, so a key remembers the
//! choice (`aead/gcm.rs`, `aead/chacha.rs`, `cbc_hmac/kernel.rs`); single hashes have rooms that
//! differ by function (`digest/kernel.rs`).

use widelane_cpu::{Aesni, Avx2, Avx512, Ifma256, Ifma512, Policy, Room, Vaes256, Vaes512};
use widelane_kernels::lanes::{Ifma256x4, Ifma512x8, Lanes, Portable};

/// The most lanes a room has.
pub(crate) const LANES_MAX: usize = Ifma512x8::LANES;

/// Declares the rooms of a family of algorithms, best first; the portable one is always there.
macro_rules! rooms {
    ($(#[$doc:meta])* $name:ident: $($room:ident),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $name {
            $($room($room),)+
            Portable,
        }

        impl $name {
            /// Chooses the best room that the machine has and `policy` leaves open.
            pub(crate) fn new(policy: &Policy) -> Self {
                $(if let Some(room) = $room::enter(policy) {
                    return $name::$room(room);
                })+
                $name::Portable
            }

            /// The room chosen.
            pub(crate) fn room(self) -> Room {
                match self {
                    $($name::$room(_) => Room::$room,)+
                    $name::Portable => Room::Portable,
                }
            }
        }
    };
}

rooms! {
    /// The room of algorithms that run one job per lane, with the token that opens it.
    Choice: Ifma512, Ifma256
}

rooms! {
    /// The room of AES, with the token that opens it.
    AesChoice: Vaes512, Vaes256, Aesni
}

rooms! {
    /// The room of algorithms on words of many messages, with the token that opens it.
    WordChoice: Avx512, Avx2
}

impl Choice {
    /// The rooms with several lanes that the machine has and `policy` leaves open, narrowest first.
    pub(crate) fn with_lanes(policy: &Policy) -> impl Iterator<Item = Self> {
        let ifma256 = Ifma256::enter(policy).map(Choice::Ifma256);
        let ifma512 = Ifma512::enter(policy).map(Choice::Ifma512);
        ifma256.into_iter().chain(ifma512)
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
