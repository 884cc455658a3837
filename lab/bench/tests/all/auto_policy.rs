//! A process that chooses among policies while it runs (`widelane run --policy auto`), replayed on
//! what `tune` recorded and on CPUs that the model knows.

use std::fs;

use serde_json::Value;
use widelane_cpu::policy::trial::{Slice, Trial};
use widelane_meter::model::{Choice, Table, Workload, predict};

/// What a service costs under each policy on a CPU.
#[derive(Clone, Debug)]
struct Mixture {
    name: String,
    /// CPU time for the same work.
    costs: Vec<f64>,
    clocks_mhz: Vec<Option<f64>>,
}

/// The policies that `tune` recorded, by the names that they have there.
const RECORDED: [&str; 4] = ["always-512", "light-512", "never-512", "light-only"];

/// How much slices of the same load differ: as turns of `tune` did on a busy virtual machine.
const NOISE: f64 = 0.06;

/// Every mixture that `tune` recorded on a machine.
fn recorded(machine: &str) -> Vec<Mixture> {
    let records = format!("{}/../../records/{machine}", env!("CARGO_MANIFEST_DIR"));
    let files = fs::read_dir(records).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.to_string_lossy().contains("-tune-")).collect();
    files.sort();
    let read = |path| serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    files.iter().map(|path| Mixture::of_record(&path.to_string_lossy(), &read(path))).collect()
}

impl Mixture {
    fn of_record(name: &str, record: &Value) -> Self {
        let rows = record["rows"].as_array().unwrap();
        let figure = |policy: &str, metric: &str| {
            let is_it = |row: &&Value| {
                let names = row["subject"].as_str().unwrap().split(", ");
                row["metric"] == metric && names.into_iter().any(|name| name == policy)
            };
            rows.iter().find(is_it).and_then(|row| row["value"].as_f64())
        };
        // Where policies chose the same rooms, they are recorded as one.
        let cost = |policy: &&str| 1.0 / figure(policy, "work_done").unwrap();
        Mixture {
            name: name.to_owned(),
            costs: RECORDED.iter().map(cost).collect(),
            clocks_mhz: RECORDED.iter().map(|policy| figure(policy, "clock")).collect(),
        }
    }

    /// Handshakes with RSA-2048 among other requests, by the model of a CPU: under policies that
    /// allow 512 bits, 256 bits, and OpenSSL's code only.
    fn modelled(cpu: &str, kernel_share: f64) -> Self {
        let (table, handshakes) = (Table::shipped().unwrap(), Workload::handshakes().unwrap());
        let workload = Workload { kernel_share, ..handshakes };
        let predicted = |choice: &Choice| {
            let core = table.core(cpu, workload.cores, choice.level().unwrap(), None).unwrap();
            predict(&workload, choice, &core).unwrap()
        };
        let all: Vec<_> = workload.choices.iter().rev().map(predicted).collect();
        Mixture {
            name: format!("{cpu}, {kernel_share} handshakes"),
            costs: all.iter().map(|it| 1e4 / it.requests_per_second).collect(),
            clocks_mhz: all.iter().map(|it| Some(it.clock_mhz)).collect(),
        }
    }

    fn best(&self) -> f64 {
        self.costs.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// A process under `auto`, on its way through simulated time.
struct Process {
    trial: Trial,
    random: u64,
    cpu_ns: f64,
    work_ns: f64,
}

impl Process {
    fn new(policies: usize) -> Self {
        Process { trial: Trial::new(policies), random: 0x5eed, cpu_ns: 0.0, work_ns: 0.0 }
    }

    /// About 0, and seldom further from it than 1.
    fn vary(&mut self) -> f64 {
        let mut uniform = || {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.random >> 11) as f64 / (1_u64 << 53) as f64
        };
        (uniform() + uniform() + uniform() + uniform()) - 2.0
    }

    /// Does so much work per second of a CPU for some seconds.
    fn serve(&mut self, mixture: &Mixture, rate: f64, seconds: f64) {
        let mut left_ns = seconds * 1e9;
        while left_ns > 0.0 {
            let policy = self.trial.current();
            let wall_ns = if self.trial.is_comparing() { 0.1e9 } else { 0.5e9 };
            let work_ns = wall_ns * rate * (1.0 + NOISE * self.vary());
            let cpu_ns = work_ns * mixture.costs[policy] * (1.0 + NOISE * self.vary());
            let clock_mhz = mixture.clocks_mhz[policy];
            self.trial.take(Slice { wall_ns, cpu_ns, work_ns, others_ns: 0.0, clock_mhz });
            self.cpu_ns += cpu_ns;
            self.work_ns += work_ns;
            left_ns -= wall_ns;
        }
    }

    fn cost(&self) -> f64 {
        self.cpu_ns / self.work_ns
    }
}

const MACHINES: [&str; 2] = ["xeon-granite-rapids-2vcpu", "xeon-emerald-rapids-2vcpu"];

/// CPUs whose clock falls with width, and whose limits are published.
const MODELLED: [&str; 4] =
    ["Xeon Platinum 8280", "Xeon Gold 6230N", "Xeon Gold 6338N", "Xeon Platinum 8380"];

/// Those where another policy is the best if one request in ten is a handshake than if all are.
const DIVIDED: [&str; 2] = ["Xeon Gold 6230N", "Xeon Platinum 8380"];

#[test]
fn auto_costs_what_the_best_policy_does_on_every_mixture() {
    let recorded = MACHINES.iter().flat_map(|machine| recorded(machine));
    let modelled = MODELLED
        .iter()
        .flat_map(|cpu| [1.0, 0.3, 0.1, 0.01].map(|share| Mixture::modelled(cpu, share)));
    let mixtures: Vec<_> = recorded.chain(modelled).collect();
    assert!(mixtures.len() > 20, "{}", mixtures.len());
    for mixture in mixtures {
        let mut process = Process::new(mixture.costs.len());
        process.serve(&mixture, 0.3, 900.0);
        let over = process.cost() / mixture.best();
        eprintln!("{:<80} {over:.4} {:?}", mixture.name, mixture.costs);
        assert!(over < 1.01, "{over:.4} of the best: {mixture:?}");
    }
}

#[test]
fn auto_is_ahead_of_every_fixed_policy_on_a_day_that_changes() {
    for cpu in DIVIDED {
        let minutes = [1.0, 0.1].map(|share| Mixture::modelled(cpu, share));
        let mut process = Process::new(minutes[0].costs.len());
        for minute in 0..60 {
            process.serve(&minutes[minute % 2], 0.3, 60.0);
        }
        let fixed: Vec<f64> = (0..minutes[0].costs.len())
            .map(|policy| minutes.iter().map(|minute| minute.costs[policy]).sum::<f64>() / 2.0)
            .collect();
        eprintln!("{cpu}: {:.4}, fixed {fixed:.4?}", process.cost());
        assert!(fixed.iter().all(|fixed| process.cost() < *fixed), "{cpu}: {fixed:?}");
    }
}
