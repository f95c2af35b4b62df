//! Flows and connections, each by a number that is the same in every export.

use std::net::IpAddr;

use super::column::{I64, Maybe, Shown, Time, U32, signed};
use super::table::columns;
use crate::capture::Packet;
use crate::export::column::Label;
use crate::flow::Entry;
use crate::observed::{FlowKey, Host};

/// What is written of a flow, and which it is paired with.
#[derive(Debug)]
pub(super) struct Flow {
    key: FlowKey,
    /// Its number.
    pub(super) id: i64,
    /// The flow in the other direction, as far as it is known now.
    pub(super) peer: Option<FlowKey>,
    /// Its connection, as far as it is known now.
    pub(super) connection: Option<i64>,
    /// The last connection that was known.
    last_connection: Option<i64>,
    /// Where the batch being filled keeps its connection, and which batch that is.
    pub(super) in_batch: Option<(u64, usize)>,
    packets: u64,
    wire_bytes: u64,
    first_packet: u64,
    last_packet: u64,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
}

impl Entry for Flow {
    fn new(key: FlowKey) -> Self {
        Self {
            key,
            id: flow_id(&key),
            peer: None,
            connection: None,
            last_connection: None,
            in_batch: None,
            packets: 0,
            wire_bytes: 0,
            first_packet: 0,
            last_packet: 0,
            first_ns: None,
            last_ns: None,
        }
    }

    #[inline]
    fn key(&self) -> &FlowKey {
        &self.key
    }
}

impl Flow {
    /// Counts a packet of it.
    #[inline]
    pub(super) fn count(&mut self, packet: &Packet<'_>) {
        if self.packets == 0 {
            self.first_packet = packet.number;
            self.first_ns = packet.timestamp_ns;
        }
        self.packets += 1;
        self.wire_bytes += u64::from(packet.orig_len);
        self.last_packet = packet.number;
        self.last_ns = packet.timestamp_ns.or(self.last_ns);
    }

    /// The flow in the other direction is this one, or not known any more.
    pub(super) fn pair(&mut self, peer: Option<FlowKey>) {
        self.peer = peer;
        self.connection = peer.map(|peer| connection_id(self.id, flow_id(&peer)));
        self.last_connection = self.connection.or(self.last_connection);
    }
}

/// A flow's number: FNV-1a over its key, in 63 bits, so that every engine has it as a number.
pub(super) fn flow_id(key: &FlowKey) -> i64 {
    let mut hash = Hash::new();
    for host in [key.src, key.dst] {
        match host {
            Host::Ip(IpAddr::V4(addr)) => hash.eat(4).eat_all(&addr.octets()),
            Host::Ip(IpAddr::V6(addr)) => hash.eat(6).eat_all(&addr.octets()),
            Host::Lid(lid) => hash.eat(1).eat_all(&lid.to_be_bytes()),
        };
    }
    hash.eat_all(&key.dest_qp.get().to_be_bytes()).number()
}

/// The number of the connection that two flows are, whichever comes first.
fn connection_id(one: i64, other: i64) -> i64 {
    let [low, high] = [one.min(other), one.max(other)];
    let mut hash = Hash::new();
    hash.eat_all(&low.to_be_bytes()).eat_all(&high.to_be_bytes()).number()
}

struct Hash(u64);

impl Hash {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    #[inline]
    const fn eat(&mut self, byte: u8) -> &mut Self {
        // A byte in the low bits of a word.
        self.0 = (self.0 ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3);
        self
    }

    #[inline]
    fn eat_all(&mut self, bytes: &[u8]) -> &mut Self {
        for byte in bytes {
            self.eat(*byte);
        }
        self
    }

    fn number(&self) -> i64 {
        (self.0 >> 1).cast_signed()
    }
}

/// A flow of a capture.
pub(super) struct FlowRow<'a> {
    pub(super) file: &'a str,
    pub(super) flow: &'a Flow,
}

columns! {
    /// The flows.
    Flows |row: &FlowRow<'_>|
    file: Label = row.file, "The capture";
    flow_id: I64 = row.flow.id, "The flow, the same number in every export";
    connection_id: Maybe<I64> = row.flow.last_connection, "Its connection: this flow and the one in the other direction; of several the last";
    peer_flow_id: Maybe<I64> = row.flow.peer.as_ref().map(flow_id), "The flow in the other direction";
    src: Shown<Host> = row.flow.key.src, "Who sends: an IP address, a GID or a LID";
    dst: Shown<Host> = row.flow.key.dst, "Who receives";
    dest_qp: U32 = row.flow.key.dest_qp.get(), "Destination queue pair";
    packets: I64 = signed(row.flow.packets), "Packets";
    wire_bytes: I64 = signed(row.flow.wire_bytes), "Their bytes on the wire";
    first_packet: I64 = signed(row.flow.first_packet), "The first packet's number";
    last_packet: I64 = signed(row.flow.last_packet), "The last one's";
    first_time: Maybe<Time> = row.flow.first_ns, "The first packet's time";
    last_time: Maybe<Time> = row.flow.last_ns, "The last one's";
}

#[cfg(test)]
mod tests {
    use roce_codec::ib::Qpn;

    use super::*;

    /// Numbers that are written down must not change.
    #[test]
    fn a_flows_number_is_the_same_for_ever() {
        let key = |src: [u8; 4], dst: [u8; 4], qp| FlowKey {
            src: IpAddr::from(src).into(),
            dst: IpAddr::from(dst).into(),
            dest_qp: Qpn::new(qp),
        };
        let there = flow_id(&key([10, 77, 1, 3], [10, 77, 1, 2], 0x11));
        let back = flow_id(&key([10, 77, 1, 2], [10, 77, 1, 3], 0x12));
        assert_ne!(there, back);
        assert!(there >= 0 && back >= 0);
        assert_eq!(connection_id(there, back), connection_id(back, there));
        // The published test vector of 64-bit FNV-1a for "foobar", halved.
        let mut hash = Hash::new();
        assert_eq!(
            hash.eat_all(b"foobar").number(),
            (0x8594_4171_f739_67e8_u64 >> 1).cast_signed()
        );
    }
}
