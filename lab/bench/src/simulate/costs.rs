//! What operations cost that are done together.

use widelane_results::{Results, Row, Status};

/// The most operations of one handshake that are done at once.
pub const JOBS_MAX: usize = 8;

/// CPU time of the private-key operations of a handshake, nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// OpenSSL's, of one handshake.
    pub native: u64,
    /// Ours, of one handshake, two, three and so on at once.
    pub together: Vec<u64>,
}

impl Costs {
    /// Costs in microseconds of one run for one handshake, two, three and so on. Where several runs
    /// for fewer cost less, or OpenSSL one by one, that is what is done.
    ///
    /// # Errors
    ///
    /// A message, if costs are missing, or none at all.
    pub fn new(native_us: f64, runs_us: &[f64]) -> Result<Self, String> {
        let is_cost = |cost: &f64| cost.is_finite() && *cost > 0.0;
        if !(1..=JOBS_MAX).contains(&runs_us.len()) || !runs_us.iter().all(is_cost) {
            return Err(format!("the costs are those of 1 to {JOBS_MAX} at once, above zero"));
        }
        if !is_cost(&native_us) {
            return Err("the cost of OpenSSL's operation is above zero".to_owned());
        }
        let mut together = vec![0.0; 1 + runs_us.len()];
        for jobs in 1..=runs_us.len() {
            let divided = (1..=jobs).map(|run| together[jobs - run] + runs_us[run - 1]);
            together[jobs] = divided.fold(together[jobs - 1] + native_us, f64::min);
        }
        let ns = |us: &f64| (us * 1e3).round() as u64;
        Ok(Costs { native: ns(&native_us), together: together[1..].iter().map(ns).collect() })
    }

    /// The costs of `operations` (`rsa2048/private`, `x25519/derive`) as `widelane speed --jobs`
    /// has measured them, those of one handshake summed.
    ///
    /// # Errors
    ///
    /// A message that says what is missing.
    pub fn of_speed(results: &Results, operations: &[String]) -> Result<Self, String> {
        let mut native_us = 0.0;
        let mut runs_us = [0.0; JOBS_MAX];
        for operation in operations {
            for (run, jobs) in runs_us.iter_mut().zip(1_usize..) {
                let scenario = format!("{operation}/{jobs}-jobs");
                let of = |is: &dyn Fn(&Row) -> bool| fastest(results, &scenario, is);
                let ours = of(&|row| row.subject == "widelane");
                let openssl = of(&|row| row.subject == "openssl");
                let (Some(ours), Some(openssl)) = (ours, openssl) else {
                    return Err(format!(
                        "the results have no sound {scenario} beside OpenSSL; measure it: widelane \
                         speed {operation} --jobs 1,2,3,4,5,6,7,8 --json FILE"
                    ));
                };
                *run += 1e6 / ours * jobs as f64;
                native_us += if jobs == 1 { 1e6 / openssl } else { 0.0 };
            }
        }
        Costs::new(native_us, &runs_us)
    }
}

/// The most operations per second of a scenario, of measurements that can be relied on.
fn fastest(results: &Results, scenario: &str, is: &dyn Fn(&Row) -> bool) -> Option<f64> {
    let rows = results.rows.iter().filter(|row| {
        row.scenario == scenario
            && row.metric == "operations_per_second"
            && row.status == Status::Ok
            && is(row)
    });
    rows.filter_map(|row| row.value).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_divided_as_costs_least() {
        let costs = Costs::new(242.0, &[205.0, 385.0, 992.0, 509.0]).unwrap();
        assert_eq!(costs.native, 242_000);
        // Three cost less as one and two than as the run that was given for them.
        assert_eq!(costs.together, [205_000, 385_000, 590_000, 509_000]);
        let dear = Costs::new(100.0, &[155.0, 155.0]).unwrap();
        assert_eq!(dear.together, [100_000, 155_000]);
        assert!(Costs::new(100.0, &[]).is_err() && Costs::new(0.0, &[1.0]).is_err());
        assert!(Costs::new(100.0, &[1.0, f64::NAN]).is_err());
    }

    #[test]
    fn costs_come_from_the_best_room_of_each_operation() {
        let row = |subject: &str, operation: &str, jobs: usize, value: f64| Row {
            scenario: format!("{operation}/{jobs}-jobs"),
            subject: subject.to_owned(),
            metric: "operations_per_second".to_owned(),
            value: Some(value),
            ..Row::default()
        };
        let mut rows = Vec::new();
        for jobs in 1..=JOBS_MAX {
            for operation in ["rsa2048/private", "x25519/derive"] {
                rows.push(row("openssl", operation, jobs, 5_000.0));
                rows.push(row("widelane", operation, jobs, 1_000.0));
                rows.push(row("widelane", operation, jobs, 10_000.0 * jobs as f64));
            }
        }
        let results = Results { rows, ..Results::default() };
        let both = ["rsa2048/private", "x25519/derive"].map(str::to_owned);
        let costs = Costs::of_speed(&results, &both).unwrap();
        assert_eq!(costs, Costs { native: 400_000, together: vec![200_000; JOBS_MAX] });
        // What was rejected is no cost.
        let mut doubtful = results.clone();
        doubtful.rows.iter_mut().for_each(|row| row.status = Status::Rejected);
        assert!(Costs::of_speed(&doubtful, &both).is_err());
        let error = Costs::of_speed(&results, &["rsa3072/private".to_owned()]).unwrap_err();
        assert!(error.contains("widelane speed rsa3072/private --jobs"), "{error}");
    }
}
