//! One side's queue pair as it tells the other.
//!
//! 52 bytes of text: `%04x:%06x:%06x:`, 32 hexadecimal digits, and a NUL. They are LID, QPN, PSN
//! and GID.

use core::fmt;
use core::net::Ipv6Addr;

use roce_codec::ib::{Psn, Qpn};

use crate::service::Gid;
use crate::service::hex::{put, put_field, take, take_field};

/// A queue pair, as its owner describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// Local identifier; 0 on RoCE.
    pub lid: u16,
    /// The queue pair.
    pub qpn: Qpn,
    /// The first PSN it sends.
    pub psn: Psn,
    /// Its address; all zeroes if it was given no GID index (`-g`).
    pub gid: Gid,
}

impl Address {
    /// Bytes of the message.
    pub const LEN: usize = 52;

    /// Reads a message; `None` unless it is one, to the last byte.
    #[must_use]
    pub fn parse(text: &[u8; Self::LEN]) -> Option<Self> {
        let mut rest = text.as_slice();
        let lid = take_field(&mut rest, 4)?;
        let qpn = take_field(&mut rest, 6)?;
        let psn = take_field(&mut rest, 6)?;
        let mut gid = [0; 16];
        for byte in &mut gid {
            *byte = u8::try_from(take(&mut rest, 2)?).ok()?;
        }
        (rest == [0]).then_some(Self {
            lid: u16::try_from(lid).ok()?,
            qpn: Qpn::new(u32::try_from(qpn).ok()?),
            psn: Psn::new(u32::try_from(psn).ok()?),
            gid: Gid(gid),
        })
    }

    /// Writes the message.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut text = [0; Self::LEN];
        let mut rest = text.as_mut_slice();
        put_field(&mut rest, 4, u64::from(self.lid));
        put_field(&mut rest, 6, u64::from(self.qpn.get()));
        put_field(&mut rest, 6, u64::from(self.psn.get()));
        for byte in self.gid.0 {
            put(&mut rest, 2, u64::from(byte));
        }
        text
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lid, qpn, psn) = (self.lid, self.qpn.get(), self.psn.get());
        write!(f, "LID {lid:#06x}, QPN {qpn:#08x}, PSN {psn:#08x}, GID ")?;
        Ipv6Addr::from(self.gid.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use super::*;

    /// Of ibv_rc_pingpong of rdma-core 44 over rxe.
    const REAL: &[u8; 52] = b"0000:000011:7d6a2b:00000000000000000000ffff0a4e0202\0";

    #[test]
    fn a_real_message() {
        let address = Address::parse(REAL).unwrap();
        assert_eq!(address.lid, 0);
        assert_eq!(address.qpn, Qpn::new(0x11));
        assert_eq!(address.psn, Psn::new(0x7d_6a2b));
        assert_eq!(address.gid.address(), IpAddr::from([10, 78, 2, 2]));
        assert_eq!(&address.emit(), REAL);
        // As the programs print it.
        let printed = "LID 0x0000, QPN 0x000011, PSN 0x7d6a2b, GID ::ffff:10.78.2.2";
        assert_eq!(address.to_string(), printed);
    }

    #[test]
    fn every_byte_counts() {
        for index in 0..REAL.len() {
            for wrong in [b'g', b' ', b'\n', 0x80] {
                let mut text = *REAL;
                text[index] = wrong;
                assert_eq!(Address::parse(&text), None, "byte {index} {wrong:#x}");
            }
        }
    }
}
