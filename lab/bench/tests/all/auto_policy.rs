//! A process that chooses among policies while it runs (`widelane run --policy auto`), replayed on
//! what `tune` recorded and on CPUs that the model knows.

use std::fs;

use serde_json::Value;
use widelane_cpu::policy::trial::{Cause, Slice, Trial};
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

/// What the meter recorded the clock of: the widest instructions that each of these policies has in
/// work with multiplications.
const METERED: [&str; 4] = ["vpmadd52luq-512", "vpaddd-512", "vpmadd52luq-256", "vpaddd-512"];

/// The load of a simulated service: what it gets done in a second, in seconds of CPU time.
const RATE: f64 = 0.3;

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

    /// By what part others take longer beside a policy, as its clock is lower than the best one.
    fn slowdown(&self, policy: usize) -> f64 {
        let fastest = self.clocks_mhz.iter().flatten().copied().fold(0.0, f64::max);
        self.clocks_mhz[policy].map_or(0.0, |own| fastest / own - 1.0)
    }

    /// The policy that costs least, and what that is, with what others lose who use such a share of
    /// the CPU.
    fn best_beside(&self, others: f64) -> (usize, f64) {
        let cost = |policy| self.costs[policy] + others / RATE * self.slowdown(policy);
        let costs = (0..self.costs.len()).map(|policy| (policy, cost(policy)));
        costs.min_by(|(_, one), (_, other)| one.total_cmp(other)).unwrap()
    }

    fn best(&self) -> f64 {
        self.best_beside(0.0).1
    }
}

/// The mixtures with multiplications that `tune` recorded on a machine, with the clocks that the
/// meter recorded there: they fall with 512-bit multiplications.
fn with_falling_clock(machine: &str) -> Vec<Mixture> {
    let records = format!("{}/../../records/{machine}", env!("CARGO_MANIFEST_DIR"));
    let files = fs::read_dir(records).unwrap().map(|file| file.unwrap().path());
    let mut maps = files.filter(|path| path.to_string_lossy().ends_with("-power-map.json"));
    let map: Value =
        serde_json::from_str(&fs::read_to_string(maps.next().unwrap()).unwrap()).unwrap();
    let rows = map["rows"].as_array().unwrap();
    let clock = |instruction: &&str| {
        let is_it = |row: &&Value| row["subject"] == *instruction && row["metric"] == "clock";
        rows.iter().find(is_it).and_then(|row| row["value"].as_f64())
    };
    let clocks_mhz: Vec<_> = METERED.iter().map(clock).collect();
    let multiplies = |mixture: &Mixture| {
        let kinds = ["handshakes", "bulk-mixed", "chacha20", "x25519"];
        kinds.iter().any(|kind| mixture.name.contains(kind))
    };
    let mixtures = recorded(machine).into_iter().filter(multiplies);
    mixtures.map(|mixture| Mixture { clocks_mhz: clocks_mhz.clone(), ..mixture }).collect()
}

/// A process under `auto`, on its way through simulated time.
struct Process {
    trial: Trial,
    random: u64,
    /// The share of its CPU that others use.
    others: f64,
    cpu_ns: f64,
    /// What others lost by its clock.
    lost_ns: f64,
    work_ns: f64,
}

impl Process {
    fn new(policies: usize) -> Self {
        Process::beside(0.0, policies)
    }

    fn beside(others: f64, policies: usize) -> Self {
        let trial = Trial::new(policies);
        Process { trial, random: 0x5eed, others, cpu_ns: 0.0, lost_ns: 0.0, work_ns: 0.0 }
    }

    /// About 0, and seldom further from it than 1.
    fn vary(&mut self) -> f64 {
        let mut uniform = || {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.random >> 11) as f64 / (1_u64 << 53) as f64
        };
        (uniform() + uniform() + uniform() + uniform()) - 2.0
    }

    /// Does what it is asked for some seconds.
    fn serve(&mut self, mixture: &Mixture, seconds: f64) {
        let mut left_ns = seconds * 1e9;
        while left_ns > 0.0 {
            let policy = self.trial.current();
            let wall_ns = if self.trial.is_comparing() { 0.1e9 } else { 0.5e9 };
            let work_ns = wall_ns * RATE * (1.0 + NOISE * self.vary());
            let cpu_ns = work_ns * mixture.costs[policy] * (1.0 + NOISE * self.vary());
            let others_ns = wall_ns * self.others;
            let clock_mhz = mixture.clocks_mhz[policy];
            self.trial.take(Slice { wall_ns, cpu_ns, work_ns, others_ns, clock_mhz });
            self.cpu_ns += cpu_ns;
            self.lost_ns += others_ns * mixture.slowdown(policy);
            self.work_ns += work_ns;
            left_ns -= wall_ns;
        }
    }

    fn cost(&self) -> f64 {
        (self.cpu_ns + self.lost_ns) / self.work_ns
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
        process.serve(&mixture, 900.0);
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
            process.serve(&minutes[minute % 2], 60.0);
        }
        let fixed: Vec<f64> = (0..minutes[0].costs.len())
            .map(|policy| minutes.iter().map(|minute| minute.costs[policy]).sum::<f64>() / 2.0)
            .collect();
        eprintln!("{cpu}: {:.4}, fixed {fixed:.4?}", process.cost());
        assert!(fixed.iter().all(|fixed| process.cost() < *fixed), "{cpu}: {fixed:?}");
    }
}

#[test]
fn auto_weighs_what_others_lose_where_the_clock_falls() {
    let mut changes = 0;
    for mixture in MACHINES.iter().flat_map(|machine| with_falling_clock(machine)) {
        let (alone, _) = mixture.best_beside(0.0);
        for others in [0.0, 0.3, 0.6] {
            let (policy, best) = mixture.best_beside(others);
            let mut process = Process::beside(others, mixture.costs.len());
            process.serve(&mixture, 900.0);
            let over = process.cost() / best;
            eprintln!("{:<80} beside {others} {over:.4}", mixture.name);
            assert!(over < 1.01, "{over:.4} of the best beside {others}: {mixture:?}");
            changes += u32::from(policy != alone);
        }
    }
    assert!(changes >= 3, "beside others the same policies are the best: {changes}");
}

#[test]
fn a_clock_that_begins_to_fall_is_noticed() {
    let mixtures = MACHINES.iter().flat_map(|machine| with_falling_clock(machine));
    let is_changed = |mixture: &Mixture| {
        let (narrow, _) = mixture.best_beside(0.6);
        mixture.best_beside(0.0).0 == 0 && mixture.costs[narrow] > 1.03 * mixture.costs[0]
    };
    let mut found = 0;
    for falling in mixtures.filter(is_changed) {
        // As long as few cores are busy the clock is the same for all.
        let clocks_mhz = vec![falling.clocks_mhz[1]; falling.costs.len()];
        let level = Mixture { clocks_mhz, ..falling.clone() };
        let mut process = Process::beside(0.6, falling.costs.len());
        process.serve(&level, 200.0);
        assert_eq!((process.trial.current(), process.trial.comparisons()), (0, 1), "{falling:?}");
        process.serve(&falling, 90.0);
        assert_eq!(process.trial.cause(), Cause::Clock, "{falling:?}");
        let best = falling.best_beside(0.6).0;
        let costs = [process.trial.current(), best].map(|policy| falling.costs[policy]);
        assert!(process.trial.current() != 0 && costs[0] <= costs[1] * 1.01, "{falling:?}");
        found += 1;
    }
    assert!(found >= 2, "{found}");
}
