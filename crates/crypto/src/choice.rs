//! The rooms of algorithms that run one job per lane, and keys that live in rooms.
//!
//! Every algorithm has one list of its rooms, by [`widelane_cpu::choice!`], in the file that calls
//! its kernels. The list that RSA and all curves share stands here.

use widelane_cpu::{Policy, choice};
use widelane_kernels::lanes::Ifma512x8;
use widelane_kernels::registers::Register;

/// The most lanes a room has.
pub(crate) const LANES_MAX: usize = Ifma512x8::LANES;

choice! { $
    /// The room of algorithms that run one job per lane.
    pub(crate) enum Choice by in_lanes {
        Ifma512 => widelane_kernels::lanes::Ifma512x8,
        Ifma256 => widelane_kernels::lanes::Ifma256x4,
        Fma256 => widelane_kernels::lanes::Fma256x4,
        Portable => widelane_kernels::lanes::Portable
    }
}

choice! { $
    /// One of these rooms that has several lanes.
    pub(crate) enum Wide without portable by in_wide {
        Ifma512 => widelane_kernels::lanes::Ifma512x8,
        Ifma256 => widelane_kernels::lanes::Ifma256x4,
        Fma256 => widelane_kernels::lanes::Fma256x4
    }
}

impl Wide {
    /// The rooms that count, of those that the machine has and `policy` leaves open, narrowest
    /// first: `fma256` has as many lanes as `ifma256` and is slower, and counts only without IFMA.
    pub(crate) fn counting(policy: &Policy) -> impl Iterator<Item = Self> + use<> {
        let has_ifma = |room: &Wide| !matches!(room, Wide::Fma256(_));
        let any_has_ifma = Wide::open(policy).any(|room| has_ifma(&room));
        Wide::open(policy).rev().filter(move |room| has_ifma(room) == any_has_ifma)
    }

    /// The one with the fewest lanes.
    pub(crate) fn narrowest(policy: &Policy) -> Option<Self> {
        Wide::counting(policy).next()
    }

    /// How many lanes a register has.
    pub(crate) fn lanes(self) -> usize {
        in_wide!(self, |_room, L| L::LANES)
    }
}

impl From<Wide> for Choice {
    fn from(wide: Wide) -> Self {
        match wide {
            Wide::Ifma512(room) => Choice::Ifma512(room),
            Wide::Ifma256(room) => Choice::Ifma256(room),
            Wide::Fma256(room) => Choice::Fma256(room),
        }
    }
}

impl Choice {
    /// The rooms with several lanes, narrowest first; see [`Wide::counting`].
    pub(crate) fn with_lanes(policy: &Policy) -> impl Iterator<Item = Self> + use<> {
        Wide::counting(policy).map(Choice::from)
    }

    /// The first of these, or otherwise the room that has one lane.
    pub(crate) fn for_one(policy: &Policy) -> Self {
        Choice::with_lanes(policy).next().unwrap_or_else(|| Choice::new(policy))
    }

    /// How many jobs a full batch has.
    pub(crate) fn lanes(self) -> usize {
        in_lanes!(self, |_room, L| L::LANES)
    }
}

/// Declares the rooms of a cipher that keeps keys in the form of their room, as [`choice!`] does,
/// an enum of its keys, and a macro that calls a kernel in the room that a key lives in. Beside
/// each room stands its module, with the type `Key` and a function `expand`.
macro_rules! keyed_choice {
    (
        $dollar:tt
        $(#[$doc:meta])*
        $vis:vis enum $name:ident, $kernel:ident by $in_room:ident {
            $($room:ident => $module:ident),+
        }
    ) => {
        widelane_cpu::choice! { $dollar $(#[$doc])* $vis enum $name { $($room),+ } }

        /// A key in its room. Boxed, so that moving it leaves no copies behind.
        #[derive(Clone)]
        $vis enum $kernel {
            $($room(widelane_cpu::rooms::$room, Box<$module::Key>),)+
        }

        /// Calls a kernel with the token of the room that a key lives in, the key, and the module
        /// of the room.
        macro_rules! $in_room {
            ($dollar kernel:expr, |$dollar token:ident, $dollar key:ident, $dollar alias:ident|
             $dollar call:expr) => {
                match *$dollar kernel {
                    $($kernel::$room($dollar token, ref $dollar key) => {
                        use $module as $dollar alias;
                        $dollar call
                    })+
                }
            };
            // The same without the key: a function that finds those of other keys that live there.
            (like $dollar kernel:expr,
             |$dollar token:ident, $dollar key_of:ident, $dollar alias:ident|
             $dollar call:expr) => {
                match *$dollar kernel {
                    $($kernel::$room($dollar token, _) => {
                        use $module as $dollar alias;
                        fn $dollar key_of(kernel: &$kernel) -> Option<&$module::Key> {
                            if let $kernel::$room(_, key) = kernel { Some(key) } else { None }
                        }
                        $dollar call
                    })+
                }
            };
        }

        impl $kernel {
            /// The room that the key lives in.
            #[allow(dead_code, reason = "not every cipher asks")]
            $vis fn room(&self) -> widelane_cpu::Room {
                match self {
                    $($kernel::$room(..) => widelane_cpu::Room::$room,)+
                }
            }

            /// Expands a key, as long as one of the cipher is.
            $vis fn new(choice: $name, bytes: &[u8]) -> Self {
                let bytes = KeyBytes::new(bytes).expect("the caller has looked at the length");
                match choice {
                    $($name::$room(room) => {
                        let mut key = Box::default();
                        $module::expand(room, bytes, &mut key);
                        $kernel::$room(room, key)
                    })+
                }
            }
        }
    };
}
