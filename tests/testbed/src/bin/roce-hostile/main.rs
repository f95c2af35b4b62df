//! A hostile client, and an honest one beside it, at a `roce-responder serve` over a real wire.
//!
//! ```text
//! roce-hostile --interface IF --server ADDR --client ADDR --hostile ADDR
//!              [--ports WRITE,READ,SEND,ATOMIC] [--frames N] [--seed N] [--region BYTES]
//!              [--prey PORT,…] [--dump DIR]
//! ```
//!
//! Both clients connect as perftest does. The hostile one sends `--frames` bent frames, most of
//! them with their ICRC repaired, and connects again whenever it is thrown out. The honest one
//! writes, reads, sends and adds all the while; each of its requests must succeed, READs must
//! return what is there, and the counter must count by one. With `--dump`, the directory that the
//! responder was given as `--dump-memory`, the memory it leaves must be what the honest client
//! wrote. Ends with status 0 and a line of figures, or 1 and what was wrong.

mod aimed;
mod client;
mod honest;
mod intruder;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use roce_codec::net::MacAddr;
use roce_codec::{Frame, Start};
use roce_dataplane::neighbour::Neighbours;
use roce_dataplane::port::packet::{PacketConfig, PacketPort};
use roce_dataplane::port::{Port, RxBurst};
use roce_engine::HeapStorage;

use crate::honest::Honest;
use crate::intruder::Intruder;

/// The longest that anything may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Hostile frames in one burst, and the least time between two.
const BURST: u64 = 16;
const PAUSE: Duration = Duration::from_micros(300);

/// What the command line says.
#[derive(Debug, Clone)]
struct Options {
    interface: String,
    server: Ipv4Addr,
    client: Ipv4Addr,
    hostile: Ipv4Addr,
    ports: [u16; 4],
    /// Services that only the hostile client uses: those that send, such as send_lat.
    prey: Vec<u16>,
    frames: u64,
    seed: u64,
    region: usize,
    dump: Option<PathBuf>,
}

impl Options {
    fn parse() -> Result<Self, String> {
        let mut values = HashMap::new();
        let mut words = std::env::args().skip(1);
        while let Some(name) = words.next() {
            let value = words.next().ok_or(format!("{name} wants a value"))?;
            values.insert(name, value);
        }
        let mut take = |name: &str| values.remove(name);
        let need = |name: &str, value: Option<String>| value.ok_or(format!("{name} is missing"));
        let number = |name: &str, value: Option<String>, default: u64| match value {
            Some(value) => value.parse().map_err(|_| format!("{name} is a number, not {value:?}")),
            None => Ok(default),
        };
        let address = |name: &str, value: Option<String>| {
            let value = need(name, value)?;
            value.parse().map_err(|_| format!("{name} is an IPv4 address, not {value:?}"))
        };
        let ports = take("--ports").unwrap_or("18515,18516,18517,18518".to_owned());
        let list = |ports: &str| -> Vec<u16> {
            ports.split(',').filter_map(|port| port.parse().ok()).collect()
        };
        let options = Self {
            interface: need("--interface", take("--interface"))?,
            server: address("--server", take("--server"))?,
            client: address("--client", take("--client"))?,
            hostile: address("--hostile", take("--hostile"))?,
            ports: list(&ports).try_into().map_err(|_| "--ports are four")?,
            prey: list(&take("--prey").unwrap_or_default()),
            frames: number("--frames", take("--frames"), 100_000)?,
            seed: number("--seed", take("--seed"), 1)?,
            region: usize::try_from(number("--region", take("--region"), 65536)?)
                .map_err(|error| error.to_string())?,
            dump: take("--dump").map(PathBuf::from),
        };
        match values.into_keys().next() {
            Some(name) => Err(format!("{name} is not known")),
            None => Ok(options),
        }
    }
}

fn main() -> ExitCode {
    match Options::parse().and_then(|options| run(&options)) {
        Ok(figures) => {
            println!("{figures}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("roce-hostile: {what}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<String, String> {
    let mut port =
        PacketPort::open(&PacketConfig::new(&options.interface)).map_err(|e| e.to_string())?;
    let macs = [port.mac(), find_server(options)?];
    let mut storage = HeapStorage::new(&honest::LIMITS);
    let mut honest = Honest::new(&mut storage, options, macs)?;
    let mut intruder = Intruder::new(options, macs)?;
    let start = Instant::now();
    let mut next_burst = start;
    let mut last = (start, 0);
    while intruder.sent < options.frames || !honest.is_resting() {
        receive(&mut port, &mut honest, &mut intruder);
        let resting = intruder.sent >= options.frames;
        honest.advance(&mut port, !resting)?;
        if !resting && Instant::now() >= next_burst {
            for _ in 0..BURST {
                for frame in intruder.frames()? {
                    send(&mut port, &frame);
                }
            }
            next_burst = Instant::now() + PAUSE;
        }
        port.tx_flush();
        if honest.rounds() > last.1 {
            last = (Instant::now(), honest.rounds());
        } else if last.0.elapsed() > PATIENCE {
            return Err(format!("the honest client is not served: {}", honest.describe()));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let rounds = honest.rounds();
    let reconnects = intruder.connections;
    honest.check_dump(options)?;
    let naks: Vec<_> = intruder
        .naks
        .iter()
        .map(|(syndrome, count)| format!("\"{syndrome:#04x}\":{count}"))
        .collect();
    Ok(format!(
        "{{\"hostile_frames\":{},\"hostile_connections\":{reconnects},\"naks\":{{{}}},\
         \"honest_requests\":{rounds},\"seconds\":{seconds:.1}}}",
        intruder.sent,
        naks.join(",")
    ))
}

/// The MAC address that frames for the server go to.
fn find_server(options: &Options) -> Result<MacAddr, String> {
    let mut neighbours = Neighbours::open(&options.interface, 1).map_err(|e| e.to_string())?;
    let hop = neighbours
        .resolve(options.server.into(), Some(options.client.into()))
        .map_err(|e| e.to_string())?;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(mac) = neighbours.get(hop) {
            return Ok(mac);
        }
        std::thread::sleep(Duration::from_millis(5));
        neighbours.poll();
    }
    Err(format!("{} has no MAC address", options.server))
}

fn receive(port: &mut PacketPort, honest: &mut Honest<'_>, intruder: &mut Intruder) {
    let mut tokens = RxBurst::new();
    port.rx_burst(&mut tokens);
    for token in &tokens {
        let segments = port.frame(token);
        let Ok(frame) = Frame::parse(segments, Start::Ethernet) else { continue };
        if honest.owns(frame.dest_qp()) {
            honest.receive(segments);
        } else {
            intruder.receive(&frame);
        }
    }
    for token in tokens {
        port.release(token);
    }
}

/// Sends a frame; one that finds the wire full is lost, as frames are.
fn send(port: &mut impl Port, frame: &[u8]) {
    if let Some(room) = port.tx_reserve(frame.len()) {
        room.copy_from_slice(frame);
        port.tx_commit(frame.len());
    }
}
