//! The one way into a room: a list of rooms per algorithm, and a call in the one that was chosen.

/// Declares the rooms that an algorithm has, best first and `portable` last, as an enum of their
/// tokens, and a macro that calls a kernel in the room chosen.
///
/// A list of kernels that all need special instructions says `without portable` behind the enum's
/// name: it has no `new`, since `open` may find none.
///
/// Each room stands beside the module or type by which its kernels are called; the token of
/// `portable` is `()`. A declaration begins with `$`, which the macro that it declares needs. A
/// call names the token and what stands beside the room:
///
/// ```
/// use widelane_cpu::{Policy, Room, choice};
///
/// mod wide {
///     pub fn sum(_room: widelane_cpu::Avx2, words: &[u64]) -> u64 {
///         words.iter().sum()
///     }
/// }
///
/// mod plain {
///     pub fn sum(_room: (), words: &[u64]) -> u64 {
///         words.iter().sum()
///     }
/// }
///
/// choice! { $
///     /// The room of sums.
///     enum Choice by in_room { Avx2 => wide, Portable => plain }
/// }
///
/// let choice = Choice::new(&Policy::open());
/// assert_eq!(in_room!(choice, |room, kernels| kernels::sum(room, &[1, 2])), 3);
/// assert_eq!(Choice::ROOMS, [Room::Avx2, Room::Portable]);
/// ```
#[macro_export]
macro_rules! choice {
    (
        $dollar:tt
        $(#[$doc:meta])*
        $vis:vis enum $name:ident by $in_room:ident { $($room:ident => $($kernels:ident)::+),+ }
    ) => {
        $crate::choice! { $dollar $(#[$doc])* $vis enum $name { $($room),+ } }
        $crate::choice! { @calls $dollar $name $in_room { $($room => $($kernels)::+),+ } }
    };
    (
        $dollar:tt
        $(#[$doc:meta])*
        $vis:vis enum $name:ident without portable by $in_room:ident {
            $($room:ident => $($kernels:ident)::+),+
        }
    ) => {
        $crate::choice! { @rooms $(#[$doc])* $vis enum $name { $($room),+ } }
        $crate::choice! { @calls $dollar $name $in_room { $($room => $($kernels)::+),+ } }
    };
    ($dollar:tt $(#[$doc:meta])* $vis:vis enum $name:ident { $($room:ident),+ }) => {
        $crate::choice! { @rooms $(#[$doc])* $vis enum $name { $($room),+ } }

        #[allow(dead_code, reason = "not every algorithm needs all of it")]
        impl $name {
            /// The rooms that are not portable, best first.
            $vis const WIDE_ROOMS: &'static [$crate::Room] = Self::ROOMS.split_last().unwrap().1;

            /// Chooses the best room that the machine has and `policy` leaves open.
            $vis fn new(policy: &$crate::Policy) -> Self {
                $name::open(policy).next().unwrap_or($name::Portable(()))
            }
        }
    };
    (@calls $dollar:tt $name:ident $in_room:ident { $($room:ident => $($kernels:ident)::+),+ }) => {
        /// Calls a kernel with the token of the room chosen and what stands beside it.
        macro_rules! $in_room {
            ($dollar choice:expr,
             |$dollar token:pat_param, $dollar alias:ident| $dollar call:expr) => {
                match $dollar choice {
                    $($name::$room($dollar token) => {
                        use $($kernels)::+ as $dollar alias;
                        $dollar call
                    })+
                }
            };
        }
    };
    (@rooms $(#[$doc:meta])* $vis:vis enum $name:ident { $($room:ident),+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis enum $name {
            $($room($crate::rooms::$room),)+
        }

        #[allow(dead_code, reason = "not every algorithm needs all of it")]
        impl $name {
            /// The rooms there are, best first.
            $vis const ROOMS: &'static [$crate::Room] = &[$($crate::Room::$room),+];

            /// The rooms that the machine has and `policy` leaves open, best first.
            $vis fn open(policy: &$crate::Policy) -> impl DoubleEndedIterator<Item = Self> + use<> {
                let rooms = [$($crate::rooms::Token::enter(policy).map($name::$room)),+];
                rooms.into_iter().flatten()
            }

            /// The room chosen.
            $vis fn room(self) -> $crate::Room {
                match self {
                    $($name::$room(_) => $crate::Room::$room,)+
                }
            }
        }
    };
}
