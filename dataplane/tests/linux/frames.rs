//! Frames to send and to recognise.

/// The interface under test, `02:00:00:00:00:01`, and its peer.
pub(crate) const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const PEERS: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// The IP version of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ip {
    V4,
    V6,
}

/// The IPv4 header checksum, and with a pseudo header any other of its kind.
pub(crate) fn internet_checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).expect("folded twice")
}

/// A UDP packet to `port` as the kernel would accept it, `length` bytes from the Ethernet header
/// on, its payload drawn from `seed`.
pub(crate) fn udp(ip: Ip, tags: &[[u8; 4]], port: u16, length: usize, seed: u32) -> Vec<u8> {
    let from_peer = [OURS, PEERS].concat();
    let mut frame = [&from_peer, tags.as_flattened()].concat();
    let header_length = frame.len() + if ip == Ip::V4 { 2 + 20 + 8 } else { 2 + 40 + 8 };
    let udp_length = u16::try_from(length - header_length + 8).expect("fits");
    match ip {
        Ip::V4 => {
            frame.extend([0x08, 0x00]);
            let mut header = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1];
            header[2..4].copy_from_slice(&(udp_length + 20).to_be_bytes());
            let checksum = internet_checksum(&header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            frame.extend(header);
        }
        Ip::V6 => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(udp_length.to_be_bytes());
            frame.extend([17, 64]);
            for last in [2, 1] {
                frame.extend([0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            }
        }
    }
    // Each seed is a flow of its own.
    frame.extend((0xc000 | u16::try_from(seed & 0x3fff).expect("14 bits")).to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend(udp_length.to_be_bytes());
    frame.extend([0, 0]);
    let mut state = seed | 1;
    frame.extend(
        std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state.to_le_bytes()[1]
        })
        .take(length - header_length),
    );
    assert_eq!(frame.len(), length);
    frame
}

/// A RoCEv2 frame for the interface under test.
pub(crate) fn roce(ip: Ip, length: usize, seed: u32) -> Vec<u8> {
    udp(ip, &[], 4791, length, seed)
}

/// The same with source and destination MAC exchanged, as an echo sends it back.
pub(crate) fn turned(frame: &[u8]) -> Vec<u8> {
    [&frame[6..12], &frame[..6], &frame[12..]].concat()
}

/// Whether this is UDP to port 4791, tagged or not: what the tests send, and not the kernel's
/// router solicitations and the like.
pub(crate) fn is_roce(frame: &[u8]) -> bool {
    let mut at = 12;
    while matches!(frame.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8])) {
        at += 4;
    }
    let port_at = match frame.get(at..at + 2) {
        Some([0x08, 0x00]) => at + 2 + 20 + 2,
        Some([0x86, 0xdd]) => at + 2 + 40 + 2,
        _ => return false,
    };
    frame.get(port_at..port_at + 2) == Some(&4791_u16.to_be_bytes())
}
