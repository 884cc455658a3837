//! Wiping: memory and vector registers, in a way the compiler may not remove.
#![allow(unsafe_code, reason = "asm blocks that observe memory and clear registers")]

use core::arch::asm;

/// Overwrites every item with its default (zero for words) before the memory is given up.
pub fn wipe<T: Copy + Default>(items: &mut [T]) {
    items.fill(T::default());
    // SAFETY: an empty block changes no state; the compiler must assume that it reads `items`.
    unsafe {
        asm!("/* {0} */", in(reg) items.as_ptr(), options(readonly, nostack, preserves_flags));
    }
}

/// Clears all 32 vector registers and the mask registers. Once per batch, not per call.
///
/// Clearing the lowest 128 bits clears the others too, so that no instruction here is one of 512
/// bits.
///
/// # Safety
///
/// Safe to call where AVX-512 VL is enabled; anywhere else the caller must know that the CPU has
/// it.
#[target_feature(enable = "avx512f,avx512vl")]
pub fn wipe_vector_registers() {
    // SAFETY: AVX-512 VL is enabled on this function; every register written is named as clobbered.
    unsafe {
        asm!(
            "vzeroall",
            "vpxord xmm16, xmm16, xmm16",
            "vpxord xmm17, xmm17, xmm17",
            "vpxord xmm18, xmm18, xmm18",
            "vpxord xmm19, xmm19, xmm19",
            "vpxord xmm20, xmm20, xmm20",
            "vpxord xmm21, xmm21, xmm21",
            "vpxord xmm22, xmm22, xmm22",
            "vpxord xmm23, xmm23, xmm23",
            "vpxord xmm24, xmm24, xmm24",
            "vpxord xmm25, xmm25, xmm25",
            "vpxord xmm26, xmm26, xmm26",
            "vpxord xmm27, xmm27, xmm27",
            "vpxord xmm28, xmm28, xmm28",
            "vpxord xmm29, xmm29, xmm29",
            "vpxord xmm30, xmm30, xmm30",
            "vpxord xmm31, xmm31, xmm31",
            "kxorw k0, k0, k0",
            "kxorw k1, k1, k1",
            "kxorw k2, k2, k2",
            "kxorw k3, k3, k3",
            "kxorw k4, k4, k4",
            "kxorw k5, k5, k5",
            "kxorw k6, k6, k6",
            "kxorw k7, k7, k7",
            out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _,
            out("zmm4") _, out("zmm5") _, out("zmm6") _, out("zmm7") _,
            out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
            out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _,
            out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
            out("zmm20") _, out("zmm21") _, out("zmm22") _, out("zmm23") _,
            out("zmm24") _, out("zmm25") _, out("zmm26") _, out("zmm27") _,
            out("zmm28") _, out("zmm29") _, out("zmm30") _, out("zmm31") _,
            out("k0") _, out("k1") _, out("k2") _, out("k3") _,
            out("k4") _, out("k5") _, out("k6") _, out("k7") _,
            options(nomem, nostack, preserves_flags),
        );
    }
}

/// Clears the 16 vector registers of a machine without AVX-512. Once per batch, not per call.
///
/// # Safety
///
/// Safe to call where AVX is enabled; anywhere else the caller must know that the CPU has it.
#[target_feature(enable = "avx")]
pub fn wipe_ymm_registers() {
    // SAFETY: AVX is enabled on this function; every register written is named as clobbered.
    unsafe {
        asm!(
            "vzeroall",
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
            out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
            out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nomem, nostack, preserves_flags),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wiped_memory_is_zero() {
        let mut words = [[7u64; 4]; 3];
        wipe(&mut words);
        assert_eq!(words, [[0; 4]; 3]);
    }
}
