//! Perf events: cycles over time, and the licence residencies of the CPUs that count them.

use std::io;

use perf_event::events::{Hardware, Raw};
use perf_event::{Builder, Counter};
use serde::Serialize;
use widelane_cpu::Machine;
use widelane_cpu::machine::Signature;

use super::Unavailable;
use crate::chain::Chain;
use crate::time_stamps::raw_ns;

/// Cycles counted by the performance unit over the raw monotonic clock.
pub fn clock_hz(_: &Machine, _: usize) -> Result<f64, Unavailable> {
    let mut counter =
        Builder::new(Hardware::CPU_CYCLES).build().map_err(|error| no_counter(&error))?;
    counter.enable().map_err(|error| no_counter(&error))?;
    let mut best: Option<f64> = None;
    // Off the CPU no cycles are counted: of several spans the fastest was left alone.
    for _ in 0..20 {
        let (cycles, began) = (counter.read(), raw_ns());
        for _ in 0..100 {
            Chain::Multiplication.window(150);
        }
        let (cycles_then, ended) = (counter.read(), raw_ns());
        let cycles = cycles_then.and_then(|then| Ok(then - cycles?));
        let cycles = cycles.map_err(|error| no_counter(&error))?;
        let hz = cycles as f64 / (ended - began).max(1) as f64 * 1e9;
        best = Some(best.map_or(hz, |best| best.max(hz)));
    }
    best.filter(|hz| *hz > 1e8).ok_or_else(|| {
        Unavailable(
            "the counter stands still: the hypervisor does not run it, or it does not count \
             on this CPU, as of two kinds of cores"
                .to_owned(),
        )
    })
}

/// Shares of the cycles under each turbo licence, as Skylake-SP to Ice Lake-SP count them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Residency {
    /// Share under the limits for scalar and light code.
    pub level0: f64,
    /// Share under the limits for heavy 256-bit and light 512-bit code.
    pub level1: f64,
    /// Share under the limits for heavy 512-bit code.
    pub level2: f64,
}

/// The three counters `CORE_POWER.LVL0/1/2_TURBO_LICENSE` of one CPU or thread.
pub struct LicenceCounters {
    counters: [Counter; 3],
    before: [u64; 3],
}

/// Event 0x28 with umasks 0x07, 0x18 and 0x20.
const LICENCE_EVENTS: [u64; 3] = [0x0728, 0x1828, 0x2028];

/// Family and models whose manuals define the events: Skylake-SP to Cooper Lake, Ice Lake-SP and D.
const LICENCE_MODELS: [(u32, u32); 3] = [(6, 85), (6, 106), (6, 108)];

impl LicenceCounters {
    /// Opens the counters for this thread.
    ///
    /// # Errors
    ///
    /// Where the CPU does not define the events, or the kernel does not give them.
    pub fn open(signature: &Signature) -> Result<Self, Unavailable> {
        defined(signature)?;
        let open = |event: u64| -> io::Result<Counter> {
            let mut counter = Builder::new(Raw::new(event)).build()?;
            counter.enable()?;
            Ok(counter)
        };
        let [first, second, third] = LICENCE_EVENTS.map(open);
        let all = || -> io::Result<[Counter; 3]> { Ok([first?, second?, third?]) };
        let counters = all().map_err(|error| no_counter(&error))?;
        Ok(LicenceCounters { counters, before: [0; 3] })
    }

    /// The residencies since the last call.
    ///
    /// # Errors
    ///
    /// Where nothing was counted meanwhile.
    pub fn residency(&mut self) -> Result<Residency, Unavailable> {
        let mut now = [0; 3];
        for (now, counter) in now.iter_mut().zip(&mut self.counters) {
            *now = counter.read().map_err(|error| no_counter(&error))?;
        }
        let spent: [u64; 3] = std::array::from_fn(|level| now[level] - self.before[level]);
        self.before = now;
        residency(spent)
    }
}

fn residency(spent: [u64; 3]) -> Result<Residency, Unavailable> {
    let all = spent.iter().sum::<u64>() as f64;
    if all == 0.0 {
        return Err(Unavailable("the licence counters stand still".to_owned()));
    }
    let [level0, level1, level2] = spent.map(|cycles| cycles as f64 / all);
    Ok(Residency { level0, level1, level2 })
}

fn defined(signature: &Signature) -> Result<(), Unavailable> {
    let is_intel = signature.vendor == "GenuineIntel";
    if is_intel && LICENCE_MODELS.contains(&(signature.family, signature.model_number)) {
        return Ok(());
    }
    Err(Unavailable(if is_intel {
        "only Skylake-SP to Ice Lake-SP document their licence counters".to_owned()
    } else {
        format!("{} has no licences to count", signature.vendor)
    }))
}

fn no_counter(error: &io::Error) -> Unavailable {
    Unavailable(match error.kind() {
        io::ErrorKind::NotFound => {
            "the CPU shows no performance unit; a hypervisor usually hides it".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "the kernel forbids it; set kernel.perf_event_paranoid to 2 or less".to_owned()
        }
        _ => format!("the kernel gives no counter ({error})"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(vendor: &str, model_number: u32) -> Signature {
        Signature { vendor: vendor.to_owned(), family: 6, model_number, stepping: 0 }
    }

    #[test]
    fn only_documented_counters_are_trusted() {
        for model in [85, 106, 108] {
            assert_eq!(defined(&signature("GenuineIntel", model)), Ok(()));
        }
        let sapphire_rapids = defined(&signature("GenuineIntel", 143)).unwrap_err();
        assert!(sapphire_rapids.to_string().contains("document"), "{sapphire_rapids}");
        let amd = defined(&signature("AuthenticAMD", 85)).unwrap_err();
        assert!(amd.to_string().contains("no licences"), "{amd}");
    }

    #[test]
    fn shares_add_up_and_silence_is_no_zero() {
        let shares = residency([24, 0, 76]).unwrap();
        assert_eq!((shares.level0, shares.level1, shares.level2), (0.24, 0.0, 0.76));
        assert!(residency([0; 3]).is_err());
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let reason = |kind| no_counter(&io::Error::from(kind)).to_string();
        assert!(reason(io::ErrorKind::PermissionDenied).contains("perf_event_paranoid"));
        assert!(reason(io::ErrorKind::NotFound).contains("hypervisor"));
    }
}
