//! Inversion modulo p = 2^255 − 19 by divsteps: the same steps whatever the number.
//!
//! The steps are those of `divsteps.rs`, of one number and in words. f, g, d and e have five digits
//! of 62 bits, of which the highest is signed. At first f = p, g = x, d = 0, e = 1; f = d·x and
//! g = e·x modulo p always.
//!
//! Ensures: g is 0 and f is 1 or −1 after 590 steps, unless x is 0: then d is.
//! Secrets: the number. Branches and addresses depend on none.

use widelane_secret::hidden;

/// Bits of a digit.
const DIGIT_BITS: u32 = 62;
const DIGIT_MASK: i64 = (1 << DIGIT_BITS) - 1;
const DIGITS: usize = 5;

/// The highest digit is above so many bits, and p ends so many bits above it.
const TOP_BITS: u32 = 255 - 4 * DIGIT_BITS;

/// Steps that are taken with the lowest bits alone before all digits follow.
const ROUND_STEPS: u32 = 59;
/// Numbers below a prime of 255 bits need 588 steps.
const ROUNDS: u32 = 10;

/// 1/19 modulo 2^64.
const INVERSE_OF_19: i64 = crate::digits::inverse(19).cast_signed();

type Digits = [i64; DIGITS];

/// The inverse of a number below p: four words below 2^255, and what is to be added to them, which
/// is below 2^10.
pub(super) fn inverse(words: [u64; 4]) -> ([u64; 4], u64) {
    let mut f = [DIGIT_MASK - 18, DIGIT_MASK, DIGIT_MASK, DIGIT_MASK, (1 << TOP_BITS) - 1];
    let mut g = digits(words);
    let (mut d, mut e) = ([0; DIGITS], [1, 0, 0, 0, 0]);
    let mut zeta = -1;
    for _ in 0..ROUNDS {
        let low = |digits: &Digits| digits[0] | digits[1] << DIGIT_BITS;
        let (first, second) = round(&mut zeta, low(&f), low(&g));
        (f, g) = (combined(first, &f, &g), combined(second, &f, &g));
        (d, e) = (combined_modulo_p(first, &d, &e), combined_modulo_p(second, &d, &e));
    }
    // d with the sign of f, and 8·p: |d| is below 6·p.
    let sign = f[DIGITS - 1] >> 63;
    let mut digits = d.map(|digit| (digit ^ sign) - sign);
    digits[0] -= 8 * 19;
    digits[DIGITS - 1] += 8 << TOP_BITS;
    let mut carry = 0;
    for digit in &mut digits[..DIGITS - 1] {
        let sum = *digit + carry;
        (*digit, carry) = (sum & DIGIT_MASK, sum >> DIGIT_BITS);
    }
    let top = digits[DIGITS - 1] + carry;
    digits[DIGITS - 1] = top & ((1 << TOP_BITS) - 1);
    (self::words(digits), 19 * (top >> TOP_BITS).cast_unsigned())
}

/// Takes the steps of a round with the lowest bits of f and g. Returns u, v and q, r, by which all
/// digits follow: 2^62·f becomes u·f + v·g, and 2^62·g becomes q·f + r·g. |u| + |v| and |q| + |r|
/// are at most 2^62.
///
/// zeta is −δ − 1/2. If δ > 0 and g is odd: δ, f, g = 1 − δ, g, (g − f)/2. If not: δ, f, g = 1 + δ,
/// f, (g + f)/2, or g/2 where that is even.
fn round(zeta: &mut i64, f: i64, g: i64) -> ((i64, i64), (i64, i64)) {
    let (mut f, mut g) = (f, g);
    // A step doubles u and v; the steps that a digit has more than a round begin here.
    let one = 1 << (DIGIT_BITS - ROUND_STEPS);
    let (mut u, mut v, mut q, mut r) = (one, 0i64, 0i64, one);
    for _ in 0..ROUND_STEPS {
        let positive = *zeta >> 63;
        let odd = hidden((-(g & 1)).cast_unsigned()).cast_signed();
        let negated = |word: i64| (word ^ positive).wrapping_sub(positive) & odd;
        g = g.wrapping_add(negated(f));
        q += negated(u);
        r += negated(v);
        let exchange = positive & odd;
        *zeta = (*zeta ^ exchange) - 1;
        f = f.wrapping_add(g & exchange);
        u = (u + (q & exchange)) << 1;
        v = (v + (r & exchange)) << 1;
        g >>= 1;
    }
    ((u, v), (q, r))
}

/// (u·x + v·y) / 2^62, of which nothing is left over.
fn combined((u, v): (i64, i64), x: &Digits, y: &Digits) -> Digits {
    let mut digits = [0; DIGITS];
    let mut sum = product(u, x[0]) + product(v, y[0]);
    for index in 1..DIGITS {
        sum = (sum >> DIGIT_BITS) + product(u, x[index]) + product(v, y[index]);
        digits[index - 1] = sum as i64 & DIGIT_MASK;
    }
    digits[DIGITS - 1] = (sum >> DIGIT_BITS) as i64;
    digits
}

/// The same modulo p: a multiple k·p, with −2^61 ≤ k < 2^61, makes up for what would be left over.
/// So what x and y are at most becomes p/2 more.
fn combined_modulo_p((u, v): (i64, i64), x: &Digits, y: &Digits) -> Digits {
    let mut digits = [0; DIGITS];
    let mut sum = product(u, x[0]) + product(v, y[0]);
    // p is 2^255 − 19.
    let unused = i64::BITS - DIGIT_BITS;
    let k = (sum as i64).wrapping_mul(INVERSE_OF_19) << unused >> unused;
    sum -= product(k, 19);
    for index in 1..DIGITS {
        sum = (sum >> DIGIT_BITS) + product(u, x[index]) + product(v, y[index]);
        if index == DIGITS - 1 {
            sum += i128::from(k) << TOP_BITS;
        }
        digits[index - 1] = sum as i64 & DIGIT_MASK;
    }
    digits[DIGITS - 1] = (sum >> DIGIT_BITS) as i64;
    digits
}

fn product(x: i64, y: i64) -> i128 {
    i128::from(x) * i128::from(y)
}

fn digits([w0, w1, w2, w3]: [u64; 4]) -> Digits {
    let digits = [w0, w0 >> 62 | w1 << 2, w1 >> 60 | w2 << 4, w2 >> 58 | w3 << 6, w3 >> 56];
    digits.map(|digit| digit.cast_signed() & DIGIT_MASK)
}

/// The words of digits that are all positive, below 2^255.
fn words(digits: Digits) -> [u64; 4] {
    let [d0, d1, d2, d3, d4] = digits.map(i64::cast_unsigned);
    [d0 | d1 << 62, d1 >> 2 | d2 << 60, d2 >> 4 | d3 << 58, d3 >> 6 | d4 << 56]
}
