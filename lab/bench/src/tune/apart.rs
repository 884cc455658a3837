//! Lane CPUs: some of the CPUs make all signatures, the others do the rest of the work.

use widelane_cpu::Policy;
use widelane_cpu::policy::LaneCpus;

use super::TuneError;
use super::record::Record;

/// What a CPU does under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// All work, as there is no lane process.
    Everything,
    /// All but signatures, which it confirms.
    Worker,
    /// Signatures alone.
    LaneProcess,
}

impl Role {
    /// The role of `cpu` under `policy`.
    pub fn of(cpu: usize, policy: &Policy) -> Self {
        match lane_cpus(policy) {
            None => Role::Everything,
            Some(lanes) if lanes.cpus().contains(&cpu) => Role::LaneProcess,
            Some(_) => Role::Worker,
        }
    }
}

/// The CPUs that a policy sets aside, if it does.
pub(super) fn lane_cpus(policy: &Policy) -> Option<&LaneCpus> {
    policy.lane_cpus.as_ref().filter(|cpus| !cpus.is_none())
}

/// What CPUs with their roles get done together, where each works all the time: seconds of work, by
/// the costs given, in a second of each CPU. `shares` have the role of each CPU, and how many
/// seconds of work it does in a second; `lent` is the share of signatures in the work.
///
/// Workers are taken to have done signatures that they have confirmed. Either they or the lane
/// process, which has one thread however many CPUs are set aside, keep the others waiting.
pub(super) fn together(shares: &[(Role, f64)], lent: f64) -> f64 {
    let rates =
        |role: Role| shares.iter().filter(move |(own, _)| *own == role).map(|(_, rate)| rate);
    let [everything, workers] =
        [Role::Everything, Role::Worker].map(|role| rates(role).sum::<f64>());
    let lanes = rates(Role::LaneProcess).copied().fold(0.0, f64::max);
    (everything + workers.min(lanes / lent)) / shares.len().max(1) as f64
}

/// Makes sure that all CPUs that a candidate sets aside, or that were asked for, are there, and not
/// all that there are, and that the workload has something for them.
pub(super) fn check(record: &Record, asked: Option<&LaneCpus>, lent: f64) -> Result<(), TuneError> {
    let has = |cpu: &usize| record.cpus.contains(cpu);
    let policies = record.candidates.iter().map(|candidate| &candidate.policy);
    for lanes in policies.filter_map(lane_cpus).chain(asked) {
        if !lanes.cpus().iter().all(has) || lanes.cpus().len() >= record.cpus.len() {
            let (lanes, cpus) = (lanes.clone(), LaneCpus::new(record.cpus.iter().copied()));
            return Err(TuneError::LaneCpus { lanes, cpus });
        }
        if lent <= 0.0 {
            return Err(TuneError::NothingLent { name: record.workload.name.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::workload::Workload;
    use super::*;

    #[test]
    fn cpus_that_cannot_be_divided_so_are_refused() {
        let record = Record {
            created: String::new(),
            model: String::new(),
            hypervisor: None,
            cpus: vec![0, 1],
            cpus_online: None,
            workload: Workload::named("packets").unwrap(),
            costs_us: Vec::new(),
            candidates: Vec::new(),
            slices: Vec::new(),
        };
        let refused = |list: &str, lent| {
            let asked = list.parse().unwrap();
            check(&record, Some(&asked), lent).map_err(|error| error.to_string())
        };
        assert_eq!(refused("1", 0.3), Ok(()));
        for list in ["0-1", "7"] {
            let error = refused(list, 0.3).unwrap_err();
            assert!(error.starts_with(&format!("lane CPUs {list} cannot be tried")), "{error}");
        }
        let error = refused("1", 0.0).unwrap_err();
        assert!(error.starts_with("the workload packets has no RSA signatures"), "{error}");
    }

    #[test]
    fn whoever_is_slower_keeps_the_others_waiting() {
        let shares =
            |lane: f64| [(Role::Worker, 1.2), (Role::Worker, 1.2), (Role::LaneProcess, lane)];
        // A third of the work is signatures: the lane CPU can have done 1.5 times that, …
        assert!((together(&shares(1.2), 0.3) - 2.4 / 3.0).abs() < 1e-9);
        // … or too few of them.
        assert!((together(&shares(0.6), 0.3) - 2.0 / 3.0).abs() < 1e-9);
        let idle = [(Role::Worker, 1.2), (Role::LaneProcess, 0.3), (Role::LaneProcess, 0.3)];
        assert!((together(&idle, 0.3) - 1.0 / 3.0).abs() < 1e-9, "one of two lane CPUs works");
        let alone = [(Role::Everything, 1.0), (Role::Everything, 0.8)];
        assert!((together(&alone, 0.3) - 0.9).abs() < 1e-9);
    }

    #[test]
    fn a_cpu_has_its_role_by_the_policy() {
        let roles = |policy: &Policy| [0, 1].map(|cpu| Role::of(cpu, policy));
        let none = Policy { lane_cpus: "none".parse().ok(), ..Policy::open() };
        assert_eq!(roles(&none), [Role::Everything; 2]);
        let one = Policy { lane_cpus: "1".parse().ok(), ..Policy::open() };
        assert_eq!(roles(&one), [Role::Worker, Role::LaneProcess]);
    }
}
