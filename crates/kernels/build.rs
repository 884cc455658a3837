//! Computes the tables of the generators of NIST's curves (`src/weierstrass/table.rs`).

use std::path::PathBuf;
use std::{env, fs};

#[allow(dead_code, unused_macros, reason = "the kernels use the rest")]
#[path = "src/digits.rs"]
mod digits;
#[macro_use]
#[allow(dead_code, reason = "the kernels use the rest")]
#[path = "src/weierstrass/numbers.rs"]
mod numbers;

use digits::{CurveModulus, DIGIT_BITS, DIGIT_MASK, bits_of, less};
use numbers::Numbers;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/digits.rs");
    println!("cargo::rerun-if-changed=src/weierstrass/numbers.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let write = |name, text| fs::write(out.join(name), text).expect("OUT_DIR can be written");
    macro_rules! write_tables {
        ($($curve:ident $digits:literal),+) => {$(
            write(concat!(stringify!($curve), ".rs"), table::<$digits>(&numbers::$curve));
        )+};
    }
    with_curves!(write_tables);
}

/// A point's x and y, in Montgomery form.
type Point<const D: usize> = [[u64; D]; 2];

/// The table as an array in Rust.
fn table<const D: usize>(numbers: &Numbers) -> String {
    let field = Field::<D>(CurveModulus::new(numbers.p));
    let mut base = [field.0.element(numbers.x), field.0.element(numbers.y)];
    let windows: Vec<_> = (0..numbers.bits / numbers.base_window + 1)
        .map(|_| {
            let points = field.multiples(base, 1 << (numbers.base_window - 1));
            let last = *points.last().expect("a window has points");
            base = field.add(&[last], last)[0];
            coordinates(&points)
        })
        .collect();
    bracketed(&windows)
}

/// Digits of x, then digits of y; each digit of all points, in rows of 16.
fn coordinates<const D: usize>(points: &[Point<D>]) -> String {
    let row = |coordinate: usize, digit: usize, points: &[Point<D>]| {
        let words: Vec<_> =
            points.iter().map(|point| format!("{:#x}", point[coordinate][digit])).collect();
        bracketed(&words)
    };
    let digit = |coordinate, digit| {
        let rows: Vec<_> = points.chunks(16).map(|points| row(coordinate, digit, points)).collect();
        bracketed(&rows)
    };
    let coordinate = |coordinate| {
        let digits: Vec<_> = (0..D).map(|index| digit(coordinate, index)).collect();
        bracketed(&digits)
    };
    bracketed(&[coordinate(0), coordinate(1)])
}

fn bracketed(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

/// Arithmetic modulo a prime, with no care for time.
struct Field<const D: usize>(CurveModulus<D>);

impl<const D: usize> Field<D> {
    /// The points 1·`base` to `count`·`base`, for a power of two.
    fn multiples(&self, base: Point<D>, count: usize) -> Vec<Point<D>> {
        let mut points = vec![base];
        while points.len() < count {
            let sums = self.add(&points, points[points.len() - 1]);
            points.extend(sums);
        }
        points
    }

    /// The sum of each point with `addend`, none of them its opposite.
    fn add(&self, points: &[Point<D>], addend: Point<D>) -> Vec<Point<D>> {
        let [x2, y2] = addend;
        let slopes = points.iter().map(|&point| {
            let [x1, y1] = point;
            if point == addend {
                let numerator = self.subtract(self.multiply(x1, x1), self.0.one);
                let triple = self.sum(self.sum(numerator, numerator), numerator);
                (triple, self.sum(y1, y1))
            } else {
                (self.subtract(y2, y1), self.subtract(x2, x1))
            }
        });
        let (numerators, denominators): (Vec<_>, Vec<_>) = slopes.unzip();
        let inverses = self.invert_all(&denominators);
        let sums = points.iter().zip(numerators).zip(inverses).map(|((point, over), inverse)| {
            let slope = self.multiply(over, inverse);
            let [x1, y1] = *point;
            let x3 = self.subtract(self.subtract(self.multiply(slope, slope), x1), x2);
            [x3, self.subtract(self.multiply(slope, self.subtract(x1, x3)), y1)]
        });
        sums.collect()
    }

    /// The inverses of all of `numbers`, by inverting their product (Montgomery).
    fn invert_all(&self, numbers: &[[u64; D]]) -> Vec<[u64; D]> {
        let mut product = self.0.one;
        let mut inverses = Vec::new();
        for number in numbers {
            inverses.push(product);
            product = self.multiply(product, *number);
        }
        let mut inverse = self.invert(product);
        for (before, number) in inverses.iter_mut().zip(numbers).rev() {
            *before = self.multiply(*before, inverse);
            inverse = self.multiply(inverse, *number);
        }
        inverses
    }

    /// x·y·R^-1 mod m.
    fn multiply(&self, x: [u64; D], y: [u64; D]) -> [u64; D] {
        let mut columns = [[0u128; D]; 2];
        let columns = columns.as_flattened_mut();
        for i in 0..D {
            for j in 0..D {
                columns[i + j] += u128::from(x[i]) * u128::from(y[j]);
            }
        }
        for i in 0..D {
            let quotient = (columns[i] as u64).wrapping_mul(self.0.k0) & DIGIT_MASK;
            for j in 0..D {
                columns[i + j] += u128::from(quotient) * u128::from(self.0.m[j]);
            }
            columns[i + 1] += columns[i] >> DIGIT_BITS;
        }
        self.reduce(columns[D..2 * D].try_into().expect("as many columns as digits"))
    }

    fn sum(&self, x: [u64; D], y: [u64; D]) -> [u64; D] {
        self.reduce(std::array::from_fn(|index| u128::from(x[index]) + u128::from(y[index])))
    }

    fn subtract(&self, x: [u64; D], y: [u64; D]) -> [u64; D] {
        self.sum(x, self.difference(self.0.m, y))
    }

    /// Carries a number below 2·m and takes it below m.
    fn reduce(&self, columns: [u128; D]) -> [u64; D] {
        let mut carry = 0;
        let number = columns.map(|column| {
            let sum = column + carry;
            carry = sum >> DIGIT_BITS;
            sum as u64 & DIGIT_MASK
        });
        if less(&number, &self.0.m) { number } else { self.difference(number, self.0.m) }
    }

    /// x − y for y ≤ x.
    fn difference(&self, x: [u64; D], y: [u64; D]) -> [u64; D] {
        let mut borrow = 0;
        std::array::from_fn(|index| {
            let digit = x[index].wrapping_sub(y[index]).wrapping_sub(borrow);
            borrow = digit >> 63;
            digit & DIGIT_MASK
        })
    }

    /// 1/x, as x^(m − 2).
    fn invert(&self, x: [u64; D]) -> [u64; D] {
        let mut exponent = self.0.m;
        exponent[0] -= 2;
        (0..bits_of(D)).rev().fold(self.0.one, |power, bit| {
            let square = self.multiply(power, power);
            let is_set = exponent[bit / bits_of(1)] >> (bit % bits_of(1)) & 1 == 1;
            if is_set { self.multiply(square, x) } else { square }
        })
    }
}
