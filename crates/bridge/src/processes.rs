//! The names of the processes that the provider starts.

use core::ffi::CStr;

/// Makes the signatures of all workers of a service, on CPUs set aside.
pub const LANE_PROCESS: &CStr = c"widelane-lanes";

/// Starts that one, again if it has ended, and ends it with the service. It has no counters.
pub const SUPERVISOR: &CStr = c"widelane-watch";
