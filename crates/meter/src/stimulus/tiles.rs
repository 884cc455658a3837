//! AMX: products of tiles, where the CPU has them and the kernel lets this process use them.
#![allow(unsafe_code, reason = "tiles have no stable intrinsics, and need the kernel's permission")]

use std::arch::asm;
use std::io;

use nix::libc;
use widelane_cpu::features;

use super::loops::BITS;

/// `arch_prctl`: asks for a register state that is large, here the tiles' data (Linux,
/// Documentation/arch/x86/xstate.rst).
const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
const XFEATURE_XTILEDATA: libc::c_long = 18;

/// Why no tiles can be used here; nothing where they can.
pub fn missing() -> Option<String> {
    if !features::tiles() {
        return Some("not applicable: no amx-tile, amx-int8".to_owned());
    }
    // SAFETY: takes two numbers and changes nothing but what this process may use.
    let status =
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) };
    let refusal = || io::Error::last_os_error();
    (status != 0).then(|| format!("not applicable: no leave to use tiles: {}", refusal()))
}

/// What `ldtilecfg` loads (volume 1, 18.2).
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes_per_row: [u16; 16],
    rows: [u8; 16],
}

/// Eight tiles of 16 rows of 64 bytes, as large as they get.
static WHOLE: Configuration = Configuration {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    bytes_per_row: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// The rows of a tile.
static ROWS: [[u64; 8]; 16] = [[BITS; 8]; 16];

/// 48 products of tiles a turn, on six independent sums.
///
/// # Safety
///
/// [`missing`] has found nothing missing; `turns` is above zero.
pub unsafe fn tdpbssd(turns: u64, _pattern: u64) {
    // SAFETY: the caller has found tiles, and leave to use them; the code reads the configuration
    // and a tile's rows, works on tiles in a counted loop, and leaves none of them in use.
    unsafe {
        asm!(
            "ldtilecfg [{configuration}]",
            ".irp r,0,1,2,3,4,5,6,7",
            "tileloadd tmm\\r, [{rows} + {bytes_per_row}]",
            ".endr",
            ".p2align 5",
            "2:",
            ".rept 8",
            ".irp r,0,1,2,3,4,5",
            "tdpbssd tmm\\r, tmm6, tmm7",
            ".endr",
            ".endr",
            "dec {turns}",
            "jnz 2b",
            "tilerelease",
            configuration = in(reg) &raw const WHOLE,
            rows = in(reg) &raw const ROWS,
            bytes_per_row = in(reg) 64_u64,
            turns = inout(reg) turns => _,
            options(readonly, nostack),
        );
    }
}
