//! RoCEv2 packet codec: `no_std`, no alloc, no unsafe, no panic.
//!
//! A RoCEv2 frame, its bytes, and where each part of it is here:
//!
//! ```text
//!  bytes
//!     14  Ethernet  destination, source, EtherType
//!  4 a tag          0 to 3 tags, 802.1Q and 802.1ad
//! ┌─ what the ICRC covers, variant fields as ones ───────────────────────────────┐
//! │   20  IPv4      no options, no fragments     or 40  IPv6  no extension header│
//! │    8  UDP       destination port 4791                                        │
//! │   12  BTH       opcode, P_Key, destination QP, AckReq, PSN                   │
//! │ 0-40  extended transport headers, by opcode, in this order:                  │
//! │        4 RDETH    8 DETH     4 XRCETH   4 FETH       16 RETH                 │
//! │       28 AtomicETH   4 AETH   8 AtomicAckETH   4 ImmDt   4 IETH              │
//! │ 0-4K  payload   up to the path MTU; of a UD SEND to QP 1, a MAD              │
//! │  0-3  pad       to a multiple of four                                        │
//! └──────────────────────────────────────────────────────────────────────────────┘
//!      4  ICRC      CRC-32, least significant byte first
//!      -  trailer   Ethernet padding
//! ```
//!
//! | part | value | where |
//! |---|---|---|
//! | the whole | [`Frame`] takes it apart, [`FrameBuilder`] puts it together | |
//! | BTH to ICRC | [`Transport`], on whatever link | |
//! | Ethernet, VLAN tags | [`net::Ethernet`], [`net::VlanStack`] | IEEE 802.3, 802.1Q |
//! | IP | [`net::Ip`]: [`net::Ipv4`], [`net::Ipv6`] | RFC 791, 8200; IBTA Annex A17 |
//! | UDP | [`net::Udp`], and the source port that carries entropy | RFC 768; Annex A17 |
//! | BTH | [`ib::Bth`]: [`ib::Opcode`], [`ib::PKey`], [`ib::Qpn`], [`ib::Psn`] | IBTA Vol. 1, 9.2 |
//! | what an opcode means | [`ib::OpcodeInfo`], a row for each of the 256 | 9.2.1; Annexes A14, A17, A19 |
//! | extended headers | [`ib::ExtHeaders`]: [`ib::Reth`], [`ib::Aeth`], [`ib::AtomicEth`], ... | 9.3 |
//! | ICRC | [`icrc`]: computed, checked, a wrong one explained | 7.8.1; Annex A17.3.3 |
//! | MADs, connection manager | [`cm`]: [`cm::Mad`], [`cm::Message`], [`cm::IpCmHeader`] | 12, 13; Annex A11 |
//! | CNP, and the rate that answers it | [`FrameBuilder::cnp`], [`dcqcn`] | Annex A17.9; SIGCOMM 2015 |
//! | native InfiniBand, RoCE v1 | [`NativeFrame`]: [`ib::Lrh`], [`net::Grh`], [`ib::Vcrc`] | 7.7, 7.8.2, 8.3; Annex A16 |
//! | PAUSE, PFC | [`net::Pause`], [`net::Pfc`] | IEEE 802.3 31B, 802.1Qbb |
//! | any of these on a wire | [`Packet`] | |
//!
//! Headers are small `Copy` values. `parse` makes one of bytes and keeps reserved bits; `emit` makes the
//! same bytes of it. What is wrong with bytes is a [`ParseError`], with values an [`EmitError`].
//!
//! ```
//! use core::net::Ipv4Addr;
//! use roce_codec::ib::{Bth, Opcode, Psn, Qpn, RKey, Reth};
//! use roce_codec::net::{Ip, Ipv4};
//! use roce_codec::{Crc, Frame, FrameBuilder, Start};
//!
//! let ip = Ipv4::new(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
//! let bth = Bth::new(Opcode::RC_RDMA_WRITE_ONLY, Qpn::new(0x11), Psn::new(7));
//! let mut builder = FrameBuilder::new(None, Ip::V4(ip), 0xc000, bth);
//! builder.ext.reth = Some(Reth { va: 0x1000, rkey: RKey(0x1234), dma_len: 5 });
//! builder.set_payload_len(5)?;
//! let mut packet = [0; 128];
//! let len = builder.emit::<Crc>([b"hello", b""], &mut packet)?;
//!
//! let frame = Frame::parse([&packet[..len], &[]], Start::Ip)?;
//! assert_eq!(frame.reth().map(|reth| reth.dma_len), Some(5));
//! assert_eq!(frame.payload()[0], b"hello");
//! assert_eq!(frame.pad().len(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here believes a packet: `parse` finds the layers and checks that their lengths agree.
//! Whether the ICRC holds, and whether the queue pair may do what the packet asks, are separate
//! questions.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![forbid(unsafe_code)]

mod builder;
#[cfg(feature = "defmt")]
mod defmt_format;
mod error;
mod frame;
mod native;
mod packet;
mod transport;
mod wire;

pub mod cm;
pub mod dcqcn;
pub mod ib;
pub mod icrc;
pub mod net;

pub use builder::FrameBuilder;
pub use error::{EmitError, Layer, ParseError};
pub use frame::{Frame, Start};
pub use native::{NativeBuilder, NativeFrame, NativeStart, Route};
pub use packet::Packet;
pub use roce_crc::{Crc, Crc32, NibbleTable, Shift, SmallTable, combine};
pub use transport::{Pad, Transport, TransportBuilder};
