//! Rooms: one implementation per instruction-set bundle, and the tokens that open them.

use crate::policy::Policy;

/// A vector width in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// General-purpose and 128-bit registers.
    W128,
    /// 256-bit `ymm` registers.
    W256,
    /// 512-bit `zmm` registers.
    W512,
}

impl Width {
    /// The width in bits: 128, 256 or 512.
    pub const fn bits(self) -> u32 {
        match self {
            Width::W128 => 128,
            Width::W256 => 256,
            Width::W512 => 512,
        }
    }
}

/// The power-licence class of a room: its width, and whether it multiplies ("heavy").
///
/// Intel's licence levels follow these classes (see docs of `widelane power`); VPMADD52 on `zmm` is 512 heavy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LicenceClass {
    /// Register width.
    pub width: Width,
    /// Floating-point or integer multiplies are part of the hot loop.
    pub heavy: bool,
}

/// One implementation for one instruction-set bundle, named by lead instruction and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Room {
    /// Plain Rust; runs on every x86-64.
    Portable = 0,
    /// AVX-512 IFMA on 256-bit registers.
    Ifma256 = 1,
    /// AVX-512 IFMA on 512-bit registers.
    Ifma512 = 2,
}

impl Room {
    /// All rooms, narrowest first.
    pub const ALL: [Room; 3] = [Room::Portable, Room::Ifma256, Room::Ifma512];

    /// The room's name as it appears in paths, policies and results.
    pub const fn name(self) -> &'static str {
        match self {
            Room::Portable => "portable",
            Room::Ifma256 => "ifma256",
            Room::Ifma512 => "ifma512",
        }
    }

    /// The CPUID features the room's kernels enable.
    pub const fn features(self) -> &'static [&'static str] {
        match self {
            Room::Portable => &[],
            Room::Ifma256 | Room::Ifma512 => {
                &["avx512f", "avx512dq", "avx512vl", "avx512bw", "avx512ifma"]
            }
        }
    }

    /// The room's power-licence class.
    pub const fn licence_class(self) -> LicenceClass {
        match self {
            Room::Portable => LicenceClass { width: Width::W128, heavy: false },
            Room::Ifma256 => LicenceClass { width: Width::W256, heavy: true },
            Room::Ifma512 => LicenceClass { width: Width::W512, heavy: true },
        }
    }

    /// Whether CPU and operating system support the room, whatever the policy says.
    pub fn is_supported(self) -> bool {
        match self {
            Room::Portable => true,
            Room::Ifma256 | Room::Ifma512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512ifma")
            }
        }
    }
}

macro_rules! token {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name(());

        impl $name {
            /// The room this token opens.
            pub const ROOM: Room = Room::$name;

            /// Mints the token if the CPU has the room and `policy` leaves it open.
            pub fn enter(policy: &Policy) -> Option<Self> {
                (Self::ROOM.is_supported() && policy.allows(Self::ROOM)).then_some(Self(()))
            }
        }
    };
}

token! {
    /// Proof that AVX-512 IFMA on 256-bit registers may be used.
    Ifma256
}
token! {
    /// Proof that AVX-512 IFMA on 512-bit registers may be used.
    Ifma512
}
