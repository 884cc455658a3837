//! Rewrites instructions so that whoever follows them keeps control: they run as they are, but
//! where one goes on elsewhere, its rewritten form says where and leaves.
//!
//! What rewritten code needs for itself lies relative to the segment `gs`, which nothing else uses:
//! registers, flags and the stack stay those of the original.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

/// Where rewritten code keeps something, relative to `gs`.
#[derive(Clone, Copy)]
pub(super) struct Places {
    /// The address in the original at which to go on.
    pub next: u32,
    /// The address of the code to which rewritten code leaves.
    pub leave: u32,
    /// A register while it is used for something else.
    pub spare: u32,
}

/// An instruction of the original.
pub(super) struct Original<'a> {
    pub instruction: Instruction,
    bytes: &'a [u8],
    /// Where its displacement is among its bytes.
    displacement: usize,
}

impl<'a> Original<'a> {
    /// The instruction at `address`, whose bytes are the first of `bytes`, or none.
    pub(super) fn decode(bytes: &'a [u8], address: u64) -> Option<Self> {
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        let displacement = decoder.get_constant_offsets(&instruction).displacement_offset();
        let bytes = &bytes[..instruction.len()];
        (!instruction.is_invalid()).then_some(Original { instruction, bytes, displacement })
    }

    /// Whether the instruction behind it comes next in any case. System calls return.
    pub(super) fn goes_on(&self) -> bool {
        self.instruction.flow_control() == FlowControl::Next
            || self.instruction.mnemonic() == Mnemonic::Syscall
    }
}

/// Writes rewritten code, behind what was written before.
pub(super) struct Writer<'a> {
    memory: &'a mut [u8],
    length: &'a mut usize,
    places: Places,
}

impl<'a> Writer<'a> {
    pub(super) fn new(memory: &'a mut [u8], length: &'a mut usize, places: Places) -> Self {
        Writer { memory, length, places }
    }

    /// The address of what is written next.
    pub(super) fn address(&self) -> u64 {
        self.memory[*self.length..].as_ptr().addr() as u64
    }

    /// Writes an instruction that goes on with the one behind it.
    pub(super) fn copy(&mut self, original: &Original<'_>) {
        self.put(original.bytes);
        if original.instruction.is_ip_rel_memory_operand() {
            let behind = original.bytes.len() - original.displacement;
            self.aim(behind, original.instruction.ip_rel_memory_address());
        }
    }

    /// Writes an instruction that goes on elsewhere.
    ///
    /// # Panics
    /// For a kind of jump that compilers do not emit.
    pub(super) fn leave_by(&mut self, original: &Original<'_>) {
        let instruction = &original.instruction;
        let behind = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch => self.leave_to(instruction.near_branch_target()),
            FlowControl::ConditionalBranch => {
                self.branch_over_way_out(original);
                self.leave_to(behind);
                self.leave_to(instruction.near_branch_target());
            }
            FlowControl::Call => {
                self.push(behind);
                self.leave_to(instruction.near_branch_target());
            }
            FlowControl::IndirectBranch => {
                self.load_next(original);
                self.leave();
            }
            FlowControl::IndirectCall => {
                self.load_next(original);
                self.push(behind);
                self.leave();
            }
            FlowControl::Return => {
                let returns = matches!(instruction.code(), Code::Retnq | Code::Retnq_imm16);
                assert!(returns, "nobody can follow {:?}", instruction.code());
                // pop gs:[next]; lea rsp, [rsp + …]
                self.put(&[0x65, 0x8f, 0x04, 0x25]);
                self.put(&self.places.next.to_le_bytes());
                if instruction.code() == Code::Retnq_imm16 {
                    self.put(&[0x48, 0x8d, 0xa4, 0x24]);
                    self.put(&u32::from(instruction.immediate16()).to_le_bytes());
                }
                self.leave();
            }
            // Ends the process, or its handler does.
            FlowControl::Exception | FlowControl::Interrupt => self.copy(original),
            _ => panic!("nobody can follow {:?}", instruction.code()),
        }
    }

    /// Leaves for an address in the original.
    pub(super) fn leave_to(&mut self, target: u64) {
        // mov dword ptr gs:[next], …; mov dword ptr gs:[next + 4], …
        for (offset, half) in [(0, target as u32), (4, (target >> 32) as u32)] {
            self.put(&[0x65, 0xc7, 0x04, 0x25]);
            self.put(&(self.places.next + offset).to_le_bytes());
            self.put(&half.to_le_bytes());
        }
        self.leave();
    }

    /// Stores a register: `mov gs:[place], register`.
    pub(super) fn store(&mut self, register: u8, place: u32) {
        self.move_register(0x89, register, place);
    }

    /// Loads a register: `mov register, gs:[place]`.
    fn load(&mut self, register: u8, place: u32) {
        self.move_register(0x8b, register, place);
    }

    fn move_register(&mut self, opcode: u8, register: u8, place: u32) {
        let extension = register >> 3 << 2;
        self.put(&[0x65, 0x48 | extension, opcode, (register & 7) << 3 | 4, 0x25]);
        self.put(&place.to_le_bytes());
    }

    /// Jumps to where all rewritten code leaves to: `jmp gs:[leave]`.
    fn leave(&mut self) {
        self.put(&[0x65, 0xff, 0x24, 0x25]);
        self.put(&self.places.leave.to_le_bytes());
    }

    /// Pushes an address, by halves: push …; mov dword ptr [rsp + 4], …
    fn push(&mut self, address: u64) {
        self.put(&[0x68]);
        self.put(&(address as u32).to_le_bytes());
        self.put(&[0xc7, 0x44, 0x24, 0x04]);
        self.put(&((address >> 32) as u32).to_le_bytes());
    }

    /// A conditional jump over the next [`Writer::leave_to`].
    fn branch_over_way_out(&mut self, original: &Original<'_>) {
        match *original.bytes {
            [0x0f, opcode, ..] => self.put(&[0x70 | opcode & 0xf, WAY_OUT_BYTES]),
            // Also those that count, which have no other form.
            [ref instruction @ .., _] if !original.instruction.is_jcc_near() => {
                self.put(instruction);
                self.put(&[WAY_OUT_BYTES]);
            }
            _ => panic!("nobody can follow {:?}", original.instruction.code()),
        }
    }

    /// Sets the address at which to go on from the operand of an indirect jump or call, which is
    /// loaded as the jump would: `mov gs:[spare], rax; mov rax, operand; mov gs:[next], rax`; and
    /// `rax` as it was.
    fn load_next(&mut self, original: &Original<'_>) {
        const JUMP_OR_CALL: u8 = 0xff;
        // Prefixes that say what a jump may land on, and do not belong to a load.
        let prefixes = original.bytes.iter().take_while(|byte| matches!(byte, 0x3e | 0xf2)).count();
        let (rex, rest) = match original.bytes[prefixes..] {
            [rex @ 0x40..=0x4f, JUMP_OR_CALL, ref rest @ ..] => (rex, rest),
            [JUMP_OR_CALL, ref rest @ ..] => (0x40, rest),
            _ => panic!("nobody can follow {:?}", original.instruction.code()),
        };
        self.store(0, self.places.spare);
        // The field of the register, which was part of the opcode, means rax.
        self.put(&[rex & 0x43 | 0x48, 0x8b, rest[0] & 0xc7]);
        self.put(&rest[1..]);
        if original.instruction.is_ip_rel_memory_operand() {
            self.aim(4, original.instruction.ip_rel_memory_address());
        }
        self.store(0, self.places.next);
        self.load(0, self.places.spare);
    }

    /// Has the displacement that begins so many bytes before the end mean `target`, counted from
    /// the end.
    fn aim(&mut self, before_end: usize, target: u64) {
        let end = self.address();
        let displacement = i32::try_from(target.wrapping_sub(end) as i64)
            .unwrap_or_else(|_| panic!("{target:#x} is far from {end:#x}"));
        let at = *self.length - before_end;
        self.memory[at..at + 4].copy_from_slice(&displacement.to_le_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        self.memory[*self.length..][..bytes.len()].copy_from_slice(bytes);
        *self.length += bytes.len();
    }
}

/// What [`Writer::leave_to`] writes.
const WAY_OUT_BYTES: u8 = 12 + 12 + 8;
