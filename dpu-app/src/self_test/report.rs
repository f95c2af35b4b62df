//! What was done.

use roce_codec::ib::{Opcode, PathMtu, Service};

use super::{Feature, Operation, Refusal, Repair};

/// A part that went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report {
    /// An operation at a path MTU.
    Operation {
        /// Which one.
        operation: Operation,
        /// RC, UC or UD.
        service: Service,
        /// The path MTU.
        path_mtu: PathMtu,
        /// Over IPv6, not IPv4.
        ipv6: bool,
        /// Bytes in each message, where they are all the same.
        each: Option<u32>,
        /// Messages.
        messages: u32,
        /// Bytes in them.
        bytes: u32,
        /// Packets, both ways.
        packets: u32,
        /// Instructions a packet, sent and received: the requester's and the responder's, wire
        /// aside. 0 where nothing counts them.
        instructions: [u32; 2],
    },
    /// A feature.
    Feature(Feature),
    /// A refusal.
    Refusal(Refusal),
    /// A repair.
    Repair(Repair),
    /// An opcode that was on the wire.
    Seen {
        /// Which one.
        opcode: Opcode,
        /// In how many packets.
        packets: u32,
    },
}

/// All that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Messages whose every byte was checked.
    pub messages: u32,
    /// Bytes in them.
    pub bytes: u64,
    /// Packets received, both ways.
    pub packets: u64,
    /// Packets lost on purpose.
    pub lost: u32,
    /// Requests refused.
    pub refusals: u32,
    /// Bytes of memory compared.
    pub compared: u64,
}
