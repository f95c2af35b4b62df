//! Clients of the connection manager's services as programs, in a network namespace beside that of
//! `roce-responder serve`. Without the right to make namespaces these tests pass over, and say so.

#![cfg(feature = "linux")]

#[path = "support/namespaces.rs"]
mod namespaces;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use namespaces::Lab;
use serde_json::Value;

/// A server in this namespace; it does not outlive its test.
struct Server(Child);

impl Server {
    fn start(arguments: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roce-responder"));
        command.arg("serve").args(arguments.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the program starts");
        let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let mut said = lines.by_ref().map_while(Result::ok);
        assert!(said.any(|line| line.contains("udaddy:7174: ready")), "it is not ready");
        // What it says from here on is of no interest, but somebody must read it.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self(process)
    }

    /// Waits for its end; what it counted.
    fn stats(mut self) -> Value {
        let mut output = String::new();
        self.0.stdout.take().expect("a pipe").read_to_string(&mut output).expect("text");
        serde_json::from_str::<Value>(output.trim()).expect("one line of JSON")["stats"].take()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a client over there, to its end; its exit status, the counters of its queue pair 1, and all
/// that it said.
fn client(lab: &Lab, line: &str) -> (Option<i32>, Value, String) {
    let program = env!("CARGO_BIN_EXE_roce-responder");
    let words = [program].into_iter().chain(line.split_whitespace());
    let output = lab.there(&words.chain(["--stats"]).collect::<Vec<_>>());
    let mut said = String::from_utf8(output.stdout).expect("text");
    let stats = said.lines().find_map(|line| serde_json::from_str::<Value>(line).ok());
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    let mads = stats.map_or(Value::Null, |mut stats| stats["stats"]["mads"].take());
    (output.status.code(), mads, said)
}

/// Each client's last word, and how many MADs came and went, at either end.
#[test]
fn each_is_served() {
    let Some(lab) = Lab::enter() else { return };
    let port = "--port packet:far";
    let server = Server::start(
        "--port packet:near --service rping --service ucmatose,count=7,size=3000 --service udaddy \
         --sessions 4 --stats",
    );
    // REQ, RTU and DREQ there, REP and DREP back; or who disconnects is the server.
    let mut mads = [0, 0];
    for (line, words, there, back) in [
        ("rping -c 192.0.2.1 -C 5 -V", "rping: 192.0.2.1: done, 5 rounds", 3, 2),
        ("ucmatose -s fd00::1 -C 7 -S 3000", "ucmatose: fd00::1: done, 7 rounds", 3, 2),
        ("udaddy -s 192.0.2.1 -C 20 -S 1000", "udaddy: 192.0.2.1: done, 20 rounds", 1, 1),
        ("udaddy -s fd00::1 -C 1 -S 4096", "udaddy: fd00::1: done, 1 rounds", 1, 1),
    ] {
        let (status, counted, said) = client(&lab, &format!("{line} {port}"));
        assert_eq!(status, Some(0), "{line}: {said}");
        assert!(said.contains(words), "{line}: {said}");
        let count = |name: &str| counted[name].as_u64().expect("a number");
        assert!(count("sent") >= there && count("received") >= back, "{line}: {counted}");
        for name in ["malformed", "foreign", "misaddressed", "no_route"] {
            assert_eq!(count(name), 0, "{line}: {name}");
        }
        mads = [mads[0] + count("sent"), mads[1] + count("received")];
    }
    // The last client is over for the server when it has been silent for 10 s.
    let stats = server.stats();
    let [received, sent] = ["received", "sent"].map(|name| stats["mads"][name].as_u64());
    // Less those that had no neighbour to go to yet, and were sent again.
    assert!(
        received.is_some_and(|received| (8..=mads[0]).contains(&received)),
        "{mads:?}: {stats}"
    );
    assert!(sent.is_some_and(|sent| mads[1] >= 6 && sent >= mads[1]), "{mads:?}: {stats}");
    assert_eq!(stats["sessions"], 4);
}

#[test]
fn what_udaddy_refuses() {
    let Some(lab) = Lab::enter() else { return };
    let _server = Server::start("--port packet:near --service udaddy");
    let port = "--port packet:far";
    for (line, words, wanted) in [
        ("-p 9", "the peer does not serve it: service ID not supported", 1),
        ("-S 1025 --path-mtu 1024", "length not allowed", 1),
        ("-C 129", "129 is not in 1..=128", 2),
        ("-S 4097", "4097 is not in 1..=4096", 2),
    ] {
        let (status, _, said) = client(&lab, &format!("udaddy -s 192.0.2.1 {port} {line}"));
        assert_eq!(status, Some(wanted), "{line}: {said}");
        assert!(said.contains(words), "{line}: {said}");
    }
}
