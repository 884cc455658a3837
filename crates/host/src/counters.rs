//! What the provider counted in a server's processes, read from outside.

use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::offset_of;
use std::ops::Sub;
use std::path::{Path, PathBuf};

use widelane_bridge::counters::{
    COUNTERS_EXTENSION, COUNTERS_MAGIC, COUNTERS_PAGES, COUNTERS_VERSION, CipherCounters,
    CipherKind, Counters, KindCounters, LANES_MAX, OperationKind, ROOMS_MAX, WAIT_BUCKETS,
};
use widelane_cpu::Room;

use crate::choice::Choice;

/// Makes a type of counters that has, beside `others`, those of `$source` that are named.
macro_rules! counts {
    (
        $(#[$attribute:meta])*
        $name:ident of $source:ident { $($(#[$of_one:meta])* $one:ident,)* }
        others { $($(#[$of_other:meta])* $other:ident: $type:ty,)* }
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $($(#[$of_one])* pub $one: u64,)*
            $($(#[$of_other])* pub $other: $type,)*
        }

        impl $name {
            /// What is named of the `$source` that begins there; nothing of the others.
            fn named(page: &Page<'_>, begin: usize) -> Self {
                $name {
                    $($one: page.u64(begin + offset_of!($source, $one)),)*
                    $($other: Default::default(),)*
                }
            }

            /// What is named, and the others.
            fn split_mut(
                &mut self,
            ) -> ([&mut u64; [$(stringify!($one)),*].len()], ($(&mut $type,)*)) {
                ([$(&mut self.$one,)*], ($(&mut self.$other,)*))
            }
        }
    };
}

counts! {
    /// The counters of interest, summed over the processes of a server.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    Counts of Counters {
        /// Operations that waited for others and were done by a kernel, together or alone.
        jobs_batched,
        /// Operations done one by one by the default provider, where that costs less.
        jobs_single,
        /// Operations that ran at once because their caller could not wait.
        jobs_synchronous,
        /// Operations left to the default provider.
        jobs_delegated,
        /// Results that failed their check and were made again.
        faults_detected,
        /// Internal failures answered by the default provider.
        fallbacks,
        /// Operations of freed connections, withdrawn before they ran.
        jobs_cancelled,
        /// Batches closed because the lanes were full.
        closed_full,
        /// Batches closed because the event loop was about to sleep.
        closed_idle,
        /// Batches closed by the deadline of the helper thread.
        closed_deadline,
        /// Batches closed by a leading blocking thread.
        closed_leader,
        /// Sum of all waits, ns.
        wait_ns_total,
        /// Partial batches that waited for company though their event loop had nothing else to do.
        short_waits,
        /// How long they waited for it, ns.
        short_wait_ns_total,
        /// Operations that joined them meanwhile.
        short_wait_company,
        /// Operations that another worker has done.
        jobs_lent,
        /// Operations done for other workers.
        jobs_for_others,
        /// Operations that another worker had claimed and not finished in time.
        jobs_taken_back,
        /// Operations in shared memory that made no sense, or results that were wrong.
        jobs_refused,
        /// How often lane processes had been started, summed over them; 0 without any.
        lane_process_starts,
        /// Operations that a device has done.
        device_jobs,
        /// Operations that it had no room for.
        device_full,
        /// Operations that it does not do, because of their keys.
        device_refused,
        /// Operations that it could have done, which cost less in lanes.
        device_dearer,
        /// Wrong results of the device, and errors in place of one.
        device_faults,
        /// Operations that were taken back from it after some time.
        device_late,
        /// Handshakes of event loops that the runtime began to drive, failed ones included.
        handshakes,
        /// Processes in which nothing is accelerated because their policy was refused.
        policy_refused,
    }
    others {
        /// Lanes of the batch kernel for RSA; 0 where no process has counted yet.
        lanes: usize,
        /// Executed batches by number of jobs.
        batches_by_fill: [u64; LANES_MAX + 1],
        /// Kernel executions by room.
        runs_by_room: [u64; ROOMS_MAX],
        /// Waits by power of two of microseconds.
        waits_by_bucket: [u64; WAIT_BUCKETS],
        /// Which policy a process chose, where it chooses; of several processes summed that of
        /// none.
        choice: Option<Choice>,
        /// Until when a process leaves all operations to OpenSSL, in ns of `CLOCK_MONOTONIC`: 0 for
        /// not at all, `u64::MAX` for good; of several processes summed that of none.
        off_until_ns: u64,
        /// Each cipher, by its number.
        by_cipher: [CipherCounts; CipherKind::ALL.len()],
        /// Each kind of operation apart, by its number.
        by_kind: [KindCounts; OperationKind::ALL.len()],
    }
}

counts! {
    /// The counters of one kind of operation.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    KindCounts of KindCounters {
        /// Operations that waited for others and were done by a kernel, together or alone.
        batched,
        /// Operations done one by one by the default provider, where that costs less.
        single,
        /// Operations that ran at once because their caller could not wait.
        synchronous,
        /// Operations left to the default provider.
        delegated,
        /// Key pairs taken out of a pool.
        pooled,
        /// Key pairs made for pools.
        pool_made,
        /// Key pairs of pools that nobody took in time.
        pool_expired,
        /// Runs of the batch kernel.
        runs,
        /// Groups of operations that were executed together, by one run or divided among several.
        meetings,
    }
    others {
        /// Operations that one batch holds at most; 0 where no process has counted yet.
        lanes: usize,
    }
}

/// The counters of one cipher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CipherCounts {
    /// Messages that were sealed or opened, by room.
    pub messages_by_room: [u64; ROOMS_MAX],
    /// Bytes of text in them.
    pub bytes: u64,
}

impl CipherCounts {
    fn parse(page: &Page<'_>, kind: CipherKind) -> Self {
        let begin = offset_of!(Counters, ciphers) + size_of::<CipherCounters>() * kind as usize;
        CipherCounts {
            messages_by_room: page.array(begin + offset_of!(CipherCounters, messages_by_room)),
            bytes: page.u64(begin + offset_of!(CipherCounters, bytes)),
        }
    }

    /// Messages in all rooms.
    pub fn messages(&self) -> u64 {
        self.messages_by_room.iter().sum()
    }
}

/// Whose counters a file claims to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Number of the process.
    pub pid: u32,
    /// When it started, in clock ticks after boot; 0 where it did not know.
    pub started_ticks: u64,
}

impl KindCounts {
    fn parse(page: &Page<'_>, kind: OperationKind) -> Self {
        let begin = offset_of!(Counters, kinds) + size_of::<KindCounters>() * kind as usize;
        let lanes = page.u64(begin + offset_of!(KindCounters, lanes)) as usize;
        KindCounts { lanes, ..KindCounts::named(page, begin) }
    }

    /// Operations that callers asked for, on whatever path.
    pub fn operations(&self) -> u64 {
        self.batched + self.single + self.synchronous + self.delegated + self.pooled
    }
}

impl Counts {
    /// Sums the counters files in `directory`. Files that are not whole, or that another version of
    /// Widelane has written, count nothing.
    pub fn read(directory: &Path) -> Self {
        let mut sum = Counts::default();
        each(directory).for_each(|(counts, _)| sum.add(&counts));
        sum
    }

    /// The counters of each process that has left a whole file in `directory`.
    pub fn read_all(directory: &Path) -> Vec<Self> {
        each(directory).map(|(counts, _)| counts).collect()
    }

    /// The lane processes among those that count in `directory`, also those that have ended.
    pub fn lane_processes(directory: &Path) -> Vec<u32> {
        let lanes = each(directory).filter(|(counts, _)| counts.lane_process_starts > 0);
        lanes.map(|(_, claim)| claim.pid).collect()
    }

    /// Reads one counters file; none if it is not one, or one of another version.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Counts::parse_with_claim(bytes).map(|(counts, _)| counts)
    }

    /// Reads no more of a counters file than has figures, and returns the process that it names,
    /// too; none as by [`parse`](Self::parse).
    pub fn read_with_claim(file: &mut impl Read) -> io::Result<Option<(Self, Claim)>> {
        const PAGE: usize = size_of::<Counters>();
        let mut bytes = vec![0; PAGE];
        file.read_exact(&mut bytes)?;
        let pages = Page(&bytes).u64(offset_of!(Counters, pages_used));
        bytes.resize(PAGE * pages.clamp(1, COUNTERS_PAGES as u64) as usize, 0);
        file.read_exact(&mut bytes[PAGE..])?;
        Ok(Counts::parse_with_claim(&bytes))
    }

    /// Reads one counters file as [`parse`](Self::parse) does, with the process that the file
    /// names.
    fn parse_with_claim(bytes: &[u8]) -> Option<(Self, Claim)> {
        let first = Page(bytes.get(..size_of::<Counters>())?);
        if first.u64(offset_of!(Counters, magic)) != COUNTERS_MAGIC
            || first.u32(offset_of!(Counters, version)) != COUNTERS_VERSION
        {
            return None;
        }
        let claim = Claim {
            pid: first.u32(offset_of!(Counters, pid)),
            started_ticks: first.u64(offset_of!(Counters, started_ticks)),
        };
        let pages = usize::try_from(first.u64(offset_of!(Counters, pages_used))).ok()?;
        let used = bytes.get(..size_of::<Counters>() * pages.min(COUNTERS_PAGES))?;
        let mut counts = Counts::default();
        for page in used.chunks_exact(size_of::<Counters>()) {
            counts.combine(&Counts::of_thread(&Page(page)), u64::saturating_add);
        }
        // A process that may write the file may write any number; sums of these do not overflow.
        counts.fields_mut().for_each(|count| *count = (*count).min(COUNT_MAX));
        counts.lanes = first.u32(offset_of!(Counters, lanes)) as usize;
        for (kind, counts) in OperationKind::ALL.into_iter().zip(&mut counts.by_kind) {
            counts.lanes = KindCounts::parse(&first, kind).lanes;
        }
        counts.choice = Choice::parse(&first);
        counts.off_until_ns = first.u64(offset_of!(Counters, off_until_ns));
        Some((counts, claim))
    }

    /// What one thread, and those that had its page before it, counted.
    fn of_thread(page: &Page<'_>) -> Self {
        Counts {
            batches_by_fill: page.array(offset_of!(Counters, batches_by_fill)),
            runs_by_room: page.array(offset_of!(Counters, runs_by_room)),
            waits_by_bucket: page.array(offset_of!(Counters, waits_by_bucket)),
            by_cipher: CipherKind::ALL.map(|kind| CipherCounts::parse(page, kind)),
            by_kind: OperationKind::ALL.map(|kind| KindCounts::parse(page, kind)),
            ..Counts::named(page, 0)
        }
    }

    /// Adds another process's, or another window's, counts.
    pub fn add(&mut self, other: &Counts) {
        self.combine(other, u64::wrapping_add);
        self.lanes = self.lanes.max(other.lanes);
        for (mine, theirs) in self.by_kind.iter_mut().zip(&other.by_kind) {
            mine.lanes = mine.lanes.max(theirs.lanes);
        }
    }

    fn combine(&mut self, other: &Counts, with: fn(u64, u64) -> u64) {
        for (mine, theirs) in self.fields_mut().zip(other.clone().fields_mut()) {
            *mine = with(*mine, *theirs);
        }
    }

    fn fields_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        let (named, (_, fills, runs, waits, _, _, ciphers, kinds)) = self.split_mut();
        let ciphers = ciphers
            .iter_mut()
            .flat_map(|cipher| cipher.messages_by_room.iter_mut().chain([&mut cipher.bytes]));
        (fills.iter_mut())
            .chain(runs)
            .chain(waits)
            .chain(kinds.iter_mut().flat_map(|kind| kind.split_mut().0))
            .chain(ciphers)
            .chain(named)
    }

    /// Public-key operations that came to the provider.
    pub fn jobs(&self) -> u64 {
        self.device_jobs + self.by_kind.iter().map(KindCounts::operations).sum::<u64>()
    }

    /// What was counted of each kind of operation.
    pub fn kinds(&self) -> impl Iterator<Item = (OperationKind, &KindCounts)> {
        OperationKind::ALL.into_iter().zip(&self.by_kind)
    }

    /// What was counted of each cipher.
    pub fn ciphers(&self) -> impl Iterator<Item = (CipherKind, &CipherCounts)> {
        CipherKind::ALL.into_iter().zip(&self.by_cipher)
    }

    /// The room whose kernel ran most, if any ran.
    pub fn room(&self) -> Option<Room> {
        busiest(&self.runs_by_room)
    }

    /// The room that did most messages of `cipher`, if we did any.
    pub fn room_of(&self, cipher: CipherKind) -> Option<Room> {
        busiest(&self.by_cipher[cipher as usize].messages_by_room)
    }

    /// Batches by number of jobs, those too small to pay off, whose jobs ran alone, as batches of
    /// one.
    pub fn fills(&self) -> [u64; LANES_MAX + 1] {
        let mut fills = self.batches_by_fill;
        fills[1] += self.jobs_single;
        fills
    }

    /// Operations executed together with others, and alone. Key generations, and what came out of
    /// a pool or was left to the default provider, are in neither.
    pub fn together_and_alone(&self) -> [u64; 2] {
        let fills = self.fills();
        let together = fills.iter().zip(0..).skip(2).map(|(count, jobs)| count * jobs).sum();
        [together, fills[1]]
    }

    /// Share of the executed operations that ran together with others; `None` before the first.
    pub fn batched_share(&self) -> Option<f64> {
        let [together, alone] = self.together_and_alone();
        let executed = together + alone;
        (executed > 0).then(|| together as f64 / executed as f64)
    }

    /// Operations executed at once, on average; `None` before the first.
    pub fn mean_fill(&self) -> Option<f64> {
        let runs: u64 = self.fills().iter().sum();
        let executed: u64 = self.together_and_alone().iter().sum();
        (runs > 0).then(|| executed as f64 / runs as f64)
    }

    /// Operations that one batch holds at most, of any kind, whether it has occurred or not.
    pub fn most_lanes(&self) -> usize {
        self.by_kind.iter().map(|kind| kind.lanes).fold(self.lanes, usize::max).min(LANES_MAX)
    }

    /// The most operations of a batch: as many as the widest kind that occurred has lanes, or RSA
    /// before any has.
    pub fn widest(&self) -> usize {
        let waited = self.by_kind.iter().filter(|kind| kind.batched + kind.single > 0);
        let lanes = waited.map(|kind| kind.lanes.max(1)).max().unwrap_or(self.lanes);
        let largest = self.batches_by_fill.iter().rposition(|count| *count > 0);
        // A file may claim any number.
        lanes.max(largest.unwrap_or(0)).min(LANES_MAX)
    }
}

/// The files in `directory` that have names as the provider gives them: `<pid>.counters`, or
/// `<pid>-<start>.counters`. Those that it is still making begin with a dot.
pub fn files(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| {
        path.extension().is_some_and(|extension| extension == COUNTERS_EXTENSION)
            && !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
    })
}

/// What each whole file in `directory` has, and the process that it names.
fn each(directory: &Path) -> impl Iterator<Item = (Counts, Claim)> {
    files(directory).filter_map(|path| Counts::read_with_claim(&mut File::open(path).ok()?).ok()?)
}

/// The room with most of what was counted, if anything was.
fn busiest(by_room: &[u64; ROOMS_MAX]) -> Option<Room> {
    let rooms = Room::ALL.into_iter().filter(|room| by_room[*room as usize] > 0);
    rooms.max_by_key(|room| by_room[*room as usize])
}

impl Sub for Counts {
    type Output = Counts;

    /// What was counted between `earlier` and now.
    fn sub(mut self, earlier: Counts) -> Counts {
        self.combine(&earlier, u64::saturating_sub);
        self
    }
}

/// Larger counts are impossible, and cut off here.
const COUNT_MAX: u64 = 1 << 53;

/// The bytes of a counters file.
pub(crate) struct Page<'a>(&'a [u8]);

impl Page<'_> {
    pub(crate) fn u32(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.0[offset..offset + 4].try_into().expect("four bytes"))
    }

    pub(crate) fn u64(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.0[offset..offset + 8].try_into().expect("eight bytes"))
    }

    fn array<const N: usize>(&self, offset: usize) -> [u64; N] {
        std::array::from_fn(|index| self.u64(offset + 8 * index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(fill: usize, batches: u64) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<Counters>()];
        let mut put = |offset: usize, value: &[u8]| {
            bytes[offset..offset + value.len()].copy_from_slice(value);
        };
        put(offset_of!(Counters, magic), &COUNTERS_MAGIC.to_ne_bytes());
        put(offset_of!(Counters, version), &COUNTERS_VERSION.to_ne_bytes());
        put(offset_of!(Counters, lanes), &8u32.to_ne_bytes());
        put(offset_of!(Counters, pages_used), &1u64.to_ne_bytes());
        put(offset_of!(Counters, batches_by_fill) + 8 * fill, &batches.to_ne_bytes());
        put(
            offset_of!(Counters, runs_by_room) + 8 * Room::Ifma512 as usize,
            &batches.to_ne_bytes(),
        );
        put(offset_of!(Counters, jobs_batched), &(batches * fill as u64).to_ne_bytes());
        put(offset_of!(Counters, jobs_single), &10u64.to_ne_bytes());
        let derive = offset_of!(Counters, kinds)
            + OperationKind::X25519Derive as usize * size_of::<KindCounters>();
        put(derive + offset_of!(KindCounters, runs), &batches.to_ne_bytes());
        put(derive + offset_of!(KindCounters, single), &10u64.to_ne_bytes());
        put(derive + offset_of!(KindCounters, lanes), &8u64.to_ne_bytes());
        let gcm = offset_of!(Counters, ciphers)
            + CipherKind::Aes256Gcm as usize * size_of::<CipherCounters>()
            + offset_of!(CipherCounters, messages_by_room);
        put(gcm + 8 * Room::Vaes256 as usize, &batches.to_ne_bytes());
        bytes
    }

    #[test]
    fn sums_processes_and_subtracts_the_past() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("1.counters"), file(8, 90)).unwrap();
        let earlier = Counts::read(directory.path());
        fs::write(directory.path().join("2.counters"), file(4, 5)).unwrap();
        fs::write(directory.path().join("3.counters"), b"not whole").unwrap();
        // One that is not finished, and a copy.
        for name in [".4.counters", "2.counters.old"] {
            fs::write(directory.path().join(name), file(4, 5)).unwrap();
        }
        let now = Counts::read(directory.path());
        assert_eq!(now.jobs_batched, 740);
        assert_eq!(now.room(), Some(Room::Ifma512));
        assert_eq!(now.lanes, 8);
        let between = now - earlier;
        assert_eq!((between.jobs_batched, between.jobs_single), (20, 10));
        let occurred: Vec<_> = between.kinds().filter(|(_, kind)| kind.operations() > 0).collect();
        let expected = KindCounts { single: 10, runs: 5, lanes: 8, ..KindCounts::default() };
        assert_eq!(occurred, [(OperationKind::X25519Derive, &expected)]);
        assert_eq!(between.jobs(), 10);
        assert_eq!(between.room_of(CipherKind::Aes256Gcm), Some(Room::Vaes256));
        assert_eq!(between.room_of(CipherKind::ChaCha20Poly1305), None);
    }

    #[test]
    fn sums_the_threads_that_a_process_has_had() {
        let mut bytes = file(8, 90);
        bytes[offset_of!(Counters, pages_used)] = 2;
        assert_eq!(Counts::parse(&bytes), None, "a page is missing");
        // Only the first page says whose it is and how wide; what lies beyond the used ones is
        // nobody's.
        let mut second = file(4, 5);
        second[..offset_of!(Counters, batches_by_fill)].fill(0xff);
        bytes.extend([second, vec![1; size_of::<Counters>()]].concat());
        let counts = Counts::parse(&bytes).unwrap();
        assert_eq!((counts.lanes, counts.jobs_batched, counts.jobs_single), (8, 740, 20));
        assert_eq!((counts.batches_by_fill[8], counts.batches_by_fill[4]), (90, 5));
        let mut rest = &bytes[..];
        let (read, _) = Counts::read_with_claim(&mut rest).unwrap().unwrap();
        assert_eq!((read, rest.len()), (counts, size_of::<Counters>()));
    }

    #[test]
    fn the_time_until_which_a_process_is_off_is_its_own_and_no_sum() {
        let directory = tempfile::tempdir().unwrap();
        let mut bytes = file(8, 1);
        bytes[offset_of!(Counters, off_until_ns)..][..8].fill(0xff);
        assert_eq!(Counts::parse(&bytes).unwrap().off_until_ns, u64::MAX);
        fs::write(directory.path().join("1.counters"), &bytes).unwrap();
        fs::write(directory.path().join("2.counters"), &bytes).unwrap();
        assert_eq!(Counts::read(directory.path()).off_until_ns, 0);
    }

    #[test]
    fn what_a_kernel_did_alone_was_not_batched() {
        let mut counts = Counts::default();
        assert_eq!((counts.batched_share(), counts.mean_fill()), (None, None));
        // Kernels did eight operations, one at a time.
        (counts.jobs_batched, counts.batches_by_fill[1]) = (8, 8);
        assert_eq!((counts.batched_share(), counts.mean_fill()), (Some(0.0), Some(1.0)));
        (counts.jobs_single, counts.batches_by_fill[3]) = (4, 12);
        assert_eq!(counts.together_and_alone(), [36, 12]);
        assert_eq!((counts.batched_share(), counts.mean_fill()), (Some(0.75), Some(2.0)));
    }

    #[test]
    fn refuses_another_version() {
        let mut bytes = file(8, 1);
        for other in [COUNTERS_VERSION - 1, COUNTERS_VERSION + 1] {
            bytes[offset_of!(Counters, version)..][..4].copy_from_slice(&other.to_ne_bytes());
            assert_eq!(Counts::parse(&bytes), None);
        }
    }

    #[test]
    fn a_batch_may_be_as_wide_as_the_widest_kind_that_occurred() {
        let of_kind = |batched, lanes| KindCounts { batched, lanes, ..KindCounts::default() };
        let mut counts = Counts { lanes: 1, ..Counts::default() };
        assert_eq!(counts.widest(), 1);
        counts.by_kind[OperationKind::X25519Derive as usize] = of_kind(13, 4);
        counts.batches_by_fill[1] = 1;
        counts.batches_by_fill[4] = 3;
        assert_eq!(counts.widest(), 4);
        // Of other kinds nothing has occurred, or a batch has another size.
        counts.by_kind[OperationKind::P256Sign as usize] = of_kind(0, 8);
        assert_eq!(counts.widest(), 4);
        counts.by_kind[OperationKind::Rsa2048 as usize] = of_kind(2, 1);
        assert_eq!(counts.widest(), 4);
        counts.by_kind[OperationKind::P256Sign as usize] = of_kind(1, usize::MAX);
        assert_eq!(counts.widest(), LANES_MAX);
    }

    #[test]
    fn nothing_counted_has_no_room() {
        let counts = Counts::default();
        assert_eq!((counts.room(), counts.jobs()), (None, 0));
    }
}
