//! Where a service's unit file and drop-ins are, and which of them systemd reads.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context;

use super::refusal;
use crate::enable::drop_in::FILE_NAME;
use crate::system::{below, way};

/// Where units and their drop-ins are, strongest first (systemd.unit(5)).
const DIRECTORIES: [&str; 13] = [
    "etc/systemd/system.control",
    "run/systemd/system.control",
    "run/systemd/transient",
    "run/systemd/generator.early",
    "etc/systemd/system",
    "etc/systemd/system.attached",
    "run/systemd/system",
    "run/systemd/system.attached",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
    "run/systemd/generator.late",
];

/// The strongest unit file of a service, with the name that systemd knows the service by: a link to
/// another unit gives that one a second name, and what is masked or lies elsewhere keeps its own.
pub(super) fn unit_file(root: &Path, name: &str) -> Option<(String, PathBuf)> {
    let mut name = name.to_owned();
    for _ in 0..LINKS_MAX {
        let path = entry(root, &name)?;
        match linked_unit(root, &path).map(|target| instance_of(&target, &name)) {
            Some(other) if other != name => name = other,
            _ => return Some((name, path)),
        }
    }
    None
}

/// Second names that systemd follows one after the other.
const LINKS_MAX: usize = 8;

/// The name that systemd knows a service by; none if there is none.
pub fn own_name(root: &Path, name: &str) -> Option<String> {
    unit_file(root, name).map(|(name, _)| name)
}

/// The strongest file that may be a service's unit, whatever it is. A unit of a template
/// (`haproxy@web`) without a file of its own is in the template's.
fn entry(root: &Path, name: &str) -> Option<PathBuf> {
    let template = name.split_once('@').map(|(template, _)| format!("{template}@"));
    [Some(name), template.as_deref()].into_iter().flatten().find_map(|name| {
        let file = format!("{name}.service");
        let paths = DIRECTORIES.map(|directory| Path::new(directory).join(&file));
        paths.into_iter().find(|path| outside(root, path).symlink_metadata().is_ok())
    })
}

/// Where a file is, by a path that may be that of a link.
fn outside(root: &Path, path: &Path) -> PathBuf {
    below(root, path.parent().unwrap_or(path)).join(path.file_name().unwrap_or_default())
}

/// The name in that of a unit's file.
fn stem(path: &Path) -> Option<&str> {
    path.file_name().and_then(OsStr::to_str)?.strip_suffix(".service")
}

/// The name of the unit that a unit's file is a link to; none if it is no link, or leads to where
/// no units are.
fn linked_unit(root: &Path, path: &Path) -> Option<String> {
    let target = fs::read_link(outside(root, path)).ok()?;
    let target = path.parent()?.join(target);
    let (above, _) = way(root, target.parent()?);
    let has_units = DIRECTORIES.iter().any(|units| way(root, Path::new(units)).0 == above);
    stem(&target).filter(|_| has_units).map(str::to_owned)
}

/// The unit that a name leads to whose file is a link to `target`: of a template the instance.
fn instance_of(target: &str, name: &str) -> String {
    let instance = name.split_once('@').map(|(_, instance)| instance);
    match instance.filter(|_| target.ends_with('@')) {
        Some(instance) => format!("{target}{instance}"),
        None => target.to_owned(),
    }
}

/// All names of a service, its own last.
fn names(root: &Path, own: &str) -> Vec<String> {
    let entries =
        DIRECTORIES.iter().flat_map(|units| fs::read_dir(below(root, Path::new(units)))).flatten();
    let links = entries.flatten().filter(|entry| entry.path().is_symlink());
    let linked = links.filter_map(|entry| stem(&entry.path()).map(str::to_owned));
    let mut names: BTreeSet<String> = linked.map(|name| instance_of(&name, own)).collect();
    names.retain(|name| name != own && own_name(root, name).as_deref() == Some(own));
    names.into_iter().chain([own.to_owned()]).collect()
}

/// The text of a unit's file or drop-in. It is masked by a link to `/dev/null`, which is there only
/// while a system runs.
pub(super) fn text(root: &Path, path: &Path) -> anyhow::Result<String> {
    let outside = below(root, path);
    if outside == root.join("dev/null") {
        return Ok(String::new());
    }
    let text = fs::read(outside);
    let text = text.with_context(|| format!("cannot read {}", root.join(path).display()))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The directories of drop-ins that a service has by a name, the most special last: those of what
/// the name begins with up to a dash (`a-.service.d` of `a-b`), of its template, its own.
pub(super) fn drop_in_directories(name: &str) -> Vec<String> {
    let template = name.split_once('@').map(|(template, _)| format!("{template}@"));
    let prefix = template.as_deref().unwrap_or(name);
    let prefixes = prefix.match_indices('-').map(|(at, dash)| &prefix[..at + dash.len()]);
    let names = prefixes.chain(template.as_deref()).chain([name]);
    names.map(|name| format!("{name}.service.d")).collect()
}

/// All drop-ins of a service but ours, in systemd's order: by file name. Of one file name it takes
/// that of the service's own name before that of other names and that of all services, and of
/// those the strongest directory's.
pub(super) fn drop_ins(
    root: &Path,
    name: &str,
) -> anyhow::Result<impl Iterator<Item = (PathBuf, String)>> {
    let mut found = BTreeMap::new();
    let own = names(root, name).into_iter().map(|name| drop_in_directories(&name));
    for names in [vec!["service.d".to_owned()]].into_iter().chain(own) {
        let directories = DIRECTORIES
            .iter()
            .rev()
            .flat_map(|above| names.iter().map(move |directory| Path::new(above).join(directory)));
        for directory in directories {
            let entries = fs::read_dir(below(root, &directory)).into_iter().flatten().flatten();
            for file_name in entries.map(|entry| entry.file_name()) {
                let path = directory.join(&file_name);
                if path.extension().is_none_or(|extension| extension != "conf")
                    || file_name == FILE_NAME
                {
                    continue;
                }
                match text(root, &path) {
                    Ok(text) => drop(found.insert(file_name, (root.join(path), text))),
                    Err(error) if refusal(&error) == Some(io::ErrorKind::PermissionDenied) => {
                        return Err(error);
                    }
                    // systemd reads no directories, and no links that lead nowhere.
                    Err(_) => {}
                }
            }
        }
    }
    Ok(found.into_values())
}

/// The program that systemd starts for a path. A name alone is looked for in `searched` if there
/// are any directories, else where systemd looks.
pub(super) fn found(root: &Path, searched: &[PathBuf], program: &Path) -> PathBuf {
    let usual = SEARCHED.iter().map(Path::new).filter(|_| searched.is_empty());
    let directories = searched.iter().map(PathBuf::as_path).chain(usual);
    let is_name = program.components().count() == 1 && program.is_relative();
    let mut named = directories.filter(|_| is_name).map(|directory| directory.join(program));
    named.find(|path| below(root, path).exists()).unwrap_or_else(|| program.to_owned())
}

/// Where systemd looks for programs.
const SEARCHED: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
