//! Registers: independent words, the same operations in every room.
//!
//! A kernel is written once, over a type of registers, and each room has such types. A register is
//! made from the token of its room only, so code that holds one may use it, and its operations are
//! safe. What all kernels need is [`Register`]; [`Lanes`](crate::lanes::Lanes) adds what curves and
//! RSA need, [`Words`](crate::words::Words) what hashes need, and
//! [`Coefficients`](crate::coefficients::Coefficients) what ML-KEM needs.
//!
//! Everything that works on registers is `#[inline(always)]` and ends up in the body of
//! [`Register::call`], the one function of a room that has the room's features. A function without
//! them that is *not* inlined there would call every single instruction as a function; a closure
//! given to a function of the standard library (`array::map`, `Option::map`) easily is one. Code
//! that shall exist only once (a multiplication, a loop of squarings) is a [`Task`] of its own and
//! is reached by another `call`. There are two more ways in:
//! [`Lanes::enter`](crate::lanes::Lanes::enter) begins a kernel where products need a control
//! register set, and [`Words::call_and_wipe`](crate::words::Words::call_and_wipe) clears registers
//! and stack behind each task.

// Its macros are in scope from here on.
#[macro_use]
mod wide;

mod portable;

/// One register of independent words.
///
/// Sums and differences are modulo the size of a word. Nothing depends on the values in time or
/// addresses.
pub trait Register: Copy {
    /// Proof that the room may be used.
    type Room: Copy;
    /// One word.
    type Word: Word;
    /// The words of a register in memory.
    type Row: Copy + AsRef<[Self::Word]> + AsMut<[Self::Word]>;
    /// How many words a register has.
    const LANES: usize;
    /// Words that are zero.
    const ZEROS: Self::Row;

    /// The same word in all lanes.
    fn splat(room: Self::Room, word: Self::Word) -> Self;

    /// A register from memory.
    fn load(room: Self::Room, row: &Self::Row) -> Self;

    /// The words of all lanes.
    fn row(self) -> Self::Row;

    /// The room this register belongs to.
    fn room(self) -> Self::Room;

    /// The sum.
    fn add(self, other: Self) -> Self;

    /// The difference.
    fn sub(self, other: Self) -> Self;

    /// The bits set in both.
    fn and(self, other: Self) -> Self;

    /// The bits set in either.
    fn or(self, other: Self) -> Self;

    /// The bits set in one of both.
    fn xor(self, other: Self) -> Self;

    /// Each word shifted left by `bits`, fewer than it has. As everywhere here, the count is a
    /// constant once all is inlined.
    fn shl(self, bits: u32) -> Self;

    /// Each word shifted right by `bits`, fewer than it has, zeros coming in.
    fn shr(self, bits: u32) -> Self;

    /// Runs `task` in a function of its own that has the features of the room. What it leaves in
    /// registers and on the stack is for the caller to clear.
    fn call<T: Task<Self>>(room: Self::Room, task: T) -> T::Output;

    /// Clears the vector registers, where there are any. Once per batch.
    fn wipe_registers(room: Self::Room);
}

/// Work that is done in one place in the machine code of a room: see [`Register::call`].
pub trait Task<R: Register> {
    /// What comes of it.
    type Output;

    /// Does the work. Always `#[inline(always)]`, as is all that it calls.
    fn run(self, room: R::Room) -> Self::Output;
}

/// A word, of 32 or 64 bits.
pub trait Word: Copy + Default + Into<u64> + 'static {
    /// The low bits of `wide`.
    fn low(wide: u64) -> Self;
}

impl Word for u32 {
    #[inline(always)]
    fn low(wide: u64) -> u32 {
        wide as u32
    }
}

impl Word for u64 {
    #[inline(always)]
    fn low(wide: u64) -> u64 {
        wide
    }
}
