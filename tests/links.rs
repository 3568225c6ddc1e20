//! Links to the rules of `docs/behaviour/`, from code and from pages: each leads to a heading, and nothing cites
//! a document that is not in the repository. No page says that a part is missing that is there.
#![allow(clippy::expect_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the pages of rules lie.
const PAGES: &str = "docs/behaviour";

/// The text files of the repository in which links are looked for, with what is in them.
fn files() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list =
        ["ls-files", "--cached", "--others", "--exclude-standard", "--", "*.rs", "*.md", "*.sh", "*.yaml"];
    let output = Command::new("git").args(list).current_dir(root).output().expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("names in UTF-8");
    // A file that was just removed is listed still.
    let read = |name: &str| Some((PathBuf::from(name), std::fs::read_to_string(root.join(name)).ok()?));
    names.lines().filter_map(read).collect()
}

/// The anchors that GitHub gives to the headings of a page.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut is_code = false;
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        let text = line.trim_start_matches('#');
        if is_code || text.len() == line.len() || !text.starts_with(' ') {
            continue;
        }
        let anchor = anchor(text.trim());
        let repeated = (1..).map(|number| format!("{anchor}-{number}"));
        let free = [anchor.clone()].into_iter().chain(repeated).find(|anchor| !anchors.contains(anchor));
        anchors.extend(free);
    }
    anchors
}

/// Letters in lower case, digits, `-` and `_` stay, spaces become `-`, all else is left out.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|&letter| letter.is_alphanumeric() || matches!(letter, '-' | '_')).collect()
}

/// The links of a file that lead to a page of rules: the page's path and the anchor, which may be empty.
fn links(file: &Path, text: &str) -> Vec<(String, String)> {
    let is_page = file.starts_with(PAGES);
    let mut links = Vec::new();
    for (end, _) in text.match_indices(".md") {
        let (before, after) = (text.get(..end).unwrap_or(""), text.get(end + 3..).unwrap_or(""));
        let is_path = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
        let path = before.rsplit(|letter| !is_path(letter)).next().unwrap_or("");
        let anchor = after.strip_prefix('#').map_or("", |rest| {
            let is_anchor = |letter: char| letter.is_alphanumeric() || "-_".contains(letter);
            rest.split(|letter| !is_anchor(letter)).next().unwrap_or("")
        });
        let page = if let Some((_, page)) = path.rsplit_once("behaviour/") {
            page
        } else if is_page && before.ends_with(&format!("]({path}")) && !path.contains('/') {
            path
        } else {
            continue;
        };
        links.push((format!("{PAGES}/{page}.md"), anchor.to_owned()));
    }
    // A link to a heading of the same page names no page.
    if is_page {
        let own = text.match_indices("](#").map(|(start, _)| {
            let rest = text.get(start + 3..).unwrap_or("");
            (file.display().to_string(), rest.split(')').next().unwrap_or("").to_owned())
        });
        links.extend(own);
    }
    links
}

#[test]
fn every_link_to_a_rule_leads_to_its_heading() {
    let files = files();
    let pages: BTreeMap<String, BTreeSet<String>> = files
        .iter()
        .filter(|(file, _)| file.starts_with(PAGES))
        .map(|(file, text)| (file.display().to_string(), anchors(text)))
        .collect();
    let mut broken = Vec::new();
    for (file, text) in files.iter().filter(|(file, _)| !file.ends_with("links.rs")) {
        for (page, anchor) in links(file, text) {
            let leads = pages.get(&page).is_some_and(|known| anchor.is_empty() || known.contains(&anchor));
            if !leads {
                broken.push(format!("{}: {page}#{anchor}", file.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

/// A word and a number, such as a reader can't look up here.
fn cites_elsewhere(line: &str) -> bool {
    let lower = line.to_lowercase();
    ["spec", "specs", "sharp edge", "sharp edges", "pain", "pains"].iter().any(|word| {
        lower.match_indices(word).any(|(start, _)| {
            let after = lower.get(start + word.len()..).unwrap_or("").strip_prefix(' ').unwrap_or("");
            let begins = !lower.get(..start).unwrap_or("").ends_with(|letter: char| letter.is_alphanumeric());
            begins && after.starts_with(|letter: char| letter.is_ascii_digit())
        })
    })
}

#[test]
fn no_file_cites_a_document_outside_the_repository() {
    let files = files();
    let cited = files.iter().filter(|(file, _)| !file.ends_with("links.rs")).flat_map(|(file, text)| {
        let lines = text.lines().filter(|line| cites_elsewhere(line));
        lines.map(|line| format!("{}: {}", file.display(), line.trim()))
    });
    let cited: Vec<String> = cited.collect();
    assert!(cited.is_empty(), "rules belong into {PAGES}:\n{}", cited.join("\n"));
    assert!(cites_elsewhere("as Spec 31 says") && cites_elsewhere("(sharp edge 8)"));
    assert!(!cites_elsewhere("inspec 3") && !cites_elsewhere("spec.replicas is 3"));
}

/// Such a sentence was true once, and nobody saw when it was not any more.
#[test]
fn no_page_says_that_a_part_is_missing_in_this_build() {
    let pages =
        files().into_iter().filter(|(file, _)| file.extension().is_some_and(|extension| extension == "md"));
    let missing = pages.filter(|(_, text)| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        ["in this build", "of this build", "outside this build"].iter().any(|words| text.contains(words))
    });
    let missing: Vec<String> = missing.map(|(file, _)| file.display().to_string()).collect();
    assert!(missing.is_empty(), "the limits of a feature belong on its page: {missing:?}");
}

#[test]
fn headings_get_the_anchors_of_github() {
    let page = "# In-place update\n\n## `maxSurge`, and what it's for\n```\n# code\n```\n## Order\n### Order\n#tag\n";
    let expected = ["in-place-update", "maxsurge-and-what-its-for", "order", "order-1"];
    assert_eq!(anchors(page), expected.map(str::to_owned).into());
}

#[test]
fn links_are_found_in_code_and_in_pages() {
    let page = |page: &str, anchor: &str| (format!("{PAGES}/{page}.md"), anchor.to_owned());
    let code = "/// See `docs/behaviour/cloneset.md#update-order`, and ../docs/behaviour/pods.md. README.md";
    let expected = [page("cloneset", "update-order"), page("pods", "")];
    assert_eq!(links(Path::new("planner/src/lib.rs"), code), expected);
    let text =
        "See [order](in-place-update.md#update-order), [below](#limits), `old.md` and [a](../simulate.md).";
    let expected = [page("in-place-update", "update-order"), page("cloneset", "limits")];
    assert_eq!(links(Path::new("docs/behaviour/cloneset.md"), text), expected);
}
