// SPDX-License-Identifier: MIT OR Apache-2.0
//! `check`: what the compiler does not.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::plan::{self, Requirement, TestPlan, PATH as TEST_PLAN};
use crate::{cargo, lint, workspace};

/// Files that are generated and checked in: when any of `files` exists, `cargo` with `check` must succeed.
struct Generated {
    files: &'static [&'static str],
    check: &'static [&'static str],
}

const GENERATED: &[Generated] = &[Generated {
    files: &["docs/src/registers.md", "driver/include/ferrowire_regs.h", "constraints"],
    check: &["run", "--quiet", "--bin", "ferrowire-rtl-gen", "--", "--check"],
}];

/// Runs every check and lists all findings.
pub fn run() -> Result<u8> {
    let tree = Tree::read(&workspace::root())?;
    let checks = [
        ("licence lines", licence_lines(&tree)),
        ("generated files", generated(&tree)?),
        ("Markdown links", links(&tree)),
        ("README", readme(&tree)),
        ("test plan", test_plan(&tree)),
        ("netlist", lint::check()?),
    ];
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    let (skipped, stale) = match pictures("python3", &tree, &workspace::root()) {
        Ok(findings) => (None, findings),
        Err(why) if ci => (None, vec![format!("{why}; under CI=true nothing is skipped")]),
        Err(why) => (Some(why), Vec::new()),
    };
    let mut bad = 0;
    if let Some(why) = skipped {
        eprintln!("{:<16} SKIPPED: {why}", "pictures");
    }
    for (name, findings) in checks.into_iter().chain([("pictures", stale)]) {
        eprintln!(
            "{name:<16} {}",
            if findings.is_empty() { "ok".into() } else { format!("{} wrong", findings.len()) }
        );
        for finding in &findings {
            eprintln!("  {finding}");
        }
        bad += findings.len();
    }
    Ok(u8::from(bad > 0))
}

/// The repository's files, by path from the root; the text ones that a check reads with their text.
struct Tree {
    paths: BTreeSet<PathBuf>,
    texts: BTreeMap<PathBuf, String>,
}

impl Tree {
    fn read(root: &Path) -> Result<Self> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .ok()
            .filter(|o| o.status.success());
        let paths = match listed {
            Some(output) => {
                let names = String::from_utf8_lossy(&output.stdout).into_owned();
                names.split('\0').filter(|n| !n.is_empty()).map(PathBuf::from).collect()
            }
            None => {
                // Not a clone, for instance an unpacked archive.
                let mut paths = BTreeSet::new();
                walk(root, Path::new(""), &mut paths)?;
                paths
            }
        };
        let mut tree = Self { paths, texts: BTreeMap::new() };
        tree.paths.retain(|p| root.join(p).is_file()); // listed, but deleted
        for path in &tree.paths {
            if matches!(extension(path), "rs" | "toml" | "sh" | "py" | "md") {
                let bytes =
                    fs::read(root.join(path)).with_context(|| format!("reading {}", path.display()))?;
                tree.texts.insert(path.clone(), String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        Ok(tree)
    }

    fn with_extension<'a>(&'a self, wanted: &'a [&str]) -> impl Iterator<Item = (&'a PathBuf, &'a String)> {
        self.texts.iter().filter(|(path, _)| wanted.contains(&extension(path)))
    }

    /// Whether there is such a file or folder.
    fn has(&self, path: &Path) -> bool {
        path.as_os_str().is_empty()
            || self.paths.range(path.to_path_buf()..).next().is_some_and(|p| p.starts_with(path))
    }
}

fn walk(root: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(root.join(folder)).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if !entry.file_type()?.is_dir() {
            found.insert(path);
        } else if !["target", ".git", "__pycache__"].iter().any(|skipped| entry.file_name() == *skipped) {
            walk(root, &path, found)?;
        }
    }
    Ok(())
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|e| e.to_str()).unwrap_or_default()
}

/// The first line, or the second behind `#!`, names the licence.
fn licence_lines(tree: &Tree) -> Vec<String> {
    let lacks = |text: &str| {
        let mut lines = text.lines().skip_while(|l| l.starts_with("#!") && !l.starts_with("#!["));
        !lines.next().unwrap_or_default().contains("SPDX-License-Identifier: MIT OR Apache-2.0")
    };
    tree.with_extension(&["rs", "toml", "sh", "py"])
        .filter(|(_, text)| lacks(text))
        .map(|(path, _)| {
            format!("{}: no `SPDX-License-Identifier: MIT OR Apache-2.0` in the first line", path.display())
        })
        .collect()
}

fn generated(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for Generated { files, check } in GENERATED {
        let there: Vec<&str> = files.iter().copied().filter(|f| tree.has(Path::new(f))).collect();
        if !there.is_empty() && workspace::exit_code(cargo(check.iter().copied()))? != 0 {
            findings.push(format!("{}: stale, says `cargo {}`", there.join(", "), check.join(" ")));
        }
    }
    Ok(findings)
}

/// Each picture of `docs/pictures` is what the script of its name draws.
///
/// # Errors
/// There is no Python, so nobody can say.
fn pictures(python: &str, tree: &Tree, root: &Path) -> Result<Vec<String>, String> {
    let mut findings = Vec::new();
    for script in tree.paths.iter().filter(|p| p.starts_with("docs/pictures") && extension(p) == "py") {
        let output = Command::new(python).arg(root.join(script)).arg("--check").output();
        let output = output.map_err(|error| format!("{python}: {error}; install python3"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim().lines().last().unwrap_or_default();
            findings.push(format!("{}: {said}", script.display()));
        }
    }
    Ok(findings)
}

/// A page's links, and the anchors of its headings.
fn page(text: &str) -> (Vec<(usize, String)>, BTreeSet<String>) {
    let (mut links, mut anchors) = (Vec::new(), BTreeSet::new());
    let mut heading: Option<String> = None;
    for (event, at) in
        Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES).into_offset_iter()
    {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push((text[..at.start].matches('\n').count() + 1, dest_url.into_string()));
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&heading.take().unwrap_or_default());
                let again = (1..).map(|n| format!("{slug}-{n}")).find(|s| !anchors.contains(s));
                let slug = if anchors.contains(&slug) { again.unwrap_or_default() } else { slug };
                anchors.insert(slug);
            }
            _ => {}
        }
    }
    (links, anchors)
}

/// The anchor that GitHub and mdBook give a heading.
fn slug(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Links to other files of the repository, and to headings in them.
fn links(tree: &Tree) -> Vec<String> {
    let pages: BTreeMap<&PathBuf, _> =
        tree.with_extension(&["md"]).map(|(path, text)| (path, page(text))).collect();
    let mut findings = Vec::new();
    for (path, (links, _)) in &pages {
        for (line, link) in links {
            let wrong = |why: &str| format!("{}:{line}: link to `{link}`: {why}", path.display());
            let scheme = link
                .split_once(':')
                .is_some_and(|(s, _)| s.len() > 1 && s.chars().all(char::is_alphanumeric));
            if link.is_empty() || scheme {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = path.parent().unwrap_or(Path::new(""));
            let target = match file {
                "" => Some((*path).clone()),
                file => match file.strip_prefix('/') {
                    Some(file) => normal(Path::new(file)),
                    None => normal(&folder.join(file)),
                },
            };
            match target {
                None => findings.push(wrong("outside the repository")),
                Some(target) if !tree.has(&target) => findings.push(wrong("no such file")),
                Some(target) => {
                    let heads = pages.get(&target).map(|(_, anchors)| anchors);
                    if !anchor.is_empty() && heads.is_some_and(|heads| !heads.contains(anchor)) {
                        findings.push(wrong("no such heading"));
                    }
                }
            }
        }
    }
    findings
}

/// The README is read in one go, in a terminal too.
fn readme(tree: &Tree) -> Vec<String> {
    const LINES: usize = 150;
    const COLUMNS: usize = 100;
    let Some(text) = tree.texts.get(Path::new("README.md")) else {
        return vec!["README.md is missing".into()];
    };
    let lines = text.lines().count();
    let long = (lines > LINES)
        .then(|| format!("README.md has {lines} lines; move some to the book: {LINES} are the most"));
    let wide = text.lines().zip(1..).filter(|(line, _)| line.chars().count() > COLUMNS);
    long.into_iter().chain(wide.map(|(_, at)| format!("README.md:{at}: over {COLUMNS} columns"))).collect()
}

/// Takes `.` and `..` out of a path; `None` if it leaves the root.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !clean.pop() {
                    return None;
                }
            }
            _ => return None,
        }
    }
    Some(clean)
}

fn test_plan(tree: &Tree) -> Vec<String> {
    let Some(text) = tree.texts.get(Path::new(TEST_PLAN)) else {
        return vec![format!("{TEST_PLAN} is missing")];
    };
    let plan: TestPlan = match toml::from_str(text) {
        Ok(plan) => plan,
        Err(e) => return vec![format!("{TEST_PLAN}: {}", e.to_string().trim().replace('\n', " "))],
    };
    if plan.requirement.is_empty() {
        return vec![format!("{TEST_PLAN} lists no requirement")];
    }
    let functions = functions(tree);
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for Requirement { id, text, tests, full } in &plan.requirement {
        let mut wrong = |why: String| findings.push(format!("{TEST_PLAN}: {id}: {why}"));
        if !seen.insert(id) {
            wrong("this id is there twice".into());
        }
        if text.trim().is_empty() {
            wrong("has no text".into());
        }
        if tests.is_empty() {
            wrong("no test shows it".into());
        }
        let mut by_default = false;
        for test in tests {
            let Some((package, name)) = plan::parts(test) else {
                wrong(format!("`{test}` is not of the form `crate::test_name`"));
                continue;
            };
            match functions.get(package).map(|names| names.get(name)) {
                None => wrong(format!("`{test}`: the workspace has no crate `{package}`")),
                Some(None) => wrong(format!("`{test}`: no `fn {name}` in that crate")),
                Some(Some(runs)) => by_default |= runs,
            }
        }
        match full {
            None if !by_default && !tests.is_empty() => {
                wrong("no test of the default tier shows it: add one, or give the reason as `full = \"needs Yosys\"`".into());
            }
            Some(why) if by_default => {
                wrong(format!("a test of the default tier shows it, so `full = \"{why}\"` is wrong"))
            }
            _ => {}
        }
    }
    findings
}

/// The names of all functions of each crate, whose name is written as in Rust; true if one of that name is not marked `#[ignore]`.
fn functions(tree: &Tree) -> HashMap<String, BTreeMap<&str, bool>> {
    let mut packages: Vec<(&Path, String)> = Vec::new();
    for (path, text) in tree.with_extension(&["toml"]).filter(|(path, _)| path.ends_with("Cargo.toml")) {
        let manifest: Option<toml::Table> = text.parse().ok();
        let name = manifest.as_ref().and_then(|m| m.get("package")?.get("name")?.as_str());
        if let (Some(folder), Some(name)) = (path.parent(), name) {
            packages.push((folder, name.replace('-', "_")));
        }
    }
    let mut found: HashMap<String, BTreeMap<&str, bool>> =
        packages.iter().map(|(_, n)| (n.clone(), BTreeMap::new())).collect();
    for (path, text) in tree.with_extension(&["rs"]) {
        // The innermost: packages may nest.
        let owner = packages
            .iter()
            .filter(|(folder, _)| path.starts_with(folder))
            .max_by_key(|(f, _)| f.components().count());
        let Some(names) = owner.and_then(|(_, name)| found.get_mut(name)) else { continue };
        let mut ignored = false;
        for line in text.lines() {
            ignored |= line.trim_start().starts_with("#[ignore");
            if let Some(name) = function(line) {
                *names.entry(name).or_default() |= !std::mem::take(&mut ignored);
            }
        }
    }
    found
}

/// The name in a line that declares a function.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    let rest = line.strip_prefix("fn ")?;
    Some(&rest[..rest.find(|c: char| c != '_' && !c.is_alphanumeric())?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_that_its_script_does_not_draw_is_found() {
        let root = std::env::temp_dir().join(format!("ferrowire-pictures-{}", std::process::id()));
        let folder = root.join("docs/pictures");
        fs::create_dir_all(&folder).unwrap();
        for name in ["pipeline.py", "pipeline.svg"] {
            fs::copy(workspace::root().join("docs/pictures").join(name), folder.join(name)).unwrap();
        }
        let tree = Tree { paths: ["docs/pictures/pipeline.py".into()].into(), texts: BTreeMap::new() };
        assert!(pictures("no-such-python", &tree, &root).unwrap_err().contains("install python3"));
        match pictures("python3", &tree, &root) {
            Err(why) => eprintln!("skipped: {why}"),
            Ok(findings) => {
                assert_eq!(findings, Vec::<String>::new());
                let picture = folder.join("pipeline.svg");
                let other = fs::read_to_string(&picture).unwrap().replacen("doorbell", "door bell", 1);
                fs::write(&picture, other).unwrap();
                let findings = pictures("python3", &tree, &root).unwrap();
                assert!(findings.len() == 1 && findings[0].contains("pipeline.svg is stale"), "{findings:?}");
            }
        }
        fs::remove_dir_all(&root).unwrap();
    }

    fn tree(files: &[(&str, &str)]) -> Tree {
        let paths = files.iter().map(|(p, _)| PathBuf::from(p)).collect();
        Tree { paths, texts: files.iter().map(|(p, t)| (PathBuf::from(p), t.to_string())).collect() }
    }

    const SPDX: &str = "SPDX-License-Identifier: MIT OR Apache-2.0";

    #[test]
    fn a_file_without_a_licence_is_found() {
        let good = format!("// {SPDX}\n");
        let script = format!("#!/bin/sh\n# {SPDX}\n");
        let found = licence_lines(&tree(&[
            ("a.rs", &good),
            ("b.sh", &script),
            ("c.py", "import x\n"),
            ("d.md", "x"),
        ]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("c.py: "));
    }

    #[test]
    fn links_to_files_folders_and_headings_are_resolved() {
        let a = "# The `first` one\n[b](sub/b.md) [h](sub/b.md#two-words) [s](sub) [own](#the-first-one) [web](https://x.y/z)\n\
                 `[code](none.md)` [r]\n\n[r]: sub/c.rs\n";
        let b = "## Two words\n[up](../a.md)\n\n[gone](gone.md) [no](../a.md#no) [out](../../x.md)\n";
        let found = links(&tree(&[("a.md", a), ("sub/b.md", b), ("sub/c.rs", "")]));
        assert_eq!(
            found,
            [
                "sub/b.md:4: link to `gone.md`: no such file",
                "sub/b.md:4: link to `../a.md#no`: no such heading",
                "sub/b.md:4: link to `../../x.md`: outside the repository",
            ]
        );
    }

    #[test]
    fn the_readme_stays_short_and_narrow() {
        let fits = format!("{}\n", "é".repeat(100)).repeat(150);
        assert_eq!(readme(&tree(&[("README.md", &fits)])), Vec::<String>::new());
        let over = format!("{fits}{}\n", "x".repeat(101));
        assert_eq!(
            readme(&tree(&[("README.md", &over)])),
            [
                "README.md has 151 lines; move some to the book: 150 are the most",
                "README.md:151: over 100 columns",
            ]
        );
        assert_eq!(readme(&tree(&[])), ["README.md is missing"]);
    }

    #[test]
    fn a_requirement_names_tests_that_exist() {
        let plan = "[[requirement]]\nid = \"A\"\ntext = \"t\"\ntests = [\"my_crate::works\", \"my_crate::m::gone\", \"other::x\"]\n\
                    [[requirement]]\nid = \"A\"\ntext = \"t\"\ntests = []\n\
                    [[requirement]]\nid = \"B\"\ntext = \"t\"\ntests = [\"my_crate::long\"]\n\
                    [[requirement]]\nid = \"C\"\ntext = \"t\"\ntests = [\"my_crate::long\"]\nfull = \"needs Yosys\"\n\
                    [[requirement]]\nid = \"D\"\ntext = \"t\"\ntests = [\"my_crate::works\"]\nfull = \"needs Yosys\"\n";
        let files = [
            (TEST_PLAN, plan),
            ("c/Cargo.toml", "[package]\nname = \"my-crate\"\n"),
            ("c/tests/t.rs", "#[test]\nfn works() {}\n#[test]\n#[ignore = \"long\"]\nfn long() {}\n"),
            ("c/inner/Cargo.toml", "[package]\nname = \"inner\"\n"),
            ("c/inner/t.rs", "fn gone() {}\n"),
        ];
        let found = test_plan(&tree(&files));
        assert_eq!(
            found,
            [
                "sim/testplan.toml: A: `my_crate::m::gone`: no `fn gone` in that crate",
                "sim/testplan.toml: A: `other::x`: the workspace has no crate `other`",
                "sim/testplan.toml: A: this id is there twice",
                "sim/testplan.toml: A: no test shows it",
                "sim/testplan.toml: B: no test of the default tier shows it: add one, or give the reason as `full = \"needs Yosys\"`",
                "sim/testplan.toml: D: a test of the default tier shows it, so `full = \"needs Yosys\"` is wrong",
            ]
        );
        assert_eq!(test_plan(&tree(&[])), ["sim/testplan.toml is missing"]);
    }
}
