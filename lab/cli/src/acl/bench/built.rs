//! What it takes to build: time, memory at the most, and the finished table.

use std::fmt;
use std::fs;
use std::time::Instant;

use widelane_results::{Row, Status};

use crate::acl::rival::Ready;

/// How a table was built.
#[derive(Clone, Debug)]
pub struct Built {
    /// Seconds.
    pub seconds: f64,
    /// Bytes by which the process grew at the most, or why that is not known.
    pub peak_bytes: Result<u64, String>,
    /// Bytes of the table.
    pub table_bytes: u64,
}

/// Builds something of a size, and watches the process grow.
pub fn watch<T, E>(
    build: impl FnOnce() -> Result<T, E>,
    bytes: impl FnOnce(&T) -> usize,
) -> Result<(T, Built), E> {
    let resident = forget_peak().and_then(|()| resident_bytes("VmRSS:"));
    let began = Instant::now();
    let built = build()?;
    let seconds = began.elapsed().as_secs_f64();
    let peak = resident.and_then(|before| Ok(resident_bytes("VmHWM:")?.saturating_sub(before)));
    let table_bytes = bytes(&built) as u64;
    Ok((built, Built { seconds, peak_bytes: peak, table_bytes }))
}

impl Built {
    /// The rows of results, beside a rival's.
    pub fn rows(&self, set: &str, rival: Option<(&str, &Built)>) -> Vec<Row> {
        let blank = |subject: &str, (metric, unit, value): Figure| Row {
            scenario: format!("acl/{set}/build"),
            subject: subject.to_owned(),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            value: value.as_ref().ok().copied(),
            status: if value.is_ok() { Status::Ok } else { Status::NotApplicable },
            reason: value.err(),
            ..Row::default()
        };
        let mut rows: Vec<Row> = self.figures().map(|figure| blank("widelane", figure)).into();
        if let Some((name, rival)) = rival {
            let beside = rival.figures().map(|figure| blank(name, figure));
            for (own, other) in rows.iter_mut().zip(&beside) {
                own.ratio = own.value.zip(other.value).map(|(own, other)| own / other);
                own.rival = own.ratio.map(|_| name.to_owned());
            }
            rows.extend(beside);
        }
        rows
    }

    fn figures(&self) -> [Figure; 3] {
        let peak = self.peak_bytes.clone().map(|bytes| bytes as f64);
        [
            ("build_s", "s", Ok(self.seconds)),
            ("build_bytes", "B", peak),
            ("table_bytes", "B", Ok(self.table_bytes as f64)),
        ]
    }
}

/// Metric, unit and value, or why there is none.
type Figure = (&'static str, &'static str, Result<f64, String>);

impl From<&Ready> for Built {
    fn from(ready: &Ready) -> Self {
        Built {
            seconds: ready.build_s,
            peak_bytes: Ok(ready.build_bytes),
            table_bytes: ready.table_bytes,
        }
    }
}

impl fmt::Display for Built {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "in {:.2} s", self.seconds)?;
        if let Ok(peak) = self.peak_bytes {
            write!(formatter, " with {:.0} MB", peak as f64 / 1e6)?;
        }
        write!(formatter, ", {:.1} MB", self.table_bytes as f64 / 1e6)
    }
}

/// Has the kernel measure the largest resident size of this process from now on.
fn forget_peak() -> Result<(), String> {
    fs::write("/proc/self/clear_refs", "5")
        .map_err(|error| format!("the kernel does not reset the largest resident size: {error}"))
}

/// A size that the kernel tells of this process, in bytes.
fn resident_bytes(name: &str) -> Result<u64, String> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| format!("the kernel does not tell {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_freed_again_counts_at_the_most() {
        let fill = || -> Result<Vec<u8>, ()> {
            let passing = std::hint::black_box(vec![1u8; 64 << 20]);
            Ok(passing[..1 << 20].to_vec())
        };
        let (kept, built) = watch(fill, Vec::len).unwrap();
        assert_eq!(built.table_bytes, kept.len() as u64);
        match &built.peak_bytes {
            Ok(bytes) => assert!(*bytes > 60 << 20, "{built:?}"),
            Err(reason) => assert!(reason.contains("kernel"), "{reason}"),
        }
        let rival = Built { seconds: 2.0 * built.seconds, ..built.clone() };
        let rows = built.rows("set", Some(("other", &rival)));
        assert_eq!((rows.len(), rows[0].ratio), (6, Some(0.5)));
        assert_eq!((&*rows[5].subject, &*rows[5].metric), ("other", "table_bytes"));
        assert_eq!(rows[5].ratio, None);
    }
}
