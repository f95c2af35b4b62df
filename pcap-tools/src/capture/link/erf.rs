//! Endace's extensible record format, link type 197: what DAG cards and `ibdump` write.
//!
//! ```text
//!  0  time (8)   8  type (7 bits) and whether extension headers follow   9  flags
//! 10  length of the record   12  colour or loss counter   14  length on the wire
//! 16  extension headers, 8 bytes each; the top bit of each says whether another follows
//!     Ethernet types have two bytes more; then the packet, padded to eight bytes
//! ```
//!
//! Endace, "ERF Types Reference Guide", EDM11-01.

use super::{First, LinkError};

const HEADER: usize = 16;
const EXTENSION: usize = 8;
/// The bit of a type, and of an extension header's, that says that another header follows.
const MORE: u8 = 0x80;

pub(super) fn locate(data: &[u8]) -> Result<(First, &[u8]), LinkError> {
    let header = data.first_chunk::<HEADER>().ok_or(LinkError::Truncated)?;
    let [_, _, _, _, _, _, _, _, kind, _, rlen @ .., _, _, w0, w1] = header;
    let &[r0, r1] = rlen;
    // The record may say that less of the data is the packet's than there is.
    let record = usize::from(u16::from_be_bytes([r0, r1]));
    let data = if record < HEADER { data } else { data.get(..record).unwrap_or(data) };

    let (mut at, mut more) = (HEADER, kind & MORE != 0);
    while more {
        more = data.get(at).ok_or(LinkError::Truncated)? & MORE != 0;
        at += EXTENSION;
    }
    let (first, at) = match kind & !MORE {
        // Ethernet: plain, coloured, by steering, by hash.
        2 | 11 | 16 | 20 => (First::Ethernet, at + 2),
        21 => (First::Lrh, at),
        22 | 23 => (First::Ip, at),
        other => return Err(LinkError::ErfType(other)),
    };
    let packet = data.get(at..).ok_or(LinkError::Truncated)?;
    let wire = usize::from(u16::from_be_bytes([*w0, *w1]));
    Ok((first, if wire == 0 { packet } else { packet.get(..wire).unwrap_or(packet) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::LinkType;

    fn record(kind: u8, rlen: u8, wlen: u8, rest: &[u8]) -> Vec<u8> {
        let mut record = vec![0; 8];
        record.extend([kind, 4, 0, rlen, 0, 0, 0, wlen]);
        record.extend(rest);
        record
    }

    fn located(data: &[u8]) -> Result<(First, &[u8]), LinkError> {
        LinkType::ERF.locate(data)
    }

    #[test]
    fn extension_headers_and_padding_are_no_packet() {
        let plain = record(2, 24, 4, &[0, 0, 1, 2, 3, 4, 0xee, 0xee]);
        assert_eq!(located(&plain), Ok((First::Ethernet, &[1, 2, 3, 4][..])));

        let mut rest = vec![0x83, 0, 0, 0, 0, 0, 0, 9, 0x03, 0, 0, 0, 0, 0, 0, 8];
        rest.extend([1, 2, 3, 4, 5]);
        let extended = record(21 | MORE, 40, 5, &rest);
        assert_eq!(located(&extended), Ok((First::Lrh, &[1, 2, 3, 4, 5][..])));
        // A record shorter than the data: what lies behind it is not the packet's.
        let short = record(22, 18, 60, &[0x45, 7, 8, 9]);
        assert_eq!(located(&short), Ok((First::Ip, &[0x45, 7][..])));
    }

    #[test]
    fn every_cut_is_said() {
        let whole = record(21 | MORE, 26, 2, &[0x03, 0, 0, 0, 0, 0, 0, 9, 1, 2]);
        for len in 0..24 {
            assert_eq!(located(&whole[..len]), Err(LinkError::Truncated), "{len}");
        }
        assert_eq!(located(&whole[..24]), Ok((First::Lrh, &[][..])));
        assert_eq!(located(&record(27, 16, 0, &[])), Err(LinkError::ErfType(27)));
        let endless = record(2 | MORE, 0, 0, &[0xff; 100]);
        assert_eq!(located(&endless), Err(LinkError::Truncated));
    }
}
