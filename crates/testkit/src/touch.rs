//! Which memory an instruction touches, told from its bytes and the registers before it.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use nix::libc::user_regs_struct;

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

    /// The addresses of its operands, given the registers before it ran.
    pub(crate) fn addresses(&self, registers: &user_regs_struct) -> impl Iterator<Item = u64> {
        (0..8).filter(|operand| self.operands >> operand & 1 == 1).map(|operand| {
            let value = |register, _, _| value(registers, register);
            let address = self.instruction.virtual_address(operand, 0, value);
            address.unwrap_or_else(|| panic!("no address of {:?}", self.instruction.code()))
        })
    }
}

/// What a register of an address holds.
fn value(registers: &user_regs_struct, register: Register) -> Option<u64> {
    let whole = match register.full_register() {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        // The others have no base in this mode.
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        _ => return None,
    };
    Some(if register.size() == 4 { whole & 0xffff_ffff } else { whole })
}
