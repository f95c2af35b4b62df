//! A RoCEv2 packet with other bytes in it, its checksums and its ICRC as right or wrong as before.

use roce_codec::cm::Mad;
use roce_codec::icrc::{ICRC_LEN, IcrcVerdict};
use roce_codec::net::{Ip, Ipv4, MacAddr, Udp};
use roce_codec::{Crc, Frame, Start};

use super::mask::Mask;
use super::{Payload, checksum, mad};
use crate::capture::{First, LinkType, Packet};

/// Where UDP's checksum stands in its header.
const UDP_CHECKSUM: usize = 6;
/// Where IPv4's does.
const IPV4_CHECKSUM: usize = 10;

/// What is to be changed.
#[derive(Debug)]
pub(super) struct Edit<'m> {
    pub(super) mask: Option<&'m mut Mask>,
    pub(super) payload: Payload,
    pub(super) keep_private_data: bool,
    pub(super) fix_icrc: bool,
}

/// Where the parts of a frame lie in its packet.
struct Places {
    /// The IP header.
    network: usize,
    udp: usize,
    payload: usize,
    /// What there is of the payload.
    payload_len: usize,
    icrc: usize,
}

/// The frame of a packet that starts with a plain link header, and where its IP header is.
fn frame<'a>(packet: &Packet<'_>, bytes: &'a [u8]) -> Option<(Frame<'a>, usize)> {
    let (first, located) = packet.link?.locate(bytes).ok()?;
    let start = match first {
        First::Ethernet => Start::Ethernet,
        First::Ip => Start::Ip,
        First::Lrh | First::Grh => return None,
    };
    let frame = Frame::parse_captured([located, &[]], start).ok()?;
    let link_len = frame.ethernet().map_or(0, |ethernet| ethernet.header_len());
    // Some link types have something behind the frame, too.
    let before = located.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
    Some((frame, before + link_len))
}

fn places(frame: &Frame<'_>, network: usize) -> Places {
    let udp = network + frame.ip().header_len();
    let info = frame.info();
    let payload = udp + Udp::LEN + 12 + usize::from(info.headers_len);
    let [first, second] = frame.payload();
    let icrc = udp + Udp::LEN + frame.udp_payload_len().saturating_sub(ICRC_LEN);
    Places { network, udp, payload, payload_len: first.len() + second.len(), icrc }
}

/// Puts the changed packet into `out`; `None` if it is not a RoCEv2 packet in a plain frame.
pub(super) fn apply(packet: &Packet<'_>, edit: &mut Edit<'_>, out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    out.extend_from_slice(packet.data);
    let (before, network) = frame(packet, packet.data)?;
    let places = places(&before, network);
    let verdict = before.verify_icrc();
    let mad = Mad::from_frame(&before);
    if let Some(mad) = &mad
        && (edit.mask.is_some() || edit.payload != Payload::Kept || !edit.keep_private_data)
    {
        let new = mad::rewritten(mad, edit.mask.as_deref_mut(), edit.keep_private_data);
        out.get_mut(places.payload..places.payload + new.len())?.copy_from_slice(&new);
    }
    if let Some(mask) = &mut edit.mask {
        let ethernet = before.ethernet().map(|ethernet| network - ethernet.header_len());
        link_addresses(packet.link?, ethernet, out, mask);
        addresses(&before.ip(), out, network, mask)?;
        // What lies behind the packet is nobody's: it is not kept.
        let end = (places.icrc + ICRC_LEN).min(out.len());
        out.get_mut(end..)?.fill(0);
    }
    if mad.is_none() && edit.payload == Payload::Zeroed {
        out.get_mut(places.payload..places.payload + places.payload_len)?.fill(0);
    }
    icrc(packet, edit, verdict, &places, out);
    checksums(packet.data, &before.ip(), &places, out)?;
    if mad.is_none() && edit.payload == Payload::Stripped {
        out.truncate(places.payload);
    }
    Some(())
}

/// The MAC addresses: of an Ethernet header that starts at `ethernet`, or of a cooked one.
fn link_addresses(link: LinkType, ethernet: Option<usize>, out: &mut [u8], mask: &mut Mask) {
    let places = match (ethernet, link) {
        (Some(at), _) => [Some(at), Some(at + 6)],
        (None, LinkType::LINUX_SLL) => [Some(6), None],
        (None, LinkType::LINUX_SLL2) => [Some(12), None],
        (None, _) => [None; 2],
    };
    for at in places.into_iter().flatten() {
        if let Some(mac) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<6>()) {
            MacAddr(*mac) = mask.mac(MacAddr(*mac));
        }
    }
}

fn addresses(ip: &Ip, out: &mut [u8], network: usize, mask: &mut Mask) -> Option<()> {
    let [src, dst] = [mask.ip(ip.src()), mask.ip(ip.dst())];
    let at = network + if matches!(ip, Ip::V4(_)) { 12 } else { 8 };
    let mut room = out.get_mut(at..)?;
    for address in [src, dst] {
        let octets = match address {
            std::net::IpAddr::V4(address) => address.octets().to_vec(),
            std::net::IpAddr::V6(address) => address.octets().to_vec(),
        };
        room.get_mut(..octets.len())?.copy_from_slice(&octets);
        room = room.get_mut(octets.len()..)?;
    }
    Some(())
}

/// The ICRC: a right one is made anew, a wrong one keeps its difference to the right one, and one
/// that could not be checked stays.
fn icrc(
    packet: &Packet<'_>,
    edit: &Edit<'_>,
    verdict: IcrcVerdict,
    places: &Places,
    out: &mut [u8],
) {
    let Some((after, _)) = frame(packet, out) else { return };
    let Some(right) = after.computed_icrc::<Crc>() else { return };
    let new = match verdict {
        IcrcVerdict::Valid => right,
        _ if edit.fix_icrc => right,
        IcrcVerdict::Invalid { expected, found } => {
            let mut new = right;
            for (byte, (expected, found)) in new.iter_mut().zip(expected.iter().zip(found)) {
                *byte ^= expected ^ found;
            }
            new
        }
        IcrcVerdict::NotCheckable(_) => return,
    };
    if let Some(room) = out.get_mut(places.icrc..places.icrc + ICRC_LEN) {
        room.copy_from_slice(&new);
    }
}

/// IPv4's and UDP's, where there is one.
fn checksums(old: &[u8], ip: &Ip, places: &Places, out: &mut [u8]) -> Option<()> {
    let Places { network, udp, icrc, .. } = *places;
    let (addresses, header) = match ip {
        Ip::V4(_) => (network + 12..network + 20, Some(network..network + Ipv4::LEN)),
        Ip::V6(_) => (network + 8..network + 40, None),
    };
    if let Some(header) = header {
        update(old, out, network + IPV4_CHECKSUM, &[header])?;
    }
    let at = udp + UDP_CHECKSUM;
    if out.get(at..at + 2)? != [0, 0] {
        let end = (icrc + ICRC_LEN).min(out.len());
        update(old, out, at, &[addresses, udp..end])?;
        // Zero would say that there is none.
        let room = out.get_mut(at..at + 2)?;
        if *room == [0, 0] {
            room.fill(0xff);
        }
    }
    Some(())
}

/// Makes the checksum at `at` follow what changed in `ranges`, which start at even places.
fn update(old: &[u8], out: &mut [u8], at: usize, ranges: &[std::ops::Range<usize>]) -> Option<()> {
    let mut value = u16::from_be_bytes(*out.get(at..)?.first_chunk()?);
    for range in ranges {
        value = checksum::updated(value, old.get(range.clone())?, out.get(range.clone())?);
    }
    out.get_mut(at..at + 2)?.copy_from_slice(&value.to_be_bytes());
    Some(())
}
