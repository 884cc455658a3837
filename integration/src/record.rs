//! A record of what servers held over time, as CSV and as a page with curves.

use std::fmt::Write;

use anyhow::Result;

/// One look at a server and its clients.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Since the record began.
    pub seconds: f64,
    /// Whole handshakes so far.
    pub handshakes: u64,
    /// Handshakes so far that failed for no reason that is known.
    pub failures: u64,
    /// Memory of all its processes that is their own.
    pub memory_kib: u64,
    /// Their descriptors.
    pub descriptors: usize,
    /// How many processes they are.
    pub processes: usize,
}

/// The samples of one server.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its name.
    pub server: String,
    /// In the order of time.
    pub samples: Vec<Sample>,
    /// Hard times: what, and from when to when in seconds.
    pub hardships: Vec<(String, f64, f64)>,
}

/// A figure of samples that is drawn and judged.
struct Curve {
    title: &'static str,
    of: fn(&Sample) -> f64,
}

const CURVES: [Curve; 4] = [
    Curve { title: "memory, MiB", of: |sample| sample.memory_kib as f64 / 1024.0 },
    Curve { title: "descriptors", of: |sample| sample.descriptors as f64 },
    Curve { title: "processes", of: |sample| sample.processes as f64 },
    Curve { title: "failures without a reason", of: |sample| sample.failures as f64 },
];

/// Size of one drawing.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 120.0;

impl Record {
    /// By how much a figure was higher in the last quarter than in the third, when workers are old:
    /// medians, so that a short peak does not decide.
    pub fn growth(&self, of: fn(&Sample) -> f64) -> f64 {
        self.grown(of, |figures| figures.len() / 2)
    }

    /// The same of the least in a quarter: of what is there while no crowd is, as descriptors that
    /// were lost would be.
    pub fn growth_of_least(&self, of: fn(&Sample) -> f64) -> f64 {
        self.grown(of, |_| 0)
    }

    fn grown(&self, of: fn(&Sample) -> f64, place: fn(&[f64]) -> usize) -> f64 {
        let quarter = self.samples.len() / 4;
        let figure = |samples: &[Sample]| {
            let mut figures: Vec<f64> = samples.iter().map(of).collect();
            figures.sort_by(f64::total_cmp);
            figures.get(place(&figures)).copied().unwrap_or(0.0)
        };
        figure(&self.samples[3 * quarter..]) - figure(&self.samples[2 * quarter..3 * quarter])
    }

    /// Handshakes in each second.
    fn rate(&self) -> f64 {
        let last = self.samples.last().copied().unwrap_or_default();
        last.handshakes as f64 / last.seconds.max(1.0)
    }

    fn curve(&self, curve: &Curve) -> String {
        let end = self.samples.last().map_or(1.0, |sample| sample.seconds.max(1.0));
        let highest = self.samples.iter().map(curve.of).fold(1.0, f64::max);
        let mut points = String::new();
        for sample in &self.samples {
            let x = WIDTH * sample.seconds / end;
            let y = HEIGHT * (1.0 - (curve.of)(sample) / highest);
            let _ = write!(points, "{x:.1},{y:.1} ");
        }
        let mut bands = String::new();
        for (name, from, to) in &self.hardships {
            let (x, width) = (WIDTH * from / end, WIDTH * (to - from) / end);
            let _ = write!(
                bands,
                "<rect x=\"{x:.1}\" width=\"{width:.1}\" height=\"{HEIGHT}\">\
                 <title>{name}</title></rect>"
            );
        }
        format!(
            "<figure><figcaption>{}: {}, up to {highest:.0}</figcaption>\
             <svg viewBox=\"-4 -4 {} {}\">{bands}<path d=\"M0 {HEIGHT}H{WIDTH}\" class=\"axis\"/>\
             <polyline points=\"{points}\"/></svg></figure>\n",
            self.server,
            curve.title,
            WIDTH + 8.0,
            HEIGHT + 8.0,
        )
    }
}

/// All samples of all servers.
///
/// # Errors
///
/// If the text cannot be written.
pub fn csv(records: &[Record]) -> Result<String> {
    let mut text =
        String::from("server,seconds,handshakes,failures,memory_kib,descriptors,processes\n");
    for record in records {
        for sample in &record.samples {
            let Sample { seconds, handshakes, failures, memory_kib, descriptors, processes } =
                sample;
            writeln!(
                text,
                "{},{seconds:.1},{handshakes},{failures},{memory_kib},{descriptors},{processes}",
                record.server
            )?;
        }
    }
    Ok(text)
}

/// A page with a curve of each figure, which needs nothing else.
pub fn page(records: &[Record]) -> String {
    let mut text = String::from(
        "<!doctype html><meta charset=\"utf-8\"><title>Widelane: soak</title>\n\
         <style>body{font:15px system-ui;max-width:44em;margin:2em auto}\
         svg{width:100%}polyline{fill:none;stroke:#2a6;stroke-width:1.5}\
         .axis{stroke:#999}rect{fill:#ddd}figure{margin:1em 0}</style>\n<h1>Soak</h1>\n\
         <p>Grey: one CPU, processes stopped, few descriptors, a full disk; point \
         at it to see which.</p>\n",
    );
    for record in records {
        let last = record.samples.last().copied().unwrap_or_default();
        let _ = writeln!(
            text,
            "<h2>{}</h2>\n<p>{} handshakes in {:.0} s ({:.0} per second), {} failed without a \
             reason. From the third to the last quarter memory grew by {:.1} MiB and descriptors \
             by {:.0}.</p>",
            record.server,
            last.handshakes,
            last.seconds,
            record.rate(),
            last.failures,
            record.growth(CURVES[0].of),
            record.growth_of_least(CURVES[1].of),
        );
        text.extend(CURVES.iter().map(|curve| record.curve(curve)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(memory_kib: impl Fn(u64) -> u64) -> Record {
        let sample = |second| Sample {
            seconds: second as f64,
            memory_kib: memory_kib(second),
            ..Sample::default()
        };
        Record {
            server: "nginx".to_owned(),
            samples: (0..100).map(sample).collect(),
            hardships: vec![("Stopped".to_owned(), 10.0, 11.5)],
        }
    }

    #[test]
    fn a_leak_grows_and_a_reload_does_not() {
        let memory = |sample: &Sample| sample.memory_kib as f64;
        assert_eq!(record(|second| 5000 + 10 * second).growth(memory), 250.0);
        let reloads = record(|second| if second % 10 == 0 { 9000 } else { 5000 });
        assert_eq!(reloads.growth(memory), 0.0);
        // Crowds come and go: only what stays when they are gone has grown.
        let crowds = record(|second| 70 + if second % 5 == 0 { 0 } else { 2 * second });
        assert_eq!(crowds.growth_of_least(memory), 0.0);
        assert_eq!(record(|second| 70 + second).growth_of_least(memory), 25.0);
    }

    #[test]
    fn csv_and_page_have_everything() {
        let records = [record(|second| second)];
        assert_eq!(csv(&records).unwrap().lines().count(), 101);
        let page = page(&records);
        assert_eq!(page.matches("<polyline").count(), CURVES.len());
        assert_eq!(page.matches("<title>Stopped").count(), CURVES.len());
    }
}
