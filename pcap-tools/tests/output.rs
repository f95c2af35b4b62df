//! What CI systems read: JUnit XML, SARIF and GitHub's annotations, of captures with known faults.

use std::path::Path;
use std::process::Command;

use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::Value;

fn capture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/captures");
    folder.join(format!("{name}.pcap")).display().to_string()
}

/// Runs `check`; status and output.
fn check(args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roce-pcap"));
    let output = command.arg("check").args(args).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn junit_is_a_suite_a_capture() {
    let (faulty, lossy) = (capture("rxe72-flush-atomicwrite"), capture("rxe-lossy-client"));
    let (status, text) = check(&["--format", "junit", &faulty, &lossy, "/nonexistent"]);
    assert_eq!(status, 2);
    let mut reader = Reader::from_str(&text);
    let (mut open, mut suites, mut cases, mut failures, mut skipped) = (vec![], vec![], 0, 0, 0);
    loop {
        let (tag, empty) = match reader.read_event().unwrap() {
            Event::Start(tag) => (tag, false),
            Event::Empty(tag) => (tag, true),
            Event::End(tag) => {
                assert_eq!(open.pop(), Some(tag.name().as_ref().to_vec()));
                continue;
            }
            Event::Eof => break,
            _ => continue,
        };
        let value = |name: &str| {
            let attribute = tag.try_get_attribute(name).unwrap().unwrap();
            attribute.unescape_value().unwrap().into_owned()
        };
        match tag.name().as_ref() {
            b"testsuite" => suites.push([value("name"), value("failures"), value("errors")]),
            b"testcase" => cases += 1,
            b"failure" => {
                failures += 1;
                assert_eq!(value("type"), "error");
                let rest = &text[usize::try_from(reader.buffer_position()).unwrap()..];
                assert!(rest.starts_with("packet 14: ROCE-ICRC fail (error), 10.77.1.3 &gt; "));
            }
            b"skipped" => skipped += 1,
            _ => {}
        }
        if !empty {
            open.push(tag.name().as_ref().to_vec());
        }
    }
    assert!(open.is_empty());
    let count = |fail: &str, error: &str| [fail.to_owned(), error.to_owned()];
    let counts: Vec<_> =
        suites.iter().map(|[_, fail, error]| [fail.clone(), error.clone()]).collect();
    assert_eq!(counts, [count("1", "0"), count("0", "0"), count("0", "1")]);
    assert_eq!(suites[0][0], faulty);
    assert_eq!(failures, 1);
    // RC-REFUSED in one; gaps and what comes again in the other.
    assert!(skipped >= 3 && cases > 40, "{skipped} {cases}");
}

#[test]
fn sarif_has_rules_and_results() {
    let faulty = capture("rxe72-flush-atomicwrite");
    let (status, text) = check(&["--format", "sarif", &faulty]);
    assert_eq!(status, 1);
    let log: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run["results"].as_array().unwrap();
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    let mut failed = Vec::new();
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["artifactLocation"]["uri"].as_str().unwrap().ends_with("atomicwrite.pcap"));
        match result["kind"].as_str().unwrap() {
            "fail" => {
                assert_eq!(result["level"], "error");
                failed.push(place["region"]["startLine"].as_u64().unwrap());
            }
            kind => assert_eq!((kind, &result["level"]), ("open", &Value::from("none"))),
        }
    }
    assert_eq!(failed, [14, 22, 43]);
    let (_, text) = check(&["--format", "sarif", &capture("rxe-write"), "/nonexistent"]);
    let log: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(log["runs"][0]["results"], Value::Array(Vec::new()));
    assert_eq!(log["runs"][0]["invocations"][0]["executionSuccessful"], false);
}

#[test]
fn github_sees_annotations() {
    let faulty = capture("rxe72-flush-atomicwrite");
    let (status, text) = check(&["--format", "github", &faulty]);
    assert_eq!(status, 1);
    let errors: Vec<_> = text.lines().filter(|line| line.starts_with("::error file=")).collect();
    assert_eq!(errors.len(), 3);
    assert!(errors[0].contains(",line=14,title=ROCE-ICRC::packet 14: "), "{}", errors[0]);
    assert!(!text.contains("::notice"));
    let (_, text) = check(&["--format", "github", "--unknown", &faulty]);
    assert_eq!(text.lines().filter(|line| line.starts_with("::notice file=")).count(), 3);
}

#[test]
fn ignored_rules_fail_nobody() {
    let faulty = capture("rxe72-flush-atomicwrite");
    let (status, text) = check(&["--ignore", "roce-icrc,RC-REFUSED", &faulty]);
    assert_eq!(status, 0);
    assert!(!text.contains("packet 14"), "{text}");
    let (status, _) = check(&["--ignore", "NO-SUCH-RULE", &faulty]);
    assert_eq!(status, 2);
}
