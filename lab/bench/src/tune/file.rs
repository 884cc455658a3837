//! The policy file with its evidence: what is written, and what is read back to check it.

use std::fmt::Write;

use super::record::Record;
use super::verdict::{Decision, Finding, Verdict, over_extremes};
use super::workload::{Workload, WorkloadError};
use widelane_cpu::Policy;
use widelane_meter::verdict::Ratio;

/// What stands before the workload, and before each of its lines.
const WORKLOAD: (&str, &str) = ("# Workload:", "#   ");

/// The policy to use; nothing if the result is inconclusive.
pub fn policy<'a>(record: &'a Record, verdict: &Verdict) -> Option<&'a Policy> {
    let place = match verdict.decision {
        Decision::Keep { .. } => 0,
        Decision::Change { candidate, .. } => candidate,
        Decision::CannotTell { .. } => return None,
    };
    Some(&record.candidates[place].policy)
}

/// The verdict in a sentence.
pub fn sentence(record: &Record, verdict: &Verdict) -> String {
    let first = record.candidates[0].name();
    match &verdict.decision {
        Decision::Keep { .. } if record.candidates.len() == 1 => {
            format!("All policies do this work alike: {first} stays.")
        }
        Decision::Keep { resolution } if *resolution <= 0.0 => {
            format!("No policy gets as much work done as {first}, which is kept.")
        }
        Decision::Keep { resolution } => format!(
            "No policy gets more work done than {first}, which is kept. By these measurements, \
             another policy could gain {:.1} % at most.",
            100.0 * resolution
        ),
        Decision::Change { candidate, gain } => format!(
            "{} does {} times the work of {first}.",
            record.candidates[*candidate].name(),
            gain
        ),
        Decision::CannotTell { reason } => format!("The result is inconclusive: {reason}."),
    }
}

/// The text of the policy file; nothing if the result is inconclusive. What was not measured stays
/// as it was in `before`.
pub fn render(record: &Record, verdict: &Verdict, before: Option<&Policy>) -> Option<String> {
    let policy = beside(record, policy(record, verdict)?, before);
    let mut text = format!(
        "{WRITTEN}, {}; `widelane tune --check` says if it still holds.\n#\n",
        record.created
    );
    let mut line = |words: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", format!("# {words}").trim_end());
    };
    line(&sentence(record, verdict));
    for (name, gain) in over_extremes(record, verdict) {
        line(&format!("It does {gain} times the work of {name}."));
    }
    line("");
    let hypervisor = record.hypervisor.as_deref().unwrap_or("no hypervisor");
    line(&format!("{}, {hypervisor}, {} CPUs at once", record.model, record.cpus.len()));
    for (title, findings) in
        [("Work done", &verdict.survey), ("Once more, on fresh figures", &verdict.confirmation)]
    {
        if findings.is_empty() {
            continue;
        }
        line("");
        line(&format!("{title}, as a ratio to {}:", record.candidates[0].name()));
        for finding in findings {
            line(&evidence(record, finding));
        }
    }
    line("");
    let (heading, indent) = WORKLOAD;
    let _ = writeln!(text, "{heading}");
    for line in record.workload.to_toml().lines() {
        let _ = writeln!(text, "{}", format!("{indent}{line}").trim_end());
    }
    let policy = toml::to_string(&policy).expect("a policy is TOML");
    let _ = write!(text, "\n{policy}");
    Some(text)
}

/// What a file of ours begins with.
const WRITTEN: &str = "# Written by `widelane tune`";

/// Whether all comments of a policy file are ours, which stand at its beginning.
pub fn is_ours(text: &str) -> bool {
    let mut behind = text.lines().skip_while(|line| line.starts_with('#'));
    text.starts_with(WRITTEN) && behind.all(|line| !line.contains('#'))
}

/// The policy with the other settings of the former file: how long operations wait, which user
/// executes them, and lane CPUs where none were tried.
fn beside(record: &Record, measured: &Policy, before: Option<&Policy>) -> Policy {
    let Policy { width_max, classes_closed, rooms_closed, lane_cpus, lane_process, .. } = measured;
    let Some(before) = before else { return measured.clone() };
    let mut policy = Policy {
        width_max: *width_max,
        classes_closed: classes_closed.clone(),
        rooms_closed: rooms_closed.clone(),
        ..before.clone()
    };
    if record.candidates.iter().any(|candidate| candidate.policy.lane_cpus.is_some()) {
        policy =
            Policy { lane_cpus: lane_cpus.clone(), lane_process: lane_process.clone(), ..policy };
    }
    policy
}

/// A finding as a line.
fn evidence(record: &Record, finding: &Finding) -> String {
    let Finding { candidate, gain, quiet, taken, clock_mhz } = finding;
    let gain = gain.as_ref().map_or("too few quiet rounds".to_owned(), Ratio::to_string);
    let clock = clock_mhz.map_or(String::new(), |mhz| format!(", {mhz:.0} MHz"));
    let names = record.candidates[*candidate].names.join(", ");
    format!("  {gain}{clock}, {quiet} of {taken} rounds: {names}")
}

/// The workload that a policy file was written for; nothing where it does not say.
///
/// # Errors
///
/// If what it says is invalid.
pub fn workload(text: &str) -> Result<Option<Workload>, WorkloadError> {
    let (heading, indent) = WORKLOAD;
    let mut lines = text.lines().skip_while(|line| *line != heading);
    if lines.next().is_none() {
        return Ok(None);
    }
    let own: Vec<&str> =
        lines.map_while(|line| line.strip_prefix(indent).or((line == "#").then_some(""))).collect();
    Workload::parse(&own.join("\n")).map(Some)
}

#[cfg(test)]
mod tests {
    use widelane_cpu::Width;
    use widelane_cpu::policy::{self, LaneCpus, WaitMax};

    use super::super::candidate::Candidate;
    use super::super::verdict::judge;
    use super::*;

    fn record() -> Record {
        let candidate = |name: &str, policy| Candidate {
            names: vec![name.to_owned()],
            policy,
            rooms: Vec::new(),
        };
        Record {
            created: "2026-01-01T00:00:00Z".to_owned(),
            model: "a CPU".to_owned(),
            hypervisor: Some("kvm".to_owned()),
            cpus: vec![0, 1],
            cpus_online: None,
            workload: Workload::named("bulk-mixed").unwrap(),
            costs_us: vec![1.0; 2],
            candidates: vec![
                candidate("default", Policy::up_to(Width::W256)),
                candidate("always-512", Policy::open()),
            ],
            slices: Vec::new(),
        }
    }

    fn finding(value: f64) -> Finding {
        let gain = Some(Ratio { value, low: value - 0.01, high: value + 0.01 });
        Finding { candidate: 1, gain, quiet: 29, taken: 30, clock_mhz: Some(2400.0) }
    }

    #[test]
    fn a_file_is_a_policy_and_holds_its_workload() {
        let record = record();
        let keep = Verdict {
            decision: Decision::Keep { resolution: 0.012 },
            survey: vec![finding(1.002)],
            confirmation: Vec::new(),
        };
        let change = Verdict {
            decision: Decision::Change { candidate: 1, gain: finding(1.05).gain.unwrap() },
            survey: vec![finding(1.06)],
            confirmation: vec![finding(1.05)],
        };
        for (verdict, width, words) in [
            (keep, Width::W256, "No policy gets more work done than default, which is kept."),
            (change, Width::W512, "always-512 does 1.050 (1.040 to 1.060) times the work of"),
        ] {
            let before = Policy {
                wait_max: Some(WaitMax::NONE),
                lane_user: "widelane".parse().ok(),
                lane_cpus: "3".parse().ok(),
                ..Policy::up_to(Width::W128)
            };
            let text = render(&record, &verdict, Some(&before)).unwrap();
            let policy = policy::parse("policy.toml".as_ref(), &text).unwrap();
            let expected = Policy { width_max: width, ..before };
            assert_eq!(policy, expected, "{text}");
            assert_eq!(workload(&text).unwrap(), Some(record.workload.clone()), "{text}");
            assert!(text.contains(words) && text.contains("2400 MHz, 29 of 30 rounds"), "{text}");
        }
    }

    #[test]
    fn lane_cpus_that_were_tried_are_written_or_go() {
        let mut record = record();
        let cpus: LaneCpus = "1".parse().unwrap();
        let lane_process = Some(Box::new(Policy::open()));
        record.candidates[1].policy =
            Policy { lane_cpus: Some(cpus.clone()), lane_process, ..Policy::up_to(Width::W256) };
        let before = Policy { lane_cpus: "3".parse().ok(), ..Policy::open() };
        for (decision, lane_cpus) in [
            (Decision::Change { candidate: 1, gain: finding(1.05).gain.unwrap() }, Some(cpus)),
            (Decision::Keep { resolution: 0.01 }, None),
        ] {
            let verdict = Verdict { decision, ..judge(&record) };
            let text = render(&record, &verdict, Some(&before)).unwrap();
            let policy = policy::parse("policy.toml".as_ref(), &text).unwrap();
            assert_eq!(policy.lane_cpus, lane_cpus, "{text}");
            assert_eq!(policy.lane_process.is_some(), lane_cpus.is_some(), "{text}");
        }
    }

    #[test]
    fn nothing_is_written_of_what_cannot_be_told() {
        let record = record();
        let verdict = judge(&record);
        assert!(matches!(verdict.decision, Decision::Keep { .. }), "nothing was tried");
        let decision = Decision::CannotTell { reason: "noise".to_owned() };
        assert_eq!(render(&record, &Verdict { decision, ..verdict }, None), None);
    }

    #[test]
    fn files_of_other_origin_hold_no_workload() {
        assert_eq!(workload("width_max = 256\n").unwrap(), None);
        assert!(workload("# Workload:\n#   name = \"w\"\n#   work = 3\n").is_err());
    }
}
