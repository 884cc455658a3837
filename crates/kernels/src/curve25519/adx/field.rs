//! The field of curve25519 on four limbs of 64 bits in general-purpose registers.
//!
//! A number is any one below 2^256 that is the same modulo p = 2^255 − 19. Its products are sums of
//! 64-bit words in two chains of carries, one in each of two flags: MULX sets no flag, ADCX and
//! ADOX each take and set one. `docs/design/curve25519.md` has the bounds.
//!
//! Requires: MULX, ADCX and ADOX, by the token that whoever makes a number must have.
//! Ensures: results equal modulo p what plain integers give, within the bounds of their types.
//! Secrets: all numbers. Branches and addresses depend on none.
#![allow(unsafe_code, reason = "room: multiplications in assembly")]

use core::arch::asm;
use core::ops::Deref;

use widelane_cpu::Adx;

use super::super::ladder::A24;
use super::inverse::inverse;

/// A number below 2^256. Sums and differences are no more than that, and can only be multiplied.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    /// The lowest limb comes first.
    limbs: [u64; 4],
    /// The CPU has the instructions.
    room: Adx,
}

/// A number below 2^255 + 2^210, which can be added and subtracted as well.
#[derive(Clone, Copy)]
pub(super) struct Element(Factor);

impl Deref for Element {
    type Target = Factor;

    fn deref(&self) -> &Factor {
        &self.0
    }
}

/// Adds limb `b` times the number at `a` to four words, of which the highest may only have come by
/// such a row, and makes a fifth one. `rdi` is zero afterwards.
macro_rules! row {
    ($b:literal, $w0:literal, $w1:literal, $w2:literal, $w3:literal, $w4:literal) => {
        concat!(
            "xor edi, edi\n", // No carry in either flag.
            "mov rdx, [{b} + ",
            $b,
            "]\n",
            "mulx rcx, rax, [{a}]\n",
            "adcx ",
            $w0,
            ", rax\n",
            "adox ",
            $w1,
            ", rcx\n",
            "mulx rcx, rax, [{a} + 8]\n",
            "adcx ",
            $w1,
            ", rax\n",
            "adox ",
            $w2,
            ", rcx\n",
            "mulx rcx, rax, [{a} + 16]\n",
            "adcx ",
            $w2,
            ", rax\n",
            "adox ",
            $w3,
            ", rcx\n",
            "mulx ",
            $w4,
            ", rax, [{a} + 24]\n",
            "adcx ",
            $w3,
            ", rax\n",
            "adcx ",
            $w4,
            ", rdi\n",
            "adox ",
            $w4,
            ", rdi\n",
        )
    };
}

/// The product of the numbers at `a` and `b`, in `r8` to `r15`.
macro_rules! product {
    () => {
        concat!(
            "mov rdx, [{b}]\n",
            "mulx r9, r8, [{a}]\n",
            "mulx r10, rax, [{a} + 8]\n",
            "add r9, rax\n",
            "mulx r11, rax, [{a} + 16]\n",
            "adc r10, rax\n",
            "mulx r12, rax, [{a} + 24]\n",
            "adc r11, rax\n",
            "adc r12, 0\n",
            row!("8", "r9", "r10", "r11", "r12", "r13"),
            row!("16", "r10", "r11", "r12", "r13", "r14"),
            row!("24", "r11", "r12", "r13", "r14", "r15"),
        )
    };
}

/// The square of the number at `a`, in `r8` to `r15`: the products of different limbs once, then
/// twice that and the squares of limbs, a chain of carries each. `rdi` is zero afterwards.
macro_rules! square {
    () => {
        concat!(
            "mov rdx, [{a}]\n",
            "mulx r10, r9, [{a} + 8]\n",
            "mulx r11, rax, [{a} + 16]\n",
            "add r10, rax\n",
            "mulx r12, rax, [{a} + 24]\n",
            "adc r11, rax\n",
            "adc r12, 0\n",
            "xor edi, edi\n",
            "mov rdx, [{a} + 8]\n",
            "mulx rcx, rax, [{a} + 16]\n",
            "adcx r11, rax\n",
            "adox r12, rcx\n",
            "mulx r13, rax, [{a} + 24]\n",
            "adcx r12, rax\n",
            "mov rdx, [{a} + 16]\n",
            "mulx r14, rax, [{a} + 24]\n",
            "adox r13, rdi\n",
            "adcx r13, rax\n",
            "adcx r14, rdi\n",
            "xor edi, edi\n",
            "mov rdx, [{a}]\n",
            "mulx rax, r8, rdx\n",
            "adcx r9, r9\n",
            "adox r9, rax\n",
            "mov rdx, [{a} + 8]\n",
            "mulx rcx, rax, rdx\n",
            "adcx r10, r10\n",
            "adox r10, rax\n",
            "adcx r11, r11\n",
            "adox r11, rcx\n",
            "mov rdx, [{a} + 16]\n",
            "mulx rcx, rax, rdx\n",
            "adcx r12, r12\n",
            "adox r12, rax\n",
            "adcx r13, r13\n",
            "adox r13, rcx\n",
            "mov rdx, [{a} + 24]\n",
            "mulx r15, rax, rdx\n",
            "adcx r14, r14\n",
            "adox r14, rax\n",
            "adcx r15, rdi\n",
            "adox r15, rdi\n",
        )
    };
}

/// Takes what words `r12` to `r15` have, from 2^256 up, back to `r8` to `r11`: 38 times.
///
/// What that gives from 2^255 up is known as soon as the highest word is, and returns 19 times at
/// the lower end of the same chain of carries. So nothing is carried beyond 2^256.
macro_rules! fold {
    () => {
        concat!(
            "mov edx, 38\n",
            "mulx rcx, rax, r15\n",
            "add r11, rax\n",
            "adc rcx, 0\n",
            "mulx r14, rax, r14\n",
            "mulx r13, r15, r13\n",
            "mulx r12, rdx, r12\n",
            // rcx: what r11 and the product have from bit 63 up. r11: what is below.
            "add r11, r11\n",
            "adc rcx, rcx\n",
            "shr r11, 1\n",
            "imul rcx, rcx, 19\n",
            "xor edi, edi\n",
            "adcx r8, rdx\n",
            "adox r8, rcx\n",
            "adcx r9, r15\n",
            "adox r9, r12\n",
            "adcx r10, rax\n",
            "adox r10, r13\n",
            "adcx r11, r14\n",
            "adox r11, rdi\n",
        )
    };
}

/// Runs assembly text that has read numbers and leaves an element in `r8` to `r11`.
macro_rules! element {
    ($room:expr, $text:expr, $($name:ident = $number:expr),+) => {{
        let (l0, l1, l2, l3): (u64, u64, u64, u64);
        // SAFETY: the token in each number says that the CPU has the instructions. Four limbs of
        // each number are read, nothing is written, and every register that is written is named.
        unsafe {
            asm!(
                $text,
                $($name = in(reg) $number.limbs.as_ptr(),)+
                out("rax") _, out("rcx") _, out("rdx") _, out("rdi") _,
                out("r8") l0, out("r9") l1, out("r10") l2, out("r11") l3,
                out("r12") _, out("r13") _, out("r14") _, out("r15") _,
                options(pure, readonly, nostack),
            );
        }
        Element::new($room, [l0, l1, l2, l3])
    }};
}

impl Factor {
    /// The product. What is ready last is best the second factor.
    #[inline(always)]
    pub(super) fn mul(&self, other: &Factor) -> Element {
        element!(self.room, concat!(product!(), fold!()), a = self, b = other)
    }

    /// The square.
    #[inline(always)]
    pub(super) fn square(&self) -> Element {
        element!(self.room, concat!(square!(), fold!()), a = self)
    }

    /// The number plus 121665 times another.
    ///
    /// What the highest limb gives from 2^255 up returns at the lower end, as in `fold`.
    #[inline(always)]
    pub(super) fn times_a24_plus(&self, other: &Element) -> Element {
        const { assert!(A24 == 121665) };
        element!(
            self.room,
            concat!(
                "mov edx, 121665\n",
                "mulx rcx, r11, [{a} + 24]\n",
                "add r11, [{b} + 24]\n",
                "adc rcx, 0\n",
                "mulx r12, rax, [{a}]\n",
                "mulx r13, r14, [{a} + 8]\n",
                "mulx r15, rdx, [{a} + 16]\n",
                "add r11, r11\n",
                "adc rcx, rcx\n",
                "shr r11, 1\n",
                "imul rcx, rcx, 19\n",
                "mov r8, [{b}]\n",
                "mov r9, [{b} + 8]\n",
                "mov r10, [{b} + 16]\n",
                "xor edi, edi\n",
                "adcx r8, rax\n",
                "adox r8, rcx\n",
                "adcx r9, r14\n",
                "adox r9, r12\n",
                "adcx r10, rdx\n",
                "adox r10, r13\n",
                "adcx r11, r15\n",
                "adox r11, rdi\n",
            ),
            a = self,
            b = other
        )
    }

    /// self where the bit is 0, other where it is 1.
    #[inline(always)]
    pub(super) fn select(&self, bit: u64, other: &Factor) -> Factor {
        let [mut l0, mut l1, mut l2, mut l3] = self.limbs;
        // SAFETY: reads four limbs; x86-64 has the instructions.
        unsafe {
            asm!(
                "test {bit}, {bit}",
                "cmovnz {l0}, [{other}]",
                "cmovnz {l1}, [{other} + 8]",
                "cmovnz {l2}, [{other} + 16]",
                "cmovnz {l3}, [{other} + 24]",
                bit = in(reg) bit,
                other = in(reg) other.limbs.as_ptr(),
                l0 = inout(reg) l0,
                l1 = inout(reg) l1,
                l2 = inout(reg) l2,
                l3 = inout(reg) l3,
                options(pure, readonly, nostack),
            );
        }
        Factor { limbs: [l0, l1, l2, l3], room: self.room }
    }
}

impl Element {
    #[inline(always)]
    fn new(room: Adx, limbs: [u64; 4]) -> Self {
        Element(Factor { limbs, room })
    }

    /// A small number.
    #[inline(always)]
    pub(super) fn small(room: Adx, number: u64) -> Self {
        Element::new(room, [number, 0, 0, 0])
    }

    /// The number that four words have in their lowest 255 bits.
    #[inline(always)]
    pub(super) fn from_words(room: Adx, words: [u64; 4]) -> Self {
        let [w0, w1, w2, w3] = words;
        Element::new(room, [w0, w1, w2, w3 & TOP_LIMB_MASK])
    }

    /// The sum. Where it reaches 2^256, 38 is added for that, and then it is below 2^212.
    #[inline(always)]
    pub(super) fn plus(&self, other: &Element) -> Factor {
        let [mut l0, mut l1, mut l2, mut l3] = self.limbs;
        // SAFETY: reads four limbs; x86-64 has the instructions.
        unsafe {
            asm!(
                "add {l0}, [{other}]",
                "adc {l1}, [{other} + 8]",
                "adc {l2}, [{other} + 16]",
                "adc {l3}, [{other} + 24]",
                "sbb {over}, {over}",
                "and {over:e}, 38",
                "add {l0}, {over}",
                "adc {l1}, 0",
                "adc {l2}, 0",
                "adc {l3}, 0",
                other = in(reg) other.limbs.as_ptr(),
                over = out(reg) _,
                l0 = inout(reg) l0,
                l1 = inout(reg) l1,
                l2 = inout(reg) l2,
                l3 = inout(reg) l3,
                options(pure, readonly, nostack),
            );
        }
        Factor { limbs: [l0, l1, l2, l3], room: self.room }
    }

    /// The difference. Where it is negative, 2^256 − 38 is added, and then it is above 2^254.
    #[inline(always)]
    pub(super) fn minus(&self, other: &Element) -> Factor {
        let [mut l0, mut l1, mut l2, mut l3] = self.limbs;
        // SAFETY: reads four limbs; x86-64 has the instructions.
        unsafe {
            asm!(
                "sub {l0}, [{other}]",
                "sbb {l1}, [{other} + 8]",
                "sbb {l2}, [{other} + 16]",
                "sbb {l3}, [{other} + 24]",
                "sbb {over}, {over}",
                "and {over:e}, 38",
                "sub {l0}, {over}",
                "sbb {l1}, 0",
                "sbb {l2}, 0",
                "sbb {l3}, 0",
                other = in(reg) other.limbs.as_ptr(),
                over = out(reg) _,
                l0 = inout(reg) l0,
                l1 = inout(reg) l1,
                l2 = inout(reg) l2,
                l3 = inout(reg) l3,
                options(pure, readonly, nostack),
            );
        }
        Factor { limbs: [l0, l1, l2, l3], room: self.room }
    }

    /// The inverse; 0 of 0.
    #[inline(never)]
    pub(super) fn invert(self) -> Self {
        let (words, more) = inverse(self.to_words());
        Element::new(self.room, plus_word(words, more))
    }

    /// The words of the number below p.
    pub(super) fn to_words(self) -> [u64; 4] {
        let [l0, l1, l2, l3] = self.limbs;
        let (low, top) = ([l0, l1, l2, l3 & TOP_LIMB_MASK], l3 >> 63);
        // p more reaches 2^255 where what is below 2^255, and 19 times what is not, reach p.
        let reaches = plus_word(low, 19 * (top + 1))[3] >> 63;
        let [w0, w1, w2, w3] = plus_word(low, 19 * (top + reaches));
        [w0, w1, w2, w3 & TOP_LIMB_MASK]
    }
}

#[cfg(test)]
impl Factor {
    pub(super) fn from_limbs(room: Adx, limbs: [u64; 4]) -> Self {
        Factor { limbs, room }
    }

    pub(super) fn limbs(&self) -> [u64; 4] {
        self.limbs
    }
}

#[cfg(test)]
impl Element {
    pub(super) fn from_limbs(room: Adx, limbs: [u64; 4]) -> Self {
        Element::new(room, limbs)
    }
}

/// The bits of the highest limb that are below 2^255.
const TOP_LIMB_MASK: u64 = u64::MAX >> 1;

/// The sum of a number below 2^255 and a word.
fn plus_word(number: [u64; 4], word: u64) -> [u64; 4] {
    let mut carry = word;
    number.map(|limb| {
        let (sum, over) = limb.overflowing_add(carry);
        carry = u64::from(over);
        sum
    })
}
