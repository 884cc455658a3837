//! The counters of one accelerated process.
//!
//! With [`COUNTERS_DIRECTORY_VARIABLE`] set, the provider maps one file per process there, named
//! `<pid>.counters`, of [`COUNTERS_PAGES`] times [`Counters`]; without it counters live in plain
//! memory. Each thread counts on a page of its own, so that none waits for another one's cache
//! line; a page whose thread has ended goes to the next thread with all that stands on it, and
//! threads that find none left count on the first. What a process has done is the sum of its pages.
//! Those that no thread has had yet are holes in the file.
//!
//! All values only grow. Readers take a copy of the file and need no lock. What a reader has to
//! check before it believes a file is in `docs/operate/operating.md`.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// First eight bytes of a counters file.
pub const COUNTERS_MAGIC: u64 = u64::from_le_bytes(*b"WIDELANE");

/// Version of the layout below.
pub const COUNTERS_VERSION: u32 = 9;

/// Pages of a process: more than most servers have threads.
pub const COUNTERS_PAGES: usize = 64;

/// Size of a counters file.
pub const COUNTERS_FILE_BYTES: usize = COUNTERS_PAGES * size_of::<Counters>();

/// Environment variable that names the directory of the files.
pub const COUNTERS_DIRECTORY_VARIABLE: &str = "WIDELANE_COUNTERS_DIR";

/// Extension of the files' names.
pub const COUNTERS_EXTENSION: &str = "counters";

/// Widest batch that the histograms can hold.
pub const LANES_MAX: usize = 16;

/// Buckets of the wait histogram: bucket `i` counts waits below `2^i` microseconds, the last one
/// the rest.
pub const WAIT_BUCKETS: usize = 24;

/// Places for rooms: more than there are in `widelane_cpu::Room`.
pub const ROOMS_MAX: usize = 16;

/// Room for kinds of operations: more than there are in [`OperationKind`].
pub const KINDS_MAX: usize = 32;

/// Places for ciphers: as many as there are in [`CipherKind`], or more.
pub const CIPHERS_MAX: usize = 8;

/// Kinds of operations that are counted apart. What has a number keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum OperationKind {
    /// RSA signature or decryption with a key of 2048 bits.
    Rsa2048 = 0,
    /// RSA signature or decryption with a key of 3072 bits.
    Rsa3072 = 1,
    /// RSA signature or decryption with a key of 4096 bits.
    Rsa4096 = 2,
    /// X25519 key pair.
    X25519Generate = 3,
    /// X25519 shared secret.
    X25519Derive = 4,
    /// Key pair on P-256.
    P256Generate = 5,
    /// ECDH on P-256.
    P256Derive = 6,
    /// ECDSA signature on P-256.
    P256Sign = 7,
    /// Key pair on P-384.
    P384Generate = 8,
    /// ECDH on P-384.
    P384Derive = 9,
    /// ECDSA signature on P-384.
    P384Sign = 10,
    /// Ed25519 signature.
    Ed25519Sign = 11,
    /// Whatever is none of these and goes to the default provider.
    Other = 12,
    /// Key pair of ML-KEM-512, alone or beside a curve.
    MlKem512Generate = 13,
    /// Key pair of ML-KEM-768, alone or beside a curve.
    MlKem768Generate = 14,
    /// Key pair of ML-KEM-1024, alone or beside a curve.
    MlKem1024Generate = 15,
    /// Encapsulation by X25519MLKEM768.
    X25519MlKem768Encapsulate = 16,
    /// Decapsulation by X25519MLKEM768.
    X25519MlKem768Decapsulate = 17,
    /// Encapsulation by ML-KEM-512.
    MlKem512Encapsulate = 18,
    /// Decapsulation by ML-KEM-512.
    MlKem512Decapsulate = 19,
    /// Encapsulation by ML-KEM-768.
    MlKem768Encapsulate = 20,
    /// Decapsulation by ML-KEM-768.
    MlKem768Decapsulate = 21,
    /// Encapsulation by ML-KEM-1024.
    MlKem1024Encapsulate = 22,
    /// Decapsulation by ML-KEM-1024.
    MlKem1024Decapsulate = 23,
    /// Encapsulation by SecP256r1MLKEM768.
    Secp256r1MlKem768Encapsulate = 24,
    /// Decapsulation by SecP256r1MLKEM768.
    Secp256r1MlKem768Decapsulate = 25,
    /// Encapsulation by SecP384r1MLKEM1024.
    Secp384r1MlKem1024Encapsulate = 26,
    /// Decapsulation by SecP384r1MLKEM1024.
    Secp384r1MlKem1024Decapsulate = 27,
}

/// What is known of one kind of operations.
struct Row {
    kind: OperationKind,
    name: &'static str,
    role: Role,
}

/// What a handshake needs an operation for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// An ephemeral key pair for a pool.
    Generation,
    /// A secret shared with a peer.
    Derivation,
    /// Anything else.
    Other,
}

/// All kinds, in the order of their numbers. Whoever counts, stores or shows kinds goes by this.
const ROWS: [Row; 28] = [
    waited_for(OperationKind::Rsa2048, "rsa-2048"),
    waited_for(OperationKind::Rsa3072, "rsa-3072"),
    waited_for(OperationKind::Rsa4096, "rsa-4096"),
    pooled(OperationKind::X25519Generate, "x25519-generate"),
    derived(OperationKind::X25519Derive, "x25519-derive"),
    pooled(OperationKind::P256Generate, "p256-generate"),
    derived(OperationKind::P256Derive, "p256-derive"),
    waited_for(OperationKind::P256Sign, "p256-sign"),
    pooled(OperationKind::P384Generate, "p384-generate"),
    derived(OperationKind::P384Derive, "p384-derive"),
    waited_for(OperationKind::P384Sign, "p384-sign"),
    waited_for(OperationKind::Ed25519Sign, "ed25519-sign"),
    waited_for(OperationKind::Other, "other"),
    waited_for(OperationKind::MlKem512Generate, "mlkem512-generate"),
    waited_for(OperationKind::MlKem768Generate, "mlkem768-generate"),
    waited_for(OperationKind::MlKem1024Generate, "mlkem1024-generate"),
    derived(OperationKind::X25519MlKem768Encapsulate, "x25519mlkem768-encapsulate"),
    derived(OperationKind::X25519MlKem768Decapsulate, "x25519mlkem768-decapsulate"),
    derived(OperationKind::MlKem512Encapsulate, "mlkem512-encapsulate"),
    derived(OperationKind::MlKem512Decapsulate, "mlkem512-decapsulate"),
    derived(OperationKind::MlKem768Encapsulate, "mlkem768-encapsulate"),
    derived(OperationKind::MlKem768Decapsulate, "mlkem768-decapsulate"),
    derived(OperationKind::MlKem1024Encapsulate, "mlkem1024-encapsulate"),
    derived(OperationKind::MlKem1024Decapsulate, "mlkem1024-decapsulate"),
    derived(OperationKind::Secp256r1MlKem768Encapsulate, "secp256r1mlkem768-encapsulate"),
    derived(OperationKind::Secp256r1MlKem768Decapsulate, "secp256r1mlkem768-decapsulate"),
    derived(OperationKind::Secp384r1MlKem1024Encapsulate, "secp384r1mlkem1024-encapsulate"),
    derived(OperationKind::Secp384r1MlKem1024Decapsulate, "secp384r1mlkem1024-decapsulate"),
];

const fn waited_for(kind: OperationKind, name: &'static str) -> Row {
    Row { kind, name, role: Role::Other }
}

const fn derived(kind: OperationKind, name: &'static str) -> Row {
    Row { kind, name, role: Role::Derivation }
}

const fn pooled(kind: OperationKind, name: &'static str) -> Row {
    Row { kind, name, role: Role::Generation }
}

impl OperationKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [OperationKind; ROWS.len()] = {
        let mut all = [OperationKind::Other; ROWS.len()];
        let mut number = 0;
        while number < ROWS.len() {
            assert!(ROWS[number].kind as usize == number, "rows stand in the order of numbers");
            all[number] = ROWS[number].kind;
            number += 1;
        }
        all
    };

    /// Its name, for people and files.
    pub const fn name(self) -> &'static str {
        ROWS[self as usize].name
    }

    /// Whether it derives a secret shared with a peer.
    pub const fn is_derivation(self) -> bool {
        matches!(ROWS[self as usize].role, Role::Derivation)
    }

    /// Whether it makes an ephemeral key pair for a pool, which the totals leave out: nobody waits
    /// for it in a batch.
    pub const fn is_generation(self) -> bool {
        matches!(ROWS[self as usize].role, Role::Generation)
    }
}

/// Ciphers that are counted apart. What has a number keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum CipherKind {
    /// AES-GCM with a key of 128 bits.
    Aes128Gcm = 0,
    /// AES-GCM with a key of 192 bits.
    Aes192Gcm = 1,
    /// AES-GCM with a key of 256 bits.
    Aes256Gcm = 2,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305 = 3,
    /// AES-CBC with a key of 128 bits and HMAC-SHA-1.
    Aes128CbcHmacSha1 = 4,
    /// AES-CBC with a key of 256 bits and HMAC-SHA-1.
    Aes256CbcHmacSha1 = 5,
    /// AES-CBC with a key of 128 bits and HMAC-SHA-256.
    Aes128CbcHmacSha256 = 6,
    /// AES-CBC with a key of 256 bits and HMAC-SHA-256.
    Aes256CbcHmacSha256 = 7,
}

impl CipherKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [CipherKind; 8] = [
        CipherKind::Aes128Gcm,
        CipherKind::Aes192Gcm,
        CipherKind::Aes256Gcm,
        CipherKind::ChaCha20Poly1305,
        CipherKind::Aes128CbcHmacSha1,
        CipherKind::Aes256CbcHmacSha1,
        CipherKind::Aes128CbcHmacSha256,
        CipherKind::Aes256CbcHmacSha256,
    ];

    /// Its name, for people and files.
    pub const fn name(self) -> &'static str {
        match self {
            CipherKind::Aes128Gcm => "aes-128-gcm",
            CipherKind::Aes192Gcm => "aes-192-gcm",
            CipherKind::Aes256Gcm => "aes-256-gcm",
            CipherKind::ChaCha20Poly1305 => "chacha20-poly1305",
            CipherKind::Aes128CbcHmacSha1 => "aes-128-cbc-hmac-sha1",
            CipherKind::Aes256CbcHmacSha1 => "aes-256-cbc-hmac-sha1",
            CipherKind::Aes128CbcHmacSha256 => "aes-128-cbc-hmac-sha256",
            CipherKind::Aes256CbcHmacSha256 => "aes-256-cbc-hmac-sha256",
        }
    }
}

/// Counters of one cipher. Connections bring what they have counted every now and then, and when
/// they end, not with each message.
#[repr(C)]
pub struct CipherCounters {
    /// Messages, such as records of TLS, that were sealed or opened, by room, as `runs_by_room`.
    pub messages_by_room: [AtomicU64; ROOMS_MAX],
    /// Bytes of text in them.
    pub bytes: AtomicU64,
}

/// Counters of one kind of operation.
#[repr(C)]
pub struct KindCounters {
    /// Operations finished in a batch.
    pub batched: AtomicU64,
    /// Operations done one by one by the default provider, where that costs less than a kernel.
    pub single: AtomicU64,
    /// Operations run at once because their caller could not park.
    pub synchronous: AtomicU64,
    /// Operations handed to the default provider.
    pub delegated: AtomicU64,
    /// Key pairs taken out of a pool.
    pub pooled: AtomicU64,
    /// Key pairs made for pools.
    pub pool_made: AtomicU64,
    /// Key pairs of pools that were wiped unused, because they were too old.
    pub pool_expired: AtomicU64,
    /// Runs of the multi-buffer kernel.
    pub runs: AtomicU64,
}

/// Counters of one thread of a process; see the module for where they live.
///
/// The totals (`jobs_batched` to `jobs_delegated`) are the sums over all kinds that are no key
/// generation; the histograms count their batches only.
///
/// What concerns the process, `magic` to `pages_used`, stands on its first page only.
#[repr(C, align(4096))]
pub struct Counters {
    /// [`COUNTERS_MAGIC`].
    pub magic: AtomicU64,
    /// [`COUNTERS_VERSION`].
    pub version: AtomicU32,
    /// Process that writes here.
    pub pid: AtomicU32,
    /// Room of the batch kernel, as `widelane_cpu::Room as u32`.
    pub room: AtomicU32,
    /// Lanes of the batch kernel; 1 where there is nothing to batch.
    pub lanes: AtomicU32,
    /// When the process started, in clock ticks after boot: field 22 of `/proc/<pid>/stat`. It
    /// tells the process from a later one of the same number; 0 where it could not be read.
    pub started_ticks: AtomicU64,
    /// Pages that threads have had: no others have figures.
    pub pages_used: AtomicU64,
    /// Batches executed by the multi-buffer kernel, by number of jobs in them (index 0 unused).
    pub batches_by_fill: [AtomicU64; LANES_MAX + 1],
    /// Kernel executions by room, indexed by `widelane_cpu::Room as u32`.
    pub runs_by_room: [AtomicU64; ROOMS_MAX],
    /// Operations finished in a batch.
    pub jobs_batched: AtomicU64,
    /// Operations done one by one by the default provider, where that costs less than a kernel.
    pub jobs_single: AtomicU64,
    /// Operations run at once because their caller could not park.
    pub jobs_synchronous: AtomicU64,
    /// Operations handed to the default provider: key, curve or padding not accelerated.
    pub jobs_delegated: AtomicU64,
    /// Operations of freed connections, withdrawn before they ran.
    pub jobs_cancelled: AtomicU64,
    /// Results that failed their check and were made again.
    pub faults_detected: AtomicU64,
    /// Internal failures that were answered by the default provider instead.
    pub fallbacks: AtomicU64,
    /// Batches closed because the lanes were full.
    pub closed_full: AtomicU64,
    /// Batches closed because the event loop was about to sleep.
    pub closed_idle: AtomicU64,
    /// Batches closed by the deadline of the helper thread.
    pub closed_deadline: AtomicU64,
    /// Batches closed by a leading blocking thread.
    pub closed_leader: AtomicU64,
    /// Times a parked job waited, by power of two of microseconds.
    pub waits_by_bucket: [AtomicU64; WAIT_BUCKETS],
    /// Sum of all waits, ns.
    pub wait_ns_total: AtomicU64,
    /// Partial batches that waited for company though their event loop had nothing else to do.
    pub short_waits: AtomicU64,
    /// How long they waited for it, ns.
    pub short_wait_ns_total: AtomicU64,
    /// Operations that joined them meanwhile.
    pub short_wait_company: AtomicU64,
    /// Operations that another worker has done.
    pub jobs_lent: AtomicU64,
    /// Operations done for other workers. They are counted among the others here, and not by those.
    pub jobs_for_others: AtomicU64,
    /// Operations that another worker had claimed and not finished in time.
    pub jobs_taken_back: AtomicU64,
    /// Operations in shared memory that made no sense, or results that were wrong.
    pub jobs_refused: AtomicU64,
    /// How often the lane process of the service had been started when this one was, which is it;
    /// 0 in all other processes.
    pub lane_process_starts: AtomicU64,
    /// Handshakes that the runtime began to drive, failed ones included.
    pub handshakes: AtomicU64,
    /// Calls by the server for a handshake whose job was still parked.
    pub resumes_early: AtomicU64,
    /// What each kind has its part in, indexed by `OperationKind as u32`.
    pub kinds: [KindCounters; KINDS_MAX],
    /// Ciphers, indexed by `CipherKind as u32`.
    pub ciphers: [CipherCounters; CIPHERS_MAX],
}

const _: () = assert!(OperationKind::ALL.len() <= KINDS_MAX);
const _: () = assert!(CipherKind::ALL.len() <= CIPHERS_MAX);
const _: () = assert!(size_of::<Counters>() == 4096);
