//! Telling a broken RoCEv2 packet from one of another protocol.

use roce_codec::net::{Ethernet, ROCE_V2_PORT};
use roce_codec::{Layer, ParseError};

use super::{Fault, Malformed};
use crate::capture::First;

/// What is wrong with a packet that the codec does not read; `None` if it is not RoCEv2's.
pub(super) fn of(first: First, bytes: &[u8], error: ParseError) -> Option<Malformed> {
    let ip = ip_packet(first, bytes)?;
    let udp = udp_datagram(ip)?;
    if u16_at(udp, 2) != Some(ROCE_V2_PORT) {
        return None;
    }
    let fault = match error {
        ParseError::NotRoce { .. } => return None,
        ParseError::Fragment => Fault::Fragment,
        ParseError::Ipv4Options => Fault::Ipv4Options,
        ParseError::Length { layer: Layer::Udp, field, .. }
            if ip_payload_len(ip) == Some(field) =>
        {
            Fault::TooShort
        }
        ParseError::Truncated { .. } if ip_payload_len(ip).is_some_and(|len| len <= udp.len()) => {
            Fault::TooShort
        }
        // Some tools cut the original length as well: it proves nothing.
        ParseError::Truncated { .. } => Fault::Cut,
        _ => Fault::IpUdpLength,
    };
    Some(Malformed { fault, error })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// The bytes from the IP header on, behind Ethernet and its tags.
fn ip_packet(first: First, bytes: &[u8]) -> Option<&[u8]> {
    match first {
        First::Ip => Some(bytes),
        First::Ethernet => bytes.get(Ethernet::parse(bytes).ok()?.header_len()..),
        First::Lrh | First::Grh => None,
    }
}

/// The bytes from the UDP header on, of an IPv4 packet (a first fragment and one with options
/// included) or an IPv6 packet without extension headers.
fn udp_datagram(ip: &[u8]) -> Option<&[u8]> {
    let version_ihl = *ip.first()?;
    match version_ihl >> 4 {
        4 if *ip.get(9)? == 17 && u16_at(ip, 6)? & 0x1fff == 0 => {
            ip.get(usize::from(version_ihl & 0x0f) * 4..)
        }
        6 if *ip.get(6)? == 17 => ip.get(40..),
        _ => None,
    }
}

/// What the IP header says follows it.
fn ip_payload_len(ip: &[u8]) -> Option<usize> {
    let version_ihl = *ip.first()?;
    if version_ihl >> 4 == 4 {
        usize::from(u16_at(ip, 2)?).checked_sub(usize::from(version_ihl & 0x0f) * 4)
    } else {
        u16_at(ip, 4).map(usize::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{LinkType, Packet};
    use crate::dissect::{Dissected, dissect};

    /// A zero-length SEND over IPv4, without Ethernet.
    const SEND: [u8; 44] = [
        0x45, 0x02, 0, 0x2c, 0, 1, 0x40, 0, 0x40, 0x11, 0xb6, 0xba, 192, 0, 2, 1, 192, 0, 2, 2,
        0xc0, 0, 0x12, 0xb7, 0, 0x18, 0, 0, 0x04, 0x40, 0xff, 0xff, 0, 0, 1, 0x23, 0x80, 0, 0, 5,
        0xc9, 0x0e, 0x17, 0x92,
    ];

    fn fault(data: &[u8]) -> Option<Fault> {
        let packet = Packet { orig_len: 44, ..Packet::new(LinkType::RAW, data) };
        match dissect(&packet) {
            Dissected::Malformed(malformed) => Some(malformed.fault),
            _ => None,
        }
    }

    #[test]
    fn faults_are_told_apart() {
        let changed = |at: usize, value: u8| {
            let mut bytes = SEND;
            bytes[at] = value;
            fault(&bytes)
        };
        assert_eq!(fault(&SEND), None);
        assert_eq!(changed(25, 0x19), Some(Fault::IpUdpLength));
        assert_eq!(changed(3, 0x2b), Some(Fault::IpUdpLength));
        assert_eq!(changed(28, 0x0a), Some(Fault::TooShort), "a WRITE without a RETH");
        assert_eq!(changed(29, 0x70), Some(Fault::TooShort), "three pad bytes that are not there");
        assert_eq!(changed(6, 0x20), Some(Fault::Fragment));
        assert_eq!(changed(22, 0x13), None, "another port");
        assert_eq!(changed(9, 6), None, "another protocol");
        let mut runt = SEND;
        runt[3] = 0x28;
        runt[25] = 0x14;
        assert_eq!(fault(&runt), Some(Fault::TooShort), "no room for an ICRC");
        runt[3] = 0x24;
        runt[25] = 0x10;
        assert_eq!(fault(&runt), Some(Fault::TooShort), "no room for a BTH");
        assert_eq!(fault(&SEND[..36]), Some(Fault::Cut));
        assert_eq!(fault(&SEND[..22]), None, "the port is not there to see");
    }

    #[test]
    fn options_are_stepped_over_to_see_the_port() {
        let mut bytes = SEND.to_vec();
        bytes[0] = 0x46;
        bytes[3] += 4;
        for _ in 0..4 {
            bytes.insert(20, 1);
        }
        assert_eq!(fault(&bytes), Some(Fault::Ipv4Options));
    }
}
