//! Open files: every connection is one, and every thread of clients has one to wait at.

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files besides those of connections and of threads of clients.
const FILES_BESIDES: u64 = 32;

/// Most connections that this process may have on this many threads of clients.
pub fn connections_possible(threads: usize) -> usize {
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    usize::try_from(files.saturating_sub(besides(threads))).unwrap_or(usize::MAX)
}

/// Lets this process have this many connections on this many threads of clients.
pub fn raise_file_limit(connections: usize, threads: usize) -> anyhow::Result<()> {
    let needed = connections as u64 + besides(threads);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    // Root may have more than its maximum.
    let maximum = limit.maximum.map(|maximum| maximum.max(needed));
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).with_context(|| {
        let most = limit.maximum.unwrap_or_default();
        format!(
            "{connections} connections need {needed} open files, and this process may have {most}, \
             enough for {}; raise the limit (ulimit -Hn, or LimitNOFILE= of the service), become \
             root, or ask for fewer --connections",
            most.saturating_sub(besides(threads))
        )
    })
}

/// Files besides those of connections.
fn besides(threads: usize) -> u64 {
    threads as u64 + FILES_BESIDES
}
