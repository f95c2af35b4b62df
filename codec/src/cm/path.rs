//! A path between two ports, as REQ and LAP carry it.
//!
//! ```text
//!  byte  REQ                                 LAP
//!   0    local LID                           local LID
//!   2    remote LID                          remote LID
//!   4    local GID                           local GID
//!  20    remote GID                          remote GID
//!  36    flow label 20, Resv4                flow label 20, Resv4
//!  39    Resv2, packet rate 6                traffic class
//!  40    traffic class                       hop limit
//!  41    hop limit                           Resv2, packet rate 6
//!  42    SL 4, subnet local 1, Resv3         SL 4, subnet local 1, Resv3
//!  43    local ACK timeout 5, Resv3          local ACK timeout 5, Resv3
//! ```
//!
//! 44 bytes. IBTA Vol. 1, 12.6.5 and 12.8.1. The two order the same fields differently.

use zerocopy::byteorder::{BE, U16};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Gid, Timeout};
use crate::wire::{to_u24, u24};

/// The fields that lie at the same place in both, and the four that do not.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct PathWire {
    local_lid: U16<BE>,
    remote_lid: U16<BE>,
    local_gid: [u8; 16],
    remote_gid: [u8; 16],
    label_resv: [u8; 3],
    /// REQ: rate, traffic class, hop limit. LAP: traffic class, hop limit, rate.
    three: [u8; 3],
    sl_local: u8,
    timeout: u8,
}

/// In which order the packet rate, the traffic class and the hop limit come.
#[derive(Clone, Copy)]
pub(super) enum Order {
    Req,
    Lap,
}

/// A path between two ports, every bit of it, seen from the sender of the message. On RoCE the
/// LIDs are unused: Linux sets them to 0xFFFF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Path {
    /// LID of the sender's port.
    pub local_lid: u16,
    /// LID of the receiver's port.
    pub remote_lid: u16,
    /// GID of the sender's port.
    pub local_gid: Gid,
    /// GID of the receiver's port.
    pub remote_gid: Gid,
    /// Flow label, 20 bits. Linux folds it into the UDP source port
    /// ([`source_port_from_flow_label`](crate::net::source_port_from_flow_label)).
    pub flow_label: u32,
    /// Packet rate, 6 bits: the code of a PathRecord's Rate.
    pub packet_rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level, 4 bits.
    pub sl: u8,
    /// Both ports are in one subnet.
    pub subnet_local: bool,
    /// How long the sender of a request waits for its acknowledgement, twice the packet's life
    /// time and the target's delay.
    pub local_ack_timeout: Timeout,
    /// Reserved, 6 bits: the 4 behind the flow label, then the 2 before the packet rate.
    pub resv6: u8,
    /// Reserved, the 3 bits behind the service level's byte.
    pub resv3_sl: u8,
    /// Reserved, the 3 bits behind the timeout. In a REQ's alternate path the uppermost of them is
    /// [`Req::sap_supported`](super::Req::sap_supported) and not here.
    pub resv3_timeout: u8,
}

impl Path {
    /// No path: all zero, as where there is no alternate path.
    pub const NONE: Self = Self {
        local_lid: 0,
        remote_lid: 0,
        local_gid: Gid::ZERO,
        remote_gid: Gid::ZERO,
        flow_label: 0,
        packet_rate: 0,
        traffic_class: 0,
        hop_limit: 0,
        sl: 0,
        subnet_local: false,
        local_ack_timeout: Timeout::new(0),
        resv6: 0,
        resv3_sl: 0,
        resv3_timeout: 0,
    };

    /// Whether there is a path at all.
    #[must_use]
    pub fn is_present(&self) -> bool {
        *self != Self::NONE
    }
}

impl PathWire {
    pub(super) fn value(&self, order: Order) -> Path {
        let (rate, traffic_class, hop_limit) = match (order, self.three) {
            (Order::Req, [rate, class, hops]) | (Order::Lap, [class, hops, rate]) => {
                (rate, class, hops)
            }
        };
        let [.., label_end] = self.label_resv;
        Path {
            local_lid: self.local_lid.get(),
            remote_lid: self.remote_lid.get(),
            local_gid: Gid(self.local_gid),
            remote_gid: Gid(self.remote_gid),
            flow_label: u24(self.label_resv) >> 4,
            packet_rate: rate & 0x3f,
            traffic_class,
            hop_limit,
            sl: self.sl_local >> 4,
            subnet_local: self.sl_local & 0x08 != 0,
            local_ack_timeout: Timeout::new(self.timeout >> 3),
            resv6: (label_end & 0x0f) << 2 | rate >> 6,
            resv3_sl: self.sl_local & 0x07,
            resv3_timeout: self.timeout & 0x07,
        }
    }

    pub(super) fn set(&mut self, path: &Path, order: Order) {
        self.local_lid.set(path.local_lid);
        self.remote_lid.set(path.remote_lid);
        self.local_gid = path.local_gid.0;
        self.remote_gid = path.remote_gid.0;
        let resv4 = u32::from(path.resv6 >> 2 & 0x0f);
        self.label_resv = to_u24(path.flow_label << 4 | resv4);
        let rate = path.resv6 << 6 | path.packet_rate & 0x3f;
        self.three = match order {
            Order::Req => [rate, path.traffic_class, path.hop_limit],
            Order::Lap => [path.traffic_class, path.hop_limit, rate],
        };
        self.sl_local = path.sl << 4 | u8::from(path.subnet_local) << 3 | path.resv3_sl & 0x07;
        self.timeout = path.local_ack_timeout.code() << 3 | path.resv3_timeout & 0x07;
    }
}
