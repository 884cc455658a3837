//! A second OpenSSL in the process, such as the libssl that a Python module brings along.
//!
//! Our doors stand in front of every library, but the functions behind them are those of one
//! libssl and one libcrypto. What is linked with others would have its objects handled by the wrong
//! code. Therefore the relocations of such libraries are written anew, as the dynamic loader would
//! have bound them without us: they do not notice us, and are not accelerated.
#![allow(unsafe_code, reason = "reads and writes what the dynamic loader has made of libraries")]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Range;
use core::slice;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::ffi::CString;
use std::sync::Mutex;

use crate::config::config;
use crate::notice::{Notice, say_once};
use crate::real;

/// What the dynamic section of an object says; the numbers are those of `elf.h`.
const TAG_END: i64 = 0;
const TAG_NEEDED: i64 = 1;
const TAG_RELOCATIONS_OF_CALLS_BYTES: i64 = 2;
const TAG_STRINGS: i64 = 5;
const TAG_SYMBOLS: i64 = 6;
const TAG_RELOCATIONS: i64 = 7;
const TAG_RELOCATIONS_BYTES: i64 = 8;
const TAG_NAME: i64 = 14;
const TAG_SEARCH_PATH: i64 = 15;
const TAG_RELOCATIONS_OF_CALLS: i64 = 23;

/// Relocations that hold nothing but the address of a symbol: of data, of calls.
const RELOCATION_ADDRESS: u64 = 6;
const RELOCATION_CALL: u64 = 7;

#[repr(C)]
struct Entry {
    tag: i64,
    value: u64,
}

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// A loaded object that is an OpenSSL library, or is linked with one.
struct Object {
    base: usize,
    /// The path by which the loader knows it; empty for the program.
    path: CString,
    dynamic: usize,
    /// What the loader has made read-only.
    protected: Range<usize>,
}

/// Looks at what was loaded since the last time, and keeps what is linked with another OpenSSL than
/// ours apart from us. The caller asks the loader for nothing whose error is still to be read.
pub(crate) fn keep_apart() {
    static SEEN: AtomicU64 = AtomicU64::new(0);
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let loaded = objects_ever_loaded();
    if SEEN.load(Ordering::Acquire) == loaded {
        return;
    }
    // Opening libraries below leads here again.
    let Ok(_alone) = ONE_AT_A_TIME.try_lock() else { return };
    let objects = related_objects();
    let names: Vec<&CStr> = objects.iter().filter_map(|object| object.foreign_name()).collect();
    if !names.is_empty() {
        for object in &objects {
            object.bind_anew(&objects, &names);
        }
    }
    SEEN.store(loaded, Ordering::Release);
}

/// The function `name` of the libssl that `method` is of, if that is not ours.
pub(crate) fn function_beside(method: *const c_void, name: &CStr) -> Option<*mut c_void> {
    let (base, path) = object_of(method)?;
    if real::own_libraries().contains(&base) || !is_openssl(file_name(&path)) {
        return None;
    }
    function_of(&path, name)
}

/// Whether the object that `address` is in has a path (`DT_RPATH`) along which the loader searches
/// what its libraries need.
pub(crate) fn has_search_path(address: *const c_void) -> bool {
    let Some(info) = real::object_at(address) else { return false };
    let has = |object: &Object| object.value(TAG_SEARCH_PATH).is_some();
    let is_it = |object: &Object| object.base == info.dli_fbase as usize && has(object);
    !objects(is_it).is_empty()
}

impl Object {
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        let mut next = self.dynamic as *const Entry;
        core::iter::from_fn(move || {
            // SAFETY: the section of a loaded object, which has an end mark.
            let entry = unsafe { next.as_ref() }.filter(|entry| entry.tag != TAG_END)?;
            // SAFETY: the end mark has not been reached.
            next = unsafe { next.add(1) };
            Some(entry)
        })
    }

    fn value(&self, tag: i64) -> Option<u64> {
        self.entries().find(|entry| entry.tag == tag).map(|entry| entry.value)
    }

    /// An address in the section, which the loader has made absolute in most objects.
    fn address(&self, tag: i64) -> Option<usize> {
        let value = self.value(tag)? as usize;
        Some(if value < self.base { self.base + value } else { value })
    }

    fn string(&self, offset: u64) -> Option<&CStr> {
        let address = self.address(TAG_STRINGS)?.checked_add(offset as usize)?;
        // SAFETY: an offset that the object itself has into its table of strings.
        Some(unsafe { CStr::from_ptr(address as *const c_char) })
    }

    fn name(&self) -> Option<&CStr> {
        self.value(TAG_NAME).and_then(|offset| self.string(offset))
    }

    fn needed(&self) -> impl Iterator<Item = &CStr> {
        let needed = self.entries().filter(|entry| entry.tag == TAG_NEEDED);
        needed.filter_map(|entry| self.string(entry.value))
    }

    /// Its name, if it is an OpenSSL library but not of ours.
    fn foreign_name(&self) -> Option<&CStr> {
        let name = self.name().filter(|name| is_openssl(name))?;
        (!real::own_libraries().contains(&self.base)).then_some(name)
    }

    /// Has the object call the OpenSSL that it is linked with, if that is one of `foreign`.
    fn bind_anew(&self, objects: &[Object], foreign: &[&CStr]) {
        let itself = self.name().into_iter().filter(|name| foreign.contains(name));
        let libraries: Vec<&CStr> =
            itself.chain(self.needed()).filter(|name| is_openssl(name)).collect();
        if !libraries.iter().any(|name| foreign.contains(name)) {
            return;
        }
        // Nobody unloads it meanwhile.
        let handle = real::loaded_library(&self.path);
        let paths: Vec<&CStr> = libraries
            .iter()
            .filter_map(|name| objects.iter().find(|object| object.name() == Some(name)))
            .map(|object| object.path.as_c_str())
            .collect();
        for (slot, name) in self.slots().filter(|(_, name)| is_of_openssl(name)) {
            if let Some(function) = paths.iter().find_map(|path| function_of(path, name)) {
                self.write(slot, function as usize);
            }
        }
        if let (Some(path), Some(handle)) = (paths.first(), handle) {
            tell(path);
            real::unload(handle);
        }
    }

    /// Where the object keeps the addresses of others' symbols, and their names.
    fn slots(&self) -> impl Iterator<Item = (usize, &CStr)> {
        let tables = [
            (TAG_RELOCATIONS, TAG_RELOCATIONS_BYTES),
            (TAG_RELOCATIONS_OF_CALLS, TAG_RELOCATIONS_OF_CALLS_BYTES),
        ];
        let symbols = self.address(TAG_SYMBOLS);
        tables.into_iter().flat_map(|(table, bytes)| self.relocations(table, bytes)).filter_map(
            move |relocation| {
                let kind = relocation.info & 0xffff_ffff;
                if kind != RELOCATION_ADDRESS && kind != RELOCATION_CALL {
                    return None;
                }
                let index = (relocation.info >> 32) as usize;
                let symbol = symbols? + index * size_of::<libc::Elf64_Sym>();
                // SAFETY: the object's own index into its table of symbols.
                let symbol = unsafe { (symbol as *const libc::Elf64_Sym).as_ref() }?;
                let name = self.string(u64::from(symbol.st_name))?;
                Some((self.base + relocation.offset as usize, name))
            },
        )
    }

    fn relocations(&self, table: i64, bytes: i64) -> &[Relocation] {
        let (Some(table), Some(bytes)) = (self.address(table), self.value(bytes)) else {
            return &[];
        };
        let count = bytes as usize / size_of::<Relocation>();
        // SAFETY: the object's own table, with the length that it states.
        unsafe { slice::from_raw_parts(table as *const Relocation, count) }
    }

    fn write(&self, slot: usize, function: usize) {
        let is_protected = self.protected.contains(&slot);
        if is_protected && !protect(slot, libc::PROT_READ | libc::PROT_WRITE) {
            return;
        }
        // SAFETY: a relocated address of a loaded object, aligned, and writable as of now.
        let slot_now = unsafe { &*(slot as *const AtomicUsize) };
        slot_now.store(function, Ordering::Release);
        if is_protected {
            protect(slot, libc::PROT_READ);
        }
    }
}

/// Changes what may be done with the page of `address`.
fn protect(address: usize, allowed: c_int) -> bool {
    const PAGE: usize = 4096;
    let page = (address & !(PAGE - 1)) as *mut c_void;
    // SAFETY: a page of a loaded library, which stays mapped and readable.
    unsafe { libc::mprotect(page, PAGE, allowed) == 0 }
}

/// Whether a library of this name is OpenSSL's.
fn is_openssl(name: &CStr) -> bool {
    let name = name.to_bytes();
    ["libssl", "libcrypto"].iter().any(|stem| {
        let rest = name.strip_prefix(stem.as_bytes());
        rest.is_some_and(|rest| rest.starts_with(b".") || rest.starts_with(b"-"))
    })
}

/// Whether a symbol is OpenSSL's and not libc's, among those that we stand in front of.
fn is_of_openssl(symbol: &CStr) -> bool {
    let symbol = symbol.to_bytes();
    symbol.first().is_some_and(u8::is_ascii_uppercase) || symbol.starts_with(b"d2i_")
}

fn file_name(path: &CStr) -> &CStr {
    let start = path.to_bytes().iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    CStr::from_bytes_with_nul(&path.to_bytes_with_nul()[start..]).unwrap_or(path)
}

/// The base and the path of the object that `address` is in.
fn object_of(address: *const c_void) -> Option<(usize, CString)> {
    let info = real::object_at(address)?;
    // SAFETY: the loader's own string.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    Some((info.dli_fbase as usize, path.to_owned()))
}

/// The function `name` of the loaded library at `path`, or of those that it needs, if ours took its
/// place.
fn function_of(path: &CStr, name: &CStr) -> Option<*mut c_void> {
    let handle = real::loaded_library(path)?;
    let is_taken = real::is_taken_from(handle, name);
    let function = real::function_in(handle, name).filter(|_| is_taken);
    real::unload(handle);
    function
}

fn tell(path: &CStr) {
    if config().is_some() {
        let line = format!(
            "a part of this program brings an OpenSSL of its own ({}), and what is linked with \
             that runs unaccelerated; a build that uses the system's libssl.so.3 would not",
            path.to_string_lossy()
        );
        say_once(Notice::SecondOpenSsl, &line);
    }
}

/// How many objects the loader has ever loaded.
fn objects_ever_loaded() -> u64 {
    extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _bytes: usize,
        loaded: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader's own description.
        let Some(info) = (unsafe { info.as_ref() }) else { return 1 };
        // SAFETY: what the call below gave.
        unsafe { loaded.cast::<u64>().write(info.dlpi_adds) };
        1
    }
    let mut loaded = 0_u64;
    // SAFETY: the function has this signature, and what it gets lives for the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut loaded).cast()) };
    loaded
}

/// All objects that are OpenSSL libraries or linked with such.
fn related_objects() -> Vec<Object> {
    objects(|object| object.name().is_some_and(is_openssl) || object.needed().any(is_openssl))
}

/// All loaded objects that are `wanted`.
fn objects(wanted: impl Fn(&Object) -> bool) -> Vec<Object> {
    struct Search<'a> {
        wanted: &'a dyn Fn(&Object) -> bool,
        found: Vec<Object>,
    }
    extern "C" fn next(info: *mut libc::dl_phdr_info, _bytes: usize, all: *mut c_void) -> c_int {
        // SAFETY: the loader's own description.
        let Some(info) = (unsafe { info.as_ref() }) else { return 0 };
        // SAFETY: what the call below gave; nobody else has it.
        let Some(search) = (unsafe { all.cast::<Search<'_>>().as_mut() }) else { return 0 };
        search.found.extend(object(info).filter(|object| (search.wanted)(object)));
        0
    }
    let mut search = Search { wanted: &wanted, found: Vec::new() };
    // SAFETY: the function has this signature, and what it gets lives for the call.
    unsafe { libc::dl_iterate_phdr(Some(next), (&raw mut search).cast()) };
    search.found
}

fn object(info: &libc::dl_phdr_info) -> Option<Object> {
    let base = info.dlpi_addr as usize;
    // SAFETY: as many headers as the loader says.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let find = |kind| headers.iter().find(|header| header.p_type == kind);
    let dynamic = base + find(libc::PT_DYNAMIC)?.p_vaddr as usize;
    let protected = find(libc::PT_GNU_RELRO).map_or(0..0, |header| {
        let start = base + header.p_vaddr as usize;
        start..start + header.p_memsz as usize
    });
    // SAFETY: the loader's own string.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_owned();
    Some(Object { base, path, dynamic, protected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_libraries_of_openssl_by_their_names() {
        for name in [c"libssl.so.3", c"libssl-8bd944e8.so.3", c"libcrypto.so.1.1"] {
            assert!(is_openssl(name), "{name:?}");
        }
        for name in [c"libssl3.so", c"libcryptsetup.so.12", c"libc.so.6", c"libsslx.so"] {
            assert!(!is_openssl(name), "{name:?}");
        }
        assert_eq!(file_name(c"/usr/lib/libssl.so.3"), c"libssl.so.3");
        assert_eq!(file_name(c"libssl.so.3"), c"libssl.so.3");
    }

    #[test]
    fn what_was_loaded_is_counted_and_read() {
        assert!(objects_ever_loaded() > 0);
        let objects = related_objects();
        assert!(!objects.is_empty());
        for object in objects {
            assert!(object.slots().count() > 0, "{:?}", object.path);
        }
    }
}
