//! Just enough of ELF to tell what a program is linked with.

/// What concerns us of an executable.
#[derive(Debug)]
pub struct Elf {
    /// Whether the dynamic loader starts it.
    pub is_dynamic: bool,
    /// The shared objects that it names (`DT_NEEDED`).
    pub needed: Vec<String>,
}

/// The file is no executable of this machine, or its headers lead nowhere.
#[derive(Debug, PartialEq, Eq)]
pub struct NotElf;

const MAGIC_64_LITTLE_ENDIAN: &[u8] = b"\x7fELF\x02\x01";
const MACHINE_X86_64: u16 = 62;
const SEGMENT_LOAD: u32 = 1;
const SEGMENT_DYNAMIC: u32 = 2;
const SEGMENT_INTERPRETER: u32 = 3;
const TAG_END: u64 = 0;
const TAG_NEEDED: u64 = 1;
const TAG_STRINGS: u64 = 5;

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    bytes: u64,
}

impl Elf {
    /// Reads the headers of an executable file.
    pub fn parse(file: &[u8]) -> Result<Self, NotElf> {
        if !file.starts_with(MAGIC_64_LITTLE_ENDIAN) || read_u16(file, 18)? != MACHINE_X86_64 {
            return Err(NotElf);
        }
        let segments = segments(file)?;
        let find = |kind| segments.iter().find(|segment| segment.kind == kind);
        let Some(dynamic) = find(SEGMENT_DYNAMIC) else {
            return Ok(Self { is_dynamic: false, needed: Vec::new() });
        };
        let mut strings_address = None;
        let mut needed_offsets = Vec::new();
        for index in 0..dynamic.bytes / 16 {
            let entry = dynamic.offset.checked_add(index * 16).ok_or(NotElf)?;
            let value = read_u64(file, entry + 8)?;
            match read_u64(file, entry)? {
                TAG_END => break,
                TAG_NEEDED => needed_offsets.push(value),
                TAG_STRINGS => strings_address = Some(value),
                _ => {}
            }
        }
        let strings = match strings_address {
            Some(address) => segments
                .iter()
                .filter(|segment| segment.kind == SEGMENT_LOAD)
                .find_map(|segment| {
                    let within = address.checked_sub(segment.address)?;
                    (within < segment.bytes).then(|| segment.offset.checked_add(within))?
                })
                .ok_or(NotElf)?,
            None => 0,
        };
        let needed = needed_offsets
            .into_iter()
            .map(|offset| read_string(file, strings.checked_add(offset).ok_or(NotElf)?))
            .collect::<Result<_, _>>()?;
        Ok(Self { is_dynamic: find(SEGMENT_INTERPRETER).is_some(), needed })
    }
}

fn segments(file: &[u8]) -> Result<Vec<Segment>, NotElf> {
    let table = read_u64(file, 32)?;
    let entry_bytes = u64::from(read_u16(file, 54)?);
    let count = u64::from(read_u16(file, 56)?);
    (0..count)
        .map(|index| {
            let entry = table.checked_add(index * entry_bytes).ok_or(NotElf)?;
            Ok(Segment {
                kind: read_u32(file, entry)?,
                offset: read_u64(file, entry + 8)?,
                address: read_u64(file, entry + 16)?,
                bytes: read_u64(file, entry + 32)?,
            })
        })
        .collect()
}

fn read<const N: usize>(file: &[u8], offset: u64) -> Result<[u8; N], NotElf> {
    let offset = usize::try_from(offset).map_err(|_| NotElf)?;
    file.get(offset..).and_then(|rest| rest.first_chunk()).copied().ok_or(NotElf)
}

fn read_u16(file: &[u8], offset: u64) -> Result<u16, NotElf> {
    read(file, offset).map(u16::from_le_bytes)
}

fn read_u32(file: &[u8], offset: u64) -> Result<u32, NotElf> {
    read(file, offset).map(u32::from_le_bytes)
}

fn read_u64(file: &[u8], offset: u64) -> Result<u64, NotElf> {
    read(file, offset).map(u64::from_le_bytes)
}

fn read_string(file: &[u8], offset: u64) -> Result<String, NotElf> {
    let offset = usize::try_from(offset).map_err(|_| NotElf)?;
    let rest = file.get(offset..).ok_or(NotElf)?;
    let end = rest.iter().position(|&byte| byte == 0).ok_or(NotElf)?;
    Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_very_program() {
        let program = std::env::current_exe().expect("a running test has a file");
        let elf = Elf::parse(&std::fs::read(program).expect("readable")).expect("an executable");
        assert!(elf.is_dynamic);
        assert!(elf.needed.iter().any(|name| name == "libc.so.6"), "{:?}", elf.needed);
    }

    #[test]
    fn every_truncation_is_an_answer_not_a_panic() {
        let program = std::fs::read("/bin/sh").expect("every system has a shell");
        for length in 0..program.len().min(4096) {
            let _ = Elf::parse(&program[..length]);
        }
        assert_eq!(Elf::parse(&program[..20]).err(), Some(NotElf));
    }

    #[test]
    fn wild_offsets_lead_nowhere() {
        let mut program = std::fs::read("/bin/sh").expect("every system has a shell");
        program[32..40].copy_from_slice(&(u64::MAX - 4).to_le_bytes());
        assert_eq!(Elf::parse(&program).err(), Some(NotElf));
    }
}
