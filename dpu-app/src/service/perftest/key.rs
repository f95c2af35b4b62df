//! The key message: one queue pair as perftest describes it to the other side.
//!
//! 108 bytes of text: `%04x:%04x:%06x:%06x:%08x:%016x:`, sixteen times `%02x:`, `%08x:`, and a
//! NUL. They are LID, outstanding READs, QPN, PSN, R_Key, virtual address, GID and SRQ number.

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

impl KeyMessage {
    /// Bytes of the message.
    pub const LEN: usize = 108;

    /// Reads a message; `None` unless it is one, to the last byte.
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

    /// Writes the message.
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
