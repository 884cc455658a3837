//! Which memory an instruction touches, told from its bytes and the registers before it.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use nix::libc;

/// Registers as a handler of a signal finds them, by the numbers that `libc` gives them.
pub(crate) type Registers = [libc::greg_t; 23];

/// An instruction's operands in memory.
#[derive(Clone, Copy)]
pub(crate) struct Touches {
    instruction: Instruction,
    /// Bit i is set if operand i is in memory.
    operands: u8,
}

impl Touches {
    /// Decodes the instruction at `address`. What gathers or scatters has its addresses in vector
    /// registers, which nobody reads here: `cargo xtask ct` looks for it in the emitted code.
    pub(crate) fn decode(bytes: &[u8], address: u64) -> Self {
        let instruction = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
        // These compute an address, or nothing, and touch none.
        let touches = !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
            && !instruction.is_vsib();
        let is_memory = |operand: &u32| {
            matches!(
                instruction.op_kind(*operand),
                OpKind::Memory | OpKind::MemorySegRSI | OpKind::MemorySegRDI | OpKind::MemoryESRDI
            )
        };
        let operands = (0..instruction.op_count()).filter(is_memory).filter(|_| touches);
        Touches { instruction, operands: operands.fold(0, |set, operand| set | 1 << operand) }
    }

    /// The address of the instruction.
    pub(crate) fn address(&self) -> u64 {
        self.instruction.ip()
    }

    /// Whether the bytes were a whole instruction.
    pub(crate) fn is_whole(&self) -> bool {
        !self.instruction.is_invalid()
    }

    /// The addresses of its operands, given the registers before it ran.
    pub(crate) fn addresses(&self, registers: &Registers) -> impl Iterator<Item = u64> {
        (0..8).filter(|operand| self.operands >> operand & 1 == 1).map(|operand| {
            let value = |register, _, _| value(registers, register);
            let address = self.instruction.virtual_address(operand, 0, value);
            address.unwrap_or_else(|| panic!("no address of {:?}", self.instruction.code()))
        })
    }
}

/// What a register of an address holds.
fn value(registers: &Registers, register: Register) -> Option<u64> {
    let number = match register.full_register() {
        Register::RAX => libc::REG_RAX,
        Register::RBX => libc::REG_RBX,
        Register::RCX => libc::REG_RCX,
        Register::RDX => libc::REG_RDX,
        Register::RSI => libc::REG_RSI,
        Register::RDI => libc::REG_RDI,
        Register::RBP => libc::REG_RBP,
        Register::RSP => libc::REG_RSP,
        Register::R8 => libc::REG_R8,
        Register::R9 => libc::REG_R9,
        Register::R10 => libc::REG_R10,
        Register::R11 => libc::REG_R11,
        Register::R12 => libc::REG_R12,
        Register::R13 => libc::REG_R13,
        Register::R14 => libc::REG_R14,
        Register::R15 => libc::REG_R15,
        // A thread has the same bases all the time, and the other segments have none in this mode.
        register if register.is_segment_register() => return Some(0),
        _ => return None,
    };
    let whole = registers[number as usize] as u64;
    Some(if register.size() == 4 { whole & 0xffff_ffff } else { whole })
}
