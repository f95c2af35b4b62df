//! The command line: formats that agree with each other, and arguments that cannot be used.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/captures");
    let command = env!("CARGO_BIN_EXE_roce-pcap");
    Command::new(command).current_dir(captures).arg("stats").args(arguments).output().unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn formats_agree() {
    let file = "rxe-lossy-client.pcap";
    let json: Value = serde_json::from_str(&stdout(&["--format", "json", file])).unwrap();
    let lines = stdout(&["--format", "jsonl", file]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let csv = stdout(&["--format", "csv", file]);
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(json["total"]["acknowledged"], 120);
    for (table, name) in [("host", "hosts"), ("flow", "flows"), ("loss", "losses")] {
        let rows = lines.iter().filter(|line| line["table"] == table);
        let listed = json[name].as_array().unwrap();
        assert_eq!(rows.clone().count(), listed.len(), "{table}");
        for (line, object) in rows.zip(listed) {
            for (field, value) in object.as_object().unwrap() {
                assert_eq!(&line[field], value, "{table} {field}");
            }
        }
    }
    let flow = &json["flows"][0];
    let qp = flow["dest_qp"].to_string();
    let is_it = |row: &&Vec<&str>| row[1] == "flow" && row[2] == flow["src"] && row[4] == qp;
    let row = rows.iter().find(is_it).unwrap();
    assert!(rows.iter().all(|other| other.len() == rows[0].len()));
    for (name, cell) in rows[0].iter().zip(row).skip(8) {
        let value = match &flow[*name] {
            Value::Null => String::new(),
            value => value.to_string(),
        };
        assert_eq!(*cell, value, "{name}");
    }
    assert!(stdout(&[file]).contains("40 SEND, 40 WRITE, 40 READ"));
}

#[test]
fn several_captures_are_told_apart() {
    let text = stdout(&["rxe-write.pcap", "rxe-read.pcap"]);
    assert!(text.contains("rxe-write.pcap:\n") && text.contains("rxe-read.pcap:\n"));
    let csv = stdout(&["--format", "csv", "rxe-write.pcap", "rxe-read.pcap"]);
    assert_eq!(csv.matches("file,row").count(), 1);
    assert_eq!(csv.matches(",total,").count(), 2);
}

/// A mark without a notification breaks a rule of devices that send them, and of no others.
#[test]
fn a_report_judges_by_the_profile() {
    let folder = std::env::temp_dir().join(format!("roce-report-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let failures = |name: &str, profile: &[&str]| {
        let page = folder.join(name);
        let html = ["--html", page.to_str().unwrap(), "rxe-ecn-server.pcap"];
        stdout(&[&html[..], profile].concat());
        let page = std::fs::read_to_string(page).unwrap();
        let broken = page.split("rules broken").nth(1).unwrap();
        let digits = broken.chars().skip_while(|c| !c.is_ascii_digit());
        digits.take_while(char::is_ascii_digit).collect::<String>().parse::<u32>().unwrap()
    };
    let profile = folder.join("sends.toml");
    std::fs::write(&profile, "sends_cnps = true\ncnp_max_delay_ns = 1000\n").unwrap();
    let found = [
        failures("plain.html", &[]),
        failures("rxe.html", &["--profile", "rxe"]),
        failures("sends.html", &["--profile", profile.to_str().unwrap()]),
    ];
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(found[..2], [0, 0]);
    assert!(found[2] > 0, "{found:?}");
}

/// One direction alone: its requests are counted, and nothing completes.
#[test]
fn only_what_is_meant_is_counted() {
    let total = |expression: &[&str]| {
        let told = stdout(&[&["--format", "json", "rxe-lossy-client.pcap"], expression].concat());
        let mut told: Value = serde_json::from_str(&told).unwrap();
        told["total"].take()
    };
    let all = total(&[]);
    assert_eq!(total(&["--where", "number >= 1"]), all);
    let packets = |total: &Value| total["capture_packets"].as_u64().unwrap();
    let sends = total(&["--where", "opcode == SEND_ONLY || opcode == SEND_FIRST"]);
    let others = total(&["--where", "!(opcode == SEND_ONLY || opcode == SEND_FIRST)"]);
    assert!(packets(&sends) >= 40 && packets(&others) > 0);
    assert_eq!(packets(&sends) + packets(&others), packets(&all));
    assert_eq!((&sends["acknowledged"], &all["acknowledged"]), (&0.into(), &120.into()));
}

#[test]
fn what_cannot_be_done_is_said() {
    for (arguments, words) in [
        (&["--where", "opcod == 1", "rxe-write.pcap"][..], "did you mean `opcode`"),
        (&["--link-rate", "fast", "rxe-write.pcap"], "is no rate"),
        (&["--html", "/nonexistent/x.html", "rxe-write.pcap"], "cannot write"),
        (&["--html", "x.html", "rxe-write.pcap", "rxe-read.pcap"], "a page of one capture"),
        (&["--profile", "rxe", "rxe-write.pcap"], "--html"),
        (&["--html", "x.html", "--profile", "none", "rxe-write.pcap"], "no such profile"),
        (&["no-such-file.pcap"], "no-such-file.pcap"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(words), "{said}");
    }
}
