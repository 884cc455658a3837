//! The rooms of algorithms that run one job per lane, and keys that live in rooms.
//!
//! Every algorithm has one list of its rooms, by [`widelane_cpu::choice!`], in the file that calls
//! its kernels. That of all curves stands here.

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
    /// The room with the fewest lanes that [`Choice::with_lanes`] has, too.
    pub(crate) fn narrowest(policy: &Policy) -> Option<Self> {
        let mut by_integers = Wide::open(policy).filter(|room| !matches!(room, Wide::Fma256(_)));
        by_integers.next_back().or_else(|| Wide::open(policy).next_back())
    }

    /// How many lanes a register has.
    pub(crate) fn lanes(self) -> usize {
        in_wide!(self, |_room, L| L::LANES)
    }
}

impl Choice {
    /// The rooms with several lanes that the machine has and `policy` leaves open, narrowest first.
    /// `fma256` is slower than `ifma256` and no narrower, and counts only without IFMA.
    pub(crate) fn with_lanes(policy: &Policy) -> impl Iterator<Item = Self> + use<> {
        let by_integers =
            |choice: &Choice| matches!(choice, Choice::Ifma512(_) | Choice::Ifma256(_));
        let has_integers = Choice::open(policy).any(|choice| by_integers(&choice));
        let counts =
            move |choice: &Choice| choice.lanes() > 1 && by_integers(choice) == has_integers;
        Choice::open(policy).rev().filter(counts)
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
