//! Which crate may depend on which.

use crate::tidy::{Finding, House};
use crate::workspace::Package;

/// T11: dependencies that are not in the list of arrows, and arrows that are no dependency.
pub fn check(house: &House<'_>) -> Vec<Finding> {
    let packages = &house.workspace.packages;
    let gone = ARROWS.iter().filter(|(name, _)| packages.iter().all(|other| other.name != *name));
    let mut findings: Vec<_> =
        gone.map(|(name, _)| Finding::new(LIST, 0, format!("there is no crate {name}"))).collect();
    findings.extend(packages.iter().flat_map(|package| check_package(house, package)));
    findings
}

fn check_package(house: &House<'_>, package: &Package) -> Vec<Finding> {
    let manifest = package.directory.join("Cargo.toml");
    let manifest = manifest.strip_prefix(&house.workspace.root).unwrap_or(&manifest);
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
        return vec![Finding::new(manifest, 0, "the crate has no line in the list of arrows")];
    };
    let wrong = package.dependencies.iter().filter(|dependency| {
        let name = dependency.name.as_str();
        let of_tests =
            dependency.is_dev && !FORBIDDEN_EVEN_IN_TESTS.contains(&(&package.name, name));
        dependency.is_ours && !of_tests && !allowed.contains(&name)
    });
    let mut findings: Vec<_> = wrong
        .map(|wrong| Finding::new(manifest, 0, format!("depends on {}", wrong.name)))
        .collect();
    let is_real = |name: &str| {
        let mut dependencies = package.dependencies.iter();
        dependencies.any(|dependency| !dependency.is_dev && dependency.name == name)
    };
    findings.extend(
        allowed.iter().filter(|name| !is_real(name)).map(|name| {
            Finding::new(LIST, 0, format!("{} does not depend on {name}", package.name))
        }),
    );
    findings
}

/// Where [`ARROWS`] stands.
const LIST: &str = "xtask/src/tidy/arrows.rs";

/// A test may use any crate, except where the very point is that the two never meet.
const FORBIDDEN_EVEN_IN_TESTS: &[(&str, &str)] = &[("loadgen", "crypto"), ("loadgen", "kernels")];

/// What each crate depends on.
const ARROWS: &[(&str, &[&str])] = &[
    ("batch", &[]),
    ("bench", &["bridge", "classify", "cpu", "crypto", "host", "loadgen", "meter", "results"]),
    ("bridge", &[]),
    ("classify", &["cpu", "vault"]),
    ("c", &["classify", "cpu", "crypto"]),
    ("cli", &["bridge", "cpu", "crypto", "host", "meter", "tables"]),
    ("cpu", &[]),
    ("crypto", &["cpu", "kernels", "secret", "vault"]),
    ("fleet", &["loadgen"]),
    ("forward", &["classify", "cpu"]),
    ("host", &["bridge", "cpu"]),
    ("integration", &["bench", "host", "loadgen", "results", "testkit"]),
    ("kernels", &["cpu", "secret"]),
    (
        "lab",
        &[
            "bench", "classify", "cli", "cpu", "fleet", "forward", "host", "loadgen", "meter",
            "report", "results", "tables",
        ],
    ),
    ("loadgen", &[]),
    ("meter", &["cpu", "crypto"]),
    ("ossl-sys", &[]),
    ("provider", &["batch", "bridge", "cpu", "crypto", "ossl-sys", "reserve", "secret", "vault"]),
    ("qat-stand-in", &[]),
    ("report", &["results", "tables"]),
    ("reserve", &[]),
    ("results", &["tables"]),
    ("runtime", &["bridge", "reserve", "vault"]),
    ("rustls", &["cpu", "crypto", "secret"]),
    ("secret", &[]),
    ("tables", &[]),
    ("testkit", &["bridge", "cpu"]),
    ("vault", &["secret"]),
    ("xtask", &["cpu"]),
];

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::workspace::{Dependency, Workspace};

    /// What is found where one crate is as listed but for a dependency more.
    fn findings(name: &str, dependency: &str, is_dev: bool) -> usize {
        let listed = ARROWS.iter().find(|(listed, _)| *listed == name);
        let mut dependencies: Vec<_> = listed
            .into_iter()
            .flat_map(|(_, listed)| *listed)
            .map(|name| Dependency { name: (*name).into(), is_dev: false, is_ours: true })
            .collect();
        dependencies.push(Dependency { name: dependency.into(), is_dev, is_ours: true });
        findings_in(name, dependencies)
    }

    fn findings_in(name: &str, dependencies: Vec<Dependency>) -> usize {
        let root = PathBuf::from("/house");
        let directory = root.join("crates").join(name);
        let package = Package { name: name.into(), directory, dependencies, roots: Vec::new() };
        let workspace = Workspace { target: root.join("target"), root, packages: Vec::new() };
        check_package(
            &House { workspace: &workspace, sources: Vec::new(), outside: Vec::new() },
            &package,
        )
        .len()
    }

    #[test]
    fn arrows_point_one_way() {
        assert_eq!(findings("crypto", "kernels", false), 0);
        assert_eq!(findings("kernels", "crypto", false), 1);
        assert_eq!(findings("kernels", "crypto", true), 0);
        assert_eq!(findings("newcomer", "cpu", false), 1);
    }

    #[test]
    fn an_arrow_that_is_no_dependency_is_found() {
        assert_eq!(findings_in("vault", Vec::new()), 1);
        let dependency = Dependency { name: "secret".into(), is_dev: true, is_ours: true };
        assert_eq!(findings_in("vault", vec![dependency]), 1, "a test's dependency is no arrow");
    }

    #[test]
    fn a_crate_that_is_gone_is_found() {
        let root = PathBuf::from("/house");
        let workspace = Workspace { target: root.join("target"), root, packages: Vec::new() };
        let house = House { workspace: &workspace, sources: Vec::new(), outside: Vec::new() };
        assert_eq!(check(&house).len(), ARROWS.len());
    }

    #[test]
    fn the_load_generator_never_meets_our_crypto() {
        assert_eq!(findings("loadgen", "crypto", false), 1);
        assert_eq!(findings("loadgen", "crypto", true), 1);
    }
}
