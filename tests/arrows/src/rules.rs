//! What is wrong about the arrows between the modules of a crate.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::modules::{Crate, Use};

/// The floors of the planner: each uses only those before it.
const FLOORS: [&str; 8] = ["text", "pod", "workload", "kinds", "node", "server", "plugin", "simulation"];
/// The floor on which no module uses another.
const KINDS: &str = "kinds";
/// The module of a folder that declares the trait of its kinds.
const TRAIT: &str = "kind";

/// The children of a module and one use for each arrow between them.
type Arrows<'u> = BTreeMap<&'u str, BTreeMap<&'u str, &'u Use>>;

/// The arrows that go up between the floors of the planner, and those between kinds.
pub(crate) fn wrong_arrows(planner: &Crate) -> Vec<String> {
    let floor =
        |path: &[String]| FLOORS.iter().position(|floor| path.first().is_some_and(|name| name == floor));
    let mut wrong = Vec::new();
    for found in planner.uses() {
        let (Some(from), Some(to)) = (floor(&found.from), floor(&found.to)) else { continue };
        let kind =
            |path: &[String]| path.get(1).filter(|_| path.first().is_some_and(|name| name == KINDS)).cloned();
        if from < to {
            wrong.push(format!("a lower floor uses a higher one: {}", told(planner, &found)));
        } else if let (Some(from), Some(to)) = (kind(&found.from), kind(&found.to))
            && from != to
        {
            wrong.push(format!("a kind uses another kind: {}", told(planner, &found)));
        }
    }
    let known = |name: &String| FLOORS.contains(&name.as_str());
    let floors: BTreeSet<_> = planner.paths().filter_map(|path| path.first()).collect();
    wrong.extend(
        floors
            .into_iter()
            .filter(|name| !known(name))
            .map(|name| format!("{name} is no floor of the planner")),
    );
    wrong
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
                let arrows: Vec<String> = circle.iter().map(|arrow| told(found, arrow)).collect();
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

fn told(found: &Crate, arrow: &Use) -> String {
    let Use { from, to, line, written } = arrow;
    format!("{}:{line} uses {} ({written})", found.file(from).display(), found.file(to).display())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [String; 0] = [];

    #[test]
    fn a_floor_uses_only_those_before_it() {
        let wrong = |pod: &str| {
            let sources =
                [("", ""), ("pod", pod), ("text", ""), ("workload", ""), ("workload::revision", "")];
            wrong_arrows(&Crate::of(&sources))
        };
        assert_eq!(wrong("use crate::text::Json;"), NONE);
        let told = "a lower floor uses a higher one: pod:2 uses workload/revision (crate::workload::revision::Labels)";
        assert_eq!(
            wrong("//\nuse crate::{text, workload::{revision::{self, Labels}}};").last().unwrap(),
            told
        );
        assert_eq!(wrong("fn a(b: &[crate::workload::C]) {}").len(), 1);
        assert_eq!(wrong("#[cfg(test)] mod tests { use crate::workload::Labels; }"), NONE);
        assert_eq!(wrong("/// [`crate::workload`]\nconst A: &str = \"crate::workload::B\";"), NONE);
    }

    #[test]
    fn a_module_beside_the_floors_is_refused() {
        assert_eq!(
            wrong_arrows(&Crate::of(&[("", ""), ("attic", "")])),
            ["attic is no floor of the planner"]
        );
    }

    #[test]
    fn a_kind_uses_no_other_kind() {
        let wrong = |budget: &str| {
            let sources = [
                ("", ""),
                ("kinds", ""),
                ("kinds::budget", budget),
                ("kinds::set", ""),
                ("kinds::set::index", ""),
            ];
            wrong_arrows(&Crate::of(&sources))
        };
        assert_eq!(wrong("use super::set::index::Selector;").len(), 1);
        assert_eq!(wrong("use crate::kinds; fn a() { kinds::set::b() }").len(), 1);
        assert_eq!(wrong("use self::mark::Mark;"), NONE);
    }

    #[test]
    fn a_circle_is_told_file_by_file() {
        let sources = [
            ("", ""),
            ("a", ""),
            ("a::inner", "use crate::b::B;"),
            ("b", "\nuse crate::c;"),
            ("c", "fn c() -> crate::a::A {}"),
        ];
        let told = "a circle of modules:\n  a/inner:1 uses b (crate::b::B)\n  b:2 uses c (crate::c)\n  c:1 uses a (crate::a::A)";
        assert_eq!(circles(&Crate::of(&sources)), [told]);
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
