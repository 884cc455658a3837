//! From rounds to rows: what everybody did per second, and in how many cycles.

use widelane_cpu::Room;
use widelane_results::{Measurement, Pair, Row, Status};

use super::interleaved::Implementation;
use super::operation::Case;
use crate::pairs::{self, Of};
use crate::stats::median;

const OPERATIONS: (&str, &str) = ("operations_per_second", "1/s");
const CYCLES: (&str, &str) = ("cycles_per_operation", "cycles");
const THROUGHPUT: (&str, &str) = ("throughput", "GB/s");
const CYCLES_PER_BYTE: (&str, &str) = ("cycles_per_byte", "cycles/B");

const BYTES_PER_GB: f64 = 1e9;

/// A metric with its unit, and what its values are divided by.
type Metric = ((&'static str, &'static str), Of, f64);

/// Operations per second of CPU time.
pub fn per_second(m: &Measurement) -> Option<f64> {
    (m.cpu_s > 0.0).then(|| m.operations as f64 / m.cpu_s)
}

/// Core cycles per operation.
pub fn cycles(m: &Measurement) -> Option<f64> {
    m.cycles_per_operation
}

fn metrics(size: Option<usize>) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = vec![(OPERATIONS, per_second, 1.0), (CYCLES, cycles, 1.0)];
    if let Some(size) = size.filter(|size| *size > 0) {
        let bytes = size as f64;
        metrics.push((CYCLES_PER_BYTE, cycles, bytes));
        metrics.push((THROUGHPUT, per_second, BYTES_PER_GB / bytes));
    }
    metrics
}

/// Writes the rows of one operation, which has `rooms`, best first.
pub fn write(
    case: &Case,
    all: Vec<Implementation>,
    rooms: &[Room],
    pairs: &[Pair],
    rows: &mut Vec<Row>,
) {
    let best = rooms
        .iter()
        .map(|room| Implementation::Room(*room))
        .find(|implementation| all.contains(implementation));
    for implementation in &all {
        let basis = pairs::basis(pairs, &[implementation.label()]);
        for ((metric, unit), of, divisor) in metrics(case.size) {
            let row = Row {
                value: median(&basis.values(implementation.label(), of))
                    .map(|value| value / divisor),
                status: basis.status(),
                reason: basis.objection.clone(),
                ..blank(case, *implementation, metric, unit)
            };
            let rivals: Vec<Implementation> = all
                .iter()
                .copied()
                .filter(|rival| is_rival(*rival, *implementation, best))
                .collect();
            if rivals.is_empty() {
                rows.push(row.clone());
            }
            // Rivals are called the same in rows and in rounds.
            rows.extend(rivals.iter().map(|rival| {
                pairs::compared(row.clone(), pairs, [implementation.label(), rival.label()], of)
            }));
        }
    }
}

/// Whether `implementation` is compared with `rival`: all of ours with OpenSSL, and our best room
/// with all others.
fn is_rival(
    rival: Implementation,
    implementation: Implementation,
    best: Option<Implementation>,
) -> bool {
    match rival {
        Implementation::Openssl => implementation.is_ours(),
        Implementation::Library(_) => Some(implementation) == best,
        Implementation::Room(_)
        | Implementation::Provider
        | Implementation::OpensslCbc
        | Implementation::ProviderCbc => false,
    }
}

/// The row of a subject that cannot be timed.
pub fn missing(case: &Case, implementation: Implementation, reason: String) -> Row {
    let (metric, unit) = OPERATIONS;
    let status = Status::NotApplicable;
    Row { status, reason: Some(reason), ..blank(case, implementation, metric, unit) }
}

fn blank(case: &Case, implementation: Implementation, metric: &str, unit: &str) -> Row {
    Row {
        scenario: case.path(),
        subject: implementation.subject().to_owned(),
        room: implementation.room().map(|room| room.name().to_owned()),
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        ..Row::default()
    }
}
