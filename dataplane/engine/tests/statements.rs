//! The list of the transport's rules (`statements.toml`) is held to the code: what the code cites
//! is in the list and the other way about, and code, tests and mutations are where it says.
//!
//! `tests/mutations/run` applies the mutations and demands that the tests turn red.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// The list of what implementations miss, by its parts and how many rules each has.
const TRAPS: [(&str, u32); 4] = [("fact", 8), ("responder", 13), ("requester", 7), ("order", 5)];

/// The steps of the responder's pipeline, in their order: none may lack an entry.
const STEPS: [&str; 8] =
    ["psn", "sequence", "validity", "resources", "rkey", "length", "execute", "msn"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
}

struct Statement {
    rule: String,
    cites: Vec<String>,
    traps: Vec<String>,
    table: Table,
}

impl Statement {
    fn text(&self, key: &str) -> Option<&str> {
        self.table.get(key)?.as_str()
    }

    fn part(&self, key: &str, of: &str) -> Option<&str> {
        self.table.get(key)?.get(of)?.as_str()
    }
}

fn statements() -> Vec<Statement> {
    let list: Table = include_str!("../statements.toml").parse().unwrap();
    let rows = list["statement"].as_array().unwrap();
    let words = |table: &Table, key: &str| -> Vec<String> {
        let values = table.get(key).and_then(Value::as_array).into_iter().flatten();
        values.map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    rows.iter()
        .map(|row| {
            let table = row.as_table().unwrap().clone();
            let rule = table["rule"].as_str().unwrap().to_owned();
            Statement { rule, cites: words(&table, "cites"), traps: words(&table, "trap"), table }
        })
        .collect()
}

/// What a text cites: the section numbers and annexes that follow "IBTA", and all compliance
/// statements.
fn citations(text: &str) -> BTreeSet<String> {
    let separators = [' ', '\n', '(', ')', ',', ';', ':', '/', '!'];
    let words = text.split(separators).map(|word| word.trim_end_matches('.'));
    let mut found: BTreeSet<_> =
        words.filter(|word| word.starts_with("C9-")).map(str::to_owned).collect();
    for after in text.split("IBTA").skip(1) {
        let mut annex = false;
        for word in after.split(separators) {
            let word = word.trim_end_matches('.');
            let number = word.starts_with(|first: char| first.is_ascii_digit());
            match word {
                "" => {}
                "Vol" | "1" | "chapter" | "table" | "to" | "and" | "ff" => annex = false,
                "Annex" => annex = true,
                word if annex => {
                    found.insert(format!("Annex {word}"));
                    annex = false;
                }
                word if number => {
                    found.insert(word.to_owned());
                }
                word if word.starts_with("C9-") => {}
                _ => break,
            }
        }
    }
    found
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Fails with all complaints at once.
fn demand(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn what_the_code_cites_is_what_the_list_cites() {
    let mut files = Vec::new();
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    sources(&src, &mut files);
    let mut cited: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let name = format!("dataplane/engine/src/{}", file.strip_prefix(&src).unwrap().display());
        cited.insert(name, citations(&fs::read_to_string(&file).unwrap()));
    }
    let mut complaints = Vec::new();
    let mut listed = BTreeSet::new();
    for statement in statements() {
        let file = statement.part("code", "file").unwrap_or_default();
        for cite in &statement.cites {
            listed.insert(cite.clone());
            if cited.get(file).is_some_and(|cited| !cited.contains(cite)) {
                complaints.push(format!("{}: {file} does not cite {cite}", statement.rule));
            }
        }
    }
    for (file, cites) in &cited {
        // A chapter's number alone is a pointer, not a rule.
        for cite in cites.iter().filter(|cite| cite.contains(['.', '-', ' '])) {
            if !listed.contains(cite) {
                complaints.push(format!("{file} cites {cite}, which is not in the list"));
            }
        }
    }
    demand(&complaints);
}

#[test]
fn code_is_where_the_list_says() {
    let mut complaints = Vec::new();
    for statement in statements() {
        let rule = &statement.rule;
        let (file, anchor) = (statement.part("code", "file"), statement.part("code", "anchor"));
        match (file, anchor) {
            (Some(file), Some(anchor)) => match read(file) {
                Ok(text) if text.contains(anchor) => {}
                Ok(_) => complaints.push(format!("{rule}: {file} has no {anchor:?}")),
                Err(error) => complaints.push(format!("{rule}: {error}")),
            },
            _ if statement.text("exception").is_some() => {}
            _ => complaints.push(format!("{rule}: neither code nor an exception")),
        }
    }
    demand(&complaints);
}

/// The file of a test's module, and the function's name.
fn place(test: &str) -> Option<(Vec<String>, &str)> {
    let folder = match test.split("::").next()? {
        "roce-engine" => "dataplane/engine",
        "roce-codec" => "codec",
        "roce-dataplane" => "dataplane",
        "roce-testbed" => "tests/testbed",
        _ => return None,
    };
    let mut parts: Vec<_> = test.split("::").skip(1).collect();
    let name = parts.pop()?;
    let (target, modules) = parts.split_first()?;
    let base = if *target == "lib" {
        format!("{folder}/src")
    } else if modules.is_empty() {
        return Some((vec![format!("{folder}/tests/{target}.rs")], name));
    } else {
        format!("{folder}/tests/{target}")
    };
    let modules = modules.strip_suffix(&["tests"]).unwrap_or(modules).join("/");
    let files = [".rs", "/mod.rs", "/tests.rs"].map(|end| format!("{base}/{modules}{end}"));
    Some((files.to_vec(), name))
}

#[test]
fn tests_are_where_the_list_says() {
    let mut complaints = Vec::new();
    for statement in statements() {
        let rule = &statement.rule;
        let Some(test) = statement.text("test") else {
            if statement.text("exception").is_none() {
                complaints.push(format!("{rule}: neither a test nor an exception"));
            }
            continue;
        };
        let Some((files, name)) = place(test) else {
            complaints.push(format!("{rule}: {test} names no package and target"));
            continue;
        };
        let is_test = files.iter().filter_map(|file| read(file).ok()).any(|text| {
            let function = format!("fn {name}(");
            text.split("#[test]")
                .skip(1)
                .any(|after| after.find("fn ").is_some_and(|at| after[at..].starts_with(&function)))
        });
        if !is_test {
            complaints.push(format!("{rule}: there is no test {test}"));
        }
    }
    demand(&complaints);
}

#[test]
fn mutations_have_one_place() {
    let mut complaints = Vec::new();
    for statement in statements() {
        let rule = &statement.rule;
        let Some(find) = statement.part("mutation", "find") else {
            if statement.text("exception").is_none() {
                complaints.push(format!("{rule}: neither a mutation nor an exception"));
            }
            continue;
        };
        let file = statement.part("mutation", "file").or(statement.part("code", "file"));
        let replace = statement.part("mutation", "replace");
        let count = file.and_then(|file| read(file).ok()).map(|text| text.matches(find).count());
        if count != Some(1) || replace.is_none_or(|replace| replace == find) {
            complaints.push(format!("{rule}: {count:?} places in {file:?} for {find:?}"));
        }
    }
    demand(&complaints);
}

#[test]
fn no_rule_is_left_out() {
    let statements = statements();
    let mut complaints = Vec::new();
    let mut names = BTreeSet::new();
    for statement in &statements {
        if !names.insert(&statement.rule) {
            complaints.push(format!("{} stands twice", statement.rule));
        }
        if statement.text("says").is_none_or(str::is_empty) {
            complaints.push(format!("{} says nothing", statement.rule));
        }
        let certain = statement.table.get("certain").and_then(Value::as_integer);
        if statement.cites.is_empty() != certain.is_none()
            || certain.is_some_and(|certain| !(1..=100).contains(&certain))
        {
            complaints.push(format!("{}: how certain is what it cites?", statement.rule));
        }
    }
    let answered: BTreeSet<_> = statements.iter().flat_map(|one| one.traps.clone()).collect();
    let known: BTreeSet<_> = TRAPS
        .iter()
        .flat_map(|(part, count)| (1..=*count).map(move |number| format!("{part} {number}")))
        .collect();
    complaints.extend(known.difference(&answered).map(|trap| format!("no entry for {trap}")));
    complaints.extend(answered.difference(&known).map(|trap| format!("no trap is called {trap}")));
    for step in STEPS {
        let start = format!("responder/{step}");
        if !statements.iter().any(|one| one.rule.starts_with(&start) && !one.cites.is_empty()) {
            complaints.push(format!("no statement is cited for the responder's step {step}"));
        }
    }
    demand(&complaints);
}
