//! Jobs that workers leave where others find them: one of them executes what several have.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Slots in memory that workers share: each leaves jobs there for the next that executes a batch.
///
/// A slot belongs to the place of its owner. The owner opens it with a job in it; another worker
/// claims it, executes the job and stores the result; the owner collects that. No lock is held:
/// each step is one exchange of the slot's state, which names the claimer and counts how often the
/// slot was opened. So an owner may take a job back at any time. If it was claimed, the slot stays
/// out of use until its claimer has noticed or is gone: a late result lands nowhere.
///
/// All memory is atomic: whatever a faulty or hostile worker writes there is a wrong value, not
/// undefined behaviour. Zeros are a table without workers and jobs. Workers are known by numbers
/// above 0 and below 2²², such as those of processes.
#[derive(Debug)]
#[repr(C)]
pub struct Slots<const PLACES: usize, const SLOTS: usize, const WORDS: usize> {
    places: [Place<SLOTS, WORDS>; PLACES],
}

/// What belongs to one worker.
#[derive(Debug)]
#[repr(C, align(64))]
struct Place<const SLOTS: usize, const WORDS: usize> {
    worker: AtomicU32,
    /// 1 while the worker sleeps, and is to be woken by a worker that finishes one of its jobs.
    sleeps: AtomicU32,
    states: [AtomicU64; SLOTS],
    jobs: [Job<WORDS>; SLOTS],
}

/// What a slot holds: a job, later its result.
#[derive(Debug)]
#[repr(C)]
struct Job<const WORDS: usize> {
    key: [AtomicU64; KEY_WORDS],
    bytes: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// What identifies the key of a job.
pub type KeyName = [u64; KEY_WORDS];

const KEY_WORDS: usize = 4;

/// A job that was left in a slot by its owner.
#[derive(Debug)]
pub struct Offer {
    place: usize,
    slot: usize,
    opened: State,
}

/// How far an offered job has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No worker has claimed it.
    Open,
    /// Another worker has claimed it.
    Claimed,
    /// There is a result.
    Done,
    /// There will be none: it was refused, or the slot holds what cannot be.
    Refused,
}

/// A job that was claimed by another worker than its owner.
#[derive(Debug)]
pub struct Claim {
    place: usize,
    slot: usize,
    claimed: State,
}

impl Claim {
    /// The place of the job's owner.
    pub fn place(&self) -> usize {
        self.place
    }
}

/// A worker that looks for jobs of others, and where it looks first.
#[derive(Clone, Copy, Debug)]
pub struct Seeker {
    /// The number of the worker.
    pub worker: u32,
    /// Its place.
    pub place: usize,
    /// The place at which it begins to look; the one behind its own, so that no place is
    /// everybody's first, or where it stopped the last time.
    pub first: usize,
}

/// Whether a worker executes a job of another one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<T> {
    /// It does, with this.
    Accept(T),
    /// It cannot, but others may.
    Leave,
    /// No worker can execute it: the job is invalid.
    Refuse,
}

/// Jobs that a worker has claimed, each with what [`Choice::Accept`] said and its input.
#[derive(Debug)]
pub struct Claimed<T> {
    /// The jobs.
    pub jobs: Vec<(Claim, T, Vec<u8>)>,
    /// How many were refused.
    pub refused: usize,
}

/// What a result has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// The owner at this place sleeps, and has to be woken.
    Wake(usize),
    /// The owner will find it by itself.
    Stored,
    /// The owner had taken the job back.
    TooLate,
}

impl<const PLACES: usize, const SLOTS: usize, const WORDS: usize> Slots<PLACES, SLOTS, WORDS> {
    /// A table without workers and jobs.
    pub fn new() -> Self {
        Slots { places: std::array::from_fn(|_| Place::new()) }
    }

    /// Takes one of the first `places` for a worker, also one whose worker `is_gone`; nothing if
    /// all are taken.
    pub fn enter(
        &self,
        places: usize,
        worker: u32,
        is_gone: impl Fn(u32) -> bool,
    ) -> Option<usize> {
        let index = self.places.iter().take(places).position(|place| {
            let holder = place.worker.load(Ordering::Acquire);
            let is_free = holder == 0 || is_gone(holder);
            let exchange = |from, to| {
                let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
                place.worker.compare_exchange(from, to, success, failure).is_ok()
            };
            is_free && exchange(holder, worker)
        })?;
        self.places[index].states.iter().for_each(give_up);
        self.places[index].sleeps.store(0, Ordering::Relaxed);
        Some(index)
    }

    /// Gives a place back, with whatever its worker has left there.
    pub fn leave(&self, place: usize) {
        self.places[place].states.iter().for_each(give_up);
        self.places[place].worker.store(0, Ordering::Release);
    }

    /// Whether there is more than one worker.
    pub fn is_shared(&self) -> bool {
        let held = |place: &&Place<SLOTS, WORDS>| place.worker.load(Ordering::Relaxed) != 0;
        self.places.iter().filter(held).nth(1).is_some()
    }

    /// Leaves a job of a kind for other workers; nothing if it does not fit, or all slots of the
    /// place are in use. A slot whose claimer `is_gone` is free.
    pub fn offer(
        &self,
        place: usize,
        kind: u8,
        key: &KeyName,
        input: &[u8],
        is_gone: impl Fn(u32) -> bool,
    ) -> Option<Offer> {
        if input.len() > 8 * WORDS {
            return None;
        }
        let Place { states, jobs, .. } = &self.places[place];
        let slot = states.iter().position(|state| is_free(state, &is_gone))?;
        let job = &jobs[slot];
        for (word, value) in job.key.iter().zip(key) {
            word.store(*value, Ordering::Relaxed);
        }
        job.write(input);
        let opened = State(states[slot].load(Ordering::Relaxed)).opened(kind);
        states[slot].store(opened.0, Ordering::Release);
        Some(Offer { place, slot, opened })
    }

    /// How far an offered job has got.
    pub fn stage(&self, offer: &Offer) -> Stage {
        let state = State(self.state(offer).load(Ordering::Acquire));
        match state.phase() {
            _ if !state.is_same_job(offer.opened) => Stage::Refused,
            OPEN => Stage::Open,
            CLAIMED => Stage::Claimed,
            DONE => Stage::Done,
            _ => Stage::Refused,
        }
    }

    /// The result of a job that is [done](Stage::Done); nothing if it has another length than
    /// `bytes`.
    pub fn result(&self, offer: &Offer, bytes: usize) -> Option<Vec<u8>> {
        let job = &self.places[offer.place].jobs[offer.slot];
        (job.bytes.load(Ordering::Relaxed) == bytes as u64).then(|| job.read(bytes)).flatten()
    }

    /// Takes a job back; false if a worker has claimed it.
    pub fn withdraw(&self, offer: &Offer) -> bool {
        exchange(self.state(offer), offer.opened, offer.opened.with(FREE, 0))
    }

    /// Gives a job up, or its result, however far it has got.
    pub fn abandon(&self, offer: Offer) {
        give_up(self.state(&offer));
    }

    /// Counts the open jobs of a kind at other places than the seeker's own, up to `most`, whose
    /// key it `knows`.
    pub fn open(
        &self,
        seeker: Seeker,
        kind: u8,
        most: usize,
        mut knows: impl FnMut(&KeyName) -> bool,
    ) -> usize {
        let open = self.open_jobs(seeker, kind).filter(|(place, slot, _)| {
            let job = &self.places[*place].jobs[*slot];
            knows(&job.key())
        });
        open.take(most).count()
    }

    /// Claims open jobs of a kind at other places than the seeker's own, up to `most`. `choose` is
    /// given key and number of bytes of each.
    pub fn claim<T>(
        &self,
        seeker: Seeker,
        kind: u8,
        most: usize,
        mut choose: impl FnMut(&KeyName, usize) -> Choice<T>,
    ) -> Claimed<T> {
        let mut claimed = Claimed { jobs: Vec::new(), refused: 0 };
        let worker = seeker.worker;
        for (place, slot, opened) in self.open_jobs(seeker, kind) {
            if claimed.jobs.len() == most {
                break;
            }
            let (state, job) = (&self.places[place].states[slot], &self.places[place].jobs[slot]);
            let bytes = usize::try_from(job.bytes.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
            let taken = opened.with(CLAIMED, worker);
            match choose(&job.key(), bytes) {
                Choice::Accept(with) if bytes <= 8 * WORDS => {
                    if exchange(state, opened, taken) {
                        let input = job.read(bytes).unwrap_or_default();
                        let claim = Claim { place, slot, claimed: taken };
                        claimed.jobs.push((claim, with, input));
                    }
                }
                Choice::Leave => {}
                Choice::Accept(_) | Choice::Refuse => {
                    let refused = exchange(state, opened, opened.with(REFUSED, worker));
                    claimed.refused += usize::from(refused);
                }
            }
        }
        claimed
    }

    /// Stores what became of a claimed job: a result, or that there is none.
    pub fn finish(&self, claim: Claim, result: Option<&[u8]>) -> Finished {
        let Claim { place, slot, claimed } = claim;
        let Place { states, jobs, .. } = &self.places[place];
        let result = result.filter(|result| result.len() <= 8 * WORDS);
        if let Some(result) = result {
            jobs[slot].write(result);
        }
        let phase = if result.is_some() { DONE } else { REFUSED };
        let worker = claimed.worker();
        if !exchange(&states[slot], claimed, claimed.with(phase, worker)) {
            exchange(&states[slot], claimed.with(ABANDONED, worker), claimed.with(FREE, 0));
            return Finished::TooLate;
        }
        if self.rouse(place) { Finished::Wake(place) } else { Finished::Stored }
    }

    /// Whether the worker at a place sleeps, and has to be woken to see what was changed before
    /// this call. True for one caller only.
    pub fn rouse(&self, place: usize) -> bool {
        // Either the worker sees the change before it sleeps, or it is seen here that it does.
        fence(Ordering::SeqCst);
        self.places[place].sleeps.swap(0, Ordering::Relaxed) != 0
    }

    /// Announces that the worker at `place` is about to sleep. Before it does, the caller has to
    /// look once more at the stage of what it has offered, and, if it sleeps until others have
    /// jobs, for those.
    pub fn begin_sleep(&self, place: usize) {
        self.places[place].sleeps.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// A worker is awake, and wants no more to be woken.
    pub fn end_sleep(&self, place: usize) {
        self.places[place].sleeps.store(0, Ordering::Relaxed);
    }

    fn state(&self, offer: &Offer) -> &AtomicU64 {
        &self.places[offer.place].states[offer.slot]
    }

    /// All slots that are open for jobs of a kind, at other places than the seeker's own.
    fn open_jobs(&self, seeker: Seeker, kind: u8) -> impl Iterator<Item = (usize, usize, State)> {
        let Seeker { place: own, first, .. } = seeker;
        let places = (0..PLACES).map(move |step| (first + step) % PLACES);
        let held = move |place: &usize| {
            *place != own && self.places[*place].worker.load(Ordering::Relaxed) != 0
        };
        places.filter(held).flat_map(move |place| {
            let slots = self.places[place].states.iter().enumerate();
            slots.filter_map(move |(slot, state)| {
                let state = State(state.load(Ordering::Acquire));
                let is_open = state.phase() == OPEN && state.kind() == kind;
                is_open.then_some((place, slot, state))
            })
        })
    }
}

impl<const PLACES: usize, const SLOTS: usize, const WORDS: usize> Default
    for Slots<PLACES, SLOTS, WORDS>
{
    fn default() -> Self {
        Slots::new()
    }
}

impl<const SLOTS: usize, const WORDS: usize> Place<SLOTS, WORDS> {
    fn new() -> Self {
        let zero = |_| AtomicU64::new(0);
        Place {
            worker: AtomicU32::new(0),
            sleeps: AtomicU32::new(0),
            states: std::array::from_fn(zero),
            jobs: std::array::from_fn(|_| Job {
                key: std::array::from_fn(zero),
                bytes: AtomicU64::new(0),
                words: std::array::from_fn(zero),
            }),
        }
    }
}

impl<const WORDS: usize> Job<WORDS> {
    fn key(&self) -> KeyName {
        std::array::from_fn(|index| self.key[index].load(Ordering::Relaxed))
    }

    /// Stores bytes that fit.
    fn write(&self, bytes: &[u8]) {
        self.bytes.store(bytes.len() as u64, Ordering::Relaxed);
        for (word, chunk) in self.words.iter().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
    }

    /// Reads `bytes` bytes, if there can be that many.
    fn read(&self, bytes: usize) -> Option<Vec<u8>> {
        let words = self.words.get(..bytes.div_ceil(8))?;
        let whole = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        Some(whole.take(bytes).collect())
    }
}

/// The state of a slot: a phase, the kind of its job, the worker that has claimed it, and how often
/// it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State(u64);

/// Phases. What may change each:
///
/// * `FREE`: the owner, to `OPEN`;
/// * `OPEN`: the owner, to `FREE`; any other worker, to `CLAIMED` or `REFUSED`;
/// * `CLAIMED`: the claimer, to `DONE` or `REFUSED`; the owner, to `ABANDONED`;
/// * `DONE`, `REFUSED`: the owner, to `FREE`;
/// * `ABANDONED`: the claimer, to `FREE`; the owner if the claimer is gone.
const FREE: u64 = 0;
const OPEN: u64 = 1;
const CLAIMED: u64 = 2;
const DONE: u64 = 3;
const REFUSED: u64 = 4;
const ABANDONED: u64 = 5;

/// Where the parts begin. A job is opened less often than 2³⁰ times while one worker looks at it.
const KIND_SHIFT: u32 = 4;
const WORKER_SHIFT: u32 = 12;
const WORKER_MASK: u64 = (1 << 22) - 1;
const OPENED_SHIFT: u32 = 34;

impl State {
    fn phase(self) -> u64 {
        self.0 & ((1 << KIND_SHIFT) - 1)
    }

    fn kind(self) -> u8 {
        (self.0 >> KIND_SHIFT) as u8
    }

    fn worker(self) -> u32 {
        (self.0 >> WORKER_SHIFT & WORKER_MASK) as u32
    }

    /// The same job in another phase, claimed by this worker.
    fn with(self, phase: u64, worker: u32) -> State {
        let kept = self.0 & !(WORKER_MASK << WORKER_SHIFT) & !((1 << KIND_SHIFT) - 1);
        State(kept | phase | (u64::from(worker) & WORKER_MASK) << WORKER_SHIFT)
    }

    /// The slot with its next job.
    fn opened(self, kind: u8) -> State {
        let times = (self.0 >> OPENED_SHIFT).wrapping_add(1);
        State(times << OPENED_SHIFT | u64::from(kind) << KIND_SHIFT | OPEN)
    }

    fn is_same_job(self, other: State) -> bool {
        self.0 >> OPENED_SHIFT == other.0 >> OPENED_SHIFT && self.kind() == other.kind()
    }
}

fn exchange(state: &AtomicU64, from: State, to: State) -> bool {
    state.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Whether a slot can be opened; one that was abandoned can where its claimer is gone.
fn is_free(state: &AtomicU64, is_gone: impl Fn(u32) -> bool) -> bool {
    let found = State(state.load(Ordering::Acquire));
    match found.phase() {
        FREE => true,
        ABANDONED if is_gone(found.worker()) => exchange(state, found, found.with(FREE, 0)),
        _ => false,
    }
}

/// The owner of a slot has no use for what is in it.
fn give_up(state: &AtomicU64) {
    loop {
        let found = State(state.load(Ordering::Acquire));
        let phase = match found.phase() {
            FREE | ABANDONED => return,
            CLAIMED => ABANDONED,
            _ => FREE,
        };
        let worker = if phase == ABANDONED { found.worker() } else { 0 };
        if exchange(state, found, found.with(phase, worker)) {
            return;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const KIND: u8 = 2;
    const KEY: KeyName = [1, 2, 3, 4];
    const FIRST: Seeker = Seeker { worker: 7, place: 0, first: 1 };
    const SECOND: Seeker = Seeker { worker: 8, place: 1, first: 2 };

    fn nobody_is_gone(_: u32) -> bool {
        false
    }

    /// A table with workers 7 and 8 at places 0 and 1.
    fn two_workers() -> Slots<3, 2, 4> {
        let slots = Slots::new();
        assert!(!slots.is_shared());
        let places = [7, 8].map(|worker| slots.enter(usize::MAX, worker, nobody_is_gone));
        assert_eq!(places, [Some(0), Some(1)]);
        assert!(slots.is_shared());
        slots
    }

    fn claim_all(slots: &Slots<3, 2, 4>) -> Vec<Claim> {
        let claimed = slots.claim(SECOND, KIND, 8, |_, _| Choice::Accept(()));
        claimed.jobs.into_iter().map(|(claim, (), _)| claim).collect()
    }

    #[test]
    fn a_job_goes_there_and_its_result_comes_back() {
        let slots = two_workers();
        let input: Vec<u8> = (0..27).collect();
        let offer = slots.offer(0, KIND, &KEY, &input, nobody_is_gone).unwrap();
        assert_eq!(slots.stage(&offer), Stage::Open);
        assert_eq!(slots.open(FIRST, KIND, 8, |_| true), 0, "its own");
        assert_eq!(slots.open(SECOND, KIND + 1, 8, |_| true), 0, "of another kind");
        assert_eq!(slots.open(SECOND, KIND, 8, |key| *key == KEY), 1);
        let mut claimed = slots.claim(SECOND, KIND, 8, |key, bytes| Choice::Accept((*key, bytes)));
        let (claim, with, found) = claimed.jobs.pop().unwrap();
        assert_eq!((with, found), ((KEY, 27), input));
        assert_eq!(slots.stage(&offer), Stage::Claimed);
        assert!(!slots.withdraw(&offer));
        assert_eq!(slots.finish(claim, Some(&[9; 31])), Finished::Stored);
        assert_eq!(slots.stage(&offer), Stage::Done);
        assert_eq!(slots.result(&offer, 30), None, "of the wrong length");
        assert_eq!(slots.result(&offer, 31), Some(vec![9; 31]));
        slots.abandon(offer);
        assert!(slots.offer(0, KIND, &KEY, &[], nobody_is_gone).is_some());
        assert!(slots.offer(0, KIND, &KEY, &[0; 33], nobody_is_gone).is_none(), "too long");
    }

    #[test]
    fn who_sleeps_is_woken_once() {
        let slots = two_workers();
        let _offers = [0; 2].map(|_| slots.offer(0, KIND, &KEY, &[1], nobody_is_gone).unwrap());
        slots.begin_sleep(0);
        let finished = claim_all(&slots).into_iter().map(|claim| slots.finish(claim, Some(&[1])));
        assert_eq!(finished.collect::<Vec<_>>(), [Finished::Wake(0), Finished::Stored]);
    }

    #[test]
    fn who_waits_for_jobs_is_roused_once() {
        let slots = two_workers();
        assert!(!slots.rouse(1), "it does not sleep");
        slots.begin_sleep(1);
        let _offer = slots.offer(0, KIND, &KEY, &[1], nobody_is_gone).unwrap();
        assert_eq!([slots.rouse(1), slots.rouse(1)], [true, false]);
    }

    #[test]
    fn the_search_begins_where_it_is_told_to() {
        let slots = Slots::<4, 2, 4>::new();
        for worker in [7, 8, 9, 10] {
            slots.enter(usize::MAX, worker, nobody_is_gone).unwrap();
        }
        for place in [0, 1, 3] {
            slots.offer(place, KIND, &KEY, &[place as u8], nobody_is_gone).unwrap();
        }
        let claim = |first| {
            let seeker = Seeker { worker: 9, place: 2, first };
            let mut claimed = slots.claim(seeker, KIND, 1, |_, _| Choice::Accept(()));
            claimed.jobs.pop().map(|(claim, (), input)| (claim.place(), input))
        };
        assert_eq!(claim(1), Some((1, vec![1])));
        assert_eq!(claim(1), Some((3, vec![3])), "its own place is left out");
        assert_eq!(claim(1), Some((0, vec![0])));
        assert_eq!(claim(1), None);
    }

    #[test]
    fn a_slot_whose_job_was_taken_back_waits_for_its_claimer() {
        let slots = two_workers();
        let offers = [0; 2].map(|_| slots.offer(0, KIND, &KEY, &[1], nobody_is_gone).unwrap());
        let mut claims = claim_all(&slots);
        offers.into_iter().for_each(|offer| slots.abandon(offer));
        assert!(slots.offer(0, KIND, &KEY, &[2], nobody_is_gone).is_none(), "both are out of use");
        assert_eq!(slots.finish(claims.pop().unwrap(), Some(&[5])), Finished::TooLate);
        assert!(slots.offer(0, KIND, &KEY, &[2], nobody_is_gone).is_some());
        assert!(slots.offer(0, KIND, &KEY, &[2], nobody_is_gone).is_none());
        assert!(slots.offer(0, KIND, &KEY, &[2], |worker| worker == 8).is_some());
        assert_eq!(slots.finish(claims.pop().unwrap(), Some(&[5])), Finished::TooLate);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let slots = two_workers();
        let offer = slots.offer(0, KIND, &KEY, &[1], nobody_is_gone).unwrap();
        let claimed = slots.claim(SECOND, KIND, 8, |_, _| Choice::<()>::Leave);
        assert_eq!((claimed.jobs.len(), claimed.refused), (0, 0));
        let claimed = slots.claim(SECOND, KIND, 8, |_, _| Choice::<()>::Refuse);
        assert_eq!((claimed.jobs.len(), claimed.refused), (0, 1));
        assert_eq!(slots.stage(&offer), Stage::Refused);
        slots.abandon(offer);
        let offer = slots.offer(0, KIND, &KEY, &[1], nobody_is_gone).unwrap();
        let job = &slots.places[0].jobs[offer.slot];
        job.bytes.store(u64::MAX, Ordering::Relaxed);
        let claimed = slots.claim(SECOND, KIND, 8, |_, _| Choice::Accept(()));
        assert_eq!((claimed.jobs.len(), claimed.refused), (0, 1), "a length that cannot be");
        slots.abandon(offer);
        let offer = slots.offer(0, KIND, &KEY, &[1], nobody_is_gone).unwrap();
        assert_eq!(slots.finish(claim_all(&slots).pop().unwrap(), None), Finished::Stored);
        assert_eq!(slots.stage(&offer), Stage::Refused);
    }

    #[test]
    fn states_that_cannot_be_are_nobodys_job() {
        let slots = two_workers();
        let offer = slots.offer(0, KIND, &KEY, &[1], nobody_is_gone).unwrap();
        let state = &slots.places[0].states[offer.slot];
        let opened = State(state.load(Ordering::Relaxed));
        for wrong in [u64::MAX, opened.with(FREE, 0).0, opened.opened(KIND).with(DONE, 8).0] {
            state.store(wrong, Ordering::Relaxed);
            assert_eq!(slots.stage(&offer), Stage::Refused, "{wrong:x}");
            assert_eq!(slots.open(SECOND, KIND, 8, |_| true), 0, "{wrong:x}");
        }
        state.store(u64::MAX, Ordering::Relaxed);
        slots.abandon(offer);
        assert!(slots.offer(0, KIND, &KEY, &[1], nobody_is_gone).is_some(), "it can be used again");
    }

    #[test]
    fn the_place_of_a_worker_that_is_gone_goes_to_the_next() {
        let slots = two_workers();
        assert_eq!(slots.enter(usize::MAX, 9, nobody_is_gone), Some(2));
        assert_eq!(slots.enter(usize::MAX, 10, nobody_is_gone), None);
        let _offers = [0; 2].map(|_| slots.offer(0, KIND, &KEY, &[1], nobody_is_gone).unwrap());
        let claim = claim_all(&slots).pop().unwrap();
        assert_eq!(slots.enter(usize::MAX, 10, |worker| worker == 7), Some(0));
        assert_eq!(slots.open(SECOND, KIND, 8, |_| true), 0, "its jobs are gone too");
        assert_eq!(slots.finish(claim, Some(&[1])), Finished::TooLate);
        slots.leave(1);
        assert_eq!(slots.enter(usize::MAX, 11, nobody_is_gone), Some(1));
    }
}
