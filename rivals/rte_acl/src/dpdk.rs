//! The part of DPDK 22.11 that the rival calls: `rte_acl.h`, and the start of the environment.

use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr::{self, NonNull};

/// How `rte_acl` searches.
#[derive(Clone, Copy)]
pub struct Algorithm {
    /// The name in commands.
    pub name: &'static str,
    number: c_int,
}

/// All that x86 has, narrowest first.
pub const ALGORITHMS: [Algorithm; 5] = [
    Algorithm { name: "scalar", number: 1 },
    Algorithm { name: "sse", number: 2 },
    Algorithm { name: "avx2", number: 3 },
    Algorithm { name: "avx512x16", number: 6 },
    Algorithm { name: "avx512x32", number: 7 },
];

/// What a field of a rule is compared with.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A prefix, given by its length.
    Prefix = 0,
    /// First and last value.
    Range = 1,
    /// A value under a mask.
    Mask = 2,
}

/// A field: where it lies in the key, and how it is compared.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct FieldDefinition {
    kind: u8,
    size: u8,
    index: u8,
    input: u8,
    offset: u32,
}

impl FieldDefinition {
    /// A field of `size` bytes at `offset`; fields of one `input` share a word of four bytes.
    pub const fn new(kind: Kind, size: u8, index: u8, input: u8, offset: u32) -> Self {
        FieldDefinition { kind: kind as u8, size, index, input, offset }
    }
}

/// The value of a field, and its mask, prefix length or last value.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Field {
    /// The value in host byte order.
    pub value: u64,
    /// Mask, prefix length or last value.
    pub other: u64,
}

/// A rule of `FIELDS` fields.
#[repr(C)]
pub struct Rule<const FIELDS: usize> {
    /// One bit for each category.
    pub categories: u32,
    /// The strongest is the highest.
    pub priority: i32,
    /// The result; zero means no match.
    pub result: u32,
    /// The fields, in the order of their indices.
    pub fields: [Field; FIELDS],
}

#[repr(C)]
struct Parameters {
    name: *const c_char,
    socket: c_int,
    rule_bytes: u32,
    rules_max: u32,
}

const FIELDS_MAX: usize = 64;

#[repr(C)]
struct Configuration {
    categories: u32,
    fields: u32,
    definitions: [FieldDefinition; FIELDS_MAX],
    bytes_max: usize,
}

#[repr(C)]
#[derive(Default)]
struct HeapStatistics {
    total_bytes: usize,
    free_bytes: usize,
    largest_free_bytes: usize,
    free_count: u32,
    allocated_count: u32,
    allocated_bytes: usize,
}

unsafe extern "C" {
    fn rte_eal_init(count: c_int, arguments: *mut *mut c_char) -> c_int;
    fn rte_acl_create(parameters: *const Parameters) -> *mut c_void;
    fn rte_acl_add_rules(context: *mut c_void, rules: *const c_void, count: u32) -> c_int;
    fn rte_acl_build(context: *mut c_void, configuration: *const Configuration) -> c_int;
    fn rte_acl_classify_alg(
        context: *const c_void,
        data: *const *const u8,
        results: *mut u32,
        count: u32,
        categories: u32,
        algorithm: c_int,
    ) -> c_int;
    fn rte_malloc_get_socket_stats(socket: c_int, statistics: *mut HeapStatistics) -> c_int;
}

/// A call of DPDK that failed.
#[derive(Debug)]
pub struct Failed {
    call: &'static str,
    code: i32,
}

impl fmt::Display for Failed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} failed: {}", self.call, self.code)
    }
}

impl std::error::Error for Failed {}

fn check(call: &'static str, code: c_int) -> Result<(), Failed> {
    if code < 0 { Err(Failed { call, code }) } else { Ok(()) }
}

/// Starts DPDK's environment on `cpu`, with registers up to 512 bits and ordinary pages, or with
/// large ones, which the machine must have set aside.
pub fn start(cpu: usize, large_pages: bool) -> Result<(), Failed> {
    let core = format!("--lcores={cpu}");
    let pages: &[&str] = match large_pages {
        true => &["--in-memory"],
        false => &["--no-huge", "-m", "2048"],
    };
    let others = [
        "rival",
        &core,
        "--no-shconf",
        "--no-pci",
        "--no-telemetry",
        "--force-max-simd-bitwidth=512",
        "--log-level=1",
    ];
    let words = others.iter().chain(pages);
    let words = words.map(|word| CString::new(*word).expect("no zero byte").into_raw());
    // Leaked: DPDK keeps the pointers.
    let words: &mut [*mut c_char] = Vec::leak(words.collect());
    // SAFETY: `words` are zero-terminated strings that live forever.
    check("rte_eal_init", unsafe { rte_eal_init(words.len() as c_int, words.as_mut_ptr()) })
}

/// A set of rules, built.
pub struct Acl {
    context: NonNull<c_void>,
    /// Bytes of its table.
    pub table_bytes: usize,
}

impl Acl {
    /// Builds the rules into a table with one category.
    pub fn build<const FIELDS: usize>(
        definitions: &[FieldDefinition; FIELDS],
        rules: &[Rule<FIELDS>],
    ) -> Result<Self, Failed> {
        let parameters = Parameters {
            name: c"rival".as_ptr(),
            socket: -1,
            rule_bytes: size_of::<Rule<FIELDS>>() as u32,
            rules_max: rules.len() as u32,
        };
        // SAFETY: the name is zero-terminated, and DPDK copies the parameters.
        let context = unsafe { rte_acl_create(&parameters) };
        let context = NonNull::new(context).ok_or(Failed { call: "rte_acl_create", code: 0 })?;
        let (data, count) = (rules.as_ptr().cast(), rules.len() as u32);
        // SAFETY: `rules` holds `count` rules of the size that the context was told.
        check("rte_acl_add_rules", unsafe { rte_acl_add_rules(context.as_ptr(), data, count) })?;
        let mut configuration = Configuration {
            categories: 1,
            fields: FIELDS as u32,
            definitions: [FieldDefinition::new(Kind::Prefix, 0, 0, 0, 0); FIELDS_MAX],
            bytes_max: 0,
        };
        configuration.definitions[..FIELDS].copy_from_slice(definitions);
        let before = allocated_bytes()?;
        // SAFETY: the context is live; the configuration is read during the call only.
        check("rte_acl_build", unsafe { rte_acl_build(context.as_ptr(), &configuration) })?;
        Ok(Acl { context, table_bytes: allocated_bytes()?.saturating_sub(before) })
    }

    /// Looks up `keys`, each of which points at all bytes that the fields name.
    ///
    /// # Safety
    ///
    /// Every pointer must be valid for reads as far as the field definitions reach.
    pub unsafe fn classify(
        &self,
        keys: &[*const u8],
        results: &mut [u32],
        algorithm: Algorithm,
    ) -> Result<(), Failed> {
        assert_eq!(keys.len(), results.len());
        let (data, count) = (keys.as_ptr(), keys.len() as u32);
        // SAFETY: the caller vouches for the keys; there are as many results as keys.
        check("rte_acl_classify_alg", unsafe {
            rte_acl_classify_alg(
                self.context.as_ptr(),
                data,
                results.as_mut_ptr(),
                count,
                1,
                algorithm.number,
            )
        })
    }
}

fn allocated_bytes() -> Result<usize, Failed> {
    let mut statistics = HeapStatistics::default();
    let out = ptr::from_mut(&mut statistics);
    // SAFETY: `out` points at statistics that DPDK fills.
    check("rte_malloc_get_socket_stats", unsafe { rte_malloc_get_socket_stats(0, out) })?;
    Ok(statistics.allocated_bytes)
}
