//! What lane CPUs would do for a workload: one core makes all calls of the kernel, the others none.

use serde::Serialize;

use super::{Choice, Core, ModelError, Workload};

/// What comes of a choice if one of the cores does nothing but call the kernel, for all others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Apart {
    /// The clock of the cores that do scalar work only, in MHz.
    pub workers_mhz: f64,
    /// The clock of the core that calls the kernel, in MHz.
    pub lane_mhz: f64,
    /// The share of its time that this one is busy.
    pub lane_share: f64,
    /// Requests per second of all cores.
    pub requests_per_second: f64,
}

/// Predicts one choice of a workload with one of its cores set aside; nothing where there is but
/// one. What it costs to hand a call over is left out, so this is the most that can be had.
///
/// # Errors
///
/// Where the class of the choice is none.
pub fn predict_apart(
    workload: &Workload,
    choice: &Choice,
    core: &Core,
) -> Result<Option<Apart>, ModelError> {
    if workload.cores < 2 {
        return Ok(None);
    }
    let (workers_mhz, lane_mhz) = (core.mhz[0], core.mhz[choice.level()?]);
    let workers = f64::from(workload.cores - 1);
    let scalar = workers * workers_mhz * 1e6 / workload.scalar_cycles;
    let calls_per_request = choice.cycles * workload.kernel_share;
    let by_lane =
        if calls_per_request > 0.0 { lane_mhz * 1e6 / calls_per_request } else { f64::INFINITY };
    let requests_per_second = scalar.min(by_lane);
    Ok(Some(Apart {
        workers_mhz,
        lane_mhz,
        lane_share: requests_per_second / by_lane,
        requests_per_second,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predicted(cores: u32, kernel_share: f64) -> Option<Apart> {
        let workload = Workload { cores, kernel_share, ..Workload::handshakes().unwrap() };
        let core = Core {
            mhz: [3_000.0, 2_800.0, 2_400.0],
            halt_us: 15.0,
            grant_us: 0.0,
            hold_us: 2_000.0,
            base_mhz: None,
        };
        let wide = workload.choices.iter().find(|choice| choice.name == "ifma512").unwrap();
        predict_apart(&workload, wide, &core).unwrap()
    }

    #[test]
    fn workers_keep_their_clock_until_the_lane_core_is_full() {
        let some = predicted(4, 0.5).unwrap();
        assert_eq!((some.workers_mhz, some.lane_mhz), (3_000.0, 2_400.0));
        let scalar = 3.0 * 3e9 / 650_000.0;
        assert!((some.requests_per_second / scalar - 1.0).abs() < 1e-9 && some.lane_share < 0.7);
        let many = predicted(12, 1.0).unwrap();
        assert!((many.lane_share - 1.0).abs() < 1e-9, "{many:?}");
        assert!((many.requests_per_second / (2.4e9 / 233_000.0) - 1.0).abs() < 1e-9, "{many:?}");
    }

    #[test]
    fn one_core_cannot_be_set_aside_and_no_call_costs_nothing() {
        assert_eq!(predicted(1, 1.0), None);
        assert_eq!(predicted(2, 0.0).unwrap().lane_share, 0.0);
    }
}
