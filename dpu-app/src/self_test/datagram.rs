//! Datagrams: what lies in front of them, and whom they are not for.

use core::net::IpAddr;

use roce_codec::ib::{PathMtu, QKey, Service};
use roce_dataplane::port::Port;
use roce_engine::{DropReason, GrhArea, WcOpcode, WrOpcode};

use super::lab::{Expected, Lab, Moved};
use super::{Failure, Host};

/// Bytes in front of a received datagram.
#[expect(clippy::cast_possible_truncation, reason = "40")]
pub(super) const AREA: u32 = GrhArea::LEN as u32;

/// UDP header, BTH, DETH, ICRC; and immediate data, where there is some (IBTA A17.3, 9.2 to 9.5).
const HEADERS: u32 = 8 + 12 + 8 + 4;
const IMMEDIATE: u32 = 4;

/// Where the first of two datagrams lies, and how long each is.
const NEAR: u32 = 33;
const LENS: [u32; 2] = [500, 300];
const FAR: u32 = 1001;

/// What lies in front of a datagram of `len` bytes between these hosts (IBTA A17.4): the IP header
/// that it came with, behind zeroes if it is IPv4's. Typed from RFC 791 and RFC 8200.
pub(super) fn area(addresses: [IpAddr; 2], len: u32, imm: bool) -> [u8; GrhArea::LEN] {
    let udp_len = HEADERS + if imm { IMMEDIATE } else { 0 } + len.next_multiple_of(4);
    let udp_len = u16::try_from(udp_len).unwrap_or(0);
    let mut area = [0; GrhArea::LEN];
    match addresses {
        [IpAddr::V6(src), IpAddr::V6(dst)] => {
            let [high, low] = udp_len.to_be_bytes();
            let addresses = src.octets().into_iter().chain(dst.octets());
            let head = [0x60, 0, 0, 0, high, low, 17, 64].into_iter().chain(addresses);
            area.iter_mut().zip(head).for_each(|(byte, value)| *byte = value);
        }
        [IpAddr::V4(src), IpAddr::V4(dst)] => {
            let [high, low] = (20 + udp_len).to_be_bytes();
            let ([a, b, c, d], [e, f, g, h]) = (src.octets(), dst.octets());
            let mut header =
                [0x45, 0, high, low, 0, 0, 0x40, 0, 64, 17, 0, 0, a, b, c, d, e, f, g, h];
            let words = header.chunks_exact(2).map(|word| match *word {
                [high, low] => u32::from(u16::from_be_bytes([high, low])),
                _ => 0,
            });
            let sum: u32 = words.sum();
            let folded = (sum & 0xffff) + (sum >> 16);
            let [.., high, low] = (!((folded & 0xffff) + (folded >> 16))).to_be_bytes();
            (header[10], header[11]) = (high, low);
            area.iter_mut().skip(20).zip(header).for_each(|(byte, value)| *byte = value);
        }
        _ => {}
    }
    area
}

/// A datagram with a Q_Key that the queue pair does not have is dropped and counted; the receive is
/// there for the next one (IBTA 9.6.1.4).
pub(super) fn wrong_qkey<P: Port, H: Host>(lab: &mut Lab<'_, '_, P, H>) -> Result<(), Failure> {
    let dropped = |lab: &Lab<'_, '_, P, H>| lab.far.engine.counters().dropped(DropReason::QKey);
    lab.connect(Service::Ud, PathMtu::Mtu1024, true)?;
    let before = dropped(lab);
    let [wrong, right] = LENS;
    lab.far.post_recv(100, lab.far.sge(FAR, AREA + wrong))?;
    let to = lab.near.to;
    lab.near.to = to.map(|to| roce_engine::UdAddress { qkey: QKey(to.qkey.0 ^ 1), ..to });
    lab.near.post_send(0, WrOpcode::Send, lab.near.sge(NEAR, wrong))?;
    lab.near.to = to;
    lab.near.post_send(1, WrOpcode::Send, lab.near.sge(NEAR, right))?;
    let [near, far] = lab.run([2, 1])?;
    for (wr_id, wc) in (0..).zip(&near) {
        Expected::of(wr_id, WcOpcode::Send).check(Some(wc))?;
    }
    Expected { len: Some(AREA + right), ..Expected::of(100, WcOpcode::Recv) }.check(far.first())?;
    if dropped(lab) != before + 1 {
        return Err(Failure::NotDropped(DropReason::QKey));
    }
    let area = area(lab.addresses, right, false);
    let moved = [Moved { far: true, to: &[(FAR + AREA, right)], from: &[(NEAR, right)] }];
    lab.check_memory(|lab, far, offset| {
        let within = usize::try_from(offset.checked_sub(FAR)?).ok()?;
        let byte = area.get(within).copied().filter(|_| far);
        byte.or_else(|| lab.moved(&moved, far, offset))
    })?;
    lab.totals.messages += 1;
    lab.totals.bytes += u64::from(right);
    lab.disconnect()
}
