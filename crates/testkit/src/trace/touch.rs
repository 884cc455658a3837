//! Which memory an instruction touches, told from its bytes and the registers before it.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// General registers by the numbers that instructions have for them: rax, rcx, rdx, rbx, rsp, rbp,
/// rsi, rdi, r8 to r15.
pub(super) type Registers = [u64; 16];

/// What an instruction touches: the addresses of its operands in memory, and of a repeated string
/// instruction how often it is repeated.
#[derive(Clone, Copy)]
pub(super) struct Touches {
    /// No instruction has more operands in memory than two.
    operands: [Option<Operand>; 2],
    repeats: bool,
}

impl Touches {
    /// What gathers or scatters has its addresses in vector registers, which nobody reads here:
    /// `cargo xtask ct` looks for it in the emitted code.
    ///
    /// # Panics
    /// When how often the instruction is repeated depends on what it finds in memory: that would
    /// be missing here.
    pub(super) fn of(instruction: &Instruction) -> Self {
        let has_prefix = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        let repeats = has_prefix && instruction.is_string_instruction();
        let searches = matches!(
            instruction.mnemonic(),
            Mnemonic::Cmpsb
                | Mnemonic::Cmpsw
                | Mnemonic::Cmpsd
                | Mnemonic::Cmpsq
                | Mnemonic::Scasb
                | Mnemonic::Scasw
                | Mnemonic::Scasd
                | Mnemonic::Scasq
        );
        assert!(!(repeats && searches), "{:?} ends at what it finds", instruction.code());
        // These compute an address, or nothing, and touch none.
        let touches = !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
            && !instruction.is_vsib();
        let count = if touches { instruction.op_count() } else { 0 };
        let mut found =
            (0..count).filter_map(|operand| Operand::of(instruction, instruction.op_kind(operand)));
        let operands = [found.next(), found.next()];
        assert!(found.next().is_none(), "{:?} has three operands in memory", instruction.code());
        Touches { operands, repeats }
    }

    /// The registers that tell what the instruction touches.
    pub(super) fn registers(&self) -> impl Iterator<Item = u8> {
        let operands = self.operands.into_iter().flatten();
        let registers = operands.flat_map(|operand| [operand.base, operand.index]).flatten();
        registers.chain(self.repeats.then_some(RCX))
    }

    /// The addresses of its operands and how often it is repeated, given the registers before it
    /// ran.
    pub(super) fn values(&self, registers: &Registers) -> impl Iterator<Item = u64> {
        let operands = self.operands.into_iter().flatten();
        operands
            .map(|operand| operand.address(registers))
            .chain(self.repeats.then(|| registers[usize::from(RCX)]))
    }
}

const RCX: u8 = 1;

/// An operand in memory. A thread has the same bases of segments all the time, so they are left
/// out.
#[derive(Clone, Copy)]
struct Operand {
    base: Option<u8>,
    index: Option<u8>,
    scale: u64,
    displacement: u64,
    /// The bits that addresses have.
    mask: u64,
}

impl Operand {
    fn of(instruction: &Instruction, kind: OpKind) -> Option<Self> {
        let (base, index) = match kind {
            OpKind::Memory => (instruction.memory_base(), instruction.memory_index()),
            OpKind::MemorySegRSI => (Register::RSI, Register::None),
            OpKind::MemorySegRDI | OpKind::MemoryESRDI => (Register::RDI, Register::None),
            _ => return None,
        };
        let number = |register: Register| {
            let whole = register.full_register();
            whole.is_gpr64().then(|| whole.number() as u8)
        };
        Some(Operand {
            base: number(base),
            index: number(index),
            scale: u64::from(instruction.memory_index_scale()),
            // With an instruction pointer for a base, it is the address.
            displacement: if kind == OpKind::Memory {
                instruction.memory_displacement64()
            } else {
                0
            },
            mask: if base.is_gpr32() || index.is_gpr32() { u64::from(u32::MAX) } else { u64::MAX },
        })
    }

    fn address(&self, registers: &Registers) -> u64 {
        let value =
            |register: Option<u8>| register.map_or(0, |number| registers[usize::from(number)]);
        let index = value(self.index).wrapping_mul(self.scale);
        value(self.base).wrapping_add(index).wrapping_add(self.displacement) & self.mask
    }
}
