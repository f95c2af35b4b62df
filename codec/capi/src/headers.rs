//! Header values as C structures: plain integers, any of which may be anything.

use zerocopy::FromBytes;

/// Bit of RDETH in a set of headers.
pub const ROCE_HEADER_RDETH: u16 = 0x0001;
/// Bit of DETH.
pub const ROCE_HEADER_DETH: u16 = 0x0002;
/// Bit of XRCETH.
pub const ROCE_HEADER_XRCETH: u16 = 0x0004;
/// Bit of FETH.
pub const ROCE_HEADER_FETH: u16 = 0x0008;
/// Bit of RETH.
pub const ROCE_HEADER_RETH: u16 = 0x0010;
/// Bit of AtomicETH.
pub const ROCE_HEADER_ATOMIC_ETH: u16 = 0x0020;
/// Bit of AETH.
pub const ROCE_HEADER_AETH: u16 = 0x0040;
/// Bit of AtomicAckETH.
pub const ROCE_HEADER_ATOMIC_ACK_ETH: u16 = 0x0080;
/// Bit of immediate data.
pub const ROCE_HEADER_IMM_DT: u16 = 0x0100;
/// Bit of IETH.
pub const ROCE_HEADER_IETH: u16 = 0x0200;
/// Bit of a CNP's 16 reserved bytes.
pub const ROCE_HEADER_CNP_RESERVED: u16 = 0x0400;

/// A VLAN tag.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_vlan {
    /// The EtherType that announces it: 0x8100, 0x88a8 or 0x9100.
    pub tpid: u16,
    /// Priority (3 bits), drop eligible (1 bit), VLAN identifier (12 bits).
    pub tci: u16,
}

/// An Ethernet header.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_ethernet {
    /// 0 if the packet starts with IP, 1 if it has an Ethernet header.
    pub present: u8,
    /// VLAN tags, 0 to 3.
    pub vlan_count: u8,
    /// Destination MAC.
    pub dst: [u8; 6],
    /// Source MAC.
    pub src: [u8; 6],
    /// What follows the last tag.
    pub ethertype: u16,
    /// The tags, outermost first.
    pub vlans: [roce_vlan; 3],
}

/// An IPv4 or IPv6 header.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_ip {
    /// 4 or 6.
    pub version: u8,
    /// DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// Hop limit, time to live.
    pub hop_limit: u8,
    /// What follows; 17 is UDP.
    pub protocol: u8,
    /// IPv4: bytes of the packet; IPv6: bytes behind this header.
    pub length: u16,
    /// IPv4: identification.
    pub identification: u16,
    /// IPv4: three flag bits (0x4000 is don't fragment) and the fragment offset.
    pub flags_fragment: u16,
    /// IPv4: header checksum.
    pub checksum: u16,
    /// IPv6: flow label, 20 bits.
    pub flow_label: u32,
    /// Source address, in wire order; the first four bytes on IPv4.
    pub src: [u8; 16],
    /// Destination address, likewise.
    pub dst: [u8; 16],
}

/// A UDP header.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_udp {
    /// Source port; senders use 0xC000 to 0xFFFF.
    pub src_port: u16,
    /// Destination port, 4791.
    pub dst_port: u16,
    /// Bytes of the datagram, this header included.
    pub length: u16,
    /// Checksum; RoCEv2 senders write 0.
    pub checksum: u16,
}

/// A base transport header. A flag is 0 or 1; when written, any other value counts as 1.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_bth {
    /// Operation code.
    pub opcode: u8,
    /// Solicited event.
    pub solicited: u8,
    /// Migration state.
    pub mig_req: u8,
    /// Pad bytes between payload and ICRC, 0 to 3.
    pub pad_count: u8,
    /// Transport header version, 4 bits; 0 is the only one.
    pub version: u8,
    /// Forward congestion notification.
    pub fecn: u8,
    /// Backward congestion notification; set in a CNP.
    pub becn: u8,
    /// Reserved, 6 bits.
    pub resv6: u8,
    /// Acknowledge request.
    pub ack_req: u8,
    /// Reserved, 7 bits.
    pub resv7: u8,
    /// Partition key.
    pub pkey: u16,
    /// Destination queue pair, 24 bits.
    pub dest_qp: u32,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
}

/// A datagram extended transport header.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_deth {
    /// Queue key.
    pub qkey: u32,
    /// The queue pair that sent it, 24 bits.
    pub src_qp: u32,
    /// Reserved, 8 bits.
    pub resv8: u8,
}

/// An RDMA extended transport header.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_reth {
    /// Virtual address at the responder.
    pub va: u64,
    /// The key that grants access to it.
    pub rkey: u32,
    /// Bytes of the whole message.
    pub dma_len: u32,
}

/// An atomic extended transport header.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_atomic_eth {
    /// Virtual address at the responder.
    pub va: u64,
    /// The value to swap in, or to add.
    pub swap_add: u64,
    /// The value to compare with.
    pub compare: u64,
    /// The key that grants access to it.
    pub rkey: u32,
}

/// An acknowledge extended transport header.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_aeth {
    /// Messages completed, 24 bits.
    pub msn: u32,
    /// ACK, RNR NAK or NAK: see `roce_syndrome_read`.
    pub syndrome: u8,
}

/// The extension headers behind a BTH. Those the opcode calls for are written.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_ext {
    /// RDMA.
    pub reth: roce_reth,
    /// Atomic operands.
    pub atomic_eth: roce_atomic_eth,
    /// An atomic's answer: what the eight bytes held before.
    pub atomic_original: u64,
    /// Acknowledgement.
    pub aeth: roce_aeth,
    /// Datagram.
    pub deth: roce_deth,
    /// Reliable datagram: reserved byte and EE context.
    pub rdeth: u32,
    /// XRC: reserved byte and shared receive queue.
    pub xrceth: u32,
    /// FLUSH: selectivity (bits 4 and 5) and placement type (bits 0 to 3).
    pub feth: u32,
    /// Immediate data.
    pub imm_dt: u32,
    /// The R_Key that a SEND with invalidate takes away.
    pub ieth: u32,
    /// The reserved bytes of a CNP.
    pub cnp_reserved: [u8; 16],
    /// Which of the above are there: `ROCE_HEADER_*`.
    pub present: u16,
}

/// A packet in values, everything but the payload and the ICRC.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_packet {
    /// Ethernet header and VLAN tags.
    pub ethernet: roce_ethernet,
    /// IP header.
    pub ip: roce_ip,
    /// UDP header.
    pub udp: roce_udp,
    /// Base transport header.
    pub bth: roce_bth,
    /// Extension headers.
    pub ext: roce_ext,
    /// Pad bytes; senders write zeroes.
    pub pad: [u8; 3],
}
