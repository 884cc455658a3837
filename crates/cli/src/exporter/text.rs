//! A survey as OpenMetrics text.

use std::fmt::Error;

use anyhow::Context;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use widelane_bridge::counters::WAIT_BUCKETS;
use widelane_cpu::Room;
use widelane_host::choice::{Alternative, Choice};
use widelane_host::counters::KindCounts;

use crate::live::{Process, Survey};

/// Renders the survey as OpenMetrics text, with `# EOF` at its end.
pub fn render(survey: Survey) -> anyhow::Result<String> {
    let mut registry = Registry::with_prefix("widelane");
    registry.register_collector(Box::new(Found(survey)));
    let mut text = String::new();
    encode(&mut text, &registry).context("cannot write the metrics")?;
    Ok(text)
}

/// What a process says of one metric: the rest of its labels, and the figure.
type Figures = Vec<(Vec<(&'static str, String)>, u64)>;

/// One metric: its name, what it means, and its figures for a process.
struct Metric {
    name: &'static str,
    help: &'static str,
    figures: fn(&Process) -> Figures,
}

const COUNTERS: &[Metric] = &[
    Metric {
        name: "operations",
        help: "Public-key operations by kind and by the way they were done; batched: by a kernel \
               for batches, even if none ran with them",
        figures: |process| {
            by_kind(process, |kind| {
                vec![
                    ("batched", kind.batched),
                    ("single", kind.single),
                    ("synchronous", kind.synchronous),
                    ("delegated", kind.delegated),
                    ("pooled", kind.pooled),
                ]
            })
        },
    },
    Metric {
        name: "handshakes",
        help: "Handshakes of event loops that the runtime began to drive, failed ones included; 0 \
               where a server makes its handshakes outside of epoll",
        figures: |process| one(process.counts.handshakes),
    },
    Metric {
        name: "batches",
        help: "Batches by number of operations in them",
        figures: |process| {
            let fills = process.counts.batches_by_fill.iter().enumerate().skip(1);
            let fills = fills.filter(|(fill, _)| *fill <= process.counts.widest());
            fills.map(|(fill, count)| (vec![("fill", fill.to_string())], *count)).collect()
        },
    },
    Metric {
        name: "executed_operations",
        help: "Operations executed together with others, and alone; neither those of pools nor \
               delegated ones",
        figures: |process| {
            let [together, alone] = process.counts.together_and_alone();
            labelled("how", [("together", together), ("alone", alone)])
        },
    },
    Metric {
        name: "batches_closed",
        help: "Batches by what closed them",
        figures: |process| {
            labelled(
                "reason",
                [
                    ("full", process.counts.closed_full),
                    ("idle", process.counts.closed_idle),
                    ("deadline", process.counts.closed_deadline),
                    ("leader", process.counts.closed_leader),
                ],
            )
        },
    },
    Metric {
        name: "short_waits",
        help: "Partial batches that waited for other operations though their event loop was idle",
        figures: |process| one(process.counts.short_waits),
    },
    Metric {
        name: "short_wait_company",
        help: "Operations that joined them meanwhile",
        figures: |process| one(process.counts.short_wait_company),
    },
    Metric {
        name: "combined_operations",
        help: "Operations that workers did for each other: lent to another worker, done for one, \
               taken back from one, refused",
        figures: |process| {
            labelled(
                "how",
                [
                    ("lent", process.counts.jobs_lent),
                    ("for_others", process.counts.jobs_for_others),
                    ("taken_back", process.counts.jobs_taken_back),
                    ("refused", process.counts.jobs_refused),
                ],
            )
        },
    },
    Metric {
        name: "device_operations",
        help: "Operations for a device: done by it, not given to it because it was full, refused \
               by it, done in lanes because that cost less, failed or wrong, taken back because \
               they were late",
        figures: |process| {
            labelled(
                "how",
                [
                    ("done", process.counts.device_jobs),
                    ("full", process.counts.device_full),
                    ("refused", process.counts.device_refused),
                    ("dearer", process.counts.device_dearer),
                    ("faults", process.counts.device_faults),
                    ("late", process.counts.device_late),
                ],
            )
        },
    },
    Metric {
        name: "kernel_runs",
        help: "Runs of the batch kernels by room",
        figures: |process| {
            let runs =
                Room::ALL.map(|room| (room.name(), process.counts.runs_by_room[room as usize]));
            labelled("room", runs)
        },
    },
    Metric {
        name: "pool_keys",
        help: "Key pairs of pools: made, taken, and wiped for their age",
        figures: |process| {
            by_kind(process, |kind| {
                vec![
                    ("made", kind.pool_made),
                    ("taken", kind.pooled),
                    ("expired", kind.pool_expired),
                ]
            })
        },
    },
    Metric {
        name: "cipher_messages",
        help: "Records and other messages that were sealed or opened, by cipher and room",
        figures: |process| {
            let ciphers = process.counts.ciphers().flat_map(|(cipher, of_cipher)| {
                Room::ALL.map(|room| {
                    let labels = vec![
                        ("cipher", cipher.name().to_owned()),
                        ("room", room.name().to_owned()),
                    ];
                    (labels, of_cipher.messages_by_room[room as usize])
                })
            });
            ciphers.filter(|(_, messages)| *messages > 0).collect()
        },
    },
    Metric {
        name: "cipher_bytes",
        help: "Bytes of text in them",
        figures: |process| {
            let ciphers = process.counts.ciphers().filter(|(_, of_cipher)| of_cipher.bytes > 0);
            ciphers
                .map(|(cipher, of_cipher)| {
                    (vec![("cipher", cipher.name().to_owned())], of_cipher.bytes)
                })
                .collect()
        },
    },
    Metric {
        name: "policy_comparisons",
        help: "Comparisons of policies by a process that chooses among them",
        figures: |process| chosen(process, |choice| choice.comparisons),
    },
    Metric {
        name: "policy_switches",
        help: "How often another policy came to hold, comparisons included",
        figures: |process| chosen(process, |choice| choice.switches),
    },
    Metric {
        name: "operations_cancelled",
        help: "Operations of freed connections, withdrawn before they ran",
        figures: |process| one(process.counts.jobs_cancelled),
    },
    Metric {
        name: "faults_detected",
        help: "Results that failed their check and were made again",
        figures: |process| one(process.counts.faults_detected),
    },
    Metric {
        name: "fallbacks",
        help: "Internal failures that were answered by the default provider instead",
        figures: |process| one(process.counts.fallbacks),
    },
];

const GAUGES: &[Metric] = &[
    Metric {
        name: "process_lanes",
        help: "Operations that one batch of the process holds at most, of the kind with most lanes",
        figures: |process| {
            vec![(vec![("user", process.user.to_string())], process.counts.most_lanes() as u64)]
        },
    },
    Metric {
        name: "policy_refused",
        help: "1 where the policy of a process was refused, so that nothing is accelerated in it",
        figures: |process| one(process.counts.policy_refused),
    },
    Metric {
        name: "switched_off",
        help: "1 where a process is switched off now (widelane off), so that it leaves all \
               operations to OpenSSL",
        figures: |process| one(process.off.is_some().into()),
    },
    Metric {
        name: "lane_process_starts",
        help: "How often a service has started its lane process, which this is",
        figures: |process| match process.counts.lane_process_starts {
            0 => Vec::new(),
            starts => one(starts),
        },
    },
    Metric {
        name: "policy_chosen",
        help: "1 for the policy that holds now, 0 for the others that the process chooses from",
        figures: |process| {
            let of = |choice: &Choice| {
                let all = choice.alternatives.iter().enumerate();
                let is_chosen = |place| u64::from(place == choice.current);
                all.map(|(place, it)| (of_policy(it), is_chosen(place))).collect()
            };
            process.counts.choice.as_ref().map(of).unwrap_or_default()
        },
    },
];

fn one(figure: u64) -> Figures {
    vec![(Vec::new(), figure)]
}

/// A figure of a process that chooses among policies; none of others.
fn chosen(process: &Process, figure: fn(&Choice) -> u64) -> Figures {
    process.counts.choice.as_ref().map(figure).map_or_else(Vec::new, one)
}

fn labelled<const N: usize>(name: &'static str, figures: [(&'static str, u64); N]) -> Figures {
    figures.into_iter().map(|(value, figure)| (vec![(name, value.to_owned())], figure)).collect()
}

/// The figures of all kinds of operations that occurred, by way.
fn by_kind(process: &Process, ways: fn(&KindCounts) -> Vec<(&'static str, u64)>) -> Figures {
    let kinds = process.counts.kinds().map(|(kind, of_kind)| (kind, ways(of_kind)));
    let occurred = kinds.filter(|(_, ways)| ways.iter().any(|(_, figure)| *figure > 0));
    let figures = occurred.flat_map(|(kind, ways)| {
        ways.into_iter().map(move |(way, figure)| {
            (vec![("kind", kind.name().to_owned()), ("way", way.to_owned())], figure)
        })
    });
    figures.collect()
}

impl Metric {
    /// The figures of all processes, with all their labels.
    fn of_all(&self, survey: &Survey) -> Figures {
        let of = |process| {
            let figures = (self.figures)(process).into_iter();
            figures.map(|(labels, figure)| ([identity(process), labels].concat(), figure))
        };
        survey.processes.iter().flat_map(of).collect()
    }
}

/// The survey, as the registry asks for it.
#[derive(Debug)]
struct Found(Survey);

impl Collector for Found {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let Found(survey) = self;
        for metric in COUNTERS {
            let Metric { name, help, .. } = metric;
            let mut series = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (labels, figure) in metric.of_all(survey) {
                series
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, u64>(&figure, None)?;
            }
        }
        for metric in GAUGES {
            let Metric { name, help, .. } = metric;
            let mut series = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, figure) in metric.of_all(survey) {
                series.encode_family(&labels)?.encode_gauge(&figure)?;
            }
        }
        encode_seconds(
            survey,
            &mut encoder,
            ("process_cpu", "CPU time that the process has used, whatever for"),
            |process| process.cpu.as_secs_f64(),
        )?;
        encode_waits(survey, &mut encoder)?;
        encode_costs(survey, &mut encoder)?;
        for (name, help, figure) in [
            ("processes", "Accelerated processes that run", survey.accelerated().count()),
            ("files_skipped", "Counters files that were ignored", survey.skipped.len()),
            (
                "files_too_many",
                "1 where there are more files than are looked at, so that processes are missing",
                usize::from(survey.truncated),
            ),
        ] {
            encoder
                .encode_descriptor(name, help, None, MetricType::Gauge)?
                .encode_gauge(&(figure as u64))?;
        }
        Ok(())
    }
}

/// The relative costs of the policies that processes choose from.
fn encode_costs(survey: &Survey, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let mut metric = encoder.encode_descriptor(
        "policy_relative_cost",
        "CPU time per work over that of the cheapest policy, in the last comparison",
        None,
        MetricType::Gauge,
    )?;
    for process in &survey.processes {
        let all = process.counts.choice.iter().flat_map(|choice| &choice.alternatives);
        for alternative in all.filter(|it| it.relative_cost > 0) {
            let labels = [identity(process), of_policy(alternative)].concat();
            let cost = alternative.relative_cost as f64 / 1e3;
            metric.encode_family(&labels)?.encode_gauge(&cost)?;
        }
    }
    Ok(())
}

/// Buckets of the counters count waits below a power of two of microseconds each.
fn encode_waits(survey: &Survey, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let mut metric = encoder.encode_descriptor(
        "wait",
        "Time that operations waited for their batch",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    for process in &survey.processes {
        let waits = &process.counts.waits_by_bucket;
        let bounds = (0..WAIT_BUCKETS).map(|bucket| match bucket {
            last if last == WAIT_BUCKETS - 1 => f64::INFINITY,
            bucket => (1u64 << bucket) as f64 / 1e6,
        });
        let buckets: Vec<(f64, u64)> = bounds.zip(waits.iter().copied()).collect();
        let sum = process.counts.wait_ns_total as f64 / 1e9;
        let count = waits.iter().sum();
        metric
            .encode_family(&identity(process))?
            .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    encode_seconds(
        survey,
        encoder,
        ("short_wait", "How long partial batches waited in short waits, together"),
        |process| process.counts.short_wait_ns_total as f64 / 1e9,
    )
}

/// Time of each process, by a metric of this name and meaning.
fn encode_seconds(
    survey: &Survey,
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    seconds: fn(&Process) -> f64,
) -> Result<(), Error> {
    let mut metric =
        encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Counter)?;
    for process in &survey.processes {
        metric
            .encode_family(&identity(process))?
            .encode_counter::<NoLabelSet, _, u64>(&seconds(process), None)?;
    }
    Ok(())
}

/// The label of a policy that a process chooses from.
fn of_policy(alternative: &Alternative) -> Vec<(&'static str, String)> {
    vec![("policy", alternative.name.to_owned())]
}

/// The labels that tell one process from another.
fn identity(process: &Process) -> Vec<(&'static str, String)> {
    vec![("pid", process.pid.to_string()), ("command", process.command.clone())]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use widelane_bridge::counters::OperationKind;
    use widelane_cpu::policy::trial::{Cause, Verdict};
    use widelane_host::counters::Counts;

    use super::*;
    use crate::live::Off;

    fn survey(command: &str) -> Survey {
        let mut counts = Counts { lanes: 8, handshakes: 12, ..Counts::default() };
        counts.batches_by_fill[8] = 3;
        counts.batches_by_fill[16] = 2;
        counts.waits_by_bucket[5] = 2;
        counts.waits_by_bucket[WAIT_BUCKETS - 1] = 1;
        counts.wait_ns_total = 3_000_000_000;
        (counts.short_waits, counts.short_wait_ns_total) = (5, 1_500_000);
        (counts.jobs_lent, counts.lane_process_starts) = (6, 2);
        (counts.device_jobs, counts.device_faults) = (9, 1);
        (counts.jobs_single, counts.by_kind[OperationKind::X25519Generate as usize].pooled) =
            (4, 7);
        // The provider writes this of every kind at its start.
        counts.by_kind.iter_mut().for_each(|kind| kind.lanes = 8);
        let alternative =
            |name, relative_cost| Alternative { name, slices: 3, relative_cost, clock_mhz: 0 };
        counts.choice = Some(Choice {
            alternatives: vec![alternative("512", 1_070), alternative("256", 1_000)],
            current: 1,
            is_comparing: false,
            cause: Cause::Load,
            verdict: Verdict::Cheapest,
            comparisons: 4,
            switches: 9,
        });
        let process = Process {
            pid: 77,
            started_ticks: 1,
            cpu: Duration::from_millis(2_770),
            user: 33,
            command: command.to_owned(),
            threads: 1,
            counts,
            off: None,
            path: "/run/widelane/77.counters".into(),
        };
        Survey { processes: vec![process], ..Survey::default() }
    }

    #[test]
    fn metrics_are_named_labelled_and_ended() {
        let text = render(survey("nginx")).unwrap();
        for expected in [
            "# TYPE widelane_handshakes counter",
            "widelane_handshakes_total{pid=\"77\",command=\"nginx\"} 12\n",
            "widelane_process_cpu_seconds_total{pid=\"77\",command=\"nginx\"} 2.77\n",
            "widelane_batches_total{pid=\"77\",command=\"nginx\",fill=\"8\"} 3\n",
            "widelane_batches_total{pid=\"77\",command=\"nginx\",fill=\"1\"} 0\n",
            "widelane_batches_total{pid=\"77\",command=\"nginx\",fill=\"16\"} 2\n",
            "widelane_wait_seconds_count{pid=\"77\",command=\"nginx\"} 3\n",
            "widelane_wait_seconds_sum{pid=\"77\",command=\"nginx\"} 3.0\n",
            "le=\"0.000032\",pid=\"77\",command=\"nginx\"} 2\n",
            "le=\"+Inf\",pid=\"77\",command=\"nginx\"} 3\n",
            "widelane_process_lanes{pid=\"77\",command=\"nginx\",user=\"33\"} 8\n",
            "widelane_lane_process_starts{pid=\"77\",command=\"nginx\"} 2\n",
            "widelane_policy_refused{pid=\"77\",command=\"nginx\"} 0\n",
            "widelane_switched_off{pid=\"77\",command=\"nginx\"} 0\n",
            "widelane_processes 1\n",
            "widelane_files_too_many 0\n",
            "widelane_short_waits_total{pid=\"77\",command=\"nginx\"} 5\n",
            "widelane_combined_operations_total{pid=\"77\",command=\"nginx\",how=\"lent\"} 6\n",
            "widelane_device_operations_total{pid=\"77\",command=\"nginx\",how=\"done\"} 9\n",
            "widelane_device_operations_total{pid=\"77\",command=\"nginx\",how=\"faults\"} 1\n",
            "widelane_policy_chosen{pid=\"77\",command=\"nginx\",policy=\"512\"} 0\n",
            "widelane_policy_chosen{pid=\"77\",command=\"nginx\",policy=\"256\"} 1\n",
            "widelane_policy_relative_cost{pid=\"77\",command=\"nginx\",policy=\"512\"} 1.07\n",
            "widelane_policy_comparisons_total{pid=\"77\",command=\"nginx\"} 4\n",
            "widelane_policy_switches_total{pid=\"77\",command=\"nginx\"} 9\n",
            "widelane_short_wait_seconds_total{pid=\"77\",command=\"nginx\"} 0.0015\n",
            "widelane_executed_operations_total{pid=\"77\",command=\"nginx\",\
             how=\"together\"} 56\n",
            "widelane_executed_operations_total{pid=\"77\",command=\"nginx\",\
             how=\"alone\"} 4\n",
            "widelane_operations_total{pid=\"77\",command=\"nginx\",\
             kind=\"x25519-generate\",way=\"pooled\"} 7\n",
        ] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
        assert_eq!(text.matches("kind=\"x25519-generate\"").count(), 5 + 3, "{text}");
        assert!(!text.contains("rsa-2048"), "it did not occur:\n{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn a_process_of_a_refused_policy_is_not_accelerated() {
        let mut survey = survey("nginx");
        survey.processes[0].counts.policy_refused = 1;
        let text = render(survey).unwrap();
        assert!(text.contains("widelane_policy_refused{pid=\"77\",command=\"nginx\"} 1\n"));
        assert!(text.contains("widelane_processes 0\n"), "{text}");
    }

    #[test]
    fn a_process_that_is_switched_off_is_not_accelerated() {
        let mut survey = survey("nginx");
        survey.processes[0].off = Some(Off::ForGood);
        let text = render(survey).unwrap();
        assert!(text.contains("widelane_switched_off{pid=\"77\",command=\"nginx\"} 1\n"));
        assert!(text.contains("widelane_processes 0\n"), "{text}");
    }

    #[test]
    fn a_name_cannot_break_out_of_its_label() {
        let text = render(survey("a\"} 1\\")).unwrap();
        assert!(text.contains(r#"command="a\"} 1\\"} 12"#), "{text}");
    }

    #[test]
    fn no_process_is_an_answer_too() {
        let text = render(Survey::default()).unwrap();
        assert!(text.contains("widelane_processes 0\n") && text.ends_with("# EOF\n"));
    }
}
