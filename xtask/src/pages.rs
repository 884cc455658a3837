//! Opens reports in Chromium: no message on its console, nothing that axe-core objects to, nothing
//! wider than the window.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::shell::{announce, capture, find_program};
use crate::workspace::Workspace;

/// The release of axe-core, and what npm says of its archive.
const AXE: &str = "axe-core@4.10.3";
const AXE_INTEGRITY: &str = concat!(
    "sha512-Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/",
    "PbZhideTcEg=="
);

/// Results whose reports are opened: each kind of chart and table is in one of them.
const RESULTS: [&str; 15] = [
    "lab/report/tests/found/load.json",
    "lab/report/tests/found/load-search.json",
    "lab/report/tests/found/power-made-up.json",
    "lab/report/tests/found/power-map.json",
    "lab/report/tests/found/power-transitions.json",
    "lab/report/tests/found/power-watch.json",
    "lab/report/tests/found/tune.json",
    "lab/report/tests/sample.json",
    "lab/report/tests/speed.json",
    "records/epyc-zen5-2vcpu/2026-11-22-acl/acl-4096.json",
    "records/epyc-zen5-2vcpu/2026-11-22-acl/acl-65536-updates.json",
    "records/epyc-zen5-2vcpu/2026-11-22-compare-bulk.json",
    "records/epyc-zen5-2vcpu/2026-11-22-compare-all.json",
    "records/epyc-zen5-2vcpu/2026-11-22-compare-mixed.json",
    "records/epyc-zen5-2vcpu/2026-11-22-speed-hashes.json",
];

/// What `cargo xtask pages` takes.
#[derive(clap::Args, Default)]
pub struct Arguments {
    /// Pages to open instead, as `--html` writes them
    #[arg(value_name = "FILE")]
    pages: Vec<PathBuf>,
}

/// How a page is looked at.
struct Look {
    name: &'static str,
    dark: bool,
    width: u32,
}

/// The narrowest is as narrow as Chromium makes a window.
const LOOKS: [Look; 3] = [
    Look { name: "light", dark: false, width: 1200 },
    Look { name: "dark", dark: true, width: 1200 },
    Look { name: "narrow", dark: false, width: 500 },
];

/// Opens the pages that are given, or those of [`RESULTS`] as the program writes them that it
/// builds.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    if !arguments.pages.is_empty() {
        return look_at(workspace, &arguments.pages);
    }
    workspace.build()?;
    look_at_all(workspace)
}

/// Opens the pages of [`RESULTS`] as the program writes them that is there.
pub fn look_at_all(workspace: &Workspace) -> Result<()> {
    let place = place(workspace)?;
    let mut pages = Vec::new();
    for results in RESULTS {
        let page = place.join(results.replace('/', "-")).with_extension("html");
        let mut report = Command::new(workspace.quick("widelane"));
        report.arg("report").arg(workspace.root.join(results)).arg("--output").arg(&page);
        capture(&mut report)?;
        pages.push(page);
    }
    look_at(workspace, &pages)
}

/// Where pages are written.
fn place(workspace: &Workspace) -> Result<PathBuf> {
    let place = workspace.target.join("pages");
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    Ok(place)
}

/// Says so and does nothing where there is no Chromium.
fn look_at(workspace: &Workspace, pages: &[PathBuf]) -> Result<()> {
    let Some(chromium) = find_program("chromium") else {
        announce("pages: not opened, for there is no chromium; apt-get install chromium");
        return Ok(());
    };
    let place = place(workspace)?;
    let axe = axe(&place)?;
    let browser = Browser { chromium, place, axe };
    let mut objections = Vec::new();
    for page in pages {
        objections.extend(browser.look_at(page)?);
    }
    ensure!(objections.is_empty(), "reports are not as they should be:\n{}", objections.join("\n"));
    Ok(())
}

/// axe-core's text, from where an earlier run left it, or from npm; none where npm or its registry
/// cannot be reached, and then all the rest is looked at.
fn axe(place: &Path) -> Result<Option<String>> {
    let script = place.join("package/axe.min.js");
    if !script.exists() {
        let mut pack = Command::new("npm");
        pack.args(["pack", "--json", AXE]).current_dir(place);
        let told = match capture(&mut pack) {
            Ok(told) => told,
            Err(error) => {
                announce(&format!(
                    "pages: opened without {AXE}, which npm does not fetch: {error:#}"
                ));
                return Ok(None);
            }
        };
        let told: Value = serde_json::from_str(&told).context("npm pack --json")?;
        ensure!(told[0]["integrity"] == AXE_INTEGRITY, "{AXE} is not what it was: {told}");
        let archive = told[0]["filename"].as_str().context("npm names no file")?;
        capture(Command::new("tar").args(["--extract", "--file", archive]).current_dir(place))?;
    }
    let text = fs::read_to_string(&script);
    text.map(Some).with_context(|| format!("cannot read {}", script.display()))
}

struct Browser {
    chromium: PathBuf,
    place: PathBuf,
    axe: Option<String>,
}

impl Browser {
    /// What there is to object to in `page`.
    fn look_at(&self, page: &Path) -> Result<Vec<String>> {
        let name = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        announce(&format!("page {name}"));
        let page = page.canonicalize().with_context(|| format!("no page {}", page.display()))?;
        let (_, said) = self.open(&page, LOOKS[0].width)?;
        let messages = said.lines().filter(|line| line.contains("CONSOLE"));
        let mut objections: Vec<String> =
            messages.map(|message| format!("{name}: the console says {message}")).collect();
        let html = fs::read_to_string(&page).context("a page that was there a moment ago")?;
        for look in &LOOKS {
            let copy = self.place.join(format!("{name}.{}.axe.html", look.name));
            fs::write(&copy, self.with_axe(&html, look.dark)?).context("cannot write a copy")?;
            let (document, _) = self.open(&copy, look.width)?;
            for objection in found(&document).with_context(|| copy.display().to_string())? {
                objections.push(format!("{name}, {}: {objection}", look.name));
            }
        }
        Ok(objections)
    }

    /// What became of the document in the end, and what Chromium said.
    fn open(&self, page: &Path, width: u32) -> Result<(String, String)> {
        let output = Command::new(&self.chromium)
            // There is no sandbox for root, and the pages are ours.
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
            .args(["--virtual-time-budget=60000", "--dump-dom"])
            .arg(format!("--window-size={width},2000"))
            .arg(format!("--user-data-dir={}", self.place.join("chromium").display()))
            .arg(format!("file://{}", page.display()))
            .stdin(Stdio::null())
            .output()
            .context("cannot start chromium")?;
        let [document, said] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        ensure!(output.status.success(), "chromium failed: {}\n{said}", output.status);
        Ok((document, said))
    }

    /// The page with everything unfolded, and with axe-core in it, which its own rules would not
    /// let run.
    fn with_axe(&self, html: &str, dark: bool) -> Result<String> {
        let (before, rest) =
            html.split_once("<meta http-equiv=\"Content-Security-Policy\"").context("no policy")?;
        let (_, after) = rest.split_once('>').context("an element without an end")?;
        let mut page = format!("{before}{after}").replace("<details>", "<details open>");
        if dark {
            let query = "@media (prefers-color-scheme: dark)";
            ensure!(page.contains(query), "the page has no dark colours");
            page = page.replace(query, "@media all");
        }
        let axe = self.axe.as_deref().unwrap_or_default();
        let scripts = format!("<script>{axe}</script><script>{RUN}</script></body>");
        ensure!(page.contains("</body>"), "the page has no end");
        Ok(page.replace("</body>", &scripts))
    }
}

/// Leaves what axe-core finds in the document, and whether one has to scroll sideways.
const RUN: &str = r#"
const run = async () => (window.axe ? (await axe.run()).violations : []);
run().then((violations) => {
    const found = violations.map(({ help, nodes }) => `${help}: ${nodes[0].html}`);
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth > clientWidth) {
        found.push(`it is ${scrollWidth} wide in a window of ${clientWidth}`);
    }
    const text = JSON.stringify(found).replace(/[<>&]/g, (letter) =>
        "\\u00" + letter.charCodeAt(0).toString(16));
    const element = document.createElement("pre");
    element.id = "found";
    element.textContent = text;
    document.body.append(element);
});
"#;

/// What [`RUN`] left.
fn found(document: &str) -> Result<Vec<String>> {
    let left =
        document.rsplit_once("<pre id=\"found\">").and_then(|(_, rest)| rest.split_once('<'));
    let Some((text, _)) = left else { bail!("axe-core did not come to its end") };
    serde_json::from_str(text).context("what axe-core found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_left_in_a_document() {
        let document = r#"<p>x</p><pre id="found">["a: \u003cb\u003e"]</pre></body>"#;
        assert_eq!(found(document).unwrap(), ["a: <b>"]);
        assert!(found("<p>x</p>").is_err());
        assert!(found(r#"<pre id="found">[</pre>"#).is_err());
    }
}
