//! A capture in memory: its RoCEv2 packets from the IP header to the ICRC, and a count of the rest.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use roce_codec::cm::Mad;
use roce_codec::ib::{OpcodeClass, Operation, Qpn, Service};
use roce_codec::icrc::IcrcVerdict;
use roce_codec::{Frame, Start};

use crate::capture::{CaptureError, Packet, Reader};
use crate::dissect::{Dissected, dissect};

/// What of a capture is not replayed, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Skipped {
    /// A message of the connection manager: what it agrees is learned, the message is not sent.
    Cm,
    /// Another management datagram to queue pair 1.
    Mad,
    /// A congestion notification.
    Cnp,
    /// A multicast datagram.
    Multicast,
    /// Reliable datagram or XRC, which the responder has not.
    Service,
    /// RoCE v1 or native InfiniBand.
    Native,
    /// Sent to RoCEv2's port, but not a packet that can be read; an unknown opcode.
    Unreadable,
    /// Another protocol.
    Other,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cm => "CM",
            Self::Mad => "other MADs",
            Self::Cnp => "CNP",
            Self::Multicast => "multicast",
            Self::Service => "RD or XRC",
            Self::Native => "RoCE v1 or InfiniBand",
            Self::Unreadable => "unreadable",
            Self::Other => "other protocols",
        })
    }
}

/// What a packet's ICRC says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Icrc {
    /// Right, or not filled in yet where it was captured.
    Right,
    /// Wrong in a way that a known sender's mistake explains.
    Mistaken,
    /// Wrong: damaged on its way.
    Wrong,
}

/// A RoCEv2 packet of the capture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recorded {
    /// As Wireshark counts.
    pub(super) number: u64,
    /// Nanoseconds since the first packet, never backwards.
    pub(super) time_ns: u64,
    pub(super) icrc: Icrc,
    /// The capture has not all of it.
    pub(super) cut: bool,
    at: usize,
    len: usize,
}

/// The RoCEv2 packets of a capture, in memory: from the IP header to the ICRC, about as much as the
/// file is long.
#[derive(Debug, Default)]
pub struct Recording {
    bytes: Vec<u8>,
    packets: Vec<Recorded>,
    skipped: BTreeMap<Skipped, u64>,
    total: u64,
    started_ns: Option<u64>,
    error: Option<CaptureError>,
    limit: usize,
    full: bool,
}

/// Bytes that a recording holds at most, unless told otherwise.
pub const DEFAULT_LIMIT: usize = 1 << 30;

impl Recording {
    /// A recording that takes up to `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Reads a capture to its end, or until [`Recording::is_full`]. What is wrong with it,
    /// [`Recording::error`] says; what can be read is taken.
    #[must_use]
    pub fn read<R: Read>(mut reader: Reader<R>, limit: usize) -> Self {
        let mut recording = Self::new(limit);
        while let Some(packet) = reader.next_packet() {
            match packet {
                Ok(packet) => recording.push(&packet),
                Err(error) => recording.error = recording.error.or(Some(error)),
            }
            if recording.full {
                break;
            }
        }
        recording
    }

    /// The first thing that was wrong with the capture.
    #[must_use]
    pub fn error(&self) -> Option<&CaptureError> {
        self.error.as_ref()
    }

    /// Whether the capture is longer than what may be held: the rest is not replayed.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Packets read, of whatever protocol.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Packets that are not replayed, by reason.
    pub fn skipped(&self) -> impl Iterator<Item = (Skipped, u64)> {
        self.skipped.iter().map(|(why, count)| (*why, *count))
    }

    fn skip(&mut self, why: Skipped) {
        *self.skipped.entry(why).or_default() += 1;
    }

    /// Takes the next packet, unless it is full.
    pub fn push(&mut self, packet: &Packet<'_>) {
        if self.bytes.len().saturating_add(packet.data.len()) > self.limit {
            self.full = true;
        }
        if self.full {
            return;
        }
        self.total += 1;
        let frame = match dissect(packet) {
            Dissected::Roce(frame) => frame,
            Dissected::Native(_) => return self.skip(Skipped::Native),
            Dissected::Malformed(_) => return self.skip(Skipped::Unreadable),
            _ => return self.skip(Skipped::Other),
        };
        if let Some(why) = not_replayed(&frame) {
            self.skip(why);
            // What the connection manager agrees is learned.
            if why != Skipped::Cm {
                return;
            }
        }
        let started = *self.started_ns.get_or_insert(packet.timestamp_ns.unwrap_or(0));
        let last = self.packets.last().map_or(0, |last| last.time_ns);
        let time_ns = packet.timestamp_ns.map_or(last, |at| at.saturating_sub(started)).max(last);
        let icrc = match frame.verify_icrc() {
            IcrcVerdict::Valid | IcrcVerdict::NotCheckable(_) => Icrc::Right,
            IcrcVerdict::Invalid { .. } if frame.diagnose_icrc().is_some() => Icrc::Mistaken,
            IcrcVerdict::Invalid { .. } => Icrc::Wrong,
        };
        let cut = frame.missing() > 0;
        let at = self.bytes.len();
        let [head, tail] = frame.payload();
        for part in [frame.headers(), frame.ext_bytes(), head, tail] {
            self.bytes.extend_from_slice(part);
        }
        if !cut {
            self.bytes.extend_from_slice(&frame.pad());
            self.bytes.extend_from_slice(&frame.icrc());
        }
        let len = self.bytes.len() - at;
        let number = packet.number;
        self.packets.push(Recorded { number, time_ns, icrc, cut, at, len });
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn packet(&self, index: usize) -> Recorded {
        self.packets[index]
    }

    /// A packet's bytes from its IP header on.
    pub(super) fn bytes(&self, index: usize) -> &[u8] {
        let Recorded { at, len, .. } = self.packets[index];
        self.bytes.get(at..at + len).unwrap_or_default()
    }

    /// A packet taken apart.
    pub(super) fn frame(&self, index: usize) -> Frame<'_> {
        Frame::parse_captured([self.bytes(index), &[]], Start::Ip)
            .expect("what was a frame when it was recorded")
    }

    /// The time of the last packet.
    pub(super) fn end_ns(&self) -> u64 {
        self.packets.last().map_or(0, |last| last.time_ns)
    }
}

/// Why a packet is not replayed; `None` if it is.
fn not_replayed(frame: &Frame<'_>) -> Option<Skipped> {
    let info = frame.info();
    let dest_qp = frame.dest_qp();
    match info.service {
        _ if info.class != OpcodeClass::Known => Some(Skipped::Unreadable),
        _ if info.operation == Operation::Cnp => Some(Skipped::Cnp),
        Service::Ud if dest_qp == Qpn::GSI => Some(match Mad::from_frame(frame) {
            Some(mad) if mad.is_cm() => Skipped::Cm,
            _ => Skipped::Mad,
        }),
        Service::Ud if dest_qp == Qpn::MULTICAST => Some(Skipped::Multicast),
        Service::Rc | Service::Uc | Service::Ud => None,
        _ => Some(Skipped::Service),
    }
}
