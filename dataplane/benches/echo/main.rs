//! WRITE-sized frames in, ACK-sized frames out, over a veth pair: the AF_XDP port against the
//! barest AF_XDP loop there can be (in place, nothing checked) and against the AF_PACKET port.
//!
//! Needs root and `ip`; makes a network namespace for itself. One core echoes, another asks.
//!
//! ```text
//! cargo bench -p roce-dataplane --bench echo
//! ```

// A yardstick for time, not an example: as plain as C.
#[allow(clippy::cast_possible_truncation, clippy::multiple_unsafe_ops_per_block)]
mod bare;

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use roce_dataplane::port::af_xdp::{AfXdpConfig, AfXdpPort};
use roce_dataplane::port::packet::{PacketConfig, PacketPort};
use roce_dataplane::port::{BURST, Port, RxBurst};

/// A WRITE of 1 KiB with its headers, and an ACK.
const REQUEST: usize = 1098;
const ANSWER: usize = 62;
/// Requests under way, at most.
const WINDOW: usize = 256;
const ROUND: Duration = Duration::from_millis(400);
/// Odd, for the median.
const ROUNDS: usize = 9;
/// What is under way is lost if nothing comes for so long.
const LOST: Duration = Duration::from_millis(20);

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Echo {
    Port,
    Bare,
    Packet,
}

fn main() {
    // `cargo test --benches` runs this as well, and is not to wait for it.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    if !enter_namespace() {
        println!("passed over: making a network namespace needs root");
        return;
    }
    make_pair();
    let all = [Echo::Port, Echo::Bare, Echo::Packet];
    for (window, what) in [(WINDOW, "answers a second"), (1, "round trips a second")] {
        let mut rates = [[0.0; ROUNDS]; 3];
        for round in 0..ROUNDS {
            for (rates, echo) in rates.iter_mut().zip(all) {
                rates[round] = measure(echo, window);
            }
        }
        let [port, bare, packet] = rates.map(median);
        println!("window {window}, {what}: port {port:.0}, bare {bare:.0}, packet {packet:.0}");
        let ratio = |name: &str, peer: f64| {
            println!(
                "ratio {name}-window-{window} ours={port:.0} peer={peer:.0} x={:.2}",
                port / peer
            );
        };
        ratio("af-xdp-echo-to-bare", bare);
        ratio("af-xdp-echo-to-af-packet", packet);
    }
}

/// Moves the process, which has one thread yet, to a network namespace of its own.
fn enter_namespace() -> bool {
    // SAFETY: the call takes an integer.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

fn make_pair() {
    for arguments in [
        "link add ours address 02:00:00:00:00:01 type veth peer name peer address 02:00:00:00:00:02",
        "link set peer up",
        "link set ours up",
    ] {
        let status =
            Command::new("ip").args(arguments.split(' ')).status().expect("ip is installed");
        assert!(status.success(), "ip {arguments}");
    }
    // The kernel starts the queues some time after.
    std::thread::sleep(Duration::from_millis(500));
}

fn median(mut rates: [f64; ROUNDS]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[ROUNDS / 2]
}

/// Answers a second.
fn measure(who: Echo, window: usize) -> f64 {
    let stop = AtomicBool::new(false);
    let ready = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| {
            pin(0);
            match who {
                Echo::Port => {
                    let mut port = AfXdpPort::open(&AfXdpConfig::new("ours")).expect("opens");
                    ready.store(true, Ordering::Relaxed);
                    answer(&mut port, &stop);
                }
                Echo::Packet => {
                    let mut port = PacketPort::open(&PacketConfig::new("ours")).expect("opens");
                    ready.store(true, Ordering::Relaxed);
                    answer(&mut port, &stop);
                }
                Echo::Bare => {
                    let mut bare = bare::Bare::open("ours");
                    ready.store(true, Ordering::Relaxed);
                    while !stop.load(Ordering::Relaxed) {
                        bare.turn(ANSWER);
                    }
                }
            }
        });
        pin(1);
        let mut port = AfXdpPort::open(&AfXdpConfig::new("peer")).expect("opens");
        while !ready.load(Ordering::Relaxed) {
            assert!(!echo.is_finished(), "{who:?} does not start");
            std::thread::yield_now();
        }
        let rate = ask(&mut port, window);
        stop.store(true, Ordering::Relaxed);
        rate
    })
}

/// Keeps the calling thread on one processor, where there are as many.
fn pin(processor: usize) {
    // SAFETY: all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is live, the processor's number below its size.
    unsafe { libc::CPU_SET(processor, &mut set) };
    // SAFETY: the set is live and as long as said; 0 is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
}

/// Answers what comes until told to stop.
fn answer(port: &mut impl Port, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let mut burst = RxBurst::new();
        if port.rx_burst(&mut burst) == 0 {
            continue;
        }
        for token in burst {
            let mut answer = [0; ANSWER];
            let [request, _] = port.frame(&token);
            answer.copy_from_slice(&request[..ANSWER]);
            port.release(token);
            turn(&mut answer);
            if let Some(room) = port.tx_reserve(ANSWER) {
                room.copy_from_slice(&answer);
                port.tx_commit(ANSWER);
            }
        }
        port.tx_flush();
    }
}

/// Exchanges the MAC addresses.
fn turn(frame: &mut [u8]) {
    let (dst, src) = frame[..12].split_at_mut(6);
    dst.swap_with_slice(src);
}

/// Asks for a round with up to `window` requests under way; answers a second.
fn ask(port: &mut impl Port, window: usize) -> f64 {
    let request = request();
    let (mut under_way, mut answers) = (0_usize, 0_u32);
    let start = Instant::now();
    let mut heard = start;
    while start.elapsed() < ROUND {
        let mut sent = false;
        for _ in 0..BURST.min(window - under_way) {
            let Some(room) = port.tx_reserve(REQUEST) else { break };
            room.copy_from_slice(&request);
            port.tx_commit(REQUEST);
            under_way += 1;
            sent = true;
        }
        if sent {
            port.tx_flush();
        }
        let mut burst = RxBurst::new();
        if port.rx_burst(&mut burst) > 0 {
            heard = Instant::now();
        } else if heard.elapsed() > LOST {
            under_way = 0;
        }
        for token in burst {
            port.release(token);
            under_way = under_way.saturating_sub(1);
            answers += 1;
        }
    }
    f64::from(answers) / start.elapsed().as_secs_f64()
}

/// A frame that the steering program takes, and on its way back takes again.
fn request() -> Vec<u8> {
    let length = |from: usize| u16::try_from(REQUEST - from).expect("short").to_be_bytes();
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45, 0x00];
    frame.extend(length(14));
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1]);
    frame.extend([0xc0, 0x00, 0x12, 0xb7]);
    frame.extend(length(34));
    frame.resize(REQUEST, 0x5a);
    frame
}
