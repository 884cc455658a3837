//! APERF over MPERF: the hardware's own average, through `/dev/cpu/N/msr`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use widelane_cpu::Machine;

use super::Unavailable;
use crate::chain::Chain;
use crate::time_stamps::TimeStamps;

const MPERF: u64 = 0xe7;
const APERF: u64 = 0xe8;

/// The ratio of the two counters of `cpu`, on which this thread is.
pub fn clock_hz(machine: &Machine, cpu: usize) -> Result<f64, Unavailable> {
    counted_hz(Path::new(&format!("/dev/cpu/{cpu}/msr")), machine.tsc_khz)
}

fn counted_hz(path: &Path, declared_khz: Option<u64>) -> Result<f64, Unavailable> {
    let file = File::open(path).map_err(|error| no_door(path, &error))?;
    // MPERF counts time stamps, whose rate not every CPU declares.
    let stamps =
        TimeStamps::calibrate(declared_khz).map_err(|fault| Unavailable(fault.to_string()))?;
    let counters = || -> io::Result<(u64, u64)> { Ok((msr(&file, APERF)?, msr(&file, MPERF)?)) };
    let refused = |error: io::Error| {
        Unavailable(format!("the CPU or its hypervisor hides APERF and MPERF ({error})"))
    };
    let before = counters().map_err(refused)?;
    for _ in 0..2000 {
        Chain::Multiplication.window(150);
    }
    let after = counters().map_err(refused)?;
    scaled_hz(before, after, stamps.hz)
}

/// One model-specific register.
fn msr(file: &File, register: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, register)?;
    Ok(u64::from_le_bytes(bytes))
}

fn scaled_hz(before: (u64, u64), after: (u64, u64), tsc_hz: f64) -> Result<f64, Unavailable> {
    let (aperf, mperf) = (after.0.wrapping_sub(before.0), after.1.wrapping_sub(before.1));
    if aperf == 0 || mperf == 0 {
        return Err(Unavailable(
            "APERF and MPERF stand still; the hypervisor fakes them".to_owned(),
        ));
    }
    Ok(aperf as f64 / mperf as f64 * tsc_hz)
}

fn no_door(path: &Path, error: &io::Error) -> Unavailable {
    Unavailable(match error.kind() {
        io::ErrorKind::NotFound => {
            format!("there is no {}; load it with `modprobe msr`", path.display())
        }
        io::ErrorKind::PermissionDenied => {
            format!("{} wants root with CAP_SYS_RAWIO", path.display())
        }
        _ => format!("{} cannot be opened: {error}", path.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_the_counters_scales_the_time_stamps() {
        assert_eq!(scaled_hz((5, 7), (1505, 1007), 2e9), Ok(3e9));
        assert!(scaled_hz((5, 7), (5, 7), 2e9).unwrap_err().to_string().contains("stand still"));
    }

    #[test]
    fn a_rate_that_the_cpu_does_not_declare_is_measured() {
        let reason = counted_hz(Path::new("/dev/zero"), None).unwrap_err().to_string();
        assert!(reason.contains("stand still"), "{reason}");
    }

    #[test]
    fn a_closed_door_says_how_to_open_it() {
        let reason =
            |kind| no_door(Path::new("/dev/cpu/0/msr"), &io::Error::from(kind)).to_string();
        assert!(reason(io::ErrorKind::NotFound).contains("modprobe msr"));
        assert!(reason(io::ErrorKind::PermissionDenied).contains("CAP_SYS_RAWIO"));
    }
}
