//! The software meter: a chain against the time-stamp counter, after it has checked itself.

use serde::Serialize;
use thiserror::Error;
use widelane_cpu::Machine;

use crate::chain::{self, Chain, time_stamp};
use crate::estimate::{self, Estimate, Refusal, mean, median};
use crate::interference::{Interference, Marks};
use crate::place;
use crate::time_stamps::{TimeStampFault, TimeStamps, is_within};
use crate::trace::Window;

/// A meter that has checked itself on this CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meter {
    chain: Chain,
    stamps: TimeStamps,
    /// Cycles of a window beyond its chain: two readings of the counter and the loop's end.
    overhead_cycles: f64,
    self_check: SelfCheck,
}

/// What the self-check found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SelfCheck {
    /// Cycles of a multiplication over those of an addition: 3.00 where the core is ours alone,
    /// less where another thread takes an adder away from us.
    pub ratio: f64,
}

impl SelfCheck {
    /// Whether something else runs on this core, seen or unseen.
    pub fn core_is_shared(self) -> bool {
        self.ratio < CHECK_RATIO - 0.03
    }
}

/// Why there is no meter.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MeterError {
    /// The clock beneath it is unsound.
    #[error(transparent)]
    TimeStamps(#[from] TimeStampFault),
    /// The links do not take the cycles they should.
    #[error(
        "the meter's self-check failed: a multiplication takes {ratio:.2} times as long as an \
         addition; it should be 3.00, and a busy hyper-thread lowers it to 2.5 at the most; {}, so \
         no frequency is given", explain(*.ratio)
    )]
    SelfCheck {
        /// What was found instead of 3.00.
        ratio: f64,
    },
    /// There was no quiet moment to check in.
    #[error("the meter could not check itself: {0}")]
    Busy(#[from] Refusal),
}

/// What a ratio that the self-check refuses says of the CPU.
fn explain(ratio: f64) -> &'static str {
    if ratio > *CHECK_RANGE.end() {
        "this CPU takes more than three cycles to multiply, or resolves additions before it \
         executes them"
    } else {
        "this CPU resolves the multiplications before it executes them"
    }
}

/// A sample of the clock and what happened meanwhile.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The clock.
    pub estimate: Result<Estimate, Refusal>,
    /// What else happened.
    pub interference: Interference,
}

/// Turns of the short and the long windows of the self-check.
const CHECK_TURNS: (u64, u64) = (8, 72);

/// Rounds of the self-check.
const CHECK_ROUNDS: usize = 64;

/// How many times longer a multiplication takes than an addition.
const CHECK_RATIO: f64 = 3.0;

/// Core cycles of a turn of the chain.
const CYCLES_PER_TURN: f64 = chain::CYCLES_PER_TURN as f64;

/// Ratios that a sound chain can show: additions lose adders to a hyper-thread on the same core.
const CHECK_RANGE: std::ops::RangeInclusive<f64> = 2.5..=3.1;

impl Meter {
    /// Calibrates the time stamps and checks the chain, in some 20 ms.
    ///
    /// # Errors
    ///
    /// See [`MeterError`]: a meter that cannot vouch for its figures gives none.
    pub fn new(machine: &Machine) -> Result<Self, MeterError> {
        Meter::with_time_stamps(TimeStamps::calibrate(machine.tsc_khz)?)
    }

    /// Checks the chain, with time stamps already calibrated.
    ///
    /// # Errors
    ///
    /// See [`MeterError`].
    pub fn with_time_stamps(stamps: TimeStamps) -> Result<Self, MeterError> {
        Meter::with_chains(Chain::Multiplication, Chain::Addition, stamps)
    }

    /// Checks `chain` and `witness` instead of the usual two, taking a link of them for three
    /// cycles and for one, with time stamps already calibrated: for tests of the self-check.
    ///
    /// # Errors
    ///
    /// See [`MeterError`].
    pub fn with_chains(
        chain: Chain,
        witness: Chain,
        stamps: TimeStamps,
    ) -> Result<Self, MeterError> {
        // A second and a third try, since a busy moment may spoil the first.
        let tried = Meter::try_chains(chain, witness, stamps)
            .or_else(|_| Meter::try_chains(chain, witness, stamps));
        tried.or_else(|_| Meter::try_chains(chain, witness, stamps))
    }

    fn try_chains(chain: Chain, witness: Chain, stamps: TimeStamps) -> Result<Self, MeterError> {
        let round = |_| CheckRound::take(chain, witness);
        let rounds: Vec<CheckRound> = (0..CHECK_ROUNDS).map(round).collect();
        let ratio = check_ratio(&rounds)?;
        if !CHECK_RANGE.contains(&ratio) {
            return Err(MeterError::SelfCheck { ratio });
        }
        let overhead_cycles = overhead_cycles(&rounds);
        Ok(Meter { chain, stamps, overhead_cycles, self_check: SelfCheck { ratio } })
    }

    /// The time-stamp counter that the meter reads.
    pub fn stamps(&self) -> TimeStamps {
        self.stamps
    }

    /// What the self-check found.
    pub fn self_check(&self) -> SelfCheck {
        self.self_check
    }

    /// Turns of a window of about `us` microseconds at 3 GHz.
    pub fn turns(us: f64) -> u64 {
        ((us * 3000.0 / CYCLES_PER_TURN) as u64).max(1)
    }

    /// Core cycles of a window of so many turns, overhead included.
    pub fn cycles(&self, turns: u64) -> f64 {
        turns as f64 * CYCLES_PER_TURN + self.overhead_cycles
    }

    /// Takes one window.
    pub fn window(&self, turns: u64) -> Window {
        self.chain.window(turns)
    }

    /// Runs nothing but chain for `us` microseconds, so that the core forgets what was before.
    pub fn rest(&self, us: f64) {
        let (begin, ticks) = (time_stamp(), self.stamps.ticks(us));
        while is_within(begin, ticks) {
            self.chain.window(24);
        }
    }

    /// Takes `count` windows of about `window_us` microseconds one after the other, and the clock
    /// from them.
    ///
    /// # Errors
    ///
    /// See [`Refusal`].
    pub fn read(&self, count: usize, window_us: f64) -> Result<Estimate, Refusal> {
        let turns = Meter::turns(window_us);
        // The first window of a loop pays for its first visit to it.
        self.chain.window(turns);
        let windows: Vec<Window> = (0..count).map(|_| self.chain.window(turns)).collect();
        self.estimate(&windows, turns)
    }

    /// Takes `count` windows of about `window_us` microseconds as [`read`](Self::read) does, with
    /// what the kernel tells of the time that they took. To ask the kernel takes longer than some
    /// short windows, and on a machine of many CPUs as long as a millisecond.
    pub fn observe(&self, count: usize, window_us: f64) -> Reading {
        let cpu = place::here();
        let marks = Marks::now(cpu);
        let estimate = self.read(count, window_us);
        Reading { estimate, interference: marks.since(cpu) }
    }

    /// The clock in windows of so many turns.
    ///
    /// # Errors
    ///
    /// See [`Refusal`].
    pub fn estimate(&self, windows: &[Window], turns: u64) -> Result<Estimate, Refusal> {
        estimate::estimate(windows, self.cycles(turns), self.stamps.hz)
    }
}

/// The four windows of one round of the self-check, interleaved so that drift cancels.
#[derive(Clone, Copy, Debug)]
struct CheckRound {
    chain_short: Window,
    chain_long: Window,
    witness_short: Window,
    witness_long: Window,
}

impl CheckRound {
    fn take(chain: Chain, witness: Chain) -> Self {
        let (short, long) = CHECK_TURNS;
        CheckRound {
            chain_short: chain.window(short),
            witness_short: witness.window(short),
            chain_long: chain.window(long),
            witness_long: witness.window(long),
        }
    }
}

/// How many times longer a link of the chain takes than one of the witness: the overhead of a
/// window cancels in the difference of long and short ones, the counter's steps in the average.
fn check_ratio(rounds: &[CheckRound]) -> Result<f64, Refusal> {
    let average = |part: fn(&CheckRound) -> Window| -> Result<f64, Refusal> {
        let all: Vec<f64> = rounds.iter().map(|round| part(round).ticks() as f64).collect();
        let usual = median(&all).unwrap_or_default();
        let kept: Vec<f64> = all.iter().copied().filter(|ticks| *ticks <= usual * 1.3).collect();
        if usual <= 0.0 {
            return Err(Refusal::BrokenTimeStamps { broken: all.len(), taken: all.len() });
        }
        Ok(mean(&kept))
    };
    let chain = average(|round| round.chain_long)? - average(|round| round.chain_short)?;
    let witness = average(|round| round.witness_long)? - average(|round| round.witness_short)?;
    Ok(chain / witness.max(f64::MIN_POSITIVE))
}

/// Cycles of a window that are not its chain's, from windows of two lengths at the same clock.
fn overhead_cycles(rounds: &[CheckRound]) -> f64 {
    let (short, long) = CHECK_TURNS;
    let (short, long) = (short as f64 * CYCLES_PER_TURN, long as f64 * CYCLES_PER_TURN);
    let of = |round: &CheckRound| {
        let stretch = round.chain_long.ticks() as f64 / (round.chain_short.ticks() as f64).max(1.0);
        (long - stretch * short) / (stretch - 1.0).max(f64::MIN_POSITIVE)
    };
    let overheads: Vec<f64> = rounds.iter().map(of).collect();
    median(&overheads).unwrap_or_default().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps() -> TimeStamps {
        TimeStamps::calibrate(None).unwrap()
    }

    #[test]
    fn a_chain_that_rename_eliminates_is_refused() {
        let error = Meter::with_chains(Chain::Eliminated, Chain::Addition, stamps()).unwrap_err();
        let MeterError::SelfCheck { ratio } = error else { panic!("{error}") };
        assert!(ratio < 0.6, "{ratio}");
        assert!(error.to_string().contains("before it executes them, so no freq"), "{error}");
    }

    #[test]
    fn a_witness_that_rename_eliminates_is_refused() {
        let error =
            Meter::with_chains(Chain::Multiplication, Chain::Eliminated, stamps()).unwrap_err();
        assert!(matches!(error, MeterError::SelfCheck { ratio } if ratio > 5.0), "{error}");
        assert!(error.to_string().contains("more than three cycles"), "{error}");
    }

    #[test]
    fn a_sound_chain_tells_a_clock_that_a_core_can_have() {
        let meter = Meter::with_time_stamps(stamps()).unwrap();
        assert!(CHECK_RANGE.contains(&meter.self_check().ratio));
        // On a busy machine a reading may be refused, but not wrong.
        let clocks: Vec<f64> =
            (0..40).filter_map(|_| meter.read(64, 1.0).ok()).map(|estimate| estimate.hz).collect();
        assert!(!clocks.is_empty());
        assert!(clocks.iter().all(|hz| (5e8..8e9).contains(hz)), "{clocks:?}");
    }

    #[test]
    fn long_and_short_windows_tell_the_same_clock() {
        let meter = Meter::with_time_stamps(stamps()).unwrap();
        let ratio = |_| {
            let short = meter.read(32, 1.0).ok()?.hz;
            let long = meter.read(32, 5.0).ok()?.hz;
            Some(short / long)
        };
        let middle = |_| median(&(0..60).filter_map(ratio).collect::<Vec<f64>>());
        // What a window adds is there each time, and what the neighbours do is not.
        let middles: Vec<f64> = (0..5).filter_map(middle).collect();
        assert!(middles.iter().any(|middle| (middle - 1.0).abs() < 0.01), "{middles:?}");
    }

    fn round(overhead: f64, ticks_per_cycle: f64, link: f64, witness: f64) -> CheckRound {
        let window = |turns: u64, cycles: f64| {
            let ticks =
                ((turns * chain::LINKS_PER_TURN) as f64 * cycles + overhead) * ticks_per_cycle;
            Window { begin: 1000, end: 1000 + ticks as u64 }
        };
        let (short, long) = CHECK_TURNS;
        CheckRound {
            chain_short: window(short, link),
            chain_long: window(long, link),
            witness_short: window(short, witness),
            witness_long: window(long, witness),
        }
    }

    #[test]
    fn ratio_and_overhead_follow_from_two_lengths() {
        let mut rounds = vec![round(70.0, 0.8, 3.0, 1.0); 20];
        rounds[3].chain_long.end += 100_000;
        rounds[9].witness_short.end += 100_000;
        assert!((check_ratio(&rounds).unwrap() - 3.0).abs() < 0.01);
        assert!((overhead_cycles(&rounds) - 70.0).abs() < 3.0, "{}", overhead_cycles(&rounds));
        let eliminated = vec![round(70.0, 0.8, 3.0, 0.2); 20];
        assert!(check_ratio(&eliminated).unwrap() > 14.0);
    }

    #[test]
    fn a_shared_core_is_told_apart() {
        let shared = check_ratio(&vec![round(70.0, 0.8, 3.0, 1.03); 20]).unwrap();
        assert!(CHECK_RANGE.contains(&shared) && SelfCheck { ratio: shared }.core_is_shared());
        assert!(!SelfCheck { ratio: 2.99 }.core_is_shared());
    }
}
