//! The emitted code of `kernels` and `secret`: instructions whose time follows their operands, or
//! whose addresses come out of vector registers, and those that compute in wider registers than
//! their room may. Code of theirs that was inlined into functions of other crates is not looked at.
//!
//! Conditional jumps are counted only: which of them decide on secrets the traces tell, not the
//! code.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::shell::capture;

/// What was found in a library.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    pub functions: usize,
    instructions: usize,
    jumps: usize,
    /// Instructions that must not be there, by function and mnemonic.
    pub findings: BTreeMap<(String, String), usize>,
}

/// Crates whose code handles secrets below every algorithm.
const CRATES: [&str; 2] = ["widelane_kernels", "widelane_secret"];

/// Beginnings of mnemonics that must not be there.
const SUSPECT: [&str; 14] = [
    "div", // also of vectors: divps, divsd
    "idiv",
    "vdiv",
    "vsqrt",
    "sqrt",
    "fdiv",
    "vgather",
    "vpgather",
    "vscatter",
    "vpscatter",
    "loop",
    "jrcxz",
    "jecxz",
    "xlat",
];

/// Parts of the names of functions that have AVX-512 and compute in 256 bits at most.
const NARROW: [&str; 2] = ["ifma256", "wipe_vector_registers"];

/// Beginnings of mnemonics that the compiler moves and clears memory with: in the widest registers
/// there are, which nothing but a flag for the whole program keeps it from.
const MOVES: [&str; 2] = ["vmov", "vperm"];

/// Disassembles `library` and looks at every function of our crates.
pub fn scan(library: &Path) -> Result<Scanned> {
    let listing = capture(
        Command::new("objdump")
            .args(["--disassemble", "--demangle", "--no-show-raw-insn"])
            .arg(library),
    )?;
    Ok(Scanned::of(&listing))
}

impl Scanned {
    fn of(listing: &str) -> Self {
        let mut scanned = Scanned::default();
        let mut function = None;
        for line in listing.lines() {
            if let Some(name) = function_name(line) {
                function = CRATES.iter().any(|ours| name.contains(ours)).then_some(name);
                scanned.functions += usize::from(function.is_some());
            } else if let Some(function) = function
                && let Some((mnemonic, operands)) = instruction(line)
            {
                scanned.take(function, mnemonic, operands);
            }
        }
        scanned
    }

    fn take(&mut self, function: &str, mnemonic: &str, operands: &str) {
        self.instructions += 1;
        self.jumps += usize::from(mnemonic.starts_with('j') && mnemonic != "jmp");
        let begins = |any: &[&str]| any.iter().any(|begin| mnemonic.starts_with(begin));
        let is_narrow = NARROW.iter().any(|name| function.contains(name));
        let is_too_wide = is_narrow && operands.contains("%zmm") && !begins(&MOVES);
        if begins(&SUSPECT) || is_too_wide {
            let key = (function.to_owned(), mnemonic.to_owned());
            *self.findings.entry(key).or_default() += 1;
        }
    }

    /// Prints what was found.
    pub fn print(&self) {
        eprintln!(
            "    {} functions, {} instructions, {} conditional jumps (the traces judge them)",
            self.functions, self.instructions, self.jumps
        );
        for ((function, mnemonic), count) in &self.findings {
            eprintln!("    NOT ALLOWED: {count} {mnemonic} in {function}");
        }
    }
}

/// The name in `0000000000001000 <name>:`.
fn function_name(line: &str) -> Option<&str> {
    let (address, name) = line.strip_suffix(">:")?.split_once(" <")?;
    address.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(name)
}

/// The mnemonic and the operands in `  1000:\tadd    %rax,%rbx`.
fn instruction(line: &str) -> Option<(&str, &str)> {
    let instruction = line.split_once(":\t")?.1;
    Some(instruction.split_once(' ').unwrap_or((instruction, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
0000000000001000 <widelane_kernels::mont::portable::multiply>:
    1000:\tmov    %rsp,%rbp
    1003:\tje     1000 <widelane_kernels::mont::portable::multiply>
    1005:\tidiv   %rcx
    1008:\tvpgatherqq (%rax,%zmm1,8),%zmm2{%k1}

0000000000002000 <<widelane_kernels::words::avx512::Avx512x16 as Register>::call::body>:
    2000:\tvpscatterdd %zmm1,(%rax,%zmm2,4){%k1}
    2003:\tjmp    2000 <x>

0000000000003000 <core::fmt::write>:
    3000:\tdiv    %ecx
";

    #[test]
    fn rooms_of_256_bits_compute_in_no_wider_registers() {
        let scanned = Scanned::of(
            "\
0000000000001000 <<widelane_kernels::lanes::ifma256_x4::Ifma256x4 as Register>::call::body>:
    1000:\tvmovdqa64 %zmm0,0xc0(%rax)
    1008:\tvpxord %xmm16,%xmm16,%xmm16
    100e:\tvpmadd52luq %ymm1,%ymm2,%ymm3
    1014:\tvpxord %zmm16,%zmm16,%zmm16

0000000000002000 <<widelane_kernels::lanes::ifma512_x8::Ifma512x8 as Register>::call::body>:
    2000:\tvpmadd52luq %zmm1,%zmm2,%zmm3
",
        );
        let found: Vec<&str> = scanned.findings.keys().map(|(_, name)| name.as_str()).collect();
        assert_eq!(found, ["vpxord"]);
    }

    #[test]
    fn planted_instructions_are_found_in_our_crates() {
        let scanned = Scanned::of(LISTING);
        assert_eq!((scanned.functions, scanned.instructions, scanned.jumps), (2, 6, 1));
        let found: Vec<&str> = scanned.findings.keys().map(|(_, name)| name.as_str()).collect();
        assert_eq!(found, ["vpscatterdd", "idiv", "vpgatherqq"]);
    }
}
