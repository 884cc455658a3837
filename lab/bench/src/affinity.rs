//! Keeps threads and processes on CPUs.

use nix::Result;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// The set of these CPUs; none where there are none to keep to.
pub(crate) fn set(cpus: &[usize]) -> Result<Option<CpuSet>> {
    let mut set = CpuSet::new();
    cpus.iter().try_for_each(|cpu| set.set(*cpu))?;
    Ok((!cpus.is_empty()).then_some(set))
}

/// Keeps the calling thread on these CPUs, if there are any.
pub(crate) fn pin(cpus: &[usize]) -> Result<()> {
    set(cpus)?.map_or(Ok(()), |set| sched_setaffinity(Pid::from_raw(0), &set))
}
