//! The ICRC of a whole packet, headers masked, against patching a scratch header and feeding
//! crc32fast or crc-fast; and copying a payload into a packet with its ICRC in one pass, against
//! memcpy and then the same. The memcpy alone stands beside, as the limit: nothing that copies is
//! cheaper.
//!
//! Payload sizes of 64 B to 9 KiB, buffers in the first-level cache, the packet at the offset that
//! an Ethernet header leaves it.

use std::hint::black_box;

use roce_codec::icrc::{ICRC_LEN, IPV4_HEADERS, Icrc};
use roce_codec::{Crc, Frame, Start};

use crate::compare::{alone, compare};
use crate::packets::{self, ETHERNET, emit};

const RETH: usize = 16;

pub(crate) fn run() {
    for payload in [64, 256, 1024, 4096, 9216] {
        let packet = write_only(payload);
        verify(payload, &packet);
        copy(payload, &packet);
        diagnose(payload, &packet);
    }
}

/// A damaged packet, which no mistake explains: every hypothesis is tried.
fn diagnose(payload: usize, packet: &[u8]) {
    let mut damaged = packet.to_vec();
    damaged[ETHERNET + IPV4_HEADERS + RETH] ^= 1;
    let frame = Frame::parse([&damaged, &[]], Start::Ethernet).unwrap();
    assert_eq!(frame.diagnose_icrc(), None);
    alone(&format!("cost icrc-diagnose/{payload}"), || black_box(&frame).diagnose_icrc());
}

/// What a receiver does: the frame is parsed already, the ICRC its contents call for.
fn verify(payload: usize, packet: &[u8]) {
    let frame = Frame::parse([packet, &[]], Start::Ethernet).unwrap();
    let covered = &packet[ETHERNET..packet.len() - ICRC_LEN];
    assert_eq!(frame.computed_icrc::<Crc>().unwrap(), frame.icrc());
    for (name, peer) in PEERS {
        compare(
            &format!("icrc/{payload}/{name}"),
            || u32::from_le_bytes(black_box(&frame).computed_icrc::<Crc>().unwrap()),
            || peer(&masked(black_box(covered)), &black_box(covered)[IPV4_HEADERS..]),
        );
    }
}

/// What a sender does: headers are in place, the payload goes behind them, then the ICRC.
fn copy(payload: usize, packet: &[u8]) {
    let at = ETHERNET + IPV4_HEADERS + RETH;
    let source = packet[at..at + payload].to_vec();
    let mut out = packet.to_vec();
    let mut peer_out = packet.to_vec();
    for (name, peer) in PEERS {
        compare(
            &format!("icrc-copy/{payload}/{name}"),
            || {
                let (headers, room) = black_box(&mut out[..]).split_at_mut(at);
                let (headers, ext) = headers[ETHERNET..].split_first_chunk().unwrap();
                let mut icrc: Icrc = Icrc::ipv4(headers);
                icrc.update(ext);
                icrc.copy_update(&mut room[..payload], black_box(&source));
                u32::from_le_bytes(icrc.finish())
            },
            || {
                let packet = black_box(&mut peer_out[..]);
                packet[at..at + payload].copy_from_slice(black_box(&source));
                let covered = &packet[ETHERNET..at + payload];
                peer(&masked(covered), &covered[IPV4_HEADERS..])
            },
        );
    }
    alone(&format!("limit icrc-copy/{payload} memcpy"), || {
        let room = &mut black_box(&mut out[..])[at..at + payload];
        room.copy_from_slice(black_box(&source));
        room[0]
    });
}

/// The scratch header: eight bytes of ones, then IPv4, UDP and BTH with the variant fields as
/// ones.
fn masked(covered: &[u8]) -> [u8; 8 + IPV4_HEADERS] {
    let mut scratch = [0xff; 8 + IPV4_HEADERS];
    scratch[8..].copy_from_slice(&covered[..IPV4_HEADERS]);
    for at in [1, 8, 10, 11, 26, 27, 32] {
        scratch[8 + at] = 0xff;
    }
    scratch
}

/// Others' CRC-32 of a scratch header and what follows it.
type Peer = fn(&[u8], &[u8]) -> u32;

const PEERS: [(&str, Peer); 2] = [("crc32fast", crc32fast), ("crc-fast", crc_fast)];

fn crc32fast(scratch: &[u8], rest: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(scratch);
    hasher.update(rest);
    hasher.finalize()
}

fn crc_fast(scratch: &[u8], rest: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32IsoHdlc);
    digest.update(scratch);
    digest.update(rest);
    u32::try_from(digest.finalize()).unwrap()
}

fn write_only(payload_len: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..payload_len).map(|at| (at * 7 % 251).to_le_bytes()[0]).collect();
    emit(packets::write_only(0x11, 7, payload_len), &payload)
}
