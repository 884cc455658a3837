//! Transitions: how long a licence takes to be granted and to be given back.

use serde::Serialize;

use super::{Visit, every};
use crate::estimate::median;
use crate::trace::{Phase, Recording, Sample, TraceError};

/// What a recording of `transitions` proves of one subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transition {
    /// The subject.
    pub subject: String,
    /// Trials behind it.
    pub trials: usize,
    /// The clock before, in MHz.
    pub ambient_mhz: f64,
    /// The clock right after the heavy part, in MHz.
    pub after_mhz: f64,
    /// From the first heavy instruction until the pace is what it stays, in microseconds.
    pub up_us: Option<f64>,
    /// The lowest pace before that, as a share of the final one.
    pub throttled_to: f64,
    /// The longest slice of the heavy part beyond the usual one, in microseconds.
    pub halt_us: f64,
    /// From the last heavy instruction until the clock is back, in microseconds.
    pub down_us: Option<f64>,
    /// The pace of the heavy part over its final one, by microseconds.
    pub heavy: Vec<(f64, f64)>,
    /// The clock after it over the ambient one, by microseconds.
    pub light: Vec<(f64, f64)>,
}

/// A clock or pace this far from where it settles has not settled.
const SETTLED: f64 = 0.02;

/// Fewest trials that make an average.
const TRIALS_MIN: usize = 6;

impl Transition {
    /// The verdict, in a sentence.
    pub fn sentence(&self) -> String {
        let fell = 1.0 - self.after_mhz / self.ambient_mhz;
        let us = |us: Option<f64>| {
            us.map_or("longer than was looked".to_owned(), |us| format!("{us:.0} µs"))
        };
        if fell < SETTLED && self.up_us == Some(0.0) {
            return "no transition: the pace is the same from the first microsecond on, and the \
                    clock afterwards is the ambient one"
                .to_owned();
        }
        format!(
            "up in {}, at {:.2} of the pace until then; down in {}; {:.0} MHz instead of {:.0}",
            us(self.up_us),
            self.throttled_to,
            us(self.down_us),
            self.after_mhz,
            self.ambient_mhz,
        )
    }
}

/// Judges a recording of the transitions experiment: one answer per subject with enough trials.
///
/// # Errors
///
/// Where the recording lacks the rate of the time stamps.
pub fn judge(recording: &Recording) -> Result<Vec<Transition>, TraceError> {
    let tsc_hz = recording.tsc_hz()?;
    let visits = Visit::all(&recording.samples);
    let mut subjects: Vec<&str> = visits.iter().map(|visit| visit.subject).collect();
    subjects.dedup();
    let of = |subject: &&str| {
        let trials: Vec<&Visit<'_>> = visits.iter().filter(|v| v.subject == *subject).collect();
        transition(subject, &trials, tsc_hz)
    };
    Ok(subjects.iter().filter_map(of).collect())
}

fn transition(subject: &str, trials: &[&Visit<'_>], tsc_hz: f64) -> Option<Transition> {
    let clocks = |phase| {
        let clock = |visit: &&Visit<'_>| visit.clock_hz(phase, tsc_hz, every);
        median(&trials.iter().filter_map(clock).collect::<Vec<_>>())
    };
    let (ambient_hz, after_hz) = (clocks(Phase::Ambient)?, clocks(Phase::During)?);
    let paces: Vec<Trace> =
        trials.iter().filter_map(|visit| trace(visit.phase(Phase::Burst), tsc_hz)).collect();
    let recoveries: Vec<Trace> = trials
        .iter()
        .filter_map(|visit| {
            let light: Vec<&Sample> =
                [visit.phase(Phase::During), visit.phase(Phase::After)].concat();
            trace(&light, tsc_hz)
        })
        .collect();
    if paces.len() < TRIALS_MIN || recoveries.len() < TRIALS_MIN {
        return None;
    }
    // The first slice pays for code that was not in the cache.
    let heavy = relative(average(&paces)?.split_off(1), None)?;
    let light = relative(average(&recoveries)?, Some(ambient_hz))?;
    let slice = usual_slice_us(&heavy)?;
    let up_us = settles(&heavy, 1.0);
    let unsettled = heavy.iter().filter(|(us, _)| up_us.is_none_or(|up| *us < up));
    let slowest = heavy.iter().map(|(_, pace)| *pace).fold(f64::INFINITY, f64::min);
    Some(Transition {
        subject: subject.to_owned(),
        trials: paces.len(),
        ambient_mhz: ambient_hz / 1e6,
        after_mhz: after_hz / 1e6,
        up_us,
        throttled_to: unsettled.map(|(_, pace)| *pace).fold(1.0, f64::min),
        halt_us: (slice / slowest - slice).max(0.0),
        down_us: came_back(&light).and_then(|clock| settles(&light, clock)),
        heavy,
        light,
    })
}

/// How long a slice of the heavy part takes at its final pace, in microseconds.
fn usual_slice_us(heavy: &[(f64, f64)]) -> Option<f64> {
    let slices = heavy[heavy.len() * 3 / 4..].windows(2).map(|pair| pair[1].0 - pair[0].0);
    median(&slices.collect::<Vec<_>>())
}

/// Microseconds since the first window, and work per second.
type Trace = Vec<(f64, f64)>;

fn trace(samples: &[&Sample], tsc_hz: f64) -> Option<Trace> {
    let start = samples.first()?.begin;
    let point = |sample: &&Sample| {
        let us = sample.begin.saturating_sub(start) as f64 / tsc_hz * 1e6;
        (us, sample.work * tsc_hz / (sample.window().ticks() as f64).max(1.0))
    };
    Some(samples.iter().map(point).collect())
}

/// The median over trials at each position.
fn average(trials: &[Trace]) -> Option<Trace> {
    let length = trials.iter().map(Vec::len).min()?;
    (0..length)
        .map(|index| {
            let part = |part: fn(&(f64, f64)) -> f64| {
                median(&trials.iter().map(|trial| part(&trial[index])).collect::<Vec<_>>())
            };
            Some((part(|point| point.0)?, part(|point| point.1)?))
        })
        .collect()
}

/// A trace over `reference`, or over where it ends.
fn relative(trace: Trace, reference: Option<f64>) -> Option<Trace> {
    let tail: Vec<f64> = trace[trace.len() * 3 / 4..].iter().map(|(_, value)| *value).collect();
    let reference = reference.or_else(|| median(&tail))?;
    Some(trace.into_iter().map(|(us, value)| (us, value / reference)).collect())
}

/// The clock at which a trace ends, over the ambient one, if that is where it was before.
fn came_back(light: &[(f64, f64)]) -> Option<f64> {
    let last: Vec<f64> = light.iter().rev().take(3).map(|(_, clock)| *clock).collect();
    median(&last).filter(|clock| *clock >= 1.0 - SETTLED)
}

/// When a trace comes within [`SETTLED`] of `target` for good; a single point out of line does not
/// count.
fn settles(trace: &[(f64, f64)], target: f64) -> Option<f64> {
    let away = |index: usize| {
        let around = &trace[index.saturating_sub(1)..(index + 2).min(trace.len())];
        let values: Vec<f64> = around.iter().map(|(_, value)| *value).collect();
        median(&values).is_some_and(|value| (value / target - 1.0).abs() > SETTLED)
    };
    match (0..trace.len()).rfind(|&index| away(index)) {
        None => Some(0.0),
        Some(last) => trace.get(last + 1).map(|(us, _)| *us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TSC_HZ: f64 = 2e9;

    /// Twenty trials on a core that is throttled to a quarter for 15 µs, halts, then runs heavy
    /// code at 2.2 GHz and stays there for a millisecond.
    fn recording(licensed: bool) -> Recording {
        held(licensed, 10)
    }

    /// The same, with so many steps of about 82 µs until the clock is back, of 60.
    fn held(licensed: bool, steps: usize) -> Recording {
        let mut recording =
            Recording::new("transitions", vec![("tsc_hz".to_owned(), TSC_HZ.to_string())]);
        let mut ticks = 10_u64;
        for round in 0..20 {
            let mut keep = |phase, mhz: f64, work: f64, pause_us: f64| {
                let end = ticks + (work / mhz * TSC_HZ / 1e6) as u64;
                let subject = "vfmadd213pd-512".into();
                let (cpu, cores, begin) = (0, 1, ticks);
                recording.samples.push(Sample {
                    subject,
                    round,
                    phase,
                    cpu,
                    cores,
                    begin,
                    end,
                    work,
                });
                ticks = end + (pause_us * TSC_HZ / 1e6) as u64;
            };
            let heavy = if licensed { 2200.0 } else { 2900.0 };
            (0..30).for_each(|_| keep(Phase::Ambient, 2900.0, 2900.0, 0.0));
            for slice in 0..300 {
                let throttled = licensed && slice < 8;
                keep(Phase::Burst, if throttled { 0.25 * heavy } else { heavy }, 4400.0, 0.0);
            }
            (0..100).for_each(|_| keep(Phase::During, heavy, 2900.0, 0.0));
            for step in 0..60 {
                keep(Phase::After, if step < steps { heavy } else { 2900.0 }, 5800.0, 80.0);
            }
        }
        recording
    }

    #[test]
    fn throttling_and_return_are_timed() {
        let transitions = judge(&recording(true)).unwrap();
        let [transition] = transitions.as_slice() else { panic!("{transitions:?}") };
        assert!((55.0..75.0).contains(&transition.up_us.unwrap()), "{transition:?}");
        assert!((transition.throttled_to - 0.25).abs() < 0.01);
        // The usual slice takes 2 µs, and a throttled one 8.
        assert!((transition.halt_us - 6.0).abs() < 0.2, "{transition:?}");
        assert!((800.0..1200.0).contains(&transition.down_us.unwrap()), "{transition:?}");
        assert!((transition.after_mhz - 2200.0).abs() < 5.0);
        assert!(transition.sentence().contains("0.25 of the pace"), "{}", transition.sentence());
    }

    #[test]
    fn a_clock_that_never_comes_back_is_not_down_at_once() {
        let [transition] = &judge(&held(true, 60)).unwrap()[..] else { panic!() };
        assert_eq!(transition.down_us, None);
        let sentence = transition.sentence();
        assert!(sentence.contains("down in longer than was looked"), "{sentence}");
    }

    #[test]
    fn a_core_without_licences_shows_no_transition() {
        let transitions = judge(&recording(false)).unwrap();
        assert_eq!((transitions[0].up_us, transitions[0].down_us), (Some(0.0), Some(0.0)));
        assert!(transitions[0].sentence().starts_with("no transition"));
    }

    #[test]
    fn a_few_trials_make_no_answer() {
        let mut few = recording(true);
        few.samples.retain(|sample| sample.round < 4);
        assert_eq!(judge(&few).unwrap(), []);
    }
}
