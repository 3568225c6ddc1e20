//! What is wrong about the arrows between the modules of a crate.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::modules::{Crate, Use};

/// What kinds share: the one module of their crate that others may use.
const SHARED: &str = "workload";
/// The module of a folder that declares the trait of its kinds.
const TRAIT: &str = "kind";

/// The children of a module and one use for each arrow between them.
type Arrows<'u> = BTreeMap<&'u str, BTreeMap<&'u str, &'u Use>>;

/// The arrows between kinds, and from what they share to one of them.
pub(crate) fn arrows_between_kinds(kinds: &Crate) -> Vec<String> {
    let is_wrong = |found: &&Use| match (found.from.first(), found.to.first()) {
        (Some(from), Some(to)) => from != to && to != SHARED,
        _ => false,
    };
    let uses = kinds.uses();
    uses.iter()
        .filter(is_wrong)
        .map(|found| format!("a kind is used by another, or by {SHARED}: {}", reported(kinds, found)))
        .collect()
}

/// One circle for each knot of modules, arrow by arrow.
pub(crate) fn circles(found: &Crate) -> Vec<String> {
    let uses = found.uses();
    let mut circles = Vec::new();
    for parent in found.paths() {
        let arrows = arrows(&uses, parent);
        let mut seen = BTreeSet::new();
        let mut of_folder: Vec<_> =
            arrows.keys().filter_map(|start| shortest_circle(&arrows, start)).collect();
        of_folder.sort_by_key(Vec::len);
        for circle in of_folder {
            if circle.iter().all(|arrow| !seen.contains(&arrow.from)) {
                seen.extend(circle.iter().map(|arrow| &arrow.from));
                let arrows: Vec<String> = circle.iter().map(|arrow| reported(found, arrow)).collect();
                circles.push(format!("a circle of modules:\n  {}", arrows.join("\n  ")));
            }
        }
    }
    circles
}

/// Which child of `parent` uses which; what is inside a child counts as the child.
fn arrows<'u>(uses: &'u BTreeSet<Use>, parent: &[String]) -> Arrows<'u> {
    let child = |path: &'u [String]| path.strip_prefix(parent)?.first().map(String::as_str);
    let mut arrows = Arrows::new();
    for found in uses {
        if let (Some(from), Some(to)) = (child(&found.from), child(&found.to))
            && from != to
            && from != TRAIT
        {
            arrows.entry(from).or_default().entry(to).or_insert(found);
        }
    }
    arrows
}

/// The shortest way from `start` back to it.
fn shortest_circle<'u>(arrows: &Arrows<'u>, start: &str) -> Option<Vec<&'u Use>> {
    let mut ways = VecDeque::from([(start, Vec::new())]);
    let mut seen = BTreeSet::new();
    while let Some((place, way)) = ways.pop_front() {
        for (next, found) in arrows.get(place).into_iter().flatten() {
            let mut way = way.clone();
            way.push(*found);
            if *next == start {
                return Some(way);
            }
            if seen.insert(*next) {
                ways.push_back((*next, way));
            }
        }
    }
    None
}

fn reported(found: &Crate, arrow: &Use) -> String {
    let Use { from, to, line, written } = arrow;
    format!("{}:{line} uses {} ({written})", found.file(from).display(), found.file(to).display())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [String; 0] = [];

    #[test]
    fn a_kind_uses_no_other_kind() {
        let wrong = |budget: &str| {
            let sources = [
                ("", ""),
                ("budget", budget),
                ("set", ""),
                ("set::index", ""),
                ("workload", ""),
                ("workload::plan", ""),
            ];
            arrows_between_kinds(&Crate::of(&sources))
        };
        assert_eq!(
            wrong("//\nuse crate::{workload, set::{index::{self, Selector}}};").last().unwrap(),
            "a kind is used by another, or by workload: budget:2 uses set/index (crate::set::index::Selector)"
        );
        assert_eq!(wrong("use super::set::index::Selector;").len(), 1);
        assert_eq!(wrong("fn a(b: &[crate::set::C]) {}").len(), 1);
        assert_eq!(wrong("use self::mark::Mark; use crate::workload::plan::Plan;"), NONE);
        assert_eq!(wrong("#[cfg(test)] mod tests { use crate::set::Labels; }"), NONE);
        assert_eq!(wrong("/// [`crate::set`]\nconst A: &str = \"crate::set::B\";"), NONE);
        let sources = [("", ""), ("set", ""), ("workload", "use crate::set::Set;")];
        assert_eq!(arrows_between_kinds(&Crate::of(&sources)).len(), 1);
    }

    #[test]
    fn a_circle_is_reported_file_by_file() {
        let sources = [
            ("", ""),
            ("a", ""),
            ("a::inner", "use crate::b::B;"),
            ("b", "\nuse crate::c;"),
            ("c", "fn c() -> crate::a::A {}"),
        ];
        let reported = "a circle of modules:\n  a/inner:1 uses b (crate::b::B)\n  b:2 uses c (crate::c)\n  c:1 uses a (crate::a::A)";
        assert_eq!(circles(&Crate::of(&sources)), [reported]);
        assert_eq!(circles(&Crate::of(&sources[..4])), NONE);
    }

    #[test]
    fn the_trait_of_the_kinds_may_speak_of_the_types_beside_it() {
        let sources = |kind| [("", ""), ("a", ""), ("a::plan", "use super::kind::Kind;"), ("a::kind", kind)];
        assert_eq!(circles(&Crate::of(&sources("use super::plan::Plan;"))), NONE);
        let outside =
            [("", ""), ("a", ""), ("a::kind", "use crate::b::B;"), ("b", "use crate::a::kind::Kind;")];
        assert_eq!(circles(&Crate::of(&outside)).len(), 1);
    }

    #[test]
    fn circles_of_the_files_of_a_folder_are_found() {
        let sources = |third: &'static str| {
            [("", ""), ("a", "pub use b::B;"), ("a::b", "use super::c::C;"), ("a::c", third)]
        };
        assert_eq!(circles(&Crate::of(&sources("use super::b::B;"))).len(), 1);
        // The parent only passes the name on: this is the same circle.
        assert_eq!(circles(&Crate::of(&sources("use super::B;"))).len(), 1);
        assert_eq!(circles(&Crate::of(&sources("use super::*; fn c() { B::new() }"))).len(), 1);
        // What the parent has itself its children may use.
        assert_eq!(circles(&Crate::of(&sources("use super::Rule;"))), NONE);
    }
}
