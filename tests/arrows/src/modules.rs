//! The modules of a crate, and which of them uses which.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::tokens::{Part, Token, product};

/// A module's path inside its crate; empty for the crate itself.
pub(crate) type ModulePath = Vec<String>;

/// One module uses another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Use {
    pub(crate) from: ModulePath,
    pub(crate) to: ModulePath,
    /// The line in the file of `from`.
    pub(crate) line: usize,
    /// The path as it is written.
    pub(crate) written: String,
}

/// A crate.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

/// What is read of a module.
#[derive(Debug, Default)]
struct Module {
    file: PathBuf,
    /// Names that `use` brings in, and the paths behind them.
    imports: BTreeMap<String, Vec<String>>,
    /// Modules of which all names are brought in.
    globs: Vec<Vec<String>>,
    /// All paths, imported or used in place.
    paths: BTreeSet<(usize, Vec<String>)>,
}

impl Crate {
    /// Reads the crate whose first file is `root`, and all files that it names.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut found = Self::default();
        let folder = root.parent().unwrap_or(Path::new("")).to_owned();
        let mut waiting = vec![(ModulePath::new(), root.to_owned(), folder)];
        while let Some((path, file, folder)) = waiting.pop() {
            let source = fs::read_to_string(&file)?;
            for child in found.add(&path, &file, &source) {
                let mut place = folder.clone();
                place.extend(child.get(path.len()..).unwrap_or_default());
                let beside = place.with_extension("rs");
                let file = if beside.exists() { beside } else { place.join("mod.rs") };
                waiting.push((child, file, place));
            }
        }
        Ok(found)
    }

    /// A crate of modules and their sources.
    #[cfg(test)]
    pub(crate) fn of(sources: &[(&str, &str)]) -> Self {
        let mut found = Self::default();
        for (path, source) in sources {
            let path: ModulePath =
                path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
            let file = PathBuf::from(path.join("/"));
            found.add(&path, &file, source);
        }
        found
    }

    /// All modules.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &ModulePath> {
        self.modules.keys()
    }

    /// The file of a module.
    pub(crate) fn file(&self, path: &[String]) -> &Path {
        self.modules.get(path).map_or(Path::new(""), |module| &module.file)
    }

    /// Which module uses which. A name that a module only passes on belongs to the module that has it.
    pub(crate) fn uses(&self) -> BTreeSet<Use> {
        let mut uses = BTreeSet::new();
        for (from, module) in &self.modules {
            for (line, path) in &module.paths {
                let Some(to) = self.resolve(from, path, 0) else { continue };
                if to != *from {
                    uses.insert(Use { from: from.clone(), to, line: *line, written: path.join("::") });
                }
            }
        }
        uses
    }

    /// The module that has what `path` means in the module `from`; `None` for other crates.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<ModulePath> {
        // Imports that lead to each other lead nowhere.
        if depth > 16 {
            return None;
        }
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.walk(Vec::new(), rest, depth),
            "self" => self.walk(from.to_vec(), rest, depth),
            "super" => {
                let (_, parent) = from.split_last()?;
                let goes_on = rest.first().is_some_and(|next| next == "super");
                if goes_on {
                    self.resolve(parent, rest, depth)
                } else {
                    self.walk(parent.to_vec(), rest, depth)
                }
            }
            first => {
                let module = self.modules.get(from)?;
                let is_known = self.is_child(from, first) || module.imports.contains_key(first);
                if is_known {
                    return self.walk(from.to_vec(), path, depth);
                }
                module.globs.iter().find_map(|glob| {
                    let place = self.resolve(from, glob, depth + 1)?;
                    let has_it = self.is_child(&place, first)
                        || self.modules.get(&place).is_some_and(|module| module.imports.contains_key(first));
                    has_it.then(|| self.walk(place, path, depth + 1))?
                })
            }
        }
    }

    /// Follows `path` from the module `place`, through children and through what is passed on.
    fn walk(&self, mut place: ModulePath, path: &[String], depth: usize) -> Option<ModulePath> {
        let mut rest = path;
        while let Some((first, behind)) = rest.split_first() {
            if self.is_child(&place, first) {
                place.push(first.clone());
                rest = behind;
                continue;
            }
            let Some(import) = self.modules.get(&place).and_then(|module| module.imports.get(first)) else {
                break;
            };
            // What is passed on from another crate belongs to the module that passes it on.
            let mut whole = import.clone();
            whole.extend_from_slice(behind);
            return self.resolve(&place, &whole, depth + 1).or(Some(place));
        }
        Some(place)
    }

    fn is_child(&self, path: &[String], name: &str) -> bool {
        let child: ModulePath = path.iter().map(String::as_str).chain([name]).map(str::to_owned).collect();
        self.modules.contains_key(&child)
    }

    /// Adds a module and those inside its file; returns the modules that it names and that have files of
    /// their own.
    fn add(&mut self, path: &ModulePath, file: &Path, source: &str) -> Vec<ModulePath> {
        let tokens = product(source);
        let mut reading = Reading { found: self, file, path: path.clone(), named: Vec::new() };
        reading.module();
        reading.items(&tokens);
        reading.named
    }
}

/// A file that is being read.
struct Reading<'c> {
    found: &'c mut Crate,
    file: &'c Path,
    path: ModulePath,
    named: Vec<ModulePath>,
}

impl Reading<'_> {
    fn module(&mut self) -> &mut Module {
        let module = self.found.modules.entry(self.path.clone()).or_default();
        module.file = self.file.to_owned();
        module
    }

    fn items(&mut self, tokens: &[Token]) {
        // At which depth of braces the modules inside this file end.
        let mut inner: Vec<usize> = Vec::new();
        let mut depth = 0_usize;
        let mut rest = tokens;
        let mut before: Option<&Token> = None;
        while let Some((first, behind)) = rest.split_first() {
            let mut next = behind;
            match (first.word(), behind) {
                (Some("mod"), [name, end, ..]) if name.word().is_some() && (end.is(';') || end.is('{')) => {
                    let name = name.word().unwrap_or_default().to_owned();
                    next = behind.get(2..).unwrap_or_default();
                    if end.is(';') {
                        self.named.push(self.path.iter().cloned().chain([name]).collect());
                    } else {
                        self.path.push(name);
                        self.module();
                        inner.push(depth);
                        depth += 1;
                    }
                }
                (Some("use"), _) if !before.is_some_and(|token| token.is('+') || token.is(':')) => {
                    next = self.import(behind, &[]);
                }
                (Some(_), _) if before.is_none_or(|token| token.part != Part::Colons) => {
                    next = self.path_in_place(rest);
                }
                _ if first.is('{') => depth += 1,
                _ if first.is('}') => {
                    depth = depth.saturating_sub(1);
                    if inner.last() == Some(&depth) {
                        inner.pop();
                        self.path.pop();
                    }
                }
                _ => {}
            }
            before = tokens.get(tokens.len() - next.len() - 1);
            rest = next;
        }
    }

    /// A path that is used without an import; returns what follows it.
    fn path_in_place<'t>(&mut self, tokens: &'t [Token]) -> &'t [Token] {
        let (path, rest) = written_path(tokens);
        if let (Some(first), true) = (tokens.first(), path.len() > 1) {
            self.module().paths.insert((first.line, path));
        }
        rest
    }

    /// The tree of an import; returns what follows it.
    fn import<'t>(&mut self, tokens: &'t [Token], prefix: &[String]) -> &'t [Token] {
        let line = tokens.first().map_or(0, |token| token.line);
        let tokens = tokens
            .split_first()
            .filter(|(first, _)| first.part == Part::Colons)
            .map_or(tokens, |(_, behind)| behind);
        let (path, mut rest) = written_path(tokens);
        let mut whole: Vec<String> = prefix.iter().cloned().chain(path).collect();
        match rest.split_first() {
            Some((first, behind)) if first.is('{') => {
                rest = behind;
                while let Some((next, behind)) = rest.split_first() {
                    if next.is('}') {
                        return behind;
                    }
                    rest = if next.is(',') { behind } else { self.import(rest, &whole) };
                }
            }
            Some((first, behind)) if first.is('*') => {
                self.module().paths.insert((line, whole.clone()));
                self.module().globs.push(whole);
                rest = behind;
            }
            _ => {
                if whole.last().is_some_and(|last| last == "self") && whole.len() > 1 {
                    whole.pop();
                }
                let mut name = whole.last().cloned().unwrap_or_default();
                if let [keyword, alias, behind @ ..] = rest
                    && keyword.word() == Some("as")
                {
                    name = alias.word().unwrap_or_default().to_owned();
                    rest = behind;
                }
                let module = self.module();
                module.paths.insert((line, whole.clone()));
                // `use name;` says nothing new of that name.
                if whole.len() > 1 || whole.first() != Some(&name) {
                    module.imports.insert(name, whole);
                }
            }
        }
        rest
    }
}

/// The words at the start of `tokens` that `::` holds together, and what follows the last one or
/// behind the `::` that no word follows.
fn written_path(tokens: &[Token]) -> (Vec<String>, &[Token]) {
    let mut path = Vec::new();
    let mut rest = tokens;
    while let Some((first, behind)) = rest.split_first() {
        let Some(word) = first.word() else { break };
        path.push(word.to_owned());
        rest = behind;
        match rest.split_first() {
            Some((next, behind)) if next.part == Part::Colons => rest = behind,
            _ => break,
        }
    }
    (path, rest)
}
