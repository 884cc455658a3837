//! The model against what was published, and what follows from its own rules.
//!
//! Free parameters, fitted on one half of the published figures and tested on the other:
//!
//! | Parameter | Fitted on | Tested on |
//! |---|---|---|
//! | level 1 of a Xeon Silver 4116: 2184 MHz | clock at 100 % | losses at 20 and 100 % |
//! | calls at 100 %: one per 0.21 ms | loss at 10 % | losses at 20 and 100 % |
//! | none | | `openssl speed -multi 48`, scaling of ChaCha20 |
//! | fall at level 2 of Ice Lake-SP: 300 MHz | NGINX | HAProxy, WordPress |

use super::*;

fn choice(class: &str, cycles: f64) -> Choice {
    Choice { name: class.to_owned(), class: class.to_owned(), cycles, dense: true }
}

const SKYLAKE: Core = Core {
    mhz: [2400.0, 2184.0, 1400.0],
    halt_us: 15.0,
    grant_us: 0.0,
    hold_us: 2000.0,
    base_mhz: None,
};

/// Requests per second at a share of ChaCha20, over those without: Cloudflare's mixed server.
fn cloudflare(share: f64) -> (f64, f64) {
    let workload = |kernel_share| Workload {
        cores: 24,
        // One call per 0.21 ms: several TLS records make a request, so "request" here is a record.
        scalar_cycles: 0.21 * 2.4e6,
        kernel_share,
        // 2.5 % of the time at 100 %; short and thin bursts of multiplications reach level 1 only.
        choices: vec![Choice { dense: false, ..choice("512-heavy", 0.025 * 0.21 * 2.4e6) }],
    };
    let run = |share| {
        let workload = workload(share);
        predict(&workload, &workload.choices[0], &SKYLAKE).unwrap()
    };
    let (with, without) = (run(share), run(0.0));
    // AES-GCM has its own cost, which the kernel replaces: only the clock is compared.
    (with.clock_mhz, with.clock_mhz / without.clock_mhz - 1.0)
}

#[test]
fn a_little_chacha20_costs_cloudflare_most_of_what_all_of_it_does() {
    let loss = |share| -100.0 * cloudflare(share).1;
    let fitted = loss(0.10);
    assert!((fitted - 5.5).abs() < 0.5, "fitted: {fitted:.1} % at 10 %");
    assert!((loss(0.20) - 7.0).abs() < 2.5, "{:.1} % at 20 %", loss(0.20));
    assert!((loss(1.00) - 10.0).abs() < 2.5, "{:.1} % at 100 %", loss(1.0));
    let (clock, _) = cloudflare(1.0);
    assert!((clock / 2184.338 - 1.0).abs() < 0.05, "{clock:.0} MHz");
}

/// Nothing but multiplications on all cores of a Xeon Silver 4116.
fn nothing_else() -> Prediction {
    let workload = Workload {
        cores: 12,
        scalar_cycles: 1.0,
        kernel_share: 1.0,
        choices: vec![choice("512-heavy", 1e6)],
    };
    let table = Table::shipped().unwrap();
    let core = table.core("Xeon Silver 4116", workload.cores, 2, None).unwrap();
    predict(&workload, &workload.choices[0], &core).unwrap()
}

#[test]
fn power_holds_all_cores_between_base_and_limit() {
    // `openssl speed -multi 48` on both packages: limits are those of one. Nothing is fitted here.
    let published = 1199.963;
    let all = nothing_else();
    let least = all.clock_mhz_min.unwrap();
    assert!(least < published && published < all.clock_mhz, "{all:?}");
    assert!((least / published - 1.0).abs() < 0.10, "{least:.0} MHz");
    // ChaCha20-Poly1305 on 24 cores: half of 24 times the published rate of one. Cycles per byte
    // are those that OpenSSL's chacha-x86_64.pl and poly1305-x86_64.pl state for Skylake-X.
    let (one_core, cycles_per_byte) = (2.89e9, 0.57 + 0.35);
    let scaling = |mhz: f64| mhz * 1e6 / cycles_per_byte / one_core;
    assert!((scaling(least) - 0.50).abs() < 0.10, "{:.2}", scaling(least));
    assert!(scaling(least) < 0.50 && 0.50 < scaling(all.clock_mhz), "{all:?}");
}

#[test]
fn clocks_follow_from_residencies() {
    // Largest fall at level 1 is published, that at level 2 fitted on the first line.
    let servers = [
        ("NGINX", 2190.0, [23.72, 0.47, 75.81], 1960.0),
        ("HAProxy", 2890.0, [51.27, 12.01, 36.63], 2690.0),
        ("WordPress, TLS 1.2", 2930.0, [51.72, 21.11, 27.17], 2830.0),
        ("WordPress, TLS 1.3", 2930.0, [50.58, 28.35, 21.06], 2840.0),
    ];
    for (server, ambient, residency, published) in servers {
        let clock = clock_of(residency, [ambient, ambient - 200.0, ambient - 300.0]);
        assert!((clock / published - 1.0).abs() < 0.05, "{server}: {clock:.0} MHz");
    }
}

#[test]
fn residency_is_what_calls_and_hold_time_make_it() {
    // Calls as rare as Poisson's, each holding its level for two milliseconds.
    let workload = Workload {
        cores: 1,
        scalar_cycles: 2.4e6,
        kernel_share: 1.0,
        choices: vec![choice("512-heavy", 100.0), choice("256-light", 100.0)],
    };
    let core = Core { mhz: [2400.0; 3], halt_us: 0.0, ..SKYLAKE };
    let [wide, narrow] =
        [0, 1].map(|index| predict(&workload, &workload.choices[index], &core).unwrap());
    let expected = 1.0 - (-2.0_f64).exp();
    assert!((wide.residency[2] - expected).abs() < 0.02, "{wide:?}");
    assert_eq!(narrow.residency, [1.0, 0.0, 0.0]);
    assert!((narrow.requests_per_second / 1000.0 - 1.0).abs() < 0.05, "{narrow:?}");
}

#[test]
fn halts_and_grants_cost_what_they_last() {
    // So rare that every call has to ask again.
    let workload = Workload {
        cores: 1,
        scalar_cycles: 240e6,
        kernel_share: 1.0,
        choices: vec![choice("512-heavy", 2400.0)],
    };
    let halting = predict(&workload, &workload.choices[0], &SKYLAKE).unwrap();
    let calls = halting.requests_per_second;
    assert!((halting.changing / (calls * 15e-6) - 1.0).abs() < 0.1, "{halting:?}");
}

#[test]
fn classes_ask_for_intels_levels() {
    let level = |class: &str, dense| level_of(class.parse().unwrap(), dense);
    let levels = ["128-light", "128-heavy", "256-light", "256-heavy", "512-light", "512-heavy"]
        .map(|class| level(class, true));
    assert_eq!(levels, [0, 0, 0, 1, 1, 2]);
    assert_eq!([level("512-heavy", false), level("512-light", false)], [1, 1]);
}

#[test]
fn every_shipped_figure_names_its_source() {
    let table = Table::shipped().unwrap();
    assert!(table.cpus.len() >= 10);
    for cpu in &table.cpus {
        assert!(cpu.limits.iter().all(|limit| !limit.source.is_empty()), "{}", cpu.name);
        let generation = table.generations.iter().find(|g| g.name == cpu.generation);
        assert!(generation.is_some_and(|generation| !generation.source.is_empty()), "{}", cpu.name);
    }
}

#[test]
fn no_limit_rises_with_cores_or_levels() {
    let table = Table::shipped().unwrap();
    for cpu in &table.cpus {
        let limit = |level, cores| cpu.limit(level, cores).unwrap_or(f64::INFINITY);
        for (level, cores) in (0..LEVELS).flat_map(|level| (1..cpu.cores).map(move |n| (level, n)))
        {
            let place = format!("{}, level {level}, {cores} cores", cpu.name);
            assert!(limit(level, cores + 1) <= limit(level, cores), "{place}");
            let above = (level + 1..LEVELS).filter_map(|above| cpu.limit(above, cores));
            assert!(above.into_iter().all(|above| above <= limit(level, cores)), "{place}");
        }
        for limit in cpu.limits.iter().chain(&cpu.bases) {
            assert!(limit.cores <= cpu.cores, "{}: {} cores", cpu.name, limit.cores);
        }
    }
    let core = table.core("Xeon Platinum 8280", 28, 2, None).unwrap();
    assert_eq!((core.mhz[0], core.mhz[2], core.base_mhz), (3300.0, 2400.0, Some(1800.0)));
}

#[test]
fn what_was_never_published_is_said_and_not_invented() {
    let table = Table::shipped().unwrap();
    let error = |name, level, ambient| table.core(name, 8, level, ambient).unwrap_err().to_string();
    assert!(error("Xeon Platinum 8180", 2, None).contains("no published limit"));
    assert!(error("Xeon Platinum 8470N", 0, Some(2500.0)).contains("not published"));
    assert!(error("Pentium", 0, None).contains("Xeon Silver 4116"));
    let zen = table.core("EPYC Zen 5", 8, 2, Some(3600.0)).unwrap();
    assert_eq!((zen.mhz[0], zen.mhz[2], zen.hold_us), (3600.0, 3600.0, 0.0));
    // What does not reach its limit without wide registers does not reach another one with them.
    let slow = table.core("Xeon Platinum 8280", 28, 2, Some(1500.0)).unwrap();
    assert_eq!((slow.mhz[0], slow.mhz[2]), (1500.0, 1500.0));
    let own = "[[cpu]]\nname = \"mine\"\ngeneration = \"skylake-sp\"\ncores = 8\n\
        limits = [{ licence = 0, cores = 8, mhz = 3000, source = \"registers\" }]\n";
    let own = Table::parse(own).unwrap().core("mine", 4, 0, None).unwrap();
    assert_eq!((own.mhz[0], own.halt_us), (3000.0, 15.0));
}

#[test]
fn workloads_are_read_and_nonsense_is_refused() {
    assert_eq!(Workload::handshakes().unwrap().choices.len(), 3);
    let text = |share: &str, class: &str| {
        format!(
            "cores = 1\nscalar_cycles = 1000\nkernel_share = {share}\n\
             [[choices]]\nname = \"a\"\nclass = \"{class}\"\ncycles = 10\n"
        )
    };
    assert_eq!(Workload::parse(&text("0.5", "512-heavy")).unwrap().choices[0].level(), Ok(2));
    let refused = |text: &str| Workload::parse(text).unwrap_err().to_string();
    assert!(refused(&text("1.5", "512-heavy")).contains("from 0 to 1"));
    assert!(refused(&text("0.5", "1024-heavy")).contains("there is no licence class"));
    assert!(refused("cores = 1\n").contains("scalar_cycles"));
    assert!(Table::parse("[[cpu]]\nname = 3\n").is_err());
}

#[test]
fn what_is_not_finite_is_refused_and_short_requests_end() {
    let text = |scalar: &str, cycles: &str| {
        format!(
            "cores = 4\nscalar_cycles = {scalar}\nkernel_share = 0.5\n\
             [[choices]]\nname = \"a\"\nclass = \"512-heavy\"\ncycles = {cycles}\n"
        )
    };
    assert!(Workload::parse(&text("1e5", "1e5")).is_ok());
    for (scalar, cycles) in [("inf", "1.0"), ("nan", "1.0"), ("1e5", "inf"), ("1e5", "nan")] {
        let refused = Workload::parse(&text(scalar, cycles)).unwrap_err().to_string();
        assert!(refused.contains("no negative cost"), "{refused}");
    }
    let limit = |mhz: &str| {
        let cpu = "[[cpu]]\nname = \"x\"\ngeneration = \"y\"\ncores = 4\n";
        format!("{cpu}[[cpu.limits]]\nlicence = 0\ncores = 4\nmhz = {mhz}\nsource = \"\"\n")
    };
    assert!(Table::parse(&limit("3000.0")).is_ok());
    assert!(Table::parse(&limit("inf")).is_err() && Table::parse(&limit("nan")).is_err());
    // A request of one cycle: about ten billion of them would fit into the simulated time.
    let short = Workload::parse(&text("1.0", "0.0")).unwrap();
    let found = predict(&short, &short.choices[0], &SKYLAKE).unwrap();
    assert!(found.requests_per_second > 1e9, "{found:?}");
}
