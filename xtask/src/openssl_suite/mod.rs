//! OpenSSL's own tests, those of Debian's source package, natively and with the provider preferred.

mod differences;
mod source;
mod tap;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Result, ensure};

use crate::openssl_suite::differences::{Difference, judge};
use crate::openssl_suite::source::{PATIENCE, Reach, Suite};
use crate::openssl_suite::tap::Outcome;
use crate::setup::{self, Need, Proof};
use crate::shell::{announce, announce_and_run};
use crate::workspace::{QUICK, Workspace};

/// What `cargo xtask openssl-suite` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Recipes of OpenSSL to run, by their names (`test_evp`); all of them unless some are named
    recipes: Vec<String>,
}

/// Runs the tests natively and accelerated; fails where the provider makes an unexplained
/// difference.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    setup::meet(NEEDS)?;
    announce_and_run(workspace.cargo().args(["build", QUICK, "--package=widelane-provider"]))?;
    let suite = Suite::prepare(&workspace.target.join("openssl-suite"))?;
    let recipes = suite.recipes(&arguments.recipes)?;
    let provider = workspace.quick("libwidelane.so");
    announce(&format!("{} recipes of {}, natively", recipes.len(), suite.name()));
    let natively = with_provider(&suite, &recipes, None)?;
    announce("the same with the provider preferred");
    let accelerated = with_provider(&suite, &recipes, Some(&provider));
    suite.configure(Reach::Everywhere, None)?;
    report(&natively, &accelerated?)
}

/// Recipes with tests that fail where the default library context has loaded any provider by its
/// configuration. These run once more, with providers in other contexts only.
const IN_CONTEXTS: [&str; 3] = ["test_evp_extra", "test_pkcs12", "test_sslapi"];

/// Runs recipes with the provider preferred, or with the default provider alone.
fn with_provider(suite: &Suite, recipes: &[String], provider: Option<&Path>) -> Result<Outcomes> {
    suite.configure(Reach::Everywhere, provider)?;
    if provider.is_some() {
        suite.sees_the_provider()?;
    }
    let mut all = outcomes(suite, recipes)?;
    suite.configure(Reach::Contexts, provider)?;
    let mut again = recipes.to_owned();
    again.retain(|recipe| IN_CONTEXTS.contains(&recipe.as_str()));
    let again = outcomes(suite, &again)?.into_iter();
    all.extend(again.map(|(recipe, tests)| (format!("{recipe} in its own context"), tests)));
    Ok(all)
}

/// The outcomes of each recipe's tests.
type Outcomes = BTreeMap<String, BTreeMap<String, Outcome>>;

/// Runs recipes, one on each CPU at a time.
fn outcomes(suite: &Suite, recipes: &[String]) -> Result<Outcomes> {
    let left: Mutex<VecDeque<&String>> = Mutex::new(recipes.iter().collect());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || -> Result<Vec<(String, BTreeMap<String, Outcome>)>> {
        let run = |recipe: &String| {
            let (said, is_finished) = suite.run(recipe)?;
            let mut tests = tap::read(&said);
            let ends = if is_finished { Outcome::Passed } else { Outcome::Failed };
            tests.insert(finishes(), ends);
            Ok((recipe.clone(), tests))
        };
        std::iter::from_fn(next).map(run).collect()
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let mut all = Outcomes::new();
        for worker in workers {
            all.extend(worker.join().expect("workers do not panic")?);
        }
        Ok(all)
    })
}

/// The name of a test that every recipe has: that it does not hang.
fn finishes() -> String {
    format!("ends within {PATIENCE} s")
}

/// Lists the recipes that hang, and the differences, each with its reason.
fn report(natively: &Outcomes, accelerated: &Outcomes) -> Result<()> {
    let count = |outcomes: &Outcomes| outcomes.values().map(BTreeMap::len).sum::<usize>();
    let failed = |outcomes: &Outcomes| {
        let all = outcomes.values().flat_map(BTreeMap::values);
        all.filter(|outcome| **outcome == Outcome::Failed).count()
    };
    for (how, outcomes) in [("natively", natively), ("accelerated", accelerated)] {
        announce(&format!("{} tests {how}, {} failed", count(outcomes), failed(outcomes)));
        let hangs = |(_, tests): &(_, &BTreeMap<_, _>)| tests[&finishes()] == Outcome::Failed;
        for (recipe, _) in outcomes.iter().filter(hangs) {
            eprintln!("{recipe} was stopped after {PATIENCE} s {how}");
        }
    }
    // Each has the one that it ends.
    ensure!(count(natively) > 2 * natively.len(), "hardly a test ran: look at what is installed");
    let differences = natively
        .iter()
        .flat_map(|(recipe, tests)| Difference::between(recipe, tests, &accelerated[recipe]))
        .collect::<Vec<_>>();
    let (explained, unexplained): (Vec<_>, Vec<_>) =
        differences.iter().partition(|difference| judge(difference).is_some());
    for difference in &explained {
        eprintln!("{difference}\n    {}", judge(difference).unwrap_or_default());
    }
    for difference in &unexplained {
        eprintln!("{difference}\n    UNEXPLAINED");
    }
    ensure!(
        unexplained.is_empty(),
        "{} differences are not explained: repair the provider, or explain them in \
         xtask/src/openssl_suite/differences.rs",
        unexplained.len()
    );
    announce(&format!("{} differences, each explained", explained.len()));
    Ok(())
}

const NEEDS: &[Need] = &[
    Need::to_build("dpkg-dev", Proof::Program("dpkg-source")),
    Need::to_build("make", Proof::Program("make")),
    Need::to_build("gcc", Proof::Program("gcc")),
    Need::to_build("perl", Proof::Program("prove")),
];
