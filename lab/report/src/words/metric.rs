//! What is measured.

use super::capitalised;

/// What is measured, and which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name in results files.
    pub name: &'static str,
    /// The name in headings.
    pub title: &'static str,
    /// Whether a ratio below 1 is an improvement.
    pub less_is_better: bool,
}

impl Metric {
    /// The title with the way to read it.
    pub fn heading(&self) -> String {
        let better = if self.less_is_better { "less" } else { "more" };
        format!("{} ({better} is better)", self.title)
    }

    /// Whether it says what a server gains.
    pub fn answers(&self) -> bool {
        [SERVER_CPU, SERVER_CPU_PER_GB, SERVER_CPU_PER_REQUEST].contains(self)
    }

    /// Whether it is measured on algorithms alone.
    pub fn is_of_algorithms(&self) -> bool {
        [OPERATIONS, CYCLES].contains(self)
    }
}

/// The metrics that get a table of comparisons, most telling first.
pub const METRICS: [Metric; 16] = [
    SERVER_CPU,
    SERVER_CPU_PER_GB,
    SERVER_CPU_PER_REQUEST,
    Metric { name: "requests_per_second", title: "Requests per second", less_is_better: false },
    LATENCY_ALONE,
    GOODPUT,
    GOODPUT_WITHIN,
    HANDSHAKES,
    OPERATIONS,
    CYCLES,
    CYCLES_PER_LOOKUP,
    TIME_PER_LOOKUP,
    Metric { name: "build_s", title: "Time to build the table", less_is_better: true },
    Metric { name: "table_bytes", title: "Size of the table", less_is_better: true },
    WORK_DONE,
    CLOCK_KEPT,
];

/// The metrics of unit 1 that are shares of something; others are plain numbers.
pub const SHARES: [&str; 8] = [
    "client_busy",
    CLOCK_KEPT.name,
    "cpu_ratio",
    "full_batches",
    "pace_until_then",
    REQUESTS_KEPT.name,
    "share",
    WORK_DONE.name,
];

/// What a policy gets done.
pub const WORK_DONE: Metric =
    Metric { name: "work_done", title: "Work done", less_is_better: false };

/// What is left of the clock.
pub const CLOCK_KEPT: Metric =
    Metric { name: "clock_kept", title: "Clock kept, of the ambient one", less_is_better: false };

/// What a metric is called above a column.
pub fn column(metric: &str) -> String {
    match metric {
        "added_p50" => "Added".to_owned(),
        "added_p99" => "Added to p99".to_owned(),
        "began_late" => "Began late by".to_owned(),
        "client_busy" => "Busiest thread".to_owned(),
        "client_cpu_per_handshake" => "Client CPU each".to_owned(),
        "clock_kept" => "Clock kept".to_owned(),
        "cpu_ratio" => "CPU, of native's".to_owned(),
        "latency_p50" => "p50".to_owned(),
        "latency_p90" => "p90".to_owned(),
        "latency_p99" => "p99".to_owned(),
        "latency_p99.9" => "p99.9".to_owned(),
        "latency_max" => "Most".to_owned(),
        other => capitalised(&other.replace('_', " ")),
    }
}

/// Full handshakes by time.
pub const HANDSHAKES: Metric = Metric {
    name: "handshakes_per_second",
    title: "Full handshakes per second",
    less_is_better: false,
};

/// The metric that answers it for packets.
pub const CYCLES_PER_LOOKUP: Metric =
    Metric { name: "cycles_per_lookup", title: "Cycles per lookup", less_is_better: true };

/// The metric that answers what changes of rules cost lookups.
pub const TIME_PER_LOOKUP: Metric =
    Metric { name: "ns_per_lookup", title: "Time per lookup", less_is_better: true };

/// What is left of a server's requests as some of them turn to vector multiplications.
pub const REQUESTS_KEPT: Metric = Metric {
    name: "requests_kept",
    title: "Requests kept, of those under the first share",
    less_is_better: false,
};

/// The clock of a server's CPU.
pub const CLOCK: Metric =
    Metric { name: "server_clock", title: "Clock of the server's CPU, MHz", less_is_better: false };

/// The metric that answers whether acceleration pays on a server.
pub const SERVER_CPU: Metric = Metric {
    name: "server_cpu_per_handshake",
    title: "Server CPU per full handshake",
    less_is_better: true,
};

/// The metric that answers whether acceleration pays for downloads.
pub const SERVER_CPU_PER_GB: Metric =
    Metric { name: "server_cpu_per_gb", title: "Server CPU per gigabyte", less_is_better: true };

/// The metric that answers whether acceleration pays for pages.
pub const SERVER_CPU_PER_REQUEST: Metric = Metric {
    name: "server_cpu_per_request",
    title: "Server CPU per request",
    less_is_better: true,
};

/// Bytes of bodies by time.
pub const GOODPUT: Metric =
    Metric { name: "goodput", title: "Gigabits per second of bodies", less_is_better: false };

/// Bytes of bodies by time, where every body has to come within a limit.
pub const GOODPUT_WITHIN: Metric = Metric {
    name: "goodput_within_limit",
    title: "Gigabits per second of bodies, each within the limit",
    less_is_better: false,
};

/// Ratio of the rates at which a search for it ends: what is closer may be the same.
pub const SEARCH_CLOSE: f64 = 1.04;

/// The cost of messages, byte by byte.
pub const CYCLES_PER_BYTE: Metric =
    Metric { name: "cycles_per_byte", title: "Cycles per byte", less_is_better: true };

/// How much faster one cipher is than another.
pub const CIPHER_RATIO: Metric = Metric {
    name: "cipher_ratio",
    title: "Speed of AES-128-GCM over AES-128-CBC with HMAC-SHA1",
    less_is_better: false,
};

/// The metric that answers whether a lone client has to wait longer.
pub const LATENCY_ALONE: Metric = Metric {
    name: "latency_p50",
    title: "Median handshake latency of one connection",
    less_is_better: true,
};

/// What half of the clients of a partial load wait at most.
pub const LATENCY_P50: Metric =
    Metric { name: "latency_p50", title: "Median handshake latency", less_is_better: true };

/// What all but one in a hundred wait at most.
pub const LATENCY_P99: Metric = Metric {
    name: "latency_p99",
    title: "99th percentile of the handshake latency",
    less_is_better: true,
};

/// The metric that answers whether acceleration pays for an algorithm alone.
pub const OPERATIONS: Metric = Metric {
    name: "operations_per_second",
    title: "Operations per second, one core",
    less_is_better: false,
};

/// The cost of one operation of an algorithm alone, in cycles.
pub const CYCLES: Metric =
    Metric { name: "cycles_per_operation", title: "Cycles per operation", less_is_better: true };
