//! Multiples of the base point of Ed25519, computed by the compiler.

use super::number::Number;

/// Bits of a scalar that one addition takes in.
pub(super) const WINDOW_BITS: u32 = 5;
/// Windows of a scalar.
pub(super) const WINDOWS: usize = 51;
/// Points per window.
const ENTRIES: usize = 16;

/// d of the curve −x² + y² = 1 + d·x²·y².
pub(super) const D: Number =
    Number::small(0).sub(Number::small(121665)).mul(Number::small(121666).invert());
/// A square root of −1.
pub(super) const ROOT_OF_MINUS_ONE: Number = Number::root_of_minus_one();

/// The points 1·b to 16·b of some point b: limb by limb, sixteen entries in a row.
#[repr(C, align(64))]
pub(super) struct Window {
    /// y + x.
    pub(super) plus: [[u64; ENTRIES]; 5],
    /// y − x.
    pub(super) minus: [[u64; ENTRIES]; 5],
    /// 2·d·x·y.
    pub(super) product: [[u64; ENTRIES]; 5],
}

/// For each window w the multiples of 32^w·B.
pub(super) static BASE: [Window; WINDOWS] = base();

/// A point X : Y : Z with T = X·Y/Z.
#[derive(Clone, Copy)]
struct Extended {
    x: Number,
    y: Number,
    z: Number,
    t: Number,
}

impl Extended {
    /// B, with y = 4/5 and an even x.
    const fn base() -> Self {
        let one = Number::small(1);
        let y = Number::small(4).mul(Number::small(5).invert());
        let yy = y.mul(y);
        let x = Number::root_of_ratio(yy.sub(one), D.mul(yy).add(one));
        let x = if x.canonical()[0] & 1 == 0 { x } else { Number::small(0).sub(x) };
        Extended { x, y, z: one, t: x.mul(y) }
    }

    /// The sum of any two points (Hisil, Wong, Carter, Dawson 2008, section 3.1).
    const fn add(self, other: Self) -> Self {
        let a = self.y.sub(self.x).mul(other.y.sub(other.x));
        let b = self.y.add(self.x).mul(other.y.add(other.x));
        let c = self.t.mul(other.t).mul(D.add(D));
        let d = self.z.mul(other.z);
        let d = d.add(d);
        let (e, f, g, h) = (b.sub(a), d.sub(c), d.add(c), b.add(a));
        Extended { x: e.mul(f), y: g.mul(h), z: f.mul(g), t: e.mul(h) }
    }
}

const fn base() -> [Window; WINDOWS] {
    // All points, and before each the product of the z that come before it.
    let first = Extended::base();
    let mut points = [[(first, first.z); ENTRIES]; WINDOWS];
    let (mut multiple, mut product) = (first, Number::small(1));
    let mut window = 0;
    while window < WINDOWS {
        let step = multiple;
        let mut entry = 0;
        while entry < ENTRIES {
            points[window][entry] = (multiple, product);
            product = product.mul(multiple.z);
            if entry + 1 < ENTRIES {
                multiple = multiple.add(step);
            }
            entry += 1;
        }
        multiple = multiple.add(multiple);
        window += 1;
    }

    // One inversion for all of them, taken apart from the end.
    let mut table = [const { Window::ZERO }; WINDOWS];
    let mut inverse = product.invert();
    while window > 0 {
        window -= 1;
        let mut entry = ENTRIES;
        while entry > 0 {
            entry -= 1;
            let (point, before) = points[window][entry];
            let reciprocal = inverse.mul(before);
            inverse = inverse.mul(point.z);
            let (x, y) = (point.x.mul(reciprocal), point.y.mul(reciprocal));
            table[window].set(entry, x, y);
        }
    }
    table
}

impl Window {
    const ZERO: Self = {
        let rows = [[0; ENTRIES]; 5];
        Window { plus: rows, minus: rows, product: rows }
    };

    const fn set(&mut self, entry: usize, x: Number, y: Number) {
        let plus = y.add(x).canonical();
        let minus = y.sub(x).canonical();
        let product = x.mul(y).mul(D.add(D)).canonical();
        let mut limb = 0;
        while limb < 5 {
            self.plus[limb][entry] = plus[limb];
            self.minus[limb][entry] = minus[limb];
            self.product[limb][entry] = product[limb];
            limb += 1;
        }
    }
}
