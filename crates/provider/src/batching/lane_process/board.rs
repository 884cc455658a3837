//! The state that the lane process publishes to its workers, and how a worker evaluates it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use widelane_batch::Tick;

use super::serve;

/// The state that the lane process publishes to its workers, in the memory that they share. All
/// zeros: it does not run.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Board {
    /// 1 while it runs.
    runs: AtomicU32,
    /// How often it was started.
    starts: AtomicU32,
    /// Grows whenever it has finished something, or wakes.
    turns: AtomicU64,
    /// How long one of its turns takes, ns, including turns that calls begin; 0 if not known yet.
    turn_ns: AtomicU64,
    /// When it was called last while it slept.
    called: AtomicU64,
}

/// What one worker has seen of the lane process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    turns: u64,
    /// Since when it has shown no progress while there was something to do.
    since: Tick,
    /// Whether it was late, and has not moved since.
    is_late: bool,
}

/// Turns that the lane process may miss before its worker helps itself.
const TURNS_MISSED_MAX: u64 = 4;

/// The least and the most time that a worker waits for a sign of progress. The least is longer than
/// the time for which Linux lets others run on a CPU that is not quite set aside; to it comes what
/// the lane process may wait for company. The most is what holds until turns have been measured.
const PATIENCE_MIN_NS: u64 = 3_000_000;
const PATIENCE_MAX_NS: u64 = 50_000_000;

/// The longest that any signature stays with a lane process, however busy that is.
const LENT_MAX_NS: u64 = 1_000_000_000;

impl Board {
    /// The lane process begins; how often it has.
    pub(crate) fn begin(&self) -> u32 {
        let starts = self.starts.fetch_add(1, Ordering::Relaxed) + 1;
        self.turn();
        self.runs.store(1, Ordering::Release);
        starts
    }

    /// How often the lane process was started.
    pub(crate) fn starts(&self) -> u32 {
        self.starts.load(Ordering::Relaxed)
    }

    /// The lane process has ended.
    pub(crate) fn end(&self) {
        self.runs.store(0, Ordering::Release);
    }

    /// Whether the lane process runs.
    pub(crate) fn runs(&self) -> bool {
        self.runs.load(Ordering::Acquire) != 0
    }

    /// A sign of progress.
    pub(crate) fn turn(&self) {
        self.turns.fetch_add(1, Ordering::Release);
    }

    /// A turn took so long: the longest counts, and is forgotten slowly.
    pub(crate) fn took(&self, ns: u64) {
        let known = self.turn_ns.load(Ordering::Relaxed);
        self.turn_ns.store(ns.max(known - known / 16).max(1), Ordering::Relaxed);
    }

    /// A worker wakes the lane process.
    pub(crate) fn call(&self, now: Tick) {
        self.called.store(now.0, Ordering::Relaxed);
    }

    /// When that was.
    pub(crate) fn called(&self) -> Tick {
        Tick(self.called.load(Ordering::Relaxed))
    }

    fn patience_ns(&self) -> u64 {
        match self.turn_ns.load(Ordering::Relaxed) {
            0 => PATIENCE_MAX_NS,
            ns => ns
                .saturating_mul(TURNS_MISSED_MAX)
                .clamp(PATIENCE_MIN_NS + serve::limit_ns(), PATIENCE_MAX_NS),
        }
    }
}

impl Watch {
    /// The worker leaves a job with the lane process that had none of its.
    pub(crate) fn begin(&mut self, board: &Board, now: Tick) {
        self.look(board, now);
        self.since = now;
    }

    /// Whether the lane process runs, and was not late when it was last needed.
    pub(crate) fn trusts(&mut self, board: &Board, now: Tick) -> bool {
        self.look(board, now);
        board.runs() && !self.is_late
    }

    /// How long a job that was asked for at a time may stay with the lane process; 0 if it is to be
    /// taken back.
    pub(crate) fn left_ns(&mut self, board: &Board, now: Tick, asked: Tick) -> u64 {
        if !self.trusts(board, now) {
            return 0;
        }
        let left_ns = self.since.after(board.patience_ns()).since(now);
        self.is_late = left_ns == 0;
        left_ns.min(asked.after(LENT_MAX_NS).since(now))
    }

    fn look(&mut self, board: &Board, now: Tick) {
        let turns = board.turns.load(Ordering::Acquire);
        if turns != self.turns {
            *self = Watch { turns, since: now, is_late: false };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn running() -> Board {
        let board = Board::default();
        assert_eq!(board.begin(), 1);
        board
    }

    #[test]
    fn nobody_trusts_what_does_not_run() {
        let (board, mut watch) = (Board::default(), Watch::default());
        assert!(!watch.trusts(&board, Tick(5)));
        assert_eq!(watch.left_ns(&board, Tick(5), Tick(5)), 0);
        assert_eq!((board.begin(), board.runs()), (1, true));
        assert!(watch.trusts(&board, Tick(5)));
        board.end();
        assert_eq!((watch.left_ns(&board, Tick(5), Tick(5)), board.runs()), (0, false));
        assert_eq!(board.begin(), 2);
        assert!(watch.trusts(&board, Tick(6)));
    }

    #[test]
    fn who_shows_no_progress_is_given_up_until_it_moves() {
        let (board, mut watch) = (running(), Watch::default());
        let begin = Tick(1_000 * MS);
        watch.begin(&board, begin);
        assert_eq!(watch.left_ns(&board, begin, begin), PATIENCE_MAX_NS);
        let later = begin.after(49 * MS);
        assert_eq!(watch.left_ns(&board, later, begin), MS);
        assert!(watch.trusts(&board, later));
        let late = begin.after(50 * MS);
        assert_eq!(watch.left_ns(&board, late, begin), 0);
        assert!(!watch.trusts(&board, late.after(1_000 * MS)));
        board.turn();
        assert!(watch.trusts(&board, late.after(1_001 * MS)));
    }

    #[test]
    fn an_idle_time_is_not_held_against_it() {
        let (board, mut watch) = (running(), Watch::default());
        watch.begin(&board, Tick(1));
        let much_later = Tick(60_000 * MS);
        watch.begin(&board, much_later);
        assert_eq!(watch.left_ns(&board, much_later, much_later), PATIENCE_MAX_NS);
    }

    #[test]
    fn patience_follows_what_turns_take() {
        let (board, mut watch) = (running(), Watch::default());
        board.took(5 * MS);
        watch.begin(&board, Tick(0));
        assert_eq!(watch.left_ns(&board, Tick(0), Tick(0)), 20 * MS);
        for _ in 0..200 {
            board.took(MS / 10);
        }
        assert_eq!(watch.left_ns(&board, Tick(0), Tick(0)), PATIENCE_MIN_NS + serve::limit_ns());
        board.took(u64::MAX);
        assert_eq!(watch.left_ns(&board, Tick(0), Tick(0)), PATIENCE_MAX_NS);
    }

    #[test]
    fn progress_alone_does_not_keep_a_job_for_ever() {
        let (board, mut watch) = (running(), Watch::default());
        watch.begin(&board, Tick(0));
        for ms in 1..1_000 {
            board.turn();
            assert!(watch.left_ns(&board, Tick(ms * MS), Tick(0)) > 0, "{ms} ms");
        }
        board.turn();
        assert_eq!(watch.left_ns(&board, Tick(1_000 * MS), Tick(0)), 0);
        assert!(watch.trusts(&board, Tick(1_000 * MS)), "others may wait on");
    }
}
