//! Which opcodes and syndromes the real captures cover: the table in their README is true.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::faults::frame;
use crate::support::{load, name, own_captures};

/// Packets of each kind and the captures that have some, in a table.
fn table(title: &str, kinds: &BTreeMap<(u8, String), BTreeMap<String, usize>>) -> String {
    let mut table = format!("| {title} | packets | captures |\n|---|---|---|\n");
    for ((code, kind), captures) in kinds {
        let packets: usize = captures.values().sum();
        let names: Vec<_> = captures.keys().map(|name| name.trim_start_matches("rxe-")).collect();
        writeln!(table, "| {code:02x} {kind} | {packets} | {} |", names.join(", ")).unwrap();
    }
    table
}

#[test]
fn the_readme_says_what_the_captures_cover() {
    let (mut opcodes, mut syndromes) = (BTreeMap::new(), BTreeMap::new());
    for path in own_captures() {
        for packet in load(&path) {
            let frame = frame(&packet).unwrap();
            let opcode = frame.opcode();
            let count = |kinds: &mut BTreeMap<_, BTreeMap<_, _>>, kind| {
                *kinds.entry(kind).or_default().entry(name(&path)).or_default() += 1;
            };
            count(&mut opcodes, (opcode.0, opcode.to_string()));
            if let Some(aeth) = frame.aeth() {
                count(&mut syndromes, (aeth.syndrome.0, aeth.syndrome.to_string()));
            }
        }
    }
    let expected = format!("{}\n{}", table("opcode", &opcodes), table("syndrome", &syndromes));
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/captures/README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    assert!(text.contains(&expected), "the README should have this:\n\n{expected}");
}
