//! `roce-responder serve` on a veth pair, with clients of our own: real sockets, real frames.

#![cfg(feature = "linux")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use dpu_app::service::perftest::Test;
use roce_codec::net::MacAddr;
use roce_dataplane::poll::OneNeighbour;
use roce_dataplane::port::error::PortError;
use roce_dataplane::port::packet::{PacketConfig, PacketPort};
use roce_engine::{HeapStorage, Limits};
use roce_pcap::capture::Reader;
use serde_json::Value;
use support::{CLIENT, Client, Run, SERVER, Tcp, message};

const PATIENCE: Duration = Duration::from_secs(20);
const NEAR: &str = "near";
const FAR: &str = "far";

/// A network namespace that this thread, and the processes it starts, are in: a veth pair whose
/// near end has the server's address. It vanishes with the thread.
struct Lab {
    near_mac: MacAddr,
}

impl Lab {
    /// `None`, printed, where that is not permitted.
    fn enter() -> Option<Self> {
        // SAFETY: the call takes an integer; it moves this thread alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            let error = std::io::Error::last_os_error();
            println!("passed over: making a network namespace needs root ({error})");
            return None;
        }
        let (near_mac, far_mac) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        ip("link set lo up");
        ip(&format!("link add {NEAR} address {near_mac} type veth peer {FAR} address {far_mac}"));
        ip(&format!("link set {NEAR} up"));
        ip(&format!("link set {FAR} up"));
        ip(&format!("addr add {SERVER}/24 dev {NEAR}"));
        ip(&format!("neigh add {CLIENT} lladdr {far_mac} dev {NEAR} nud permanent"));
        Some(Self { near_mac })
    }

    /// Runs a client to its end.
    fn client(&self, run: &Run, port: u16) {
        let mut storage = HeapStorage::new(&Limits { qps: 8, replays_per_qp: 1, ..Limits::SMALL });
        let wire = far_end();
        let mut client = Client::new(&mut storage, wire, OneNeighbour(self.near_mac));
        let mut tcp = Connection(TcpStream::connect(("127.0.0.1", port)).expect("a listener"));
        client.run(run, &mut tcp);
    }
}

/// The far end. A child that another test's thread forks just now has the sockets of the last
/// one until it executes its program.
fn far_end() -> PacketPort {
    let end = Instant::now() + PATIENCE;
    loop {
        match PacketPort::open(&PacketConfig::new(FAR)) {
            Err(PortError::UdpPortTaken { .. }) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.expect("the far end"),
        }
    }
}

fn ip(arguments: &str) {
    let output =
        Command::new("ip").args(arguments.split_whitespace()).output().expect("ip is installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {errors}");
}

struct Connection(TcpStream);

impl Tcp for Connection {
    fn exchange(&mut self, message: &[u8], len: usize) -> Vec<u8> {
        self.send(message);
        let mut answer = vec![0; len];
        self.0.set_read_timeout(Some(PATIENCE)).unwrap();
        self.0.read_exact(&mut answer).expect("an answer");
        answer
    }

    fn send(&mut self, message: &[u8]) {
        self.0.write_all(message).expect("the server listens");
    }
}

/// A server process; it does not outlive its test.
struct Server {
    process: Child,
    errors: Receiver<String>,
    said: String,
}

impl Server {
    /// Starts a server that is to come up, and waits until it is ready.
    fn start(arguments: &[&str]) -> Self {
        let mut process = command(arguments).spawn().expect("the program starts");
        let lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let (sender, errors) = channel();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut server = Self { process, errors, said: String::new() };
        server.wait_for(": ready");
        server
    }

    /// Reads what it says until a line with these words.
    fn wait_for(&mut self, words: &str) {
        loop {
            let Ok(line) = self.errors.recv_timeout(PATIENCE) else {
                panic!("it does not say {words:?}, but {}", self.said);
            };
            self.said.push_str(&line);
            self.said.push('\n');
            if line.contains(words) {
                return;
            }
        }
    }

    /// Ctrl-C; returns what it printed on standard output, and on standard error.
    fn stop(mut self) -> (String, String) {
        let pid = libc::pid_t::try_from(self.process.id()).unwrap();
        // SAFETY: our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
        let mut output = String::new();
        self.process.stdout.take().expect("a pipe").read_to_string(&mut output).expect("text");
        self.said.extend(self.errors.iter().map(|line| line + "\n"));
        let status = self.process.wait().expect("a status");
        assert!(status.success(), "{status}: {}", self.said);
        (output, core::mem::take(&mut self.said))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roce-responder"));
    command.arg("serve").args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a server that is to refuse to start, and returns what it says.
fn refusal(arguments: &[&str]) -> String {
    refusal_of(&mut command(arguments))
}

fn refusal_of(command: &mut Command) -> String {
    let mut process = command.spawn().expect("the program starts");
    let end = Instant::now() + PATIENCE;
    while process.try_wait().expect("a status").is_none() {
        if Instant::now() > end {
            let _ = process.kill();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let Output { status, stderr, .. } = process.wait_with_output().expect("output");
    assert_eq!(status.code(), Some(1));
    String::from_utf8(stderr).expect("text")
}

/// A directory that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("roce-serve-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a name in UTF-8").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The lines of a memory dump's index.
fn dumped(directory: &Path) -> Vec<Value> {
    let index = std::fs::read_to_string(directory.join("index.jsonl")).expect("an index");
    index.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// All eight tests on one server, one after another, and again; then Ctrl-C. The counters, the
/// dumped memory and the capture are what the clients did.
fn all_tests(port: &str, fault: Option<&str>) {
    let Some(lab) = Lab::enter() else { return };
    let scratch = Scratch::new(&format!("{port}-{}", fault.is_some()));
    let (capture, memory) = (scratch.file("c.pcapng"), scratch.file("memory"));
    let port = format!("{port}:{NEAR}");
    let services: Vec<_> =
        (1..).zip(Test::ALL).map(|(n, test)| format!("perftest:{test}:{}", 18600 + n)).collect();
    let mut arguments = vec!["--port", &port, "--ip", "192.0.2.1", "--stats"];
    arguments.extend(["--capture", &capture, "--dump-memory", &memory, "--region-size", "64K"]);
    for service in &services {
        arguments.extend(["--service", service]);
    }
    arguments.extend(fault.iter().flat_map(|fault| ["--fault", fault]));
    let mut server = Server::start(&arguments);
    for size in [1000, 5001] {
        for (n, test) in (1..).zip(Test::ALL) {
            lab.client(&Run::new(test, size), 18600 + n);
            server.wait_for(": done");
        }
    }
    let (output, said) = server.stop();
    assert!(said.contains("clients served: 16"), "{said}");

    let stats: Value = serde_json::from_str(output.trim()).expect("one line of JSON");
    let stats = &stats["stats"];
    let count = |value: &Value| value.as_u64().expect("a number");
    let drops = stats["drops"].as_object().expect("reasons");
    let dropped: u64 = drops.values().map(count).sum();
    assert_eq!(count(&stats["rx_frames"]), count(&stats["acted_on"]) + dropped);
    for (counter, runs) in
        [("rx_write_requests", 4), ("rx_send_requests", 4), ("rx_read_requests", 4)]
    {
        assert_eq!(count(&stats["hw_counters"][counter]), runs * 40, "{counter}");
    }
    assert_eq!(count(&stats["hw_counters"]["rx_atomic_requests"]), 4 * 40);

    let mut reader = Reader::open(&capture).expect("a capture");
    let mut packets = 0;
    while let Some(packet) = reader.next_packet() {
        packet.expect("a whole packet");
        packets += 1;
    }
    let wire = &stats["port"];
    assert_eq!(packets, count(&wire["rx_frames"]) + count(&wire["tx_frames"]));
    for (way, wire, ours) in [
        ("rx", &wire["rx_frames"], &stats["rx_frames"]),
        ("tx", &stats["tx_frames"], &wire["tx_frames"]),
    ] {
        let faults = &stats["faults"][way];
        let [drop, duplicate, reorder] =
            ["drop", "duplicate", "reorder"].map(|fault| faults[fault].as_u64().unwrap_or(0));
        assert_eq!(count(wire) - drop + duplicate, count(ours), "{way}");
        let struck = drop.min(duplicate).min(reorder) > 0;
        assert_eq!(struck, fault.is_some(), "{way}: {faults}");
    }
    assert!(roce_pcap::check::check(Reader::open(&capture).expect("a capture")).is_clean());

    let index = dumped(Path::new(&memory));
    assert_eq!(index.len(), 16);
    for (line, size) in index.iter().zip([[1000; 8], [5001; 8]].concat()) {
        let data = std::fs::read(line["file"].as_str().expect("a name")).expect("a dump");
        assert_eq!(data.len(), 65_536);
        let service = line["service"].as_str().expect("a service");
        if service.starts_with("perftest:send_bw") {
            let size_bytes = usize::try_from(size).unwrap();
            assert!(data[..size_bytes] == message(39, size), "the last SEND");
            assert!(data[size_bytes..].iter().all(|byte| *byte == 0));
            assert_eq!(line["receives"][0][1], 65_536);
        }
        if service.starts_with("perftest:write_bw") && size == 5001 {
            assert!(data[..5001] == message(39, 5001), "the last WRITE");
        }
    }
}

#[test]
fn all_tests_over_af_packet() {
    all_tests("packet", None);
}

#[test]
fn all_tests_over_af_xdp() {
    all_tests("af-xdp", None);
}

#[test]
fn all_tests_under_faults() {
    all_tests("packet", Some("drop=0.02,duplicate=0.02,reorder=0.02,seed=5"));
}

/// Peers that speak something else, or go away, while an honest client is served.
#[test]
fn a_peer_that_speaks_nonsense_harms_nobody() {
    let Some(lab) = Lab::enter() else { return };
    let mut server = Server::start(&[
        "--port",
        "packet:near",
        "--service",
        "perftest:write_bw:18700",
        "--region-size",
        "4K",
    ]);
    let mut idle = Vec::new();
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"6.06", b"", &[0xff; 4096]] {
        let mut stream = TcpStream::connect(("127.0.0.1", 18700)).expect("a listener");
        let _ = stream.write_all(nonsense);
        idle.push(stream);
    }
    server.wait_for("not understood: it does not begin with a perftest version");
    lab.client(&Run::new(Test::WriteBw, 64), 18700);
    server.wait_for(": done, 40 iterations");
    // A request beyond the region: refused, told, and over.
    let refused = std::panic::catch_unwind(|| lab.client(&Run::new(Test::WriteBw, 4097), 18700));
    assert!(refused.is_err());
    server.wait_for("its request was refused (RemoteAccessError)");
    lab.client(&Run::new(Test::WriteBw, 4096), 18700);
    server.wait_for(": done, 40 iterations");
    let (output, _) = server.stop();
    assert_eq!(output, "", "no counters on standard output unless asked for");
}

/// As many clients as asked for, then the end by itself.
#[test]
fn once() {
    let Some(lab) = Lab::enter() else { return };
    let mut server =
        Server::start(&["--port", "packet:near", "--service", "perftest:send_bw:18701", "--once"]);
    lab.client(&Run::new(Test::SendBw, 64), 18701);
    server.wait_for("clients served: 1");
    let end = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = server.process.try_wait().expect("a status") {
            break status;
        }
        assert!(Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success());
}

/// Each refusal says what, where, and what to do.
#[test]
fn refusals() {
    let Some(_lab) = Lab::enter() else { return };
    let service = ["--service", "perftest:write_bw:18702"];
    let with = |arguments: &[&'static str]| [arguments, &service].concat();

    let said = refusal(&with(&["--port", "packet:nowhere"]));
    assert!(said.contains("nowhere: no such interface here; `ip link` lists them"), "{said}");
    let said = refusal(&with(&["--port", "packet:near", "--ip", "192.0.2.9"]));
    assert!(said.contains("near: 192.0.2.9 is not an address of this interface"), "{said}");
    assert!(said.contains("192.0.2.1"), "{said}");

    let mut command = command(&with(&["--port", "packet:near"]));
    std::os::unix::process::CommandExt::uid(&mut command, 65_534);
    let said = refusal_of(&mut command);
    assert!(said.contains("CAP_NET_RAW"), "{said}");

    let said = refusal(&with(&["--port", "packet:near", "--path-mtu", "4096"]));
    assert!(said.contains("near: path MTU 4096 takes an interface MTU of 4188 bytes"), "{said}");
    let said = refusal(&with(&["--port", "packet:near", "--path-mtu", "1000"]));
    assert!(said.contains("--path-mtu is 256, 512"), "{said}");
    ip("link set near mtu 300");
    let said = refusal(&with(&["--port", "packet:near"]));
    assert!(said.contains("does not carry even path MTU 256"), "{said}");
    ip("link set near mtu 1500");

    let taken = std::net::TcpListener::bind(("0.0.0.0", 18702)).expect("a free port");
    let said = refusal(&with(&["--port", "packet:near"]));
    assert!(said.contains("TCP 0.0.0.0:18702: something listens there already"), "{said}");
    drop(taken);

    let said = refusal(&["--port", "packet:near", "--service", "perftest:write_lat,size=20000000"]);
    assert!(said.contains("its size is above --region-size 16777216"), "{said}");

    let xdp = Server::start(&with(&["--port", "af-xdp:near"]));
    let said = refusal(&["--port", "af-xdp:near", "--service", "perftest:read_bw:18703"]);
    assert!(said.contains("near: an XDP program is attached already"), "{said}");
    drop(xdp);
}
