//! No module of a crate uses another that uses it in turn, directly or through others.
//!
//! A file may use the module that it is a part of (`super::`), except in the crates of [`STRICT`]. An edge leads from a file to the file that defines what it names after `crate::`, `self::` or `super::`. Names that a module passes on with `pub use` lead to where
//! they are defined, and count as used by it only if it names them again.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry},
    fs,
    path::{Path, PathBuf},
};

/// Crates in which no file uses a module above it that uses it.
const STRICT: [&str; 8] = [
    "grounding",
    "load",
    "predict",
    "simulate",
    "theory",
    "traffic",
    "units",
    "wire",
];

/// Segments from the root of a crate.
type ModulePath = Vec<String>;

struct Source {
    /// Names with their paths, and whether they are passed on.
    imports: Vec<(ModulePath, bool)>,
    /// Everything but imports, comments and tests.
    body: String,
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn module_of(file: &Path, root: &Path) -> ModulePath {
    let relative = file.strip_prefix(root).unwrap().with_extension("");
    let mut segments: ModulePath = relative
        .iter()
        .map(|segment| segment.to_string_lossy().into_owned())
        .collect();
    let is_root = segments.len() == 1 && ["lib", "main"].contains(&segments[0].as_str());
    if is_root || segments.last().is_some_and(|last| last == "mod") {
        segments.pop();
    }
    segments
}

/// The code of a file without comments and its tests.
fn code_of(text: &str) -> String {
    let text = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The paths of a tree such as `a::{b, c::{d, e as f}}`.
fn tree_paths(tree: &str) -> Vec<ModulePath> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let name = tree.split(" as ").next().unwrap_or_default();
        return vec![name.split("::").map(|one| one.trim().to_owned()).collect()];
    };
    let prefix: ModulePath = tree[..open]
        .split("::")
        .map(|one| one.trim().to_owned())
        .filter(|one| !one.is_empty())
        .collect();
    let inside = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (index, letter) in inside.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inside[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    let paths = parts.flat_map(tree_paths);
    paths
        .map(|path| prefix.iter().cloned().chain(path).collect())
        .collect()
}

/// Every `use` of a file, with whether it is public, and the rest of the file.
fn split_uses(code: &str) -> (Vec<(String, bool)>, String) {
    let (mut uses, mut body) = (Vec::new(), String::new());
    let mut open: Option<(String, bool)> = None;
    for line in code.lines() {
        if let Some((tree, _)) = &mut open {
            tree.push_str(line);
        } else {
            let words = line.trim_start();
            let rest = words.strip_prefix("pub").map_or(words, |rest| {
                let rest = rest.trim_start();
                rest.strip_prefix('(')
                    .and_then(|inner| inner.split_once(')'))
                    .map_or(rest, |(_, rest)| rest)
                    .trim_start()
            });
            if let Some(tree) = rest.strip_prefix("use ") {
                open = Some((tree.to_owned(), words.starts_with("pub")));
            } else {
                body.push_str(line);
                body.push('\n');
            }
        }
        if let Some((tree, is_public)) = open.take_if(|(tree, _)| tree.contains(';')) {
            uses.push((tree.replace(';', ""), is_public));
        }
    }
    (uses, body)
}

struct Crate(BTreeMap<ModulePath, Source>);

impl Crate {
    fn read(root: &Path) -> Self {
        let mut files = Vec::new();
        rust_files(root, &mut files);
        let texts: BTreeMap<ModulePath, String> = files
            .iter()
            .map(|file| {
                let text = fs::read_to_string(file).unwrap();
                (module_of(file, root), code_of(&text))
            })
            .collect();
        Self::new(&texts)
    }

    fn new(texts: &BTreeMap<ModulePath, String>) -> Self {
        let absolute = |module: &ModulePath, path: ModulePath| -> Option<ModulePath> {
            let mut base = module.clone();
            let mut rest = path.as_slice();
            match rest.first()?.as_str() {
                "crate" => (base, rest) = (Vec::new(), &rest[1..]),
                "self" => rest = &rest[1..],
                "super" => {
                    while rest.first().is_some_and(|one| one == "super") {
                        base.pop();
                        rest = &rest[1..];
                    }
                }
                first => {
                    let child: ModulePath =
                        module.iter().cloned().chain([first.to_owned()]).collect();
                    texts.get(&child)?;
                }
            }
            base.extend(
                rest.iter()
                    .filter(|one| !["self", "*"].contains(&one.as_str()))
                    .cloned(),
            );
            Some(base)
        };
        let sources = texts.iter().map(|(module, code)| {
            let (uses, body) = split_uses(code);
            let uses = uses.iter().flat_map(|(tree, is_public)| {
                let paths = tree_paths(tree).into_iter();
                paths.map(|path| (path, *is_public))
            });
            // Paths that are written out where they are used.
            let letters = |letter: char| !(letter.is_alphanumeric() || "_:".contains(letter));
            let inline = body
                .split(letters)
                .filter(|word| word.starts_with("crate::") || word.starts_with("super::"))
                .map(|word| (word.split("::").map(str::to_owned).collect(), false));
            let imports = uses
                .chain(inline)
                .filter_map(|(path, is_public)| Some((absolute(module, path)?, is_public)))
                .collect();
            (module.clone(), Source { imports, body })
        });
        Self(sources.collect())
    }

    /// The module that defines what a path names.
    fn defining(&self, path: &[String]) -> ModulePath {
        let mut path = path.to_vec();
        // A name is passed on through a few modules at most.
        for _ in 0..10 {
            let depth = (0..=path.len())
                .rev()
                .find(|&depth| self.0.contains_key(&path[..depth]))
                .unwrap_or(0);
            let Some(name) = path.get(depth) else {
                return path;
            };
            let passed = self.0.get(&path[..depth]).and_then(|source| {
                let mut public = source.imports.iter().filter(|(_, is_public)| *is_public);
                public.find(|(from, _)| from.last() == Some(name))
            });
            match passed {
                Some((from, _)) => path = from.iter().chain(&path[depth + 1..]).cloned().collect(),
                None => return path[..depth].to_vec(),
            }
        }
        path
    }

    fn edges(&self) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
        let edges = self.0.iter().map(|(module, source)| {
            let letters = |letter: char| !(letter.is_alphanumeric() || letter == '_');
            let names: BTreeSet<&str> = source.body.split(letters).collect();
            let used = source.imports.iter().filter(|(path, is_public)| {
                !is_public
                    || path
                        .last()
                        .is_some_and(|name| names.contains(name.as_str()))
            });
            let targets = used.map(|(path, _)| self.defining(path));
            let targets = targets.filter(|target| target != module).collect();
            (module.clone(), targets)
        });
        edges.collect()
    }

    /// Ways from a module back to itself. Without `strict`, a module may use those it is a part of.
    fn cycles(&self, strict: bool) -> Vec<String> {
        let mut edges = self.edges();
        for (module, targets) in &mut edges {
            targets.retain(|target| strict || !module.starts_with(target));
        }
        ways_back(&edges)
    }

    /// The same between the folders and files below the root, each with all that is in it.
    fn folder_cycles(&self) -> Vec<String> {
        let folder = |module: &ModulePath| module.first().map(|name| vec![name.clone()]);
        let mut edges: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
        for (module, targets) in self.edges() {
            let Some(from) = folder(&module) else {
                continue;
            };
            let targets = targets.iter().filter_map(folder);
            let known = edges.entry(from.clone()).or_default();
            known.extend(targets.filter(|target| *target != from));
        }
        ways_back(&edges)
    }
}

/// Each way from a module back to itself through modules that no other way has.
fn ways_back(edges: &BTreeMap<ModulePath, BTreeSet<ModulePath>>) -> Vec<String> {
    let mut cycles = Vec::new();
    let mut named: BTreeSet<&ModulePath> = BTreeSet::new();
    for start in edges.keys() {
        if named.contains(start) {
            continue;
        }
        let mut before: BTreeMap<&ModulePath, &ModulePath> = BTreeMap::new();
        let mut open = VecDeque::from([start]);
        while let Some(module) = open.pop_front() {
            for next in &edges[module] {
                if next == start {
                    let mut way = vec![start, module];
                    while let Some(from) = before.get(way[way.len() - 1]) {
                        way.push(from);
                    }
                    way.reverse();
                    let names: Vec<String> = way.iter().map(|one| name_of(one)).collect();
                    cycles.push(names.join(" → "));
                    named.extend(way);
                    open.clear();
                    break;
                }
                if let Entry::Vacant(unseen) = before.entry(next) {
                    unseen.insert(module);
                    open.push_back(next);
                }
            }
        }
    }
    cycles
}

fn name_of(module: &[String]) -> String {
    format!("crate::{}", module.join("::"))
}

#[test]
fn no_crate_has_an_import_cycle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut cycles = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let path = entry.unwrap().path();
        let modules = Crate::read(&path.join("src"));
        let edges: usize = modules.edges().values().map(BTreeSet::len).sum();
        // A small crate may have modules that use nothing of each other.
        let is_small = modules.0.len() < 20;
        assert!(
            is_small || edges > modules.0.len(),
            "{}: {edges} edges",
            path.display()
        );
        let is_strict = STRICT.iter().any(|name| path.ends_with(name));
        let of_crate = modules.cycles(is_strict).into_iter();
        cycles.extend(of_crate.map(|cycle| format!("{}: {cycle}", path.display())));
        // A command uses what lies below it, and no other command through that.
        if path.ends_with("cli") {
            cycles.extend(modules.folder_cycles());
        }
    }
    assert_eq!(cycles, [""; 0]);
}

fn crate_of(files: &[(&str, &str)]) -> Crate {
    let texts = files.iter().map(|(module, text)| {
        let segments = module.split("::").filter(|one| !one.is_empty());
        (segments.map(str::to_owned).collect(), code_of(text))
    });
    Crate::new(&texts.collect())
}

#[test]
fn a_cycle_is_found_through_other_modules_and_names_that_are_passed_on() {
    let root = (
        "",
        "pub mod a;\npub mod b;\npub use b::{Kept, other as Other};\n",
    );
    let direct = crate_of(&[root, ("a", "use crate::b::Kept;"), ("b", "use super::a;")]);
    assert_eq!(direct.cycles(true), ["crate::a → crate::b → crate::a"]);
    let passed = crate_of(&[
        root,
        ("a", "use crate::{\n    Kept,\n};"),
        ("b", "fn f() -> crate::a::Thing {}"),
    ]);
    assert!(!passed.cycles(true).is_empty());
    let parts = crate_of(&[
        ("", "mod a;"),
        ("a", "mod b;\nuse b::Part;"),
        ("a::b", "use super::Whole;"),
    ]);
    assert!(!parts.cycles(true).is_empty());
    assert_eq!(parts.cycles(false), [""; 0]);
    // The root passes a name on and does not use it.
    let fine = crate_of(&[
        root,
        ("a", "use crate::Kept;"),
        ("b", "// use crate::a;\nstruct Kept;"),
    ]);
    assert_eq!(fine.cycles(true), [""; 0]);
    let folders = crate_of(&[
        ("", ""),
        ("a::one", "use crate::b::two::Two;"),
        ("b::two", ""),
        ("b::three", "use crate::a::four::Four;"),
        ("a::four", "use super::one::One;"),
    ]);
    assert_eq!(folders.cycles(true), [""; 0]);
    assert_eq!(folders.folder_cycles(), ["crate::a → crate::b → crate::a"]);
    let used = crate_of(&[
        ("", "mod b;\npub use b::Kept;\nstruct Root(Kept);"),
        (
            "b",
            "use crate::Root;\n#[cfg(test)]\nmod tests { use super::*; }",
        ),
    ]);
    assert!(!used.cycles(true).is_empty());
}
