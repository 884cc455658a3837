//! Downloads under a latency limit: the highest rate at which every one ends in time.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use widelane_loadgen::{Course, Ending, Found, Goal, Outcome, Plan, Probe, attempt, search};
use widelane_results::{Measurement, Results, Row, Status, Trace};

use super::rows::{BITS_PER_GBIT, GOODPUT_WITHIN, unaccelerated};
use super::window::{Cpus, Edge, Shape, account, check_replaced, explain, load};
use super::{CompareError, Run};
use crate::pairs;
use crate::server::{Server, ServerKind, Subject};

/// Name and unit of whole downloads by time, all within the limit.
const RATE_WITHIN: (&str, &str) = ("downloads_within_limit", "1/s");

impl Run<'_> {
    /// One scenario of downloads under a limit: a search with each subject.
    pub(super) fn search(
        &mut self,
        kind: ServerKind,
        shape: &Shape<'_>,
        servers: &mut [(Subject, Server)],
        goal: &Goal,
    ) -> Result<(), CompareError> {
        let path = shape.scenario.path(kind, &shape.key_name());
        self.observer.began(&path);
        let mut searched = Vec::new();
        let mut outcome = Ok(());
        for (subject, server) in servers {
            match Searched::of(*subject, server, shape, goal, self.stop) {
                Ok(found) => searched.push(found),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
            self.observer.round_taken(None);
        }
        if !searched.is_empty() {
            write(&path, &searched, goal, self.results);
            self.flush();
        }
        outcome
    }
}

/// What was found of one subject.
struct Searched {
    subject: Subject,
    found: Found<CompareError>,
    /// Who or what took CPUs away in each probe, if that was too much.
    disturbances: Vec<Option<String>>,
    /// Why it cannot be relied on whatever was found, if so.
    doubt: Option<String>,
}

impl Searched {
    /// Searches the highest rate at which `server` keeps `goal`.
    fn of(
        subject: Subject,
        server: &mut Server,
        shape: &Shape<'_>,
        goal: &Goal,
        stop: &AtomicBool,
    ) -> Result<Self, CompareError> {
        server.check_alive()?;
        let before = server.processes()?;
        let load = load(subject, server, shape);
        let course = Course {
            threads: load.cpus.len().max(1),
            cpus: load.cpus.clone(),
            warm_up: load.warm_up,
            window: load.window,
        };
        let mut disturbances = Vec::new();
        let attempt = |plan: &Plan, course: &Course| {
            let mut once = || watched(server, &shape.cpus, plan, course, stop);
            let (mut outcome, mut disturbance) = once()?;
            if disturbance.is_some() && !outcome.interrupted {
                (outcome, disturbance) = once()?;
            }
            disturbances.push(disturbance);
            Ok(outcome)
        };
        let found = search(&load.plan(), &course, goal, attempt, |_| ());
        // A search takes the failures of a server that has died for a rate that it cannot keep.
        server.check_alive()?;
        let ending = match found.ending {
            Ending::GivenUp(why) => return Err(explain(server, why)),
            Ending::Interrupted => return Err(CompareError::Interrupted),
            ending => ending,
        };
        let found = Found { ending, ..found };
        check_replaced(server, &before, &server.processes()?)?;
        let work = shape.scenario.work;
        let doubt = unaccelerated(subject, work, server.counts().as_ref(), 0);
        Ok(Searched { subject, found, disturbances, doubt })
    }

    /// Gigabits per second at the rate that was kept twice.
    fn goodput(&self) -> Option<f64> {
        let Ending::Rate(kept) = self.found.ending else { return None };
        let same = self.found.probes.iter().rev();
        let probe =
            same.clone().find(|probe| probe.missed.is_none() && probe.rate == Some(kept))?;
        let seconds = probe.outcome.wall.as_secs_f64();
        Some(probe.outcome.tally.body_bytes as f64 * 8.0 / BITS_PER_GBIT / seconds)
    }

    /// Why there is no figure, or none to rely on.
    fn objection(&self) -> Option<(Status, String)> {
        if let Some(doubt) = self.doubt.clone().or_else(|| self.disturbance()) {
            return Some((Status::Rejected, doubt));
        }
        match &self.found.ending {
            Ending::Rate(_) if self.found.client_bound => {
                Some((Status::Rejected, "the client was the bottleneck".to_owned()))
            }
            Ending::Rate(_) => None,
            Ending::Infeasible(why) => Some((Status::NotApplicable, format!("infeasible: {why}"))),
            Ending::NeverKept(missed) => {
                Some((Status::Rejected, format!("no rate was kept; the lowest one: {missed}")))
            }
            Ending::Gone => Some((Status::Rejected, "the server has ended".to_owned())),
            Ending::Unsteady | Ending::Interrupted | Ending::GivenUp(_) => {
                Some((Status::Rejected, "no rate was kept twice".to_owned()))
            }
        }
    }

    /// What disturbed the probe that set the limit, the slowest that missed the goal, if something
    /// did: undisturbed, it might have kept it.
    fn disturbance(&self) -> Option<String> {
        let probes = self.found.probes.iter().zip(&self.disturbances);
        let missed = probes.filter(|(probe, _)| probe.missed.is_some());
        let rate = |probe: &Probe| probe.rate.unwrap_or_default();
        let (_, why) = missed.min_by(|(a, _), (b, _)| rate(a).total_cmp(&rate(b)))?;
        Some(format!("where the limit was missed: {}", why.as_ref()?))
    }

    /// The latencies of all probes over their rates.
    fn trace(&self, scenario: &str) -> Trace {
        let point = |probe: &Probe| Some([probe.rate?, probe.latency.as_secs_f64() * 1e6]);
        let mut points: Vec<[f64; 2]> = self.found.probes.iter().filter_map(point).collect();
        points.sort_by(|a, b| a[0].total_cmp(&b[0]));
        Trace {
            scenario: scenario.to_owned(),
            subject: self.subject.name().to_owned(),
            metric: "latency".to_owned(),
            unit: "us".to_owned(),
            along: "downloads due".to_owned(),
            along_unit: "1/s".to_owned(),
            points,
        }
    }
}

/// Carries out a probe; returns with its outcome who or what took CPUs away meanwhile, if that was
/// too much.
fn watched(
    server: &mut Server,
    cpus: &Cpus,
    plan: &Plan,
    course: &Course,
    stop: &AtomicBool,
) -> Result<(Outcome, Option<String>), CompareError> {
    let (begin, began) = (Edge::observe(server, cpus, None), Instant::now());
    let outcome = attempt(plan, course, stop)
        .map_err(|why| CompareError::Load { server: server.name().to_owned(), why })?;
    let wall_s = began.elapsed().as_secs_f64();
    let end = Edge::observe(server, cpus, Some(&begin));
    let measured = Measurement { wall_s, ..Measurement::default() };
    let (measurement, _) = account(server, cpus, [begin, end], measured)?;
    Ok((outcome, pairs::disturbance(&measurement)))
}

/// Adds what was found of all subjects to `results`; the first is the rival of the others.
fn write(scenario: &str, searched: &[Searched], goal: &Goal, results: &mut Results) {
    let native = searched.first().and_then(Searched::goodput);
    // A ratio is worth no more than the figure that it is to.
    let of_native = searched.first().and_then(Searched::objection);
    let of_native = of_native.filter(|(status, _)| *status == Status::Rejected);
    for (index, one) in searched.iter().enumerate() {
        let goodput = one.goodput();
        let (status, reason) = one.objection().unzip();
        let ratio = goodput.zip(native).map(|(own, native)| own / native);
        let row = Row {
            scenario: scenario.to_owned(),
            subject: one.subject.name().to_owned(),
            metric: GOODPUT_WITHIN.0.to_owned(),
            unit: GOODPUT_WITHIN.1.to_owned(),
            value: goodput,
            status: status.unwrap_or_default(),
            reason,
            ..Row::default()
        };
        let rate = match one.found.ending {
            Ending::Rate(rate) => Some(rate),
            _ => None,
        };
        results.rows.push(Row {
            metric: RATE_WITHIN.0.to_owned(),
            unit: RATE_WITHIN.1.to_owned(),
            value: rate,
            ..row.clone()
        });
        results.rows.push(match index {
            0 => row,
            _ => Row {
                rival: Some(searched[0].subject.name().to_owned()),
                ratio,
                status: match &of_native {
                    Some((status, _)) if row.status == Status::Ok => *status,
                    _ => row.status,
                },
                reason: row.reason.clone().or_else(|| {
                    of_native
                        .as_ref()
                        .map(|(_, why)| format!("{}: {why}", searched[0].subject.name()))
                }),
                ..row
            },
        });
    }
    let traces = searched.iter().map(|one| one.trace(scenario));
    results.traces.extend(traces.filter(|trace| !trace.points.is_empty()));
    let note = format!(
        "Downloads under a limit: the highest rate at which {} of them end within {} s, and none \
         fails; found by doubling and bisection to 4 %, and kept twice.",
        if goal.percentile < 100.0 { format!("{} %", goal.percentile) } else { "all".to_owned() },
        goal.latency_max.as_secs_f64()
    );
    results.note(note);
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::thread;
    use std::time::Duration;

    use nix::sys::signal::{Signal, killpg};
    use widelane_host::programs::search_path;
    use widelane_loadgen::{Cipher, Missed, Tally};

    use super::super::admission::tests::{SCENARIO, plan};
    use super::super::{Download, Scenario, Work};
    use super::*;
    use crate::programs::Programs;
    use crate::server::{Identity, Key, ServerError, Testbed};

    const RATE: f64 = 10.0;

    /// A subject that sends so many bytes per second at the rate that it keeps.
    fn searched(subject: Subject, body_bytes: u64, client_bound: bool) -> Searched {
        let outcome = Outcome {
            wall: Duration::from_secs(1),
            busy: 0.5,
            client_cpu: Duration::ZERO,
            tally: Tally { body_bytes, ..Tally::new() },
            interrupted: false,
        };
        let latency = Duration::from_millis(1);
        let probe = Probe { rate: Some(RATE), outcome, latency, missed: None };
        let found = Found { ending: Ending::Rate(RATE), probes: vec![probe], client_bound };
        Searched { subject, found, disturbances: vec![None], doubt: None }
    }

    /// The row with a ratio, beside a native server whose clients had no more to give or had.
    fn compared(native_is_client_bound: bool) -> Row {
        let all = [
            searched(Subject::Native, 1_000_000, native_is_client_bound),
            searched(Subject::Accelerated, 1_500_000, false),
        ];
        let goal = Goal { latency_max: Duration::from_secs(2), percentile: 100.0 };
        let mut results = Results::default();
        write("nginx/tls1.3", &all, &goal, &mut results);
        results.rows.into_iter().find(|row| row.rival.is_some()).unwrap()
    }

    #[test]
    fn a_search_tells_that_the_server_has_died() {
        const BYTES: u64 = 1 << 20;
        let search = search_path(std::env::var_os("PATH"));
        let programs = Programs::search(PathBuf::from("/nonexistent/widelane"), None, &search);
        let mut testbed = Testbed::open(programs, &[], None).unwrap();
        testbed.serve_content(&[BYTES], None).unwrap();
        let identities = [Identity::make(Key::EcdsaP256, testbed.directory()).unwrap()];
        let mut server = testbed.start(ServerKind::Nginx, Subject::Native, &identities).unwrap();
        let work = Work::Download(Download { cipher: Cipher::Aes128Gcm, bytes: BYTES });
        let window = Duration::from_millis(300);
        let shape = Shape {
            plan: &plan(),
            identities: &identities,
            clients: None,
            scenario: Scenario { work, client_certificates: false, window, ..SCENARIO },
            cpus: Cpus::default(),
            far: None,
            rate: None,
            seed: 0,
        };
        let group = server.pid();
        let kill = thread::spawn(move || {
            thread::sleep(window);
            killpg(group, Signal::SIGKILL).unwrap();
        });
        let goal = Goal { latency_max: Duration::from_secs(1), percentile: 100.0 };
        let stop = AtomicBool::new(false);
        let found = Searched::of(Subject::Native, &mut server, &shape, &goal, &stop);
        kill.join().unwrap();
        let error = found.err().expect("no rate is kept by a server that has died");
        let died = matches!(error, CompareError::Server(ServerError::Died { .. }));
        assert!(died, "{error}");
    }

    #[test]
    fn one_search_has_no_interval() {
        let row = compared(false);
        assert_eq!((row.status, row.ratio), (Status::Ok, Some(1.5)));
        assert_eq!((row.ratio_low, row.ratio_high), (None, None));
    }

    #[test]
    fn what_sets_the_limit_must_not_be_disturbed() {
        let mut searched = searched(Subject::Native, 1_000_000, false);
        let kept = searched.found.probes[0].clone();
        let missed =
            |rate: f64| Probe { rate: Some(rate), missed: Some(Missed::Latency), ..kept.clone() };
        searched.found.probes.extend([missed(2.0 * RATE), missed(1.04 * RATE)]);
        let neighbour = || Some("other processes used 40 % of a CPU".to_owned());
        // What kept the goal in spite of a neighbour has kept it, and what is far above does not
        // set the limit.
        searched.disturbances = vec![neighbour(), neighbour(), None];
        assert_eq!(searched.objection(), None);
        searched.disturbances = vec![None, None, neighbour()];
        let why = "where the limit was missed: other processes used 40 % of a CPU".to_owned();
        assert_eq!(searched.objection(), Some((Status::Rejected, why)));
    }

    #[test]
    fn a_ratio_to_what_is_rejected_is_rejected() {
        let row = compared(true);
        assert_eq!(row.status, Status::Rejected);
        assert_eq!(row.reason.as_deref(), Some("native: the client was the bottleneck"));
    }
}
