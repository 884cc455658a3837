//! The curves: one table, and everything that exists once for each of them.

use widelane_kernels::weierstrass::{self as kernels, CurveLanes, Numbers, Point, Scalar};
use widelane_secret::stack::{kib, wiped};

use super::key::{PrivateKey, PublicKey};

/// Declares the curves, and what exists once for each. A row has the curve's name here and in the
/// kernels, how many digits its numbers have there, and the KiB of stack that a batch takes.
macro_rules! curves {
    (
        $dollar:tt
        $($(#[$about:meta])* $curve:ident: $digits:literal digits, $stack:literal KiB;)+
    ) => {
        /// A curve that the kernels know.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Curve { $($(#[$about])* $curve,)+ }

        impl Curve {
            /// Every curve, smallest first.
            pub const ALL: [Curve; [$($digits),+].len()] = [$(Curve::$curve),+];

            /// Prime, order, constant term and generator.
            pub const fn numbers(self) -> &'static Numbers {
                match self {
                    $(Curve::$curve => <kernels::$curve as kernels::Curve<$digits>>::NUMBERS,)+
                }
            }
        }

        /// A private key as it came and in the form of the kernels, by curve.
        #[derive(Clone)]
        pub(super) enum Material { $($curve([u8; Curve::$curve.bytes()], Scalar<$digits>),)+ }

        impl Material {
            /// Nothing unless the number is in range.
            pub(super) fn read(curve: Curve, bytes: &[u8]) -> Option<Self> {
                match curve {
                    $(Curve::$curve => {
                        let scalar = Scalar::from_bytes::<kernels::$curve>(bytes)?;
                        Some(Material::$curve(bytes.try_into().ok()?, scalar))
                    })+
                }
            }

            pub(super) fn as_bytes(&self) -> &[u8] {
                match self { $(Material::$curve(bytes, _) => bytes,)+ }
            }

            pub(super) fn curve(&self) -> Curve {
                match self { $(Material::$curve(..) => Curve::$curve,)+ }
            }
        }

        /// A public key in the form of the kernels, by curve.
        #[derive(Clone)]
        pub(super) enum CurvePoint { $($curve(Point<$digits>),)+ }

        impl CurvePoint {
            /// Nothing unless x || y is a point of the curve.
            pub(super) fn read(curve: Curve, coordinates: &[u8]) -> Option<Self> {
                match curve {
                    $(Curve::$curve => Point::from_bytes::<kernels::$curve>(coordinates)
                        .map(CurvePoint::$curve),)+
                }
            }

            /// Writes x || y.
            pub(super) fn write(&self, coordinates: &mut [u8]) {
                match self {
                    $(CurvePoint::$curve(point) => {
                        point.to_bytes::<kernels::$curve>(coordinates);
                    })+
                }
            }

            pub(super) fn curve(&self) -> Curve {
                match self { $(CurvePoint::$curve(_) => Curve::$curve,)+ }
            }
        }

        /// A register whose lanes take jobs on any curve.
        pub(super) trait AllCurves: $(CurveLanes<kernels::$curve, $digits> +)+ {}

        impl<L: $(CurveLanes<kernels::$curve, $digits> +)+> AllCurves for L {}

        $(impl Keys<$digits> for kernels::$curve {
            fn scalar(key: &PrivateKey) -> Option<&Scalar<$digits>> {
                match &*key.material {
                    Material::$curve(_, scalar) => Some(scalar),
                    _ => None,
                }
            }

            fn point(key: &PublicKey) -> Option<&Point<$digits>> {
                match &key.point {
                    CurvePoint::$curve(point) => Some(point),
                    _ => None,
                }
            }

            fn wiped(work: impl FnOnce()) {
                wiped::<{ kib($stack) }, _>(work);
            }
        })+

        /// Repeats a call for each curve of the kernels and how many digits its numbers have.
        macro_rules! each_curve {
            (|$dollar curve:ident, $dollar digits:ident| $dollar call:expr) => {
                $({
                    use widelane_kernels::weierstrass::$curve as $dollar curve;
                    const $dollar digits: usize = $digits;
                    $dollar call;
                })+
            };
        }
    };
}

curves! { $
    /// NIST P-256, also called secp256r1 and prime256v1.
    P256: 5 digits, 32 KiB;
    /// NIST P-384, also called secp384r1.
    P384: 8 digits, 60 KiB;
}

impl Curve {
    /// The one whose keys and signatures are the longest.
    pub const LARGEST: Curve = *Self::ALL.last().unwrap();

    /// Bits of a coordinate, and of a private key.
    pub const fn bits(self) -> usize {
        self.numbers().bits
    }

    /// Bytes of a coordinate, of a private key, and of each half of a signature.
    pub const fn bytes(self) -> usize {
        self.numbers().bytes()
    }

    /// Clears what random bytes for a private key have above the bits of the order.
    pub fn trim(self, random: &mut [u8]) {
        if let [first, ..] = random {
            *first &= u8::MAX >> (8 * self.bytes() - self.bits());
        }
    }

    /// Bytes of a public key, as 04 || x || y.
    pub const fn public_bytes(self) -> usize {
        1 + 2 * self.bytes()
    }
}

/// A curve of the kernels with its keys among ours.
pub(super) trait Keys<const D: usize>: kernels::Curve<D> {
    fn scalar(key: &PrivateKey) -> Option<&Scalar<D>>;
    fn point(key: &PublicKey) -> Option<&Point<D>>;

    /// Executes a batch and wipes the stack that it took.
    fn wiped(work: impl FnOnce());
}
