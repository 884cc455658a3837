//! Rule files of a forwarder, and whether they have changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::bail;
use widelane_classify::BuildError;
use widelane_cpu::Policy;
use widelane_forward::{Reload, Routes, RuleInfo};

use super::Args;
use crate::acl::build::limits;
use crate::acl::input::text;
use crate::acl::name_limit;

/// The files of a command line.
pub struct Rules {
    files: Vec<RuleFile>,
    /// How often one was loaded that said something new.
    loads: AtomicU64,
}

struct RuleFile {
    path: PathBuf,
    /// What the file was when it was read last.
    stamp: Option<Stamp>,
    routes: Routes,
}

/// What a file said when it was read.
pub struct Source {
    path: PathBuf,
    is_v6: bool,
    stamp: Option<Stamp>,
    text: String,
}

/// Reads the files of a command line.
pub fn read(args: &Args) -> anyhow::Result<Vec<Source>> {
    let files = [(&args.rules_ipv4, false), (&args.rules_ipv6, true)].into_iter();
    let files = files.filter_map(|(path, is_v6)| Some((path.as_ref()?, is_v6)));
    let source = |(path, is_v6): (&PathBuf, bool)| {
        // The stamp is older than what is read: a change meanwhile is noticed later.
        let stamp = stamp(path);
        Ok(Source { path: path.clone(), is_v6, stamp, text: text(path)? })
    };
    files.map(source).collect()
}

/// What tells one state of a file from another: its number, its length, and when its contents and
/// its mode were last changed.
type Stamp = (u64, u64, [i64; 4]);

fn stamp(path: &Path) -> Option<Stamp> {
    let facts = fs::metadata(path).ok()?;
    let times = [facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec()];
    Some((facts.ino(), facts.len(), times))
}

impl Rules {
    /// The rules of files, for so many ports.
    pub fn new(
        sources: &[Source],
        ports: usize,
        memory_max: usize,
        policy: &Policy,
    ) -> anyhow::Result<Self> {
        let limits = limits(memory_max);
        let mut files = Vec::new();
        for Source { path, is_v6, stamp, text } in sources {
            let (name, is_v6) = (path.display().to_string(), *is_v6);
            let routes = Routes::new(&name, text, is_v6, ports, &limits, policy)?;
            if routes.is_v6() != is_v6 {
                let [flag, other] = if is_v6 { ["ipv6", "ipv4"] } else { ["ipv4", "ipv6"] };
                bail!("{name}: --rules-{flag} got rules that are for --rules-{other}");
            }
            files.push(RuleFile { path: path.clone(), stamp: *stamp, routes });
        }
        Ok(Rules { files, loads: AtomicU64::new(0) })
    }

    pub fn routes(&self) -> impl Iterator<Item = &Routes> {
        self.files.iter().map(|file| &file.routes)
    }

    /// Which rule has a number.
    pub fn info(&self, is_v6: bool, number: u32) -> Option<RuleInfo> {
        self.routes().find(|routes| routes.is_v6() == is_v6)?.info(number)
    }

    /// The stamps of the files as they were read.
    pub fn stamps(&self) -> Vec<Option<Stamp>> {
        self.files.iter().map(|file| file.stamp).collect()
    }

    /// How often rules were loaded that said something new.
    pub fn loads(&self) -> u64 {
        self.loads.load(Ordering::Relaxed)
    }

    /// Loads the files anew that have changed since `stamps`, or all, and returns what is wrong
    /// with them; the rules of such a file stay as they were.
    pub fn refresh(&self, stamps: &mut [Option<Stamp>], all: bool) -> Vec<anyhow::Error> {
        let mut errors = Vec::new();
        for (file, known) in self.files.iter().zip(stamps) {
            let now = stamp(&file.path);
            // A file that is not there for a moment is being replaced.
            if !all && (now.is_none() || now == *known) {
                continue;
            }
            *known = now;
            match text(&file.path).and_then(|text| Ok(file.routes.reload(&text)?)) {
                Ok(Reload::Unchanged) => {}
                Ok(Reload::OneRule | Reload::All) => {
                    self.loads.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    errors.push(name_limit(error).context("the rules stay as they were"));
                }
            }
        }
        errors
    }

    /// Why lookups get slower with every change, where that is another reason than the one `known`
    /// of a file.
    pub fn troubles(&self, known: &mut [Option<BuildError>]) -> Vec<anyhow::Error> {
        let mut errors = Vec::new();
        for (file, known) in self.files.iter().zip(known) {
            let now = file.routes.live().trouble();
            if let Some(trouble) = now.clone().filter(|_| now != *known) {
                let name = file.path.display();
                errors.push(name_limit(trouble.into()).context(format!(
                    "{name}: lookups get slower with every change of a rule, since the trees \
                     cannot be rebuilt"
                )));
            }
            *known = now;
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use widelane_classify::Limits;

    use super::*;

    /// As many routes to single hosts.
    fn hosts(count: u32) -> String {
        let host = |number: u32| {
            let [_, a, b, c] = (number.wrapping_mul(0x9e37_79b1)).to_be_bytes();
            format!("R0.0.0.0/0 10.{a}.{b}.{c}/32 0 : 65535 0 : 65535 0/0 0\n")
        };
        (0..count).map(host).collect()
    }

    #[test]
    fn rules_beyond_the_limit_are_told_once_by_the_option_that_allows_more() {
        let (few, mut limits) = (hosts(300), Limits { table_bytes: 16 << 10 });
        let build = |limits: &Limits| Routes::new("r", &few, false, 1, limits, &Policy::open());
        while build(&limits).is_err() {
            limits.table_bytes += 1 << 10;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r");
        let file = RuleFile { path: path.clone(), stamp: None, routes: build(&limits).unwrap() };
        let rules = Rules { files: vec![file], loads: AtomicU64::new(0) };
        let (mut known, mut stamps) = ([None], rules.stamps());
        assert!(rules.troubles(&mut known).is_empty());
        for _ in 0..2 {
            for count in 301..=600 {
                fs::write(&path, hosts(count)).unwrap();
                assert!(rules.refresh(&mut stamps, true).is_empty());
            }
            rules.files[0].routes.live().settle();
            let told: Vec<String> =
                rules.troubles(&mut known).iter().map(|error| format!("{error:#}")).collect();
            assert!(told.len() == 1 && told[0].contains("r: lookups get slower"), "{told:?}");
            assert!(told[0].contains("than --memory-max allows"), "{told:?}");
            assert!(rules.troubles(&mut known).is_empty(), "it is told once");
            fs::write(&path, &few).unwrap();
            assert!(rules.refresh(&mut stamps, true).is_empty());
            assert!(rules.troubles(&mut known).is_empty(), "the next time it is told again");
        }
        fs::write(&path, hosts(1200)).unwrap();
        let told = format!("{:#}", rules.refresh(&mut stamps, true)[0]);
        assert!(told.contains("than --memory-max allows"), "{told}");
    }

    #[test]
    fn each_file_that_is_wrong_or_missing_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, is_v6| {
            let (path, limits) = (directory.path().join(name), Limits::default());
            fs::write(&path, "").unwrap();
            let routes = Routes::new(name, "", is_v6, 1, &limits, &Policy::open()).unwrap();
            RuleFile { stamp: stamp(&path), path, routes }
        };
        let files = vec![file("v4", false), file("v6", true)];
        let rules = Rules { files, loads: AtomicU64::new(0) };
        let mut stamps = rules.stamps();
        let mut refresh = |all| -> Vec<String> {
            let errors = rules.refresh(&mut stamps, all);
            errors.iter().map(|error| format!("{error:#}")).collect()
        };
        assert_eq!(refresh(true), [""; 0]);
        for name in ["v4", "v6"] {
            fs::write(directory.path().join(name), "nonsense\n").unwrap();
        }
        let errors = refresh(false);
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors.iter().zip(["v4", "v6"]).all(|(error, name)| {
            error.starts_with(&format!("the rules stay as they were: {name}:1:1: expected"))
        }));
        assert_eq!(refresh(false), [""; 0], "it is told once");
        // A file that comes to be readable has the length and the time of before.
        let path = directory.path().join("v4");
        let written = stamp(&path);
        // Older kernels count the time of such a change in milliseconds.
        while stamp(&path) == written {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let errors = refresh(false);
        assert!(errors.len() == 1 && errors[0].contains("v4:1:1"), "{errors:?}");
        fs::remove_file(directory.path().join("v6")).unwrap();
        assert_eq!(refresh(false), [""; 0], "it may be about to be replaced");
        let errors = refresh(true);
        assert!(errors.len() == 2 && errors[1].contains("cannot read"), "{errors:?}");
    }
}
