//! Loops of one instruction on twelve independent registers, so that ports and not latency limit
//! it.
#![allow(unsafe_code, reason = "the instructions must reach the CPU as written")]

use std::arch::asm;

use widelane_cpu::Width;

use super::{Instruction, Subject, tiles};

/// A loop. One exists only if the CPU has its instructions.
#[derive(Clone, Copy)]
pub struct Loop {
    code: unsafe fn(u64, u64),
    pattern: u64,
    /// Instructions under test in a turn.
    pub instructions_per_turn: u64,
}

impl Loop {
    /// Runs so many turns, at least one.
    pub fn run(self, turns: u64) {
        debug_assert!(turns > 0);
        // SAFETY: `Subject::stimulus` makes loops only where `Subject::missing` found nothing
        // missing, and the code wants no more than turns above zero.
        unsafe { (self.code)(turns, self.pattern) }
    }
}

/// The loop of a subject that is no kernel.
pub fn find(subject: Subject) -> Loop {
    let (code, pattern, instructions_per_turn): (unsafe fn(u64, u64), u64, u64) = match subject {
        Subject::Scalar | Subject::Kernel(_) => (scalar, BITS, 48),
        Subject::Instruction(instruction, width) => {
            let pattern = match instruction {
                Instruction::Vfmadd213pd => BELOW_ONE,
                Instruction::Vfmadd213ph => BELOW_ONE_HALVES,
                _ => BITS,
            };
            (instruction_loop(instruction, width), pattern, 48)
        }
        Subject::Density { quarters } => {
            let instructions = 16 * u64::from(quarters.clamp(1, 8));
            (density_loop(quarters), BELOW_ONE, instructions)
        }
    };
    Loop { code, pattern, instructions_per_turn }
}

/// Operands with about half of their bits set.
pub const BITS: u64 = 0x9e37_79b9_7f4a_7c15;
/// A double a little below one: a sum scaled by it and grown by it stays finite.
const BELOW_ONE: u64 = 0x3fef_f9e3_779b_97f4;
/// Four half-precision numbers a little below one.
const BELOW_ONE_HALVES: u64 = 0x3bf9_3be3_3bd7_3be4;

/// The features that an instruction wants at a width, as `widelane_cpu::features` names them.
pub fn features(instruction: Instruction, width: Width) -> &'static [&'static str] {
    match (instruction, width) {
        (Instruction::Sha256rnds2, _) => &["avx2", "sha"],
        // What tiles want is asked in `tiles`.
        (Instruction::Tdpbssd, _) => &[],
        (Instruction::Vpaddd | Instruction::Vpmuludq, Width::W128 | Width::W256) => &["avx2"],
        (Instruction::Vpaddd | Instruction::Vpmuludq, Width::W512) => &["avx512f"],
        (Instruction::Vpternlogd, Width::W512) => &["avx512f"],
        (Instruction::Vpternlogd, _) => &["avx512f", "avx512vl"],
        (Instruction::Vaesenc, Width::W128) => &["avx2", "aes"],
        (Instruction::Vaesenc, Width::W256) => &["avx2", "vaes"],
        (Instruction::Vaesenc, Width::W512) => &["avx512f", "vaes"],
        (Instruction::Vpclmulqdq, Width::W128) => &["avx2", "pclmulqdq"],
        (Instruction::Vpclmulqdq, Width::W256) => &["avx2", "vpclmulqdq"],
        (Instruction::Vpclmulqdq, Width::W512) => &["avx512f", "vpclmulqdq"],
        (Instruction::Vpmadd52luq, Width::W512) => &["avx512f", "avx512ifma"],
        (Instruction::Vpmadd52luq, _) => &["avx512f", "avx512vl", "avx512ifma"],
        (Instruction::Vfmadd213pd, Width::W512) => &["avx512f"],
        (Instruction::Vfmadd213pd, _) => &["avx2", "fma"],
        (Instruction::Vfmadd213ph, Width::W512) => &["avx512f", "avx512fp16"],
        (Instruction::Vfmadd213ph, _) => &["avx512f", "avx512vl", "avx512fp16"],
    }
}

/// A function around assembly that fills the registers with a pattern, loops, and leaves the upper
/// halves clean.
macro_rules! vector_loop {
    ($name:ident, $v:literal, $($line:expr),+ $(,)?) => {
        unsafe fn $name(turns: u64, pattern: u64) {
            // SAFETY: the caller has found the CPU to have the instructions; the code works on
            // registers that it names, in a counted loop, and touches no memory and no stack.
            unsafe {
                asm!(
                    "vmovq xmm15, {pattern}",
                    concat!("vpbroadcastq ", $v, "15, xmm15"),
                    ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14",
                    concat!("vpbroadcastq ", $v, "\\r, xmm15"),
                    ".endr",
                    ".p2align 5",
                    "2:",
                    $($line,)+
                    "dec {turns}",
                    "jnz 2b",
                    "vzeroupper",
                    pattern = inout(reg) pattern => _,
                    turns = inout(reg) turns => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nomem, nostack),
                );
            }
        }
    };
}

/// A loop of 48 times one instruction.
macro_rules! instruction_loop {
    ($name:ident, $v:literal, $line:expr) => {
        vector_loop!(
            $name,
            $v,
            ".rept 4",
            ".irp r,0,1,2,3,4,5,6,7,8,9,10,11",
            $line,
            ".endr",
            ".endr",
        );
    };
}

/// The loops of one instruction at three widths; `$line` gets the register's name.
macro_rules! widths {
    ($xmm:ident, $ymm:ident, $zmm:ident, $mnemonic:literal, $first:literal, $then:literal) => {
        widths!(@ $xmm, "xmm", $mnemonic, $first, $then);
        widths!(@ $ymm, "ymm", $mnemonic, $first, $then);
        widths!(@ $zmm, "zmm", $mnemonic, $first, $then);
    };
    (@ $name:ident, $v:literal, $mnemonic:literal, $first:literal, $then:literal) => {
        instruction_loop!(
            $name,
            $v,
            concat!($mnemonic, " ", $v, "\\r, ", $v, $first, ", ", $v, $then)
        );
    };
}

widths!(vpaddd_xmm, vpaddd_ymm, vpaddd_zmm, "vpaddd", "\\r", "14");
widths!(vpternlogd_xmm, vpternlogd_ymm, vpternlogd_zmm, "vpternlogd", "13", "14, 0x96");
widths!(vaesenc_xmm, vaesenc_ymm, vaesenc_zmm, "vaesenc", "\\r", "14");
widths!(vpclmulqdq_xmm, vpclmulqdq_ymm, vpclmulqdq_zmm, "vpclmulqdq", "\\r", "14, 0x11");
widths!(vpmuludq_xmm, vpmuludq_ymm, vpmuludq_zmm, "vpmuludq", "\\r", "14");
widths!(vpmadd52luq_xmm, vpmadd52luq_ymm, vpmadd52luq_zmm, "vpmadd52luq", "13", "14");
widths!(vfmadd213pd_xmm, vfmadd213pd_ymm, vfmadd213pd_zmm, "vfmadd213pd", "13", "14");
widths!(vfmadd213ph_xmm, vfmadd213ph_ymm, vfmadd213ph_zmm, "vfmadd213ph", "13", "14");

// Its third operand is xmm0 by definition.
vector_loop!(
    sha256rnds2_xmm,
    "xmm",
    ".rept 4",
    ".irp r,1,2,3,4,5,6,7,8,9,10,11,12",
    "sha256rnds2 xmm\\r, xmm14, xmm0",
    ".endr",
    ".endr",
);

fn instruction_loop(instruction: Instruction, width: Width) -> unsafe fn(u64, u64) {
    let [xmm, ymm, zmm]: [unsafe fn(u64, u64); 3] = match instruction {
        Instruction::Vpaddd => [vpaddd_xmm, vpaddd_ymm, vpaddd_zmm],
        Instruction::Vpternlogd => [vpternlogd_xmm, vpternlogd_ymm, vpternlogd_zmm],
        Instruction::Vaesenc => [vaesenc_xmm, vaesenc_ymm, vaesenc_zmm],
        Instruction::Vpclmulqdq => [vpclmulqdq_xmm, vpclmulqdq_ymm, vpclmulqdq_zmm],
        Instruction::Vpmuludq => [vpmuludq_xmm, vpmuludq_ymm, vpmuludq_zmm],
        Instruction::Vpmadd52luq => [vpmadd52luq_xmm, vpmadd52luq_ymm, vpmadd52luq_zmm],
        Instruction::Vfmadd213pd => [vfmadd213pd_xmm, vfmadd213pd_ymm, vfmadd213pd_zmm],
        Instruction::Vfmadd213ph => [vfmadd213ph_xmm, vfmadd213ph_ymm, vfmadd213ph_zmm],
        Instruction::Sha256rnds2 => [sha256rnds2_xmm; 3],
        Instruction::Tdpbssd => [tiles::tdpbssd; 3],
    };
    match width {
        Width::W128 => xmm,
        Width::W256 => ymm,
        Width::W512 => zmm,
    }
}

/// Eight times: eight additions in a chain and, among them, twice as many multiplications as there
/// are registers in one of the lists. The chain takes eight cycles, so it sets the pace.
macro_rules! density_loop {
    ($name:ident, $first:literal, $second:literal) => {
        vector_loop!(
            $name,
            "zmm",
            ".rept 8",
            concat!(".irp r,", $first),
            "vfmadd213pd zmm\\r, zmm14, zmm15",
            ".endr",
            ".rept 4",
            "add {pattern}, {pattern}",
            ".endr",
            concat!(".irp r,", $second),
            "vfmadd213pd zmm\\r, zmm14, zmm15",
            ".endr",
            ".rept 4",
            "add {pattern}, {pattern}",
            ".endr",
            ".endr",
        );
    };
}

density_loop!(density_1, "0", "7");
density_loop!(density_2, "0,1", "7,8");
density_loop!(density_3, "0,1,2", "7,8,9");
density_loop!(density_4, "0,1,2,3", "7,8,9,10");
density_loop!(density_5, "0,1,2,3,4", "7,8,9,10,11");
density_loop!(density_6, "0,1,2,3,4,5", "7,8,9,10,11,12");
density_loop!(density_7, "0,1,2,3,4,5,6", "7,8,9,10,11,12,13");
density_loop!(density_8, "0,1,2,3,4,5,6,7", "8,9,10,11,12,13,0,1");

fn density_loop(quarters: u8) -> unsafe fn(u64, u64) {
    match quarters {
        0 | 1 => density_1,
        2 => density_2,
        3 => density_3,
        4 => density_4,
        5 => density_5,
        6 => density_6,
        7 => density_7,
        _ => density_8,
    }
}

/// 24 additions and 24 multiplications in general-purpose registers.
unsafe fn scalar(turns: u64, pattern: u64) {
    // SAFETY: works on registers that it names, in a counted loop; it touches no memory and no
    // stack, and wants no instruction that an x86-64 lacks.
    unsafe {
        asm!(
            ".p2align 5",
            "2:",
            ".rept 6",
            "imul r8, {pattern}",
            "add r9, {pattern}",
            "imul r10, {pattern}",
            "add r11, {pattern}",
            "imul rax, {pattern}",
            "add rdx, {pattern}",
            "imul rcx, {pattern}",
            "add rsi, {pattern}",
            ".endr",
            "dec {turns}",
            "jnz 2b",
            pattern = in(reg) pattern,
            turns = inout(reg) turns => _,
            inout("r8") 3u64 => _, inout("r9") 3u64 => _, inout("r10") 3u64 => _,
            inout("r11") 3u64 => _, inout("rax") 3u64 => _, inout("rdx") 3u64 => _,
            inout("rcx") 3u64 => _, inout("rsi") 3u64 => _,
            options(nomem, nostack),
        );
    }
}
