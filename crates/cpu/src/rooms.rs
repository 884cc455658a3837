//! Rooms: one implementation per instruction-set bundle, and the tokens that open them.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::features;
use crate::policy::Policy;

/// A vector width in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "u32")]
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

impl fmt::Display for Width {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bits().fmt(formatter)
    }
}

impl From<Width> for u32 {
    fn from(width: Width) -> u32 {
        width.bits()
    }
}

/// A number that is no vector width.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a register width is 128, 256 or 512 bits, not {0}")]
pub struct UnknownWidth(String);

impl TryFrom<u32> for Width {
    type Error = UnknownWidth;

    fn try_from(bits: u32) -> Result<Self, UnknownWidth> {
        [Width::W128, Width::W256, Width::W512]
            .into_iter()
            .find(|width| width.bits() == bits)
            .ok_or_else(|| UnknownWidth(bits.to_string()))
    }
}

impl FromStr for Width {
    type Err = UnknownWidth;

    fn from_str(text: &str) -> Result<Self, UnknownWidth> {
        let unknown = || UnknownWidth(format!("{text:?}"));
        text.parse::<u32>().map_err(|_| unknown())?.try_into().map_err(|_| unknown())
    }
}

/// The power-licence class of a room: its width, and whether it multiplies ("heavy").
///
/// Intel's licence levels follow these classes (see docs/operate/policy.md); VPMADD52 on `zmm` is
/// 512 heavy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "String")]
pub struct LicenceClass {
    /// Register width.
    pub width: Width,
    /// Floating-point or integer multiplies are part of the hot loop.
    pub heavy: bool,
}

impl LicenceClass {
    /// All classes, lightest first.
    pub const ALL: [LicenceClass; 6] = [
        LicenceClass { width: Width::W128, heavy: false },
        LicenceClass { width: Width::W128, heavy: true },
        LicenceClass { width: Width::W256, heavy: false },
        LicenceClass { width: Width::W256, heavy: true },
        LicenceClass { width: Width::W512, heavy: false },
        LicenceClass { width: Width::W512, heavy: true },
    ];
}

impl fmt::Display for LicenceClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.width, if self.heavy { "heavy" } else { "light" })
    }
}

impl From<LicenceClass> for String {
    fn from(class: LicenceClass) -> String {
        class.to_string()
    }
}

/// A name that no licence class has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no licence class {name:?}; the classes are {}", names(&LicenceClass::ALL))]
pub struct UnknownClass {
    name: String,
}

impl FromStr for LicenceClass {
    type Err = UnknownClass;

    fn from_str(name: &str) -> Result<Self, UnknownClass> {
        let found = LicenceClass::ALL.into_iter().find(|class| class.to_string() == name);
        found.ok_or_else(|| UnknownClass { name: name.to_owned() })
    }
}

/// Declares [`Room`] and the token of each room from one line per room: number, name, licence class
/// and features.
macro_rules! rooms {
    ($($(#[$doc:meta])* $room:ident = $number:literal, $name:literal, $width:ident, $heavy:ident,
       $features:expr;)+) => {
        /// One implementation for one instruction-set bundle, named by lead instruction and width.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(into = "String")]
        #[repr(u32)]
        pub enum Room {
            $($(#[$doc])* $room = $number,)+
        }

        impl Room {
            /// All rooms, in the order of their numbers.
            pub const ALL: [Room; [$($number),+].len()] = [$(Room::$room),+];

            /// The room's name as it appears in paths, policies and results.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Room::$room => $name,)+
                }
            }

            /// The CPUID features the room's kernels enable.
            pub const fn features(self) -> &'static [&'static str] {
                match self {
                    $(Room::$room => &$features,)+
                }
            }

            /// The room's power-licence class.
            pub const fn licence_class(self) -> LicenceClass {
                match self {
                    $(Room::$room => LicenceClass { width: Width::$width, heavy: $heavy },)+
                }
            }
        }

        $(token! { $room })+

        /// Whether the token of `room` can be minted.
        #[cfg(test)]
        fn mints(room: Room, policy: &Policy) -> bool {
            match room {
                $(Room::$room => <$room as Token>::enter(policy).is_some(),)+
            }
        }
    };
}

/// Proof that a room may be entered.
pub trait Token: Copy {
    /// Mints the token if the CPU has the room and `policy` leaves it open.
    fn enter(policy: &Policy) -> Option<Self>;
}

/// Declares the token of a room; everybody may enter the portable one.
macro_rules! token {
    (Portable) => {
        /// Everybody may enter [`Room::Portable`].
        pub type Portable = ();

        impl Token for Portable {
            fn enter(_policy: &Policy) -> Option<Self> {
                Some(())
            }
        }
    };
    ($room:ident) => {
        #[doc = concat!("Proof that [`Room::", stringify!($room), "`] may be entered.")]
        ///
        /// It cannot be made up:
        ///
        /// ```compile_fail,E0423
        #[doc = concat!("let forged = widelane_cpu::", stringify!($room), "(());")]
        /// ```
        #[derive(Clone, Copy, Debug)]
        pub struct $room(());

        impl $room {
            /// The room this token opens.
            pub const ROOM: Room = Room::$room;

            /// Mints the token if the CPU has the room and `policy` leaves it open.
            pub fn enter(policy: &Policy) -> Option<Self> {
                (Self::ROOM.is_supported() && policy.allows(Self::ROOM)).then_some(Self(()))
            }
        }

        impl Token for $room {
            fn enter(policy: &Policy) -> Option<Self> {
                Self::enter(policy)
            }
        }
    };
}

/// Whether a room multiplies in its hot loop.
const HEAVY: bool = true;
const LIGHT: bool = false;

/// What both IFMA rooms enable.
const IFMA: [&str; 5] = ["avx512f", "avx512dq", "avx512vl", "avx512bw", "avx512ifma"];

rooms! {
    /// Plain Rust; runs on every x86-64.
    Portable = 0, "portable", W128, LIGHT, [];
    /// AVX-512 IFMA on 256-bit registers.
    Ifma256 = 1, "ifma256", W256, HEAVY, IFMA;
    /// AVX-512 IFMA on 512-bit registers.
    Ifma512 = 2, "ifma512", W512, HEAVY, IFMA;
    /// AES-NI and PCLMULQDQ, one block per instruction.
    Aesni = 3, "aesni", W128, LIGHT, ["aes", "pclmulqdq", "avx"];
    /// AVX2 without vector multiplies but of 16 bits (ML-KEM); scalar ones may run beside it.
    Avx2 = 4, "avx2", W256, LIGHT, ["avx2", "bmi2"];
    /// VAES and VPCLMULQDQ on 256-bit registers.
    Vaes256 = 5, "vaes256", W256, LIGHT, ["aes", "pclmulqdq", "vaes", "vpclmulqdq", "avx2"];
    /// AVX-512 without vector multiplies but of 16 bits (ML-KEM); scalar ones may run beside it.
    Avx512 = 6, "avx512", W512, LIGHT, ["avx512f", "avx512dq", "avx512vl", "avx512bw", "bmi2"];
    /// VAES and VPCLMULQDQ on 512-bit registers.
    Vaes512 = 7, "vaes512", W512, LIGHT, [
        "aes", "pclmulqdq", "vaes", "vpclmulqdq",
        "avx512f", "avx512dq", "avx512vl", "avx512bw", "bmi2",
    ];
    /// SHA extensions and AES-NI, one message at a time.
    Shani = 8, "shani", W128, LIGHT, ["sha", "aes", "avx"];
    /// AVX-512 with VBMI and VBMI2, which move bytes and words: ML-KEM.
    Vbmi512 = 9, "vbmi512", W512, LIGHT, [
        "avx512f", "avx512dq", "avx512vl", "avx512bw", "avx512vbmi", "avx512vbmi2", "bmi2",
        "popcnt",
    ];
    /// MULX, ADCX and ADOX: one job at a time in general-purpose registers.
    Adx = 10, "adx", W128, LIGHT, ["bmi2", "adx"];
    /// AVX2 and FMA: products of integers as double-precision numbers.
    Fma256 = 11, "fma256", W256, HEAVY, ["avx2", "fma"];
}

impl Room {
    /// Whether CPU and operating system support the room, whatever the policy says.
    pub fn is_supported(self) -> bool {
        features::missing(self.features()).next().is_none()
    }
}

impl fmt::Display for Room {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(formatter)
    }
}

impl From<Room> for String {
    fn from(room: Room) -> String {
        room.name().to_owned()
    }
}

/// A name that no room has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no room {name:?}; the rooms are {}", names(&Room::ALL))]
pub struct UnknownRoom {
    name: String,
}

impl FromStr for Room {
    type Err = UnknownRoom;

    fn from_str(name: &str) -> Result<Self, UnknownRoom> {
        let found = Room::ALL.into_iter().find(|room| room.name() == name);
        found.ok_or_else(|| UnknownRoom { name: name.to_owned() })
    }
}

fn names<T: fmt::Display>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// Whether a room may be entered on this machine under a policy, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoomStatus {
    /// The room.
    pub room: Room,
    /// Whether its token can be minted.
    pub open: bool,
    /// Why the room is closed; nothing where it is open.
    pub reason: Option<String>,
}

/// All rooms, as `policy` and this machine leave them.
pub fn status(policy: &Policy) -> Vec<RoomStatus> {
    let status = |room: Room| {
        let missing: Vec<_> = features::missing(room.features()).collect();
        let reason = if missing.is_empty() {
            policy.objection(room)
        } else {
            Some(format!("no {}", missing.join(", ")))
        };
        RoomStatus { room, open: reason.is_none(), reason }
    };
    Room::ALL.into_iter().map(status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_of_a_room_is_one_we_look_at() {
        for room in Room::ALL {
            for feature in room.features() {
                assert!(features::NAMES.contains(feature), "{room} wants {feature}");
            }
        }
    }

    #[test]
    fn names_lead_back_to_what_they_name() {
        for room in Room::ALL {
            assert_eq!(room.name().parse(), Ok(room));
        }
        for class in LicenceClass::ALL {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        for width in [Width::W128, Width::W256, Width::W512] {
            assert_eq!(width.to_string().parse(), Ok(width));
        }
    }

    #[test]
    fn an_unknown_room_is_told_which_there_are() {
        let error = "ifma1024".parse::<Room>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no room \"ifma1024\"; the rooms are portable, ifma256, ifma512, aesni, avx2, \
             vaes256, avx512, vaes512, shani, vbmi512, adx, fma256"
        );
    }

    #[test]
    fn a_token_is_minted_exactly_where_the_status_says_open() {
        for width in [Width::W128, Width::W256, Width::W512] {
            let policy = Policy::up_to(width);
            let status = status(&policy);
            for RoomStatus { room, open, reason } in status {
                assert_eq!(open, room.is_supported() && room.licence_class().width <= width);
                assert_eq!(open, reason.is_none());
                assert_eq!(open, mints(room, &policy), "{room}");
            }
        }
    }
}
