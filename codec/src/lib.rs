//! RoCEv2 packet codec: `no_std`, no alloc, no unsafe, no panic.
//!
//! ```text
//!  Ethernet   14 + 4 a tag   net::Ethernet
//!  IPv4/IPv6  20 / 40        net::Ip         ┐
//!  UDP        8, port 4791   net::Udp        │
//!  BTH        12             ib::Bth         │ covered by the ICRC, but for the fields
//!  extension  0 to 40        ib::ExtHeaders  │ that routers and switches change
//!  payload    0 to path MTU                  │
//!  pad        0 to 3                         ┘
//!  ICRC       4              icrc
//! ```
//!
//! [`Frame::parse`] takes a packet apart, [`FrameBuilder`] puts one together, [`ib::Opcode`] says
//! which headers an opcode has, and [`icrc`] checks and computes the invariant CRC.
//!
//! ```
//! use core::net::Ipv4Addr;
//! use roce_codec::ib::{Bth, ExtHeaders, Opcode, Psn, Qpn, RKey, Reth};
//! use roce_codec::net::{Ip, Ipv4, Udp};
//! use roce_codec::{Crc, Frame, FrameBuilder, Start};
//!
//! let mut builder = FrameBuilder {
//!     ethernet: None,
//!     ip: Ip::V4(Ipv4 {
//!         dscp_ecn: 0x02,
//!         total_len: 0,
//!         identification: 0,
//!         flags_fragment: Ipv4::DONT_FRAGMENT,
//!         ttl: 64,
//!         protocol: 17,
//!         checksum: 0,
//!         src: Ipv4Addr::new(192, 0, 2, 1),
//!         dst: Ipv4Addr::new(192, 0, 2, 2),
//!     }),
//!     udp: Udp { src_port: 0xc000, dst_port: 4791, length: 0, checksum: 0 },
//!     bth: Bth::new(Opcode::RC_RDMA_WRITE_ONLY, Qpn::new(0x11), Psn::new(7)),
//!     ext: ExtHeaders {
//!         reth: Some(Reth { va: 0x1000, rkey: RKey(0x1234), dma_len: 5 }),
//!         ..ExtHeaders::NONE
//!     },
//!     pad: [0; 3],
//! };
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
pub use roce_crc::{Crc, Crc32, NibbleTable, Shift, SmallTable, combine};
pub use transport::{Pad, Transport};
