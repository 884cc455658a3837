//! Which crate may depend on which.

use crate::tidy::{Finding, House};
use crate::workspace::Package;

/// T11: dependencies that point the wrong way.
pub fn check(house: &House<'_>) -> Vec<Finding> {
    house.workspace.packages.iter().flat_map(|package| check_package(house, package)).collect()
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
    wrong.map(|wrong| Finding::new(manifest, 0, format!("depends on {}", wrong.name))).collect()
}

/// A test may use any crate, except where the very point is that the two never meet.
const FORBIDDEN_EVEN_IN_TESTS: &[(&str, &str)] = &[("loadgen", "crypto"), ("loadgen", "kernels")];

/// What each crate may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("batch", &[]),
    ("bench", &["bridge", "classify", "cpu", "crypto", "loadgen", "meter", "results"]),
    ("bridge", &[]),
    ("classify", &["cpu"]),
    ("c", &["classify", "cpu", "crypto"]),
    (
        "cli",
        &[
            "bench", "bridge", "classify", "cpu", "crypto", "fleet", "forward", "loadgen", "meter",
            "report", "results",
        ],
    ),
    ("cpu", &[]),
    ("crypto", &["cpu", "kernels", "secret", "vault"]),
    ("fleet", &["loadgen"]),
    ("forward", &["classify", "cpu"]),
    ("integration", &["bench", "bridge", "loadgen", "results"]),
    ("kernels", &["cpu", "secret"]),
    ("loadgen", &["results"]),
    ("meter", &["cpu", "crypto"]),
    ("ossl-sys", &[]),
    ("provider", &["batch", "bridge", "cpu", "crypto", "ossl-sys", "reserve", "secret"]),
    ("report", &["results"]),
    ("reserve", &[]),
    ("results", &[]),
    ("runtime", &["bridge", "reserve"]),
    ("secret", &[]),
    ("testkit", &["bridge", "cpu", "crypto"]),
    ("vault", &["secret"]),
    ("xtask", &["cpu"]),
];

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::workspace::{Dependency, Workspace};

    fn findings(name: &str, dependency: &str, is_dev: bool) -> usize {
        let root = PathBuf::from("/house");
        let dependency = Dependency { name: dependency.into(), is_dev, is_ours: true };
        let package = Package {
            name: name.into(),
            directory: root.join("crates").join(name),
            dependencies: vec![dependency],
            roots: Vec::new(),
        };
        let workspace = Workspace { target: root.join("target"), root, packages: vec![package] };
        check(&House { workspace: &workspace, sources: Vec::new() }).len()
    }

    #[test]
    fn arrows_point_one_way() {
        assert_eq!(findings("crypto", "kernels", false), 0);
        assert_eq!(findings("kernels", "crypto", false), 1);
        assert_eq!(findings("kernels", "crypto", true), 0);
        assert_eq!(findings("newcomer", "cpu", false), 1);
    }

    #[test]
    fn the_load_generator_never_meets_our_crypto() {
        assert_eq!(findings("loadgen", "crypto", false), 1);
        assert_eq!(findings("loadgen", "crypto", true), 1);
    }
}
