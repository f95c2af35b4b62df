//! Copies of one packet that several mirrors of its way have made.

use std::collections::VecDeque;

use roce_codec::net::Ip;
use roce_codec::{Frame, FrameBuilder};

/// Finds packets that differ from an earlier one in nothing but what a way changes: MACs, VLAN
/// tags, DSCP and ECN, time to live, checksums, and BTH byte 4.
#[derive(Debug)]
pub struct Dedupe {
    window_ns: u64,
    recent: VecDeque<Seen>,
}

/// A packet without what a way changes.
#[derive(Debug)]
struct Seen {
    time_ns: u64,
    headers: FrameBuilder,
    icrc: [u8; 4],
    payload: Vec<u8>,
}

impl Dedupe {
    /// Packets that are compared with, the last ones.
    pub const WINDOW: usize = 64;

    /// Copies come within `window_ns` of each other. A requester that goes back sends the same
    /// packet again, too: the window should be shorter than a round trip.
    #[must_use]
    pub fn new(window_ns: u64) -> Self {
        Self { window_ns, recent: VecDeque::with_capacity(Self::WINDOW) }
    }

    /// Whether the packet is a copy of one that came before.
    pub fn is_copy(&mut self, time_ns: u64, frame: &Frame<'_>) -> bool {
        let (headers, icrc, pieces) = (normal(frame), frame.icrc(), frame.payload());
        while self.recent.front().is_some_and(|seen| {
            self.recent.len() >= Self::WINDOW || seen.time_ns + self.window_ns < time_ns
        }) {
            self.recent.pop_front();
        }
        let copy = self.recent.iter().any(|seen| {
            let [first, second] = pieces;
            seen.icrc == icrc
                && seen.headers == headers
                && seen.payload.strip_prefix(first) == Some(second)
        });
        if !copy {
            self.recent.push_back(Seen { time_ns, headers, icrc, payload: pieces.concat() });
        }
        copy
    }
}

fn normal(frame: &Frame<'_>) -> FrameBuilder {
    let mut headers = frame.to_builder();
    headers.ethernet = None;
    headers.udp.checksum = 0;
    headers.bth.fecn = false;
    headers.bth.becn = false;
    headers.bth.resv6 = 0;
    match &mut headers.ip {
        Ip::V4(ip) => {
            ip.dscp_ecn = 0;
            ip.ttl = 0;
            ip.checksum = 0;
        }
        Ip::V6(ip) => {
            ip.traffic_class = 0;
            ip.flow_label = 0;
            ip.hop_limit = 0;
        }
    }
    headers
}
