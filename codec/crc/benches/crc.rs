//! Our kernels against crc32fast and crc-fast, plain, fused with the copy, and masked.
//!
//! `cargo bench -p roce-crc`. Each line is `ratio NAME ours=<ns> peer=<ns> x=<ratio>`, above 1 where ours is
//! better: medians over interleaved rounds in one process, buffers in the first-level cache.

#[path = "../tests/noise/mod.rs"]
mod noise;

use std::hint::black_box;
use std::time::Instant;

use noise::noise;
use roce_crc::{Crc, Crc32, Kernel};

/// Rounds of each side, ours and the peer's in turn.
const ROUNDS: usize = 41;
/// How long a round is to last.
const ROUND_NS: f64 = 1e6;
const PAGE: usize = 1 << 14;
/// Header bytes of a RoCEv2 packet over IPv4 before the payload, in one scratch to be patched: IPv4, UDP, BTH.
const HEADERS: usize = 20 + 8 + 12;

fn main() {
    // What `cargo test --benches` passes: then only that it runs matters.
    let rounds = if std::env::args().any(|arg| arg == "--test") { 1 } else { ROUNDS };
    println!("kernel {}", Kernel::best().name());
    // As they are in use: data at a page, copied to a frame behind headroom and headers, where nothing is aligned.
    let mut memory = [noise(3 * PAGE), noise(3 * PAGE), noise(3 * PAGE)];
    let [src, dst, peer_dst] = memory.each_mut().map(|memory| &mut memory[..]);
    let start = src.as_ptr().align_offset(PAGE);
    let src = &src[start..];
    let frame = dst.as_ptr().align_offset(PAGE) + 256 + 14 + HEADERS;
    let peer_frame = peer_dst.as_ptr().align_offset(PAGE) + 256 + 14 + HEADERS;

    for len in [40, 64, 128, 256, 1024, 4096, 9216] {
        let src = &src[..len];
        let dst = &mut dst[frame..frame + len];
        let peer_dst = &mut peer_dst[peer_frame..peer_frame + len];
        for (peer_name, peer) in PEERS {
            compare(
                &format!("crc32/{len}/{peer_name}"),
                rounds,
                || crc(src),
                || peer(black_box(src)),
            );
            compare(
                &format!("crc32-copy/{len}/{peer_name}"),
                rounds,
                || {
                    let mut crc = Crc::new();
                    crc.copy_update(black_box(&mut *dst), black_box(src));
                    crc.finish()
                },
                || {
                    let dst = black_box(&mut *peer_dst);
                    dst.copy_from_slice(black_box(src));
                    peer(dst)
                },
            );
        }
    }
    for payload in [64, 256, 1024, 4096] {
        let packet = &src[..HEADERS + payload];
        compare(
            &format!("crc32-masked/{HEADERS}+{payload}"),
            rounds,
            || {
                let mut crc = Crc::after_ones8();
                crc.update_masked(black_box(packet), black_box(&MASK));
                crc.finish()
            },
            || {
                let packet = black_box(packet);
                let mut scratch = [0xff; 8 + HEADERS];
                scratch[8..].copy_from_slice(&packet[..HEADERS]);
                for at in VARIANT {
                    scratch[8 + at] = 0xff;
                }
                let mut hasher = crc32fast::Hasher::new();
                hasher.update(&scratch);
                hasher.update(&packet[HEADERS..]);
                hasher.finalize()
            },
        );
    }
}

/// The bytes that an ICRC takes for all ones: TOS, TTL, the IPv4 checksum, the UDP checksum, BTH's FECN and BECN.
const VARIANT: [usize; 7] = [1, 8, 10, 11, 26, 27, 32];

const MASK: [u8; 64] = {
    let mut mask = [0; 64];
    let mut i = 0;
    while i < VARIANT.len() {
        mask[VARIANT[i]] = 0xff;
        i += 1;
    }
    mask
};

/// Others' CRC-32 of a buffer.
type Peer = fn(&[u8]) -> u32;

const PEERS: [(&str, Peer); 2] =
    [("crc32fast", crc32fast::hash), ("crc-fast", crc_fast::crc32_iso_hdlc)];

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(black_box(bytes));
    crc.finish()
}

/// Times both in turn, requires that they agree, and prints the line.
fn compare(
    name: &str,
    rounds: usize,
    mut ours: impl FnMut() -> u32,
    mut peer: impl FnMut() -> u32,
) {
    assert_eq!(ours(), peer(), "{name}");
    let calls = calls_a_round(&mut peer);
    let mut times = [vec![], vec![]];
    for _ in 0..rounds {
        times[0].push(time(calls, &mut ours));
        times[1].push(time(calls, &mut peer));
    }
    let [ours, peer] = times.map(median);
    println!("ratio {name} ours={ours:.1} peer={peer:.1} x={:.2}", peer / ours);
}

fn calls_a_round(call: &mut impl FnMut() -> u32) -> u32 {
    let mut calls = 64;
    while time(calls, call) * f64::from(calls) < ROUND_NS {
        calls *= 2;
    }
    calls
}

/// Nanoseconds a call.
fn time(calls: u32, call: &mut impl FnMut() -> u32) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call());
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
