//! The key message: one queue pair as perftest describes it to the other side.
//!
//! Over TCP, 108 bytes of text: `%04x:%04x:%06x:%06x:%08x:%016x:`, sixteen times `%02x:`, `%08x:`,
//! and a NUL. They are LID, outstanding READs, QPN, PSN, R_Key, virtual address, GID and SRQ number.
//!
//! By SENDs, 56 bytes, big-endian:
//!
//! ```text
//!  0  LID           4  outstanding READs    8  QPN           12  PSN
//! 16  R_Key        20  of no meaning       24  virtual address
//! 32  GID                                  48  SRQ number    52  GID index
//! ```

use roce_codec::ib::{Psn, Qpn, RKey};

use crate::service::Gid;
use crate::service::hex::{put_field as put, take_field as field};

/// One queue pair, as its owner describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyMessage {
    /// Local identifier; 0 on RoCE.
    pub lid: u16,
    /// READs and atomics the owner takes at a time.
    pub out_reads: u16,
    /// The queue pair.
    pub qpn: Qpn,
    /// The first PSN it sends.
    pub psn: Psn,
    /// The key of its buffer.
    pub rkey: RKey,
    /// Where its buffer starts.
    pub va: u64,
    /// Its address.
    pub gid: Gid,
    /// Shared receive queue; 0 for none.
    pub srqn: u32,
}

/// What real servers over IPv4 say; nobody looks at it.
const GID_INDEX: u32 = 1;

impl KeyMessage {
    /// Bytes of the message over TCP.
    pub const LEN: usize = 108;
    /// Bytes of the message by SENDs.
    pub const BINARY_LEN: usize = 56;

    /// Reads a message of TCP's; `None` unless it is one, to the last byte.
    #[must_use]
    pub fn parse(text: &[u8; Self::LEN]) -> Option<Self> {
        let mut rest = text.as_slice();
        let lid = field(&mut rest, 4)?;
        let out_reads = field(&mut rest, 4)?;
        let qpn = field(&mut rest, 6)?;
        let psn = field(&mut rest, 6)?;
        let rkey = field(&mut rest, 8)?;
        let va = field(&mut rest, 16)?;
        let mut gid = [0; 16];
        for byte in &mut gid {
            *byte = u8::try_from(field(&mut rest, 2)?).ok()?;
        }
        let srqn = field(&mut rest, 8)?;
        (rest == [0]).then_some(Self {
            lid: u16::try_from(lid).ok()?,
            out_reads: u16::try_from(out_reads).ok()?,
            qpn: Qpn::new(u32::try_from(qpn).ok()?),
            psn: Psn::new(u32::try_from(psn).ok()?),
            rkey: RKey(u32::try_from(rkey).ok()?),
            va,
            gid: Gid(gid),
            srqn: u32::try_from(srqn).ok()?,
        })
    }

    /// Writes the message for TCP.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut text = [0; Self::LEN];
        let mut rest = text.as_mut_slice();
        put(&mut rest, 4, u64::from(self.lid));
        put(&mut rest, 4, u64::from(self.out_reads));
        put(&mut rest, 6, u64::from(self.qpn.get()));
        put(&mut rest, 6, u64::from(self.psn.get()));
        put(&mut rest, 8, u64::from(self.rkey.0));
        put(&mut rest, 16, self.va);
        for byte in self.gid.0 {
            put(&mut rest, 2, u64::from(byte));
        }
        put(&mut rest, 8, u64::from(self.srqn));
        text
    }

    /// Reads a message that came by a SEND; `None` if a number is too large for what it is.
    #[must_use]
    pub fn parse_binary(bytes: &[u8; Self::BINARY_LEN]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let number = |at| word(at).filter(|number| *number <= 0xff_ffff);
        Some(Self {
            lid: u16::try_from(word(0)?).ok()?,
            out_reads: u16::try_from(word(4)?).ok()?,
            qpn: Qpn::new(number(8)?),
            psn: Psn::new(number(12)?),
            rkey: RKey(word(16)?),
            va: u64::from_be_bytes(*bytes.get(24..)?.first_chunk()?),
            gid: Gid(*bytes.get(32..)?.first_chunk()?),
            srqn: word(48)?,
        })
    }

    /// Writes the message for a SEND.
    #[must_use]
    pub fn emit_binary(&self) -> [u8; Self::BINARY_LEN] {
        let mut bytes = [0; Self::BINARY_LEN];
        let mut put = |at: usize, field: &[u8]| {
            if let Some(place) = bytes.get_mut(at..at + field.len()) {
                place.copy_from_slice(field);
            }
        };
        put(0, &u32::from(self.lid).to_be_bytes());
        put(4, &u32::from(self.out_reads).to_be_bytes());
        put(8, &self.qpn.get().to_be_bytes());
        put(12, &self.psn.get().to_be_bytes());
        put(16, &self.rkey.0.to_be_bytes());
        put(24, &self.va.to_be_bytes());
        put(32, &self.gid.0);
        put(48, &self.srqn.to_be_bytes());
        put(52, &GID_INDEX.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use super::*;

    /// Of ib_write_bw of perftest 4.5 over rxe.
    const REAL: &[u8; 108] = b"0000:0001:000011:d2ec0c:00000208:00007f56c97cf000:\
        00:00:00:00:00:00:00:00:00:00:ff:ff:0a:09:00:02:00000000:\0";

    #[test]
    fn a_real_message() {
        let message = KeyMessage::parse(REAL).unwrap();
        assert_eq!(message.out_reads, 1);
        assert_eq!(message.qpn, Qpn::new(0x11));
        assert_eq!(message.psn, Psn::new(0xd2_ec0c));
        assert_eq!(message.rkey, RKey(0x208));
        assert_eq!(message.va, 0x7f56_c97c_f000);
        assert_eq!(message.gid.address(), IpAddr::from([10, 9, 0, 2]));
        assert_eq!(Gid::from(message.gid.address()), message.gid);
        assert_eq!(&message.emit(), REAL);
    }

    /// Of ib_read_lat -R of perftest 4.5 over rxe; the four bytes of no meaning are what was there.
    #[rustfmt::skip]
    const REAL_BINARY: [u8; 56] = [
        0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0x1b, 0, 0xe4, 0x42, 0xca,
        0, 0, 0x0b, 0x47, 0x03, 0x56, 0, 0, 0, 0, 0x56, 0x03, 0xca, 0x79, 0x50, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 78, 2, 2,
        0, 0, 0, 0, 0, 0, 0, 1,
    ];

    #[test]
    fn a_real_message_by_send() {
        let message = KeyMessage::parse_binary(&REAL_BINARY).unwrap();
        assert_eq!((message.lid, message.out_reads, message.srqn), (0, 128, 0));
        assert_eq!((message.qpn, message.psn), (Qpn::new(0x1b), Psn::new(0xe4_42ca)));
        assert_eq!((message.rkey, message.va), (RKey(0xb47), 0x5603_ca79_5000));
        assert_eq!(message.gid.address(), IpAddr::from([10, 78, 2, 2]));
        let mut written = REAL_BINARY;
        written[20..24].fill(0);
        assert_eq!(message.emit_binary(), written);
    }

    #[test]
    fn numbers_by_send_that_are_too_large() {
        for at in [0, 4, 8, 12] {
            let mut bytes = REAL_BINARY;
            bytes[at] = 1;
            assert_eq!(KeyMessage::parse_binary(&bytes), None, "byte {at}");
        }
    }

    #[test]
    fn every_byte_counts() {
        for index in 0..REAL.len() {
            for wrong in [b'g', b' ', b'\n', 0x80] {
                let mut text = *REAL;
                text[index] = wrong;
                assert_eq!(KeyMessage::parse(&text), None, "byte {index} {wrong:#x}");
            }
        }
    }
}
