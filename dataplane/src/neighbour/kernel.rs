//! What is asked of the kernel's routing and neighbour tables, and what it says (rtnetlink(7)).

use std::ffi::c_int;
use std::io;
use std::net::IpAddr;

use roce_codec::net::MacAddr;

use crate::rtnetlink::{self, Message, Request, Socket};

/// Neighbour states in which the MAC address may be used (NUD_VALID).
const USABLE: u16 = libc::NUD_REACHABLE
    | libc::NUD_STALE
    | libc::NUD_DELAY
    | libc::NUD_PROBE
    | libc::NUD_NOARP
    | libc::NUD_PERMANENT;

/// `struct rtmsg`, `struct ndmsg`.
const FIXED: usize = 12;
/// The answer is to be the entry of the routing table itself.
const RTM_F_FIB_MATCH: u32 = 0x2000;
/// RTA_VIA: a gateway of another family.
const RTA_VIA: u16 = 18;

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// To this neighbour: the gateway, or the destination itself.
    Neighbour(IpAddr),
    /// To a group or to all, which need no neighbour.
    Group(MacAddr),
    /// To this host.
    Local,
    /// Nowhere: a blackhole and the like.
    Nowhere,
}

/// What the kernel says of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub(super) ifindex: c_int,
    pub(super) address: IpAddr,
    /// Its MAC address, if it may be used.
    pub(super) mac: Option<MacAddr>,
    /// Whether the kernel will find out for itself no more: the entry has been idle, has failed,
    /// or is gone.
    pub(super) dormant: bool,
}

fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    u8::try_from(family).unwrap_or(0)
}

fn with_address(request: Request, kind: u16, address: IpAddr) -> Request {
    match address {
        IpAddr::V4(address) => request.attribute(kind, &address.octets()),
        IpAddr::V6(address) => request.attribute(kind, &address.octets()),
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

/// The MAC address that a group's frames go to (RFC 1112, RFC 2464).
pub(super) fn group_mac(address: IpAddr) -> Option<MacAddr> {
    match address {
        IpAddr::V4(address) if address.is_broadcast() => Some(MacAddr::BROADCAST),
        IpAddr::V4(address) if address.is_multicast() => {
            let [_, b, c, d] = address.octets();
            Some(MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d]))
        }
        IpAddr::V6(address) if address.is_multicast() => {
            let [.., a, b, c, d] = address.octets();
            Some(MacAddr([0x33, 0x33, a, b, c, d]))
        }
        _ => None,
    }
}

/// Where frames for `dst` go on interface `ifindex`, from `src` if that is one of the host's own.
pub(super) fn route(
    socket: &mut Socket,
    ifindex: c_int,
    dst: IpAddr,
    src: Option<IpAddr>,
) -> io::Result<Route> {
    if let Some(mac) = group_mac(dst) {
        return Ok(Route::Group(mac));
    }
    match ask_route(socket, ifindex, dst, src) {
        // The kernel takes an address for a source only if it has it, and we may have it instead.
        Err(_) if src.is_some() => ask_route(socket, ifindex, dst, None),
        other => other,
    }
}

fn ask_route(
    socket: &mut Socket,
    ifindex: c_int,
    dst: IpAddr,
    src: Option<IpAddr>,
) -> io::Result<Route> {
    // Where no IPv4 route leads out of the interface, the kernel answers as if the destination
    // were on the wire; only when asked for the entry of the table it says that there is none.
    if dst.is_ipv4() {
        socket.request(route_request(ifindex, dst, src, RTM_F_FIB_MATCH), |_| ())?;
    }
    let mut route = None;
    socket.request(route_request(ifindex, dst, src, 0), |message| {
        route = parse_route(message, dst);
    })?;
    route.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn route_request(ifindex: c_int, dst: IpAddr, src: Option<IpAddr>, flags: u32) -> Request {
    let bits = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
    let mut fixed = [0; FIXED];
    fixed[..3].copy_from_slice(&[family(dst), bits(dst), src.map_or(0, bits)]);
    fixed[8..].copy_from_slice(&flags.to_ne_bytes());
    let request = Request::new(libc::RTM_GETROUTE, 0, &fixed)
        .attribute(libc::RTA_OIF, &ifindex.to_ne_bytes());
    let request = with_address(request, libc::RTA_DST, dst);
    match src {
        Some(src) => with_address(request, libc::RTA_SRC, src),
        None => request,
    }
}

fn parse_route(message: Message<'_>, dst: IpAddr) -> Option<Route> {
    let kind = *message.body.get(7)?;
    let attributes = message.body.get(FIXED..)?;
    match kind {
        libc::RTN_UNICAST => {
            let gateway = rtnetlink::attribute(attributes, libc::RTA_GATEWAY).and_then(ip);
            // struct rtvia: a family of two bytes, then the address.
            let via =
                rtnetlink::attribute(attributes, RTA_VIA).and_then(|via| via.get(2..)).and_then(ip);
            Some(Route::Neighbour(gateway.or(via).unwrap_or(dst)))
        }
        libc::RTN_LOCAL | libc::RTN_ANYCAST => Some(Route::Local),
        libc::RTN_BROADCAST => Some(Route::Group(MacAddr::BROADCAST)),
        _ => Some(Route::Nowhere),
    }
}

fn neighbour_fixed(ifindex: c_int, address: IpAddr, flags: u8) -> [u8; FIXED] {
    let mut fixed = [0; FIXED];
    fixed[0] = family(address);
    fixed[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    fixed[10] = flags;
    fixed
}

/// What the kernel knows of a neighbour; dormant if nothing.
pub(super) fn neighbour(
    socket: &mut Socket,
    ifindex: c_int,
    address: IpAddr,
) -> io::Result<Neighbour> {
    let fixed = neighbour_fixed(ifindex, address, 0);
    let request = with_address(Request::new(libc::RTM_GETNEIGH, 0, &fixed), libc::NDA_DST, address);
    let mut found = None;
    match socket.request(request, |message| found = parse_neighbour(message)) {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => return Err(error),
        _ => {}
    }
    Ok(found.unwrap_or(Neighbour { ifindex, address, mac: None, dormant: true }))
}

/// Makes the kernel behave as if it had a packet for the neighbour: look for it, or check that it
/// is still there. Needs CAP_NET_ADMIN.
pub(super) fn use_neighbour(
    socket: &mut Socket,
    ifindex: c_int,
    address: IpAddr,
) -> io::Result<()> {
    let fixed = neighbour_fixed(ifindex, address, libc::NTF_USE);
    let request = Request::new(libc::RTM_NEWNEIGH, libc::NLM_F_CREATE, &fixed);
    socket.request(with_address(request, libc::NDA_DST, address), |_| ())
}

/// A neighbour's new state, from RTM_NEWNEIGH or RTM_DELNEIGH.
pub(super) fn parse_neighbour(message: Message<'_>) -> Option<Neighbour> {
    let deleted = match message.kind {
        libc::RTM_NEWNEIGH => false,
        libc::RTM_DELNEIGH => true,
        _ => return None,
    };
    let ifindex = rtnetlink::field32(message.body, 4)?.cast_signed();
    let state = rtnetlink::field16(message.body, 8)?;
    let attributes = message.body.get(FIXED..)?;
    let address = ip(rtnetlink::attribute(attributes, libc::NDA_DST)?)?;
    let mac = rtnetlink::attribute(attributes, libc::NDA_LLADDR)
        .and_then(|mac| <[u8; 6]>::try_from(mac).ok())
        .map(MacAddr)
        .filter(|_| state & USABLE != 0 && !deleted);
    let asleep = libc::NUD_STALE | libc::NUD_FAILED;
    let dormant = deleted || state & asleep != 0 || state == libc::NUD_NONE;
    Some(Neighbour { ifindex, address, mac, dormant })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups() {
        let mac = |address: &str| group_mac(address.parse().expect("an address"));
        assert_eq!(mac("224.0.0.251"), Some(MacAddr([0x01, 0x00, 0x5e, 0, 0, 0xfb])));
        assert_eq!(mac("239.255.1.2"), Some(MacAddr([0x01, 0x00, 0x5e, 0x7f, 1, 2])));
        assert_eq!(mac("ff02::1:ff00:17"), Some(MacAddr([0x33, 0x33, 0xff, 0, 0, 0x17])));
        assert_eq!(mac("255.255.255.255"), Some(MacAddr::BROADCAST));
        assert_eq!(mac("10.0.0.255"), None);
        assert_eq!(mac("fe80::1"), None);
    }

    #[test]
    fn loopback_is_local() {
        let mut socket = Socket::open().expect("needs no privilege");
        let dst = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(route(&mut socket, 1, dst, None).expect("a route"), Route::Local);
        // An address the kernel has not does not get in the way.
        let src = Some(IpAddr::from([192, 0, 2, 77]));
        assert_eq!(route(&mut socket, 1, dst, src).expect("a route"), Route::Local);
    }
}
