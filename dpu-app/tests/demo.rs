//! `roce-responder demo`, as a newcomer runs it.

#![cfg(feature = "linux")]

use std::path::PathBuf;
use std::process::{Command, Output};

/// A file name of our own, removed in the end.
struct Capture(PathBuf);

impl Capture {
    fn new(name: &str) -> Self {
        let name = format!("roce-demo-{}-{name}.pcapng", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn demo(capture: &Capture, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roce-responder"))
        .arg("demo")
        .arg("--output")
        .arg(&capture.0)
        .args(arguments)
        .output()
        .expect("the program starts")
}

/// Columns of the table's five rows: operation, count, bytes, sent again, verified, verdict.
fn rows(output: &Output) -> Vec<Vec<String>> {
    let text = String::from_utf8_lossy(&output.stdout);
    let start = text.lines().skip_while(|line| !line.starts_with("operation")).skip(1);
    start.take(5).map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

fn check(output: &Output, what: &str) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {text}{errors}");
    let names: Vec<_> = rows(output).iter().map(|row| row[0].clone()).collect();
    assert_eq!(names, ["WRITE", "READ", "SEND", "FETCH_ADD", "CMP_SWAP"], "{what}");
    for row in rows(output) {
        assert_eq!(row[1], row[4], "{what}: all of {row:?} verified");
        assert_eq!(row[5], "ok", "{what}");
    }
    assert!(text.contains(": clean"), "{what}: {text}");
}

#[test]
fn several_seeds() {
    for seed in 1..=12 {
        let capture = Capture::new("seeds");
        let output = demo(&capture, &["--seed", &seed.to_string()]);
        check(&output, &format!("seed {seed}"));
        let again: u64 = rows(&output).iter().map(|row| row[3].parse::<u64>().unwrap()).sum();
        assert!(again > 100, "seed {seed}: faults made little difference");
    }
}

#[test]
fn the_same_seed_gives_the_same_capture() {
    let captures = [Capture::new("first"), Capture::new("second"), Capture::new("third")];
    for (capture, seed) in captures.iter().zip(["5", "5", "6"]) {
        check(&demo(capture, &["--seed", seed]), seed);
    }
    let [first, second, third] = captures.map(|capture| std::fs::read(&capture.0).unwrap());
    assert!(first == second);
    assert!(first != third);
}

#[test]
fn without_faults_nothing_is_sent_again() {
    let capture = Capture::new("faultless");
    let output = demo(&capture, &["--fault", "drop=0"]);
    check(&output, "no faults");
    assert!(rows(&output).iter().all(|row| row[3] == "0"), "{:?}", rows(&output));
}

#[test]
fn too_many_faults_are_told() {
    let capture = Capture::new("hopeless");
    let output = demo(&capture, &["--fault", "drop=0.9"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("transport retry count exceeded"), "{text}");
}

#[test]
fn on_a_veth_pair() {
    let capture = Capture::new("veth");
    let output = demo(&capture, &["--port", "af-xdp"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("run as root") {
        println!("passed over: {}", errors.trim());
        return;
    }
    check(&output, "veth");
}

#[test]
fn an_output_that_cannot_be_written() {
    let capture = Capture(PathBuf::from("/nowhere/demo.pcapng"));
    let output = demo(&capture, &[]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("/nowhere/demo.pcapng: cannot write"), "{errors}");
}
