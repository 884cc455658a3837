//! Follows code instruction by instruction: runs a rewritten copy of each of its blocks, and is
//! asked at the end of each for the next.
//!
//! The CPU's trap flag and debuggers tell the same, but take microseconds for each instruction, and
//! a signature has millions. A test compares the two.
#![allow(unsafe_code, reason = "code made at run time")]

use std::arch::naked_asm;
use std::ffi::c_void;
use std::mem::offset_of;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::slice;

use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::rewrite::{Original, Places, Writer};
use super::touch::{Registers, Touches};
use super::{Trace, fold};

/// Calls `call`, and follows it. What it calls must leave the base of the segment `gs` alone. It
/// must not panic: this process would end.
pub(super) fn follow<F: FnOnce()>(call: F) -> Trace {
    let mut call = Some(call);
    // SAFETY: `run` is given what it takes.
    unsafe { follow_function(run::<F>, ptr::from_mut(&mut call).cast()) }
}

/// Calls `function` with `argument`, and follows it.
///
/// # Safety
/// As for the function; and it may not unwind.
unsafe fn follow_function(
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) -> Trace {
    let follower = Box::into_raw(Follower::new());
    // SAFETY: made above, and freed in the end.
    unsafe { (*follower).state.own = follower.addr() as u64 };
    const ARCH_SET_GS: u64 = 0x1001;
    // SAFETY: nothing else in this thread uses the segment.
    let status = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, follower.addr()) };
    assert_eq!(status, 0, "the base of a segment can be set");
    // SAFETY: the follower is complete; the rest is as the caller promises.
    unsafe { enter(function, argument) };
    // SAFETY: made above, and what was followed has returned, so that nothing uses it.
    unsafe { Box::from_raw(follower) }.trace
}

/// What is followed.
///
/// # Safety
/// `call` must point to an `Option<F>` that nothing else uses.
unsafe extern "C" fn run<F: FnOnce()>(call: *mut c_void) {
    // SAFETY: as the caller promises.
    let call = unsafe { &mut *call.cast::<Option<F>>() };
    call.take().expect("it is called once")();
}

/// Makes no use of the heap once it is made: what it follows may be in the middle of a change of
/// the heap.
#[repr(C)]
struct Follower {
    state: State,
    trace: Trace,
    /// The block that runs.
    current: Option<usize>,
    blocks: Vec<Block>,
    /// The instructions of all blocks.
    steps: Vec<Step>,
    /// Numbers of blocks plus one. A block's place is told by its address; if that is taken, it has
    /// the next one that is free.
    index: Box<[u32]>,
    regions: Vec<Region>,
    /// The stack for [`choose`].
    _stack: Box<[u128]>,
}

/// What rewritten code and the assembly here use, by its distance from the base of `gs`.
#[repr(C, align(64))]
struct State {
    /// What XSAVE saves: the registers of vectors.
    vectors: [u8; 4096],
    /// General registers that a call need not preserve, and the stack pointer.
    registers: Registers,
    /// The address at which the original goes on; in the end of [`leave`], what to run for it.
    next: u64,
    /// The address of [`leave`].
    leave: u64,
    /// The address at which [`enter`] goes on when what is followed has returned.
    end: u64,
    /// The end of the follower's stack.
    stack: u64,
    /// The follower's own address.
    own: u64,
    /// A register that rewritten code uses for something else.
    spare: u64,
    /// For each instruction of the block that runs, the registers that tell what it touches.
    records: [Registers; BLOCK_INSTRUCTIONS],
}

/// Instructions of which none but the last chooses the next.
struct Block {
    /// The address of the rewritten copy.
    code: u64,
    /// Its instructions.
    steps: Range<usize>,
}

/// An instruction of the original.
struct Step {
    address: u64,
    touches: Touches,
}

/// Memory for rewritten code. It may be written and executed at once: only code that is being
/// tested runs in this process.
struct Region {
    memory: NonNull<[u8; REGION_BYTES]>,
    used: usize,
}

impl Region {
    /// A region near an address.
    fn near(address: u64) -> Self {
        let hint = NonZeroUsize::new((address - NEAR / 2) as usize & !(PAGE_BYTES - 1));
        let length = NonZeroUsize::new(REGION_BYTES).expect("it is not empty");
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE | ProtFlags::PROT_EXEC;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: a new mapping touches no memory that is in use.
        let mapping = unsafe { mmap_anonymous(hint, length, access, flags) }.expect("a mapping");
        Region { memory: mapping.cast(), used: 0 }
    }

    fn is_near(&self, address: u64) -> bool {
        (self.memory.addr().get() as u64).abs_diff(address) < NEAR
    }

    fn writer(&mut self) -> Writer<'_> {
        // SAFETY: zeros when it was mapped, as many as the type says, and borrowed with `self`.
        let memory = unsafe { self.memory.as_mut() };
        Writer::new(memory, &mut self.used, PLACES)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped in `near`, and nothing runs or borrows what is there.
        unsafe { munmap(self.memory.cast(), REGION_BYTES) }.expect("a mapping of our own");
    }
}

const BLOCK_INSTRUCTIONS: usize = 128;
const BLOCKS: usize = 1 << 16;
const STEPS: usize = 1 << 20;
const STACK_BYTES: usize = 256 << 10;
const REGIONS: usize = 8;
const REGION_BYTES: usize = 64 << 20;
/// How far from the original its copy may lie: displacements have 31 bits and a sign.
const NEAR: u64 = 1 << 30;
/// Vectors as XSAVE counts them: x87, SSE, AVX and the three parts of AVX-512.
const VECTORS: u32 = 0xe7;

const REGISTERS: usize = offset_of!(State, registers);
const NEXT: usize = offset_of!(State, next);
const END: usize = offset_of!(State, end);
const STACK: usize = offset_of!(State, stack);
const OWN: usize = offset_of!(State, own);
const RECORDS: usize = offset_of!(State, records);

const PLACES: Places = Places {
    next: NEXT as u32,
    leave: offset_of!(State, leave) as u32,
    spare: offset_of!(State, spare) as u32,
};

/// Calls `function` as rewritten code, and returns when that does.
///
/// # Safety
/// The base of `gs` must be a follower's address.
#[unsafe(naked)]
unsafe extern "C" fn enter(function: unsafe extern "C" fn(*mut c_void), argument: *mut c_void) {
    naked_asm!(
        "sub rsp, 8",
        "lea rax, [rip + 2f]",
        "push rax",
        "mov gs:[{END}], rax",
        "mov gs:[{NEXT}], rdi",
        "mov rdi, rsi",
        "jmp {leave}",
        "2:",
        "add rsp, 8",
        "ret",
        END = const END,
        NEXT = const NEXT,
        leave = sym leave,
    )
}

/// Where all rewritten code goes in the end: saves what [`choose`] may change, has it say what to
/// run next, and goes there. It leaves the stack of the original alone: the 128 bytes below the
/// stack pointer may be in use.
#[unsafe(naked)]
unsafe extern "C" fn leave() {
    naked_asm!(
        "mov gs:[{REGISTERS}], rax",
        "mov gs:[{REGISTERS} + 8], rcx",
        "mov gs:[{REGISTERS} + 16], rdx",
        "mov gs:[{REGISTERS} + 32], rsp",
        "mov gs:[{REGISTERS} + 48], rsi",
        "mov gs:[{REGISTERS} + 56], rdi",
        "mov gs:[{REGISTERS} + 64], r8",
        "mov gs:[{REGISTERS} + 72], r9",
        "mov gs:[{REGISTERS} + 80], r10",
        "mov gs:[{REGISTERS} + 88], r11",
        "mov rsp, gs:[{STACK}]",
        "pushfq",
        "sub rsp, 8",
        "cld",
        "mov rdi, gs:[{OWN}]",
        "mov eax, {VECTORS}",
        "xor edx, edx",
        "xsave64 [rdi]",
        "call {choose}",
        "mov gs:[{NEXT}], rax",
        "mov rdi, gs:[{OWN}]",
        "mov eax, {VECTORS}",
        "xor edx, edx",
        "xrstor64 [rdi]",
        "add rsp, 8",
        "popfq",
        "mov rax, gs:[{REGISTERS}]",
        "mov rcx, gs:[{REGISTERS} + 8]",
        "mov rdx, gs:[{REGISTERS} + 16]",
        "mov rsp, gs:[{REGISTERS} + 32]",
        "mov rsi, gs:[{REGISTERS} + 48]",
        "mov rdi, gs:[{REGISTERS} + 56]",
        "mov r8, gs:[{REGISTERS} + 64]",
        "mov r9, gs:[{REGISTERS} + 72]",
        "mov r10, gs:[{REGISTERS} + 80]",
        "mov r11, gs:[{REGISTERS} + 88]",
        "jmp gs:[{NEXT}]",
        REGISTERS = const REGISTERS,
        STACK = const STACK,
        OWN = const OWN,
        NEXT = const NEXT,
        VECTORS = const VECTORS,
        choose = sym choose,
    )
}

/// Returns the address of what to run next.
///
/// # Safety
/// `follower` must be the one at the base of `gs`, and only [`leave`] may call this.
unsafe extern "C" fn choose(follower: *mut Follower) -> u64 {
    // SAFETY: as the caller promises: what is followed stands still.
    unsafe { &mut *follower }.choose()
}

impl Follower {
    fn new() -> Box<Self> {
        // The decoder builds its tables now, before anything is followed.
        assert!(Original::decode(&[0x90], 0).is_some());
        let stack = vec![0; STACK_BYTES / size_of::<u128>()].into_boxed_slice();
        let state = State {
            vectors: [0; 4096],
            registers: [0; 16],
            next: 0,
            leave: (leave as *const ()).addr() as u64,
            end: 0,
            stack: stack.as_ptr_range().end.addr() as u64,
            own: 0,
            spare: 0,
            records: [[0; 16]; BLOCK_INSTRUCTIONS],
        };
        Box::new(Follower {
            state,
            trace: Trace::EMPTY,
            current: None,
            blocks: Vec::with_capacity(BLOCKS),
            steps: Vec::with_capacity(STEPS),
            index: vec![0; 2 * BLOCKS].into_boxed_slice(),
            regions: Vec::with_capacity(REGIONS),
            _stack: stack,
        })
    }

    fn choose(&mut self) -> u64 {
        if let Some(block) = self.current {
            self.add_to_trace(block);
        }
        let address = self.state.next;
        if address == self.state.end {
            return address;
        }
        let block = self.block_at(address);
        self.current = Some(block);
        self.blocks[block].code
    }

    /// Adds a block that has run.
    fn add_to_trace(&mut self, block: usize) {
        let steps = &self.steps[self.blocks[block].steps.clone()];
        let Trace { instructions, hash, touched } = &mut self.trace;
        *instructions += steps.len() as u64;
        for (step, registers) in steps.iter().zip(&self.state.records) {
            *hash = fold(*hash, step.address);
            *touched = step.touches.values(registers).fold(*touched, fold);
        }
    }

    /// The number of the block that begins at an address.
    fn block_at(&mut self, address: u64) -> usize {
        let mut place = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 32;
        loop {
            place %= self.index.len();
            let Some(block) = self.index[place].checked_sub(1) else { break };
            let block = block as usize;
            if self.steps[self.blocks[block].steps.start].address == address {
                return block;
            }
            place += 1;
        }
        self.rewrite(address);
        self.index[place] = self.blocks.len() as u32;
        self.blocks.len() - 1
    }

    /// Rewrites the block that begins at an address.
    fn rewrite(&mut self, address: u64) {
        assert!(self.blocks.len() < BLOCKS, "code of more than {BLOCKS} blocks");
        assert!(self.steps.len() + BLOCK_INSTRUCTIONS <= STEPS, "more than {STEPS} instructions");
        let first = self.steps.len();
        let region = self.region_near(address);
        let mut writer = self.regions[region].writer();
        let code = writer.address();
        let mut address = address;
        let mut ended = false;
        while !ended && self.steps.len() - first < BLOCK_INSTRUCTIONS {
            let original = decode(address);
            let touches = Touches::of(&original.instruction);
            let record = RECORDS + (self.steps.len() - first) * size_of::<Registers>();
            for register in touches.registers() {
                writer.store(register, (record + 8 * usize::from(register)) as u32);
            }
            self.steps.push(Step { address, touches });
            address = original.instruction.next_ip();
            ended = !original.goes_on();
            if ended {
                writer.leave_by(&original);
            } else {
                writer.copy(&original);
            }
        }
        if !ended {
            writer.leave_to(address);
        }
        self.blocks.push(Block { code, steps: first..self.steps.len() });
    }

    /// The number of a region near an address.
    fn region_near(&mut self, address: u64) -> usize {
        let known = self.regions.iter().position(|region| region.is_near(address));
        known.unwrap_or_else(|| {
            assert!(self.regions.len() < REGIONS, "code in more than {REGIONS} places");
            self.regions.push(Region::near(address));
            self.regions.len() - 1
        })
    }
}

/// Decodes an instruction of this process that is about to be executed. The page behind it is read
/// only if the instruction goes on there: it may be missing.
fn decode(address: u64) -> Original<'static> {
    let in_page = PAGE_BYTES - address as usize % PAGE_BYTES;
    let bytes = |length: usize| {
        // SAFETY: the instruction, which the CPU would read, and what of its page lies behind it.
        unsafe { slice::from_raw_parts(address as *const u8, length) }
    };
    Original::decode(bytes(in_page.min(INSTRUCTION_BYTES_MAX)), address)
        .or_else(|| Original::decode(bytes(INSTRUCTION_BYTES_MAX), address))
        .expect("an instruction")
}

const PAGE_BYTES: usize = 4096;
const INSTRUCTION_BYTES_MAX: usize = 15;

#[cfg(test)]
mod tests {
    use std::arch::asm;
    use std::collections::BTreeMap;
    use std::hint::black_box;
    use std::io::Write;

    use super::super::stepped;
    use super::*;

    #[test]
    fn calls_are_followed_on_the_way_that_the_trap_flag_shows() {
        for (name, function) in [
            ("arithmetic", arithmetic as extern "C" fn(*mut c_void)),
            ("copies", copies),
            ("containers", containers),
            ("texts", texts),
            ("rare jumps", rare_jumps),
        ] {
            let mut results = [0_u64; 3];
            let [first, second, third] =
                results.each_mut().map(|result| ptr::from_mut(result).cast());
            // The first call fills caches of the heap.
            function(first);
            let stepped = stepped::step(function, second);
            // SAFETY: the function takes a number, and does not unwind.
            let followed = unsafe { follow_function(function, third) };
            assert_eq!(followed.instructions, stepped.instructions, "{name}");
            assert_eq!(followed.hash, stepped.hash, "{name}");
            assert!(followed.instructions > 20, "{name}");
            assert_eq!(results, [results[0]; 3], "{name}");
        }
    }

    /// Adds to the number at `sum`.
    fn add(sum: *mut c_void, number: u64) {
        // SAFETY: every caller has one there.
        let sum = unsafe { &mut *sum.cast::<u64>() };
        *sum += number;
    }

    extern "C" fn arithmetic(sum: *mut c_void) {
        let numbers: [u64; 40] = std::array::from_fn(|index| black_box(index as u64 * 77 + 1));
        let wide: u128 = numbers.iter().map(|number| u128::from(*number).pow(3)).sum();
        let rest = wide % black_box(1 << 70 | 12345);
        let root = black_box(numbers[39] as f64).sqrt();
        add(sum, rest as u64 + root as u64);
    }

    extern "C" fn copies(sum: *mut c_void) {
        // How a copy is made depends on where the bytes are in a page.
        #[repr(align(4096))]
        struct Page([u8; 5000]);
        let (mut from, mut to) = (Page([3; 5000]), Page([0; 5000]));
        let (from, to) = (&mut from.0, &mut to.0);
        for length in [0, 1, 15, 16, 63, 64, 200, 1000, 5000] {
            black_box(&mut from[..length]).fill(length as u8);
            to[..length].copy_from_slice(black_box(&from[..length]));
            add(sum, u64::from(to[length / 2]) + u64::from(black_box(&from) == black_box(&to)));
        }
    }

    extern "C" fn containers(sum: *mut c_void) {
        let mut numbers: Vec<u64> = (0..40).map(|index| index * 7919 % 1009).collect();
        numbers.sort_unstable();
        let map: BTreeMap<u64, u64> = numbers.iter().map(|number| (*number, number / 3)).collect();
        let functions: [&dyn Fn(u64) -> u64; 2] = [&|number| number + 1, &|number| number * 2];
        for (key, value) in &map {
            add(sum, black_box(functions)[*key as usize % 2](*value));
        }
    }

    extern "C" fn texts(sum: *mut c_void) {
        let mut text = [b' '; 40];
        write!(&mut text[..], "{:>12.3} and {:#x}", black_box(2.5), black_box(77)).expect("room");
        add(sum, text.iter().map(|byte| u64::from(*byte)).sum());
        add(sum, black_box("1234").parse().unwrap_or(0));
    }

    /// What compilers emit rarely, with flags and memory below the stack pointer that stay.
    extern "C" fn rare_jumps(sum: *mut c_void) {
        let (from, mut to) = ([7_u8; 40], [0_u8; 40]);
        let mut number = 0_u64;
        // SAFETY: copies 40 bytes, and leaves the stack as it was.
        unsafe {
            asm!(
                "rep movsb",
                "mov ecx, 5",
                "2: add {number}, rcx",
                "loop 2b",
                "jrcxz 3f",
                "ud2",
                "3: lea {other}, [rip + 4f]",
                "mov [rsp - 16], {other}",
                "mov qword ptr [rsp - 8], 100",
                "stc",
                "jmp [rsp - 16]",
                "ud2",
                "4: adc {number}, [rsp - 8]",
                "push 1",
                "lea {other}, [rip + 5f]",
                "push {other}",
                "call [rsp]",
                "pop {other}",
                "jmp 6f",
                "5: add {number}, [rsp + 16]",
                "ret 8",
                "6:",
                number = inout(reg) number,
                other = out(reg) _,
                inout("rcx") from.len() => _,
                inout("rsi") from.as_ptr() => _,
                inout("rdi") to.as_mut_ptr() => _,
            );
        }
        assert_eq!((number, to), (15 + 101 + 1, from));
        add(sum, number);
    }

    /// Functions that load from the address in a register, for each one that is named.
    macro_rules! loads {
        ($($register:literal),*) => {
            [$(($register, {
                extern "C" fn load(at: *mut c_void) {
                    // SAFETY: every caller has bytes there, and the register is as it was.
                    unsafe {
                        asm!(
                            concat!("push ", $register),
                            concat!("mov ", $register, ", {at}"),
                            concat!("movzx {at:e}, byte ptr [", $register, "]"),
                            concat!("pop ", $register),
                            at = inout(reg) at => _,
                        );
                    }
                }
                load as extern "C" fn(*mut c_void)
            })),*]
        };
    }

    #[test]
    fn addresses_in_every_register_are_seen() {
        let loads = loads![
            "rax", "rcx", "rdx", "rbx", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
            "r13", "r14", "r15"
        ];
        let bytes = [0_u8; 2];
        for (register, load) in loads {
            let [one, other] = bytes.each_ref().map(|byte| {
                // SAFETY: the function reads a byte, and does not unwind.
                unsafe { follow_function(load, ptr::from_ref(byte).cast_mut().cast()) }
            });
            assert_eq!((one.instructions, one.hash), (other.instructions, other.hash));
            assert_ne!(one.touched, other.touched, "{register}");
        }
    }
}
