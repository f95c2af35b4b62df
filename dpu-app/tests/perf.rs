//! `roce-perf` as a program, in a network namespace beside that of `roce-responder serve`. Without
//! the right to make namespaces these tests pass over, and say so.

#![cfg(feature = "linux")]

#[path = "support/namespaces.rs"]
mod namespaces;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

use dpu_app::service::perftest::Test;
use namespaces::Lab;
use serde_json::Value;

/// `roce-perf`, over there.
struct Perf(Lab);

impl Perf {
    /// `None`, printed, where namespaces are not permitted.
    fn enter() -> Option<Self> {
        Lab::enter().map(Self)
    }

    /// Runs `roce-perf` over there.
    fn perf(&self, line: &str) -> Output {
        let program = env!("CARGO_BIN_EXE_roce-perf");
        let words: Vec<_> = [program].into_iter().chain(line.split_whitespace()).collect();
        self.0.there(&words)
    }

    /// Runs it to its success; its line of JSON.
    fn json(&self, line: &str) -> Value {
        let output = self.perf(&format!("{line} --json"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{line}: {said}");
        let text = String::from_utf8(output.stdout).expect("text");
        assert_eq!(text.lines().count(), 1, "one line: {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Runs it to its failure; what it says.
    fn failure(&self, line: &str, status: i32) -> String {
        let output = self.perf(line);
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(status), "{line}: {said}");
        assert_eq!(output.stdout, b"", "{line}: no result");
        said
    }
}

/// A responder in this namespace, with every test on a port of its own.
struct Responder(Child);

impl Responder {
    fn start(port: &str, region_size: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roce-responder"));
        command.args(["serve", "--port", &format!("{port}:near")]);
        command.args(["--region-size", region_size]);
        for (test, tcp) in Test::ALL.into_iter().zip(PORTS) {
            command.args(["--service", &format!("perftest:{test}:{tcp}")]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the program starts");
        let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let ready = |line: &String| line.contains(&format!("{}: ready", PORTS.end - 1));
        let mut said = lines.by_ref().map_while(Result::ok);
        assert!(said.any(|line| ready(&line)), "it is not ready");
        // What it says from here on is of no interest, but somebody must read it.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self(process)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const PORTS: std::ops::Range<u16> = 18600..18608;

/// The tests with the TCP ports of their services.
fn tests() -> impl Iterator<Item = (Test, u16)> {
    Test::ALL.into_iter().zip(PORTS)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What the results of a run must be like, whatever the machine.
fn check(test: Test, result: &Value, size: u32, iterations: u64) {
    assert_eq!(result["bytes"], size, "{test}");
    assert_eq!(result["iterations"], iterations, "{test}");
    let latency = &result["latency_us"];
    let mut last = f64::MIN_POSITIVE;
    for name in ["min", "p50", "p99", "p999", "max"] {
        let value = number(&latency[name]);
        assert!(value >= last, "{test}: {latency}");
        last = value;
    }
    let average = number(&latency["average"]);
    assert!(average <= number(&latency["max"]) * 1.002, "{test}: {latency}");
    assert_eq!(result.get("bandwidth").is_some(), test.is_bandwidth(), "{test}");
    if let Some(bandwidth) = result.get("bandwidth") {
        let rate = number(&bandwidth["messages_s"]);
        let mib = rate * f64::from(size) / 1_048_576.0;
        let average = number(&bandwidth["average_mib_s"]);
        assert!((mib - average).abs() < 0.01 * mib + 0.001, "{test}: {bandwidth}");
        assert!(number(&bandwidth["peak_mib_s"]) >= average * 0.999, "{test}: {bandwidth}");
    }
}

fn every_test(port: &str) {
    let Some(lab) = Perf::enter() else { return };
    let _responder = Responder::start(port, "64K");
    for (test, tcp) in tests() {
        let size = if test.is_atomic() { 8 } else { 3000 };
        let sized = if test.is_atomic() { "" } else { "-s 3000" };
        for how in ["-x 192.0.2.2", "-R"] {
            let line =
                format!("{test} 192.0.2.1 --port {port}:far -p {tcp} -n 60 -m 1024 {sized} {how}");
            let result = lab.json(&line);
            assert_eq!(result["test"], test.name());
            assert_eq!(result["path_mtu"], 1024);
            check(test, &result["results"][0], size, 60);
        }
    }
    let said = lab.failure(&format!("read_bw 192.0.2.1 --port {port}:far -R -p 9"), 1);
    assert!(said.contains("nothing listens there by RDMA CM"), "{said}");
    // The table: a head and a row.
    let output =
        lab.perf(&format!("read_bw 192.0.2.1 --port {port}:far -p 18601 -n 20 -s 1K -q 3"));
    let text = String::from_utf8(output.stdout).expect("text");
    let [head, row] = text.lines().collect::<Vec<_>>()[..] else { panic!("two lines: {text}") };
    assert!(head.contains("BW average[MB/sec]") && head.contains("t_99.9%[usec]"), "{head}");
    assert_eq!(row.split_whitespace().take(2).collect::<Vec<_>>(), ["1024", "60"], "{row}");
}

#[test]
fn every_test_over_af_packet() {
    every_test("packet");
}

#[test]
fn every_test_over_af_xdp() {
    every_test("af-xdp");
}

/// 2 % of the frames are lost each way, at the client; the counters say so. The timeout, 34 ms, is
/// above what a busy machine takes between two turns of either side's loop.
#[test]
fn loss() {
    let Some(lab) = Perf::enter() else { return };
    let _responder = Responder::start("packet", "64K");
    for (test, tcp) in tests() {
        let output = lab.perf(&format!(
            "{test} 192.0.2.1 --port packet:far -p {tcp} -n 300 -u 13 --json --stats --fault \
             drop=0.02,seed=7"
        ));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{test}: {said}");
        let text = String::from_utf8(output.stdout).expect("text");
        let values: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let [result, stats] = &values[..] else { panic!("two lines: {text}") };
        assert_eq!(result["results"][0]["iterations"], 300);
        let lost = &stats["stats"]["faults"];
        assert!(number(&lost["rx"]["drop"]) + number(&lost["tx"]["drop"]) > 0.0, "{test}: {lost}");
    }
}

/// For a second, and every size.
#[test]
fn for_a_time_and_all_sizes() {
    let Some(lab) = Perf::enter() else { return };
    let _responder = Responder::start("packet", "8M");
    let timed = lab.json("write_bw 192.0.2.1 --port packet:far -p 18600 -D 1 -s 64");
    let result = &timed["results"][0];
    assert!(number(&result["iterations"]) > 100.0, "{timed}");
    assert_eq!(result["bandwidth"]["peak_mib_s"], Value::Null);
    let took = number(&result["iterations"]) / number(&result["bandwidth"]["messages_s"]);
    assert!((0.8..1.1).contains(&took), "{took} s");

    let all = lab.json("read_bw 192.0.2.1 --port packet:far -p 18601 -a -n 5");
    let sizes: Vec<_> = all["results"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["bytes"].as_u64())
        .collect();
    assert_eq!(sizes, (1..=23).map(|bit| Some(1 << bit)).collect::<Vec<_>>());
}

/// Each failure says what, where, and what to do: 2 before it began, 1 afterwards.
#[test]
fn failures() {
    let Some(lab) = Perf::enter() else { return };
    let responder = Responder::start("packet", "64K");
    let port = "--port packet:far";

    let said = lab.failure("write_bw 192.0.2.1 --port packet:nowhere", 2);
    assert!(said.contains("nowhere: no such interface here"), "{said}");
    let said = lab.failure(&format!("write_bw 192.0.2.1 {port} --ip 192.0.2.9"), 2);
    assert!(said.contains("192.0.2.9 is not an address of this interface"), "{said}");
    let said = lab.failure(&format!("write 192.0.2.1 {port}"), 2);
    assert!(said.contains("the tests are write_bw"), "{said}");
    let said = lab.failure(&format!("write_lat 192.0.2.1 {port} -q 2"), 2);
    assert!(said.contains("a latency test has one queue pair"), "{said}");
    let said = lab.failure(&format!("write_bw 192.0.2.1 {port} -m 1000"), 2);
    assert!(said.contains("256, 512, 1024, 2048 or 4096"), "{said}");

    let said = lab.failure(&format!("write_bw 192.0.2.1 {port} -p 9"), 1);
    assert!(said.contains("192.0.2.1:9: nothing listens there; start the server first"), "{said}");

    // Another test: the port is of read_bw.
    let said = lab.failure(&format!("write_bw 192.0.2.1 {port} -p 18601 -n 5"), 1);
    assert!(said.contains("does it run write_bw"), "{said}");
    assert!(said.contains("message 0 of queue pair 0 failed: remote"), "{said}");
    assert!(said.contains("(PSN 0x"), "{said}");

    // Longer than the server's memory.
    let said = lab.failure(&format!("write_bw 192.0.2.1 {port} -p 18600 -s 65537 -n 5"), 1);
    assert!(said.contains("remote access error") && said.contains("(-s)"), "{said}");

    // Something else listens.
    let other = TcpListener::bind(("192.0.2.1", 9000)).expect("a free port");
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().expect("a client");
        std::io::Write::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.2p1").expect("it reads");
        let _ = stream.read(&mut [0; 64]);
    });
    let said = lab.failure(&format!("write_bw 192.0.2.1 {port} -p 9000"), 1);
    assert!(said.contains("it does not begin with a perftest version"), "{said}");
    answer.join().expect("no panic");

    // It hangs up.
    let other = TcpListener::bind(("192.0.2.1", 9001)).expect("a free port");
    let answer = std::thread::spawn(move || drop(other.accept().expect("a client")));
    let said = lab.failure(&format!("write_bw 192.0.2.1 {port} -p 9001"), 1);
    assert!(said.contains("before the test was over"), "{said}");
    answer.join().expect("no panic");

    // No network for RDMA: every frame is lost.
    let said = lab.failure(&format!("write_bw 192.0.2.1 {port} -p 18600 -u 8 --fault drop=1"), 1);
    assert!(said.contains("transport retry count exceeded"), "{said}");
    assert!(said.contains("UDP 4791"), "{said}");
    drop(responder);
}
