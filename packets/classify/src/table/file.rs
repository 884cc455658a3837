//! Tables as files: a header of words, then the parts, each at a multiple of 64 bytes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Content, Gone, LINE_WORDS, Part, Piece, Place, Shape, Table};
use crate::rule::{Field, Layout};
use crate::run::map::Mapping;
use crate::run::shared::SharedChunks;

/// Why a file is no table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The file cannot be read.
    #[error("cannot read the table")]
    Read(#[from] io::Error),
    /// The file is something else.
    #[error("this is no table: it does not begin as one; `widelane acl build` makes tables")]
    NotATable,
    /// The file was written by another version.
    #[error("the table has version {found}, and this program reads {VERSION}: build it again")]
    Version {
        /// The file's version.
        found: u64,
    },
    /// The file ends early or goes on too long.
    #[error("the table should have {expected} bytes and has {found}: build it again")]
    Length {
        /// What the header says.
        expected: u64,
        /// What there is.
        found: u64,
    },
    /// The contents changed since they were written.
    #[error("the table's checksum is wrong: it is damaged; build it again")]
    Checksum,
    /// The checksum is right, and yet the parts do not fit together.
    #[error("the table contradicts itself ({0}): build it again")]
    Unsound(&'static str),
}

const MAGIC: u64 = u64::from_le_bytes(*b"WIDEACL\0");
/// Changes when the meaning of any word does.
const VERSION: u64 = 4;
/// Words of the header that all tables have.
const FIXED: usize = 20;
/// Tables of so many words, 4 MiB, are worth large pages of 2 MiB, the last of which is half empty
/// on average.
const LARGE_WORDS: usize = 1 << 19;
/// The first word that the checksum covers.
const CHECKED_FROM: usize = 4;

impl Table {
    /// Puts the parts of a table together.
    pub(crate) fn assemble(content: Content<'_>) -> Self {
        let mut table = Table::lay_out(content, 0);
        if let Some(words) = table.memory.words_mut() {
            words[3] = checksum(&words[CHECKED_FROM..]);
        }
        table
    }

    /// Puts the parts together but for the chunks, which are shared; with free words behind the
    /// index, and without a checksum. Such a table is not for files.
    pub(crate) fn sharing(content: Content<'_>, shared: Arc<SharedChunks>, free: usize) -> Self {
        let searched = content.index.len() + content.chunks.len();
        let table = Table::lay_out(Content { chunks: &[], ..content }, free);
        Table { chunks: Place::Shared(shared), searched, ..table }
    }

    /// Puts the parts together, with free words behind the index, and without a checksum.
    fn lay_out(content: Content<'_>, free: usize) -> Self {
        let names = content.layout.fields().iter();
        let text: String = names
            .map(|field| format!("{} {} {}\n", field.offset, field.bytes, field.name))
            .collect();
        let mut end = FIXED + content.pieces.len();
        let mut part = |words: usize| {
            let start = end.next_multiple_of(LINE_WORDS);
            end = start + words;
            start..end
        };
        let layout = part(text.len().div_ceil(8));
        let index = part(content.index.len() + free);
        let chunks = part(content.chunks.len());
        let masks = part(content.category_masks.len());
        let Shape { masks: of_masks, halves, wholes, paired } = content.shape;
        let counts = [content.categories, of_masks, halves, wholes, usize::from(paired)];
        let header = [
            MAGIC,
            VERSION,
            end as u64,
            0,
            packed(counts.map(|n| n as u64).into_iter(), 8),
            u64::from(content.default),
            content.rules as u64,
            content.pieces.len() as u64,
            content.roots as u64,
            text.len() as u64,
            layout.start as u64,
            layout.len() as u64,
            index.start as u64,
            index.len() as u64,
            chunks.start as u64,
            chunks.len() as u64,
            masks.start as u64,
            masks.len() as u64,
        ];
        let mut memory = Mapping::zeroed(end);
        if free > 0 || end >= LARGE_WORDS {
            memory.prefer_large_pages();
        }
        if let Some(words) = memory.words_mut() {
            words[..header.len()].copy_from_slice(&header);
            for (word, piece) in words[FIXED..].iter_mut().zip(&content.pieces) {
                *word = piece.to_word();
            }
            for (word, bytes) in words[layout].iter_mut().zip(text.as_bytes().chunks(8)) {
                *word = packed(bytes.iter().map(|&byte| u64::from(byte)), 8);
            }
            words[index.start..][..content.index.len()].copy_from_slice(content.index);
            words[chunks.start..][..content.chunks.len()].copy_from_slice(content.chunks);
            words[masks.clone()].copy_from_slice(content.category_masks);
        }
        Table {
            memory,
            layout: content.layout.clone(),
            shape: content.shape,
            pieces: content.pieces,
            categories: content.categories,
            default: content.default,
            rules: content.rules,
            roots: content.roots,
            index,
            chunks: Place::Own(chunks),
            category_masks: masks,
            gone: Gone::default(),
            searched: content.index.len() + content.chunks.len(),
        }
    }

    /// Writes words of the index or of the categories of rules; false if they do not fit.
    pub(crate) fn write_part(&mut self, part: Part, at: usize, words: &[u64]) -> bool {
        let range = match part {
            Part::Index => self.index.clone(),
            Part::Categories => self.category_masks.clone(),
        };
        let Some(memory) = self.memory.words_mut() else { return false };
        let target = memory[range].get_mut(at..at + words.len());
        target.map(|target| target.copy_from_slice(words)).is_some()
    }

    /// Has lookups begin at the first so many roots.
    pub(crate) fn set_roots(&mut self, roots: usize) {
        self.roots = roots;
    }

    /// Writes the table; [`open`](Self::open) maps what was written.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        for words in self.memory.words().chunks(1024) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            to.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Writes the table to a file: to a new one beside it first, which then replaces it. So
    /// processes that have mapped the old table keep it, and none sees half of the new one. The new
    /// file gets the permissions of the old one. A link stays, and the file that it leads to is
    /// replaced.
    ///
    /// # Errors
    ///
    /// If the directory or the file cannot be written to; the old file is as it was then.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let old = fs::metadata(path).ok();
        if old.as_ref().is_some_and(|old| !old.is_file()) {
            // Such as a pipe, whose place must not be taken.
            return self.write_to(&File::options().write(true).open(path)?);
        }
        let is_link = old.is_some() && path.is_symlink();
        let target = if is_link { &fs::canonicalize(path)? } else { path };
        let (beside, file) = create_beside(target)?;
        let written = self
            .write_to(&file)
            // Otherwise a power failure could leave the new name with an empty file.
            .and_then(|()| file.sync_all())
            .and_then(|()| old.map_or(Ok(()), |old| file.set_permissions(old.permissions())))
            .and_then(|()| fs::rename(&beside, target));
        if written.is_err() {
            // The first error tells more than one of this.
            let _ = fs::remove_file(&beside);
        }
        written
    }

    fn write_to(&self, file: &File) -> io::Result<()> {
        let mut writer = BufWriter::new(file);
        self.write(&mut writer)?;
        writer.flush()
    }

    /// Whether bytes begin as a table does.
    pub fn is_table(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC.to_le_bytes())
    }

    /// Maps a table from a file, after checking all of it. The file must stay as it is while the
    /// table lives: replace it by renaming a new one over it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is not a whole and sound table of this version.
    pub fn open(path: &Path) -> Result<Self, TableError> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        // Nothing cannot be mapped.
        if bytes == 0 {
            return Err(TableError::NotATable);
        }
        Self::from_memory(Mapping::of(&file)?, bytes)
    }

    /// Reads a table into memory of its own.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not a whole and sound table of this version.
    pub fn read(from: &mut impl Read) -> Result<Self, TableError> {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes)?;
        let read = bytes.as_chunks().0;
        let mut memory = Mapping::zeroed(read.len());
        for (word, read) in memory.words_mut().into_iter().flatten().zip(read) {
            *word = u64::from_le_bytes(*read);
        }
        Self::from_memory(memory, bytes.len() as u64)
    }

    fn from_memory(memory: Mapping, bytes: u64) -> Result<Self, TableError> {
        let words = memory.words();
        if words.first() != Some(&MAGIC) {
            return Err(TableError::NotATable);
        }
        match words.get(1) {
            Some(&VERSION) => {}
            found => return Err(TableError::Version { found: found.copied().unwrap_or(0) }),
        }
        let expected = words.get(2).copied().unwrap_or(FIXED as u64).saturating_mul(8);
        if expected != bytes || words.len() < FIXED {
            return Err(TableError::Length { expected, found: bytes });
        }
        if words[3] != checksum(&words[CHECKED_FROM..]) {
            return Err(TableError::Checksum);
        }
        let outside = || TableError::Unsound("a part lies outside");
        let part = |at: usize| part(words, at).ok_or_else(outside);
        let pieces = usize::try_from(words[7]).ok().and_then(|count| words[FIXED..].get(..count));
        let pieces = pieces.ok_or_else(outside)?;
        let index = part(12)?;
        let roots = usize::try_from(words[8]).ok().filter(|roots| *roots <= index.len());
        let chunks = part(14)?;
        let pieces: Vec<Piece> = pieces.iter().map(|word| Piece::from_word(*word)).collect();
        let byte = |place: u32| (words[4] >> (8 * place) & 0xff) as usize;
        let table = Table {
            layout: layout(&words[part(10)?], words[9])?,
            shape: Shape { masks: byte(1), halves: byte(2), wholes: byte(3), paired: byte(4) != 0 },
            categories: byte(0),
            default: words[5] as u32,
            rules: words[6] as usize,
            pieces,
            roots: roots.ok_or_else(outside)?,
            gone: Gone::default(),
            searched: index.len() + chunks.len(),
            index,
            chunks: Place::Own(chunks.clone()),
            category_masks: part(16)?,
            memory,
        };
        table.verify(&table.memory.words()[chunks])?;
        Ok(table)
    }
}

/// Creates a file in the directory of another, whose name no file has.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    loop {
        let mut own = name.to_owned();
        own.push(format!(".{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        let beside = path.with_file_name(own);
        match File::create_new(&beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return Ok((beside, created?)),
        }
    }
}

/// The part whose start and length stand at `at` and behind it.
fn part(words: &[u64], at: usize) -> Option<Range<usize>> {
    let start = usize::try_from(words[at]).ok()?;
    let end = start.checked_add(usize::try_from(words[at + 1]).ok()?)?;
    (end <= words.len() && start.is_multiple_of(LINE_WORDS)).then_some(start..end)
}

fn layout(words: &[u64], bytes: u64) -> Result<Layout, TableError> {
    let unsound = || TableError::Unsound("its layout");
    let text: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let text = text.get(..bytes as usize).ok_or_else(unsound)?;
    let text = std::str::from_utf8(text).map_err(|_| unsound())?;
    let field = |line: &str| {
        let mut parts = line.splitn(3, ' ');
        let offset = parts.next()?.parse().ok()?;
        let bytes = parts.next()?.parse().ok()?;
        Some(Field { name: parts.next()?.to_owned(), offset, bytes })
    };
    let fields: Option<Vec<Field>> = text.lines().map(field).collect();
    Layout::new(fields.ok_or_else(unsound)?).map_err(|_| unsound())
}

impl Piece {
    fn to_word(self) -> u64 {
        let place = u64::from(self.word) << 24 | u64::from(self.shift) << 32;
        u64::from(self.offset) | u64::from(self.bytes) << 16 | place
    }

    fn from_word(word: u64) -> Self {
        Piece {
            offset: word as u16,
            bytes: (word >> 16) as u8,
            word: (word >> 24) as u8,
            shift: (word >> 32) as u8,
        }
    }
}

/// Numbers of `bits` bits in one word, the first lowest.
fn packed(numbers: impl Iterator<Item = u64>, bits: u32) -> u64 {
    numbers.zip(0..).fold(0, |word, (number, place)| word | number << (bits * place))
}

/// FNV-1a over 64-bit words, folded so that high bits of a word reach low bits of the sum.
fn checksum(words: &[u64]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |sum, word| {
        let product = (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        product ^ product >> 32
    })
}
