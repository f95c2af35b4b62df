//! What `decode` writes for programs: its JSON by its schema, its CSV by another reader, and the
//! habits of the command line.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn capture(name: &str) -> String {
    format!("{}/../tests/captures/{name}.pcap", env!("CARGO_MANIFEST_DIR"))
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roce-pcap")).args(args).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = run(args);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{args:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a Python program says that reads a file; `None` without Python, or what it imports.
fn python(program: &str, args: &[&str]) -> Option<String> {
    let output = match Command::new("python3").args(["-c", program]).args(args).output() {
        Ok(output) => output,
        Err(error) => {
            println!("passed over: python3 does not run here: {error}");
            return None;
        }
    };
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    if complaint.contains("ModuleNotFoundError") {
        println!("passed over: {complaint}");
        return None;
    }
    assert!(output.status.success(), "{complaint}");
    Some(String::from_utf8(output.stdout).unwrap())
}

fn write(name: &str, text: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// python3-jsonschema as an independent judge of the schema that is the first argument.
const JUDGE: &str = "
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
judge = jsonschema.Draft202012Validator(schema)
";

/// That the judge can say no is seen as well.
#[test]
fn json_is_what_its_schema_says() {
    const PROGRAM: &str = "
count = 0
for line in open(sys.argv[2]):
    judge.validate(json.loads(line))
    count += 1
assert not judge.is_valid({'frame.number': 'one', 'rule': 7})
print(count)
";
    for command in ["decode", "check"] {
        let schema = write(&format!("{command}-schema.json"), &stdout(&["schema", command]));
        let files = ["rxe-cm", "rxe-nvme", "rxe-atomic", "rxe72-flush-atomicwrite"].map(capture);
        let mut args = vec![command, "--format", "jsonl"];
        args.extend(files.iter().map(String::as_str));
        let lines = stdout(&args);
        let path = write(&format!("{command}.jsonl"), &lines);
        let Some(count) = python(&[JUDGE, PROGRAM].concat(), &[&schema, &path]) else { return };
        assert_eq!(count.trim(), lines.lines().count().to_string());
    }
}

/// Figures with losses, rates and pauses, as one object and as lines.
#[test]
fn figures_are_what_their_schema_says() {
    const PROGRAM: &str = "
tables = set()
for line in open(sys.argv[2]):
    row = json.loads(line)
    judge.validate(row)
    tables.add(row['table'])
    of_one = {'src', 'dst', 'dest_qp', 'src_qp', 'dcqcn_rate_bps'}
    for name in set(row) - (of_one if row['table'] == 'flow' else set()):
        assert not judge.is_valid({k: v for k, v in row.items() if k != name}), name
    assert not judge.is_valid(row | {'more': 1})
for path in sys.argv[3:]:
    judge.validate(json.load(open(path)))
print(*sorted(tables))
";
    let schema = write("stats-schema.json", &stdout(&["schema", "stats"]));
    let golden = ["pfc-storm", "cnps-unheeded"].map(|name| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.pcapng"));
        let path = path.to_str().unwrap().to_owned();
        stdout(&["gen", "--trace", name, "-o", &path]);
        path
    });
    let files = [capture("rxe-lossy-client"), capture("rxe-ecn-server")].into_iter().chain(golden);
    let mut lines = String::new();
    let mut paths = vec![schema];
    let mut documents = Vec::new();
    for (at, file) in files.enumerate() {
        let args = ["stats", "--link-rate", "100G", &file, "--format"];
        lines += &stdout(&[&args[..], &["jsonl"]].concat());
        documents
            .push(write(&format!("stats-{at}.json"), &stdout(&[&args[..], &["json"]].concat())));
    }
    paths.push(write("stats.jsonl", &lines));
    paths.extend(documents);
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let Some(tables) = python(&[JUDGE, PROGRAM].concat(), &paths) else { return };
    assert_eq!(tables.trim(), "flow host interval loss pause total");
}

#[test]
fn an_array_holds_what_the_lines_do() {
    let file = capture("rxe-atomic");
    let array: Vec<Value> =
        serde_json::from_str(&stdout(&["decode", "--format", "json", &file])).unwrap();
    let lines = stdout(&["decode", "--format", "jsonl", &file]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, packets) = lines.split_last().unwrap();
    assert_eq!(array, packets);
    assert_eq!(summary["summary"]["shown"], 32);
    let none = stdout(&["decode", "--format", "json", "--where", "cnp", &file]);
    assert_eq!(serde_json::from_str::<Value>(&none).unwrap(), Value::Array(Vec::new()));
}

/// Python's reader of CSV sees the same values in the same columns as JSON has.
#[test]
fn csv_is_read_by_another_reader() {
    let fields = "number,src,dqpn,psn,opcode,cm,syndrome,a_flag";
    assert_eq!(run(&["decode", "--fields", fields, "-"]).status.code(), Some(2));
    let fields = "number,src,dqpn,psn,opcode,cm,syndrome,ackreq";
    let file = capture("rxe-cm");
    let args = ["decode", "--fields", fields, &file, "--format"];
    let csv = stdout(&[&args[..], &["csv"]].concat());
    assert!(csv.starts_with(&format!("{fields}\r\n1,10.77.1.3,1,0,UD_SEND_ONLY,")), "{csv}");
    const PROGRAM: &str = "
import csv, json, sys
print(json.dumps(list(csv.DictReader(open(sys.argv[1], newline='')))))
";
    let Some(rows) = python(PROGRAM, &[&write("decode.csv", &csv)]) else { return };
    let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
    let objects = stdout(&[&args[..], &["json"]].concat());
    let objects: Vec<Value> = serde_json::from_str(&objects).unwrap();
    assert_eq!(rows.len(), objects.len());
    for (row, object) in rows.iter().zip(&objects) {
        for (name, value) in object.as_object().unwrap() {
            let expected = match value {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(row[name], expected, "{name}");
        }
    }
    assert!(objects.iter().any(|object| object["cm"].is_null()), "absent fields are null");
    let tabs = stdout(&args[..4]);
    assert_eq!(tabs.lines().count(), 127, "nothing but what was asked for");
    assert!(tabs.starts_with("1\t10.77.1.3\t1\t0\tUD_SEND_ONLY\tCM REQ"), "{tabs}");
}

#[test]
fn the_checker_runs_when_it_is_asked_for() {
    let file = capture("rxe72-flush-atomicwrite");
    let rows = stdout(&[
        "decode",
        "--fields",
        "number,verdict,rule",
        "--where",
        "severity >= error",
        &file,
    ]);
    assert_eq!(rows, "14\tfail\tROCE-ICRC\n22\tfail\tROCE-ICRC\n43\tfail\tROCE-ICRC\n");
    let lines = stdout(&["decode", "--where", "rule == ROCE-ICRC", &file]);
    assert!(lines.lines().next().unwrap().ends_with("[ROCE-ICRC fail]"), "{lines}");
    assert!(lines.ends_with("; 3 shown\n"), "{lines}");
}

#[test]
fn expressions_that_mean_nothing_are_status_2() {
    let output = run(&["decode", "--where", "psn == 1 && opcod == 2", &capture("rxe-cm")]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("column 13") && lines[0].contains("`opcode`"), "{text}");
    assert_eq!(lines[1..], ["  psn == 1 && opcod == 2", "              ^^^^^"]);
    assert!(output.stdout.is_empty());
}

#[test]
fn every_field_is_listed() {
    let list = stdout(&["decode", "--list-fields"]);
    for field in roce_pcap::field::all() {
        assert!(list.contains(&format!("  {} ", field.name)), "{}", field.name);
    }
}

#[test]
fn colours_are_there_when_wanted() {
    let file = capture("rxe72-flush-atomicwrite");
    assert!(!stdout(&["decode", &file]).contains('\x1b'), "not a terminal");
    assert!(!stdout(&["--color", "never", "decode", &file]).contains('\x1b'));
    let painted = stdout(&["decode", "--color", "always", &file]);
    assert!(painted.contains("\x1b[1m\x1b[31mICRC dd758200 invalid"), "{painted}");
    assert!(stdout(&["decode", "-V", "--color", "always", &file]).contains("\x1b[1mRETH\x1b[0m"));
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(stdout(&["completions", shell]).contains("list-fields"), "{shell}");
    }
    let page = stdout(&["man", "decode"]);
    assert!(page.contains(".SH OPTIONS") && page.contains("dqpn == 0x11"), "{page}");
    assert!(stdout(&["man"]).contains(".SH SUBCOMMANDS"));
    assert_eq!(run(&["man", "no-such-command"]).status.code(), Some(2));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man");
    stdout(&["man", "--to", folder.to_str().unwrap()]);
    for name in ["roce-pcap.1", "roce-pcap-decode.1", "roce-pcap-check.1"] {
        assert!(folder.join(name).exists(), "{name}");
    }
    assert!(stdout(&["--version"]).starts_with("roce-pcap 0."));
}
