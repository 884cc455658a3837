//! The topology: CPUs, cores, NUMA nodes and caches, from `/sys`, and a plain answer where it is
//! missing.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, thread};

use serde::Serialize;

/// The CPUs that are on line, and the caches they share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// The CPUs, by number.
    pub cpus: Vec<Cpu>,
    /// The caches that the first CPU sees, nearest first; empty where `/sys` does not tell.
    pub caches: Vec<Cache>,
}

/// One CPU as the kernel counts them: a hardware thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// Its number.
    pub index: usize,
    /// The hardware threads of its core, itself included.
    pub siblings: Vec<usize>,
    /// The package it sits in.
    pub package: usize,
    /// Its NUMA node.
    pub node: usize,
}

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// 1, 2, 3.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Its size.
    pub size_bytes: u64,
    /// How many CPUs share it.
    pub cpu_count: usize,
}

/// Where the kernel tells of the topology.
pub(crate) const ROOT: &str = "/sys/devices/system";

impl Topology {
    /// Asks `/sys/devices/system`.
    pub fn detect() -> Self {
        Topology::read(Path::new(ROOT))
    }

    /// Reads a tree laid out like `/sys/devices/system`. What is missing there is answered plainly:
    /// each CPU a core of its own, in package 0 and node 0.
    pub fn read(root: &Path) -> Self {
        let online = online(root).unwrap_or_else(|| {
            (0..thread::available_parallelism().map_or(1, usize::from)).collect()
        });
        let nodes = nodes(&root.join("node"));
        let cpu = |&index: &usize| {
            let topology = root.join(format!("cpu/cpu{index}/topology"));
            let siblings = value(&topology.join("thread_siblings_list"));
            let package = value(&topology.join("physical_package_id"));
            Cpu {
                index,
                siblings: siblings.and_then(|list| cpu_list(&list)).unwrap_or_else(|| vec![index]),
                package: package.and_then(|package| package.parse().ok()).unwrap_or(0),
                node: nodes
                    .iter()
                    .find(|(_, cpus)| cpus.contains(&index))
                    .map_or(0, |(node, _)| *node),
            }
        };
        let caches =
            online.first().map(|first| caches(&root.join(format!("cpu/cpu{first}/cache"))));
        Topology { cpus: online.iter().map(cpu).collect(), caches: caches.unwrap_or_default() }
    }

    /// How many cores the CPUs make up.
    pub fn core_count(&self) -> usize {
        self.cpus.iter().map(|cpu| &cpu.siblings).collect::<BTreeSet<_>>().len()
    }

    /// How many packages hold CPUs.
    pub fn package_count(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.package).collect::<BTreeSet<_>>().len()
    }

    /// How many NUMA nodes hold CPUs.
    pub fn node_count(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.node).collect::<BTreeSet<_>>().len()
    }
}

/// The CPUs that are online.
pub(crate) fn online(root: &Path) -> Option<Vec<usize>> {
    cpu_list(&value(&root.join("cpu/online"))?)
}

/// The CPUs on line that this thread may use, as `/proc` lists them; nothing where it does not.
pub fn allowed() -> Option<Vec<usize>> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    on_line(list, online(Path::new(ROOT)).as_deref())
}

/// Of a list of CPUs those on line, as far as that is known: the kernel lists CPUs off line as
/// allowed, too. A list without any that is allowed is not the kernel's, but one of a container
/// that counts CPUs from 0.
fn on_line(allowed: &str, online: Option<&[usize]>) -> Option<Vec<usize>> {
    let mut cpus = cpu_list(allowed.trim())?;
    if let Some(online) = online
        && online.iter().any(|cpu| cpus.contains(cpu))
    {
        cpus.retain(|cpu| online.contains(cpu));
    }
    Some(cpus)
}

/// The CPUs that what this process starts may be kept on, whatever CPUs the process itself keeps to
/// (`taskset`), as far as that is told: those on line. Where none of them is allowed, the system is
/// a container that counts CPUs from 0, and they are those that are allowed. Nobody tries, since a
/// filter of system calls may end whoever does.
pub(crate) fn usable() -> Option<Vec<usize>> {
    usable_of(online(Path::new(ROOT)), allowed())
}

fn usable_of(online: Option<Vec<usize>>, allowed: Option<Vec<usize>>) -> Option<Vec<usize>> {
    match (online, allowed) {
        (Some(online), Some(allowed)) if !online.iter().any(|cpu| allowed.contains(cpu)) => {
            Some(allowed)
        }
        (online, allowed) => online.or(allowed),
    }
}

/// NUMA nodes and their CPUs.
fn nodes(directory: &Path) -> Vec<(usize, Vec<usize>)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let node = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            Some((node, cpu_list(&value(&entry.path().join("cpulist"))?)?))
        })
        .collect()
}

/// The caches described in `directory`, by level, then kind.
fn caches(directory: &Path) -> Vec<Cache> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let cache = |path: &Path| {
        Some(Cache {
            level: value(&path.join("level"))?.parse().ok()?,
            kind: value(&path.join("type"))?,
            size_bytes: size_bytes(&value(&path.join("size"))?)?,
            cpu_count: cpu_list(&value(&path.join("shared_cpu_list"))?)?.len(),
        })
    };
    let mut caches: Vec<Cache> = entries.filter_map(|entry| cache(&entry.ok()?.path())).collect();
    caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    caches
}

/// The one line of a `/sys` file.
fn value(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// CPUs that Linux can count, and more than it is ever built for.
const CPUS_MAX: usize = 8192;

/// A list as the kernel writes it, `0-3,8,10-11`; nothing where it is malformed or empty.
pub fn cpu_list(list: &str) -> Option<Vec<usize>> {
    let number = |digits: &str| {
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|number| is_plain && *number < CPUS_MAX)
    };
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some(number(first)?..=number(last)?),
        None => Some(number(part)?..=number(part)?),
    };
    let ranges: Option<Vec<_>> =
        list.split(',').map(|part| range(part.trim()).filter(|range| !range.is_empty())).collect();
    Some(ranges?.into_iter().flatten().collect())
}

/// A size as the kernel writes it: `48K`, `2M`.
fn size_bytes(size: &str) -> Option<u64> {
    let (digits, unit) = match size.as_bytes().last()? {
        b'K' => (&size[..size.len() - 1], 1 << 10),
        b'M' => (&size[..size.len() - 1], 1 << 20),
        _ => (size, 1),
    };
    Some(digits.parse::<u64>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with two cores of two threads each, on two nodes.
    fn two_cores_four_threads() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("cpu/online", "0-3\n");
        for (cpu, siblings, package) in [(0, "0,2", 0), (1, "1,3", 1), (2, "0,2", 0), (3, "1,3", 1)]
        {
            write(&format!("cpu/cpu{cpu}/topology/thread_siblings_list"), siblings);
            write(&format!("cpu/cpu{cpu}/topology/physical_package_id"), &package.to_string());
        }
        write("node/node0/cpulist", "0,2\n");
        write("node/node1/cpulist", "1,3\n");
        write("node/possible", "0-1\n");
        for (index, level, kind, size, shared) in
            [(0, 3, "Unified", "32M", "0-3"), (1, 1, "Data", "48K", "0,2")]
        {
            let cache = format!("cpu/cpu0/cache/index{index}");
            write(&format!("{cache}/level"), &format!("{level}\n"));
            write(&format!("{cache}/type"), kind);
            write(&format!("{cache}/size"), size);
            write(&format!("{cache}/shared_cpu_list"), shared);
        }
        write("cpu/cpu0/cache/uevent", "");
        root
    }

    #[test]
    fn a_full_tree_is_understood() {
        let root = two_cores_four_threads();
        let topology = Topology::read(root.path());
        assert_eq!(topology.cpus.len(), 4);
        assert_eq!(topology.core_count(), 2);
        assert_eq!(topology.package_count(), 2);
        assert_eq!(topology.node_count(), 2);
        assert_eq!(topology.cpus[3], Cpu { index: 3, siblings: vec![1, 3], package: 1, node: 1 });
        let caches: Vec<_> =
            topology.caches.iter().map(|c| (c.level, c.size_bytes, c.cpu_count)).collect();
        assert_eq!(caches, [(1, 48 << 10, 2), (3, 32 << 20, 4)]);
    }

    #[test]
    fn without_a_tree_each_cpu_is_a_core() {
        let topology = Topology::read(Path::new("/nonexistent"));
        assert!(!topology.cpus.is_empty());
        assert_eq!(topology.core_count(), topology.cpus.len());
        assert_eq!((topology.package_count(), topology.node_count()), (1, 1));
        assert!(topology.caches.is_empty());
    }

    #[test]
    fn cpus_off_line_are_not_there() {
        let on_line = |allowed: &str, online: Option<&str>| {
            on_line(allowed, online.and_then(cpu_list).as_deref())
        };
        assert_eq!(on_line("0-7\n", Some("0-2,4")), Some(vec![0, 1, 2, 4]));
        assert_eq!(on_line("1,5", Some("0-3")), Some(vec![1]));
        assert_eq!(on_line("0-3", None), Some(vec![0, 1, 2, 3]));
        assert_eq!(on_line("0-1", Some("")), Some(vec![0, 1]), "what is not told is not known");
        assert_eq!(on_line("24,26", Some("0-1")), Some(vec![24, 26]), "lxcfs counts from 0");
        assert_eq!(on_line("", Some("0-3")), None);
    }

    #[test]
    fn cpus_of_a_container_are_those_that_it_may_use() {
        let usable = |online: &str, allowed: &str| usable_of(cpu_list(online), cpu_list(allowed));
        assert_eq!(usable("0-3", "1"), Some(vec![0, 1, 2, 3]));
        assert_eq!(usable("0-1", "24,26"), Some(vec![24, 26]));
        assert_eq!(usable("0-1", ""), Some(vec![0, 1]));
        assert_eq!(usable("", "1"), Some(vec![1]));
        assert_eq!(usable("", ""), None);
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpu_list("0-3,8,10-11"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(cpu_list("5"), Some(vec![5]));
        for malformed in ["", "a", "1-", "1,,2", "+3", "5-3"] {
            assert_eq!(cpu_list(malformed), None, "{malformed:?}");
        }
    }
}
