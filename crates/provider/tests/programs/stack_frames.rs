//! The emitted code. Of its stack, wipes reach as deep as what they wipe after, and nothing that
//! runs on the stack of a caller takes more than an ASYNC job or a small thread has to spare. And
//! no vector instruction is a call.
//!
//! Frames are read off the disassembly. Calls through pointers cannot be followed there; what is
//! called so is an entry of its own and bounded like one.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::LazyLock;

use crate::common;

/// The most that a function of ours takes on a caller's stack, with all that it calls. An ASYNC job
/// has 32 KiB, of which libssl and libcrypto take less than a third.
const ENTRY_BYTES_MAX: usize = 14 << 10;

/// What runs on a stack of ours takes less than half of its 512 KiB.
const LARGE_BYTES_MAX: usize = 256 << 10;

/// Beginnings of names of what only runs to end in a panic, and of panics' own texts.
const PANICKING: [&str; 12] = [
    "core::panicking::",
    "core::slice::index::slice_",
    "core::result::unwrap_failed",
    "core::option::",
    "core::cell::panic_",
    "alloc::raw_vec::handle_error",
    "alloc::alloc::handle_alloc_error",
    "std::panicking::",
    "std::sys::backtrace::",
    "<std::sys::backtrace::",
    "std::process::abort",
    "__rustc::rust_panic",
];

struct Function {
    name: String,
    frame: usize,
    /// Addresses of functions that it calls, or may call through a register since it has their
    /// address, and whether it leaves its frame before.
    calls: BTreeSet<(u64, bool)>,
}

struct Code {
    functions: BTreeMap<u64, Function>,
    /// Functions whose address stands in a table, or is taken to be handed on.
    entries: BTreeSet<u64>,
}

#[test]
fn no_entry_takes_more_stack_than_a_small_thread_has() {
    let Some(code) = &*CODE else { return };
    let mut depths = Depths::new(code);
    let mut entries = 0;
    for address in &code.entries {
        let Some(function) = code.functions.get(address) else { continue };
        if !is_ours(&function.name) || is_on_large(function) {
            continue;
        }
        entries += 1;
        let depth = depths.of(*address);
        assert!(depth <= ENTRY_BYTES_MAX, "{depth} bytes of stack:\n{}", depths.path(*address));
    }
    assert!(entries > 200, "the entries of the provider are found: {entries}");
    let on_large: Vec<u64> =
        code.functions.iter().filter(|(_, it)| is_on_large(it)).map(|(at, _)| *at).collect();
    assert!(on_large.len() > 5, "what runs on a large stack is found: {}", on_large.len());
    for address in on_large {
        let depth = depths.of(address);
        assert!(depth <= LARGE_BYTES_MAX, "{depth} bytes of stack:\n{}", depths.path(address));
    }
}

#[test]
fn wipes_reach_as_deep_as_the_work_before_them() {
    let Some(code) = &*CODE else { return };
    let mut depths = Depths::new(code);
    let mut pairs = 0;
    for function in code.functions.values() {
        let called = |part: &str| -> Vec<u64> {
            let calls = function.calls.iter().map(|(address, _)| *address);
            calls.filter(|address| code.functions[address].name.contains(part)).collect()
        };
        let mut works: Vec<_> = called("widelane_secret::stack::in_own_frame")
            .into_iter()
            .map(|work| (depths.of(work), work))
            .collect();
        let mut wipes: Vec<usize> = called("widelane_secret::stack::wipe_stack")
            .into_iter()
            .map(|wipe| code.functions[&wipe].frame)
            .collect();
        // Where there are several, the deeper work has the longer wipe.
        works.sort_unstable();
        wipes.sort_unstable();
        while let Some((depth, work)) = works.pop() {
            pairs += usize::from(function.name.contains("widelane_crypto"));
            let wiped = if wipes.len() > works.len() { wipes.pop() } else { wipes.last().copied() };
            assert!(
                wiped.is_some_and(|wiped| wiped >= depth),
                "{wiped:?} bytes wiped after {depth} in {}:\n{}",
                function.name,
                depths.path(work)
            );
        }
    }
    assert!(pairs > 20, "the places that wipe are found: {pairs}");
}

/// Code over registers that is not inlined into the function with the features of its room calls
/// every single instruction, with its operands in memory (`crates/kernels/src/registers/mod.rs`).
#[test]
fn no_instruction_is_a_call() {
    let Some(code) = &*CODE else { return };
    let mut callers = BTreeMap::new();
    for function in code.functions.values() {
        let called = function.calls.iter().map(|(address, _)| &code.functions[address].name);
        let instructions = called.filter(|name| name.contains("core_arch::x86")).count();
        if instructions > 0 && !function.name.starts_with("std_detect::") {
            *callers.entry(&function.name).or_insert(0) += instructions;
        }
    }
    assert!(callers.is_empty(), "functions and how many instructions they call: {callers:#?}");
}

/// What is known of the depths of functions.
struct Depths<'a> {
    code: &'a Code,
    known: BTreeMap<u64, usize>,
}

impl<'a> Depths<'a> {
    fn new(code: &'a Code) -> Self {
        Depths { code, known: BTreeMap::new() }
    }

    /// Bytes of stack that a function takes with all that it calls; recursion counts once.
    fn of(&mut self, address: u64) -> usize {
        if let Some(depth) = self.known.get(&address) {
            return *depth;
        }
        self.known.insert(address, 0);
        let function = &self.code.functions[&address];
        let below = function.calls.iter().map(|call| self.below(function, *call)).max();
        let depth = function.frame + below.unwrap_or(0);
        self.known.insert(address, depth);
        depth
    }

    fn below(&mut self, caller: &Function, (address, is_jump): (u64, bool)) -> usize {
        let called = &self.code.functions[&address];
        if PANICKING.iter().any(|name| called.name.starts_with(name)) || is_on_large(called) {
            return 0;
        }
        self.of(address).saturating_sub(if is_jump { caller.frame } else { 0 })
    }

    /// The calls that lead to the depth of a function.
    fn path(&mut self, mut address: u64) -> String {
        let mut lines = Vec::new();
        loop {
            let function = &self.code.functions[&address];
            lines.push(format!("{:>8} {}", function.frame, function.name));
            let calls = function.calls.iter();
            let deepest = calls.max_by_key(|call| self.below(function, **call));
            match deepest.map(|call| (call.0, self.below(function, *call))) {
                Some((next, 1..)) if lines.len() < 40 => address = next,
                _ => return lines.join("\n"),
            }
        }
    }
}

/// Whether it is what `on_large` calls on a stack of its own.
fn is_on_large(function: &Function) -> bool {
    let is_kernel = || {
        let module =
            function.name.strip_prefix("widelane::").and_then(|name| name.split_once("::"));
        module.is_some_and(|(_, rest)| rest.starts_with("batch::"))
    };
    function.name.starts_with("widelane::stack::Call<") || is_kernel()
}

/// Whether it is the provider's own: what libcrypto calls, and what is handed to `Once`.
fn is_ours(name: &str) -> bool {
    ["widelane::", "<widelane::", "core::ops::function::FnOnce::call_once{{vtable.shim}}"]
        .iter()
        .any(|beginning| name.starts_with(beginning))
}

/// The provider's code, as shipped; nothing where it is not optimised: those frames are larger.
/// Disassembled once for all tests, which takes seconds.
static CODE: LazyLock<Option<Code>> = LazyLock::new(code);

fn code() -> Option<Code> {
    if cfg!(debug_assertions) {
        eprintln!("frames of unoptimised code say nothing: nothing was tested");
        return None;
    }
    let objdump = |arguments: &[&str]| {
        let output = Command::new("objdump").args(arguments).arg(common::library()).output();
        let output = output.expect("objdump of binutils, which every compiler brings");
        assert!(output.status.success(), "objdump {arguments:?}");
        String::from_utf8(output.stdout).expect("names are UTF-8")
    };
    let relocations = objdump(&["--dynamic-reloc"]);
    let listing = objdump(&["--disassemble", "--demangle", "--no-show-raw-insn"]);
    Some(Code::read(&listing, &relocations))
}

impl Code {
    fn read(listing: &str, relocations: &str) -> Self {
        let pointers: BTreeMap<u64, u64> = relocations.lines().filter_map(relocation).collect();
        type Text<'a> = (&'a str, Vec<(&'a str, &'a str)>);
        let mut texts: BTreeMap<u64, Text<'_>> = BTreeMap::new();
        for line in listing.lines() {
            if let Some((address, name)) = heading(line) {
                texts.insert(address, (name, Vec::new()));
            } else if let Some(instruction) = instruction(line)
                && let Some(mut text) = texts.last_entry()
            {
                text.get_mut().1.push(instruction);
            }
        }
        let starts: BTreeSet<u64> = texts.keys().copied().collect();
        let start = |address| starts.range(..=address).next_back().copied();
        let (mut slots, mut entries) = (BTreeSet::new(), BTreeSet::new());
        let mut functions = BTreeMap::new();
        for (&own, (name, instructions)) in &texts {
            let mut calls = BTreeSet::new();
            for (mnemonic, operands) in instructions {
                let comment = operands.split_once("# ").and_then(|(_, comment)| number(comment));
                let target = match (*mnemonic, comment) {
                    ("lea", Some(address)) => Some(address).filter(|it| starts.contains(it)),
                    (_, Some(slot)) => {
                        slots.insert(slot);
                        pointers.get(&slot).copied()
                    }
                    ("call" | "jmp", None) => number(operands),
                    _ => None,
                };
                let Some(target) = target.and_then(start) else { continue };
                if !matches!(*mnemonic, "call" | "jmp") {
                    entries.insert(target);
                }
                if target != own {
                    calls.insert((target, *mnemonic == "jmp"));
                }
            }
            let frame = frame(instructions);
            functions.insert(own, Function { name: (*name).to_owned(), frame, calls });
        }
        let in_tables = pointers.iter().filter(|(slot, _)| !slots.contains(slot));
        entries.extend(in_tables.map(|(_, to)| *to));
        Code { functions, entries }
    }
}

/// Bytes of stack that a function takes: its return address, what it pushes, and its variables.
///
/// Large frames are touched page by page on the way down, in a loop to an address in `r11` or in
/// as many steps.
fn frame(instructions: &[(&str, &str)]) -> usize {
    let mut bytes = 8;
    let mut pushes = 0;
    for (index, (mnemonic, operands)) in instructions.iter().enumerate() {
        let size = operands.strip_prefix('$').and_then(number).map(|size| size as usize);
        match (*mnemonic, size) {
            ("push", _) => pushes += 1,
            ("sub", Some(size)) if operands.ends_with(",%r11") => {
                let from_stack = index > 0 && instructions[index - 1] == ("mov", "%rsp,%r11");
                bytes += if from_stack { size } else { 0 };
            }
            ("sub", Some(size)) if operands.ends_with(",%rsp") => {
                let in_loop =
                    instructions.get(index + 2).is_some_and(|next| *next == ("cmp", "%r11,%rsp"));
                bytes += if in_loop { 0 } else { size };
            }
            // The stack is aligned to what its variables need, 64 bytes at most.
            ("and", _) if operands.ends_with(",%rsp") => bytes += 64,
            _ => {}
        }
    }
    bytes + 8 * pushes.min(SAVED_MAX)
}

/// Registers that a function saves, at most; more pushes are arguments, or stand on other branches.
const SAVED_MAX: usize = 8;

/// Where a pointer lies and what it points to, in `0000000000551f60 R_X86_64_RELATIVE  *ABS*+0x1`.
fn relocation(line: &str) -> Option<(u64, u64)> {
    let (slot, rest) = line.split_once(' ')?;
    let target = rest.strip_prefix("R_X86_64_RELATIVE")?.trim().strip_prefix("*ABS*+")?;
    Some((number(slot)?, number(target)?))
}

/// Address and name in `0000000000001000 <name>:`.
fn heading(line: &str) -> Option<(u64, &str)> {
    let (address, name) = line.strip_suffix(">:")?.split_once(" <")?;
    Some((number(address)?, name))
}

/// Mnemonic and operands in `  1000:\tadd    %rax,%rbx`.
fn instruction(line: &str) -> Option<(&str, &str)> {
    let text = line.split_once(":\t")?.1;
    Some(text.split_once(' ').map_or((text, ""), |(mnemonic, rest)| (mnemonic, rest.trim())))
}

/// The hexadecimal number at the beginning of a text.
fn number(text: &str) -> Option<u64> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    let end = text.bytes().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(text.len());
    u64::from_str_radix(&text[..end], 16).ok()
}

#[test]
fn frames_are_read_as_they_are_emitted() {
    let listing = "\
0000000000001000 <widelane::small>:
    1000:\tpush   %rbx
    1001:\tsub    $0x20,%rsp
    1005:\tcall   2000 <widelane::large>
    100a:\tjmp    *0x10(%rip)        # 5000 <table>
0000000000002000 <widelane::large>:
    2000:\tmov    %rsp,%r11
    2003:\tsub    $0x10000,%r11
    200a:\tsub    $0x1000,%rsp
    2011:\tmovq   $0x0,(%rsp)
    2019:\tcmp    %r11,%rsp
    201c:\tjne    200a <widelane::large+0xa>
    201e:\tcall   4000 <core::panicking::panic>
0000000000003000 <widelane::stepwise>:
    3000:\tsub    $0x1000,%rsp
    3007:\tmovq   $0x0,(%rsp)
    300f:\tsub    $0x800,%rsp
0000000000004000 <core::panicking::panic>:
    4000:\tsub    $0x9000,%rsp
";
    let relocations = "\
0000000000005000 R_X86_64_RELATIVE  *ABS*+0x3000
0000000000006000 R_X86_64_RELATIVE  *ABS*+0x1000
";
    let code = Code::read(listing, relocations);
    let mut depths = Depths::new(&code);
    assert_eq!(depths.of(0x2000), 8 + 0x10000);
    assert_eq!(depths.of(0x3000), 8 + 0x1800);
    assert_eq!(depths.of(0x1000), 48 + 8 + 0x10000);
    assert_eq!(code.entries, BTreeSet::from([0x1000]));
}
